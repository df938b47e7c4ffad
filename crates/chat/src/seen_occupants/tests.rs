use std::collections::BTreeSet;
use std::time::Duration;

use ::muc::seen::AnnouncedOccupants;

use super::*;

const ROOM: &str = "coven@conference.example.org";

struct Edge {
    seen: SeenOccupants,
    now: Instant,
}

impl Edge {
    fn new() -> Edge {
        Edge { seen: SeenOccupants::default(), now: Instant::default() }
    }

    /// A presence of the room for the client of this stream.
    fn deliver(&mut self, stream: u64, nick: &str, kind: Option<&'static str>, codes: &[&'static str]) {
        let codes = codes.iter().map(|code| Element::new("status", ns::MUC_USER).with("code", *code));
        let presence = Element::new("presence", ns::CLIENT)
            .with("from", format!("{ROOM}/{nick}"))
            .with("to", format!("u{stream}@example.org/a"))
            .with_opt("type", kind)
            .child(Element::new("x", ns::MUC_USER).children(codes));
        let occupant = occupant_of(&presence).unwrap();
        self.seen.handle_delivered(self.now, stream, &occupant, &presence);
    }

    /// The occupants that the next host of the room is told of.
    fn announced(&mut self) -> Vec<String> {
        self.all()
            .into_iter()
            .flat_map(|all| all.nicks)
            .map(String::from)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }

    fn all(&mut self) -> Vec<AnnouncedOccupants> {
        let stanzas = self.seen.announce(self.now, |room| room == ROOM);
        let all = stanzas.iter().map(|stanza| {
            let (from, to) =
                (xmpp::stanza::from(stanza).unwrap().unwrap(), xmpp::stanza::to(stanza).unwrap().unwrap());
            assert!(::muc::seen::is_announcement(stanza));
            ::muc::seen::announced(&from, &to, stanza).unwrap()
        });
        all.collect()
    }
}

#[test]
fn occupants_seen_by_clients_of_the_shard_are_announced_once() {
    let mut edge = Edge::new();
    for stream in [1, 2] {
        edge.deliver(stream, "crone", None, &[]);
        edge.deliver(stream, "wicca", None, &[]);
    }
    edge.deliver(1, "hag", None, &["110"]);
    assert_eq!(edge.announced(), ["crone", "hag", "wicca"]);
    assert!(edge.seen.announce(edge.now, |room| room != ROOM).is_empty(), "of lost rooms only");
}

#[test]
fn clients_of_the_shard_are_announced_with_their_addresses() {
    let mut edge = Edge::new();
    edge.deliver(1, "crone", None, &[]);
    edge.deliver(1, "hag", None, &["110"]);
    let sessions = |edge: &mut Edge| edge.all().into_iter().flat_map(|all| all.sessions).collect::<Vec<_>>();
    assert_eq!(sessions(&mut edge), [Jid::parse("u1@example.org/a").unwrap()]);
    // Others of the shard see the room, and this client has left it.
    edge.deliver(2, "wicca", None, &["110"]);
    edge.deliver(1, "hag", Some("unavailable"), &["110"]);
    assert_eq!(sessions(&mut edge), [Jid::parse("u2@example.org/a").unwrap()]);
}

#[test]
fn an_occupant_that_has_left_is_announced_for_some_time() {
    let mut edge = Edge::new();
    edge.deliver(1, "hag", None, &["110"]);
    edge.deliver(1, "crone", None, &[]);
    edge.deliver(1, "crone", Some("unavailable"), &[]);
    // Others may not have been told.
    assert_eq!(edge.announced(), ["crone", "hag"]);
    edge.now = edge.now + SEEN_GONE;
    assert_eq!(edge.announced(), ["hag"]);
    edge.deliver(1, "crone", None, &[]);
    edge.now = edge.now + SEEN_GONE + Duration::from_secs(1);
    assert_eq!(edge.announced(), ["crone", "hag"]);
}

#[test]
fn a_room_is_forgotten_with_its_last_client() {
    let mut edge = Edge::new();
    edge.deliver(1, "crone", None, &["110"]);
    edge.deliver(2, "hag", None, &["110"]);
    edge.deliver(1, "crone", Some("unavailable"), &["110"]);
    assert_eq!(edge.announced().len(), 2, "the other client sees it");
    // It has another nickname, and is there.
    edge.deliver(2, "hag", Some("unavailable"), &["303", "110"]);
    edge.deliver(2, "witch", None, &["110"]);
    assert_eq!(edge.announced(), ["crone", "hag", "witch"]);
    edge.seen.remove(2);
    assert!(edge.announced().is_empty());
    assert!(edge.seen.rooms.is_empty() && edge.seen.rooms_of.is_empty());
    assert_eq!(edge.seen.bytes, 0);
}

#[test]
fn many_nicknames_take_a_bounded_place() {
    let mut edge = Edge::new();
    for number in 0..SEEN_BYTES / (NICK_HEAD + 8) + 10 {
        edge.deliver(1, &format!("{number:08}"), None, &[]);
    }
    assert!(edge.seen.bytes <= SEEN_BYTES);
    assert_eq!(edge.announced().len(), edge.seen.bytes / (NICK_HEAD + 8));
}

#[test]
fn only_presence_of_occupants_counts() {
    let of = |xml: &str| {
        let prefixes = xmpp::xml::Prefixes::of_default(ns::CLIENT);
        occupant_of(&xmpp::xml::parse(xml.as_bytes(), &prefixes).unwrap())
    };
    let x = "<x xmlns='http://jabber.org/protocol/muc#user'/>";
    assert!(of(&format!("<presence from='{ROOM}/hag'>{x}</presence>")).is_some());
    for stanza in [
        format!("<presence from='{ROOM}/hag'/>"),
        format!("<presence from='{ROOM}'>{x}</presence>"),
        format!("<presence from='{ROOM}/hag' type='error'>{x}</presence>"),
        format!("<message from='{ROOM}/hag'>{x}</message>"),
    ] {
        assert!(of(&stanza).is_none(), "{stanza}");
    }
}
