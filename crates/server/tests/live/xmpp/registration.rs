//! Accounts that people make, change and remove by themselves (XEP-0077), and what ends with them.

use std::process::Command;

use sip::transport::Transport::{Tcp, Tls, Udp};
use xmpp::{Element, ns};

use super::client::Client;
use crate::phone::{DOMAIN, PASSWORD};
use crate::place::Place;
use crate::until;
use crate::voice::sum;

pub(super) fn ask(client: &mut Client, kind: &str, to: &str, payload: &str) -> Element {
    client.say(&format!("<iq xmlns='jabber:client' type='{kind}' id='q' to='{to}'>{payload}</iq>"));
    let answer = client.hear();
    assert_eq!(answer.attr("id"), Some("q"), "{answer}");
    answer
}

pub(super) fn wanted(user: &str, password: &str) -> String {
    format!(
        "<query xmlns='jabber:iq:register'><username>{user}</username><password>{password}</password></query>"
    )
}

#[track_caller]
pub(super) fn is_refused(answer: &Element, condition: &str) {
    let error = answer.get("error", ns::CLIENT);
    assert!(error.is_some_and(|error| error.get(condition, ns::STANZA_ERRORS).is_some()), "{answer}");
}

#[track_caller]
pub(super) fn is_done(answer: &Element) {
    assert_eq!(answer.attr("type"), Some("result"), "{answer}");
}

fn before_signing_in(place: &Place) -> (Client, Element) {
    let mut client = Client::connect(place, Tls);
    let features = client.open();
    (client, features)
}

/// As an operator does, at the running node.
pub(super) fn operate(place: &Place, arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_belfry"))
        .arg("--config")
        .arg(place.path("belfry.toml"))
        .args(arguments)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

const OPEN: &str = "[xmpp.registration]\nopen = true\nper_hour = 2\nmin_password = 6";

#[test]
fn in_band_registration_is_refused_unless_it_is_enabled() {
    let place = Place::new("").with_xmpp("[xmpp.registration]\ninvitations = \"nobody\"");
    let mut node = place.start();
    let (mut client, features) = before_signing_in(&place);
    assert!(!features.to_string().contains("<register"), "{features}");
    is_refused(&ask(&mut client, "set", DOMAIN, &wanted("bob", PASSWORD)), "not-allowed");
    is_refused(&ask(&mut client, "get", DOMAIN, "<query xmlns='jabber:iq:register'/>"), "not-allowed");
    node.stop();
}

#[test]
fn a_registered_account_signs_in_with_a_client_and_a_phone() {
    let place = Place::new("").with_accounts(&["alice"]).with_xmpp(OPEN);
    let mut node = place.start();
    let mut clear = Client::connect(&place, Tcp);
    clear.open();
    clear.say(&format!("<iq xmlns='jabber:client' type='set' id='q'>{}</iq>", wanted("bob", PASSWORD)));
    assert_eq!(clear.end(), "not-authorized", "a password is not sent in the clear");
    let (mut client, features) = before_signing_in(&place);
    assert!(features.to_string().contains("http://jabber.org/features/iq-register"), "{features}");
    let form = ask(&mut client, "get", DOMAIN, "<query xmlns='jabber:iq:register'/>");
    let query = form.get("query", ns::REGISTER).unwrap();
    assert!(query.get("username", ns::REGISTER).is_some() && query.get("x", ns::DATA).is_some(), "{form}");
    is_refused(&ask(&mut client, "set", DOMAIN, &wanted("alice", PASSWORD)), "conflict");
    is_refused(&ask(&mut client, "set", DOMAIN, &wanted("admin", PASSWORD)), "not-acceptable");
    is_refused(&ask(&mut client, "set", DOMAIN, &wanted("Bob", PASSWORD)), "not-acceptable");
    is_refused(&ask(&mut client, "set", DOMAIN, &wanted("bob", "short")), "not-acceptable");
    is_refused(&ask(&mut client, "set", "elsewhere.test", &wanted("bob", PASSWORD)), "item-not-found");
    is_done(&ask(&mut client, "set", DOMAIN, &wanted("bob", PASSWORD)));
    // On the same stream.
    assert!(client.plain("bob", PASSWORD).is("success", ns::SASL));
    let mut phone = place.phone("bob", Udp);
    phone.register();
    let mut again = Client::connect(&place, Tls);
    again.open();
    assert!(again.scram("bob", PASSWORD, None).is("success", ns::SASL), "its keys are made with it");
    node.stop();
}

#[test]
fn registrations_of_one_source_in_an_hour_have_a_limit() {
    let place = Place::new("").with_xmpp(OPEN);
    let mut node = place.start();
    for (number, user) in ["a", "b", "c"].into_iter().enumerate() {
        // A connection each, to any of the shards.
        let (mut client, _) = before_signing_in(&place);
        let answer = ask(&mut client, "set", DOMAIN, &wanted(user, PASSWORD));
        if number < 2 {
            is_done(&answer);
        } else {
            is_refused(&answer, "resource-constraint");
        }
    }
    until("they are counted", || (sum(&node, |shard| shard.xmpp.registrations) == 2).then_some(()));
    node.stop();
}

#[test]
fn a_changed_password_ends_the_users_other_sessions() {
    let place = Place::new("").with_accounts(&["alice"]).with_xmpp("");
    let mut node = place.start();
    let mut desk = Client::sign_in(&place, Tls, "alice", "desk");
    let mut phone = Client::sign_in(&place, Tls, "alice", "phone");
    is_done(&ask(&mut desk, "set", DOMAIN, &wanted("alice", "another one")));
    assert_eq!(phone.end(), "reset");
    is_done(&ask(&mut desk, "get", DOMAIN, "<ping xmlns='urn:xmpp:ping'/>"));
    let (mut client, _) = before_signing_in(&place);
    assert!(client.plain("alice", PASSWORD).is("failure", ns::SASL));
    assert!(client.plain("alice", "another one").is("success", ns::SASL));
    is_refused(
        &ask(&mut desk, "set", DOMAIN, "<query xmlns='jabber:iq:register'><remove/></query>"),
        "not-allowed",
    );
    node.stop();
}

#[test]
fn a_user_removes_the_account_and_all_of_its_data() {
    let place = Place::new("")
        .with_accounts(&["alice", "bob"])
        .with_xmpp("[xmpp.registration]\nremoval = true\nopen = true\nmin_password = 6");
    let mut node = place.start();
    let mut alice = Client::sign_in(&place, Tls, "alice", "a");
    let mut other = Client::sign_in(&place, Tls, "alice", "b");
    let item = format!("<query xmlns='jabber:iq:roster'><item jid='bob@{DOMAIN}'/></query>");
    let answer = ask(&mut alice, "set", &format!("alice@{DOMAIN}"), &item);
    is_done(&answer);
    is_done(&ask(&mut alice, "set", DOMAIN, "<query xmlns='jabber:iq:register'><remove/></query>"));
    assert_eq!(alice.end(), "not-authorized");
    assert_eq!(other.end(), "not-authorized");
    let (mut client, _) = before_signing_in(&place);
    assert!(client.plain("alice", PASSWORD).is("failure", ns::SASL));
    is_done(&ask(&mut client, "set", DOMAIN, &wanted("alice", PASSWORD)));
    let mut next = Client::sign_in(&place, Tls, "alice", "a");
    let roster = ask(&mut next, "get", &format!("alice@{DOMAIN}"), "<query xmlns='jabber:iq:roster'/>");
    assert!(!roster.to_string().contains("bob"), "the next of that name has nothing of the first: {roster}");
    node.stop();
}

#[test]
fn sessions_end_when_the_password_or_account_is_changed() {
    let place = Place::new("").with_accounts(&["alice", "bob", "carol", "dave"]).with_xmpp("");
    let node = place.spawn();
    let mut clients: Vec<Client> =
        ["alice", "bob", "carol", "dave"].map(|user| Client::sign_in(&place, Tls, user, "x")).into();
    operate(&place, &["account", "passwd", "alice", "--password", "another one"]);
    operate(&place, &["account", "disable", "bob"]);
    operate(&place, &["account", "remove", "carol"]);
    for (client, condition) in clients.iter_mut().zip(["reset", "not-authorized", "not-authorized"]) {
        assert_eq!(client.end(), condition, "{}", client.jid);
    }
    is_done(&ask(&mut clients[3], "get", DOMAIN, "<ping xmlns='urn:xmpp:ping'/>"));
    node.kill();
}

#[test]
fn an_import_ends_the_sessions_of_accounts_with_a_new_password() {
    let users = ["alice", "bob", "carol"];
    let place = Place::new("").with_accounts(&users).with_xmpp("");
    let node = place.spawn();
    let mut clients = users.map(|user| Client::sign_in(&place, Tls, user, "x"));
    let token = super::fast::token(&place, "HT-SHA-256-NONE");
    let file = place.path("accounts.csv");
    std::fs::write(&file, format!("alice,another one\nbob,{PASSWORD},Bob\ndave,new\n")).unwrap();
    operate(&place, &["account", "import", file.to_str().unwrap()]);
    assert_eq!(clients[0].end(), "reset");
    for client in &mut clients[1..] {
        is_done(&ask(client, "get", DOMAIN, "<ping xmlns='urn:xmpp:ping'/>"));
    }
    let answer = super::fast::by_token(&place, "HT-SHA-256-NONE", &token, None, "");
    assert!(answer.is("failure", ns::SASL2), "{answer}");
    let (mut client, _) = before_signing_in(&place);
    assert!(client.plain("alice", PASSWORD).is("failure", ns::SASL));
    assert!(client.plain("alice", "another one").is("success", ns::SASL));
    node.kill();
}

#[test]
fn contacts_of_a_removed_account_are_notified_though_it_has_no_session() {
    let place = Place::new("").with_accounts(&["alice", "bob"]).with_xmpp("");
    let presence =
        |kind: &str, to: &str| format!("<presence xmlns='jabber:client' type='{kind}' to='{to}@{DOMAIN}'/>");
    // Nor has been since the node began.
    let node = place.spawn();
    let mut bob = Client::sign_in(&place, Tls, "bob", "x");
    let mut alice = Client::sign_in(&place, Tls, "alice", "x");
    for (client, user) in [(&mut alice, "alice"), (&mut bob, "bob")] {
        is_done(&ask(client, "get", &format!("{user}@{DOMAIN}"), "<query xmlns='jabber:iq:roster'/>"));
        client.say("<presence xmlns='jabber:client'/>");
    }
    let is = |kind: &'static str, from: &'static str| {
        move |stanza: &Element| {
            let sender = stanza.attr("from").and_then(|from| from.split('@').next());
            stanza.attr("type") == Some(kind) && sender == Some(from)
        }
    };
    alice.say(&presence("subscribe", "bob"));
    until_heard(&mut bob, is("subscribe", "alice"));
    bob.say(&presence("subscribed", "alice"));
    until_heard(&mut alice, is("subscribed", "bob"));
    node.kill();
    let node = place.spawn();
    let mut bob = Client::sign_in(&place, Tls, "bob", "x");
    is_done(&ask(&mut bob, "get", &format!("bob@{DOMAIN}"), "<query xmlns='jabber:iq:roster'/>"));
    bob.say("<presence xmlns='jabber:client'/>");
    operate(&place, &["account", "remove", "alice"]);
    let is_told = is("unsubscribe", "alice");
    let (mut is_asked, mut is_pushed) = (false, false);
    while !(is_asked && is_pushed) {
        let received = bob.hear();
        is_asked |= is_told(&received);
        is_pushed |= received.to_string().contains("subscription='none'");
    }
    node.kill();
}

#[track_caller]
fn until_heard(client: &mut Client, is_it: impl Fn(&Element) -> bool) {
    while !is_it(&client.hear()) {}
}

#[test]
fn a_draining_node_sends_its_clients_to_another_host() {
    let place = Place::new("")
        .with_accounts(&["alice"])
        .with_xmpp("[xmpp.access]\nother_hosts = [\"chat2.example.test:5222\"]");
    let node = place.spawn();
    let mut signed_in = Client::sign_in(&place, Tls, "alice", "x");
    let mut half = Client::connect(&place, Tcp);
    half.open();
    operate(&place, &["drain"]);
    for client in [&mut signed_in, &mut half] {
        let error = client.hear();
        let host = error.content_of("see-other-host", ns::STREAM_ERRORS);
        assert_eq!(host.as_deref(), Some("chat2.example.test:5222"), "{error}");
        assert_eq!(client.hear_or_end(), None);
    }
    node.kill();
}
