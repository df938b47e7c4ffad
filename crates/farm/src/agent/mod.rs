//! The thread of a node's membership: it speaks with the council, drives [`FarmNode`], and tells what changes.
//!
//! Nodes that share a database send it their claims of buckets, and their shards get orders about the buckets that it gives
//! ([`crate::database`], [`crate::order`]). Without one each node answers for its own accounts: claims are granted at once, nothing
//! fences a node, and its shards own their buckets as outside a farm.

mod session;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use cluster::farm::{EndReason, FarmNode};
use cluster::figures::NodeFigures;
use cluster::member::Member;
use cluster::membership::MembershipEffect;
use cluster::{BUCKETS, Bucket, Epoch, Life};
use stdx::Instant;
use tokio::sync::{Notify, mpsc};

use crate::council::{self, CouncilCommand, CouncilEvent, CouncilSettings, JoinRefused};
use crate::database::{DatabaseEvent, DatabaseThread, OpenDatabase};
use crate::order::{BucketOrder, BucketReports};
use crate::view::FarmView;
use session::Session;

/// Commands to the council that wait: renewals of a minute. Later ones are dropped: the machine repeats what has no answer.
const COMMANDS: usize = 64;

/// News of the council on their way to the queue of the machine, which drops what is superseded.
const EVENTS: usize = 1_024;

/// The time that a node which leaves waits for the council's answer. Without one its key is forgotten by its age.
const LEAVE: Duration = Duration::from_secs(1);

/// The time after a drain in which other nodes still send here by the map before: several times what a change of the map takes to
/// reach them all.
const HANDOVER: Duration = Duration::from_secs(1);

/// Reports of links that wait.
const REPORTS: usize = 1_024;

/// The reason that a node's part in the farm is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FarmEnd {
    /// The council did not admit it.
    NotAdmitted(JoinRefused),
    /// Another process has the node's name.
    Superseded(Life),
    /// The farm ended this life.
    Ended(EndReason),
}

impl fmt::Display for FarmEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FarmEnd::NotAdmitted(refused) => refused.fmt(f),
            FarmEnd::Superseded(life) => write!(f, "another process (life {life}) has taken this node's name"),
            FarmEnd::Ended(EndReason::DeclaredDead) => f.write_str(
                "the farm counts this start of the node as dead, as it did not renew its lease in time \
                 (stopped, overloaded or cut off): start it again",
            ),
            FarmEnd::Ended(EndReason::Fenced) => {
                f.write_str("the database refuses this start of the node, as another node has taken over from it: start it again")
            }
            FarmEnd::Ended(EndReason::Refused(refusal)) => refusal.fmt(f),
            FarmEnd::Ended(EndReason::Left) => f.write_str("the node has left the farm"),
        }
    }
}

/// The receiver of news about the node's membership. Called on the agent's thread.
pub trait FarmListener: Send {
    /// The node is a member.
    fn joined(&mut self, life: Life);
    /// The shards decide by this view from now on.
    fn view(&mut self, view: Arc<FarmView>);
    /// The council is away, for this reason, or back.
    fn council(&mut self, away: Option<&str>);
    /// The load of this node, for its next renewal.
    fn own_figures(&mut self) -> NodeFigures {
        NodeFigures::default()
    }
    /// The council has this node's renewal.
    fn renewed(&mut self) {}
    /// A node has renewed its lease; with its load, unless its version does not announce it.
    fn node_renewed(&mut self, _life: Life, _figures: Option<NodeFigures>) {}
    /// News of another node.
    fn member(&mut self, news: &MembershipEffect);
    /// Orders for a shard of this node, in their order. Only where the nodes share a database.
    fn buckets(&mut self, _shard: u16, _orders: Vec<BucketOrder>) {}
    /// Another node asks this one to drain. It may be told again.
    fn drain_asked(&mut self);
    /// The node owns nothing any more after a drain, and other nodes have had the time to know it.
    fn drained(&mut self);
    /// The node's part in the farm is over.
    fn ended(&mut self, end: &FarmEnd);
}

/// Requests to the agent; clones speak with the same one.
#[derive(Clone, Debug)]
pub struct FarmAgent {
    requests: mpsc::Sender<AgentRequest>,
    shared: Arc<AgentState>,
}

/// The state that the agent's thread and the shards share.
#[derive(Debug, Default)]
struct AgentState {
    /// The end of the node's authority by the clock of the shards, in microseconds; 0 without any.
    authority_ends: AtomicU64,
    reports: Mutex<BucketReports>,
    /// There are reports.
    has_reports: Notify,
}

impl AgentState {
    /// Keeps a report until the agent reads it: the machine waits for each.
    fn report(&self, add: impl FnOnce(&mut BucketReports)) {
        // Nothing that can panic runs under the lock.
        add(&mut self.reports.lock().unwrap_or_else(PoisonError::into_inner));
        self.has_reports.notify_one();
    }

    /// Tells the shards until when the node may act.
    fn publish_authority(
        &self,
        session: &Session,
        clock: &(dyn Fn() -> Instant + Send),
        shard_clock: &(dyn Fn() -> Instant + Send),
    ) {
        // The clock of shards first: a process that is stopped between the two looks gets less authority, not more.
        let shard_now = shard_clock();
        let ends = session.authority_ends(clock(), shard_now);
        self.authority_ends.store(ends.as_micros(), Ordering::Release);
    }

    fn take_reports(&self) -> BucketReports {
        std::mem::take(&mut *self.reports.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A request to the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
enum AgentRequest {
    LinkLost { life: Life, is_refused: bool },
    Drain,
    AskToDrain { life: Life, node: Box<str> },
    Leave,
}

/// The parameters of an agent.
pub struct AgentArgs {
    /// The place of the council.
    pub council: CouncilSettings,
    /// The node's announcement; the council gives its life.
    pub member: Member,
    /// The time since some fixed moment that also passes while the machine sleeps (`CLOCK_BOOTTIME`), never set back.
    pub clock: Box<dyn Fn() -> Instant + Send>,
    /// The clock of [`FarmAgent::may_act`].
    pub shard_clock: Box<dyn Fn() -> Instant + Send>,
    /// The database that the nodes share; none if each has its own.
    pub database: Option<OpenDatabase>,
}

impl FarmAgent {
    /// Starts the agent's thread.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(
        args: AgentArgs,
        listener: Box<dyn FarmListener>,
    ) -> std::io::Result<(FarmAgent, JoinHandle<()>)> {
        let (requests, receiver) = mpsc::channel(REPORTS);
        let shared = Arc::new(AgentState::default());
        let agent = FarmAgent { requests, shared: Arc::clone(&shared) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = Builder::new().name("farm".to_owned()).spawn(move || {
            let local = tokio::task::LocalSet::new();
            local.block_on(&runtime, run(args, listener, receiver, &shared));
        })?;
        Ok((agent, thread))
    }

    /// A link to a node broke; `is_refused` if the node's host refuses connections.
    pub fn link_lost(&self, life: Life, is_refused: bool) {
        self.request(AgentRequest::LinkLost { life, is_refused });
    }

    /// Gives everything away.
    pub fn drain(&self) {
        self.request(AgentRequest::Drain);
    }

    /// Withdraws from the farm at once.
    pub fn leave(&self) {
        self.request(AgentRequest::Leave);
    }

    /// Shards have read all rows of these buckets.
    pub fn buckets_loaded(&self, buckets: Vec<(Bucket, Epoch)>) {
        if !buckets.is_empty() {
            self.shared.report(|reports| reports.loaded.extend(buckets));
        }
    }

    /// No writes of these buckets under these epochs are under way any more.
    pub fn buckets_drained(&self, buckets: Vec<(Bucket, Epoch)>) {
        if !buckets.is_empty() {
            self.shared.report(|reports| reports.drained.extend(buckets));
        }
    }

    /// True while the node may act as an owner, by the lease as it was last renewed: a process that was stopped and runs again may
    /// not, before its agent has looked. `now` is of [`AgentArgs::shard_clock`].
    pub fn may_act(&self, now: Instant) -> bool {
        now.as_micros() < self.shared.authority_ends.load(Ordering::Acquire)
    }

    /// Asks a life of a node to drain, through the council; false if too many requests wait.
    pub fn ask_to_drain(&self, life: Life, node: &str) -> bool {
        self.requests.try_send(AgentRequest::AskToDrain { life, node: node.into() }).is_ok()
    }

    fn request(&self, request: AgentRequest) {
        // A report that finds no room is a hint less; the lease decides.
        let _ = self.requests.try_send(request);
    }
}

async fn run(
    args: AgentArgs,
    mut listener: Box<dyn FarmListener>,
    mut requests: mpsc::Receiver<AgentRequest>,
    shared: &AgentState,
) {
    let AgentArgs { council, member, clock, shard_clock, database } = args;
    let (commands, receiver) = mpsc::channel(COMMANDS);
    let (sender, mut events) = mpsc::channel(EVENTS);
    let announced = member.clone();
    let value = move |life| Bytes::from(Member { life: Life(life), ..announced.clone() }.encode());
    let council = tokio::task::spawn_local(council::run(council, value, receiver, sender));
    if let Some((life, is_council_away)) = join(&mut events, &mut *listener).await {
        listener.joined(life);
        let node = FarmNode::new(clock(), Member { life, ..member }, BUCKETS);
        let mut session = Session::new(clock(), node, commands, listener);
        session.is_council_away = is_council_away;
        session.begin_database(life, database);
        let publish = |session: &Session| shared.publish_authority(session, &*clock, &*shard_clock);
        while !session.has_ended && session.leaves_until.is_none_or(|until| clock() < until) {
            session.tell_drained(clock());
            let wait = session.deadline().since(clock());
            tokio::select! {
                event = events.recv() => match event {
                    Some(event) => session.queue(event),
                    None => break,
                },
                request = requests.recv() => match request {
                    Some(request) => session.handle_request(clock(), request),
                    None => break,
                },
                event = answer(&mut session.database) => match event {
                    Some(event) => session.handle_database(clock(), event),
                    // It has said why before it ended.
                    None => session.database = None,
                },
                // More of them wait; the others have their turn between.
                () = std::future::ready(()), if session.has_events() => {}
                () = shared.has_reports.notified() => session.handle_reports(clock(), shared.take_reports()),
                () = tokio::time::sleep(wait.max(Duration::from_millis(1))) => {}
            }
            read_events(&mut events, &mut session, &*clock, publish).await;
            session.tell_absence(clock());
            session.show_news();
            publish(&session);
        }
        shared.authority_ends.store(0, Ordering::Release);
        // A council that is away forgets the key by its age.
        let _ = session.commands.try_send(CouncilCommand::Withdraw);
    }
    let _ = tokio::time::timeout(Duration::from_secs(1), council).await;
}

/// Does what is due, then gives the machine the news of the council that come next. Due work goes first: there may always be more
/// to read.
async fn read_events(
    events: &mut mpsc::Receiver<CouncilEvent>,
    session: &mut Session,
    clock: &(dyn Fn() -> Instant + Send),
    publish: impl Fn(&Session),
) {
    let queue_all = |session: &mut Session, events: &mut mpsc::Receiver<CouncilEvent>| {
        while let Ok(event) = events.try_recv() {
            session.queue(event);
        }
    };
    queue_all(session, events);
    if session.prepare(clock()) {
        // The renewal goes out before the news are read, and the answer to the one before comes in.
        tokio::task::yield_now().await;
        queue_all(session, events);
        for event in session.take_events() {
            session.handle_event(clock(), event);
            publish(session);
        }
    }
}

/// The next answer of the database; never without one.
async fn answer(database: &mut Option<DatabaseThread>) -> Option<DatabaseEvent> {
    match database {
        Some(database) => database.answer().await,
        None => std::future::pending().await,
    }
}

/// Waits until the council admits the node: its life, and whether the listener still has the council as away.
async fn join(
    events: &mut mpsc::Receiver<CouncilEvent>,
    listener: &mut dyn FarmListener,
) -> Option<(Life, bool)> {
    let mut is_council_away = false;
    while let Some(event) = events.recv().await {
        match event {
            CouncilEvent::Joined { life } => return Some((Life(life), is_council_away)),
            CouncilEvent::Refused(refused) => {
                listener.ended(&FarmEnd::NotAdmitted(refused));
                return None;
            }
            CouncilEvent::Away { reason } => {
                is_council_away = true;
                listener.council(Some(&reason));
            }
            CouncilEvent::Back => {
                is_council_away = false;
                listener.council(None);
            }
            _ => {}
        }
    }
    None
}
