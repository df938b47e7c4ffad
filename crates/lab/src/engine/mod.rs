//! A run: shards on their threads, sockets, arrivals, and the collector that adds up what they counted.
//!
//! Calls are placed by an integer schedule, from index to due time, exact for days. Received messages have the kernel's time.
//! `ringer sip`, `find` and `run` build the same [`Setup`]: a plan is several, a search one after another.
//!
//! The main steps: [`Run::start`] binds sockets and starts the shards (`start`); each [`shard`] waits, reads and starts calls that are due
//! (`schedule`), and gives messages to its `call_dispatcher`, whose calls (`lab_sip`) answer with effects; every second it sends its counts
//! (`report`) to the `collector`, and [`Run::next`] returns their sum. `shard_hub` holds the few numbers that all shards share.
//! A load of users (`xmpp_load`) has threads of its own and the same collector and run.

mod bind;
mod call_dispatcher;
mod calls;
pub mod clock;
mod collector;
mod control;
mod handshakes;
mod kernel;
mod limits;
mod message_framer;
mod name_cache;
mod report;
mod schedule;
mod shard;
mod shard_hub;
mod shard_sockets;
mod shell;
mod start;
mod stream;
mod stream_transport;
#[cfg(test)]
mod tests;
mod tls;
mod token;
mod twin;
mod udp;
mod user_variables;
mod xmpp_load;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use lab_sip::inject::InjectionFiles;
use lab_sip::options::Options;
use lab_sip::scenario::Scenario;
use lab_sip::stats::{Count, Stats};
use lab_xmpp::{LoadStage, LoadState};
use parking_lot::Mutex;
use stdx::time::Instant;

use clock::Clock;
use collector::Collector;
use control::RunControl;
pub(crate) use limits::FIRST_CONNECTION;
use shard_hub::{RunPhase, ShardHub};
pub use xmpp_load::start::check_reachable;
use xmpp_load::worker_pool::WorkerPool;
pub use xmpp_load::worker_process::WorkerProcess;

/// Everything compiled and checked; nothing bound yet.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The options of `ringer sip`; a load of users sets the run's own, such as threads and command line.
    pub options: Arc<Options>,
    /// The main scenario (`-sf`, `-sn`).
    pub scenario: Arc<Scenario>,
    /// The scenario of incoming calls, beside a main one that places calls.
    pub receive: Option<Arc<Scenario>>,
    /// The scenario of messages that belong to no call.
    pub out_of_call: Option<Arc<Scenario>>,
    /// Injection files of the main scenario.
    pub files: Arc<InjectionFiles>,
    /// Injection files of the scenario `receive`, when it has its own.
    pub receive_files: Option<Arc<InjectionFiles>>,
    /// The tracer of all shards; the default one traces nothing.
    pub tracer: lab_sip::trace::Tracer,
    /// Users of chat in place of calls; the scenario then has but a name and the names of what is timed.
    pub chat: Option<Arc<lab_xmpp::XmppLoad>>,
}

/// A change that an operator, the control port, a plan or a search may make while calls run.
#[derive(Debug, Clone, PartialEq)]
pub enum RunChange {
    /// Calls per `-rp`.
    Rate(f64),
    /// So many calls per `-rp` more, or fewer, down to none; with `-users` so many users.
    Step(f64),
    /// The most calls open at once (`-l`).
    Limit(u64),
    /// The number of users that call in a loop (`-users`).
    Users(u32),
    /// No new calls while `true`; open calls go on.
    Pause(bool),
    /// No new calls; the run ends when the open ones are done.
    SoftQuit,
    /// Ends the open calls too.
    HardQuit,
    /// SIGTERM or SIGINT: the run ends where it stands. Peers are told, and the open calls are neither successes nor
    /// failures, as with SIPp. A load of users ends softly first, as with `SoftQuit`, and at once the second time.
    Terminate,
    /// Counters and timers start again from zero.
    ResetStats,
}

/// The present state of the run.
#[derive(Debug, Clone, Default)]
pub struct Gauges {
    /// Calls open now; for a load of users, those signed in.
    pub open_calls: u64,
    /// The most calls that were open at once.
    pub peak_open_calls: u64,
    /// When the peak was.
    pub peak_at: Instant,
    /// Calls per second asked for now.
    pub target_rate: f64,
    /// The most calls that may be open at once (`-l`).
    pub limit: u64,
    /// The number of users that call in a loop (`-users`); 0 without them.
    pub users: u32,
    /// An operator has paused the run: no new calls.
    pub paused: bool,
    /// The run ends; no new calls are placed.
    pub quitting: bool,
    /// Open sockets of all shards.
    pub open_sockets: u64,
    /// The number of shards, those of worker processes included; each is a thread.
    pub threads: usize,
    /// Call number of the last call started.
    pub last_call_number: u64,
    /// Local port the run listens on.
    pub local: Option<std::net::SocketAddr>,
    /// The stage of a load of users; empty for calls.
    pub stage: &'static str,
    /// In the stage of friend requests: the number of contacts made, and the number to make.
    pub friends: Option<(u64, u64)>,
}

impl Gauges {
    /// The stage of a load of users, and how far it is where that can be told.
    pub fn stage_told(&self) -> String {
        match self.friends {
            Some((made, all)) => format!("{}, {made} of {all}", self.stage),
            None => self.stage.to_owned(),
        }
    }
}

/// One interval of a run, and all of it so far.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// The start of the run.
    pub started: Instant,
    /// The start of what `total` and `placing` count: the start of the run, or the last reset.
    pub counted_from: Instant,
    /// The end of the interval.
    pub now: Instant,
    /// Length of the interval.
    pub span: Duration,
    /// How long calls were placed, or arrived, from the first to the last of them: what follows until the last one ends is no load.
    pub placing: Duration,
    /// Counters and timers of the interval, over all shards.
    pub interval: Stats,
    /// Counters and timers since the start of the run or the last reset.
    pub total: Stats,
    /// The state of the run at the end of the interval.
    pub gauges: Gauges,
    /// The last error of each kind, newest last; bounded.
    pub errors: Vec<String>,
}

/// The end of a run and all that it counted.
#[derive(Debug, Clone)]
pub struct RunOutcome {
    /// The last interval, with the totals of the run.
    pub progress: Progress,
    /// The reason of the run's end.
    pub end: RunEnd,
    /// Reasons the figures of this run are Ringer's own limit and not the server's; empty when it kept up.
    pub limited_by_ringer: Vec<String>,
}

/// The reason of a run's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    /// `-m` reached, soft quit, or rate at its maximum, and every call ended.
    Normal,
    /// `stop_now`, hard quit.
    Internal,
    /// `-timeout`: no call was started after it.
    Timeout,
    /// SIGTERM or SIGINT: the calls that were open are not counted.
    Terminated,
    /// `--max-failures`: no call was started after it.
    Failures,
    /// The first sign-ins of users were all refused with `not-authorized`: there are no such accounts.
    NoAccounts,
    /// A shard's thread panicked, or connections were lost more often than `-max_reconnect` allows.
    Fatal,
}

/// Why a run could not start: which limit, port or file, and what to do.
#[derive(Debug)]
pub struct StartError {
    /// One sentence for the operator.
    pub message: String,
    /// SIPp's exit code: 255 fatal, 254 bind.
    pub exit: i32,
}

/// An end of a run before its time.
#[derive(Debug, Default)]
struct EarlyEnd {
    /// Why: `-timeout`, `--max-failures`.
    end: Option<RunEnd>,
    /// `-timeout` has passed.
    timed_out: bool,
}

/// A running load.
pub struct Run {
    /// Numbers and inboxes that the shards share; the run writes the phase and the limits there.
    hub: Arc<ShardHub>,
    clock: Clock,
    setup: Setup,
    /// The start of the clock of the run (calls: `start_after` later): the times of a report count from here.
    started: Instant,
    /// Address and port that the run listens on or sends from, as the operator is shown them.
    local: SocketAddr,
    /// Behind a lock because the control port and signals change the run from other threads.
    control: Mutex<RunControl>,
    collector: Collector,
    /// One a shard; joined by `end`, or by the drop of a run that is left early.
    threads: Vec<JoinHandle<()>>,
    early: EarlyEnd,
    /// The state of a load of users.
    users: Option<Arc<LoadState>>,
    /// The worker processes of a load with more users than this process may have connections.
    workers: Option<WorkerPool>,
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Run({} threads at {})", self.threads.len(), self.local)
    }
}

impl Run {
    /// Binds everything before the first call is placed.
    pub fn start(setup: Setup) -> Result<Run, StartError> {
        // Calls and users differ only here: both make the same `Run`.
        match setup.chat.clone() {
            Some(chat) => xmpp_load::start::start(setup, &chat),
            None => start::start(setup),
        }
    }

    /// Makes a change of the run while it goes on.
    #[expect(clippy::needless_pass_by_value, reason = "a change is handed over")]
    pub fn change(&self, change: RunChange) {
        self.control.lock().apply(&change, self.clock.now(), &self.hub);
    }

    /// Blocks up to `at_most` and gives the next interval (every second), or the end.
    /// Ends that depend on time or on the counts so far are decided here, so that a run needs a caller that keeps calling.
    pub fn next(&mut self, at_most: Duration) -> Event {
        let until = self.clock.now() + at_most;
        loop {
            let now = self.clock.now();
            self.keep_time(now);
            if self.collector.ended() {
                return self.end(now);
            }
            let gauges = self.gauges();
            if let Some(mut progress) = self.collector.progress(gauges, self.started) {
                self.judge(&mut progress);
                self.judge_accounts(&mut progress);
                return Event::Progress(Box::new(progress));
            }
            if now >= until {
                return Event::Nothing;
            }
            self.collector.wait(until.since(now));
        }
    }

    /// Ends that come with time: `-timeout`, `--for`, the highest rate.
    fn keep_time(&mut self, now: Instant) {
        let mut control = self.control.lock();
        control.tick(now, &self.hub);
        if std::mem::take(&mut control.reset) {
            self.collector.reset();
        }
        drop(control);
        let options = &self.setup.options;
        // Calls that were due before the end may start a little after it.
        let late = if self.has_arrivals() { limits::LAST_STARTS } else { Duration::ZERO };
        let passed = now.since(self.started);
        let starts = if options.timers.global_is_error { passed } else { passed.saturating_sub(late) };
        if options.timers.global.is_some_and(|limit| starts >= limit) && !self.early.timed_out {
            self.early.timed_out = true;
            // As in SIPp: open calls are let come to their end, unless the time-out is an error. It counts from the
            // start of the run, whether calls are still being started or the last of `-m` is open.
            if options.timers.global_is_error {
                self.early.end = Some(RunEnd::Timeout);
                self.hub.advance(RunPhase::Hard);
            } else {
                self.early.end.get_or_insert(RunEnd::Timeout);
                self.hub.advance(RunPhase::Soft);
            }
        }
        let length = options.rate.duration.map(|length| length + options.behaviour.start_after);
        if length.is_some_and(|length| passed.saturating_sub(late) >= length) {
            self.hub.advance(RunPhase::Soft);
        }
        if let (Some(crew), Some(users)) = (&mut self.workers, &self.users) {
            // Worker processes do not see the hub: they are told the phase, and report how many users are signed in.
            crew.follow(self.hub.phase(), now);
            self.hub.tell_open(u64::from(users.signed_in()), now);
        }
    }

    /// Calls are started by time.
    fn has_arrivals(&self) -> bool {
        let setup = &self.setup;
        setup.chat.is_none() && setup.options.rate.users.is_none() && setup.scenario.starts_calls()
    }

    /// Users whose accounts are not on the server try again for the whole run, and figures of that say nothing: the run
    /// ends after the first sign-ins (RFC 6120 §6.5.10). A load that says how many failures it takes is left alone.
    fn judge_accounts(&mut self, progress: &mut Progress) {
        let Some(chat) = &self.setup.chat else { return };
        let counts = &progress.total.counts;
        let first = u64::from(chat.people.count()).min(limits::FIRST_SIGN_INS);
        let expects_failures = chat.register || chat.retry.give_up > 0 || chat.max_failures.is_some();
        let refused = counts[Count::FailedNotAuthorized];
        if self.early.end.is_some()
            || expects_failures
            || counts[Count::SuccessfulCall] > 0
            || refused < first.max(1)
        {
            return;
        }
        self.early.end = Some(RunEnd::NoAccounts);
        progress.errors.push(format!(
            "the first {refused} sign-ins were all refused with not-authorized: {} and the others are not accounts there, or \
             have other passwords",
            chat.people.address(0)
        ));
        self.hub.advance(RunPhase::Hard);
    }

    /// `--max-failures`: the run ends as with a soft quit.
    fn judge(&mut self, progress: &mut Progress) {
        let most = self.setup.chat.as_ref().and_then(|chat| chat.max_failures);
        let Some(most) =
            most.filter(|most| self.early.end.is_none() && most.is_exceeded(&progress.total.counts))
        else {
            return;
        };
        self.early.end = Some(RunEnd::Failures);
        let failed = progress.total.counts[Count::FailedCall];
        progress.errors.push(format!("the run ends early: {failed} failures, --max-failures {most}"));
        self.hub.advance(RunPhase::Soft);
    }

    /// Relaxed loads: the numbers are for display and need not belong to the same instant.
    fn gauges(&self) -> Gauges {
        let control = self.control.lock();
        let load = |of: &std::sync::atomic::AtomicU64| of.load(Ordering::Relaxed);
        Gauges {
            open_calls: load(&self.hub.open),
            peak_open_calls: load(&self.hub.peak),
            peak_at: Instant::from_micros(load(&self.hub.peak_at)),
            target_rate: control.target_rate(),
            limit: load(&self.hub.limit),
            users: control.users(),
            paused: control.paused,
            quitting: self.hub.phase() != RunPhase::Running,
            open_sockets: self.collector.open_sockets(),
            threads: self.workers.as_ref().map_or(self.hub.doors.len(), WorkerPool::threads),
            last_call_number: load(&self.hub.started),
            local: Some(self.local),
            stage: self.users.as_ref().map_or("", |users| users.stage().name()),
            friends: self.users.as_ref().and_then(|users| self.friends(users)),
        }
    }

    /// Contacts made and wanted, only in the stage that makes them.
    fn friends(&self, users: &LoadState) -> Option<(u64, u64)> {
        let people = &self.setup.chat.as_ref()?.people;
        let all = u64::from(people.count()) * u64::from(people.contacts());
        (users.stage() == LoadStage::Befriending).then(|| (users.friends(), all))
    }

    /// Joins the shards, takes their last reports and decides the reason of the end.
    fn end(&mut self, now: Instant) -> Event {
        let mut fatal = self.hub.fatal.load(Ordering::Acquire);
        for thread in self.threads.drain(..) {
            fatal |= thread.join().is_err();
        }
        self.setup.tracer.finish();
        let gauges = self.gauges();
        let progress = self.collector.last_progress(gauges, self.started, now);
        // The strongest reason wins: a broken run is not called timed out, and a signal not an ordinary end.
        let end = if fatal {
            RunEnd::Fatal
        } else if self.hub.is_terminated() {
            RunEnd::Terminated
        } else if let Some(early) = self.early.end {
            early
        } else if self.hub.phase() >= RunPhase::Hard {
            RunEnd::Internal
        } else {
            RunEnd::Normal
        };
        let limited_by_ringer = self.collector.limits(&progress);
        Event::Ended(Box::new(RunOutcome { progress, end, limited_by_ringer }))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.hub.advance(RunPhase::Gone);
        self.collector.close();
        // Their listeners hear that they are gone.
        self.workers = None;
        for thread in self.threads.drain(..) {
            // The shard has reported its end; a panic was printed by the hook.
            let _ = thread.join();
        }
    }
}

/// An event of a run, for the thread that drives it.
#[derive(Debug)]
pub enum Event {
    /// The time to wait is over and no interval has ended.
    Nothing,
    /// An interval has ended.
    Progress(Box<Progress>),
    /// The run is over, and all its threads have ended.
    Ended(Box<RunOutcome>),
}
