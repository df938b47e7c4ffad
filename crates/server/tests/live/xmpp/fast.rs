//! Signing in by tokens (XEP-0484): they are given out, used, replaced, and void.

use hmac::{Hmac, KeyInit, Mac};
use sip::transport::Transport::{Tcp, Tls};
use xmpp::{Element, ns, sasl};

use super::client::Client;
use crate::phone::{DOMAIN, PASSWORD};
use crate::place::Place;

const PHONE: &str = "d4565fa7-4d72-4749-b3d3-740edbf87770";

fn begin(place: &Place) -> (Client, Element) {
    let mut client = Client::connect(place, Tls);
    let features = client.open();
    (client, features)
}

fn authenticate(client: &mut Client, mechanism: &str, initial: &[u8], agent: &str, more: &str) -> Element {
    client.say(&format!(
        "<authenticate xmlns='urn:xmpp:sasl:2' mechanism='{mechanism}'>\
         <initial-response>{}</initial-response><user-agent id='{agent}'><software>T</software></user-agent>\
         {more}</authenticate>",
        sasl::encode(initial)
    ));
    client.hear()
}

const BIND: &str = "<bind xmlns='urn:xmpp:bind:0'><tag>T</tag></bind>";

/// A token of that kind, by the password.
pub(super) fn token(place: &Place, mechanism: &str) -> String {
    let (mut client, _) = begin(place);
    let request = format!("<request-token xmlns='urn:xmpp:fast:0' mechanism='{mechanism}'/>{BIND}");
    let plain = format!("\0alice\0{PASSWORD}");
    let success = authenticate(&mut client, "PLAIN", plain.as_bytes(), PHONE, &request);
    assert!(success.get("bound", ns::BIND2).is_some(), "{success}");
    let token = success.get("token", ns::FAST).unwrap_or_else(|| panic!("no token: {success}"));
    assert!(token.attr("expiry").is_some_and(|at| xmpp::time::parse(at).is_some()), "{token}");
    token.attr("token").unwrap().to_owned()
}

fn mac(token: &str, role: &[u8], data: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(token.as_bytes()).unwrap();
    mac.update(role);
    mac.update(data);
    mac.finalize().into_bytes().to_vec()
}

/// By a token, on a connection of its own. `data`: instead of the connection's own.
pub(super) fn by_token(
    place: &Place,
    mechanism: &str,
    token: &str,
    data: Option<&[u8]>,
    fast: &str,
) -> Element {
    by_token_of(place, PHONE, (mechanism, token), data, fast)
}

fn by_token_of(
    place: &Place,
    agent: &str,
    (mechanism, token): (&str, &str),
    data: Option<&[u8]>,
    fast: &str,
) -> Element {
    let (mut client, _) = begin(place);
    let own = if mechanism.ends_with("EXPR") { client.exporter() } else { Vec::new() };
    let data = data.unwrap_or(&own);
    let initial = [b"alice\0", &mac(token, b"Initiator", data)[..]].concat();
    let more = format!("<fast xmlns='urn:xmpp:fast:0'{fast}/>{BIND}");
    let answer = authenticate(&mut client, mechanism, &initial, agent, &more);
    if let Some(last) = answer.content_of("additional-data", ns::SASL2) {
        let expected = mac(token, b"Responder", data);
        assert_eq!(sasl::decode(&last).unwrap().unwrap(), expected, "the server has the token too");
    }
    answer
}

#[track_caller]
fn is_in(answer: &Element) {
    let name = answer.content_of("authorization-identifier", ns::SASL2);
    assert!(name.is_some_and(|name| name.starts_with(&format!("alice@{DOMAIN}/T~"))), "{answer}");
}

#[track_caller]
fn is_out(answer: &Element, condition: &str) {
    assert!(answer.is("failure", ns::SASL2) && answer.get(condition, ns::SASL).is_some(), "{answer}");
}

#[test]
fn a_token_signs_in_once_for_each_count_and_only_on_its_own_channel() {
    let place = Place::new("").with_accounts(&["alice"]).with_xmpp("");
    let mut node = place.start();
    let (_, features) = begin(&place);
    let fast = features.get("authentication", ns::SASL2).and_then(|sasl| sasl.get("inline", ns::SASL2));
    let fast = fast.and_then(|inline| inline.get("fast", ns::FAST)).unwrap();
    let offered: Vec<_> = fast.elements().map(|name| name.content().into_owned()).collect();
    assert_eq!(offered, ["HT-SHA-256-EXPR", "HT-SHA-256-ENDP", "HT-SHA-256-NONE"]);
    assert_eq!(fast.attr("tls-0rtt"), None);
    let mut clear = Client::connect(&place, Tcp);
    assert!(!clear.open().to_string().contains("HT-SHA"), "not in the clear");
    let token = token(&place, "HT-SHA-256-EXPR");
    let by = |fast: &str| by_token(&place, "HT-SHA-256-EXPR", &token, None, fast);
    is_in(&by(" count='1'"));
    is_in(&by(" count='2'"));
    is_out(&by(" count='2'"), "not-authorized");
    is_out(&by(" count='1'"), "not-authorized");
    is_in(&by(""));
    is_in(&by(" count='3'"));
    // A proof from another connection, of another kind, for another client, with another token.
    is_out(&by_token(&place, "HT-SHA-256-EXPR", &token, Some(&[7; 32]), ""), "credentials-expired");
    is_out(&by_token(&place, "HT-SHA-256-NONE", &token, None, ""), "credentials-expired");
    let other = "e4565fa7-4d72-4749-b3d3-740edbf87770";
    is_out(&by_token_of(&place, other, ("HT-SHA-256-EXPR", &token), None, ""), "credentials-expired");
    is_out(&by_token(&place, "HT-SHA-256-EXPR", "guess", None, ""), "credentials-expired");
    // It is not FAST without the word.
    let (mut client, _) = begin(&place);
    let initial = [b"alice\0", &mac(&token, b"Initiator", &client.exporter())[..]].concat();
    is_out(&authenticate(&mut client, "HT-SHA-256-EXPR", &initial, PHONE, ""), "invalid-mechanism");
    node.stop();
}

#[test]
fn a_token_outlives_the_node_and_is_void_when_its_client_says_so() {
    let place = Place::new("").with_accounts(&["alice"]).with_xmpp("");
    let mut node = place.start();
    let token = token(&place, "HT-SHA-256-NONE");
    is_in(&by_token(&place, "HT-SHA-256-NONE", &token, None, " count='5'"));
    node.stop();
    node = place.start();
    is_out(&by_token(&place, "HT-SHA-256-NONE", &token, None, " count='5'"), "not-authorized");
    let last = by_token(&place, "HT-SHA-256-NONE", &token, None, " count='6' invalidate='true'");
    is_in(&last);
    assert!(last.get("token", ns::FAST).is_none(), "{last}");
    is_out(&by_token(&place, "HT-SHA-256-NONE", &token, None, " count='7'"), "credentials-expired");
    node.stop();
}

#[test]
fn a_newer_token_voids_the_older_once_it_is_used() {
    let place = Place::new("").with_accounts(&["alice"]).with_xmpp("");
    let mut node = place.start();
    let first = token(&place, "HT-SHA-256-NONE");
    is_in(&by_token(&place, "HT-SHA-256-NONE", &first, None, ""));
    let second = token(&place, "HT-SHA-256-NONE");
    is_in(&by_token(&place, "HT-SHA-256-NONE", &first, None, ""));
    // Using the first has voided nothing that came after it.
    is_in(&by_token(&place, "HT-SHA-256-NONE", &second, None, ""));
    is_out(&by_token(&place, "HT-SHA-256-NONE", &first, None, ""), "credentials-expired");
    node.stop();
}

#[test]
fn a_new_password_and_an_end_of_the_account_void_all_tokens() {
    let place = Place::new("").with_accounts(&["alice"]).with_xmpp("");
    let mut node = place.start();
    let first = token(&place, "HT-SHA-256-NONE");
    let address = || store::Address::new("alice", DOMAIN).unwrap();
    node.stop();
    place.admin().set_password(address(), "another one").unwrap();
    node = place.start();
    is_out(&by_token(&place, "HT-SHA-256-NONE", &first, None, ""), "credentials-expired");
    node.stop();
    place.admin().set_password(address(), PASSWORD).unwrap();
    place.admin().set_disabled(address(), true).unwrap();
    node = place.start();
    is_out(&by_token(&place, "HT-SHA-256-NONE", &first, None, ""), "credentials-expired");
    node.stop();
}
