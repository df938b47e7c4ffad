//! Call records for others: a table of a PostgreSQL database, or a service of HTTP.
//!
//! A shard hands each record over and never waits. A thread appends records to a queue on disk (`spool`), and another sends them to the receiver in
//! groups (`sender`). While the receiver is away the records wait there, also over a restart of the node; a record that finds the queue full is
//! counted and not sent. Each record has a key of its call ([`Line::id`]), so that one that is sent again is known again. The database of the
//! node has the records all the same.

#![warn(missing_docs)]

pub mod limits;
mod line;
mod sender;
mod spool;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use stdx::Instant;
use store::CallRecord;

pub use line::Line;
pub use sender::{Destination, HttpDestination};

use sender::Sender;
use spool::Spool;

/// The way of call records to one receiver. When it is dropped, the records that wait get into the queue on disk first.
pub struct CallExport {
    /// `None`: it is being dropped.
    queue: Option<SyncSender<CallRecord>>,
    writer: Option<JoinHandle<()>>,
    spool: Arc<Spool>,
    receiver: Box<str>,
    /// Records that found no room between the shards and the thread that writes.
    unqueued: AtomicU64,
}

/// The state of the way to one receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportStatus {
    /// The receiver, without a password.
    pub receiver: Box<str>,
    /// Records that wait on disk.
    pub waiting: u64,
    /// The end of the oldest call that waits.
    pub oldest: Option<Instant>,
    /// Records that the receiver has taken, since the start.
    pub sent: u64,
    /// Records that were not sent, since the start: the queue or its disk was full, the receiver refused them alone, or they were damaged.
    pub dropped: u64,
    /// Groups that the receiver did not take, since the start; they are sent again.
    pub failures: u64,
    /// The reason of the last failure, until a group is taken.
    pub failure: Option<Box<str>>,
}

impl CallExport {
    /// Opens the queue of a folder, which is made if it is not there, and starts its threads.
    ///
    /// # Errors
    /// A folder that cannot be made, read or written.
    pub fn start(folder: &Path, destination: Destination) -> io::Result<CallExport> {
        CallExport::start_with(folder, destination, limits::QUEUE_BYTES)
    }

    /// As [`start`](Self::start), with so many bytes of records on disk.
    ///
    /// # Errors
    /// As `start`.
    pub fn start_with(folder: &Path, destination: Destination, capacity: u64) -> io::Result<CallExport> {
        let spool = Arc::new(Spool::open(folder, capacity)?);
        let receiver: Box<str> = destination.name().into();
        let (queue, records) = sync_channel(limits::HANDED_OVER);
        let mut writer = Writer { spool: Arc::clone(&spool), receiver: receiver.clone(), is_failing: false };
        let writer = Builder::new().name("call-queue".into()).spawn(move || writer.run(&records))?;
        let sender = Sender::new(Arc::clone(&spool), destination)?;
        // It is not joined: a receiver that does not answer keeps no node from its end (`Spool::close`).
        Builder::new().name("call-export".into()).spawn(move || sender.run())?;
        Ok(CallExport {
            queue: Some(queue),
            writer: Some(writer),
            spool,
            receiver,
            unqueued: AtomicU64::new(0),
        })
    }

    /// Hands a record over. Never waits: a record that finds the queue full is counted and not sent.
    pub fn write(&self, record: CallRecord) {
        if self.queue.as_ref().is_none_or(|queue| queue.try_send(record).is_err()) {
            // Not in the spool: its lock is held while the disk is written.
            self.unqueued.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The state now.
    pub fn status(&self) -> ExportStatus {
        let status = self.spool.status(&self.receiver);
        ExportStatus { dropped: status.dropped + self.unqueued.load(Ordering::Relaxed), ..status }
    }
}

impl Drop for CallExport {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(writer) = self.writer.take() {
            // A thread that panicked has said so.
            let _ = writer.join();
        }
        self.spool.close(limits::END_PATIENCE);
    }
}

/// The thread that appends to the queue on disk.
struct Writer {
    spool: Arc<Spool>,
    receiver: Box<str>,
    /// The last records were not appended, which is logged once.
    is_failing: bool,
}

impl Writer {
    fn run(&mut self, records: &Receiver<CallRecord>) {
        let (mut lines, mut batch) = (Vec::new(), Vec::new());
        while let Ok(record) = records.recv() {
            batch.push(record);
            batch.extend(records.try_iter().take(limits::BATCH - 1));
            let (count, oldest) = (batch.len() as u64, batch[0].ended_at);
            batch.drain(..).for_each(|record| Line::new(record).write(&mut lines));
            self.append(&lines, count, oldest);
            lines.clear();
        }
    }

    fn append(&mut self, lines: &[u8], count: u64, oldest: Instant) {
        match self.spool.append(lines, count, oldest) {
            Ok(()) => self.is_failing = false,
            Err(error) => {
                self.spool.count_dropped(count);
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::error!(
                        receiver = &*self.receiver, %error,
                        "call records are not queued and will not be sent: see to the receiver, or make room on the disk"
                    );
                }
            }
        }
    }
}
