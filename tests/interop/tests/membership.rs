//! Nodes of a farm agree on members and map through real NATS.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cluster::Life;
use cluster::farm::EndReason;
use cluster::member::{Member, MemberState, Roles};
use cluster::membership::{MembershipEffect, Refusal};
use farm::agent::{AgentArgs, FarmAgent, FarmEnd, FarmListener};
use farm::council::{CouncilSettings, LifeClock, MEMBER_AGE};
use farm::view::FarmView;
use interop::{Nats, NatsRelease, TcpWay};
use stdx::Instant;

const LONGEST: Duration = Duration::from_secs(40);

/// A node's agent, its newest view and its end.
struct Node {
    agent: FarmAgent,
    view: Arc<Mutex<Option<Arc<FarmView>>>>,
    /// The reason of the council's absence.
    away: Arc<Mutex<Option<String>>>,
    ends: Receiver<FarmEnd>,
}

struct Listener {
    view: Arc<Mutex<Option<Arc<FarmView>>>>,
    away: Arc<Mutex<Option<String>>>,
    ends: SyncSender<FarmEnd>,
}

impl FarmListener for Listener {
    fn joined(&mut self, _life: Life) {}
    fn view(&mut self, view: Arc<FarmView>) {
        *self.view.lock().expect("no test panics with it") = Some(view);
    }
    fn council(&mut self, away: Option<&str>) {
        *self.away.lock().expect("no test panics with it") = away.map(ToOwned::to_owned);
    }
    fn member(&mut self, _news: &MembershipEffect) {}
    fn drain_asked(&mut self) {}
    fn drained(&mut self) {}
    fn ended(&mut self, end: &FarmEnd) {
        // The test may be over.
        let _ = self.ends.send(end.clone());
    }
}

#[expect(clippy::disallowed_methods, reason = "the nodes of a test have a clock, as a server gives them one")]
fn clock() -> Instant {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    Instant::from_micros(u64::try_from(since.as_micros()).expect("before the year 500,000"))
}

/// As the server does it: lives are unique even if the council has lost its files.
fn life_of_now() -> u32 {
    u32::try_from((clock().as_micros() - 1_767_225_600_000_000) / 125_000).expect("before 2043")
}

impl Node {
    fn start(nats: &Nats, name: &str) -> Node {
        Node::start_by(nats.url(), name)
    }

    fn start_by(server: String, name: &str) -> Node {
        Node::start_with(server, name, (1, 1))
    }

    fn start_with(server: String, name: &str, wire: (u16, u16)) -> Node {
        let council = CouncilSettings {
            servers: vec![server],
            farm: "test".into(),
            node: name.into(),
            credentials: None,
            authorities: None,
            replicas: 1,
            member_age: MEMBER_AGE,
            proof: Bytes::from_static(b"proof"),
            clock: LifeClock(Arc::new(life_of_now)),
        };
        let member = Member {
            life: Life(0),
            farm: "test".into(),
            name: name.into(),
            roles: Roles::BOTH,
            weight: 1,
            address: "127.0.0.1:1".into(),
            shards: 1,
            build: "0".into(),
            wire,
            state: MemberState::Joining,
            renewal: 0,
        };
        let view = Arc::new(Mutex::new(None));
        let (ends, receiver) = sync_channel(8);
        let away = Arc::new(Mutex::new(None));
        let listener = Listener { view: Arc::clone(&view), away: Arc::clone(&away), ends };
        let args = AgentArgs {
            council,
            member,
            clock: Box::new(clock),
            shard_clock: Box::new(clock),
            database: None,
        };
        let (agent, _thread) = FarmAgent::start(args, Box::new(listener)).expect("a thread");
        Node { agent, view, away, ends: receiver }
    }

    /// The newest view.
    fn view(&self) -> Arc<FarmView> {
        self.view.lock().expect("no listener panics").clone().expect("it has joined")
    }

    /// The reason of the council's absence.
    fn away(&self) -> Option<String> {
        self.away.lock().expect("no listener panics").clone()
    }

    /// Waits until the node says that the council is away.
    fn notices_the_absence(&self) {
        wait::until("the council's absence", LONGEST, || self.away(), || format!("{:?}", self.view().peers));
    }

    /// Waits until the node says that the council answers.
    fn notices_the_return(&self) {
        let is_back = || self.away().is_none().then_some(());
        wait::until("the council's return", LONGEST, is_back, || format!("{:?}", self.away()));
    }

    /// Waits until the node's map gives call slots to so many nodes; returns the slots of this one.
    fn slots(&self, nodes: usize) -> usize {
        wait::until(
            "a map of all nodes",
            LONGEST,
            || {
                let view = self.view.lock().expect("no listener panics").clone()?;
                let workers: Vec<Life> = view
                    .map
                    .workers()
                    .filter_map(|(_, slot)| slot.worker)
                    .map(|worker| worker.life)
                    .collect();
                let mut lives = workers.clone();
                lives.sort_unstable();
                lives.dedup();
                let own = workers.iter().filter(|life| **life == view.own).count();
                (lives.len() == nodes && workers.len() == 4_096).then_some(own)
            },
            || format!("{:?}", self.view.lock().map(|view| view.as_ref().map(|view| view.peers.clone()))),
        )
    }
}

#[test]
fn nodes_share_the_call_slots_and_take_those_of_one_that_leaves() {
    for release in [NatsRelease::Debian, NatsRelease::Current] {
        let nats = Nats::start(release);
        let nodes = ["one", "two", "three"].map(|name| Node::start(&nats, name));
        let all: Vec<usize> = nodes.iter().map(|node| node.slots(3)).collect();
        assert_eq!(all.iter().sum::<usize>(), 4_096, "{all:?}");
        assert!(all.iter().all(|slots| (1_365..=1_366).contains(slots)), "{all:?}");
        assert!(nodes.iter().all(|node| node.agent.may_act(clock())));
        nodes[1].agent.leave();
        let rest: Vec<usize> = [&nodes[0], &nodes[2]].map(|node| node.slots(2)).to_vec();
        assert_eq!(rest, [2_048, 2_048]);
        assert!(nodes[1].ends.try_recv().is_err(), "it was not declared dead");
    }
}

#[test]
fn a_second_node_of_one_name_ends_and_harms_nothing() {
    let nats = Nats::start(NatsRelease::Current);
    let first = Node::start(&nats, "one");
    assert_eq!(first.slots(1), 4_096);
    let second = Node::start(&nats, "one");
    let end = second.ends.recv_timeout(LONGEST).expect("it ends");
    assert!(matches!(end, FarmEnd::NotAdmitted(_)), "{end:?}");
    assert!(first.agent.may_act(clock()));
    assert_eq!(first.slots(1), 4_096);
}

#[test]
fn a_node_of_a_distant_version_ends_and_harms_nothing() {
    let nats = Nats::start(NatsRelease::Debian);
    let first = Node::start(&nats, "one");
    assert_eq!(first.slots(1), 4_096);
    let second = Node::start_with(nats.url(), "two", (3, 4));
    let end = second.ends.recv_timeout(LONGEST).expect("it ends");
    let refusal = Refusal::WireRange { least: 1, most: 1 };
    assert_eq!(end, FarmEnd::Ended(EndReason::Refused(refusal)));
    assert!(end.to_string().contains("upgrade one version at a time"), "{end}");
    assert!(first.agent.may_act(clock()));
    assert_eq!(first.slots(1), 4_096);
}

#[test]
fn a_node_that_waits_for_the_council_says_that_it_is_away_and_then_that_it_is_back() {
    let mut nats = Nats::start(NatsRelease::Current);
    nats.kill();
    let node = Node::start(&nats, "one");
    wait::until("the council's absence", LONGEST, || node.away(), String::new);
    nats.start_again();
    assert_eq!(node.slots(1), 4_096);
    node.notices_the_return();
}

/// Longer than the time in which a node is taken over from whose renewals end.
const LATE: Duration = Duration::from_secs(6);

#[test]
fn a_node_that_is_back_later_than_others_at_a_council_without_its_files_lives() {
    let mut nats = Nats::start(NatsRelease::Current);
    let way = TcpWay::to(nats.port);
    let [one, two] = ["one", "two"].map(|name| Node::start(&nats, name));
    let late = Node::start_by(format!("nats://127.0.0.1:{}", way.port), "late");
    for node in [&one, &two, &late] {
        node.slots(3);
    }
    nats.kill();
    nats.forget_all();
    way.cut();
    late.notices_the_absence();
    nats.start_again();
    for node in [&one, &two] {
        node.notices_the_return();
    }
    // An end that must not come.
    assert!(two.ends.recv_timeout(LATE).is_err());
    way.mend();
    late.notices_the_return();
    let end = late.ends.recv_timeout(QUIET);
    assert!(end.is_err(), "{end:?}");
    for node in [&one, &two, &late] {
        assert_eq!(node.ends.try_recv().ok(), None);
        let view = node.view();
        assert_eq!((view.peers.len(), view.map.dead()), (3, &[][..]), "{view:?}");
        node.slots(3);
    }
}

/// The time in which nodes that count each other as dead would have ended: more than a return of the council may take.
const QUIET: Duration = Duration::from_secs(12);

/// NATS loses its files, and comes back after `absence` has been seen; a fourth node joins at that moment. No life ends.
fn farm_outlives_a_council_without_its_files(release: NatsRelease, absence: impl Fn(&[Node])) {
    let mut nats = Nats::start(release);
    let mut nodes: Vec<Node> = ["one", "two", "three"].map(|name| Node::start(&nats, name)).into();
    for node in &nodes {
        node.slots(3);
    }
    nats.kill();
    nats.forget_all();
    absence(&nodes);
    nats.start_again();
    nodes.push(Node::start(&nats, "four"));
    let all: Vec<usize> = nodes.iter().map(|node| node.slots(4)).collect();
    assert_eq!(all, [1_024; 4]);
    // An end that must not come.
    let end = nodes[0].ends.recv_timeout(QUIET);
    assert!(end.is_err(), "{end:?}");
    for node in &nodes {
        assert_eq!(node.ends.try_recv().ok(), None);
        let view = node.view();
        assert_eq!((view.peers.len(), view.map.dead()), (4, &[][..]), "{view:?}");
        assert!(!view.is_council_away && node.away().is_none());
    }
}

#[test]
fn a_council_that_is_back_at_once_without_its_files_ends_no_node() {
    farm_outlives_a_council_without_its_files(NatsRelease::Debian, |_| {});
}

#[test]
fn a_council_that_is_back_later_without_its_files_ends_no_node() {
    farm_outlives_a_council_without_its_files(NatsRelease::Current, |nodes| {
        nodes.iter().for_each(Node::notices_the_absence);
    });
}
