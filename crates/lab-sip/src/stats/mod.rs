//! The counters of a run. A shard fills a [`Stats`] and hands it over at each interval; everything in it adds up,
//! so the whole of a run is the sum of its intervals over all shards.
//!
//! Counters are an array by [`Count`], so that adding them up is one loop; times are histograms, which add up too.

mod histogram;

pub use histogram::{Durations, Histogram};

use std::ops::{Index, IndexMut};

use serde::{Deserialize, Deserializer, Serialize};

use crate::call::ScenarioRole;

/// Counters of calls, named as SIPp's CSV names them where it has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(usize)]
pub enum Count {
    /// Calls that a peer started.
    IncomingCall,
    /// Calls that this instance started.
    OutgoingCall,
    /// Calls that ended in success.
    SuccessfulCall,
    /// Calls that failed, for any of the reasons below.
    FailedCall,
    /// The socket refused a message.
    FailedCannotSendMessage,
    /// The last retransmission had no answer.
    FailedMaxUdpRetrans,
    /// A connection could not be made.
    FailedTcpConnect,
    /// The peer closed the connection of the call.
    FailedTcpClosed,
    /// A message that no step expects.
    FailedUnexpectedMessage,
    /// A 3PCC command was not the expected one, or `stop_call` ended the call; for users: the server refused.
    FailedCallRejected,
    /// 3PCC: a command could not be sent.
    FailedCmdNotSent,
    /// An `<ereg>` with `check_it` had no match.
    FailedRegexpDoesntMatch,
    /// An `<ereg>` with `check_it_inverse` had a match.
    FailedRegexpShouldntMatch,
    /// The header that an `<ereg>` searches was absent.
    FailedRegexpHdrNotFound,
    /// The queue of a connection was full.
    FailedOutboundCongestion,
    /// A `<recv>` waited for its whole time-out.
    FailedTimeoutOnRecv,
    /// A message waited longer than `-send_timeout`.
    FailedTimeoutOnSend,
    /// A `<test>` with `check_it` was false.
    FailedTestDoesntMatch,
    /// A `<test>` with `check_it_inverse` was true.
    FailedTestShouldntMatch,
    /// A `<strcmp>` with `check_it` found a difference.
    FailedStrcmpDoesntMatch,
    /// A `<strcmp>` with `check_it_inverse` found none.
    FailedStrcmpShouldntMatch,
    /// Messages of no call.
    OutOfCallMsgs,
    /// Messages for calls that ended already (`-deadcall_wait`).
    DeadCallMsgs,
    /// Messages sent again by timer.
    Retransmissions,
    /// Requests answered by `-aa` or a default behaviour.
    AutoAnswered,
    /// Lines in the error log that are not fatal.
    Warnings,
    /// Errors that ended the run.
    FatalErrors,
    /// SIPp's watchdog: its column of the statistics file.
    WatchdogMajor,
    /// SIPp's watchdog: its column of the statistics file.
    WatchdogMinor,
    // Ringer's own from here.
    /// Arrivals that were due, started or not.
    Due,
    /// Arrivals that could not start: `-l` reached, no socket.
    Blocked,
    /// Media requirement (`rtpcheck`) not met.
    FailedRtpCheck,
    /// Ended by `stop_now` or the global time-out.
    FailedStopped,
    /// Messages that are not SIP; with their bytes in the error log.
    Malformed,
    /// SIP messages sent, retransmissions included.
    MessagesSent,
    /// SIP messages received.
    MessagesReceived,
    /// Bytes of the SIP messages sent.
    BytesSent,
    /// Bytes of the SIP messages received.
    BytesReceived,
    /// Datagrams the kernel dropped at our sockets.
    ReceiveDrops,
    /// RTP packets sent.
    RtpSent,
    /// RTP packets received.
    RtpReceived,
    /// RTP packets that were missing in the sequence numbers received.
    RtpLost,
    /// RTP packets that the kernel did not take.
    RtpRefused,
    /// Time the shard's thread was on a processor, microseconds.
    CpuMicros,
    /// Turns of the loop that began more than 10 ms late.
    LateTurns,
    // From here on for users, whose sign-ins and actions are the calls.
    /// A stream error (RFC 6120 §4.9), or the stream ended.
    FailedStreamError,
    /// `see-other-host` (RFC 6120 §4.9.3.19) that led nowhere.
    FailedSeeOtherHost,
    /// `not-authorized` (RFC 6120 §6.5.10): name or password are wrong.
    FailedNotAuthorized,
    /// The server has not the mechanism, or no TLS.
    FailedNotOffered,
    /// One of Ringer's own worker processes ended, and its users with it.
    FailedWorker,
    /// Too much, too fast, the server says: policy-violation, resource-constraint, or to wait.
    FailedThrottled,
    /// TLS came to nothing, most of all because a certificate is not trusted.
    FailedTls,
    /// Accounts made in band, those that were there already, and those removed.
    Registered,
    /// Accounts that were there already (XEP-0077).
    AlreadyRegistered,
    /// Accounts removed in band (XEP-0077 §3.2).
    Unregistered,
    /// How often users went on to another host that the server named.
    Redirected,
    /// Users that failed too often in a row and stay absent.
    GaveUp,
    /// Messages between users: sent = received + refused + waiting + lost.
    ChatSent,
    /// Messages that a user received.
    ChatReceived,
    /// Received messages that the server had stored.
    ChatStored,
    /// Messages that came back as an error.
    ChatRefused,
    /// To users that did not come back at the end, without refused messages; and the messages that these users received.
    ChatToMissed,
    /// Messages that the users of [`Count::ChatToMissed`] received.
    ChatCameToMissed,
    /// Messages that came before one that was sent earlier.
    ChatReordered,
    /// Messages that came more than once.
    ChatDuplicated,
    /// Received by a user that is no contact of the sender.
    ChatMisdelivered,
    /// Presences that must be seen, counted once per receiver, and those that were seen.
    PresenceExpected,
    /// Presences that were seen.
    PresenceSeen,
}

impl Count {
    /// The number of counters.
    pub const N: usize = Count::PresenceSeen as usize + 1;

    /// Why calls fail: each failed call is counted under one of these.
    pub const FAILURES: &'static [Count] = &[
        Count::FailedCannotSendMessage,
        Count::FailedMaxUdpRetrans,
        Count::FailedTcpConnect,
        Count::FailedTcpClosed,
        Count::FailedUnexpectedMessage,
        Count::FailedCallRejected,
        Count::FailedCmdNotSent,
        Count::FailedRegexpDoesntMatch,
        Count::FailedRegexpShouldntMatch,
        Count::FailedRegexpHdrNotFound,
        Count::FailedOutboundCongestion,
        Count::FailedTimeoutOnRecv,
        Count::FailedTimeoutOnSend,
        Count::FailedTestDoesntMatch,
        Count::FailedTestShouldntMatch,
        Count::FailedStrcmpDoesntMatch,
        Count::FailedStrcmpShouldntMatch,
        Count::FailedRtpCheck,
        Count::FailedStopped,
        Count::FailedStreamError,
        Count::FailedSeeOtherHost,
        Count::FailedNotAuthorized,
        Count::FailedNotOffered,
        Count::FailedWorker,
        Count::FailedThrottled,
        Count::FailedTls,
    ];
}

/// The value of each [`Count`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Counts(#[serde(serialize_with = "<[u64]>::serialize")] [u64; Count::N]);

impl<'de> Deserialize<'de> for Counts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let counts = Vec::<u64>::deserialize(deserializer)?;
        let length = counts.len();
        let counts = counts
            .try_into()
            .map_err(|_| serde::de::Error::invalid_length(length, &"as many counters as this program has"))?;
        Ok(Counts(counts))
    }
}

impl Default for Counts {
    fn default() -> Self {
        Counts([0; Count::N])
    }
}

impl Index<Count> for Counts {
    type Output = u64;

    fn index(&self, count: Count) -> &u64 {
        &self.0[count as usize]
    }
}

impl IndexMut<Count> for Counts {
    fn index_mut(&mut self, count: Count) -> &mut u64 {
        &mut self.0[count as usize]
    }
}

/// Per step of a scenario, for the scenario screen and `-trace_counts`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepCounts {
    /// Sent, received, or (pause) entered.
    pub messages: u64,
    /// Messages that were sent again, or came again.
    pub retransmissions: u64,
    /// `<recv>` steps that ended by their time-out.
    pub timeouts: u64,
    /// Messages that this step did not expect.
    pub unexpected: u64,
    /// Messages dropped on purpose (`lost`).
    pub lost: u64,
    /// Calls in it right now: gauge, entered minus left.
    pub entered: u64,
    /// Calls that went on from this step.
    pub left: u64,
}

/// One response-time counter, or the length of calls.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct TimerDurations {
    /// From the start of the counter as the scenario has it: SIPp's figure, and percentiles.
    pub service: Durations,
    /// For counters started by a call's first step: from the moment the call was due.
    pub response: Durations,
}

/// The counters of one shard, or of all, in one interval, or from the start.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Stats {
    /// The counters, by [`Count`].
    pub counts: Counts,
    /// By step of the main scenario.
    pub steps: Vec<StepCounts>,
    /// By step of the `-rxsf` and of the out-of-call scenario.
    pub receive_steps: Vec<StepCounts>,
    /// By step of the out-of-call scenario.
    pub out_of_call_steps: Vec<StepCounts>,
    /// By index of `Scenario::rtds`.
    pub rtds: Vec<TimerDurations>,
    /// The lengths of calls.
    pub call_length: Durations,
    /// By index of `Scenario::counters`.
    pub counters: Vec<u64>,
    /// As `rtds` and `counters`, of the `-rxsf` and of the out-of-call scenario; they grow as they are used.
    pub receive: SecondaryStats,
    /// As `receive`, of the out-of-call scenario.
    pub out_of_call: SecondaryStats,
    /// Response codes that ended calls or were not expected (`-trace_error_codes`).
    pub error_codes: std::collections::BTreeMap<u16, u64>,
    /// How late calls started after they were due.
    pub start_delay: Durations,
    /// How late media packets left after they were due.
    pub media_delay: Durations,
    /// Received media, one entry a stream when it ends.
    pub media: MediaTotals,
}

/// Response times and counters of a scenario beside the main one, by their index in that scenario.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct SecondaryStats {
    /// By index of the scenario's `rtds`.
    pub rtds: Vec<TimerDurations>,
    /// By index of the scenario's `counters`.
    pub counters: Vec<u64>,
}

/// Sums over received streams that ended.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct MediaTotals {
    /// Streams that ended.
    pub streams: u64,
    /// Packets received.
    pub packets: u64,
    /// Packets missing in the sequence numbers.
    pub lost: u64,
    /// Packets behind a later one.
    pub reordered: u64,
    /// Packets received more than once.
    pub duplicates: u64,
    /// Media of a call that was only sent or only received.
    pub one_way: u64,
    /// DTMF digits received.
    pub digits: u64,
    /// Interarrival jitter, per stream, microseconds.
    pub jitter: Histogram,
    /// MOS × 1000 per stream.
    pub mos: Histogram,
}

impl Stats {
    /// Empty, with a slot for every step, counter and timer.
    pub fn sized(
        steps: usize,
        receive_steps: usize,
        out_of_call_steps: usize,
        rtds: usize,
        counters: usize,
    ) -> Self {
        Stats {
            steps: vec![StepCounts::default(); steps],
            receive_steps: vec![StepCounts::default(); receive_steps],
            out_of_call_steps: vec![StepCounts::default(); out_of_call_steps],
            rtds: vec![TimerDurations::default(); rtds],
            counters: vec![0; counters],
            ..Stats::default()
        }
    }

    /// Adds one to a counter.
    pub fn count(&mut self, what: Count) {
        self.counts[what] += 1;
    }

    /// Adds `n` to a counter.
    pub fn add(&mut self, what: Count, n: u64) {
        self.counts[what] += n;
    }

    /// Response times of a scenario.
    pub fn rtds_of(&mut self, which: ScenarioRole) -> &mut Vec<TimerDurations> {
        match which {
            ScenarioRole::Main => &mut self.rtds,
            ScenarioRole::Receive => &mut self.receive.rtds,
            ScenarioRole::OutOfCall => &mut self.out_of_call.rtds,
        }
    }

    /// Counters of a scenario.
    pub fn counters_of(&mut self, which: ScenarioRole) -> &mut Vec<u64> {
        match which {
            ScenarioRole::Main => &mut self.counters,
            ScenarioRole::Receive => &mut self.receive.counters,
            ScenarioRole::OutOfCall => &mut self.out_of_call.counters,
        }
    }

    /// Messages between users that neither arrived nor were refused, nor wait for an absent user; while a run
    /// goes on, those under way are among them.
    pub fn lost(&self) -> u64 {
        let accounted = self.counts[Count::ChatReceived] + self.counts[Count::ChatRefused] + self.waiting();
        self.counts[Count::ChatSent].saturating_sub(accounted)
    }

    /// Messages that the server still keeps at the end, for users that did not come back. 0 before.
    pub fn waiting(&self) -> u64 {
        self.counts[Count::ChatToMissed].saturating_sub(self.counts[Count::ChatCameToMissed])
    }

    /// Presences that a signed-in contact did not see.
    pub fn unseen(&self) -> u64 {
        self.counts[Count::PresenceExpected].saturating_sub(self.counts[Count::PresenceSeen])
    }

    /// Adds what another shard or a later interval counted.
    pub fn merge(&mut self, other: &Stats) {
        for (own, other) in self.counts.0.iter_mut().zip(other.counts.0) {
            *own += other;
        }
        merge_steps(&mut self.steps, &other.steps);
        merge_steps(&mut self.receive_steps, &other.receive_steps);
        merge_steps(&mut self.out_of_call_steps, &other.out_of_call_steps);
        merge_timers(&mut self.rtds, &other.rtds);
        merge_counters(&mut self.counters, &other.counters);
        merge_timers(&mut self.receive.rtds, &other.receive.rtds);
        merge_counters(&mut self.receive.counters, &other.receive.counters);
        merge_timers(&mut self.out_of_call.rtds, &other.out_of_call.rtds);
        merge_counters(&mut self.out_of_call.counters, &other.out_of_call.counters);
        self.call_length.merge(&other.call_length);
        for (code, n) in &other.error_codes {
            *self.error_codes.entry(*code).or_default() += n;
        }
        self.start_delay.merge(&other.start_delay);
        self.media_delay.merge(&other.media_delay);
        self.media.merge(&other.media);
    }
}

impl MediaTotals {
    fn merge(&mut self, other: &MediaTotals) {
        self.streams += other.streams;
        self.packets += other.packets;
        self.lost += other.lost;
        self.reordered += other.reordered;
        self.duplicates += other.duplicates;
        self.one_way += other.one_way;
        self.digits += other.digits;
        self.jitter.merge(&other.jitter);
        self.mos.merge(&other.mos);
    }
}

/// Lists of another shard may be longer, as secondary scenarios grow theirs with use.
fn grow<T: Default + Clone>(list: &mut Vec<T>, len: usize) {
    if list.len() < len {
        list.resize(len, T::default());
    }
}

fn merge_timers(own: &mut Vec<TimerDurations>, other: &[TimerDurations]) {
    grow(own, other.len());
    for (own, other) in own.iter_mut().zip(other) {
        own.service.merge(&other.service);
        own.response.merge(&other.response);
    }
}

fn merge_counters(own: &mut Vec<u64>, other: &[u64]) {
    grow(own, other.len());
    for (own, other) in own.iter_mut().zip(other) {
        *own += other;
    }
}

fn merge_steps(own: &mut Vec<StepCounts>, other: &[StepCounts]) {
    grow(own, other.len());
    for (own, other) in own.iter_mut().zip(other) {
        own.messages += other.messages;
        own.retransmissions += other.retransmissions;
        own.timeouts += other.timeouts;
        own.unexpected += other.unexpected;
        own.lost += other.lost;
        own.entered += other.entered;
        own.left += other.left;
    }
}
