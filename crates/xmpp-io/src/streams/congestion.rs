//! Streams whose clients do not read as fast as they are sent to. A host sends a window and asks to be told when it is written
//! ([`C2sEvent::Drained`]); meanwhile such a stream is not read from, and one that takes nothing for long is closed.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::Stream;
use super::shared::{C2sConnections, C2sEvent};
use crate::limits;

/// Streams that have not read what they were sent, and the ticks when they last took some of it.
#[derive(Default)]
pub(super) struct Congestion {
    streams: RefCell<HashMap<u64, u32>>,
}

impl Congestion {
    /// The stream has not read what it was sent. Noted again, the time of the first stays.
    pub(super) fn note(&self, stream: &Stream, now: u32) {
        self.streams.borrow_mut().entry(stream.number).or_insert(now);
    }

    /// Takes the streams that have taken nothing for more than `patience` ticks, and drops those that have caught up.
    fn expire(&self, now: u32, patience: u32, find: impl Fn(u64) -> Option<Rc<Stream>>) -> Vec<Rc<Stream>> {
        let mut stalled = Vec::new();
        self.streams.borrow_mut().retain(|number, since| {
            let Some(stream) = find(*number) else { return false };
            if stream.wrote.replace(false) {
                *since = now;
            }
            let is_congested = stream.flushing.get() || stream.queued() > limits::XMPP_UNREAD;
            if is_congested && now.wrapping_sub(*since) > patience {
                stalled.push(stream);
                return false;
            }
            is_congested
        });
        stalled
    }
}

impl C2sConnections {
    /// The host waits until the stream has drained. If it has already, the event comes at once.
    pub(super) fn flush(&self, stream: &Stream) {
        stream.flushing.set(true);
        self.note_drained(stream);
        if stream.flushing.get() {
            self.congestion.note(stream, self.ticks.now());
        }
        // It may have been waiting for something to read.
        stream.wake();
    }

    /// After some of its queue was written.
    pub(super) fn note_drained(&self, stream: &Stream) {
        if stream.flushing.get() && stream.queued() <= limits::XMPP_DRAINED {
            stream.flushing.set(false);
            self.event(C2sEvent::Drained { stream: stream.number });
        }
    }

    /// Once a tick: streams that take nothing for long are closed.
    pub(super) fn sweep_congested(&self) {
        let patience = self.ticks.of(limits::XMPP_STALLED.min(self.settings.idle)).unwrap_or(u32::MAX);
        let stalled = self.congestion.expire(self.ticks.now(), patience, |number| self.stream(number));
        for stream in stalled.into_iter().filter(|stream| !stream.closing.get()) {
            self.counts.count(|counters| counters.overflows += 1);
            stream.forget_queue();
            self.tell(&stream, |c2s, out| c2s.fail("connection-timeout", out));
        }
    }
}
