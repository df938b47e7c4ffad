//! A run: shards on their threads, sockets, arrivals, and the collector that adds up what they counted.

use std::sync::Arc;
use std::time::Duration;

use stdx::time::Instant;

use crate::inject::Files;
use crate::options::Options;
use crate::scenario::Scenario;
use crate::stats::Stats;

/// Everything compiled and checked; nothing bound yet.
#[derive(Debug, Clone)]
pub struct Setup {
    pub options: Arc<Options>,
    pub scenario: Arc<Scenario>,
    pub receive: Option<Arc<Scenario>>,
    pub out_of_call: Option<Arc<Scenario>>,
    pub files: Arc<Files>,
    pub receive_files: Option<Arc<Files>>,
    /// Where shards trace to; the default one traces nothing.
    pub tracer: crate::trace::Tracer,
}

/// What an operator, the control port, a plan or a search may change while calls run.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Calls per `-rp`.
    Rate(f64),
    RateScale(f64),
    Limit(u64),
    Users(u32),
    Pause(bool),
    /// No new calls; the run ends when the open ones are done.
    SoftQuit,
    /// Ends the open calls too.
    HardQuit,
    ResetStats,
}

/// Where the run is now.
#[derive(Debug, Clone, Default)]
pub struct Gauges {
    pub open_calls: u64,
    pub peak_open_calls: u64,
    /// When the peak was.
    pub peak_at: Instant,
    /// Calls per second asked for now.
    pub target_rate: f64,
    pub limit: u64,
    pub users: u32,
    pub paused: bool,
    pub quitting: bool,
    pub open_sockets: u64,
    pub threads: usize,
    /// Call number of the last call started.
    pub last_call_number: u64,
    /// Local port the run listens on.
    pub local: Option<std::net::SocketAddr>,
}

/// One interval of a run, and all of it so far.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    pub started: Instant,
    pub now: Instant,
    /// Length of the interval.
    pub span: Duration,
    pub interval: Stats,
    pub total: Stats,
    pub gauges: Gauges,
    /// The last error of each kind, newest last; bounded.
    pub errors: Vec<String>,
}

/// How a run ended.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub progress: Progress,
    pub end: End,
    /// Reasons the figures of this run are Ringer's own limit and not the server's; empty when it kept up.
    pub limited_by_ringer: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// `-m` reached, soft quit, or rate at its maximum, and every call ended.
    Normal,
    /// `stop_now`, hard quit.
    Internal,
    /// `-timeout`.
    Timeout,
    Fatal,
}

/// Why a run could not start: which limit, port or file, and what to do.
#[derive(Debug)]
pub struct StartError {
    pub message: String,
    /// SIPp's exit code: 255 fatal, 254 bind.
    pub exit: i32,
}

/// A running load.
#[derive(Debug)]
pub struct Run {}

impl Run {
    /// Binds everything before the first call is placed.
    pub fn start(_setup: Setup) -> Result<Run, StartError> {
        Err(StartError { message: "not built".to_owned(), exit: 255 })
    }

    pub fn change(&self, _change: Change) {}

    /// Blocks up to `at_most` and gives the next interval (every second), or the end.
    pub fn next(&mut self, _at_most: Duration) -> Event {
        Event::Nothing
    }
}

#[derive(Debug)]
pub enum Event {
    Nothing,
    Progress(Box<Progress>),
    Ended(Box<Outcome>),
}
