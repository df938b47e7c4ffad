//! RFC 6120 §7: resource binding.

use super::*;
use crate::stanza::{Condition, StanzaError};

fn refused(condition: Condition) -> Step {
    Step::Bound(Bound::Refused(StanzaError::from(condition)))
}

#[test]
fn binding() {
    play(vec![
        row("7.4", "after authentication the server MUST offer it")
            .at(Stage::Authenticated)
            .sent(HEADER)
            .told(&["<bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/>"]),
        row("7.4", "and not before")
            .at(Stage::Encrypted)
            .sent(HEADER)
            .told(&["<stream:features>", "!urn:ietf:params:xml:ns:xmpp-bind"]),
        row("7.3.1", "a stanza before it is not processed")
            .at(Stage::Unbound)
            .sent("<message to='b@example.org'/>")
            .fails("not-authorized"),
        row("7.3.1", "nor is one before authentication")
            .at(Stage::Open)
            .sent(bind(""))
            .fails("not-authorized"),
        row("7.6", "the client asks for a resource of the server's")
            .at(Stage::Unbound)
            .sent(bind(""))
            .passed(&["alice@example.org", "resource: None"]),
        row("7.6.1", "the answer MUST have the full address, and the stream does not begin anew")
            .at(Stage::Unbound)
            .after(Step::Bytes(bind("")))
            .when(session("alice@example.org/x"))
            .told(&[
                "<iq type='result' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>",
                "<jid>alice@example.org/x</jid></bind></iq>",
                "!<stream:",
            ]),
        row(
            "7.6.2.1",
            "resource-constraint: the account has too many sessions, and the client may try again",
        )
        .at(Stage::Unbound)
        .after(Step::Bytes(bind("")))
        .when(refused(Condition::ResourceConstraint))
        .told(&["<iq type='error' id='b'", "<error type='wait'><resource-constraint"]),
        row("7.6.2.1", "with the bound of the host")
            .test("chat/src/tests/mod.rs::an_account_has_so_many_sessions"),
    ]);
}

#[test]
fn binding_a_resource_of_the_client() {
    play(vec![
        row("7.7.1", "the client asks for a resource of its own")
            .at(Stage::Unbound)
            .sent(bind("<resource>desk</resource>"))
            .passed(&["alice@example.org", "resource: Some(\"desk\")"]),
        row("7.7.2.1", "bad-request: the resource cannot be one")
            .at(Stage::Unbound)
            .after(Step::Bytes(bind("<resource>\u{7f}</resource>")))
            .when(refused(Condition::BadRequest))
            .told(&["<iq type='error' id='b'", "<error type='modify'><bad-request"]),
        row("7.7.2.1", "which the host decides")
            .test("chat/src/tests/table/rfc_6120.rs::a_resource_that_cannot_be_one_is_a_bad_request"),
        row("7.7.2.2", "conflict: the newer session has the resource")
            .test("chat/src/tests/mod.rs::a_second_session_of_the_same_name_replaces_the_first"),
        row("7.7.3", "after an error the client may try again")
            .at(Stage::Unbound)
            .after(Step::Bytes(bind("<resource>x</resource>")))
            .after(refused(Condition::BadRequest))
            .sent(bind(""))
            .passed(&["resource: None"]),
        row("10.1", "stanzas that the client sends before the answer wait for it")
            .at(Stage::Unbound)
            .after(Step::Bytes(bind("")))
            .sent("<presence/>"),
        row("10.1", "and is processed then")
            .at(Stage::Unbound)
            .after(Step::Bytes(bind("") + "<presence/>"))
            .when(session("alice@example.org/x"))
            .told(&["<iq type='result' id='b'>"])
            .passed(&["<presence", "from='alice@example.org/x'"]),
    ]);
}
