//! Presence, dialog states and waiting messages: SUBSCRIBE, NOTIFY, PUBLISH and MESSAGE over the live server.

use sip::wire::{Header, Message};

use crate::phone::{Phone, text};
use crate::place::Place;

/// Subscribes and gives the first NOTIFY's body.
fn subscribe(watcher: &mut Phone, user: &str, event: &str) -> String {
    let uri = format!("sip:{user}@example.test");
    let mut ask = watcher.ask("SUBSCRIBE", &uri);
    ask.more = format!("Event: {event}\r\nExpires: 600\r\nContact: <{}>\r\n", watcher.contact());
    let answer = watcher.request(ask);
    assert_eq!(answer.status(), 200, "{event}: {}", text(Some(answer.start_line())));
    next_body(watcher, event, |_| true)
}

/// Answers NOTIFYs until one's body is as wanted.
#[track_caller]
fn next_body(watcher: &mut Phone, event: &str, is_it: impl Fn(&str) -> bool) -> String {
    loop {
        let is_notify = |m: &Message| {
            m.is_request() && m.method_name() == b"NOTIFY" && text(m.header(Header::Event)).starts_with(event)
        };
        let notify = watcher.expect(&format!("NOTIFY {event}"), is_notify);
        watcher.reply(&notify, "200 OK", "", "");
        let body = text(Some(notify.body()));
        if is_it(&body) {
            return body;
        }
    }
}

#[test]
fn watchers_are_notified_of_registration_and_calls() {
    let place = Place::new("").with_accounts(&["alice", "bob", "carol"]);
    let mut node = place.start();
    let (mut alice, mut bob, mut carol) = (place.udp("alice"), place.udp("bob"), place.udp("carol"));
    alice.register();
    let first = subscribe(&mut alice, "bob", "presence");
    assert!(first.contains("closed"), "{first}");
    subscribe(&mut alice, "bob", "dialog");
    subscribe(&mut alice, "alice", "reg");
    bob.register();
    next_body(&mut alice, "presence", |body| body.contains("open"));
    carol.register();
    let invite = carol.invite("bob@example.test");
    bob.pick_up();
    let mut dialog = carol.answered(&invite);
    bob.expect_request("ACK");
    next_body(&mut alice, "dialog", |body| body.contains("confirmed"));
    crate::call::end(&mut carol, &mut dialog, &mut bob);
    next_body(&mut alice, "dialog", |body| !body.contains("confirmed"));
    node.stop();
}

#[test]
fn a_published_document_reaches_watchers() {
    let place = Place::new("watching = \"accounts\"").with_accounts(&["alice", "bob"]);
    let mut node = place.start();
    let (mut alice, mut bob) = (place.udp("alice"), place.udp("bob"));
    subscribe(&mut alice, "bob", "presence");
    let mut ask = bob.ask("PUBLISH", "sip:bob@example.test");
    ask.more = "Event: presence\r\nExpires: 600\r\nContent-Type: application/pidf+xml\r\n".into();
    ask.body = "<?xml version=\"1.0\"?><presence xmlns=\"urn:ietf:params:xml:ns:pidf\" \
                entity=\"sip:bob@example.test\"><tuple id=\"t\"><status><basic>open</basic></status>\
                <note>in the tower</note></tuple></presence>";
    let answer = bob.request(ask);
    assert_eq!(answer.status(), 200, "{}", text(Some(answer.start_line())));
    assert!(answer.header(Header::SipEtag).is_some());
    next_body(&mut alice, "presence", |body| body.contains("in the tower"));
    node.stop();
}

#[test]
fn a_message_waits_for_a_phone_that_is_away_even_over_a_kill() {
    let place = Place::new("").with_accounts(&["alice", "bob"]);
    let process = place.spawn();
    let mut alice = place.udp("alice");
    alice.register();
    let mut ask = alice.ask("MESSAGE", "sip:bob@example.test");
    ask.more = "Content-Type: text/plain\r\n".into();
    ask.body = "the bells at six";
    assert_eq!(alice.request(ask).status(), 202);
    process.kill();
    let process = place.spawn();
    let mut bob = place.udp("bob");
    let waiting = subscribe(&mut bob, "bob", "message-summary");
    assert!(waiting.contains("yes"), "{waiting}");
    bob.register();
    let message = bob.expect_request("MESSAGE");
    assert_eq!(message.body(), b"the bells at six");
    bob.reply(&message, "200 OK", "b", "");
    next_body(&mut bob, "message-summary", |body| body.contains("no"));
    process.kill();
}
