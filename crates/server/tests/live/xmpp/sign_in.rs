//! Ways to connect and to authenticate.

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sip::transport::Transport::{Tcp, Tls, Udp, Ws, Wss};
use xmpp::{Element, ns};

use super::client::Client;
use crate::phone::PASSWORD;
use crate::place::Place;
use crate::until;
use crate::voice::sum;

fn mechanisms(features: &Element) -> Vec<String> {
    let offered = features.get("mechanisms", ns::SASL);
    offered.into_iter().flat_map(Element::elements).map(|name| name.content().into_owned()).collect()
}

#[test]
fn no_mechanism_is_accepted_before_tls_and_each_offered_one_after_it() {
    let place = Place::new("").with_accounts(&["alice"]).with_xmpp("");
    let mut node = place.start();
    let mut client = Client::connect(&place, Tcp);
    let features = client.open();
    assert!(mechanisms(&features).is_empty(), "{features}");
    assert!(features.get("starttls", ns::TLS).unwrap().get("required", ns::TLS).is_some());
    client.start_tls();
    let offered = mechanisms(&client.open());
    assert_eq!(offered.first().map(String::as_str), Some("SCRAM-SHA-512-PLUS"), "{offered:?}");
    assert!(offered.contains(&"PLAIN".to_owned()), "{offered:?}");
    assert!(!offered.contains(&"ANONYMOUS".to_owned()), "{offered:?}");
    node.stop();
}

#[test]
fn a_password_signs_in_and_from_then_on_scram_does_too() {
    let place = Place::new("").with_accounts(&["alice"]).with_xmpp("");
    let mut node = place.start();
    drop(Client::sign_in(&place, Tcp, "alice", "one"));
    // The keys are made and written beside.
    until("there are keys", || {
        let mut client = Client::connect(&place, Tls);
        client.open();
        client.scram("alice", PASSWORD, None).is("success", ns::SASL).then_some(())
    });
    let mut client = Client::connect(&place, Tls);
    let features = client.open();
    let bindings = features.get("sasl-channel-binding", ns::CHANNEL_BINDINGS).unwrap();
    assert_eq!(
        bindings.elements().filter_map(|binding| binding.attr("type")).collect::<Vec<_>>(),
        ["tls-exporter", "tls-server-end-point"]
    );
    let exporter = client.exporter();
    let answer = client.scram("alice", PASSWORD, Some(("tls-exporter", &exporter)));
    assert!(answer.is("success", ns::SASL), "{answer}");
    client.open();
    client.bind("two");
    node.stop();
}

#[test]
fn the_certificate_binds_the_channel_and_another_does_not() {
    let place = Place::new("").with_accounts(&["alice"]).with_xmpp("");
    let mut node = place.start();
    drop(Client::sign_in(&place, Tls, "alice", "one"));
    let pem = std::fs::read_to_string(place.path("data/cert.pem")).unwrap();
    let base64: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    let certificate = xmpp::sasl::decode(&base64).unwrap().unwrap();
    let hash = <sha2::Sha256 as sha2::Digest>::digest(certificate).to_vec();
    until("there are keys", || {
        let mut client = Client::connect(&place, Tls);
        client.open();
        let answer = client.scram("alice", PASSWORD, Some(("tls-server-end-point", &hash)));
        answer.is("success", ns::SASL).then_some(())
    });
    let mut client = Client::connect(&place, Tls);
    client.open();
    let answer = client.scram("alice", PASSWORD, Some(("tls-server-end-point", &[0; 32])));
    assert!(answer.get("not-authorized", ns::SASL).is_some(), "{answer}");
    node.stop();
}

#[test]
fn all_ways_to_connect_lead_to_a_session() {
    let place = Place::new("").with_accounts(&["alice"]).with_xmpp("require_tls = false");
    let mut node = place.start();
    let mut clients: Vec<Client> = [Tcp, Tls, Wss]
        .into_iter()
        .enumerate()
        .map(|(number, way)| Client::sign_in(&place, way, "alice", &format!("r{number}")))
        .collect();
    // In the clear there is SCRAM only, for which the password above has made keys.
    let mut plain = until("there are keys", || {
        let mut client = Client::connect(&place, Ws);
        client.open();
        client.scram("alice", PASSWORD, None).is("success", ns::SASL).then_some(client)
    });
    plain.open();
    plain.bind("ws");
    clients.push(plain);
    for client in &mut clients {
        client.say("<iq xmlns='jabber:client' type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>");
        let answer = client.hear();
        assert_eq!((answer.attr("type"), answer.attr("id")), (Some("result"), Some("p")), "{answer}");
    }
    until("the board shows them", || (sum(&node, |shard| shard.xmpp.sessions) == 4).then_some(()));
    drop(clients);
    until("they are gone", || {
        let left = sum(&node, |shard| shard.xmpp.sessions + shard.xmpp.connections);
        (left == 0).then_some(())
    });
    assert_eq!(node.board().faults(), (0, 0, 0));
    node.stop();
}

#[test]
fn wrong_passwords_and_unknown_accounts_get_the_same_error_and_five_end_the_stream() {
    let place = Place::new("").with_accounts(&["alice", "eve"]).with_xmpp("");
    let admin = |user: &str| store::Address::new(user, crate::phone::DOMAIN).unwrap();
    place.admin().set_disabled(admin("eve"), true).unwrap();
    let mut node = place.start();
    let mut client = Client::connect(&place, Tls);
    client.open();
    let tries = [("alice", "wrong"), ("nobody", PASSWORD), ("eve", PASSWORD), ("ALICE@x", PASSWORD)];
    for (user, password) in tries {
        let answer = client.plain(user, password);
        assert!(answer.get("not-authorized", ns::SASL).is_some(), "{user}: {answer}");
    }
    let answer = client.scram("nobody", PASSWORD, None);
    assert!(answer.get("not-authorized", ns::SASL).is_some(), "{answer}");
    assert_eq!(client.end(), "policy-violation");
    until("they are counted", || (sum(&node, |shard| shard.xmpp.sign_in_failures) == 5).then_some(()));
    node.stop();
}

#[test]
fn a_source_that_guesses_is_refused_before_authentication() {
    let place = Place::with_shards(1, "").with_accounts(&["alice"]).with_xmpp("");
    let mut node = place.start();
    until("this source is refused", || {
        let mut client = Client::connect(&place, Tls);
        client.open();
        let refused =
            (0..4).any(|_| client.plain("alice", "wrong").get("temporary-auth-failure", ns::SASL).is_some());
        refused.then_some(())
    });
    let free = u64::from(sip::limits::WRONG_BY_PAIR.free_failures);
    until("they are counted", || (sum(&node, |shard| shard.xmpp.sign_in_failures) > free).then_some(()));
    node.stop();
}

#[test]
fn a_phone_and_a_chat_client_are_one_account() {
    let place = Place::new("").with_accounts(&["alice"]).with_xmpp("");
    let mut node = place.start();
    let mut phone = place.phone("alice", Udp);
    phone.register();
    let client = Client::sign_in(&place, Tcp, "alice", "desk");
    assert_eq!(client.jid, "alice@example.test/desk");
    // The password is changed for both.
    node.stop();
    let address = store::Address::new("alice", crate::phone::DOMAIN).unwrap();
    place.admin().set_password(address, "other").unwrap();
    node = place.start();
    let mut client = Client::connect(&place, Tls);
    client.open();
    let answer = client.scram("alice", PASSWORD, None);
    assert!(answer.is("failure", ns::SASL), "keys of the old password are gone: {answer}");
    let answer = client.plain("alice", "other");
    assert!(answer.is("success", ns::SASL), "{answer}");
    node.stop();
}

/// Its own key, and a certificate of that authority for these addresses.
fn certified(
    authority: &rcgen::Issuer<'_, rcgen::KeyPair>,
    addresses: &[&str],
) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    let name =
        |address: &&str| rcgen::SanType::OtherName((vec![1, 3, 6, 1, 5, 5, 7, 8, 5], (*address).into()));
    params.subject_alt_names = addresses.iter().map(name).collect();
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    (certificate.der().clone(), PrivateKeyDer::try_from(key.serialize_der()).unwrap())
}

fn authority(name: &str) -> (rcgen::Certificate, rcgen::Issuer<'static, rcgen::KeyPair>) {
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    (certificate, rcgen::Issuer::new(params, key))
}

#[test]
fn a_client_certificate_signs_in_the_account_that_it_names() {
    let place = Place::new("")
        .with_accounts(&["alice", "bob"])
        .with_xmpp("[xmpp.access]\nclient_authorities = \"people.pem\"");
    let (certificate, issuer) = authority("People");
    std::fs::write(place.path("people.pem"), certificate.pem()).unwrap();
    let address = store::Address::new("bob", crate::phone::DOMAIN).unwrap();
    place.admin().set_disabled(address, true).unwrap();
    let mut node = place.start();
    let begin = |addresses: &[&str]| {
        let mut client = Client::connect(&place, Tcp);
        client.open();
        let (certificate, key) = certified(&issuer, addresses);
        client.show(&place, certificate, key);
        client.start_tls();
        let offered = mechanisms(&client.open());
        (client, offered.first().is_some_and(|first| first == "EXTERNAL"))
    };
    let (mut alice, offered) = begin(&["alice@example.test"]);
    assert!(offered);
    let answer = alice.external("bob@example.test");
    assert!(answer.get("invalid-authzid", ns::SASL).is_some(), "{answer}");
    assert!(alice.external("").is("success", ns::SASL));
    alice.open();
    alice.bind("x");
    // The certificate names no address, two addresses, or an address of another domain: a password is needed.
    for addresses in [&[][..], &["alice@example.test", "bob@example.test"], &["alice@elsewhere.test"]] {
        let (mut client, offered) = begin(addresses);
        assert!(!offered, "{addresses:?}");
        assert!(client.external("").get("invalid-mechanism", ns::SASL).is_some());
        assert!(client.plain("alice", PASSWORD).is("success", ns::SASL));
    }
    // A certificate outlives its account.
    for user in ["bob@example.test", "nobody@example.test"] {
        let (mut client, offered) = begin(&[user]);
        assert!(offered);
        let answer = client.external("");
        assert!(answer.get("not-authorized", ns::SASL).is_some(), "{answer}");
    }
    // A client without a certificate signs in by password.
    drop(Client::sign_in(&place, Tls, "alice", "y"));
    // A certificate of an unknown authority fails the handshake.
    let (certificate, key) = certified(&authority("Others").1, &["alice@example.test"]);
    let mut stranger = Client::connect(&place, Tcp);
    stranger.open();
    stranger.show(&place, certificate, key);
    assert!(!stranger.may_start_tls());
    until("it is counted", || (sum(&node, |shard| shard.xmpp.handshake_failures) == 1).then_some(()));
    node.stop();
}

#[test]
fn a_client_that_vanishes_after_the_challenge_has_failed() {
    let place = Place::new("").with_accounts(&["alice"]).with_xmpp("");
    let mut node = place.start();
    for (count, user) in [(1, "alice"), (2, "nobody")] {
        let mut client = Client::connect(&place, Tls);
        client.open();
        let challenge = client.auth("SCRAM-SHA-256", format!("n,,n={user},r=client").as_bytes());
        assert!(challenge.is("challenge", ns::SASL), "{challenge}");
        drop(client);
        until("it is counted", || (sum(&node, |shard| shard.xmpp.sign_in_failures) == count).then_some(()));
    }
    node.stop();
}

#[test]
fn without_digests_chat_clients_sign_in_and_phones_do_not() {
    let place = Place::new("[accounts]\ndigests = false").with_accounts(&["alice"]).with_xmpp("");
    let mut node = place.start();
    // So far only digests can prove her password.
    drop(Client::sign_in(&place, Tls, "alice", "one"));
    until("there are keys, and nothing else", || {
        let mut client = Client::connect(&place, Tls);
        client.open();
        client.scram("alice", PASSWORD, None).is("success", ns::SASL).then_some(())
    });
    drop(Client::sign_in(&place, Tls, "alice", "two"));
    let mut client = Client::connect(&place, Tls);
    client.open();
    for (user, password) in [("alice", "wrong"), ("nobody", PASSWORD)] {
        let answer = client.plain(user, password);
        assert!(answer.get("not-authorized", ns::SASL).is_some(), "{user}: {answer}");
    }
    let mut phone = place.udp("alice");
    let contact = format!("sip:alice@{}", phone.server);
    let ask = phone.registration(&format!("Contact: <{contact}>\r\nExpires: 600\r\n"));
    let status = phone.request(ask).status();
    assert!(matches!(status, 401 | 403), "{status}");
    node.stop();
    let address = store::Address::new("alice", crate::phone::DOMAIN).unwrap();
    assert!(!place.admin().account(&address).unwrap().verifiers.are_of_password());
}
