//! A read begins once the writes that came before it are answered.
//!
//! The store reads in other threads than it writes in: a read that it gets beside a write of the same archive, node or list
//! of waiting messages may miss what the write adds. `Host::change` notes each write here, `Host::load` each read, and
//! `Host::handle_record` passes the answers on. Tickets are given in order, so a read waits for the writes of its place that
//! have a lower ticket, and for none that came later. A held read keeps its place in the bounds of [`reads`](super::reads).

use std::collections::{BTreeSet, HashMap};

use xmpp::Bare;

use super::effect::{Change, Effect, Load, Ticket};
use super::{Host, Outbox};

/// The part of the record that a read or write concerns.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    Archive(Bare),
    Items(Bare, Box<str>),
    Offline(Bare),
}

impl Place {
    pub(super) fn of_change(change: &Change) -> Option<Place> {
        Some(match change {
            Change::Archive { owner, .. } => Place::Archive(owner.clone()),
            // Its history goes with the room.
            Change::Room { room, config: None, .. } => Place::Archive(room.clone()),
            Change::Item { owner, node, .. } | Change::Node { owner, node, .. } => {
                Place::Items(owner.clone(), node.clone())
            }
            Change::Offline { user, .. } | Change::ForgetOffline { user, .. } => Place::Offline(user.clone()),
            Change::Roster { .. }
            | Change::Blocked { .. }
            | Change::LastSeen { .. }
            | Change::Room { config: Some(_), .. } => return None,
        })
    }

    fn of_load(load: &Load) -> Option<Place> {
        Some(match load {
            Load::Archive { owner, .. } => Place::Archive(owner.clone()),
            Load::Items { owner, node, .. } => Place::Items(owner.clone(), node.clone()),
            Load::Offline { user, .. } => Place::Offline(user.clone()),
            // Accounts and rooms stay in memory while their writes are under way.
            Load::User { .. }
            | Load::Nodes { .. }
            | Load::Room { .. }
            | Load::Slot { .. }
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
pub(super) struct Order {
    places: HashMap<Place, Writes>,
}

#[derive(Default)]
struct Writes {
    under_way: BTreeSet<Ticket>,
    held: Vec<(Ticket, Load)>,
}

impl Writes {
    fn must_wait(&self, read: Ticket) -> bool {
        self.under_way.first().is_some_and(|write| *write < read)
    }
}

impl Order {
    pub(super) fn begin_write(&mut self, ticket: Ticket, place: Place) {
        self.places.entry(place).or_default().under_way.insert(ticket);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }
}

impl Host {
    /// To the store, now or once the writes before it are answered.
    pub(super) fn begin_read(&mut self, (ticket, load): (Ticket, Load), out: &mut Outbox) {
        let place = Place::of_load(&load);
        let writes = place.and_then(|place| self.order.places.get_mut(&place));
        match writes.filter(|writes| writes.must_wait(ticket)) {
            Some(writes) => writes.held.push((ticket, load)),
            None => out.push(Effect::Load { ticket, load }),
        }
    }

    /// A write was answered: reads that waited for it begin.
    pub(super) fn write_answered(&mut self, ticket: Ticket, place: Option<Place>, out: &mut Outbox) {
        let Some(place) = place else { return };
        let Some(writes) = self.order.places.get_mut(&place) else { return };
        writes.under_way.remove(&ticket);
        let held = std::mem::take(&mut writes.held);
        let (held, begun): (Vec<_>, Vec<_>) =
            held.into_iter().partition(|(ticket, _)| writes.must_wait(*ticket));
        writes.held = held;
        if writes.under_way.is_empty() {
            self.order.places.remove(&place);
        }
        out.extend(begun.into_iter().map(|(ticket, load)| Effect::Load { ticket, load }));
    }
}
