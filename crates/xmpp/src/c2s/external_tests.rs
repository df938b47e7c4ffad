//! Streams of domains whose users a service outside the database knows.

use std::collections::BTreeMap;

use super::tests::{ClientStreamWorld, HEADER, secure, settings};
use super::*;
use crate::sasl::{CredentialAnswer, CredentialQuery, Secret};

/// example.org has a service that takes this credential; other.org has none.
fn world(credential: ExternalCredential, security: Security) -> (ClientStreamWorld, String) {
    let external = Arc::new(BTreeMap::from([("example.org".into(), credential)]));
    let settings =
        C2sSettings { tokens: true, registration: true, invitations: true, external, ..settings() };
    let mut world = ClientStreamWorld::new(settings, security);
    let features = world.say(HEADER);
    (world, features)
}

fn auth(world: &mut ClientStreamWorld, mechanism: &str, first: &[u8]) -> String {
    let first = sasl::encode(first);
    world.say(&format!(
        "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='{mechanism}'>{first}</auth>"
    ))
}

fn bearer(world: &mut ClientStreamWorld, named: &str) -> String {
    auth(world, "OAUTHBEARER", format!("n,{named},\u{1}auth=Bearer abc\u{1}\u{1}").as_bytes())
}

#[test]
fn a_domain_with_an_external_service_offers_the_mechanism_of_the_service() {
    for (credential, offered, other) in [
        (ExternalCredential::Password, "<mechanism>PLAIN<", "OAUTHBEARER"),
        (ExternalCredential::Token, "<mechanism>OAUTHBEARER<", "PLAIN"),
    ] {
        let (mut world, features) = world(credential, secure());
        assert!(features.contains(offered) && !features.contains(other), "{features}");
        for absent in ["SCRAM", "urn:xmpp:fast:0", "iq-register", "ibr-token"] {
            assert!(!features.contains(absent), "{absent}: {features}");
        }
        assert!(auth(&mut world, other, b"\0alice\0secret").contains("invalid-mechanism"));
        assert!(auth(&mut world, "SCRAM-SHA-1", b"n,,n=alice,r=x").contains("invalid-mechanism"));
        let query =
            "<query xmlns='jabber:iq:register'><username>bob</username><password>x</password></query>";
        let answer = world.say(&format!("<iq type='set' id='r'>{query}</iq>"));
        assert!(answer.contains("not-allowed") && world.effects.is_empty(), "{answer}");
        let preauth = "<preauth xmlns='urn:xmpp:pars:0' token='x'/>";
        let answer = world.say(&format!("<iq type='set' id='p'>{preauth}</iq>"));
        assert!(answer.contains("not-allowed") && world.effects.is_empty(), "{answer}");
    }
    let (_, features) = world(ExternalCredential::Token, Security::default());
    assert!(!features.contains("mechanism"), "not without TLS: {features}");
    // A domain beside it is as it was.
    let external = Arc::new(BTreeMap::from([("other.org".into(), ExternalCredential::Token)]));
    let mut beside = ClientStreamWorld::new(C2sSettings { external, ..settings() }, secure());
    let features = beside.say(HEADER);
    assert!(features.contains("SCRAM-SHA-1") && !features.contains("OAUTHBEARER"), "{features}");
}

#[test]
fn a_service_with_keys_of_one_hash_has_that_hash_offered_besides() {
    let (mut world, features) = world(ExternalCredential::PasswordOrKeys, secure());
    let offered = |name: &str| features.contains(&format!("<mechanism>{name}<"));
    assert!(offered("SCRAM-SHA-256") && offered("SCRAM-SHA-256-PLUS") && offered("PLAIN"), "{features}");
    for absent in ["SCRAM-SHA-1", "SCRAM-SHA-512", "OAUTHBEARER", "urn:xmpp:fast:0", "iq-register"] {
        assert!(
            !features.contains(&format!("{absent}<")) && !features.contains("fast:0"),
            "{absent}: {features}"
        );
    }
    assert!(auth(&mut world, "SCRAM-SHA-512", b"n,,n=alice,r=x").contains("invalid-mechanism"));
    auth(&mut world, "SCRAM-SHA-256", b"n,,n=alice,r=x");
    let find = CredentialQuery::Keys { user: "alice".into(), hash: sasl::Hash::Sha256 };
    assert_eq!(world.effects, [Effect::Find { find, domain: "example.org".into() }]);
}

#[test]
fn a_token_signs_in_the_user_that_it_names() {
    let (mut world, _) = world(ExternalCredential::Token, secure());
    bearer(&mut world, "");
    let find = CredentialQuery::Bearer { user: "".into(), token: Secret("abc".into()) };
    assert_eq!(world.effects, [Effect::Find { find, domain: "example.org".into() }]);
    let answer = world.found(CredentialAnswer::User("alice".into()));
    assert_eq!(answer, "<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>");
    assert_eq!(world.stream.jid().map(Jid::as_str), Some("alice@example.org"));
}

/// RFC 7628 §3.2.2.
#[test]
fn a_refused_token_is_answered_with_the_configuration_of_the_provider() {
    let external = Arc::new(BTreeMap::from([("example.org".into(), ExternalCredential::Token)]));
    let url = "https://id.example.org/.well-known/openid-configuration";
    let openid_configurations = Arc::new(BTreeMap::from([("example.org".into(), url.into())]));
    let mut world =
        ClientStreamWorld::new(C2sSettings { external, openid_configurations, ..settings() }, secure());
    world.say(HEADER);
    bearer(&mut world, "");
    let challenge = world.found(CredentialAnswer::NoAccount);
    let expected = format!(r#"{{"status":"invalid_token","openid-configuration":"{url}"}}"#);
    assert!(challenge.contains(&sasl::encode(expected.as_bytes())), "{challenge}");
}

#[test]
fn a_refused_token_is_a_failure_after_the_challenge_of_rfc_7628_or_without_its_answer() {
    let (mut of_other, _) = world(ExternalCredential::Token, secure());
    bearer(&mut of_other, "a=bob@example.org");
    let challenge = of_other.found(CredentialAnswer::User("alice".into()));
    assert!(challenge.contains("<challenge"), "no user acts for another: {challenge}");
    let (mut world, _) = self::world(ExternalCredential::Token, secure());
    bearer(&mut world, "a=alice@example.org");
    let challenge = world.found(CredentialAnswer::NoAccount);
    assert!(challenge.contains(&sasl::encode(br#"{"status":"invalid_token"}"#)), "{challenge}");
    assert_eq!(world.failures(), 0, "not yet");
    let answer = world.say("<response xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>AQ==</response>");
    assert!(answer.contains("<not-authorized/>"), "{answer}");
    assert_eq!(world.failures(), 1);
    bearer(&mut world, "");
    world.found(CredentialAnswer::NoAccount);
    world.stream.handle_gone();
    assert_eq!(world.stream.take_failed().len(), 2, "a client that goes away has tried");
    let (mut away, _) = self::world(ExternalCredential::Token, secure());
    bearer(&mut away, "");
    assert!(away.found(CredentialAnswer::Unavailable).contains("<temporary-auth-failure/>"));
    assert_eq!(away.failures(), 0);
}
