//! Recordings as files, written away from the shards: one thread appends, another makes sure that complete files are on
//! the disk.
//!
//! A file is `<sid>.wav.part` until its last byte is on the disk; then it is `<sid>.wav`, and only then its shard is
//! told. With a store of objects the file is put there then, and removed here.

mod encoder;
mod folder;
mod object;
mod recent;
mod writer;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use ::voice::{RecordingFile, RecordingFiles, Ticket};
use admin::EncodeError;
use media::record::File;
use object_storage::ObjectStorage;
use tokio::sync::mpsc::OwnedPermit;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::helpers::Deliver;
use super::limits;
use encoder::Encoder;
use folder::Folder;
use object::StoredRecordings;
use recent::RecentRecordings;
use writer::{Job, Op};

pub use folder::{RepairedRecording, Sound};
pub use object::StoredSound;
pub(crate) use object::read_whole;

/// All recordings of the node. Ends, once all that was said is written, when it is dropped.
pub struct Files {
    /// Names and repair.
    folder: Arc<Folder>,
    /// The recordings that were unfinished at the start.
    repaired: Vec<RepairedRecording>,
    /// Work for the thread that appends.
    jobs: mpsc::Sender<Job>,
    /// Recordings that may be open.
    places: Arc<Semaphore>,
    /// The word that ends the writer always has its place.
    stop: Option<OwnedPermit<Job>>,
    thread: Option<JoinHandle<()>>,
    /// `None`: recordings are WAV files only.
    encoder: Option<Encoder>,
    /// `None`: recordings stay in the folder.
    stored: Option<StoredRecordings>,
    /// The accounts of the last recordings.
    recent: RecentRecordings,
}

impl Files {
    /// Repairs first what a crash left in the folder. Answers come as `Done::Written`. `node`: the node's name in a farm, whose other
    /// nodes may use the same folder.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(folder: &Path, node: Option<Box<str>>, deliver: Arc<dyn Deliver>) -> std::io::Result<Files> {
        Files::with(Folder::new(folder, node), deliver, limits::RECORDINGS)
    }

    fn with(folder: Folder, deliver: Arc<dyn Deliver>, most: usize) -> std::io::Result<Files> {
        let folder = Arc::new(folder);
        let repaired = folder.repair();
        // Room for the end of each recording, for waiting pieces, and for the end of the writer: no end of a recording is ever refused.
        let (jobs, todo) = mpsc::channel(most + limits::RECORDED_PIECES + 1);
        let stop = jobs.clone().try_reserve_owned().ok();
        let writer = writer::Writer::new(Arc::clone(&folder), deliver);
        let thread = std::thread::Builder::new().name("recordings".into()).spawn(move || writer.run(todo))?;
        let places = Arc::new(Semaphore::new(most));
        Ok(Files {
            folder,
            repaired,
            jobs,
            places,
            stop,
            thread: Some(thread),
            encoder: None,
            stored: None,
            recent: RecentRecordings::default(),
        })
    }

    /// Makes recordings available as MP3, by this program and its arguments. An empty command: no MP3.
    pub fn with_mp3(mut self, command: &[Box<str>]) -> Files {
        self.encoder = Encoder::new(Arc::clone(&self.folder), command, limits::ENCODE_TIME);
        self
    }

    /// Puts complete recordings into this store, and serves those that are there.
    pub fn with_storage(mut self, storage: Option<Arc<ObjectStorage>>) -> Files {
        self.stored = storage.map(|storage| StoredRecordings::start(storage, &self.folder));
        self
    }

    /// The account of a recording, if it was begun here lately: its row may not be in the database yet.
    pub fn account_of(&self, sid: &str) -> Option<Box<str>> {
        self.recent.account_of(sid)
    }

    /// The recordings that a crash had left unfinished before the start.
    pub fn repaired(&self) -> &[RepairedRecording] {
        &self.repaired
    }

    /// Whole seconds of a complete recording of the folder. `None`: no recording there has that sid.
    pub fn seconds(&self, sid: &str) -> Option<u32> {
        self.folder.seconds(sid)
    }

    /// A complete recording of the folder. `None`: no recording there has that sid.
    pub fn open(&self, sid: &str) -> Option<Sound> {
        self.folder.open(sid)
    }

    /// A complete recording, as MP3. Dropping the future kills the encoder.
    ///
    /// # Errors
    /// No such recording, no encoder, too many conversions, or a conversion that failed.
    pub async fn open_mp3(&self, sid: &str) -> Result<Sound, EncodeError> {
        let encoder = self.encoder.as_ref().ok_or(EncodeError::NoEncoder)?;
        match (encoder.encode(sid).await, &self.stored) {
            (Err(EncodeError::NotFound), Some(stored)) => encoder.encode_stored(sid, stored).await,
            (encoded, _) => encoded,
        }
    }

    /// A recording in the store of objects, from that byte on.
    ///
    /// # Errors
    /// It is not there, or the store does not give it.
    pub async fn open_stored(&self, sid: &str, from: u64) -> Result<StoredSound, EncodeError> {
        self.stored.as_ref().ok_or(EncodeError::NotFound)?.open(sid, from).await
    }

    /// Reads a part of a recording in the store of objects: bytes of the whole, and those of the part, none behind the end.
    ///
    /// # Errors
    /// It is not there, or the store does not give it.
    pub async fn read_stored(&self, sid: &str, part: Range<u64>) -> Result<(u64, Vec<u8>), EncodeError> {
        self.stored.as_ref().ok_or(EncodeError::NotFound)?.read(sid, part).await
    }

    /// Deletes a recording in the store of objects; one that is not there is no error.
    ///
    /// # Errors
    /// The store does not delete it.
    pub async fn delete_stored(&self, sid: &str) -> Result<(), EncodeError> {
        match &self.stored {
            Some(stored) => stored.delete(sid).await,
            None => Ok(()),
        }
    }

    /// # Errors
    /// When it is there and cannot be deleted.
    pub fn delete(&self, sid: &str) -> std::io::Result<()> {
        self.folder.delete(sid)
    }
}

impl RecordingFiles for Files {
    fn create(&self, ticket: Ticket, sid: &str, account: &str) -> Result<Box<dyn RecordingFile>, String> {
        let busy = || "too many recordings are being written".to_owned();
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| busy())?;
        let close = self.jobs.clone().try_reserve_owned().map_err(|_| busy())?;
        let open = Job::Open { ticket, sid: sid.into() };
        self.jobs.try_send(open).map_err(|_| busy())?;
        self.recent.insert(sid, account);
        let (jobs, folder) = (self.jobs.clone(), Arc::clone(&self.folder));
        Ok(Box::new(OpenFile { ticket, folder, jobs, close: Some(close), ops: Vec::new(), _place: place }))
    }

    fn path(&self, sid: &str) -> Option<PathBuf> {
        self.folder.path(sid)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop.send(Job::Stop);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A file that a shard writes: what is done to it is collected, and sent in one piece.
struct OpenFile {
    /// The shard and the number of the recording, for the answer.
    ticket: Ticket,
    folder: Arc<Folder>,
    jobs: mpsc::Sender<Job>,
    /// Its last job always has a place.
    close: Option<OwnedPermit<Job>>,
    /// Operations since the last flush.
    ops: Vec<Op>,
    _place: OwnedSemaphorePermit,
}

impl RecordingFile for OpenFile {
    fn ticket(&self) -> u64 {
        self.ticket.id
    }

    fn node(&self) -> &str {
        self.folder.node()
    }

    fn flush(&mut self) -> Result<(), String> {
        if self.ops.is_empty() {
            return Ok(());
        }
        let job = Job::Write { ticket: self.ticket, ops: std::mem::take(&mut self.ops) };
        self.jobs.try_send(job).map_err(|error| match error {
            TrySendError::Full(_) => "the disk does not keep up with the recordings".to_owned(),
            TrySendError::Closed(_) => "the node leaves".to_owned(),
        })
    }

    fn close(mut self: Box<Self>, keep: bool) {
        self.end(keep);
    }
}

impl OpenFile {
    /// Sends the last job, once.
    fn end(&mut self, keep: bool) {
        if let Some(place) = self.close.take() {
            place.send(Job::Close { ticket: self.ticket, ops: std::mem::take(&mut self.ops), keep });
        }
    }
}

/// A file that is dropped without `close` is not kept.
impl Drop for OpenFile {
    fn drop(&mut self) {
        self.end(false);
    }
}

impl File for OpenFile {
    fn append(&mut self, bytes: &[u8]) {
        match self.ops.last_mut() {
            Some(Op::Append(last)) => last.extend_from_slice(bytes),
            _ => self.ops.push(Op::Append(bytes.to_vec())),
        }
    }

    fn write_at(&mut self, position: u32, bytes: &[u8]) {
        self.ops.push(Op::WriteAt(position, bytes.into()));
    }

    fn truncate(&mut self, len: u32) {
        self.ops.push(Op::Truncate(len));
    }
}

#[cfg(test)]
mod tests;
