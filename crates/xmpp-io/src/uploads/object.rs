//! Files in a store of objects (`docs/decisions/0103`): a complete file is put there, and its head stays in the folder.
//!
//! An object is the whole file, head and content, so any node that knows its key can serve it. The head that stays (`stored/ID`, with the key where
//! the content was) tells that the slot is used, how old the file is and whose, without a request to the store. In a farm the key has the name of
//! the node that put it, which the file's row names; so two uses of one slot never meet in one object.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::Arc;

use object_storage::{ObjectReader, ObjectStorage, PutSource, StorageFault, WaitingFile};
use stdx::Instant;
use tokio::task::spawn_blocking;

use super::farm::{FileInfo, OpenFile};
use super::file::{FileHead, HEAD};
use super::sizes::modified;
use super::{HasAccount, ID, Refusal, Stored, UploadFolder, Uploads};
use crate::limits;

/// The folder of heads.
const HEADS: &str = "stored";

/// Before the keys of uploads.
const KEYS: &str = "uploads/";

/// A file whose content is in the store.
#[derive(Debug)]
pub(crate) struct ObjectFile {
    storage: Arc<ObjectStorage>,
    key: Box<str>,
    /// The position of the content.
    start: u64,
    /// The bytes that come; `None` before the first bytes are asked for.
    reader: Option<ObjectReader>,
}

impl From<StorageFault> for Refusal {
    fn from(fault: StorageFault) -> Self {
        match fault {
            StorageFault::Missing => Refusal::Unknown,
            StorageFault::Busy => Refusal::Busy,
            // The log has the reason. An operator mends it, and the client may come again.
            StorageFault::Away(_) | StorageFault::Refused(_) | StorageFault::File(_) => Refusal::Away,
        }
    }
}

impl ObjectFile {
    /// Asks for that part of the content; it is read to its end then.
    pub(super) async fn begin(mut self, range: &Range<u64>) -> Result<ObjectFile, Refusal> {
        let part = self.start + range.start..self.start + range.end;
        self.reader = Some(self.storage.open(&self.key, part).await?);
        Ok(self)
    }

    /// The next bytes of the part that was asked for; empty at its end.
    pub(super) async fn read(self, range: &Range<u64>) -> Result<(Vec<u8>, ObjectFile), Refusal> {
        let mut file = if self.reader.is_some() { self } else { self.begin(range).await? };
        let next = match &mut file.reader {
            Some(reader) => reader.next().await?,
            None => None,
        };
        Ok((next.map(Vec::from).unwrap_or_default(), file))
    }
}

impl Uploads {
    /// The file of this id, if its head is in the folder and its content in the store.
    pub(super) async fn open_stored(
        self: &Arc<Self>,
        id: &str,
        name: &str,
    ) -> Result<(FileInfo, OpenFile), Refusal> {
        let storage = self.shelf.settings.storage.clone().ok_or(Refusal::Unknown)?;
        let (uploads, id) = (Arc::clone(self), id.to_owned());
        let read = spawn_blocking(move || {
            let mut head = Stored::open(&uploads.shelf.path_of_head(&id))?;
            let key = head.key()?;
            Ok((head, key))
        });
        let (head, key) = read.await.map_err(|_| Refusal::Broken).flatten()?;
        opened(storage, key, head.into_head(), name)
    }

    /// The file of this id that a node has put into the store.
    pub(super) async fn open_object(
        &self,
        id: &str,
        node: &str,
        name: &str,
    ) -> Result<(FileInfo, OpenFile), Refusal> {
        let storage = self.shelf.settings.storage.clone().ok_or(Refusal::Unknown)?;
        let key = key(id, Some(node));
        let mut reader = storage.open(&key, 0..HEAD as u64).await?;
        let mut head = Vec::new();
        while head.len() < HEAD {
            match reader.next().await? {
                Some(bytes) => head.extend_from_slice(&bytes),
                None => break,
            }
        }
        let head = FileHead::read(&head).ok_or(Refusal::Broken)?;
        opened(storage, key.into(), head, name)
    }

    /// Tells the queue that a file is complete, and in a farm has its row.
    pub(super) fn wake_queue(&self) {
        if let Some(queue) = &self.queue {
            queue.wake();
        }
    }
}

/// The file with that head, if the name in the address is its own: the name is part of the secret.
fn opened(
    storage: Arc<ObjectStorage>,
    key: Box<str>,
    head: FileHead,
    name: &str,
) -> Result<(FileInfo, OpenFile), Refusal> {
    if *head.name != *name {
        return Err(Refusal::Unknown);
    }
    let file = ObjectFile { storage, key, start: head.start, reader: None };
    Ok((FileInfo { name: head.name, kind: head.kind, size: head.size }, OpenFile::Object(file)))
}

/// The key of the object of a file that this node put.
fn key(id: &str, node: Option<&str>) -> String {
    node.map_or_else(|| format!("{KEYS}{id}"), |node| format!("{KEYS}{id}.{node}"))
}

impl PutSource for UploadFolder {
    fn waiting(&self, most: usize) -> Vec<WaitingFile> {
        let parts = (0..=u8::MAX).flat_map(|part| self.entries(part));
        let files = parts.filter_map(|(entry, _)| {
            let id = entry.file_name().into_string().ok().filter(|id| id.len() == ID)?;
            let file = WaitingFile { key: key(&id, self.settings.node.as_deref()), path: entry.path() };
            (!self.is_of_another_node(&id, &file.key)).then_some(file)
        });
        files.take(most).collect()
    }

    fn finish(&self, file: &WaitingFile) -> io::Result<bool> {
        let Some(id) = file.path.file_name().and_then(|id| id.to_str()) else { return Ok(false) };
        match self.keep_head(id, file) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            // Another node on the same folder has put it: its object stays, and it removes the file.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            Err(error) => return Err(error),
        }
        let size = fs::metadata(&file.path).map_or(0, |metadata| metadata.len());
        match fs::remove_file(&file.path) {
            Ok(()) => self.give_back(size),
            // Deleted between the two steps: the object goes, too.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let _ = fs::remove_file(self.path_of_head(id));
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
        Ok(true)
    }
}

impl UploadFolder {
    /// The path of the head of a file that is in the store.
    pub(super) fn path_of_head(&self, id: &str) -> PathBuf {
        self.settings.folder.join(HEADS).join(&id[..2]).join(id)
    }

    /// True if a file of this id is here or in the store.
    pub(super) fn has(&self, id: &str) -> bool {
        self.path_of(id).exists() || self.path_of_head(id).exists()
    }

    /// The key in the head of this id. `None`: there is no head that can be read.
    fn key_in_head(&self, id: &str) -> Option<Box<str>> {
        Stored::open(&self.path_of_head(id)).ok()?.key().ok()
    }

    /// True for a file that another node on the same folder has put and is about to remove.
    fn is_of_another_node(&self, id: &str, key: &str) -> bool {
        self.is_of_farm() && self.key_in_head(id).is_some_and(|known| *known != *key)
    }

    /// Writes the head of a file that is in the store, as old as the file. `NotFound`: the file was deleted. `AlreadyExists`: another node
    /// on the same folder has written the head.
    pub(super) fn keep_head(&self, id: &str, file: &WaitingFile) -> io::Result<()> {
        let stored = Stored::open(&file.path).map_err(|refusal| match refusal {
            Refusal::Unknown => io::ErrorKind::NotFound,
            _ => io::ErrorKind::InvalidData,
        })?;
        let (path, coming) = (self.path_of_head(id), self.path_of_coming(id));
        if let Some(folder) = path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let mut head = File::options().write(true).create(true).truncate(true).mode(0o600).open(&coming)?;
        head.write_all(&stored.head()?)?;
        head.write_all(file.key.as_bytes())?;
        head.set_modified(stored.modified()?)?;
        head.sync_all()?;
        if !self.is_of_farm() {
            return fs::rename(&coming, &path);
        }
        // A link replaces nothing: of nodes that put the file at the same time, the first writes the head, and the others leave it.
        let linked = fs::hard_link(&coming, &path);
        let _ = fs::remove_file(&coming);
        match linked {
            // By this node, before a crash.
            Err(error)
                if error.kind() == io::ErrorKind::AlreadyExists
                    && self.key_in_head(id).is_some_and(|known| *known == *file.key) =>
            {
                Ok(())
            }
            linked => linked,
        }
    }

    /// Removes the object of a file, and then its head.
    pub(super) fn remove_stored(&self, path: &std::path::Path) -> io::Result<()> {
        let Some(storage) = &self.settings.storage else { return Ok(()) };
        let mut head = Stored::open(path).map_err(|_| io::ErrorKind::InvalidData)?;
        let key = head.key().map_err(|_| io::ErrorKind::InvalidData)?;
        storage.delete_blocking(&key).map_err(io::Error::other)?;
        match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }

    /// Removes objects that are too old, and those whose account is gone. The first that the store does not remove ends it; the
    /// next round tries again.
    pub(super) fn sweep_stored(&self, now: Instant, part: u8, has_account: &mut HasAccount) {
        if self.settings.storage.is_none() {
            return;
        }
        let before = now - self.settings.keep;
        let folder = self.settings.folder.join(HEADS).join(format!("{part:02x}"));
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let is_old = entry.metadata().ok().and_then(|head| modified(&head)).is_some_and(|at| at < before);
            let mut is_abandoned = || Stored::open(&entry.path()).is_ok_and(|head| !has_account(&head.owner));
            if !is_old && !is_abandoned() {
                continue;
            }
            if let Err(error) = self.remove_stored(&entry.path()) {
                tracing::warn!(%error, path = %entry.path().display(), "an upload cannot be removed from the store");
                // A head that cannot be read is no fault of the store, and keeps no other object there.
                if error.kind() == io::ErrorKind::InvalidData {
                    continue;
                }
                return;
            }
        }
    }
}

impl Stored {
    /// The key that stands in place of the content in a head.
    pub(super) fn key(&mut self) -> Result<Box<str>, Refusal> {
        let bytes = self.read_at(0, limits::UPLOAD_KEY).map_err(|_| Refusal::Broken)?;
        let key = String::from_utf8(bytes).ok().filter(|key| key.starts_with(KEYS));
        key.map(Into::into).ok_or(Refusal::Broken)
    }
}
