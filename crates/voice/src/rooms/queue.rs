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
    name: Name,
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

    /// Puts a caller at the end of the line, or at its place there at the queue's home before. `false`: the queue is full. `max_size`
    /// is the caller's own, as its Enqueue says.
    pub(super) fn enter(&mut self, now: Instant, name: Name, join: Join, max_size: u32) -> bool {
        let is_full = self.callers.len() >= usize::try_from(max_size).unwrap_or(usize::MAX);
        if is_full && join.again.is_none() {
            return false;
        }
        let line = join.again.as_ref().and_then(|again| again.line);
        if let Some(line) = line.filter(|_| self.taken == 0) {
            (self.waited, self.taken) = (line.average_seconds, u64::from(line.average_seconds > 0));
        }
        insert(&mut self.callers, Waiting { name, since: join.came_at(now), join });
        true
    }

    /// Takes the first one, or the next that comes.
    pub(super) fn take(&mut self, now: Instant, name: Name, join: Join) {
        insert(&mut self.takers, Waiting { name, since: join.came_at(now), join });
    }

    /// The first caller and the first that takes, when there are both.
    pub(super) fn pair(&mut self, now: Instant) -> Option<((Name, Join), (Name, Join))> {
        if self.callers.is_empty() || self.takers.is_empty() {
            return None;
        }
        let (caller, taker) = (self.callers.pop_front()?, self.takers.pop_front()?);
        self.waited += now.since(caller.since).as_secs();
        self.taken += 1;
        Some(((caller.name, caller.join), (taker.name, taker.join)))
    }

    /// Removes a member from either line.
    pub(super) fn leave(&mut self, name: Name) {
        self.callers.retain(|waiting| waiting.name != name);
        self.takers.retain(|waiting| waiting.name != name);
    }

    /// Takes the caller with that call sid out of the line; `None`: the first in line.
    pub(super) fn remove(&mut self, call: Option<&str>) -> Option<(Name, QueueMember)> {
        let at = call.map_or(Some(0), |call| {
            self.callers.iter().position(|waiting| *waiting.join.call_sid == *call)
        })?;
        let waiting = self.callers.remove(at)?;
        Some((waiting.name, waiting.member()))
    }

    pub(super) fn members(&self) -> Vec<QueueMember> {
        self.callers.iter().map(Waiting::member).collect()
    }

    /// The status of all that wait. A taker has no place in line.
    pub(super) fn standings(&self) -> impl Iterator<Item = (Name, MemberStatus)> {
        let average_seconds = self.waited.checked_div(self.taken).unwrap_or(0);
        let standing = |line, since| MemberStatus {
            sid: Arc::clone(&self.sid),
            hears: MemberAudio::Wait,
            line,
            with: None,
            records: false,
            recording: None,
            is_muted: false,
            held: None,
            end_on_exit: false,
            joined_at: since,
            created_at: since,
            sequence: 0,
        };
        let callers = self.callers.iter().enumerate().map(move |(at, waiting)| {
            let size = self.callers.len();
            let line = QueuePosition { position: at + 1, size, average_seconds, since: waiting.since };
            (waiting.name, standing(Some(line), waiting.since))
        });
        let takers = self.takers.iter().map(move |waiting| (waiting.name, standing(None, waiting.since)));
        callers.chain(takers)
    }
}

/// Puts a member where its arrival says: at the end, unless it comes from the queue's home before.
fn insert(line: &mut VecDeque<Waiting>, waiting: Waiting) {
    let place = line.partition_point(|other| other.since <= waiting.since);
    let place = if waiting.join.again.is_some() { place } else { line.len() };
    line.insert(place, waiting);
}

impl Waiting {
    fn member(&self) -> QueueMember {
        QueueMember { call_sid: self.join.call_sid.to_string(), enqueued_at: self.since }
    }
}
