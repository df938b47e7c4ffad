//! The operator of the server and its administrators in rooms: owners for every IQ request (XEP-0045 §5.2).

use super::*;
use crate::effect::HostAction;

/// The address from which the server sends the operator's requests.
const OPERATOR: &str = "example.org/belfry-0-1";
const WITCH: &str = "<item affiliation='outcast' jid='wiccarocks@example.org'><reason>Toil</reason></item>";

fn form(fields: &[(&str, &str)]) -> String {
    let field = |(var, value): &(&str, &str)| format!("<field var='{var}'><value>{value}</value></field>");
    let fields: String = fields.iter().map(field).collect();
    format!("<query xmlns='{}'><x xmlns='jabber:x:data' type='submit'>{fields}</x></query>", ns::MUC_OWNER)
}

#[test]
fn an_operator_makes_configures_and_destroys_a_room() {
    let mut hall = Hall::new();
    // A question about no room makes none.
    let get = format!("<query xmlns='{}'/>", ns::MUC_OWNER);
    assert_eq!(outcome(&hall.iq(OPERATOR, "get", &get)), "item-not-found");
    let config = form(&[("muc#roomconfig_persistentroom", "1"), ("muc#roomconfig_roomname", "Tea")]);
    // Other accounts may not either.
    assert_eq!(outcome(&hall.iq(WICCA, "set", &config)), "item-not-found");
    assert_eq!(outcome(&hall.iq("shakespeare.lit/x", "set", &config)), "item-not-found");
    assert_eq!(outcome(&hall.iq(OPERATOR, "set", &config)), "result");
    assert!(hall.room().is_some(), "it is in the record");
    assert!(hall.room().unwrap().to_string().contains("jid='example.org'"), "a room has an owner");
    assert_eq!(hall.admin(OPERATOR, "<item affiliation='owner' jid='crone1@example.org'/>"), "result");
    let configured = hall.iq(CRONE, "get", &get).to_string();
    assert!(configured.contains("<value>Tea</value>"), "{configured}");
    hall.enter(WICCA, "witch");
    hall.forget();
    let destroy = format!(
        "<query xmlns='{}'><destroy><reason>Macbeth doth come</reason></destroy></query>",
        ns::MUC_OWNER
    );
    assert_eq!(outcome(&hall.iq(OPERATOR, "set", &destroy)), "result");
    let last = hall.only(WICCA).to_string();
    assert!(last.contains("<destroy") && last.contains("Macbeth doth come"), "{last}");
    assert!(hall.room().is_none());
}

#[test]
fn an_operator_bans_lists_and_kicks_without_being_there() {
    let mut hall = Hall::coven(&[("persistentroom", "1")]);
    hall.enter(WICCA, "witch");
    hall.enter(HAG, "hag");
    hall.forget();
    assert_eq!(hall.admin(HAG, WITCH), "forbidden");
    hall.forget();
    assert_eq!(hall.admin(OPERATOR, WITCH), "result");
    let gone = hall.hear(WICCA).pop().unwrap().to_string();
    assert!(gone.contains("code='301'") && gone.contains("Toil"), "{gone}");
    let list = |hall: &mut Hall, item: &str| {
        hall.iq(OPERATOR, "get", &format!("<query xmlns='{}'>{item}</query>", ns::MUC_ADMIN)).to_string()
    };
    assert!(list(&mut hall, "<item affiliation='outcast'/>").contains("wiccarocks@example.org"));
    assert!(list(&mut hall, "<item affiliation='owner'/>").contains("crone1@example.org"));
    assert!(list(&mut hall, "<item role='participant'/>").contains("hag66@shakespeare.lit/pda"));
    hall.forget();
    assert_eq!(
        hall.admin(OPERATOR, "<item role='none' nick='hag'><reason>Trouble</reason></item>"),
        "result"
    );
    let gone = hall.hear(HAG).pop().unwrap().to_string();
    assert!(gone.contains("code='307'") && gone.contains("Trouble"), "{gone}");
}

#[test]
fn an_administrator_of_the_server_has_the_rights_of_an_owner() {
    let mut settings = settings();
    settings.admins = vec![Bare::parse("wiccarocks@example.org").unwrap()];
    let mut hall = Hall::with(settings);
    hall.enter(CRONE, "firstwitch");
    hall.configure(&[]);
    let get = format!("<query xmlns='{}'/>", ns::MUC_OWNER);
    assert_eq!(outcome(&hall.iq(WICCA, "get", &get)), "result");
    assert_eq!(outcome(&hall.iq(HAG, "get", &get)), "forbidden");
    // As an occupant, an administrator has no special role.
    hall.enter(WICCA, "witch");
    let here = hall.hear(WICCA).iter().map(seen_or_nothing).collect::<Vec<_>>().join("; ");
    assert!(here.contains("witch here participant/none"), "{here}");
}

fn seen_or_nothing(stanza: &Element) -> String {
    if stanza.name() == "presence" { seen(stanza) } else { String::new() }
}

#[test]
fn rooms_of_all_hosts_are_listed_and_closed() {
    let mut hall = Hall::coven(&[("roomname", "Temporary")]);
    let mut out = Outbox::new();
    let acted = hall.host.act(
        START,
        &HostAction::DescribeRooms { domain: "conference.example.org".into() },
        &mut out,
    );
    let room = &acted.described_rooms[0];
    assert_eq!(
        (&*room.name, room.occupants, room.is_persistent, room.is_listed),
        ("Temporary", 1, false, true)
    );
    let none = hall.host.act(
        START,
        &HostAction::DescribeRooms { domain: "conference.example.com".into() },
        &mut out,
    );
    assert!(none.described_rooms.is_empty());
    hall.tell(|host, now, out| drop(host.act(now, &HostAction::CloseRooms, out)));
    assert!(hall.only(CRONE).to_string().contains("code='332'"));
}

#[test]
fn a_change_of_an_operator_that_cannot_be_stored_is_undone() {
    let mut hall = Hall::coven(&[("persistentroom", "1"), ("roomname", "Before")]);
    hall.is_broken = true;
    assert_eq!(
        outcome(&hall.iq(OPERATOR, "set", &form(&[("muc#roomconfig_roomname", "After")]))),
        "resource-constraint"
    );
    assert_eq!(hall.admin(OPERATOR, WITCH), "resource-constraint");
    hall.is_broken = false;
    let get = format!("<query xmlns='{}'/>", ns::MUC_OWNER);
    assert!(hall.iq(CRONE, "get", &get).to_string().contains("<value>Before</value>"));
    assert_eq!(hall.admin(WICCA, "<item affiliation='none' jid='crone1@example.org'/>"), "forbidden");
    let asked = hall.iq(
        OPERATOR,
        "get",
        &format!("<query xmlns='{}'><item affiliation='outcast'/></query>", ns::MUC_ADMIN),
    );
    assert!(!asked.to_string().contains("wiccarocks"), "{asked}");
}
