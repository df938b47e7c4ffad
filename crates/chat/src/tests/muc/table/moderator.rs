//! §8: subject, kicking, voice.

use super::*;

const MODERATED: &[(&str, &str)] = &[("moderatedroom", "1")];
const HAIL: &str = "<body>Hail</body>";

fn role(nick: &str, role: &str) -> String {
    set(&format!("<item nick='{nick}' role='{role}'/>"))
}

#[test]
fn subjects() {
    let subject = || groupchat("<subject>Fire Burn</subject>");
    play(&[
        row("8.1", "a moderator's subject MUST be reflected to all")
            .when("crone", subject())
            .told(&["crone: firstwitch subject (Fire Burn)", "wicca: firstwitch subject (Fire Burn)"]),
        row("8.1", "an occupant without that right MUST get forbidden")
            .when("wicca", subject())
            .told(&["wicca: message error forbidden"]),
        row("8.1", "where the configuration lets, a participant sets it")
            .room(&[("changesubject", "1")])
            .when("wicca", subject())
            .told(&["crone: wicca subject (Fire Burn)", "wicca: wicca subject (Fire Burn)"]),
        row("8.1", "but no visitor")
            .room(&[("changesubject", "1"), ("moderatedroom", "1")])
            .when("wicca", subject())
            .told(&["wicca: message error forbidden"]),
        row("8.1", "an empty one removes it")
            .after("crone", subject())
            .after("crone", groupchat("<subject/>"))
            .after("wicca", leave("wicca", ""))
            .when("hag", enter("hag"))
            .told(&[
                "crone: hag here participant/none =hag",
                "hag: firstwitch here moderator/owner",
                "hag: hag here participant/none 110 =hag",
                "hag: firstwitch subject () long ago",
            ]),
    ]);
}

#[test]
fn kicking() {
    let kick = |nick: &str| set(&format!("<item nick='{nick}' role='none'><reason>Avaunt</reason></item>"));
    play(&[
        row(
            "8.2",
            "the kicked one MUST be told by 307, then the moderator of success, and the others by 307",
        )
        .after("hag", enter("hag"))
        .when("crone", kick("hag"))
        .told(&[
            "crone: hag unavailable none/none 307 =hag by firstwitch (Avaunt)",
            "crone: result",
            "wicca: hag unavailable none/none 307 by firstwitch (Avaunt)",
            "hag: hag unavailable none/none 110 307 =hag by firstwitch (Avaunt)",
        ]),
        row("8.2", "and the kicked one is out")
            .after("crone", kick("wicca"))
            .when("wicca", groupchat(HAIL))
            .told(&["wicca: message error not-acceptable"]),
        row("8.2", "other occupants: forbidden")
            .when("wicca", kick("firstwitch"))
            .told(&["wicca: iq error forbidden"]),
        row("8.2", "an occupant of higher affiliation cannot be kicked: not-allowed")
            .after("crone", set("<item nick='wicca' role='moderator'/>"))
            .when("wicca", kick("firstwitch"))
            .told(&["wicca: iq error not-allowed"]),
        row("8.2", "nor a member by a moderator who is none: not-allowed")
            .after("hag", enter("hag"))
            .after("crone", set("<item nick='wicca' role='moderator'/>"))
            .after("crone", set("<item jid='hag66@shakespeare.lit' affiliation='member'/>"))
            .when("wicca", kick("hag"))
            .told(&["wicca: iq error not-allowed"]),
        row("8.2", "a user outside cannot be: item-not-found")
            .when("crone", kick("ghost"))
            .told(&["crone: iq error item-not-found"]),
        row("8.2", "several at once, or none of them")
            .after("hag", enter("hag"))
            .when("crone", set("<item nick='hag' role='none'/><item nick='ghost' role='none'/>"))
            .told(&["crone: iq error item-not-found"]),
    ]);
}

#[test]
fn voice() {
    play(&[
        row("8.3", "an occupant granted voice is a participant to all, and the moderator told of success")
            .room(MODERATED)
            .when("crone", role("wicca", "participant"))
            .told(&[
                "crone: wicca here participant/none =wicca by firstwitch",
                "crone: result",
                "wicca: wicca here participant/none 110 =wicca by firstwitch",
            ]),
        row("8.4", "an occupant with revoked voice is a visitor to all")
            .when("crone", role("wicca", "visitor"))
            .told(&[
                "crone: wicca here visitor/none =wicca by firstwitch",
                "crone: result",
                "wicca: wicca here visitor/none 110 =wicca by firstwitch",
            ]),
        row("8.4", "the voice of an administrator or owner cannot be revoked: not-allowed")
            .after("crone", role("wicca", "moderator"))
            .when("wicca", role("firstwitch", "visitor"))
            .told(&["wicca: iq error not-allowed"]),
        row("8.4", "not even another owner: not-allowed")
            .after("crone", set("<item jid='wiccarocks@example.org' affiliation='owner'/>"))
            .when("crone", role("wicca", "visitor"))
            .told(&["crone: iq error not-allowed"]),
        row("8.3", "other occupants: forbidden")
            .room(MODERATED)
            .when("wicca", role("wicca", "participant"))
            .told(&["wicca: iq error forbidden"]),
    ]);
}

#[test]
fn voice_lasts() {
    play(&[
        row("5.1", "in a moderated room voice that was granted SHOULD last over visits")
            .room(MODERATED)
            .after("crone", role("wicca", "participant"))
            .after("wicca", leave("wicca", ""))
            .after("wicca", enter("wicca"))
            .when("wicca", groupchat(HAIL))
            .told(&["crone: wicca says Hail", "wicca: wicca says Hail"]),
        row("5.1", "and a member whose voice was revoked has none on coming again")
            .room(MODERATED)
            .after("crone", set("<item jid='wiccarocks@example.org' affiliation='member'/>"))
            .after("crone", role("wicca", "visitor"))
            .after("wicca", leave("wicca", ""))
            .after("wicca", enter("other"))
            .when("wicca", groupchat(HAIL))
            .told(&["wicca: message error forbidden"]),
        row("5.1", "nor after a kick")
            .room(MODERATED)
            .after("crone", set("<item jid='wiccarocks@example.org' affiliation='member'/>"))
            .after("crone", role("wicca", "visitor"))
            .after("crone", role("wicca", "none"))
            .when("wicca", enter("wicca"))
            .told(&[
                "crone: wicca here visitor/member =wicca",
                "wicca: firstwitch here moderator/owner",
                "wicca: wicca here visitor/member 110 =wicca",
                "wicca: room subject ()",
            ]),
        row("5.1", "until the user is made a member anew")
            .room(MODERATED)
            .after("crone", role("wicca", "visitor"))
            .after("crone", set("<item jid='wiccarocks@example.org' affiliation='member'/>"))
            .after("wicca", leave("wicca", ""))
            .after("wicca", enter("wicca"))
            .when("wicca", groupchat(HAIL))
            .told(&["crone: wicca says Hail", "wicca: wicca says Hail"]),
    ]);
}

#[test]
fn lists_of_voices() {
    play(&[
        row("8.5", "a moderator gets the voice list with nicknames and roles")
            .when("crone", get("<item role='participant'/>"))
            .told(&["crone: result query [wicca wicca participant none]"]),
        row("8.5", "other occupants: forbidden")
            .when("wicca", get("<item role='participant'/>"))
            .told(&["wicca: iq error forbidden"]),
        row("8.5", "changes of the list come back as presence")
            .room(MODERATED)
            .after("hag", enter("hag"))
            .when(
                "crone",
                set("<item nick='hag' role='participant'/><item nick='wicca' role='participant'/>"),
            )
            .told(&[
                "crone: hag here participant/none =hag by firstwitch",
                "crone: wicca here participant/none =wicca by firstwitch",
                "crone: result",
                "wicca: hag here participant/none by firstwitch",
                "wicca: wicca here participant/none 110 =wicca by firstwitch",
                "hag: hag here participant/none 110 =hag by firstwitch",
                "hag: wicca here participant/none by firstwitch",
            ]),
    ]);
}

#[test]
fn answers_to_requests_for_voice() {
    let answer = |allow: &str| {
        let kind = ("FORM_TYPE", "http://jabber.org/protocol/muc#request");
        let fields = [("muc#jid", "wiccarocks@example.org/laptop"), ("muc#roomnick", "wicca")];
        message(
            ROOM,
            &form(
                "submit",
                &[kind, fields[0], fields[1], ("muc#role", "participant"), ("muc#request_allow", allow)],
            ),
        )
    };
    play(&[
        row("8.6", "a moderator's approval is voice").room(MODERATED).when("crone", answer("true")).told(&[
            "crone: wicca here participant/none =wicca",
            "wicca: wicca here participant/none 110 =wicca",
        ]),
        row("8.6", "a refusal is nothing").room(MODERATED).when("crone", answer("false")).told(&[]),
        row("8.6", "other occupants cannot approve: forbidden")
            .room(MODERATED)
            .when("wicca", answer("1"))
            .told(&["wicca: message error forbidden"]),
    ]);
}
