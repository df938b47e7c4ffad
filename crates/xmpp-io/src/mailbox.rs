//! Events from the tasks of connections to their shard. All on one thread.
//!
//! Its bound is kept by the readers: a task asks [`Mailbox::has_room`] before it reads from its socket, and what one read causes is always
//! taken. So a shard that is behind is felt by peers as a full TCP window.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use crate::limits;

/// Events for the shard, which takes them in its turn.
pub struct Mailbox<E> {
    events: RefCell<VecDeque<E>>,
    /// Tasks that wait for room among the events.
    starved: RefCell<Vec<Waker>>,
    /// The shard, once it waits for events.
    shard: RefCell<Option<Waker>>,
}

impl<E> Default for Mailbox<E> {
    fn default() -> Self {
        Mailbox { events: RefCell::default(), starved: RefCell::default(), shard: RefCell::default() }
    }
}

impl<E> Mailbox<E> {
    /// Puts an event behind the others, and wakes the shard.
    pub fn put(&self, event: E) {
        self.events.borrow_mut().push_back(event);
        self.wake();
    }

    /// True if the shard has taken all events.
    pub fn is_empty(&self) -> bool {
        self.events.borrow().is_empty()
    }

    /// The shard has something to look at.
    pub fn wake(&self) {
        if let Some(waker) = self.shard.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }

    /// Ready when there is an event.
    pub fn poll_ready(&self, cx: &Context<'_>) -> Poll<()> {
        self.listen(cx);
        if self.events.borrow().is_empty() { Poll::Pending } else { Poll::Ready(()) }
    }

    /// Registers the shard's waker for further events.
    pub fn listen(&self, cx: &Context<'_>) {
        let mut slot = self.shard.borrow_mut();
        match slot.as_mut() {
            Some(old) => old.clone_from(cx.waker()),
            None => *slot = Some(cx.waker().clone()),
        }
    }

    /// Moves all events out, and wakes the tasks that wait for room.
    pub fn take(&self, sink: &mut Vec<E>) {
        sink.extend(self.events.borrow_mut().drain(..));
        self.starved.borrow_mut().drain(..).for_each(Waker::wake);
    }

    /// The number of events.
    pub fn len(&self) -> usize {
        self.events.borrow().len()
    }

    /// Moves those of the events behind the first `place` out that are meant; the others stay in order.
    pub fn take_behind(&self, place: usize, is_meant: impl Fn(&E) -> bool) -> Vec<E> {
        let mut events = self.events.borrow_mut();
        if events.len() <= place {
            return Vec::new();
        }
        let (meant, others): (Vec<E>, Vec<E>) = events.split_off(place).into_iter().partition(is_meant);
        events.extend(others);
        meant
    }

    /// True if a connection may read on; if not, `waker` is woken when it may.
    pub fn has_room(&self, waker: &Waker) -> bool {
        let has_room = self.events.borrow().len() < limits::XMPP_EVENTS;
        if !has_room {
            self.starved.borrow_mut().push(waker.clone());
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct WakeCounter(AtomicU32);

    impl Wake for WakeCounter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn events_behind_a_place_are_taken_and_the_others_stay_in_order() {
        let mailbox = Mailbox::default();
        (0..6).for_each(|event| mailbox.put(event));
        assert_eq!(mailbox.take_behind(2, |event| event % 2 == 1), [3, 5]);
        assert!(mailbox.take_behind(4, |_| true).is_empty());
        let mut left = Vec::new();
        mailbox.take(&mut left);
        assert_eq!(left, [0, 1, 2, 4]);
        assert!(mailbox.take_behind(2, |_| true).is_empty());
    }

    #[test]
    fn a_task_that_waits_for_room_is_woken_when_the_shard_has_taken() {
        let (shard, task) = (Arc::new(WakeCounter::default()), Arc::new(WakeCounter::default()));
        let (shard_waker, task_waker) = (Waker::from(Arc::clone(&shard)), Waker::from(Arc::clone(&task)));
        let mailbox = Mailbox::default();
        assert!(mailbox.poll_ready(&Context::from_waker(&shard_waker)).is_pending());
        while mailbox.has_room(&task_waker) {
            mailbox.put(0);
        }
        let count = |woken: &WakeCounter| woken.0.load(Ordering::Relaxed);
        assert_eq!((count(&shard) as usize, count(&task)), (limits::XMPP_EVENTS, 0));
        assert!(mailbox.poll_ready(&Context::from_waker(&shard_waker)).is_ready());
        let mut taken = Vec::new();
        mailbox.take(&mut taken);
        assert_eq!((taken.len(), count(&task)), (limits::XMPP_EVENTS, 1));
        assert!(mailbox.has_room(&task_waker));
    }
}
