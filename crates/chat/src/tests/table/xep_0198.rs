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
        row("3", "`location` (MAY): no other host is better to resume at")
            .when("alice", "<enable xmlns='urn:xmpp:sm:3' resume='true'/>")
            .told(&["<enabled xmlns='urn:xmpp:sm:3'", "!location"]),
        row("3", "1 is true")
            .when("alice", "<enable xmlns='urn:xmpp:sm:3' resume='1'/>")
            .told(&["resume='true'"]),
        row("3", "the client's preferred maximum is kept where it is less")
            .when("alice", "<enable xmlns='urn:xmpp:sm:3' resume='true' max='60'/>")
            .told(&["max='60'"]),
        row("3", "and not where it is more")
            .when("alice", "<enable xmlns='urn:xmpp:sm:3' resume='true' max='6000'/>")
            .told(&["max='300'"]),
        row("3", "a second enable is unexpected; the stream goes on")
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

/// §6: a party that is told of more stanzas than it sent SHOULD end the stream with `undefined-condition` and
/// `<handled-count-too-high/>`.
#[test]
fn a_count_that_is_too_high_ends_the_stream() {
    let mut world = stage();
    world.say(1, ENABLE);
    world.say(1, PING);
    world.say(1, "<a xmlns='urn:xmpp:sm:3' h='10'/>");
    assert_eq!(world.closed, [(1, "undefined-condition")]);
    assert_eq!(world.details, ["<handled-count-too-high xmlns='urn:xmpp:sm:3' h='10' send-count='1'/>"]);
}

/// §4: a party that closes a stream SHOULD send an `<a/>` first.
#[test]
fn the_last_acknowledgement_comes_before_the_end() {
    let mut world = stage();
    world.say(1, ENABLE);
    world.say(1, PING);
    let malformed = Element::new("a", ns::SM);
    let mut out = Outbox::new();
    world.host.handle_nonza(world.now, edge(1), &malformed, &mut out);
    let is_last = |effect: &Effect| matches!(effect, Effect::Deliver { element, .. } if element.name() == "a" && element.attr("h") == Some("1"));
    let acknowledged = out.iter().position(is_last);
    let closed =
        out.iter().position(|effect| matches!(effect, Effect::Close { condition: "bad-format", .. }));
    assert!(acknowledged.is_some() && acknowledged < closed, "{out:?}");
    // Without stream management there is none.
    let mut world = stage();
    let alice = world.sign_in("alice@example.org/desk");
    assert_eq!(world.closed, [(1, "conflict")]);
    assert!(!world.hear(1).concat().contains("<a "), "{alice}");
}
