//! Rooms and the store: rooms that are stored, rooms that are not, and failures of the store.

use super::*;

const PERSISTENT: &[(&str, &str)] = &[("persistentroom", "1"), ("roomname", "A Dark Cave")];

fn leave(hall: &mut Hall, jid: &str, nick: &str) {
    hall.say(jid, &format!("<presence type='unavailable' to='{ROOM}/{nick}'/>"));
}

/// A new process with the same record.
fn restart(mut hall: Hall) -> Hall {
    Hall { rooms: std::mem::take(&mut hall.rooms), history: std::mem::take(&mut hall.history), ..Hall::new() }
}

#[test]
fn a_temporary_room_goes_with_its_last_occupant_and_is_never_written() {
    let mut hall = Hall::coven(&[]);
    hall.groupchat(CRONE, "secret of the old room");
    leave(&mut hall, CRONE, "firstwitch");
    assert!(hall.changes.is_empty());
    hall.forget();
    hall.enter(WICCA, "wicca");
    let heard = hall.hear(WICCA);
    assert_eq!(all_seen(&heard), ["wicca here moderator/owner 110 201"]);
    assert!(heard.iter().all(|stanza| body(stanza).is_empty()));
}

/// XEP-0045 §10.2.1: any room may be logged. The next room of the address belongs to others.
#[test]
fn the_archive_of_a_temporary_room_ends_with_it() {
    let archives =
        |hall: &Hall| hall.changes.iter().filter(|it| matches!(it, Change::Archive { .. })).count();
    let removals = |hall: &Hall| {
        let is_removal = |change: &&Change| matches!(change, Change::Room { config: None, .. });
        hall.changes.iter().filter(is_removal).count()
    };
    let mut hall = Hall::coven(&[("enablelogging", "1")]);
    assert_eq!(hall.rooms.len(), 1);
    hall.groupchat(CRONE, "secret of the old room");
    assert_eq!((archives(&hall), removals(&hall)), (1, 0));
    leave(&mut hall, CRONE, "firstwitch");
    assert_eq!((removals(&hall), hall.rooms.len()), (1, 0));
    hall.forget();
    hall.enter(WICCA, "wicca");
    let heard = hall.hear(WICCA);
    assert_eq!(all_seen(&heard), ["wicca here moderator/owner 110 201"]);
    assert!(heard.iter().all(|stanza| body(stanza).is_empty()));
    // Logging is turned off: what was archived goes.
    let mut hall = Hall::coven(&[("enablelogging", "1")]);
    hall.groupchat(CRONE, "said while it was logged");
    hall.configure(&[("enablelogging", "0")]);
    assert_eq!((removals(&hall), hall.rooms.len()), (1, 0));
    hall.groupchat(CRONE, "said afterwards");
    assert_eq!(archives(&hall), 1);
    // After a crash the room is no more, whatever asks for its archive.
    let mut hall = Hall::coven(&[("enablelogging", "1")]);
    hall.groupchat(CRONE, "said before the crash");
    let mut hall = restart(hall);
    let query = "<query xmlns='urn:xmpp:mam:2'/>";
    assert_eq!(outcome(&hall.iq(CRONE, "set", query)), "item-not-found");
    assert_eq!((removals(&hall), hall.rooms.len()), (1, 0));
}

#[test]
fn a_persistent_room_survives_with_all_that_was_decided() {
    let mut hall = Hall::coven(PERSISTENT);
    hall.admin(
        CRONE,
        "<item affiliation='outcast' jid='hag66@shakespeare.lit'><reason>Treason</reason></item>",
    );
    hall.admin(CRONE, "<item affiliation='member' jid='wiccarocks@example.org'/>");
    let form = "<x xmlns='jabber:x:data' type='submit'><field var='muc#register_roomnick'><value>wicca</value></field></x>";
    hall.iq(WICCA, "set", &format!("<query xmlns='jabber:iq:register'>{form}</query>"));
    hall.say(CRONE, &format!("<message type='groupchat' to='{ROOM}'><subject>Fire</subject></message>"));
    let mut hall = restart(hall);
    hall.enter(HAG, "hag");
    assert_eq!(outcome(&hall.only(HAG)), "forbidden");
    hall.enter(HAG, "wicca");
    hall.forget();
    hall.enter(WICCA, "wicca");
    let heard = hall.hear(WICCA);
    assert_eq!(all_seen(&heard), ["wicca here participant/member 110 170"]);
    assert_eq!(heard.last().unwrap().content_of("subject", ns::CLIENT).unwrap(), "Fire");
    let list = format!("<query xmlns='{}'><item affiliation='outcast'/></query>", ns::MUC_ADMIN);
    assert!(hall.iq(CRONE, "get", &list).to_string().contains("Treason"));
    let names = hall.iq(CRONE, "get", &format!("<query xmlns='{}'/>", ns::DISCO_INFO)).to_string();
    assert!(names.contains("A Dark Cave"), "{names}");
}

#[test]
fn messages_before_a_restart_are_history() {
    let mut hall = restart(Hall::coven(PERSISTENT));
    let said = Element::new("message", ns::CLIENT)
        .with("type", "groupchat")
        .with("from", format!("{ROOM}/firstwitch"))
        .child(Element::new("body", ns::CLIENT).text("long ago"));
    hall.history = vec![("17".into(), START, said)];
    hall.enter(WICCA, "wicca");
    let heard = hall.hear(WICCA);
    let past = heard.iter().find(|stanza| body(stanza) == "long ago").unwrap();
    assert_eq!(past.get("stanza-id", ns::SID).unwrap().attr("id"), Some("17"));
    assert!(past.get("delay", ns::DELAY).is_some());
}

#[test]
fn an_owner_makes_a_room_temporary_and_the_record_forgets_it() {
    let mut hall = Hall::coven(PERSISTENT);
    assert!(hall.room().is_some());
    hall.configure(&[("persistentroom", "0")]);
    assert!(hall.room().is_none());
    leave(&mut hall, CRONE, "firstwitch");
    hall.forget();
    hall.enter(WICCA, "wicca");
    assert_eq!(all_seen(&hall.hear(WICCA)), ["wicca here moderator/owner 110 201"]);
}

#[test]
fn an_empty_room_rests_after_a_while_and_is_read_again() {
    let mut hall = Hall::coven(PERSISTENT);
    hall.enter(WICCA, "wicca");
    leave(&mut hall, CRONE, "firstwitch");
    assert_eq!(hall.host.deadline(), None);
    leave(&mut hall, WICCA, "wicca");
    let until = hall.host.deadline().unwrap();
    assert_eq!(until, START + crate::limits::ROOM_IDLE);
    let loads = hall.loads;
    // A user enters in time: the room stays.
    hall.now = START + Duration::from_secs(1);
    hall.enter(WICCA, "wicca");
    hall.now = until;
    hall.tell(Host::expire);
    hall.forget();
    hall.groupchat(WICCA, "still here");
    assert_eq!((body(&hall.only(WICCA)).as_str(), hall.loads), ("still here", loads));
    leave(&mut hall, WICCA, "wicca");
    hall.now = hall.host.deadline().unwrap();
    hall.tell(Host::expire);
    assert_eq!(hall.host.deadline(), None);
    hall.enter(WICCA, "wicca");
    assert_eq!(hall.loads, loads + 2);
}

#[test]
fn a_change_is_announced_when_it_is_on_disk_and_stanzas_wait_meanwhile() {
    let mut hall = Hall::coven(PERSISTENT);
    hall.enter(HAG, "hag");
    hall.forget();
    hall.holds = true;
    let ban = "<item affiliation='outcast' jid='hag66@shakespeare.lit'/>";
    hall.say(
        CRONE,
        &format!("<iq id='q' type='set' to='{ROOM}'><query xmlns='{}'>{ban}</query></iq>", ns::MUC_ADMIN),
    );
    hall.groupchat(HAG, "last words?");
    hall.groupchat(CRONE, "silence");
    assert!(hall.mail.is_empty(), "{:?}", hall.mail);
    hall.release();
    let heard = hall.hear(HAG);
    assert_eq!(seen(&heard[0]), "hag unavailable none/outcast 110 301");
    assert_eq!((heard.len(), outcome(&heard[1]).as_str()), (2, "not-acceptable"));
    assert_eq!(body(hall.hear(CRONE).last().unwrap()), "silence");
}

#[test]
fn a_change_that_cannot_be_written_has_no_effect() {
    let mut hall = Hall::coven(PERSISTENT);
    hall.enter(HAG, "hag");
    hall.forget();
    hall.is_broken = true;
    assert_eq!(hall.admin(CRONE, "<item affiliation='outcast' nick='hag'/>"), "resource-constraint");
    let destroy = format!("<query xmlns='{}'><destroy/></query>", ns::MUC_OWNER);
    assert_eq!(outcome(&hall.iq(CRONE, "set", &destroy)), "resource-constraint");
    let subject = format!("<message type='groupchat' to='{ROOM}'><subject>Fire</subject></message>");
    hall.say(CRONE, &subject);
    assert_eq!(outcome(&hall.only(CRONE)), "resource-constraint");
    assert!(hall.hear(HAG).is_empty());
    hall.is_broken = false;
    hall.groupchat(HAG, "I am still here");
    assert_eq!(body(&hall.only(HAG)), "I am still here");
    hall.forget();
    hall.enter(WICCA, "wicca");
    assert_eq!(hall.hear(WICCA).last().unwrap().content_of("subject", ns::CLIENT).unwrap(), "");
}

#[test]
fn a_room_that_cannot_be_read_is_refused_and_not_made_anew() {
    let mut hall = restart(Hall::coven(PERSISTENT));
    hall.is_broken = true;
    hall.enter(WICCA, "wicca");
    assert_eq!(outcome(&hall.only(WICCA)), "resource-constraint");
    hall.groupchat(WICCA, "?");
    assert_eq!(outcome(&hall.only(WICCA)), "resource-constraint");
    hall.is_broken = false;
    let good = hall.rooms.clone();
    for broken in [Element::new("x", "y"), good.values().next().unwrap().clone().with("secret", "zz")] {
        hall.rooms = good.keys().map(|room| (room.clone(), broken.clone())).collect();
        hall.enter(WICCA, "wicca");
        assert_eq!(outcome(&hall.only(WICCA)), "resource-constraint");
    }
    hall.rooms = good;
    hall.enter(WICCA, "wicca");
    assert_eq!(all_seen(&hall.hear(WICCA)), ["wicca here participant/none 110 170"]);
}

#[test]
fn too_many_stanzas_do_not_wait_for_a_room() {
    let mut hall = Hall::coven(PERSISTENT);
    hall.holds = true;
    hall.say(CRONE, &format!("<message type='groupchat' to='{ROOM}'><subject>Fire</subject></message>"));
    for _ in 0..=crate::limits::ROOM_WAITING {
        hall.groupchat(CRONE, "x");
    }
    assert_eq!(outcome(&hall.only(CRONE)), "resource-constraint");
    hall.release();
    assert_eq!(hall.hear(CRONE).len(), crate::limits::ROOM_WAITING + 1);
}

#[test]
fn the_archive_is_only_for_users_that_may_enter_the_room() {
    let mut hall = Hall::coven(PERSISTENT);
    let query = "<query xmlns='urn:xmpp:mam:2'/>";
    hall.configure(&[("membersonly", "1")]);
    assert_eq!(outcome(&hall.iq(HAG, "set", query)), "forbidden");
    hall.configure(&[("membersonly", "0"), ("enablelogging", "0")]);
    assert_eq!(outcome(&hall.iq(HAG, "set", query)), "service-unavailable");
    hall.admin(CRONE, "<item affiliation='outcast' jid='hag66@shakespeare.lit'/>");
    assert_eq!(outcome(&hall.iq(HAG, "set", query)), "forbidden");
}

/// XEP-0313 §6.1.2 and §8.4: neither `to` nor an address that the sender claims in `muc#user`.
#[test]
fn an_archived_message_has_no_addressee_and_no_claims_of_its_sender() {
    let mut hall = Hall::coven(PERSISTENT);
    hall.forget();
    let claim = format!("<x xmlns='{}'><item jid='king@shakespeare.lit'/></x>", ns::MUC_USER);
    hall.say(CRONE, &format!("<message type='groupchat' to='{ROOM}'><body>Hail</body>{claim}</message>"));
    let heard = hall.only(CRONE);
    let id = heard.get("stanza-id", ns::SID).unwrap().attr("id").unwrap();
    let stored = hall.archived(id).stanzas.remove(0).2;
    assert_eq!(stored.content_of("body", ns::CLIENT).as_deref(), Some("Hail"));
    assert_eq!(stored.attr("from").map(str::to_owned), Some(format!("{ROOM}/firstwitch")));
    assert_eq!(stored.attr("to"), None);
    assert!(!heard.to_string().contains("king@") && !stored.to_string().contains("king@"), "{stored}");
}

/// XEP-0313 §6.1.2, and XEP-0045 §7.2.13: the subject is sent after the history, and is no part of it.
#[test]
fn a_change_of_the_subject_is_archived_and_is_no_history() {
    let mut hall = Hall::coven(PERSISTENT);
    hall.forget();
    hall.say(CRONE, &format!("<message type='groupchat' to='{ROOM}'><subject>Fire</subject></message>"));
    let heard = hall.only(CRONE);
    let id = heard.get("stanza-id", ns::SID).unwrap().attr("id").unwrap();
    let (id, at, stored) = hall.archived(id).stanzas.remove(0);
    assert_eq!(stored.content_of("subject", ns::CLIENT).as_deref(), Some("Fire"));
    hall.history = vec![(id, at, stored)];
    let subjects = |hall: &mut Hall, occupant: &str| {
        let heard = hall.hear(occupant);
        heard.iter().filter(|stanza| stanza.get("subject", ns::CLIENT).is_some()).count()
    };
    hall.enter(WICCA, "wicca");
    assert_eq!(subjects(&mut hall, WICCA), 1);
    let mut hall = restart(hall);
    hall.enter(WICCA, "wicca");
    assert_eq!(subjects(&mut hall, WICCA), 1);
}

/// The clock of the process before was ahead. A client pages by the last id that it has.
#[test]
fn ids_of_a_room_sort_behind_those_of_its_history_after_a_start() {
    let mut hall = Hall::coven(PERSISTENT);
    let hail = format!("<message type='groupchat' to='{ROOM}'><body>Hail</body></message>");
    let say = |hall: &mut Hall| {
        hall.forget();
        hall.say(CRONE, &hail);
        let heard = hall.only(CRONE);
        let id = heard.get("stanza-id", ns::SID).unwrap().attr("id").unwrap();
        let (id, at, stored) = hall.archived(id).stanzas.remove(0);
        (id, at, stored)
    };
    let (_, at, stored) = say(&mut hall);
    let ahead = at + std::time::Duration::from_secs(3_600);
    let last: Box<str> = format!("{:014x}{:08x}", ahead.as_micros(), 7).into();
    hall.history = vec![(last.clone(), at, stored)];
    let mut hall = restart(hall);
    hall.enter(CRONE, "firstwitch");
    let (id, ..) = say(&mut hall);
    assert!(id > last, "{id} {last}");
}
