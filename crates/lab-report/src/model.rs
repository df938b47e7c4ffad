//! The data of a report. The JSON file is exactly this; the HTML page and JUnit are made from it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One run, whole.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Report {
    /// Program and version.
    pub tool: String,
    /// The name of the run, the page's heading.
    pub title: String,
    /// The arguments of the run; for a load of users `ringer xmpp` stands before them.
    pub command_line: Vec<String>,
    /// The machine that Ringer ran on: processors and kernel; empty in reports of older versions.
    #[serde(default)]
    pub machine: String,
    /// The main scenario.
    pub scenario: ScenarioText,
    /// The cause of the run's calls.
    #[serde(default)]
    pub arrivals: ArrivalMode,
    /// RFC 3339, UTC.
    pub started: String,
    /// Seconds from the start of the run to its end.
    pub seconds: f64,
    /// The number of shards, each a thread.
    pub threads: usize,
    /// `normal`, `internal`, `timeout`, `failures`, `fatal`.
    pub end: String,
    /// Why the figures are Ringer's own limit and not the server's; empty when it kept up.
    pub limited_by_ringer: Vec<String>,
    /// Counters and rates of the whole run.
    pub totals: ReportTotals,
    /// The scenario's response-time counters that have values, from the sending.
    pub response_times: Vec<TimeSummary>,
    /// From the moment a call was due, for counters that a call's first message starts.
    pub response_from_due: Vec<TimeSummary>,
    /// From the start of a call to its end.
    pub call_length: TimeSummary,
    /// From the due time of a call, or of a user's action, to its start.
    pub start_delay: TimeSummary,
    /// From the due time of a media packet to its sending.
    pub pacing: TimeSummary,
    /// Calls by why they failed, largest first; names are those of SIPp's CSV.
    pub failures: Vec<NamedTimes>,
    /// Final answers that were not expected, by code.
    pub error_codes: Vec<NamedTimes>,
    /// Media of the run; `None` when no RTP was sent or received.
    pub media: Option<MediaReport>,
    /// Messages and presences of a load of users.
    #[serde(default)]
    pub chat: Option<XmppReport>,
    /// Resources of the watched processes before the first sign-in, when all users were signed in, and at the end.
    #[serde(default)]
    pub stages: Vec<StageReading>,
    /// The intervals of the run in order, at most 1,200: neighbours of a longer run are joined.
    pub samples: Vec<ReportSample>,
    /// The processes under `--watch`, in a stable order.
    pub watched: Vec<WatchedProcess>,
    /// Growth of the memory of each watched process, over the load.
    #[serde(default)]
    pub growth: Vec<MemoryGrowth>,
    /// Published figures beside those of the run, stages, growth: the same as above, for people.
    #[serde(default)]
    pub tables: Vec<ReportTable>,
    /// The thresholds of the run with their results, in the order given.
    pub thresholds: Vec<ThresholdResult>,
    /// Messages of the scenario, as the scenario screen shows them.
    pub steps: Vec<StepReport>,
    /// The last error of each kind, newest last; bounded.
    pub errors: Vec<String>,
    /// The reason in words why nothing came from the target, and what to check. `None`: something came, or no call failed.
    #[serde(default)]
    pub silence: Option<String>,
}

/// The cause of the calls of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArrivalMode {
    /// A rate; also of a load of users of XMPP, and in reports of older versions.
    #[default]
    Rate,
    /// So many users, each of whom calls when its last call has ended (`-users`): the rate is an outcome.
    Users(u64),
    /// The other end, which calls this one.
    Incoming,
}

/// The scenario of a run, as text.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ScenarioText {
    /// The name that the scenario gives itself.
    pub name: String,
    /// The path of its file, or `built in: NAME`.
    pub source: String,
    /// The XML of the scenario, as read.
    pub text: String,
}

/// Counters and rates of the whole run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ReportTotals {
    /// Arrivals that were due, that could not start, and calls started.
    pub due: u64,
    /// Arrivals that could not start: the limit of open calls was reached, or no socket was free.
    pub blocked: u64,
    /// Outgoing calls started, or actions of users.
    pub started: u64,
    /// Calls that the server under test started.
    pub incoming: u64,
    /// Calls that ended as the scenario has it.
    pub successful: u64,
    /// Calls that ended otherwise.
    pub failed: u64,
    /// Successful calls per second of the time in which calls were placed.
    pub rate: f64,
    /// The most calls that were open at once.
    pub peak_open: u64,
    /// Messages sent, retransmissions included.
    pub messages_sent: u64,
    /// Messages received, retransmissions included.
    pub messages_received: u64,
    /// Messages sent again by a timer (RFC 3261 §17).
    pub retransmissions: u64,
    /// Received messages that could not be parsed.
    pub malformed: u64,
    /// Received messages that belong to no call.
    pub out_of_call: u64,
    /// Datagrams that the kernel dropped at Ringer's sockets.
    pub receive_drops: u64,
    /// Seconds of processor time Ringer itself used.
    pub ringer_cpu: f64,
}

/// Milliseconds.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct TimeSummary {
    /// The name of the counter in the scenario.
    pub name: String,
    /// The number of values.
    pub n: u64,
    /// The arithmetic mean.
    pub mean: f64,
    /// The standard deviation.
    pub deviation: f64,
    /// The smallest value; 0 in reports of older versions.
    #[serde(default)]
    pub min: f64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
    /// The largest value.
    pub max: f64,
}

/// Times under a name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedTimes {
    /// The cause of a failure, or the code of a response.
    pub name: String,
    /// The number of occurrences.
    pub count: u64,
}

/// Sums over the received media streams.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct MediaReport {
    /// Received streams that ended.
    pub streams: u64,
    /// RTP packets sent.
    pub packets_sent: u64,
    /// RTP packets received.
    pub packets_received: u64,
    /// Packets missing in the sequence numbers.
    pub lost: u64,
    /// Packets behind one with a later sequence number.
    pub reordered: u64,
    /// Packets received more than once.
    pub duplicates: u64,
    /// Media of calls that was only sent or only received.
    pub one_way: u64,
    /// DTMF digits received.
    pub digits: u64,
    /// Milliseconds, by stream.
    pub jitter_p50: f64,
    /// The 99th percentile, milliseconds.
    pub jitter_p99: f64,
    /// By stream: the middle and the worst of a hundred.
    pub mos_p50: f64,
    /// The 1st percentile, on the scale from 1 to 5.
    pub mos_p1: f64,
}

/// Messages: sent = received + refused + waiting + lost. Presences: expected = seen + unseen.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct XmppReport {
    /// Messages to contacts.
    pub sent: u64,
    /// Messages that came to their contact, each counted once.
    pub received: u64,
    /// The number of received messages that the server had stored.
    pub stored: u64,
    /// Messages that came back as an error.
    pub refused: u64,
    /// For users that did not come back at the end: stored by the server.
    #[serde(default)]
    pub waiting: u64,
    /// Messages without a trace when the run ended.
    pub lost: u64,
    /// Copies of messages received before.
    pub duplicated: u64,
    /// Messages received behind a later one of the same sender.
    pub reordered: u64,
    /// Messages received by a user that is no contact of the sender.
    pub misdelivered: u64,
    /// Presences that a contact had to see, one for each contact that was signed in.
    pub expected: u64,
    /// Expected presences that came.
    pub seen: u64,
    /// Expected presences that did not come.
    pub unseen: u64,
    /// The share of presences to contacts that is accounted for: less than 1.0 when there are so many that they are sampled.
    #[serde(default)]
    pub presence_share: f64,
    /// Redirects to other hosts, and users that gave up after too many failures.
    #[serde(default)]
    pub redirected: u64,
    /// Users that signed in no more after too many failures in a row.
    #[serde(default)]
    pub gave_up: u64,
    /// Accounts made by the run, there before it, and removed by it.
    #[serde(default)]
    pub registered: u64,
    /// Accounts that were there before the run.
    #[serde(default)]
    pub already_registered: u64,
    /// Accounts that the run removed.
    #[serde(default)]
    pub unregistered: u64,
    /// The authentication of the server, if any.
    #[serde(default)]
    pub certificate: String,
}

/// One of the published tests' readings.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct StageReading {
    /// `initial`, `login`, `final`.
    pub name: String,
    /// Seconds from the start of the run; 0 for `initial`.
    pub at: f64,
    /// Users signed in at that time.
    pub users: u64,
    /// The watched processes, in the order of [`Report::watched`].
    pub processes: Vec<StageProcess>,
}

/// The resources of one process at a stage.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct StageProcess {
    /// The process's name under `--watch`.
    pub name: String,
    /// Bytes resident.
    pub memory: u64,
    /// Share of one core since the reading before.
    pub cpu: f64,
    /// At the end: bytes that came since the first reading, by the users that there were at most.
    #[serde(default)]
    pub a_user: Option<f64>,
}

/// One interval. Rates are per second, times milliseconds, CPU a share of one core.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ReportSample {
    /// Seconds from the start to the end of the interval.
    pub at: f64,
    /// Length of the interval in seconds.
    pub span: f64,
    /// Arrivals that were due.
    pub due: f64,
    /// Calls started, outgoing and incoming.
    pub started: f64,
    /// Calls that ended as the scenario has it.
    pub completed: f64,
    /// Calls that failed.
    pub failed: f64,
    /// Arrivals that could not start.
    pub blocked: f64,
    /// Calls open at the end of the interval, no rate.
    pub open: u64,
    /// Messages sent again.
    pub retransmissions: f64,
    /// Percentile of the first response-time counter, 50th.
    pub p50: Option<f64>,
    /// The 90th percentile of the same counter.
    pub p90: Option<f64>,
    /// The 99th percentile of the same counter.
    pub p99: Option<f64>,
    /// The largest value of the same counter.
    pub max: Option<f64>,
    /// The same from the due time, 99th percentile.
    pub due_p99: Option<f64>,
    /// Processor time of Ringer itself.
    pub ringer_cpu: f64,
    /// Delay of calls' starts, 99th percentile.
    pub late_p99: Option<f64>,
}

/// A process under `--watch`, sampled with [`Report::samples`].
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct WatchedProcess {
    /// The process's name under `--watch`.
    pub name: String,
    /// Share of one core, by sample.
    pub cpu: Vec<f64>,
    /// Bytes resident, by sample.
    pub memory: Vec<u64>,
    /// Seconds of processor time over the run.
    pub cpu_seconds: f64,
    /// The most bytes resident in any interval.
    pub peak_memory: u64,
}

/// A table of text cells.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportTable {
    /// The heading above the table.
    pub title: String,
    /// The heading of each column.
    pub head: Vec<String>,
    /// As published; or label, published, measured.
    pub rows: Vec<Vec<String>>,
    /// The figures of this run.
    pub measured: Vec<Vec<String>>,
}

/// Least squares through the memory of a watched process, without the first tenth of the load. Bytes and seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryGrowth {
    /// The process's name under `--watch`.
    pub name: String,
    /// The beginning of the line, from the start of the run, and its length.
    pub from: f64,
    /// The length of the line in seconds.
    pub seconds: f64,
    /// The value at the beginning of the line.
    pub memory: f64,
    /// The slope of the line, bytes an hour.
    pub per_hour: f64,
    /// The 95 % interval of `per_hour`.
    pub low: f64,
    /// The upper end of that interval.
    pub high: f64,
    /// No conclusion can be drawn.
    pub is_too_short: bool,
}

/// A threshold, and what was measured of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThresholdResult {
    /// The threshold as written, `failed == 0`.
    pub text: String,
    /// With its unit; `None` when nothing was measured.
    pub measured: Option<String>,
    /// False as well where it was not judged.
    pub kept: bool,
    /// True if the run allowed a conclusion: a load that is too short says nothing of growth.
    #[serde(default = "was_judged")]
    pub judged: bool,
}

/// Reports written before there was `judged` have conclusions only.
fn was_judged() -> bool {
    true
}

impl ThresholdResult {
    /// Against the server under test.
    pub fn is_missed(&self) -> bool {
        self.judged && !self.kept
    }
}

/// `kept: failed == 0 (measured 0)`
impl fmt::Display for ThresholdResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let measured = self.measured.as_deref().unwrap_or("nothing");
        match (self.judged, self.kept) {
            (false, _) => write!(f, "not judged: {} ({measured})", self.text),
            (true, true) => write!(f, "kept: {} (measured {measured})", self.text),
            (true, false) => write!(f, "MISSED: {} (measured {measured})", self.text),
        }
    }
}

/// The counters of one step of the scenario.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepReport {
    /// The step's kind and its method or code with the direction, `INVITE →`.
    pub name: String,
    /// Messages sent or received; pauses entered.
    pub messages: u64,
    /// Messages that were sent again, or came again.
    pub retransmissions: u64,
    /// `<recv>` steps that ended by their time-out.
    pub timeouts: u64,
    /// Messages that the step did not expect.
    pub unexpected: u64,
}

impl Report {
    /// No threshold missed, no call failed where none is named, and Ringer was not the limit.
    pub fn passed(&self) -> bool {
        let missed = self.thresholds.iter().any(ThresholdResult::is_missed);
        let calls = !self.thresholds.is_empty() || self.totals.failed == 0;
        !missed && calls && self.limited_by_ringer.is_empty()
    }

    /// Thresholds of which the run allowed no conclusion.
    pub fn not_judged(&self) -> usize {
        self.thresholds.iter().filter(|threshold| !threshold.judged).count()
    }

    /// The load consists of users, whose sign-ins and actions are counted as calls are.
    pub fn is_of_users(&self) -> bool {
        self.chat.is_some()
    }

    /// Joins neighbouring samples so that a run of days stays a page: sums of counts as rates, the worst of the times.
    // Halved until it is short enough, so that all samples stay equally long.
    pub fn thin(&mut self, at_most: usize) {
        while self.samples.len() > at_most.max(1) {
            self.samples = self.samples.chunks(2).map(join).collect();
            for watched in &mut self.watched {
                #[expect(clippy::cast_precision_loss, reason = "one or two")]
                let mean = |pair: &[f64]| pair.iter().sum::<f64>() / pair.len() as f64;
                watched.cpu = watched.cpu.chunks(2).map(mean).collect();
                watched.memory =
                    watched.memory.chunks(2).filter_map(|pair| pair.iter().copied().max()).collect();
            }
        }
    }
}

/// Rates are weighted by the length of the intervals; of gauges and times the larger one stays, so that a peak is not lost.
fn join(pair: &[ReportSample]) -> ReportSample {
    let [first, second] = pair else { return pair.first().cloned().unwrap_or_default() };
    let span = first.span + second.span;
    let rate = |get: fn(&ReportSample) -> f64| {
        if span > 0.0 { (get(first) * first.span + get(second) * second.span) / span } else { 0.0 }
    };
    let worst = |get: fn(&ReportSample) -> Option<f64>| match (get(first), get(second)) {
        (Some(a), Some(b)) => Some(a.max(b)),
        (a, b) => a.or(b),
    };
    ReportSample {
        at: second.at,
        span,
        due: rate(|sample| sample.due),
        started: rate(|sample| sample.started),
        completed: rate(|sample| sample.completed),
        failed: rate(|sample| sample.failed),
        blocked: rate(|sample| sample.blocked),
        open: first.open.max(second.open),
        retransmissions: rate(|sample| sample.retransmissions),
        p50: worst(|sample| sample.p50),
        p90: worst(|sample| sample.p90),
        p99: worst(|sample| sample.p99),
        max: worst(|sample| sample.max),
        due_p99: worst(|sample| sample.due_p99),
        ringer_cpu: rate(|sample| sample.ringer_cpu),
        late_p99: worst(|sample| sample.late_p99),
    }
}
