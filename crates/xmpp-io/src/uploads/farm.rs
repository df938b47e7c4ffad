//! Files of a farm whose nodes have a folder each: any node takes and serves a file. The node that took it writes a row that names
//! it; a node without the file reads the row and asks the named node for the content, piece by piece.

use std::fmt::Debug;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::future::try_join_all;
use tokio::task::spawn_blocking;

use super::object::ObjectFile;
use super::{Grant, Refusal, Stored, Uploads, split};
use crate::limits;

/// A value that comes later.
pub type FarmAnswer<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The reason why a row was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterFault {
    /// A node has a file of this id.
    Taken,
    /// The database does not answer.
    Database,
}

/// The reason why a piece was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFault {
    /// The node has no such file.
    Unknown,
    /// The node does not live, or does not answer.
    Away,
    /// The node has too much to do.
    Busy,
    /// The node cannot read its disk.
    Broken,
}

/// A part of an uploaded file, and what the file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadPiece {
    /// The name that its user gave it.
    pub name: Box<str>,
    /// Its media type.
    pub kind: Box<str>,
    /// Bytes of the whole file.
    pub size: u64,
    /// The bytes of this part.
    pub bytes: Vec<u8>,
}

/// The files of a farm's nodes. The node implements it.
pub trait FarmFiles: Debug + Send + Sync {
    /// Writes the row that names this node as the one that has the file.
    fn register(&self, id: &str, owner: &str) -> FarmAnswer<Result<(), RegisterFault>>;

    /// The node that the file's row names. None: there is no row.
    ///
    /// # Errors
    /// The database does not answer.
    fn find(&self, id: &str) -> FarmAnswer<Result<Option<Box<str>>, ReadFault>>;

    /// Reads at most [`limits::UPLOAD_PIECE`] bytes of the file at that node.
    fn read(&self, node: &str, id: &str, range: Range<u64>) -> FarmAnswer<Result<UploadPiece, ReadFault>>;
}

impl From<ReadFault> for Refusal {
    fn from(fault: ReadFault) -> Self {
        match fault {
            ReadFault::Unknown => Refusal::Unknown,
            ReadFault::Away => Refusal::Away,
            ReadFault::Busy => Refusal::Busy,
            ReadFault::Broken => Refusal::Broken,
        }
    }
}

/// A file that another node has.
#[derive(Debug)]
pub(crate) struct RemoteFile {
    farm: Arc<dyn FarmFiles>,
    node: Box<str>,
    id: Box<str>,
}

/// A file that is served, from this node's folder or from another node.
#[derive(Debug)]
pub(crate) enum OpenFile {
    /// The file is in this node's folder.
    Stored(Stored),
    /// The file is at another node.
    Remote(RemoteFile),
    /// The file is in the store of objects.
    Object(ObjectFile),
}

/// The name, type and size of a file.
#[derive(Debug)]
pub(crate) struct FileInfo {
    pub(crate) name: Box<str>,
    pub(crate) kind: Box<str>,
    pub(crate) size: u64,
}

impl RemoteFile {
    async fn read(&self, range: Range<u64>) -> Result<Vec<u8>, Refusal> {
        let step = limits::UPLOAD_PIECE as u64;
        let starts = (range.start..range.end).step_by(limits::UPLOAD_PIECE);
        let pieces = starts.map(|start| {
            self.farm.read(&self.node, &self.id, start..range.end.min(start.saturating_add(step)))
        });
        let pieces = try_join_all(pieces).await?;
        Ok(pieces.into_iter().flat_map(|piece| piece.bytes).collect())
    }
}

impl OpenFile {
    /// Asks for that part of the content where that may fail, so that the client can be told.
    pub(crate) async fn begin(self, range: &Range<u64>) -> Result<OpenFile, Refusal> {
        match self {
            OpenFile::Object(object) if !range.is_empty() => object.begin(range).await.map(OpenFile::Object),
            file => Ok(file),
        }
    }

    /// Reads content from there, at most [`limits::UPLOAD_CHUNK`] bytes of it.
    pub(crate) async fn read(self, range: Range<u64>) -> Result<(Vec<u8>, OpenFile), Refusal> {
        let most = usize::try_from(range.end - range.start).unwrap_or(usize::MAX).min(limits::UPLOAD_CHUNK);
        match self {
            OpenFile::Stored(mut stored) => {
                let read = spawn_blocking(move || (stored.read_at(range.start, most), stored)).await;
                let (bytes, stored) = read.map_err(|_| Refusal::Broken)?;
                Ok((bytes.map_err(|_| Refusal::Broken)?, OpenFile::Stored(stored)))
            }
            OpenFile::Remote(remote) => {
                let bytes = remote.read(range.start..range.start + most as u64).await?;
                Ok((bytes, OpenFile::Remote(remote)))
            }
            OpenFile::Object(object) => {
                let (bytes, object) = object.read(&range).await?;
                Ok((bytes, OpenFile::Object(object)))
            }
        }
    }
}

impl Uploads {
    /// Opens the file at that place: in this node's folder, in the store of objects, or at the node that has it.
    pub(crate) async fn find(self: &Arc<Self>, place: &str) -> Result<(FileInfo, OpenFile), Refusal> {
        let (uploads, own) = (Arc::clone(self), place.to_owned());
        let opened = spawn_blocking(move || uploads.open(&own)).await.map_err(|_| Refusal::Broken)?;
        match opened {
            Ok(stored) => {
                let (name, kind) = (stored.name.clone(), stored.kind.clone());
                Ok((FileInfo { name, kind, size: stored.size }, OpenFile::Stored(stored)))
            }
            Err(Refusal::Unknown) => self.find_stored(place).await,
            Err(refusal) => Err(refusal),
        }
    }

    /// Opens a file that is not in this node's folder.
    async fn find_stored(self: &Arc<Self>, place: &str) -> Result<(FileInfo, OpenFile), Refusal> {
        let (id, name) = split(place).ok_or(Refusal::Unknown)?;
        match (self.open_stored(id, &name).await, self.farm.get()) {
            (Err(Refusal::Unknown), Some(farm)) => {
                let node = farm.find(id).await?.ok_or(Refusal::Unknown)?;
                self.find_elsewhere(farm, &node, (id, &name)).await
            }
            (found, _) => found,
        }
    }

    /// Opens a file that a node has taken: in the store, or at the node while it has not been put there.
    async fn find_elsewhere(
        &self,
        farm: &Arc<dyn FarmFiles>,
        node: &str,
        (id, name): (&str, &str),
    ) -> Result<(FileInfo, OpenFile), Refusal> {
        let stored = self.open_object(id, node, name).await;
        if stored.is_ok() || self.shelf.settings.node.as_deref() == Some(node) {
            return stored;
        }
        match (stored, remote(farm, node, (id, name)).await) {
            // It has been put since the store was asked.
            (Err(Refusal::Unknown), Err(Refusal::Unknown)) => self.open_object(id, node, name).await,
            // The store has it, perhaps, and does not answer.
            (Err(refusal), Err(Refusal::Unknown)) => Err(refusal),
            (_, found) => found,
        }
    }

    /// Writes the row of a file that is complete in the folder. Without the row no other node finds the file, so it is removed
    /// and the client has to try again.
    pub(crate) async fn register(self: &Arc<Self>, grant: &Grant) -> Result<(), Refusal> {
        let registered = match self.farm.get() {
            Some(farm) => farm.register(&grant.id, &grant.owner).await,
            None => Ok(()),
        };
        let Err(fault) = registered else {
            self.wake_queue();
            return Ok(());
        };
        let (uploads, id) = (Arc::clone(self), grant.id.clone());
        // It ends with the file gone, or the disk is at fault, which the log says.
        let _ = spawn_blocking(move || uploads.shelf.remove(&id)).await;
        Err(match fault {
            RegisterFault::Taken => Refusal::Taken,
            RegisterFault::Database => Refusal::Away,
        })
    }

    /// Reads a part of a file of this node's folder for another node. Waits for the disk.
    ///
    /// # Errors
    /// There is no such file, or the disk does not give it.
    pub fn read_piece(&self, id: &str, range: Range<u64>) -> Result<UploadPiece, ReadFault> {
        let is_id = split(&format!("{id}/-")).is_some();
        let path = is_id.then(|| self.shelf.path_of(id)).ok_or(ReadFault::Unknown)?;
        let mut stored = Stored::open(&path).map_err(|refusal| match refusal {
            Refusal::Unknown => ReadFault::Unknown,
            _ => ReadFault::Broken,
        })?;
        let length = range.end.min(stored.size).saturating_sub(range.start);
        let length = usize::try_from(length).unwrap_or(usize::MAX).min(limits::UPLOAD_PIECE);
        let bytes = if length == 0 {
            Vec::new()
        } else {
            stored.read_at(range.start, length).map_err(|_| ReadFault::Broken)?
        };
        Ok(UploadPiece { name: stored.name, kind: stored.kind, size: stored.size, bytes })
    }
}

/// Opens a file at another node.
async fn remote(
    farm: &Arc<dyn FarmFiles>,
    node: &str,
    (id, name): (&str, &str),
) -> Result<(FileInfo, OpenFile), Refusal> {
    let UploadPiece { name: stored, kind, size, .. } = farm.read(node, id, 0..0).await?;
    // The name is part of the secret.
    if *stored != *name {
        return Err(Refusal::Unknown);
    }
    let remote = RemoteFile { farm: Arc::clone(farm), node: node.into(), id: id.into() };
    Ok((FileInfo { name: stored, kind, size }, OpenFile::Remote(remote)))
}
