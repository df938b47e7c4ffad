//! Users that register themselves (XEP-0045 §7.10) are strangers: they have places of their own, and take none from administrators.

use super::*;
use crate::limits;

fn register(hall: &mut Hall, user: &str, nick: &str) -> String {
    let form = format!(
        "<x xmlns='jabber:x:data' type='submit'><field var='muc#register_roomnick'><value>{nick}</value></field></x>"
    );
    outcome(&hall.iq(user, "set", &format!("<query xmlns='jabber:iq:register'>{form}</query>")))
}

/// So many users of a domain register, until one is refused; the number of the others.
fn register_many(hall: &mut Hall, domain: &str, users: usize) -> usize {
    let is_refused = |number: &usize| {
        let outcome = register(hall, &format!("u{number}@{domain}"), &format!("{number} {domain}"));
        assert!(matches!(&*outcome, "result" | "resource-constraint"), "{outcome}");
        outcome != "result"
    };
    (0..users).find(is_refused).unwrap_or(users)
}

fn members(hall: &mut Hall) -> usize {
    let query = format!("<query xmlns='{}'><item affiliation='member'/></query>", ns::MUC_ADMIN);
    hall.iq(CRONE, "get", &query).first().unwrap().elements().count()
}

#[test]
fn strangers_do_not_fill_the_list_of_a_room() {
    let mut hall = Hall::coven(&[("persistentroom", "1")]);
    let most = limits::REGISTRATIONS_OF_DOMAIN;
    assert_eq!(register_many(&mut hall, "evil.example", most + 1), most);
    // Registered users may change their nicknames, and users of this server have not been refused for another's.
    assert_eq!(register(&mut hall, "u0@evil.example", "another"), "result");
    assert_eq!(register_many(&mut hall, "example.org", most + 1), most + 1);
    let mut count = 2 * most + 1;
    for domain in 0.. {
        let more = register_many(&mut hall, &format!("d{domain}.example"), most);
        count += more;
        if more < most {
            break;
        }
    }
    assert_eq!(count, limits::REGISTRATIONS);
    assert_eq!(register(&mut hall, "new@example.org", "new"), "resource-constraint");
    // A member that an administrator makes is none of them.
    assert_eq!(hall.admin(CRONE, "<item affiliation='member' jid='u1@evil.example'/>"), "result");
    assert_eq!(register(&mut hall, "new@example.org", "new"), "result");
    let mut hall = super::stored::restart(hall);
    assert_eq!(register(&mut hall, "newer@example.org", "newer"), "resource-constraint");
    // A ban of the domain is one of those that have registered, and not of that member.
    let before = members(&mut hall);
    assert_eq!(hall.admin(CRONE, "<item affiliation='outcast' jid='evil.example'/>"), "result");
    assert_eq!(members(&mut hall), before - (most - 1));
    assert_eq!(register(&mut hall, "u0@evil.example", "again"), "forbidden");
    assert_eq!(register(&mut hall, "newer@example.org", "newer"), "result");
}

#[test]
fn strangers_with_long_addresses_do_not_fill_the_row_of_a_room() {
    let mut hall = Hall::coven(&[("persistentroom", "1"), ("moderatedroom", "1")]);
    let local = "a".repeat(1_000);
    let user = |number: usize| format!("{local}{number}@d{number}.example");
    let count = (0..limits::REGISTRATIONS)
        .find(|number| register(&mut hall, &user(*number), &format!("n{number}")) != "result")
        .unwrap();
    assert!((50..70).contains(&count), "{count}");
    assert!(hall.room().unwrap().to_string().len() < 2 * limits::REGISTRATIONS_BYTES);
    assert_eq!(hall.admin(CRONE, "<item affiliation='outcast' jid='evil.example'/>"), "result");
}

/// In a moderated room a registered nickname is an entry that no list shows.
#[test]
fn an_administrator_frees_the_nickname_of_a_user_without_affiliation() {
    for config in [&[("persistentroom", "1"), ("moderatedroom", "1")][..], &[("persistentroom", "1")]] {
        let mut hall = Hall::coven(config);
        assert_eq!(register(&mut hall, HAG, "hag"), "result");
        assert_eq!(register(&mut hall, WICCA, "hag"), "conflict");
        let none = "<item affiliation='none' jid='hag66@shakespeare.lit'/>";
        assert_eq!(hall.admin(CRONE, none), "result");
        assert!(!hall.room().unwrap().to_string().contains("hag66"), "{}", hall.room().unwrap());
        assert_eq!(register(&mut hall, WICCA, "hag"), "result");
    }
}
