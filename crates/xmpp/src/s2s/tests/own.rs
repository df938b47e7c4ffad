//! Domains that this server has itself: no other server speaks for them, whatever it shows (RFC 6120 §8.1.1.2, §13.7.2).

use super::bad::{HEADER, TestCaller};
use super::*;

/// Domains of ours: one with accounts, a service below it, and a component's.
const OWN: [&str; 3] = ["a.test", "rooms.a.test", "gateway.test"];

fn certified(name: &str) -> Security {
    Security { encrypted: true, certificate: Some(Certificate::of_dns(name)), presented: None }
}

fn with_component(settings: &mut S2sSettings) {
    settings.domains.push("gateway.test".into());
}

fn caller(security: Security) -> TestCaller {
    TestCaller::new(with_component, security)
}

#[test]
fn a_stream_from_a_domain_of_ours_is_refused_in_any_spelling() {
    for own in OWN.into_iter().chain(["A.Test", "a.test.", "ROOMS.A.TEST"]) {
        for security in
            [Security::default(), Security { encrypted: true, ..Security::default() }, certified(own)]
        {
            let mut caller = caller(security);
            caller.ends_with(&HEADER.replace("evil.test", own), "invalid-from");
            assert_eq!(caller.servers.counts().refused, 1, "{own}");
        }
    }
}

#[test]
fn a_certificate_of_a_domain_of_ours_proves_nothing() {
    for own in OWN {
        let name = crate::sasl::encode(own.as_bytes());
        let auth =
            format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='EXTERNAL'>{name}</auth>");
        // A stolen copy of our own, or one for both domains.
        let mut caller = caller(certified(own));
        let features = caller.say(&HEADER.replace(" from='evil.test'", ""));
        assert!(!features.contains("EXTERNAL"), "{features}");
        let answer = caller.say(&auth);
        assert!(answer.contains("<not-authorized") && !answer.contains("<success"), "{answer}");
    }
}

#[test]
fn a_key_for_a_domain_of_ours_is_not_even_asked_about() {
    for own in OWN {
        for security in [Security { encrypted: true, ..Security::default() }, certified(own)] {
            let mut caller = caller(security);
            caller.say(HEADER);
            let answer = caller.say(&format!("<db:result from='{own}' to='a.test'>key</db:result>"));
            assert!(answer.contains("type='error'") && answer.contains("<not-allowed"), "{answer}");
            let asks = |effect: &Effect| matches!(effect, Effect::Send(_));
            assert!(!caller.effects.iter().any(asks), "{:?}", caller.effects);
        }
    }
}

#[test]
fn no_key_is_verified_for_a_caller_that_claims_a_domain_of_ours() {
    let mut caller = caller(Security { encrypted: true, ..Security::default() });
    caller.say(HEADER);
    // As a node of ours would have made it.
    let key = dialback::key(&[1; 32], "rooms.a.test", "a.test", "id");
    let answer = caller.say(&format!("<db:verify from='rooms.a.test' to='a.test' id='id'>{key}</db:verify>"));
    assert!(!answer.contains("type='valid'") && answer.contains("type='error'"), "{answer}");
}

#[test]
fn stanzas_from_domains_of_ours_end_a_stream_that_proved_another() {
    for own in OWN {
        let mut caller = TestCaller::proved_with(with_component);
        caller.ends_with(&format!("<message from='x@{own}' to='y@a.test'/>"), "invalid-from");
        // As a server does that has proved it by certificate, to any domain of ours.
        let mut caller = self::caller(certified("evil.test"));
        caller.say(HEADER);
        caller.say("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='EXTERNAL'>=</auth>");
        caller.say(HEADER);
        caller.ends_with(&format!("<message from='x@{own}' to='y@a.test'/>"), "invalid-from");
    }
}

#[test]
fn nothing_is_sent_out_to_a_domain_of_ours() {
    for own in OWN {
        let mut settings = settings(&["a.test", "rooms.a.test"], 1);
        with_component(&mut settings);
        let mut servers = Servers::new(Arc::new(settings), ShardAddress::default(), [3; 32]);
        let mut out = Vec::new();
        let message = Element::new("message", ns::CLIENT).with("from", "x@a.test/r").with("to", own);
        servers.handle_stanza(START, Box::new(message), &mut out);
        // Verification of a key that another shard was asked about, likewise.
        let question = KeyQuery {
            pair: Pair { local: "a.test".into(), remote: own.into() },
            id: "i".into(),
            key: "k".into(),
        };
        let edge = ConnectionId { shard: ShardAddress::default(), connection: 2 };
        servers.handle_shard_message(
            START,
            ShardMessage::Verify { edge, question: question.clone() },
            &mut out,
        );
        // A stream back is not taken for one either (XEP-0288).
        servers.handle_shard_message(START, ShardMessage::Offer { edge, pair: question.pair }, &mut out);
        assert!(!out.iter().any(|effect| matches!(effect, Effect::Connect(_))), "{own}: {out:?}");
        let refused = |effect: &&Effect| match effect {
            Effect::Deliver(answer) => answer.attr("type") == Some("error"),
            Effect::Send(ShardMessage::Verified { verdict, .. }) => matches!(verdict, Verdict::Error(_)),
            _ => false,
        };
        assert_eq!(out.iter().filter(refused).count(), 2, "{own}: {out:?}");
    }
}

#[test]
fn a_stream_of_a_domain_that_becomes_ours_ends() {
    let mut caller = TestCaller::proved();
    let settings = Arc::new(settings(&["a.test", "evil.test"], 1));
    let answer = caller.tell(|servers, out| servers.reload(START, &settings, out));
    assert!(answer.contains("<invalid-from"), "{answer}");
    // The same of one that we opened.
    let mut world = FederationWorld::new(1, &[&["a.test"], &["b.test"]]);
    world.message(0, "alice@a.test/x", "bob@b.test", "1");
    world.run();
    world.set(0, |settings| settings.domains.push("b.test".into()));
    world.run();
    assert_eq!(world.sum(0, |counts| counts.outgoing), 0);
}
