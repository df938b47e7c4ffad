//! Streams whose clients do not read as fast as they are sent to. A host sends a window and asks to be told when it is written
//! ([`Event::Drained`]); meanwhile such a stream is not read from, and one that takes nothing for long is closed.

use crate::limits;

use super::Stream;
use super::shared::{Event, Shared};

impl Shared {
    pub(super) fn flush(&self, stream: &Stream) {
        stream.flushing.set(true);
        self.note_drained(stream);
        if stream.flushing.get() {
            self.note_congested(stream);
        }
        // It may have been waiting for something to read.
        stream.wake();
    }

    /// After some of its queue was written.
    pub(super) fn note_drained(&self, stream: &Stream) {
        if stream.flushing.get() && stream.queued() <= limits::XMPP_DRAINED {
            stream.flushing.set(false);
            self.event(Event::Drained { stream: stream.number });
        }
    }

    pub(super) fn note_congested(&self, stream: &Stream) {
        self.congested.borrow_mut().entry(stream.number).or_insert(self.tick.get());
    }

    /// Once a tick: streams that take nothing for long are closed.
    pub(super) fn sweep_congested(&self, now: u32) {
        if self.congested.borrow().is_empty() {
            return;
        }
        let patience =
            limits::XMPP_STALLED.min(self.settings.idle).as_micros() / self.tick_length.as_micros();
        let patience = u32::try_from(patience).unwrap_or(u32::MAX);
        let mut stalled = Vec::new();
        self.congested.borrow_mut().retain(|number, since| {
            let Some(stream) = self.stream(*number) else { return false };
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
        for stream in stalled.into_iter().filter(|stream| !stream.closing.get()) {
            self.count(|counters| counters.overflows += 1);
            stream.forget_queue();
            self.tell(&stream, |c2s, out| c2s.fail("connection-timeout", out));
        }
    }
}
