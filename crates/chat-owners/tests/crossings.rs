//! How many messages cross nodes for one chat message and for one change of presence, and how many writes to sockets they are, in a farm whose
//! users and owners are anywhere: hosts, queues of shards and links, in virtual time.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use chat::archive::ArchiveDefault;
use chat::effect::{AccountData, RosterItem, Subscription};
use chat::phones::{Phone, PhoneEvent};
use chat::{Effect, Host, HostSettings, ItemPage, Load, MessageNumber, RowPage, SessionLimit, StoreReply};
use chat_owners::{ShardQueues, bucket_of};
use cluster::link::{Class, Lane, Link};
use cluster::{Bucket, Life, ShardAddress, ShardMap};
use shard_message::wire::{self, Decoded};
use shard_message::{ShardMessage, XmppShardMessage};
use stdx::Instant;
use xmpp::c2s::BindRequest;
use xmpp::xml::{Prefixes, parse};
use xmpp::{Bare, ConnectionId, Element, Jid, ns};

/// Between two turns of a node, and on the way to another.
const TURN: Duration = Duration::from_millis(1);
const CONTACTS: usize = 7;
const USERS: usize = 64;

/// One shard, with the links to the others by their number.
struct Node {
    address: ShardAddress,
    host: Host,
    queues: ShardQueues,
    links: BTreeMap<usize, Link>,
    /// Bytes of other nodes, and their number.
    incoming: Vec<(usize, Vec<u8>)>,
    numbered: u64,
}

#[derive(Default)]
struct Counted {
    /// Messages that crossed, by what they are.
    messages: BTreeMap<&'static str, usize>,
    /// Writes to sockets, each of which wakes another node up.
    writes: usize,
    /// Elements that clients were sent.
    delivered: usize,
}

struct Farm {
    nodes: Vec<Node>,
    now: Instant,
    counted: Counted,
    /// The node that owns a bucket.
    owned: HashMap<u16, usize>,
}

fn user(number: usize) -> Bare {
    Bare::parse(&format!("user{}@example.org", number % USERS)).expect("an address")
}

fn kind(message: &XmppShardMessage) -> &'static str {
    match message {
        XmppShardMessage::Stanza { .. } => "of a client",
        XmppShardMessage::Deliver { .. } => "for a client",
        XmppShardMessage::Routed(element) if element.name() == "handled" => "handled",
        XmppShardMessage::Routed(_) => "for owners",
        _ => "other",
    }
}

impl Farm {
    fn new(count: usize) -> Farm {
        let settings = Arc::new(HostSettings {
            domains: vec!["example.org".into()],
            rooms: "conference".into(),
            pubsub: "pubsub".into(),
            sessions: SessionLimit { most: 100, ends_oldest: false },
            archive: ArchiveDefault::Never,
            ..HostSettings::default()
        });
        let now = Instant::from_unix_seconds(1_800_000_000);
        let node = |number: usize| {
            let address = ShardAddress::new(Life(1 + number as u32), 0);
            let mut host = Host::new(Arc::clone(&settings), address, [number as u8; 32]);
            chat::ownership::share_addresses(&mut host);
            let mut links = BTreeMap::new();
            for other in (0..count).filter(|other| *other != number) {
                let mut link = Link::new(Lane::Acknowledged);
                link.handle_connected(now);
                links.insert(other, link);
            }
            let queues = ShardQueues::new(address, ShardMap::of_process(address.life, 1));
            Node { address, host, queues, links, incoming: Vec::new(), numbered: 0 }
        };
        let nodes = (0..count).map(node).collect();
        // Spread evenly over contacts, and independent of the nodes of the connections.
        let owner = |number: usize| number * 37 % USERS / 8 % count;
        let owned = (0..USERS).map(|number| (Bucket::of(user(number).as_str()).number(), owner(number)));
        let mut farm = Farm { nodes, now, counted: Counted::default(), owned: owned.collect() };
        farm.rest();
        (0..USERS).for_each(|number| farm.sign_in(number));
        farm.counted = Counted::default();
        farm
    }

    fn owner(&self, bucket: Bucket) -> usize {
        self.owned[&bucket.number()]
    }

    /// The connection of a user's client, and its node.
    fn edge(&self, number: usize) -> (usize, ConnectionId) {
        let node = number % self.nodes.len();
        (node, ConnectionId { shard: self.nodes[node].address, connection: number as u64 })
    }

    fn sign_in(&mut self, number: usize) {
        let (_, edge) = self.edge(number);
        let request = BindRequest {
            user: Jid::parse(user(number).as_str()).expect("an address"),
            is_anonymous: false,
            resource: Some("desk".into()),
            tag: None,
            agent: None,
            is_bind2: false,
            can_move: false,
            inline: Vec::new(),
        };
        let owner = self.owner(Bucket::of(user(number).as_str()));
        self.handle(owner, XmppShardMessage::Bind { edge, request: Box::new(request) });
        self.say(number, "<presence/>");
    }

    /// The user's client sends a stanza; what it causes is done.
    fn say(&mut self, number: usize, xml: &str) {
        let (node, edge) = self.edge(number);
        let mut element: Element =
            parse(xml.as_bytes(), &Prefixes::of_default(ns::CLIENT)).expect("a stanza");
        element.set("from", format!("{}/desk", user(number)));
        let owner = self.owner(Bucket::of(user(number).as_str()));
        self.send(node, owner, XmppShardMessage::Stanza { edge, element });
        self.rest();
    }

    /// The queue gives messages for other nodes a number, as the server does.
    fn send(&mut self, from: usize, to: usize, mut message: XmppShardMessage) {
        if from == to {
            return self.handle(to, message);
        }
        let to = self.nodes[to].address;
        let node = &mut self.nodes[from];
        if let XmppShardMessage::Routed(element) = &mut message {
            node.numbered += 1;
            MessageNumber::mark_unacknowledged(element, node.address, node.numbered);
        }
        node.queues.push_for_node(to, message);
    }

    fn handle(&mut self, at: usize, message: XmppShardMessage) {
        let (now, host) = (self.now, &mut self.nodes[at].host);
        let mut out = Vec::new();
        match message {
            XmppShardMessage::Bind { edge, request } => host.handle_bind(now, edge, &request, &mut out),
            XmppShardMessage::Stanza { edge, element } => host.handle_stanza(now, edge, element, &mut out),
            XmppShardMessage::Routed(element) => host.handle_routed(now, *element, &mut out),
            XmppShardMessage::Deliver { .. } => self.counted.delivered += 1,
            _ => {}
        }
        let mut todo = VecDeque::from(out);
        while let Some(effect) = todo.pop_front() {
            todo.extend(self.perform(at, effect));
        }
    }

    /// The store answers at once.
    fn perform(&mut self, at: usize, effect: Effect) -> Vec<Effect> {
        let (now, mut out) = (self.now, Vec::new());
        let mut reply = |host: &mut Host, ticket, reply| {
            host.handle_store_reply(now, ticket, Ok(reply), &mut out);
        };
        match effect {
            Effect::Deliver { edge, element } => {
                self.send(at, edge.shard.life.0 as usize - 1, XmppShardMessage::Deliver { edge, element });
            }
            Effect::Route(element) => {
                let message = XmppShardMessage::Routed(element);
                let to = self.owner(bucket_of(&message).expect("it has an address"));
                self.send(at, to, message);
            }
            Effect::Load { ticket, load } => reply(&mut self.nodes[at].host, ticket, loaded(&load)),
            Effect::Change { ticket, .. } => reply(&mut self.nodes[at].host, ticket, StoreReply::Done),
            Effect::AskPhone { user } => {
                let event = PhoneEvent::Changed { user, phone: Phone::default() };
                self.nodes[at].host.handle_phone(now, event, &mut out);
            }
            _ => {}
        }
        out
    }

    /// A turn of each node: what came is handled, and what is for others written. False: nothing but acknowledgements and keep-alives is under way.
    fn turn(&mut self) -> bool {
        self.now = self.now + TURN;
        let mut has_work = false;
        for at in 0..self.nodes.len() {
            has_work |= self.read(at);
            let node = &mut self.nodes[at];
            for (to, copies) in node.queues.take_for_nodes() {
                has_work = true;
                *self.counted.messages.entry(kind(&copies[0])).or_default() += 1;
                let message = wire::chat_copies(to, node.address.shard, &copies).expect("it crosses nodes");
                let link = node.links.get_mut(&(to.life.0 as usize - 1)).expect("a link to the node");
                link.send(self.now, Class::Chat, message).expect("room in the link");
            }
            self.write(at);
        }
        has_work
    }

    fn read(&mut self, at: usize) -> bool {
        let mut received = Vec::new();
        let node = &mut self.nodes[at];
        for (from, bytes) in node.incoming.drain(..) {
            let link = node.links.get_mut(&from).expect("a link to the node");
            link.handle_bytes(self.now, &bytes).expect("bytes of the other end");
            received.extend(std::iter::from_fn(|| link.poll_message(Class::Chat)));
        }
        // The task of a connection writes what is due after it has read, before the turn of the shard.
        self.write(at);
        let has_work = !received.is_empty();
        for message in received {
            let Ok(Decoded::Message(ShardMessage::Xmpp(messages))) = wire::read(&message) else { panic!() };
            messages.into_iter().for_each(|message| self.handle(at, message));
        }
        has_work
    }

    fn write(&mut self, at: usize) {
        let others: Vec<usize> = self.nodes[at].links.keys().copied().collect();
        for other in others {
            let mut bytes = Vec::new();
            let link = self.nodes[at].links.get_mut(&other).expect("a link to the node");
            link.expire(self.now).expect("a link that is not silent");
            link.poll_output(self.now, 65_536, &mut bytes);
            if !bytes.is_empty() {
                self.counted.writes += 1;
                self.nodes[other].incoming.push((at, bytes));
            }
        }
    }

    fn rest(&mut self) {
        while self.turn() {}
        // Messages written last are read in the next turn.
        while self.nodes.iter().any(|node| !node.incoming.is_empty()) {
            self.turn();
        }
    }
}

/// Every account has so many contacts, those nearest to it; there are no archives.
fn loaded(load: &Load) -> StoreReply {
    match load {
        Load::User { user: of } => {
            let own = (0..USERS).find(|number| user(*number) == *of).expect("a user");
            let both = RosterItem { subscription: Subscription::Both, is_listed: true, ..Default::default() };
            let numbers = (0..=CONTACTS).filter(|place| *place != CONTACTS / 2);
            let contact = |place| user(own + USERS + place - CONTACTS / 2);
            let roster = numbers.map(|place| (contact(place), both.clone())).collect();
            StoreReply::User(Some(Box::new(AccountData { roster, ..AccountData::default() })))
        }
        Load::Nodes { .. } => StoreReply::Rows(RowPage { rows: Vec::new(), is_complete: true }),
        _ => StoreReply::Items(ItemPage::default()),
    }
}

/// The counts of a chat message and of a change of presence, for each number of nodes.
const EXPECTED: [&str; 8] = [
    "1: 0.00 messages (), 0.00 writes, 1.00 for clients",
    "1: 0.00 messages (), 0.00 writes, 8.00 for clients",
    "2: 2.25 messages (0.50 for a client, 0.62 for owners, 0.62 handled, 0.50 of a client), 1.94 writes, 1.00 for clients",
    "2: 3.88 messages (2.38 for a client, 1.00 for owners, 0.50 of a client), 2.50 writes, 8.00 for clients",
    "4: 2.75 messages (0.75 for a client, 0.62 for owners, 0.62 handled, 0.75 of a client), 2.59 writes, 1.00 for clients",
    "4: 9.75 messages (6.00 for a client, 3.00 for owners, 0.75 of a client), 8.44 writes, 8.00 for clients",
    "8: 3.75 messages (0.88 for a client, 1.00 for owners, 1.00 handled, 0.88 of a client), 3.67 writes, 1.00 for clients",
    "8: 13.88 messages (7.00 for a client, 6.00 for owners, 0.88 of a client), 13.12 writes, 8.00 for clients",
];

/// The mean over all users, one of which acts at a time, as a line.
fn mean(count: usize, act: impl Fn(usize) -> String) -> String {
    let mut farm = Farm::new(count);
    for number in 0..USERS {
        farm.say(number, &act(number));
    }
    let Counted { messages, writes, delivered } = farm.counted;
    let each = |count: usize| format!("{:.2}", count as f64 / USERS as f64);
    let kinds: Vec<String> =
        messages.iter().map(|(kind, count)| format!("{} {kind}", each(*count))).collect();
    let all = each(messages.values().sum());
    let (writes, delivered) = (each(writes), each(delivered));
    format!("{count}: {all} messages ({}), {writes} writes, {delivered} for clients", kinds.join(", "))
}

/// The four kinds of messages that cross nodes for a chat message: from the sender's connection to its owner, from there to the receiver's owner, from there to
/// the connection, and the report that it is handled. A change of presence crosses once to each node that owns contacts, and from each owner once to each
/// node of connections; the client hears of its own, too. Nothing else crosses: acknowledgements of links go with other messages.
#[test]
fn messages_that_cross_nodes_for_a_chat_message_and_a_change_of_presence_are_counted() {
    let message = |number: usize| {
        format!("<message type='chat' id='1' to='{}'><body>hi</body></message>", user(number + 1))
    };
    let presence = |_: usize| "<presence><show>away</show></presence>".to_owned();
    let found: Vec<[String; 2]> =
        [1, 2, 4, 8].into_iter().map(|count| [mean(count, message), mean(count, presence)]).collect();
    let found = found.concat();
    assert_eq!(found, EXPECTED, "{found:#?}");
}
