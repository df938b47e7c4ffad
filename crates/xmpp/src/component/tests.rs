use proptest::prelude::*;

use super::*;

const HEADER: &str = "<?xml version='1.0'?><stream:stream xmlns='jabber:component:accept' \
    xmlns:stream='http://etherx.jabber.org/streams' to='echo.example.org'>";
/// `printf 3BF96D32hush | sha1sum`.
const PROOF: &str = "<handshake>3ca4ebcf5bfc32173bd880cb93abca93cee28925</handshake>";

fn settings() -> Arc<ComponentSettings> {
    let known = |domain: &str, secret: &str| ComponentCredentials {
        domain: domain.into(),
        secret: Secret(secret.into()),
    };
    let components = vec![known("echo.example.org", "hush"), known("other.example.org", "else")];
    Arc::new(ComponentSettings { components, max_stanza: 10_000 })
}

struct ComponentWorld {
    stream: Component,
    effects: Vec<Effect>,
}

impl ComponentWorld {
    fn new() -> ComponentWorld {
        ComponentWorld { stream: Component::new(settings(), "3BF96D32".into()), effects: Vec::new() }
    }

    /// The text written in response.
    fn tell(&mut self, act: impl FnOnce(&mut Component, &mut Outbox)) -> String {
        let mut out = Outbox::default();
        act(&mut self.stream, &mut out);
        self.effects = out.effects;
        String::from_utf8(out.bytes).unwrap()
    }

    fn say(&mut self, text: &str) -> String {
        self.tell(|stream, out| stream.handle_bytes(text.as_bytes(), out))
    }

    fn attached() -> ComponentWorld {
        let mut world = ComponentWorld::new();
        world.say(HEADER);
        world.say(PROOF);
        world.tell(|stream, out| stream.handle_attached(AttachOutcome::Here, out));
        world
    }

    /// The stanza that it was told to pass on.
    fn passed(&mut self, text: &str) -> Element {
        let written = self.say(text);
        let [Effect::Stanza(element)] = &self.effects[..] else {
            panic!("{text}: {:?}, {written}", self.effects)
        };
        element.clone()
    }
}

#[test]
fn a_component_says_its_name_proves_it_and_talks() {
    let mut world = ComponentWorld::new();
    let header = world.say(HEADER);
    assert!(header.contains("id='3BF96D32'") && header.contains("from='echo.example.org'"), "{header}");
    assert_eq!(world.say(PROOF), "", "not before it is attached");
    assert_eq!(world.effects, [Effect::Attach { domain: "echo.example.org".into() }]);
    // Its stanzas already wait for the answer.
    world.say("<message from='a@echo.example.org/b' to='alice@example.org'><body>hi</body></message>");
    assert_eq!(world.effects, []);
    let written = world.tell(|stream, out| stream.handle_attached(AttachOutcome::Here, out));
    assert_eq!(written, "<handshake/>");
    let [Effect::Stanza(message)] = &world.effects.clone()[..] else { panic!("{:?}", world.effects) };
    assert_eq!(stanza::kind_of(message), Some(stanza::StanzaKind::Message), "as a client's: {message}");
    assert_eq!(message.content_of("body", ns::CLIENT).as_deref(), Some("hi"));
    let written = world.tell(|stream, out| stream.write(message, out));
    assert_eq!(
        written,
        "<message from='a@echo.example.org/b' to='alice@example.org'><body>hi</body></message>"
    );
    assert_eq!(world.say("</stream:stream>"), "</stream:stream>");
    assert_eq!(world.effects, [Effect::Close]);
}

#[test]
fn a_stanza_too_large_for_its_receiver_is_answered_and_bombs_end_the_stream() {
    let mut world = ComponentWorld::attached();
    let data = "a&".repeat(2_000);
    let answer = world.say(&format!(
        "<message from='echo.example.org' to='alice@example.org' id='m'><body><![CDATA[{data}]]></body></message>"
    ));
    assert!(answer.contains("policy-violation") && answer.contains("id='m'"), "{answer}");
    assert_eq!(world.effects, []);
    let ns = "n".repeat(limits::NAMESPACE);
    let bomb = format!("<handshake xmlns:p='{ns}'>{}</handshake>", "<p:a/>".repeat(500));
    assert!(world.say(&bomb).contains("policy-violation"));
    let mut stranger = ComponentWorld::new();
    stranger.say(HEADER);
    assert!(stranger.say(&bomb).contains("policy-violation"));
}

#[test]
fn the_handshake_is_that_of_the_text() {
    // XEP-0114 §3's own example does not say its secret; this is `sha1sum` of id and secret.
    assert_eq!(handshake("3BF96D32", &Secret("hush".into())), "3ca4ebcf5bfc32173bd880cb93abca93cee28925");
}

#[test]
fn a_stream_of_no_component_is_refused_with_a_reason() {
    let with = |old: &str, new: &str| HEADER.replace(old, new);
    for (header, condition) in [
        (with("component:accept", "client"), "invalid-namespace"),
        (with("component:accept", "component:connect"), "invalid-namespace"),
        (with("http://etherx.jabber.org/streams", "else"), "invalid-namespace"),
        (with(" to='echo.example.org'", ""), "improper-addressing"),
        (with("echo.example.org", "nobody.example.org"), "host-unknown"),
        (with("echo.example.org", "a@echo.example.org"), "host-unknown"),
        (with("echo.example.org", "echo.example.org/b"), "host-unknown"),
        (with("echo.example.org", "@"), "host-unknown"),
        ("GET / HTTP/1.1".into(), "not-well-formed"),
        (format!("<!DOCTYPE a>{HEADER}"), "restricted-xml"),
    ] {
        let mut world = ComponentWorld::new();
        let answer = world.say(&header);
        assert!(answer.starts_with("<?xml version='1.0'?><stream:stream "), "{answer}");
        assert!(answer.contains(&format!("<{condition} xmlns=")), "{header}: {answer}");
        assert!(answer.ends_with("</stream:error></stream:stream>"), "{answer}");
        assert_eq!(world.effects, [Effect::Close]);
        assert_eq!(world.say(HEADER), "", "it is over");
    }
}

#[test]
fn a_wrong_secret_and_anything_but_a_handshake_are_not_authorized() {
    for said in [
        "<handshake/>".to_owned(),
        "<handshake>hush</handshake>".into(),
        PROOF.to_uppercase().replace("HANDSHAKE", "handshake"),
        format!("<handshake>{}</handshake>", handshake("3BF96D32", &Secret("else".into()))),
        format!("<handshake>{}</handshake>", handshake("3BF96D33", &Secret("hush".into()))),
    ] {
        let mut world = ComponentWorld::new();
        world.say(HEADER);
        let answer = world.say(&said);
        assert!(answer.contains("<not-authorized xmlns="), "{said}: {answer}");
        assert_eq!(world.effects, [Effect::Failed, Effect::Close], "it is counted");
    }
    for said in [
        "<message to='a@b'/>",
        "<handshake xmlns='jabber:client'>3ca4ebcf5bfc32173bd880cb93abca93cee28925</handshake>",
    ] {
        let mut world = ComponentWorld::new();
        world.say(HEADER);
        let answer = world.say(said);
        assert!(answer.contains("<not-authorized xmlns="), "{said}: {answer}");
        assert_eq!(world.effects, [Effect::Close]);
    }
}

#[test]
fn a_refused_component_is_told_why() {
    for (attached, condition) in
        [(AttachOutcome::Conflict, "<conflict"), (AttachOutcome::Barred, "<policy-violation")]
    {
        let mut world = ComponentWorld::new();
        world.say(HEADER);
        world.say(PROOF);
        let answer = world.tell(|stream, out| stream.handle_attached(attached, out));
        assert!(answer.contains(condition), "{answer}");
        assert_eq!(world.effects, [Effect::Close]);
    }
}

#[test]
fn it_speaks_for_its_domain_only() {
    for from in ["echo.example.org", "a@echo.example.org", "a@ECHO.example.org/b", "echo.example.org/b"] {
        let passed = ComponentWorld::attached().passed(&format!("<message from='{from}' to='x@y'/>"));
        let from = passed.attr("from").unwrap().to_owned();
        assert!(from.contains("echo.example.org"), "prepared: {from}");
    }
    let passed = ComponentWorld::attached().passed("<message to='x@y'/>");
    assert_eq!(passed.attr("from"), Some("echo.example.org"));
    for from in ["other.example.org", "example.org", "alice@example.org/desk", "a.echo.example.org", "@", ""]
    {
        let mut world = ComponentWorld::attached();
        let answer = world.say(&format!("<iq type='get' id='1' from='{from}' to='x@y'><a/></iq>"));
        assert!(answer.contains("<invalid-from xmlns="), "{from}: {answer}");
        assert_eq!(world.effects, [Effect::Close]);
    }
}

#[test]
fn a_stanza_without_a_valid_receiver_comes_back() {
    for (to, condition) in [("", "<bad-request"), (" to='@'", "<jid-malformed")] {
        let mut world = ComponentWorld::attached();
        let answer = world.say(&format!("<message{to} from='a@echo.example.org' id='1'/>"));
        let begin = "<message type='error' id='1' to='a@echo.example.org'>";
        assert!(answer.starts_with(begin) && answer.contains(condition), "{answer}");
        assert_eq!(world.say(&format!("<message{to} from='echo.example.org' type='error'/>")), "");
        assert_eq!(world.effects, []);
    }
}

#[test]
fn an_element_that_is_no_stanza_ends_the_stream() {
    for said in
        ["<handshake/>", "<message xmlns='jabber:server' to='a@b'/>", "<enable xmlns='urn:xmpp:sm:3'/>"]
    {
        let answer = ComponentWorld::attached().say(said);
        assert!(answer.contains("<unsupported-stanza-type xmlns="), "{said}: {answer}");
    }
}

#[test]
fn a_component_cannot_forge_internal_marks() {
    let passed = ComponentWorld::attached()
        .passed("<message xmlns:m='urn:belfry:handled' m:mark='1.1' to='a@b'><body>x</body></message>");
    assert!(!passed.to_string().contains("mark"), "{passed}");
}

#[test]
fn a_stanza_without_a_language_has_that_of_its_stream() {
    let mut world = ComponentWorld::new();
    world.say(&HEADER.replace("<stream:stream ", "<stream:stream xml:lang='de' "));
    world.say(PROOF);
    world.tell(|stream, out| stream.handle_attached(AttachOutcome::Here, out));
    assert_eq!(world.passed("<message to='a@b'><body>hallo</body></message>").lang(), Some("de"));
    assert_eq!(world.passed("<message xml:lang='en' to='a@b'/>").lang(), Some("en"));
}

#[test]
fn a_forwarded_stanza_is_written_unchanged() {
    let mut world = ComponentWorld::attached();
    let inner = "<forwarded xmlns='urn:xmpp:forward:0'><message xmlns='jabber:client' to='a@b'/></forwarded>";
    let passed = world.passed(&format!("<message from='echo.example.org' to='a@b'>{inner}</message>"));
    let written = world.tell(|stream, out| stream.write(&passed, out));
    assert!(written.contains(inner), "{written}");
}

#[test]
fn limits_before_and_after_the_handshake() {
    let mut world = ComponentWorld::new();
    let answer = world.say(&HEADER.replace("' to", &format!("' x='{}' to", "x".repeat(5_000))));
    assert!(answer.contains("<policy-violation"), "{answer}");
    let mut world = ComponentWorld::attached();
    world.passed(&format!("<message to='a@b'><body>{}</body></message>", "x".repeat(9_000)));
    let answer = world.say(&format!("<message to='a@b'><body>{}", "x".repeat(11_000)));
    assert!(answer.contains("<policy-violation"), "{answer}");
}

#[test]
fn a_sign_of_life_is_a_space_and_nothing_before_it_is_attached() {
    let keep_alive = |world: &mut ComponentWorld| world.tell(|stream, out| stream.keep_alive(out));
    assert_eq!(keep_alive(&mut ComponentWorld::new()), "");
    let mut world = ComponentWorld::attached();
    assert_eq!(keep_alive(&mut world), " ");
    assert_eq!(world.say("  \n"), "", "and its own is no error");
    assert!(world.stream.is_attached());
}

#[test]
fn no_secret_is_shown() {
    assert!(!format!("{:?}", ComponentWorld::attached().stream).contains("hush"));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..6)) {
        let mut world = ComponentWorld::attached();
        for piece in pieces {
            world.tell(|stream, out| stream.handle_bytes(&piece, out));
        }
    }
}

#[test]
fn stanzas_that_have_not_left_whole_are_found_in_the_bytes_of_the_stream() {
    let message = |id: &str| {
        let xml = format!(
            "<message to='echo.example.org' from='a@example.org' id='{id}'><body>&lt;hi</body></message>"
        );
        parse(xml.as_bytes(), &Prefixes::usual()).unwrap()
    };
    let stanzas = ["1", "2", "3"].map(message);
    let mut world = ComponentWorld::attached();
    let first = world.tell(|stream, out| stream.write(&stanzas[0], out)).len();
    let bytes = world.tell(|stream, out| {
        stanzas.iter().for_each(|stanza| stream.write(stanza, out));
        stream.keep_alive(out);
        stream.fail("resource-constraint", "not read", out);
    });
    for (sent, whole) in [(0, 0), (1, 0), (first - 1, 0), (first, 1), (2 * first + 5, 2), (bytes.len(), 3)] {
        assert_eq!(unsent(bytes.as_bytes(), sent), stanzas[whole..], "{sent} bytes");
    }
    assert_eq!(unsent(b"<handshake/>", 0), []);
    assert_eq!(unsent(b"", 0), []);
}
