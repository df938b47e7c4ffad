//! Streams whose sessions are lost because their accounts have another owner. Their sessions are announced to that owner, or the streams
//! are closed and their clients sign in again (`xmpp::announcing` of the server): one after the other, and not thousands at once when a
//! node dies. A client that sends something has its turn at once.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use stdx::Instant;

use crate::limits::{XMPP_MOVED_CLOSINGS, XMPP_MOVED_SPREAD};

/// The pause between two closings of several streams.
const STEP: Duration = Duration::from_millis(50);

/// The streams of one shard that wait for their turn.
#[derive(Debug, Default)]
pub struct MovedStreams {
    /// The order of their turns. A stream that has had its turn early is still here.
    order: VecDeque<u64>,
    /// The streams of `order` that have not had their turn.
    waiting: HashSet<u64>,
    /// Streams that have their turn at a time.
    per_step: usize,
    /// The next step; none while no stream waits.
    next: Option<Instant>,
}

impl MovedStreams {
    /// The sessions of these streams are lost. `shards`: the node's, each of which closes its part of [`XMPP_MOVED_CLOSINGS`].
    pub fn insert(&mut self, now: Instant, streams: impl IntoIterator<Item = u64>, shards: u16) {
        let waiting = &mut self.waiting;
        self.order.extend(streams.into_iter().filter(|stream| waiting.insert(*stream)));
        if self.order.is_empty() {
            return;
        }
        let steps_of_second = (Duration::from_secs(1).as_millis() / STEP.as_millis()) as usize;
        let usual = XMPP_MOVED_CLOSINGS as usize / usize::from(shards.max(1)) / steps_of_second;
        let steps = (XMPP_MOVED_SPREAD.as_millis() / STEP.as_millis()) as usize;
        // The usual pace, unless that would take longer than [`XMPP_MOVED_SPREAD`] for so many.
        self.per_step = usual.max(self.order.len().div_ceil(steps)).max(1);
        // A second death while streams wait does not delay those of the first.
        self.next.get_or_insert(now);
    }

    /// The streams that have their turn now.
    pub fn take_due(&mut self, now: Instant) -> Vec<u64> {
        if self.next.is_none_or(|next| next > now) {
            return Vec::new();
        }
        let count = self.per_step.min(self.order.len());
        let due: Vec<u64> = self.order.drain(..count).collect();
        // Those that have sent something had their turn.
        let due = due.into_iter().filter(|stream| self.waiting.remove(stream)).collect();
        self.next = (!self.order.is_empty()).then_some(now + STEP);
        due
    }

    /// A client has sent something. True: its stream has waited, and has its turn.
    pub fn take(&mut self, stream: u64) -> bool {
        self.waiting.remove(&stream)
    }

    /// True if no stream waits for its turn.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The time at which [`MovedStreams::take_due`] has streams.
    pub fn deadline(&self) -> Option<Instant> {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of closed streams, by the time since the beginning.
    fn close_all(streams: &mut MovedStreams, begin: Instant) -> Vec<(Duration, usize)> {
        let mut closed = Vec::new();
        while let Some(at) = streams.deadline() {
            closed.push((at.since(begin), streams.take_due(at).len()));
        }
        closed
    }

    #[test]
    fn few_streams_are_closed_at_once_and_many_in_turn() {
        let (mut streams, now) = (MovedStreams::default(), Instant::default());
        streams.insert(now, 0..30, 2);
        assert_eq!(close_all(&mut streams, now), [(Duration::ZERO, 30)]);
        streams.insert(now, 0..3_000, 2);
        let closed = close_all(&mut streams, now);
        assert_eq!(closed.iter().map(|(_, count)| count).sum::<usize>(), 3_000);
        assert!(closed.iter().all(|(_, count)| *count <= 50), "{closed:?}");
        assert!(closed.last().is_some_and(|(at, _)| *at > Duration::from_secs(2)), "{closed:?}");
    }

    #[test]
    fn the_closing_of_very_many_streams_takes_ten_seconds() {
        let (mut streams, now) = (MovedStreams::default(), Instant::default());
        streams.insert(now, 0..100_000, 1);
        // Those of another node that has died a moment later.
        streams.insert(now, 90_000..101_000, 1);
        let closed = close_all(&mut streams, now);
        assert_eq!(closed.iter().map(|(_, count)| count).sum::<usize>(), 101_000);
        assert!(closed.last().is_some_and(|(at, _)| *at < XMPP_MOVED_SPREAD), "{:?}", closed.last());
    }

    #[test]
    fn a_client_that_sends_something_does_not_wait() {
        let (mut streams, now) = (MovedStreams::default(), Instant::default());
        streams.insert(now, 0..300, 2);
        assert!(streams.take(299) && !streams.take(299) && !streams.take(300));
        assert_eq!(close_all(&mut streams, now).iter().map(|(_, count)| count).sum::<usize>(), 299);
        assert!(streams.waiting.is_empty());
    }
}
