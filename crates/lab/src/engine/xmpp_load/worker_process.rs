//! One worker process: the shards of its part of a load, on threads as in a single process. Its reports go to the
//! run that started it, line by line; the state of the load is in memory that all workers share.
//!
//! The order: the setup comes through standard input, everything that can fail is prepared, the run is told (`Ready`, or `Refused` with the
//! reason), the start comes with the time of the first sign-in, and the shards run until the end is announced or the run is gone.

use std::io::{self, BufReader};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;

use lab_xmpp::{LoadState, XmppLoad};
use mio::Poll;
use stdx::hash::Keyed;
use stdx::rng::Rng;
use stdx::time::Instant;

use super::super::limits::REPORTS_A_SHARD;
use super::super::shard_hub::{RunPhase, ShardHub};
use super::super::tls::Tls;
use super::super::{Setup, bind, kernel, start};
use super::shared_memory::SharedMapping;
use super::start::{LoadParts, tls};
use super::worker_protocol::{WorkerCommand, WorkerMessage, WorkerSetup, hear, say};
use crate::fd;

/// A worker process that a run has started.
pub struct WorkerProcess {
    /// The setup as the run sent it.
    prepare: WorkerSetup,
    /// Commands of the run.
    from: BufReader<UnixStream>,
    /// Reports to the run; the same socket.
    to: UnixStream,
}

/// All that can fail before the load begins.
struct WorkerLoad {
    setup: Setup,
    chat: Arc<XmppLoad>,
    tls: Option<Tls>,
    hub: Arc<ShardHub>,
    polls: Vec<Poll>,
    shared: LoadState,
}

impl WorkerProcess {
    /// Takes the setup from the run that started this process, through standard input.
    ///
    /// # Errors
    /// Standard input is not such a run's socket.
    pub fn from_stdin() -> Result<WorkerProcess, String> {
        let by_hand = |_| "ringer xmpp starts this itself, when it needs several processes".to_owned();
        let socket = || Ok(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?));
        let to: UnixStream = socket().map_err(|error: io::Error| by_hand(error))?;
        let mut from = BufReader::new(to.try_clone().map_err(by_hand)?);
        match hear(&mut from) {
            Ok(Some(WorkerCommand::Prepare(prepare))) => Ok(WorkerProcess { prepare, from, to }),
            Ok(_) => Err(by_hand(io::ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(by_hand(error)),
        }
    }

    /// The arguments of `ringer xmpp`.
    pub fn words(&self) -> &[String] {
        &self.prepare.words
    }

    /// To the end of the load, or of the run.
    ///
    /// # Errors
    /// The run is gone.
    pub fn work(mut self, setup: Result<Setup, String>) -> io::Result<()> {
        kernel::die_with(self.prepare.parent)?;
        // A keyboard's signals reach all processes of the terminal; the run decides what becomes of them.
        kernel::leave_signals_to_parent();
        end_with_panics();
        let ready = match setup.and_then(|setup| self.prepare(setup)) {
            Ok(ready) => ready,
            Err(why) => return say(&mut self.to, &WorkerMessage::Refused(why)),
        };
        say(&mut self.to, &WorkerMessage::Ready)?;
        let Some(WorkerCommand::Start(at)) = hear(&mut self.from)? else { return Ok(()) };
        self.run(ready, Instant::from_micros(at))
    }

    /// Everything that may fail, before the worker says that it is ready.
    fn prepare(&self, setup: Setup) -> Result<WorkerLoad, String> {
        let chat = setup.chat.clone().ok_or("a load without users")?;
        let part = &self.prepare.part;
        fd::raise(false);
        let users = chat.people.all();
        let memory = SharedMapping::open(self.prepare.memory, LoadState::size(users))
            .map_err(|error| format!("the memory of the load: {error}"))?;
        let tls = tls(&setup, &chat).map_err(|error| error.message)?;
        let (polls, doors) =
            start::polls(usize::from(part.shards)).map_err(|error| bind::explain_socket(&error))?;
        // Nothing here is looked up by hash: calls are SIP's.
        let hub = Arc::new(ShardHub::new(Keyed::new([0; 16]), None, doors));
        Ok(WorkerLoad { setup, chat, tls, hub, polls, shared: LoadState::over(Box::new(memory)) })
    }

    /// Starts the shards and forwards their reports until the last one has ended.
    fn run(mut self, ready: WorkerLoad, started: Instant) -> io::Result<()> {
        let shards = usize::from(self.prepare.part.shards);
        let (sender, receiver) = sync_channel(REPORTS_A_SHARD * shards);
        let load = LoadParts {
            part: self.prepare.part,
            hub: Arc::clone(&ready.hub),
            clock: self.prepare.clock,
            shared: Arc::new(ready.shared),
            chat: ready.chat,
            tls: ready.tls,
            started,
            empty: LoadParts::empty(&ready.setup),
        };
        let mut rng = Rng::from_seed(start::seed());
        let threads = load.spawn(ready.polls, &sender, &mut rng);
        let threads = threads.map_err(|error| io::Error::other(error.message))?;
        // So that the queue ends with the last shard.
        drop(sender);
        follow(self.from, &ready.hub)?;
        for report in receiver {
            if let Err(gone) = say(&mut self.to, &WorkerMessage::Report(Box::new(report))) {
                ready.hub.advance(RunPhase::Gone);
                return Err(gone);
            }
        }
        for thread in threads {
            // A panic has ended the process already.
            let _ = thread.join();
        }
        Ok(())
    }
}

/// Follows the progress of the end that the run announces; a closed connection to the run is the end, too.
fn follow(mut from: BufReader<UnixStream>, hub: &Arc<ShardHub>) -> io::Result<JoinHandle<()>> {
    let hub = Arc::clone(hub);
    std::thread::Builder::new().name("orders".to_owned()).spawn(move || {
        while let Ok(Some(order)) = hear(&mut from) {
            if let WorkerCommand::End(phase) = order {
                hub.advance(RunPhase::of(phase));
            }
        }
        hub.advance(RunPhase::Gone);
    })
}

/// A shard that is gone would leave the others waiting for what it knew.
fn end_with_panics() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tell(panic);
        // The exit code of a Rust program that panics.
        std::process::exit(101);
    }));
}
