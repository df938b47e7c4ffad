//! One queue: callers in the order they came, and those who take them.
//!
//! Only the order is here. `RoomHome` calls `pair` after each arrival, so that at most one of the two lists
//! has entries afterwards, and makes a room of each pair.

use std::collections::VecDeque;
use std::sync::Arc;

use admin::control::QueueMember;
use stdx::Instant;

use super::message::{Join, MemberAudio, MemberStatus, Name, QueuePosition};

/// The callers and takers of a queue, and the sums for its mean wait.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) sid: Arc<str>,
    callers: VecDeque<Waiting>,
    /// Legs of Dials with a Queue.
    takers: VecDeque<Waiting>,
    /// The total wait of callers that were taken, in seconds.
    waited: u64,
    /// The number of these callers.
    taken: u64,
}

/// A member in line.
struct Waiting {
    join: Join,
    since: Instant,
}

impl Queue {
    pub(super) fn new(sid: Arc<str>) -> Queue {
        Queue { sid, ..Queue::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.callers.is_empty() && self.takers.is_empty()
    }

    /// Puts a caller at the end of the line. `false`: the queue is full. `max_size` is the caller's own, as
    /// its Enqueue says.
    pub(super) fn enter(&mut self, now: Instant, join: Join, max_size: u32) -> bool {
        if self.callers.len() >= usize::try_from(max_size).unwrap_or(usize::MAX) {
            return false;
        }
        self.callers.push_back(Waiting { join, since: now });
        true
    }

    /// Takes the first one, or the next that comes.
    pub(super) fn take(&mut self, now: Instant, join: Join) {
        self.takers.push_back(Waiting { join, since: now });
    }

    /// The first caller and the first that takes, when there are both.
    pub(super) fn pair(&mut self, now: Instant) -> Option<(Join, Join)> {
        if self.callers.is_empty() || self.takers.is_empty() {
            return None;
        }
        let (caller, taker) = (self.callers.pop_front()?, self.takers.pop_front()?);
        self.waited += now.since(caller.since).as_secs();
        self.taken += 1;
        Some((caller.join, taker.join))
    }

    /// Removes a member from either line.
    pub(super) fn leave(&mut self, name: Name) {
        self.callers.retain(|waiting| waiting.join.name != name);
        self.takers.retain(|waiting| waiting.join.name != name);
    }

    /// Takes the caller with that call sid out of the line; `None`: the first in line.
    pub(super) fn remove(&mut self, call: Option<&str>) -> Option<(Join, QueueMember)> {
        let at = call.map_or(Some(0), |call| {
            self.callers.iter().position(|waiting| *waiting.join.call_sid == *call)
        })?;
        let waiting = self.callers.remove(at)?;
        let member = waiting.member();
        Some((waiting.join, member))
    }

    pub(super) fn members(&self) -> Vec<QueueMember> {
        self.callers.iter().map(Waiting::member).collect()
    }

    /// The status of all that wait. A taker has no place in line.
    pub(super) fn standings(&self) -> impl Iterator<Item = (Name, MemberStatus)> {
        let average_seconds = self.waited.checked_div(self.taken).unwrap_or(0);
        let standing = |line| MemberStatus {
            sid: Arc::clone(&self.sid),
            hears: MemberAudio::Wait,
            line,
            with: None,
            records: false,
        };
        let callers = self.callers.iter().enumerate().map(move |(at, waiting)| {
            let size = self.callers.len();
            let line = QueuePosition { position: at + 1, size, average_seconds, since: waiting.since };
            (waiting.join.name, standing(Some(line)))
        });
        callers.chain(self.takers.iter().map(move |waiting| (waiting.join.name, standing(None))))
    }
}

impl Waiting {
    fn member(&self) -> QueueMember {
        QueueMember { call_sid: self.join.call_sid.to_string(), enqueued_at: self.since }
    }
}
