//! When to look at the sockets again. Waking for every datagram costs more than the datagram: a busy shard
//! sleeps a moment after each turn and then finds a batch, as network cards do with their interrupts.

use std::time::Duration;

use stdx::Instant;

/// The time that a busy shard sleeps between turns. It adds at most this to a message's way through us.
const NAP: Duration = Duration::from_millis(1);
/// Over this long the messages are counted.
const WINDOW: Duration = Duration::from_millis(20);
/// From so many in a window on, one more turn a message is not worth its price: 1,000 a second.
const BUSY: usize = 20;
/// A turn with so many messages was a batch already: no need to wait for one.
const BATCH_ENOUGH: usize = 48;
/// Turns in a row without asking the runtime: connections and timers of the thread must have theirs.
const TURNS_ALONE: u32 = 8;

/// The rhythm of one shard.
#[derive(Debug, Default)]
pub(super) struct Pace {
    window_began: Instant,
    messages: usize,
    busy: bool,
    /// Naps since the runtime was asked.
    alone: u32,
}

impl Pace {
    /// After a turn over `messages`: sleeps when the shard is busy and will soon have more.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one sleep of a shard: everything it could miss waits in the kernel"
    )]
    pub(super) fn rest(&mut self, now: Instant, messages: usize) {
        self.count(now, messages);
        if !self.busy || messages == 0 || self.alone == TURNS_ALONE {
            self.alone = 0;
            return;
        }
        self.alone += 1;
        if messages < BATCH_ENOUGH {
            std::thread::sleep(NAP);
        }
    }

    /// True if the shard has just napped and will look at its sockets without asking the runtime.
    pub(super) fn expects_more(&self) -> bool {
        self.alone > 0
    }

    fn count(&mut self, now: Instant, messages: usize) {
        self.messages += messages;
        if now.since(self.window_began) >= WINDOW {
            self.busy = self.messages >= BUSY;
            self.window_began = now;
            self.messages = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_busy_while_messages_come_quickly() {
        let mut pace = Pace::default();
        let mut now = Instant::from_unix_seconds(1);
        for _ in 0..50 {
            now = now + Duration::from_millis(1);
            pace.count(now, 2);
        }
        assert!(pace.busy);
        for _ in 0..3 {
            now = now + WINDOW;
            pace.count(now, 1);
        }
        assert!(!pace.busy);
    }

    #[test]
    fn the_runtime_is_asked_now_and_then() {
        let mut pace = Pace { busy: true, ..Pace::default() };
        let now = Instant::default();
        let in_a_row = (0..100).take_while(|_| {
            pace.rest(now, BATCH_ENOUGH);
            pace.expects_more()
        });
        assert_eq!(in_a_row.count(), TURNS_ALONE as usize);
    }
}
