//! For any events in a room, it stays consistent, and all occupants see its state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;

use super::rules::{Affiliation, Role};
use super::*;

const ROOM: &str = "coven@conference.example.org";
const OWNER: &str = "u0@example.org/a";

/// The occupants that a client knows from the stanzas it received. `None`: it is not in the room.
type Views = BTreeMap<String, BTreeSet<String>>;

#[derive(Clone, Debug)]
enum Step {
    /// Or another nickname.
    Enter {
        by: usize,
        nick: usize,
    },
    Leave {
        by: usize,
    },
    Bounce {
        by: usize,
    },
    Role {
        by: usize,
        nick: usize,
        role: usize,
    },
    Affiliation {
        by: usize,
        user: usize,
        affiliation: usize,
    },
    Swap {
        by: usize,
        one: usize,
        other: usize,
    },
    Configure {
        var: usize,
        on: bool,
    },
    Register {
        by: usize,
        nick: usize,
    },
    Invite {
        by: usize,
        user: usize,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..10_usize, 0..6_usize).prop_map(|(by, nick)| Step::Enter { by, nick }),
        1 => (0..10_usize).prop_map(|by| Step::Leave { by }),
        1 => (0..10_usize).prop_map(|by| Step::Bounce { by }),
        2 => (0..10_usize, 0..6_usize, 0..4_usize).prop_map(|(by, nick, role)| Step::Role { by, nick, role }),
        3 => (0..10_usize, 0..5_usize, 0..5_usize)
            .prop_map(|(by, user, affiliation)| Step::Affiliation { by, user, affiliation }),
        1 => (0..10_usize, 0..5_usize, 0..5_usize).prop_map(|(by, one, other)| Step::Swap { by, one, other }),
        1 => (0..3_usize, any::<bool>()).prop_map(|(var, on)| Step::Configure { var, on }),
        1 => (0..10_usize, 0..6_usize).prop_map(|(by, nick)| Step::Register { by, nick }),
        1 => (0..10_usize, 0..5_usize).prop_map(|(by, user)| Step::Invite { by, user }),
    ];
    proptest::collection::vec(step, 0..120)
}

/// Five users with two clients each.
fn session(client: usize) -> String {
    format!("{}/{}", user(client / 2), if client.is_multiple_of(2) { "a" } else { "b" })
}

fn user(number: usize) -> String {
    format!("u{number}@example.org")
}

fn parse(xml: &str) -> Element {
    xmpp::xml::parse(xml.as_bytes(), &xmpp::xml::Prefixes::of_default(ns::CLIENT)).unwrap()
}

fn stanza(step: &Step, owner: &str) -> Element {
    let iq = |from: &str, payload: String| {
        parse(&format!("<iq id='q' type='set' from='{from}' to='{ROOM}'>{payload}</iq>"))
    };
    let admin = |by: usize, items: String| {
        iq(&session(by), format!("<query xmlns='{}'>{items}</query>", ns::MUC_ADMIN))
    };
    match step {
        Step::Enter { by, nick } => {
            let x = format!("<x xmlns='{}'><history maxstanzas='0'/></x>", ns::MUC);
            parse(&format!("<presence from='{}' to='{ROOM}/n{nick}'>{x}</presence>", session(*by)))
        }
        Step::Leave { by } => {
            parse(&format!("<presence type='unavailable' from='{}' to='{ROOM}/x'/>", session(*by)))
        }
        Step::Bounce { by } => {
            let error = format!("<error type='cancel'><gone xmlns='{}'/></error>", ns::STANZA_ERRORS);
            parse(&format!("<message type='error' from='{}' to='{ROOM}/x'>{error}</message>", session(*by)))
        }
        Step::Role { by, nick, role } => {
            admin(*by, format!("<item nick='n{nick}' role='{}'/>", Role::ALL[*role].as_str()))
        }
        Step::Affiliation { by, user: of, affiliation } => {
            let affiliation = Affiliation::ALL[*affiliation].as_str();
            admin(*by, format!("<item jid='{}' affiliation='{affiliation}'/>", user(*of)))
        }
        Step::Swap { by, one, other } => admin(
            *by,
            format!(
                "<item jid='{}' affiliation='none'/><item jid='{}' affiliation='owner'/>",
                user(*one),
                user(*other)
            ),
        ),
        Step::Configure { var, on } => {
            let var = ["membersonly", "moderatedroom", "persistentroom"][*var];
            let value = u8::from(*on);
            let field = format!("<field var='muc#roomconfig_{var}'><value>{value}</value></field>");
            let form = format!("<x xmlns='jabber:x:data' type='submit'>{field}</x>");
            iq(&format!("{owner}/x"), format!("<query xmlns='{}'>{form}</query>", ns::MUC_OWNER))
        }
        Step::Register { by, nick } => {
            let field = format!("<field var='muc#register_roomnick'><value>n{nick}</value></field>");
            let form = format!("<x xmlns='jabber:x:data' type='submit'>{field}</x>");
            iq(&session(*by), format!("<query xmlns='{}'>{form}</query>", ns::REGISTER))
        }
        Step::Invite { by, user: guest } => {
            let x = format!("<x xmlns='{}'><invite to='{}'/></x>", ns::MUC_USER, user(*guest));
            parse(&format!("<message from='{}' to='{ROOM}'>{x}</message>", session(*by)))
        }
    }
}

fn apply(room: &mut Room, stanza: &Element, views: &mut Views) {
    let (from, to) = (stanza::from(stanza).unwrap().unwrap(), stanza::to(stanza).unwrap().unwrap());
    let mut outs = Vec::new();
    let may_save = room.may_save(&from, stanza);
    room.handle(Instant::from_unix_seconds(1), &from, &to, stanza, &mut outs);
    let is_saved = outs.iter().any(|out| matches!(out, RoomEffect::Save | RoomEffect::Destroyed));
    assert!(may_save || !is_saved, "{stanza} is saved, and could not be undone");
    for out in outs {
        if let RoomEffect::Send(sent) = out {
            see(&sent, views);
        }
    }
}

/// As a client does that knows XEP-0045 only.
fn see(sent: &Element, views: &mut Views) {
    let Some(x) = sent.get("x", ns::MUC_USER).filter(|_| sent.name() == "presence") else { return };
    let codes: Vec<&str> = x.elements().filter_map(|child| child.attr("code")).collect();
    let (receiver, is_self) = (sent.attr("to").unwrap().to_owned(), codes.contains(&"110"));
    let nick = sent.attr("from").unwrap().split_once('/').unwrap().1.to_owned();
    match sent.attr("type") {
        None => {
            views.entry(receiver).or_default().insert(nick);
        }
        Some("unavailable") if is_self && !codes.contains(&"303") => {
            views.remove(&receiver);
        }
        Some("unavailable") => {
            assert!(views.entry(receiver).or_default().remove(&nick), "{sent}: was never here");
        }
        Some(_) => {}
    }
}

/// The invariants of a room.
fn check(room: &Room, views: &Views) {
    let users = &room.users;
    users.occupants.check();
    for occupant in users.occupants.values() {
        let affiliation = users.affiliation(&occupant.user);
        assert!(affiliation > Affiliation::Outcast && occupant.role > Role::None);
        assert!(!users.config.is_members_only || affiliation >= Affiliation::Member);
        assert!(affiliation < Affiliation::Admin || occupant.role == Role::Moderator);
        let reserved = users.affiliations.reserved_by(&occupant.nick);
        assert!(reserved.is_none_or(|user| *user == occupant.user));
    }
    assert!(users.affiliations.owners() > 0, "it has no owner");
    let occupants = || users.occupants.values();
    let nicks: BTreeSet<String> = occupants().map(|occupant| occupant.nick.to_string()).collect();
    let sessions = occupants().flat_map(|occupant| &occupant.sessions);
    let here: BTreeSet<String> = sessions.map(|session| session.to_string()).collect();
    assert_eq!(views.keys().cloned().collect::<BTreeSet<_>>(), here);
    for (client, view) in views {
        assert_eq!(*view, nicks, "the nicknames that {client} sees");
    }
}

/// The request of a client that creates a room.
fn entry() -> Element {
    Element::new("presence", ns::CLIENT).child(Element::new("x", ns::MUC))
}

fn opened(views: &mut Views) -> Room {
    let owner = Jid::parse(OWNER).unwrap();
    let mut room = Room::created(Bare::parse(ROOM).unwrap(), [3; 32], owner.bare(), &entry());
    room.users.is_locked = false;
    apply(&mut room, &stanza(&Step::Enter { by: 0, nick: 0 }, ""), views);
    room
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_occupant_sees_the_present_occupants_and_no_ghost_remains(steps in steps()) {
        let mut views = Views::new();
        let mut room = opened(&mut views);
        for step in &steps {
            let mut entries = room.users.affiliations.entries().iter();
            let (owner, _) = entries.find(|(_, entry)| entry.affiliation == Affiliation::Owner).unwrap();
            let owner = owner.to_string();
            apply(&mut room, &stanza(step, &owner), &mut views);
            check(&room, &views);
        }
        let kept = Room::from_stored(room.users.address.bare.clone(), &room.to_stored()).unwrap();
        let (kept, users) = (&kept.users, &room.users);
        prop_assert_eq!(kept.affiliations.entries(), users.affiliations.entries());
        prop_assert!(kept.config == users.config && kept.address.secret == users.address.secret);
    }
}

/// As many as a big meeting: the cost of a message is its copies, and finding the speaker is cheap.
#[test]
fn a_thousand_occupants_get_one_copy_each() {
    let mut room =
        Room::created(Bare::parse(ROOM).unwrap(), [3; 32], Bare::parse("u0@example.org").unwrap(), &entry());
    let presence = Arc::new(Element::new("presence", ns::CLIENT));
    for number in 0..1_000 {
        let session = Jid::parse(&format!("p{number}@example.org/x")).unwrap();
        room.users.add_occupant(&format!("n{number}"), &session, Role::Participant, Arc::clone(&presence));
    }
    let said = parse(&format!(
        "<message type='groupchat' from='p500@example.org/x' to='{ROOM}'><body>hi</body></message>"
    ));
    let mut outs = Vec::new();
    let (from, to) = (stanza::from(&said).unwrap().unwrap(), stanza::to(&said).unwrap().unwrap());
    room.handle(Instant::default(), &from, &to, &said, &mut outs);
    let [RoomEffect::Broadcast(message)] = &outs[..] else { panic!("{outs:?}") };
    let message = Element::clone(message);
    let mut copies = Vec::new();
    room.publish(Instant::default(), message, "1", &mut copies);
    let addressees: BTreeSet<_> = copies
        .iter()
        .map(|out| match out {
            RoomEffect::Send(copy) => copy.attr("to").unwrap().to_owned(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!((copies.len(), addressees.len()), (1_000, 1_000));
}

/// XEP-0313 §6.1.2: the archive has real addresses where all occupants may see them, and nowhere else.
#[test]
fn the_archive_has_addresses_only_where_they_are_no_secret() {
    let mut views = Views::new();
    let mut room = opened(&mut views);
    let said = parse(&format!("<message type='groupchat' from='{ROOM}/n0'><body>hi</body></message>"));
    room.users.config.is_persistent = true;
    assert!(!room.archived(&said).unwrap().to_string().contains(OWNER));
    room.users.config.is_whois_anyone = true;
    assert!(room.archived(&said).unwrap().to_string().contains(OWNER));
}
