//! The threads that write. Appended sound waits for no other recording to reach the disk: a second thread waits for the
//! disk.
//!
//! The order for a recording: `Open` makes the file, `Write` appends or corrects its header, `Close` gives it to the second thread, which waits for
//! the disk, gives the file its name and tells the shard. An error removes the file and is told at once.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use ::voice::{Done, Ticket};
use tokio::sync::mpsc;

use super::folder::Folder;
use crate::helpers::Deliver;
use crate::limits;

/// Work for the first thread.
pub(super) enum Job {
    /// A recording begins.
    Open { ticket: Ticket, sid: Box<str> },
    /// Operations on its file, in order.
    Write { ticket: Ticket, ops: Vec<Op> },
    /// The last operations. `keep`: the recording stays; otherwise its file is removed.
    Close { ticket: Ticket, ops: Vec<Op>, keep: bool },
    /// The node ends.
    Stop,
}

/// An operation on a file.
pub(super) enum Op {
    /// Bytes at the end.
    Append(Vec<u8>),
    /// Bytes in the place of others: a corrected header.
    WriteAt(u32, Box<[u8]>),
    /// The new length of the file.
    Truncate(u32),
}

/// A file that grows.
struct Part {
    ticket: Ticket,
    sid: Box<str>,
    path: PathBuf,
    file: fs::File,
}

/// The first thread.
pub(super) struct Writer {
    folder: Arc<Folder>,
    deliver: Arc<dyn Deliver>,
    /// By shard and number. Failed files are removed: later operations on them are ignored.
    parts: HashMap<(u16, u64), Part>,
}

impl Writer {
    pub(super) fn new(folder: Arc<Folder>, deliver: Arc<dyn Deliver>) -> Writer {
        Writer { folder, deliver, parts: HashMap::new() }
    }

    /// Works until the stop, and then completes what is open.
    pub(super) fn run(mut self, mut todo: mpsc::Receiver<Job>) {
        // When so many wait for a slow disk, what is to be appended waits, too.
        let (closed, complete) = sync_channel(limits::RECORDINGS);
        let (folder, deliver) = (Arc::clone(&self.folder), Arc::clone(&self.deliver));
        let finish = move || finish(&folder, &*deliver, &complete);
        let finisher = std::thread::Builder::new().name("recordings-end".into()).spawn(finish);
        while let Some(job) = todo.blocking_recv() {
            match job {
                Job::Open { ticket, sid } => self.open(ticket, sid),
                Job::Write { ticket, ops } => self.write(ticket, &ops),
                Job::Close { ticket, ops, keep } => self.close(ticket, &ops, keep, &closed),
                Job::Stop => break,
            }
        }
        // The node leaves: what there is, is a recording.
        for (_, part) in self.parts.drain() {
            let _ = closed.send(part);
        }
        drop(closed);
        if let Ok(finisher) = finisher {
            let _ = finisher.join();
        }
    }

    fn open(&mut self, ticket: Ticket, sid: Box<str>) {
        let Some(path) = self.folder.part(&sid) else {
            return self.tell(ticket, Err(format!("{sid} is no name of a recording")));
        };
        match self.folder.create(&path) {
            Ok(file) => {
                self.parts.insert((ticket.shard, ticket.id), Part { ticket, sid, path, file });
            }
            Err(error) => self.tell(ticket, Err(format!("{}: {error}", path.display()))),
        }
    }

    fn write(&mut self, ticket: Ticket, ops: &[Op]) {
        let key = (ticket.shard, ticket.id);
        let Some(part) = self.parts.get_mut(&key) else { return };
        if let Err(error) = part.perform(ops) {
            let text = format!("{}: {error}", part.path.display());
            let _ = fs::remove_file(&part.path);
            self.parts.remove(&key);
            self.tell(ticket, Err(text));
        }
    }

    fn close(&mut self, ticket: Ticket, ops: &[Op], keep: bool, closed: &SyncSender<Part>) {
        if keep {
            self.write(ticket, ops);
        }
        let Some(part) = self.parts.remove(&(ticket.shard, ticket.id)) else { return };
        if keep {
            let _ = closed.send(part);
        } else {
            let removed = fs::remove_file(&part.path);
            self.tell(ticket, removed.map_err(|error| format!("{}: {error}", part.path.display())));
        }
    }

    /// The shard's answer: the recording is on the disk, removed, or failed.
    fn tell(&self, ticket: Ticket, result: Result<(), String>) {
        self.deliver.deliver(ticket, Done::Written(result));
    }
}

impl Part {
    fn perform(&mut self, ops: &[Op]) -> io::Result<()> {
        for op in ops {
            match op {
                Op::Append(bytes) => {
                    self.file.seek(SeekFrom::End(0))?;
                    self.file.write_all(bytes)?;
                }
                Op::WriteAt(position, bytes) => {
                    self.file.seek(SeekFrom::Start(u64::from(*position)))?;
                    self.file.write_all(bytes)?;
                }
                Op::Truncate(len) => self.file.set_len(u64::from(*len))?,
            }
        }
        Ok(())
    }
}

/// Makes sure of complete files, one at a time, and tells of them.
fn finish(folder: &Folder, deliver: &dyn Deliver, complete: &Receiver<Part>) {
    for part in complete {
        let Part { ticket, sid, path, file } = part;
        let result = folder.complete(&file, &sid).map_err(|error| {
            let _ = fs::remove_file(&path);
            format!("{}: {error}", path.display())
        });
        deliver.deliver(ticket, Done::Written(result));
    }
}
