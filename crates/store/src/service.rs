//! The record beside running shards: one writer thread with group commit, reader threads, bounded queues.
//!
//! The writer's turn (`run_writer`): take a group from the queue, set apart the writes that must wait behind others, add cleaning that is due, write
//! the group in one transaction, try those that waited, and answer. A reader's turn (`run_reader`): take a batch, load each, answer.
//!
//! A shard never waits: it puts a write or read into a queue with a [`Ticket`] and gets the answer through
//! [`Completions`], in batches, from one of the service's threads. Answers to one sink's writes come in the
//! order of the writes, those apart that wait for a database that is away ([`retry_queue`](crate::retry_queue)); reads of one account and lane
//! are answered in the order they came (`reads`), others overtake each other.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crate::error::StoreError;
use crate::limits;
use crate::queue::{Queue, Refused, Taken};
use crate::reads::{Reads, TakenRead};
use crate::record::{Loaded, Read, Reader, Store, Write, WriteDone, Writer};
use crate::rest::RestWrite;
use crate::retry_queue::{Answers, Attempt, RetryQueue, is_of_call};

/// The receiver of an answer, and its own number for the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    /// A shard.
    pub sink: u16,
    /// Chosen by the asker, and returned with the answer.
    pub id: u64,
}

/// The receivers of answers. Called on the service's threads; must not block.
pub trait Completions: Send + Sync {
    /// Writes that are on disk, or failed.
    fn complete(&self, sink: u16, done: Vec<(u64, Result<WriteDone, StoreError>)>);
    /// Reads that are done, or failed.
    fn loaded(&self, sink: u16, done: Vec<(u64, Result<Loaded, StoreError>)>);
    /// A group failed, or a write that has no ticket: an operator should know. Once per group.
    fn failed(&self, error: &StoreError) {
        let _ = error;
    }
    /// So many records and rows of calls are not in the database, and will not be: they had no ticket.
    fn lost(&self, count: usize) {
        let _ = count;
    }
}

/// The queue is full, or the service has been shut down. Nothing was taken; the caller answers 503.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

/// The sizes and times of a service.
#[derive(Clone, Debug)]
pub struct ServiceOptions {
    /// Threads that read, at least two: the first one serves quick reads only.
    pub readers: usize,
    /// Writes that may wait; further ones are [`Busy`].
    pub write_queue: usize,
    /// Reads that may wait; further ones are [`Busy`].
    pub read_queue: usize,
    /// Writes in one transaction at most.
    pub max_group: usize,
    /// The time that a group waits for more writes.
    pub group_window: Duration,
    /// The time that writes without a ticket wait for a group to ride along with.
    pub ride_along: Duration,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        ServiceOptions {
            readers: limits::READERS,
            write_queue: limits::WRITE_QUEUE,
            read_queue: limits::READ_QUEUE,
            max_group: limits::MAX_GROUP,
            group_window: limits::GROUP_WINDOW,
            ride_along: limits::RIDE_ALONG,
        }
    }
}

/// Writes with the tickets of their answers; without a ticket nothing waits for the write.
type Writes = Queue<(Write, Option<Ticket>)>;

/// Shared by all shards behind an `Arc`. Dropping it, or `shutdown`, writes what is queued and joins the threads.
pub struct Service {
    writes: Arc<Writes>,
    /// The number of writes that wait for a database that is away.
    kept: Arc<AtomicUsize>,
    reads: Arc<Reads>,
    threads: Vec<JoinHandle<()>>,
}

impl Service {
    /// Starts the threads.
    pub fn start(
        store: &dyn Store,
        completions: &Arc<dyn Completions>,
        options: &ServiceOptions,
    ) -> Result<Self, StoreError> {
        let writes =
            Queue::new(options.write_queue, options.max_group, options.group_window, options.ride_along);
        let readers = options.readers.max(2);
        let reads = Reads::new(readers, options.read_queue);
        let mut service = Service {
            writes: Arc::new(writes),
            kept: Arc::default(),
            reads: Arc::new(reads),
            threads: Vec::new(),
        };
        let (writer, queue, sinks) = (store.writer()?, service.writes.clone(), completions.clone());
        let kept = service.kept.clone();
        service.spawn("store-writer".into(), move || run_writer(writer, &queue, &kept, &*sinks))?;
        for number in 0..readers {
            let (reader, queue, sinks) = (store.reader()?, service.reads.clone(), completions.clone());
            service.spawn(format!("store-reader-{number}"), move || {
                run_reader(reader, number, &queue, &*sinks);
            })?;
        }
        Ok(service)
    }

    /// A thread that `stop` joins.
    fn spawn(&mut self, name: String, work: impl FnOnce() + Send + 'static) -> Result<(), StoreError> {
        let thread = Builder::new()
            .name(name)
            .spawn(work)
            .map_err(|error| StoreError::Internal { detail: format!("cannot start a thread: {error}") })?;
        self.threads.push(thread);
        Ok(())
    }

    /// Queues a write. Without a ticket there is no answer, and the write waits for a group with a ticket, at
    /// most `ServiceOptions::ride_along`.
    pub fn write(&self, write: Write, ticket: impl Into<Option<Ticket>>) -> Result<(), Busy> {
        let ticket = ticket.into();
        self.writes.push((write, ticket), ticket.is_some()).map_err(Busy::from)
    }

    /// Queues a read.
    pub fn read(&self, read: Read, ticket: Ticket) -> Result<(), Busy> {
        self.reads.push(read, ticket).map_err(Busy::from)
    }

    /// Queues reads that came together, and wakes one thread for them. Returns the tickets of those that are [`Busy`].
    pub fn read_all(&self, reads: &mut Vec<(Read, Ticket)>) -> Vec<Ticket> {
        self.reads.push_all(reads)
    }

    /// Writes and reads waiting now: a gauge.
    pub fn waiting(&self) -> (usize, usize) {
        (self.writes.len() + self.kept.load(Ordering::Relaxed), self.reads.len())
    }

    /// Takes nothing more, answers everything queued, then returns. Writes that wait for a database that is away have one more attempt.
    pub fn shutdown(mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        self.writes.close();
        self.reads.close();
        for thread in self.threads.drain(..) {
            // A panic there was printed; there is nothing more to say about it.
            let _ = thread.join();
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop();
    }
}

impl From<Refused> for Busy {
    fn from(_: Refused) -> Self {
        Busy
    }
}

/// The writer's thread, until the queue is closed and empty.
fn run_writer(mut writer: Box<dyn Writer>, queue: &Writes, waiting: &AtomicUsize, sinks: &dyn Completions) {
    let (mut taken, mut group, mut tickets) = (Vec::new(), Vec::new(), Vec::new());
    // Cleaning writes that found more to delete.
    let mut again = VecDeque::new();
    // Messages and rows of calls that wait for a database that is away.
    let (mut kept, mut attempt) = (RetryQueue::new(limits::MAX_GROUP), Attempt::Done);
    let mut is_last = false;
    loop {
        let pause = (!again.is_empty()).then_some(limits::CLEAN_PAUSE);
        let pause = if kept.is_empty() { pause } else { Some(attempt.pause()) };
        if queue.take_within(pause, &mut taken) == Taken::Closed {
            // Writes that wait after a last attempt have no answer: their messages are not acknowledged.
            if kept.is_empty() || (is_last && attempt == Attempt::Failed) {
                return;
            }
            is_last = true;
        }
        let mut answers = kept.take_later(&mut taken);
        group.clear();
        tickets.clear();
        // As many rows are deleted as the group can add, so cleaning keeps up with any rate; one kind of row at a time, so
        // that a group is held up by one chunk for each chunk that it adds.
        let chunks = 1 + taken.len() / limits::CLEAN_CHUNK as usize;
        taken.extend(again.drain(..chunks.min(again.len())).map(|write| (write, None)));
        for (write, ticket) in taken.drain(..) {
            group.push(write);
            tickets.push(ticket);
        }
        let is_idle = group.is_empty();
        let results = if is_idle { Vec::new() } else { writer.write_group(&group) };
        // One attempt to reach a server that is away is enough.
        let is_away = results.iter().any(|result| matches!(result, Err(StoreError::Unreachable { .. })));
        attempt = if is_away { Attempt::Failed } else { kept.try_again(&mut *writer, &mut answers) };
        let of_kept =
            || answers.iter().find_map(|(_, done)| done.as_ref().err().filter(|error| !error.is_of_item()));
        if let Some(error) = worth_telling(&results, &tickets).or_else(of_kept) {
            sinks.failed(error);
        }
        for write in group.iter().zip(&results).filter_map(found_more) {
            // A newer one of its kind may be in line: one of each is enough.
            if !again.iter().any(|other| same_rows(other, write)) {
                again.push_back(write.clone());
            }
        }
        for ((write, ticket), result) in group.drain(..).zip(tickets.drain(..)).zip(results) {
            // Cleaning comes again by itself.
            if ticket.is_some() || is_of_call(&write) {
                answers.extend(kept.keep(write, ticket, result).map(|result| (ticket, result)));
            }
        }
        waiting.store(kept.len(), Ordering::Relaxed);
        let lost = count_lost(&answers);
        if lost > 0 {
            sinks.lost(lost);
        }
        let answered = answers.into_iter().filter_map(|(ticket, result)| Some((ticket?, result)));
        by_sink(answered, |sink, done| sinks.complete(sink, done));
    }
}

/// The writes without a ticket that the database does not have. A row that REST has deleted meanwhile is not missed.
fn count_lost(answers: &Answers) -> usize {
    let is_lost = |result: &Result<WriteDone, StoreError>| matches!(result, Err(error) if !matches!(error, StoreError::NotFound { .. } | StoreError::Exists { .. }));
    answers.iter().filter(|(ticket, result)| ticket.is_none() && is_lost(result)).count()
}

/// A cleaning write that deleted as much as it may: there is more.
fn found_more<'a>((write, result): (&'a Write, &Result<WriteDone, StoreError>)) -> Option<&'a Write> {
    let Ok(WriteDone::Changed { rows }) = result else { return None };
    (write.cleans() && *rows >= u64::from(limits::CLEAN_CHUNK)).then_some(write)
}

/// True if two cleaning writes delete rows of one kind.
fn same_rows(one: &Write, other: &Write) -> bool {
    match (one, other) {
        (
            Write::Rest(RestWrite::Forget { kind: one, .. }),
            Write::Rest(RestWrite::Forget { kind: other, .. }),
        ) => one == other,
        (Write::Rest(_), Write::Rest(_)) => false,
        _ => std::mem::discriminant(one) == std::mem::discriminant(other),
    }
}

/// The first error that is not only the asker's business.
fn worth_telling<'a>(
    results: &'a [Result<WriteDone, StoreError>],
    tickets: &[Option<Ticket>],
) -> Option<&'a StoreError> {
    results.iter().zip(tickets).find_map(|(done, ticket)| match done {
        Err(error) if ticket.is_none() || !error.is_of_item() => Some(error),
        _ => None,
    })
}

/// A reader's thread, until the reads are closed and empty.
fn run_reader(mut reader: Box<dyn Reader>, thread: usize, queue: &Reads, sinks: &dyn Completions) {
    let mut taken: Vec<TakenRead> = Vec::new();
    while queue.take(thread, &mut taken) {
        // Each attempt to reach a server that is away takes its time: one for all that wait is enough.
        let mut away = None;
        let answered = taken.iter().map(|taken| {
            let loaded = away.clone().map_or_else(|| reader.load(&taken.read), Err);
            if let Err(error @ StoreError::Unreachable { .. }) = &loaded {
                away = Some(error.clone());
            }
            (taken.ticket, loaded)
        });
        by_sink(answered, |sink, done| sinks.loaded(sink, done));
        queue.done(&taken);
        taken.clear();
    }
}

/// One batch a sink, in order. There are as many sinks as cores, so a short list is searched.
fn by_sink<T>(answered: impl Iterator<Item = (Ticket, T)>, mut deliver: impl FnMut(u16, Vec<(u64, T)>)) {
    let mut batches: Vec<(u16, Vec<(u64, T)>)> = Vec::new();
    for (ticket, done) in answered {
        match batches.iter_mut().find(|(sink, _)| *sink == ticket.sink) {
            Some((_, batch)) => batch.push((ticket.id, done)),
            None => batches.push((ticket.sink, vec![(ticket.id, done)])),
        }
    }
    for (sink, batch) in batches {
        deliver(sink, batch);
    }
}
