//! The node's part in the files of its farm: the rows that say which node has which upload, and the pieces of its own files that other
//! nodes ask for (`docs/decisions/0073`).
//!
//! Uploads need a row in the shared database, as any node may be asked for the link of one; recordings have the
//! name of their node in their own row. Bytes go by the links of the farm in pieces of bounded size, never
//! through the database.

use std::ops::Range;
use std::sync::Arc;

use admin::EncodeError;
use net::clock::Clock;
use store::rest::types::{Common, UploadedFile};
use store::rest::{Resource as _, RestLoaded, RestRead, RestWrite};
use store::{Loaded, Read, Service, StoreError, Write};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::{spawn_blocking, spawn_local};
use voice_io::recordings::{Files, Sound};
use xmpp_io::uploads::{FarmAnswer, FarmFiles, ReadFault, RegisterFault, UploadPiece, Uploads};

use super::{Node, StoreCompletions};
use crate::farm::files::{NodeFileRequest, NodeFiles};
use crate::limits;
use crate::recorded_sound::{self, SoundPiece};
use shard_message::wire::{FileBody, FileFault, FileKind, FileName, FilePiece};

/// Makes the uploads of all nodes available at this one, where the nodes share a database.
pub(super) fn join(node: &Node) {
    let Some(farm) = node.shared.farm.as_ref().filter(|farm| farm.shares_database) else { return };
    let Some(uploads) = &node.shared.uploads else { return };
    let (store, completions) = (Arc::clone(&node.store), Arc::clone(&node.desk));
    uploads.join(Arc::new(UploadRows { store, completions, files: farm.files(), clock: node.clock }));
}

/// Begins to give other nodes the files of this one.
pub(super) fn begin(node: &Node) {
    let Some(farm) = &node.shared.farm else { return };
    let Some(requests) = farm.board().files.open() else { return };
    let recordings = node.voice.as_ref().map(|voice| Arc::clone(voice.files()));
    let own = OwnFiles { uploads: node.shared.uploads.clone(), recordings };
    spawn_local(serve(own, farm.files(), requests));
}

/// The rows of uploads in the database that the nodes share.
struct UploadRows {
    store: Arc<Service>,
    completions: Arc<StoreCompletions>,
    files: NodeFiles,
    clock: Clock,
}

impl std::fmt::Debug for UploadRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UploadRows").finish_non_exhaustive()
    }
}

/// The sid of an upload's row.
/// Rows of REST resources are found by a SID; `UP` is no prefix of those that applications see.
fn sid(id: &str) -> String {
    format!("UP{id}")
}

fn upload(id: &str) -> FileName {
    FileName { kind: FileKind::Upload, id: id.into() }
}

impl FarmFiles for UploadRows {
    fn register(&self, id: &str, owner: &str) -> FarmAnswer<Result<(), RegisterFault>> {
        let now = self.clock.now();
        let common = Common { sid: sid(id), account: owner.to_owned(), created_at: now, updated_at: now };
        let row = UploadedFile { common, node: self.files.node.to_string() }.row();
        let begun = row.map_err(|_| RegisterFault::Database).and_then(|row| {
            let write = Write::Rest(RestWrite::Insert(Box::new(row)));
            let begun = self.completions.begin_write(|ticket| self.store.write(write, ticket));
            begun.map_err(|store::Busy| RegisterFault::Database)
        });
        Box::pin(async move {
            match begun?.await {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(StoreError::Exists { .. })) => Err(RegisterFault::Taken),
                Ok(Err(_)) | Err(_) => Err(RegisterFault::Database),
            }
        })
    }

    fn find(&self, id: &str) -> FarmAnswer<Result<Option<Box<str>>, ReadFault>> {
        let read = Read::Rest(RestRead::Sid { kind: UploadedFile::KIND, sid: sid(id).into() });
        let begun = self.completions.begin_read(|ticket| self.store.read(read, ticket));
        Box::pin(async move {
            match begun.map_err(|store::Busy| ReadFault::Away)?.await {
                Ok(Ok(Loaded::Rest(RestLoaded::Row(Some(row))))) => {
                    let file = UploadedFile::from_row(&row).map_err(|_| ReadFault::Broken)?;
                    Ok(Some(Box::from(file.node)))
                }
                // No row: the file is of this node from before the farm, or there is none. The caller looks
                // into its own folder.
                Ok(Ok(_)) => Ok(None),
                Ok(Err(_)) | Err(_) => Err(ReadFault::Away),
            }
        })
    }

    fn read(&self, node: &str, id: &str, range: Range<u64>) -> FarmAnswer<Result<UploadPiece, ReadFault>> {
        let (files, node, file) = (self.files.clone(), node.to_owned(), upload(id));
        Box::pin(async move {
            let length = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
            let FilePiece { size, name, media_type, bytes } =
                files.read(&node, &file, range.start, length).await.map_err(|fault| match fault {
                    FileFault::Unknown => ReadFault::Unknown,
                    FileFault::Away => ReadFault::Away,
                    FileFault::Busy => ReadFault::Busy,
                    FileFault::Failed | FileFault::NoEncoder => ReadFault::Broken,
                })?;
            Ok(UploadPiece { name, kind: media_type, size, bytes: bytes.into_vec() })
        })
    }
}

/// The files of this node.
#[derive(Clone)]
struct OwnFiles {
    uploads: Option<Arc<Uploads>>,
    recordings: Option<Arc<Files>>,
}

/// Answers other nodes' questions until the node ends.
async fn serve(own: OwnFiles, files: NodeFiles, mut requests: mpsc::Receiver<NodeFileRequest>) {
    let room = Arc::new(Semaphore::new(limits::FILE_READS));
    while let Some(NodeFileRequest { from, message }) = requests.recv().await {
        let (own, files, room) = (own.clone(), files.clone(), Arc::clone(&room));
        spawn_local(async move {
            let (answer, permit) = own.answer(room, message.body).await;
            files.respond(from, message.number, answer.unwrap_or_else(FileBody::Refused));
            // Held until the answer is with the links, as the piece is in memory until then.
            drop(permit);
        });
    }
}

impl OwnFiles {
    /// Answers a question, with the place in `room` that the answer holds. A conversion to MP3 takes no place: it may last minutes, and has places
    /// of its own (`voice_io::limits::ENCODINGS`).
    async fn answer(
        self,
        room: Arc<Semaphore>,
        question: FileBody,
    ) -> (Result<FileBody, FileFault>, Option<OwnedSemaphorePermit>) {
        let converted = match self.converted(&question).await {
            Ok(converted) => converted,
            Err(fault) => return (Err(fault), None),
        };
        // Refused at once instead of waiting: the asking node holds a place of its own for the question, and
        // may try again.
        let Ok(permit) = room.try_acquire_owned() else { return (Err(FileFault::Busy), None) };
        (self.perform(question, converted).await, Some(permit))
    }

    /// The recording as MP3, if it is asked for.
    async fn converted(&self, question: &FileBody) -> Result<Option<Sound>, FileFault> {
        let FileBody::Read { file: FileName { kind: FileKind::RecordingAsMp3, id }, .. } = question else {
            return Ok(None);
        };
        let recordings = self.recordings.as_ref().ok_or(FileFault::Unknown)?;
        let converted = recordings.open_mp3(id).await.map_err(|error| match error {
            EncodeError::NotFound => FileFault::Unknown,
            EncodeError::NoEncoder => FileFault::NoEncoder,
            EncodeError::Busy => FileFault::Busy,
            EncodeError::Failed | EncodeError::Away => FileFault::Failed,
        });
        converted.map(Some)
    }

    /// Performs a question. The length of a piece is bounded here, too, whatever the asker wants.
    async fn perform(self, question: FileBody, converted: Option<Sound>) -> Result<FileBody, FileFault> {
        match question {
            FileBody::Read { file: FileName { kind, id }, start, length } => {
                let end =
                    start.saturating_add(u64::from(length).min(shard_message::limits::FILE_PIECE as u64));
                self.read(kind, id, start..end, converted).await.map(FileBody::Piece)
            }
            FileBody::Delete(FileName { kind: FileKind::Recording, id }) => {
                let Some(recordings) = self.recordings else { return Ok(FileBody::Deleted) };
                blocking(move || {
                    recordings.delete(&id).map(|()| FileBody::Deleted).map_err(|error| {
                        tracing::error!(%error, sid = &*id, "a recording cannot be deleted");
                        FileFault::Failed
                    })
                })
                .await
            }
            // No version asks so.
            FileBody::Delete(_) | FileBody::Piece(_) | FileBody::Deleted | FileBody::Refused(_) => {
                Err(FileFault::Failed)
            }
        }
    }

    async fn read(
        self,
        kind: FileKind,
        id: Box<str>,
        range: Range<u64>,
        converted: Option<Sound>,
    ) -> Result<FilePiece, FileFault> {
        let recordings = || self.recordings.clone().ok_or(FileFault::Unknown);
        match kind {
            FileKind::Upload => {
                let uploads = self.uploads.clone().ok_or(FileFault::Unknown)?;
                blocking(move || uploads.read_piece(&id, range).map(piece_of).map_err(fault_of)).await
            }
            FileKind::Recording => {
                let recordings = recordings()?;
                blocking(move || part_of(recordings.open(&id).ok_or(FileFault::Unknown)?, range)).await
            }
            FileKind::RecordingAsMp3 => {
                let sound = converted.ok_or(FileFault::Unknown)?;
                blocking(move || part_of(sound, range)).await
            }
        }
    }
}

fn piece_of(UploadPiece { name, kind, size, bytes }: UploadPiece) -> FilePiece {
    FilePiece { size, name, media_type: kind, bytes: bytes.into() }
}

fn fault_of(fault: ReadFault) -> FileFault {
    match fault {
        ReadFault::Unknown => FileFault::Unknown,
        ReadFault::Away => FileFault::Away,
        ReadFault::Busy => FileFault::Busy,
        ReadFault::Broken => FileFault::Failed,
    }
}

/// Work on the disk, away from the thread of the operator.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FileFault> + Send + 'static,
) -> Result<T, FileFault> {
    spawn_blocking(work).await.map_err(|_| FileFault::Failed)?
}

fn part_of(sound: Sound, range: Range<u64>) -> Result<FilePiece, FileFault> {
    let SoundPiece { size, bytes } = recorded_sound::part_of(sound, range).map_err(|_| FileFault::Failed)?;
    Ok(FilePiece { size, bytes: bytes.into(), ..FilePiece::default() })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ::voice::{Done, Ticket};
    use voice_io::helpers::Deliver;

    use super::*;

    /// Recordings that end are no part of this.
    struct Unasked;

    impl Deliver for Unasked {
        fn deliver(&self, _: Ticket, _: Done) {}
    }

    /// Recordings in this folder, whose encoder runs for an hour.
    fn recordings(folder: &Path) -> Arc<Files> {
        let files = Files::start(folder, None, Arc::new(Unasked)).unwrap();
        Arc::new(files.with_mp3(&["sleep".into(), "3600".into()]))
    }

    #[test]
    fn a_conversion_to_mp3_takes_no_place_of_a_piece() {
        let folder = tempfile::tempdir().unwrap();
        let sid = format!("RE{:032x}", 7);
        let own = OwnFiles { uploads: None, recordings: Some(recordings(folder.path())) };
        std::fs::write(folder.path().join(format!("{sid}.wav")), b"sound").unwrap();
        let read =
            |kind| FileBody::Read { file: FileName { kind, id: sid.as_str().into() }, start: 0, length: 3 };
        let room = Arc::new(Semaphore::new(1));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let conversion = own.clone().answer(Arc::clone(&room), read(FileKind::RecordingAsMp3));
            // It is begun, and dropped with its process at the end.
            tokio::pin!(conversion);
            tokio::select! {
                biased;
                _ = &mut conversion => panic!("the encoder runs"),
                (piece, permit) = own.clone().answer(Arc::clone(&room), read(FileKind::Recording)) => {
                    let Ok(FileBody::Piece(piece)) = piece else { panic!("{piece:?}") };
                    assert_eq!((piece.size, &*piece.bytes), (5, &b"sou"[..]));
                    assert!(permit.is_some());
                    // The piece holds the only place.
                    let (refused, _) = own.clone().answer(Arc::clone(&room), read(FileKind::Recording)).await;
                    assert_eq!(refused.err(), Some(FileFault::Busy));
                }
            }
        });
    }
}
