//! §9: bans, members, moderators.

use super::*;

const HAG_BARE: &str = "hag66@shakespeare.lit";

const MEMBERS_ONLY: &[(&str, &str)] = &[("membersonly", "1")];

fn affiliate(user: &str, affiliation: &str) -> String {
    set(&format!("<item jid='{user}' affiliation='{affiliation}'/>"))
}

#[test]
fn banning() {
    let ban =
        || set(&format!("<item jid='{HAG_BARE}' affiliation='outcast'><reason>Treason</reason></item>"));
    play(&[
        row(
            "9.1",
            "the banned one MUST be told by 301, then the administrator of success, and the others by 301",
        )
        .after("hag", enter("hag"))
        .when("crone", ban())
        .told(&[
            "crone: hag unavailable none/outcast 301 =hag by firstwitch (Treason)",
            "crone: result",
            "wicca: hag unavailable none/outcast 301 by firstwitch (Treason)",
            "hag: hag unavailable none/outcast 110 301 =hag by firstwitch (Treason)",
        ]),
        row("9.1", "a user outside is banned too, told so by 101 and 301 with the reason; occupants who see addresses are told")
            .when("crone", ban())
            .told(&[
                "crone: room status 301 hag66@shakespeare.lit is none/outcast (Treason)",
                "crone: result",
                "hag66@shakespeare.lit: room status 301 status 101 hag66@shakespeare.lit is none/outcast (Treason)",
            ]),
        row("9.1", "an administrator cannot ban itself: conflict")
            .when("crone", affiliate("crone1@example.org", "outcast"))
            .told(&["crone: iq error conflict"]),
        row("9.1", "nor who has a higher affiliation: not-allowed")
            .after("crone", affiliate("wiccarocks@example.org", "admin"))
            .when("wicca", affiliate("crone1@example.org", "outcast"))
            .told(&["wicca: iq error not-allowed"]),
        row("9.1", "other occupants: forbidden")
            .when("wicca", ban())
            .told(&["wicca: iq error forbidden"]),
        row("9.2", "the list of the banned has address and reason")
            .after("crone", ban())
            .when("crone", get("<item affiliation='outcast'/>"))
            .told(&["crone: result query [hag66@shakespeare.lit outcast (Treason)]"]),
        row("9.2", "it is for administrators: forbidden")
            .when("wicca", get("<item affiliation='outcast'/>"))
            .told(&["wicca: iq error forbidden"]),
        row("9.2", "a user taken off the list enters again")
            .after("wicca", leave("wicca", ""))
            .after("crone", ban())
            .after("crone", affiliate(HAG_BARE, "none"))
            .when("hag", enter("hag"))
            .told(&[
                "crone: hag here participant/none =hag",
                "hag: firstwitch here moderator/owner",
                "hag: hag here participant/none 110 =hag",
                "hag: room subject ()",
            ]),
        row("5.2", "role and affiliation in one item MUST be refused: bad-request")
            .when("crone", set("<item nick='wicca' role='visitor' affiliation='member'/>"))
            .told(&["crone: iq error bad-request"]),
    ]);
}

#[test]
fn members() {
    play(&[
        row("9.3", "a new member's presence MUST come to all")
            .when("crone", affiliate("wiccarocks@example.org", "member"))
            .told(&[
                "crone: wicca here participant/member =wicca by firstwitch",
                "crone: result",
                "wicca: wicca here participant/member 110 =wicca by firstwitch",
            ]),
        row("9.3", "a nickname that is given with it is the member's own")
            .after("crone", set(&format!("<item jid='{HAG_BARE}' nick='thirdwitch' affiliation='member'/>")))
            .when("wicca", presence("thirdwitch", ""))
            .told(&["wicca: presence error conflict"]),
        row("9.3", "if no other user has it: conflict")
            .when("crone", set(&format!("<item jid='{HAG_BARE}' nick='wicca' affiliation='member'/>")))
            .told(&["crone: iq error conflict"]),
        row("9.3", "nor is given it in the same request: conflict")
            .when("crone", set(&format!(
                "<item jid='{HAG_BARE}' nick='x' affiliation='member'/><item jid='a@b' nick='x' affiliation='member'/>"
            )))
            .told(&["crone: iq error conflict"]),
        row("9.3", "other occupants: forbidden")
            .when("wicca", affiliate("wiccarocks@example.org", "member"))
            .told(&["wicca: iq error forbidden"]),
        row("9.4", "a removed member is out of a members-only room: 321 to all")
            .room(MEMBERS_ONLY)
            .after("crone", affiliate(HAG_BARE, "member"))
            .after("hag", enter("hag"))
            .when("crone", affiliate(HAG_BARE, "none"))
            .told(&[
                "crone: hag unavailable none/none 321 =hag by firstwitch",
                "crone: result",
                "hag: hag unavailable none/none 110 321 =hag by firstwitch",
            ]),
        row("9.4", "and stays in an open one")
            .after("crone", affiliate("wiccarocks@example.org", "member"))
            .when("crone", affiliate("wiccarocks@example.org", "none"))
            .told(&[
                "crone: wicca here participant/none =wicca by firstwitch",
                "crone: result",
                "wicca: wicca here participant/none 110 =wicca by firstwitch",
            ]),
        row("9.4", "an administrator is no member to be removed by another: not-allowed")
            .after("crone", affiliate("wiccarocks@example.org", "admin"))
            .after("crone", affiliate(HAG_BARE, "admin"))
            .when("wicca", affiliate(HAG_BARE, "none"))
            .told(&["wicca: iq error not-allowed"]),
    ]);
}

#[test]
fn lists_of_members() {
    play(&[
        row("9.5", "the list of members, with their nicknames")
            .after("crone", set(&format!("<item jid='{HAG_BARE}' nick='thirdwitch' affiliation='member'/>")))
            .when("crone", get("<item affiliation='member'/>"))
            .told(&["crone: result query [hag66@shakespeare.lit thirdwitch member]"]),
        row("9.5", "a user without affiliation does not get it: forbidden")
            .when("wicca", get("<item affiliation='member'/>"))
            .told(&["wicca: iq error forbidden"]),
        row("7.11", "a member of a members-only room SHOULD get it")
            .room(MEMBERS_ONLY)
            .after("crone", affiliate(HAG_BARE, "member"))
            .when("hag", get("<item affiliation='member'/>"))
            .told(&["hag: result query [hag66@shakespeare.lit member]"]),
        row("9.5", "changes of the list come back as presence and as messages")
            .after("hag", enter("hag"))
            .when("crone", set(&format!(
                "<item jid='{HAG_BARE}' affiliation='member'/><item jid='hecate@shakespeare.lit' affiliation='member'/>"
            )))
            .told(&[
                "crone: hag here participant/member =hag by firstwitch",
                "crone: room hecate@shakespeare.lit is none/member",
                "crone: result",
                "wicca: hag here participant/member by firstwitch",
                "hag: hag here participant/member 110 =hag by firstwitch",
                "hecate@shakespeare.lit: room status 101 hecate@shakespeare.lit is none/member",
            ]),
    ]);
}

#[test]
fn moderators() {
    let role = |nick: &str, role: &str| set(&format!("<item nick='{nick}' role='{role}'/>"));
    play(&[
        row(
            "9.6",
            "a new moderator's presence MUST come to all, and who sees addresses now sees them from now on",
        )
        .when("crone", role("wicca", "moderator"))
        .told(&[
            "crone: wicca here moderator/none =wicca by firstwitch",
            "crone: result",
            "wicca: wicca here moderator/none 110 =wicca by firstwitch",
        ]),
        row("9.6", "only administrators make one: forbidden")
            .after("hag", enter("hag"))
            .after("crone", role("wicca", "moderator"))
            .when("wicca", role("hag", "moderator"))
            .told(&["wicca: iq error forbidden"]),
        row("9.7", "a moderator who is one no more is a participant, to all")
            .after("crone", role("wicca", "moderator"))
            .when("crone", role("wicca", "participant"))
            .told(&[
                "crone: wicca here participant/none =wicca by firstwitch",
                "crone: result",
                "wicca: wicca here participant/none 110 =wicca by firstwitch",
            ]),
        row("9.7", "an administrator MUST remain one: not-allowed")
            .after("crone", affiliate("wiccarocks@example.org", "admin"))
            .when("wicca", role("firstwitch", "participant"))
            .when("crone", role("wicca", "participant"))
            .told(&["crone: iq error not-allowed", "wicca: iq error not-allowed"]),
        row("9.8", "an administrator gets the list of moderators")
            .after("crone", role("wicca", "moderator"))
            .when("crone", get("<item role='moderator'/>"))
            .told(&["crone: result query [crone firstwitch moderator owner] [wicca wicca moderator none]"]),
        row("9.8", "other users: forbidden")
            .after("crone", role("wicca", "moderator"))
            .when("wicca", get("<item role='moderator'/>"))
            .told(&["wicca: iq error forbidden"]),
    ]);
}
