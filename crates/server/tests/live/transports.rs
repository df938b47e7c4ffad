//! Calls between phones of every transport through two shards, whichever holds the connection.

use std::time::Duration;

use server::node::Node;
use sip::transport::Transport::{self, Tcp, Tls, Udp, Ws, Wss};

use crate::call::{end, talk};
use crate::digest::Hash;
use crate::link::{self, Heard};
use crate::phone::Phone;
use crate::place::Place;
use crate::{PATIENCE, until};

/// A node whose two accounts are at phones of these transports.
fn pair(one: Transport, other: Transport) -> (Place, Node, Phone, Phone) {
    let place = Place::new("").with_accounts(&["alice", "bob"]);
    let node = place.start();
    let (mut alice, mut bob) = (place.phone("alice", one), place.phone("bob", other));
    alice.register();
    bob.hash = Hash::Md5;
    bob.register();
    (place, node, alice, bob)
}

fn flows_open(node: &Node) -> u64 {
    node.board().shards().iter().map(|shard| shard.net.flows_open).sum()
}

/// Calls both ways; each Call-ID falls to one of the two shards, so that both carry some.
fn calls_between(one: Transport, other: Transport) {
    let (_place, mut node, mut alice, mut bob) = pair(one, other);
    for _ in 0..6 {
        talk(&mut alice, &mut bob, "bob@example.test");
        talk(&mut bob, &mut alice, "alice@example.test");
    }
    let connections = [one, other].into_iter().filter(|transport| *transport != Udp).count() as u64;
    until("both connections are on the board", || (flows_open(&node) == connections).then_some(()));
    assert_eq!(node.board().faults(), (0, 0, 0));
    node.stop();
}

#[test]
fn udp_phones_call_udp_phones() {
    calls_between(Udp, Udp);
}

#[test]
fn udp_phones_call_tcp_phones() {
    calls_between(Udp, Tcp);
}

#[test]
fn udp_phones_call_tls_phones() {
    calls_between(Udp, Tls);
}

#[test]
fn udp_phones_call_ws_phones() {
    calls_between(Udp, Ws);
}

#[test]
fn tls_phones_call_wss_phones() {
    calls_between(Tls, Wss);
}

#[test]
fn the_callee_hangs_up_over_the_same_connections() {
    let (_place, mut node, mut alice, mut bob) = pair(Ws, Tls);
    for _ in 0..4 {
        let invite = alice.invite("bob@example.test");
        let mut callee_dialog = bob.pick_up();
        alice.answered(&invite);
        bob.expect_request("ACK");
        end(&mut bob, &mut callee_dialog, &mut alice);
    }
    node.stop();
}

#[test]
fn a_keep_alive_is_answered() {
    let (_place, mut node, mut alice, _bob) = pair(Tcp, Udp);
    alice.send(b"\r\n\r\n");
    until("the server answers CRLF", || {
        (alice.link.hear(Duration::from_millis(100)) == Heard::Pong).then_some(())
    });
    node.stop();
}

#[test]
fn a_phone_without_its_connection_is_unavailable_and_can_come_back() {
    let (place, mut node, mut alice, bob) = pair(Udp, Tls);
    until("the board shows the connection", || (flows_open(&node) == 1).then_some(()));
    drop(bob);
    until("the server sees the end of the connection", || (flows_open(&node) == 0).then_some(()));
    for _ in 0..4 {
        let invite = alice.invite("bob@example.test");
        assert!(matches!(alice.outcome(&invite).status(), 430 | 480), "not 408 after half a minute");
    }
    let mut bob = place.phone("bob", Tls);
    bob.register();
    let invite = alice.invite("bob@example.test");
    bob.pick_up();
    alice.answered(&invite);
    node.stop();
}

#[test]
fn a_dialog_without_its_connection_ends_with_430() {
    let (_place, mut node, mut alice, mut bob) = pair(Udp, Tcp);
    let mut dialogs = Vec::new();
    for _ in 0..4 {
        let invite = alice.invite("bob@example.test");
        bob.pick_up();
        dialogs.push(alice.answered(&invite));
        bob.expect_request("ACK");
    }
    until("the board shows the connection", || (flows_open(&node) == 1).then_some(()));
    drop(bob);
    until("the server sees the end of the connection", || (flows_open(&node) == 0).then_some(()));
    for dialog in &mut dialogs {
        assert_eq!(alice.within(dialog, "BYE").status(), 430, "RFC 5626 §5.3.1");
    }
    node.stop();
}

#[test]
fn a_phone_of_ipv6_and_one_of_ipv4_talk() {
    let place = Place::new("").with_accounts(&["alice", "bob"]);
    let mut node = place.start();
    let (mut alice, mut bob) = (place.udp6("alice"), place.udp("bob"));
    alice.register();
    bob.register();
    talk(&mut alice, &mut bob, "bob@example.test");
    talk(&mut bob, &mut alice, "alice@example.test");
    node.stop();
}

#[test]
fn a_new_certificate_is_shown_after_a_reload_and_old_connections_stay() {
    let place = Place::new("").with_accounts(&["alice", "bob"]);
    let made = net::tls::self_signed(&place.path("own"), &["localhost"]).unwrap();
    let file = place.path("belfry.toml");
    let tls = "[tls]\ncertificate = \"own/cert.pem\"\nkey = \"own/key.pem\"\n";
    std::fs::write(&file, std::fs::read_to_string(&file).unwrap() + tls).unwrap();
    let mut node = place.start();
    let server = place.at(Tls);
    let mut alice = Phone::new("alice", Tls, server, link::Link::tls(server, &made.certificate));
    alice.register();
    let old = std::fs::read(&made.certificate).unwrap();
    net::tls::self_signed(&place.path("own"), &["localhost"]).unwrap();
    assert_ne!(old, std::fs::read(&made.certificate).unwrap());
    node.reconfigure(place.config()).unwrap();
    let mut bob = Phone::new("bob", Tls, server, link::Link::tls(server, &made.certificate));
    bob.register();
    talk(&mut alice, &mut bob, "bob@example.test");
    node.stop();
}

/// A reload either takes the whole file over or changes nothing, as its message says.
#[test]
fn a_reload_with_an_unreadable_certificate_changes_nothing() {
    let place = Place::new("").with_accounts(&["alice"]);
    let made = net::tls::self_signed(&place.path("own"), &["localhost"]).unwrap();
    let file = place.path("belfry.toml");
    let tls = "[tls]\ncertificate = \"own/cert.pem\"\nkey = \"own/key.pem\"\n";
    let text = std::fs::read_to_string(&file).unwrap() + tls;
    std::fs::write(&file, &text).unwrap();
    let mut node = place.start();
    let mut config = place.config();
    // Every REGISTER would be answered 423.
    config.sip.min_expires = std::time::Duration::from_secs(7_200);
    std::fs::write(&made.certificate, "broken").unwrap();
    node.reconfigure(config).unwrap_err();
    // Domains and routes change from time to time: their reload must not bring the refused configuration.
    node.replan().unwrap();
    place.udp("alice").register();
    node.stop();
}

#[test]
fn a_retransmission_from_another_port_finds_the_same_transaction() {
    let (place, mut node, mut alice, mut bob) = pair(Udp, Udp);
    let invite = alice.invite("bob@example.test");
    let ringing = bob.expect_request("INVITE");
    // Behind a NAT that forgot: other ports fall to the sockets of other shards.
    for _ in 0..8 {
        let other = place.udp("alice");
        let link::Link::Udp(socket) = &other.link else { unreachable!() };
        socket.send_to(invite.sent.bytes(), other.server).unwrap();
    }
    let seen = |node: &Node| {
        node.board().shards().iter().map(|shard| shard.sip.retransmissions_received).sum::<u64>()
    };
    until("all were seen as retransmissions", || (seen(&node) >= 8).then_some(()));
    bob.accept(&ringing);
    alice.answered(&invite);
    let branch = |message: &sip::wire::Message| message.top_via().unwrap().branch().map(<[u8]>::to_vec);
    let first = branch(&ringing);
    let soon = Duration::from_millis(100).min(PATIENCE);
    let is_noise = |m: &sip::wire::Message| m.method_name() != b"INVITE" || branch(m) == first;
    assert!(bob.hears_nothing(soon, is_noise), "a second call");
    node.stop();
}
