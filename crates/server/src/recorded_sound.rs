//! The sound of recordings, wherever it is: in this node's folder, in the store of objects, or at the node that the recording's row names.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::sync::Arc;

use admin::EncodeError;
use tokio::task::spawn_blocking;
use voice_io::recordings::{Files, Sound};

use crate::farm::files::NodeFiles;
use crate::node::Node;
use shard_message::wire::{FileFault, FileKind, FileName};

/// A piece of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SoundPiece {
    /// Bytes of the whole recording.
    pub(crate) size: u64,
    /// None behind its end.
    pub(crate) bytes: Vec<u8>,
}

/// Reads and deletes recordings. Cheap to clone, and usable within any runtime.
#[derive(Clone, Default)]
pub(crate) struct RecordedSound {
    /// `None`: there are no recordings without applications.
    files: Option<Arc<Files>>,
    /// Recordings of the farm's other nodes; none if the node is alone.
    other_files: Option<NodeFiles>,
}

impl RecordedSound {
    pub(crate) fn new(node: &Node) -> RecordedSound {
        RecordedSound {
            files: node.voice.as_ref().map(|voice| Arc::clone(voice.files())),
            other_files: node.shared.farm.as_ref().map(|farm| farm.files()),
        }
    }

    /// The way to files of that node, as the row of a recording names it; none if it is this one, or the row names none.
    pub(crate) fn other_node(&self, node: &str) -> Option<&NodeFiles> {
        self.other_files.as_ref().filter(|files| !node.is_empty() && *files.node != *node)
    }

    /// Reads a piece of a recording, of at most [`shard_message::limits::FILE_PIECE`] bytes.
    ///
    /// # Errors
    /// It is nowhere, or the node or store that has it does not answer.
    pub(crate) async fn read(
        &self,
        sid: &str,
        node: &str,
        range: Range<u64>,
    ) -> Result<SoundPiece, EncodeError> {
        if let Some(files) = self.files.clone() {
            let (sid, range) = (sid.to_owned(), range.clone());
            // Looked for here without regard to the row: a node that was renamed still has its files.
            let read = move || files.open(&sid).map(|sound| part_of(sound, range));
            if let Some(read) = spawn_blocking(read).await.map_err(|_| EncodeError::Failed)? {
                return read.map_err(|_| EncodeError::Failed);
            }
        }
        let stored = match &self.files {
            Some(files) => files.read_stored(sid, range.clone()).await,
            None => Err(EncodeError::NotFound),
        };
        if let Ok((size, bytes)) = stored {
            return Ok(SoundPiece { size, bytes });
        }
        let Some(other) = self.other_node(node) else {
            return Err(stored.err().unwrap_or(EncodeError::NotFound));
        };
        let length = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
        let piece = other.read(node, &recording(sid), range.start, length).await.map_err(sound_error)?;
        Ok(SoundPiece { size: piece.size, bytes: piece.bytes.into_vec() })
    }

    /// True if a recording of that node can be deleted from here: without applications this node looks into no folder of its own.
    pub(crate) fn can_delete(&self, node: &str) -> bool {
        self.files.is_some() || self.other_node(node).is_some()
    }

    /// Deletes a recording everywhere. One that is not there is no error.
    ///
    /// # Errors
    /// A node or store that may have it does not delete it.
    pub(crate) async fn delete(&self, sid: &str, node: &str) -> Result<(), EncodeError> {
        // Here, too, if the row names another node.
        if let Some(files) = self.files.clone() {
            let name = sid.to_owned();
            let deleted = spawn_blocking(move || files.delete(&name)).await;
            deleted.map_err(|_| EncodeError::Busy)?.map_err(|error| {
                tracing::error!(%error, sid, "a recording cannot be deleted");
                EncodeError::Busy
            })?;
        }
        let deleted = match self.other_node(node) {
            Some(other) => other.delete(node, recording(sid)).await.map_err(sound_error),
            None => Ok(()),
        };
        let Some(files) = &self.files else { return deleted };
        // A node that is gone has no file of a recording that is in the store: it removes it there when it is put.
        let is_stored = deleted.is_err() && files.open_stored(sid, 0).await.is_ok();
        files.delete_stored(sid).await?;
        if is_stored { Ok(()) } else { deleted }
    }
}

fn recording(sid: &str) -> FileName {
    FileName { kind: FileKind::Recording, id: sid.into() }
}

/// The failure at another node in the words of the REST interface.
pub(crate) fn sound_error(fault: FileFault) -> EncodeError {
    match fault {
        FileFault::Unknown => EncodeError::NotFound,
        FileFault::Away => EncodeError::Away,
        FileFault::Busy => EncodeError::Busy,
        FileFault::Failed => EncodeError::Failed,
        FileFault::NoEncoder => EncodeError::NoEncoder,
    }
}

/// Reads a part of a recording. A range behind the end of the file is an empty piece, which still tells the size.
pub(crate) fn part_of(sound: Sound, range: Range<u64>) -> io::Result<SoundPiece> {
    let Sound { mut file, len } = sound;
    let read = |file: &mut File| {
        // A file has no place behind the largest signed number.
        if range.start >= len {
            return io::Result::Ok(Vec::new());
        }
        file.seek(SeekFrom::Start(range.start))?;
        let mut bytes = Vec::new();
        file.take(range.end.min(len).saturating_sub(range.start)).read_to_end(&mut bytes)?;
        io::Result::Ok(bytes)
    };
    Ok(SoundPiece { size: len, bytes: read(&mut file)? })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_part_behind_the_end_is_empty_wherever_it_begins() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"sound").unwrap();
        let part = |range: Range<u64>| {
            let sound = Sound { file: file.try_clone().unwrap(), len: 5 };
            let piece = part_of(sound, range).unwrap();
            (piece.size, String::from_utf8(piece.bytes).unwrap())
        };
        assert_eq!(part(1..3), (5, "ou".into()));
        assert_eq!(part(4..9), (5, "d".into()));
        for start in [5, 6, 1 << 62, 1 << 63, u64::MAX] {
            assert_eq!(part(start..start.saturating_add(9)), (5, String::new()), "{start}");
        }
    }
}
