//! Streams that the server ends: too much, too late, too slow.

use std::io::Write;

use sip::transport::Transport::{Tcp, Tls, Ws, Wss};
use socket2::SockRef;
use xmpp::ns;

use super::client::Client;
use crate::place::Place;
use crate::until;
use crate::voice::sum;

#[test]
fn a_stanza_that_is_too_long_ends_the_stream() {
    let place = Place::new("").with_accounts(&["alice"]).with_xmpp("max_stanza = \"16KiB\"");
    let mut node = place.start();
    for way in [Tcp, Tls, Wss] {
        let mut client = Client::sign_in(&place, way, "alice", "a");
        client.say(&format!(
            "<message xmlns='jabber:client' type='groupchat' to='alice@example.test/none'><body>{}</body></message>",
            "x".repeat(15_000)
        ));
        assert_eq!(client.hear().attr("type"), Some("error"), "so much is taken");
        // The server may have closed before all of it is out.
        let _ = client.try_say(&format!(
            "<message xmlns='jabber:client' to='alice@example.test'><body>{}</body></message>",
            "x".repeat(17_000)
        ));
        assert_eq!(client.end(), "policy-violation");
    }
    node.stop();
}

#[test]
fn malformed_xml_ends_the_stream() {
    let place = Place::new("").with_xmpp("");
    let mut node = place.start();
    for (text, condition) in [
        ("GET / HTTP/1.1\r\n\r\n", "not-well-formed"),
        ("<?xml version='1.0'?><!DOCTYPE x [<!ENTITY a 'b'>]>", "restricted-xml"),
        ("<a xmlns='b'>", "invalid-namespace"),
    ] {
        let mut client = Client::connect(&place, Tcp);
        client.say(text);
        assert_eq!(client.end(), condition, "{text}");
    }
    until("they are counted", || (sum(&node, |shard| shard.xmpp.faults) == 3).then_some(()));
    node.stop();
}

#[test]
fn a_client_that_does_not_sign_in_is_closed_in_time() {
    let place = Place::new("").with_accounts(&["alice"]).with_xmpp("sign_in = \"1s\"");
    let mut node = place.start();
    let mut stays = Client::sign_in(&place, Tls, "alice", "a");
    let mut silent = Client::connect(&place, Tcp);
    let mut half = Client::connect(&place, Ws);
    half.open();
    assert_eq!(silent.end(), "connection-timeout");
    assert_eq!(half.end(), "connection-timeout");
    stays.say("<iq xmlns='jabber:client' type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>");
    assert_eq!(stays.hear().attr("type"), Some("result"), "a signed-in client stays");
    until("they are counted", || (sum(&node, |shard| shard.xmpp.timeouts) == 2).then_some(()));
    node.stop();
}

#[test]
fn a_silent_client_is_pinged_and_then_closed() {
    let place = Place::new("").with_accounts(&["alice", "bob"]).with_xmpp("idle = \"1s\"");
    let mut node = place.start();
    let mut dead = Client::sign_in(&place, Tcp, "alice", "a");
    let mut alive = Client::sign_in(&place, Tls, "bob", "b");
    for _ in 0..3 {
        let ping = alive.hear();
        assert!(ping.get("ping", ns::PING).is_some(), "{ping}");
        let id = ping.attr("id").unwrap();
        alive.say(&format!("<iq xmlns='jabber:client' type='result' id='{id}' to='example.test'/>"));
    }
    let ping = dead.hear();
    assert_eq!(ping.attr("from"), Some("example.test"), "{ping}");
    assert_eq!(dead.end(), "connection-timeout");
    node.stop();
}

#[test]
fn a_client_that_does_not_read_for_long_is_closed() {
    // Its patience with a client that takes nothing is no longer than with one that says nothing.
    let place = Place::new("").with_accounts(&["alice", "bob"]).with_xmpp("idle = \"3s\"");
    let mut node = place.start();
    let mut alice = Client::sign_in(&place, Tls, "alice", "a");
    let body = "x".repeat(60_000);
    for (closed, way) in (1..).zip([Tcp, Wss]) {
        let bob = Client::sign_in(&place, way, "bob", "b");
        // Else the kernel takes many times what the server keeps.
        SockRef::from(&bob.tcp).set_recv_buffer_size(16 * 1024).unwrap();
        until("bob is closed", || {
            alice.message(&bob.jid, &body);
            (sum(&node, |shard| shard.xmpp.overflows) == closed).then_some(())
        });
        until("and gone", || (sum(&node, |shard| shard.xmpp.connections) == 1).then_some(()));
    }
    node.stop();
}

#[test]
fn a_client_that_reads_late_gets_everything_however_full_of_apostrophes() {
    let more = "bytes_per_second = \"100MiB\"\nstanzas_per_second = 10000";
    let place = Place::new("").with_accounts(&["alice", "bob"]).with_xmpp(more);
    let mut node = place.start();
    let mut alice = Client::sign_in(&place, Tls, "alice", "a");
    let body = "'".repeat(120_000);
    for way in [Tcp, Wss] {
        let mut bob = Client::sign_in(&place, way, "bob", "b");
        SockRef::from(&bob.tcp).set_recv_buffer_size(16 * 1024).unwrap();
        for _ in 0..40 {
            alice.message(&bob.jid, &body);
        }
        // They have all been taken from her.
        alice.say("<iq xmlns='jabber:client' type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>");
        assert_eq!(alice.hear().attr("type"), Some("result"));
        for _ in 0..40 {
            assert_eq!(bob.hear().content_of("body", ns::CLIENT).map(|body| body.len()), Some(120_000));
        }
        assert_eq!(sum(&node, |shard| shard.xmpp.overflows), 0);
    }
    node.stop();
}

#[test]
fn connections_of_one_source_have_a_bound() {
    let place =
        Place::with_shards(1, "").with_accounts(&["alice"]).with_xmpp("[limits]\nconnections_per_source = 2");
    let mut node = place.start();
    let _two = [Client::sign_in(&place, Tls, "alice", "a"), Client::sign_in(&place, Tls, "alice", "b")];
    let mut third = Client::connect(&place, Tcp);
    // It may be closed before or after this is written.
    let _ = third.tcp.write_all(b"<a/>");
    assert_eq!(third.hear_or_end(), None);
    until("it is counted", || (sum(&node, |shard| shard.xmpp.refused) == 1).then_some(()));
    assert_eq!(sum(&node, |shard| shard.xmpp.connections), 2);
    node.stop();
}
