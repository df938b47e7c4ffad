//! A queue's connection: the waiting caller and its taker. If the taker's Dial has a document for the caller, neither hears the other until the
//! caller has heard it: both are muted meanwhile.
//!
//! The document is an announcement to the caller (`RoomEvent::Announce`). It may be lost, and so may the word that it is over, so the silence
//! has a limit. A home that the connection moves to knows of no document, and connects the two with its next word of every second.

use std::sync::Arc;

use stdx::Instant;

use super::super::limits;
use super::callbacks::ConferenceNotifier;
use super::home::{Out, Outbox};
use super::message::{Join, Name, RoomEvent, RoomTarget};
use super::room::{Kind, Member, Room};

impl Room {
    /// The waiting caller of a queue and its taker, which hear each other at once, or after the caller's document.
    pub(super) fn pair(
        now: Instant,
        sid: Arc<str>,
        waited: &(Name, Join),
        took: &(Name, Join),
        out: &mut Outbox,
    ) -> Room {
        let teller = ConferenceNotifier::new(Arc::clone(&took.1.owner), sid, "".into(), None);
        let mut room = Room::new(now, teller, Kind::Pair);
        room.is_started = true;
        room.members = [waited, took].map(|(name, join)| Member::new(now, *name, join, None)).into();
        room.index();
        let document = match &took.1.place {
            RoomTarget::First { document, .. } => document.clone(),
            RoomTarget::Conference(_) | RoomTarget::Queue { .. } => None,
        };
        if document.is_some() {
            room.members.iter_mut().for_each(|member| member.is_muted = true);
            room.document_until = Some(now + limits::QUEUE_DOCUMENT);
        }
        room.tell_all(out);
        let Name { shard, number } = waited.0;
        out.extend(document.map(|target| Out::Tell(shard, RoomEvent::Announce { number, target })));
        room
    }
}

/// The caller of a queue has heard its document: from now on the two hear each other.
pub(super) fn connect_pair(room: &mut Room, out: &mut Outbox) {
    room.document_until = None;
    if room.kind != Kind::Pair || room.members.iter().all(|member| !member.is_muted) {
        return;
    }
    let names: Vec<Name> = room.members.iter().map(|member| member.name).collect();
    room.members.iter_mut().for_each(|member| member.is_muted = false);
    // Their places in the mix were those of listeners.
    names.into_iter().for_each(|name| room.seat(name));
    room.tell_all(out);
}

/// Once a second: the end of a document that is not heard of.
pub(super) fn expire_document(room: &mut Room, now: Instant, out: &mut Outbox) {
    if room.kind == Kind::Pair && room.document_until.is_none_or(|until| now > until) {
        connect_pair(room, out);
    }
}
