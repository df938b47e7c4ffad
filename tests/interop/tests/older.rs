//! A node of the version before in a farm with a real node of this one. The test plays it: it announces itself as that version does, and
//! sends the messages that it wrote (`crates/shard-message/src/wire/golden`).

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use cluster::farm::EndReason;
use cluster::fields::{Fields, put_bytes, put_varint};
use cluster::limits::MESSAGE_BYTES;
use cluster::link::{Class, FarmSecret, Message, WIRE};
use cluster::member::{Member, MemberState, Roles};
use cluster::membership::MembershipEffect;
use cluster::{CallSlot, Epoch, Life};
use farm::agent::{AgentArgs, FarmAgent, FarmEnd, FarmListener};
use farm::council::{CouncilSettings, LifeClock, MEMBER_AGE};
use farm::links::{Encryption, LinkEvent, LinkSettings, Links};
use farm::view::FarmView;
use golden::{Golden, additions, bytes_of_hex};
use hmac::{Hmac, KeyInit as _, Mac as _};
use interop::{Farm, Nats, NatsRelease, Node};
use sha2::Sha256;
use stdx::Instant;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::time::timeout;

const LONGEST: Duration = Duration::from_secs(40);
/// RFC 3261 §17.1.1.1.
const T1: Duration = Duration::from_millis(500);

// Kinds of messages, and fields of them that the test gives values of its own.
const PACKET: u16 = 1;
const ANSWER: u16 = 5;
const PACKET_BYTES: u64 = 1;
const PACKET_LOCAL: u64 = 3;
const PACKET_REMOTE: u64 = 4;
const FLOW: std::ops::RangeInclusive<u64> = 5..=7;
const FROM_LIFE: u64 = 11;
const FROM_SHARD: u64 = 12;

/// News of the played node.
#[derive(Debug)]
enum News {
    Joined(Life),
    View(Arc<FarmView>),
    Ended(FarmEnd),
    Link(LinkEvent),
}

/// Passes news on, and does what a node does that is asked to drain.
struct Listener {
    news: mpsc::Sender<News>,
    agent: Arc<OnceLock<FarmAgent>>,
}

impl Listener {
    fn pass(&self, news: News) {
        // The test may be over.
        let _ = self.news.try_send(news);
    }
}

impl FarmListener for Listener {
    fn joined(&mut self, life: Life) {
        self.pass(News::Joined(life));
    }
    fn view(&mut self, view: Arc<FarmView>) {
        self.pass(News::View(view));
    }
    fn council(&mut self, _away: Option<&str>) {}
    fn member(&mut self, _news: &MembershipEffect) {}
    fn drain_asked(&mut self) {
        self.agent.wait().drain();
    }
    fn drained(&mut self) {
        self.agent.wait().leave();
    }
    fn ended(&mut self, end: &FarmEnd) {
        self.pass(News::Ended(end.clone()));
    }
}

/// The node that the test plays.
struct PlayedNode {
    life: Life,
    view: Option<Arc<FarmView>>,
    links: Links,
    news: mpsc::Receiver<News>,
    /// Events of links that no test has asked for yet.
    events: Vec<LinkEvent>,
}

#[expect(clippy::disallowed_methods, reason = "a node has a clock, as a server gives it one")]
fn clock() -> Instant {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    Instant::from_micros(u64::try_from(since.as_micros()).expect("before the year 500,000"))
}

/// The life that the server would take now.
fn life_of_now() -> u32 {
    u32::try_from((clock().as_micros() - 1_767_225_600_000_000) / 125_000).expect("before 2043")
}

/// The farm's secret for one purpose, as all versions derive it.
fn derived(secret: &[u8; 32], purpose: &str) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
    mac.update(b"belfry farm ");
    mac.update(purpose.as_bytes());
    mac.finalize().into_bytes().into()
}

impl PlayedNode {
    /// Joins the farm as a node that speaks these wire versions.
    async fn join(nats: &Nats, secret: [u8; 32], name: &str, wire: (u16, u16)) -> PlayedNode {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let council = CouncilSettings {
            servers: vec![nats.url()],
            farm: "test".into(),
            node: name.into(),
            credentials: None,
            authorities: None,
            replicas: 1,
            member_age: MEMBER_AGE,
            proof: Bytes::copy_from_slice(&derived(&secret, "council")),
            clock: LifeClock(Arc::new(life_of_now)),
        };
        let member = Member {
            life: Life(0),
            farm: "test".into(),
            name: name.into(),
            roles: Roles::BOTH,
            weight: 100,
            address: address.to_string().into(),
            shards: 1,
            build: "0.0.9".into(),
            wire,
            state: MemberState::Joining,
            renewal: 0,
        };
        let (sender, mut news) = mpsc::channel(1_024);
        let agent = Arc::new(OnceLock::new());
        let args = AgentArgs {
            council,
            member,
            clock: Box::new(clock),
            shard_clock: Box::new(clock),
            database: None,
        };
        let passes_on = Listener { news: sender, agent: Arc::clone(&agent) };
        let (started, _thread) = FarmAgent::start(args, Box::new(passes_on)).expect("a thread");
        agent.set(started).expect("it is set once");
        let joined = timeout(LONGEST, news.recv()).await.expect("the council admits it");
        let Some(News::Joined(life)) = joined else { panic!("{joined:?}") };
        let mut links = Links::new(LinkSettings {
            farm: "test".into(),
            life,
            build: "0.0.9".into(),
            wire,
            secret: FarmSecret::new(derived(&secret, "links")),
            encryption: Encryption::Auto,
            clock: Rc::new(clock),
            random: Rc::new(|| [7; 32]),
        });
        links.listen(listener).expect("a listener");
        PlayedNode { life, view: None, links, news, events: Vec::new() }
    }

    /// The next news; a view is given to the links.
    async fn next(&mut self) -> News {
        loop {
            if let Some(event) = self.events.pop() {
                return News::Link(event);
            }
            tokio::select! {
                news = self.news.recv() => {
                    let news = news.expect("the agent runs");
                    if let News::View(view) = &news {
                        self.links.set_view(view);
                        self.view = Some(Arc::clone(view));
                    }
                    return news;
                }
                () = poll_fn(|context| self.links.poll_ready(context)) => {
                    self.links.take(&mut self.events);
                    self.events.reverse();
                }
            }
        }
    }

    /// Waits for news; others are passed over.
    async fn wait<T>(&mut self, what: &str, wanted: impl Fn(&PlayedNode, &News) -> Option<T>) -> T {
        let found = async {
            loop {
                let news = self.next().await;
                if let Some(found) = wanted(self, &news) {
                    return found;
                }
            }
        };
        timeout(LONGEST, found).await.unwrap_or_else(|_| panic!("{what}: it does not come"))
    }

    /// Waits for a message of this kind.
    async fn receive(&mut self, what: &str, kind: u16) -> Message {
        self.wait(what, |_, news| match news {
            News::Link(LinkEvent::Received { message, .. }) if message.kind == kind => Some(message.clone()),
            _ => None,
        })
        .await
    }

    /// Repeats a request to the real node (RFC 3261 §17.1.2.2) until its packet comes over the link.
    async fn receive_repeated(&mut self, socket: &UdpSocket, node: SocketAddr, request: &str) -> Message {
        for _ in 0..LONGEST.as_millis() / T1.as_millis() {
            socket.send_to(request.as_bytes(), node).await.expect("loopback");
            let events = timeout(T1, self.wait("a packet of the played node's call", is_packet));
            if let Ok(packet) = events.await {
                return packet;
            }
        }
        panic!("no packet of the played node's call comes");
    }

    /// Sends once the link is connected.
    async fn send(&mut self, to: Life, class: Class, message: Message) {
        let sent = async {
            while self.links.send(clock(), to, class, message.clone()).is_err() {
                tokio::task::yield_now().await;
            }
        };
        timeout(LONGEST, sent).await.expect("the link is connected");
        self.links.flush(clock());
    }

    /// A Call-ID whose call slot is this node's.
    fn own_call(&self) -> String {
        let view = self.view.as_ref().expect("it has a share");
        let is_own = |call_id: &String| {
            let worker = view.worker(CallSlot::of(call_id.as_bytes()).number());
            worker.is_some_and(|worker| worker.life == self.life)
        };
        (0..).map(|number| format!("call-{number}")).find(is_own).expect("it has a share")
    }
}

/// A message as the version before writes it, with other values of these fields; fields without a value are left out.
fn message_of_version_before(name: &str, values: &[(u64, Option<Vec<u8>>)]) -> Message {
    let messages_crate = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/shard-message");
    let kept = Golden::new(&messages_crate.display().to_string(), "src/wire/golden", WIRE.0);
    let files = kept.files(WIRE.0);
    let (kind, hex) =
        files[&format!("{name}.hex")].split_once('\n').expect("the kind is in a line of its own");
    let (before, mut body) = (bytes_of_hex(hex), Vec::new());
    let mut fields = Fields::new("message", &before, MESSAGE_BYTES).expect("it is short");
    while let Some(field) = fields.next().expect("it is whole") {
        match values.iter().find(|(number, _)| *number == field.number) {
            Some((number, Some(value))) => put_bytes(&mut body, *number, value),
            Some((_, None)) => {}
            None => put_bytes(&mut body, field.number, field.bytes),
        }
    }
    let kind = u16::from_str_radix(kind, 16).expect("four digits");
    Message { kind, epoch: Epoch(0), shard: 0, body: body.into() }
}

fn is_packet(_: &PlayedNode, news: &News) -> Option<Message> {
    match news {
        News::Link(LinkEvent::Received { message, .. }) if message.kind == PACKET => Some(message.clone()),
        _ => None,
    }
}

/// The values of a packet that this request came in, over UDP.
fn packet_values(request: &str, from: SocketAddr, to: SocketAddr) -> Vec<(u64, Option<Vec<u8>>)> {
    let values = [
        (PACKET_BYTES, Some(request.as_bytes().to_vec())),
        (PACKET_LOCAL, address(to)),
        (PACKET_REMOTE, address(from)),
    ];
    values.into_iter().chain(FLOW.map(|number| (number, None))).collect()
}

/// The response to a request of this call; others are passed over.
async fn answer_to(call_id: &str, socket: &UdpSocket) -> String {
    let found = async {
        loop {
            let mut response = [0; 2_000];
            let length = socket.recv(&mut response).await.expect("loopback");
            let response = String::from_utf8_lossy(&response[..length]).into_owned();
            if response.contains(&format!("Call-ID: {call_id}\r\n")) {
                return response;
            }
        }
    };
    timeout(LONGEST, found).await.expect("it is answered")
}

fn number(value: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    put_varint(&mut bytes, value);
    Some(bytes)
}

fn address(value: SocketAddr) -> Option<Vec<u8>> {
    let SocketAddr::V4(value) = value else { panic!("loopback") };
    Some([&value.ip().octets()[..], &value.port().to_be_bytes()].concat())
}

fn options(call_id: &str, own: SocketAddr) -> String {
    format!(
        "OPTIONS sip:{own} SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bK{call_id};rport\r\nMax-Forwards: 70\r\n\
         From: <sip:a@{own}>;tag=1\r\nTo: <sip:{own}>\r\nCall-ID: {call_id}\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n"
    )
}

/// Waits until the real node sees this wire version as the least of all.
fn wait_for_level(farm: &Farm, level: u16) {
    let found = || {
        let status = farm.nodes[0].run(&["farm", "status", "--json"]);
        let status: serde_json::Value = serde_json::from_str(&status).expect("it is JSON");
        (status["level"] == level).then_some(())
    };
    wait::until("the farm's wire version", LONGEST, found, || farm.nodes[0].tail());
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, test);
}

#[test]
fn a_node_of_the_version_before_joins_works_on_calls_asks_and_is_drained() {
    run(async {
        let nats = Nats::start(NatsRelease::Debian);
        let farm = Farm::start(&nats, 1, "user", 9);
        wait_for_level(&farm, WIRE.1);
        let mut older = PlayedNode::join(&nats, farm.shared_secret(), "older", (WIRE.0, WIRE.0)).await;
        let has_share = |node: &PlayedNode, _: &News| {
            let view = node.view.as_ref()?;
            let other = view.peers.keys().copied().find(|life| *life != node.life)?;
            view.map
                .workers()
                .any(|(_, slot)| slot.worker.is_some_and(|it| it.life == node.life))
                .then_some(other)
        };
        let real = older.wait("a share of the call slots", has_share).await;
        wait_for_level(&farm, WIRE.0);

        // A packet of a call of its own comes in the form that it knows. Until the link is there, the real node answers by itself.
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let own = socket.local_addr().expect("it is bound");
        let node = SocketAddr::from((Ipv4Addr::LOCALHOST, farm.port));
        let request = options(&older.own_call(), own);
        let packet = older.receive_repeated(&socket, node, &request).await;
        let sent = message_of_version_before("packet", &packet_values(&request, own, node));
        assert_eq!(additions(&sent.body, &packet.body), Ok(()), "{packet:?}");

        // A packet that it passes on is worked on and answered.
        let request = options("passed-on", own);
        let packet = message_of_version_before("packet", &packet_values(&request, own, node));
        older.send(real, Class::Call, packet).await;
        assert!(answer_to("passed-on", &socket).await.starts_with("SIP/2.0 "));

        // So is a question, in a form that it knows.
        let asker = [(FROM_LIFE, number(older.life.0.into())), (FROM_SHARD, number(0))];
        older.send(real, Class::Ask, message_of_version_before("ask-lookup", &asker)).await;
        let answer = older.receive("the answer to a question", ANSWER).await;
        let forms =
            ["answer-unavailable", "answer-bindings"].map(|name| message_of_version_before(name, &[]));
        let first_fields = |body: &[u8]| {
            let mut fields = Fields::new("answer", body, MESSAGE_BYTES).expect("it is short");
            std::iter::from_fn(|| fields.next().expect("it is whole").map(|field| field.number))
                .collect::<Vec<_>>()
        };
        let known = forms.map(|form| first_fields(&form.body));
        assert!(known.contains(&first_fields(&answer.body)), "{answer:?}");

        // It is drained by a command at the real node, and the farm is of one version again.
        let drained = farm.nodes[0].run(&["farm", "drain", "older"]);
        let end = older.wait("its end", |_, news| match news {
            News::Ended(end) => Some(end.clone()),
            _ => None,
        });
        assert_eq!(end.await, FarmEnd::Ended(EndReason::Left), "{drained}");
        wait_for_level(&farm, WIRE.1);
        farm.wait_for_shares(1);
    });
}

#[test]
fn a_node_that_is_more_than_one_version_apart_ends_and_says_so() {
    run(async {
        for (name, wire) in [("older", (WIRE.0 - 1, WIRE.0 - 1)), ("newer", (WIRE.1 + 1, WIRE.1 + 2))] {
            let nats = Nats::start(NatsRelease::Debian);
            let farm = Farm::start(&nats, 0, "user", 9);
            let mut there = PlayedNode::join(&nats, farm.shared_secret(), name, wire).await;
            let serves = |node: &PlayedNode, _: &News| {
                let peers = &node.view.as_ref()?.peers;
                peers.get(&node.life).filter(|own| own.state == MemberState::Serving).map(|_| ())
            };
            there.wait("its share", serves).await;
            let (code, text) = farm.prepare(&nats, "n0", true).fails(&["serve"]);
            let sentence =
                format!("speaks wire versions {} to {}: upgrade one version at a time", wire.0, wire.1);
            assert!(code == 75 && text.contains(&sentence), "{code}: {text}");
        }
    });
}

/// The keys of an example, those that are commented out among them, with their sections.
fn keys(text: &str) -> BTreeSet<String> {
    let mut section = String::new();
    let mut found = BTreeSet::new();
    for line in text.lines() {
        let line = line.trim_start_matches("# ");
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            // An item of a list has two brackets.
            section = name.trim_start_matches('[').to_owned();
        } else if let Some((name, _)) = line.split_once(" = ")
            && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        {
            found.insert(format!("{section}.{name}"));
        }
    }
    found
}

/// A node is started again with the file that it had. `kept` has the example with every key of the version before.
#[test]
fn the_configuration_of_the_version_before_is_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let kept = folder.join("kept/belfry-1.toml");
    let read = |path: &Path| std::fs::read_to_string(path).expect("it is there");
    let now = keys(&read(&folder.join("../../docs/belfry.example.toml")));
    let before = keys(&read(&kept));
    assert!(before.len() > 100, "{before:?}");
    let gone: Vec<_> = before.difference(&now).collect();
    assert!(gone.is_empty(), "keys that files of the version before may have: {gone:?}");
    // Its files are examples, and not there; nothing else is wrong with it.
    let (_, faults) = Node::prepare().fails(&["check-config", &kept.display().to_string()]);
    let is_file = |line: &str| line.contains("which cannot be read (No such file");
    assert!(faults.lines().filter(|line| !line.is_empty()).all(is_file), "{faults}");
}
