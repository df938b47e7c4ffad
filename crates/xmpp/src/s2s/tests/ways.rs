//! Streams between servers: their discovery, authentication and life.

use super::*;

const DIALBACK: S2sStreamEvent =
    S2sStreamEvent::Connected { by: Proof::Dialback, peer: None, is_encrypted: true };

#[test]
fn a_stranger_is_believed_by_dialback() {
    for seed in 0..50 {
        let mut world = FederationWorld::new(seed, &[&["a.test"], &["b.test"]]);
        world.message(0, "alice@a.test/x", "bob@b.test", "1");
        world.message(0, "alice@a.test/x", "bob@b.test", "2");
        world.run();
        assert_eq!(world.got(1), ["1", "2"], "seed {seed}");
        assert!(world.proofs(0).contains(&DIALBACK), "{:?}", world.proofs(0));
        let accepted = S2sStreamEvent::Accepted { by: Proof::Dialback, is_encrypted: true };
        assert!(world.proofs(1).contains(&accepted), "{:?}", world.proofs(1));
        let message = &world.nodes[1].delivered[0];
        assert_eq!(message.content_of("body", ns::CLIENT).as_deref(), Some("hello"), "in our namespace");
        world.message(0, "alice@a.test/x", "bob@b.test", "3");
        world.run();
        assert_eq!(world.sum(0, |counts| counts.outgoing_total), 1, "one connection does");
        assert_eq!(world.got(1).len(), 3);
    }
}

#[test]
fn answers_come_back_on_the_same_stream() {
    let mut world = FederationWorld::new(1, &[&["a.test"], &["b.test"]]);
    world.message(0, "alice@a.test/x", "bob@b.test", "1");
    world.run();
    world.message(1, "bob@b.test/y", "alice@a.test/x", "2");
    world.run();
    assert_eq!(world.got(0), ["2"]);
    // That it asked about our key cost it one.
    assert_eq!(world.sum(1, |counts| counts.outgoing_total), 1);
    assert!(!world.proofs(1).contains(&DIALBACK), "it never had to prove itself: XEP-0288");
}

#[test]
fn a_server_with_a_valid_certificate_needs_no_dialback() {
    let mut world = FederationWorld::new(2, &[&["a.test"], &["b.test"]]);
    world.certify(0, "a.test");
    world.certify(1, "b.test");
    world.message(0, "alice@a.test/x", "bob@b.test", "1");
    world.run();
    assert_eq!(world.got(1), ["1"]);
    let by = Proof::Certificate;
    assert_eq!(world.proofs(0), [S2sStreamEvent::Connected { by, peer: Some(by), is_encrypted: true }]);
    assert_eq!(world.proofs(1), [S2sStreamEvent::Accepted { by, is_encrypted: true }]);
    assert_eq!(world.dialled, 1, "no server had to ask back");
    world.message(1, "bob@b.test/y", "alice@a.test/x", "2");
    world.run();
    assert_eq!((world.got(0), world.dialled), (vec!["2".to_owned()], 1));
}

#[test]
fn a_certificate_of_another_domain_proves_nothing() {
    let mut world = FederationWorld::new(3, &[&["a.test"], &["b.test"]]);
    world.certify(0, "other.test");
    world.message(0, "alice@a.test/x", "bob@b.test", "1");
    world.run();
    assert!(world.proofs(0).contains(&DIALBACK));
    let mut world = FederationWorld::new(3, &[&["a.test"], &["b.test"]]);
    world.certify(0, "other.test");
    world.set(1, |settings| settings.policy.require_certificate = true);
    world.message(0, "alice@a.test/x", "bob@b.test", "1");
    world.run();
    assert_eq!(world.got(1), Vec::<String>::new());
    assert_eq!(world.got(0), ["1 remote-server-not-found"]);
    assert!(world.sum(1, |counts| counts.refused) > 0);
}

#[test]
fn with_require_certificate_a_server_that_we_call_must_have_one() {
    let mut world = FederationWorld::new(4, &[&["a.test"], &["b.test"]]);
    world.certify(1, "wrong.test");
    world.set(0, |settings| settings.policy.require_certificate = true);
    world.message(0, "alice@a.test/x", "bob@b.test", "1");
    world.run();
    assert_eq!(world.got(0), ["1 remote-server-not-found"]);
    let text = world.nodes[0].delivered[0].to_string();
    assert!(text.contains("no valid certificate"), "{text}");
}

#[test]
fn more_domains_share_a_stream() {
    let mut world = FederationWorld::new(5, &[&["a.test", "rooms.a.test"], &["b.test"]]);
    world.message(0, "alice@a.test/x", "bob@b.test", "1");
    world.message(0, "tea@rooms.a.test/hag", "bob@b.test/y", "2");
    world.run();
    world.message(0, "tea@rooms.a.test/hag", "bob@b.test/y", "3");
    world.run();
    let mut got = world.got(1);
    got.sort();
    assert_eq!(got, ["1", "2", "3"]);
    assert_eq!(world.sum(0, |counts| counts.outgoing_total), 1);
}

#[test]
fn without_tls_no_stanza_is_sent_unless_the_domain_is_excepted() {
    let mut world = FederationWorld::new(6, &[&["a.test"], &["b.test"]]);
    world.set(1, |settings| {
        settings.tls = false;
        settings.policy.require_tls = false;
    });
    world.message(0, "alice@a.test/x", "bob@b.test", "1");
    world.run();
    assert_eq!(world.got(0), ["1 remote-server-not-found"]);
    assert!(world.nodes[0].delivered[0].to_string().contains("no TLS"));
    let exception = |settings: &mut S2sSettings| {
        settings.policy.tls_exceptions = Domains(vec!["b.test".into()]);
    };
    world.set(0, exception);
    world.message(0, "alice@a.test/x", "bob@b.test", "2");
    world.run();
    assert_eq!(world.got(1), ["2"]);
    assert!(world.proofs(0).contains(&S2sStreamEvent::Connected {
        by: Proof::Dialback,
        peer: None,
        is_encrypted: false
    }));
}

#[test]
fn a_server_that_is_nowhere_is_not_found_and_then_left_alone_for_a_while() {
    let mut world = FederationWorld::new(7, &[&["a.test"]]);
    world.message(0, "alice@a.test/x", "bob@nowhere.test", "1");
    world.message(0, "alice@a.test/x", "bob@nowhere.test", "2");
    world.run();
    assert_eq!(world.got(0), ["1 remote-server-not-found", "2 remote-server-not-found"]);
    assert_eq!(world.dialled, 1, "the second was told what came of the first");
    world.pass(Duration::from_secs(3));
    world.add(&settings(&["nowhere.test"], 9));
    world.places.insert("nowhere.test".into(), LinkEnd::Node(1));
    world.message(0, "alice@a.test/x", "bob@nowhere.test", "3");
    world.run();
    assert_eq!(world.got(1), ["3"]);
}

#[test]
fn each_failure_doubles_the_pause() {
    let mut world = FederationWorld::new(7, &[&["a.test"]]);
    for _ in 0..600 {
        world.message(0, "alice@a.test/x", "bob@nowhere.test", "1");
        world.pass(Duration::from_secs(1));
    }
    // At 0, 2, 6, 14, 30, 62, 126, 254, 510 seconds.
    assert_eq!(world.dialled, 9);
}

#[test]
fn a_server_that_is_silent_is_given_up_in_time() {
    let mut world = FederationWorld::new(8, &[&["a.test"]]);
    world.places.insert("silent.test".into(), LinkEnd::Silent);
    world.message(0, "alice@a.test/x", "bob@silent.test", "1");
    let presence = Element::new("presence", ns::CLIENT).with("from", "alice@a.test/x");
    world.say(0, presence.clone().with("to", "bob@silent.test"));
    let join = Element::new("x", ns::MUC);
    world.say(0, presence.with("to", "tea@silent.test/hag").with("id", "join").child(join));
    world.pass(Duration::from_secs(19));
    assert_eq!(world.got(0), Vec::<String>::new());
    world.pass(Duration::from_secs(2));
    assert_eq!(world.got(0), ["1 remote-server-timeout", "join remote-server-timeout"]);
    assert_eq!(world.sum(0, |counts| counts.waiting + counts.outgoing), 0);
}

#[test]
fn idle_streams_are_closed_and_opened_again() {
    let mut world = FederationWorld::new(9, &[&["a.test"], &["b.test"]]);
    world.message(0, "alice@a.test/x", "bob@b.test", "1");
    world.pass(Duration::from_secs(1_300));
    for node in 0..2 {
        assert_eq!(world.sum(node, |counts| counts.outgoing + counts.incoming), 0, "node {node}");
    }
    world.message(0, "alice@a.test/x", "bob@b.test", "2");
    world.message(1, "bob@b.test", "alice@a.test/x", "3");
    world.run();
    assert_eq!((world.got(1), world.got(0)), (vec!["1".to_owned(), "2".to_owned()], vec!["3".to_owned()]));
}

#[test]
fn a_blocked_domain_neither_gets_nor_sends_stanzas() {
    let mut world = FederationWorld::new(10, &[&["a.test"], &["b.test"]]);
    world.set(0, |settings| settings.policy.block = Domains(vec!["b.test".into()]));
    world.message(0, "alice@a.test/x", "bob@b.test", "1");
    world.message(1, "bob@b.test/x", "alice@a.test", "2");
    world.run();
    assert_eq!(world.got(0), ["1 not-allowed"]);
    assert_eq!(world.got(1), ["2 remote-server-not-found"]);
    assert!(world.nodes[1].delivered[0].to_string().contains("policy-violation"));
}

#[test]
fn stanzas_of_foreign_domains_are_not_relayed() {
    let mut world = FederationWorld::new(14, &[&["a.test"], &["b.test"]]);
    world.message(0, "evil@other.test/x", "bob@b.test", "1");
    world.run();
    assert_eq!((world.got(0), world.dialled), (vec!["1 not-allowed".to_owned()], 0));
}

/// A connection of node 0 to `peer.test`, whose server is the test: the server's first text, in the clear.
fn call(next: Option<usize>, answers: &str) -> FederationWorld {
    let mut world = FederationWorld::new(15, &[&["a.test"]]);
    world.places.insert("peer.test".into(), LinkEnd::Silent);
    world.set(0, |settings| settings.policy.require_tls = false);
    world.message(0, "x@a.test/y", "z@peer.test", "1");
    let shard = owner("peer.test");
    let security = Security { encrypted: true, ..Security::default() };
    world.tell(0, shard, |servers, now, out| servers.handle_connected(now, 3, security, next, out));
    let text = format!(
        "<stream:stream xmlns='jabber:server' xmlns:db='jabber:server:dialback' id='i' \
         xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>{answers}"
    );
    world.tell(0, shard, |servers, now, out| servers.handle_bytes(now, 3, text.as_bytes(), out));
    world
}

const ENDS: &str =
    "<stream:error><internal-server-error xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error>";

#[test]
fn when_one_address_does_not_do_the_next_may() {
    let world = call(None, ENDS);
    assert_eq!((world.got(0), world.dialled), (vec!["1 remote-server-not-found".to_owned()], 1));
    let mut world = call(Some(1), ENDS);
    assert_eq!((world.got(0).len(), world.dialled), (0, 2), "it is still on its way");
    world.pass(Duration::from_secs(30));
    assert_eq!(world.got(0), ["1 remote-server-timeout"]);
}

#[test]
fn a_server_that_refuses_our_certificate_and_hangs_up_is_dialled_again() {
    let refused = "<stream:features><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>\
        <mechanism>EXTERNAL</mechanism></mechanisms></stream:features>\
        <failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><not-authorized/></failure></stream:stream>";
    let world = call(None, refused);
    assert_eq!((world.got(0).len(), world.dialled), (0, 2));
}

#[test]
fn a_server_that_does_not_read_is_sent_no_more_until_it_has_read() {
    let features = "<stream:features><dialback xmlns='urn:xmpp:features:dialback'/></stream:features>";
    let mut world = call(None, features);
    let shard = owner("peer.test");
    let valid = b"<db:result from='peer.test' to='a.test' type='valid'/>";
    world.tell(0, shard, |servers, now, out| servers.handle_bytes(now, 3, valid, out));
    // The world's system takes all that is written; from here on this one takes nothing.
    let body = "x".repeat(100_000);
    for id in 0..30 {
        let text = Element::new("body", ns::CLIENT).text(&*body);
        let message = Element::new("message", ns::CLIENT)
            .with("from", "x@a.test/y")
            .with("to", "z@peer.test")
            .with("id", id.to_string())
            .child(text);
        let servers = &mut world.nodes[0].shards[usize::from(shard)];
        let mut effects = Vec::new();
        servers.handle_stanza(START, Box::new(message), &mut effects);
        let is_written = matches!(&effects[..], [Effect::Write { .. }]);
        let is_answered =
            matches!(&effects[..], [Effect::Deliver(answer)] if answer.attr("type") == Some("error"));
        assert!(if id < 20 { is_written } else { id < 23 || is_answered }, "{id}: {effects:?}");
    }
    let mut effects = Vec::new();
    let servers = &mut world.nodes[0].shards[usize::from(shard)];
    servers.handle_written(3, 3_000_000, &mut effects);
    let message = Element::new("message", ns::CLIENT).with("from", "x@a.test/y").with("to", "z@peer.test");
    servers.handle_stanza(START, Box::new(message), &mut effects);
    assert!(matches!(&effects[..], [Effect::Write { .. }]), "it has read: {effects:?}");
}

#[test]
fn a_reload_ends_streams_that_are_not_allowed_any_more() {
    let mut world = FederationWorld::new(11, &[&["a.test"], &["b.test"]]);
    world.message(0, "alice@a.test/x", "bob@b.test", "1");
    world.run();
    world.set(1, |settings| settings.policy.admission = Admission::Closed);
    world.run();
    assert_eq!(world.sum(1, |counts| counts.incoming + counts.outgoing), 0);
    world.message(0, "alice@a.test/x", "bob@b.test", "2");
    world.run();
    assert_eq!(world.got(1), ["1"]);
    assert_eq!(world.got(0), ["2 remote-server-not-found"]);
}

#[test]
fn the_queue_for_a_silent_server_has_a_bound() {
    let mut world = FederationWorld::new(12, &[&["a.test"]]);
    world.places.insert("silent.test".into(), LinkEnd::Silent);
    for id in 0..=crate::limits::S2S_QUEUE {
        world.message(0, "alice@a.test/x", "bob@silent.test", &id.to_string());
    }
    assert_eq!(world.got(0), ["1000 resource-constraint"]);
}

#[test]
fn a_node_that_ends_says_so() {
    let mut world = FederationWorld::new(13, &[&["a.test"], &["b.test"]]);
    world.message(0, "alice@a.test/x", "bob@b.test", "1");
    world.run();
    for shard in 0..SHARDS {
        world.tell(1, shard, |servers, now, out| servers.close_all(now, out));
    }
    world.run();
    assert_eq!(world.sum(0, |counts| counts.outgoing + counts.incoming), 0);
}

#[test]
fn a_stanza_that_is_larger_than_the_other_server_takes_is_answered_and_not_sent() {
    let large = || {
        let body = Element::new("body", ns::CLIENT).text("x".repeat(20_000));
        let message =
            Element::new("message", ns::CLIENT).with("from", "alice@a.test/x").with("to", "bob@b.test");
        message.with("id", "large").child(body)
    };
    let mut world = FederationWorld::new(8, &[&["a.test"], &["b.test"]]);
    world.set(1, |settings| settings.max_stanza = 10_000);
    world.say(0, large());
    world.message(0, "alice@a.test/x", "bob@b.test", "1");
    world.run();
    // XEP-0478 §4.
    assert_eq!(world.got(0), ["large policy-violation"]);
    world.message(0, "alice@a.test/x", "bob@b.test", "2");
    world.run();
    assert_eq!(
        (world.got(1), world.dialled),
        (vec!["1".to_owned(), "2".to_owned()], 2),
        "the stream goes on"
    );
}

/// RFC 6120 §4.9.3.23. A feature that is voluntary, or that is known here, ends nothing.
#[test]
fn a_required_feature_that_is_not_known_ends_the_stream() {
    let features = |inside: &str| format!("<stream:features>{inside}</stream:features>");
    let world = call(None, &features("<x xmlns='urn:x'><required/></x>"));
    assert_eq!(world.got(0), ["1 remote-server-not-found"]);
    let known = "<mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><required/></mechanisms>";
    for inside in ["<x xmlns='urn:x'/>", "<x xmlns='urn:x'><optional/></x>", known] {
        assert_eq!(call(None, &features(inside)).got(0).len(), 0, "{inside}");
    }
}
