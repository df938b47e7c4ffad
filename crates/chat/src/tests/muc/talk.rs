//! XEP-0045 §7.2.13, §7.4, §7.5, §7.8, §7.13, §8.1; XEP-0424, XEP-0425.

use super::*;

/// Crone1, Wiccarocks and Hag66 are here.
fn full_coven(config: &[(&str, &str)]) -> Hall {
    let mut hall = Hall::coven(config);
    hall.enter(WICCA, "wicca");
    hall.enter(HAG, "hag");
    hall.forget();
    hall
}

fn stanza_id(message: &Element) -> &str {
    message.get("stanza-id", ns::SID).unwrap().attr("id").unwrap()
}

#[test]
fn all_occupants_get_a_message_with_the_id_of_the_room() {
    let mut hall = full_coven(&[]);
    let lies = format!(
        "<stanza-id xmlns='{}' by='{ROOM}' id='forged'/><occupant-id xmlns='{}' id='forged'/>",
        ns::SID,
        ns::OCCUPANT_ID
    );
    hall.say(
        HAG,
        &format!(
            "<message id='m' type='groupchat' to='{ROOM}'><body>Hail</body><thread>t</thread>{lies}</message>"
        ),
    );
    let all: Vec<Element> = [CRONE, WICCA, HAG].iter().map(|occupant| hall.only(occupant)).collect();
    for (message, occupant) in all.iter().zip([CRONE, WICCA, HAG]) {
        assert_eq!(message.attr("from"), Some(&*format!("{ROOM}/hag")));
        assert_eq!((message.attr("to"), message.attr("id")), (Some(occupant), Some("m")));
        assert_eq!(message.content_of("thread", ns::CLIENT).unwrap(), "t");
        assert_eq!(message.to_string().matches("stanza-id").count(), 1);
        assert!(!message.to_string().contains("forged"), "{message}");
        assert_eq!(stanza_id(message), stanza_id(&all[0]));
    }
}

#[test]
fn an_occupant_that_enters_gets_as_much_history_as_it_wants() {
    let mut hall = Hall::coven(&[]);
    for number in 0..150 {
        hall.now = START + Duration::from_secs(number);
        hall.groupchat(CRONE, &format!("number {number:03}"));
    }
    let since = xmpp::time::stamp(START + Duration::from_secs(145));
    for (history, expected) in [
        (String::new(), 20),
        ("maxstanzas='3'".to_owned(), 3),
        ("maxstanzas='1000'".to_owned(), 100),
        ("maxchars='0'".to_owned(), 0),
        ("maxchars='1200'".to_owned(), 2),
        ("seconds='9'".to_owned(), 10),
        (format!("since='{since}'"), 5),
        (format!("since='{since}' seconds='1'"), 2),
        (format!("since='{since}' maxstanzas='2'"), 2),
    ] {
        let mut visitor = |inside: &str| {
            hall.enter_with(HAG, "hag", inside);
            let heard = hall.hear(HAG);
            hall.say(HAG, &format!("<presence type='unavailable' to='{ROOM}/hag'/>"));
            hall.forget();
            heard
                .iter()
                .filter(|stanza| stanza.get("body", ns::CLIENT).is_some())
                .cloned()
                .collect::<Vec<_>>()
        };
        let past = visitor(&format!("<history {history}/>"));
        assert_eq!(past.len(), expected, "{history}");
        if let Some(last) = past.last() {
            assert_eq!(body(last), "number 149", "{history}");
            let delay = last.get("delay", ns::DELAY).unwrap();
            assert_eq!(delay.attr("stamp"), Some(&*xmpp::time::stamp(START + Duration::from_secs(149))));
            assert_eq!(delay.attr("from"), Some(ROOM));
        }
    }
}

#[test]
fn visitors_have_no_voice_until_a_moderator_grants_it() {
    let mut hall = full_coven(&[("moderatedroom", "1")]);
    hall.groupchat(HAG, "cackle");
    assert_eq!(outcome(&hall.only(HAG)), "forbidden");
    let form = |fields: &str| {
        format!(
            "<message to='{ROOM}'><x xmlns='jabber:x:data' type='submit'>\
             <field var='FORM_TYPE'><value>http://jabber.org/protocol/muc#request</value></field>{fields}</x></message>"
        )
    };
    hall.say(HAG, &form("<field var='muc#role'><value>participant</value></field>"));
    let request = hall.only(CRONE);
    let text = request.to_string();
    assert!(
        text.contains("muc#request_allow") && text.contains(HAG) && hall.hear(WICCA).is_empty(),
        "{text}"
    );
    let allow = |value: &str| {
        form(&format!(
            "<field var='muc#jid'><value>{HAG}</value></field><field var='muc#roomnick'><value>hag</value></field>\
             <field var='muc#request_allow'><value>{value}</value></field>"
        ))
    };
    hall.say(WICCA, &allow("1"));
    assert_eq!(outcome(&hall.only(WICCA)), "forbidden");
    hall.say(CRONE, &allow("0"));
    assert!(hall.mail.is_empty());
    // Another user may have the nickname by now.
    hall.say(CRONE, &allow("1").replace(HAG, "other@example.org/x"));
    assert_eq!(outcome(&hall.only(CRONE)), "item-not-found");
    hall.say(CRONE, &allow("true"));
    assert_eq!(seen(&hall.only(HAG)), "hag here participant/none 110");
    hall.forget();
    hall.groupchat(HAG, "cackle");
    assert_eq!(body(&hall.only(WICCA)), "cackle");
    // A participant with voice need not request it.
    hall.say(HAG, &form(""));
    assert_eq!(outcome(&hall.hear(HAG)[1]), "bad-request");
}

#[test]
fn only_moderators_set_the_subject_unless_all_occupants_may() {
    let subject = format!("<message type='groupchat' to='{ROOM}'><subject>Fire Burn</subject></message>");
    let mut hall = full_coven(&[]);
    hall.say(HAG, &subject);
    assert_eq!(outcome(&hall.only(HAG)), "forbidden");
    hall.say(CRONE, &subject);
    assert_eq!(hall.only(HAG).content_of("subject", ns::CLIENT).unwrap(), "Fire Burn");
    hall.forget();
    hall.enter("late@example.org/x", "late");
    let last = hall.hear("late@example.org/x").pop().unwrap();
    assert_eq!(last.content_of("subject", ns::CLIENT).unwrap(), "Fire Burn");
    assert_eq!(last.attr("from"), Some(&*format!("{ROOM}/firstwitch")));
    let mut hall = full_coven(&[("changesubject", "1")]);
    hall.say(HAG, &subject);
    assert_eq!(hall.only(WICCA).content_of("subject", ns::CLIENT).unwrap(), "Fire Burn");
    // A message that has both is a message.
    hall.say(
        HAG,
        &format!("<message type='groupchat' to='{ROOM}'><subject>No</subject><body>b</body></message>"),
    );
    hall.forget();
    hall.enter("late@example.org/x", "late");
    let last = hall.hear("late@example.org/x").pop().unwrap();
    assert_eq!(last.content_of("subject", ns::CLIENT).unwrap(), "Fire Burn");
}

#[test]
fn a_private_message_reaches_all_clients_of_an_occupant() {
    let mut hall = full_coven(&[]);
    let phone = "hag66@shakespeare.lit/phone";
    hall.enter(phone, "hag");
    hall.forget();
    let whisper = |nick: &str, kind: &str| {
        format!("<message id='p' type='{kind}' to='{ROOM}/{nick}'><body>psst</body></message>")
    };
    hall.say(WICCA, &whisper("hag", "chat"));
    for client in [HAG, phone] {
        let heard = hall.only(client);
        assert_eq!((heard.attr("from"), body(&heard).as_str()), (Some(&*format!("{ROOM}/wicca")), "psst"));
        assert!(heard.get("x", ns::MUC_USER).is_some() && heard.get("stanza-id", ns::SID).is_none());
    }
    assert!(hall.mail.is_empty());
    hall.say(WICCA, &whisper("nobody", "chat"));
    assert_eq!(outcome(&hall.only(WICCA)), "item-not-found");
    hall.say(WICCA, &whisper("hag", "groupchat"));
    assert_eq!(outcome(&hall.only(WICCA)), "bad-request");
    hall.say("stranger@example.org/x", &whisper("hag", "chat"));
    assert_eq!(outcome(&hall.only("stranger@example.org/x")), "not-acceptable");
}

#[test]
fn permission_for_private_messages_is_configured_and_moderators_can_be_reached() {
    for (allowed, to_hag, to_crone, by_crone) in [
        ("anyone", "", "", ""),
        ("participants", "forbidden", "", ""),
        ("moderators", "forbidden", "", ""),
        ("none", "forbidden", "forbidden", "forbidden"),
    ] {
        let mut hall = full_coven(&[("allowpm", allowed), ("moderatedroom", "1")]);
        for (from, nick, expected) in
            [(WICCA, "hag", to_hag), (WICCA, "firstwitch", to_crone), (CRONE, "hag", by_crone)]
        {
            hall.say(from, &format!("<message to='{ROOM}/{nick}'><body>psst</body></message>"));
            let answer = hall.hear(from).pop();
            assert_eq!(
                answer.map_or(String::new(), |answer| outcome(&answer)),
                expected,
                "{allowed} {from} {nick}"
            );
        }
    }
}

/// An error answers a private message; where there can be none, or the sender may not write, it brings no words.
#[test]
fn an_error_is_no_way_around_the_permission_for_private_messages() {
    for (allowed, is_passed, has_words) in [
        ("anyone", true, true),
        ("participants", true, false),
        ("moderators", true, false),
        ("none", false, false),
    ] {
        let mut hall = full_coven(&[("allowpm", allowed), ("moderatedroom", "1")]);
        let condition =
            format!("<feature-not-implemented xmlns='{0}'/><text xmlns='{0}'>buy</text>", ns::STANZA_ERRORS);
        let words = "<body>buy</body><x xmlns='jabber:x:oob'><url>https://buy.example</url></x>";
        hall.say(
            WICCA,
            &format!(
                "<message type='error' to='{ROOM}/hag'>{words}<error type='cancel'>{condition}</error></message>"
            ),
        );
        assert!(hall.hear(WICCA).is_empty(), "{allowed}: an error is not answered");
        let heard = hall.hear(HAG);
        assert_eq!(heard.len(), usize::from(is_passed), "{allowed}");
        for error in heard {
            assert_eq!(outcome(&error), "feature-not-implemented", "{allowed}");
            assert_eq!(error.to_string().contains("buy"), has_words, "{allowed}: {error}");
        }
    }
}

fn invite(guest: &str) -> String {
    let invite = format!("<invite to='{guest}'><reason>Hey</reason></invite>");
    format!("<message to='{ROOM}'><x xmlns='{}'>{invite}</x></message>", ns::MUC_USER)
}

#[test]
fn an_invitation_goes_to_the_guest_and_the_refusal_comes_back() {
    let mut hall = full_coven(&[("roomsecret", "sesame")]);
    hall.enter_with(WICCA, "wicca", "<password>sesame</password>");
    hall.forget();
    hall.say(CRONE, &invite("hecate@shakespeare.lit"));
    let invited = hall.only("hecate@shakespeare.lit");
    assert_eq!(invited.attr("from"), Some(ROOM));
    let x = invited.get("x", ns::MUC_USER).unwrap();
    assert_eq!(x.content_of("password", ns::MUC_USER).unwrap(), "sesame");
    let by = x.get("invite", ns::MUC_USER).unwrap();
    // The room is anonymous, so is its invitation.
    assert_eq!(by.attr("from"), Some(&*format!("{ROOM}/firstwitch")));
    assert_eq!(by.content_of("reason", ns::MUC_USER).unwrap(), "Hey");
    let direct = invited.get("x", ns::CONFERENCE).unwrap();
    assert_eq!((direct.attr("jid"), direct.attr("password")), (Some(ROOM), Some("sesame")));
    let decline = |to: &str| {
        let decline = format!("<decline to='{to}'><reason>Busy</reason></decline>");
        format!("<message to='{ROOM}'><x xmlns='{}'>{decline}</x></message>", ns::MUC_USER)
    };
    let hecate = "hecate@shakespeare.lit/broom";
    let is_declined = |hall: &mut Hall, to: &str| {
        hall.say(hecate, &decline(to));
        let declined = hall.only(CRONE);
        let told = declined.get("x", ns::MUC_USER).unwrap().get("decline", ns::MUC_USER).unwrap();
        assert_eq!(told.attr("from"), Some("hecate@shakespeare.lit"));
        assert_eq!(told.content_of("reason", ns::MUC_USER).unwrap(), "Busy");
    };
    let by_nick = format!("{ROOM}/firstwitch");
    let by_address = "crone1@example.org";
    let is_refused = |hall: &mut Hall, to: &str| {
        hall.say(hecate, &decline(to));
        assert_eq!(outcome(&hall.only(hecate)), "item-not-found", "{to}");
        assert!(hall.mail.is_empty(), "{to}");
    };
    // The invitation has not named the address. One that is there and one that is not are answered alike, and a client cannot use the room
    // to write to addresses outside it.
    is_refused(&mut hall, by_address);
    is_refused(&mut hall, "victim@example.org");
    is_declined(&mut hall, &by_nick);
    // Once for each invitation, and only to the occupant that has invited.
    is_refused(&mut hall, &by_nick);
    is_refused(&mut hall, &format!("{ROOM}/wicca"));
    // Where addresses are no secret the invitation has the inviter's.
    hall.configure(&[("whois", "anyone")]);
    for to in [&*by_nick, by_address] {
        hall.say(CRONE, &invite("hecate@shakespeare.lit"));
        hall.forget();
        is_declined(&mut hall, to);
        is_refused(&mut hall, to);
    }
    hall.say(CRONE, &invite("hecate@shakespeare.lit"));
    hall.admin(CRONE, "<item affiliation='outcast' jid='hecate@shakespeare.lit'/>");
    hall.forget();
    hall.say(hecate, &decline(&by_nick));
    assert_eq!(outcome(&hall.only(hecate)), "forbidden");
    assert!(hall.mail.is_empty());
}

#[test]
fn to_be_invited_into_a_room_for_members_is_to_be_one() {
    let mut hall = Hall::coven(&[("membersonly", "1")]);
    hall.admin(CRONE, "<item affiliation='member' jid='wiccarocks@example.org'/>");
    hall.enter(WICCA, "wicca");
    hall.forget();
    hall.say(WICCA, &invite("hag66@shakespeare.lit"));
    assert_eq!(outcome(&hall.only(WICCA)), "forbidden");
    hall.say(CRONE, &invite("hag66@shakespeare.lit"));
    hall.forget();
    hall.enter(HAG, "hag");
    assert_eq!(all_seen(&hall.hear(HAG)).last().unwrap(), "hag here participant/member 110");
    // Strangers, and banned users, are no guests.
    hall.say("stranger@example.org/x", &invite("hag66@shakespeare.lit"));
    assert_eq!(outcome(&hall.only("stranger@example.org/x")), "not-acceptable");
    hall.admin(CRONE, "<item affiliation='outcast' jid='macbeth@shakespeare.lit'/>");
    hall.forget();
    hall.say(CRONE, &invite("macbeth@shakespeare.lit"));
    assert_eq!(outcome(&hall.only(CRONE)), "forbidden");
}

#[test]
fn permission_to_invite_to_an_open_room_is_configured() {
    for (allowed, expected) in [("0", "forbidden"), ("1", "")] {
        let mut hall = full_coven(&[("allowinvites", allowed)]);
        hall.say(HAG, &invite("hecate@shakespeare.lit"));
        assert_eq!(hall.hear(HAG).first().map_or(String::new(), outcome), expected);
        assert_eq!(hall.hear("hecate@shakespeare.lit").is_empty(), !expected.is_empty());
    }
}

#[test]
fn a_moderator_retracts_any_message_and_an_occupant_its_own() {
    let mut hall = full_coven(&[]);
    hall.groupchat(HAG, "curse");
    let id = stanza_id(&hall.only(HAG)).to_owned();
    let moderate = |id: &str| {
        format!(
            "<moderate xmlns='{}' id='{id}'><retract xmlns='{}'/><reason>Rude</reason></moderate>",
            ns::MODERATE,
            ns::RETRACT
        )
    };
    assert_eq!(outcome(&hall.iq(WICCA, "set", &moderate(&id))), "forbidden");
    assert_eq!(outcome(&hall.iq(CRONE, "set", &moderate("unknown"))), "item-not-found");
    assert_eq!(
        outcome(&hall.iq(CRONE, "set", "<moderate xmlns='urn:xmpp:message-moderate:1'/>")),
        "bad-request"
    );
    hall.forget();
    assert_eq!(outcome(&hall.iq(CRONE, "set", &moderate(&id))), "result");
    let told = hall.only(WICCA);
    let retract = told.get("retract", ns::RETRACT).unwrap();
    let moderated = retract.get("moderated", ns::MODERATE).unwrap();
    assert_eq!((told.attr("from"), retract.attr("id")), (Some(ROOM), Some(&*id)));
    assert!(told.attr("id").is_some());
    assert_eq!(moderated.attr("by"), Some(&*format!("{ROOM}/firstwitch")));
    assert_eq!(retract.content_of("reason", ns::RETRACT).unwrap(), "Rude");
    // XEP-0424: of others one takes back nothing.
    hall.groupchat(WICCA, "mine");
    let id = stanza_id(&hall.only(WICCA)).to_owned();
    let heard_late = |hall: &mut Hall| {
        hall.forget();
        hall.enter("late@example.org/x", "late");
        let heard = hall.hear("late@example.org/x");
        hall.say("late@example.org/x", &format!("<presence type='unavailable' to='{ROOM}/late'/>"));
        heard.iter().map(body).filter(|body| !body.is_empty()).collect::<Vec<_>>()
    };
    let retract = format!(
        "<message type='groupchat' to='{ROOM}'><retract xmlns='{}' id='{id}'/></message>",
        ns::RETRACT
    );
    hall.say(HAG, &retract);
    assert_eq!(heard_late(&mut hall), ["mine"]);
    hall.say(WICCA, &retract);
    assert!(heard_late(&mut hall).is_empty());
}

#[test]
fn a_message_to_many_is_one_body_and_a_copy_each() {
    let mut hall = Hall::coven(&[]);
    let effects = |hall: &mut Hall, count: u32| {
        for number in 0..count {
            hall.enter(&format!("u{number}@shakespeare.lit/x"), &format!("n{number}"));
        }
        let xml = format!("<message type='groupchat' to='{ROOM}'><body>hi</body></message>");
        let prefixes = xmpp::xml::Prefixes::of_default(ns::CLIENT);
        let said = xmpp::xml::parse(xml.as_bytes(), &prefixes).unwrap().with("from", CRONE);
        let mut out = Outbox::new();
        hall.host.handle_routed(hall.now, said, &mut out);
        let to: std::collections::HashSet<_> = out
            .iter()
            .map(|effect| match effect {
                Effect::Route(message) => message.attr("to").unwrap().to_owned(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(to.len(), out.len());
        out.len()
    };
    assert_eq!(effects(&mut hall, 10), 11);
    assert_eq!(effects(&mut hall, 250), 251);
}

#[test]
fn long_messages_do_not_fill_the_memory() {
    let mut hall = Hall::coven(&[]);
    let long = "x".repeat(20 << 10);
    for _ in 0..20 {
        hall.groupchat(CRONE, &long);
    }
    hall.enter(HAG, "hag");
    let past = hall.hear(HAG).iter().filter(|stanza| !body(stanza).is_empty()).count();
    assert_eq!(past, crate::limits::HISTORY_BYTES / (20 << 10));
}

#[test]
fn a_retracted_message_is_a_tombstone_in_the_archive() {
    let mut hall = full_coven(&[("persistentroom", "1")]);
    let said = |hall: &mut Hall, speaker: &str, words: &str| {
        hall.forget();
        hall.groupchat(speaker, words);
        stanza_id(&hall.only(speaker)).to_owned()
    };
    let stone = |hall: &Hall, id: &str| hall.archived(id).stanzas[0].2.to_string();
    let (first, second) = (said(&mut hall, HAG, "curse"), said(&mut hall, WICCA, "mine"));
    let own = |id: &str| {
        format!(
            "<message type='groupchat' to='{ROOM}'><retract xmlns='{}' id='{id}'/></message>",
            ns::RETRACT
        )
    };
    hall.say(WICCA, &own(&first));
    assert!(stone(&hall, &first).contains("curse"), "of others one takes back nothing");
    hall.say(WICCA, &own(&second));
    let gone = stone(&hall, &second);
    assert!(gone.contains("<retracted") && gone.contains("<occupant-id") && !gone.contains("mine"), "{gone}");
    // XEP-0425 §5: with the moderator and the reason.
    let moderate = |id: &str| {
        let inside = format!("<retract xmlns='{}'/><reason>Rude</reason>", ns::RETRACT);
        format!("<moderate xmlns='{}' id='{id}'>{inside}</moderate>", ns::MODERATE)
    };
    assert_eq!(outcome(&hall.iq(CRONE, "set", &moderate("unknown"))), "item-not-found");
    hall.forget();
    assert_eq!(outcome(&hall.iq(CRONE, "set", &moderate(&first))), "result");
    assert!(hall.only(HAG).to_string().contains("<moderated"));
    let gone = stone(&hall, &first);
    assert!(
        gone.contains("<retracted")
            && gone.contains("firstwitch")
            && gone.contains("Rude")
            && !gone.contains("curse"),
        "{gone}"
    );
    hall.is_broken = true;
    assert_eq!(outcome(&hall.iq(CRONE, "set", &moderate(&first))), "resource-constraint");
    let info = hall.iq(CRONE, "get", &format!("<query xmlns='{}'/>", ns::DISCO_INFO)).to_string();
    assert!(info.contains("urn:xmpp:message-retract:1#tombstone"), "{info}");
}
