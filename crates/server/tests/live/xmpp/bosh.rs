//! Streams in bodies of HTTP (XEP-0124, XEP-0206): two shards, so a session's requests come to either.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sip::transport::Transport::{self, Tls, Ws, Wss};
use xmpp::xml::{Prefixes, parse};
use xmpp::{Element, ns};

use super::client::Client;
use super::http::Http;
use crate::phone::PASSWORD;
use crate::place::Place;
use crate::until;
use crate::voice::sum;

/// A client that has a new connection for each request, so that they come to all shards.
pub(super) struct Bosh<'a> {
    place: &'a Place,
    transport: Transport,
    sid: String,
    rid: u64,
}

pub(super) fn body(attributes: &str, payload: &str) -> String {
    format!(
        "<body xmlns='http://jabber.org/protocol/httpbind' xmlns:xmpp='urn:xmpp:xbosh' {attributes}>{payload}</body>"
    )
}

fn post(place: &Place, transport: Transport, body: &str) -> Http {
    let mut http = Http::connect(place, transport);
    http.say("POST", "/bosh", "Content-Type: text/xml; charset=utf-8\r\n", body.as_bytes());
    http
}

#[track_caller]
fn read(http: &mut Http) -> Element {
    let answer = http.hear(true);
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/xml; charset=utf-8")));
    parse(&answer.body, &Prefixes::default()).unwrap()
}

#[track_caller]
pub(super) fn condition(body: &Element) -> &str {
    assert_eq!(body.attr("type"), Some("terminate"), "{body}");
    body.attr("condition").unwrap_or_default()
}

impl<'a> Bosh<'a> {
    fn open(place: &'a Place, transport: Transport, more: &str) -> (Bosh<'a>, Element) {
        let mut bosh = Bosh { place, transport, sid: String::new(), rid: 1_000_000 };
        let attributes = format!(
            "rid='1000000' to='example.test' wait='20' hold='1' ver='1.6' xml:lang='en' xmpp:version='1.0' {more}"
        );
        // As `Client::try_open`.
        let answer = until("the server has time for a stream", || {
            let answer = read(&mut post(place, transport, &body(&attributes, "")));
            (!answer.to_string().contains("resource-constraint")).then_some(answer)
        });
        bosh.sid = answer.attr("sid").unwrap_or_else(|| panic!("{answer}")).to_owned();
        (bosh, answer)
    }

    /// Its answer is still to be read.
    fn send_with(&mut self, attributes: &str, payload: &str) -> Http {
        self.rid += 1;
        let attributes = format!("sid='{}' rid='{}' {attributes}", self.sid, self.rid);
        post(self.place, self.transport, &body(&attributes, payload))
    }

    fn send(&mut self, payload: &str) -> Http {
        self.send_with("", payload)
    }

    pub(super) fn ask(&mut self, payload: &str) -> Element {
        read(&mut self.send(payload))
    }

    pub(super) fn sign_in(place: &'a Place, user: &str, resource: &str) -> Bosh<'a> {
        let (bosh, answer) = Bosh::try_sign_in(place, user, resource);
        assert!(
            answer.to_string().contains(&format!("<jid>{user}@example.test/{resource}</jid>")),
            "{answer}"
        );
        bosh
    }

    /// And what came of asking for the resource.
    pub(super) fn try_sign_in(place: &'a Place, user: &str, resource: &str) -> (Bosh<'a>, Element) {
        let (mut bosh, answer) = Bosh::open(place, Wss, "");
        let features = answer.get("features", ns::STREAM).unwrap_or_else(|| panic!("{answer}"));
        assert!(features.get("mechanisms", ns::SASL).is_some(), "{features}");
        let secret = BASE64_STANDARD.encode(format!("\0{user}\0{PASSWORD}"));
        let answer = bosh.ask(&format!(
            "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{secret}</auth>"
        ));
        assert!(answer.get("success", ns::SASL).is_some(), "{answer}");
        let answer = read(&mut bosh.send_with("to='example.test' xmpp:restart='true'", ""));
        assert!(answer.get("features", ns::STREAM).unwrap().get("bind", ns::BIND).is_some(), "{answer}");
        let answer = bosh.ask(&format!(
            "<iq xmlns='jabber:client' type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>\
             <resource>{resource}</resource></bind></iq>"
        ));
        (bosh, answer)
    }
}

fn gone(node: &server::node::Node) {
    until("its session is over", || (sum(node, |shard| shard.xmpp.bosh_sessions) == 0).then_some(()));
    until("and gone", || (sum(node, |shard| shard.xmpp.sessions) == 0).then_some(()));
}

#[test]
fn a_browser_signs_in_and_chats() {
    let place = Place::new("").with_accounts(&["alice", "bob"]).with_xmpp("");
    let mut node = place.start();
    let mut alice = Bosh::sign_in(&place, "alice", "web");
    let mut bob = Client::sign_in(&place, Tls, "bob", "b");
    let mut held = alice.send("");
    for number in 0..10 {
        bob.message("alice@example.test/web", &number.to_string());
        let mut answer = read(&mut held);
        while answer.first().is_none() {
            // The one that carried a stanza let it go.
            held = alice.send("");
            answer = read(&mut held);
        }
        let message = answer.get("message", ns::CLIENT).unwrap_or_else(|| panic!("{answer}"));
        assert_eq!(message.content_of("body", ns::CLIENT).as_deref(), Some(&*number.to_string()));
        assert_eq!(message.attr("from"), Some(&*bob.jid));
        // Two stanzas in one body, in order.
        held = alice.send(&format!(
            "<message xmlns='jabber:client' type='chat' to='{0}'><body>one</body></message>\
             <message type='chat' to='{0}'><body>two</body></message>",
            bob.jid
        ));
        for expected in ["one", "two"] {
            assert_eq!(bob.hear().content_of("body", ns::CLIENT).as_deref(), Some(expected));
        }
    }
    until("the board shows it", || (sum(&node, |shard| shard.xmpp.bosh_sessions) == 1).then_some(()));
    let mut end = alice.send_with("type='terminate'", "<presence type='unavailable'/>");
    assert_eq!(read(&mut held).attr("type"), None);
    assert_eq!(condition(&read(&mut end)), "");
    drop(bob);
    gone(&node);
    assert_eq!(condition(&alice.ask("")), "item-not-found");
    assert_eq!(node.board().faults(), (0, 0, 0));
    node.stop();
}

#[test]
fn a_lost_answer_is_repeated_and_a_lost_request_can_be_repeated() {
    let place = Place::new("").with_accounts(&["alice"]).with_xmpp("");
    let mut node = place.start();
    let mut alice = Bosh::sign_in(&place, "alice", "web");
    let ping =
        "<iq xmlns='jabber:client' type='get' id='p' to='example.test'><ping xmlns='urn:xmpp:ping'/></iq>";
    let answer = alice.ask(ping).to_string();
    assert!(answer.contains("type='result'"), "{answer}");
    alice.rid -= 1;
    assert_eq!(alice.ask(ping).to_string(), answer, "the same, and the question is not asked twice");
    // Its connection breaks while it waits.
    drop(alice.send(""));
    alice.rid -= 1;
    let mut held = alice.send("");
    let mut bob = Client::sign_in(&place, Tls, "alice", "b");
    bob.message("alice@example.test/web", "still there?");
    assert!(read(&mut held).get("message", ns::CLIENT).is_some());
    node.stop();
}

#[test]
fn requests_that_break_the_rules_of_bosh_end_the_session() {
    let place = Place::new("").with_accounts(&["alice"]).with_xmpp("");
    let mut node = place.start();
    let refused = |text: &str| condition(&read(&mut post(&place, Wss, text))).to_owned();
    assert_eq!(refused("<body"), "bad-request");
    assert_eq!(refused(&body("rid='1' sid='0.0.1.x'", "")), "item-not-found");
    assert_eq!(refused(&body("rid='1' sid='0.ffff.1.x'", "")), "item-not-found");
    // Of another life.
    assert_eq!(refused(&body("rid='1' sid='7.0.1.x'", "")), "item-not-found");
    assert_eq!(refused(&body("rid='1' sid='nonsense'", "")), "item-not-found");
    assert_eq!(refused(&body("rid='1' wait='1' to='elsewhere.test'", "")), "host-unknown");
    // Another's number with one's own secret.
    let (mine, _) = Bosh::open(&place, Wss, "");
    let (mut other, _) = Bosh::open(&place, Wss, "");
    let secret = mine.sid.rsplit_once('.').unwrap().1;
    let mixed = format!("{}.{secret}", other.sid.rsplit_once('.').unwrap().0);
    assert_eq!(refused(&body(&format!("rid='1000001' sid='{mixed}'"), "")), "item-not-found");
    // A session that began with TLS is refused without; it lives on.
    let text = body(&format!("rid='{}' sid='{}'", other.rid + 1, other.sid), "");
    assert_eq!(post(&place, Ws, &text).hear(true).status, 503);
    other.rid += 9;
    assert_eq!(condition(&other.ask("")), "item-not-found");
    // Malformed XML ends only the request; stanzas before the sign-in end the stream.
    let (mut early, _) = Bosh::open(&place, Wss, "");
    assert_eq!(condition(&early.ask("<a>")), "bad-request");
    early.rid -= 1;
    let answer = early.ask("<message xmlns='jabber:client'/>");
    assert_eq!(condition(&answer), "remote-stream-error");
    assert!(answer.get("error", ns::STREAM).unwrap().to_string().contains("<not-authorized"), "{answer}");
    let (mut keyed, _) = Bosh::open(&place, Wss, "newkey='ca393b51b682f61f98e7877d61146407f3d0a770'");
    assert_eq!(condition(&read(&mut keyed.send_with("key='wrong'", ""))), "item-not-found");
    // A stanza before the sign-in must be small.
    let (mut loud, _) = Bosh::open(&place, Wss, "");
    let answer =
        loud.ask(&format!("<message xmlns='jabber:client'><body>{}</body></message>", "x".repeat(20_000)));
    assert_eq!(condition(&answer), "policy-violation");
    let mut long = Http::connect(&place, Wss);
    long.say("POST", "/http-bind", "", &vec![b'x'; 300_000]);
    assert_eq!(long.hear(true).status, 413);
    until("they are counted", || (sum(&node, |shard| shard.xmpp.bosh_faults) == 11).then_some(()));
    node.stop();
}

#[test]
fn bosh_sessions_are_limited_and_unauthenticated_ones_time_out() {
    let place = Place::with_shards(1, "")
        .with_accounts(&["alice"])
        .with_xmpp("sign_in = \"5s\"\n[limits]\nconnections_per_source = 3");
    let mut node = place.start();
    let (mut first, _) = Bosh::open(&place, Wss, "");
    let open = || {
        let answer =
            Http::try_connect(&place, Wss)?.try_post(&body("rid='1' wait='1' hold='1' ver='1.6'", ""))?;
        parse(&answer.body, &Prefixes::default()).ok()
    };
    until("there is room for a second", || open()?.attr("sid").map(drop));
    // Its connection is the third.
    let refused = until("the connections before are gone", open);
    assert_eq!(condition(&refused), "policy-violation");
    let answer = until("there is room for a connection", || {
        first.rid += 1;
        let attributes = format!("sid='{}' rid='{}'", first.sid, first.rid);
        let http = Http::try_connect(&place, Wss);
        let answer = http.and_then(|mut http| http.try_post(&body(&attributes, "")));
        first.rid -= u64::from(answer.is_none());
        parse(&answer?.body, &Prefixes::default()).ok().filter(|body| body.attr("type").is_some())
    });
    assert_eq!(condition(&answer), "remote-stream-error");
    assert!(answer.to_string().contains("<connection-timeout"), "{answer}");
    gone(&node);
    node.stop();
}

#[test]
fn a_restart_is_told() {
    let place = Place::new("").with_accounts(&["alice"]).with_xmpp("");
    let mut node = place.start();
    let mut alice = Bosh::sign_in(&place, "alice", "web");
    let mut held = alice.send("");
    until("it waits", || (sum(&node, |shard| shard.xmpp.http_requests) == 5).then_some(()));
    std::thread::scope(|scope| {
        scope.spawn(|| node.stop());
        assert_eq!(condition(&read(&mut held)), "system-shutdown");
    });
}
