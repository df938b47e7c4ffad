//! The writes of messages that the store has not answered: entries of archives, and messages that wait for accounts.
//!
//! While the database is away the store keeps these writes (`store::limits::KEPT_WRITES`). Their messages are delivered and not
//! acknowledged. New messages are refused before anything is delivered or written once too many wait, or the oldest has waited too
//! long: so an error that a sender gets is true, and the memory of an outage is bounded.
//!
//! `StoreRequests::change` counts the writes here; `route` asks [`MessageWrites::is_refused`] before it archives or delivers a message.

use std::collections::BTreeMap;

use stdx::Instant;
use xmpp::Element;
use xmpp::stanza::{Condition, StanzaError};

use super::effect::{Change, StoreFailure, Ticket};
use super::{hints, sm};
use crate::limits::{MESSAGE_WRITE_PATIENCE, MESSAGE_WRITES, MESSAGE_WRITES_BYTES};

/// The writes of one host that are under way.
#[derive(Default)]
pub(super) struct MessageWrites {
    /// The writes and their bytes, about.
    pending: BTreeMap<Ticket, usize>,
    bytes: usize,
    /// The oldest write, and the time at which it was first seen to be the oldest: no clock is read when a write begins.
    oldest: Option<(Ticket, Instant)>,
}

impl MessageWrites {
    /// A write is under way, if it is one of a message.
    pub(super) fn begin(&mut self, ticket: Ticket, change: &Change) {
        let (Change::Archive { stanza, .. } | Change::Offline { stanza, .. }) = change else { return };
        let bytes = sm::weight(stanza);
        self.bytes += bytes;
        self.pending.insert(ticket, bytes);
    }

    /// A write is answered.
    pub(super) fn end(&mut self, ticket: Ticket) {
        self.bytes -= self.pending.remove(&ticket).unwrap_or(0);
        if self.pending.is_empty() {
            self.oldest = None;
        }
    }

    /// True if a message that would be stored cannot be stored now: it is to be refused before anything is delivered.
    pub(super) fn is_refused(&mut self, now: Instant, message: &Element) -> bool {
        let is_stored = message.attr("type") == Some("groupchat") || hints::is_worth_keeping(message);
        is_stored && self.is_full(now)
    }

    /// True if no further message may begin a write.
    pub(super) fn is_full(&mut self, now: Instant) -> bool {
        let Some((oldest, _)) = self.pending.first_key_value() else { return false };
        let (_, since) = self.oldest.filter(|(known, _)| known == oldest).unwrap_or((*oldest, now));
        self.oldest = Some((*oldest, since));
        self.pending.len() >= MESSAGE_WRITES
            || self.bytes >= MESSAGE_WRITES_BYTES
            || now.since(since) >= MESSAGE_WRITE_PATIENCE
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }
}

/// The error of a message that is refused so: no session has it.
pub(super) fn refusal() -> StanzaError {
    StanzaError::new(Condition::ResourceConstraint, "the message cannot be stored now: try again later")
}

/// The error of a message that an archive has not taken, and that is delivered already; `None`: its sender is not told.
pub(super) fn unarchived(failure: StoreFailure) -> Option<StanzaError> {
    // One that is too large is delivered only; one whose account is gone has no archive.
    let is_told = failure == StoreFailure::Unavailable;
    let text = "the message may have been delivered, and could not be put into the archive";
    is_told.then(|| StanzaError::new(Condition::ResourceConstraint, text))
}
