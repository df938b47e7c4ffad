//! The tables of XEP-0045 §5.1.1 and §5.2.1, cell by cell, as the room keeps them.

use super::*;

fn tried(hall: &mut Hall, from: &str, xml: &str) -> char {
    hall.forget();
    hall.say(from, xml);
    let is_refused = hall.hear(from).iter().any(|stanza| stanza.attr("type") == Some("error"));
    if is_refused { '-' } else { '+' }
}

fn admin(item: &str) -> String {
    format!("<iq id='q' type='set' to='{ROOM}'><query xmlns='{}'>{item}</query></iq>", ns::MUC_ADMIN)
}

fn list(item: &str) -> String {
    admin(item).replace("type='set'", "type='get'")
}

/// A room with an occupant of that role as `hag`, and others to act on: `talker` and `guest`.
fn with_role(role: &str) -> Hall {
    let mut hall = Hall::coven(&[("moderatedroom", "1"), ("allowpm", "participants")]);
    for (jid, nick) in [("talker@example.org/x", "talker"), ("guest@example.org/x", "guest"), (HAG, "hag")] {
        hall.enter(jid, nick);
    }
    hall.admin(CRONE, "<item nick='talker' role='participant'/>");
    if role != "visitor" {
        hall.admin(CRONE, &format!("<item nick='hag' role='{role}'/>"));
    }
    hall
}

#[test]
fn every_cell_of_the_privileges_of_roles() {
    let invite = format!("<x xmlns='{}'><invite to='x@y'/></x>", ns::MUC_USER);
    let roles = ["none", "visitor", "participant", "moderator"];
    for (what, xml, expected) in [
        ("change availability", format!("<presence to='{ROOM}/hag'><show>xa</show></presence>"), "-+++"),
        ("change the nickname", format!("<presence to='{ROOM}/oldhag'/>"), "-+++"),
        ("whisper", format!("<message to='{ROOM}/talker'><body>x</body></message>"), "--++"),
        (
            "whisper to a moderator",
            format!("<message to='{ROOM}/firstwitch'><body>x</body></message>"),
            "-+++",
        ),
        ("invite", format!("<message to='{ROOM}'>{invite}</message>"), "---+"),
        ("speak", format!("<message type='groupchat' to='{ROOM}'><body>x</body></message>"), "--++"),
        (
            "set the subject",
            format!("<message type='groupchat' to='{ROOM}'><subject>x</subject></message>"),
            "---+",
        ),
        ("kick", admin("<item nick='talker' role='none'/>"), "---+"),
        ("grant voice", admin("<item nick='guest' role='participant'/>"), "---+"),
        ("revoke voice", admin("<item nick='talker' role='visitor'/>"), "---+"),
        ("revoke an owner's voice", admin("<item nick='firstwitch' role='visitor'/>"), "----"),
        ("list voices", list("<item role='participant'/>"), "---+"),
    ] {
        let cells = roles.map(|role| tried(&mut with_role(role), HAG, &xml));
        assert_eq!(cells.iter().collect::<String>(), expected, "{what}");
    }
}

#[test]
fn occupants_receive_messages_and_presence_and_others_do_not() {
    for (role, expected) in [("none", 0), ("visitor", 2), ("participant", 2), ("moderator", 2)] {
        let mut hall = with_role(role);
        hall.forget();
        hall.groupchat(CRONE, "x");
        hall.say(CRONE, &format!("<presence to='{ROOM}/firstwitch'/>"));
        assert_eq!(hall.hear(HAG).len(), expected, "{role}");
    }
}

/// A room with a user of that affiliation, who is not in it yet.
fn with_affiliation(affiliation: &str, config: &[(&str, &str)]) -> Hall {
    let mut hall = Hall::coven(config);
    hall.enter("talker@example.org/x", "talker");
    for (user, affiliation) in [("member", "member"), ("admin", "admin"), ("owner", "owner")] {
        hall.admin(CRONE, &format!("<item jid='{user}@example.org' affiliation='{affiliation}'/>"));
    }
    if affiliation != "none" {
        let item = format!("<item jid='hag66@shakespeare.lit' affiliation='{affiliation}'/>");
        assert_eq!(hall.admin(CRONE, &item), "result");
    }
    hall
}

#[test]
fn every_cell_of_the_privileges_of_affiliations() {
    let enter = format!("<presence to='{ROOM}/hag'><x xmlns='{}'/></presence>", ns::MUC);
    let set = |user: &str, affiliation: &str| {
        admin(&format!("<item jid='{user}@example.org' affiliation='{affiliation}'/>"))
    };
    let owner = |kind: &str, inside: &str| {
        format!("<iq id='q' type='{kind}' to='{ROOM}'><query xmlns='{}'>{inside}</query></iq>", ns::MUC_OWNER)
    };
    let register = format!("<iq id='q' type='get' to='{ROOM}'><query xmlns='jabber:iq:register'/></iq>");
    let members_only: &[(&str, &str)] = &[("membersonly", "1")];
    let affiliations = ["outcast", "none", "member", "admin", "owner"];
    for (what, config, xml, expected) in [
        ("enter an open room", &[][..], enter.clone(), "-++++"),
        ("register with an open room", &[], register, "-++++"),
        ("retrieve the member list", &[], list("<item affiliation='member'/>"), "--+++"),
        ("enter a room for members", members_only, enter, "--+++"),
        ("ban a user without affiliation", &[], set("stranger", "outcast"), "---++"),
        ("ban a member", &[], set("member", "outcast"), "---++"),
        ("ban an administrator", &[], set("admin", "outcast"), "----+"),
        ("ban an owner", &[], set("owner", "outcast"), "----+"),
        ("retrieve the ban list", &[], list("<item affiliation='outcast'/>"), "---++"),
        ("edit the member list", &[], set("stranger", "member"), "---++"),
        ("edit the admin list", &[], set("stranger", "admin"), "----+"),
        ("retrieve the admin list", &[], list("<item affiliation='admin'/>"), "----+"),
        ("edit the owner list", &[], set("stranger", "owner"), "----+"),
        ("retrieve the owner list", &[], list("<item affiliation='owner'/>"), "----+"),
        ("see the configuration", &[], owner("get", ""), "----+"),
        ("configure", &[], owner("set", "<x xmlns='jabber:x:data' type='submit'/>"), "----+"),
        ("destroy the room", &[], owner("set", "<destroy/>"), "----+"),
    ] {
        let cells =
            affiliations.map(|affiliation| tried(&mut with_affiliation(affiliation, config), HAG, &xml));
        assert_eq!(cells.iter().collect::<String>(), expected, "{what}");
    }
}

#[test]
fn only_administrators_in_the_room_make_moderators() {
    let make = admin("<item nick='talker' role='moderator'/>");
    for (affiliation, expected) in [("none", '-'), ("member", '-'), ("admin", '+'), ("owner", '+')] {
        let mut hall = with_affiliation(affiliation, &[]);
        assert_eq!(tried(&mut hall, HAG, &make), '-', "{affiliation} from outside");
        hall.enter(HAG, "hag");
        assert_eq!(tried(&mut hall, HAG, &make), expected, "{affiliation}");
    }
}
