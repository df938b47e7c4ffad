//! The counters of a run. A shard fills a [`Stats`] and hands it over at each interval; everything in it adds up,
//! so the whole of a run is the sum of its intervals over all shards.

mod histogram;

pub use histogram::{Durations, Histogram};

use std::ops::{Index, IndexMut};

use serde::{Deserialize, Deserializer, Serialize};

use crate::call::ScenarioRole;

/// Counters of calls, named as SIPp's CSV names them where it has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(usize)]
pub enum Count {
    IncomingCall,
    OutgoingCall,
    SuccessfulCall,
    FailedCall,
    FailedCannotSendMessage,
    FailedMaxUdpRetrans,
    FailedTcpConnect,
    FailedTcpClosed,
    FailedUnexpectedMessage,
    FailedCallRejected,
    FailedCmdNotSent,
    FailedRegexpDoesntMatch,
    FailedRegexpShouldntMatch,
    FailedRegexpHdrNotFound,
    FailedOutboundCongestion,
    FailedTimeoutOnRecv,
    FailedTimeoutOnSend,
    FailedTestDoesntMatch,
    FailedTestShouldntMatch,
    FailedStrcmpDoesntMatch,
    FailedStrcmpShouldntMatch,
    OutOfCallMsgs,
    DeadCallMsgs,
    Retransmissions,
    AutoAnswered,
    Warnings,
    FatalErrors,
    WatchdogMajor,
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
    MessagesSent,
    MessagesReceived,
    BytesSent,
    BytesReceived,
    /// Datagrams the kernel dropped at our sockets.
    ReceiveDrops,
    RtpSent,
    RtpReceived,
    RtpLost,
    /// RTP packets that the kernel did not take.
    RtpRefused,
    /// Time the shard's thread was on a processor, microseconds.
    CpuMicros,
    /// Turns of the loop that began more than 10 ms late.
    LateTurns,
    // From here on for users, whose sign-ins and actions are the calls.
    FailedStreamError,
    FailedSeeOtherHost,
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
    AlreadyRegistered,
    Unregistered,
    /// How often users went on to another host that the server named.
    Redirected,
    /// Users that failed too often in a row and stay absent.
    GaveUp,
    /// Messages between users: sent = received + refused + waiting + lost.
    ChatSent,
    ChatReceived,
    /// Received messages that the server had stored.
    ChatStored,
    ChatRefused,
    /// To users that did not come back at the end, without refused messages; and the messages that these users received.
    ChatToMissed,
    ChatCameToMissed,
    ChatReordered,
    ChatDuplicated,
    /// Received by a user that is no contact of the sender.
    ChatMisdelivered,
    /// Presences that must be seen, counted once per receiver, and those that were seen.
    PresenceExpected,
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
    pub retransmissions: u64,
    pub timeouts: u64,
    pub unexpected: u64,
    pub lost: u64,
    /// Calls in it right now: gauge, entered minus left.
    pub entered: u64,
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
    pub counts: Counts,
    /// By step of the main scenario.
    pub steps: Vec<StepCounts>,
    /// By step of the `-rxsf` and of the out-of-call scenario.
    pub receive_steps: Vec<StepCounts>,
    pub out_of_call_steps: Vec<StepCounts>,
    /// By index of `Scenario::rtds`.
    pub rtds: Vec<TimerDurations>,
    pub call_length: Durations,
    /// By index of `Scenario::counters`.
    pub counters: Vec<u64>,
    /// As `rtds` and `counters`, of the `-rxsf` and of the out-of-call scenario; they grow as they are used.
    pub receive: SecondaryStats,
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
    pub rtds: Vec<TimerDurations>,
    pub counters: Vec<u64>,
}

/// Sums over received streams that ended.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct MediaTotals {
    pub streams: u64,
    pub packets: u64,
    pub lost: u64,
    pub reordered: u64,
    pub duplicates: u64,
    pub one_way: u64,
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
        for (mine, theirs) in self.counts.0.iter_mut().zip(other.counts.0) {
            *mine += theirs;
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

fn grow<T: Default + Clone>(list: &mut Vec<T>, len: usize) {
    if list.len() < len {
        list.resize(len, T::default());
    }
}

fn merge_timers(mine: &mut Vec<TimerDurations>, theirs: &[TimerDurations]) {
    grow(mine, theirs.len());
    for (mine, theirs) in mine.iter_mut().zip(theirs) {
        mine.service.merge(&theirs.service);
        mine.response.merge(&theirs.response);
    }
}

fn merge_counters(mine: &mut Vec<u64>, theirs: &[u64]) {
    grow(mine, theirs.len());
    for (mine, theirs) in mine.iter_mut().zip(theirs) {
        *mine += theirs;
    }
}

fn merge_steps(mine: &mut Vec<StepCounts>, theirs: &[StepCounts]) {
    grow(mine, theirs.len());
    for (mine, theirs) in mine.iter_mut().zip(theirs) {
        mine.messages += theirs.messages;
        mine.retransmissions += theirs.retransmissions;
        mine.timeouts += theirs.timeouts;
        mine.unexpected += theirs.unexpected;
        mine.lost += theirs.lost;
        mine.entered += theirs.entered;
        mine.left += theirs.left;
    }
}
