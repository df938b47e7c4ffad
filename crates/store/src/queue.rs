//! A bounded queue that hands over everything waiting at once: one lock and one wake-up a group, not a message.
//!
//! Used for writes. Items that are waited for ([`push`](Queue::push) with `urgent`) are handed over at once, or after a short window in which others
//! may join them; items that nothing waits for ride along with those, or go alone when their patience is over.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Many push, and one or more take.
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    /// Wakes a taker.
    ready: Condvar,
    /// Items that may wait.
    capacity: usize,
    /// Items in one `take`.
    group: usize,
    /// The time that an urgent item waits for others.
    window: Duration,
    /// The time that items that are not urgent wait for an urgent one.
    patience: Duration,
}

struct State<T> {
    /// In the order in which they came.
    items: Vec<T>,
    /// At least one of the items is waited for.
    urgent: bool,
    closed: bool,
}

/// The outcome of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// At least one item.
    Group,
    /// Nothing came for as long as the taker wanted to wait.
    Idle,
    /// Closed and empty.
    Closed,
}

/// Why an item was not taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Full,
    Closed,
}

impl<T> Queue<T> {
    pub(crate) fn new(capacity: usize, group: usize, window: Duration, patience: Duration) -> Self {
        let state = State { items: Vec::new(), urgent: false, closed: false };
        Queue { state: Mutex::new(state), ready: Condvar::new(), capacity, group, window, patience }
    }

    /// Adds an item; never waits. `urgent`: an answer is waited for.
    pub(crate) fn push(&self, item: T, urgent: bool) -> Result<(), Refused> {
        let mut state = self.lock();
        if state.closed {
            return Err(Refused::Closed);
        }
        if state.items.len() >= self.capacity {
            return Err(Refused::Full);
        }
        state.items.push(item);
        // The taker sleeps until the first item, the first urgent one, or a full group; others need not wake it.
        let first = state.items.len() == 1 || (urgent && !state.urgent);
        let wake = first || state.items.len() == self.group;
        state.urgent |= urgent;
        drop(state);
        if wake {
            self.ready.notify_one();
        }
        Ok(())
    }

    /// Waits for a group and moves it to `out`. False: closed and empty.
    #[cfg(test)]
    fn take(&self, out: &mut Vec<T>) -> bool {
        self.take_within(None, out) == Taken::Group
    }

    /// As `take`, and waits for the first item at most so long.
    pub(crate) fn take_within(&self, pause: Option<Duration>, out: &mut Vec<T>) -> Taken {
        let mut state = self.lock();
        // Another taker may have emptied the queue while this one waited for company.
        loop {
            if state.closed && state.items.is_empty() {
                return Taken::Closed;
            }
            let empty = |state: &mut State<T>| state.items.is_empty() && !state.closed;
            state = match pause {
                None => wait_while(&self.ready, state, empty),
                Some(pause) => {
                    let waited = self.ready.wait_timeout_while(state, pause, empty);
                    let (state, result) = waited.unwrap_or_else(PoisonError::into_inner);
                    if result.timed_out() {
                        return Taken::Idle;
                    }
                    state
                }
            };
            state = self.wait_for(state, self.patience, |state| !state.urgent);
            if !self.window.is_zero() {
                state = self.wait_for(state, self.window, |_| true);
            }
            if !state.items.is_empty() {
                break;
            }
        }
        let count = state.items.len().min(self.group);
        out.extend(state.items.drain(..count));
        if state.items.is_empty() {
            state.urgent = false;
        } else {
            // Another taker may be asleep, and no "first" item will be pushed for it.
            self.ready.notify_one();
        }
        Taken::Group
    }

    /// Nothing more comes in; what is there is still handed out.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.ready.notify_all();
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().items.len()
    }

    /// Waits at most so long while the group is not full, the queue is open, and `more` says so.
    fn wait_for<'a>(
        &self,
        state: MutexGuard<'a, State<T>>,
        time: Duration,
        more: impl Fn(&State<T>) -> bool,
    ) -> MutexGuard<'a, State<T>> {
        let waiting = |state: &mut State<T>| {
            !state.items.is_empty() && state.items.len() < self.group && !state.closed && more(state)
        };
        self.ready.wait_timeout_while(state, time, waiting).unwrap_or_else(PoisonError::into_inner).0
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Nothing that can panic runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wait_while<'a, S>(
    ready: &Condvar,
    guard: MutexGuard<'a, S>,
    condition: impl FnMut(&mut S) -> bool,
) -> MutexGuard<'a, S> {
    ready.wait_while(guard, condition).unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn a_group_comes_in_order_and_no_larger_than_allowed() {
        let queue = Queue::new(10, 3, LONG, LONG);
        (0..5).for_each(|item| queue.push(item, true).unwrap());
        queue.close();
        let mut out = Vec::new();
        assert!(queue.take(&mut out));
        assert_eq!(out, [0, 1, 2]);
        assert!(queue.take(&mut out));
        assert_eq!(out, [0, 1, 2, 3, 4]);
        assert!(!queue.take(&mut out));
    }

    #[test]
    fn a_full_queue_and_a_closed_one_refuse() {
        let queue = Queue::new(1, 3, LONG, LONG);
        queue.push(1, false).unwrap();
        assert_eq!(queue.push(2, true), Err(Refused::Full));
        queue.close();
        assert_eq!(queue.push(2, true), Err(Refused::Closed));
        assert_eq!(queue.len(), 1);
    }

    #[test]
    fn items_without_a_waiting_client_are_taken_with_the_first_awaited_one() {
        let queue = Queue::new(10, 10, Duration::ZERO, LONG);
        queue.push("call", false).unwrap();
        std::thread::scope(|scope| {
            let taker = scope.spawn(|| {
                let mut out = Vec::new();
                queue.take(&mut out);
                out
            });
            queue.push("binding", true).unwrap();
            assert_eq!(taker.join().unwrap(), ["call", "binding"]);
        });
    }
}
