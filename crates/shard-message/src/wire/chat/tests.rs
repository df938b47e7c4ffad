//! Messages of chat, one of each kind.

use cluster::Bucket;
use cluster::link::Class;
use xmpp::ns;

use super::*;
use crate::wire::class_of;

const TO: ShardAddress = ShardAddress { life: Life(7), shard: 3 };

fn edge() -> ConnectionId {
    ConnectionId { shard: ShardAddress::new(Life(9), 1), connection: 1 << 40 }
}

fn jid(text: &str) -> Jid {
    Jid::parse(text).unwrap()
}

fn bare(text: &str) -> Bare {
    Bare::parse(text).unwrap()
}

fn stanza() -> Element {
    let mut message = Element::new("message", ns::CLIENT)
        .with("from", "alice@example.net/desk")
        .with("to", "bob@example.net")
        .with("type", "chat")
        .child(Element::new("body", ns::CLIENT).text("a < b & \"c\" \u{e9}"))
        .child(Element::new("active", "http://jabber.org/protocol/chatstates"));
    message.set_ns("mark", "urn:belfry:handled", "9.1.5.77");
    message
}

fn refusal() -> Bound {
    let error = StanzaError {
        condition: Condition::ResourceConstraint,
        kind: Some("cancel"),
        text: Some("too many sessions".into()),
        detail: Some(Box::new(Element::new("detail", "urn:example"))),
    };
    Bound::Refused(error)
}

fn receipt() -> Receipt {
    let (shard, bucket) = (ShardAddress::new(Life(9), 1), Bucket::of("prosody.test"));
    Receipt { origin: shard, bucket, number: 1 << 40, run: 3, index: 70_000 }
}

fn outcome(outcome: Outcome) -> XmppShardMessage {
    XmppShardMessage::OutboundOutcome { receipt: receipt(), outcome }
}

fn close(condition: &str, detail: Option<Box<Element>>) -> XmppShardMessage {
    XmppShardMessage::Close { edge: edge(), condition: StreamCondition::named(condition), detail }
}

/// One message of each kind that crosses nodes, and of each outcome of a request for a session.
pub(in super::super) fn examples() -> Vec<(&'static str, XmppShardMessage)> {
    let enable = Element::new("enable", ns::SM).with("resume", "true");
    let agent = UserAgent { id: Some("uuid".into()), software: Some("S".into()), device: None };
    let request = BindRequest {
        user: jid("alice@example.net"),
        is_anonymous: true,
        resource: Some("desk".into()),
        tag: Some("tag".into()),
        agent: Some(Box::new(agent)),
        is_bind2: true,
        can_move: true,
        inline: vec![enable.clone(), Element::new("enable", ns::CARBONS)],
    };
    let bound = |bound| XmppShardMessage::Bound { edge: edge(), bound: Box::new(bound) };
    let (alice, bob) = (bare("alice@example.net"), bare("bob@example.net"));
    let buckets = [1, 4_095].into_iter().filter_map(Bucket::with_number).collect();
    let said = |words| XmppShardMessage::Said { from: alice.clone(), to: bob.clone(), words };
    vec![
        ("bind", XmppShardMessage::Bind { edge: edge(), request: Box::new(request) }),
        (
            "resume",
            XmppShardMessage::Resume {
                edge: edge(),
                user: jid("alice@example.net"),
                id: "previd".into(),
                seen: u32::MAX,
            },
        ),
        ("restore", XmppShardMessage::Restore { edge: edge(), session: Box::new(announced::example()) }),
        ("announced", XmppShardMessage::Announced { edge: edge(), session: Box::new(announced::example()) }),
        ("all-announced", XmppShardMessage::AllAnnounced { edge: edge().shard, buckets: Box::new(buckets) }),
        ("stanza", XmppShardMessage::Stanza { edge: edge(), element: stanza() }),
        ("nonza", XmppShardMessage::Nonza { edge: edge(), element: enable.clone() }),
        ("gone", XmppShardMessage::Gone { edge: edge(), in_order: true }),
        ("drained", XmppShardMessage::Drained { edge: edge() }),
        ("bound", bound(Bound::Session { jid: jid("alice@example.net/desk"), inline: vec![enable.clone()] })),
        ("resumed", bound(Bound::Resumed { jid: jid("alice@example.net/desk"), resumed: enable.clone() })),
        ("not-resumed", bound(Bound::NotResumed { failed: enable })),
        ("refused", bound(refusal())),
        ("see-other-host", bound(Bound::SeeOtherHost("b.example.net".into()))),
        ("deliver", XmppShardMessage::Deliver { edge: edge(), element: stanza() }),
        ("flush", XmppShardMessage::Flush { edge: edge() }),
        ("close", close("conflict", None)),
        ("close-detail", close("undefined-condition", Some(Box::new(Element::new("detail", "urn:example"))))),
        ("invited", XmppShardMessage::Invited { invited: alice.clone(), inviter: bob.clone() }),
        ("befriend", XmppShardMessage::Befriend { user: alice.clone(), contact: bob.clone() }),
        ("routed", XmppShardMessage::Routed(Box::new(stanza()))),
        ("said", said(MessageBody::Text("hello".into()))),
        ("typing", said(MessageBody::Typing(false))),
        ("reply", XmppShardMessage::Reply { token: "00ff".into(), answer: Box::new(stanza()) }),
        ("attached", XmppShardMessage::AttachOutcome { edge: edge(), domain: "echo.example.net".into() }),
        ("detached", XmppShardMessage::Detached { edge: edge(), domain: "echo.example.net".into() }),
        ("to-component", XmppShardMessage::ToComponent { edge: edge(), element: Box::new(stanza()) }),
        ("outbound", XmppShardMessage::Outbound { receipt: receipt(), element: Box::new(stanza()) }),
        ("outbound-ended", outcome(Outcome::Ended)),
        ("outbound-broken", outcome(Outcome::Broken)),
        ("outbound-untaken", outcome(Outcome::Untaken)),
    ]
}

/// A presence for so many contacts.
pub(in super::super) fn copies(count: usize) -> Vec<XmppShardMessage> {
    let presence = Element::new("presence", ns::CLIENT)
        .with("from", "alice@example.net/desk")
        .child(Element::new("show", ns::CLIENT).text("away"));
    let copy = |number| presence.copy_to(&format!("contact{number}@example.net"));
    (0..count).map(|number| XmppShardMessage::Routed(Box::new(copy(number)))).collect()
}

/// The same for the clients of so many contacts.
pub(in super::super) fn copies_for_clients(count: usize) -> Vec<XmppShardMessage> {
    let for_client = |(number, copy): (u64, XmppShardMessage)| match copy {
        XmppShardMessage::Routed(element) => {
            let edge = ConnectionId { connection: number, ..edge() };
            XmppShardMessage::Deliver { edge, element: *element }
        }
        other => other,
    };
    (7..).zip(copies(count)).map(for_client).collect()
}

#[test]
fn a_copy_for_a_client_needs_its_connection() {
    let mut body = Vec::new();
    assert!(put_chat_message(&mut body, &copies_for_clients(1)[0]));
    put_bytes(&mut body, COPY_TO, b"bob@example.net");
    assert!(read(&message(CHAT, TO, body.clone())).is_err());
    put_number(&mut body, COPY_CONNECTION, 8);
    let Ok(Decoded::Message(ShardMessage::Xmpp(found))) = read(&message(CHAT, TO, body)) else { panic!() };
    assert_eq!(found.len(), 2);
}

#[test]
fn a_presence_for_many_contacts_is_one_message_of_hardly_more_bytes() {
    let (one, most) = (chat_copies(TO, 5, &copies(1)).unwrap(), copies(COPIES));
    let all = chat_copies(TO, 5, &most).unwrap();
    assert!(all.body.len() - one.body.len() < (COPIES - 1) * 30, "an address each: {}", all.body.len());
    let Ok(Decoded::Message(ShardMessage::Xmpp(found))) = read(&all) else { panic!() };
    assert_eq!(format!("{found:?}"), format!("{most:?}"));
    assert!(read(&chat_copies(TO, 5, &copies(COPIES + 1)).unwrap()).is_err(), "more than a node sends");
}

#[test]
fn each_condition_has_a_place() {
    for condition in CONDITIONS {
        assert_eq!(at_place(&CONDITIONS, place_of(&CONDITIONS, &condition)), Some(condition));
    }
}

#[test]
fn a_message_of_chat_names_its_sender_and_its_class() {
    let message = chat_message(TO, 5, &XmppShardMessage::Flush { edge: edge() }).unwrap();
    assert_eq!((class_of(&message), message.shard, chat_sender(&message)), (Class::Chat, 3, Some(5)));
}

#[test]
fn streams_between_servers_stay_within_their_node() {
    let pair = xmpp::s2s::Pair { local: "example.net".into(), remote: "prosody.test".into() };
    let offer = xmpp::s2s::ShardMessage::Offer { edge: edge(), pair };
    assert!(chat_message(TO, 0, &XmppShardMessage::Servers(Box::new(offer))).is_none());
}

#[test]
fn a_stanza_for_another_server_needs_the_bucket_of_its_domain() {
    let mut body = Vec::new();
    put_of_edge(&mut body, OUTBOUND, edge());
    put_element(&mut body, &stanza());
    assert!(read(&message(CHAT, TO, body)).is_err());
}

#[test]
fn a_kind_of_a_later_version_is_passed_over() {
    let mut body = Vec::new();
    put_number(&mut body, KIND, 4_000);
    assert!(matches!(read(&message(CHAT, TO, body)), Ok(Decoded::LaterKind)));
}
