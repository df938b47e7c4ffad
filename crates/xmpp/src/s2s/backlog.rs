//! The bytes that a connection between servers was given to write, and how many of them the system has taken: a stanza of a farm's queue
//! has an outcome once all of its bytes are taken.

use std::collections::VecDeque;

use super::{Effect, Outcome, Receipt};

/// The bytes of one connection, counted from its begin.
#[derive(Debug, Default)]
pub(super) struct WriteBacklog {
    given: u64,
    taken: u64,
    /// Receipts by the position of their stanza's last byte, in ascending order.
    receipts: VecDeque<(u64, Receipt)>,
}

impl WriteBacklog {
    /// Bytes that the system has not taken.
    pub(super) fn len(&self) -> usize {
        usize::try_from(self.given - self.taken).unwrap_or(usize::MAX)
    }

    /// Counts bytes that are written.
    pub(super) fn give(&mut self, bytes: usize) {
        self.given += bytes as u64;
    }

    /// The last stanza that was given has this receipt.
    pub(super) fn note(&mut self, receipt: Option<Receipt>) {
        self.receipts.extend(receipt.map(|receipt| (self.given, receipt)));
    }

    /// The system has taken so many bytes.
    pub(super) fn take(&mut self, count: usize, out: &mut Vec<Effect>) {
        self.taken = self.given.min(self.taken.saturating_add(count as u64));
        while let Some((_, receipt)) = self.receipts.front().copied().filter(|(end, _)| *end <= self.taken) {
            self.receipts.pop_front();
            out.push(Effect::Outcome(receipt, Outcome::Ended));
        }
    }

    /// The connection takes no more: stanzas whose bytes are not all taken have this outcome.
    pub(super) fn end(&mut self, outcome: Outcome, out: &mut Vec<Effect>) {
        out.extend(self.receipts.drain(..).map(|(_, receipt)| Effect::Outcome(receipt, outcome)));
    }
}
