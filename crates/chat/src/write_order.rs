//! A read begins once the writes that came before it are answered.
//!
//! The store reads in other threads than it writes in: a read that it gets beside a write of the same archive, node or list
//! of waiting messages may miss what the write adds. `StoreRequests` notes each read and write here and passes the answers on. Tickets are
//! given in order, so a read waits for the writes of its place that have a lower ticket, and for none that came later. A held read keeps
//! its place in the bounds of [`read_queues`](super::read_queues).

use std::collections::{BTreeSet, HashMap};

use xmpp::Bare;

use super::Outbox;
use super::effect::{Change, Effect, Load, Ticket};

/// The part of the store that a read or write concerns: one archive, one node of items, or one account's
/// waiting messages.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum WriteTarget {
    Archive(Bare),
    Items(Bare, Box<str>),
    Offline(Bare),
}

impl WriteTarget {
    /// The place that a change writes. `None`: no read here depends on it.
    pub(super) fn of_change(change: &Change) -> Option<WriteTarget> {
        Some(match change {
            Change::Archive { owner, .. } => WriteTarget::Archive(owner.clone()),
            // Its history goes with the room.
            Change::Room { room, config: None, .. } => WriteTarget::Archive(room.clone()),
            Change::Item { owner, node, .. }
            | Change::Node { owner, node, .. }
            | Change::Purge { owner, node } => WriteTarget::Items(owner.clone(), node.clone()),
            Change::Offline { user, .. } | Change::ForgetOffline { user, .. } => {
                WriteTarget::Offline(user.clone())
            }
            Change::Roster { .. }
            | Change::Blocked { .. }
            | Change::LastSeen { .. }
            | Change::Room { config: Some(_), .. } => return None,
        })
    }

    /// The place that a read reads.
    fn of_load(load: &Load) -> Option<WriteTarget> {
        Some(match load {
            Load::Archive { owner, .. } => WriteTarget::Archive(owner.clone()),
            Load::Items { owner, node, .. } => WriteTarget::Items(owner.clone(), node.clone()),
            Load::Offline { user, .. } => WriteTarget::Offline(user.clone()),
            // Accounts and rooms stay in memory while their writes are under way.
            Load::User { .. }
            | Load::Nodes { .. }
            | Load::Room { .. }
            | Load::Slot { .. }
            | Load::Calls { .. }
            | Load::Voicemail { .. }
            | Load::Activate(_)
            | Load::Accounts(_)
            | Load::Act(_)
            | Load::Waiting
            | Load::Rooms { .. }
            | Load::TooMany => return None,
        })
    }
}

/// Writes that are not answered, and the reads that wait for them.
#[derive(Default)]
pub(super) struct WriteOrder {
    /// Only places with a write under way.
    places: HashMap<WriteTarget, PendingWrites>,
}

/// The writes of one place.
#[derive(Default)]
struct PendingWrites {
    /// Writes that the store has not answered.
    under_way: BTreeSet<Ticket>,
    /// Reads that the store has not been given.
    held: Vec<(Ticket, Load)>,
}

impl PendingWrites {
    /// True if a write that came before the read is not answered.
    fn must_wait(&self, read: Ticket) -> bool {
        self.under_way.first().is_some_and(|write| *write < read)
    }
}

impl WriteOrder {
    /// Notes a write that is given to the store.
    pub(super) fn begin_write(&mut self, ticket: Ticket, place: WriteTarget) {
        self.places.entry(place).or_default().under_way.insert(ticket);
    }

    /// Passes a read to the store, now or once the writes before it are answered.
    pub(super) fn begin_read(&mut self, (ticket, load): (Ticket, Load), out: &mut Outbox) {
        let place = WriteTarget::of_load(&load);
        let writes = place.and_then(|place| self.places.get_mut(&place));
        match writes.filter(|writes| writes.must_wait(ticket)) {
            Some(writes) => writes.held.push((ticket, load)),
            None => out.push(Effect::Load { ticket, load }),
        }
    }

    /// A write was answered: reads that waited for it begin.
    pub(super) fn end_write(&mut self, ticket: Ticket, place: &WriteTarget, out: &mut Outbox) {
        let Some(writes) = self.places.get_mut(place) else { return };
        writes.under_way.remove(&ticket);
        let held = std::mem::take(&mut writes.held);
        let (held, begun): (Vec<_>, Vec<_>) =
            held.into_iter().partition(|(ticket, _)| writes.must_wait(*ticket));
        writes.held = held;
        if writes.under_way.is_empty() {
            self.places.remove(place);
        }
        out.extend(begun.into_iter().map(|(ticket, load)| Effect::Load { ticket, load }));
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }
}
