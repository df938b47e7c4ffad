//! §7: entering, talking, inviting, registering, leaving.

use super::*;

#[test]
fn entering() {
    play(&[
        row("7.2", "an address without a nickname MUST be refused: jid-malformed")
            .when("hag", format!("<presence to='{ROOM}'><x xmlns='{}'/></presence>", ns::MUC))
            .told(&["hag: presence error jid-malformed"]),
        row(
            "7.2.2",
            "others' presence first, one's own last with 110, then the subject; the others hear of it",
        )
        .when("hag", enter("hag"))
        .told(&[
            "crone: hag here participant/none =hag",
            "wicca: hag here participant/none",
            "hag: firstwitch here moderator/owner",
            "hag: wicca here participant/none",
            "hag: hag here participant/none 110 =hag",
            "hag: room subject ()",
        ]),
        row("7.2.3", "in a non-anonymous room all see addresses, and a new occupant is warned by 100")
            .room(&[("whois", "anyone")])
            .when("hag", enter("hag"))
            .told(&[
                "crone: hag here participant/none =hag",
                "wicca: hag here participant/none =hag",
                "hag: firstwitch here moderator/owner =crone",
                "hag: wicca here participant/none =wicca",
                "hag: hag here participant/none 110 100 =hag",
                "hag: room subject ()",
            ]),
        row("7.2.4", "in a semi-anonymous room only moderators do")
            .room(&[("whois", "moderators")])
            .after("crone", set("<item affiliation='admin' jid='hag66@shakespeare.lit'/>"))
            .when("hag", enter("hag"))
            .told(&[
                "crone: hag here moderator/admin =hag",
                "wicca: hag here moderator/admin",
                "hag: firstwitch here moderator/owner =crone",
                "hag: wicca here participant/none =wicca",
                "hag: hag here moderator/admin 110 =hag",
                "hag: room subject ()",
            ]),
    ]);
}

#[test]
fn being_kept_out() {
    play(&[
        row("7.2.5", "without the password MUST be denied: not-authorized")
            .room(&[("roomsecret", "cauldronburn")])
            .when("hag", enter("hag"))
            .when("hag", enter_with("hag", "<password>cauldron</password>"))
            .told(&["hag: presence error not-authorized", "hag: presence error not-authorized"]),
        row("7.2.5", "the owner too")
            .room(&[("roomsecret", "cauldronburn")])
            .after("crone", leave("firstwitch", ""))
            .when("crone", enter("firstwitch"))
            .told(&["crone: presence error not-authorized"]),
        row("7.2.5", "with it, one is in")
            .room(&[("roomsecret", "cauldronburn")])
            .after("wicca", leave("wicca", ""))
            .when("hag", enter_with("hag", "<password>cauldronburn</password>"))
            .told(&[
                "crone: hag here participant/none =hag",
                "hag: firstwitch here moderator/owner",
                "hag: hag here participant/none 110 =hag",
                "hag: room subject ()",
            ]),
        row("7.2.6", "other users MUST be refused by a members-only room: registration-required")
            .room(&[("membersonly", "1")])
            .when("hag", enter("hag"))
            .told(&["hag: presence error registration-required"]),
        row("7.2.7", "a banned user MUST be refused: forbidden, before any other reason")
            .room(&[("membersonly", "1"), ("roomsecret", "x"), ("maxusers", "1")])
            .after("crone", set("<item affiliation='outcast' jid='hag66@shakespeare.lit'/>"))
            .when("hag", enter("firstwitch"))
            .told(&["hag: presence error forbidden"]),
    ]);
}

#[test]
fn being_called() {
    play(&[
        row("7.2.8", "a nickname in use MUST be refused: conflict")
            .when("hag", enter("wicca"))
            .told(&["hag: presence error conflict"]),
        row("7.2.8", "and one that another has reserved")
            .after("wicca", register("set", &form("submit", &[("muc#register_roomnick", "thirdwitch")])))
            .when("hag", enter("thirdwitch"))
            .told(&["hag: presence error conflict"]),
        row("7.2.8", "the same user's next client shares it: its own presence comes to both")
            .when("wiccarocks@example.org/phone", enter("wicca"))
            .told(&[
                "crone: wicca here participant/none =wiccarocks@example.org/phone",
                "wicca: wicca here participant/none 110 =wiccarocks@example.org/phone",
                "wiccarocks@example.org/phone: firstwitch here moderator/owner",
                "wiccarocks@example.org/phone: wicca here participant/none 110 =wiccarocks@example.org/phone",
                "wiccarocks@example.org/phone: room subject ()",
            ]),
    ]);
}

#[test]
fn entering_a_full_or_a_new_room() {
    play(&[
        row("7.2.9", "a full room MUST refuse: service-unavailable")
            .room(&[("maxusers", "2")])
            .when("hag", enter("hag"))
            .told(&["hag: presence error service-unavailable"]),
        row("7.2.9", "but an administrator SHOULD be let in")
            .room(&[("maxusers", "2")])
            .after("crone", set("<item affiliation='admin' jid='hag66@shakespeare.lit'/>"))
            .when("hag", enter_with("hag", "<history maxchars='0'/>"))
            .told(&[
                "crone: hag here moderator/admin =hag",
                "wicca: hag here moderator/admin",
                "hag: firstwitch here moderator/owner =crone",
                "hag: wicca here participant/none =wicca",
                "hag: hag here moderator/admin 110 =hag",
                "hag: room subject ()",
            ]),
        row("7.2.10", "a locked room MUST refuse: item-not-found")
            .void()
            .after("crone", enter("firstwitch"))
            .when("wicca", enter("wicca"))
            .told(&["wicca: presence error item-not-found"]),
        row("7.2.11", "a user without the right to create the room: not-allowed")
            .void()
            .when("hag", enter("hag"))
            .told(&["hag: presence error not-allowed"]),
        row("7.1", "a nickname that the service modified: 210")
            .after("wicca", leave("wicca", ""))
            .when("hag", enter("ﬁre"))
            .told(&[
                "crone: fire here participant/none =hag",
                "hag: firstwitch here moderator/owner",
                "hag: fire here participant/none 110 210 =hag",
                "hag: room subject ()",
            ]),
        row("7.1", "presence that does not enter, of who is not in: not-acceptable")
            .when("hag", presence("hag", ""))
            .told(&["hag: presence error not-acceptable"]),
    ]);
}

#[test]
fn entering_a_logged_room() {
    play(&[
        row("7.2.12", "of a room that is logged who enters is told: 170")
            .room(&[("persistentroom", "1"), ("enablelogging", "1")])
            .after("wicca", leave("wicca", ""))
            .when("hag", enter("hag"))
            .told(&[
                "crone: hag here participant/none =hag",
                "hag: firstwitch here moderator/owner",
                "hag: hag here participant/none 110 170 =hag",
                "hag: room subject ()",
            ]),
        row("7.2.12", "of a temporary one, too")
            .room(&[("enablelogging", "1")])
            .after("wicca", leave("wicca", ""))
            .when("hag", enter("hag"))
            .told(&[
                "crone: hag here participant/none =hag",
                "hag: firstwitch here moderator/owner",
                "hag: hag here participant/none 110 170 =hag",
                "hag: room subject ()",
            ]),
    ]);
}

#[test]
fn history() {
    let talk = |row: Row| {
        let row = row.after("wicca", groupchat(&body_of("one")));
        row.after("wicca", groupchat("<subject>Topic</subject><body>two</body>"))
            .after("crone", groupchat("<subject>Fire</subject>"))
            .after("wicca", leave("wicca", ""))
            .after("crone", configure(&[("muc#roomconfig_whois", "moderators")]))
    };
    play(&[
        talk(row("7.2.13", "history is after one's presence and before the subject, with the time it came"))
            .when("hag", enter("hag"))
            .told(&[
                "crone: hag here participant/none =hag",
                "hag: firstwitch here moderator/owner",
                "hag: hag here participant/none 110 =hag",
                "hag: wicca says one long ago",
                "hag: wicca says two subject (Topic) long ago",
                "hag: firstwitch subject (Fire) long ago",
            ]),
        talk(row(
            "7.2.13",
            "a subject with a thread is no change of the room's (§8.1), and is said as any other",
        ))
        .after("crone", groupchat("<subject>Brew</subject><thread>t</thread>"))
        .when("hag", enter("hag"))
        .told(&[
            "crone: hag here participant/none =hag",
            "hag: firstwitch here moderator/owner",
            "hag: hag here participant/none 110 =hag",
            "hag: wicca says one long ago",
            "hag: wicca says two subject (Topic) long ago",
            "hag: firstwitch subject (Brew) long ago",
            "hag: firstwitch subject (Fire) long ago",
        ]),
        talk(row("7.2.13", "maxchars='0' MUST be respected"))
            .when("hag", enter_with("hag", "<history maxchars='0'/>"))
            .told(&[
                "crone: hag here participant/none =hag",
                "hag: firstwitch here moderator/owner",
                "hag: hag here participant/none 110 =hag",
                "hag: firstwitch subject (Fire) long ago",
            ]),
        talk(row("7.2.13", "maxstanzas, seconds and since: the least that fits all"))
            .when(
                "hag",
                enter_with("hag", "<history maxstanzas='1' seconds='180' since='1970-01-01T00:00:00Z'/>"),
            )
            .told(&[
                "crone: hag here participant/none =hag",
                "hag: firstwitch here moderator/owner",
                "hag: hag here participant/none 110 =hag",
                "hag: wicca says two subject (Topic) long ago",
                "hag: firstwitch subject (Fire) long ago",
            ]),
    ]);
}

/// §7.2.13: "the maxchars attribute counts characters of complete XML stanzas", not bytes.
#[test]
fn history_counts_characters() {
    let heard = |letter: &str, most: usize| {
        let mut hall = Hall::coven(&[]);
        hall.groupchat(CRONE, &letter.repeat(1_000));
        hall.forget();
        hall.enter_with(HAG, "hag", &format!("<history maxchars='{most}'/>"));
        hall.hear(HAG).iter().filter(|stanza| !body(stanza).is_empty()).count()
    };
    assert_eq!((heard("x", 2_000), heard("x", 900)), (1, 0));
    assert_eq!((heard("ü", 2_000), heard("ü", 900)), (1, 0));
}

#[test]
fn being_there() {
    play(&[
        row("7.4", "a message goes to all, its sender too, from the sender's occupant address")
            .when("wicca", groupchat(&body_of("Hail")))
            .told(&["crone: wicca says Hail", "wicca: wicca says Hail"]),
        row("7.4", "a user outside SHOULD get not-acceptable")
            .when("hag", groupchat(&body_of("Hail")))
            .told(&["hag: message error not-acceptable"]),
        row("7.4", "a visitor SHOULD get forbidden")
            .room(&[("moderatedroom", "1")])
            .when("wicca", groupchat(&body_of("Hail")))
            .told(&["wicca: message error forbidden"]),
        row("7.5", "a private message goes to one")
            .when("crone", message(&format!("{ROOM}/wicca"), &body_of("psst")))
            .told(&["wicca: firstwitch whispers psst"]),
        row("7.5", "of type groupchat it MUST be refused: bad-request")
            .when("crone", groupchat(&body_of("psst")).replace(ROOM, &format!("{ROOM}/wicca")))
            .told(&["crone: message error bad-request"]),
        row("7.5", "to a nickname that is not there MUST be refused: item-not-found")
            .when("crone", message(&format!("{ROOM}/ghost"), &body_of("psst")))
            .told(&["crone: message error item-not-found"]),
        row("7.5", "by who is not in MUST be refused: not-acceptable")
            .when("hag", message(&format!("{ROOM}/wicca"), &body_of("psst")))
            .told(&["hag: message error not-acceptable"]),
        row("7.5", "where the configuration forbids it: forbidden")
            .room(&[("allowpm", "none")])
            .when("crone", message(&format!("{ROOM}/wicca"), &body_of("psst")))
            .told(&["crone: message error forbidden"]),
    ]);
}

#[test]
fn changing_and_leaving() {
    play(&[
        row("7.6", "a new nickname: unavailable with 303 and the nickname, then presence from it")
            .when("wicca", presence("oldhag", ""))
            .told(&[
                "crone: wicca unavailable participant/none 303 =wicca now oldhag",
                "crone: oldhag here participant/none =wicca",
                "wicca: wicca unavailable participant/none 110 303 =wicca now oldhag",
                "wicca: oldhag here participant/none 110 =wicca",
            ]),
        row("7.6", "one in use MUST be refused: conflict")
            .when("wicca", presence("firstwitch", ""))
            .told(&["wicca: presence error conflict"]),
        row("7.6", "one that is too long: not-acceptable")
            .when("wicca", presence(&"x".repeat(129), ""))
            .told(&["wicca: presence error not-acceptable"]),
        row("7.7", "new availability is shown to all")
            .when("wicca", presence("wicca", "<show>xa</show><status>gone</status>"))
            .told(&[
                "crone: wicca here participant/none =wicca (xa) (gone)",
                "wicca: wicca here participant/none 110 =wicca (xa) (gone)",
            ]),
        row("7.2", "a client in the room that enters again sees everything once more, its own presence once")
            .when("wicca", enter("wicca"))
            .told(&[
                "crone: wicca here participant/none =wicca",
                "wicca: firstwitch here moderator/owner",
                "wicca: wicca here participant/none 110 =wicca",
                "wicca: room subject ()",
            ]),
        row("7.14", "the leaving occupant is told by 110, the others by unavailable, with its status")
            .when("wicca", leave("wicca", "<status>gone</status>"))
            .told(&[
                "crone: wicca unavailable none/none =wicca (gone)",
                "wicca: wicca unavailable none/none 110 =wicca (gone)",
            ]),
        row("7.14", "a client that returns errors is out: 307 and 333")
            .when(
                "wicca",
                format!(
                    "<message type='error' to='{ROOM}/firstwitch'><error type='cancel'><gone xmlns='{}'/></error></message>",
                    ns::STANZA_ERRORS
                ),
            )
            .told(&[
                "crone: wicca unavailable none/none 307 333 =wicca",
                "wicca: wicca unavailable none/none 110 307 333 =wicca",
            ]),
    ]);
}

const GUEST: &str = "<invite to='hecate@shakespeare.lit'><reason>Hey</reason></invite>";

#[test]
fn inviting() {
    let invite = || message(ROOM, &in_user(GUEST));
    play(&[
        row("7.8.2", "the room MUST send the invitation on, with who it is from and the password")
            .room(&[("roomsecret", "sesame")])
            .when("crone", invite())
            .told(&["hecate@shakespeare.lit: room invite from /firstwitch (Hey) password sesame"]),
        row("7.8.2", "for a conversation that goes on here")
            .room(&[("whois", "anyone")])
            .when("crone", message(ROOM, &in_user("<invite to='hag66@shakespeare.lit'><continue/></invite>")))
            .told(&["hag66@shakespeare.lit: room invite from crone1@example.org to continue"]),
        row("7.8.2", "into a members-only room an administrator makes the guest a member")
            .room(&[("membersonly", "1")])
            .when("crone", invite())
            .when("crone", get("<item affiliation='member'/>"))
            .told(&[
                "crone: result query [hecate@shakespeare.lit member]",
                "hecate@shakespeare.lit: room invite from /firstwitch (Hey)",
            ]),
        row("7.8.2", "other occupants may not invite into one: forbidden")
            .room(&[("membersonly", "1")])
            .after("crone", set("<item affiliation='member' jid='wiccarocks@example.org'/>"))
            .after("wicca", enter("wicca"))
            .when("wicca", invite())
            .told(&["wicca: message error forbidden"]),
        row("7.8.2", "into an open room those may that the configuration lets")
            .room(&[("allowinvites", "1")])
            .when("wicca", invite())
            .told(&["hecate@shakespeare.lit: room invite from /wicca (Hey)"]),
        row("7.8.2", "a user outside the room cannot invite: not-acceptable")
            .when("hag", invite())
            .told(&["hag: message error not-acceptable"]),
        row("7.8.2", "an address that is none: jid-malformed")
            .when("crone", message(ROOM, &in_user("<invite to='@'/>")))
            .told(&["crone: message error jid-malformed"]),
        row("7.8.2", "a refusal without an invitation: item-not-found")
            .when("hag", message(ROOM, &in_user(&format!("<decline to='{ROOM}/firstwitch'/>"))))
            .told(&["hag: message error item-not-found"]),
        row("7.8.2", "the inviter gets the invitee's refusal")
            .after("crone", message(ROOM, &in_user("<invite to='hag66@shakespeare.lit'/>")))
            .when(
                "hag",
                message(
                    ROOM,
                    &in_user(&format!("<decline to='{ROOM}/firstwitch'><reason>Busy</reason></decline>")),
                ),
            )
            .told(&["crone: room decline from hag66@shakespeare.lit (Busy)"]),
    ]);
}

#[test]
fn registering() {
    let request = || register("set", &form("submit", &[("muc#register_roomnick", "hag")]));
    play(&[
        row("7.10", "a request for the form MUST get it")
            .when("hag", register("get", ""))
            .told(&["hag: result query form muc#register_roomnick="]),
        row("7.10", "a room that is none: item-not-found")
            .when("hag", register("get", "").replace("coven", "ghost"))
            .told(&["hag: iq error item-not-found"]),
        row("7.10", "a user without the right: not-allowed")
            .room(&[("membersonly", "1")])
            .when("hag", register("get", ""))
            .told(&["hag: iq error not-allowed"]),
        row("7.10", "a user registered already is told so")
            .after("hag", request())
            .when("hag", register("get", ""))
            .told(&["hag: result query registered () username (hag)"]),
        row("7.10", "a registered user becomes a member, and moderators are told")
            .when("hag", request())
            .told(&["crone: room hag66@shakespeare.lit is none/member", "hag: result"]),
        row("7.10", "a nickname that is taken: conflict")
            .when("hag", request().replace(">hag<", ">wicca<"))
            .told(&["hag: iq error conflict"]),
        row("7.10", "another form: bad-request")
            .when("hag", register("set", &form("submit", &[])))
            .told(&["hag: iq error bad-request"]),
    ]);
}

#[test]
fn requesting_voice() {
    let kind = ("FORM_TYPE", "http://jabber.org/protocol/muc#request");
    let ask = || message(ROOM, &form("submit", &[kind, ("muc#role", "participant")]));
    play(&[
        row("7.13", "a request for voice goes to the moderators as a form")
            .room(&[("moderatedroom", "1")])
            .when("wicca", ask())
            .told(&[
                "crone: room form muc#role=participant muc#jid=wicca muc#roomnick=wicca muc#request_allow=0",
            ]),
        row("7.13", "a user outside asks in vain: not-acceptable")
            .room(&[("moderatedroom", "1")])
            .when("hag", ask())
            .told(&["hag: message error not-acceptable"]),
    ]);
}
