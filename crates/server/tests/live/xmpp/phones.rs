//! Chat clients and phones of the same accounts: words both ways, presence both ways.

use std::time::Duration;

use sip::transport::Transport::{Tcp, Tls};
use sip::wire::{Header, Message};
use xmpp::{Element, ns};

use super::client::Client;
use crate::phone::{Phone, text};
use crate::place::Place;

/// Long enough for what would come to have come.
const A_WHILE: Duration = Duration::from_millis(400);

fn say(phone: &mut Phone, to: &str, content_type: &str, body: &str) -> Message {
    let uri = format!("sip:{to}@example.test");
    let mut ask = phone.ask("MESSAGE", &uri);
    ask.more = format!("Content-Type: {content_type}\r\n");
    ask.body = body;
    phone.request(ask)
}

fn text_to(phone: &mut Phone, to: &str, body: &str) -> u16 {
    say(phone, to, "text/plain", body).status()
}

/// The next text; answered.
#[track_caller]
fn hear_text(phone: &mut Phone) -> (String, String) {
    let message = phone.expect_request("MESSAGE");
    phone.reply(&message, "200 OK", "t", "");
    (text(message.from().map(|from| from.uri)), text(Some(message.body())))
}

/// Signs in and sends available presence.
fn chatter(place: &Place, user: &str, resource: &str) -> Client {
    let mut client = Client::sign_in(place, Tls, user, resource);
    client.say("<presence xmlns='jabber:client'/>");
    let own = client.jid.clone();
    until(&mut client, |stanza| stanza.name() == "presence" && stanza.attr("from") == Some(&*own));
    client
}

/// The first stanza that is so; others are passed over.
#[track_caller]
fn until(client: &mut Client, is_it: impl Fn(&Element) -> bool) -> Element {
    loop {
        let stanza = client.hear();
        if is_it(&stanza) {
            return stanza;
        }
    }
}

#[track_caller]
fn hear_words(client: &mut Client) -> (String, String) {
    let message = until(client, |stanza| stanza.name() == "message");
    let body = message.content_of("body", ns::CLIENT).unwrap_or_default().into_owned();
    (message.attr("from").unwrap_or_default().to_owned(), body)
}

/// True if no message comes before the answer to a question that is asked now.
fn hears_no_words(client: &mut Client) -> bool {
    client.say("<iq xmlns='jabber:client' type='get' id='now'><ping xmlns='urn:xmpp:ping'/></iq>");
    until(client, |stanza| stanza.name() == "message" || stanza.attr("id") == Some("now")).name() == "iq"
}

/// Each sees the other's presence.
fn befriend(place: &Place, one: &str, two: &str) {
    let mut clients = [one, two].map(|user| chatter(place, user, "once"));
    for client in &mut clients {
        // A client that asks for the roster receives subscription requests.
        client.say("<iq xmlns='jabber:client' type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>");
        until(client, |stanza| stanza.attr("id") == Some("r"));
    }
    for (from, to, user, contact) in [(0, 1, one, two), (1, 0, two, one)] {
        clients[from]
            .say(&format!("<presence xmlns='jabber:client' type='subscribe' to='{contact}@example.test'/>"));
        until(&mut clients[to], |stanza| stanza.attr("type") == Some("subscribe"));
        clients[to]
            .say(&format!("<presence xmlns='jabber:client' type='subscribed' to='{user}@example.test'/>"));
        until(&mut clients[from], |stanza| stanza.attr("type") == Some("subscribed"));
    }
}

/// The next presence of the account's phones.
#[track_caller]
fn phone_of(client: &mut Client, user: &str) -> Element {
    let jid = format!("{user}@example.test/sip-phone");
    until(client, |stanza| stanza.name() == "presence" && stanza.attr("from") == Some(&*jid))
}

/// Skips earlier stanzas: presence may come twice when client and phone arrive at the same time.
#[track_caller]
fn sees_gone(client: &mut Client, user: &str) {
    while phone_of(client, user).attr("type") != Some("unavailable") {}
}

fn unregister(phone: &mut Phone) {
    let ask = phone.registration("Contact: *\r\nExpires: 0\r\n");
    assert_eq!(phone.request(ask).status(), 200);
}

#[test]
fn an_account_with_only_a_phone_and_one_with_only_chat_exchange_messages() {
    let names = ["alice", "bob", "carol", "dave"];
    let place = Place::new("").with_accounts(&names).with_xmpp("");
    let mut node = place.start();
    // Enough accounts that they are of both shards.
    for user in &names[1..] {
        let mut phone = place.udp(user);
        phone.register();
        let mut alice = chatter(&place, "alice", "desk");
        alice.message(&format!("{user}@example.test"), "hello &lt;phone&gt;");
        let received_text = hear_text(&mut phone);
        assert_eq!(received_text, ("sip:alice@example.test".into(), "hello <phone>".into()));
        assert_eq!(text_to(&mut phone, "alice", "hello <chat>"), 200);
        assert_eq!(hear_words(&mut alice), (format!("{user}@example.test"), "hello <chat>".into()));
        assert!(hears_no_words(&mut alice), "and nothing comes back");
    }
    assert_eq!(node.board().faults(), (0, 0, 0));
    node.stop();
}

#[test]
fn a_long_chat_message_comes_in_parts_and_in_order() {
    let place = Place::new("").with_accounts(&["alice", "bob"]).with_xmpp("");
    let mut node = place.start();
    let mut bob = place.udp("bob");
    bob.register();
    let mut alice = chatter(&place, "alice", "desk");
    let words: String = (0..400).map(|number| format!("{number} ")).collect();
    alice.message("bob@example.test", &words);
    alice.message("bob@example.test", "end");
    let mut received_text = String::new();
    while !received_text.ends_with("end") {
        received_text.push_str(&hear_text(&mut bob).1);
        received_text.push(' ');
        received_text.truncate(
            received_text.trim_end().len() + usize::from(!received_text.trim_end().ends_with("end")),
        );
    }
    assert_eq!(
        received_text.split_whitespace().collect::<Vec<_>>().join(" "),
        format!("{} end", words.trim())
    );
    node.stop();
}

#[test]
fn texts_from_phones_reach_phones_and_chat_and_chat_messages_reach_chat() {
    let place = Place::new("").with_accounts(&["alice", "bob"]).with_xmpp("");
    let mut node = place.start();
    let (mut alice, mut bob) = (place.udp("alice"), place.udp("bob"));
    alice.register();
    bob.register();
    let mut chat = chatter(&place, "bob", "desk");
    let mut desk = chatter(&place, "alice", "desk");
    desk.say("<iq xmlns='jabber:client' type='set' id='c'><enable xmlns='urn:xmpp:carbons:2'/></iq>");
    until(&mut desk, |stanza| stanza.attr("id") == Some("c"));
    // The phone has not answered when the sender is told that it is delivered: chat has it.
    assert_eq!(text_to(&mut alice, "bob", "from a phone"), 200);
    assert_eq!(hear_words(&mut chat), ("alice@example.test".into(), "from a phone".into()));
    assert_eq!(hear_text(&mut bob).1, "from a phone");
    let copy = until(&mut desk, |stanza| stanza.name() == "message");
    assert!(copy.get("sent", ns::CARBONS).is_some() && copy.to_string().contains("from a phone"), "{copy}");
    desk.message("bob@example.test", "from chat");
    assert_eq!(hear_words(&mut chat).1, "from chat");
    let is_noise = |message: &Message| !message.is_request() || message.method_name() != b"MESSAGE";
    assert!(bob.hears_nothing(A_WHILE, is_noise), "chat has it");
    node.stop();
}

#[test]
fn with_texts_to_phones_always_phones_get_chat_messages() {
    let place = Place::new("").with_accounts(&["alice", "bob"]).with_xmpp("texts_to_phones = \"always\"");
    let mut node = place.start();
    let mut bob = place.udp("bob");
    bob.register();
    let mut chat = chatter(&place, "bob", "desk");
    phone_of(&mut chat, "bob");
    let mut alice = chatter(&place, "alice", "desk");
    alice.message("bob@example.test", "for all");
    assert_eq!(hear_words(&mut chat).1, "for all");
    assert_eq!(hear_text(&mut bob), ("sip:alice@example.test".into(), "for all".into()));
    node.stop();
}

#[test]
fn a_text_for_an_absent_account_waits_once_for_its_first_client() {
    let place = Place::new("").with_accounts(&["alice", "bob"]).with_xmpp("");
    let process = place.spawn();
    let mut alice = place.udp("alice");
    alice.register();
    assert_eq!(text_to(&mut alice, "bob", "the bells at six"), 202);
    // Acknowledged writes are on disk.
    process.kill();
    let process = place.spawn();
    let mut bob = place.udp("bob");
    bob.register();
    assert_eq!(hear_text(&mut bob), ("sip:alice@example.test".into(), "the bells at six".into()));
    // The record forgets it a moment after the phone has it.
    let mut chat = chatter(&place, "bob", "desk");
    assert!(hears_no_words(&mut chat));
    drop(chat);
    unregister(&mut bob);
    assert_eq!(text_to(&mut alice, "bob", "and at seven"), 202);
    let mut chat = chatter(&place, "bob", "tower");
    assert_eq!(hear_words(&mut chat).1, "and at seven");
    bob.register();
    let is_noise = |message: &Message| !message.is_request() || message.method_name() != b"MESSAGE";
    assert!(bob.hears_nothing(A_WHILE, is_noise));
    process.kill();
}

#[test]
fn a_phone_shows_in_rosters_while_it_is_registered_and_while_it_talks() {
    let place = Place::new("").with_accounts(&["alice", "bob", "carol"]).with_xmpp("");
    let mut node = place.start();
    befriend(&place, "alice", "bob");
    let mut alice = chatter(&place, "alice", "desk");
    let (mut bob, mut carol) = (place.udp("bob"), place.udp("carol"));
    carol.register();
    bob.register();
    assert_eq!(phone_of(&mut alice, "bob").attr("type"), None);
    let invite = carol.invite("bob@example.test");
    bob.pick_up();
    let mut dialog = carol.answered(&invite);
    bob.expect_request("ACK");
    let talks = phone_of(&mut alice, "bob");
    assert_eq!(talks.content_of("show", ns::CLIENT).as_deref(), Some("dnd"), "{talks}");
    assert_eq!(talks.content_of("status", ns::CLIENT).as_deref(), Some("On the phone"));
    crate::call::end(&mut carol, &mut dialog, &mut bob);
    assert!(phone_of(&mut alice, "bob").get("show", ns::CLIENT).is_none());
    let mut ask = bob.ask("PUBLISH", "sip:bob@example.test");
    ask.more = "Event: presence\r\nExpires: 600\r\nContent-Type: application/pidf+xml\r\n".into();
    ask.body = "<?xml version=\"1.0\"?><presence xmlns=\"urn:ietf:params:xml:ns:pidf\" \
                entity=\"sip:bob@example.test\"><tuple id=\"t\"><status><basic>open</basic></status>\
                <note>in the tower</note></tuple></presence>";
    assert_eq!(bob.request(ask).status(), 200);
    let published = phone_of(&mut alice, "bob");
    assert_eq!(published.content_of("status", ns::CLIENT).as_deref(), Some("in the tower"));
    // A new session sees it at once, one of bob's own as well.
    let mut laptop = chatter(&place, "alice", "laptop");
    assert!(phone_of(&mut laptop, "bob").to_string().contains("in the tower"));
    let mut own = Client::sign_in(&place, Tls, "bob", "desk");
    own.say("<presence xmlns='jabber:client'/>");
    assert!(phone_of(&mut own, "bob").to_string().contains("in the tower"));
    alice.say(
        "<iq xmlns='jabber:client' type='set' id='j' to='bob@example.test/sip-phone'>\
         <jingle xmlns='urn:xmpp:jingle:1' action='session-initiate' sid='s'/></iq>",
    );
    let refusal = until(&mut alice, |stanza| stanza.attr("id") == Some("j"));
    assert!(refusal.to_string().contains("service-unavailable"), "{refusal}");
    node.stop();
}

#[test]
fn a_phone_that_is_gone_is_unavailable_also_after_a_restart() {
    let place = Place::new("").with_accounts(&["alice", "bob"]).with_xmpp("");
    let mut node = place.start();
    befriend(&place, "alice", "bob");
    let mut bob = place.udp("bob");
    bob.register();
    let mut alice = chatter(&place, "alice", "desk");
    assert_eq!(phone_of(&mut alice, "bob").attr("type"), None);
    unregister(&mut bob);
    sees_gone(&mut alice, "bob");
    bob.register();
    assert_eq!(phone_of(&mut alice, "bob").attr("type"), None);
    drop(alice);
    node.stop();
    let mut node = place.start();
    let mut alice = chatter(&place, "alice", "desk");
    assert_eq!(phone_of(&mut alice, "bob").attr("type"), None, "its registration is in the record");
    unregister(&mut bob);
    sees_gone(&mut alice, "bob");
    node.stop();
}

#[test]
fn phones_that_watch_an_account_see_its_chat() {
    let place = Place::new("").with_accounts(&["bob", "carol"]).with_xmpp("");
    let mut node = place.start();
    let mut carol = place.udp("carol");
    carol.register();
    // Without bob's consent nothing is told.
    let mut ask = carol.ask("SUBSCRIBE", "sip:bob@example.test");
    ask.more = format!("Event: presence\r\nExpires: 600\r\nContact: <{}>\r\n", carol.contact());
    assert_eq!(carol.request(ask).status(), 200);
    let refusal = carol.expect("NOTIFY", |m| m.is_request() && m.method_name() == b"NOTIFY");
    carol.reply(&refusal, "200 OK", "", "");
    let all = String::from_utf8_lossy(refusal.bytes()).into_owned();
    assert!(all.contains("terminated;reason=rejected"), "{all}");
    assert!(refusal.body().is_empty(), "{all}");
    befriend(&place, "bob", "carol");
    let mut ask = carol.ask("SUBSCRIBE", "sip:bob@example.test");
    ask.more = format!("Event: presence\r\nExpires: 600\r\nContact: <{}>\r\n", carol.contact());
    assert_eq!(carol.request(ask).status(), 200);
    let mut told = |is_it: &dyn Fn(&str) -> bool| loop {
        let notify = carol.expect("NOTIFY", |m| m.is_request() && m.method_name() == b"NOTIFY");
        carol.reply(&notify, "200 OK", "", "");
        let body = text(Some(notify.body()));
        if is_it(&body) {
            return;
        }
    };
    told(&|body| body.contains("closed") && !body.contains("chat"));
    let mut bob = chatter(&place, "bob", "desk");
    told(&|body| body.contains("<tuple id=\"chat\">") && body.contains("<basic>open</basic>"));
    bob.say("<presence xmlns='jabber:client'><show>away</show><status>&lt;lunch&gt;</status></presence>");
    told(&|body| body.contains("<rpid:away/>") && body.contains("<dm:note>&lt;lunch&gt;</dm:note>"));
    bob.say("<presence xmlns='jabber:client'><show>dnd</show></presence>");
    told(&|body| body.contains("<rpid:busy/>"));
    bob.say("<presence xmlns='jabber:client' type='unavailable'/>");
    told(&|body| !body.contains("chat") && body.contains("closed"));
    node.stop();
}

#[test]
fn a_composing_phone_is_shown_in_chat() {
    let place = Place::new("").with_accounts(&["alice", "bob"]).with_xmpp("");
    let mut node = place.start();
    let mut alice = place.udp("alice");
    alice.register();
    const TYPE: &str = "application/im-iscomposing+xml";
    let body = "<?xml version=\"1.0\" encoding=\"UTF-8\"?><isComposing xmlns=\"urn:ietf:params:xml:ns:im-iscomposing\">\
                <state>active</state></isComposing>";
    assert_eq!(say(&mut alice, "bob", TYPE, body).status(), 480, "it is of the moment");
    let mut bob = chatter(&place, "bob", "desk");
    assert_eq!(say(&mut alice, "bob", TYPE, body).status(), 200);
    let message = until(&mut bob, |stanza| stanza.name() == "message");
    assert!(message.get("composing", ns::CHATSTATES).is_some(), "{message}");
    node.stop();
}

#[test]
fn messages_that_chat_cannot_carry_are_refused_cleaned_or_left_to_phones() {
    let place = Place::new("").with_accounts(&["alice", "bob"]).with_xmpp("");
    let mut node = place.start();
    let mut alice = place.phone("alice", Tcp);
    alice.register();
    let mut bob = chatter(&place, "bob", "desk");
    for (content_type, body) in
        [("image/png", "x"), ("text/plain;charset=utf-16", "x"), ("text/plain", ""), ("message/cpim", "x")]
    {
        let answer = say(&mut alice, "bob", content_type, body);
        assert_eq!(answer.status(), 415, "{content_type}");
        assert!(text(answer.header(Header::Accept)).contains("text/plain"));
    }
    assert_eq!(text_to(&mut alice, "bob", &"x".repeat(17_000)), 413);
    assert_eq!(text_to(&mut alice, "bob", "a\u{1}b\u{8}<c>\u{ffff}"), 200);
    assert_eq!(hear_words(&mut bob).1, "a\u{fffd}b\u{fffd}<c>\u{fffd}");
    let cpim = "From: <im:boss@example.test>\r\n\r\nContent-Type: text/plain\r\n\r\nwrapped";
    assert_eq!(say(&mut alice, "bob", "message/cpim", cpim).status(), 200);
    assert_eq!(hear_words(&mut bob), ("alice@example.test".into(), "wrapped".into()));
    let mut phone = place.udp("bob");
    phone.register();
    let mut ask = alice.ask("MESSAGE", "sip:bob@example.test");
    ask.more = "Content-Type: image/png\r\n".into();
    ask.body = "not for chat";
    let message = alice.write(&ask);
    alice.send(message.as_bytes());
    let answer = alice.final_of(&ask);
    ask.more.push_str(&alice.prove(&answer, &ask).unwrap_or_default());
    ask.cseq = alice.next_cseq();
    let message = alice.write(&ask);
    alice.send(message.as_bytes());
    assert_eq!(hear_text(&mut phone).1, "not for chat");
    assert_eq!(alice.final_of(&ask).status(), 200);
    assert!(hears_no_words(&mut bob));
    node.stop();
}

#[test]
fn a_message_cannot_be_sent_in_the_name_of_another_account() {
    let place = Place::new("").with_accounts(&["alice", "bob", "eve"]).with_xmpp("");
    let mut node = place.start();
    let mut eve = place.udp("eve");
    let mut bob = chatter(&place, "bob", "desk");
    let mut ask = eve.ask("MESSAGE", "sip:bob@example.test");
    ask.from = "<sip:alice@example.test>;tag=x".into();
    ask.more = "Content-Type: text/plain\r\n".into();
    ask.body = "I am Alice";
    assert_eq!(eve.request(ask).status(), 407, "her password is not Alice's");
    assert!(hears_no_words(&mut bob));
    // A stranger is shown as one.
    let mut ask = eve.ask("MESSAGE", "sip:bob@example.test");
    ask.from = "<sip:boss@bank.test>;tag=y".into();
    ask.more = "Content-Type: text/plain\r\n".into();
    ask.body = "pay";
    // The same status whether there is a bob.
    assert_eq!(eve.request(ask).status(), 202);
    assert_eq!(hear_words(&mut bob), (r"boss\40bank.test@sip-guest.example.test".into(), "pay".into()));
    node.stop();
}

/// A phone that says it is at the server itself is no phone.
#[test]
fn a_text_sent_to_phones_does_not_loop_back_to_chat() {
    let more = "authenticate_calls = false";
    let place = Place::new(more).with_accounts(&["alice", "bob"]).with_xmpp("texts_to_phones = \"always\"");
    let mut node = place.start();
    let mut bob = place.udp("bob");
    let contact = format!("sip:bob@{}", bob.server);
    let ask = bob.registration(&format!("Contact: <{contact}>\r\nExpires: 600\r\n"));
    assert_eq!(bob.request(ask).status(), 403);
    let mut chat = chatter(&place, "bob", "desk");
    let mut alice = chatter(&place, "alice", "desk");
    for body in ["one", "two"] {
        alice.message("bob@example.test", body);
        assert_eq!(hear_words(&mut chat).1, body, "once each");
    }
    assert_eq!(text_to(&mut place.udp("alice"), "bob", "three"), 200);
    assert_eq!(hear_words(&mut chat).1, "three");
    assert!(hears_no_words(&mut chat));
    node.stop();
}
