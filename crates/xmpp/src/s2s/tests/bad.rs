//! Violations by other servers and by peers that pretend to be one.

use super::*;

pub(super) const HEADER: &str = "<?xml version='1.0'?><stream:stream xmlns='jabber:server' xmlns:db='jabber:server:dialback' \
    xmlns:stream='http://etherx.jabber.org/streams' from='evil.test' to='a.test' version='1.0'>";

/// A peer on a stream that it opened.
pub(super) struct TestCaller {
    pub(super) servers: Servers,
    number: u64,
    pub(super) effects: Vec<Effect>,
}

impl TestCaller {
    pub(super) fn new(change: impl Fn(&mut S2sSettings), security: Security) -> TestCaller {
        let mut settings = settings(&["a.test", "rooms.a.test"], 1);
        change(&mut settings);
        let mut servers = Servers::new(Arc::new(settings), ShardAddress::default(), [3; 32]);
        let number = servers.accept(START, security);
        TestCaller { servers, number, effects: Vec::new() }
    }

    /// Encrypted, and the stream is open.
    pub(super) fn secure() -> TestCaller {
        let security = Security { encrypted: true, ..Security::default() };
        let mut caller = TestCaller::new(|_| (), security);
        caller.say(HEADER);
        caller
    }

    /// The text that the server returns.
    pub(super) fn say(&mut self, text: &str) -> String {
        let number = self.number;
        self.tell(|servers, out| servers.handle_bytes(START, number, text.as_bytes(), out))
    }

    pub(super) fn tell(&mut self, act: impl FnOnce(&mut Servers, &mut Vec<Effect>)) -> String {
        self.effects.clear();
        act(&mut self.servers, &mut self.effects);
        let written = self.effects.iter().filter_map(|effect| match effect {
            Effect::Write { bytes, .. } => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        });
        written.collect()
    }

    pub(super) fn verified(&mut self, verdict: Verdict) -> String {
        let asked = self.effects.iter().find_map(|effect| match effect {
            Effect::Send(ShardMessage::Verify { edge, question }) => Some((*edge, question.clone())),
            _ => None,
        });
        let (edge, question) = asked.expect("a question");
        let letter = ShardMessage::Verified { edge, question, verdict };
        self.tell(|servers, out| servers.handle_shard_message(START, letter, out))
    }

    /// evil.test, authenticated.
    pub(super) fn proved() -> TestCaller {
        TestCaller::proved_with(|_| ())
    }

    pub(super) fn proved_with(change: impl Fn(&mut S2sSettings)) -> TestCaller {
        let mut caller = TestCaller::new(change, Security { encrypted: true, ..Security::default() });
        caller.say(HEADER);
        caller.say("<db:result from='evil.test' to='a.test'>right</db:result>");
        assert!(caller.verified(Verdict::Valid).contains("type='valid'"));
        caller
    }

    #[track_caller]
    pub(super) fn ends_with(&mut self, text: &str, condition: &str) {
        let answer = self.say(text);
        assert!(
            answer.contains(&format!("<{condition} xmlns='urn:ietf:params:xml:ns:xmpp-streams'")),
            "{text}: {answer}"
        );
        assert!(answer.ends_with("</stream:stream>"), "{answer}");
        assert!(self.effects.contains(&Effect::Close { number: self.number }), "{:?}", self.effects);
        let delivers = |effect: &Effect| matches!(effect, Effect::Deliver(_));
        assert!(!self.effects.iter().any(delivers), "{:?}", self.effects);
    }
}

#[test]
fn wrong_headers_end_the_stream() {
    let header = |from: &str, to: &str| {
        format!(
            "<stream:stream xmlns='jabber:server' xmlns:stream='http://etherx.jabber.org/streams' {from} {to} version='1.0'>"
        )
    };
    for (text, condition) in [
        (header("", "to='elsewhere.test'"), "host-unknown"),
        (header("", ""), "improper-addressing"),
        (header("", "to='user@a.test'"), "improper-addressing"),
        (header("from='a b'", "to='a.test'"), "improper-addressing"),
        (HEADER.replace("jabber:server'", "jabber:client'"), "invalid-namespace"),
        (HEADER.replace("version='1.0'>", ">"), "unsupported-version"),
        (HEADER.replace("version='1.0'>", "version='0.9'>"), "unsupported-version"),
        ("<a/>".into(), "not-well-formed"),
        ("<!DOCTYPE x>".into(), "restricted-xml"),
        (format!("<{}", "x".repeat(20_000)), "policy-violation"),
    ] {
        TestCaller::new(|_| (), Security::default()).ends_with(&text, condition);
    }
}

#[test]
fn a_domain_that_is_blocked_is_told_at_once() {
    let block = |settings: &mut S2sSettings| settings.policy.block = Domains(vec!["evil.test".into()]);
    let mut caller = TestCaller::new(block, Security::default());
    caller.ends_with(HEADER, "policy-violation");
    assert_eq!(caller.servers.counts().refused, 1);
}

#[test]
fn in_the_clear_only_tls_can_be_begun() {
    for text in [
        "<db:result from='evil.test' to='a.test'>key</db:result>",
        "<db:verify from='evil.test' to='a.test' id='x'>key</db:verify>",
        "<message from='x@evil.test' to='y@a.test'/>",
        "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='EXTERNAL'>=</auth>",
    ] {
        let mut caller = TestCaller::new(|_| (), Security::default());
        let features = caller.say(HEADER);
        assert!(features.contains("<required/>") && !features.contains("features:dialback"), "{features}");
        caller.ends_with(text, "policy-violation");
    }
    let mut caller = TestCaller::new(|_| (), Security::default());
    caller.say(HEADER);
    assert!(
        caller.say("<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/><message/>").starts_with("<proceed")
    );
    let number = caller.number;
    let secured = Security { encrypted: true, ..Security::default() };
    let written = caller.tell(|servers, out| servers.handle_secured(START, number, secured, out));
    assert_eq!(written, "", "bytes received in the clear are forgotten");
    assert!(caller.say(HEADER).contains("features:dialback"));
    assert!(caller.say("<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>").contains("<failure"));
}

#[test]
fn a_wrong_key_ends_the_stream() {
    let mut caller = TestCaller::secure();
    assert_eq!(caller.say("<db:result from='evil.test' to='a.test'>wrong</db:result>"), "");
    let answer = caller.verified(Verdict::Invalid);
    assert!(
        answer.contains("<db:result from='a.test' to='evil.test' type='invalid'/></stream:stream>"),
        "{answer}"
    );
    assert_eq!(caller.servers.counts().refused, 1);
}

#[test]
fn a_domain_without_a_reachable_server_is_told_so_and_may_ask_again() {
    let mut caller = TestCaller::secure();
    caller.say("<db:result from='evil.test' to='a.test'>key</db:result>");
    let answer = caller.verified(Verdict::Error(Condition::RemoteServerNotFound));
    assert!(answer.contains("type='error'") && answer.contains("<remote-server-not-found"), "{answer}");
    caller.say("<db:result from='evil.test' to='a.test'>key</db:result>");
    assert!(caller.verified(Verdict::Valid).contains("type='valid'"));
}

#[test]
fn domains_that_are_not_ours_are_refused_by_name() {
    let mut caller = TestCaller::secure();
    let answer = caller.say("<db:result from='evil.test' to='elsewhere.test'>key</db:result>");
    assert!(answer.contains("from='elsewhere.test' to='evil.test' type='error'"), "{answer}");
    assert!(answer.contains("<item-not-found"), "{answer}");
    let answer = caller.say("<db:verify from='evil.test' to='elsewhere.test' id='x'>key</db:verify>");
    assert!(answer.contains("<item-not-found"), "{answer}");
}

#[test]
fn a_key_counts_only_on_the_stream_it_was_made_for() {
    // XEP-0220 §2.3: we are asked about keys of ours, right, replayed on another stream, and for another domain.
    let key = dialback::key(&[1; 32], "evil.test", "a.test", "their-id");
    let mut caller = TestCaller::secure();
    let mut ask = |from: &str, id: &str, key: &str| {
        caller.say(&format!("<db:verify from='{from}' to='a.test' id='{id}'>{key}</db:verify>"))
    };
    assert_eq!(
        ask("evil.test", "their-id", &key),
        "<db:verify from='a.test' to='evil.test' id='their-id' type='valid'/>"
    );
    assert!(ask("evil.test", "other-id", &key).contains("type='invalid'"));
    assert!(ask("other.test", "their-id", &key).contains("type='invalid'"));
    assert!(ask("evil.test", "their-id", "").contains("type='invalid'"));
}

#[test]
fn unrequested_dialback_answers_end_the_stream() {
    for text in [
        "<db:result from='evil.test' to='a.test' type='valid'/>",
        "<db:verify from='evil.test' to='a.test' id='1' type='valid'/>",
    ] {
        TestCaller::secure().ends_with(text, "invalid-from");
    }
}

#[test]
fn stanzas_of_domains_that_were_not_proved_end_the_stream() {
    TestCaller::secure().ends_with("<message from='x@evil.test' to='y@a.test'/>", "not-authorized");
    for (text, condition) in [
        ("<message from='x@bank.test' to='y@a.test'/>", "invalid-from"),
        ("<message from='x@evil.test' to='y@rooms.a.test'/>", "invalid-from"),
        ("<message from='x@evil.test'/>", "improper-addressing"),
        ("<message to='y@a.test'/>", "improper-addressing"),
        ("<message from='@' to='y@a.test'/>", "improper-addressing"),
        ("<presence xmlns='jabber:client' from='x@bank.test' to='y@a.test'/>", "invalid-from"),
        ("<something xmlns='else'/>", "unsupported-stanza-type"),
        ("<message from='x@evil.test' to='y@a.test'>\u{0}</message>", "not-well-formed"),
    ] {
        TestCaller::proved().ends_with(text, condition);
    }
    let mut caller = TestCaller::proved();
    caller.say("<message from='x@evil.test' to='y@a.test'><body>hi</body></message>");
    assert!(matches!(&caller.effects[..], [Effect::Deliver(_)]), "{:?}", caller.effects);
    let long = format!("<message from='x@evil.test' to='y@a.test'>{}", "x".repeat(300_000));
    caller.ends_with(&long, "policy-violation");
}

#[test]
fn a_stream_without_proof_is_closed_in_time() {
    for text in ["", HEADER] {
        let mut caller = TestCaller::new(|_| (), Security { encrypted: true, ..Security::default() });
        caller.say(text);
        let at = caller.servers.deadline().unwrap();
        assert_eq!(at, START + Duration::from_secs(30));
        let answer = caller.tell(|servers, out| servers.expire(at, out));
        assert!(answer.contains("<connection-timeout"), "{answer}");
        assert_eq!(caller.servers.counts().incoming, 0);
    }
}

#[test]
fn one_stream_cannot_ask_for_everything() {
    let mut caller = TestCaller::secure();
    for number in 0..crate::limits::S2S_ASKED_OF_STREAM {
        assert_eq!(caller.say(&format!("<db:result from='d{number}.test' to='a.test'>k</db:result>")), "");
    }
    let answer = caller.say("<db:result from='more.test' to='a.test'>k</db:result>");
    assert!(answer.contains("<resource-constraint"), "{answer}");
    assert_eq!(caller.say("<db:result from='d0.test' to='a.test'>k</db:result>"), "", "once is enough");
}

#[test]
fn a_stream_with_too_many_failed_proofs_is_closed() {
    let mut caller = TestCaller::secure();
    for number in 1..=crate::limits::S2S_REFUSED_OF_STREAM {
        caller.say(&format!("<db:result from='d{number}.test' to='a.test'>k</db:result>"));
        let answer = caller.verified(Verdict::Error(Condition::RemoteServerNotFound));
        let is_over = answer.contains("<policy-violation");
        assert_eq!(is_over, number == crate::limits::S2S_REFUSED_OF_STREAM, "{number}: {answer}");
    }
}

#[test]
fn a_domain_that_is_served_no_more_is_gone() {
    let mut caller = TestCaller::proved();
    let settings = Arc::new(settings(&["rooms.a.test"], 1));
    let answer = caller.tell(|servers, out| servers.reload(START, &settings, out));
    assert!(answer.contains("<host-gone"), "{answer}");
}

#[test]
fn external_is_for_the_name_in_the_certificate() {
    let auth = |name: &str| {
        let name = crate::sasl::encode(name.as_bytes());
        format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='EXTERNAL'>{name}</auth>")
    };
    let certified = |name: &str| {
        let certificate = Some(Certificate::of_dns(name));
        let mut caller = TestCaller::new(|_| (), Security { encrypted: true, certificate, presented: None });
        let features = caller.say(HEADER);
        (caller, features)
    };
    let (mut caller, features) = certified("evil.test");
    assert!(features.contains("EXTERNAL"), "{features}");
    assert!(caller.say(&auth("bank.test")).contains("<not-authorized"), "not for others");
    assert!(caller.say(&auth("evil.test")).contains("<success"));
    let features = caller.say(HEADER);
    assert!(!features.contains("EXTERNAL"), "{features}");
    caller.say("<message from='x@evil.test' to='y@rooms.a.test'/>");
    assert!(matches!(&caller.effects[..], [Effect::Deliver(_)]), "to any domain of ours");
    let (_, features) = certified("other.test");
    assert!(!features.contains("EXTERNAL"), "{features}");
    let (mut caller, _) = certified("evil.test");
    caller.say(&auth(""));
    caller.ends_with(&HEADER.replace("evil.test", "bank.test"), "invalid-from");
}

#[test]
fn a_server_that_talks_back_without_being_asked_is_closed() {
    let open = |answer: &str| {
        let mut world = FederationWorld::new(1, &[&["a.test"]]);
        world.places.insert("evil.test".into(), LinkEnd::Silent);
        world.set(0, |settings| settings.policy.require_tls = false);
        world.message(0, "x@a.test/y", "z@evil.test", "1");
        let shard = owner("evil.test");
        let number = 3;
        let security = Security::default();
        world.tell(0, shard, |servers, now, out| servers.handle_connected(now, number, security, None, out));
        let text = format!(
            "<stream:stream xmlns='jabber:server' xmlns:db='jabber:server:dialback' id='i' \
             xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>{answer}"
        );
        world.tell(0, shard, |servers, now, out| servers.handle_bytes(now, number, text.as_bytes(), out));
        world.got(0)
    };
    let features = "<stream:features><dialback xmlns='urn:xmpp:features:dialback'/></stream:features>";
    for rest in [
        "<message from='z@evil.test' to='x@a.test' id='forged'/>".to_owned(),
        format!("{features}<message from='z@evil.test' to='x@a.test' id='forged'/>"),
        format!("{features}<db:result from='evil.test' to='a.test' type='invalid'/>"),
        format!("{features}<db:result from='evil.test' to='a.test' type='error'/>"),
        "<stream:error><host-unknown xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error>".to_owned(),
        format!("{features}<db:result from='bank.test' to='a.test' type='valid'/><x/>"),
    ] {
        let got = open(&rest);
        // A stream that was fine before is tried once more, and then the place is silent.
        assert!(got.is_empty() || got == ["1 remote-server-not-found"], "{rest}: {got:?}");
    }
    assert_eq!(
        open("<stream:error><host-unknown xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error>"),
        ["1 remote-server-not-found"]
    );
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
        let mut caller = TestCaller::secure();
        let number = caller.number;
        caller.tell(|servers, out| servers.handle_bytes(START, number, &bytes, out));
    }
}

/// One long namespace, many elements in it.
fn bomb(name: &str, attributes: &str) -> String {
    let ns = "n".repeat(limits::NAMESPACE);
    format!("<{name} {attributes} xmlns:p='{ns}'>{}</{name}>", "<p:a/>".repeat(2_000))
}

#[test]
fn a_namespace_bomb_ends_the_stream_before_and_after_a_domain_is_proved() {
    TestCaller::secure().ends_with(&bomb("db:result", "from='evil.test' to='a.test'"), "policy-violation");
    TestCaller::proved().ends_with(&bomb("message", "from='x@evil.test' to='y@a.test'"), "policy-violation");
}

#[test]
fn a_stanza_is_small_until_a_domain_is_proved() {
    let text = format!("<db:result from='evil.test' to='a.test'>{}</db:result>", "x".repeat(16 << 10));
    TestCaller::secure().ends_with(&text, "policy-violation");
}

#[test]
fn a_stanza_that_would_be_too_large_for_its_receiver_is_answered_and_the_stream_goes_on() {
    let mut caller = TestCaller::proved();
    let data = "a&".repeat(50_000);
    let text =
        format!("<message from='x@evil.test' to='y@a.test' id='m'><body><![CDATA[{data}]]></body></message>");
    assert_eq!(caller.say(&text), "");
    let [Effect::Send(ShardMessage::Outbound { element })] = &caller.effects[..] else {
        panic!("{:?}", caller.effects)
    };
    assert!(
        element.to_string().contains("policy-violation") && element.attr("to") == Some("x@evil.test"),
        "{element}"
    );
    caller.say("<message from='x@evil.test' to='y@a.test'><body>hi</body></message>");
    assert!(matches!(&caller.effects[..], [Effect::Deliver(_)]), "{:?}", caller.effects);
}

#[test]
fn a_bidirectional_peer_gets_no_stanza_larger_than_its_limit() {
    let mut caller = TestCaller::secure();
    caller.say("<bidi xmlns='urn:xmpp:bidi'><limits xmlns='urn:xmpp:stream-limits:0'><max-bytes>12000</max-bytes></limits></bidi>");
    caller.say("<db:result from='evil.test' to='a.test'>right</db:result>");
    caller.verified(Verdict::Valid);
    for (size, is_written) in [(11_000, true), (13_000, false)] {
        let edge = ConnectionId { shard: ShardAddress::default(), connection: caller.number };
        let element = Element::new("message", ns::CLIENT).with("from", "y@a.test").with("to", "x@evil.test");
        let element = Box::new(element.child(Element::new("body", ns::CLIENT).text("x".repeat(size))));
        let written = caller.tell(|servers, out| {
            servers.handle_shard_message(START, ShardMessage::Over { edge, element, receipt: None }, out);
        });
        assert_eq!(!written.is_empty(), is_written, "{size}");
        let is_answered = caller.effects.iter().any(|effect| {
            matches!(effect, Effect::Deliver(answer) if answer.to_string().contains("policy-violation"))
        });
        assert_eq!(is_answered, !is_written, "{:?}", caller.effects);
    }
}
