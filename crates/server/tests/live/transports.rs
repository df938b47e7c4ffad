//! Calls between phones of every transport through two shards, whichever holds the connection.

use server::node::Node;
use sip::transport::Transport::{self, Tcp, Tls, Udp, Ws, Wss};

use crate::call::{end, talk};
use crate::digest::Hash;
use crate::link::Heard;
use crate::phone::{Phone, text};
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

/// Calls both ways until both shards have carried some.
fn calls_between(one: Transport, other: Transport) {
    let (_place, node, mut alice, mut bob) = pair(one, other);
    for _ in 0..4 {
        talk(&mut alice, &mut bob, "bob@example.test");
        talk(&mut bob, &mut alice, "alice@example.test");
    }
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
