//! XEP-0045 §8.2 to §8.5, §9, §10.3 to §10.8.

use super::*;

const WICCA_BARE: &str = "wiccarocks@example.org";
const HAG_BARE: &str = "hag66@shakespeare.lit";

fn full_coven(config: &[(&str, &str)]) -> Hall {
    let mut hall = Hall::coven(config);
    hall.enter(WICCA, "wicca");
    hall.enter(HAG, "hag");
    hall.forget();
    hall
}

fn list(hall: &mut Hall, from: &str, item: &str) -> Result<Vec<String>, String> {
    let answer = hall.iq(from, "get", &format!("<query xmlns='{}'><item {item}/></query>", ns::MUC_ADMIN));
    if answer.attr("type") == Some("error") {
        return Err(outcome(&answer));
    }
    let items = answer.first().unwrap().elements();
    Ok(items.map(|item| item.attr("jid").unwrap().to_owned()).collect())
}

#[test]
fn a_kicked_occupant_is_out_with_a_reason_and_may_come_back() {
    let mut hall = full_coven(&[]);
    let kick = "<item nick='hag' role='none'><reason>Avaunt</reason></item>";
    assert_eq!(hall.admin(WICCA, kick), "forbidden");
    assert_eq!(hall.admin("stranger@example.org/x", kick), "forbidden");
    assert_eq!(hall.admin(CRONE, "<item nick='ghost' role='none'/>"), "item-not-found");
    hall.forget();
    assert_eq!(hall.admin(CRONE, kick), "result");
    let own = hall.only(HAG);
    assert_eq!(seen(&own), "hag unavailable none/none 110 307");
    assert_eq!(item(&own).content_of("reason", ns::MUC_USER).unwrap(), "Avaunt");
    assert_eq!(item(&own).get("actor", ns::MUC_USER).unwrap().attr("nick"), Some("firstwitch"));
    assert_eq!(seen(&hall.only(WICCA)), "hag unavailable none/none 307");
    hall.enter(HAG, "hag");
    assert_eq!(all_seen(&hall.hear(HAG)).len(), 3);
}

#[test]
fn voice_and_moderation_come_and_go() {
    let mut hall = full_coven(&[("moderatedroom", "1")]);
    for (by, role, expected) in [
        (CRONE, "participant", "hag here participant/none"),
        (CRONE, "visitor", "hag here visitor/none"),
        (CRONE, "moderator", "hag here moderator/none"),
        (CRONE, "participant", "hag here participant/none"),
    ] {
        assert_eq!(hall.admin(by, &format!("<item nick='hag' role='{role}'/>")), "result");
        assert_eq!(seen(&hall.only(WICCA)), expected);
        hall.forget();
    }
    // A moderator without affiliation grants voice, but makes no moderators.
    hall.admin(CRONE, "<item nick='wicca' role='moderator'/>");
    assert_eq!(hall.admin(WICCA, "<item nick='hag' role='visitor'/>"), "result");
    assert_eq!(hall.admin(WICCA, "<item nick='hag' role='moderator'/>"), "forbidden");
    assert_eq!(hall.admin(WICCA, "<item nick='firstwitch' role='participant'/>"), "not-allowed");
    assert_eq!(hall.admin(WICCA, "<item nick='firstwitch' role='none'/>"), "not-allowed");
    assert_eq!(list(&mut hall, WICCA, "role='visitor'").unwrap(), [HAG]);
    assert_eq!(list(&mut hall, WICCA, "role='moderator'").unwrap_err(), "forbidden");
    assert_eq!(list(&mut hall, CRONE, "role='moderator'").unwrap(), [CRONE, WICCA]);
    assert_eq!(list(&mut hall, HAG, "role='participant'").unwrap_err(), "forbidden");
}

#[test]
fn a_banned_occupant_is_out_until_the_ban_is_lifted() {
    let mut hall = full_coven(&[]);
    let ban = format!("<item affiliation='outcast' jid='{HAG_BARE}'><reason>Treason</reason></item>");
    assert_eq!(hall.admin(WICCA, &ban), "forbidden");
    hall.forget();
    assert_eq!(hall.admin(CRONE, &ban), "result");
    let own = hall.only(HAG);
    assert_eq!(seen(&own), "hag unavailable none/outcast 110 301");
    assert_eq!(item(&own).content_of("reason", ns::MUC_USER).unwrap(), "Treason");
    hall.enter(HAG, "hag");
    assert_eq!(outcome(&hall.only(HAG)), "forbidden");
    assert_eq!(list(&mut hall, CRONE, "affiliation='outcast'").unwrap(), [HAG_BARE]);
    assert_eq!(list(&mut hall, WICCA, "affiliation='outcast'").unwrap_err(), "forbidden");
    assert_eq!(hall.admin(CRONE, &format!("<item affiliation='none' jid='{HAG_BARE}'/>")), "result");
    hall.forget();
    hall.enter(HAG, "hag");
    assert_eq!(all_seen(&hall.hear(HAG)).len(), 3);
}

#[test]
fn a_whole_domain_is_banned_but_for_its_members() {
    let mut hall = full_coven(&[]);
    hall.admin(CRONE, "<item affiliation='member' jid='macbeth@shakespeare.lit'/>");
    hall.enter("macbeth@shakespeare.lit/x", "thane");
    hall.forget();
    assert_eq!(hall.admin(CRONE, "<item affiliation='outcast' jid='shakespeare.lit'/>"), "result");
    assert_eq!(seen(&hall.only(HAG)), "hag unavailable none/outcast 110 301");
    assert_eq!(all_seen(&hall.hear("macbeth@shakespeare.lit/x")), ["hag unavailable none/outcast 301"]);
    assert_eq!(hall.admin(CRONE, "<item affiliation='admin' jid='shakespeare.lit'/>"), "not-acceptable");
}

#[test]
fn membership_is_voice_in_a_moderated_room_and_a_place_in_one_for_members() {
    let mut hall = full_coven(&[("moderatedroom", "1")]);
    hall.admin(CRONE, &format!("<item affiliation='member' jid='{HAG_BARE}'/>"));
    assert_eq!(seen(&hall.only(HAG)), "hag here participant/member 110");
    hall.admin(CRONE, &format!("<item affiliation='none' jid='{HAG_BARE}'/>"));
    assert_eq!(seen(&hall.only(HAG)), "hag here visitor/none 110");
    hall.admin(CRONE, "<item affiliation='member' nick='hag'/>");
    hall.forget();
    hall.configure(&[("membersonly", "1")]);
    assert_eq!(seen(&hall.hear(WICCA).pop().unwrap()), "wicca unavailable none/none 110 322");
    hall.forget();
    hall.admin(CRONE, &format!("<item affiliation='none' jid='{HAG_BARE}'/>"));
    assert_eq!(seen(&hall.only(HAG)), "hag unavailable none/none 110 321");
}

#[test]
fn administrators_moderate_and_edit_members_but_not_each_other() {
    let mut hall = full_coven(&[]);
    hall.admin(CRONE, &format!("<item affiliation='admin' jid='{WICCA_BARE}'/>"));
    assert_eq!(seen(&hall.only(WICCA)), "wicca here moderator/admin 110");
    assert_eq!(hall.admin(WICCA, "<item affiliation='admin' nick='hag'/>"), "forbidden");
    assert_eq!(hall.admin(WICCA, "<item affiliation='owner' nick='hag'/>"), "forbidden");
    assert_eq!(hall.admin(WICCA, "<item affiliation='none' nick='firstwitch'/>"), "not-allowed");
    assert_eq!(hall.admin(WICCA, "<item affiliation='outcast' nick='firstwitch'/>"), "not-allowed");
    assert_eq!(hall.admin(WICCA, "<item affiliation='outcast' nick='wicca'/>"), "conflict");
    assert_eq!(hall.admin(WICCA, "<item affiliation='member' nick='hag'/>"), "result");
    assert_eq!(list(&mut hall, WICCA, "affiliation='member'").unwrap(), [HAG_BARE]);
    assert_eq!(list(&mut hall, WICCA, "affiliation='owner'").unwrap_err(), "forbidden");
    assert_eq!(list(&mut hall, CRONE, "affiliation='admin'").unwrap(), [WICCA_BARE]);
    // A user who may no longer be a moderator loses the role.
    hall.forget();
    hall.admin(CRONE, "<item affiliation='none' nick='wicca'/>");
    assert_eq!(seen(&hall.only(WICCA)), "wicca here participant/none 110");
}

#[test]
fn an_owner_always_remains() {
    let mut hall = full_coven(&[]);
    assert_eq!(hall.admin(CRONE, "<item affiliation='none' nick='firstwitch'/>"), "conflict");
    let swap = "<item affiliation='member' nick='firstwitch'/><item affiliation='owner' nick='hag'/>";
    assert_eq!(hall.admin(CRONE, swap), "result");
    assert_eq!(list(&mut hall, HAG, "affiliation='owner'").unwrap(), [HAG_BARE]);
    assert_eq!(hall.admin(CRONE, swap), "forbidden");
}

#[test]
fn a_request_is_done_whole_or_not_at_all() {
    let mut hall = full_coven(&[]);
    for (items, expected) in [
        (
            "<item affiliation='member' nick='hag'/><item affiliation='member' nick='ghost'/>",
            "item-not-found",
        ),
        ("<item affiliation='member' nick='hag'/><item affiliation='king' nick='hag'/>", "bad-request"),
        ("<item affiliation='member' nick='hag'/><item affiliation='member' jid='@'/>", "jid-malformed"),
        ("<item affiliation='member' nick='hag'/><item/>", "bad-request"),
        ("<item role='king' nick='hag'/>", "bad-request"),
        ("<item role='none'/>", "bad-request"),
        ("", "bad-request"),
    ] {
        assert_eq!(hall.admin(CRONE, items), expected, "{items}");
        assert_eq!(hall.hear(HAG).len(), 0, "{items}");
    }
    assert_eq!(list(&mut hall, CRONE, "affiliation='member'").unwrap(), [""; 0]);
    assert_eq!(list(&mut hall, CRONE, "").unwrap_err(), "bad-request");
    assert_eq!(list(&mut hall, CRONE, "role='x'").unwrap_err(), "bad-request");
}

#[test]
fn moderators_learn_the_new_affiliation_of_an_absent_user() {
    let mut hall = full_coven(&[]);
    hall.admin(CRONE, "<item affiliation='member' jid='hecate@shakespeare.lit'/>");
    let told = hall.only(CRONE);
    assert_eq!(told.name(), "message");
    assert_eq!(item(&told).attr("jid"), Some("hecate@shakespeare.lit"));
    assert!(hall.hear(HAG).is_empty());
}

#[test]
fn members_of_a_non_anonymous_members_only_room_read_its_owners_and_members() {
    let mut hall = full_coven(&[]);
    hall.admin(CRONE, "<item affiliation='member' nick='hag'/>");
    assert_eq!(list(&mut hall, HAG, "affiliation='owner'").unwrap_err(), "forbidden");
    hall.configure(&[("membersonly", "1"), ("whois", "anyone")]);
    assert_eq!(list(&mut hall, HAG, "affiliation='owner'").unwrap(), ["crone1@example.org"]);
    assert_eq!(list(&mut hall, HAG, "affiliation='member'").unwrap(), [HAG_BARE]);
    assert_eq!(list(&mut hall, HAG, "affiliation='outcast'").unwrap_err(), "forbidden");
}

#[test]
fn a_moderator_that_becomes_a_member_stays_a_moderator() {
    let mut hall = full_coven(&[]);
    hall.admin(CRONE, "<item nick='hag' role='moderator'/>");
    hall.forget();
    hall.admin(CRONE, "<item affiliation='member' nick='hag'/>");
    assert_eq!(seen(&hall.only(HAG)), "hag here moderator/member 110");
}

#[test]
fn a_list_of_members_has_an_end() {
    let mut hall = full_coven(&[]);
    let items: String = (0..crate::limits::AFFILIATIONS)
        .map(|number| format!("<item affiliation='member' jid='m{number}@example.org'/>"))
        .collect();
    assert_eq!(hall.admin(CRONE, &items), "resource-constraint");
    let fitting = items.rsplit_once("<item").unwrap().0;
    assert_eq!(hall.admin(CRONE, fitting), "result");
    assert_eq!(hall.admin(CRONE, "<item affiliation='member' nick='hag'/>"), "resource-constraint");
    assert_eq!(hall.admin(CRONE, "<item affiliation='none' jid='m1@example.org'/>"), "result");
    assert_eq!(hall.admin(CRONE, "<item affiliation='member' nick='hag'/>"), "result");
    // Bans have places of their own, and a request that does not make the list longer is done.
    assert_eq!(hall.admin(CRONE, "<item affiliation='outcast' jid='evil.example'/>"), "result");
    let swap =
        "<item affiliation='none' jid='m2@example.org'/><item affiliation='member' jid='m1@example.org'/>";
    assert_eq!(hall.admin(CRONE, swap), "result");
    assert_eq!(hall.admin(CRONE, "<item affiliation='member' jid='m2@example.org'/>"), "resource-constraint");
    let bans: String = (1..crate::limits::BANS_RESERVED)
        .map(|number| format!("<item affiliation='outcast' jid='evil{number}.example'/>"))
        .collect();
    assert_eq!(hall.admin(CRONE, &bans), "result");
    assert_eq!(hall.admin(CRONE, "<item affiliation='outcast' jid='last.example'/>"), "resource-constraint");
}
