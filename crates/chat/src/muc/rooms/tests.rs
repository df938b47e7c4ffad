//! The machine of all rooms without a host: loading, waiting and failures of the store.

use xmpp::ns;

use super::*;

const ROOM: &str = "coven@conference.example.org";

fn entry(nick: &str) -> Element {
    Element::new("presence", ns::CLIENT)
        .with("from", format!("{nick}@example.org/a"))
        .with("to", format!("{ROOM}/{nick}"))
        .child(Element::new("x", ns::MUC))
}

fn route(rooms: &mut Rooms, stanza: Element, settings: &HostSettings) -> Option<RoomsEffect> {
    let mut rng = Rng::from_seed([1; 32]);
    let mut context = RoomsContext { now: Instant::default(), settings, rng: &mut rng };
    let (from, to) = (stanza::from(&stanza).unwrap().unwrap(), stanza::to(&stanza).unwrap().unwrap());
    rooms.handle_routed(&mut context, &to.bare(), (&from, &to), stanza)
}

/// The first stanza reads the room; all wait for the answer and are handled in the order they came.
#[test]
fn stanzas_wait_while_their_room_is_read() {
    let settings = HostSettings { domains: vec!["example.org".into()], ..HostSettings::default() };
    let (mut rooms, room) = (Rooms::default(), Bare::parse(ROOM).unwrap());
    let read = route(&mut rooms, entry("crone"), &settings);
    assert!(matches!(read, Some(RoomsEffect::Load(Load::Room { .. }, RoomsRead::Room))));
    assert!(route(&mut rooms, entry("hecate"), &settings).is_none());
    assert!(rooms.next_waiting(Instant::default(), &room).is_none(), "it is being read");
    let effects = rooms.handle_loaded(Instant::default(), &room, RoomsRead::Room, Ok(StoreReply::Room(None)));
    assert!(effects.is_empty());
    let mut order = Vec::new();
    while let Some(event) = rooms.next_waiting(Instant::default(), &room) {
        order.push(event.sender().unwrap().to_string());
        let mut rng = Rng::from_seed([1; 32]);
        let mut context = RoomsContext { now: Instant::default(), settings: &settings, rng: &mut rng };
        let effect = rooms.handle_waiting(&mut context, &room, event);
        assert!(matches!(effect, Some(RoomsEffect::Perform(_))), "a temporary room is not written");
    }
    assert_eq!(order, ["crone@example.org/a", "hecate@example.org/a"]);
}

/// A room that cannot be read refuses all that waited, and is read again for the next stanza.
#[test]
fn a_room_that_cannot_be_read_refuses_the_waiting_stanzas() {
    let settings = HostSettings { domains: vec!["example.org".into()], ..HostSettings::default() };
    let (mut rooms, room) = (Rooms::default(), Bare::parse(ROOM).unwrap());
    route(&mut rooms, entry("crone"), &settings);
    route(&mut rooms, entry("hecate"), &settings);
    let failure = Err(StoreFailure::Unavailable);
    let effects = rooms.handle_loaded(Instant::default(), &room, RoomsRead::Room, failure);
    assert!(effects.iter().all(|effect| matches!(effect, RoomsEffect::Send(_))));
    assert_eq!((effects.len(), rooms.len()), (2, 0));
    assert!(matches!(route(&mut rooms, entry("crone"), &settings), Some(RoomsEffect::Load(..))));
}
