//! Links between nodes over real sockets of loopback.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use cluster::link::{Class, FarmSecret, Message};
use cluster::map::FarmMap;
use cluster::member::{MemberState, Roles};
use cluster::{Epoch, Life};
use farm::links::{LinkEvent, LinkSettings, Links};
use farm::view::{FarmPeer, FarmView};
use stdx::Instant;
use tokio::time::timeout;

const LONGEST: Duration = Duration::from_secs(20);

/// One node's links, and the events that no test has asked for yet.
struct Node {
    life: Life,
    address: SocketAddr,
    links: Links,
    events: Vec<LinkEvent>,
}

#[expect(clippy::disallowed_methods, reason = "the nodes of a test have a clock, as a server gives them one")]
fn now() -> Instant {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    Instant::from_micros(u64::try_from(since.as_micros()).expect("before the year 500,000"))
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound socket");
    (listener, address)
}

impl Node {
    fn start(life: u32, secret: u8) -> Node {
        let (listener, address) = listener();
        let nonce = std::cell::Cell::new([0; 32]);
        let random = move || {
            let mut next = nonce.get();
            next[0] += 1;
            nonce.set(next);
            next
        };
        let settings = LinkSettings {
            farm: "test".into(),
            life: Life(life),
            build: "0".into(),
            wire: (1, 1),
            secret: FarmSecret::new([secret; 32]),
            clock: Rc::new(now),
            random: Rc::new(random),
        };
        let mut links = Links::new(settings);
        links.listen(listener).expect("a listener");
        Node { life: Life(life), address, links, events: Vec::new() }
    }

    /// Waits for an event; others are passed over.
    async fn wait<T>(&mut self, wanted: impl Fn(&LinkEvent) -> Option<T>) -> T {
        let found = async {
            loop {
                let mut events = std::mem::take(&mut self.events);
                self.links.take(&mut events);
                let at = events.iter().position(|event| wanted(event).is_some());
                if let Some(found) = at.and_then(|at| wanted(&events.remove(at))) {
                    self.events = events;
                    return found;
                }
                self.events = events;
                poll_fn(|context| self.links.poll_ready(context)).await;
            }
        };
        timeout(LONGEST, found).await.expect("the event does not come")
    }

    async fn receives(&mut self, kind: u16) {
        self.wait(|event| match event {
            LinkEvent::Received { message, .. } if message.kind == kind => Some(()),
            _ => None,
        })
        .await;
    }

    /// Sends until the link is connected and takes the message.
    async fn send(&self, to: Life, class: Class, kind: u16) {
        let sent = async {
            while self.links.send(now(), to, class, message(kind)).is_err() {
                tokio::task::yield_now().await;
            }
        };
        timeout(LONGEST, sent).await.expect("the link does not take the message");
        self.links.flush(now());
    }
}

fn message(kind: u16) -> Message {
    Message { kind, epoch: Epoch(0), shard: 0, body: Bytes::from_static(b"body") }
}

fn view(own: Life, nodes: &[(Life, SocketAddr)]) -> FarmView {
    let peer = |address| FarmPeer {
        name: "n".into(),
        address,
        shards: 1,
        build: "0".into(),
        state: MemberState::Serving,
        roles: Roles::BOTH,
        weight: 1,
        is_suspect: false,
    };
    let peers: BTreeMap<Life, FarmPeer> =
        nodes.iter().map(|(life, address)| (*life, peer(*address))).collect();
    FarmView { own, map: FarmMap::default(), peers, is_council_away: false }
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, test);
}

fn see_each_other(nodes: &mut [&mut Node]) {
    let all: Vec<(Life, SocketAddr)> = nodes.iter().map(|node| (node.life, node.address)).collect();
    for node in nodes {
        let view = view(node.life, &all);
        node.links.set_view(&view);
    }
}

#[test]
fn messages_of_all_classes_pass_both_ways() {
    run(async {
        let (mut one, mut two) = (Node::start(1, 7), Node::start(2, 7));
        see_each_other(&mut [&mut one, &mut two]);
        for (kind, class) in (0..).zip(Class::ALL) {
            one.send(two.life, class, kind).await;
            two.receives(kind).await;
            two.send(one.life, class, kind).await;
            one.receives(kind).await;
        }
    });
}

#[test]
fn a_node_with_another_secret_is_told_apart() {
    run(async {
        let (mut one, mut two) = (Node::start(1, 7), Node::start(2, 8));
        see_each_other(&mut [&mut one, &mut two]);
        let reason = one
            .wait(|event| match event {
                LinkEvent::Fault { reason, .. } => Some(reason.clone()),
                _ => None,
            })
            .await;
        assert!(reason.contains("secret"), "{reason}");
        assert!(one.links.connected().is_empty() && two.links.connected().is_empty());
    });
}

#[test]
fn acknowledged_messages_survive_the_connection_and_come_back_after_a_death() {
    run(async {
        let mut two = Node::start(2, 7);
        let mut one = Node::start(1, 7);
        see_each_other(&mut [&mut one, &mut two]);
        one.send(two.life, Class::Chat, 1).await;
        two.receives(1).await;
        // The process ends; its address refuses connections.
        let (life, address) = (two.life, two.address);
        drop(two);
        one.wait(|event| matches!(event, LinkEvent::Lost { .. }).then_some(())).await;
        one.send(life, Class::Chat, 2).await;
        assert!(one.links.send(now(), life, Class::Call, message(3)).is_err(), "calls do not wait");
        one.links.set_view(&view(one.life, &[(one.life, one.address)]));
        one.wait(|event| match event {
            LinkEvent::Returned { to, message, .. } => (*to == life && message.kind == 2).then_some(()),
            _ => None,
        })
        .await;
        let _ = address;
    });
}

#[test]
fn a_host_that_refuses_is_said() {
    run(async {
        let mut two = Node::start(2, 7);
        // Nothing listens there any more.
        let (free, address) = listener();
        drop(free);
        two.links.set_view(&view(two.life, &[(Life(1), address), (two.life, two.address)]));
        two.wait(|event| matches!(event, LinkEvent::Lost { life: Life(1), is_refused: true }).then_some(()))
            .await;
    });
}
