//! The calls of an account, as its own chat clients read them: of all its phones, and of no other account.

use interop::new_postgres_database;
use sip::transport::Transport::Tcp;
use xmpp::{Element, ns};

use super::client::Client;
use crate::call::talk;
use crate::place::Place;
use crate::until;

/// The answer to a query; `to` is an attribute or nothing.
fn ask(client: &mut Client, to: &str, inner: &str) -> Element {
    client.say(&format!(
        "<iq xmlns='jabber:client' type='get' id='calls'{to}><calls xmlns='urn:belfry:calls:0'>{inner}</calls></iq>"
    ));
    loop {
        let stanza = client.hear();
        if stanza.attr("id") == Some("calls") {
            return stanza;
        }
    }
}

/// Direction, other end and outcome of each call of the newest page, and the place of the next one.
fn calls(client: &mut Client, inner: &str) -> (Vec<[String; 3]>, Option<String>) {
    let answer = ask(client, "", inner);
    let page = answer.get("calls", ns::CALLS).unwrap_or_else(|| panic!("{answer}"));
    let of = |call: &Element, name: &str| call.attr(name).unwrap_or_default().to_owned();
    let listed = page.elements().filter(|child| child.is("call", ns::CALLS));
    let listed = listed.map(|call| ["direction", "with", "outcome"].map(|name| of(call, name)));
    let next = page.get("set", ns::RSM).and_then(|set| set.content_of("last", ns::RSM));
    (listed.collect(), next.map(Into::into))
}

fn row(direction: &str, user: &str, outcome: &str) -> [String; 3] {
    [direction, &format!("sip:{user}@example.test"), outcome].map(Into::into)
}

/// alice talks to bob, then calls carol, who has no phone.
fn a_user_reads_the_calls_of_all_its_phones_and_no_others(place: &Place) {
    let mut node = place.start();
    let (mut alice, mut bob) = (place.udp("alice"), place.udp("bob"));
    bob.register();
    talk(&mut alice, &mut bob, "bob@example.test");
    let invite = alice.invite("carol@example.test");
    assert_eq!(alice.outcome(&invite).status(), 480);

    let [mut alice, mut bob, mut carol, mut dave] =
        ["alice", "bob", "carol", "dave"].map(|user| Client::sign_in(place, Tcp, user, "one"));
    let both = [row("outgoing", "carol", "no-answer"), row("outgoing", "bob", "answered")];
    // A record is written a moment after the end of its call.
    until("both records", || (calls(&mut alice, "") == (both.to_vec(), None)).then_some(()));
    assert_eq!(calls(&mut bob, ""), (vec![row("incoming", "alice", "answered")], None));
    assert_eq!(calls(&mut carol, ""), (vec![row("incoming", "alice", "missed")], None));
    assert_eq!(calls(&mut dave, ""), (vec![], None));

    let set = |inner: &str| format!("<set xmlns='http://jabber.org/protocol/rsm'>{inner}</set>");
    let (first, next) = calls(&mut alice, &set("<max>1</max>"));
    let after = format!("<max>1</max><after>{}</after>", next.expect("a second page"));
    assert_eq!([first, calls(&mut alice, &set(&after)).0].concat(), both);
    // Another account's calls cannot be named, nor is the page of one account any use to another.
    for to in [" to='alice@example.test'", " to='example.test'", " to='nobody@example.test'"] {
        assert_eq!(ask(&mut dave, to, "").attr("type"), Some("error"), "{to}");
    }
    assert_eq!(calls(&mut dave, &set(&after)), (vec![], None));
    for inner in ["<max>x</max>", "<after>x</after>", "<before/>"] {
        assert_eq!(ask(&mut alice, "", &set(inner)).attr("type"), Some("error"), "{inner}");
    }
    assert_eq!(node.board().faults(), (0, 0, 0));
    node.stop();
}

fn place() -> Place {
    Place::new("").with_xmpp("")
}

const USERS: [&str; 4] = ["alice", "bob", "carol", "dave"];

#[test]
fn a_user_reads_its_calls_from_a_file() {
    a_user_reads_the_calls_of_all_its_phones_and_no_others(&place().with_accounts(&USERS));
}

#[test]
fn a_user_reads_its_calls_from_postgresql() {
    let place = place().with_postgres(&new_postgres_database()).with_accounts(&USERS);
    a_user_reads_the_calls_of_all_its_phones_and_no_others(&place);
}

/// Before the sign-in there is no account whose calls could be meant.
#[test]
fn a_stream_that_has_not_signed_in_reads_no_calls() {
    let place = place().with_accounts(&USERS);
    let mut node = place.start();
    let mut client = Client::connect(&place, Tcp);
    client.open();
    client.say(
        "<iq xmlns='jabber:client' type='get' id='calls' to='alice@example.test' from='alice@example.test'>\
         <calls xmlns='urn:belfry:calls:0'/></iq>",
    );
    assert_eq!(client.end(), "not-authorized");
    node.stop();
}
