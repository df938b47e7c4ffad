//! RFC 6120 §6: SASL.

use super::*;

fn scram() -> String {
    auth("SCRAM-SHA-256", &encode(b"n,,n=alice,r=abc"))
}

fn keys() -> CredentialAnswer {
    CredentialAnswer::Keys(derive(Hash::Sha256, "secret", b"salt", 10))
}

#[test]
fn offering() {
    play(vec![
        row("6.3.3", "the server offers its mechanisms, the preferred ones first")
            .at(Stage::Encrypted)
            .sent(HEADER)
            .told(&[
                "<mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>SCRAM-SHA-512-PLUS",
                "<mechanism>SCRAM-SHA-1</mechanism>",
                "<mechanism>PLAIN</mechanism>",
            ]),
        row("6.3.4", "PLAIN is not offered without TLS")
            .at(Stage::Connected)
            .sent(HEADER)
            .told(&["<stream:features>", "!PLAIN"]),
        row("6.4.6", "after success mechanisms MUST NOT be offered")
            .at(Stage::Authenticated)
            .sent(HEADER)
            .told(&["<stream:features>", "!<mechanism"]),
        row("6.4.6", "and authentication is not possible")
            .at(Stage::Unbound)
            .sent(plain())
            .fails("not-authorized"),
    ]);
}

#[test]
fn exchanging() {
    play(vec![
        row("6.4.2", "an initial response may be empty, which is `=`: PLAIN needs more")
            .at(Stage::Open)
            .sent(auth("PLAIN", "="))
            .told(&["<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><malformed-request/></failure>"]),
        row("6.4.2", "a client that sends none gets an empty challenge")
            .at(Stage::Open)
            .sent(auth("PLAIN", ""))
            .told(&["<challenge xmlns='urn:ietf:params:xml:ns:xmpp-sasl'"]),
        row("6.4.3", "a challenge")
            .at(Stage::Open)
            .after(Step::Bytes(scram()))
            .when(Step::Found(keys()))
            .told(&["<challenge xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>", "</challenge>"]),
        row("6.4.4", "an abort MUST be answered by `<aborted/>`, and the stream goes on")
            .at(Stage::Open)
            .after(Step::Bytes(scram()))
            .after(Step::Found(keys()))
            .sent("<abort xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>")
            .told(&["<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><aborted/></failure>"]),
        row("6.4.5", "a failure says why")
            .at(Stage::Open)
            .after(Step::Bytes(plain()))
            .when(Step::Found(CredentialAnswer::Password(false)))
            .told(&["<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><not-authorized/></failure>"]),
        row("6.4.5", "and the client may try again")
            .at(Stage::Open)
            .after(Step::Bytes(plain()))
            .after(Step::Found(CredentialAnswer::Password(false)))
            .after(Step::Bytes(plain()))
            .when(Step::Found(CredentialAnswer::Password(true)))
            .told(&["<success"]),
        row("6.4.5", "two to five times, then the stream ends")
            .test("xmpp/src/c2s/tests.rs::a_guesser_has_five_tries"),
        row("6.4.6", "success, without features before the client's new header")
            .at(Stage::Open)
            .after(Step::Bytes(plain()))
            .when(Step::Found(CredentialAnswer::Password(true)))
            .told(&["<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>", "!<stream:"]),
        row("6.4.6", "the stream begins anew without a closing tag")
            .at(Stage::Authenticated)
            .sent(HEADER)
            .told(&["<stream:stream ", "!</stream:stream>"]),
    ]);
}

#[test]
fn failures() {
    let refused = |section, demand, sent: String| row(section, demand).at(Stage::Open).sent(sent);
    play(vec![
        refused("6.5.5", "incorrect-encoding: no base64", auth("PLAIN", "@@@"))
            .told(&["<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><incorrect-encoding/></failure>"]),
        refused(
            "6.5.6",
            "invalid-authzid: to act as another account",
            auth("PLAIN", &encode(b"bob@example.org\0alice\0secret")),
        )
        .told(&["<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><invalid-authzid/></failure>"]),
        refused("6.5.7", "invalid-mechanism: none that was offered", auth("DIGEST-MD5", "="))
            .told(&["<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><invalid-mechanism/></failure>"]),
        row("6.5.4", "encryption-required: without TLS no mechanism is offered, so each is invalid-mechanism")
            .at(Stage::Clear)
            .sent(plain())
            .told(&["<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><invalid-mechanism/></failure>"]),
        row("6.5.9", "mechanism-too-weak: a weak mechanism is not offered")
            .at(Stage::Encrypted)
            .sent(HEADER)
            .told(&["<mechanism>PLAIN</mechanism>", "!DIGEST-MD5", "!CRAM-MD5", "!LOGIN", "!ANONYMOUS"]),
        refused("6.5.9", "and is invalid-mechanism", auth("CRAM-MD5", "="))
            .told(&["<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><invalid-mechanism/></failure>"]),
        row("6.5.2", "account-disabled: answered as an account that is not there")
            .test("server/tests/live/xmpp/sign_in.rs::wrong_passwords_and_unknown_accounts_get_the_same_error_and_five_end_the_stream"),
        refused("6.5.7", "EXTERNAL without a certificate", auth("EXTERNAL", "="))
            .told(&["<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><invalid-mechanism/></failure>"]),
        refused("6.5.8", "malformed-request", auth("SCRAM-SHA-256", &encode(b"nonsense")))
            .told(&["<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><malformed-request/></failure>"]),
        row("6.5.10", "not-authorized: an unknown account is answered as a wrong password is")
            .at(Stage::Open)
            .after(Step::Bytes(plain()))
            .when(Step::Found(CredentialAnswer::NoAccount))
            .told(&["<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><not-authorized/></failure>"]),
        row("6.5.11", "temporary-auth-failure")
            .at(Stage::Open)
            .after(Step::Bytes(plain()))
            .when(Step::Found(CredentialAnswer::Unavailable))
            .told(&["<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><temporary-auth-failure/></failure>"]),
    ]);
}
