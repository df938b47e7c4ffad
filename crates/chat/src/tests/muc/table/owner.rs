//! §10: making, configuring and destroying a room; owners and administrators.

use super::*;

const WICCA_BARE: &str = "wiccarocks@example.org";

fn affiliate(user: &str, affiliation: &str) -> String {
    set(&format!("<item jid='{user}' affiliation='{affiliation}'/>"))
}

#[test]
fn making_a_room() {
    play(&[
        row("10.1", "the first to enter a new room MUST be its owner, told by 201 that it waits for its configuration")
            .void()
            .when("crone", enter("firstwitch"))
            .told(&["crone: firstwitch here moderator/owner 110 201 =crone", "crone: room subject ()"]),
        row("10.1.2", "an empty form is an instant room: others enter")
            .void()
            .after("crone", enter("firstwitch"))
            .after("crone", configure(&[]))
            .when("wicca", enter("wicca"))
            .told(&[
                "crone: wicca here participant/none =wicca",
                "wicca: firstwitch here moderator/owner",
                "wicca: wicca here participant/none 110 =wicca",
                "wicca: room subject ()",
            ]),
        row("10.1.3", "the form is the owner's: forbidden")
            .when("wicca", owner("get", ""))
            .when("wicca", configure(&[]))
            .told(&["wicca: iq error forbidden", "wicca: iq error forbidden"]),
        row("10.1.3", "a refused configuration: not-acceptable, and the room stays locked")
            .void()
            .after("crone", enter("firstwitch"))
            .when("crone", configure(&[("muc#roomconfig_whois", "nobody")]))
            .when("wicca", enter("wicca"))
            .told(&["crone: iq error not-acceptable", "wicca: presence error item-not-found"]),
        row("10.1.3", "an owner that cancels MUST be without the room")
            .void()
            .after("crone", enter("firstwitch"))
            .when("crone", owner("set", &form("cancel", &[])))
            .when("hag", iq("get", ROOM, "<query xmlns='http://jabber.org/protocol/disco#info'/>"))
            .told(&[
                "crone: firstwitch unavailable none/none 110 =crone destroyed, go to nowhere",
                "crone: result",
                "hag: iq error item-not-found",
            ]),
        row("10.1.1", "a room that was not configured when its owner left is no more")
            .void()
            .after("crone", enter("firstwitch"))
            .after("crone", leave("firstwitch", ""))
            .when("wicca", enter("wicca"))
            .told(&["wicca: wicca here moderator/owner 110 201 =wicca", "wicca: room subject ()"]),
    ]);
}

#[test]
fn configuring() {
    play(&[
        row("10.2", "a later cancel leaves everything as it is")
            .when("crone", owner("set", &form("cancel", &[])))
            .told(&["crone: result"]),
        row("10.2", "a room that becomes members-only MUST remove who is none: 322 to all")
            .when("crone", configure(&[("muc#roomconfig_membersonly", "1")]))
            .told(&[
                "crone: room status 104",
                "crone: wicca unavailable none/none 322 =wicca",
                "crone: result",
                "wicca: room status 104",
                "wicca: wicca unavailable none/none 110 322 =wicca",
            ]),
        row("10.2.1", "logged from now on: 170")
            .room(&[("persistentroom", "1"), ("enablelogging", "0")])
            .when("crone", configure(&[("muc#roomconfig_enablelogging", "1")]))
            .told(&["crone: room status 170", "crone: result", "wicca: room status 170"]),
        row("10.2.1", "not any more: 171")
            .room(&[("persistentroom", "1")])
            .when("crone", configure(&[("muc#roomconfig_enablelogging", "0")]))
            .told(&["crone: room status 171", "crone: result", "wicca: room status 171"]),
        row("10.2.1", "a temporary room is logged from now on: 170")
            .when("crone", configure(&[("muc#roomconfig_enablelogging", "1")]))
            .told(&["crone: room status 170", "crone: result", "wicca: room status 170"]),
        row("10.2.1", "not any more: 171")
            .room(&[("enablelogging", "1")])
            .when("crone", configure(&[("muc#roomconfig_enablelogging", "0")]))
            .told(&["crone: room status 171", "crone: result", "wicca: room status 171"]),
        row("10.2.1", "a logged room that becomes temporary is not logged any more: 171")
            .room(&[("persistentroom", "1")])
            .when("crone", configure(&[("muc#roomconfig_persistentroom", "0")]))
            .told(&[
                "crone: room status 171 status 104",
                "crone: result",
                "wicca: room status 171 status 104",
            ]),
        row("10.2.1", "a logged room that becomes temporary and is to be logged stays so: 104")
            .room(&[("persistentroom", "1")])
            .when(
                "crone",
                configure(&[("muc#roomconfig_persistentroom", "0"), ("muc#roomconfig_enablelogging", "1")]),
            )
            .told(&["crone: room status 104", "crone: result", "wicca: room status 104"]),
        row("10.2.1", "non-anonymous from now on: 172")
            .when("crone", configure(&[("muc#roomconfig_whois", "anyone")]))
            .told(&["crone: room status 172", "crone: result", "wicca: room status 172"]),
        row("10.2.1", "semi-anonymous: 173")
            .room(&[("whois", "anyone")])
            .when("crone", configure(&[("muc#roomconfig_whois", "moderators")]))
            .told(&["crone: room status 173", "crone: result", "wicca: room status 173"]),
        row("10.2.1", "anything else: 104")
            .when("crone", configure(&[("muc#roomconfig_roomname", "Cave")]))
            .told(&["crone: room status 104", "crone: result", "wicca: room status 104"]),
    ]);
}

#[test]
fn owners() {
    play(&[
        row("10.3", "a new owner's presence MUST come to all")
            .when("crone", affiliate(WICCA_BARE, "owner"))
            .told(&[
                "crone: wicca here moderator/owner =wicca by firstwitch",
                "crone: result",
                "wicca: wicca here moderator/owner 110 =wicca by firstwitch",
            ]),
        row("10.4", "an owner may be made less")
            .after("crone", affiliate(WICCA_BARE, "owner"))
            .when("crone", affiliate(WICCA_BARE, "admin"))
            .told(&[
                "crone: wicca here moderator/admin =wicca by firstwitch",
                "crone: result",
                "wicca: wicca here moderator/admin 110 =wicca by firstwitch",
            ]),
        row("10.4", "but the last one MUST remain: conflict")
            .when("crone", affiliate("crone1@example.org", "none"))
            .told(&["crone: iq error conflict"]),
        row("10.4", "one owner beside others SHOULD be let go")
            .after("crone", affiliate(WICCA_BARE, "owner"))
            .when("crone", affiliate("crone1@example.org", "none"))
            .told(&[
                "crone: firstwitch here participant/none 110 =crone by firstwitch",
                "crone: result",
                "wicca: firstwitch here participant/none =crone by firstwitch",
            ]),
        row("10.5", "the list of owners is theirs: forbidden")
            .when("crone", get("<item affiliation='owner'/>"))
            .when("wicca", get("<item affiliation='owner'/>"))
            .told(&["crone: result query [crone1@example.org owner]", "wicca: iq error forbidden"]),
        row("10.5", "so is changing it: forbidden")
            .after("crone", affiliate(WICCA_BARE, "admin"))
            .when("wicca", affiliate("hag66@shakespeare.lit", "owner"))
            .when("wicca", affiliate("crone1@example.org", "member"))
            .told(&["wicca: iq error forbidden", "wicca: iq error not-allowed"]),
    ]);
}

#[test]
fn administrators() {
    play(&[
        row("10.6", "a new administrator's presence MUST come to all")
            .when("crone", affiliate(WICCA_BARE, "admin"))
            .told(&[
                "crone: wicca here moderator/admin =wicca by firstwitch",
                "crone: result",
                "wicca: wicca here moderator/admin 110 =wicca by firstwitch",
            ]),
        row("10.6", "an administrator makes none: forbidden")
            .after("crone", affiliate(WICCA_BARE, "admin"))
            .when("wicca", affiliate("hag66@shakespeare.lit", "admin"))
            .told(&["wicca: iq error forbidden"]),
        row("10.7", "a removed administrator moderates no more, to all")
            .after("crone", affiliate(WICCA_BARE, "admin"))
            .when("crone", affiliate(WICCA_BARE, "member"))
            .told(&[
                "crone: wicca here participant/member =wicca by firstwitch",
                "crone: result",
                "wicca: wicca here participant/member 110 =wicca by firstwitch",
            ]),
        row("10.8", "the list of administrators is the owners': forbidden")
            .after("crone", affiliate(WICCA_BARE, "admin"))
            .when("crone", get("<item affiliation='admin'/>"))
            .when("wicca", get("<item affiliation='admin'/>"))
            .told(&["crone: result query [wiccarocks@example.org admin]", "wicca: iq error forbidden"]),
    ]);
}

#[test]
fn destroying() {
    let destroy = || {
        owner("set", "<destroy jid='cave@chat.shakespeare.lit'><reason>Macbeth doth come</reason></destroy>")
    };
    play(&[
        row("10.9", "all occupants MUST be told that it is destroyed, why and where to go; then the owner")
            .room(&[("persistentroom", "1")])
            .when("crone", destroy())
            .told(&[
                concat!(
                    "crone: firstwitch unavailable none/none 110 =crone",
                    " destroyed, go to cave@chat.shakespeare.lit (Macbeth doth come)"
                ),
                "crone: result",
                concat!(
                    "wicca: wicca unavailable none/none 110 =wicca",
                    " destroyed, go to cave@chat.shakespeare.lit (Macbeth doth come)"
                ),
            ]),
        row("10.9", "other users cannot destroy it: forbidden")
            .after("crone", affiliate(WICCA_BARE, "admin"))
            .when("wicca", destroy())
            .told(&["wicca: iq error forbidden"]),
        row("10.9", "and there is nothing left")
            .room(&[("persistentroom", "1")])
            .after("crone", destroy())
            .when("wicca", groupchat("<body>Hail</body>"))
            .told(&["wicca: message error item-not-found"]),
    ]);
}
