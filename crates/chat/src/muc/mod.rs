//! Rooms (XEP-0045): those in memory, and their way from and to the store. The inside of a room is [`room`].

mod departed;
mod directory;
mod room;
mod search;
mod service;

use std::collections::{BTreeSet, HashMap, VecDeque};

use stdx::Instant;
use xmpp::stanza::{self, Condition, StanzaError, StanzaKind};
use xmpp::{Bare, Element, Jid, Level, Specification, ns};

use super::effect::{Change, Load, MamQuery, RoomState, StoreFailure, StoreReply};
use super::feature::Feature;
use super::{Host, Outbox, retract};
use crate::archive;
use crate::limits::{HISTORY, HISTORY_BYTES, ROOM_IDLE, ROOM_WAITING, ROOMS};
use room::{Retraction, Room, RoomEffect};

const fn specification(
    name: &'static str,
    title: &'static str,
    version: &'static str,
    level: Level,
    note: &'static str,
) -> Specification {
    Specification { name, title, version, level, file: "crates/chat/src/muc/mod.rs", note }
}

pub(super) const FEATURE: Feature = Feature {
    specifications: &[
        specification(
            "XEP-0045",
            "Multi-User Chat",
            "1.34.6",
            Level::Complete,
            "a registration needs no approval and is refused by rooms for members; presence is shown for all roles",
        ),
        specification(
            "XEP-0249",
            "Direct MUC Invitations",
            "1.2",
            Level::Complete,
            "sent with mediated ones",
        ),
        specification("XEP-0410", "MUC Self-Ping", "1.1.0", Level::Complete, "answered by the room"),
        specification(
            "XEP-0421",
            "Occupant identifiers for semi-anonymous MUCs",
            "1.0.1",
            Level::Complete,
            "",
        ),
        Specification {
            name: "XEP-0433",
            title: "Extended Channel Search",
            version: "0.1.0",
            level: Level::Complete,
            file: "crates/chat/src/muc/search.rs",
            note: "of the rooms of this server",
        },
        specification("XEP-0425", "Moderated Message Retraction", "0.3.0", Level::Complete, ""),
    ],
    account: &[],
    server: &[],
    handles: &[],
};

/// The accounts that may create a room by entering it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RoomCreation {
    /// Users of other servers too.
    Anybody,
    #[default]
    LocalUsers,
    Nobody,
}

/// Rooms of this host.
#[derive(Default)]
pub(super) struct Rooms {
    slots: HashMap<Bare, RoomEntry>,
    /// Rooms without occupants, and until when they stay in memory.
    idle: BTreeSet<(Instant, Bare)>,
    directories: directory::Directories,
}

/// The place of one room.
#[derive(Default)]
struct RoomEntry {
    /// `None`: there is none, or the store has not answered yet.
    room: Option<Box<Room>>,
    /// It is being read or written: stanzas wait, so that what is undone undoes nothing else.
    is_busy: bool,
    waiting: VecDeque<Box<Element>>,
    /// Accounts that were removed, while it was being read or written.
    departed: Vec<Bare>,
    /// As in `Rooms::idle`.
    idle_until: Option<Instant>,
}

/// The effects of a stanza, until its change is on disk.
struct UnsavedRoom {
    stanza: Box<Element>,
    before: Option<Box<Room>>,
    outs: Vec<RoomEffect>,
}

impl Rooms {
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.idle.first().map(|(until, _)| *until)
    }

    fn room(&mut self, address: &Bare) -> Option<&mut Room> {
        self.slots.get_mut(address)?.room.as_deref_mut()
    }

    fn set_idle(&mut self, address: &Bare, until: Option<Instant>) {
        let Some(slot) = self.slots.get_mut(address) else { return };
        let old = std::mem::replace(&mut slot.idle_until, until);
        if let Some(old) = old {
            self.idle.remove(&(old, address.clone()));
        }
        if let Some(until) = until {
            self.idle.insert((until, address.clone()));
        }
    }

    fn remove(&mut self, address: &Bare) -> Option<RoomEntry> {
        self.set_idle(address, None);
        self.slots.remove(address)
    }

    /// A place for one more, if need be that of the one that was left longest ago.
    fn make_place(&mut self) -> bool {
        while self.slots.len() >= ROOMS {
            let is_free = |address: &Bare| self.slots.get(address).is_some_and(|slot| !slot.is_busy);
            let Some((_, oldest)) = self.idle.iter().find(|(_, address)| is_free(address)).cloned() else {
                return false;
            };
            self.remove(&oldest);
        }
        true
    }
}

impl Host {
    pub(super) fn expire_rooms(&mut self, now: Instant, _out: &mut Outbox) {
        while let Some((_, address)) = self.rooms.idle.first().filter(|(until, _)| *until <= now).cloned() {
            if self.rooms.slots.get(&address).is_some_and(|slot| slot.is_busy) {
                self.rooms.set_idle(&address, Some(now + ROOM_IDLE));
            } else {
                self.rooms.remove(&address);
            }
        }
    }

    /// The rooms of a service that are in memory.
    pub(super) fn describe_rooms(&self, domain: &str) -> Vec<RoomState> {
        let here = self.rooms.slots.iter().filter(|(address, _)| address.domain() == domain);
        here.filter_map(|(address, slot)| Some((address, slot.room.as_ref()?)))
            .map(|(address, room)| RoomState {
                address: address.clone(),
                name: room.name().into(),
                occupants: room.occupants() as u64,
                is_persistent: room.is_persistent(),
                is_listed: room.is_listed(),
            })
            .collect()
    }

    /// The number of rooms in memory, and of their occupants.
    pub fn rooms(&self) -> (usize, usize) {
        let rooms = self.rooms.slots.values().filter_map(|slot| slot.room.as_ref());
        (self.rooms.slots.len(), rooms.map(|room| room.occupants()).sum())
    }

    /// The service ends: occupants are told so (XEP-0045 §16.2, 332).
    pub fn close_rooms(&mut self, out: &mut Outbox) {
        let mut outs = Vec::new();
        for slot in self.rooms.slots.values_mut() {
            if let Some(room) = &mut slot.room {
                room.close(&mut outs);
            }
        }
        self.rooms = Rooms::default();
        self.send_all(outs, out);
    }

    /// For a room, an occupant or the service.
    pub(super) fn routed_to_room(
        &mut self,
        now: Instant,
        element: Element,
        from: &Jid,
        to: &Jid,
        out: &mut Outbox,
    ) {
        if to.local().is_none() {
            return self.routed_to_rooms(now, &element, to, out);
        }
        let address = to.bare();
        let Some(slot) = self.rooms.slots.get_mut(&address) else {
            return self.open_room(address, element, out);
        };
        if slot.is_busy {
            if slot.waiting.len() < ROOM_WAITING {
                return slot.waiting.push_back(Box::new(element));
            }
            return self.refuse_in_room(&element, Condition::ResourceConstraint, out);
        }
        self.act_in_room(now, &address, from, to, Box::new(element), out);
        self.drain(now, &address, out);
    }

    /// The first request for this room: the store knows if there is such a room.
    fn open_room(&mut self, address: Bare, element: Element, out: &mut Outbox) {
        // Errors and unavailable presence have no effect on a room without occupants.
        let is_nothing = matches!(element.attr("type"), Some("error" | "result" | "unavailable"));
        if is_nothing {
            return;
        }
        if !self.rooms.make_place() {
            return self.refuse_in_room(&element, Condition::ResourceConstraint, out);
        }
        let waiting = VecDeque::from([Box::new(element)]);
        let slot = RoomEntry { is_busy: true, waiting, ..RoomEntry::default() };
        self.rooms.slots.insert(address.clone(), slot);
        let load = Load::Room { room: address.clone() };
        self.load(load, out, move |host, now, result, out| host.room_loaded(now, address, result, out));
    }

    fn room_loaded(
        &mut self,
        now: Instant,
        address: Bare,
        result: Result<StoreReply, StoreFailure>,
        out: &mut Outbox,
    ) {
        let room = match result {
            Ok(StoreReply::Room(None)) => None,
            Ok(StoreReply::Room(Some(stored))) => match Room::from_stored(address.clone(), &stored) {
                Some(room) => Some(Box::new(room)),
                None => return self.room_unavailable(&address, out),
            },
            _ => return self.room_unavailable(&address, out),
        };
        let is_archived = room.as_ref().is_some_and(|room| room.is_archived());
        let Some(slot) = self.rooms.slots.get_mut(&address) else { return };
        slot.room = room;
        if !is_archived {
            slot.is_busy = false;
            return self.drain(now, &address, out);
        }
        let max = u32::try_from(HISTORY).unwrap_or(u32::MAX);
        let query = Box::new(MamQuery { from_end: true, max, bytes: HISTORY_BYTES, ..MamQuery::default() });
        let load = Load::Archive { owner: address.clone(), query };
        // All entering clients wait for it, whatever other reads the first of them has.
        self.with_requester(None, |host| {
            host.load(load, out, move |host, now, result, out| {
                host.room_history_loaded(now, &address, result, out);
            });
        });
    }

    /// A room without its history is better than none.
    fn room_history_loaded(
        &mut self,
        now: Instant,
        address: &Bare,
        result: Result<StoreReply, StoreFailure>,
        out: &mut Outbox,
    ) {
        let Some(slot) = self.rooms.slots.get_mut(address) else { return };
        slot.is_busy = false;
        if let (Some(room), Ok(StoreReply::Page(page))) = (&mut slot.room, result) {
            for (id, at, message) in page.stanzas {
                room.remember(at, &id, message);
            }
        }
        self.drain(now, address, out);
    }

    /// The waiting clients get an error, and the next request asks the store again.
    fn room_unavailable(&mut self, address: &Bare, out: &mut Outbox) {
        let Some(slot) = self.rooms.remove(address) else { return };
        for stanza in slot.waiting {
            self.refuse_in_room(&stanza, Condition::ResourceConstraint, out);
        }
    }

    /// Handles the stanzas that waited; then the room becomes idle if it has no occupants.
    fn drain(&mut self, now: Instant, address: &Bare, out: &mut Outbox) {
        while let Some(slot) = self.rooms.slots.get_mut(address).filter(|slot| !slot.is_busy) {
            if let Some(user) = slot.departed.pop() {
                self.leave_room(now, address, &user, out);
                continue;
            }
            let Some(stanza) = slot.waiting.pop_front() else { break };
            if let (Ok(Some(from)), Ok(Some(to))) = (stanza::from(&stanza), stanza::to(&stanza)) {
                self.for_requester(&from, |host| host.act_in_room(now, address, &from, &to, stanza, out));
            }
        }
        let Some(slot) = self.rooms.slots.get_mut(address).filter(|slot| !slot.is_busy) else { return };
        match &slot.room {
            Some(room) if !room.is_empty() => {
                if slot.idle_until.is_some() {
                    self.rooms.set_idle(address, None);
                }
            }
            Some(room) if room.is_persistent() => {
                if slot.idle_until.is_none() {
                    self.rooms.set_idle(address, Some(now + ROOM_IDLE));
                }
            }
            // Temporary ones go with the last occupant (§4.2).
            _ => drop(self.rooms.remove(address)),
        }
    }

    fn act_in_room(
        &mut self,
        now: Instant,
        address: &Bare,
        from: &Jid,
        to: &Jid,
        stanza: Box<Element>,
        out: &mut Outbox,
    ) {
        if self.rooms.room(address).is_none() && !self.create_room(address, from, to, &stanza, out) {
            return;
        }
        let above = self.may_all_in_rooms(from, &stanza).then(|| from.bare());
        let Some(room) = self.rooms.room(address) else { return };
        room.set_above(above);
        let before = room.may_save(from, &stanza).then(|| Box::new(room.clone()));
        let mut outs = Vec::new();
        room.handle(now, from, to, &stanza, &mut outs);
        room.set_above(None);
        let unsaved = UnsavedRoom { stanza, before, outs };
        self.save(now, address, unsaved, out);
    }

    /// §10.1: entering a room that does not exist creates it. False: it was not created, and the client got
    /// an error.
    fn create_room(
        &mut self,
        address: &Bare,
        from: &Jid,
        to: &Jid,
        stanza: &Element,
        out: &mut Outbox,
    ) -> bool {
        let is_entry = stanza::kind_of(stanza) == Some(StanzaKind::Presence)
            && stanza.attr("type").is_none()
            && stanza.get("x", ns::MUC).is_some()
            && to.resource().is_some();
        // The operator of the server creates a room by configuring it.
        let is_made = from.local().is_none()
            && self.may_all_in_rooms(from, stanza)
            && stanza.attr("type") == Some("set")
            && stanza.get("query", ns::MUC_OWNER).is_some_and(|query| query.get("x", ns::DATA).is_some());
        if is_made {
            self.make_room(address, from.bare());
            return true;
        }
        if !is_entry {
            self.refuse_in_room(stanza, Condition::ItemNotFound, out);
            return false;
        }
        let may = match self.settings.room_creation {
            RoomCreation::Anybody => true,
            RoomCreation::LocalUsers => self.settings.is_local(from.domain()),
            RoomCreation::Nobody => false,
        };
        if !may {
            self.refuse_in_room(stanza, Condition::NotAllowed, out);
            return false;
        }
        self.make_room(address, from.bare());
        true
    }

    fn make_room(&mut self, address: &Bare, owner: Bare) {
        let mut secret = [0; 32];
        self.rng.fill(&mut secret);
        if let Some(slot) = self.rooms.slots.get_mut(address) {
            slot.room = Some(Box::new(Room::created(address.clone(), secret, owner)));
        }
    }

    /// Administrators of the server (XEP-0045 §5.2: "service-wide administrators"), and its operator, whose
    /// requests come from the domain itself, count as owners for a room's IQ requests. Clients cannot send
    /// from a domain of ours.
    fn may_all_in_rooms(&self, from: &Jid, stanza: &Element) -> bool {
        let is_operator = from.local().is_none() && self.settings.is_local(from.domain());
        stanza::kind_of(stanza) == Some(StanzaKind::Iq) && (is_operator || self.settings.is_admin(from))
    }

    /// Performs the effects of a stanza, after its change is on disk if there is one.
    fn save(&mut self, now: Instant, address: &Bare, unsaved: UnsavedRoom, out: &mut Outbox) {
        let is_changed =
            unsaved.outs.iter().any(|out| matches!(out, RoomEffect::Save | RoomEffect::Destroyed));
        let Some(slot) = self.rooms.slots.get_mut(address).filter(|_| is_changed) else {
            return self.perform_in_room(now, address, unsaved, out);
        };
        let was_kept = unsaved.before.as_ref().is_some_and(|before| before.is_persistent());
        let is_destroyed = unsaved.outs.iter().any(|out| matches!(out, RoomEffect::Destroyed));
        let kept = slot.room.as_ref().filter(|room| room.is_persistent() && !is_destroyed);
        let config = kept.map(|room| Box::new(room.to_stored()));
        if config.is_none() && !was_kept {
            return self.perform_in_room(now, address, unsaved, out);
        }
        let charged = if was_kept { None } else { self.charged_for_room(&unsaved.stanza) };
        let Some(slot) = self.rooms.slots.get_mut(address) else { return };
        slot.is_busy = true;
        self.rooms.directories.forget(address.domain());
        let change = Change::Room { room: address.clone(), config, charged };
        let address = address.clone();
        self.change(change, out, move |host, now, result, out| {
            host.saved(now, &address, result, unsaved, out);
        });
    }

    /// The account that a persistent room counts for: an account of ours, or a foreign domain, whose accounts
    /// are without number. `None` for administrators of the server.
    fn charged_for_room(&self, stanza: &Element) -> Option<Box<str>> {
        let from = stanza::from(stanza).ok().flatten()?;
        if self.may_all_in_rooms(&from, stanza) {
            return None;
        }
        Some(if self.settings.is_local(from.domain()) {
            from.bare_str().into()
        } else {
            from.domain().into()
        })
    }

    fn saved(
        &mut self,
        now: Instant,
        address: &Bare,
        result: Result<(), StoreFailure>,
        unsaved: UnsavedRoom,
        out: &mut Outbox,
    ) {
        let Some(slot) = self.rooms.slots.get_mut(address) else { return };
        slot.is_busy = false;
        if result.is_ok() {
            self.perform_in_room(now, address, unsaved, out);
        } else {
            if let Some(mut before) = unsaved.before {
                before.set_above(None);
                slot.room = Some(before);
            }
            let text = match result {
                Err(StoreFailure::Beyond) => {
                    "the room has too much to be stored, or you have made as many persistent rooms as one may: destroy some"
                }
                _ => "the room cannot be stored now: try again later",
            };
            let mut outs = Vec::new();
            room::refuse(&unsaved.stanza, StanzaError::new(Condition::ResourceConstraint, text), &mut outs);
            self.send_all(outs, out);
        }
        self.drain(now, address, out);
    }

    fn perform_in_room(&mut self, now: Instant, address: &Bare, unsaved: UnsavedRoom, out: &mut Outbox) {
        out.reserve(unsaved.outs.len());
        for one in unsaved.outs {
            match one {
                RoomEffect::Send(stanza) => self.route(stanza, out),
                RoomEffect::Broadcast(message) => self.said(now, address, *message, out),
                RoomEffect::ReadArchive => archive::handle_query(self, now, address, &unsaved.stanza, out),
                RoomEffect::Retract(retraction) => {
                    self.retract_in_room(address, *retraction, unsaved.stanza.clone(), out);
                }
                RoomEffect::Destroyed => {
                    if let Some(slot) = self.rooms.slots.get_mut(address) {
                        slot.room = None;
                    }
                }
                RoomEffect::Save => {}
            }
        }
    }

    /// A message for all occupants gets its id: that of the archive, if there is one.
    fn said(&mut self, now: Instant, address: &Bare, mut message: Element, out: &mut Outbox) {
        // The room's own words have an id too, by which archives and clients know them.
        if message.attr("id").is_none() && message.attr("from") == Some(address.as_str()) {
            message.set("id", self.token());
        }
        let Some(room) = self.rooms.room(address) else { return };
        let speaker = stanza::from(&message).ok().flatten();
        let archived = (room.is_archived() && is_kept(&message)).then(|| room.archived(&message));
        let id = match (archived, speaker) {
            (Some(archived), Some(speaker)) => archive::record(self, now, address, &speaker, &archived, out),
            _ => self.token().into(),
        };
        let Some(room) = self.rooms.room(address) else { return };
        let mut outs = Vec::new();
        room.publish(now, message, &id, &mut outs);
        self.send_all(outs, out);
    }

    /// The archive first, so that the next query does not find the retracted message.
    fn retract_in_room(
        &mut self,
        address: &Bare,
        retraction: Retraction,
        stanza: Box<Element>,
        out: &mut Outbox,
    ) {
        let Retraction { id, whose, stone, is_known, then } = retraction;
        let room = address.clone();
        let tombstone = move |old: &Element| {
            let occupant = old.get("occupant-id", ns::OCCUPANT_ID).and_then(|id| id.attr("id"));
            (whose.is_none() || occupant == whose.as_deref()).then(|| retract::tombstone(old, stone))
        };
        archive::replace(self, address, &id, out, tombstone, move |host, now, result, out| {
            match result {
                Err(StoreFailure::NotFound) if !is_known && !then.is_empty() => {
                    host.refuse_in_room(&stanza, Condition::ItemNotFound, out);
                }
                Err(StoreFailure::Unavailable) if !then.is_empty() => {
                    host.refuse_in_room(&stanza, Condition::ResourceConstraint, out);
                }
                // A message of a moment ago may be on its way to the archive.
                _ => host.perform_in_room(now, &room, UnsavedRoom { stanza, before: None, outs: then }, out),
            }
        });
    }

    fn send_all(&mut self, outs: Vec<RoomEffect>, out: &mut Outbox) {
        out.reserve(outs.len());
        for one in outs {
            if let RoomEffect::Send(stanza) = one {
                self.route(stanza, out);
            }
        }
    }

    /// As [`Host::refuse`], presence too: a client that failed to enter has to learn it.
    fn refuse_in_room(&mut self, stanza: &Element, condition: Condition, out: &mut Outbox) {
        let mut outs = Vec::new();
        if stanza.attr("type") != Some("unavailable") {
            room::refuse(stanza, condition, &mut outs);
        }
        self.send_all(outs, out);
    }
}

/// The name of a stored room, and whether lists show it.
pub fn stored_room(stored: &Element) -> Option<(Box<str>, bool)> {
    Room::named(stored)
}

/// Messages that an archive has (XEP-0313 §5.1.1): not those that are about the moment.
pub(super) fn is_kept(message: &Element) -> bool {
    let is_lasting = |child: &Element| {
        child.is("retract", ns::RETRACT)
            || matches!(
                child.ns(),
                "urn:xmpp:reactions:0" | "urn:xmpp:chat-markers:0" | "urn:xmpp:encrypted:0"
            )
            || child.is("encrypted", "eu.siacs.conversations.axolotl")
    };
    let is_forbidden =
        |child: &Element| child.is("no-store", ns::HINTS) || child.is("no-permanent-store", ns::HINTS);
    (room::is_said(message) || message.elements().any(is_lasting)) && !message.elements().any(is_forbidden)
}
