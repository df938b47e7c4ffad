//! RFC 6120 §4 and §11: streams and their errors.

use super::*;

#[test]
fn opening() {
    play(vec![
        row("4.2", "the server MUST answer the client's header by one of its own")
            .at(Stage::Encrypted)
            .sent(HEADER)
            .told(&[
                "<?xml version='1.0'?><stream:stream xmlns='jabber:client'",
                "xmlns:stream='http://etherx.jabber.org/streams'",
            ]),
        row("4.3.2", "features MUST follow the header of a stream of version 1.0")
            .at(Stage::Encrypted)
            .sent(HEADER)
            .told(&["version='1.0'", "><stream:features>", "</stream:features>"]),
        row("4.3.2", "a feature that MUST be negotiated says so")
            .at(Stage::Connected)
            .sent(HEADER)
            .told(&["<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'><required/></starttls>"]),
        row(
            "4.3.3",
            "after a restart the server MUST send a new header, and the features that there are then",
        )
        .at(Stage::Authenticated)
        .sent(HEADER)
        .told(&["<?xml", "<stream:stream ", "<stream:features>", "</stream:features>"]),
        row("4.3.3", "features negotiated on the stream before are not those of the new one")
            .test("xmpp/src/c2s/access_tests.rs::an_invitation_is_forgotten_when_the_stream_begins_anew"),
        row("4.6.3", "white space of the client keeps the connection open; the server sends none itself")
            .sent(" "),
        row("4.6.1", "white space between stanzas is no fault, and is not answered").sent(" \n\t "),
    ]);
}

#[test]
fn headers() {
    play(vec![
        row("4.7.1", "the server's header MUST have `from`, a domain that it serves")
            .at(Stage::Encrypted)
            .sent(HEADER.replace("to='example.org'", "to='other.org'"))
            .told(&["from='other.org'"]),
        row("4.7.2", "`to` is the bare address in the client's `from`")
            .at(Stage::Encrypted)
            .sent(HEADER.replace(" to=", " from='Alice@example.org/desk' to="))
            .told(&["from='example.org'", " to='alice@example.org'", "<stream:features>"]),
        row("4.7.2", "and is not there without a `from`")
            .at(Stage::Encrypted)
            .sent(HEADER)
            .told(&["from='example.org'", "! to="]),
        row("4.7.2", "nor when `from` is no address")
            .at(Stage::Encrypted)
            .sent(HEADER.replace(" to=", " from='a b@' to="))
            .told(&["from='example.org'", "! to="]),
        row("4.7.3", "the server's header MUST have an id, another one for each stream")
            .test("xmpp/src/c2s/table/streams.rs::each_header_has_another_id"),
        row("4.7.4", "the server's header MUST have `xml:lang`")
            .at(Stage::Encrypted)
            .sent(HEADER)
            .told(&["xml:lang='en'"]),
        row("4.7.4", "it is the client's language if the server knows it, else the server's")
            .at(Stage::Encrypted)
            .sent(HEADER.replace(" to=", " xml:lang='de' to="))
            .told(&["xml:lang='de'"]),
        row("4.7.4", "stanzas without a language have that of the stream")
            .test("xmpp/src/c2s/tests.rs::a_stanza_without_a_language_has_that_of_its_stream"),
        row("4.7.5", "the server's version is the lower one of both")
            .at(Stage::Encrypted)
            .sent(HEADER.replace("version='1.0'>", "version='2.0'>"))
            .told(&["version='1.0'", "!version='2.0'"]),
    ]);
}

#[test]
fn each_header_has_another_id() {
    let id = |answer: &str| answer.split(" id='").nth(1).unwrap().split('\'').next().unwrap().to_owned();
    let mut world = Stage::Encrypted.world();
    let first = id(&world.say(HEADER));
    world.say(&plain());
    world.found(CredentialAnswer::Password(true));
    let second = id(&world.say(HEADER));
    assert!(first != second && !first.is_empty() && !second.is_empty(), "{first} {second}");
}

#[test]
fn closing() {
    play(vec![
        row("4.4", "a closing tag MUST be answered by one")
            .sent("</stream:stream>")
            .told(&["</stream:stream>"])
            .closes(),
        row("4.4", "before a resource is bound too")
            .at(Stage::Open)
            .sent("</stream:stream>")
            .told(&["</stream:stream>"])
            .closes(),
        row("4.4", "stanzas before the closing tag are processed")
            .sent("<message to='b@example.org' id='m'/></stream:stream>")
            .told(&["</stream:stream>"])
            .passed(&["id='m'"])
            .closes(),
        row(
            "4.4",
            "a stream that the server closes is closed at once: it does not wait for the other closing tag",
        )
        .sent("<what xmlns='urn:x'/>")
        .told(&["</stream:error></stream:stream>"])
        .fails("unsupported-stanza-type"),
        row("4.4", "data on its way to the other side is sent before the closing tag")
            .test("xmpp/src/c2s/tests.rs::a_stream_with_a_session_is_closed_once_the_session_has_ended"),
        row("4.4", "data after the closing tag MUST be ignored")
            .sent("</stream:stream><message to='b@example.org'/>")
            .told(&["</stream:stream>"])
            .closes(),
    ]);
}

#[test]
fn namespaces() {
    play(vec![
        row("4.8.1", "a stream in another namespace: invalid-namespace")
            .at(Stage::Encrypted)
            .sent(HEADER.replace("http://etherx.jabber.org/streams", "http://wrong.example"))
            .fails("invalid-namespace"),
        row("4.8.2", "a content namespace that is not supported: invalid-namespace")
            .at(Stage::Encrypted)
            .sent(HEADER.replace("jabber:client", "jabber:server"))
            .fails("invalid-namespace"),
        row("4.8.5", "the content namespace may have a prefix; stanzas MUST then have it")
            .sent("<c:message xmlns:c='jabber:client' to='b@example.org' id='m'/>")
            .passed(&["<message", "id='m'"]),
        row("4.8.4", "other namespaces may be used in stanzas")
            .sent("<message to='b@example.org'><x xmlns='urn:x'><y/></x></message>")
            .passed(&["<x xmlns='urn:x'><y/></x>"]),
        row("4.8.5", "a prefix that was not declared: bad-namespace-prefix, or not-well-formed")
            .sent("<nope:message to='b@example.org'/>")
            .fails("bad-namespace-prefix"),
    ]);
}

#[test]
fn errors() {
    play(vec![
        row("4.9.1.1", "a stream error MUST end the stream")
            .sent("<what xmlns='urn:x'/>")
            .told(&["<stream:error>", "</stream:error></stream:stream>"])
            .fails("unsupported-stanza-type"),
        row("4.9.1.2", "an error while the stream is set up comes after the server's header")
            .at(Stage::Encrypted)
            .sent(HEADER.replace("example.org", "nowhere.org"))
            .told(&["<?xml", "<stream:stream ", "><stream:error>", "</stream:stream>"])
            .fails("host-unknown"),
        row("4.9.1.2", "so does one after SASL, when a new stream begins (§4.3.3)")
            .at(Stage::Authenticated)
            .sent(HEADER.replace("<stream:stream", "<stream:other"))
            .told(&["<?xml", "<stream:stream ", "><stream:error>", "</stream:stream>"])
            .fails("invalid-namespace"),
        row("4.9.1.2", "so does one after TLS (§5.4.3.3)")
            .test("xmpp/src/c2s/tests.rs::an_error_after_tls_has_a_header_of_the_new_stream_before_it"),
        row("4.9.1.3", "for a domain that is not served, `from` is a domain that is")
            .at(Stage::Encrypted)
            .sent(HEADER.replace("example.org", "nowhere.org"))
            .told(&["from='example.org'", "!nowhere"])
            .fails("host-unknown"),
        row("4.9.3.10", "invalid-namespace: another element where the header has to be")
            .at(Stage::Authenticated)
            .sent(HEADER.replace("<stream:stream", "<stream:other"))
            .fails("invalid-namespace"),
        row("4.9.3.3", "conflict: another session has the resource")
            .test("chat/src/tests/mod.rs::a_second_session_of_the_same_name_replaces_the_first"),
        row("4.9.3.4", "connection-timeout: a server that proves nothing")
            .test("xmpp/src/s2s/tests/bad.rs::a_stream_without_proof_is_closed_in_time"),
        row("4.9.3.5", "host-gone: the domain is served no more")
            .test("xmpp/src/s2s/tests/bad.rs::a_domain_that_is_served_no_more_is_gone"),
        row("4.9.3.6", "host-unknown")
            .at(Stage::Open)
            .after(Step::Bytes(plain()))
            .after(Step::Found(CredentialAnswer::Password(true)))
            .sent(HEADER.replace("example.org", "nowhere.org"))
            .fails("host-unknown"),
        row("4.9.3.8", "internal-server-error: the account's data cannot be read")
            .test("chat/src/tests/mod.rs::a_record_that_cannot_be_read_ends_its_sessions"),
        row("4.9.3.9", "invalid-from: a stanza from another address")
            .sent("<message from='bob@example.org' to='c@example.org'/>")
            .fails("invalid-from"),
    ]);
}

#[test]
fn conditions_from_not_authorized_on() {
    play(vec![
        row("4.9.3.11", "invalid-xml (§11.4): stanzas are not compared with schemas")
            .sent("<message to='b@example.org' id='m' type='odd' odd='1'><body>a</body><body>b</body></message>")
            .passed(&["id='m'", "<body>a</body><body>b</body>"]),
        row("4.9.3.15", "remote-connection-failed: a server that is not reached is told for its stanza, and the stream goes on")
            .test("xmpp/src/s2s/tests/ways.rs::a_server_that_is_nowhere_is_not_found_and_then_left_alone_for_a_while"),
        row("4.9.3.12", "not-authorized: a stanza before authentication")
            .at(Stage::Open)
            .sent("<message to='b@example.org'/>")
            .fails("not-authorized"),
        row("4.9.3.12", "not-authorized: another domain than the one that authenticated the client")
            .at(Stage::Authenticated)
            .sent(HEADER.replace("example.org", "other.org"))
            .fails("not-authorized"),
        row("4.9.3.13", "not-well-formed").sent("<message></presence>").fails("not-well-formed"),
        row("4.9.3.14", "policy-violation: too many failures")
            .test("xmpp/src/c2s/tests.rs::a_guesser_has_five_tries"),
        row("4.9.3.16", "reset: the account has another password")
            .test("chat/src/tests/register.rs::a_new_password_ends_the_other_sessions"),
        row("4.9.3.19", "see-other-host")
            .test("xmpp/src/c2s/access_tests.rs::a_client_is_sent_to_another_host"),
        row("4.9.3.21", "undefined-condition: more stanzas are acknowledged than were sent (XEP-0198 §4)")
            .test("chat/src/tests/sm.rs::a_client_that_acknowledges_more_than_was_sent_is_cut_off"),
        row("4.9.3.22", "unsupported-encoding")
            .at(Stage::Encrypted)
            .sent(HEADER.replace("version='1.0'?>", "version='1.0' encoding='ISO-8859-1'?>"))
            .fails("unsupported-encoding"),
        row("4.9.3.23", "unsupported-feature: another server requires a feature that is not known here")
            .test("xmpp/src/s2s/tests/ways.rs::a_required_feature_that_is_not_known_ends_the_stream"),
        row("4.9.3.24", "unsupported-stanza-type")
            .sent("<what xmlns='urn:x'/>")
            .fails("unsupported-stanza-type"),
        row("4.9.3.25", "unsupported-version: one before 1.0")
            .at(Stage::Encrypted)
            .sent(HEADER.replace(" version='1.0'>", " version='0.9'>"))
            .fails("unsupported-version"),
        row("4.9.3.25", "unsupported-version: no version")
            .at(Stage::Encrypted)
            .sent(HEADER.replace(" version='1.0'>", ">"))
            .fails("unsupported-version"),
    ]);
}

#[test]
fn restricted_xml() {
    let body = |inside: &str| format!("<message to='b@example.org'><body>{inside}</body></message>");
    play(vec![
        row("11.1", "a comment: restricted-xml").sent(body("<!-- x -->")).fails("restricted-xml"),
        row("11.1", "a processing instruction").sent(body("<?x y?>")).fails("restricted-xml"),
        row("11.1", "before the header too, where a declaration may be")
            .at(Stage::Encrypted)
            .sent("<?xml-stylesheet href='x'?>".to_owned() + HEADER)
            .fails("restricted-xml"),
        row("11.1", "a document type").at(Stage::Encrypted).sent("<!DOCTYPE x>").fails("restricted-xml"),
        row("11.1", "an entity other than those of XML").sent(body("&foo;")).fails("restricted-xml"),
        row("11.1", "entities of XML are text")
            .sent(body("&lt;&amp;&#x41;"))
            .passed(&["<body>&lt;&amp;A</body>"]),
        row("11.3", "XML not well-formed ends the stream").sent(body("</a><a>")).fails("not-well-formed"),
        row("11.5", "a declaration may have no encoding, and is not required")
            .at(Stage::Encrypted)
            .sent(HEADER.replace("<?xml version='1.0'?>", ""))
            .told(&["<stream:features>"]),
        row("11.6", "UTF-8 by name")
            .at(Stage::Encrypted)
            .sent(HEADER.replace("version='1.0'?>", "version='1.0' encoding='UTF-8'?>"))
            .told(&["<stream:features>"]),
    ]);
}
