//! Routes the store's answers by the sink of their ticket: to the inbox of the shard of that number, or to a waiting task of the operator,
//! of REST or of another part outside the shards (`CONTROL`). Keeps the failures of the database for status and health.
//!
//! In: `complete`, `loaded` and `failed`, on the threads of the store. Out: messages beyond the bound of an
//! inbox (`answer_all`), as an answer that is lost would leave its asker waiting for ever; their number is
//! bounded by the questions that are open.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cluster::Outlet;
use cluster::farm::EndReason;
use control::StoreStatus;
use farm::agent::FarmEnd;
use net::clock::Clock;
use stdx::Instant;
use store::{Busy, Completions, Loaded, StoreError, Ticket, WriteDone};
use tokio::sync::{Notify, oneshot};

use crate::farm::end_process;
use crate::limits;
use crate::message::{InboxMessage, LocalMessage};
use crate::outage_log::OutageLog;
use crate::shard::StatusBoard;

use super::trial_writes::{Speed, TrialWrites};

/// The sink of the control socket's questions: no shard has this number.
const CONTROL: u16 = u16::MAX;

/// The receiver of all results of the store's threads, which call it.
pub(crate) struct StoreCompletions {
    outlets: Vec<Outlet<InboxMessage>>,
    waiting: Mutex<Waiting>,
    failures: Mutex<Failures>,
    clock: Clock,
    /// Counts records that are lost.
    board: Arc<StatusBoard>,
    /// The database is a server's, which other nodes reach no better.
    is_on_server: bool,
    /// The node ends in order: it does not matter any more that another node takes over from it.
    is_ending: AtomicBool,
    /// A client of the REST interface was removed with its account.
    client_removed: Notify,
}

/// The failures of the database.
#[derive(Default)]
struct Failures {
    /// Failed writes of the database since the start.
    count: u64,
    last: Option<Box<str>>,
    /// `None`: the database can be written.
    unwritable: Option<Unwritable>,
    /// The last time that the server had no space for a write.
    full_at: Option<Instant>,
    /// The times of trial writes.
    trials: TrialWrites,
    /// The lines about failed writes.
    log: OutageLog,
}

/// The reason why the database cannot be written.
pub(super) struct Unwritable {
    pub(super) reason: Box<str>,
    /// The database's server is at fault, not this machine.
    pub(super) is_of_server: bool,
    since: Instant,
}

/// The requests of parts outside the shards that the store has taken. One that is never answered ends with the node.
#[derive(Default)]
struct Waiting {
    last: u64,
    writes: HashMap<u64, oneshot::Sender<Result<WriteDone, StoreError>>>,
    reads: HashMap<u64, oneshot::Sender<Result<Loaded, StoreError>>>,
}

impl Waiting {
    /// Puts the asker into one of the tables, under a new number.
    fn insert<T>(&mut self, table: impl FnOnce(&mut Self) -> &mut HashMap<u64, T>, asker: T) -> u64 {
        self.last += 1;
        let id = self.last;
        table(self).insert(id, asker);
        id
    }
}

impl StoreCompletions {
    pub(crate) fn new(
        outlets: Vec<Outlet<InboxMessage>>,
        clock: Clock,
        board: &Arc<StatusBoard>,
        is_on_server: bool,
    ) -> Self {
        let (waiting, failures, is_ending) = (Mutex::default(), Mutex::default(), AtomicBool::new(false));
        StoreCompletions {
            outlets,
            waiting,
            failures,
            clock,
            board: Arc::clone(board),
            is_on_server,
            is_ending,
            client_removed: Notify::new(),
        }
    }

    /// Waits until a write has removed a client of the REST interface with its account, whichever part of the node has asked for it.
    pub(crate) async fn client_removed(&self) {
        self.client_removed.notified().await;
    }

    /// From now on a write that the fence refuses does not end the process.
    pub(crate) fn outlive_fence(&self) {
        self.is_ending.store(true, Ordering::Release);
    }

    /// The reason of a failure of the database.
    pub(super) fn unwritable(&self, error: &StoreError) -> Unwritable {
        Unwritable { is_of_server: self.is_on_server, ..self.unwritable_here(error.to_string()) }
    }

    /// The reason of a failure of this machine.
    pub(super) fn unwritable_here(&self, reason: String) -> Unwritable {
        Unwritable { reason: reason.into(), is_of_server: false, since: self.clock.now() }
    }

    /// Begins a write: `begin` gives it to the store with the ticket. Returns where its answer will be.
    ///
    /// # Errors
    /// The store's refusal. No answer to the ticket will come, so nothing waits for it.
    pub(crate) fn begin_write(
        &self,
        begin: impl FnOnce(Ticket) -> Result<(), Busy>,
    ) -> Result<oneshot::Receiver<Result<WriteDone, StoreError>>, Busy> {
        let (sender, receiver) = oneshot::channel();
        // Before the store has the ticket: its threads may answer at once.
        let id = self.lock().insert(|waiting| &mut waiting.writes, sender);
        begin(Ticket { sink: CONTROL, id }).inspect_err(|Busy| drop(self.lock().writes.remove(&id)))?;
        Ok(receiver)
    }

    /// Begins a read: as [`begin_write`](Self::begin_write).
    pub(crate) fn begin_read(
        &self,
        begin: impl FnOnce(Ticket) -> Result<(), Busy>,
    ) -> Result<oneshot::Receiver<Result<Loaded, StoreError>>, Busy> {
        let (sender, receiver) = oneshot::channel();
        let id = self.lock().insert(|waiting| &mut waiting.reads, sender);
        begin(Ticket { sink: CONTROL, id }).inspect_err(|Busy| drop(self.lock().reads.remove(&id)))?;
        Ok(receiver)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        // Nothing that can panic runs under the lock.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The count of failed writes of the database, and the reason of the last.
    pub(crate) fn failures(&self) -> StoreStatus {
        let failures = self.lock_failures();
        let (unwritable, now) = (failures.unwritable.as_ref(), self.clock.now());
        // A file is slow with this machine's disk, which other numbers show.
        let is_told = self.is_on_server && unwritable.is_none();
        let slow = failures.trials.slow(now).filter(|_| is_told);
        StoreStatus {
            failures: failures.count,
            last_failure: failures.last.clone(),
            unwritable: unwritable.map(|unwritable| unwritable.reason.clone()),
            unwritable_seconds: unwritable.map_or(0, |unwritable| now.since(unwritable.since).as_secs()),
            is_of_server: unwritable.is_some_and(|unwritable| unwritable.is_of_server),
            slow_seconds: slow.as_ref().map_or(0, |slow| slow.seconds),
            slow: slow.map(|slow| slow.reason),
            ..StoreStatus::default()
        }
    }

    fn lock_failures(&self) -> std::sync::MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A trial write to the database begins.
    pub(super) fn begin_trial(&self) {
        let now = self.clock.now();
        self.lock_failures().trials.begin(now);
    }

    /// The trial write has ended.
    pub(super) fn end_trial(&self, succeeded: bool) {
        let now = self.clock.now();
        let change = self.lock_failures().trials.end(now, succeeded).filter(|_| self.is_on_server);
        match change {
            Some(Speed::Slow(took)) => {
                tracing::warn!(
                    seconds = took.as_secs(),
                    "the database is slow; registrations wait for it, calls go on"
                );
            }
            Some(Speed::Quick) => tracing::info!("the database is quick again"),
            None => {}
        }
    }

    /// Sets the result of the last trial write to the database: `None` when it succeeded.
    pub(super) fn set_unwritable(&self, now: Option<Unwritable>) {
        let mut failures = self.lock_failures();
        let at = self.clock.now();
        // A trial write needs no new space: its success does not show that the server's disk has room again.
        if now.is_none() && failures.full_at.is_some_and(|full| at.since(full) < limits::SERVER_FULL) {
            return;
        }
        match (&failures.unwritable, &now) {
            (None, Some(now)) => {
                // The writes that fail now fail for the same reason.
                failures.log.handle_failure(at);
                tracing::error!("the database cannot be written: {}", now.reason);
            }
            (Some(_), None) => {
                failures.log.end();
                tracing::info!("the database can be written again");
            }
            _ => {}
        }
        failures.set_unwritable(now);
    }

    /// None for the sink of parts outside the shards.
    fn outlet(&self, sink: u16) -> Option<&Outlet<InboxMessage>> {
        self.outlets.get(usize::from(sink))
    }
}

impl Failures {
    /// Keeps the time since when it lasts.
    fn set_unwritable(&mut self, now: Option<Unwritable>) {
        // Later failures have their own reason, but the outage began with the first.
        let since = self.unwritable.as_ref().map(|before| before.since);
        self.unwritable = now.map(|now| Unwritable { since: since.unwrap_or(now.since), ..now });
    }
}

impl Completions for StoreCompletions {
    fn complete(&self, sink: u16, done: Vec<(u64, Result<WriteDone, StoreError>)>) {
        if done.iter().any(|(_, result)| matches!(result, Ok(WriteDone::Removed { had_client: true, .. }))) {
            self.client_removed.notify_one();
        }
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

    fn lost(&self, count: usize) {
        self.board.count_lost_records(count);
    }

    fn failed(&self, error: &StoreError) {
        // Before a shard hears of it: a fenced life answers nothing.
        if matches!(error, StoreError::Fenced { .. }) && !self.is_ending.load(Ordering::Acquire) {
            end_process(&FarmEnd::Ended(EndReason::Fenced));
        }
        let mut failures = self.lock_failures();
        failures.count += 1;
        failures.last = Some(error.to_string().into());
        if self.is_on_server && matches!(error, StoreError::Full { .. }) {
            failures.full_at = Some(self.clock.now());
        }
        // A write that is wrong in itself fails alone and says nothing about the database.
        if !error.is_of_item() {
            failures.set_unwritable(Some(self.unwritable(error)));
        }
        let of_line =
            if error.is_of_item() { Some(1) } else { failures.log.handle_failure(self.clock.now()) };
        // Before the line is written: a log that blocks must not hold the lock, which other threads of the
        // store need.
        drop(failures);
        if let Some(failures) = of_line {
            tracing::error!(%error, failures, "the database could not be written; registrations are answered 503, calls go on");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_the_store_refuses_leaves_nothing_behind() {
        let completions = StoreCompletions::new(Vec::new(), Clock::new(), &Arc::default(), false);
        assert!(completions.begin_write(|_| Err(Busy)).is_err());
        assert!(completions.begin_read(|_| Err(Busy)).is_err());
        let waiting = completions.lock();
        assert_eq!((waiting.writes.len(), waiting.reads.len()), (0, 0));
    }

    #[test]
    fn a_request_that_the_store_takes_is_answered_once() {
        let completions = StoreCompletions::new(Vec::new(), Clock::new(), &Arc::default(), false);
        let mut answer = completions
            .begin_write(|ticket| {
                completions.complete(ticket.sink, vec![(ticket.id, Ok(WriteDone::Changed { rows: 1 }))]);
                Ok(())
            })
            .expect("it was taken");
        assert_eq!(answer.try_recv(), Ok(Ok(WriteDone::Changed { rows: 1 })));
        assert!(completions.lock().writes.is_empty());
    }
}
