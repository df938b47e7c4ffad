//! XEP-0045 §7.1 to §7.7, §7.14.

use super::*;

#[test]
fn the_first_occupant_makes_the_room_and_sees_itself_and_an_empty_subject() {
    let mut hall = Hall::new();
    hall.enter(CRONE, "firstwitch");
    let heard = hall.hear(CRONE);
    assert_eq!(all_seen(&heard), ["firstwitch here moderator/owner 110 201"]);
    assert_eq!(heard[0].attr("id"), Some("e"));
    let subject = &heard[1];
    assert!(
        heard.len() == 2 && subject.get("subject", ns::CLIENT).is_some_and(|set| set.content().is_empty())
    );
    assert_eq!(subject.attr("from"), Some(ROOM));
}

#[test]
fn no_user_enters_a_room_before_its_owner_has_configured_it() {
    let mut hall = Hall::new();
    hall.enter(CRONE, "firstwitch");
    hall.enter(WICCA, "secondwitch");
    let refused = hall.only(WICCA);
    assert_eq!(outcome(&refused), "item-not-found");
    assert_eq!(refused.get("error", ns::CLIENT).unwrap().attr("by"), Some(ROOM));
    hall.configure(&[]);
    hall.enter(WICCA, "secondwitch");
    assert_eq!(all_seen(&hall.hear(WICCA)).len(), 2);
}

#[test]
fn each_occupant_sees_the_others_then_itself_and_addresses_only_as_a_moderator() {
    let mut hall = Hall::coven(&[]);
    hall.enter(WICCA, "secondwitch");
    let heard = hall.hear(WICCA);
    assert_eq!(
        all_seen(&heard),
        ["firstwitch here moderator/owner", "secondwitch here participant/none 110"]
    );
    assert_eq!(item(&heard[0]).attr("jid"), None);
    assert_eq!(item(&heard[1]).attr("jid"), Some(WICCA));
    let owner = hall.only(CRONE);
    assert_eq!(item(&owner).attr("jid"), Some(WICCA));
    hall.enter(HAG, "hag");
    assert_eq!(item(&hall.only(WICCA)).attr("jid"), None);
    assert_eq!(item(&hall.only(CRONE)).attr("jid"), Some(HAG));
    let id = owner.get("occupant-id", ns::OCCUPANT_ID).unwrap().attr("id").unwrap().to_owned();
    assert!(!id.is_empty() && !id.contains("wicca"));
    // XEP-0421: the same user has the same id after entering again.
    hall.say(WICCA, &format!("<presence type='unavailable' to='{ROOM}/secondwitch'/>"));
    hall.enter("wiccarocks@example.org/phone", "another");
    let again = hall.hear(CRONE).pop().unwrap();
    assert_eq!(again.get("occupant-id", ns::OCCUPANT_ID).unwrap().attr("id"), Some(&*id));
}

#[test]
fn in_a_non_anonymous_room_each_occupant_sees_addresses_and_is_warned() {
    let mut hall = Hall::coven(&[("whois", "anyone")]);
    hall.enter(WICCA, "secondwitch");
    let heard = hall.hear(WICCA);
    assert_eq!(all_seen(&heard)[1], "secondwitch here participant/none 110 100");
    assert_eq!(item(&heard[0]).attr("jid"), Some(CRONE));
}

#[test]
fn a_taken_or_reserved_nickname_is_a_conflict_and_a_bad_one_not_acceptable() {
    let mut hall = Hall::coven(&[]);
    hall.enter(HAG, "firstwitch");
    assert_eq!(outcome(&hall.only(HAG)), "conflict");
    let form = "<x xmlns='jabber:x:data' type='submit'><field var='muc#register_roomnick'><value>wicca</value></field></x>";
    hall.iq(WICCA, "set", &format!("<query xmlns='jabber:iq:register'>{form}</query>"));
    hall.enter(HAG, "wicca");
    assert_eq!(outcome(&hall.only(HAG)), "conflict");
    hall.enter(HAG, &"x".repeat(129));
    assert_eq!(outcome(&hall.only(HAG)), "not-acceptable");
    hall.say(HAG, &format!("<presence to='{ROOM}'><x xmlns='{}'/></presence>", ns::MUC));
    assert_eq!(outcome(&hall.only(HAG)), "jid-malformed");
    hall.enter(WICCA, "wicca");
    assert_eq!(all_seen(&hall.hear(WICCA)).last().unwrap(), "wicca here participant/member 110");
}

#[test]
fn password_membership_ban_and_number_keep_people_out() {
    let mut hall = Hall::coven(&[("roomsecret", "cauldronburn")]);
    for (inside, expected) in [
        ("", "not-authorized"),
        ("<password>cauldronbern</password>", "not-authorized"),
        ("<password>cauldronburn</password>", ""),
    ] {
        hall.enter_with(HAG, "hag", inside);
        assert_eq!(outcome(&hall.hear(HAG)[0]), expected, "{inside}");
    }
    let mut hall = Hall::coven(&[("membersonly", "1")]);
    hall.enter(HAG, "hag");
    assert_eq!(outcome(&hall.only(HAG)), "registration-required");
    hall.admin(CRONE, "<item affiliation='outcast' jid='hag66@shakespeare.lit'/>");
    hall.enter(HAG, "hag");
    assert_eq!(outcome(&hall.only(HAG)), "forbidden");
    let mut hall = Hall::coven(&[("maxusers", "1")]);
    hall.enter(HAG, "hag");
    assert_eq!(outcome(&hall.only(HAG)), "service-unavailable");
    hall.admin(CRONE, "<item affiliation='admin' jid='hag66@shakespeare.lit'/>");
    hall.forget();
    hall.enter(HAG, "hag");
    assert_eq!(all_seen(&hall.hear(HAG)).last().unwrap(), "hag here moderator/admin 110");
}

#[test]
fn a_stanza_from_outside_a_room_is_refused_and_makes_no_room() {
    let mut hall = Hall::coven(&[]);
    hall.groupchat(HAG, "hello");
    assert_eq!(outcome(&hall.only(HAG)), "not-acceptable");
    hall.say(HAG, &format!("<presence to='{ROOM}/hag'/>"));
    assert_eq!(outcome(&hall.only(HAG)), "not-acceptable");
    let mut hall = Hall::new();
    hall.groupchat(WICCA, "hello");
    assert_eq!(outcome(&hall.only(WICCA)), "item-not-found");
    hall.say(WICCA, &format!("<presence to='{ROOM}/wicca'/>"));
    assert_eq!(outcome(&hall.only(WICCA)), "item-not-found");
    hall.enter(HAG, "hag");
    assert_eq!(outcome(&hall.only(HAG)), "not-allowed");
    // A stanza without effect costs no read.
    let loads = hall.loads;
    hall.say(HAG, &format!("<presence type='unavailable' to='{ROOM}/hag'/>"));
    assert_eq!((hall.loads, hall.hear(HAG).len()), (loads, 0));
}

#[test]
fn users_of_this_server_create_rooms() {
    for (user, expected) in [(CRONE, ""), (HAG, "not-allowed")] {
        let mut hall = Hall::with(settings());
        hall.enter(user, "x");
        assert_eq!(outcome(&hall.hear(user)[0]), expected, "{user}");
    }
}

#[test]
fn several_clients_of_one_user_share_a_nickname_and_leave_one_by_one() {
    let mut hall = Hall::coven(&[]);
    let phone = "wiccarocks@example.org/phone";
    hall.enter(WICCA, "wicca");
    hall.forget();
    hall.enter(phone, "wicca");
    assert_eq!(
        all_seen(&hall.hear(phone)),
        ["firstwitch here moderator/owner", "wicca here participant/none 110"]
    );
    assert_eq!(seen(&hall.only(WICCA)), "wicca here participant/none 110");
    assert_eq!(seen(&hall.only(CRONE)), "wicca here participant/none");
    hall.groupchat(CRONE, "hi");
    assert_eq!((hall.hear(WICCA).len(), hall.hear(phone).len()), (1, 1));
    hall.forget();
    hall.say(WICCA, &format!("<presence type='unavailable' to='{ROOM}/wicca'/>"));
    assert_eq!(seen(&hall.only(WICCA)), "wicca unavailable none/none 110");
    assert!(hall.mail.is_empty(), "{:?}", hall.mail);
    hall.say(
        phone,
        &format!("<presence type='unavailable' to='{ROOM}/wicca'><status>bye</status></presence>"),
    );
    let last = hall.only(CRONE);
    assert_eq!(seen(&last), "wicca unavailable none/none");
    assert_eq!(last.content_of("status", ns::CLIENT).unwrap(), "bye");
}

#[test]
fn a_new_nickname_is_seen_as_a_farewell_and_an_arrival() {
    let mut hall = Hall::coven(&[]);
    hall.enter(WICCA, "wicca");
    hall.forget();
    hall.say(WICCA, &format!("<presence id='n' to='{ROOM}/oldhag'/>"));
    let heard = hall.hear(CRONE);
    assert_eq!(all_seen(&heard), ["wicca unavailable participant/none 303", "oldhag here participant/none"]);
    assert_eq!(item(&heard[0]).attr("nick"), Some("oldhag"));
    let own = hall.hear(WICCA);
    assert_eq!(
        all_seen(&own),
        ["wicca unavailable participant/none 110 303", "oldhag here participant/none 110"]
    );
    hall.say(WICCA, &format!("<presence to='{ROOM}/firstwitch'/>"));
    assert_eq!(outcome(&hall.only(WICCA)), "conflict");
    // The old one is free.
    hall.enter(HAG, "wicca");
    assert_eq!(all_seen(&hall.hear(HAG)).len(), 3);
}

#[test]
fn one_of_two_clients_takes_another_nickname_and_comes_back() {
    let mut hall = Hall::coven(&[]);
    let phone = "wiccarocks@example.org/phone";
    hall.enter(WICCA, "wicca");
    hall.enter(phone, "wicca");
    hall.forget();
    hall.say(phone, &format!("<presence to='{ROOM}/mobile'/>"));
    assert_eq!(all_seen(&hall.hear(CRONE)), ["mobile here participant/none"]);
    assert_eq!(
        all_seen(&hall.hear(phone)),
        [
            "wicca unavailable participant/none 110 303",
            "wicca here participant/none",
            "mobile here participant/none 110"
        ]
    );
    hall.forget();
    hall.say(phone, &format!("<presence to='{ROOM}/wicca'/>"));
    assert_eq!(
        all_seen(&hall.hear(CRONE)),
        ["mobile unavailable participant/none 303", "wicca here participant/none"]
    );
}

#[test]
fn presence_is_passed_on_without_elements_reserved_for_the_room() {
    let mut hall = Hall::coven(&[]);
    hall.enter(WICCA, "wicca");
    hall.forget();
    let lie = format!(
        "<x xmlns='{}'><item role='moderator' affiliation='owner'/></x><occupant-id xmlns='{}' id='lie'/>",
        ns::MUC_USER,
        ns::OCCUPANT_ID
    );
    hall.say(WICCA, &format!("<presence to='{ROOM}/wicca'><show>xa</show>{lie}</presence>"));
    let heard = hall.only(CRONE);
    assert_eq!(heard.content_of("show", ns::CLIENT).unwrap(), "xa");
    assert_eq!(seen(&heard), "wicca here participant/none");
    let ids: Vec<_> = heard.elements().filter(|child| child.name() == "occupant-id").collect();
    assert!(ids.len() == 1 && ids[0].attr("id") != Some("lie"));
    hall.forget();
    // An occupant who enters later sees it too.
    hall.enter(HAG, "hag");
    assert!(hall.hear(HAG).iter().any(|one| one.content_of("show", ns::CLIENT).is_some()));
}

#[test]
fn a_client_that_forgot_where_it_is_sees_everything_again() {
    let mut hall = Hall::coven(&[]);
    hall.groupchat(CRONE, "welcome");
    hall.enter(WICCA, "wicca");
    hall.forget();
    hall.enter(WICCA, "wicca");
    let heard = hall.hear(WICCA);
    assert!(heard.iter().any(|stanza| body(stanza) == "welcome"));
    assert!(all_seen(&heard).contains(&"firstwitch here moderator/owner".to_owned()));
    assert_eq!(all_seen(&hall.hear(CRONE)), ["wicca here participant/none"]);
}

#[test]
fn a_client_that_cannot_be_reached_is_out() {
    for (condition, is_out) in [
        ("gone", true),
        ("recipient-unavailable", true),
        ("remote-server-not-found", true),
        ("service-unavailable", true),
        ("not-acceptable", false),
    ] {
        let error = format!("<error type='cancel'><{condition} xmlns='{}'/></error>", ns::STANZA_ERRORS);
        for stanza in ["presence", "message"] {
            let mut hall = Hall::coven(&[]);
            hall.enter(HAG, "hag");
            hall.forget();
            hall.say(HAG, &format!("<{stanza} type='error' to='{ROOM}/firstwitch'>{error}</{stanza}>"));
            let gone = all_seen(&hall.hear(CRONE));
            let expected: &[&str] = if is_out { &["hag unavailable none/none 307 333"] } else { &[] };
            assert_eq!(gone, expected, "{stanza} {condition}");
        }
    }
}

#[test]
fn the_end_of_the_service_is_told() {
    let mut hall = Hall::coven(&[]);
    hall.tell(|host, _, out| host.close_rooms(out));
    assert_eq!(seen(&hall.only(CRONE)), "firstwitch unavailable none/owner 110 332");
    hall.groupchat(CRONE, "hello?");
    assert_eq!(outcome(&hall.only(CRONE)), "item-not-found");
}

#[test]
fn a_nickname_that_is_written_otherwise_comes_back_prepared() {
    let mut hall = Hall::coven(&[]);
    hall.enter(WICCA, "ﬁre");
    assert_eq!(all_seen(&hall.hear(WICCA)).last().unwrap(), "fire here participant/none 110 210");
    hall.enter(HAG, "fire");
    assert_eq!(outcome(&hall.only(HAG)), "conflict");
}

#[test]
fn a_nickname_has_so_many_clients_and_a_room_so_many_occupants() {
    let mut hall = Hall::coven(&[]);
    for number in 0..crate::limits::SESSIONS_OF_OCCUPANT {
        hall.enter(&format!("hag66@shakespeare.lit/{number}"), "hag");
    }
    hall.forget();
    hall.enter(HAG, "hag");
    assert_eq!(outcome(&hall.only(HAG)), "resource-constraint");
    // Neither is it reached by another nickname.
    hall.enter(HAG, "other");
    hall.forget();
    hall.say(HAG, &format!("<presence to='{ROOM}/hag'/>"));
    assert_eq!(outcome(&hall.only(HAG)), "resource-constraint");
    hall.configure(&[("maxusers", "3")]);
    hall.forget();
    hall.say("hag66@shakespeare.lit/1", &format!("<presence to='{ROOM}/third'/>"));
    hall.forget();
    hall.say("hag66@shakespeare.lit/2", &format!("<presence to='{ROOM}/fourth'/>"));
    assert_eq!(outcome(&hall.only("hag66@shakespeare.lit/2")), "resource-constraint");
}
