//! Accounts that are removed, rooms without an owner, and how many rooms one account makes.

use super::*;
use crate::effect::HostAction;

const PERSISTENT: &[(&str, &str)] = &[("persistentroom", "1")];
const ADMIN: &str = "root@example.org/desk";

fn departs(hall: &mut Hall, user: &str) {
    let act = HostAction::Departed { user: Bare::parse(user).unwrap() };
    hall.tell(|host, now, out| drop(host.act(now, &act, out)));
}

#[test]
fn a_removed_account_is_nothing_in_a_room_any_more_and_its_bans_stay() {
    let mut hall = Hall::coven(PERSISTENT);
    for user in ["wiccarocks", "banned", "other"] {
        let affiliation = if user == "banned" { "outcast" } else { "admin" };
        hall.admin(CRONE, &format!("<item affiliation='{affiliation}' jid='{user}@example.org'/>"));
    }
    departs(&mut hall, "wiccarocks@example.org");
    departs(&mut hall, "banned@example.org");
    let stored = hall.room().unwrap().to_string();
    assert!(!stored.contains("wiccarocks") && stored.contains("other@"), "{stored}");
    assert!(stored.contains("banned@example.org"), "a new account is no way back");
    hall.forget();
    hall.enter(WICCA, "wicca");
    assert_eq!(all_seen(&hall.hear(WICCA)).last().unwrap(), "wicca here participant/none 110 170");
}

#[test]
fn a_room_being_written_when_an_account_goes_is_written_again_without_it() {
    let mut hall = Hall::coven(PERSISTENT);
    hall.holds = true;
    let item = "<item affiliation='owner' jid='wiccarocks@example.org'/>";
    let query = format!("<query xmlns='{}'>{item}</query>", ns::MUC_ADMIN);
    hall.say(CRONE, &format!("<iq id='q' type='set' to='{ROOM}'>{query}</iq>"));
    departs(&mut hall, "wiccarocks@example.org");
    hall.release();
    assert!(!hall.room().unwrap().to_string().contains("wiccarocks"));
}

#[test]
fn a_room_of_a_removed_owner_is_the_administrators() {
    let mut hall =
        Hall::with(HostSettings { admins: vec![Bare::parse("root@example.org").unwrap()], ..settings() });
    hall.enter(CRONE, "firstwitch");
    hall.configure(PERSISTENT);
    hall.say(CRONE, &format!("<presence type='unavailable' to='{ROOM}/firstwitch'/>"));
    departs(&mut hall, "crone1@example.org");
    let rooms = std::mem::take(&mut hall.rooms);
    let mut hall = Hall {
        rooms,
        host: Host::new(Arc::new(hall.host.settings().clone()), ShardAddress::default(), [7; 32]),
        ..hall
    };
    hall.forget();
    hall.enter(CRONE, "new");
    assert_eq!(all_seen(&hall.hear(CRONE)), ["new here participant/none 110 170"], "no new account owns it");
    let owner = "<item affiliation='owner' jid='crone1@example.org'/>";
    assert_eq!(hall.admin(CRONE, owner), "forbidden");
    assert_eq!(hall.admin(ADMIN, "<item affiliation='owner' jid='wiccarocks@example.org'/>"), "result");
    let destroy = format!("<query xmlns='{}'><destroy/></query>", ns::MUC_OWNER);
    assert_eq!(outcome(&hall.iq(ADMIN, "set", &destroy)), "result");
    assert!(hall.room().is_none());
}

#[test]
fn one_account_makes_so_many_persistent_rooms_and_no_more() {
    let mut hall = Hall::new();
    let form = "<x xmlns='jabber:x:data' type='submit'><field var='muc#roomconfig_persistentroom'><value>1</value></field></x>";
    let mut make = |owner: &str, room: &str| {
        let x = "<x xmlns='http://jabber.org/protocol/muc'/>";
        hall.say(owner, &format!("<presence to='{room}@conference.example.org/me'>{x}</presence>"));
        hall.forget();
        let query = format!("<query xmlns='{}'>{form}</query>", ns::MUC_OWNER);
        hall.say(owner, &format!("<iq id='q' type='set' to='{room}@conference.example.org'>{query}</iq>"));
        let heard = hall.hear(owner);
        let answer = heard.iter().find(|stanza| stanza.name() == "iq").unwrap();
        (outcome(answer), answer.to_string())
    };
    for number in 0..ROOMS_OF_USER {
        assert_eq!(make(CRONE, &format!("r{number}")).0, "result");
    }
    let (refused, text) = make(CRONE, "more");
    assert!(refused == "resource-constraint" && text.contains("destroy some"), "{text}");
    assert_eq!(make(WICCA, "another").0, "result", "it is no other account's bound");
}
