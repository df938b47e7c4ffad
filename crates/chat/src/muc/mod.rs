//! Rooms (XEP-0045) among accounts. [`Rooms`] has those in memory and their service; the crate `muc` has the inside of one; the
//! host performs the effects of both here.
//!
//! `route` passes each stanza for a room service's domain to `Host::routed_to_room`. The way of one for a room: [`Rooms`]
//! reads the room if it is not in memory, lets it handle the stanza, and has a change written; then `perform_in_room`
//! performs the room's effects in their order. Stanzas that come meanwhile wait in [`Rooms`] and are handled after each
//! answer of the store (`RoomsEffect::HandleWaiting`).

mod directory;
mod rooms;
mod search;
mod service;

use stdx::Instant;
use xmpp::stanza;
use xmpp::{Bare, Element, Jid, Level, Specification};

use super::archive::ArchiveWriter;
use super::effect::{Change, StoreReply};
use super::feature::Feature;
use super::read_queues::with_requester;
use super::store_requests::StoreRequests;
use super::{Host, Outbox, token};
use crate::outgoing;
use muc::RoomEffect;
pub(super) use rooms::Rooms;
pub(super) use rooms::RoomsEffect;
use rooms::{PendingRetraction, RoomsContext, RoomsRead};

/// A specification that rooms implement completely, in that file of the crate `muc`.
const fn specification(
    name: &'static str,
    title: &'static str,
    version: &'static str,
    file: &'static str,
    note: &'static str,
) -> Specification {
    Specification { name, title, version, level: Level::Complete, file, note }
}

pub(super) const FEATURE: Feature = Feature {
    specifications: &[
        specification(
            "XEP-0045",
            "Multi-User Chat",
            "1.34.6",
            "crates/muc/src/lib.rs",
            "a registration needs no approval and is refused by rooms for members; presence is shown for all roles",
        ),
        specification(
            "XEP-0249",
            "Direct MUC Invitations",
            "1.2",
            "crates/muc/src/users/invite.rs",
            "sent with mediated ones",
        ),
        specification(
            "XEP-0410",
            "MUC Self-Ping",
            "1.1.0",
            "crates/muc/src/query.rs",
            "answered by the room",
        ),
        specification(
            "XEP-0421",
            "Occupant identifiers for semi-anonymous MUCs",
            "1.0.1",
            "crates/muc/src/address.rs",
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
        specification(
            "XEP-0317",
            "Hats",
            "0.2.0",
            "crates/muc/src/hats.rs",
            "those that users of the room have can be chosen, and new ones typed; without language and payloads",
        ),
        specification(
            "XEP-0486",
            "MUC Avatars",
            "0.1.0",
            "crates/muc/src/vcard.rs",
            "one picture; rooms for members and hidden ones show it to those who may be there",
        ),
        specification("XEP-0425", "Moderated Message Retraction", "0.3.0", "crates/muc/src/query.rs", ""),
    ],
    account: &[],
    server: &[],
    handles: &[],
};

/// Removes rooms that have another host now; occupants are told as when the service ends.
pub(super) fn release_rooms(
    (rooms, store): (&mut Rooms, &mut StoreRequests),
    is_meant: impl Fn(&str) -> bool,
    out: &mut Outbox,
) {
    let (effects, ended) = rooms.release(|address| is_meant(address.as_str()));
    for room in ended {
        let change = Change::Room { room, config: None, charged: None };
        // A row that stays is removed when the address is used.
        store.change(change, out, |_, _, _, _| {});
    }
    for effect in effects {
        if let RoomEffect::Send(stanza) = effect {
            outgoing::send(stanza, out);
        }
    }
}

impl Host {
    /// The number of rooms in memory, and of their occupants.
    pub fn rooms(&self) -> (usize, usize) {
        self.rooms.count()
    }

    /// The service ends: occupants are told so (XEP-0045 §16.2, 332).
    pub fn close_rooms(&mut self, out: &mut Outbox) {
        // Occupants of other servers learn of it too, so the streams to them have to be open still.
        let effects = self.rooms.close();
        out.reserve(effects.len());
        for effect in effects {
            if let RoomEffect::Send(stanza) = effect {
                self.route(stanza, out);
            }
        }
    }

    /// Takes a stanza for a room, an occupant or the service. Its guard (`PendingAcks`) is the caller's:
    /// writes that begin here hold it.
    pub(super) fn routed_to_room(
        &mut self,
        now: Instant,
        element: Element,
        from: &Jid,
        to: &Jid,
        out: &mut Outbox,
    ) {
        let address = to.bare();
        let effect = if to.local().is_none() {
            self.rooms.handle_service_stanza(now, &element, to)
        } else {
            let mut context = RoomsContext { now, settings: &self.settings, rng: &mut self.rng };
            self.rooms.handle_routed(&mut context, &address, (from, to), element)
        };
        if let Some(effect) = effect {
            self.perform_rooms(now, &address, effect, out);
        }
        self.perform_rooms(now, &address, RoomsEffect::HandleWaiting, out);
    }

    /// Performs an effect of [`Rooms`] on this room or service; the store's replies go back into it.
    pub(super) fn perform_rooms(
        &mut self,
        now: Instant,
        address: &Bare,
        effect: RoomsEffect,
        out: &mut Outbox,
    ) {
        match effect {
            RoomsEffect::Load(load, read) => {
                // All entering clients wait for a room's history, whatever other reads the first of them has.
                let is_shared = matches!(read, RoomsRead::History);
                let requester = self.store.reads.requester().filter(|_| !is_shared);
                let address = address.clone();
                let then = move |host: &mut Host, now, result: Result<_, _>, out: &mut Outbox| {
                    if let Ok(StoreReply::Page(page)) = &result {
                        host.archive.handle_ids(now, page.stanzas.iter().map(|(id, ..)| &**id));
                    }
                    for effect in host.rooms.handle_loaded(now, &address, read, result) {
                        host.perform_rooms(now, &address, effect, out);
                    }
                    host.perform_rooms(now, &address, RoomsEffect::HandleWaiting, out);
                };
                with_requester(self, requester, |host| host.store.load(load, out, then));
            }
            RoomsEffect::Write(change, handled) => {
                let address = address.clone();
                self.store.change(change, out, move |host, now, result, out| {
                    if let Some(effect) = host.rooms.handle_written(&address, handled, result) {
                        host.perform_rooms(now, &address, effect, out);
                    }
                    host.perform_rooms(now, &address, RoomsEffect::HandleWaiting, out);
                });
            }
            RoomsEffect::Perform(handled) => {
                out.reserve(handled.effects.len());
                for effect in handled.effects {
                    self.perform_in_room(now, address, &handled.stanza, effect, out);
                }
            }
            RoomsEffect::HandleWaiting => {
                while let Some(event) = self.rooms.next_waiting(now, address) {
                    // The reads that the event causes are those of its sender.
                    let sender = event.sender().map(|from| self.store.reads.requester_of(from));
                    let requester = sender.or(self.store.reads.requester());
                    with_requester(self, requester, |host| {
                        let mut context = RoomsContext { now, settings: &host.settings, rng: &mut host.rng };
                        if let Some(effect) = host.rooms.handle_waiting(&mut context, address, event) {
                            host.perform_rooms(now, address, effect, out);
                        }
                    });
                }
            }
            RoomsEffect::Send(stanza) => self.route(stanza, out),
            RoomsEffect::Answer(iq, result) => outgoing::answer(&iq, result, out),
            RoomsEffect::Refuse(stanza, error) => self.refuse(&stanza, &error, out),
        }
    }

    /// Performs one effect of the room on that stanza.
    /// A broadcast is archived under a new id before its copies are made; a retraction changes the archive before it is
    /// announced.
    fn perform_in_room(
        &mut self,
        now: Instant,
        address: &Bare,
        stanza: &Element,
        effect: RoomEffect,
        out: &mut Outbox,
    ) {
        match effect {
            RoomEffect::Send(stanza) => self.route(stanza, out),
            RoomEffect::Broadcast(mut message) => {
                // The room's own words have an id too, by which archives and clients know them.
                if message.attr("id").is_none() && message.attr("from") == Some(address.as_str()) {
                    message.set("id", token(&mut self.rng));
                }
                let Some(room) = self.rooms.room(address) else { return };
                let id = match (room.archived(&message), stanza::from(&message).ok().flatten()) {
                    (Some(archived), Some(speaker)) => {
                        ArchiveWriter::of(self).record(now, (address, &speaker), &archived, stanza, out)
                    }
                    _ => token(&mut self.rng).into(),
                };
                crate::webhooks::report_in_room(&self.settings, now, address, stanza, &id, out);
                // Archived first, so that the copies have the id by which clients find the message there (XEP-0359).
                let copies = self.rooms.publish(now, address, *message, &id);
                out.reserve(copies.len());
                for copy in copies {
                    if let RoomEffect::Send(copy) = copy {
                        self.route(copy, out);
                    }
                }
            }
            // The room has checked the sender; the archive answers without another question of rights.
            RoomEffect::ReadArchive => {
                let parts = (&mut self.accounts, &mut self.store);
                crate::archive::handle_query(parts, address, stanza, out);
            }
            // The archive first, so that the next query does not find the retracted message.
            RoomEffect::Retract(retraction) => {
                let (room, stanza) = (address.clone(), Box::new(stanza.clone()));
                let (id, tombstone, pending) = PendingRetraction::begin(*retraction, stanza);
                crate::archive::replace(
                    &mut self.store,
                    address,
                    &id,
                    out,
                    |old| tombstone.of(old),
                    move |host, now, result, out| {
                        if let Some(effect) = pending.handle_replaced(result) {
                            host.perform_rooms(now, &room, effect, out);
                        }
                    },
                );
            }
            RoomEffect::Destroyed => self.rooms.handle_destroyed(address),
            // `Rooms::save` has written the room before any effect was performed.
            RoomEffect::Save => {}
        }
    }
}

/// The name of a stored room, and whether lists show it.
pub fn stored_room(stored: &Element) -> Option<(Box<str>, bool)> {
    muc::stored_name(stored)
}
