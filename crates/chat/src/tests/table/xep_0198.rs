//! XEP-0198: the stanzas of a session with stream management. Resumption (§5) is played in `sm.rs`, the part
//! before a session exists in `c2s/tests.rs`.

use super::*;

const ENABLE: &str = "<enable xmlns='urn:xmpp:sm:3'/>";
const ASK: &str = "<r xmlns='urn:xmpp:sm:3'/>";
const PING: &str = "<iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>";

#[test]
fn enabling() {
    play(&[
        row("3", "without resumption there is no id")
            .when("alice", ENABLE)
            .told(&["<enabled xmlns='urn:xmpp:sm:3'/>"]),
        row("3", "with it, the answer MUST have an id and says so, and for how long")
            .when("alice", "<enable xmlns='urn:xmpp:sm:3' resume='true'/>")
            .told(&["<enabled xmlns='urn:xmpp:sm:3' id='", "resume='true'", "max='300'"]),
        row("3", "1 is true")
            .when("alice", "<enable xmlns='urn:xmpp:sm:3' resume='1'/>")
            .told(&["resume='true'"]),
        row("3", "the client's preferred maximum is kept where it is less")
            .when("alice", "<enable xmlns='urn:xmpp:sm:3' resume='true' max='60'/>")
            .told(&["max='60'"]),
        row("3", "and not where it is more")
            .when("alice", "<enable xmlns='urn:xmpp:sm:3' resume='true' max='6000'/>")
            .told(&["max='300'"]),
        row("3", "a second enable is unexpected")
            .after("alice", ENABLE)
            .when("alice", ENABLE)
            .told(&["<failed xmlns='urn:xmpp:sm:3'>", "<unexpected-request"]),
        row("5", "nor is a session that there is resumed")
            .when("alice", "<resume xmlns='urn:xmpp:sm:3' previd='x' h='0'/>")
            .told(&["<failed xmlns='urn:xmpp:sm:3'>", "<unexpected-request"]),
    ]);
}

#[test]
fn acknowledging() {
    play(&[
        row("4", "a request MUST be answered by the count of stanzas, which begins with 0")
            .after("alice", ENABLE)
            .when("alice", ASK)
            .told(&["<a xmlns='urn:xmpp:sm:3' h='0'/>"]),
        row("4", "stanzas before enabling do not count, those after it do")
            .after("alice", PING)
            .after("alice", ENABLE)
            .after("alice", PING)
            .after("alice", "<presence/>")
            .when("alice", ASK)
            .told(&["h='2'"]),
        row("4", "its own elements do not")
            .after("alice", ENABLE)
            .after("alice", ASK)
            .after("alice", "<a xmlns='urn:xmpp:sm:3' h='0'/>")
            .when("alice", ASK)
            .told(&["h='0'"]),
        row("4", "a request without stream management is unexpected")
            .when("alice", ASK)
            .told(&["<failed xmlns='urn:xmpp:sm:3'>", "<unexpected-request"]),
        row("4", "an acknowledgement is not answered")
            .after("alice", ENABLE)
            .after("alice", PING)
            .when("alice", "<a xmlns='urn:xmpp:sm:3' h='1'/>")
            .told(&[]),
    ]);
}
