//! The wire form of each kind of message: as bytes in a file, there and back, and any bytes.

use std::sync::Arc;

use cluster::fields::{put_bytes, put_number};
use golden::{Golden, additions, bytes_of_hex, hex};
use proptest::option::of;
use proptest::prelude::*;
use router::{
    AccountUnread, Admission, AdmitRefused, Answer, Binding, CallInfo, CallPhase, Change, Chat, Contact,
    KeepRefused, Offer, Offered, PhoneAccount, Presence, Publish, PublishRefused, Published, Push, Query,
    Received, Register, RegisterRefused, Show, State, Topic, WaitingMessage, WatchId,
};
use sip::endpoint::SharedResponse;
use stdx::Instant;

use super::chat::tests as chat;
use super::shared::HANDLINGS;
use super::values::TOPICS;
use super::*;

const TO: ShardAddress = ShardAddress { life: Life(7), shard: 3 };
const FROM: ShardAddress = ShardAddress { life: Life(9), shard: 1 };

fn flow() -> FlowId {
    FlowId { edge: TO, number: 1 << 40 }
}

fn message_of(message: &Message) -> ShardMessage {
    match read(message) {
        Ok(Decoded::Message(read)) => read,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_packet_comes_back() {
    for remote in ["192.0.2.1:5060", "[2001:db8::1]:5061"] {
        let remote: SocketAddr = remote.parse().unwrap();
        for (transport, flow) in [(Transport::Udp, None), (Transport::Wss, Some(flow()))] {
            let source = Source { transport, local: remote, remote, flow };
            let sent = Packet { bytes: Bytes::from_static(b"OPTIONS sip:a SIP/2.0\r\n\r\n"), source };
            let message = packet(TO, &sent);
            assert_eq!((message.shard, class_of(&message)), (3, Class::Call));
            let ShardMessage::Packets(read) = message_of(&message) else { panic!("{message:?}") };
            assert_eq!((&read[0].bytes, read[0].source), (&sent.bytes, source));
        }
    }
}

fn example_of_transmit() -> Transmit {
    let target = Target {
        transport: Transport::Tls,
        remote: "192.0.2.1:5061".parse().unwrap(),
        flow: Some(flow()),
        local: None,
        tls_name: Some("example.net".into()),
        reconnect: true,
    };
    Transmit { target, bytes: Bytes::from_static(b"SIP/2.0 200 OK\r\n"), report: Some(TransmitId(5)) }
}

#[test]
fn a_message_to_send_and_its_report_come_back() {
    let sent = example_of_transmit();
    let ShardMessage::Transmit { transmit: back, from } = message_of(&transmit(TO, &sent, FROM)) else {
        panic!("not a transmit");
    };
    assert_eq!((back.target, back.bytes, back.report, from), (sent.target, sent.bytes, sent.report, FROM));
    let failed = message_of(&send_failed(TO, TransmitId(u64::MAX)));
    assert!(matches!(failed, ShardMessage::SendFailed(TransmitId(u64::MAX))), "{failed:?}");
}

#[test]
fn kinds_and_fields_of_later_versions_are_passed_over() {
    let mut later = send_failed(TO, TransmitId(1));
    let mut body = later.body.to_vec();
    put_bytes(&mut body, 900, b"later");
    later.body = body.into();
    assert!(matches!(message_of(&later), ShardMessage::SendFailed(_)));
    later.kind = 4_000;
    assert!(matches!(read(&later), Ok(Decoded::LaterKind)));
}

#[test]
fn a_question_of_a_later_version_is_answered_so() {
    // The kind 4,000 of a query, and a watch of the topic 4,000.
    let mut later = Vec::new();
    put_number(&mut later, 1, 4_000);
    let mut topic = Vec::new();
    for (number, value) in [(1, 3), (4, 4_000), (5, 1), (6, 1)] {
        put_number(&mut topic, number, value);
    }
    for query in [later, topic] {
        let mut body = Vec::new();
        for (number, value) in [(11, 9), (12, 1), (13, 77)] {
            put_number(&mut body, number, value);
        }
        put_bytes(&mut body, 14, &query);
        let read = read(&message(ASK, TO, body));
        let Ok(Decoded::LaterQuery { from: FROM, id: AskId(77) }) = read else { panic!("{read:?}") };
    }
    let read = read(&not_understood(FROM, AskId(77)));
    assert!(matches!(read, Ok(Decoded::NotUnderstood(AskId(77)))), "{read:?}");
}

#[test]
fn a_reason_of_a_later_version_is_a_refusal() {
    let mut refused = Vec::new();
    put_number(&mut refused, 2, 4_000);
    let mut reply = Vec::new();
    put_bytes(&mut reply, 2, &refused);
    let mut body = Vec::new();
    put_number(&mut body, 13, 1);
    put_bytes(&mut body, 15, &reply);
    let ShardMessage::Answer { answer, .. } = message_of(&message(ANSWER, TO, body)) else { panic!() };
    assert_eq!(answer, Answer::Registered(Err(RegisterRefused::StoreFailed)));
}

/// One message of each kind, query, answer and push, with all fields of each value.
fn examples() -> Vec<(String, ShardMessage)> {
    let mut named = Vec::new();
    let remote = "192.0.2.1:5060".parse().unwrap();
    let source = Source { transport: Transport::Udp, local: remote, remote, flow: Some(flow()) };
    let bytes = Bytes::from_static(b"OPTIONS sip:a SIP/2.0\r\n\r\n");
    named.push(("packet".into(), ShardMessage::Packets(vec![Packet { bytes, source }])));
    let transmit = ShardMessage::Transmit { transmit: example_of_transmit(), from: FROM };
    named.push(("transmit".into(), transmit));
    named.push(("send-failed".into(), ShardMessage::SendFailed(TransmitId(5))));
    for (name, handling) in
        [("unhandled", HANDLINGS[0]), ("forwarded", HANDLINGS[1]), ("in-context", HANDLINGS[2])]
    {
        let shared = SharedResponse { bytes: Bytes::from_static(b"SIP/2.0 200 OK\r\n\r\n"), handling };
        named.push((format!("shared-{name}"), ShardMessage::SharedResponse(shared)));
    }
    for (name, query) in queries() {
        named.push((format!("ask-{name}"), ShardMessage::Ask { from: FROM, id: AskId(300), query }));
    }
    for (name, answer) in answers() {
        named.push((format!("answer-{name}"), ShardMessage::Answer { id: AskId(300), answer }));
    }
    let state = State::MessageSummary { waiting: 2 };
    named.push(("push-state".into(), ShardMessage::Push(Push::State { watch: WatchId(6), state })));
    let (bindings, message) = (vec![binding()], Box::new(waiting()));
    named.push(("push-deliver".into(), ShardMessage::Push(Push::Deliver { bindings, message })));
    for (name, aor) in [("account", Some(ALICE.into())), ("accounts", None)] {
        let push = ShardMessage::Push(Push::AccountChanged { aor });
        named.push((format!("push-{name}"), push));
    }
    let aors = vec![ALICE.into(), "bob@example.net".into()];
    named.push(("push-watched".into(), ShardMessage::Push(Push::Watched { owner: Some(FROM), aors })));
    for (name, message) in chat::examples() {
        named.push((format!("chat-{name}"), ShardMessage::Xmpp(vec![message])));
    }
    named.push(("chat-routed-copies".into(), ShardMessage::Xmpp(chat::copies(3))));
    named.push(("chat-deliver-copies".into(), ShardMessage::Xmpp(chat::copies_for_clients(3))));
    for (name, message) in rooms::tests::examples() {
        named.push((format!("room-{name}"), ShardMessage::Room(message)));
    }
    named
}

fn encoded(name: &str) -> Message {
    encode(TO, &examples().iter().find(|(known, _)| known == name).unwrap().1).remove(0)
}

/// The kinds that a third node passes on.
fn relayed_messages() -> Vec<(&'static str, Message)> {
    let first = Passage::new(FROM.life);
    let again = first.after(Life(8)).after(Life(300));
    vec![
        ("relayed-packet", relayed(&first, &encoded("packet"))),
        ("relayed-shared", relayed(&first, &encoded("shared-forwarded"))),
        ("relayed-again", relayed(&again, &encoded("packet"))),
    ]
}

#[test]
fn a_relayed_message_comes_back() {
    for (name, sent) in relayed_messages() {
        assert_eq!((sent.shard, class_of(&sent)), (3, Class::Call));
        let Ok(Decoded::Relayed { passage, message }) = read(&sent) else { panic!("{name}") };
        assert_eq!((passage.to(), message.shard), (FROM.life, 3));
        let passed: &[Life] = if name == "relayed-again" { &[Life(8), Life(300)] } else { &[] };
        assert_eq!(passage.passed(), passed);
        assert!(is_relayed(message.kind));
        assert_eq!(has_packet(&sent), name != "relayed-shared");
        assert_eq!(has_packet(&message), name != "relayed-shared");
        assert_eq!(relayed(&passage, &message), sent, "{name}");
        // Twice: the nodes that have had it would not be known.
        assert!(read(&relayed(&passage, &sent)).is_err(), "{name}");
    }
    let question = encode(TO, &ShardMessage::Ask { from: FROM, id: AskId(1), query: queries().remove(0).1 });
    assert!(read(&relayed(&Passage::new(FROM.life), &question[0])).is_err());
    let transmit = relayed(&Passage::new(FROM.life), &encoded("transmit"));
    let Ok(Decoded::Relayed { message, .. }) = read(&transmit) else { panic!("{transmit:?}") };
    assert_eq!((message, has_packet(&transmit)), (encoded("transmit"), false));
}

/// A message that names many nodes costs no more than one that names as many as may pass it on.
#[test]
fn a_relayed_message_has_a_bounded_passage() {
    let inner = encoded("packet");
    let passage = (1..1_000).fold(Passage::new(FROM.life), |passage, life| passage.after(Life(life)));
    let Ok(Decoded::Relayed { passage, message }) = read(&relayed(&passage, &inner)) else { panic!() };
    assert_eq!(passage.passed(), [Life(1), Life(2), Life(3)]);
    assert_eq!(message, inner);
}

const ALICE: &str = "alice@example.net";

fn until() -> Instant {
    Instant::from_micros(1_800_000_000_000_000)
}

fn contact() -> Contact {
    let received = Received {
        transport: Transport::Ws,
        local: "192.0.2.7:5060".parse().unwrap(),
        remote: "[2001:db8::1]:40000".parse().unwrap(),
        flow: Some(flow()),
    };
    Contact {
        uri: "sip:alice@192.0.2.1".into(),
        q: 500,
        expires: 3_600,
        instance: "urn:uuid:1".into(),
        reg_id: 1,
        path: "<sip:edge.example.net;lr>".into(),
        user_agent: "a phone".into(),
        received: Some(received),
    }
}

fn binding() -> Binding {
    Binding { contact: contact(), expires_at: until(), call_id: "c1".into(), cseq: 7 }
}

fn waiting() -> WaitingMessage {
    WaitingMessage {
        id: 5,
        aor: ALICE.into(),
        from: "sip:bob@example.net".into(),
        content_type: "text/plain".into(),
        body: Arc::from(&b"hello"[..]),
        sent_at: until(),
        expires_at: None,
    }
}

fn call() -> CallInfo {
    CallInfo {
        call_id: "c2".into(),
        local_tag: "l".into(),
        remote_tag: "r".into(),
        initiator: true,
        remote: "sip:bob@example.net".into(),
        phase: CallPhase::Confirmed,
    }
}

fn chat() -> Chat {
    Chat { show: Show::Dnd, note: "at work".into() }
}

fn queries() -> Vec<(&'static str, Query)> {
    let (topic, watch, until) = (Topic::Dialog, WatchId(6), until());
    let register = |change| {
        let (aor, call_id) = (ALICE.into(), "c1".into());
        Query::Register(Box::new(Register { aor, call_id, cseq: 7, change, max_contacts: 8 }))
    };
    let publish = Publish {
        aor: ALICE.into(),
        etag: Some("e".into()),
        document: Some(Arc::from(&b"<presence/>"[..])),
        expires: 60,
    };
    let admission = Admission {
        aor: ALICE.into(),
        call_id: "c2".into(),
        caller_tag: "t".into(),
        initiator: true,
        max_calls: Some(2),
        max_rate: Some(3),
    };
    let offer = Offer { message: waiting(), sender: Some("bob@example.net".into()), has_phones: true };
    vec![
        ("lookup", Query::Lookup { aor: ALICE.into() }),
        ("register-none", register(Change::None)),
        ("register-all", register(Change::RemoveAll)),
        ("register", register(Change::Update(vec![contact(), contact()]))),
        ("watch", Query::Watch { aor: ALICE.into(), topic, watch, until }),
        (
            "watch-consent",
            Query::WatchByConsent {
                watcher: "bob@example.net".into(),
                aor: ALICE.into(),
                topic,
                watch,
                until,
            },
        ),
        ("unwatch", Query::Unwatch { aor: ALICE.into(), topic, watch }),
        ("publish", Query::Publish(Box::new(publish))),
        ("call", Query::CallChanged { aor: ALICE.into(), call: call() }),
        ("watched", Query::Watched { aor: ALICE.into(), owner: FROM }),
        ("admit", Query::Admit(Box::new(admission))),
        ("keep", Query::Keep(Box::new(waiting()))),
        ("keep-stranger", Query::KeepOfStranger(Box::new(waiting()))),
        ("keep-expiring", Query::Keep(Box::new(WaitingMessage { expires_at: Some(until), ..waiting() }))),
        ("offer", Query::Offer(Box::new(offer))),
        ("chat", Query::ChatChanged { aor: ALICE.into(), chat: Some(chat()) }),
        ("delivered", Query::Delivered { aor: ALICE.into(), message: 5 }),
        ("account", Query::Account { aor: ALICE.into() }),
    ]
}

fn account() -> PhoneAccount {
    PhoneAccount {
        aor: ALICE.into(),
        md5: [1; 16],
        sha256: [2; 32],
        sha512_256: [3; 32],
        disabled: true,
        max_contacts: 8,
        max_calls: Some(2),
        max_rate: Some(3),
        deny: vec!["00900*".into(), "00882*".into()],
    }
}

fn answers() -> Vec<(&'static str, Answer)> {
    let presence = Presence {
        open: true,
        on_the_phone: true,
        chat: Some(chat()),
        documents: vec![Arc::from(&b"<presence/>"[..]), Arc::from(&b""[..])],
    };
    let published = Published { etag: "e".into(), expires: 60 };
    vec![
        ("bindings", Answer::Bindings(vec![binding(), binding()])),
        ("registered", Answer::Registered(Ok(vec![binding()]))),
        ("registered-refused", Answer::Registered(Err(RegisterRefused::TooManyContacts))),
        ("presence", Answer::State(State::Presence(presence))),
        ("dialog", Answer::State(State::Dialog(vec![call(), call()]))),
        ("summary", Answer::State(State::MessageSummary { waiting: 2 })),
        ("registration", Answer::State(State::Registration(vec![binding()]))),
        ("watch-refused", Answer::WatchRefused),
        ("unavailable", Answer::Unavailable),
        ("published", Answer::Published(Ok(published))),
        ("published-refused", Answer::Published(Err(PublishRefused::ConditionalRequestFailed))),
        ("kept", Answer::Kept(Ok(()))),
        ("kept-refused", Answer::Kept(Err(KeepRefused::TooLarge))),
        ("admitted", Answer::Admitted(Ok(()))),
        ("admitted-refused", Answer::Admitted(Err(AdmitRefused::TooFast))),
        ("offered", Answer::Offered(Offered::NoClient)),
        ("account", Answer::Account(Ok(Some(Box::new(account()))))),
        ("account-none", Answer::Account(Ok(None))),
        ("account-unread", Answer::Account(Err(AccountUnread))),
    ]
}

/// A node must always write and read them so: the files of a released version never change; a later version has files of its own.
/// `BLESS=1` writes a file that does not exist.
#[test]
fn each_kind_of_message_is_written_as_in_its_file() {
    for (name, message) in relayed_messages() {
        is_as_in_file(name, &message);
    }
    let name_of_last = ("not-understood".to_owned(), not_understood(TO, AskId(300)));
    let messages = examples().into_iter().flat_map(|(name, message)| {
        encode(TO, &message).into_iter().map(move |message| (name.clone(), message))
    });
    for (name, message) in messages.chain([name_of_last]) {
        is_as_in_file(&name, &message);
    }
    for (name, probe) in probes() {
        is_as_in_file(name, &probe.message());
    }
}

/// The digests of an account can authenticate its requests, and messages of nodes are logged by their debug text.
#[test]
fn the_debug_text_of_an_account_has_no_digests() {
    let account = PhoneAccount { md5: [0xa7; 16], sha256: [0xa7; 32], sha512_256: [0xa7; 32], ..account() };
    let text = format!("{:?}", Answer::Account(Ok(Some(Box::new(account)))));
    assert!(text.contains(ALICE) && !text.contains("167") && !text.contains("a7"), "{text}");
}

/// An account without a digest would be one whose password nothing fits, or everything.
#[test]
fn an_account_without_all_digests_is_a_fault() {
    let mut value = Vec::new();
    put_bytes(&mut value, 1, ALICE.as_bytes());
    put_bytes(&mut value, 2, &[1; 16]);
    for digest in [&[2; 31][..], &[2; 32]] {
        let mut found = value.clone();
        put_bytes(&mut found, 3, digest);
        let (mut reply, mut body) = (Vec::new(), Vec::new());
        put_bytes(&mut reply, 10, &found);
        put_number(&mut body, 13, 1);
        put_bytes(&mut body, 15, &reply);
        assert!(read(&message(ANSWER, TO, body)).is_err());
    }
}

fn probes() -> [(&'static str, Probe); 2] {
    let (sent_at, from) = (until().as_micros(), FROM.life);
    [("probe", Probe::Asked { sent_at, from }), ("probe-answer", Probe::Answered { sent_at, from })]
}

fn kept() -> Golden {
    Golden::new(env!("CARGO_MANIFEST_DIR"), "src/wire/golden", WIRE.1)
}

/// Compares a message with its file: the kind, and the fields.
pub(super) fn is_as_in_file(name: &str, message: &Message) {
    kept().check(&format!("{name}.hex"), &format!("{:04x}\n{}", message.kind, hex(&message.body)));
}

/// A message from the text of its file.
fn message_in(text: &str) -> Message {
    let (kind, body) = text.split_once('\n').unwrap();
    let kind = u16::from_str_radix(kind, 16).unwrap();
    Message { kind, epoch: Epoch(0), shard: TO.shard.to_be_bytes()[1], body: bytes_of_hex(body).into() }
}

#[test]
fn versions_that_have_been_released_are_closed() {
    kept().assert_released_are_closed();
}

/// Messages as the version before wrote them, in the form that it had. A message that is new in this version has none.
#[test]
fn messages_of_the_version_before_are_read() {
    let files = kept().files(WIRE.0);
    let message = |name: &str| files.get(&format!("{name}.hex")).map(|text| message_in(text));
    let examples = examples();
    let read: Vec<_> =
        examples.iter().filter_map(|(name, sent)| Some((name, sent, message(name)?))).collect();
    assert!(read.len() >= 30, "version 1 has that many");
    for (name, sent, message) in read {
        assert_eq!(format!("{:?}", message_of(&message)), format!("{sent:?}"), "{name}");
    }
    for (name, probe) in probes() {
        assert_eq!(Probe::read(&message(name).unwrap()), Some(probe));
    }
}

/// The version before passes over fields that it does not know and needs all that it does.
#[test]
fn messages_of_this_version_have_all_fields_of_the_version_before() {
    let (before, now) = (kept().files(WIRE.0), kept().files(WIRE.1));
    for (name, text) in &before {
        let (before, now) = (message_in(text), message_in(&now[name]));
        assert_eq!(before.kind, now.kind, "{name}");
        additions(&before.body, &now.body).unwrap_or_else(|fault| panic!("{name}: {fault}"));
    }
}

#[test]
fn each_kind_of_message_comes_back() {
    for (name, message) in examples() {
        comes_back(&name, &message);
    }
}

/// The debug text has all fields of these types.
fn comes_back(name: &str, sent: &ShardMessage) {
    let messages = encode(TO, sent);
    assert_eq!(messages.len(), 1, "{name}");
    assert_eq!(format!("{:?}", message_of(&messages[0])), format!("{sent:?}"), "{name}");
}

fn word() -> impl Strategy<Value = Box<str>> {
    "[a-zé<>@\r\n]{1,12}".prop_map(Box::from)
}

fn text() -> impl Strategy<Value = Box<str>> {
    "[a-zé<>@\r\n]{0,12}".prop_map(Box::from)
}

fn bytes() -> impl Strategy<Value = Arc<[u8]>> {
    any::<Vec<u8>>().prop_map(Arc::from)
}

fn one_of<T: Copy + std::fmt::Debug + 'static>(all: &'static [T]) -> impl Strategy<Value = T> {
    proptest::sample::select(all)
}

fn a_time() -> impl Strategy<Value = Instant> {
    any::<u64>().prop_map(Instant::from_micros)
}

prop_compose! {
    fn a_flow()(life: u32, shard: u16, number: u64) -> FlowId {
        FlowId { edge: ShardAddress::new(Life(life), shard), number }
    }
}

prop_compose! {
    fn a_received()(
        transport in one_of(&TRANSPORTS), local: SocketAddrOf, remote: SocketAddrOf, flow in of(a_flow()),
    ) -> Received {
        Received { transport, local: local.0, remote: remote.0, flow }
    }
}

/// An address that proptest can make, without the parts of IPv6 that are local to a machine.
#[derive(Clone, Copy, Debug)]
struct SocketAddrOf(SocketAddr);

impl Arbitrary for SocketAddrOf {
    type Parameters = ();
    type Strategy = BoxedStrategy<SocketAddrOf>;

    fn arbitrary_with((): ()) -> Self::Strategy {
        (any::<std::net::IpAddr>(), any::<u16>()).prop_map(|address| SocketAddrOf(address.into())).boxed()
    }
}

prop_compose! {
    fn a_contact()(
        uri in word(), q in 0..=1_000_u16, expires: u32, instance in text(), reg_id: u32, path in text(),
        user_agent in text(), received in of(a_received()),
    ) -> Contact {
        Contact { uri, q, expires, instance, reg_id, path, user_agent, received }
    }
}

prop_compose! {
    fn a_binding()(contact in a_contact(), expires_at in a_time(), call_id in text(), cseq: u32) -> Binding {
        Binding { contact, expires_at, call_id, cseq }
    }
}

fn some_bindings() -> impl Strategy<Value = Vec<Binding>> {
    proptest::collection::vec(a_binding(), 0..3)
}

prop_compose! {
    fn a_waiting()(
        id: u64, aor in word(), from in text(), content_type in text(), body in bytes(), sent_at in a_time(),
        expires_at in of(a_time()),
    ) -> WaitingMessage {
        WaitingMessage { id, aor, from, content_type, body, sent_at, expires_at }
    }
}

prop_compose! {
    fn a_call()(
        call_id in word(), local_tag in text(), remote_tag in text(), initiator: bool, remote in text(),
        phase in one_of(&[CallPhase::Trying, CallPhase::Early, CallPhase::Confirmed, CallPhase::Terminated]),
    ) -> CallInfo {
        CallInfo { call_id, local_tag, remote_tag, initiator, remote, phase }
    }
}

prop_compose! {
    fn a_chat()(
        show in one_of(&[Show::Available, Show::Away, Show::Dnd, Show::Xa]), note in text(),
    ) -> Chat {
        Chat { show, note }
    }
}

prop_compose! {
    fn a_presence()(
        open: bool, on_the_phone: bool, chat in of(a_chat()),
        documents in proptest::collection::vec(bytes(), 0..3),
    ) -> State {
        State::Presence(Presence { open, on_the_phone, chat, documents })
    }
}

fn a_state() -> impl Strategy<Value = State> {
    prop_oneof![
        a_presence(),
        proptest::collection::vec(a_call(), 0..3).prop_map(State::Dialog),
        any::<u32>().prop_map(|waiting| State::MessageSummary { waiting }),
        some_bindings().prop_map(State::Registration),
    ]
}

prop_compose! {
    fn a_register()(
        aor in word(), call_id in text(), cseq: u32, max_contacts in 0..1_000_usize,
        change in prop_oneof![
            Just(Change::None),
            Just(Change::RemoveAll),
            proptest::collection::vec(a_contact(), 0..3).prop_map(Change::Update),
        ],
    ) -> Query {
        Query::Register(Box::new(Register { aor, call_id, cseq, change, max_contacts }))
    }
}

prop_compose! {
    /// The four queries about watches.
    fn about_watch()(
        aor in word(), watcher in word(), topic in one_of(&TOPICS), watch: u64, until in a_time(), kind in 0..3,
    ) -> Query {
        let watch = WatchId(watch);
        match kind {
            0 => Query::Watch { aor, topic, watch, until },
            1 => Query::WatchByConsent { watcher, aor, topic, watch, until },
            _ => Query::Unwatch { aor, topic, watch },
        }
    }
}

prop_compose! {
    fn a_publish()(aor in word(), etag in of(text()), document in of(bytes()), expires: u32) -> Query {
        Query::Publish(Box::new(Publish { aor, etag, document, expires }))
    }
}

prop_compose! {
    fn an_admission()(
        aor in word(), call_id in text(), caller_tag in text(), initiator: bool, max_calls: Option<u32>,
        max_rate: Option<u32>,
    ) -> Query {
        Query::Admit(Box::new(Admission { aor, call_id, caller_tag, initiator, max_calls, max_rate }))
    }
}

prop_compose! {
    fn an_offer()(message in a_waiting(), sender in of(text()), has_phones: bool) -> Query {
        Query::Offer(Box::new(Offer { message, sender, has_phones }))
    }
}

fn a_query() -> impl Strategy<Value = Query> {
    prop_oneof![
        word().prop_map(|aor| Query::Lookup { aor }),
        a_register(),
        about_watch(),
        a_publish(),
        (word(), a_call()).prop_map(|(aor, call)| Query::CallChanged { aor, call }),
        (word(), any::<u32>(), any::<u16>()).prop_map(|(aor, life, shard)| Query::Watched {
            aor,
            owner: ShardAddress::new(Life(life), shard)
        }),
        an_admission(),
        a_waiting().prop_map(|message| Query::Keep(Box::new(message))),
        a_waiting().prop_map(|message| Query::KeepOfStranger(Box::new(message))),
        an_offer(),
        (word(), of(a_chat())).prop_map(|(aor, chat)| Query::ChatChanged { aor, chat }),
        (word(), any::<u64>()).prop_map(|(aor, message)| Query::Delivered { aor, message }),
        word().prop_map(|aor| Query::Account { aor }),
    ]
}

prop_compose! {
    fn an_account()(
        aor in word(), md5: [u8; 16], sha256: [u8; 32], sha512_256: [u8; 32], disabled: bool,
        max_contacts in 0..1_000_usize, max_calls: Option<u32>, max_rate: Option<u32>,
        deny in proptest::collection::vec(text(), 0..3),
    ) -> PhoneAccount {
        PhoneAccount { aor, md5, sha256, sha512_256, disabled, max_contacts, max_calls, max_rate, deny }
    }
}

fn an_answer() -> impl Strategy<Value = Answer> {
    let registered = proptest::result::maybe_ok(
        some_bindings(),
        one_of(&[
            RegisterRefused::OutOfOrder,
            RegisterRefused::TooManyContacts,
            RegisterRefused::StoreFailed,
        ]),
    );
    let publication = (text(), any::<u32>()).prop_map(|(etag, expires)| Published { etag, expires });
    let published = proptest::result::maybe_ok(
        publication,
        one_of(&[PublishRefused::ConditionalRequestFailed, PublishRefused::TooMany]),
    );
    let kept = proptest::result::maybe_ok(
        Just(()),
        one_of(&[KeepRefused::TooMany, KeepRefused::TooLarge, KeepRefused::StoreFailed]),
    );
    let admitted =
        proptest::result::maybe_ok(Just(()), one_of(&[AdmitRefused::TooManyCalls, AdmitRefused::TooFast]));
    let offered = one_of(&[
        Offered::Delivered,
        Offered::Kept,
        Offered::NoClient,
        Offered::Unsupported,
        Offered::Refused,
        Offered::Busy,
    ]);
    prop_oneof![
        some_bindings().prop_map(Answer::Bindings),
        registered.prop_map(Answer::Registered),
        a_state().prop_map(Answer::State),
        Just(Answer::WatchRefused),
        published.prop_map(Answer::Published),
        kept.prop_map(Answer::Kept),
        admitted.prop_map(Answer::Admitted),
        offered.prop_map(Answer::Offered),
        proptest::result::maybe_ok(of(an_account().prop_map(Box::new)), Just(AccountUnread))
            .prop_map(Answer::Account),
    ]
}

fn a_push() -> impl Strategy<Value = Push> {
    prop_oneof![
        (any::<u64>(), a_state()).prop_map(|(watch, state)| Push::State { watch: WatchId(watch), state }),
        (some_bindings(), a_waiting())
            .prop_map(|(bindings, message)| Push::Deliver { bindings, message: Box::new(message) }),
        of(word()).prop_map(|aor| Push::AccountChanged { aor }),
        (of((any::<u32>(), any::<u16>())), prop::collection::vec(word(), 1..4)).prop_map(|(owner, aors)| {
            let owner = owner.map(|(life, shard)| ShardAddress::new(Life(life), shard));
            Push::Watched { owner, aors }
        }),
    ]
}

proptest! {
    #[test]
    fn any_bytes_are_a_message_or_a_fault(kind in 0_u16..10, body: Vec<u8>) {
        any_bytes::check(kind, &body);
    }

    /// Bytes near those of real messages: one is changed, some are cut off.
    #[test]
    fn almost_a_message_is_a_message_or_a_fault(
        which: prop::sample::Index, place: prop::sample::Index, byte: u8, kept: prop::sample::Index,
    ) {
        let examples = examples();
        let message = encode(TO, &which.get(&examples).1).remove(0);
        let mut body = message.body.to_vec();
        *place.get_mut(&mut body) = byte;
        any_bytes::check(message.kind, &body);
        any_bytes::check(message.kind, &body[..kept.index(body.len())]);
    }

    #[test]
    fn any_question_comes_back(query in a_query(), id: u64, life: u32, shard: u16) {
        let from = ShardAddress::new(Life(life), shard);
        comes_back("ask", &ShardMessage::Ask { from, id: AskId(id), query });
    }

    #[test]
    fn any_answer_comes_back(answer in an_answer(), id: u64) {
        comes_back("answer", &ShardMessage::Answer { id: AskId(id), answer });
    }

    /// The debug text of an account hides its digests.
    #[test]
    fn any_account_comes_back_with_its_digests(account in an_account()) {
        let answer = Answer::Account(Ok(Some(Box::new(account))));
        let sent = super::answer(TO, AskId(1), &answer);
        let ShardMessage::Answer { answer: read, .. } = message_of(&sent) else { panic!("{sent:?}") };
        prop_assert!(read == answer);
    }

    #[test]
    fn any_push_comes_back(push in a_push()) {
        comes_back("push", &ShardMessage::Push(push));
    }
}
