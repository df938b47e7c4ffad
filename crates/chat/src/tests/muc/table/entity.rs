//! §6: the public information of the service and its rooms.

use super::*;

const HOUSE: &str = "conference.example.org";
const INFO: &str = "<query xmlns='http://jabber.org/protocol/disco#info'/>";
const ITEMS: &str = "<query xmlns='http://jabber.org/protocol/disco#items'/>";
const OWN_ITEM: &str = "<query xmlns='http://jabber.org/protocol/disco#info' node='x-roomuser-item'/>";
const TRAFFIC: &str =
    "<query xmlns='http://jabber.org/protocol/disco#info' node='http://jabber.org/protocol/muc#traffic'/>";

#[test]
fn entities() {
    play(&[
        row("6.2", "a service MUST return its identity and features")
            .when("hag", iq("get", HOUSE, INFO))
            .told(&["hag: result query conference/text (Rooms)"]),
        row("6.3", "a service SHOULD list its public rooms")
            .room(&[("roomname", "A Dark Cave")])
            .when("hag", iq("get", HOUSE, ITEMS))
            .told(&["hag: result query [coven@conference.example.org]"]),
        row("6.3", "rooms that are hidden MUST NOT be listed")
            .room(&[("publicroom", "0")])
            .when("hag", iq("get", HOUSE, ITEMS))
            .told(&["hag: result query"]),
        row("6.4", "a room MUST return its identity, and SHOULD what it is and the roominfo form")
            .room(&[("roomname", "Cave"), ("roomdesc", "Brew"), ("lang", "en"), ("moderatedroom", "1")])
            .after("crone", groupchat("<subject>Fire Burn</subject>"))
            .when("hag", iq("get", ROOM, INFO))
            .told(&[concat!(
                "hag: result query conference/text (Cave)",
                " muc_temporary muc_public muc_moderated muc_open muc_unsecured muc_semianonymous",
                " form muc#roominfo_description=Brew muc#roominfo_occupants=2 muc#roominfo_subjectmod=0 muc#roominfo_changesubject=0",
                " muc#maxhistoryfetch=100 muc#roomconfig_changesubject=0",
                " {http://prosody.im/protocol/muc}roomconfig_allowmemberinvites=0",
                " muc#roominfo_subject=Fire Burn muc#roominfo_lang=en",
            )]),
        row("6.4", "of a room that does not exist there is nothing to say")
            .when("hag", iq("get", "ghost@conference.example.org", INFO))
            .told(&["hag: iq error item-not-found"]),
        row("6.5", "a room MAY return its occupants")
            .when("hag", iq("get", ROOM, ITEMS))
            .told(&["hag: result query [/firstwitch] [/wicca]"]),
        row("6.5", "and of a room that is not public only to those who are in it")
            .room(&[("publicroom", "0")])
            .when("hag", iq("get", ROOM, ITEMS))
            .when("wicca", iq("get", ROOM, ITEMS))
            .told(&["wicca: result query [/firstwitch] [/wicca]", "hag: result query"]),
        row("6.6", "a user outside that asks an occupant MUST get bad-request")
            .when("hag", iq("get", &format!("{ROOM}/wicca"), INFO))
            .when("hag", iq("get", &format!("{ROOM}/wicca"), ITEMS))
            .told(&["hag: iq error bad-request", "hag: iq error bad-request"]),
        row("6.6", "an occupant asks another's client through the room")
            .when("crone", iq("get", &format!("{ROOM}/wicca"), INFO))
            .told(&["wicca: get query"]),
        row("7.12", "a reserved nickname is the name of an identity, to its owner only")
            .after("hag", register("set", &form("submit", &[("muc#register_roomnick", "hag")])))
            .when("hag", iq("get", ROOM, OWN_ITEM))
            .when("wicca", iq("get", ROOM, OWN_ITEM))
            .told(&["wicca: result query", "hag: result query conference/text (hag)"]),
        row("17.1.1", "a room that restricts no traffic has no list of it")
            .when("hag", iq("get", ROOM, TRAFFIC))
            .told(&["hag: iq error feature-not-implemented"]),
    ]);
}
