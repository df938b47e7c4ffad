//! RFC 6120 requirement by requirement, at a stream that another server opened: a row has the section, its
//! demand, the text that evil.test sends and the answer. The streams of clients are in `c2s/table`.

use super::bad::{HEADER, TestCaller};
use super::*;
use crate::requirements::{self, has_in_order};

/// The state of a stream before the row begins.
#[derive(Clone, Copy)]
enum Stage {
    Connected,
    /// The header was answered, without TLS.
    Clear,
    Encrypted,
    /// With TLS, and the header was answered.
    Open,
    /// evil.test has proved its name by dialback.
    Proved,
}

/// One requirement.
struct Row {
    section: &'static str,
    demand: &'static str,
    stage: Stage,
    sent: String,
    told: &'static [&'static str],
    delivered: &'static [&'static str],
    error: Option<&'static str>,
    test: Option<&'static str>,
}

fn row(section: &'static str, demand: &'static str) -> Row {
    let (stage, sent) = (Stage::Proved, String::new());
    Row { section, demand, stage, sent, told: &[], delivered: &[], error: None, test: None }
}

impl Row {
    fn at(self, stage: Stage) -> Row {
        Row { stage, ..self }
    }

    fn sent(self, text: impl Into<String>) -> Row {
        Row { sent: text.into(), ..self }
    }

    /// Parts of the text written then, in this order; after `!` what is in none of it. Nothing at all:
    /// nothing is written.
    fn told(self, told: &'static [&'static str]) -> Row {
        Row { told, ..self }
    }

    /// Parts of the stanza that is delivered. Nothing at all: none is.
    fn delivered(self, delivered: &'static [&'static str]) -> Row {
        Row { delivered, ..self }
    }

    /// The stream ends, with that stream error.
    fn fails(self, condition: &'static str) -> Row {
        Row { error: Some(condition), ..self }
    }

    /// The requirement has a test of its own: `path::name`, below `crates/xmpp/src`.
    fn test(self, path: &'static str) -> Row {
        Row { test: Some(path), ..self }
    }

    /// The difference between the expected and the actual outcome, if there is one.
    fn play(&self) -> Option<String> {
        let wrong = match self.test {
            Some(path) => requirements::fault_of(path),
            None => self.exchange(),
        };
        wrong.map(|wrong| format!("§{} {}\n{wrong}\n", self.section, self.demand))
    }

    fn exchange(&self) -> Option<String> {
        let security = |encrypted| Security { encrypted, ..Security::default() };
        let mut caller = match self.stage {
            Stage::Connected | Stage::Clear => TestCaller::new(|_| (), security(false)),
            Stage::Encrypted => TestCaller::new(|_| (), security(true)),
            Stage::Open => TestCaller::secure(),
            Stage::Proved => TestCaller::proved(),
        };
        if matches!(self.stage, Stage::Clear) {
            caller.say(HEADER);
        }
        let told = caller.say(&self.sent);
        let delivered = caller.effects.iter().filter_map(|effect| match effect {
            Effect::Deliver(element) => Some(element.to_string()),
            _ => None,
        });
        let delivered = delivered.collect::<Vec<_>>().join("\n");
        let is_closed = caller.effects.iter().any(|effect| matches!(effect, Effect::Close { .. }));
        let is_right = match self.error {
            Some(condition) => {
                let error = format!("<stream:error><{condition} xmlns='{}'", ns::STREAM_ERRORS);
                is_closed && told.contains(&error) && told.ends_with("</stream:stream>")
            }
            None => is_closed == told.ends_with("</stream:stream>") && !told.contains("<stream:error>"),
        };
        let is_told = self.error.is_some() && self.told.is_empty() || has_in_order(&told, self.told);
        let is_right = is_right && is_told && has_in_order(&delivered, self.delivered);
        (!is_right).then(|| {
            let (expected, stanza) = (self.told, self.delivered);
            format!(
                "  told\n{told}\n  expected {expected:?}\n  delivered\n{delivered}\n  expected {stanza:?}"
            )
        })
    }
}

/// All rows of a part at once, so that a change shows all that it breaks.
fn play(rows: &[Row]) {
    let wrong: Vec<String> = rows.iter().filter_map(Row::play).collect();
    requirements::assert_none(&wrong, rows.len());
}

#[test]
fn streams() {
    play(&[
        row("4.2", "the server MUST answer a header by one of its own, and features")
            .at(Stage::Encrypted)
            .sent(HEADER)
            .told(&["<stream:stream xmlns='jabber:server'", "<stream:features>", "</stream:features>"]),
        row("4.4", "a closing tag MUST be answered by one")
            .sent("</stream:stream>")
            .told(&["</stream:stream>"]),
        row("4.7.1", "the server's header MUST have `from`")
            .at(Stage::Encrypted)
            .sent(HEADER)
            .told(&["from='a.test'"]),
        row("4.7.1", "of the domain that was asked for")
            .at(Stage::Encrypted)
            .sent(HEADER.replace("to='a.test'", "to='rooms.a.test'"))
            .told(&["from='rooms.a.test'"]),
        row("4.7.2", "`to` is the other server's `from`")
            .at(Stage::Encrypted)
            .sent(HEADER)
            .told(&["to='evil.test'"]),
        row("4.7.2", "and is not there without one")
            .at(Stage::Encrypted)
            .sent(HEADER.replace("from='evil.test' ", ""))
            .told(&["<stream:stream", "!evil.test"]),
        row("4.7.3", "the header MUST have an id").at(Stage::Encrypted).sent(HEADER).told(&[" id='"]),
        row("4.7.5", "and a version").at(Stage::Encrypted).sent(HEADER).told(&["version='1.0'"]),
        row("4.7.5", "the lower version of both")
            .at(Stage::Encrypted)
            .sent(HEADER.replace("version='1.0'>", "version='2.0'>"))
            .told(&["version='1.0'", "!version='2.0'"]),
    ]);
}

#[test]
fn stream_errors() {
    play(&[
        row("4.9.3.6", "host-unknown")
            .at(Stage::Encrypted)
            .sent(HEADER.replace("to='a.test'", "to='elsewhere.test'"))
            .fails("host-unknown"),
        row("4.9.3.7", "improper-addressing: no `to`")
            .at(Stage::Encrypted)
            .sent(HEADER.replace("to='a.test' ", ""))
            .fails("improper-addressing"),
        row("4.9.3.9", "invalid-from: the name of a domain that is served here")
            .at(Stage::Encrypted)
            .sent(HEADER.replace("evil.test", "rooms.a.test"))
            .fails("invalid-from"),
        row("4.9.3.10", "invalid-namespace")
            .at(Stage::Encrypted)
            .sent(HEADER.replace("'jabber:server'", "'jabber:client'"))
            .fails("invalid-namespace"),
        row("4.9.3.17", "resource-constraint: too many domains on one stream")
            .test("xmpp/src/s2s/tests/bad.rs::one_stream_cannot_ask_for_everything"),
        row("4.9.3.20", "system-shutdown").test("xmpp/src/s2s/tests/ways.rs::a_node_that_ends_says_so"),
        row("4.9.3.18", "restricted-xml: a comment").sent("<!-- x -->").fails("restricted-xml"),
        row("4.9.3.22", "unsupported-encoding")
            .at(Stage::Encrypted)
            .sent(HEADER.replace("version='1.0'?>", "version='1.0' encoding='ISO-8859-1'?>"))
            .fails("unsupported-encoding"),
        row("4.9.3.25", "unsupported-version")
            .at(Stage::Encrypted)
            .sent(HEADER.replace(" version='1.0'>", ">"))
            .fails("unsupported-version"),
        row("4.6", "a stream that was idle for long is closed")
            .test("xmpp/src/s2s/tests/ways.rs::idle_streams_are_closed_and_opened_again"),
    ]);
}

#[test]
fn tls_and_sasl() {
    let external = "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='EXTERNAL'>=</auth>";
    play(&[
        row("5.3.1", "the server that requires TLS MUST say so, and offers nothing else")
            .at(Stage::Connected)
            .sent(HEADER)
            .told(&[
                "<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'><required/>",
                "!<mechanism",
                "!urn:xmpp:features:dialback",
            ]),
        row("5.3.1", "and does nothing else before")
            .at(Stage::Clear)
            .sent(external)
            .fails("policy-violation"),
        row("5.4.2.2", "the failure case: `<failure/>`, and the stream ends")
            .at(Stage::Open)
            .sent("<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>")
            .told(&["<failure xmlns='urn:ietf:params:xml:ns:xmpp-tls'/></stream:stream>"]),
        row("5.4.2.3", "the proceed case")
            .at(Stage::Clear)
            .sent("<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>")
            .told(&["<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>"]),
        row("5.4.3.3", "then the stream begins anew, and what came in the clear is discarded")
            .test("xmpp/src/s2s/tests/bad.rs::in_the_clear_only_tls_can_be_begun"),
        row("6.3.2", "EXTERNAL is offered to the server that its certificate names, and not after success")
            .test("xmpp/src/s2s/tests/bad.rs::external_is_for_the_name_in_the_certificate"),
        row("6.5.5", "incorrect-encoding")
            .at(Stage::Open)
            .sent(external.replace("=<", "@@<"))
            .told(&["<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><incorrect-encoding/></failure>"]),
        row("6.5.7", "invalid-mechanism: PLAIN is for clients")
            .at(Stage::Open)
            .sent(external.replace("EXTERNAL", "PLAIN"))
            .told(&["<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><invalid-mechanism/></failure>"]),
        row("6.5.10", "not-authorized: without a certificate")
            .at(Stage::Open)
            .sent(external)
            .told(&["<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><not-authorized/></failure>"]),
        row("6.4.5", "the number of retries has a bound, as for clients")
            .test("xmpp/src/s2s/tests/bad.rs::a_stream_with_too_many_failed_proofs_is_closed"),
    ]);
}

#[test]
fn stanzas() {
    play(&[
        row("8.1.1.2", "a stanza without `to`: improper-addressing")
            .sent("<message from='x@evil.test'/>")
            .fails("improper-addressing"),
        row("8.1.2.2", "a stanza without `from`: improper-addressing")
            .sent("<message to='y@a.test'/>")
            .fails("improper-addressing"),
        row("8.1.2.2", "an address that is none: improper-addressing")
            .sent("<message from='@' to='y@a.test'/>")
            .fails("improper-addressing"),
        row("8.1.2.2", "`from` of a domain that was not proved: invalid-from")
            .sent("<message from='x@bank.test' to='y@a.test'/>")
            .fails("invalid-from"),
        row("8.1.1.2", "`to` of a domain for which the other server has proved nothing: not delivered")
            .sent("<message from='x@evil.test' to='y@rooms.a.test'/>")
            .fails("invalid-from"),
        row("8.1.2.2", "`from` and `to` MUST not be changed")
            .sent("<message from='x@evil.test/r' to='y@a.test/s' id='m'><body>hi</body></message>")
            .delivered(&["from='x@evil.test/r'", "to='y@a.test/s'", "id='m'", "hi"]),
        row("8.1.5", "a stanza without a language has that of its stream")
            .test("xmpp/src/s2s/tests/stanzas.rs::a_stanza_without_a_language_has_that_of_its_stream"),
        row("8.2", "another element than a stanza: unsupported-stanza-type")
            .sent("<other/>")
            .fails("unsupported-stanza-type"),
        row("8.2", "stanzas before the name is proved: not-authorized")
            .at(Stage::Open)
            .sent("<message from='x@evil.test' to='y@a.test'/>")
            .fails("not-authorized"),
        row("8.3.3.16", "remote-server-not-found: no name, or no answer")
            .test("xmpp/src/s2s/tests/ways.rs::a_server_that_is_nowhere_is_not_found_and_then_left_alone_for_a_while"),
        row("8.3.3.17", "remote-server-timeout: the other server does not answer in time")
            .test("xmpp/src/s2s/tests/ways.rs::a_server_that_is_silent_is_given_up_in_time"),
    ]);
}
