//! The files that wait to be put. Their folder is the queue: nothing else has to be written, and nothing is lost by a restart.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, spawn_blocking};
use tokio::time::{sleep, timeout};

use crate::client::ObjectStorage;
use crate::fault::StorageFault;
use crate::limits;

/// A complete file that is not in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingFile {
    /// The key of its object, without the prefix.
    pub key: String,
    /// Its path.
    pub path: PathBuf,
}

/// The folder of the files. All calls may wait for the disk.
pub trait PutSource: Send + Sync + 'static {
    /// The complete files that are not in the store, at most `most` of them.
    fn waiting(&self, most: usize) -> Vec<WaitingFile>;

    /// The store has confirmed the file: removes it from the disk. False: it was deleted meanwhile, and its object has to go, too.
    ///
    /// # Errors
    /// The disk does not do it. The file is put again.
    fn finish(&self, file: &WaitingFile) -> io::Result<bool>;

    /// Files that were deleted so long ago that no node puts them any more. Their objects are deleted once more, as the PUT of one may have
    /// ended after its deletion, and then [`forget`](Self::forget) is called.
    fn old_deletions(&self) -> Vec<WaitingFile> {
        Vec::new()
    }

    /// The object of a file of [`old_deletions`](Self::old_deletions) is gone.
    fn forget(&self, _file: &WaitingFile) {}
}

/// A handle that wakes a queue when there is a new file.
#[derive(Clone, Debug)]
pub struct PutWaker(Arc<Notify>);

impl PutWaker {
    /// Wakes the queue, which then reads its folder.
    pub fn wake(&self) {
        self.0.notify_one();
    }
}

/// Puts the files of a folder, until it is dropped.
#[derive(Debug)]
pub struct PutQueue {
    wake: Arc<Notify>,
    task: AbortHandle,
}

impl PutQueue {
    /// Begins with the files that are there.
    pub fn start(storage: &Arc<ObjectStorage>, source: Arc<dyn PutSource>) -> PutQueue {
        let wake = Arc::new(Notify::new());
        let worker = Worker { storage: Arc::clone(storage), source, wake: Arc::clone(&wake) };
        let task = storage.runtime.spawn(worker.run()).abort_handle();
        PutQueue { wake, task }
    }

    /// Wakes the queue, as there is a new file.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Returns a handle that wakes the queue from elsewhere.
    pub fn waker(&self) -> PutWaker {
        PutWaker(Arc::clone(&self.wake))
    }
}

impl Drop for PutQueue {
    fn drop(&mut self) {
        // A file whose PUT is cut off stays, and is put at the next start.
        self.task.abort();
    }
}

struct Worker {
    storage: Arc<ObjectStorage>,
    source: Arc<dyn PutSource>,
    wake: Arc<Notify>,
}

impl Worker {
    async fn run(self) {
        // The result is in the status and the log.
        let _ = self.storage.check().await;
        let mut pause = limits::FIRST_PAUSE;
        let mut refused = Refused::default();
        loop {
            self.delete_again().await;
            let source = Arc::clone(&self.source);
            let files = spawn_blocking(move || source.waiting(limits::PASS)).await.unwrap_or_default();
            self.storage.set_waiting(files.len());
            if files.is_empty() {
                let _ = timeout(limits::DELETIONS, self.wake.notified()).await;
                continue;
            }
            let pass = self.put_all(refused.put_last(files), &mut refused).await;
            if pass.put > 0 {
                pause = limits::FIRST_PAUSE;
            }
            if pass.refused > 0 {
                sleep(pause).await;
                pause = next_pause(pause);
            } else if pass.unreadable > 0 {
                // They are tried again with the next file, which waits for none of them.
                let _ = timeout(limits::LONGEST_PAUSE, self.wake.notified()).await;
            }
        }
    }

    /// Deletes the objects of files that were deleted long ago. The first that the store does not delete ends it; a later pass goes on.
    async fn delete_again(&self) {
        let source = Arc::clone(&self.source);
        for file in spawn_blocking(move || source.old_deletions()).await.unwrap_or_default() {
            if self.storage.delete(&file.key).await.is_err() {
                return;
            }
            let source = Arc::clone(&self.source);
            // It does not fail, or is done again.
            let _ = spawn_blocking(move || source.forget(&file)).await;
        }
    }

    /// Tries each file once. Ends early if the store, and not a file, is at fault.
    async fn put_all(&self, files: Vec<WaitingFile>, refused: &mut Refused) -> Pass {
        let mut pass = Pass::default();
        let put = async |file: WaitingFile| (file.key.clone(), self.put(file).await);
        let mut results = stream::iter(files).map(put).buffer_unordered(limits::PUTS);
        while let Some((key, result)) = results.next().await {
            match result {
                Ok(()) => pass.put += 1,
                Err(PutFault::Store) => {
                    pass.refused += 1;
                    refused.0.insert(key);
                }
                Err(PutFault::File) => pass.unreadable += 1,
            }
            if pass.put == 0 && pass.refused >= limits::PASS_FAILURES {
                break;
            }
        }
        pass
    }

    /// Succeeds if the file is in the store, or is not to be there any more.
    async fn put(&self, file: WaitingFile) -> Result<(), PutFault> {
        match self.storage.put_file(&file.key, &file.path).await {
            Ok(()) => {}
            // Deleted since the folder was read.
            Err(StorageFault::File(_)) if !file.path.exists() => return Ok(()),
            Err(StorageFault::File(error)) => {
                tracing::warn!(path = %file.path.display(), error, "a file cannot be put into the store");
                return Err(PutFault::File);
            }
            Err(fault) => {
                tracing::debug!(path = %file.path.display(), error = %fault, "a file is not in the store yet");
                return Err(PutFault::Store);
            }
        }
        let (source, key) = (Arc::clone(&self.source), file.key.clone());
        let finished = spawn_blocking(move || source.finish(&file)).await.map_err(io::Error::other).flatten();
        match finished {
            Ok(true) => Ok(()),
            Ok(false) => self.storage.delete(&key).await.map_err(|_| PutFault::Store),
            Err(error) => {
                tracing::warn!(%error, path = key, "a file that is in the store stays on disk, too");
                Err(PutFault::File)
            }
        }
    }
}

/// The keys of files that the store has refused of late. A pass ends early with the first files that are refused, so they come last in the next one:
/// otherwise a few files that the store never takes would keep all others from it.
#[derive(Default)]
struct Refused(HashSet<String>);

impl Refused {
    /// The files in the order of the next pass. Once each has been refused, all begin again.
    fn put_last(&mut self, files: Vec<WaitingFile>) -> Vec<WaitingFile> {
        let (again, mut all): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|file| self.0.contains(&file.key));
        self.0 =
            if all.is_empty() { HashSet::new() } else { again.iter().map(|file| file.key.clone()).collect() };
        all.extend(again);
        all
    }
}

/// The reason why a file stays.
enum PutFault {
    /// The store does not take it.
    Store,
    /// The file cannot be read, or cannot be removed.
    File,
}

/// The results of a pass over the folder.
#[derive(Debug, Default)]
struct Pass {
    put: usize,
    refused: usize,
    unreadable: usize,
}

fn next_pause(pause: Duration) -> Duration {
    (pause * 2).min(limits::LONGEST_PAUSE)
}
