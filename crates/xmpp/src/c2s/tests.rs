//! Ladders of whole streams.

use super::*;
use crate::sasl::{CredentialAnswer, CredentialQuery, Hash, Secret};

pub(super) fn settings() -> C2sSettings {
    C2sSettings {
        domains: vec!["example.org".into(), "other.org".into()],
        tls: true,
        tls_required: true,
        anonymous: false,
        registration: false,
        invitations: false,
        tokens: false,
        external: Arc::default(),
        openid_configurations: Arc::default(),
        max_stanza: limits::STANZA,
        idle_seconds: 1_800,
        secret: [1; 32],
        looks: sasl::UnknownAccounts::default(),
        caps: None,
    }
}

pub(super) fn secure() -> Security {
    let bindings = sasl::Bindings { tls_exporter: Some(b"exporter"[..].into()), ..Default::default() };
    Security { encrypted: true, bindings, certified: None }
}

pub(super) struct ClientStreamWorld {
    pub(super) stream: C2s,
    pub(super) effects: Vec<Effect>,
}

pub(super) const HEADER: &str = "<?xml version='1.0'?><stream:stream to='example.org' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>";

impl ClientStreamWorld {
    pub(super) fn new(settings: C2sSettings, security: Security) -> ClientStreamWorld {
        let stream = C2s::new(Arc::new(settings), Framing::Stream, security, 1, "nonce".into());
        ClientStreamWorld { stream, effects: Vec::new() }
    }

    /// Attempts to sign in that failed; none once the stream is bound.
    pub(super) fn failures(&self) -> u8 {
        self.stream.sign_in.as_ref().map_or(0, |sign_in| sign_in.failures())
    }

    /// The text written in response.
    pub(super) fn tell(&mut self, act: impl FnOnce(&mut C2s, &mut Outbox)) -> String {
        let mut out = Outbox::default();
        act(&mut self.stream, &mut out);
        self.effects = out.effects;
        String::from_utf8(out.bytes).unwrap()
    }

    pub(super) fn say(&mut self, text: &str) -> String {
        self.tell(|stream, out| stream.handle_bytes(text.as_bytes(), out))
    }

    pub(super) fn found(&mut self, known: CredentialAnswer) -> String {
        self.tell(|stream, out| stream.handle_found(known, out))
    }

    pub(super) fn bind(&mut self, jid: &str) -> String {
        let jid = Jid::parse(jid).unwrap();
        self.tell(|stream, out| stream.handle_bound(Bound::Session { jid, inline: Vec::new() }, out))
    }

    /// alice, by PLAIN, at her desk.
    pub(super) fn signed_in() -> ClientStreamWorld {
        let mut world = ClientStreamWorld::new(settings(), secure());
        world.say(HEADER);
        world.say(
            "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGFsaWNlAHNlY3JldA==</auth>",
        );
        world.found(CredentialAnswer::Password(true));
        world.say(HEADER);
        world.say("<iq type='set' id='1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><resource>desk</resource></bind></iq>");
        world.bind("alice@example.org/desk");
        world
    }
}

#[test]
fn an_error_after_tls_has_a_header_of_the_new_stream_before_it() {
    let mut world = ClientStreamWorld::new(settings(), Security::default());
    world.say(HEADER);
    world.say("<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>");
    world.tell(|stream, out| stream.handle_secured(secure(), out));
    let answer = world.tell(|stream, out| stream.fail("connection-timeout", out));
    assert!(answer.starts_with("<?xml version='1.0'?><stream:stream "), "{answer}");
    assert!(answer.ends_with("</stream:error></stream:stream>"), "{answer}");
}

#[test]
fn a_client_secures_its_stream_signs_in_and_binds() {
    let mut world = ClientStreamWorld::new(settings(), Security::default());
    let answer = world.say(HEADER);
    assert!(
        answer.contains("<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'><required/></starttls>"),
        "{answer}"
    );
    assert!(!answer.contains("mechanism"), "no sign-in without TLS: {answer}");
    assert!(answer.contains("<max-bytes>262144</max-bytes>"), "{answer}");
    assert_eq!(
        world.say("<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/><iq/>"),
        "<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>"
    );
    assert_eq!(world.effects, [Effect::StartTls]);
    world.tell(|stream, out| stream.handle_secured(secure(), out));
    let answer = world.say(HEADER);
    assert!(
        !answer.contains("starttls") && !answer.contains("ANONYMOUS") && !answer.contains("EXTERNAL"),
        "{answer}"
    );
    let first = answer.find("<mechanism>SCRAM-SHA-512-PLUS").unwrap();
    assert!(first < answer.find("<mechanism>PLAIN").unwrap());
    assert!(answer.contains("<channel-binding type='tls-exporter'/>"), "{answer}");
    world.say("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGFsaWNlAHNlY3JldA==</auth>");
    let find = CredentialQuery::Password { user: "alice".into(), password: Secret("secret".into()) };
    assert_eq!(world.effects, [Effect::Find { find, domain: "example.org".into() }]);
    assert_eq!(
        world.found(CredentialAnswer::Password(true)),
        "<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>"
    );
    let answer = world.say(HEADER);
    assert!(answer.contains("<bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/>"), "{answer}");
    world.say("<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>");
    assert!(
        matches!(&world.effects[..], [Effect::Bind(request)] if request.user.as_str() == "alice@example.org")
    );
    assert_eq!(
        world.bind("alice@example.org/x"),
        "<iq type='result' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><jid>alice@example.org/x</jid></bind></iq>"
    );
    world.say("<message to='bob@example.org'><body>hi</body></message>");
    let [Effect::Stanza(message)] = &world.effects[..] else { panic!("{:?}", world.effects) };
    assert_eq!(message.attr("from"), Some("alice@example.org/x"));
}

#[test]
fn elements_sent_ahead_wait_for_their_turn() {
    let mut world = ClientStreamWorld::new(settings(), secure());
    world.say(&format!("{HEADER}<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGFsaWNlAHNlY3JldA==</auth>{HEADER}"));
    assert!(matches!(world.effects[..], [Effect::Find { .. }]));
    let answer = world.found(CredentialAnswer::Password(true));
    assert!(answer.contains("success") && answer.contains("<bind "), "{answer}");
}

#[test]
fn the_server_announces_its_capabilities() {
    let caps = Element::new("c", ns::CAPS).with("hash", "sha-1").with("ver", "x");
    let settings = C2sSettings { caps: Some(caps), ..settings() };
    let expected = "<c xmlns='http://jabber.org/protocol/caps' hash='sha-1' ver='x'/>";
    let mut world = ClientStreamWorld::new(settings.clone(), secure());
    world.say(HEADER);
    world.say(
        "<authenticate xmlns='urn:xmpp:sasl:2' mechanism='PLAIN'><initial-response>AGFsaWNlAHNlY3JldA==</initial-response>\
         <bind xmlns='urn:xmpp:bind:0'/></authenticate>",
    );
    world.found(CredentialAnswer::Password(true));
    assert!(world.bind("alice@example.org/1").contains(expected));
    let mut world = ClientStreamWorld::new(settings, secure());
    world.say(&format!("{HEADER}<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGFsaWNlAHNlY3JldA==</auth>{HEADER}"));
    let answer = world.found(CredentialAnswer::Password(true));
    assert!(answer.contains(expected), "{answer}");
}

#[test]
fn sasl2_signs_in_and_binds_with_one_question() {
    let mut world = ClientStreamWorld::new(settings(), secure());
    assert!(world.say(HEADER).contains("<authentication xmlns='urn:xmpp:sasl:2'>"));
    world.say(
        "<authenticate xmlns='urn:xmpp:sasl:2' mechanism='PLAIN'><initial-response>AGFsaWNlAHNlY3JldA==</initial-response>\
         <bind xmlns='urn:xmpp:bind:0'><tag>phone</tag><enable xmlns='urn:xmpp:carbons:2'/></bind></authenticate>",
    );
    world.found(CredentialAnswer::Password(true));
    let [Effect::Bind(request)] = &world.effects[..] else { panic!("{:?}", world.effects) };
    assert_eq!((request.tag.as_deref(), request.inline.len()), (Some("phone"), 1));
    let answer = world.bind("alice@example.org/phone.1");
    assert_eq!(
        answer,
        "<success xmlns='urn:xmpp:sasl:2'><authorization-identifier>alice@example.org/phone.1</authorization-identifier>\
         <bound xmlns='urn:xmpp:bind:0'/></success><stream:features>\
         <ver xmlns='urn:xmpp:features:rosterver'/><sub xmlns='urn:xmpp:features:pre-approval'/>\
         <limits xmlns='urn:xmpp:stream-limits:0'><max-bytes>262144</max-bytes><idle-seconds>1800</idle-seconds></limits>\
         </stream:features>"
    );
    assert!(world.stream.is_bound());
}

/// RFC 6121 §2.6.1 and §3.4.1: announced during stream negotiation, however the client signs in.
#[test]
fn roster_versions_and_approvals_are_announced() {
    let expected = "<ver xmlns='urn:xmpp:features:rosterver'/><sub xmlns='urn:xmpp:features:pre-approval'/>";
    let mut world = ClientStreamWorld::new(settings(), secure());
    world.say(HEADER);
    world.say("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGFsaWNlAHNlY3JldA==</auth>");
    world.found(CredentialAnswer::Password(true));
    let answer = world.say(HEADER);
    assert!(answer.contains(expected), "{answer}");
    let mut world = ClientStreamWorld::new(settings(), secure());
    world.say(HEADER);
    world.say(
        "<authenticate xmlns='urn:xmpp:sasl:2' mechanism='PLAIN'><initial-response>AGFsaWNlAHNlY3JldA==</initial-response>\
         <bind xmlns='urn:xmpp:bind:0'/></authenticate>",
    );
    world.found(CredentialAnswer::Password(true));
    let answer = world.bind("alice@example.org/1");
    assert!(answer.contains(expected), "{answer}");
}

#[test]
fn an_alias_signs_in_as_its_account() {
    let mut world = ClientStreamWorld::new(settings(), secure());
    world.say(HEADER);
    world.say("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGFsaWNlAHNlY3JldA==</auth>");
    world.tell(|stream, out| stream.handle_found_as(CredentialAnswer::Password(true), "alice.smith", out));
    assert_eq!(world.stream.jid().map(Jid::as_str), Some("alice.smith@example.org"));
}

#[test]
fn a_guesser_has_five_tries() {
    let mut world = ClientStreamWorld::new(settings(), secure());
    world.say(HEADER);
    for turn in 1..=5 {
        world.say(
            "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGFsaWNlAHNlY3JldA==</auth>",
        );
        let answer = world.found(CredentialAnswer::Password(false));
        assert!(answer.contains("<not-authorized/>"), "{answer}");
        assert_eq!(answer.contains("policy-violation"), turn == 5, "{turn}: {answer}");
    }
    assert_eq!(world.effects, [Effect::Close]);
    assert_eq!(world.say("<auth/>"), "");
}

#[test]
fn a_password_that_could_not_be_checked_is_no_failed_attempt() {
    let mut world = ClientStreamWorld::new(settings(), secure());
    world.say(HEADER);
    for _ in 0..6 {
        world.say(
            "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGFsaWNlAHNlY3JldA==</auth>",
        );
        assert!(world.found(CredentialAnswer::Unavailable).contains("<temporary-auth-failure/>"));
    }
    assert_eq!((world.failures(), &world.effects[..]), (0, &[][..]));
}

#[test]
fn streams_that_cannot_be_are_told_why() {
    let case = |text: &str, condition: &str| {
        let mut world = ClientStreamWorld::new(settings(), secure());
        let answer = world.say(text);
        assert!(
            answer.contains(&format!("<{condition} xmlns='urn:ietf:params:xml:ns:xmpp-streams'")),
            "{answer}"
        );
        assert!(
            answer.starts_with("<?xml") && answer.ends_with("</stream:error></stream:stream>"),
            "{answer}"
        );
        assert_eq!(world.effects, [Effect::Close]);
    };
    case(&HEADER.replace("example.org", "nowhere.org"), "host-unknown");
    case(&HEADER.replace("version='1.0'>", ">"), "unsupported-version");
    case(&HEADER.replace("jabber:client", "jabber:server"), "invalid-namespace");
    case("<a><b/>", "invalid-namespace");
    case("GET / HTTP/1.1\r\n", "not-well-formed");
    case(&format!("{HEADER}<message/>"), "not-authorized");
    case(&format!("{HEADER}<!-- x -->"), "restricted-xml");
    case(&format!("{HEADER}<a>{}", "x".repeat(limits::STANZA_BEFORE_AUTH)), "policy-violation");
}

#[test]
fn a_client_cannot_send_in_the_name_of_another() {
    for (from, is_own) in [
        ("alice@example.org/desk", true),
        ("Alice@example.org", true),
        ("alice@example.org/phone", false),
        ("bob@example.org", false),
        ("@", false),
    ] {
        let mut world = ClientStreamWorld::signed_in();
        let answer = world.say(&format!("<message from='{from}' to='bob@example.org'/>"));
        assert_eq!(matches!(world.effects[..], [Effect::Stanza(_)]), is_own, "{from}");
        assert_eq!(answer.contains("invalid-from"), !is_own, "{answer}");
    }
}

#[test]
fn an_element_that_is_no_stanza_goes_to_its_feature_or_ends_the_stream() {
    let mut world = ClientStreamWorld::signed_in();
    world.say("<r xmlns='urn:xmpp:sm:3'/><inactive xmlns='urn:xmpp:csi:0'/>");
    assert!(matches!(&world.effects[..], [Effect::Nonza(r), Effect::Nonza(_)] if r.is("r", ns::SM)));
    assert!(world.say("<what xmlns='urn:x'/>").contains("unsupported-stanza-type"));
}

#[test]
fn a_session_is_taken_up_again() {
    let mut world = ClientStreamWorld::new(settings(), secure());
    world.say(HEADER);
    world.say("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGFsaWNlAHNlY3JldA==</auth>");
    world.found(CredentialAnswer::Password(true));
    world.say(HEADER);
    world.say("<resume xmlns='urn:xmpp:sm:3' previd='abc' h='7'/>");
    let user = Jid::parse("alice@example.org").unwrap();
    assert_eq!(world.effects, [Effect::Resume { user, id: "abc".into(), seen: 7 }]);
    let resumed = Element::new("resumed", ns::SM).with("previd", "abc");
    let jid = Jid::parse("alice@example.org/desk").unwrap();
    let answer = world.tell(|stream, out| stream.handle_bound(Bound::Resumed { jid, resumed }, out));
    assert_eq!(answer, "<resumed xmlns='urn:xmpp:sm:3' previd='abc'/>");
    assert!(world.stream.is_bound());
}

/// RFC 6120 §4.9.4: the application-specific condition stands behind the defined one, in its own namespace.
#[test]
fn a_stream_error_has_the_condition_of_an_extension() {
    let mut world = ClientStreamWorld::new(settings(), secure());
    world.say(HEADER);
    let detail = Element::new("handled-count-too-high", ns::SM).with("h", "10").with("send-count", "8");
    let condition = Element::new("undefined-condition", ns::STREAM_ERRORS);
    let answer = world.tell(|stream, out| stream.fail_with(condition, Some(detail), out));
    assert_eq!(
        answer,
        "<stream:error><undefined-condition xmlns='urn:ietf:params:xml:ns:xmpp-streams'/>\
         <handled-count-too-high xmlns='urn:xmpp:sm:3' h='10' send-count='8'/></stream:error></stream:stream>"
    );
    assert_eq!(world.effects, [Effect::Close]);
}

#[test]
fn over_websocket_each_message_is_a_document() {
    let mut stream = C2s::new(Arc::new(settings()), Framing::Messages, secure(), 1, "n".into());
    let mut out = Outbox::default();
    stream.handle_bytes(
        b"<open xmlns='urn:ietf:params:xml:ns:xmpp-framing' to='example.org' version='1.0'/>",
        &mut out,
    );
    let answer = String::from_utf8(std::mem::take(&mut out.bytes)).unwrap();
    assert!(answer.starts_with("<open xmlns='urn:ietf:params:xml:ns:xmpp-framing'"), "{answer}");
    assert!(answer.contains("<features xmlns='http://etherx.jabber.org/streams'>"), "{answer}");
    assert_eq!(out.ends.len(), 2, "each is a message of its own");
    assert!(answer[out.ends[0]..].starts_with("<features"), "{answer}");
    out.ends.clear();
    stream.handle_bytes(b"<close xmlns='urn:ietf:params:xml:ns:xmpp-framing'/>", &mut out);
    assert_eq!(out.bytes, b"<close xmlns='urn:ietf:params:xml:ns:xmpp-framing'/>");
    assert!(stream.was_closed());
}

/// RFC 6120 §4.4.
#[test]
fn a_stream_with_a_session_is_closed_once_the_session_has_ended() {
    let mut world = ClientStreamWorld::signed_in();
    assert_eq!(world.say("<presence type='unavailable'/></stream:stream><presence/>"), "");
    assert!(world.stream.was_closed() && !world.stream.is_closed() && world.stream.is_waiting());
    let [Effect::Stanza(unavailable), Effect::End] = &world.effects[..] else {
        panic!("{:?}", world.effects)
    };
    assert_eq!(unavailable.attr("type"), Some("unavailable"));
    let message = Element::new("message", ns::CLIENT).with("id", "1");
    assert_eq!(world.tell(|stream, out| stream.write(&message, out)), "<message id='1'/>");
    assert_eq!(world.tell(|stream, out| stream.close(out)), "</stream:stream>");
    assert!(world.stream.is_closed());
    assert_eq!(world.tell(|stream, out| stream.write(&message, out)), "");
}

#[test]
fn scram_goes_through_the_stream() {
    let mut world = ClientStreamWorld::new(settings(), secure());
    world.say(HEADER);
    let first = sasl::encode(b"n,,n=alice,r=abc");
    world.say(&format!(
        "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='SCRAM-SHA-256'>{first}</auth>"
    ));
    let find = CredentialQuery::Keys { user: "alice".into(), hash: Hash::Sha256 };
    assert_eq!(world.effects, [Effect::Find { find, domain: "example.org".into() }]);
    let challenge = world.found(CredentialAnswer::Keys(sasl::derive(Hash::Sha256, "secret", b"salt", 10)));
    assert!(challenge.starts_with("<challenge"), "{challenge}");
    assert!(world.say("<abort xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>").contains("<aborted/>"));
}

#[test]
fn a_proof_waits_for_the_word_that_the_client_may_try() {
    let mut world = ClientStreamWorld::new(settings(), secure());
    world.say(HEADER);
    let first = sasl::encode(b"n,,n=alice,r=abc");
    world.say(&format!(
        "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='SCRAM-SHA-256'>{first}</auth>"
    ));
    world.found(CredentialAnswer::Keys(sasl::derive(Hash::Sha256, "secret", b"salt", 10)));
    let proof = sasl::encode(b"c=biws,r=abc,p=AAAA");
    let answer = world.say(&format!("<response xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>{proof}</response>"));
    let find = CredentialQuery::Proof { user: "alice".into() };
    assert_eq!(
        (&*answer, &world.effects[..]),
        ("", &[Effect::Find { find, domain: "example.org".into() }][..])
    );
    assert!(world.found(CredentialAnswer::Unavailable).contains("<temporary-auth-failure/>"));
    assert_eq!(world.failures(), 0, "it was not looked at");
}

/// One long namespace, many elements in it: 72 KB that took 131 MB.
fn bomb(children: usize) -> String {
    let ns = "n".repeat(limits::NAMESPACE);
    format!("<message to='bob@example.org' xmlns:p='{ns}'>{}</message>", "<p:a/>".repeat(children))
}

#[test]
fn a_namespace_bomb_ends_the_stream_before_and_after_signing_in() {
    let mut stranger = ClientStreamWorld::new(settings(), secure());
    stranger.say(HEADER);
    assert!(stranger.say(&bomb(2_000)).contains("policy-violation"));
    let mut alice = ClientStreamWorld::signed_in();
    assert!(alice.say(&bomb(12_000)).contains("policy-violation"));
    // Long, but not in the middle of nothing else.
    let mut alice = ClientStreamWorld::signed_in();
    alice.say(&bomb(10));
    assert!(matches!(&alice.effects[..], [Effect::Stanza(_)]), "{:?}", alice.effects);
}

#[test]
fn a_language_that_is_none_is_not_said_back() {
    let mut world = ClientStreamWorld::new(settings(), secure());
    let header = HEADER.replace(" to=", &format!(" xml:lang='{}' to=", "x".repeat(10_000)));
    let answer = world.say(&header);
    assert!(answer.contains("xml:lang='en'") && answer.len() < 3_000, "{answer}");
}

/// The stanza that is passed on.
fn passed(world: &mut ClientStreamWorld, text: &str) -> Element {
    world.say(text);
    match &world.effects[..] {
        [Effect::Stanza(element)] => element.clone(),
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn marks_of_ours_come_off_stanzas_of_clients() {
    let text =
        "<message xmlns:m='urn:belfry:handled' m:mark='1.1' to='bob@example.org'><body>hi</body></message>";
    let passed = passed(&mut ClientStreamWorld::signed_in(), text);
    assert_eq!(passed.attributes().len(), 2, "to and from: {passed}");
    let mut world = ClientStreamWorld::signed_in();
    let answer = world.say("<handled xmlns='urn:belfry:handled' to='bob@example.org/x' mark='1.1'/>");
    assert!(answer.contains("unsupported-stanza-type"), "{answer}");
}

#[test]
fn a_stanza_without_a_language_has_that_of_its_stream() {
    let signed_in = |lang: &str| {
        let header = HEADER.replace(" version='1.0'>", &format!(" xml:lang='{lang}' version='1.0'>"));
        let mut world = ClientStreamWorld::new(settings(), secure());
        world.say(&header);
        world.say(
            "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGFsaWNlAHNlY3JldA==</auth>",
        );
        world.found(CredentialAnswer::Password(true));
        world.say(&header);
        world.say("<iq type='set' id='1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>");
        world.bind("alice@example.org/desk");
        world
    };
    let plain = "<message to='bob@example.org'><body>hallo</body></message>";
    assert_eq!(passed(&mut signed_in("de"), plain).lang(), Some("de"));
    assert_eq!(
        passed(&mut signed_in("de"), "<message xml:lang='en' to='b@example.org'/>").lang(),
        Some("en")
    );
    assert_eq!(passed(&mut ClientStreamWorld::signed_in(), plain).lang(), None);
    assert_eq!(passed(&mut signed_in(&"x".repeat(200)), plain).lang(), None, "it would be in each stanza");
}

/// XEP-0198 §3: "the client MUST NOT attempt to negotiate stream management until it is authenticated" and has a resource.
/// The stream goes on.
#[test]
fn stream_management_before_there_is_a_session_has_failed() {
    let failed = "<failed xmlns='urn:xmpp:sm:3'><unexpected-request xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>";
    let mut world = ClientStreamWorld::new(settings(), secure());
    world.say(HEADER);
    for early in ["<enable xmlns='urn:xmpp:sm:3'/>", "<resume xmlns='urn:xmpp:sm:3' previd='x' h='0'/>"] {
        assert_eq!(world.say(early), failed);
    }
    world.say("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGFsaWNlAHNlY3JldA==</auth>");
    assert!(world.found(CredentialAnswer::Password(true)).contains("<success"));
    world.say(HEADER);
    assert_eq!(world.say("<enable xmlns='urn:xmpp:sm:3' resume='true'/>"), failed);
    world.say("<iq type='set' id='1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>");
    assert!(world.bind("alice@example.org/desk").contains("<jid>"));
    assert!(!world.stream.is_closed());
}

#[test]
fn the_session_of_old_clients_is_a_stanza_as_any_other() {
    let text = "<iq type='set' id='s'><session xmlns='urn:ietf:params:xml:ns:xmpp-session'/></iq>";
    let passed = passed(&mut ClientStreamWorld::signed_in(), text);
    assert_eq!(passed.attr("id"), Some("s"), "it is for the host, which counts it");
}
