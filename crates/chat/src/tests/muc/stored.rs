//! A room is read back as it was written, at its largest, and never taken for absent.

use xmpp::xml::parse_stored;

use super::*;
use crate::limits;

const PERSISTENT: &[(&str, &str)] = &[("persistentroom", "1")];

/// A new process with the bytes that the last one wrote.
pub(super) fn restart(mut hall: Hall) -> Hall {
    let through_bytes = |(room, config): (Bare, Element)| (room, parse_stored(&config.to_bytes("")).unwrap());
    let rooms = std::mem::take(&mut hall.rooms).into_iter().map(through_bytes).collect();
    Hall { rooms, ..Hall::new() }
}

#[test]
fn a_room_with_every_affiliation_it_may_have_still_belongs_to_its_owner_after_a_restart() {
    let mut hall = Hall::coven(PERSISTENT);
    let reason = "x".repeat(20);
    let mut users = (1..limits::AFFILIATIONS).map(|number| {
        format!("<item affiliation='member' jid='u{number}@example.org'><reason>{reason}</reason></item>")
    });
    loop {
        let some: String = users.by_ref().take(500).collect();
        if some.is_empty() {
            break;
        }
        assert_eq!(hall.admin(CRONE, &some), "result");
    }
    assert_eq!(hall.admin(CRONE, "<item affiliation='member' jid='one@more.org'/>"), "resource-constraint");
    let subject = "s".repeat(limits::ROOM_SUBJECT);
    hall.say(CRONE, &format!("<message type='groupchat' to='{ROOM}'><subject>{subject}</subject></message>"));
    let mut hall = restart(hall);
    hall.enter(HAG, "hag");
    let heard = hall.hear(HAG);
    assert_eq!(all_seen(&heard), ["hag here participant/none 110 170"], "the room is as it was");
    assert_eq!(heard.last().unwrap().content_of("subject", ns::CLIENT).unwrap(), subject);
    hall.enter("u4999@example.org/a", "last");
    assert_eq!(
        all_seen(&hall.hear("u4999@example.org/a")).last().unwrap(),
        "last here participant/member 110 170"
    );
}

#[test]
fn a_subject_is_text_of_a_bounded_length_and_nothing_else_of_its_message_is_kept() {
    let mut hall = Hall::coven(PERSISTENT);
    let deep = "<a xmlns='urn:deep'>".repeat(limits::DEPTH - 4) + &"</a>".repeat(limits::DEPTH - 4);
    let message = format!("<message type='groupchat' to='{ROOM}'><subject>Fire</subject>{deep}</message>");
    hall.say(CRONE, &message);
    assert!(hall.only(CRONE).to_string().contains("urn:deep"), "occupants get the message as it is");
    assert!(!hall.room().unwrap().to_string().contains("urn:deep"), "{}", hall.room().unwrap());
    for (long, texts) in [("x".repeat(limits::ROOM_SUBJECT + 1), 1), ("x".repeat(limits::ROOM_SUBJECT), 2)] {
        let subjects = format!("<subject>{long}</subject>").repeat(texts);
        hall.say(CRONE, &format!("<message type='groupchat' to='{ROOM}'>{subjects}</message>"));
        assert_eq!(outcome(&hall.only(CRONE)), "not-acceptable");
    }
    let mut hall = restart(hall);
    hall.enter(WICCA, "wicca");
    assert_eq!(hall.hear(WICCA).last().unwrap().content_of("subject", ns::CLIENT).unwrap(), "Fire");
}

#[test]
fn a_room_of_wider_limits_than_todays_is_read() {
    let mut hall = restart(Hall::coven(PERSISTENT));
    let (address, config) =
        hall.rooms.iter().next().map(|(room, config)| (room.clone(), config.clone())).unwrap();
    let long = "n".repeat(4 * limits::ROOM_DESCRIPTION);
    let deep = "<a>".repeat(4 * limits::DEPTH) + &"</a>".repeat(4 * limits::DEPTH);
    let text = String::from_utf8(config.to_bytes("")).unwrap();
    let field = |value: &str| {
        format!("var='muc#roomconfig_roomname' type='text-single' label='Name'><value>{value}</value>")
    };
    let wider = text
        .replace(&field("").replace("<value></value>", "<value/>"), &field(&long))
        .replace("</room>", &format!("<set at='2027-01-15T08:00:00Z'><message xmlns='jabber:client'><subject>old</subject>{deep}</message></set></room>"));
    assert!(wider.len() > text.len() + long.len(), "{text}");
    hall.rooms.insert(address, parse_stored(wider.as_bytes()).unwrap());
    hall.enter(WICCA, "wicca");
    let heard = hall.hear(WICCA);
    assert_eq!(all_seen(&heard), ["wicca here participant/none 110 170"]);
    assert_eq!(heard.last().unwrap().content_of("subject", ns::CLIENT).unwrap(), "old");
}
