//! XEP-0054: vCards of accounts.

use super::*;

fn vcard(kind: &str, to: &str, inside: &str) -> String {
    let to = if to.is_empty() { String::new() } else { format!(" to='{to}'") };
    format!("<iq id='q' type='{kind}'{to}><vCard xmlns='vcard-temp'>{inside}</vCard></iq>")
}

const NAME: &str = "<FN>Alice</FN>";

#[test]
fn ones_own() {
    play(&[
        row("3.1", "without a vCard an error, which SHOULD be item-not-found, or an empty vCard")
            .when("alice", vcard("get", "", ""))
            .told(&["type='error'", "<item-not-found"]),
        row("3.1", "the server MUST return the vCard")
            .after("alice", vcard("set", "", NAME))
            .when("alice", vcard("get", "", ""))
            .told(&["type='result'", "<vCard xmlns='vcard-temp'><FN>Alice</FN></vCard>"]),
        row("3.2", "an update is answered by a result")
            .when("alice", vcard("set", "", NAME))
            .told(&["type='result'", "!<vCard"]),
        row("3.2", "and has all of the vCard")
            .after("alice", vcard("set", "", "<FN>Alice</FN><NICKNAME>al</NICKNAME>"))
            .after("alice", vcard("set", "", NAME))
            .when("alice", vcard("get", "", ""))
            .told(&["type='result'", "<FN>Alice</FN>", "!NICKNAME"]),
    ]);
}

#[test]
fn anothers() {
    play(&[
        row("3.2", "a set of another's MUST be an error, which SHOULD be forbidden or not-allowed")
            .when("eve", vcard("set", ALICE, NAME))
            .told(&["type='error'", "<forbidden"]),
        row("3.2", "and changes nothing")
            .after("eve", vcard("set", ALICE, NAME))
            .when("alice", vcard("get", "", ""))
            .told(&["<item-not-found"]),
        row("3.2", "nor does it tell an account from none")
            .when("eve", vcard("set", "ghost@example.org", NAME))
            .told(&["type='error'", "<forbidden"]),
        row("3.3", "others see it, and the server MUST answer for the account")
            .after("alice", vcard("set", "", NAME))
            .when("eve", vcard("get", ALICE, ""))
            .told(&["type='result'", "from='alice@example.org'", "<FN>Alice</FN>"]),
        row("3.3", "without one MUST be an error, which SHOULD be service-unavailable or item-not-found")
            .when("eve", vcard("get", ALICE, ""))
            .told(&["type='error'", "<service-unavailable"]),
        row("3.3", "of an account that is not there the same")
            .when("eve", vcard("get", "ghost@example.org", ""))
            .told(&["type='error'", "<service-unavailable"]),
    ]);
}

#[test]
fn support() {
    let info = |to: &str| iq("get", to, "<query xmlns='http://jabber.org/protocol/disco#info'/>");
    play(&[
        row("4", "an entity that supports vcard-temp MUST say so: a domain, for its accounts")
            .when("alice", info("example.org"))
            .told(&["<feature var='vcard-temp'/>"]),
        row("4", "an account").when("alice", info(ALICE)).told(&["<feature var='vcard-temp'/>"]),
    ]);
}
