//! Links between nodes over real sockets of loopback.

#![expect(
    clippy::disallowed_methods,
    reason = "the peers of a test are threads of their own, and a test has a clock"
)]

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use cluster::link::{Class, FarmSecret, Message, SendFailure};
use cluster::map::FarmMap;
use cluster::member::{MemberState, Roles};
use cluster::{Epoch, Life};
use farm::links::{Encryption, LinkEvent, LinkSettings, Links};
use farm::view::{FarmPeer, FarmView};
use stdx::Instant;
use tokio::net::TcpSocket;
use tokio::time::timeout;

const LONGEST: Duration = Duration::from_secs(20);

/// One node's links, and the events that no test has asked for yet.
struct Node {
    life: Life,
    address: SocketAddr,
    links: Links,
    events: Vec<LinkEvent>,
}

fn now() -> Instant {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    Instant::from_micros(u64::try_from(since.as_micros()).expect("before the year 500,000"))
}

/// A listener whose connections have a small buffer, so that a peer that does not read fills it. Inside a runtime.
fn listener() -> (TcpListener, SocketAddr) {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_send_buffer_size(32 * 1_024).expect("a size that the kernel takes");
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
    let listener = socket.listen(64).and_then(|listener| listener.into_std()).expect("a listener");
    listener.set_nonblocking(false).expect("a socket");
    let address = listener.local_addr().expect("a bound socket");
    (listener, address)
}

impl Node {
    fn start(life: u32, secret: u8) -> Node {
        Node::start_with(life, secret, Encryption::Auto, now)
    }

    fn start_with(life: u32, secret: u8, encryption: Encryption, clock: fn() -> Instant) -> Node {
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
            encryption,
            clock: Rc::new(clock),
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

    /// Waits for a fault; its reason.
    async fn fault(&mut self) -> Box<str> {
        self.wait(|event| match event {
            LinkEvent::Fault { reason, .. } => Some(reason.clone()),
            _ => None,
        })
        .await
    }

    async fn receives(&mut self, kind: u16) {
        self.wait(|event| match event {
            LinkEvent::Received { message, .. } if message.kind == kind => Some(()),
            _ => None,
        })
        .await;
    }

    /// The same for a class that may be full.
    async fn send_when_room(&self, to: Life, kind: u16) {
        let sent = async {
            while self.links.send(standing(), to, Class::Call, message(kind)).is_err() {
                self.links.flush(standing());
                tokio::task::yield_now().await;
            }
        };
        timeout(LONGEST, sent).await.expect("the link does not take the message");
        self.links.flush(standing());
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
    for encryption in [Encryption::Auto, Encryption::Always, Encryption::Never] {
        run(async {
            let mut one = Node::start_with(1, 7, encryption, now);
            let mut two = Node::start_with(2, 7, encryption, now);
            see_each_other(&mut [&mut one, &mut two]);
            for (kind, class) in (0..).zip(Class::ALL) {
                one.send(two.life, class, kind).await;
                two.receives(kind).await;
                two.send(one.life, class, kind).await;
                one.receives(kind).await;
            }
        });
    }
}

#[test]
fn a_node_with_another_secret_is_told_apart() {
    for encryption in [Encryption::Auto, Encryption::Always] {
        run(async {
            let mut one = Node::start_with(1, 7, encryption, now);
            let mut two = Node::start_with(2, 8, encryption, now);
            see_each_other(&mut [&mut one, &mut two]);
            let reason = one.fault().await;
            assert!(reason.contains("give all nodes the same"), "{encryption:?}: {reason}");
            assert!(one.links.connected().is_empty() && two.links.connected().is_empty());
        });
    }
}

#[test]
fn plain_bytes_at_an_encrypted_port_are_refused() {
    run(async {
        let mut one = Node::start_with(1, 7, Encryption::Always, now);
        let mut two = Node::start_with(2, 7, Encryption::Never, now);
        see_each_other(&mut [&mut one, &mut two]);
        let reason = one.fault().await;
        assert!(reason.contains("does not encrypt"), "{reason}");
        assert!(one.links.connected().is_empty() && two.links.connected().is_empty());
    });
}

#[test]
fn a_node_that_does_not_encrypt_accepts_one_that_does() {
    run(async {
        let mut one = Node::start_with(1, 7, Encryption::Never, now);
        let mut two = Node::start_with(2, 7, Encryption::Always, now);
        see_each_other(&mut [&mut one, &mut two]);
        two.send(one.life, Class::Chat, 1).await;
        one.receives(1).await;
    });
}

/// Passes connections on to another address, shows the bytes that went there, and can end all connections.
struct TcpProxy {
    address: SocketAddr,
    carried: mpsc::Receiver<Vec<u8>>,
    connections: mpsc::Receiver<TcpStream>,
}

impl TcpProxy {
    fn start(to: SocketAddr) -> TcpProxy {
        let (listener, address) = listener();
        let (connection, connections) = mpsc::channel();
        let (carry, carried) = mpsc::channel();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(to)) else { return };
                for end in [&client, &server] {
                    // The test may have ended.
                    let _ = connection.send(end.try_clone().expect("a socket"));
                }
                let (from, into) =
                    (client.try_clone().expect("a socket"), server.try_clone().expect("a socket"));
                let carry = carry.clone();
                std::thread::spawn(move || copy(from, into, |bytes| drop(carry.send(bytes.to_vec()))));
                std::thread::spawn(move || copy(server, client, |_| ()));
            }
        });
        TcpProxy { address, carried, connections }
    }

    /// Ends all connections.
    fn cut(&self) {
        for end in self.connections.try_iter() {
            // It may have ended by itself.
            let _ = end.shutdown(std::net::Shutdown::Both);
        }
    }
}

fn copy(mut from: TcpStream, mut into: TcpStream, see: impl Fn(&[u8])) {
    let mut buffer = [0; 4_096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        see(&buffer[..count]);
        if into.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    // The other direction ends, too.
    let _ = into.shutdown(std::net::Shutdown::Both);
}

/// The node two dials one by a proxy.
fn nodes_by_proxy(encryption: Encryption) -> (Node, Node, TcpProxy) {
    let mut one = Node::start_with(1, 7, encryption, now);
    let mut two = Node::start_with(2, 7, encryption, now);
    let proxy = TcpProxy::start(one.address);
    one.links.set_view(&view(one.life, &[(one.life, one.address), (two.life, two.address)]));
    two.links.set_view(&view(two.life, &[(one.life, proxy.address), (two.life, two.address)]));
    (one, two, proxy)
}

#[test]
fn an_encrypted_link_goes_on_after_a_cut_and_shows_no_message() {
    for (encryption, is_shown) in [(Encryption::Always, false), (Encryption::Never, true)] {
        run(async {
            let (mut one, mut two, proxy) = nodes_by_proxy(encryption);
            two.send(one.life, Class::Chat, 1).await;
            one.receives(1).await;
            proxy.cut();
            one.wait(|event| matches!(event, LinkEvent::Lost { .. }).then_some(())).await;
            for kind in 2..5 {
                one.send(two.life, Class::Chat, kind).await;
                two.send(one.life, Class::Chat, kind).await;
            }
            for kind in 2..5 {
                two.receives(kind).await;
                one.receives(kind).await;
            }
            let carried: Vec<u8> = proxy.carried.try_iter().flatten().collect();
            assert_eq!(carried.windows(4).any(|bytes| bytes == b"body"), is_shown, "{encryption:?}");
        });
    }
}

/// A host that is cut off answers nothing, here a listener whose backlog is full. The kernel would try again after 1, 2, 4 and at last 64 s.
#[test]
fn a_connection_that_is_not_answered_is_tried_again_after_the_time_of_a_handshake() {
    run(async {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
        let full = socket.listen(1).expect("a listener");
        let address = full.local_addr().expect("a bound socket");
        let mut waiting = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
            waiting.push(stream.local_addr().expect("a connected socket"));
        }
        let mut two = Node::start(2, 7);
        two.links.set_view(&view(two.life, &[(Life(1), address), (two.life, two.address)]));
        let lost = |event: &LinkEvent| match event {
            LinkEvent::Lost { is_refused, .. } => Some(*is_refused),
            _ => None,
        };
        for _ in 0..2 {
            assert!(!two.wait(lost).await, "no process is known to have ended");
        }
        // The cut ends.
        let tried_again = async {
            loop {
                let (_, from) = full.accept().await.expect("a connection");
                if !waiting.contains(&from) {
                    return;
                }
            }
        };
        timeout(LONGEST, tried_again).await.expect("no connection is opened");
    });
}

/// A clock that stands: no connection is silent for too long, however busy the machine is.
fn standing() -> Instant {
    Instant::from_micros(1_800_000_000_000_000)
}

/// Bytes of a message's body while a peer is stopped.
const LARGE: usize = 16 * 1_024;

fn large(kind: u16) -> Message {
    Message { kind, epoch: Epoch(0), shard: 0, body: Bytes::from(vec![b'x'; LARGE]) }
}

/// A node on a thread of its own, which takes one message and is stopped then, until it is told to go on.
struct StoppingNode {
    address: SocketAddr,
    stopped: mpsc::Receiver<()>,
    go_on: mpsc::Sender<()>,
    /// Gives the kinds of what the node received afterwards, up to `LAST`.
    thread: std::thread::JoinHandle<Vec<u16>>,
}

impl StoppingNode {
    fn start(life: Life, one: (Life, SocketAddr), encryption: Encryption) -> StoppingNode {
        let (address_sender, address) = mpsc::channel();
        let (stopped_sender, stopped) = mpsc::channel();
        let (go_on, going_on) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let mut kinds = Vec::new();
            run(async {
                let mut two = Node::start_with(life.0, 7, encryption, standing);
                address_sender.send(two.address).expect("the test waits for it");
                two.links.set_view(&view(two.life, &[one, (two.life, two.address)]));
                two.receives(FIRST).await;
                stopped_sender.send(()).expect("the test waits for it");
                // The whole thread stands: neither its tasks nor its sockets are served, as after SIGSTOP.
                going_on.recv().expect("the test goes on");
                while kinds.last() != Some(&LAST) {
                    let kind = two.wait(|event| match event {
                        LinkEvent::Received { message, .. } => Some(message.kind),
                        _ => None,
                    });
                    kinds.push(kind.await);
                    two.links.flush(standing());
                }
            });
            kinds
        });
        StoppingNode { address: address.recv().expect("an address"), stopped, go_on, thread }
    }
}

const FIRST: u16 = 1;
const CALL: u16 = 2;
const ASK: u16 = 3;
const LAST: u16 = 4;

#[test]
fn a_stopped_peer_costs_bounded_memory_and_no_time_and_delays_no_other_class() {
    for encryption in [Encryption::Never, Encryption::Always] {
        run(async {
            let mut one = Node::start_with(1, 7, encryption, standing);
            let two = Life(2);
            let peer = StoppingNode::start(two, (one.life, one.address), encryption);
            one.links.set_view(&view(one.life, &[(one.life, one.address), (two, peer.address)]));
            one.send(two, Class::Call, FIRST).await;
            peer.stopped.recv().expect("the peer stops");
            let (mut taken, mut refused) = (0, None);
            // Three times what may wait.
            let bound = Class::Call.queue_bytes() + Class::Call.window() + 512 * 1_024;
            for _ in 0..3 * bound / LARGE {
                match one.links.send(standing(), two, Class::Call, large(CALL)) {
                    Ok(()) => taken += LARGE,
                    Err(error) => refused = Some(error.reason),
                }
                one.links.flush(standing());
                tokio::task::yield_now().await;
            }
            assert_eq!(refused, Some(SendFailure::Full));
            assert!(taken <= bound, "{taken} bytes wait for a peer that is stopped");
            // A full socket is waited for, not asked again and again.
            let before = one.links.counters().writes;
            for _ in 0..1_000 {
                one.links.flush(standing());
                tokio::task::yield_now().await;
            }
            let writes = one.links.counters().writes - before;
            assert!(writes < 20, "{writes} writes to a full socket");
            // A class that is full leaves the room of others alone, and their messages overtake its own.
            one.links.send(standing(), two, Class::Ask, large(ASK)).expect("room for another class");
            peer.go_on.send(()).expect("the peer waits");
            one.send_when_room(two, LAST).await;
            let kinds = joined(peer.thread).await;
            let calls = taken / LARGE;
            let before_ask = kinds.iter().position(|kind| *kind == ASK).expect("the question came");
            assert_eq!(kinds.iter().filter(|kind| **kind == CALL).count(), calls, "none is lost");
            assert!(before_ask < calls, "the question waited for all {calls} calls");
        });
    }
}

/// Waits for a thread without standing still.
async fn joined<T>(thread: std::thread::JoinHandle<T>) -> T {
    while !thread.is_finished() {
        tokio::task::yield_now().await;
    }
    thread.join().expect("the thread of the peer")
}

#[test]
fn an_owner_that_takes_nothing_makes_its_peers_stop() {
    run(async {
        let mut one = Node::start_with(1, 7, Encryption::Auto, standing);
        let mut two = Node::start_with(2, 7, Encryption::Auto, standing);
        see_each_other(&mut [&mut one, &mut two]);
        one.send(two.life, Class::Bulk, FIRST).await;
        two.receives(FIRST).await;
        // Nothing is taken at node two: what it holds is bounded, whatever node one sends.
        let body = Bytes::from(vec![b'x'; 200 * 1_024]);
        let mut sent = 0;
        for _ in 0..2_000 {
            let message = Message { kind: CALL, epoch: Epoch(0), shard: 0, body: body.clone() };
            if one.links.send(standing(), two.life, Class::Bulk, message).is_ok() {
                sent += 1;
            }
            one.links.flush(standing());
            tokio::task::yield_now().await;
        }
        let received = two.links.counters().received;
        assert!(received < 200, "{received} messages of 200 KiB wait for an owner that takes none");
        assert!(sent < 300, "{sent} messages were taken");
        for _ in 0..sent {
            two.receives(CALL).await;
            two.links.flush(standing());
        }
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

/// A node that misses another one for a moment ends its link, and makes a new one when the other is there after all.
#[test]
fn a_link_that_one_side_has_ended_begins_anew_when_the_node_is_in_the_view_again() {
    run(async {
        let (mut one, mut two) = (Node::start(1, 7), Node::start(2, 7));
        see_each_other(&mut [&mut one, &mut two]);
        // Each message takes the acknowledgement of the one before along.
        for kind in [1, 3, 5] {
            one.send(two.life, Class::Chat, kind).await;
            two.receives(kind).await;
            two.send(one.life, Class::Chat, kind + 1).await;
            one.receives(kind + 1).await;
        }
        one.links.set_view(&view(one.life, &[(one.life, one.address)]));
        see_each_other(&mut [&mut one, &mut two]);
        two.wait(|event| matches!(event, LinkEvent::Lost { .. }).then_some(())).await;
        two.send(one.life, Class::Chat, 7).await;
        // The link that has ended may have had it.
        two.wait(|event| match event {
            LinkEvent::Returned { message, .. } => (message.kind == 7).then_some(()),
            _ => None,
        })
        .await;
        two.send(one.life, Class::Chat, 8).await;
        one.receives(8).await;
        one.send(two.life, Class::Chat, 9).await;
        two.receives(9).await;
        let is_fault = |event: &LinkEvent| matches!(event, LinkEvent::Fault { .. });
        assert!(!one.events.iter().chain(&two.events).any(is_fault), "{:?} {:?}", one.events, two.events);
    });
}

#[test]
fn a_node_that_only_receives_writes_no_acknowledgement_for_each_message() {
    run(async {
        let mut one = Node::start_with(1, 7, Encryption::Auto, standing);
        let mut two = Node::start_with(2, 7, Encryption::Auto, standing);
        see_each_other(&mut [&mut one, &mut two]);
        one.send(two.life, Class::Chat, FIRST).await;
        two.receives(FIRST).await;
        let before = two.links.counters().writes;
        for kind in 10..110 {
            one.links.send(standing(), two.life, Class::Chat, message(kind)).expect("room");
            one.links.flush(standing());
            two.receives(kind).await;
            two.links.flush(standing());
        }
        // The clock stands still, so no acknowledgement is due.
        assert_eq!(two.links.counters().writes - before, 0);
    });
}

/// The node that leaves has flushed the message before the others learn that it has left. The test's task goes on before those of the
/// connections, which have not read it.
#[test]
fn a_message_of_a_node_that_leaves_is_read_although_the_view_has_it_no_more() {
    run(async {
        let (mut one, mut two) = (Node::start(1, 7), Node::start(2, 7));
        see_each_other(&mut [&mut one, &mut two]);
        two.send(one.life, Class::Call, 1).await;
        one.receives(1).await;
        for kind in 2..12 {
            two.links.send(now(), one.life, Class::Call, message(kind)).expect("room");
        }
        two.links.flush(now());
        // The runtime learns that there is something to read.
        tokio::task::yield_now().await;
        one.links.set_view(&view(one.life, &[(one.life, one.address)]));
        let mut events = Vec::new();
        one.links.take(&mut events);
        let received = events.iter().filter(|event| matches!(event, LinkEvent::Received { .. })).count();
        assert_eq!(received, 10, "{events:?}");
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

/// The node with the greater life opens the connections; the other one learns of their end, too.
#[test]
fn a_host_that_refuses_is_said_by_the_side_that_accepts() {
    run(async {
        let (mut one, mut two) = (Node::start(1, 7), Node::start(2, 7));
        see_each_other(&mut [&mut one, &mut two]);
        two.send(one.life, Class::Chat, 1).await;
        one.receives(1).await;
        // The process ends, and with it its listener.
        drop(two);
        one.wait(|event| matches!(event, LinkEvent::Lost { life: Life(2), is_refused: true }).then_some(()))
            .await;
    });
}
