//! The stream of an external component (XEP-0114): a header, a handshake, and from then on stanzas both ways. Whatever is
//! at its domain, in local part and resource, is the component's own.
//!
//! The driver passes bytes in and performs what comes out; [`Component::handle_attached`] answers [`Effect::Attach`].
//! After [`Effect::Close`] nothing more comes.

use std::sync::Arc;

use sha1::{Digest, Sha1};

use crate::host::{Level, Specification, forget_mark};
use crate::sasl::Secret;
use crate::stanza::{self, Condition, StanzaError};
use crate::xml::{Budget, Frame, Framer, Measured, Prefixes, XmlError, parse_header, parse_within};
use crate::{Element, Jid, limits, ns};

pub const SPECIFICATIONS: &[Specification] = &[Specification {
    name: "XEP-0114",
    title: "Jabber Component Protocol",
    version: "1.6",
    level: Level::Complete,
    file: "crates/xmpp/src/component.rs",
    note: "several connections of one component share its stanzas by their senders",
}];

/// A component that may connect.
#[derive(Clone, Debug)]
pub struct Known {
    /// Prepared, as a [`Jid`] has it.
    pub domain: Box<str>,
    pub secret: Secret,
}

/// The same for all streams of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    pub components: Vec<Known>,
    pub max_stanza: usize,
}

impl Settings {
    pub fn is_component(&self, domain: &str) -> bool {
        self.find(domain).is_some()
    }

    fn find(&self, domain: &str) -> Option<&Known> {
        self.components.iter().find(|known| *known.domain == *domain)
    }
}

/// What a driver does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It has proved to be this component. Answered by `handle_attached`.
    Attach { domain: Box<str> },
    /// The secret was wrong.
    Failed,
    /// From an address of the component's.
    Stanza(Element),
    /// After the bytes that were written.
    Close,
}

/// Whether the component gets what is for its domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attached {
    Here,
    /// As many as may be are connected already.
    Conflict,
    /// Too many wrong secrets came from there: this one is not looked at either.
    Barred,
}

#[derive(Debug, Default)]
pub struct Outbox {
    pub bytes: Vec<u8>,
    pub effects: Vec<Effect>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// For its header.
    Opening,
    /// For its handshake.
    Proving,
    /// For `Attach` to be answered.
    Attaching,
    Attached,
    Closed,
}

/// A component's stream.
#[derive(Debug)]
pub struct Component {
    settings: Arc<Settings>,
    framer: Framer,
    prefixes: Prefixes,
    state: State,
    /// Once it has named one that may connect.
    domain: Box<str>,
    id: Box<str>,
    lang: Option<Box<str>>,
    has_opened: bool,
}

impl Component {
    /// `id` is unpredictable: it is what keeps a handshake from being used twice.
    pub fn new(settings: Arc<Settings>, id: Box<str>) -> Component {
        Component {
            settings,
            framer: Framer::new(),
            prefixes: Prefixes::default(),
            state: State::Opening,
            domain: Box::default(),
            id,
            lang: None,
            has_opened: false,
        }
    }

    pub fn domain(&self) -> &str {
        &self.domain
    }

    pub fn is_attached(&self) -> bool {
        self.state == State::Attached
    }

    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// What follows must not be read before an answer is here.
    pub fn is_waiting(&self) -> bool {
        matches!(self.state, State::Attaching | State::Closed)
    }

    /// Bytes that came.
    pub fn handle_bytes(&mut self, bytes: &[u8], out: &mut Outbox) {
        self.framer.put(bytes);
        self.go_on(out);
    }

    fn go_on(&mut self, out: &mut Outbox) {
        while !self.is_waiting() {
            let limit =
                if self.is_attached() { self.settings.max_stanza } else { limits::COMPONENT_HANDSHAKE };
            match self.framer.next(limit) {
                Ok(Some(frame)) => self.handle_frame(frame, out),
                Ok(None) => return,
                Err(error) => return self.xml_error(error, out),
            }
        }
    }

    fn handle_frame(&mut self, frame: Frame, out: &mut Outbox) {
        match frame {
            Frame::Header(range) => match parse_header(self.framer.bytes(range)) {
                Ok((header, prefixes)) => {
                    self.prefixes = prefixes;
                    self.open(&header, out);
                }
                Err(error) => self.xml_error(error, out),
            },
            Frame::Stanza(range) => {
                match parse_within(self.framer.bytes(range), &self.prefixes, self.budget()) {
                    Ok(measured) if self.state == State::Proving => self.prove(&measured.element, out),
                    Ok(Measured { element, written, .. }) => self.pass(element, written, out),
                    Err(error) => self.xml_error(error, out),
                }
            }
            // Its keep-alive.
            Frame::Whitespace => {}
            Frame::Close => self.close(out),
        }
    }

    /// XEP-0114 §3, steps 1 and 2. Its `to` is not our name but its own.
    fn open(&mut self, header: &Element, out: &mut Outbox) {
        if !header.is("stream", ns::STREAM) || self.prefixes.default_ns() != ns::COMPONENT {
            return self.fail("invalid-namespace", "expected jabber:component:accept", out);
        }
        let Some(to) = header.attr("to") else {
            return self.fail("improper-addressing", "expected to, the component's domain", out);
        };
        let domain = Jid::parse(to).ok().filter(|jid| jid.local().is_none() && jid.is_bare());
        let Some(known) = domain.and_then(|jid| self.settings.find(jid.domain()).cloned()) else {
            return self.fail("host-unknown", "no component of this name may connect", out);
        };
        self.domain = known.domain;
        self.lang = stanza::stream_lang(header);
        self.write_header(out);
        self.state = State::Proving;
    }

    /// XEP-0114 §3, steps 3 to 6.
    fn prove(&mut self, element: &Element, out: &mut Outbox) {
        if !element.is("handshake", ns::COMPONENT) {
            return self.fail("not-authorized", "expected the handshake", out);
        }
        let settings = Arc::clone(&self.settings);
        let Some(known) = settings.find(&self.domain) else {
            return self.fail("host-unknown", "no component of this name may connect", out);
        };
        let expected = handshake(&self.id, &known.secret);
        if stdx::ct_eq(expected.as_bytes(), element.content().trim().as_bytes()) {
            self.state = State::Attaching;
            out.effects.push(Effect::Attach { domain: self.domain.clone() });
        } else {
            out.effects.push(Effect::Failed);
            self.fail("not-authorized", "the secret is another", out);
        }
    }

    /// The answer to `Attach`.
    pub fn handle_attached(&mut self, attached: Attached, out: &mut Outbox) {
        if self.state != State::Attaching {
            return;
        }
        match attached {
            Attached::Here => {
                self.state = State::Attached;
                Element::new("handshake", ns::COMPONENT).write(ns::COMPONENT, &mut out.bytes);
                self.go_on(out);
            }
            Attached::Conflict => {
                self.fail("conflict", "as many connections of this component as may be are open", out);
            }
            Attached::Barred => {
                self.fail("policy-violation", "too many wrong secrets from this address: wait a minute", out);
            }
        }
    }

    fn budget(&self) -> Budget {
        if self.is_attached() { Budget::STANZA } else { Budget::BEFORE_AUTH }
    }

    /// XEP-0114 §3: addresses are the component's own word, but for the domain.
    fn pass(&mut self, mut element: Element, written: usize, out: &mut Outbox) {
        element.adopt(ns::COMPONENT, ns::CLIENT);
        forget_mark(&mut element);
        stanza::inherit_lang(&mut element, self.lang.as_deref());
        if stanza::kind_of(&element).is_none() {
            return self.fail("unsupported-stanza-type", "expected message, presence or iq", out);
        }
        match stanza::from(&element) {
            Ok(Some(from)) if *from.domain() == *self.domain => element.set("from", from.as_str()),
            // COMPAT(components written for Prosody, which fills it in): without one it is from the domain.
            Ok(None) => element.set("from", self.domain.clone()),
            _ => return self.fail("invalid-from", "expected an address of the component's domain", out),
        }
        let error = match stanza::to(&element) {
            Ok(Some(_)) if written > self.settings.max_stanza => {
                StanzaError::new(Condition::PolicyViolation, stanza::TOO_LARGE)
            }
            Ok(Some(_)) => return out.effects.push(Effect::Stanza(element)),
            Ok(None) => StanzaError::new(Condition::BadRequest, "a component's stanza needs a to"),
            Err(_) => {
                element.unset("to");
                Condition::JidMalformed.into()
            }
        };
        if stanza::may_be_refused(&element) {
            self.write(&stanza::refusal(&element, &error), out);
        }
    }

    /// For the component; only while it is attached.
    pub fn write(&self, stanza: &Element, out: &mut Outbox) {
        if self.is_attached() {
            // What is of `jabber:client` is of this stream's namespace here, as between servers.
            stanza.write(ns::CLIENT, &mut out.bytes);
        }
    }

    /// RFC 6120 §4.6.1: a space, so that a dead connection is found when nobody has anything to say.
    pub fn keep_alive(&self, out: &mut Outbox) {
        if self.is_attached() {
            out.bytes.push(b' ');
        }
    }

    fn write_header(&mut self, out: &mut Outbox) {
        self.has_opened = true;
        let from = if self.domain.is_empty() { String::new() } else { format!(" from='{}'", self.domain) };
        let header = format!(
            "<?xml version='1.0'?><stream:stream xmlns='{}' xmlns:stream='{}' id='{}'{from}>",
            ns::COMPONENT,
            ns::STREAM,
            self.id,
        );
        out.bytes.extend_from_slice(header.as_bytes());
    }

    /// Its last word, or ours: the stream ends in order.
    pub fn close(&mut self, out: &mut Outbox) {
        if self.is_closed() {
            return;
        }
        if self.has_opened {
            out.bytes.extend_from_slice(b"</stream:stream>");
        }
        self.state = State::Closed;
        out.effects.push(Effect::Close);
    }

    fn xml_error(&mut self, error: XmlError, out: &mut Outbox) {
        self.fail(error.condition(), &error.to_string(), out);
    }

    /// A stream error (RFC 6120 §4.9.3), and the end.
    pub fn fail(&mut self, condition: &'static str, text: &str, out: &mut Outbox) {
        if self.is_closed() {
            return;
        }
        if !self.has_opened {
            self.write_header(out);
        }
        let text = (!text.is_empty()).then(|| Element::new("text", ns::STREAM_ERRORS).text(text));
        out.bytes.extend_from_slice(b"<stream:error>");
        let condition = Element::new(condition, ns::STREAM_ERRORS);
        [condition].into_iter().chain(text).for_each(|child| child.write(ns::COMPONENT, &mut out.bytes));
        out.bytes.extend_from_slice(b"</stream:error>");
        self.close(out);
    }
}

/// XEP-0114 §3: the SHA-1 of the stream's id and the secret, in hexadecimal and lower case.
fn handshake(id: &str, secret: &Secret) -> String {
    stdx::hex::encode(&Sha1::new().chain_update(id).chain_update(secret.0.as_bytes()).finalize())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADER: &str = "<?xml version='1.0'?><stream:stream xmlns='jabber:component:accept' \
        xmlns:stream='http://etherx.jabber.org/streams' to='echo.example.org'>";
    /// `printf 3BF96D32hush | sha1sum`.
    const PROOF: &str = "<handshake>3ca4ebcf5bfc32173bd880cb93abca93cee28925</handshake>";

    fn settings() -> Arc<Settings> {
        let known =
            |domain: &str, secret: &str| Known { domain: domain.into(), secret: Secret(secret.into()) };
        let components = vec![known("echo.example.org", "hush"), known("other.example.org", "else")];
        Arc::new(Settings { components, max_stanza: 10_000 })
    }

    struct World {
        stream: Component,
        effects: Vec<Effect>,
    }

    impl World {
        fn new() -> World {
            World { stream: Component::new(settings(), "3BF96D32".into()), effects: Vec::new() }
        }

        /// What is written then.
        fn tell(&mut self, act: impl FnOnce(&mut Component, &mut Outbox)) -> String {
            let mut out = Outbox::default();
            act(&mut self.stream, &mut out);
            self.effects = out.effects;
            String::from_utf8(out.bytes).unwrap()
        }

        fn say(&mut self, text: &str) -> String {
            self.tell(|stream, out| stream.handle_bytes(text.as_bytes(), out))
        }

        fn attached() -> World {
            let mut world = World::new();
            world.say(HEADER);
            world.say(PROOF);
            world.tell(|stream, out| stream.handle_attached(Attached::Here, out));
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
        let mut world = World::new();
        let header = world.say(HEADER);
        assert!(header.contains("id='3BF96D32'") && header.contains("from='echo.example.org'"), "{header}");
        assert_eq!(world.say(PROOF), "", "not before it is attached");
        assert_eq!(world.effects, [Effect::Attach { domain: "echo.example.org".into() }]);
        // What it says already waits for the answer.
        world.say("<message from='a@echo.example.org/b' to='alice@example.org'><body>hi</body></message>");
        assert_eq!(world.effects, []);
        let written = world.tell(|stream, out| stream.handle_attached(Attached::Here, out));
        assert_eq!(written, "<handshake/>");
        let [Effect::Stanza(message)] = &world.effects.clone()[..] else { panic!("{:?}", world.effects) };
        assert_eq!(stanza::kind_of(message), Some(stanza::Kind::Message), "as a client's: {message}");
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
    fn what_would_be_too_large_for_its_receiver_is_answered_and_bombs_end_the_stream() {
        let mut world = World::attached();
        let data = "a&".repeat(2_000);
        let answer = world.say(&format!(
            "<message from='echo.example.org' to='alice@example.org' id='m'><body><![CDATA[{data}]]></body></message>"
        ));
        assert!(answer.contains("policy-violation") && answer.contains("id='m'"), "{answer}");
        assert_eq!(world.effects, []);
        let ns = "n".repeat(limits::NAMESPACE);
        let bomb = format!("<handshake xmlns:p='{ns}'>{}</handshake>", "<p:a/>".repeat(500));
        assert!(world.say(&bomb).contains("policy-violation"));
        let mut stranger = World::new();
        stranger.say(HEADER);
        assert!(stranger.say(&bomb).contains("policy-violation"));
    }

    #[test]
    fn the_handshake_is_that_of_the_text() {
        // XEP-0114 §3's own example does not say its secret; this is `sha1sum` of id and secret.
        assert_eq!(handshake("3BF96D32", &Secret("hush".into())), "3ca4ebcf5bfc32173bd880cb93abca93cee28925");
    }

    #[test]
    fn who_is_no_component_is_told_why() {
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
            let mut world = World::new();
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
            let mut world = World::new();
            world.say(HEADER);
            let answer = world.say(&said);
            assert!(answer.contains("<not-authorized xmlns="), "{said}: {answer}");
            assert_eq!(world.effects, [Effect::Failed, Effect::Close], "it is counted");
        }
        for said in [
            "<message to='a@b'/>",
            "<handshake xmlns='jabber:client'>3ca4ebcf5bfc32173bd880cb93abca93cee28925</handshake>",
        ] {
            let mut world = World::new();
            world.say(HEADER);
            let answer = world.say(said);
            assert!(answer.contains("<not-authorized xmlns="), "{said}: {answer}");
            assert_eq!(world.effects, [Effect::Close]);
        }
    }

    #[test]
    fn a_refused_component_is_told_why() {
        for (attached, condition) in
            [(Attached::Conflict, "<conflict"), (Attached::Barred, "<policy-violation")]
        {
            let mut world = World::new();
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
            let passed = World::attached().passed(&format!("<message from='{from}' to='x@y'/>"));
            let from = passed.attr("from").unwrap().to_owned();
            assert!(from.contains("echo.example.org"), "prepared: {from}");
        }
        let passed = World::attached().passed("<message to='x@y'/>");
        assert_eq!(passed.attr("from"), Some("echo.example.org"));
        for from in
            ["other.example.org", "example.org", "alice@example.org/desk", "a.echo.example.org", "@", ""]
        {
            let mut world = World::attached();
            let answer = world.say(&format!("<iq type='get' id='1' from='{from}' to='x@y'><a/></iq>"));
            assert!(answer.contains("<invalid-from xmlns="), "{from}: {answer}");
            assert_eq!(world.effects, [Effect::Close]);
        }
    }

    #[test]
    fn a_stanza_to_nobody_comes_back() {
        for (to, condition) in [("", "<bad-request"), (" to='@'", "<jid-malformed")] {
            let mut world = World::attached();
            let answer = world.say(&format!("<message{to} from='a@echo.example.org' id='1'/>"));
            let begin = "<message type='error' id='1' to='a@echo.example.org'>";
            assert!(answer.starts_with(begin) && answer.contains(condition), "{answer}");
            assert_eq!(world.say(&format!("<message{to} from='echo.example.org' type='error'/>")), "");
            assert_eq!(world.effects, []);
        }
    }

    #[test]
    fn what_is_no_stanza_ends_the_stream() {
        for said in
            ["<handshake/>", "<message xmlns='jabber:server' to='a@b'/>", "<enable xmlns='urn:xmpp:sm:3'/>"]
        {
            let answer = World::attached().say(said);
            assert!(answer.contains("<unsupported-stanza-type xmlns="), "{said}: {answer}");
        }
    }

    #[test]
    fn marks_of_ours_are_nobody_elses() {
        let passed = World::attached()
            .passed("<message xmlns:m='urn:belfry:handled' m:mark='1.1' to='a@b'><body>x</body></message>");
        assert!(!passed.to_string().contains("mark"), "{passed}");
    }

    #[test]
    fn a_stanza_without_a_language_has_that_of_its_stream() {
        let mut world = World::new();
        world.say(&HEADER.replace("<stream:stream ", "<stream:stream xml:lang='de' "));
        world.say(PROOF);
        world.tell(|stream, out| stream.handle_attached(Attached::Here, out));
        assert_eq!(world.passed("<message to='a@b'><body>hallo</body></message>").lang(), Some("de"));
        assert_eq!(world.passed("<message xml:lang='en' to='a@b'/>").lang(), Some("en"));
    }

    #[test]
    fn a_forwarded_stanza_stays_what_it_is() {
        let mut world = World::attached();
        let inner =
            "<forwarded xmlns='urn:xmpp:forward:0'><message xmlns='jabber:client' to='a@b'/></forwarded>";
        let passed = world.passed(&format!("<message from='echo.example.org' to='a@b'>{inner}</message>"));
        let written = world.tell(|stream, out| stream.write(&passed, out));
        assert!(written.contains(inner), "{written}");
    }

    #[test]
    fn limits_before_and_after_the_handshake() {
        let mut world = World::new();
        let answer = world.say(&HEADER.replace("' to", &format!("' x='{}' to", "x".repeat(5_000))));
        assert!(answer.contains("<policy-violation"), "{answer}");
        let mut world = World::attached();
        world.passed(&format!("<message to='a@b'><body>{}</body></message>", "x".repeat(9_000)));
        let answer = world.say(&format!("<message to='a@b'><body>{}", "x".repeat(11_000)));
        assert!(answer.contains("<policy-violation"), "{answer}");
    }

    #[test]
    fn a_sign_of_life_is_a_space_and_nothing_before_it_is_attached() {
        let keep_alive = |world: &mut World| world.tell(|stream, out| stream.keep_alive(out));
        assert_eq!(keep_alive(&mut World::new()), "");
        let mut world = World::attached();
        assert_eq!(keep_alive(&mut world), " ");
        assert_eq!(world.say("  \n"), "", "and its own is no error");
        assert!(world.stream.is_attached());
    }

    #[test]
    fn no_secret_is_shown() {
        assert!(!format!("{:?}", World::attached().stream).contains("hush"));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..6)) {
            let mut world = World::attached();
            for piece in pieces {
                world.tell(|stream, out| stream.handle_bytes(&piece, out));
            }
        }
    }
}
