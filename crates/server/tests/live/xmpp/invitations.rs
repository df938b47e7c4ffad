//! Invitations (XEP-0401, XEP-0445), by users and by the operator.

use sip::transport::Transport::{Tls, Ws, Wss};
use xmpp::ns;

use super::client::Client;
use super::http::Http;
use super::registration::{ask, is_done, is_refused, operate, wanted};
use crate::phone::{DOMAIN, PASSWORD};
use crate::place::Place;

fn token(link: &str) -> &str {
    let rest = link.split("preauth=").nth(1).unwrap_or_else(|| panic!("no token: {link}"));
    rest.split([';', '<', '\n']).next().unwrap()
}

fn stranger(place: &Place) -> Client {
    let mut client = Client::connect(place, Tls);
    let features = client.open().to_string();
    assert!(features.contains("<register xmlns='urn:xmpp:ibr-token:0'/>"), "{features}");
    client
}

fn preauth(token: &str) -> String {
    format!("<preauth xmlns='urn:xmpp:pars:0' token='{token}'/>")
}

#[test]
fn an_invited_user_registers_and_becomes_a_contact() {
    let place = Place::new("")
        .with_accounts(&["alice"])
        .with_xmpp("[xmpp.registration]\ninvitations = \"users\"\nmin_password = 6");
    let mut node = place.start();
    let mut alice = Client::sign_in(&place, Tls, "alice", "x");
    is_done(&ask(&mut alice, "get", &format!("alice@{DOMAIN}"), "<query xmlns='jabber:iq:roster'/>"));
    let command = "<command xmlns='http://jabber.org/protocol/commands' node='urn:xmpp:invite#invite' action='execute'/>";
    let link = ask(&mut alice, "set", DOMAIN, command).to_string();
    assert!(
        link.contains(&format!("xmpp:alice@{DOMAIN}?roster;preauth=")) && link.contains(";ibr=y"),
        "{link}"
    );
    let token = token(&link);
    let mut juliet = stranger(&place);
    is_refused(&ask(&mut juliet, "set", DOMAIN, &wanted("juliet", PASSWORD)), "not-allowed");
    is_refused(&ask(&mut juliet, "set", DOMAIN, &preauth("nonsense")), "item-not-found");
    is_done(&ask(&mut juliet, "set", DOMAIN, &preauth(token)));
    is_refused(&ask(&mut juliet, "set", DOMAIN, &wanted("alice", PASSWORD)), "conflict");
    is_done(&ask(&mut juliet, "set", DOMAIN, &wanted("juliet", PASSWORD)));
    let push = alice.hear();
    let item = push.get("query", ns::ROSTER).and_then(|query| query.get("item", ns::ROSTER)).unwrap();
    let jid = format!("juliet@{DOMAIN}");
    assert_eq!((item.attr("jid"), item.attr("subscription")), (Some(&*jid), Some("both")), "{push}");
    // It is used up, also for a client that had shown it before.
    let mut late = stranger(&place);
    is_refused(&ask(&mut late, "set", DOMAIN, &preauth(token)), "item-not-found");
    alice.say("<presence xmlns='jabber:client'/>");
    assert_eq!(alice.hear().name(), "presence");
    let away = alice.hear();
    assert_eq!((away.attr("from"), away.attr("type")), (Some(&*jid), Some("unavailable")), "{away}");
    let mut juliet = Client::sign_in(&place, Tls, "juliet", "y");
    juliet.say("<presence xmlns='jabber:client'/>");
    let seen = alice.hear();
    assert_eq!(seen.attr("from"), Some(&*format!("{jid}/y")), "they see each other: {seen}");
    node.stop();
}

#[test]
fn an_invitation_used_by_two_clients_registers_one() {
    let place = Place::new("").with_accounts(&["alice"]).with_xmpp("[xmpp.registration]\nmin_password = 6");
    let node = place.spawn();
    let link = operate(&place, &["xmpp", "invite", DOMAIN, "--from", "alice", "--expires", "1h"]);
    assert!(link.starts_with(&format!("xmpp:alice@{DOMAIN}?roster;preauth=")), "{link}");
    let token = token(&link);
    let [mut first, mut second] = [stranger(&place), stranger(&place)];
    for client in [&mut first, &mut second] {
        is_done(&ask(client, "set", DOMAIN, &preauth(token)));
    }
    is_done(&ask(&mut first, "set", DOMAIN, &wanted("first", PASSWORD)));
    is_refused(&ask(&mut second, "set", DOMAIN, &wanted("second", PASSWORD)), "item-not-found");
    node.kill();
}

#[test]
fn a_name_reserved_by_an_invitation_cannot_be_registered_without_it() {
    let place = Place::new("")
        .with_accounts(&["alice"])
        .with_xmpp("[xmpp.registration]\nopen = true\nmin_password = 6");
    let node = place.spawn();
    let link = operate(&place, &["xmpp", "invite", &format!("juliet@{DOMAIN}")]);
    assert!(link.starts_with(&format!("xmpp:juliet@{DOMAIN}?register;preauth=")), "{link}");
    let mut other = stranger(&place);
    is_refused(&ask(&mut other, "set", DOMAIN, &wanted("juliet", PASSWORD)), "conflict");
    let mut juliet = stranger(&place);
    is_done(&ask(&mut juliet, "set", DOMAIN, &preauth(token(&link))));
    let form = ask(&mut juliet, "get", DOMAIN, "<query xmlns='jabber:iq:register'/>");
    assert!(form.to_string().contains("<username>juliet</username>"), "{form}");
    is_refused(&ask(&mut juliet, "set", DOMAIN, &wanted("romeo", PASSWORD)), "not-acceptable");
    is_done(&ask(&mut juliet, "set", DOMAIN, &wanted("juliet", PASSWORD)));
    node.kill();
}

#[test]
fn a_client_that_guesses_invitations_is_refused() {
    let place = Place::new("").with_xmpp("");
    let mut node = place.start();
    let mut client = stranger(&place);
    for _ in 0..4 {
        is_refused(&ask(&mut client, "set", DOMAIN, &preauth("0123456789abcdef")), "item-not-found");
    }
    is_refused(&ask(&mut client, "set", DOMAIN, &preauth("0123456789abcdef")), "item-not-found");
    assert_eq!(client.end(), "policy-violation");
    node.stop();
}

/// Writes an invitation that is too old.
fn write_old(place: &Place, token: &str) {
    let now = net::clock::Clock::new().now();
    let hash = <sha2::Sha256 as sha2::Digest>::digest(token.as_bytes()).into();
    let invitation = store::access::Invitation {
        hash,
        domain: DOMAIN.into(),
        name: None,
        inviter: None,
        registers: true,
        expires_at: now - std::time::Duration::from_secs(1),
    };
    let write = store::access::AccessWrite::Invite(Box::new(invitation));
    place.admin().write(&store::Write::Access(write)).unwrap();
}

/// XEP-0401 §5.2: the page has the link. To look at it does not use the invitation up; after its use there is no page.
#[test]
fn an_invitation_has_a_page_while_it_is_good() {
    let place = Place::new("")
        .with_accounts(&["alice"])
        .with_xmpp("[xmpp.registration]\ninvitations = \"users\"\nmin_password = 6");
    write_old(&place, "old");
    let mut node = place.start();
    let mut alice = Client::sign_in(&place, Tls, "alice", "x");
    let command = "<command xmlns='http://jabber.org/protocol/commands' node='urn:xmpp:invite#invite' action='execute'/>";
    let link = ask(&mut alice, "set", DOMAIN, command).to_string();
    let token = token(&link);
    assert!(link.contains(&format!("https://{}/invite/{token}<", place.xmpp_at(Wss))), "{link}");
    let path = format!("/invite/{token}");
    for transport in [Wss, Ws] {
        let page = Http::connect(&place, transport).ask("GET", &path, "", b"");
        assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
        let opens = format!("href=\"xmpp:alice@{DOMAIN}?roster;preauth={token};ibr=y\"");
        assert!(page.text().contains(&opens) && page.text().contains("alice@"), "{}", page.text());
        assert_eq!(page.header("cache-control"), Some("no-store"));
        assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    }
    let mut http = Http::connect(&place, Ws);
    let unknown = http.ask("GET", "/invite/0123456789abcdef", "", b"");
    assert_eq!(unknown.status, 404);
    for path in ["/invite/old", "/invite/", "/invite/a/b", "/invite/%2e%2e"] {
        let answer = http.ask("GET", path, "", b"");
        assert_eq!((answer.status, answer.text()), (404, unknown.text()), "{path}");
    }
    assert_eq!(http.ask("POST", &path, "", b"").status, 405);
    let head = http.ask("HEAD", &path, "", b"");
    assert_eq!((head.status, head.body.len()), (200, 0));
    let mut juliet = stranger(&place);
    is_done(&ask(&mut juliet, "set", DOMAIN, &preauth(token)));
    is_done(&ask(&mut juliet, "set", DOMAIN, &wanted("juliet", PASSWORD)));
    let used = http.ask("GET", &path, "", b"");
    assert_eq!((used.status, used.text()), (404, unknown.text()));
    node.stop();
}

#[test]
fn invitations_have_no_page_where_it_is_off() {
    let place = Place::new("").with_xmpp("[xmpp.registration]\ninvitation_page = false\n");
    let node = place.spawn();
    let link = operate(&place, &["xmpp", "invite", DOMAIN]);
    let path = format!("/invite/{}", token(&link));
    let answer = Http::connect(&place, Ws).ask("GET", &path, "", b"");
    assert_eq!((answer.status, answer.header("content-type")), (404, Some("text/plain; charset=utf-8")));
    node.kill();
}

#[test]
fn an_expired_invitation_is_refused() {
    let place = Place::new("").with_xmpp("");
    write_old(&place, "old");
    let mut node = place.start();
    let mut client = stranger(&place);
    is_refused(&ask(&mut client, "set", DOMAIN, &preauth("old")), "item-not-found");
    node.stop();
}
