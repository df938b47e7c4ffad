//! XEP-0317: hats of users, which administrators of a room give.

use super::*;
use crate::limits;

const TEACHER: &str = "http://tech.example.edu/hats#Teacher";
const HAGS: &str = "hag66@shakespeare.lit";

fn command(node: &str, inner: &str) -> String {
    format!("<command xmlns='{}' node='urn:xmpp:hats:commands:{node}'>{inner}</command>", ns::COMMANDS)
}

fn form(fields: &[(&str, &str)]) -> String {
    let field = |(var, value): &(&str, &str)| format!("<field var='{var}'><value>{value}</value></field>");
    let fields: String = fields.iter().map(field).collect();
    format!(
        "<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>urn:xmpp:hats:commands</value></field>\
         {fields}</x>"
    )
}

fn don(hall: &mut Hall, from: &str, fields: &[(&str, &str)]) -> String {
    outcome(&hall.iq(from, "set", &command("don", &form(fields))))
}

/// URIs and titles of the hats in a presence.
fn hats(presence: &Element) -> Vec<String> {
    let hats = presence.get("hats", ns::HATS).into_iter().flat_map(Element::elements);
    hats.map(|hat| format!("{} {}", hat.attr("uri").unwrap(), hat.attr("title").unwrap())).collect()
}

/// §3.1 and §3.2.
#[test]
fn a_hat_is_given_and_taken_and_all_occupants_see_it() {
    let mut hall = Hall::coven(&[]);
    hall.enter(WICCA, "wicca");
    hall.enter(HAG, "hag");
    hall.forget();
    let answer = hall.iq(CRONE, "set", &command("don", ""));
    let asked = answer.get("command", ns::COMMANDS).unwrap();
    assert_eq!(asked.attr("status"), Some("executing"));
    let fields = asked.get("x", ns::DATA).unwrap().elements().filter_map(|field| field.attr("var"));
    assert_eq!(fields.collect::<Vec<_>>(), ["FORM_TYPE", "accountjid", "hat", "hat_uri", "hat_title"]);

    let new = [("accountjid", HAGS), ("hat_uri", TEACHER), ("hat_title", "Teacher's friend")];
    let answer = hall.iq(CRONE, "set", &command("don", &form(&new)));
    assert_eq!(answer.get("command", ns::COMMANDS).unwrap().attr("status"), Some("completed"));
    let worn = [format!("{TEACHER} Teacher's friend")];
    for occupant in [WICCA, HAG] {
        let seen = hall.only(occupant);
        assert_eq!((seen.attr("from"), hats(&seen)), (Some(&*format!("{ROOM}/hag")), worn.to_vec()));
    }
    // A later occupant sees it, and with each presence that the occupant sends.
    hall.forget();
    hall.say(HAG, &format!("<presence to='{ROOM}/hag'><show>away</show></presence>"));
    assert_eq!(hats(&hall.only(WICCA)), worn);
    // The hat is known now, and can be chosen for others; the title comes with it.
    let answer = hall.iq(CRONE, "set", &command("don", ""));
    assert!(answer.to_string().contains(&format!("<value>{TEACHER}</value></option>")), "{answer}");
    assert_eq!(
        don(&mut hall, CRONE, &[("accountjid", "wiccarocks@example.org"), ("hat", TEACHER)]),
        "result"
    );
    assert_eq!(hats(&hall.only(WICCA)), worn);

    hall.forget();
    // The example of §3.3: in one step, with the value in an option.
    let off = format!(
        "<x xmlns='jabber:x:data' type='submit'><field var='accountjid'><value>{HAGS}</value></field>\
         <field var='hat'><option label='Teacher'><value>{TEACHER}</value></option></field></x>"
    );
    assert_eq!(outcome(&hall.iq(CRONE, "set", &command("doff", &off))), "result");
    assert_eq!(hats(&hall.only(HAG)), [""; 0]);
    assert_eq!(outcome(&hall.iq(CRONE, "set", &command("doff", &off))), "item-not-found");
}

#[test]
fn an_occupant_gives_itself_no_hat() {
    let mut hall = Hall::coven(&[]);
    hall.enter(WICCA, "wicca");
    hall.forget();
    let forged = format!("<hats xmlns='{}'><hat uri='{TEACHER}' title='Teacher'/></hats>", ns::HATS);
    hall.say(WICCA, &format!("<presence to='{ROOM}/wicca'>{forged}</presence>"));
    assert_eq!(hats(&hall.only(CRONE)), [""; 0]);
    let message = format!("<message type='groupchat' to='{ROOM}'><body>x</body>{forged}</message>");
    hall.say(WICCA, &message);
    assert!(hall.only(CRONE).get("hats", ns::HATS).is_none());
    let own = [("accountjid", "wiccarocks@example.org"), ("hat_uri", TEACHER), ("hat_title", "x")];
    for (from, expected) in [(WICCA, "forbidden"), (HAG, "forbidden")] {
        assert_eq!(don(&mut hall, from, &own), expected, "{from}");
        assert_eq!(outcome(&hall.iq(from, "set", &command("don", ""))), expected, "{from}");
    }
}

#[test]
fn hats_that_cannot_be_are_refused_and_change_nothing() {
    let mut hall = Hall::coven(&[]);
    hall.enter(HAG, "hag");
    hall.forget();
    let (long_uri, long_title) =
        (format!("urn:{}", "x".repeat(limits::HAT_URI)), "x".repeat(limits::HAT_TITLE + 1));
    for (fields, expected) in [
        (&[("hat_uri", TEACHER), ("hat_title", "x")][..], "bad-request"),
        (&[("accountjid", HAGS)], "bad-request"),
        (&[("accountjid", "@"), ("hat_uri", TEACHER), ("hat_title", "x")], "jid-malformed"),
        (&[("accountjid", "shakespeare.lit"), ("hat_uri", TEACHER), ("hat_title", "x")], "not-acceptable"),
        (&[("accountjid", HAGS), ("hat_uri", TEACHER)], "not-acceptable"),
        (&[("accountjid", HAGS), ("hat_uri", "teacher"), ("hat_title", "x")], "not-acceptable"),
        (&[("accountjid", HAGS), ("hat_uri", "urn:a b"), ("hat_title", "x")], "not-acceptable"),
        (&[("accountjid", HAGS), ("hat_uri", &long_uri), ("hat_title", "x")], "not-acceptable"),
        (&[("accountjid", HAGS), ("hat_uri", TEACHER), ("hat_title", &long_title)], "not-acceptable"),
    ] {
        assert_eq!(don(&mut hall, CRONE, fields), expected, "{fields:?}");
    }
    assert_eq!(outcome(&hall.iq(CRONE, "set", &command("other", ""))), "item-not-found");
    assert!(hall.hear(HAG).is_empty());
    let limit = limits::HATS_OF_USER;
    for number in 0..=limit {
        let uri = format!("urn:hat:{number}");
        let outcome = don(&mut hall, CRONE, &[("accountjid", HAGS), ("hat_uri", &uri), ("hat_title", "x")]);
        assert_eq!(outcome, if number < limit { "result" } else { "resource-constraint" });
    }
    assert_eq!(hats(hall.hear(HAG).last().unwrap()).len(), limit);
    // Of all users of the room together.
    for number in limit..=limits::ROOM_HATS {
        let user = format!("u{number}@example.org");
        let outcome =
            don(&mut hall, CRONE, &[("accountjid", &user), ("hat_uri", TEACHER), ("hat_title", "x")]);
        assert_eq!(outcome, if number < limits::ROOM_HATS { "result" } else { "resource-constraint" });
    }
}

#[test]
fn hats_outlive_the_process_and_not_the_account() {
    let mut hall = Hall::coven(&[("persistentroom", "1")]);
    let given = [("accountjid", HAGS), ("hat_uri", TEACHER), ("hat_title", "Teacher")];
    assert_eq!(don(&mut hall, CRONE, &given), "result");
    let kept = hall.room().unwrap();
    let without = crate::departed::without_user(kept, &Bare::parse(HAGS).unwrap()).unwrap();
    assert!(kept.to_string().contains(TEACHER) && !without.to_string().contains(TEACHER));
    let mut hall = stored::restart(hall);
    hall.enter(HAG, "hag");
    let own = hall.hear(HAG).into_iter().find(|it| it.attr("from") == Some(&*format!("{ROOM}/hag"))).unwrap();
    assert_eq!(hats(&own), [format!("{TEACHER} Teacher")]);
    hall.is_broken = true;
    let more = [("accountjid", HAGS), ("hat_uri", "urn:hat:2"), ("hat_title", "Two")];
    assert_ne!(don(&mut hall, CRONE, &more), "result");
    hall.is_broken = false;
    hall.forget();
    hall.say(HAG, &format!("<presence to='{ROOM}/hag'/>"));
    assert_eq!(hats(&hall.only(HAG)).len(), 1, "a hat that cannot be stored is not worn");
}

/// XEP-0317 §2, XEP-0050 §2.2: the commands are listed for those that may give them.
#[test]
fn hats_are_discovered() {
    let mut hall = Hall::coven(&[]);
    let info = hall.iq(HAG, "get", &format!("<query xmlns='{}'/>", ns::DISCO_INFO));
    assert!(info.to_string().contains("<feature var='urn:xmpp:hats:0'/>"), "{info}");
    let list = format!("<query xmlns='{}' node='{}'/>", ns::DISCO_ITEMS, ns::COMMANDS);
    let count = |answer: Element| answer.get("query", ns::DISCO_ITEMS).unwrap().elements().count();
    assert_eq!((count(hall.iq(CRONE, "get", &list)), count(hall.iq(HAG, "get", &list))), (2, 0));
    let info = format!("<query xmlns='{}' node='urn:xmpp:hats:commands:don'/>", ns::DISCO_INFO);
    assert!(hall.iq(CRONE, "get", &info).to_string().contains("command-node"));
    assert_eq!(outcome(&hall.iq(HAG, "get", &info)), "item-not-found");
}
