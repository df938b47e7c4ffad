//! Recordings in a store of objects (`docs/decisions/0103`): a complete one is put there, and then removed from the folder. The row of the
//! recording says all else, so nothing of it stays here.

use std::fs;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

use admin::EncodeError;
use bytes::Bytes;
use object_storage::{ObjectReader, ObjectStorage, PutQueue, PutSource, StorageFault, WaitingFile};
use tokio::runtime::Handle;

use super::folder::Folder;

/// The longest recording, as one PUT takes it.
const WHOLE: u64 = object_storage::limits::OBJECT_SIZE;

/// The store of a node's recordings, and the files that wait for it.
pub(super) struct StoredRecordings {
    storage: Arc<ObjectStorage>,
    _queue: PutQueue,
}

impl StoredRecordings {
    /// Begins to put what is in the folder, and is told of each new file.
    pub(super) fn start(storage: Arc<ObjectStorage>, folder: &Arc<Folder>) -> StoredRecordings {
        let queue = PutQueue::start(&storage, Arc::clone(folder) as _);
        folder.wake_with(queue.waker());
        StoredRecordings { storage, _queue: queue }
    }

    /// The object from that byte on, or all of it if it is shorter.
    pub(super) async fn open(&self, sid: &str, mut from: u64) -> Result<StoredSound, EncodeError> {
        let key = key_of(sid).ok_or(EncodeError::NotFound)?;
        if from > 0 && from >= self.storage.open(&key, 0..1).await.map_err(|fault| error_of(&fault))?.total {
            from = 0;
        }
        let reader = self.storage.open(&key, from..WHOLE).await.map_err(|fault| error_of(&fault))?;
        Ok(StoredSound { len: reader.total, reader, rest: Bytes::new() })
    }

    /// Bytes of the whole object, and those of a part of it: none behind the end.
    pub(super) async fn read(&self, sid: &str, part: Range<u64>) -> Result<(u64, Vec<u8>), EncodeError> {
        let key = key_of(sid).ok_or(EncodeError::NotFound)?;
        let mut reader = match self.storage.open(&key, part.clone()).await {
            Ok(reader) => reader,
            // RFC 9110 §15.5.17: a range behind the end is refused as such, and so may other requests be.
            Err(fault) if part.start > 0 && !matches!(fault, StorageFault::Missing) => {
                let first = self.storage.open(&key, 0..1).await.map_err(|fault| error_of(&fault))?;
                let is_behind = part.start >= first.total;
                return if is_behind { Ok((first.total, Vec::new())) } else { Err(error_of(&fault)) };
            }
            Err(fault) => return Err(error_of(&fault)),
        };
        let mut bytes = Vec::new();
        while let Some(more) = reader.next().await.map_err(|fault| error_of(&fault))? {
            bytes.extend_from_slice(&more);
        }
        Ok((reader.total, bytes))
    }

    pub(super) async fn delete(&self, sid: &str) -> Result<(), EncodeError> {
        let Some(key) = key_of(sid) else { return Ok(()) };
        self.storage.delete(&key).await.map_err(|fault| error_of(&fault))
    }
}

/// A recording that is read from the store. Its bytes are read on a thread that may wait, within a runtime.
#[derive(Debug)]
pub struct StoredSound {
    /// Bytes of the whole recording.
    pub len: u64,
    reader: ObjectReader,
    /// Bytes that have come and were not read yet.
    rest: Bytes,
}

impl StoredSound {
    /// The next bytes. `None`: the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, EncodeError> {
        self.reader.next().await.map_err(|fault| error_of(&fault))
    }
}

impl Read for StoredSound {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty() {
            let next = Handle::current().block_on(self.reader.next()).map_err(io::Error::other)?;
            self.rest = next.unwrap_or_default();
        }
        let count = buffer.len().min(self.rest.len());
        buffer[..count].copy_from_slice(&self.rest.split_to(count));
        Ok(count)
    }
}

/// The whole recording, if it has no more than so many bytes.
///
/// # Errors
/// The reason, for the log of the call.
pub(crate) async fn read_whole(storage: &ObjectStorage, sid: &str, most: usize) -> Result<Vec<u8>, String> {
    let key = key_of(sid).ok_or("its file is gone")?;
    let mut reader = storage.open(&key, 0..WHOLE).await.map_err(|fault| fault.to_string())?;
    if reader.total > most as u64 {
        return Err(format!("it has {} bytes, more than {most}", reader.total));
    }
    let mut all = Vec::new();
    while let Some(bytes) = reader.next().await.map_err(|fault| fault.to_string())? {
        all.extend_from_slice(&bytes);
    }
    Ok(all)
}

fn key_of(sid: &str) -> Option<String> {
    super::folder::is_sid(sid).then(|| format!("recordings/{sid}.wav"))
}

fn error_of(fault: &StorageFault) -> EncodeError {
    match fault {
        StorageFault::Missing => EncodeError::NotFound,
        StorageFault::Busy => EncodeError::Busy,
        // The log has the reason.
        StorageFault::Away(_) | StorageFault::Refused(_) | StorageFault::File(_) => EncodeError::Away,
    }
}

impl PutSource for Folder {
    fn waiting(&self, most: usize) -> Vec<WaitingFile> {
        let sids = self.complete_recordings();
        let files = sids.filter_map(|(sid, path)| Some(WaitingFile { key: key_of(&sid)?, path }));
        files.take(most).collect()
    }

    fn finish(&self, file: &WaitingFile) -> io::Result<bool> {
        match fs::remove_file(&file.path) {
            Ok(()) => {}
            // Another node on the same folder has put it, too: the object is that of both. Or the recording was deleted.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(!self.is_deleted(&file.path));
            }
            Err(error) => return Err(error),
        }
        // A conversion of it would outlive the recording when another node deletes it.
        let _ = fs::remove_file(file.path.with_extension("mp3"));
        Ok(true)
    }

    fn old_deletions(&self) -> Vec<WaitingFile> {
        let marks = self.old_marks(object_storage::limits::DELETION_AGE);
        let files = marks.filter_map(|(sid, path)| Some(WaitingFile { key: key_of(&sid)?, path }));
        files.take(object_storage::limits::PASS).collect()
    }

    fn forget(&self, file: &WaitingFile) {
        // One that stays is looked at again.
        let _ = fs::remove_file(&file.path);
    }
}
