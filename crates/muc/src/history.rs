//! The recent messages, for new occupants (XEP-0045 §7.2.13). They are in memory only; after a restart the owner of the room
//! fills them from the archive, if the room has one.

use std::collections::VecDeque;
use std::sync::Arc;

use stdx::Instant;
use xmpp::{Element, ns};

use crate::limits::{HISTORY, HISTORY_BYTES, HISTORY_UNASKED};

/// One message of the past, shared by all copies of the room.
#[derive(Clone)]
struct HistoryEntry {
    /// The time it came, for `seconds` and `since` of a request.
    at: Instant,
    /// The message with its id and its delay, as occupants get it.
    message: Arc<Element>,
    bytes: usize,
    /// Characters of the whole stanza, as `maxchars` counts them (§7.2.13).
    chars: usize,
}

/// The newest messages of a room, bounded in number and bytes.
#[derive(Clone, Default)]
pub(super) struct History {
    /// The oldest first.
    past: VecDeque<HistoryEntry>,
    bytes: usize,
}

/// The part of the history that a client asks for.
pub(super) struct HistoryRequest {
    max_chars: usize,
    /// The most messages; the newest count.
    max_stanzas: usize,
    /// Only messages of the last so many seconds.
    seconds: Option<u64>,
    since: Option<Instant>,
}

impl HistoryRequest {
    /// From `<history/>` of a request to enter (§7.2.14). Without `maxstanzas` the limit is `HISTORY_UNASKED`, or
    /// `HISTORY` if a time is named.
    pub(super) fn of(history: Option<&Element>) -> HistoryRequest {
        let attr = |name| history.and_then(|history| history.attr(name));
        let number = |name| attr(name).and_then(|text| text.parse::<u64>().ok());
        let size = |name| number(name).map(|number| usize::try_from(number).unwrap_or(usize::MAX));
        let seconds = number("seconds");
        let since = attr("since").and_then(xmpp::time::parse);
        // §7.2.14: a client that names a time wants all since then; one that names nothing gets what the service
        // chooses.
        let is_limited = seconds.is_some() || since.is_some();
        let unasked = if is_limited { HISTORY } else { HISTORY_UNASKED };
        HistoryRequest {
            max_chars: size("maxchars").unwrap_or(usize::MAX),
            max_stanzas: size("maxstanzas").unwrap_or(unasked).min(HISTORY),
            seconds,
            since,
        }
    }
}

impl History {
    /// Adds a message that has its id, and drops the oldest ones beyond the limits.
    pub(super) fn add(&mut self, now: Instant, room: &str, message: &Element) {
        let mut message = message.clone();
        // §7.2.13: the delay is the room's, so that a client tells the past from the present.
        let delay = Element::new("delay", ns::DELAY).with("from", room).with("stamp", xmpp::time::stamp(now));
        message.push(delay);
        let wire = message.to_bytes(ns::CLIENT);
        let bytes = wire.len();
        // Every character has one byte that does not continue another.
        let chars = wire.iter().filter(|byte| **byte & 0xc0 != 0x80).count();
        self.bytes += bytes;
        self.past.push_back(HistoryEntry { at: now, message: Arc::new(message), bytes, chars });
        while self.past.len() > HISTORY || self.bytes > HISTORY_BYTES {
            let Some(oldest) = self.past.pop_front() else { break };
            self.bytes -= oldest.bytes;
        }
    }

    /// The newest that fit, the oldest of them first.
    pub(super) fn fitting(&self, now: Instant, wanted: &HistoryRequest) -> impl Iterator<Item = &Element> {
        let earliest = wanted.seconds.map(|seconds| {
            let micros = seconds.saturating_mul(1_000_000);
            Instant::from_micros(now.as_micros().saturating_sub(micros))
        });
        let earliest = earliest.max(wanted.since);
        let mut chars = wanted.max_chars;
        let fits = |past: &&HistoryEntry| {
            let is_late = earliest.is_none_or(|earliest| past.at >= earliest);
            let left = chars.checked_sub(past.chars);
            chars = left.unwrap_or(0);
            is_late && left.is_some()
        };
        let newest = self.past.iter().rev().take(wanted.max_stanzas);
        // From the newest back to the first that does not fit: a history with gaps would be read as the whole.
        let mut fitting: Vec<&Element> = newest.take_while(fits).map(|past| &*past.message).collect();
        fitting.reverse();
        fitting.into_iter()
    }

    /// A message of that id was retracted: its text goes. `author`: only one of this occupant's.
    pub(super) fn retract(&mut self, id: &str, author: Option<&str>) -> bool {
        let is_it = |past: &HistoryEntry| {
            let stanza_id = past.message.get("stanza-id", ns::SID).and_then(|id| id.attr("id"));
            let occupant = past.message.get("occupant-id", ns::OCCUPANT_ID).and_then(|id| id.attr("id"));
            stanza_id == Some(id) && (author.is_none() || occupant == author)
        };
        let Some(at) = self.past.iter().position(is_it) else { return false };
        if let Some(past) = self.past.remove(at) {
            self.bytes -= past.bytes;
        }
        true
    }
}
