//! RFC 6120 §8 and §10: the rules of stanzas that the host keeps. Streams are in `c2s/table` and `s2s/tests/table.rs`.

use super::*;

const QUESTION: &str = "<q xmlns='urn:x'/>";

#[test]
fn questions() {
    play(&[
        row("8.2.3", "an iq of type get or set MUST be answered: here by an error")
            .when("alice", iq("get", "example.org", QUESTION))
            .told(&["<iq ", "<service-unavailable"]),
        row("8.2.3", "by a result")
            .when("alice", iq("get", "example.org", "<ping xmlns='urn:xmpp:ping'/>"))
            .told(&["<iq ", "type='result'", "!<ping"]),
        row("8.2.3", "the answer MUST have the id")
            .when("alice", iq("set", "example.org", QUESTION))
            .told(&["id='q'"]),
        row("8.2.3", "an iq without an id: bad-request")
            .when("alice", "<iq type='get' to='example.org'><ping xmlns='urn:xmpp:ping'/></iq>")
            .told(&["type='error'", "<bad-request"]),
        row("8.2.3", "an iq of another type: bad-request")
            .when("alice", iq("what", "example.org", QUESTION))
            .told(&["type='error'", "<bad-request"]),
        row("8.2.3", "a question MUST have one child: none is bad-request")
            .when("alice", iq("get", "example.org", ""))
            .told(&["type='error'", "<bad-request"]),
        row("8.2.3", "two are bad-request")
            .when("alice", iq("get", "example.org", "<ping xmlns='urn:xmpp:ping'/><q xmlns='urn:x'/>"))
            .told(&["type='error'", "<bad-request"]),
        row("8.2.3", "a result MUST not be answered")
            .when("alice", iq("result", "example.org", ""))
            .told(&[]),
        row("8.2.3", "nor an error").when("alice", iq("error", "example.org", QUESTION)).told(&[]),
        row("8.2.3", "nor one for an account that is not there")
            .when("alice", iq("error", "ghost@example.org", QUESTION))
            .told(&[]),
        row("10.3.3", "a question without `to` is for the client's account, and answered from it")
            .when("alice", "<iq id='q' type='get'><ping xmlns='urn:xmpp:ping'/></iq>")
            .told(&["type='result'", "id='q'"]),
        row("7.1", "a second resource of one stream is not bound")
            .when("alice", "<iq id='q' type='set'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>")
            .told(&["type='error'", "!<jid>"]),
    ]);
}

#[test]
fn errors() {
    let message =
        |kind: &str, to: &str| format!("<message id='m' type='{kind}' to='{to}'><body>hi</body></message>");
    play(&[
        row("8.3.1", "an error has the type error, and goes where the stanza came from")
            .when("alice", message("chat", "example.org/x"))
            .told(&["<message ", "type='error'", "<error "]),
        row("8.3.1", "its id is that of the stanza")
            .when("alice", iq("get", "ghost@example.org", QUESTION))
            .told(&["type='error'", "id='q'"]),
        row("8.3.1", "its `from` is the address that was asked")
            .when("alice", iq("get", "ghost@example.org", QUESTION))
            .told(&["from='ghost@example.org'"]),
        row("8.3.1", "an error MUST not be answered by an error")
            .when("alice", message("error", "ghost@example.org"))
            .told(&[]),
        row("8.3.2", "an error has a type, and a condition of the namespace of stanza errors")
            .when("alice", iq("get", "example.org", QUESTION))
            .told(&[
                "<error type='cancel'>",
                "<service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'",
            ]),
        row("8.3.3.1", "bad-request, to be modified")
            .when("alice", iq("get", "example.org", ""))
            .told(&["<error type='modify'>", "<bad-request "]),
        row("8.3.3.4", "forbidden")
            .when("eve", iq("set", ALICE, "<vCard xmlns='vcard-temp'/>"))
            .told(&["<error type='auth'>", "<forbidden "]),
        row("8.3.3.7", "item-not-found")
            .when("alice", "<iq id='q' type='get'><vCard xmlns='vcard-temp'/></iq>")
            .told(&["<error type='cancel'>", "<item-not-found "]),
        row("8.3.3.8", "jid-malformed")
            .when("alice", iq("get", "@", QUESTION))
            .told(&["<error type='modify'>", "<jid-malformed "]),
        row("8.3.3.19", "service-unavailable: an account that is not there, as one that does not answer")
            .when("alice", iq("get", "ghost@example.org", QUESTION))
            .told(&["<error type='cancel'>", "<service-unavailable "]),
        row("8.3.3.5", "no address has moved: neither gone nor redirect (§8.3.3.14)")
            .when("alice", message("chat", "ghost@example.org"))
            .told(&["<service-unavailable ", "!<gone", "!<redirect"]),
        row("8.4", "a payload that the server does not know, in a question to it: service-unavailable")
            .when("alice", iq("get", "example.org", "<query xmlns='urn:unknown'/>"))
            .told(&["<service-unavailable "]),
    ]);
}

#[test]
fn elsewhere() {
    check_named(&[
        ("8.3.3.2", "conflict", "chat/src/tests/pubsub.rs::an_owner_makes_and_configures_nodes"),
        (
            "8.3.3.12",
            "policy-violation: a stanza that is too large when it is written again",
            "chat/src/tests/mod.rs::a_stanza_that_would_be_too_large_for_its_receiver_is_counted_and_refused",
        ),
        (
            "8.3.3.18",
            "resource-constraint: the record cannot be read now",
            "chat/src/tests/pubsub.rs::a_record_that_fails_is_told",
        ),
    ]);
}

/// §7.7.2.1.
#[test]
fn a_resource_that_cannot_be_one_is_a_bad_request() {
    let mut world = HostWorld::new(&[ALICE]);
    let request = BindRequest {
        user: Jid::parse(ALICE).unwrap(),
        is_anonymous: false,
        resource: Some("x".repeat(1_024).into()),
        tag: None,
        agent: None,
        is_bind2: false,
        can_move: false,
        inline: Vec::new(),
    };
    world.tell(|host, now, out| host.handle_bind(now, edge(1), &request, out));
    let Bound::Refused(error) = &world.bound[&1] else { panic!("{:?}", world.bound[&1]) };
    assert_eq!(
        (error.condition, world.host.accounts().session_count()),
        (xmpp::stanza::Condition::BadRequest, 0)
    );
}
