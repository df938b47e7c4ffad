//! The start of a load of users: on threads of this process, or in worker processes.
//!
//! One process when its limit on open files is enough, otherwise worker processes with a share of the users each. Both ways end in the same
//! `Run`. Worker processes are started and ready before the clock of the load begins.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use lab_sip::stats::Stats;
use lab_xmpp::{LoadState, StreamSecurity, UserPool, XmppLoad};
use mio::Poll;
use parking_lot::Mutex;
use stdx::hash::Keyed;
use stdx::rng::Rng;
use stdx::time::Instant;

use super::super::clock::Clock;
use super::super::collector::Collector;
use super::super::control::RunControl;
use super::super::limits::{FIRST_CONNECTION, REPORTS_A_SHARD};
use super::super::name_cache::NameCache;
use super::super::report::{Reporter, ShardReport};
use super::super::shard_hub::ShardHub;
use super::super::start::{self, fatal};
use super::super::tls::Tls;
use super::super::{EarlyEnd, Run, Setup, StartError, bind, kernel};
use super::shared_memory::SharedMapping;
use super::worker_pool::{ReaderContext, WorkerArgs, WorkerPool, parts};
use super::worker_protocol::WorkerShare;
use super::{ChatShard, UserConnections};
use crate::fd;

/// Users of chat have connections of their own and nothing to bind.
pub(in crate::engine) fn start(setup: Setup, chat: &Arc<XmppLoad>) -> Result<Run, StartError> {
    kernel::use_small_pages();
    let options = &setup.options;
    let users = chat.people.all();
    // No more threads than users.
    let threads = start::threads(options).min(users as usize);
    let parts = parts((users, chat.sockets()), threads, options.workers, fd::raise(false)).map_err(fatal)?;
    match &parts[..] {
        [part] if options.workers.is_none() => start_here(setup, chat, part),
        // `--workers 1` asks for a worker process even where none is needed.
        parts => start_workers(setup, chat, parts),
    }
}

/// One connection before a load of users: with a wrong port all of them would fail and come back until their patience
/// ends. Nothing is asked of servers of calls, which may speak UDP.
///
/// # Errors
/// No server listens at the target, or it cannot be reached.
pub fn check_reachable(setup: &Setup) -> Result<(), StartError> {
    let Some(chat) = &setup.chat else { return Ok(()) };
    match TcpStream::connect_timeout(&chat.target, FIRST_CONNECTION) {
        Ok(_) => Ok(()),
        Err(error) => Err(fatal(format!(
            "cannot connect to {}: {error}: expected a server that listens there, as HOST:PORT",
            chat.target
        ))),
    }
}

/// All shards are threads of this process.
fn start_here(setup: Setup, chat: &Arc<XmppLoad>, part: &WorkerShare) -> Result<Run, StartError> {
    let tls = tls(&setup, chat)?;
    let (polls, doors) =
        start::polls(usize::from(part.shards)).map_err(|error| fatal(bind::explain_socket(&error)))?;
    let mut rng = Rng::from_seed(start::seed());
    let hub = Arc::new(ShardHub::new(Keyed::new(start::key(&mut rng)), None, doors));
    let clock = Clock::new();
    let started = clock.now();
    let (sender, collector) = reports(&setup, part);
    let shared = Arc::new(LoadState::new(chat.people.all(), started));
    let load = LoadParts {
        part: part.clone(),
        hub: Arc::clone(&hub),
        clock,
        shared: Arc::clone(&shared),
        chat: Arc::clone(chat),
        tls,
        started,
        empty: LoadParts::empty(&setup),
    };
    let mut run = load.run(setup, collector, None);
    run.threads = load.spawn(polls, &sender, &mut rng)?;
    Ok(run)
}

/// The run itself has no shard: its hub has no inboxes, and the phase goes to the workers by their sockets.
fn start_workers(setup: Setup, chat: &Arc<XmppLoad>, parts: &[WorkerShare]) -> Result<Run, StartError> {
    // A mistake in them is told here, once.
    tls(&setup, chat)?;
    let users = chat.people.all();
    let clock = Clock::new();
    let memory = SharedMapping::create(LoadState::size(users));
    let (memory, file) =
        memory.map_err(|error| fatal(format!("no memory to share with worker processes: {error}")))?;
    let args = WorkerArgs { clock, memory: &file, words: &setup.options.command_line };
    let mut workers = WorkerPool::start_processes(parts, &args)?;
    // The slow steps are done: the first user is due now, and would be late before.
    let started = clock.now();
    let shared = Arc::new(LoadState::over(Box::new(memory)));
    shared.begin(started);
    let (sender, collector) = reports(&setup, &parts[0]);
    let load = LoadParts {
        part: parts[0].clone(),
        hub: Arc::new(ShardHub::new(Keyed::new([0; 16]), None, Vec::new())),
        clock,
        shared: Arc::clone(&shared),
        chat: Arc::clone(chat),
        tls: None,
        started,
        empty: LoadParts::empty(&setup),
    };
    let base = ReaderContext { hub: Arc::clone(&load.hub), shared, clock, users, empty: load.empty.clone() };
    let threads = workers.start(started, &sender, &base)?;
    let mut run = load.run(setup, collector, Some(workers));
    run.threads = threads;
    Ok(run)
}

/// The queue of reports of all shards in all processes.
fn reports(setup: &Setup, part: &WorkerShare) -> (SyncSender<ShardReport>, Collector) {
    let shards = usize::from(part.all_shards);
    let (sender, receiver) = sync_channel(REPORTS_A_SHARD * shards);
    (sender, Collector::new(receiver, shards, LoadParts::empty(setup)))
}

/// Certificates, when the users want TLS.
pub(super) fn tls(setup: &Setup, chat: &XmppLoad) -> Result<Option<Tls>, StartError> {
    let wanted = chat.security != StreamSecurity::None;
    wanted.then(|| Tls::load(&setup.options.network.tls, false)).transpose().map_err(fatal)
}

/// The parts that the shards of one process are made of.
pub(super) struct LoadParts {
    /// The shards of this process among all.
    pub(super) part: WorkerShare,
    pub(super) hub: Arc<ShardHub>,
    pub(super) clock: Clock,
    /// The stage of the load and its sums.
    pub(super) shared: Arc<LoadState>,
    pub(super) chat: Arc<XmppLoad>,
    pub(super) tls: Option<Tls>,
    pub(super) started: Instant,
    /// Counters of the right sizes.
    pub(super) empty: Stats,
}

impl LoadParts {
    /// A load of users has timers but no steps of scenarios.
    pub(super) fn empty(setup: &Setup) -> Stats {
        Stats::sized(0, 0, 0, setup.scenario.rtds.len(), 0)
    }

    /// The run that its observers see.
    fn run(&self, setup: Setup, collector: Collector, workers: Option<WorkerPool>) -> Run {
        // The display shows the number of users as the limit.
        self.hub.limit.store(u64::from(self.chat.people.all()), Ordering::Relaxed);
        Run {
            hub: Arc::clone(&self.hub),
            clock: self.clock,
            started: self.started,
            local: self.chat.target,
            control: Mutex::new(RunControl::new(&setup, self.started)),
            collector,
            threads: Vec::new(),
            early: EarlyEnd::default(),
            users: Some(Arc::clone(&self.shared)),
            workers,
            setup,
        }
    }

    /// A thread for each of the part's shards.
    pub(super) fn spawn(
        &self,
        polls: Vec<Poll>,
        reports: &SyncSender<ShardReport>,
        rng: &mut Rng,
    ) -> Result<Vec<JoinHandle<()>>, StartError> {
        let mut threads = Vec::new();
        for (index, poll) in (self.part.first_shard..).zip(polls) {
            let place = (u32::from(index), u32::from(self.part.all_shards));
            let (chat, shared) = (Arc::clone(&self.chat), Arc::clone(&self.shared));
            // A shard has every n-th user, so that the load is even when only some of them sign in.
            let pool = UserPool::new(chat, shared, place, self.started, rng.fork());
            let shard = ChatShard {
                index,
                hub: Arc::clone(&self.hub),
                clock: self.clock,
                shared: Arc::clone(&self.shared),
                names: NameCache::default(),
                lines: UserConnections::new(
                    &pool,
                    place,
                    (Arc::clone(&self.chat), self.tls.clone()),
                    poll,
                    rng.fork(),
                ),
                pool,
                stats: self.empty.clone(),
                reporter: Reporter::new(self.started, self.empty.clone()),
                reports: reports.clone(),
            };
            let thread = std::thread::Builder::new().name(format!("users-{index}"));
            let thread = thread.spawn(move || shard.run());
            threads.push(thread.map_err(|error| fatal(format!("cannot start a thread: {error}")))?);
        }
        Ok(threads)
    }
}
