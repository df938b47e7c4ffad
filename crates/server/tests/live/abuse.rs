//! Garbage, torture and floods: the server answers or stays silent, never dies, and still carries calls.

use std::time::Duration;

use server::node::Node;
use sip::transport::Transport::{Tcp, Udp, Ws};
use sip::wire::Message;
use stdx::rng::Rng;

use crate::call::talk;
use crate::phone::Phone;
use crate::place::Place;
use crate::{Deadline, PATIENCE, until};

/// The traffic before may have filled a socket and put shards behind, which drop and refuse until they have
/// caught up.
fn until_caught_up(place: &Place) {
    let mut asker = place.udp("asker");
    // Each shard catches up in its own time; a Call-ID asks one of them.
    let mut is_answered = |_| {
        let ask = asker.ask("OPTIONS", "sip:nobody@example.test");
        let message = asker.write(&ask);
        asker.send(message.as_bytes());
        let is_final =
            |answer: &Message| answer.call_id() == Some(ask.call_id.as_bytes()) && answer.status() >= 200;
        let answer = asker.wait(Deadline::after(Duration::from_millis(500)), is_final);
        answer.is_some_and(|answer| answer.status() != 503)
    };
    until("every shard takes requests again", || (0..8).all(&mut is_answered).then_some(()));
}

/// A shard that a busy machine puts behind once more refuses for a moment.
fn register(phone: &mut Phone) {
    let lines = format!("Contact: <{}>\r\nExpires: 600\r\n", phone.contact());
    until("the phone is registered", || {
        let ask = phone.registration(&lines);
        let status = phone.request(ask).status();
        assert!(matches!(status, 200 | 503), "{status}");
        (status == 200).then_some(())
    });
}

/// The node with what was thrown at it has neither panicked nor stopped.
fn still_serves(place: &Place, mut node: Node) {
    until_caught_up(place);
    let (mut alice, mut bob) = (place.udp("alice"), place.udp("bob"));
    register(&mut alice);
    register(&mut bob);
    talk(&mut alice, &mut bob, "bob@example.test");
    talk(&mut bob, &mut alice, "alice@example.test");
    assert_eq!(node.board().faults(), (0, 0, 0), "panics, lost messages, lost records");
    node.stop();
}

fn place() -> Place {
    Place::new("").with_accounts(&["alice", "bob"])
}

#[test]
fn garbage_datagrams_are_counted_and_forgotten() {
    let place = place();
    let node = place.start();
    let mut rng = Rng::seeded(4475);
    let mut thrower = place.udp("nobody");
    let ask = thrower.ask("OPTIONS", "sip:bob@example.test");
    let sound = thrower.write(&ask).into_bytes();
    for round in 0..20_000_u64 {
        let mut bytes = sound.clone();
        if round % 2 == 0 {
            // A sound message with some bytes changed, or cut off.
            for _ in 0..=rng.below(6) {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] = rng.next_u64() as u8;
            }
            bytes.truncate(1 + rng.below(bytes.len() as u64 * 2) as usize);
        } else {
            bytes.truncate(1 + rng.below(200) as usize);
            rng.fill(&mut bytes);
        }
        thrower.send(&bytes);
    }
    let unparsable = || node.board().shards().iter().map(|shard| shard.sip.unparsable).sum::<u64>();
    until("garbage was counted", || (unparsable() > 1_000).then_some(()));
    still_serves(&place, node);
}

#[test]
fn every_torture_message_over_every_transport() {
    let place = place();
    let node = place.start();
    let vectors = concat!(env!("CARGO_MANIFEST_DIR"), "/../sip-wire/tests/vectors");
    let mut thrown = 0;
    for transport in [Udp, Tcp, Ws] {
        for file in files_below(vectors.as_ref()) {
            let bytes = std::fs::read(&file).unwrap();
            let mut thrower = place.phone("nobody", transport);
            // A stream may be closed in our face.
            let _ = thrower.link.send(thrower.server, &bytes);
            let _ = thrower.link.hear(Duration::from_millis(1));
            thrown += 1;
        }
    }
    assert!(thrown > 3 * 49, "RFC 4475 alone has 49 messages");
    still_serves(&place, node);
}

fn files_below(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

#[test]
fn a_contact_that_points_back_to_the_node_ends_with_an_error() {
    let place = place();
    let mut node = place.start();
    let mut alice = place.udp("alice");
    // RFC 5393 §3: two accounts, each bound to both; without loop detection 2^70 requests.
    for user in ["alice", "bob"] {
        let mut phone = place.udp(user);
        let here = phone.server;
        let contacts =
            format!("<sip:alice@example.test>, <sip:bob@example.test>, <sip:alice@{here}>, <sip:bob@{here}>");
        let ask = phone.registration(&format!("Contact: {contacts}\r\nExpires: 600\r\n"));
        // A contact that leads back to us is not bound at all; one that only names our domain is called at
        // the address it registered from.
        assert_eq!(phone.request(ask).status(), 403);
        let back = format!("<sip:bob@{here};maddr=127.0.0.1>");
        let ask = phone.registration(&format!("Contact: {back}\r\nExpires: 600\r\n"));
        assert_eq!(phone.request(ask).status(), 403);
    }
    let invite = alice.invite("bob@example.test");
    let answer = alice.outcome(&invite);
    assert!(answer.status() >= 400);
    let requests = || node.board().shards().iter().map(|shard| shard.sip.requests).sum::<u64>();
    // Longer than two reports of the shards.
    let settled = wait::settled("the requests end", Duration::from_millis(1_100), PATIENCE, requests);
    assert!(settled < 2_000, "{settled} requests came of one");
    assert_eq!(node.board().faults(), (0, 0, 0));
    node.stop();
}
