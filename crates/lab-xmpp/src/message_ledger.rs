//! The accounting of messages between users beyond the two counters of each contact: numbers that were skipped, and refusals.

use std::collections::{HashMap, HashSet};

use super::limits::REFUSED_PAIRS;
use super::user::Contact;

/// Skipped numbers that are remembered: more of them are loss, not disorder.
const SKIPPED: usize = 100_000;

/// The order in which a message arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageOrder {
    /// After all earlier messages of the same sender that have arrived.
    InOrder,
    /// After a later message of the same sender.
    Reordered,
    /// Once more, or too long after a later one to be told from that.
    Duplicate,
}

/// The messages of one shard's users that were skipped or refused.
#[derive(Debug, Default)]
pub(super) struct MessageLedger {
    /// Messages that later ones overtook: receiver, place of the sender, number.
    skipped: HashSet<(u32, u32, u32)>,
    /// Numbers of refused messages, by sender and place of the receiver.
    refused: HashMap<(u32, u32), u32>,
}

impl MessageLedger {
    /// A message with this number came to `receiver` from its contact at `place`.
    pub(super) fn handle_message(
        &mut self,
        receiver: u32,
        place: u32,
        contact: &mut Contact,
        number: u32,
    ) -> MessageOrder {
        if number > contact.came {
            let skipped = contact.came + 1..number;
            contact.came = number;
            let room = SKIPPED.saturating_sub(self.skipped.len());
            self.skipped.extend(skipped.take(room).map(|number| (receiver, place, number)));
            MessageOrder::InOrder
        } else if self.skipped.remove(&(receiver, place, number)) {
            MessageOrder::Reordered
        } else {
            MessageOrder::Duplicate
        }
    }

    /// The server refused a message of `sender` to its contact at `place`.
    pub(super) fn handle_refusal(&mut self, sender: u32, place: u32) {
        let has_room = self.refused.len() < REFUSED_PAIRS;
        if has_room || self.refused.contains_key(&(sender, place)) {
            *self.refused.entry((sender, place)).or_default() += 1;
        }
    }

    /// How many messages of `sender` to its contact at `place` were refused.
    pub(super) fn refused(&self, sender: u32, place: u32) -> u32 {
        self.refused.get(&(sender, place)).copied().unwrap_or_default()
    }
}
