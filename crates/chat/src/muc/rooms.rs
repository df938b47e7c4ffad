//! The rooms of a host as a machine: those in memory, the stanzas that wait for them, and the directories of their
//! services. Stanzas and the store's replies come in, [`RoomsEffect`]s go out; the host performs them.

mod restoring;
mod rights;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, VecDeque};

use muc::{Retraction, Room, RoomEffect, Tombstone};
use stdx::Instant;
use stdx::rng::Rng;
use xmpp::stanza::{self, Condition, StanzaError};
use xmpp::{Bare, Element, Jid};

use super::directory::{Directories, DirectoryPage, DirectoryRequest, StoredRooms};
use crate::HostSettings;
use crate::effect::{Change, HostActionResult, Load, MamQuery, RoomState, StoreFailure, StoreReply};
use crate::limits::{HISTORY, HISTORY_BYTES, ROOM_IDLE, ROOM_WAITING, ROOMS, ROOMS_LISTED};
use restoring::{RestoringRooms, of_no_stanza, removal};
use rights::{charged, has_all_rights, may_create};

/// The rooms of this host.
#[derive(Default)]
pub(in super::super) struct Rooms {
    /// The rooms in memory, and those that are being read.
    slots: HashMap<Bare, RoomEntry>,
    /// Rooms without occupants, and until when they stay in memory.
    idle: BTreeSet<(Instant, Bare)>,
    directories: Directories,
    restoring: RestoringRooms,
    /// Addresses get another host if this one dies: temporary rooms are stored while they have occupants.
    is_shared: bool,
}

/// The place of one room.
#[derive(Default)]
struct RoomEntry {
    /// `None`: there is none, or the store has not answered yet.
    room: Option<Box<Room>>,
    /// It is being read or written: stanzas wait, so that what is undone undoes nothing else.
    is_busy: bool,
    /// The store has it.
    is_stored: bool,
    /// Stanzas that have come while it is busy, the oldest first.
    waiting: VecDeque<Box<Element>>,
    /// Accounts that were removed, while it was being read or written.
    departed: Vec<Bare>,
    /// As in `Rooms::idle`; None: it has occupants, or is not idle yet.
    idle_until: Option<Instant>,
}

/// The time, configuration and randomness of a host, for one stanza.
pub(super) struct RoomsContext<'a> {
    pub(super) now: Instant,
    pub(super) settings: &'a HostSettings,
    pub(super) rng: &'a mut Rng,
}

/// Everything that [`Rooms`] asks of its host.
pub(in super::super) enum RoomsEffect {
    /// Read from the store; answered by [`Rooms::handle_loaded`].
    Load(Load, RoomsRead),
    /// Write a room; answered by [`Rooms::handle_written`].
    Write(Change, HandledStanza),
    /// Perform the effects of a stanza: its change is on disk, if there is one.
    Perform(HandledStanza),
    /// Handle the events that waited for the room, until there is none: [`Rooms::next_waiting`].
    HandleWaiting,
    /// Send a stanza to its addressee.
    Send(Element),
    /// Answer a request to the service.
    Answer(Element, Result<Option<Element>, StanzaError>),
    /// Refuse a stanza to the service.
    Refuse(Element, StanzaError),
}

/// A read of the store for [`Rooms`].
pub(in super::super) enum RoomsRead {
    Room,
    /// The newest messages of a room.
    History,
    /// A page of the rooms that are stored.
    Directory(DirectoryPage),
    /// The rooms in the memory of all hosts, for a request that has the stored ones.
    InMemory(StoredRooms, DirectoryRequest),
}

/// A stanza that a room has handled, and its effects, until its change is on disk.
pub(in super::super) struct HandledStanza {
    pub(super) stanza: Box<Element>,
    /// The room without the change.
    before: Option<Box<Room>>,
    /// The store forgets the room.
    is_removal: bool,
    pub(super) effects: Vec<RoomEffect>,
}

/// An event that has waited while its room was being read or written.
pub(super) enum WaitingEvent {
    Stanza {
        from: Jid,
        to: Jid,
        stanza: Box<Element>,
    },
    /// This account was removed.
    Departed(Bare),
}

/// A retraction, while the archive replaces the message.
pub(super) struct PendingRetraction {
    stanza: Box<Element>,
    /// The room's history had the message: it exists, even if the archive does not know it yet.
    is_known: bool,
    effects: Vec<RoomEffect>,
}

impl PendingRetraction {
    /// The id of the message in the archive, the tombstone that replaces it, and what waits for the archive.
    pub(super) fn begin(
        retraction: Retraction,
        stanza: Box<Element>,
    ) -> (Box<str>, Tombstone, PendingRetraction) {
        let Retraction { id, tombstone, is_known, then } = retraction;
        (id, tombstone, PendingRetraction { stanza, is_known, effects: then })
    }

    /// The archive has answered.
    pub(super) fn handle_replaced(self, result: Result<(), StoreFailure>) -> Option<RoomsEffect> {
        let PendingRetraction { stanza, is_known, effects } = self;
        match result {
            Err(StoreFailure::NotFound) if !is_known && !effects.is_empty() => {
                refusal(&stanza, Condition::ItemNotFound)
            }
            Err(StoreFailure::Unavailable) if !effects.is_empty() => {
                refusal(&stanza, Condition::ResourceConstraint)
            }
            // A message of a moment ago may be on its way to the archive.
            _ => {
                Some(RoomsEffect::Perform(HandledStanza { stanza, before: None, is_removal: false, effects }))
            }
        }
    }
}

impl WaitingEvent {
    /// The sender of a stanza.
    pub(super) fn sender(&self) -> Option<&Jid> {
        match self {
            WaitingEvent::Stanza { from, .. } => Some(from),
            WaitingEvent::Departed(_) => None,
        }
    }
}

impl Rooms {
    #[cfg(test)]
    pub(in super::super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The number of rooms in memory, and of their occupants.
    pub(super) fn count(&self) -> (usize, usize) {
        let rooms = self.slots.values().filter_map(|slot| slot.room.as_ref());
        (self.slots.len(), rooms.map(|room| room.occupants()).sum())
    }

    pub(in super::super) fn deadline(&self) -> Option<Instant> {
        let idle = self.idle.first().map(|(until, _)| *until);
        idle.into_iter().chain(self.restoring.deadline()).min()
    }

    /// Removes rooms that have been idle for long.
    pub(in super::super) fn expire(&mut self, now: Instant) {
        while let Some((_, address)) = self.idle.first().filter(|(until, _)| *until <= now).cloned() {
            if self.slots.get(&address).is_some_and(|slot| slot.is_busy) {
                self.set_idle(&address, Some(now + ROOM_IDLE));
            } else {
                self.remove(&address);
            }
        }
    }

    /// The rooms of a service that are in memory, for an operator.
    pub(in super::super) fn describe(&self, domain: &str) -> Vec<RoomState> {
        let here = self.of_service(domain);
        here.map(|(address, room)| RoomState {
            address: address.clone(),
            name: room.name().into(),
            occupants: room.occupants() as u64,
            is_persistent: room.is_persistent(),
            is_listed: room.is_listed(),
        })
        .collect()
    }

    /// The rooms of a service that are in memory, for a directory.
    pub(in super::super) fn list(&self, domain: &str) -> HostActionResult {
        let rooms = self.of_service(domain).map(|(address, room)| (address.as_str().into(), room.listed()));
        HostActionResult { rooms: rooms.take(ROOMS_LISTED).collect(), ..HostActionResult::default() }
    }

    fn of_service<'a>(&'a self, domain: &'a str) -> impl Iterator<Item = (&'a Bare, &'a Room)> {
        let here = self.slots.iter().filter(move |(address, _)| address.domain() == domain);
        here.filter_map(|(address, slot)| Some((address, slot.room.as_deref()?)))
    }

    /// Removes all rooms, after occupants are told so.
    pub(super) fn close(&mut self) -> Vec<RoomEffect> {
        let mut effects = Vec::new();
        for slot in self.slots.values_mut() {
            if let Some(room) = &mut slot.room {
                room.close(&mut effects);
            }
        }
        *self = Rooms { is_shared: self.is_shared, ..Rooms::default() };
        effects
    }

    /// Removes the rooms with these addresses, which have another host now, after occupants are told so. Stanzas that wait for a room
    /// are sent to it again. Returns also the temporary rooms that the store has.
    pub(super) fn release(&mut self, is_meant: impl Fn(&Bare) -> bool) -> (Vec<RoomEffect>, Vec<Bare>) {
        let (mut effects, mut ended) = (Vec::new(), Vec::new());
        self.restoring.remove(&is_meant);
        let meant: Vec<Bare> = self.slots.keys().filter(|address| is_meant(address)).cloned().collect();
        for address in meant {
            let Some(RoomEntry { room, waiting, is_stored, .. }) = self.remove(&address) else { continue };
            if let Some(mut room) = room {
                room.close(&mut effects);
                if is_stored && !room.is_persistent() {
                    ended.push(address);
                }
            }
            effects.extend(waiting.into_iter().map(|stanza| RoomEffect::Send(*stanza)));
        }
        (effects, ended)
    }

    pub(super) fn room(&mut self, address: &Bare) -> Option<&mut Room> {
        self.slots.get_mut(address)?.room.as_deref_mut()
    }

    /// Notes until when a room without occupants stays in memory; `None`: it has one. Both indexes change together.
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

    /// Makes a place for one more room, if need be that of the one that was left longest ago. False: no place, as all have occupants or are busy.
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

    /// A stanza for a room or an occupant.
    pub(super) fn handle_routed(
        &mut self,
        context: &mut RoomsContext<'_>,
        address: &Bare,
        parties: (&Jid, &Jid),
        element: Element,
    ) -> Option<RoomsEffect> {
        if let Some(seen) = muc::seen::announced(parties.0, parties.1, &element) {
            self.restoring.handle_announced(context.now, address, seen);
            return None;
        }
        let Some(slot) = self.slots.get_mut(address) else { return self.open(address, element) };
        if !slot.is_busy {
            return self.handle_stanza(context, address, parties, Box::new(element));
        }
        if slot.waiting.len() < ROOM_WAITING {
            slot.waiting.push_back(Box::new(element));
            return None;
        }
        refusal(&element, Condition::ResourceConstraint)
    }

    /// The first request for this room: the store knows if there is such a room.
    fn open(&mut self, address: &Bare, element: Element) -> Option<RoomsEffect> {
        // Errors and unavailable presence have no effect on a room without occupants.
        let is_nothing = matches!(element.attr("type"), Some("error" | "result" | "unavailable"));
        if is_nothing {
            return None;
        }
        if !self.make_place() {
            return refusal(&element, Condition::ResourceConstraint);
        }
        let waiting = VecDeque::from([Box::new(element)]);
        let slot = RoomEntry { is_busy: true, waiting, ..RoomEntry::default() };
        self.slots.insert(address.clone(), slot);
        Some(RoomsEffect::Load(Load::Room { room: address.clone() }, RoomsRead::Room))
    }

    /// The store has answered a read.
    pub(super) fn handle_loaded(
        &mut self,
        now: Instant,
        address: &Bare,
        read: RoomsRead,
        result: Result<StoreReply, StoreFailure>,
    ) -> Vec<RoomsEffect> {
        match read {
            RoomsRead::Room => self.handle_room(address, result),
            RoomsRead::History => {
                self.handle_history(address, result);
                Vec::new()
            }
            RoomsRead::Directory(page) => self.directories.handle_page(now, page, result),
            RoomsRead::InMemory(stored, request) => {
                let listed = match result {
                    Ok(StoreReply::HostActionResult(listed)) => listed,
                    // The rooms in memory are better than an empty list.
                    _ => self.list(address.domain()),
                };
                vec![request.answer(&stored, listed)]
            }
        }
    }

    /// The store's answer about a room. If there is none, a waiting stanza may create it. An archived room stays busy
    /// until its history is read.
    fn handle_room(&mut self, address: &Bare, result: Result<StoreReply, StoreFailure>) -> Vec<RoomsEffect> {
        let room = match result {
            Ok(StoreReply::Room(None)) => None,
            Ok(StoreReply::Room(Some(stored))) => match Room::from_stored(address.clone(), &stored) {
                Some(room) => Some(Box::new(room)),
                None => return self.refuse_waiting(address),
            },
            _ => return self.refuse_waiting(address),
        };
        let is_over = room.as_ref().is_some_and(|room| !room.is_persistent() && !self.restoring.has(address));
        let is_archived = room.as_ref().is_some_and(|room| room.is_archived());
        let is_shared = self.is_shared;
        let Some(slot) = self.slots.get_mut(address) else { return Vec::new() };
        slot.is_stored = room.is_some();
        if is_over {
            // §4.2: it has ended without its host. Its rights and its configuration are not those of a new room with this address.
            return vec![removal(address)];
        }
        slot.room = room;
        if let Some(room) = &mut slot.room {
            muc::seen::share(room, is_shared);
        }
        slot.is_busy = is_archived;
        if !is_archived {
            return Vec::new();
        }
        let max = u32::try_from(HISTORY).unwrap_or(u32::MAX);
        let query = Box::new(MamQuery { from_end: true, max, bytes: HISTORY_BYTES, ..MamQuery::default() });
        vec![RoomsEffect::Load(Load::Archive { owner: address.clone(), query }, RoomsRead::History)]
    }

    /// A room without its history is better than none.
    fn handle_history(&mut self, address: &Bare, result: Result<StoreReply, StoreFailure>) {
        let Some(slot) = self.slots.get_mut(address) else { return };
        slot.is_busy = false;
        if let (Some(room), Ok(StoreReply::Page(page))) = (&mut slot.room, result) {
            for (id, at, message) in page.stanzas {
                room.remember(at, &id, message);
            }
        }
    }

    /// The room cannot be read: the waiting clients get an error, and the next request asks the store again.
    fn refuse_waiting(&mut self, address: &Bare) -> Vec<RoomsEffect> {
        let Some(slot) = self.remove(address) else { return Vec::new() };
        slot.waiting.iter().filter_map(|stanza| refusal(stanza, Condition::ResourceConstraint)).collect()
    }

    /// The next event that has waited for this room. When there is none, a room without occupants becomes idle, or is
    /// removed.
    pub(super) fn next_waiting(&mut self, now: Instant, address: &Bare) -> Option<WaitingEvent> {
        let slot = self.slots.get_mut(address).filter(|slot| !slot.is_busy)?;
        if let Some(user) = slot.departed.pop() {
            return Some(WaitingEvent::Departed(user));
        }
        while let Some(stanza) = slot.waiting.pop_front() {
            if let (Ok(Some(from)), Ok(Some(to))) = (stanza::from(&stanza), stanza::to(&stanza)) {
                return Some(WaitingEvent::Stanza { from, to, stanza });
            }
        }
        match &slot.room {
            Some(room) if !room.is_empty() => {
                if slot.idle_until.is_some() {
                    self.set_idle(address, None);
                }
            }
            Some(room) if room.is_persistent() => {
                if slot.idle_until.is_none() {
                    self.set_idle(address, Some(now + ROOM_IDLE));
                }
            }
            // Temporary ones go with the last occupant (§4.2).
            _ => drop(self.remove(address)),
        }
        None
    }

    /// Handles an event that has waited.
    pub(super) fn handle_waiting(
        &mut self,
        context: &mut RoomsContext<'_>,
        address: &Bare,
        event: WaitingEvent,
    ) -> Option<RoomsEffect> {
        match event {
            WaitingEvent::Stanza { from, to, stanza } => {
                self.handle_stanza(context, address, (&from, &to), stanza)
            }
            WaitingEvent::Departed(user) => self.remove_user(context.settings, address, &user),
        }
    }

    /// A stanza for a room that is neither being read nor written.
    fn handle_stanza(
        &mut self,
        context: &mut RoomsContext<'_>,
        address: &Bare,
        (from, to): (&Jid, &Jid),
        mut stanza: Box<Element>,
    ) -> Option<RoomsEffect> {
        let returns = muc::is_again(&stanza) && self.restoring.has_session(address, from);
        let has_all_rights = has_all_rights(context.settings, from, &stanza);
        if self.room(address).is_none() {
            if let Err(condition) = may_create(context.settings, (from, to), &stanza, has_all_rights) {
                return refusal(&stanza, condition);
            }
            let mut secret = [0; 32];
            context.rng.fill(&mut secret);
            let mut room = Box::new(Room::created(address.clone(), secret, from.bare(), &stanza));
            muc::seen::share(&mut room, self.is_shared);
            self.slots.get_mut(address)?.room = Some(room);
        }
        let room = self.room(address)?;
        let was_empty = room.is_empty();
        if returns {
            muc::seen::readmit(room, &mut stanza);
        }
        room.set_above(has_all_rights.then(|| from.bare()));
        let before = room.may_save(from, &stanza).then(|| Box::new(room.clone()));
        let mut effects = Vec::new();
        room.handle(context.now, from, to, &stanza, &mut effects);
        room.set_above(None);
        // §4.2: a temporary room ends with its last occupant.
        let is_removal = !was_empty && room.is_empty() && !room.is_persistent();
        Some(self.save(context.settings, address, HandledStanza { stanza, before, is_removal, effects }))
    }

    /// Writes the change of a stanza, if there is one, before its effects are performed.
    fn save(&mut self, settings: &HostSettings, address: &Bare, mut handled: HandledStanza) -> RoomsEffect {
        let Some(slot) = self.slots.get_mut(address) else { return RoomsEffect::Perform(handled) };
        let is_destroyed = handled.effects.iter().any(|effect| matches!(effect, RoomEffect::Destroyed));
        let has_changed = handled.effects.iter().any(|effect| matches!(effect, RoomEffect::Save));
        let is_over = is_destroyed || handled.is_removal;
        let stored = slot.room.as_ref().filter(|room| room.is_stored() && !is_over);
        // A room that was persistent before counts already; a temporary one counts for no account.
        let was_persistent = handled.before.as_ref().is_some_and(|before| before.is_persistent());
        let is_new = stored.is_some_and(|room| room.is_persistent()) && !was_persistent;
        let config = stored.map(|room| Box::new(room.to_stored()));
        handled.is_removal = config.is_none() && slot.is_stored;
        if !(has_changed || is_over) || (config.is_none() && !slot.is_stored) {
            return RoomsEffect::Perform(handled);
        }
        let charged = if is_new { charged(settings, &handled.stanza) } else { None };
        slot.is_busy = true;
        self.directories.forget(address.domain());
        RoomsEffect::Write(Change::Room { room: address.clone(), config, charged }, handled)
    }

    /// The store has answered the write of a room.
    pub(super) fn handle_written(
        &mut self,
        address: &Bare,
        handled: HandledStanza,
        result: Result<(), StoreFailure>,
    ) -> Option<RoomsEffect> {
        let slot = self.slots.get_mut(address)?;
        slot.is_busy = false;
        if result.is_ok() {
            slot.is_stored = !handled.is_removal;
        }
        let has_ended = |room: &Room| room.is_empty() && !room.is_persistent();
        if handled.is_removal && handled.before.is_none() && slot.room.as_deref().is_none_or(has_ended) {
            // Its last occupant has left, whatever the store says: it looks at the room again when the address is used.
            slot.room = None;
            return Some(RoomsEffect::Perform(handled));
        }
        if result.is_ok() {
            return Some(RoomsEffect::Perform(handled));
        }
        // No effect has been performed: the room is as if the stanza had not come.
        if let Some(mut before) = handled.before {
            before.set_above(None);
            slot.room = Some(before);
        }
        let text = match result {
            Err(StoreFailure::Beyond) => {
                "the room has too much to be stored, or you have made as many persistent rooms as one may: destroy some"
            }
            _ => "the room cannot be stored now: try again later",
        };
        muc::refusal(&handled.stanza, StanzaError::new(Condition::ResourceConstraint, text))
            .map(RoomsEffect::Send)
    }

    /// A message to all occupants has its id: the copies for them.
    pub(super) fn publish(
        &mut self,
        now: Instant,
        address: &Bare,
        message: Element,
        id: &str,
    ) -> Vec<RoomEffect> {
        let mut copies = Vec::new();
        if let Some(room) = self.room(address) {
            room.publish(now, message, id, &mut copies);
        }
        copies
    }

    /// The end of a room is on disk, and its occupants are told.
    pub(super) fn handle_destroyed(&mut self, address: &Bare) {
        if let Some(slot) = self.slots.get_mut(address) {
            slot.room = None;
        }
    }

    /// An account was removed: rooms in memory lose it. The store has changed the other rooms; rooms that are being read or written
    /// lose it afterwards.
    pub(in super::super) fn handle_departed(
        &mut self,
        settings: &HostSettings,
        user: &Bare,
    ) -> Vec<(Bare, RoomsEffect)> {
        let mut free = Vec::new();
        for (address, slot) in &mut self.slots {
            if slot.is_busy {
                slot.departed.push(user.clone());
            } else {
                free.push(address.clone());
            }
        }
        let remove = |room| self.remove_user(settings, &room, user).map(|effect| (room, effect));
        free.into_iter().filter_map(remove).collect()
    }

    /// Removes the affiliation of an account that was removed.
    fn remove_user(&mut self, settings: &HostSettings, address: &Bare, user: &Bare) -> Option<RoomsEffect> {
        let room = self.room(address)?;
        if !room.remove_user(user) || !room.is_stored() {
            return None;
        }
        // No client waits for the write; the change stays in memory if it fails.
        Some(self.save(settings, address, of_no_stanza(vec![RoomEffect::Save])))
    }

    /// A request for all public rooms of a service.
    pub(super) fn handle_directory_request(
        &mut self,
        now: Instant,
        domain: &str,
        request: DirectoryRequest,
    ) -> Option<RoomsEffect> {
        self.directories.handle_request(now, domain, request)
    }
}

/// As the host refuses a stanza, presence too: a client that failed to enter has to learn it.
pub(super) fn refusal(stanza: &Element, condition: Condition) -> Option<RoomsEffect> {
    if stanza.attr("type") == Some("unavailable") {
        return None;
    }
    muc::refusal(stanza, condition).map(RoomsEffect::Send)
}
