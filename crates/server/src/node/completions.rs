//! Routes the store's answers: to the shards' inboxes, or to the asker on the control socket.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use cluster::Outlet;
use cluster::farm::EndReason;
use farm::agent::FarmEnd;
use store::{Completions, Loaded, StoreError, Ticket, WriteDone};
use tokio::sync::oneshot;

use crate::control::StoreStatus;
use crate::farm::end_process;
use crate::message::{InboxMessage, LocalMessage};

/// The sink of the control socket's questions: no shard has this number.
const CONTROL: u16 = u16::MAX;

/// Sorts the store's answers.
pub(crate) struct StoreCompletions {
    outlets: Vec<Outlet<InboxMessage>>,
    waiting: Mutex<Waiting>,
    failures: Mutex<StoreStatus>,
    /// The node ends in order: it does not matter any more that another node takes over from it.
    is_ending: AtomicBool,
}

#[derive(Default)]
struct Waiting {
    last: u64,
    writes: HashMap<u64, oneshot::Sender<Result<WriteDone, StoreError>>>,
    reads: HashMap<u64, oneshot::Sender<Result<Loaded, StoreError>>>,
}

impl StoreCompletions {
    pub(crate) fn new(outlets: Vec<Outlet<InboxMessage>>) -> Self {
        StoreCompletions {
            outlets,
            waiting: Mutex::default(),
            failures: Mutex::default(),
            is_ending: AtomicBool::new(false),
        }
    }

    /// From now on a write that the fence refuses does not end the process.
    pub(crate) fn outlive_fence(&self) {
        self.is_ending.store(true, Ordering::Release);
    }

    /// A ticket for a write, and where its answer will be.
    pub(crate) fn expect_write(&self) -> (Ticket, oneshot::Receiver<Result<WriteDone, StoreError>>) {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.lock();
        waiting.last += 1;
        let id = waiting.last;
        waiting.writes.insert(id, sender);
        (Ticket { sink: CONTROL, id }, receiver)
    }

    pub(crate) fn expect_read(&self) -> (Ticket, oneshot::Receiver<Result<Loaded, StoreError>>) {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.lock();
        waiting.last += 1;
        let id = waiting.last;
        waiting.reads.insert(id, sender);
        (Ticket { sink: CONTROL, id }, receiver)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        // Nothing that can panic runs under the lock.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The count of failed writes of the database, and the reason of the last.
    pub(crate) fn failures(&self) -> StoreStatus {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the result of the last trial write to the database: `None` when it succeeded.
    pub(crate) fn set_unwritable(&self, why: Option<String>) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        match (&failures.unwritable, &why) {
            (None, Some(why)) => tracing::error!("the database cannot be written: {why}"),
            (Some(_), None) => tracing::info!("the database can be written again"),
            _ => {}
        }
        failures.unwritable = why.map(Into::into);
    }

    fn outlet(&self, sink: u16) -> Option<&Outlet<InboxMessage>> {
        self.outlets.get(usize::from(sink))
    }
}

impl Completions for StoreCompletions {
    fn complete(&self, sink: u16, done: Vec<(u64, Result<WriteDone, StoreError>)>) {
        if let Some(outlet) = self.outlet(sink) {
            return outlet.answer_all(&mut vec![LocalMessage::Written(done).into()]);
        }
        let mut waiting = self.lock();
        for (id, result) in done {
            if let Some(asker) = waiting.writes.remove(&id) {
                // The asker may have hung up.
                let _ = asker.send(result);
            }
        }
    }

    fn loaded(&self, sink: u16, done: Vec<(u64, Result<Loaded, StoreError>)>) {
        if let Some(outlet) = self.outlet(sink) {
            return outlet.answer_all(&mut vec![LocalMessage::Loaded(done).into()]);
        }
        let mut waiting = self.lock();
        for (id, result) in done {
            if let Some(asker) = waiting.reads.remove(&id) {
                let _ = asker.send(result);
            }
        }
    }

    fn failed(&self, error: &StoreError) {
        // Before a shard hears of it: a fenced life answers nothing.
        if matches!(error, StoreError::Fenced { .. }) && !self.is_ending.load(Ordering::Acquire) {
            end_process(&FarmEnd::Ended(EndReason::Fenced));
        }
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.failures += 1;
        let text: Box<str> = error.to_string().into();
        failures.last_failure = Some(text.clone());
        if !error.is_of_item() {
            failures.unwritable = Some(text);
        }
        drop(failures);
        tracing::error!(%error, "the database could not be written; registrations are answered 500, calls go on");
    }
}
