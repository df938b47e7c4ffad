//! Rooms of a farm, whose host dies: a temporary one is stored while it has occupants, and the next host reads it if nodes announce
//! occupants.

use super::*;

const CLOSED: &[(&str, &str)] = &[("membersonly", "1"), ("roomname", "A Dark Cave")];
const SECRET: &[(&str, &str)] = &[("passwordprotectedroom", "1"), ("roomsecret", "cauldron")];

/// As [`Hall::coven`], in a farm.
fn coven(config: &[(&str, &str)]) -> Hall {
    let mut hall = Hall::new();
    crate::ownership::share_addresses(&mut hall.host);
    hall.enter(CRONE, "firstwitch");
    hall.configure(config);
    hall.forget();
    hall
}

/// The host has died; the next one has its database.
fn die(mut hall: Hall) -> Hall {
    let mut next = Hall { rooms: std::mem::take(&mut hall.rooms), now: hall.now, ..Hall::new() };
    crate::ownership::share_addresses(&mut next.host);
    next
}

/// A node announces what its clients have seen, and its clients among the occupants.
fn announce(hall: &mut Hall, nicks: &[&str], sessions: &[(&str, &str)]) {
    let room = Bare::parse(ROOM).unwrap();
    let sessions: Vec<(&str, Jid)> =
        sessions.iter().map(|(nick, jid)| (*nick, Jid::parse(jid).unwrap())).collect();
    let all = nicks.iter().map(|nick| (*nick, None));
    let all = all.chain(sessions.iter().map(|(nick, jid)| (*nick, Some(jid))));
    for stanza in ::muc::seen::announcements(&room, all) {
        hall.tell(|host, now, out| host.handle_routed(now, stanza, out));
    }
}

fn enter_again(hall: &mut Hall, from: &str, nick: &str) {
    let presence = Element::new("presence", ns::CLIENT)
        .with("from", from)
        .with("to", format!("{ROOM}/{nick}"))
        .child(::muc::again());
    hall.tell(|host, now, out| host.handle_routed(now, presence, out));
}

fn wait(hall: &mut Hall) {
    hall.now = hall.now + crate::limits::ROOM_RESTORE;
    hall.tell(Host::expire);
}

fn leave(hall: &mut Hall, jid: &str, nick: &str) {
    hall.say(jid, &format!("<presence type='unavailable' to='{ROOM}/{nick}'/>"));
}

#[test]
fn a_temporary_room_keeps_its_rights_and_its_subject() {
    let mut hall = coven(CLOSED);
    hall.admin(CRONE, "<item affiliation='member' jid='wiccarocks@example.org'/>");
    hall.enter(WICCA, "wicca");
    hall.say(CRONE, &format!("<message type='groupchat' to='{ROOM}'><subject>Fire</subject></message>"));
    let mut hall = die(hall);
    announce(&mut hall, &["firstwitch"], &[("wicca", WICCA)]);
    // A stranger comes before the occupants: the room is closed.
    hall.enter(HAG, "hag");
    assert_eq!(outcome(&hall.only(HAG)), "registration-required");
    hall.forget();
    enter_again(&mut hall, WICCA, "wicca");
    let heard = hall.hear(WICCA);
    assert_eq!(all_seen(&heard), ["wicca here participant/member 110"]);
    assert_eq!(heard.last().unwrap().content_of("subject", ns::CLIENT).unwrap(), "Fire");
    enter_again(&mut hall, CRONE, "firstwitch");
    assert!(all_seen(&hall.hear(CRONE)).contains(&"firstwitch here moderator/owner 110".to_owned()));
}

#[test]
fn only_announced_occupants_come_back_without_the_password() {
    let mut hall = coven(SECRET);
    hall.enter_with(WICCA, "wicca", "<password>cauldron</password>");
    let mut hall = die(hall);
    announce(&mut hall, &[], &[("firstwitch", CRONE), ("wicca", WICCA)]);
    enter_again(&mut hall, HAG, "hag");
    assert_eq!(outcome(&hall.only(HAG)), "not-authorized");
    hall.enter(WICCA, "wicca");
    assert_eq!(outcome(&hall.only(WICCA)), "not-authorized", "its client asks, as any other");
    hall.forget();
    enter_again(&mut hall, WICCA, "wicca");
    assert_eq!(all_seen(&hall.hear(WICCA)), ["wicca here participant/none 110"]);
    // Later it is a request as any other.
    leave(&mut hall, WICCA, "wicca");
    wait(&mut hall);
    enter_again(&mut hall, CRONE, "firstwitch");
    assert!(hall.room().is_none(), "its last occupant has left");
}

#[test]
fn occupants_that_do_not_come_back_have_left() {
    let mut hall = coven(&[]);
    hall.enter(WICCA, "wicca");
    hall.enter(HAG, "hag");
    let mut hall = die(hall);
    announce(&mut hall, &["firstwitch", "hag"], &[("wicca", WICCA)]);
    enter_again(&mut hall, WICCA, "wicca");
    enter_again(&mut hall, CRONE, "firstwitch");
    hall.forget();
    wait(&mut hall);
    let heard = hall.hear(WICCA);
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert_eq!(
        (heard[0].attr("from"), heard[0].attr("type")),
        (Some("coven@conference.example.org/hag"), Some("unavailable"))
    );
    assert_eq!(hall.hear(CRONE).len(), 1);
    assert_eq!(hall.host.deadline(), None);
}

#[test]
fn announcements_of_strangers_are_none() {
    let mut hall = coven(&[]);
    hall.enter(WICCA, "wicca");
    hall.forget();
    let seen = format!(
        "<presence type='unavailable' to='{ROOM}'><seen xmlns='urn:belfry:rooms'><occupant nick='hag' jid='{HAG}'/></seen></presence>"
    );
    hall.say(HAG, &seen);
    hall.say("shakespeare.lit", &seen);
    assert_eq!(hall.host.deadline(), None);
}

#[test]
fn a_temporary_room_that_no_node_announces_has_ended() {
    let mut hall = die(coven(CLOSED));
    assert!(hall.room().is_some());
    hall.enter(WICCA, "wicca");
    assert_eq!(all_seen(&hall.hear(WICCA)), ["wicca here moderator/owner 110 201"]);
    assert!(hall.room().is_none(), "until the new one is configured");
    // Announced, and none of its occupants has come back in time.
    let mut hall = die(coven(CLOSED));
    announce(&mut hall, &["firstwitch"], &[]);
    wait(&mut hall);
    assert!(hall.room().is_none());
    assert_eq!(hall.host.rooms(), (0, 0));
}

#[test]
fn a_temporary_room_goes_with_its_last_occupant_also_when_the_store_fails() {
    let mut hall = coven(&[]);
    assert!(hall.room().is_some());
    leave(&mut hall, CRONE, "firstwitch");
    assert!(hall.room().is_none());
    assert_eq!(seen(&hall.only(CRONE)), "firstwitch unavailable none/owner 110");
    let mut hall = coven(CLOSED);
    hall.is_broken = true;
    leave(&mut hall, CRONE, "firstwitch");
    assert_eq!(seen(&hall.only(CRONE)), "firstwitch unavailable none/owner 110");
    hall.is_broken = false;
    hall.enter(WICCA, "wicca");
    assert_eq!(all_seen(&hall.hear(WICCA)), ["wicca here moderator/owner 110 201"]);
}

#[test]
fn a_room_that_is_not_configured_is_not_stored() {
    let mut hall = Hall::new();
    crate::ownership::share_addresses(&mut hall.host);
    hall.enter(CRONE, "firstwitch");
    hall.admin(CRONE, "<item affiliation='member' jid='wiccarocks@example.org'/>");
    assert!(hall.room().is_none());
}

#[test]
fn a_temporary_room_is_in_no_list_of_stored_rooms_and_counts_for_no_account() {
    let mut hall = coven(&[]);
    let charged = |hall: &Hall| {
        hall.changes.iter().filter(|change| matches!(change, Change::Room { charged: Some(_), .. })).count()
    };
    assert_eq!((hall.changes.len(), charged(&hall)), (1, 0));
    let stored = hall.room().unwrap().clone();
    assert!(::muc::stored_listing(&stored).is_none() && ::muc::stored_name(&stored).is_none());
    hall.configure(&[("persistentroom", "1")]);
    assert_eq!((hall.changes.len(), charged(&hall)), (2, 1));
    hall.configure(&[("persistentroom", "0")]);
    assert!(hall.room().is_some());
    hall.tell(|host, now, out| crate::ownership::end_addresses(host, now, |_| true, "reset", out));
    assert!(hall.room().is_none());
}
