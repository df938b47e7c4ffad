//! The node's part in a farm: joins it before the shards start, tells them of each new view of it, and gives one of them the
//! links to other nodes. A node without `[farm]` has none of this.
//!
//! Three kinds of threads meet here. The agent's (`farm::agent`) speaks with the council and the shared database and calls `Listener`; the
//! shards get its news by their inboxes, the first one has the links (`shard::farm`); the main thread serves operators. What they share is
//! on the `FarmBoard`.

mod board;
mod certificates;
mod database;
pub(crate) mod files;
mod link_socket;
pub(crate) mod plan;
pub(crate) mod requests;
mod seen_members;
pub(crate) mod traces;
pub(crate) mod traffic;

use std::net::TcpListener;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow};
use bytes::Bytes;
use cluster::farm::EndReason;
use cluster::figures::NodeFigures;
use cluster::link::FarmSecret;
use cluster::member::{Member, MemberState};
use cluster::membership::MembershipEffect;
use cluster::{Life, Outlet};
use config::Config;
use control::{Failure, FailureKind};
use farm::agent::{AgentArgs, FarmAgent, FarmEnd, FarmListener};
use farm::council::{CouncilSettings, LifeClock, MEMBER_AGE};
use farm::links::Encryption;
use farm::order::BucketOrder;
use farm::view::FarmView;
use net::clock::Clock;
use stdx::Instant;
use store::Database;

use crate::message::{Command, InboxMessage, LocalMessage};
use crate::shard::StatusBoard;
use crate::waiting::{StartListeners, StartWait};
pub(crate) use board::FarmBoard;
use link_socket::LinkSocket;
use seen_members::SeenMembers;
use traffic::Renewal;

pub(crate) use ::farm::secret::Secret;

/// The exit code of a node that the farm has ended: the supervisor starts it again, with a new life (`sysexits.h`, EX_TEMPFAIL).
const ENDED: i32 = 75;

/// 2026-01-01, from which lives count: no life comes twice even if the council loses its files (`cluster::life_draw`).
const LIVES_FROM: u64 = 1_767_225_600;

/// Microseconds of the clock for each life, so that nodes that start together are hardly ahead of it: enough numbers until 2043.
const LIFE_EVERY: u64 = 125_000;

/// The life of this moment: a node that starts now gets no smaller one.
fn life_at(now: Instant) -> u32 {
    let since = now.as_micros().saturating_sub(LIVES_FROM * 1_000_000);
    u32::try_from(since / LIFE_EVERY).unwrap_or(0)
}

/// Ends the process of a life that is over; the supervisor starts a new one.
pub(crate) fn end_process(end: &FarmEnd) -> ! {
    tracing::error!("{end}");
    // Acknowledged writes are on disk; the other nodes have taken over the rest.
    std::process::exit(ENDED)
}

/// The node's membership of a farm.
pub(crate) struct FarmMembership {
    /// This start of the node.
    pub(crate) life: Life,
    /// The farm's name.
    pub(crate) name: Box<str>,
    /// The node's name.
    pub(crate) node: Box<str>,
    /// The farm's secret.
    pub(crate) secret: Secret,
    /// The nodes share their database.
    pub(crate) shares_database: bool,
    /// The node has no accounts and asks the owners of their addresses, which share a database.
    pub(crate) asks_owners: bool,
    /// The node has no routes either, and takes domains and routes from the nodes that share a database.
    pub(crate) follows_plan: bool,
    encryption: Encryption,
    agent: FarmAgent,
    board: Arc<FarmBoard>,
    /// The listener of links, until the shard that has them takes it.
    listener: Mutex<Option<TcpListener>>,
    /// The agent's thread, until `leave` waits for it.
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The parts of the farm that a shard has.
#[derive(Debug)]
pub(crate) struct ShardFarm {
    pub(crate) agent: FarmAgent,
    /// The board on which the shard with the links puts their figures.
    pub(crate) board: Arc<FarmBoard>,
    /// The view at the shard's start.
    pub(crate) view: Option<Arc<FarmView>>,
    /// For the shard with the links.
    pub(crate) links: Option<ShardLinks>,
    /// The nodes share their database.
    pub(crate) shares_database: bool,
    /// The node has no accounts and asks the owners of their addresses.
    pub(crate) asks_owners: bool,
}

/// The parts of which a shard makes the links.
#[derive(Debug)]
pub(crate) struct ShardLinks {
    pub(crate) farm: Box<str>,
    pub(crate) secret: FarmSecret,
    pub(crate) encryption: Encryption,
    pub(crate) listener: TcpListener,
}

/// The agent's listener, on the agent's thread.
struct Listener {
    board: Arc<FarmBoard>,
    /// The outcome of the attempt to join, which `FarmMembership::join` waits for; used once.
    joined: SyncSender<Result<Life, FarmEnd>>,
    /// Set by `joined`: the end of a member ends the process, that of an attempt only the start.
    is_member: bool,
    clock: Clock,
    /// The clock and the processor time of the process at the last renewal, in microseconds.
    measured: (u64, u64),
    seen: SeenMembers,
}

impl FarmListener for Listener {
    fn joined(&mut self, life: Life) {
        self.is_member = true;
        // The starter waits for it, or has given up and ends.
        let _ = self.joined.send(Ok(life));
    }

    fn view(&mut self, view: Arc<FarmView>) {
        let mut state = self.board.lock();
        // The table has only live nodes, so it does not grow with restarts.
        state.renewals.retain(|life, _| view.peers.contains_key(life));
        state.view = Some(Arc::clone(&view));
        for outlet in &state.outlets {
            outlet.answer_all(&mut vec![LocalMessage::Farm(Arc::clone(&view)).into()]);
        }
    }

    fn buckets(&mut self, shard: u16, orders: Vec<BucketOrder>) {
        let mut state = self.board.lock();
        // The shards are made after the node has joined; orders that come before wait for them.
        if state.outlets.is_empty() {
            state.orders.push((shard, orders));
        } else {
            state.order(shard, orders);
        }
    }

    fn own_figures(&mut self) -> NodeFigures {
        let (now, used) = (self.clock.now().as_micros(), process_time());
        let (before, used_before) = std::mem::replace(&mut self.measured, (now, used));
        // At least one: two renewals within a microsecond must not divide by zero.
        let passed = now.saturating_sub(before).max(1);
        let shards = self.board.lock().shards.clone();
        let shards = shards.map(|board| board.shards()).unwrap_or_default();
        let sum = |of: fn(&crate::shard::ShardStatus) -> u64| {
            u32::try_from(shards.iter().map(of).sum::<u64>()).unwrap_or(u32::MAX)
        };
        NodeFigures {
            calls: sum(|shard| shard.calls.live as u64),
            bindings: sum(|shard| shard.router.bindings as u64),
            sessions: sum(|shard| shard.xmpp.sessions),
            cpu_permille: u32::try_from(used.saturating_sub(used_before).saturating_mul(1_000) / passed)
                .unwrap_or(u32::MAX),
        }
    }

    fn renewed(&mut self) {
        self.board.lock().renewed_at = Some(self.clock.now());
    }

    fn node_renewed(&mut self, life: Life, figures: Option<NodeFigures>) {
        let mut state = self.board.lock();
        // The council may still show keys of lives that are over.
        if state.view.as_ref().is_some_and(|view| view.peers.contains_key(&life)) {
            state.renewals.insert(life, Renewal { seen_at: self.clock.now(), figures });
        }
    }

    fn council(&mut self, away: Option<&str>) {
        match away {
            Some(reason) if !self.is_member => {
                tracing::warn!(
                    reason,
                    "the farm's council does not answer: the node takes no calls until it has joined; check [farm] council, and that NATS \
                     runs there"
                );
            }
            Some(reason) => {
                tracing::warn!(
                    reason,
                    "the farm's council is away: calls go on, and no node takes over from another until it is back"
                );
            }
            None => tracing::info!("the farm's council is back"),
        }
        self.board.lock().away = away.map(Into::into);
    }

    fn member(&mut self, news: &MembershipEffect) {
        if !self.seen.handle(news) {
            return;
        }
        match news {
            MembershipEffect::Joined(life) => tracing::info!(%life, "a node has joined the farm"),
            MembershipEffect::Left(life) => tracing::info!(%life, "a node has left the farm"),
            MembershipEffect::Died(life) => tracing::warn!(%life, "a node of the farm is dead"),
            MembershipEffect::Refused(life, refusal) => {
                tracing::warn!(%life, %refusal, "a node is not accepted");
            }
            MembershipEffect::Suspected(_)
            | MembershipEffect::Recovered(_)
            | MembershipEffect::Missing(_)
            | MembershipEffect::Changed(_)
            | MembershipEffect::Ask(_) => {}
        }
    }

    fn drained(&mut self) {
        tracing::info!("the node has given all call slots and buckets to other nodes");
        let mut state = self.board.lock();
        state.has_given_all = true;
        for outlet in &state.outlets {
            outlet.answer_all(&mut vec![LocalMessage::Command(Command::Drain).into()]);
        }
    }

    fn drain_asked(&mut self) {
        let mut state = self.board.lock();
        if !std::mem::replace(&mut state.is_asked_to_drain, true) {
            tracing::info!("another node of the farm asks this one to drain");
        }
    }

    fn ended(&mut self, end: &FarmEnd) {
        if !self.is_member {
            // As above.
            let _ = self.joined.send(Err(end.clone()));
        } else if *end != FarmEnd::Ended(EndReason::Left) {
            end_process(end);
        }
    }
}

impl FarmMembership {
    /// Joins the farm of the configuration, if there is one: returns when the council has admitted the node, and the database that
    /// nodes share knows the life. Until then operators that ask at `listeners` are told so.
    ///
    /// # Errors
    /// In words for the operator: a file, an address, or the reason of a refusal.
    pub(crate) fn join(
        config: &Config,
        database: &Database,
        clock: Clock,
        listeners: StartListeners,
    ) -> Result<Option<FarmMembership>> {
        let Some(name) = config.farm.name.clone() else { return Ok(None) };
        let file = config.farm.secret.clone().context("[farm] has no secret")?;
        let secret = Secret::read(&file)?;
        let node = node_name(config)?;
        logging::set_node(&node, None);
        let explained = || format!("cannot listen at {} for links; check [farm] listen", config.farm.listen);
        // Bound before the node joins, so that an address in use is found before others know the node; it
        // listens only afterwards.
        let socket = LinkSocket::bind(config.farm.listen).with_context(explained)?;
        let shares_database = config.shares_database();
        let asks_owners = database::asks_owners(config, database)?;
        let follows_plan = asks_owners && database::follows_plan(database)?;
        let board = Arc::new(FarmBoard::default());
        let (joined, receiver) = sync_channel(1);
        let args = AgentArgs {
            council: council(config, &name, &secret, clock)?,
            member: member(config, &name)?,
            clock: Box::new(move || clock.with_sleep()),
            shard_clock: Box::new(move || clock.now()),
            database: shares_database.then(|| database::open(database.clone(), node.clone())),
        };
        let measured = (clock.now().as_micros(), process_time());
        let seen = SeenMembers::default();
        let events = Listener { board: Arc::clone(&board), joined, is_member: false, clock, measured, seen };
        let (agent, thread) = FarmAgent::start(args, Box::new(events)).context("the farm's thread")?;
        // Every later step needs the life: the fence, the addresses of shards, the keys of links.
        let life = wait(&receiver, config, &board, listeners)?;
        if shares_database {
            database::join(database, life, &node)?;
        }
        let listener = socket.listen().with_context(explained)?;
        logging::set_node(&node, Some(life));
        tracing::info!(farm = %name, %life, "the node has joined the farm");
        let listener = Mutex::new(Some(listener));
        Ok(Some(FarmMembership {
            life,
            name,
            node,
            secret,
            shares_database,
            asks_owners,
            follows_plan,
            encryption: config.farm.encryption,
            agent,
            board,
            listener,
            thread: Mutex::new(Some(thread)),
        }))
    }

    /// The parts of one shard; the first has the links.
    pub(crate) fn shard(&self, number: usize) -> ShardFarm {
        // Links have one place: each node has one connection for each lane to every other one.
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner).take_if(|_| number == 0);
        let links = listener.map(|listener| ShardLinks {
            farm: self.name.clone(),
            secret: self.secret.for_links(),
            encryption: self.encryption,
            listener,
        });
        let board = Arc::clone(&self.board);
        let (agent, view) = (self.agent.clone(), self.board.view());
        let (shares_database, asks_owners) = (self.shares_database, self.asks_owners);
        ShardFarm { agent, board, view, links, shares_database, asks_owners }
    }

    /// The key of sign-ins at an OpenID provider that are under way: a browser may come back to another node.
    pub(crate) fn key_of_sign_ins(&self) -> [u8; 32] {
        self.secret.derive("sign-ins")
    }

    /// These shards hear of each new view from now on.
    pub(crate) fn tell(&self, outlets: &[Outlet<InboxMessage>]) {
        let mut state = self.board.lock();
        state.outlets = outlets.to_vec();
        if let Some(view) = &state.view {
            for outlet in &state.outlets {
                outlet.answer_all(&mut vec![LocalMessage::Farm(Arc::clone(view)).into()]);
            }
        }
        // After the view, by which the shard understands them.
        for (shard, orders) in std::mem::take(&mut state.orders) {
            state.order(shard, orders);
        }
    }

    /// True for one node of those that share a database: the owner of the first bucket deletes old rows for all.
    pub(crate) fn keeps_house(&self) -> bool {
        self.board.keeps_house(self.shares_database)
    }

    /// The node announces the figures of these shards from now on.
    pub(crate) fn announce_figures(&self, shards: &Arc<StatusBoard>) {
        self.board.lock().shards = Some(Arc::clone(shards));
    }

    /// The farm as the node knows it now.
    pub(crate) fn board(&self) -> &FarmBoard {
        &self.board
    }

    /// The way to ask the other nodes.
    pub(crate) fn requester(&self) -> requests::FarmRequester {
        requests::FarmRequester::new(self.life, Arc::clone(&self.board), self.shares_database)
    }

    /// The way to read the files of other nodes.
    pub(crate) fn files(&self) -> files::NodeFiles {
        files::NodeFiles::new(self.life, self.node.clone(), Arc::clone(&self.board))
    }

    /// The board, for a thread that keeps it.
    pub(crate) fn board_of_shards(&self) -> Arc<FarmBoard> {
        Arc::clone(&self.board)
    }

    /// Gives call slots and buckets to other nodes; the shards drain when that is done. False: there is no other node to take
    /// them, or no council to agree with it.
    pub(crate) fn drain(&self) -> bool {
        let is_possible = {
            let state = self.board.lock();
            let others = state.view.as_ref().map_or(0, |view| view.peers.len().saturating_sub(1));
            state.away.is_none() && others > 0
        };
        if is_possible {
            self.agent.drain();
        } else {
            self.board.lock().has_given_all = true;
        }
        is_possible
    }

    /// True once another node has asked this one to drain.
    pub(crate) fn is_asked_to_drain(&self) -> bool {
        self.board.lock().is_asked_to_drain
    }

    /// Asks the node of this name to drain.
    ///
    /// # Errors
    /// There is no such node, it drains already, or the council is away.
    pub(crate) fn drain_node(&self, name: &str) -> Result<(), Failure> {
        let (view, away) = {
            let state = self.board.lock();
            (state.view.clone(), state.away.clone())
        };
        if let Some(reason) = away {
            let message = format!("the council is away ({reason}); use belfry drain at the node itself");
            return Err(Failure::new(FailureKind::Busy, message));
        }
        let peers = || view.iter().flat_map(|view| &view.peers);
        // Of two lives of one name the older one ends.
        let Some((life, peer)) = peers().rfind(|(_, peer)| *peer.name == *name) else {
            let names: Vec<&str> = peers().map(|(_, peer)| &*peer.name).collect();
            let message = format!("there is no node {name} in the farm; it has {}", names.join(", "));
            return Err(Failure::new(FailureKind::NotFound, message));
        };
        if matches!(peer.state, MemberState::Draining | MemberState::Left) {
            return Err(Failure::new(FailureKind::Invalid, format!("the node {name} is draining already")));
        }
        if self.agent.ask_to_drain(*life, name) {
            tracing::info!(node = name, %life, "a node of the farm is asked to drain");
            return Ok(());
        }
        Err(Failure::new(FailureKind::Busy, "the node has too much to do; try again"))
    }

    /// True once a drain has given everything away.
    pub(crate) fn has_given_all(&self) -> bool {
        self.board.lock().has_given_all
    }

    /// Leaves the farm; waits a second or two for the council to know it.
    pub(crate) fn leave(&self) {
        self.agent.leave();
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // A panic there has been printed.
            let _ = thread.join();
        }
    }
}

/// Waits for the council's word. It may be away at first: the node says so and goes on trying, until a signal ends it.
fn wait(
    joined: &Receiver<Result<Life, FarmEnd>>,
    config: &Config,
    board: &Arc<FarmBoard>,
    listeners: StartListeners,
) -> Result<Life> {
    let (at, board) = (servers(config).join(" "), Arc::clone(board));
    let reason = move || {
        let away = board.away().map(|why| format!(" ({why})")).unwrap_or_default();
        format!(
            "the node waits for the farm's council at {at}{away}, and serves nothing before it has joined; check [farm] council, and that \
             NATS runs there"
        )
    };
    let _wait = StartWait::begin(listeners, "the farm's council", Arc::new(reason))
        .context("the thread that answers during the start")?;
    match joined.recv() {
        Ok(Ok(life)) => Ok(life),
        Ok(Err(end)) => Err(anyhow!("the node cannot join the farm: {end}")),
        Err(_) => Err(anyhow!("the farm's thread ended; the council is at {:?}", servers(config))),
    }
}

/// The council's servers without passwords.
fn servers(config: &Config) -> Vec<&str> {
    config.farm.council.iter().map(|url| url.rsplit('@').next().unwrap_or(url)).collect()
}

fn council(config: &Config, name: &str, secret: &Secret, clock: Clock) -> Result<CouncilSettings> {
    let farm = &config.farm;
    Ok(CouncilSettings {
        servers: farm.council.iter().map(ToString::to_string).collect(),
        farm: name.into(),
        node: node_name(config)?,
        credentials: farm.credentials.clone(),
        authorities: farm.authorities.clone(),
        replicas: farm.replicas as usize,
        member_age: MEMBER_AGE,
        proof: Bytes::copy_from_slice(&secret.derive("council")),
        clock: LifeClock(Arc::new(move || life_at(clock.now()))),
    })
}

/// The configured name, else the machine's; with its number, if it is one of several processes.
fn node_name(config: &Config) -> Result<Box<str>> {
    let name = machine_name(config)?;
    Ok(config.process.map_or(name.clone(), |process| format!("{name}-{}", process.number()).into()))
}

fn machine_name(config: &Config) -> Result<Box<str>> {
    if let Some(name) = &config.farm.node {
        return Ok(name.clone());
    }
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = host.trim().split('.').next().unwrap_or_default().to_owned();
    if name.is_empty() {
        return Err(anyhow!("the machine has no host name: name the node with [farm] node"));
    }
    Ok(name.into())
}

/// The node as it introduces itself to the council, which gives it its life.
fn member(config: &Config, name: &str) -> Result<Member> {
    let farm = &config.farm;
    Ok(Member {
        life: Life(0),
        farm: name.into(),
        name: node_name(config)?,
        roles: farm.roles,
        // The configuration allows at most 10,000.
        weight: u16::try_from(farm.weight).unwrap_or(u16::MAX),
        address: farm.advertise.unwrap_or(farm.listen).to_string().into(),
        shards: config.server.shards,
        build: env!("CARGO_PKG_VERSION").into(),
        wire: cluster::link::WIRE,
        state: MemberState::Joining,
        renewal: 0,
    })
}

/// Processor time of the process, in microseconds.
fn process_time() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let of = |number: i64| u64::try_from(number).unwrap_or(0);
    of(time.tv_sec) * 1_000_000 + of(time.tv_nsec) / 1_000
}
