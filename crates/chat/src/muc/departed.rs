//! The consequences for rooms in memory when an account is removed.

use stdx::Instant;
use xmpp::{Bare, Element, ns};

use super::UnsavedRoom;
use super::room::RoomEffect;
use crate::{Host, Outbox};

impl Host {
    /// Removes the affiliations of a removed account from the rooms in memory. The store has changed the
    /// other rooms.
    pub(crate) fn leave_rooms(&mut self, now: Instant, user: &Bare, out: &mut Outbox) {
        let addresses: Vec<Bare> = self.rooms.slots.keys().cloned().collect();
        for address in addresses {
            let Some(slot) = self.rooms.slots.get_mut(&address) else { continue };
            if slot.is_busy {
                slot.departed.push(user.clone());
            } else {
                self.leave_room(now, &address, user, out);
            }
        }
    }

    pub(super) fn leave_room(&mut self, now: Instant, address: &Bare, user: &Bare, out: &mut Outbox) {
        let Some(room) = self.rooms.room(address) else { return };
        if room.remove_user(user) && room.is_persistent() {
            // No client waits for the write; the change stays in memory if it fails.
            let unsaved = UnsavedRoom {
                stanza: Box::new(Element::new("presence", ns::CLIENT).with("type", "error")),
                before: None,
                outs: vec![RoomEffect::Save],
            };
            self.save(now, address, unsaved, out);
        }
    }
}
