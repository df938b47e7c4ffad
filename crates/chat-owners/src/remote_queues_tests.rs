//! A farm in virtual time whose nodes send stanzas to one other server: views that come late, buckets that move, nodes that die, links
//! that are slow. Each node is one shard; the other server notes what it gets.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use cluster::{Bucket, Life, ShardAddress};
use proptest::prelude::*;
use shard_message::XmppShardMessage;
use stdx::Instant;
use xmpp::s2s::{Outcome, Receipt};
use xmpp::{Element, ns};

use super::limits::{XMPP_OWNER_PATIENCE, XMPP_REMOTE, XMPP_REMOTE_BYTES, XMPP_UNHANDLED_FOR};
use super::{RemoteEffect, RemoteQueues, RemoteRuns};

const NODES: usize = 4;
const TICK: Duration = Duration::from_millis(100);

fn shard(node: usize) -> ShardAddress {
    ShardAddress::new(Life(u32::try_from(node).unwrap() + 1), 0)
}

fn node_of(shard: ShardAddress) -> usize {
    usize::try_from(shard.life.0).unwrap() - 1
}

fn stanza(name: &'static str, id: &str) -> Box<Element> {
    let mut element = Element::new(name, ns::CLIENT)
        .with("from", "alice@example.test/desk")
        .with("to", "bob@peer.test")
        .with("id", id.to_owned());
    if name == "iq" {
        element = element.with("type", "get");
    } else {
        // As a session's message that its client counts.
        element.set_ns("mark", xmpp::internal::NS, format!("1.0.77.{id}"));
    }
    Box::new(element)
}

/// The farm at one time.
#[derive(Clone)]
struct View {
    owner: usize,
    alive: BTreeSet<usize>,
}

struct Node {
    queues: RemoteQueues,
    runs: RemoteRuns,
    /// The number of its view.
    view: usize,
    /// Stanzas that it has taken and not written.
    taken: VecDeque<(Receipt, Box<Element>)>,
}

struct World {
    now: Instant,
    nodes: Vec<Node>,
    views: Vec<View>,
    /// The node that serves the bucket: the database admits one.
    holder: Option<usize>,
    /// Messages on their way, by sender and receiver.
    links: BTreeMap<(usize, usize), VecDeque<XmppShardMessage>>,
    /// The stanzas that the other server got: the sender and the number of the stanza.
    got: Vec<(usize, u64)>,
    answered: BTreeMap<(usize, u64), usize>,
    reported: BTreeMap<(usize, u64), usize>,
    said: Vec<(usize, u64, bool)>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Say(usize, bool),
    Deliver(usize, usize),
    Write(usize),
    Learn(usize),
    Move(usize),
    Kill(usize),
    Tick,
}

fn step() -> impl Strategy<Value = Step> {
    let node = 0..NODES;
    prop_oneof![
        8 => (node.clone(), prop::bool::weighted(0.2)).prop_map(|(node, is_iq)| Step::Say(node, is_iq)),
        12 => (node.clone(), node.clone()).prop_map(|(from, to)| Step::Deliver(from, to)),
        6 => node.clone().prop_map(Step::Write),
        6 => node.clone().prop_map(Step::Learn),
        2 => node.clone().prop_map(Step::Move),
        1 => node.prop_map(Step::Kill),
        2 => Just(Step::Tick),
    ]
}

impl World {
    fn new() -> World {
        let node = |node| Node {
            queues: RemoteQueues::new(shard(node)),
            runs: RemoteRuns::default(),
            view: 0,
            taken: VecDeque::new(),
        };
        World {
            now: Instant::from_unix_seconds(1_800_000_000),
            nodes: (0..NODES).map(node).collect(),
            views: vec![View { owner: 0, alive: (0..NODES).collect() }],
            holder: Some(0),
            links: BTreeMap::new(),
            got: Vec::new(),
            answered: BTreeMap::new(),
            reported: BTreeMap::new(),
            said: Vec::new(),
        }
    }

    fn last(&self) -> &View {
        self.views.last().unwrap()
    }

    fn is_alive(&self, node: usize) -> bool {
        self.last().alive.contains(&node)
    }

    /// Lets the queues of a node work with its view, and performs what comes of it.
    fn with(
        &mut self,
        node: usize,
        act: impl FnOnce(&mut RemoteQueues, Instant, &View, &mut Vec<RemoteEffect>),
    ) {
        let (mut out, view) = (Vec::new(), self.views[self.nodes[node].view].clone());
        act(&mut self.nodes[node].queues, self.now, &view, &mut out);
        for effect in out {
            match effect {
                RemoteEffect::Send { to, message } => self.send(node, node_of(to), message),
                RemoteEffect::Answer(answer) => {
                    let id = answer.attr("id").unwrap().parse().unwrap();
                    *self.answered.entry((node, id)).or_default() += 1;
                }
                RemoteEffect::Report(report) => {
                    let mark = report.attr("mark").unwrap();
                    let id = mark.rsplit('.').next().unwrap().parse().unwrap();
                    *self.reported.entry((node, id)).or_default() += 1;
                }
            }
        }
    }

    fn send(&mut self, from: usize, to: usize, message: XmppShardMessage) {
        self.links.entry((from, to)).or_default().push_back(message);
    }

    fn say(&mut self, node: usize, is_iq: bool) {
        let id = self.said.len() as u64;
        self.said.push((node, id, is_iq));
        let element = stanza(if is_iq { "iq" } else { "message" }, &id.to_string());
        self.with(node, |queues, now, view, out| {
            queues.push(now, element, |_| Some(shard(view.owner)), out);
        });
    }

    /// False: no message is on this way.
    fn deliver(&mut self, from: usize, to: usize) -> bool {
        let Some(message) = self.links.get_mut(&(from, to)).and_then(VecDeque::pop_front) else {
            return false;
        };
        match message {
            XmppShardMessage::Outbound { receipt, element } => {
                let serves = self.holder == Some(to);
                assert_eq!(element.attr_ns("mark", xmpp::internal::NS), None);
                if self.nodes[to].runs.take(&receipt, serves) {
                    self.nodes[to].taken.push_back((receipt, element));
                } else {
                    self.outcome(to, receipt, Outcome::Untaken);
                }
            }
            XmppShardMessage::OutboundOutcome { receipt, outcome } => {
                self.with(to, |queues, now, view, out| {
                    queues.handle_outcome(now, &receipt, outcome, |_| Some(shard(view.owner)), out);
                });
            }
            other => panic!("{other:?}"),
        }
        true
    }

    fn outcome(&mut self, node: usize, receipt: Receipt, outcome: Outcome) {
        let origin = node_of(receipt.origin);
        if self.is_alive(origin) {
            self.send(node, origin, XmppShardMessage::OutboundOutcome { receipt, outcome });
        }
    }

    /// False: the node has nothing to write.
    fn write(&mut self, node: usize) -> bool {
        let Some((receipt, element)) = self.nodes[node].taken.pop_front() else { return false };
        let id = element.attr("id").unwrap().parse().unwrap();
        self.got.push((node_of(receipt.origin), id));
        self.outcome(node, receipt, Outcome::Ended);
        true
    }

    /// The node gets the next view; it stops to serve or begins, as far as the database lets it.
    fn learn(&mut self, node: usize) -> bool {
        let is_new = self.nodes[node].view + 1 < self.views.len();
        if is_new {
            self.nodes[node].view += 1;
        }
        let view = self.views[self.nodes[node].view].clone();
        if self.holder == Some(node) && view.owner != node {
            self.holder = None;
            for (receipt, _) in std::mem::take(&mut self.nodes[node].taken) {
                self.nodes[node].runs.refuse(&receipt);
                self.outcome(node, receipt, Outcome::Untaken);
            }
        }
        let is_free = self.holder.is_none_or(|holder| !self.is_alive(holder));
        let begins = view.owner == node && is_free && self.last().owner == node;
        if begins {
            self.holder = Some(node);
        }
        if is_new {
            self.with(node, |queues, now, view, out| {
                let is_alive = |shard| view.alive.contains(&node_of(shard));
                queues.handle_view(now, is_alive, |_| Some(shard(view.owner)), out);
            });
        }
        is_new || begins
    }

    fn kill(&mut self, node: usize) {
        let mut view = self.last().clone();
        if view.alive.len() <= 2 || !view.alive.remove(&node) {
            return;
        }
        if view.owner == node {
            view.owner = *view.alive.iter().next().unwrap();
        }
        self.views.push(view);
        self.nodes[node].taken.clear();
        // Messages it has sent may arrive, and nothing arrives there any more.
        self.links.retain(|(_, to), _| *to != node);
    }

    fn tick(&mut self) {
        self.now = self.now + TICK;
        for node in self.last().alive.clone() {
            self.with(node, |queues, now, view, out| queues.expire(now, |_| Some(shard(view.owner)), out));
        }
    }

    fn perform(&mut self, step: Step) {
        let alive = |world: &World, node| world.is_alive(node);
        match step {
            Step::Say(node, is_iq) if alive(self, node) => self.say(node, is_iq),
            Step::Deliver(from, to) if alive(self, to) => drop(self.deliver(from, to)),
            Step::Write(node) if alive(self, node) => drop(self.write(node)),
            Step::Learn(node) if alive(self, node) => drop(self.learn(node)),
            Step::Move(owner) if alive(self, owner) => {
                let view = View { owner, ..self.last().clone() };
                self.views.push(view);
            }
            Step::Kill(node) => self.kill(node),
            Step::Tick => self.tick(),
            _ => {}
        }
    }

    /// Nothing more happens, and everything comes to its end.
    fn settle(&mut self) {
        for _ in 0..40 {
            let alive = self.last().alive.clone();
            loop {
                let mut goes_on = false;
                for node in alive.clone() {
                    goes_on |= self.learn(node) | self.write(node);
                }
                for (from, to) in self.links.keys().copied().collect::<Vec<_>>() {
                    goes_on |= alive.contains(&to) && self.deliver(from, to);
                }
                if !goes_on {
                    break;
                }
            }
            self.tick();
        }
    }
}

fn play(steps: &[Step]) {
    let mut world = World::new();
    steps.iter().for_each(|step| world.perform(*step));
    world.settle();
    let has_deaths = world.last().alive.len() < NODES;
    let mut arrived: BTreeMap<(usize, u64), usize> = BTreeMap::new();
    let mut first: BTreeMap<usize, u64> = BTreeMap::new();
    for (node, id) in &world.got {
        let times = arrived.entry((*node, *id)).or_default();
        *times += 1;
        if *times == 1 {
            let before = first.insert(*node, *id);
            assert!(before.is_none_or(|before| before < *id), "{id} of node {node} after {before:?}");
        }
    }
    for (node, id, is_iq) in &world.said {
        let of = |table: &BTreeMap<(usize, u64), usize>| table.get(&(*node, *id)).copied().unwrap_or(0);
        let (arrived, answered, reported) = (of(&arrived), of(&world.answered), of(&world.reported));
        if world.is_alive(*node) {
            assert!(arrived + answered >= 1, "{id} of node {node} is lost");
            assert_eq!(reported, usize::from(!is_iq), "{id} is reported");
        }
        if !has_deaths {
            assert_eq!((arrived, answered), (1, 0), "{id} of node {node}");
        }
        assert!(!is_iq || arrived <= 1, "a request is not repeated");
    }
    for node in world.last().alive.clone() {
        assert_eq!(world.nodes[node].queues.deadline(), None, "nothing stays behind");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn stanzas_of_each_sender_arrive_in_order_and_none_is_lost(
        steps in prop::collection::vec(step(), 1..120),
    ) {
        play(&steps);
    }
}

#[test]
fn stanzas_without_an_owner_come_back_after_a_while() {
    let (mut queues, mut out) = (RemoteQueues::new(shard(0)), Vec::new());
    let now = Instant::from_unix_seconds(1_800_000_000);
    queues.push(now, stanza("message", "7"), |_| None, &mut out);
    assert!(out.is_empty());
    queues.expire(now + XMPP_OWNER_PATIENCE, |_| None, &mut out);
    let [RemoteEffect::Answer(answer), RemoteEffect::Report(_)] = &out[..] else { panic!("{out:?}") };
    assert!(answer.to_string().contains("<resource-constraint"), "{answer}");
}

#[test]
fn a_stanza_with_a_lost_outcome_is_answered() {
    let (mut queues, mut out) = (RemoteQueues::new(shard(0)), Vec::new());
    let now = Instant::from_unix_seconds(1_800_000_000);
    queues.push(now, stanza("message", "7"), |_| Some(shard(1)), &mut out);
    assert!(matches!(out[..], [RemoteEffect::Send { .. }]));
    out.clear();
    queues.expire(now + XMPP_UNHANDLED_FOR, |_| Some(shard(1)), &mut out);
    let [RemoteEffect::Answer(answer), RemoteEffect::Report(_)] = &out[..] else { panic!("{out:?}") };
    assert!(answer.to_string().contains("<remote-server-timeout"), "{answer}");
    assert_eq!(queues.deadline(), None);
}

#[test]
fn a_stanza_that_a_dead_owner_had_for_long_waits_for_the_next_one() {
    let (mut queues, mut out) = (RemoteQueues::new(shard(0)), Vec::new());
    let now = Instant::from_unix_seconds(1_800_000_000);
    queues.push(now, stanza("message", "7"), |_| Some(shard(1)), &mut out);
    let later = now + 2 * XMPP_OWNER_PATIENCE;
    queues.handle_view(later, |shard| node_of(shard) != 1, |_| None, &mut out);
    queues.expire(later + TICK, |_| None, &mut out);
    assert!(matches!(out[..], [RemoteEffect::Send { .. }]), "no error yet: {out:?}");
    queues.expire(later + 5 * TICK, |_| Some(shard(2)), &mut out);
    assert!(matches!(out[..], [_, RemoteEffect::Send { to, .. }] if to == shard(2)), "{out:?}");
}

/// Owners that refuse it again and again, each at once.
#[test]
fn a_stanza_that_no_owner_takes_comes_back_as_one_without_an_owner() {
    let (mut queues, mut out) = (RemoteQueues::new(shard(0)), Vec::new());
    let mut now = Instant::from_unix_seconds(1_800_000_000);
    let end = now + XMPP_OWNER_PATIENCE;
    queues.push(now, stanza("message", "7"), |_| Some(shard(1)), &mut out);
    while now < end {
        for effect in std::mem::take(&mut out) {
            let RemoteEffect::Send { message: XmppShardMessage::Outbound { receipt, .. }, .. } = effect
            else {
                panic!("{effect:?} before its time");
            };
            queues.handle_outcome(now, &receipt, Outcome::Untaken, |_| Some(shard(1)), &mut out);
        }
        now = now + TICK;
        queues.expire(now, |_| Some(shard(1)), &mut out);
    }
    let [RemoteEffect::Answer(answer), RemoteEffect::Report(_)] = &out[..] else { panic!("{out:?}") };
    assert!(answer.to_string().contains("<resource-constraint"), "{answer}");
}

/// Sends messages of this size to the domain until one comes back; their number.
fn fill(queues: &mut RemoteQueues, domain: &str, size: usize) -> usize {
    let now = Instant::from_unix_seconds(1_800_000_000);
    let element = stanza("message", "1").child(Element::new("body", ns::CLIENT).text("x".repeat(size)));
    let element = element.with("to", format!("bob@{domain}"));
    let is_kept = |_: &usize| {
        let mut out = Vec::new();
        queues.push(now, Box::new(element.clone()), |_| Some(shard(1)), &mut out);
        let is_kept = matches!(out[..], [RemoteEffect::Send { .. }]);
        assert!(is_kept || matches!(out[..], [RemoteEffect::Answer(_), RemoteEffect::Report(_)]), "{out:?}");
        is_kept
    };
    (0..).take_while(is_kept).count()
}

#[test]
fn servers_that_take_nothing_leave_room_for_the_others() {
    let mut buckets = BTreeSet::new();
    let mut domains = (0..).map(|number| format!("other{number}.test"));
    let mut domain = || domains.find(|domain| buckets.insert(Bucket::of(domain).number())).unwrap();
    // By the number of stanzas, and by their bytes.
    for (size, all) in [(1, XMPP_REMOTE), (100_000, XMPP_REMOTE_BYTES / 100_000)] {
        let mut queues = RemoteQueues::new(shard(0));
        let counts: Vec<usize> = (0..4).map(|_| fill(&mut queues, &domain(), size)).collect();
        assert!(counts[0].abs_diff(all / 4) <= 2, "{counts:?} of {all}");
        assert!(
            counts.is_sorted_by(|before, next| before > next) && counts[3] > all / 12,
            "{counts:?} of {all}"
        );
    }
}
