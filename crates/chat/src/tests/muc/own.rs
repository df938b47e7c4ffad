//! XEP-0045 §10.1, §10.2, §10.9.

use super::*;

fn owner(inside: &str) -> String {
    format!("<query xmlns='{}'>{inside}</query>", ns::MUC_OWNER)
}

fn form(fields: &[(&str, &str)]) -> String {
    let fields: String = fields
        .iter()
        .map(|(var, value)| format!("<field var='{var}'><value>{value}</value></field>"))
        .collect();
    owner(&format!("<x xmlns='jabber:x:data' type='submit'>{fields}</x>"))
}

fn value(answer: &Element, var: &str) -> Option<String> {
    let form = answer.first()?.get("x", ns::DATA)?;
    let field = form.elements().find(|field| field.attr("var") == Some(var))?;
    field.content_of("value", ns::DATA).map(std::borrow::Cow::into_owned)
}

#[test]
fn only_the_owner_configures() {
    let mut hall = Hall::coven(&[]);
    hall.enter(WICCA, "wicca");
    for (kind, payload) in [("get", owner("")), ("set", form(&[])), ("set", owner("<destroy/>"))] {
        assert_eq!(outcome(&hall.iq(WICCA, kind, &payload)), "forbidden", "{payload}");
    }
    assert_eq!(outcome(&hall.iq(CRONE, "get", &owner(""))), "result");
}

#[test]
fn every_field_comes_back_as_it_was_set() {
    let mut hall = Hall::coven(&[("persistentroom", "1")]);
    let fields = [
        ("muc#roomconfig_roomname", "A Dark Cave"),
        ("muc#roomconfig_roomdesc", "The place for all good witches"),
        ("muc#roomconfig_lang", "en"),
        ("muc#roomconfig_contactjid", "crone1@example.org"),
        ("muc#roomconfig_pubsub", "xmpp:pubsub.example.org?node=coven"),
        ("muc#roomconfig_persistentroom", "0"),
        ("muc#roomconfig_publicroom", "0"),
        ("muc#roomconfig_moderatedroom", "1"),
        ("muc#roomconfig_membersonly", "1"),
        ("muc#roomconfig_passwordprotectedroom", "1"),
        ("muc#roomconfig_roomsecret", "cauldronburn"),
        ("muc#roomconfig_maxusers", "30"),
        ("muc#roomconfig_whois", "anyone"),
        ("muc#roomconfig_changesubject", "1"),
        ("muc#roomconfig_allowinvites", "1"),
        ("muc#roomconfig_allowpm", "participants"),
        ("muc#roomconfig_enablelogging", "0"),
    ];
    let before = hall.iq(CRONE, "get", &owner(""));
    assert_eq!(outcome(&hall.iq(CRONE, "set", &form(&fields))), "result");
    let after = hall.iq(CRONE, "get", &owner(""));
    for (var, expected) in fields {
        assert_ne!(value(&before, var).as_deref(), Some(expected), "{var}");
        assert_eq!(value(&after, var).as_deref(), Some(expected), "{var}");
    }
    // The password goes when it is said so.
    hall.iq(CRONE, "set", &form(&[("muc#roomconfig_passwordprotectedroom", "0")]));
    let last = hall.iq(CRONE, "get", &owner(""));
    assert_eq!(value(&last, "muc#roomconfig_roomsecret").unwrap(), "");
    assert_eq!(value(&last, "muc#roomconfig_roomname").unwrap(), "A Dark Cave");
}

#[test]
fn invalid_configurations_are_refused_and_change_nothing() {
    let mut hall = Hall::coven(&[("roomname", "before")]);
    let long = "x".repeat(1_025);
    for (var, wrong) in [
        ("muc#roomconfig_roomname", long.as_str()),
        ("muc#roomconfig_publicroom", "maybe"),
        ("muc#roomconfig_maxusers", "many"),
        ("muc#roomconfig_maxusers", "0"),
        ("muc#roomconfig_contactjid", "@"),
        ("muc#roomconfig_enablelogging", "often"),
        ("muc#roomconfig_whois", "me"),
        ("muc#roomconfig_allowpm", "me"),
        ("muc#roomconfig_passwordprotectedroom", "1"),
    ] {
        let fields = [("muc#roomconfig_roomname", "after"), (var, wrong)];
        let fields = if var == "muc#roomconfig_roomname" { &fields[1..] } else { &fields[..] };
        assert_eq!(outcome(&hall.iq(CRONE, "set", &form(fields))), "not-acceptable", "{var}={wrong:.9}");
    }
    assert_eq!(outcome(&hall.iq(CRONE, "set", &owner(""))), "bad-request");
    assert_eq!(outcome(&hall.iq(CRONE, "set", &form(&[("FORM_TYPE", "other")]))), "bad-request");
    assert_eq!(outcome(&hall.iq(CRONE, "set", &owner("<destroy jid='@'/>"))), "jid-malformed");
    let answer = hall.iq(CRONE, "get", &owner(""));
    assert_eq!(value(&answer, "muc#roomconfig_roomname").unwrap(), "before");
}

#[test]
fn occupants_are_told_of_changes_by_codes() {
    for (fields, expected) in [
        (&[("roomname", "x")][..], &[104][..]),
        (&[("whois", "anyone")], &[172]),
        (&[("persistentroom", "1")], &[170, 104]),
        (&[], &[]),
    ] {
        let mut hall = Hall::coven(&[]);
        hall.enter(WICCA, "wicca");
        hall.forget();
        hall.configure(fields);
        let told = hall.hear(WICCA);
        let told: Vec<u16> =
            told.iter().flat_map(|message| codes(message.get("x", ns::MUC_USER).unwrap())).collect();
        assert_eq!(told, expected, "{fields:?}");
    }
    let mut hall = Hall::coven(&[("whois", "anyone"), ("persistentroom", "1")]);
    hall.configure(&[("whois", "moderators"), ("enablelogging", "0")]);
    let told = hall.hear(CRONE);
    assert_eq!(codes(told[0].get("x", ns::MUC_USER).unwrap()), [171, 173]);
}

fn bare(jid: &str) -> String {
    jid.split('/').next().unwrap_or_default().to_owned()
}

fn lists(lists: &[(&str, &[&str])]) -> String {
    let value = |user: &&str| format!("<value>{user}</value>");
    let field = |(var, users): &(&str, &[&str])| {
        let values: String = users.iter().map(value).collect();
        format!("<field var='muc#roomconfig_{var}' type='jid-multi'>{values}</field>")
    };
    let fields: String = lists.iter().map(field).collect();
    owner(&format!("<x xmlns='jabber:x:data' type='submit'>{fields}</x>"))
}

fn listed(hall: &mut Hall, affiliation: &str) -> Vec<String> {
    let query = format!("<query xmlns='{}'><item affiliation='{affiliation}'/></query>", ns::MUC_ADMIN);
    let answer = hall.iq(CRONE, "get", &query);
    let items = answer.first().map(|query| query.elements().collect::<Vec<_>>()).unwrap_or_default();
    items.iter().filter_map(|item| item.attr("jid").map(Into::into)).collect()
}

#[test]
fn administrators_and_owners_are_in_the_form_of_the_configuration() {
    let (crone, hag, wicca) = (bare(CRONE), bare(HAG), bare(WICCA));
    let mut hall = Hall::coven(&[]);
    hall.enter(WICCA, "wicca");
    hall.forget();
    let set = lists(&[("roomadmins", &[&*wicca]), ("roomowners", &[&*crone, &*hag])]);
    assert_eq!(outcome(&hall.iq(CRONE, "set", &set)), "result");
    assert_eq!(seen(&hall.hear(WICCA).pop().unwrap()), "wicca here moderator/admin 110");
    assert_eq!((listed(&mut hall, "admin"), listed(&mut hall, "owner").len()), (vec![wicca.clone()], 2));
    let form = hall.iq(CRONE, "get", &owner("")).to_string();
    assert!(form.contains(&format!("<value>{wicca}</value>")) && form.contains("muc#roomconfig_roomowners"));
    // A form without the lists, or with the same ones, changes neither.
    assert_eq!(outcome(&hall.iq(CRONE, "set", &lists(&[]))), "result");
    assert_eq!(outcome(&hall.iq(CRONE, "set", &set)), "result");
    assert_eq!(listed(&mut hall, "admin"), [&*wicca]);
    // Another list leaves them members.
    let set = lists(&[("roomadmins", &[]), ("roomowners", &[&*crone])]);
    assert_eq!(outcome(&hall.iq(CRONE, "set", &set)), "result");
    assert_eq!((listed(&mut hall, "admin"), listed(&mut hall, "owner")), (vec![], vec![crone]));
    assert_eq!(listed(&mut hall, "member").len(), 2);
}

#[test]
fn lists_of_a_form_that_cannot_be_change_nothing() {
    let (crone, wicca) = (bare(CRONE), bare(WICCA));
    let mut hall = Hall::coven(&[("roomname", "before")]);
    for (form, expected) in [
        (lists(&[("roomowners", &[])]), "conflict"),
        (lists(&[("roomowners", &[&*wicca]), ("roomadmins", &["@"])]), "jid-malformed"),
        (lists(&[("roomadmins", &["x.org"])]), "not-acceptable"),
    ] {
        assert_eq!(outcome(&hall.iq(CRONE, "set", &form)), expected, "{form}");
    }
    assert_eq!((listed(&mut hall, "admin"), listed(&mut hall, "owner")), (vec![], vec![crone]));
}

#[test]
fn voices_follow_when_a_room_becomes_moderated() {
    let mut hall = Hall::coven(&[]);
    hall.enter(WICCA, "wicca");
    hall.forget();
    hall.configure(&[("moderatedroom", "1")]);
    assert_eq!(seen(&hall.hear(WICCA).pop().unwrap()), "wicca here visitor/none 110");
    hall.configure(&[("moderatedroom", "0")]);
    assert_eq!(seen(&hall.hear(WICCA).pop().unwrap()), "wicca here participant/none 110");
}

/// A moderator has silenced the member; the decision ends with the moderation.
#[test]
fn a_silenced_member_has_voice_when_the_room_is_no_longer_moderated() {
    let mut hall = Hall::coven(&[("moderatedroom", "1")]);
    hall.admin(CRONE, &format!("<item affiliation='member' jid='{}'/>", bare(WICCA)));
    hall.enter(WICCA, "wicca");
    hall.forget();
    hall.admin(CRONE, "<item nick='wicca' role='visitor'/>");
    assert_eq!(seen(&hall.hear(WICCA).pop().unwrap()), "wicca here visitor/member 110");
    hall.configure(&[("moderatedroom", "0")]);
    let heard = hall.hear(WICCA);
    assert_eq!(all_seen(&heard), ["wicca here participant/member 110"]);
}

#[test]
fn a_destroyed_room_says_where_to_go_and_is_no_more() {
    let mut hall = Hall::coven(&[("persistentroom", "1")]);
    hall.enter(WICCA, "wicca");
    hall.forget();
    let destroy = "<destroy jid='coven@chat.shakespeare.lit'><reason>Macbeth doth come</reason></destroy>";
    assert_eq!(outcome(&hall.iq(CRONE, "set", &owner(destroy))), "result");
    let told = hall.only(WICCA);
    assert_eq!(seen(&told), "wicca unavailable none/none 110");
    let told = told.get("x", ns::MUC_USER).unwrap().get("destroy", ns::MUC_USER).unwrap();
    assert_eq!(told.attr("jid"), Some("coven@chat.shakespeare.lit"));
    assert_eq!(told.content_of("reason", ns::MUC_USER).unwrap(), "Macbeth doth come");
    assert!(hall.room().is_none());
    hall.groupchat(WICCA, "anybody?");
    assert_eq!(outcome(&hall.only(WICCA)), "item-not-found");
    // The first user to enter owns the next one.
    hall.enter(WICCA, "wicca");
    assert_eq!(all_seen(&hall.hear(WICCA)), ["wicca here moderator/owner 110 201"]);
}

#[test]
fn a_room_ends_when_its_first_configuration_is_cancelled() {
    let mut hall = Hall::new();
    hall.enter(CRONE, "firstwitch");
    let cancel = owner("<x xmlns='jabber:x:data' type='cancel'/>");
    assert_eq!(outcome(&hall.iq(CRONE, "set", &cancel)), "result");
    hall.groupchat(CRONE, "hello?");
    assert_eq!(outcome(&hall.hear(CRONE).pop().unwrap()), "item-not-found");
    let mut hall = Hall::coven(&[]);
    assert_eq!(outcome(&hall.iq(CRONE, "set", &cancel)), "result");
    hall.groupchat(CRONE, "still here");
    assert_eq!(body(&hall.only(CRONE)), "still here");
}
