//! A farm in virtual time: real cores of `cluster` on nodes with clocks of their own, a council that may be late, forgetful or
//! away, a database with a fence, and connections that are cut in one direction or both. The world keeps the farm's promises
//! in a [`Ledger`] and breaks off at the first that is not kept.

pub mod clock;
pub mod council;
pub mod database;
pub mod ledger;
pub mod lost_files;
pub mod network;
pub mod process;
pub mod slow;
mod weather;

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::farm::EndReason;
use cluster::link::Lane;
use cluster::member::{Member, MemberState, Roles};
use cluster::{Bucket, Life};
use stdx::Instant;
use stdx::rng::Rng;

use clock::DriftingClock;
use council::{Council, CouncilAnswer, CouncilRequest};
use database::{Database, DatabaseAnswer, DatabaseRequest, WriteId};
use ledger::Ledger;
use network::{Connections, Delivery, End, NodeNumber};
use process::{ConnectionNumber, Input, Output, Process};

pub use weather::Weather;

/// Buckets of a simulated farm: enough for shares and moves, few enough for many seeds.
pub const BUCKETS: u16 = 16;

/// Events of one run, far above any that comes to rest.
const STEPS: u64 = 2_000_000;
/// The time that a supervisor waits before it starts a node again.
const RESTART: Duration = Duration::from_secs(1);

/// One node over all its lives.
struct SimNode {
    name: Box<str>,
    roles: Roles,
    clock: DriftingClock,
    process: Option<Process>,
    /// The time at which the process was stopped (SIGSTOP), and the inputs since.
    paused: Option<Instant>,
    backlog: Vec<Input>,
    slow: Option<slow::SlowNode>,
    wake_at: Option<Instant>,
    is_council_cut: bool,
    /// The node's watch of the council shows no changes: it is of keys that were lost.
    is_watch_deaf: bool,
    is_database_cut: bool,
}

enum Event {
    Wake(NodeNumber, Life),
    Start(NodeNumber),
    Input(NodeNumber, Life, Input),
    Bytes(NodeNumber, Life, Input, ConnectionNumber),
    Turn(NodeNumber, Life),
    ToCouncil(NodeNumber, Life, CouncilRequest),
    ToDatabase(NodeNumber, Life, DatabaseRequest),
    Dial(End, Life, Lane),
    Probe(End, Life),
    ExpireKeys,
}

/// A farm of several nodes.
pub struct FarmWorld {
    now: Instant,
    agenda: BTreeMap<(Instant, u64), Event>,
    sequence: u64,
    nodes: Vec<SimNode>,
    connections: Connections,
    /// The council.
    pub council: Council,
    /// The database.
    pub database: Database,
    /// The promises.
    pub ledger: Ledger,
    /// The delays and losses on the ways to council and database.
    pub weather: Weather,
    /// For the test's own random choices.
    pub rng: Rng,
    next_id: u64,
    /// The reasons for which processes have ended.
    pub ends: Vec<(Life, EndReason)>,
}

impl FarmWorld {
    /// A farm of nodes with these roles, which all start within a second. Clocks are wrong by up to five minutes and gain or lose
    /// up to 1 %.
    pub fn new(seed: u64, roles: &[Roles]) -> FarmWorld {
        let mut rng = Rng::seeded(seed);
        let now = Instant::from_unix_seconds(1_800_000_000);
        let mut world = FarmWorld {
            now,
            agenda: BTreeMap::new(),
            sequence: 0,
            nodes: Vec::new(),
            connections: Connections::default(),
            council: Council::default(),
            database: Database::default(),
            ledger: Ledger::default(),
            weather: Weather::FAIR,
            rng: rng.fork(),
            next_id: 0,
            ends: Vec::new(),
        };
        for (number, roles) in roles.iter().enumerate() {
            let offset = Duration::from_millis(rng.below(300_000));
            let drift = rng.below(20_000) as i64 - 10_000;
            let clock = DriftingClock::new(now, offset, drift);
            world.nodes.push(SimNode::new(number, *roles, clock));
            let delay = Duration::from_millis(rng.below(1_000));
            world.schedule(now + delay, Event::Start(number));
        }
        world.schedule(now, Event::ExpireKeys);
        world
    }

    /// The time that no node knows.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The number of nodes.
    pub fn size(&self) -> usize {
        self.nodes.len()
    }

    /// Runs for so long, and breaks off at the first promise that is broken.
    pub fn run_for(&mut self, duration: Duration) {
        let until = self.now + duration;
        while let Some((&(at, _), _)) = self.agenda.first_key_value() {
            if at > until {
                break;
            }
            self.now = at;
            let (_, event) = self.agenda.pop_first().expect("it was seen");
            self.perform(event);
            assert!(self.sequence < STEPS, "the farm does not come to rest");
            assert_eq!(self.ledger.faults, Vec::<String>::new());
            assert_eq!(self.database.fault, None);
        }
        self.now = until;
    }

    /// The process of a node, if it runs.
    pub fn process(&self, node: NodeNumber) -> Option<&Process> {
        self.nodes[node].process.as_ref()
    }

    /// The time that a node's clock shows.
    pub fn local(&self, node: NodeNumber) -> Instant {
        self.nodes[node].clock.local(self.now)
    }

    /// A client writes a row in the bucket through a node. Returns the row's number.
    pub fn write(&mut self, node: NodeNumber, bucket: Bucket) -> WriteId {
        self.next_id += 1;
        self.ledger.offer(self.next_id, bucket);
        self.input(node, Input::Write { id: self.next_id, bucket });
        self.next_id
    }

    /// A node sends a chat message to the process that another node has now.
    pub fn chat(&mut self, from: NodeNumber, to: NodeNumber) {
        let Some(to) = self.nodes[to].process.as_ref().map(|process| process.life) else { return };
        self.next_id += 1;
        self.input(from, Input::Chat { id: self.next_id, to });
    }

    /// The operator drains a node. It starts again when it has left.
    pub fn leave(&mut self, node: NodeNumber) {
        self.input(node, Input::Leave);
    }

    /// Kills a process (SIGKILL); the node starts again after a while.
    pub fn kill(&mut self, node: NodeNumber, restart: Duration) {
        if self.nodes[node].process.is_some() {
            self.end(node, restart);
        }
    }

    /// Stops a process (SIGSTOP).
    pub fn pause(&mut self, node: NodeNumber) {
        let now = self.now;
        self.nodes[node].paused.get_or_insert(now);
    }

    /// Lets a stopped process go on. It finishes what it was about to do with the time of before.
    pub fn resume(&mut self, node: NodeNumber) {
        let Some(since) = self.nodes[node].paused.take() else { return };
        let before = self.nodes[node].clock.local(since);
        for (place, input) in std::mem::take(&mut self.nodes[node].backlog).into_iter().enumerate() {
            let now = if place == 0 { before } else { self.local(node) };
            self.handle(node, now, input);
        }
        let now = self.local(node);
        self.handle(node, now, Input::Expire);
    }

    /// Cuts the way between two nodes in this direction.
    pub fn cut(&mut self, from: NodeNumber, to: NodeNumber) {
        self.connections.cut(from, to);
    }

    /// Heals the way in this direction.
    pub fn heal(&mut self, from: NodeNumber, to: NodeNumber) {
        let arrival = self.now + self.delay(20);
        for (connection, delivery) in self.connections.heal(from, to, arrival) {
            self.deliver(connection, delivery);
        }
    }

    /// Cuts or heals the way between a node and the council.
    pub fn set_council_cut(&mut self, node: NodeNumber, is_cut: bool) {
        self.nodes[node].is_council_cut = is_cut;
    }

    /// Cuts or heals the way between a node and the database. Each ends the connection that there was.
    pub fn set_database_cut(&mut self, node: NodeNumber, is_cut: bool) {
        if std::mem::replace(&mut self.nodes[node].is_database_cut, is_cut) != is_cut {
            self.input(node, Input::Database(DatabaseAnswer::Lost));
        }
    }

    /// The council forgets its members, its map or both.
    pub fn forget(&mut self, members: bool, map: bool) {
        let mut notices = Vec::new();
        if members {
            self.council.forget_members(&mut notices);
        }
        if map {
            self.council.forget_map();
        }
        self.notify(&notices);
    }

    /// Ends all faults.
    pub fn clear_up(&mut self) {
        self.weather = Weather::FAIR;
        self.council.is_stale = false;
        for (from, to) in self.connections.cuts() {
            self.heal(from, to);
        }
        for node in 0..self.nodes.len() {
            self.set_council_cut(node, false);
            self.set_database_cut(node, false);
            self.resume(node);
            if self.nodes[node].is_watch_deaf {
                lost_files::return_node(self, node, true);
            }
        }
    }

    /// The buckets that no process serves, or not the one that database and maps name.
    pub fn unserved(&self) -> Vec<u16> {
        let buckets = (0..BUCKETS).filter_map(Bucket::with_number);
        buckets.filter(|bucket| !self.is_served(*bucket)).map(Bucket::number).collect()
    }

    fn is_served(&self, bucket: Bucket) -> bool {
        let (holder, epoch) = self.database.holder(bucket);
        let processes = || self.nodes.iter().filter_map(|node| Some((node.process.as_ref()?, node.clock)));
        let serving: Vec<_> = processes()
            .filter_map(|(process, clock)| {
                Some((process.life, process.farm.serves(clock.local(self.now), bucket)?))
            })
            .collect();
        let agree = processes().all(|(process, _)| process.farm.map().owner(bucket).owner == holder);
        agree
            && serving == holder.map(|holder| (holder.life, epoch)).into_iter().collect::<Vec<_>>()
            && !serving.is_empty()
    }

    /// Acknowledged rows that the database or the owner's memory does not have.
    pub fn lost_rows(&self) -> Vec<WriteId> {
        let is_in_memory = |id, bucket| {
            let mut served = (0..self.nodes.len()).filter_map(|node| {
                let process = self.nodes[node].process.as_ref()?;
                process.served_rows(self.local(node), bucket)
            });
            served.next().is_some_and(|rows| rows.contains(&id))
        };
        let is_there = |id, bucket| self.database.rows(bucket).contains(&id) && is_in_memory(id, bucket);
        self.ledger.acknowledged().filter(|(id, bucket)| !is_there(*id, *bucket)).map(|(id, _)| id).collect()
    }

    /// The leftovers in processes and council.
    pub fn leftovers(&self) -> Vec<String> {
        let mut out = Vec::new();
        for node in &self.nodes {
            let Some(process) = &node.process else {
                out.push(format!("{} does not run", node.name));
                continue;
            };
            out.extend(process.leftovers().into_iter().map(|one| format!("{}: {one}", node.name)));
            if process.farm.own().state != MemberState::Serving {
                out.push(format!("{}: {:?}", node.name, process.farm.own().state));
            }
        }
        let running: Vec<Life> =
            self.nodes.iter().filter_map(|node| Some(node.process.as_ref()?.life)).collect();
        out.extend(
            self.council.members().filter(|life| !running.contains(life)).map(|life| format!("key {life}")),
        );
        out
    }

    fn schedule(&mut self, at: Instant, event: Event) {
        self.sequence += 1;
        self.agenda.insert((at.max(self.now), self.sequence), event);
    }

    /// A way of at least a quarter of a millisecond.
    fn delay(&mut self, longest: u64) -> Duration {
        Duration::from_micros(250 + self.rng.below(longest * 1_000))
    }

    fn perform(&mut self, event: Event) {
        match event {
            Event::Wake(node, life) => {
                if self.nodes[node].wake_at.is_some_and(|at| at <= self.now) {
                    self.nodes[node].wake_at = None;
                }
                self.input_of(node, life, Input::Expire);
            }
            Event::Start(node) => self.start(node),
            Event::Input(node, life, input) => self.input_of(node, life, input),
            Event::Bytes(node, life, input, connection) => {
                if self.connections.get(connection).is_some() {
                    self.input_of(node, life, input);
                }
            }
            Event::ToCouncil(node, life, request) => self.ask_council(node, life, request),
            Event::ToDatabase(node, life, request) => self.ask_database(node, life, request),
            Event::Dial(from, peer, lane) => self.dial(from, peer, lane),
            Event::Turn(node, life) => slow::take_turn(self, node, life),
            Event::Probe(from, peer) if self.place_of(peer).is_none() => self.refuse(from, peer),
            Event::Probe(..) => {}
            Event::ExpireKeys => {
                let mut notices = Vec::new();
                self.council.expire(self.now, &mut notices);
                self.notify(&notices);
                self.schedule(self.now + Duration::from_millis(100), Event::ExpireKeys);
            }
        }
    }

    fn start(&mut self, node: NodeNumber) {
        if self.nodes[node].process.is_some() {
            return;
        }
        let (life, now) = (self.council.next_life(), self.local(node));
        let one = &mut self.nodes[node];
        one.process = Some(Process::new(now, one.member(life), BUCKETS));
        one.is_watch_deaf = false;
        self.input(node, Input::Expire);
    }

    /// The process ends: its peers' kernels tell them, unless the way is cut.
    fn end(&mut self, node: NodeNumber, restart: Duration) {
        let Some(process) = self.nodes[node].process.take() else { return };
        self.ledger.end(process.life);
        let one = &mut self.nodes[node];
        (one.paused, one.wake_at, one.slow) = (None, None, None);
        one.backlog.clear();
        for connection in self.connections.of(process.life) {
            self.close(connection, process.life);
        }
        self.schedule(self.now + restart, Event::Start(node));
    }

    fn input(&mut self, node: NodeNumber, input: Input) {
        let Some(life) = self.nodes[node].process.as_ref().map(|process| process.life) else { return };
        self.input_of(node, life, input);
    }

    fn input_of(&mut self, node: NodeNumber, life: Life, input: Input) {
        let one = &mut self.nodes[node];
        if one.process.as_ref().is_none_or(|process| process.life != life) {
            return;
        }
        if one.paused.is_some() {
            // Timers of a stopped process do not add up.
            if !matches!(input, Input::Expire) {
                one.backlog.push(input);
            }
            return;
        }
        if let Some(input) = slow::defer(self, node, life, input) {
            let now = self.local(node);
            self.handle(node, now, input);
        }
    }

    fn handle(&mut self, node: NodeNumber, now: Instant, input: Input) {
        let Some(process) = &mut self.nodes[node].process else { return };
        let (life, mut out) = (process.life, Vec::new());
        process.handle(now, input, &mut out);
        for output in out {
            self.perform_output(node, life, output);
        }
        self.schedule_wake(node);
    }

    fn schedule_wake(&mut self, node: NodeNumber) {
        let one = &mut self.nodes[node];
        let Some(process) = &one.process else { return };
        let (life, deadline) = (process.life, process.deadline());
        if deadline == Instant::FAR_FUTURE {
            return;
        }
        let at = one.clock.global(deadline).max(self.now + Duration::from_millis(1));
        if one.wake_at.is_none_or(|wake_at| at < wake_at) {
            one.wake_at = Some(at);
            self.schedule(at, Event::Wake(node, life));
        }
    }

    fn perform_output(&mut self, node: NodeNumber, life: Life, output: Output) {
        match output {
            Output::Council(request) => {
                let at = self.now + self.delay(self.weather.council_delay);
                self.schedule(at, Event::ToCouncil(node, life, request));
            }
            Output::Database(request) => {
                let at = self.now + self.delay(self.weather.database_delay);
                self.schedule(at, Event::ToDatabase(node, life, request));
            }
            Output::Dial { peer, lane } => {
                let at = self.now + self.delay(20);
                self.schedule(at, Event::Dial(End { node, life }, peer, lane));
            }
            Output::Probe { peer } => {
                let at = self.now + self.delay(20);
                self.schedule(at, Event::Probe(End { node, life }, peer));
            }
            Output::Close { connection } => self.close(connection, life),
            Output::Bytes { connection, bytes } => {
                let arrival = self.now + self.delay(20);
                if let Some(delivery) = self.connections.send(connection, life, arrival, bytes) {
                    self.deliver(connection, delivery);
                }
            }
            Output::Acknowledged(id) => self.ledger.acknowledge(id),
            Output::Serves { bucket, epoch } => self.ledger.serves(life, bucket, epoch),
            Output::ChatSent { id, to } => self.ledger.chat_sent(id, life, to),
            Output::ChatDelivered { id, from } => self.ledger.chat_delivered(id, from, life),
            Output::ChatReturned { id } => self.ledger.chat_returned(id),
            Output::End(reason) => {
                self.ends.push((life, reason));
                self.end(node, RESTART);
            }
        }
    }

    fn deliver(&mut self, connection: ConnectionNumber, delivery: Delivery) {
        let Delivery { at, to, peer, lane, bytes } = delivery;
        let input = Input::Bytes { peer, lane, connection, bytes };
        self.schedule(at, Event::Bytes(to.node, to.life, input, connection));
    }

    /// One end closes a connection. The other is told unless the way is cut.
    fn close(&mut self, number: ConnectionNumber, by: Life) {
        let Some(connection) = self.connections.close(number) else { return };
        let [first, second] = connection.ends;
        let (from, to) = if first.life == by { (first, second) } else { (second, first) };
        if self.connections.is_open(from.node, to.node) {
            let at = self.now + self.delay(20);
            let input = Input::Closed { peer: from.life, lane: connection.lane, connection: number };
            self.schedule(at, Event::Input(to.node, to.life, input));
        }
    }

    /// A connection is opened if both directions are open and the process runs; refused if it does not.
    fn dial(&mut self, from: End, peer: Life, lane: Lane) {
        if self.place_of(from.life).is_none() {
            return;
        }
        let Some(to) = self.place_of(peer) else { return self.refuse(from, peer) };
        let is_open = self.connections.is_open(from.node, to) && self.connections.is_open(to, from.node);
        if !is_open || self.nodes[to].paused.is_some() {
            return;
        }
        let ends = [from, End { node: to, life: peer }];
        let connection = self.connections.open(self.now, ends, lane);
        for (place, end) in ends.into_iter().enumerate() {
            let input = Input::Connected { peer: ends[1 - place].life, lane, connection };
            self.input_of(end.node, end.life, input);
        }
    }

    /// The node where a life runs.
    fn place_of(&self, life: Life) -> Option<NodeNumber> {
        let runs = |node: &SimNode| node.process.as_ref().is_some_and(|process| process.life == life);
        self.nodes.iter().position(runs)
    }

    /// The host of a life that has ended is up and says so.
    fn refuse(&mut self, from: End, peer: Life) {
        let at = self.now + self.delay(20);
        self.schedule(at, Event::Input(from.node, from.life, Input::ConnectionRefused { peer }));
    }

    fn ask_council(&mut self, node: NodeNumber, life: Life, request: CouncilRequest) {
        if self.weather.is_council_away || self.nodes[node].is_council_cut {
            return;
        }
        let (mut answers, mut notices) = (Vec::new(), Vec::new());
        self.council.handle(self.now, request, &mut answers, &mut notices);
        // The answers of one request come in their order.
        let is_lost = self.rng.chance(self.weather.lost_answers);
        let at = self.now + self.delay(self.weather.council_delay);
        for answer in answers.into_iter().filter(|_| !is_lost) {
            self.schedule(at, Event::Input(node, life, Input::Council(answer)));
        }
        self.notify(&notices);
    }

    /// Tells all nodes that the council reaches.
    fn notify(&mut self, notices: &[CouncilAnswer]) {
        for node in 0..self.nodes.len() {
            let one = &self.nodes[node];
            let Some(life) = one.process.as_ref().map(|process| process.life) else { continue };
            if self.weather.is_council_away || one.is_council_cut || one.is_watch_deaf {
                continue;
            }
            for notice in notices {
                let is_lost = self.rng.chance(self.weather.lost_answers);
                let at = self.now + self.delay(self.weather.council_delay);
                if !is_lost {
                    self.schedule(at, Event::Input(node, life, Input::Council(notice.clone())));
                }
            }
        }
    }

    /// The database performs what reaches it. A cut loses the answer as well as the question.
    fn ask_database(&mut self, node: NodeNumber, life: Life, request: DatabaseRequest) {
        if self.nodes[node].is_database_cut && self.rng.chance(500) {
            return;
        }
        let mut answers = Vec::new();
        let fenced = self.database.handle(life, request, &mut answers);
        let at = self.now + self.delay(self.weather.database_delay);
        for answer in answers {
            if !self.nodes[node].is_database_cut {
                self.schedule(at, Event::Input(node, life, Input::Database(answer)));
            }
        }
        // As `pg_terminate_backend`: the fenced lose their connections.
        for other in fenced {
            for node in 0..self.nodes.len() {
                self.schedule(at, Event::Input(node, other, Input::Database(DatabaseAnswer::Lost)));
            }
        }
    }
}

impl SimNode {
    fn new(number: NodeNumber, roles: Roles, clock: DriftingClock) -> SimNode {
        SimNode {
            name: format!("node{number}").into(),
            roles,
            clock,
            process: None,
            paused: None,
            backlog: Vec::new(),
            slow: None,
            wake_at: None,
            is_council_cut: false,
            is_watch_deaf: false,
            is_database_cut: false,
        }
    }

    fn member(&self, life: Life) -> Member {
        Member {
            life,
            farm: "farm".into(),
            name: self.name.clone(),
            roles: self.roles,
            weight: 1,
            address: "192.0.2.1:5280".into(),
            shards: 1,
            build: "test".into(),
            wire: (1, 1),
            state: MemberState::Joining,
            renewal: 0,
        }
    }
}
