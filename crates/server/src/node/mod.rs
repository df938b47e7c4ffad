//! The whole node: the database, the shards, and what is around them. The main thread is here: signals, the
//! control socket, metrics, housekeeping. Calls never pass through it.
//!
//! `operator::run` makes a [`Node`] and serves it until its end. The order of a start: the database (a server that is away is waited for), the farm (which gives the node its life),
//! certificates, the store's threads, bindings back into the routers, the REST interface, one thread for each shard, which binds the
//! addresses. An error in any of these ends the start.
//!
//! In: the configuration, the database, commands of operators ([`operator`]). Out: commands to the shards'
//! inboxes, writes to the store. The main thread never waits for a shard while the node serves; it only does so
//! at the start (each shard reports that it listens) and at the end (`close_sockets`, `stop`).

mod build;
mod call_messages;
mod call_traces;
mod certificates;
pub(crate) mod changes;
mod completions;
mod config_report;
mod database;
mod due_reads;
mod earlier_start;
mod edge_plan;
mod farm_files;
mod farm_requests;
mod farm_status;
mod farm_traces;
mod file_accounts;
mod listening;
mod looks;
mod lost_calls;
mod object_storage;
mod operator;
mod operator_status;
mod playable_recordings;
mod record_sinks;
mod registrations;
mod removed_voicemail;
mod rest_rows;
mod room;
mod roster_groups;
mod shard_counters;
mod trial_writes;
mod xmpp;

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;
use cluster::Outlet;
use control::FarmStatus;
use stdx::Instant;
use store::rest::{Kind, RestWrite};
use store::{Database, Service, Store, Write};
use voice_io::NodeVoice;

use crate::limits;
use crate::message::{Command, InboxMessage, LocalMessage};
use crate::recorded_sound::RecordedSound;
use crate::rest::Rest;
use crate::shard::{RecordSinks, ShardStatus, StatusBoard};
use crate::waiting::StartListeners;
pub(crate) use build::Shared;
use call_traces::CallTraces;
pub(crate) use completions::StoreCompletions;
use config::Config;
use net::clock::Clock;
use net::tls::Tls;
pub use operator::run;

/// A running node.
pub struct Node {
    pub(crate) shared: Shared,
    pub(crate) store: Arc<Service>,
    /// Opens further connections to the database, for reads beside the store's threads.
    database: Database,
    /// Routes the results of the store.
    pub(crate) desk: Arc<StoreCompletions>,
    pub(crate) board: Arc<StatusBoard>,
    /// The ways of call records besides the database.
    record_sinks: RecordSinks,
    /// The export of traces of calls.
    call_traces: CallTraces,
    /// The inboxes of the shards, by number.
    pub(crate) outlets: Vec<Outlet<InboxMessage>>,
    /// Copies of SIP messages and of chat's elements of traced accounts, from all shards to the readers of traces.
    pub(crate) traces: tokio::sync::broadcast::Sender<Arc<sip::endpoint::TraceEvent>>,
    pub(crate) chat_traces: tokio::sync::broadcast::Sender<Arc<control::ChatTrace>>,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) clock: Clock,
    /// `None`: no applications answer calls here.
    pub(crate) voice: Option<NodeVoice>,
    /// `None`: there is no REST interface.
    pub(crate) rest: Option<Rest>,
    threads: Vec<JoinHandle<()>>,
}

impl Node {
    /// Opens the database, reads back what it holds, binds every address and starts the shards.
    ///
    /// # Errors
    /// In words for the operator: which file or address, and what to do.
    pub fn start(config: Config) -> Result<Node> {
        Node::start_with(config, &store::sqlite::Options::default())
    }

    /// As [`start`](Self::start), with a SQLite database opened with these options.
    ///
    /// # Errors
    /// As `start`.
    pub fn start_with(config: Config, options: &store::sqlite::Options) -> Result<Node> {
        Node::start_with_listeners(config, options, StartListeners::default())
    }

    /// As `start_with`; while the start waits for other machines, it answers at these listeners with the reason.
    pub(crate) fn start_with_listeners(
        config: Config,
        options: &store::sqlite::Options,
        listeners: StartListeners,
    ) -> Result<Node> {
        let clock = Clock::new();
        let database = database::open(&config, options, &listeners)?;
        chat_store::database::tell_of_later_schema(&database);
        let shared = Shared::read(config, &database, clock, listeners)?;
        let database = shared.fenced(database); // By the life that `Shared::read` has drawn.
        xmpp::warn(&shared);
        let tls = build::certificates(&shared)?;
        let shards = usize::from(shared.config.server.shards);
        let (outlets, inboxes): (Vec<_>, Vec<_>) =
            (0..shards).map(|_| cluster::inbox(limits::SHARD_INBOX)).unzip();
        let board = Arc::new(StatusBoard::new(shards));
        let desk = StoreCompletions::new(outlets.clone(), clock, &board, shared.config.store.url.is_some());
        let desk = Arc::new(desk);
        let completions: Arc<dyn store::Completions> = desk.clone();
        let store = Arc::new(Service::start(&database, &completions, &store::ServiceOptions::default())?);
        let record_sinks = record_sinks::open(&shared.config, &board)?;
        let call_traces = CallTraces::start(&shared.config, clock)?;
        let (traces, _) = tokio::sync::broadcast::channel(control::limits::TRACE_QUEUE);
        let (chat_traces, _) = tokio::sync::broadcast::channel(control::limits::TRACE_QUEUE);
        let routers = build::routers(&shared, &mut *database.reader()?, &store, clock.now())?;
        if shared.config.has_rest() {
            cli::first_account::ensure_account(&shared.config, &database, clock)?;
        }
        let voice = build::voice_common(&shared, &database, (&store, &desk), &outlets, &call_traces)?;
        let mut node = Node {
            voice: voice.map(|voice| voice.with_life(shared.life().0)),
            shared,
            store,
            database,
            desk,
            board,
            record_sinks,
            call_traces,
            outlets,
            traces,
            chat_traces,
            tls,
            clock,
            rest: None,
            threads: Vec::new(),
        };
        node.rest = node.shared.config.has_rest().then(|| Rest::new(&node));
        farm_files::join(&node);
        build::check_addresses(&node.shared.config)?;
        for (number, (router, inbox)) in routers.into_iter().zip(inboxes).enumerate() {
            let thread = build::start_shard(&node, number, router, inbox)?;
            node.threads.push(thread);
        }
        if let Some(farm) = &node.shared.farm {
            farm.tell(&node.outlets);
            farm.announce_figures(&node.board);
            node.give_plan();
        }
        Ok(node)
    }

    /// The interface for operators' requests about chat.
    pub(crate) fn chat(&self) -> crate::xmpp::operator::Operator {
        let xmpp = &self.shared.config.xmpp;
        let rooms = xmpp.is_on().then(|| xmpp.rooms.clone());
        let (desk, store) = (Arc::clone(&self.desk), Arc::clone(&self.store));
        let mut operator =
            crate::xmpp::operator::Operator::new(self.shared.map(), self.outlets.clone(), desk, store, rooms);
        operator.farm = self.shared.farm.as_ref().map(|farm| farm.requester());
        operator.recorded_sound = RecordedSound::new(self);
        operator
    }

    /// To every shard.
    /// `answer_all` goes beyond the bound of an inbox: a command is lost to no shard because that shard is
    /// busy.
    pub(crate) fn tell(&self, command: impl Fn() -> Command) {
        for outlet in &self.outlets {
            outlet.answer_all(&mut vec![LocalMessage::Command(command()).into()]);
        }
    }

    /// Exports the messages and stanzas of traced accounts from now on, where a collector is configured. On the main thread.
    fn export_traces(&self) {
        let (messages, stanzas) = (self.traces.subscribe(), self.chat_traces.subscribe());
        tokio::task::spawn_local(self.call_traces.clone().follow(messages, stanzas));
    }

    /// The shards' numbers, put up twice a second.
    pub fn board(&self) -> &StatusBoard {
        &self.board
    }

    /// The farm as this node sees it; none if it is alone.
    pub(crate) fn farm_status(&self) -> Option<FarmStatus> {
        let farm = self.shared.farm.as_ref()?;
        let board = farm.board();
        let mut status = farm_status::status(&farm.name, &*board.view()?, board.away());
        farm_status::add_figures(&mut status, board, self.clock.now());
        Some(status)
    }

    /// New work is refused from now on.
    ///
    /// In a farm the node first gives its call slots away and goes on meanwhile; then it refuses what still comes to it.
    pub fn drain(&self) {
        // False where no other node could take the slots, or no council could agree to it; then this node
        // drains as one alone.
        if let Some(farm) = &self.shared.farm
            && farm.drain()
        {
            return;
        }
        self.tell(|| Command::Drain);
    }

    /// True if no request is waiting for an answer in any shard.
    pub fn is_idle(&self) -> bool {
        if self.shared.farm.as_ref().is_some_and(|farm| !farm.has_given_all()) {
            return false;
        }
        // Figures of half a second ago: callers wait for longer than that (`operator::QUIET`) before they
        // believe it. A shard that stands still has none, and may have requests in its sockets.
        let now = self.clock.now();
        let is_idle = |shard: &ShardStatus| shard.contexts == 0 && now.since(shard.at) < OLDEST_FIGURES;
        self.board.shards().iter().all(is_idle)
    }

    /// A new configuration file: what can change while running does, or nothing.
    ///
    /// # Errors
    /// As [`replan`](Self::replan), or a certificate that cannot be read; all stays as it was then.
    pub fn reconfigure(&mut self, config: Config) -> Result<()> {
        let certificate = self.tls.as_ref().map(|tls| tls.read_again()).transpose()?;
        // Parts that need a restart stay as they are, so that every later use of `config` is of what really
        // runs.
        let new = config.keeping(&self.shared.config);
        // The plan is made of it. It fails before a shard has heard of anything.
        let old = std::mem::replace(&mut self.shared.config, new);
        if let Err(error) = self.replan() {
            self.shared.config = old;
            return Err(error);
        }
        if let (Some(tls), Some(certificate)) = (&self.tls, certificate) {
            tls.apply(certificate);
        }
        if let Some(rest) = &self.rest {
            rest.reconfigure(&self.shared.config);
        }
        Ok(())
    }

    /// Deletes old rows, writes down failures that are counted, and reads a certificate that has changed.
    fn keep_house(&self) {
        self.clean();
        self.shared.failures.flush();
        match self.tls.as_ref().map(|tls| tls.reload_if_changed()) {
            Some(Ok(true)) => tracing::info!("the certificate changed and was read again"),
            Some(Err(error)) => tracing::error!(%error, "the certificate stays as it was"),
            Some(Ok(false)) | None => {}
        }
    }

    /// Deletes rows that have had their time: one node of a farm that shares a database does so for all.
    pub(crate) fn clean(&self) {
        if self.shared.farm.as_ref().is_some_and(|farm| !farm.keeps_house()) {
            return;
        }
        let now = self.clock.now();
        // All deletions are by age and repeat, so one that is lost is made up for ten seconds later.
        let keep = self.shared.config.calls.keep;
        let writes = [
            Write::CleanBindings { before: now - router::limits::LOG_HORIZON },
            Write::ForgetCalls { before: now - keep },
            Write::ForgetMessages { before: now - router::limits::LONGEST_KEPT },
            Write::Rest(RestWrite::Forget { kind: Kind::Call, before: now - keep }),
            Write::Rest(RestWrite::Forget { kind: Kind::Notification, before: now - keep }),
            Write::Rest(RestWrite::Forget {
                kind: Kind::Upload,
                before: now - self.shared.config.uploads.keep,
            }),
            Write::Access(store::access::AccessWrite::Clean { before: now }),
            Write::Xmpp(store::xmpp::XmppWrite::ForgetArchive {
                before: now - self.shared.config.xmpp.archive_keep,
            }),
        ];
        for write in writes {
            // A store too busy to clean is cleaned a moment later.
            let _ = self.store.write(write, None);
        }
    }

    /// Hangs up the calls of applications. A BYE may leave by the connection of another shard or node: the second answer of a shard follows what it
    /// has put into the inboxes of others at the first command, so they have it before they are told to leave.
    fn hang_up(&self) {
        if self.voice.is_some() {
            let until = self.clock.now() + CLOSE_PATIENCE;
            (0..2).for_each(|_| self.command_until(until, |done| Command::HangUp { done }));
        }
    }

    /// Waits until each shard has read its UDP sockets until they were empty, and closed them; and until messages to other nodes, which shards
    /// without links have put into the inbox of the first one by then, have left by its links.
    fn close_sockets(&self) {
        let until = self.clock.now() + CLOSE_PATIENCE;
        // The answer of a shard to the second command follows what it had in its inbox at the end of the first round.
        (0..2).for_each(|_| self.command_until(until, |closed| Command::CloseSockets { closed }));
    }

    /// Gives all shards a command, and waits until each has answered it.
    fn command_until(&self, until: Instant, command: impl Fn(SyncSender<()>) -> Command) {
        let (answer, done) = sync_channel(self.outlets.len());
        self.tell(|| command(answer.clone()));
        // Only shards hold senders now: the channel closes if one ends without an answer.
        drop(answer);
        for _ in &self.outlets {
            let rest = until.since(self.clock.now());
            if done.recv_timeout(rest).is_err() {
                // A shard that is stuck or overrun: the node ends all the same.
                return;
            }
        }
    }

    /// Hangs up, leaves the farm and ends the shards: open calls are written down, then files of call records are completed.
    pub fn stop(&mut self) {
        self.hang_up();
        if let Some(farm) = &self.shared.farm {
            // While the links are there: a packet of another node's call that came here would be lost without them.
            self.close_sockets();
            // Another node may take over before the last records are written.
            self.desk.outlive_fence();
            farm.leave();
        }
        self.tell(|| Command::Leave);
        for thread in self.threads.drain(..) {
            // A panic there has been printed.
            let _ = thread.join();
        }
        // Writes what waits: no shard has them any more. Spans are sent when the helpers and the reader of traces have ended, too.
        self.record_sinks = RecordSinks::default();
        self.call_traces = CallTraces::default();
    }
}

/// The age from which a shard's figures say nothing. A shard puts them up twice a second, with a turn between at most.
const OLDEST_FIGURES: Duration = Duration::from_millis(1_500);

/// The time that shards have to empty their sockets at the end.
const CLOSE_PATIENCE: Duration = Duration::from_secs(1);

/// The time that a drain waits for transactions that do not end: Timer B (32 s, RFC 3261 §17.1.1.2) and a little.
pub const DRAIN_PATIENCE: Duration = Duration::from_secs(40);
