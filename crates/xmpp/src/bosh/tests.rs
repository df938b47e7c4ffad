//! Sessions in virtual time: lost, repeated, reordered and invalid requests.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use stdx::Instant;

use super::*;
use crate::c2s::{self, C2s, Framing, Security};
use crate::sasl::{Bindings, CredentialAnswer};
use crate::{Element, Jid, ns};

const FIRST: u64 = 1_000;

struct BoshWorld {
    now: Instant,
    session: Session,
    inputs: Vec<Input>,
    answers: BTreeMap<u64, Reply>,
}

fn request(attributes: &str, payload: &str) -> Request {
    let text = format!(
        "<body xmlns='http://jabber.org/protocol/httpbind' xmlns:xmpp='urn:xmpp:xbosh' {attributes}>{payload}</body>"
    );
    Request::parse(text.as_bytes()).unwrap()
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

impl BoshWorld {
    /// The first request has the ticket 0, as the next ones have the distance of their rid.
    fn new(attributes: &str) -> BoshWorld {
        let now = Instant::from_unix_seconds(1_000_000);
        let mut out = Outbox::default();
        let first = request(&format!("rid='{FIRST}' {attributes}"), "");
        let session = Session::begin(now, BoshSettings::default(), "sid", first, 0, &mut out);
        BoshWorld { now, session, inputs: out.inputs, answers: BTreeMap::new() }
    }

    /// One that has had its features.
    fn open(attributes: &str) -> BoshWorld {
        let mut world = BoshWorld::new(attributes);
        world.write(&["<features/>"]);
        assert!(world.take(0).contains("<features/>"));
        world.inputs.clear();
        world
    }

    fn tell<T>(&mut self, act: impl FnOnce(&mut Session, Instant, &mut Outbox) -> T) -> T {
        let mut out = Outbox::default();
        let told = act(&mut self.session, self.now, &mut out);
        self.inputs.extend(out.inputs);
        for (ticket, reply) in out.answers {
            assert_eq!(self.answers.insert(ticket, reply), None, "each is answered once");
        }
        told
    }

    /// A request this far from the first, with that ticket.
    fn send_as(&mut self, ticket: u64, distance: u64, attributes: &str, payload: &str) {
        let rid = FIRST + distance;
        let request = request(&format!("sid='sid' rid='{rid}' {attributes}"), payload);
        self.tell(|session, now, out| session.handle_request(now, request, ticket, out));
    }

    fn send(&mut self, distance: u64, attributes: &str, payload: &str) {
        self.send_as(distance, distance, attributes, payload);
    }

    fn relax(&mut self) {
        self.tell(|session, now, out| session.relax(now, out));
    }

    fn write(&mut self, documents: &[&str]) {
        let documents: Vec<Box<[u8]>> = documents.iter().map(|document| document.as_bytes().into()).collect();
        self.tell(|session, now, out| session.write(now, &documents, out));
    }

    /// Time goes on, and due timers fire.
    fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(deadline) = self.session.deadline().filter(|deadline| *deadline <= end) {
            self.now = self.now.max(deadline);
            self.tell(|session, now, out| session.expire(now, out));
        }
        self.now = end;
    }

    #[track_caller]
    fn take(&mut self, ticket: u64) -> String {
        let reply = self.answers.remove(&ticket).unwrap_or_else(|| panic!("{ticket} has no answer"));
        assert_eq!(reply.status, 200);
        reply.body.into()
    }

    #[track_caller]
    fn condition(&mut self, ticket: u64) -> String {
        let body = self.take(ticket);
        let body = crate::xml::parse(body.as_bytes(), &crate::xml::Prefixes::default()).unwrap();
        assert_eq!(body.attr("type"), Some("terminate"), "{body}");
        body.attr("condition").unwrap_or_default().to_owned()
    }
}

const EMPTY: &str = "<body xmlns='http://jabber.org/protocol/httpbind'/>";
const USUAL: &str = "wait='30' hold='1' ver='1.6' to='example.org'";

#[test]
fn a_session_begins_with_the_negotiated_values() {
    let mut world = BoshWorld::new(
        "wait='3600' hold='9' ver='2.0' ack='1' to='example.org' xml:lang='de' xmpp:version='1.0'",
    );
    let [Input::Open(open)] = &world.inputs[..] else { panic!("{:?}", world.inputs) };
    assert_eq!(
        (open.attr("to"), open.attr("version"), open.lang()),
        (Some("example.org"), Some("1.0"), Some("de"))
    );
    world.relax();
    assert!(world.answers.is_empty(), "it waits for the features");
    world.write(&["<a/>"]);
    assert_eq!(
        world.take(0),
        "<body xmlns='http://jabber.org/protocol/httpbind' sid='sid' wait='60' hold='2' requests='3' inactivity='30' \
         polling='2' maxpause='120' ver='1.11' ack='1000' from='example.org' xmlns:xmpp='urn:xmpp:xbosh' \
         xmpp:version='1.0' xmpp:restartlogic='true' xmlns:stream='http://etherx.jabber.org/streams'><a/></body>"
    );
}

#[test]
fn a_request_waits_until_there_is_something_or_the_time_is_up_or_another_comes() {
    let mut world = BoshWorld::open(USUAL);
    world.send(1, "", "");
    world.relax();
    assert!(world.session.is_held() && world.answers.is_empty());
    world.write(&["<a/>", "<b/>"]);
    assert!(world.take(1).ends_with("><a/><b/></body>"));
    world.send(2, "", "");
    world.wait(seconds(29));
    assert!(world.answers.is_empty());
    world.wait(seconds(1));
    assert_eq!(world.take(2), EMPTY);
    world.send(3, "", "");
    world.wait(seconds(1));
    world.send(4, "", "<message xmlns='jabber:client'/>");
    assert!(world.answers.is_empty(), "until the stanza is taken");
    world.relax();
    assert_eq!(world.take(3), EMPTY, "one may wait");
    assert!(world.session.is_held());
    assert_eq!(world.inputs.len(), 1);
}

#[test]
fn requests_out_of_order_are_put_in_order() {
    let mut world = BoshWorld::open("wait='30' hold='2' ver='1.6' ack='1'");
    world.send(2, "", "<b/>");
    assert!(world.inputs.is_empty() && !world.session.is_held());
    world.send(1, "", "<a/>");
    let names: Vec<&str> = world
        .inputs
        .iter()
        .map(|input| if let Input::Payload(element) = input { element.name() } else { "" })
        .collect();
    assert_eq!(names, ["a", "b"]);
    world.write(&["<x/>"]);
    let first = world.take(1);
    assert!(first.contains("<x/>") && first.contains(" ack='1002'"), "{first}");
    world.write(&["<y/>"]);
    let second = world.take(2);
    assert!(second.contains("<y/>") && !second.contains("ack="), "{second}");
}

#[test]
fn a_repeated_request_gets_the_same_answer() {
    let mut world = BoshWorld::open(USUAL);
    world.send(1, "", "<a/>");
    world.write(&["<x/>"]);
    let first = world.take(1);
    world.send_as(10, 1, "", "<a/>");
    assert_eq!(world.take(10), first);
    assert_eq!(world.inputs.len(), 1, "it is passed on once");
    // One that waits and is sent again takes the place of the first.
    world.send(2, "", "");
    world.send_as(11, 2, "", "");
    assert_eq!(world.take(2), EMPTY);
    world.write(&["<y/>"]);
    assert!(world.take(11).contains("<y/>"));
    for distance in 3..6 {
        world.send(distance, "", "<a/>");
        world.write(&[]);
        world.take(distance);
    }
    world.send_as(12, 1, "", "<a/>");
    assert_eq!(world.condition(12), "item-not-found", "it is forgotten");
    assert!(world.session.is_over());
    world.send(6, "", "");
    assert_eq!(world.condition(6), "item-not-found");
}

#[test]
fn a_rid_beyond_the_window_ends_the_session_for_all() {
    let mut world = BoshWorld::open(USUAL);
    world.send(1, "", "<a/>");
    world.send(4, "", "<a/>");
    assert_eq!(world.condition(4), "item-not-found");
    assert_eq!(world.condition(1), "other-request");
    assert!(world.session.is_over());
}

#[test]
fn too_much_at_once_ends_the_session() {
    // More than were agreed.
    let mut world = BoshWorld::open(USUAL);
    for distance in 1..=3 {
        world.send(distance, "", "<a/>");
    }
    assert_eq!(world.condition(3), "policy-violation");
    // All that were agreed, the last with nothing to say.
    let mut world = BoshWorld::open(USUAL);
    world.send(1, "", "");
    world.send(2, "", "");
    assert_eq!(world.condition(2), "policy-violation");
    // One more is allowed to end it.
    let mut world = BoshWorld::open(USUAL);
    world.send(1, "", "<a/>");
    world.send(2, "", "<a/>");
    world.send(3, "type='terminate'", "");
    assert_eq!(world.inputs.last(), Some(&Input::Close));
    // Later it is no hurry.
    let mut world = BoshWorld::open(USUAL);
    world.send(1, "", "");
    world.wait(seconds(2));
    world.send(2, "", "");
    assert!(!world.session.is_over());
}

/// XEP-0124 §11 counts requests in the order of their rid; two connections may turn them around.
#[test]
fn an_empty_request_that_a_later_one_has_overtaken_is_not_too_much() {
    let mut world = BoshWorld::open(USUAL);
    world.send(2, "", "<a/>");
    world.send(1, "", "");
    assert!(!world.session.is_over());
    world.relax();
    assert_eq!(world.take(1), EMPTY);
}

/// XEP-0124 §14.2: they are handled in the order of their rid, also where a client does not wait for answers.
#[test]
fn a_request_that_overtakes_another_waits_for_it_however_short_the_clients_wait_is() {
    for wait in ["0", "1"] {
        let opening = format!("wait='{wait}' hold='1' ver='1.6'");
        let mut world = BoshWorld::open(&opening);
        world.send(2, "", "<b/>");
        world.wait(seconds(0));
        world.wait(seconds(5));
        assert!(!world.session.is_over(), "{wait}");
        world.send(1, "", "<a/>");
        world.relax();
        assert_eq!((world.take(1), world.inputs.len()), (EMPTY.to_owned(), 2), "{wait}");
        // One that never comes ends the session.
        let mut world = BoshWorld::open(&opening);
        world.send(2, "", "<b/>");
        world.wait(seconds(10));
        assert_eq!(world.condition(2), "item-not-found", "{wait}");
        assert!(world.session.is_over());
    }
}

#[test]
fn a_client_that_polls_is_answered_at_once_and_may_not_poll_too_often() {
    let mut world = BoshWorld::open("wait='0' hold='1' ver='1.6'");
    world.send(1, "", "<a/>");
    world.relax();
    assert_eq!(world.take(1), EMPTY);
    world.send(2, "", "");
    world.write(&["<x/>"]);
    assert!(world.take(2).contains("<x/>"));
    world.send(3, "", "");
    world.relax();
    assert_eq!(world.take(3), EMPTY, "the one before was answered with something");
    world.wait(seconds(59));
    world.send(4, "", "");
    world.relax();
    world.take(4);
    world.wait(seconds(1));
    world.send(5, "", "");
    assert_eq!(world.condition(5), "policy-violation");
}

#[test]
fn a_pause_lets_all_go_and_gives_more_time_once() {
    let mut world = BoshWorld::open(USUAL);
    world.send(1, "", "");
    world.wait(seconds(1));
    world.send(2, "pause='120'", "");
    assert_eq!((world.take(1), world.take(2)), (EMPTY.to_owned(), EMPTY.to_owned()));
    world.wait(seconds(119));
    assert!(!world.session.is_over());
    world.send(3, "", "");
    world.wait(seconds(30));
    world.take(3);
    world.wait(seconds(29));
    assert!(!world.session.is_over());
    world.wait(seconds(1));
    assert!(world.session.is_over(), "as before");
    let mut world = BoshWorld::open(USUAL);
    world.send(1, "pause='121'", "");
    assert!(world.session.is_held(), "so long a pause is not granted");
}

#[test]
fn a_session_ends_when_its_client_does_not_come_back() {
    let mut world = BoshWorld::open(USUAL);
    world.send(1, "", "");
    world.wait(seconds(20));
    world.tell(|session, now, _| session.handle_lost(now, 1));
    assert!(!world.session.is_held(), "nothing is written without a request");
    world.wait(seconds(5));
    world.send_as(2, 1, "", "");
    assert!(world.session.is_held(), "sent again, it waits on");
    world.wait(seconds(5));
    assert_eq!(world.take(2), EMPTY, "as long as it had");
    world.wait(seconds(30));
    assert!(world.session.is_over());
}

#[test]
fn a_gap_that_is_not_filled_ends_the_session() {
    let mut world = BoshWorld::open(USUAL);
    world.send(2, "", "<a/>");
    world.wait(seconds(30));
    assert_eq!(world.condition(2), "item-not-found");
    assert!(world.session.is_over());
}

#[test]
fn keys_prove_that_it_is_the_same_client() {
    let hash = |text: &str| stdx::hex::encode(&<sha1::Sha1 as sha1::Digest>::digest(text));
    let keys: Vec<String> =
        std::iter::successors(Some(hash("seed")), |key| Some(hash(key))).take(4).collect();
    let others: Vec<String> =
        std::iter::successors(Some(hash("other")), |key| Some(hash(key))).take(3).collect();
    let begin = || BoshWorld::open(&format!("{USUAL} newkey='{}'", keys[3]));
    let say = |world: &mut BoshWorld, distance: u64, attributes: &str| {
        world.send(distance, attributes, "<a/>");
        world.write(&[]);
    };
    let mut world = begin();
    say(&mut world, 1, &format!("key='{}'", keys[2].to_uppercase()));
    assert_eq!(world.condition(1), "item-not-found", "the text sent is the text hashed");
    let mut world = begin();
    say(&mut world, 1, &format!("key='{}'", keys[2]));
    // Out of order, the keys are in order.
    world.send(3, &format!("key='{}' newkey='{}'", keys[0], others[2]), "<a/>");
    world.send(2, &format!("key='{}'", keys[1]), "<a/>");
    world.write(&[]);
    world.write(&[]);
    say(&mut world, 4, &format!("key='{}'", others[1]));
    for distance in 1..=4 {
        assert_eq!(world.take(distance), EMPTY);
    }
    let passed = world.inputs.len();
    world.send(5, "", "<a/>");
    assert_eq!(world.condition(5), "item-not-found");
    assert_eq!(world.inputs.len(), passed, "nothing of it is passed on");
    let mut world = begin();
    say(&mut world, 1, &format!("key='{}'", others[1]));
    assert_eq!(world.condition(1), "item-not-found");
    assert!(world.session.is_over());
}

#[test]
fn the_client_ends_it_with_its_last_words() {
    let mut world = BoshWorld::open(USUAL);
    world.send(1, "", "");
    world.wait(seconds(3));
    world.send(2, "type='terminate'", "<presence type='unavailable'/>");
    let [Input::Payload(presence), Input::Close] = &world.inputs[..] else { panic!("{:?}", world.inputs) };
    assert!(presence.is("presence", ns::CLIENT), "without a namespace it is a stanza");
    world.tell(|session, _, out| session.finish(None, &[], out));
    assert_eq!(world.take(1), EMPTY);
    assert_eq!(world.condition(2), "");
    assert!(world.session.is_over());
}

#[test]
fn the_server_ends_it_now_or_with_the_next_request() {
    let error: Box<[u8]> = b"<stream:error/>"[..].into();
    let mut world = BoshWorld::open("wait='30' hold='2' ver='1.6'");
    world.send(1, "", "<a/>");
    world.send(2, "", "<a/>");
    world.tell(|session, _, out| {
        session.finish(Some(Condition::RemoteStreamError), std::slice::from_ref(&error), out);
    });
    let first = world.take(1);
    assert!(
        first.contains("condition='remote-stream-error'") && first.contains("<stream:error/>"),
        "{first}"
    );
    assert_eq!(world.condition(2), "other-request");
    let mut world = BoshWorld::open(USUAL);
    world.tell(|session, _, out| session.finish(Some(Condition::SystemShutdown), &[error], out));
    assert!(!world.session.is_over());
    world.send(1, "", "");
    assert_eq!(world.condition(1), "system-shutdown");
    assert!(world.session.is_over());
}

#[test]
fn old_clients_are_told_by_http() {
    for (distance, payload, status) in [(9, "", 404), (2, "", 403)] {
        let mut world = BoshWorld::open("wait='30' hold='1'");
        world.send(1, "", "");
        world.send(distance, "", payload);
        assert_eq!(world.answers[&distance].status, status);
    }
}

#[test]
fn an_invalid_body_is_a_bad_request() {
    for text in [
        "",
        "<body/>",
        "<body xmlns='http://jabber.org/protocol/httpbind'/>",
        "<body xmlns='http://jabber.org/protocol/httpbind' rid='-1'/>",
        "<body xmlns='http://jabber.org/protocol/httpbind' rid='9007199254740992'/>",
        "<body xmlns='http://jabber.org/protocol/httpbind' rid='1' wait='soon'/>",
        "<body xmlns='http://jabber.org/protocol/httpbind' rid='1' ver='1'/>",
        "<body xmlns='http://jabber.org/protocol/httpbind' rid='1'><a></body>",
        "<!DOCTYPE a><body xmlns='http://jabber.org/protocol/httpbind' rid='1'/>",
        "<body xmlns='http://jabber.org/protocol/httpbind' rid='1'/><body/>",
        "<other xmlns='http://jabber.org/protocol/httpbind' rid='1'/>",
    ] {
        assert_eq!(Request::parse(text.as_bytes()), Err(Condition::BadRequest), "{text}");
    }
    let text = b"<?xml version='1.0'?>\n<body xmlns='http://jabber.org/protocol/httpbind' rid='1'/> ";
    assert_eq!(Request::parse(text).unwrap().rid, 1);
}

/// A stream whose documents are those that would be in bodies.
fn settings() -> c2s::C2sSettings {
    c2s::C2sSettings {
        domains: vec!["example.org".into()],
        tls: true,
        tls_required: true,
        anonymous: false,
        registration: false,
        invitations: false,
        tokens: false,
        external: Arc::default(),
        openid_configurations: Arc::default(),
        max_stanza: limits::STANZA,
        idle_seconds: 600,
        secret: [1; 32],
        looks: crate::sasl::UnknownAccounts::default(),
        caps: None,
    }
}

fn stream() -> C2s {
    let security = Security { encrypted: true, bindings: Bindings::default(), certified: None };
    C2s::new(Arc::new(settings()), Framing::Bodies, security, 1, "n".into())
}

fn documents(out: &c2s::Outbox) -> Vec<String> {
    let mut start = 0;
    let cut = |end: &usize| {
        String::from_utf8_lossy(&out.bytes[std::mem::replace(&mut start, *end)..*end]).into_owned()
    };
    out.ends.iter().map(cut).collect()
}

#[test]
fn a_stream_in_bodies_signs_in_and_begins_anew() {
    let mut stream = stream();
    let mut out = c2s::Outbox::default();
    let mut inputs: Vec<Input> = BoshWorld::new("wait='30' hold='1' to='example.org'").inputs;
    let Some(Input::Open(open)) = inputs.pop() else { panic!("no opening") };
    stream.handle_payload(open.clone(), &mut out);
    let features = documents(&out);
    assert_eq!(features.len(), 1, "{features:?}");
    assert!(features[0].starts_with("<stream:features><mechanisms xmlns='"), "{features:?}");
    let auth = Element::new("auth", ns::SASL).with("mechanism", "PLAIN").text("AGFsaWNlAHNlY3JldA==");
    stream.handle_payload(auth, &mut out);
    assert!(stream.is_waiting());
    stream.handle_found(CredentialAnswer::Password(true), &mut out);
    out = c2s::Outbox::default();
    stream.handle_payload(open, &mut out);
    assert!(documents(&out)[0].contains("<bind xmlns="), "{:?}", documents(&out));
    let bind = Element::new("iq", ns::CLIENT)
        .with("type", "set")
        .with("id", "1")
        .child(Element::new("bind", ns::BIND));
    stream.handle_payload(bind, &mut out);
    let jid = Jid::parse("alice@example.org/x").unwrap();
    stream.handle_bound(c2s::Bound::Session { jid, inline: Vec::new() }, &mut out);
    out = c2s::Outbox::default();
    stream.write(&Element::new("message", ns::CLIENT), &mut out);
    assert_eq!(documents(&out), ["<message xmlns='jabber:client'/>"]);
    out = c2s::Outbox::default();
    stream.fail("conflict", &mut out);
    assert_eq!(
        documents(&out),
        ["<stream:error><conflict xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error>"]
    );
    assert_eq!(stream.error(), Some("conflict"));
    assert_eq!(Condition::of_stream(stream.error()), Some(Condition::RemoteStreamError));
}

#[test]
fn tls_is_not_begun_within_http() {
    let settings = c2s::C2sSettings { tls_required: false, ..settings() };
    let mut stream = C2s::new(Arc::new(settings), Framing::Bodies, Security::default(), 1, "n".into());
    let mut out = c2s::Outbox::default();
    stream.handle_payload(Element::new("open", ns::FRAMING).with("version", "1.0"), &mut out);
    assert!(!documents(&out)[0].contains("starttls"), "{:?}", documents(&out));
    out = c2s::Outbox::default();
    stream.handle_payload(Element::new("starttls", ns::TLS), &mut out);
    assert_eq!(documents(&out), ["<failure xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>"]);
    assert_eq!(out.effects, [c2s::Effect::Close]);
}

#[test]
fn a_stream_that_its_client_ends_says_nothing_more() {
    let mut stream = stream();
    let mut out = c2s::Outbox::default();
    stream.handle_close(&mut out);
    assert!(stream.was_closed() && out.bytes.is_empty());
    assert_eq!(Condition::of_stream(stream.error()), None);
}

/// A client as the text wants it: it counts what it sends, sends again what had no answer, and takes answers in order.
struct Client {
    next: u64,
    /// Stanzas to be sent, and those sent and not answered.
    say: VecDeque<u32>,
    waiting: BTreeMap<u64, Request>,
    heard: Vec<u32>,
    tickets: u64,
}

fn number_of(element: &Element) -> u32 {
    element.attr("n").unwrap().parse().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Over a network that loses requests and answers, each stanza arrives once and in order, both ways.
    #[test]
    fn nothing_is_lost_or_doubled(losses in prop::collection::vec((any::<bool>(), any::<bool>()), 1..120), hold in 1_u32..3) {
        let mut world = BoshWorld::open(&format!("wait='30' hold='{hold}' ver='1.6'"));
        let mut client = Client { next: 1, say: (0..20).collect(), waiting: BTreeMap::new(), heard: Vec::new(), tickets: 100 };
        let mut written = 0_u32;
        let mut losses = losses.into_iter();
        for _ in 0..400 {
            let (loses_request, loses_answer) = losses.next().unwrap_or((false, false));
            if client.waiting.is_empty() {
                world.wait(seconds(2));
            }
            // Unanswered requests are repeated, in order; otherwise a new one is sent.
            let resend = client.waiting.iter().next().map(|(rid, request)| (*rid, request.clone()));
            let (rid, request) = resend.unwrap_or_else(|| {
                let payload = client.say.pop_front().map(|n| format!("<a n='{n}'/>")).unwrap_or_default();
                let rid = client.next;
                client.next += 1;
                (rid, request(&format!("sid='sid' rid='{}'", FIRST + rid), &payload))
            });
            client.waiting.insert(rid, request.clone());
            client.tickets += 1;
            let ticket = client.tickets;
            if !loses_request {
                world.tell(|session, now, out| session.handle_request(now, request, ticket, out));
            }
            if world.session.is_held() && written < 20 {
                let document = format!("<b n='{written}'/>");
                world.write(&[&document]);
                written += 1;
            }
            world.relax();
            let is_lost = loses_request || loses_answer;
            world.wait(if is_lost { Duration::from_millis(50) } else { seconds(27) });
            if loses_answer {
                world.tell(|session, now, _| session.handle_lost(now, ticket));
                world.answers.clear();
            }
            let answer = world.answers.remove(&ticket);
            world.answers.clear();
            if let Some(answer) = answer {
                let body = crate::xml::parse(answer.body.as_bytes(), &crate::xml::Prefixes::default()).unwrap();
                prop_assert_eq!(body.attr("type"), None, "{}", body);
                client.waiting.remove(&rid);
                client.heard.extend(body.elements().map(number_of));
            }
            if client.heard.len() == 20 && client.say.is_empty() && client.waiting.is_empty() {
                break;
            }
        }
        prop_assert!(!world.session.is_over());
        prop_assert_eq!(client.heard, (0..20).collect::<Vec<_>>());
        let said: Vec<u32> = world.inputs.iter().filter_map(|input| match input {
            Input::Payload(element) => Some(number_of(element)),
            _ => None,
        }).collect();
        prop_assert_eq!(said, (0..20).collect::<Vec<_>>());
    }

    /// For any steps of clients, no request is answered twice, none is forgotten, and nothing outlives its
    /// time.
    #[test]
    fn every_request_is_answered_once(
        steps in prop::collection::vec((0_u64..8, 0_usize..6, 0_u64..20), 1..60),
        begin in prop::sample::select(vec!["wait='30' hold='1' ver='1.6'", "wait='0' hold='1' ver='1.6'", "wait='5' hold='2'"]),
    ) {
        let mut world = BoshWorld::open(begin);
        let (mut next, mut tickets, mut lost) = (1, 1_000, Vec::new());
        let mut asked = 0;
        for (ahead, what, pause) in steps {
            // Mostly the next one; sometimes one from before or after.
            let distance = if ahead < 5 { next } else { (next + ahead).saturating_sub(6) };
            next = next.max(distance + 1);
            let attributes = match what {
                0 => "type='terminate'".to_owned(),
                1 => format!("pause='{}'", pause * 10),
                2 => "xmpp:restart='true'".to_owned(),
                _ => String::new(),
            };
            let payload = if what == 3 { "<a/>" } else { "" };
            tickets += 1;
            asked += 1;
            world.send_as(tickets, distance, &attributes, payload);
            match pause {
                0..5 if world.session.is_held() => world.write(&["<b/>"]),
                5..10 => world.relax(),
                10 => {
                    lost.push(tickets);
                    world.tell(|session, now, _| session.handle_lost(now, tickets));
                }
                11 => world.tell(|session, _, out| session.finish(Some(Condition::RemoteStreamError), &[], out)),
                _ => world.wait(seconds(pause)),
            }
        }
        world.wait(seconds(600));
        let answered = world.answers.keys().filter(|ticket| !lost.contains(ticket)).count();
        // Those of a connection that was lost after its answer was written are in both.
        let unanswered = asked - world.answers.len();
        prop_assert!(unanswered <= lost.len(), "{} of {} had none, {} were lost", unanswered, asked, lost.len());
        prop_assert!(answered <= asked);
        let is_waiting_to_tell = world.session.deadline().is_none();
        prop_assert!(world.session.is_over() || is_waiting_to_tell, "it ends");
    }

    #[test]
    fn no_bytes_make_it_panic(text in "(<body xmlns='http://jabber.org/protocol/httpbind' rid='1'|<a|/>|</body>|[ -~]){0,12}") {
        let _ = Request::parse(text.as_bytes());
    }
}
