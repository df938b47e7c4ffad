//! A shard's bounded inbox: other threads add batches to it, and its shard empties it in one move.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Makes an inbox for `capacity` messages, and the outlet that leads to it.
pub fn inbox<M>(capacity: usize) -> (Outlet<M>, Inbox<M>) {
    let state = State { messages: Vec::new(), waker: None };
    let shared = Arc::new(Shared { state: Mutex::new(state), capacity });
    (Outlet { shared: Arc::clone(&shared) }, Inbox { shared })
}

struct Shared<M> {
    state: Mutex<State<M>>,
    capacity: usize,
}

struct State<M> {
    messages: Vec<M>,
    /// Set while the owner sleeps.
    waker: Option<Waker>,
}

impl<M> Shared<M> {
    fn lock(&self) -> MutexGuard<'_, State<M>> {
        // Nothing that can panic runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The messages that a full inbox refused: its shard is that far behind.
#[derive(Debug, PartialEq, Eq)]
pub struct Full<M>(pub Vec<M>);

/// The sending side; clones lead to the same inbox.
pub struct Outlet<M> {
    shared: Arc<Shared<M>>,
}

impl<M> Clone for Outlet<M> {
    fn clone(&self) -> Self {
        Outlet { shared: Arc::clone(&self.shared) }
    }
}

impl<M> Outlet<M> {
    /// Moves the batch over, one lock and at most one wake-up. `batch` is left empty.
    ///
    /// # Errors
    /// [`Full`] with the messages that the inbox has no room for.
    pub fn send_all(&self, batch: &mut Vec<M>) -> Result<(), Full<M>> {
        if batch.is_empty() {
            return Ok(());
        }
        let mut state = self.shared.lock();
        let room = self.shared.capacity.saturating_sub(state.messages.len());
        let rest = if batch.len() > room { batch.split_off(room) } else { Vec::new() };
        state.messages.append(batch);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        if rest.is_empty() { Ok(()) } else { Err(Full(rest)) }
    }

    /// Moves answers over, beyond the capacity if need be, because an answer must not be lost. There are never more of
    /// them than open questions of the inbox's shard, which bounds those.
    pub fn answer_all(&self, batch: &mut Vec<M>) {
        if batch.is_empty() {
            return;
        }
        let mut state = self.shared.lock();
        state.messages.append(batch);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Moves one message over.
    ///
    /// # Errors
    /// [`Full`] with the message.
    pub fn send(&self, message: M) -> Result<(), Full<M>> {
        self.send_all(&mut vec![message])
    }
}

/// The receiving side.
pub struct Inbox<M> {
    shared: Arc<Shared<M>>,
}

impl<M> Inbox<M> {
    /// Moves all messages into `into`. Never waits.
    pub fn take(&mut self, into: &mut Vec<M>) {
        let mut state = self.shared.lock();
        // The shard is awake: no wake-up is due before it sleeps again.
        state.waker = None;
        if into.is_empty() {
            std::mem::swap(into, &mut state.messages);
        } else {
            into.append(&mut state.messages);
        }
    }

    /// Ready when there is a message; else the task is woken by the next one.
    pub fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.shared.lock();
        if !state.messages.is_empty() {
            return Poll::Ready(());
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_inbox_returns_the_rest() {
        let (outlet, mut inbox) = inbox(3);
        assert_eq!(outlet.send_all(&mut vec![1, 2]), Ok(()));
        assert_eq!(outlet.send_all(&mut vec![3, 4, 5]), Err(Full(vec![4, 5])));
        let mut out = Vec::new();
        inbox.take(&mut out);
        assert_eq!(out, [1, 2, 3]);
        assert_eq!(outlet.send(6), Ok(()));
    }

    #[test]
    fn a_sleeper_is_woken_once() {
        let (outlet, mut inbox) = inbox(8);
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(inbox.poll_ready(&mut context), Poll::Pending);
        outlet.send("x").unwrap();
        assert_eq!(inbox.poll_ready(&mut context), Poll::Ready(()));
    }
}
