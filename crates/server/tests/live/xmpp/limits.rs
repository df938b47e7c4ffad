//! Limits of one client and one account: floods, sessions and malformed XML, each counted.

use std::io::Write;
use std::time::Duration;

use server::node::Node;
use sip::transport::Transport::{Tcp, Tls, Wss};
use xmpp::ns;

use super::bosh::Bosh;
use super::client::Client;
use crate::place::Place;
use crate::voice::sum;
use crate::{Deadline, until};

const PING: &str =
    "<iq xmlns='jabber:client' type='get' id='p' to='example.test'><ping xmlns='urn:xmpp:ping'/></iq>";

fn errors(node: &Node, condition: &str) -> u64 {
    sum(node, |shard| {
        let of_condition = |count: &&control::KindCount| *count.kind == *condition;
        shard.xmpp.kinds.iter().filter(of_condition).map(|count| count.count).sum()
    })
}

#[test]
fn a_flood_is_read_slowly_and_other_clients_do_not_wait() {
    let place =
        Place::with_shards(1, "").with_accounts(&["alice", "bob"]).with_xmpp("stanzas_per_second = 100");
    let mut node = place.start();
    let mut alice = Client::sign_in(&place, Tls, "alice", "a");
    let mut bob = Client::sign_in(&place, Tls, "bob", "b");
    // A burst of five seconds passes; the rest takes two more.
    let flood: String = std::iter::repeat_n(PING, 700).collect();
    let begun = Deadline::after(Duration::from_secs(60));
    alice.say(&flood);
    until("the client has to wait", || (sum(&node, |shard| shard.xmpp.pauses) > 0).then_some(()));
    let mut slowest = Duration::ZERO;
    for _ in 0..50 {
        let asked = Deadline::after(Duration::from_secs(60));
        bob.say(PING);
        assert_eq!(bob.hear().attr("type"), Some("result"));
        slowest = slowest.max(Duration::from_secs(60) - asked.left().unwrap_or_default());
    }
    for _ in 0..700 {
        assert_eq!(alice.hear().attr("type"), Some("result"), "nothing is lost");
    }
    let took = Duration::from_secs(60) - begun.left().unwrap_or_default();
    assert!(took > Duration::from_millis(1_500), "{took:?}");
    assert!(slowest < Duration::from_millis(1_000), "{slowest:?}");
    assert_eq!(sum(&node, |shard| shard.xmpp.faults), 0, "it is no fault");
    node.stop();
}

#[test]
fn many_bytes_are_read_slowly_too() {
    let place = Place::with_shards(1, "").with_accounts(&["alice"]).with_xmpp("bytes_per_second = \"20KiB\"");
    let mut node = place.start();
    let mut alice = Client::sign_in(&place, Wss, "alice", "a");
    let body = "x".repeat(30_000);
    for _ in 0..5 {
        alice.say(&format!(
            "<message xmlns='jabber:client' type='groupchat' to='alice@example.test/none'><body>{body}</body></message>"
        ));
    }
    for _ in 0..5 {
        assert_eq!(alice.hear().attr("type"), Some("error"));
    }
    until("the client had to wait", || (sum(&node, |shard| shard.xmpp.pauses) > 0).then_some(()));
    node.stop();
}

#[test]
fn a_flood_in_http_bodies_is_read_slowly_and_other_clients_do_not_wait() {
    let place =
        Place::with_shards(1, "").with_accounts(&["alice", "bob"]).with_xmpp("stanzas_per_second = 100");
    let mut node = place.start();
    let mut alice = Bosh::sign_in(&place, "alice", "web");
    let mut bob = Client::sign_in(&place, Tls, "bob", "b");
    let hundred = PING.repeat(100);
    let begun = Deadline::after(Duration::from_secs(60));
    let mut answers = 0;
    for _ in 0..7 {
        answers += alice.ask(&hundred).elements().count();
    }
    while answers < 700 {
        answers += alice.ask("").elements().count();
    }
    let took = Duration::from_secs(60) - begun.left().unwrap_or_default();
    assert!(answers == 700 && took > Duration::from_millis(1_500), "{answers} in {took:?}");
    assert!(sum(&node, |shard| shard.xmpp.pauses) > 0);
    bob.say(PING);
    assert_eq!(bob.hear().attr("type"), Some("result"));
    assert_eq!(sum(&node, |shard| shard.xmpp.faults + shard.xmpp.bosh_faults), 0, "it is no fault");
    node.stop();
}

#[test]
fn bytes_in_bodies_are_counted_too() {
    let place = Place::with_shards(1, "").with_accounts(&["alice"]).with_xmpp("bytes_per_second = \"20KiB\"");
    let mut node = place.start();
    let mut alice = Bosh::sign_in(&place, "alice", "web");
    let body = "x".repeat(30_000);
    for _ in 0..5 {
        let answer = alice.ask(&format!(
            "<message xmlns='jabber:client' type='groupchat' to='alice@example.test/none'><body>{body}</body></message>"
        ));
        assert_eq!(answer.first().and_then(|stanza| stanza.attr("type")), Some("error"), "{answer}");
    }
    assert!(sum(&node, |shard| shard.xmpp.pauses) > 0);
    node.stop();
}

/// Asks for a resource and says what came.
fn bind(client: &mut Client, resource: &str) -> xmpp::Element {
    client.say(&format!(
        "<iq xmlns='jabber:client' type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>\
         <resource>{resource}</resource></bind></iq>"
    ));
    client.hear()
}

fn signed_in(place: &Place) -> Client {
    let mut client = Client::connect(place, Tls);
    client.open();
    assert!(client.plain("alice", crate::phone::PASSWORD).is("success", ns::SASL));
    client.open();
    client
}

#[test]
fn sessions_beyond_the_limit_of_an_account_are_refused() {
    let place = Place::new("").with_accounts(&["alice"]).with_xmpp("sessions_per_account = 2");
    let mut node = place.start();
    let _two = [Client::sign_in(&place, Tls, "alice", "a"), Client::sign_in(&place, Tcp, "alice", "b")];
    let mut third = signed_in(&place);
    let refused = bind(&mut third, "c");
    assert!(refused.to_string().contains("resource-constraint"), "{refused}");
    // By way of HTTP no more than otherwise.
    let (_, refused) = Bosh::try_sign_in(&place, "alice", "c");
    assert!(refused.to_string().contains("resource-constraint"), "{refused}");
    // A session of the same resource is replaced.
    assert_eq!(bind(&mut third, "a").attr("type"), Some("result"));
    node.stop();
}

#[test]
fn a_session_beyond_the_limit_ends_the_oldest_where_configured() {
    let more = "sessions_per_account = 1\nsession_ends_oldest = true";
    let place = Place::new("").with_accounts(&["alice"]).with_xmpp(more);
    let mut node = place.start();
    let mut first = Client::sign_in(&place, Tls, "alice", "a");
    let mut second = signed_in(&place);
    assert_eq!(bind(&mut second, "b").attr("type"), Some("result"));
    assert_eq!(first.end(), "conflict");
    node.stop();
}

#[test]
fn every_way_to_break_a_stream_is_answered_and_counted() {
    let place = Place::new("").with_accounts(&["alice"]).with_xmpp("max_stanza = \"16KiB\"");
    let mut node = place.start();
    let deep = format!("<message xmlns='jabber:client'>{}", "<a>".repeat(100));
    let endless = format!("<message xmlns='jabber:client'><body>{}", "x".repeat(20_000));
    let attributes: String = (0..100).map(|number| format!(" a{number}=''")).collect();
    for (bytes, condition) in [
        (deep.as_bytes(), "policy-violation"),
        (endless.as_bytes(), "policy-violation"),
        (format!("<message xmlns='jabber:client'{attributes}/>").as_bytes(), "policy-violation"),
        (b"<message xmlns='jabber:client'><body>\xff\xfe</body></message>", "unsupported-encoding"),
        (b"<message xmlns='jabber:client'><!-- no --></message>", "restricted-xml"),
        (b"<message xmlns='jabber:client'><?php x?></message>", "restricted-xml"),
        (b"<message xmlns='jabber:client'>&nbsp;</message>", "restricted-xml"),
        (b"<message xmlns='jabber:client'><a></b></message>", "not-well-formed"),
        (b"<message xmlns='jabber:client' a='1' a='2'/>", "not-well-formed"),
        (b"<p:message/>", "bad-namespace-prefix"),
        (b"<message xmlns='jabber:client' from='bob@example.test'/>", "invalid-from"),
        (b"<query xmlns='jabber:client'/>", "unsupported-stanza-type"),
    ] {
        let before = errors(&node, condition);
        let mut client = Client::sign_in(&place, Tcp, "alice", "a");
        client.raw(bytes);
        assert_eq!(client.end(), condition, "{}", String::from_utf8_lossy(&bytes[..bytes.len().min(60)]));
        until("it is counted", || (errors(&node, condition) > before).then_some(()));
    }
    until("all of them", || (sum(&node, |shard| shard.xmpp.faults) == 12).then_some(()));
    node.stop();
}

#[test]
fn a_half_open_stream_and_half_a_stanza_are_closed_in_time() {
    let place = Place::new("").with_accounts(&["alice"]).with_xmpp("idle = \"1s\"\nsign_in = \"1s\"");
    let mut node = place.start();
    let mut half = Client::connect(&place, Tcp);
    half.tcp.write_all(b"<stream:stream to='example.test' xmlns='jab").unwrap();
    assert_eq!(half.end(), "connection-timeout");
    let mut stuck = Client::sign_in(&place, Tls, "alice", "a");
    stuck.say("<message xmlns='jabber:client'><body>");
    assert!(stuck.hear().get("ping", ns::PING).is_some(), "the client is asked for a sign of life");
    assert_eq!(stuck.end(), "connection-timeout");
    until("they are counted", || (errors(&node, "connection-timeout") == 2).then_some(()));
    node.stop();
}
