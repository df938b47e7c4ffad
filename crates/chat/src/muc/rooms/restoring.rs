//! Rooms whose host is dead, at their next host. Their occupants enter again by themselves, and the nodes of clients name the occupants that
//! these have seen (`muc::seen`). Some time later the room tells its occupants which of those have not come back: they have left just before
//! the death or after it, or their sessions were lost (`docs/decisions/0071-sessions-that-outlive-their-owner.md`).

use std::collections::{BTreeSet, HashMap, HashSet};

use muc::seen::AnnouncedOccupants;
use muc::{Room, RoomEffect};
use stdx::Instant;
use xmpp::{Bare, Element, Jid, ns};

use super::{HandledStanza, RoomEntry, Rooms, RoomsEffect, RoomsRead};
use crate::effect::{Change, Load};
use crate::limits::{ROOM_MISSING_COPIES, ROOM_MISSING_PAUSE, ROOM_RESTORE};

/// The rooms whose occupants enter again.
#[derive(Default)]
pub(super) struct RestoringRooms {
    rooms: HashMap<Bare, RestoringRoom>,
    /// The times at which each of them is looked at.
    due: BTreeSet<(Instant, Bare)>,
}

#[derive(Default)]
struct RestoringRoom {
    /// The nicknames that clients have seen and that are not looked for yet.
    seen: BTreeSet<Box<str>>,
    /// Sessions that were in the room.
    sessions: HashSet<Jid>,
}

impl RestoringRooms {
    /// A node names occupants that its clients have seen.
    pub(super) fn handle_announced(&mut self, now: Instant, address: &Bare, seen: AnnouncedOccupants) {
        let room = self.rooms.entry(address.clone()).or_insert_with(|| {
            self.due.insert((now + ROOM_RESTORE, address.clone()));
            RestoringRoom::default()
        });
        room.seen.extend(seen.nicks);
        room.sessions.extend(seen.sessions);
    }

    /// True if occupants of this room have been announced, and it has had no time to look for them.
    pub(super) fn has(&self, address: &Bare) -> bool {
        self.rooms.contains_key(address)
    }

    /// True if this session was in the room.
    pub(super) fn has_session(&self, address: &Bare, session: &Jid) -> bool {
        self.rooms.get(address).is_some_and(|room| room.sessions.contains(session))
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.due.first().map(|(until, _)| *until)
    }

    /// These rooms have another host now.
    pub(super) fn remove(&mut self, is_meant: impl Fn(&Bare) -> bool) {
        self.rooms.retain(|address, _| !is_meant(address));
        self.due.retain(|(_, address)| !is_meant(address));
    }

    /// The next room that is due.
    fn take_due(&mut self, now: Instant) -> Option<(Bare, RestoringRoom)> {
        let (until, address) = self.due.first().filter(|(until, _)| *until <= now).cloned()?;
        self.due.remove(&(until, address.clone()));
        let room = self.rooms.remove(&address)?;
        Some((address, room))
    }

    /// The room has its turn again, later.
    fn defer(&mut self, until: Instant, address: Bare, room: RestoringRoom) {
        self.due.insert((until, address.clone()));
        self.rooms.insert(address, room);
    }
}

impl RestoringRoom {
    /// The stanzas by which the occupants learn of the missing ones: as many as have their turn now.
    fn tell_missing(&mut self, room: &Room) -> Vec<RoomEffect> {
        let mut told = Vec::new();
        while told.len() < ROOM_MISSING_COPIES
            && let Some(nick) = self.seen.pop_first()
        {
            muc::seen::tell_missing(room, &nick, &mut told);
        }
        told
    }
}

impl Rooms {
    /// Addresses get another host if this one dies.
    pub(crate) fn set_shared(&mut self) {
        self.is_shared = true;
    }

    /// Tells the occupants of restored rooms, some time after the death of their host, of those that have not come back.
    pub(crate) fn expire_restored(&mut self, now: Instant) -> Vec<(Bare, RoomsEffect)> {
        let mut effects = Vec::new();
        while let Some((address, mut restoring)) = self.restoring.take_due(now) {
            let Some(slot) = self.slots.get(&address) else {
                // Nothing has come for it: the store forgets it, if it was a temporary room.
                if self.make_place() {
                    let slot = RoomEntry { is_busy: true, ..RoomEntry::default() };
                    self.slots.insert(address.clone(), slot);
                    let load = Load::Room { room: address.clone() };
                    effects.push((address, RoomsEffect::Load(load, RoomsRead::Room)));
                }
                continue;
            };
            if slot.is_busy {
                self.restoring.defer(now + ROOM_MISSING_PAUSE, address, restoring);
                continue;
            }
            let Some(room) = slot.room.as_deref() else { continue };
            let told = restoring.tell_missing(room);
            if !restoring.seen.is_empty() {
                self.restoring.defer(now + ROOM_MISSING_PAUSE, address.clone(), restoring);
            }
            effects.push((address, RoomsEffect::Perform(of_no_stanza(told))));
        }
        effects
    }
}

/// Effects that no stanza has caused.
pub(super) fn of_no_stanza(effects: Vec<RoomEffect>) -> HandledStanza {
    let stanza = Box::new(Element::new("presence", ns::CLIENT).with("type", "error"));
    HandledStanza { stanza, before: None, is_removal: false, effects }
}

/// The store forgets a temporary room that has ended.
pub(super) fn removal(address: &Bare) -> RoomsEffect {
    let change = Change::Room { room: address.clone(), config: None, charged: None };
    RoomsEffect::Write(change, HandledStanza { is_removal: true, ..of_no_stanza(Vec::new()) })
}
