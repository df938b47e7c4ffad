//! RFC 6120 §5: STARTTLS.

use super::*;

const STARTTLS: &str = "<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>";

#[test]
fn negotiating() {
    play(vec![
        row("5.3.1", "the server that requires TLS MUST say so").at(Stage::Connected).sent(HEADER).told(&[
            "<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'><required/></starttls>",
            "!<mechanism>",
            "!<bind",
        ]),
        row("5.3.1", "and does nothing else before: no stanza")
            .at(Stage::Clear)
            .sent("<message to='b@example.org'/>")
            .fails("not-authorized"),
        row("5.3.1", "nor authentication")
            .at(Stage::Clear)
            .sent(plain())
            .told(&["<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><invalid-mechanism/></failure>"]),
        row("5.4.3.3", "over TLS it MUST NOT be offered again")
            .at(Stage::Encrypted)
            .sent(HEADER)
            .told(&["<stream:features>", "!<starttls"]),
        row("5.4.2.2", "the failure case: `<failure/>`, and the stream ends")
            .at(Stage::Open)
            .sent(STARTTLS)
            .told(&["<failure xmlns='urn:ietf:params:xml:ns:xmpp-tls'/></stream:stream>"])
            .closes(),
        row("5.4.2.3", "the proceed case, and nothing more in the clear")
            .at(Stage::Clear)
            .sent(STARTTLS)
            .told(&["<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>"])
            .passed(&["TLS"]),
        row("5.4.2.3", "stanzas sent before the handshake are not read")
            .at(Stage::Clear)
            .after(Step::Bytes(STARTTLS.into()))
            .sent("<message to='b@example.org'/>"),
        row("5.4.3.3", "then the stream begins anew, with other features")
            .test("xmpp/src/c2s/tests.rs::a_client_secures_its_stream_signs_in_and_binds"),
        row("5.4.3.3", "data learnt before TLS is discarded")
            .test("xmpp/src/c2s/access_tests.rs::an_invitation_before_tls_is_forgotten_with_it"),
    ]);
}
