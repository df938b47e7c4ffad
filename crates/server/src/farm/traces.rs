//! The way of messages about traces of the farm from the shard with the links to the operator's thread, and the bounds of what a node
//! contributes to a trace of another.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cluster::Life;
use stdx::Instant;
use tokio::sync::mpsc;

use crate::limits;
use shard_message::wire::TraceMessage;

/// Messages about traces that other nodes sent, each with its sender. The operator's thread reads them.
pub(crate) type TraceMessages = mpsc::Receiver<(Life, TraceMessage)>;

/// The inbox of the operator's thread for messages about traces; closed until that reads it.
#[derive(Debug, Default)]
pub(crate) struct TraceInbox {
    sender: OnceLock<mpsc::Sender<(Life, TraceMessage)>>,
    /// Messages without room, until `take_lost`.
    lost: AtomicU64,
}

impl TraceInbox {
    /// Opens the inbox. None: it is open already.
    pub(crate) fn open(&self) -> Option<TraceMessages> {
        let (sender, messages) = mpsc::channel(control::limits::TRACE_QUEUE);
        self.sender.set(sender).is_ok().then_some(messages)
    }

    /// Puts a message in. One for which there is no room counts as lost.
    pub(crate) fn push(&self, from: Life, message: TraceMessage) {
        let Some(sender) = self.sender.get() else { return };
        // The shard with the links must not wait for the operator's thread.
        if sender.try_send((from, message)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The messages that were lost since this was last asked.
    pub(crate) fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }
}

/// Counts the lines that a node sends for one trace, second by second.
#[derive(Debug)]
pub(crate) struct LineMeter {
    began: Instant,
    lines: u64,
    bytes: u64,
}

impl LineMeter {
    /// Begins a second.
    pub(crate) fn new(now: Instant) -> LineMeter {
        LineMeter { began: now, lines: 0, bytes: 0 }
    }

    /// True if one more line of so many bytes may be sent in this second.
    pub(crate) fn admit(&mut self, now: Instant, bytes: usize) -> bool {
        if now.since(self.began) >= Duration::from_secs(1) {
            *self = LineMeter::new(now);
        }
        let (lines, bytes) = (self.lines + 1, self.bytes + bytes as u64);
        // A line that is left out does not count, so shorter ones of the same second still pass.
        let is_admitted = lines <= limits::FARM_TRACE_LINES && bytes <= limits::FARM_TRACE_BYTES;
        if is_admitted {
            (self.lines, self.bytes) = (lines, bytes);
        }
        is_admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shard_message::wire::TraceBody;

    #[test]
    fn lines_of_a_second_are_bounded_by_number_and_bytes() {
        let now = Instant::from_unix_seconds(1);
        let mut meter = LineMeter::new(now);
        let admitted = (0..1_000).filter(|_| meter.admit(now, 10)).count();
        assert_eq!(admitted as u64, limits::FARM_TRACE_LINES);
        let later = now + Duration::from_secs(1);
        let admitted = (0..1_000).filter(|_| meter.admit(later, 16 * 1_024)).count();
        assert_eq!(admitted, 32);
        assert!(meter.admit(later + Duration::from_secs(1), 16 * 1_024));
    }

    #[test]
    fn an_inbox_without_room_counts_lost_messages() {
        let inbox = TraceInbox::default();
        let message = TraceMessage { trace: 1, body: TraceBody::Begun };
        inbox.push(Life(7), message.clone());
        let mut messages = inbox.open().unwrap();
        assert!(messages.try_recv().is_err() && inbox.open().is_none());
        for _ in 0..control::limits::TRACE_QUEUE + 3 {
            inbox.push(Life(7), message.clone());
        }
        assert_eq!((inbox.take_lost(), inbox.take_lost()), (3, 0));
        assert_eq!(messages.try_recv(), Ok((Life(7), message)));
    }
}
