//! Messages about files that one node of a farm has and another serves: uploads of chat clients and recordings of calls. Each question
//! stands alone, for one bounded piece, so a node that serves keeps nothing of a reader, and a reader has as many pieces on their way as
//! it has room for.
//!
//! They have the class Bulk, on the connection that calls do not use and behind chat. A node of version 1 does not know these kinds, so
//! they are sent from level 2 on.

use cluster::Epoch;
use cluster::fields::{Corrupt, put_bytes, put_number};
use cluster::link::Message;

use super::values::{absent, at_place, fields, place_of, put_text, required, text};
use crate::limits::FILE_PIECE;

/// The level of the map from which all nodes know these messages.
pub const FILES_SINCE: u16 = 2;

/// Kinds of messages between nodes: 60 to 69 are for files.
const READ: u16 = 60;
const DELETE: u16 = 61;
const PIECE: u16 = 62;
const DELETED: u16 = 63;
const REFUSED: u16 = 64;

const NUMBER: u64 = 1;
const KIND: u64 = 2;
const ID: u64 = 3;
const START: u64 = 4;
const LENGTH: u64 = 5;
const SIZE: u64 = 6;
const NAME: u64 = 7;
const MEDIA_TYPE: u64 = 8;
const BYTES: u64 = 9;
const FAULT: u64 = 10;

pub(super) const FILE_KINDS: [FileKind; 3] =
    [FileKind::Upload, FileKind::Recording, FileKind::RecordingAsMp3];
pub(super) const FILE_FAULTS: [FileFault; 5] =
    [FileFault::Unknown, FileFault::Away, FileFault::Busy, FileFault::Failed, FileFault::NoEncoder];

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A file that a chat client has uploaded, by its id.
    Upload,
    /// The sound of a recording, by its sid.
    Recording,
    /// The same, converted.
    RecordingAsMp3,
}

/// A file of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileName {
    /// Its kind.
    pub kind: FileKind,
    /// Its id among the files of that kind.
    pub id: Box<str>,
}

/// The reason why a file is not read or deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFault {
    /// The node has no such file.
    Unknown,
    /// The node does not live, or does not answer.
    Away,
    /// Too many files are read at once.
    Busy,
    /// The disk or the encoder failed; the node's log has the reason.
    Failed,
    /// The node's configuration names no encoder.
    NoEncoder,
}

/// A part of a file, and what the file is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilePiece {
    /// Bytes of the whole file.
    pub size: u64,
    /// The name of an upload.
    pub name: Box<str>,
    /// The media type of an upload.
    pub media_type: Box<str>,
    /// The bytes of this part.
    pub bytes: Box<[u8]>,
}

/// A message about a file. The node that asks numbers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileMessage {
    /// The asking node's number of the question.
    pub number: u64,
    /// The question or the answer.
    pub body: FileBody,
}

/// A question about a file, or its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileBody {
    /// Read a part; of length 0, only what the file is.
    Read {
        /// The file.
        file: FileName,
        /// The place of the first byte.
        start: u64,
        /// Bytes, at most [`FILE_PIECE`].
        length: u32,
    },
    /// Delete the file.
    Delete(FileName),
    /// The part that was asked for; shorter at the end of the file.
    Piece(FilePiece),
    /// The file is deleted, or was not there.
    Deleted,
    /// The question is refused.
    Refused(FileFault),
}

/// True for the kinds of messages about files.
pub(super) fn is_of_file(kind: u16) -> bool {
    (READ..=REFUSED).contains(&kind)
}

fn put_file(out: &mut Vec<u8>, FileName { kind, id }: &FileName) {
    put_number(out, KIND, place_of(&FILE_KINDS, kind));
    put_text(out, ID, id);
}

impl FileMessage {
    /// The message, for the shard with the links.
    pub fn message(&self) -> Message {
        let mut body = Vec::with_capacity(64);
        put_number(&mut body, NUMBER, self.number);
        let kind = match &self.body {
            FileBody::Read { file, start, length } => {
                put_file(&mut body, file);
                put_number(&mut body, START, *start);
                put_number(&mut body, LENGTH, u64::from(*length));
                READ
            }
            FileBody::Delete(file) => {
                put_file(&mut body, file);
                DELETE
            }
            FileBody::Piece(FilePiece { size, name, media_type, bytes }) => {
                put_number(&mut body, SIZE, *size);
                put_text(&mut body, NAME, name);
                put_text(&mut body, MEDIA_TYPE, media_type);
                put_bytes(&mut body, BYTES, bytes);
                PIECE
            }
            FileBody::Deleted => DELETED,
            FileBody::Refused(fault) => {
                put_number(&mut body, FAULT, place_of(&FILE_FAULTS, fault));
                REFUSED
            }
        };
        Message { kind, epoch: Epoch(0), shard: 0, body: body.into() }
    }

    /// Reads a message; none if it is of another kind.
    ///
    /// # Errors
    /// [`Corrupt`] with the fault.
    pub fn read(message: &Message) -> Result<Option<FileMessage>, Corrupt> {
        if !is_of_file(message.kind) {
            return Ok(None);
        }
        let (mut number, mut kind, mut id, mut start, mut length) = (None, None, None, 0, 0);
        let (mut piece, mut fault) = (FilePiece::default(), FileFault::Failed);
        let mut fields = fields(&message.body)?;
        while let Some(field) = fields.next()? {
            match field.number {
                NUMBER => number = Some(field.value()?),
                KIND => kind = at_place(&FILE_KINDS, field.value()?),
                ID => id = Some(text(&field)?),
                START => start = field.value()?,
                LENGTH => length = field.value()?,
                SIZE => piece.size = field.value()?,
                NAME => piece.name = text(&field)?,
                MEDIA_TYPE => piece.media_type = text(&field)?,
                BYTES => piece.bytes = field.bytes.into(),
                // One of a later version is a failure.
                FAULT => fault = at_place(&FILE_FAULTS, field.value()?).unwrap_or(FileFault::Failed),
                _ => {}
            }
        }
        if piece.bytes.len() > FILE_PIECE {
            return Err(absent("a piece of a file is too long"));
        }
        let file = || {
            // A question of a later version is not understood, and its asker waits in vain.
            let kind = kind.ok_or(absent("the kind of a file is not known"))?;
            Ok(FileName { kind, id: required(id.clone(), "a file has no id")? })
        };
        let body = match message.kind {
            READ => FileBody::Read { file: file()?, start, length },
            DELETE => FileBody::Delete(file()?),
            PIECE => FileBody::Piece(piece),
            DELETED => FileBody::Deleted,
            _ => FileBody::Refused(fault),
        };
        let number = number.ok_or(absent("a message about a file has no number"))?;
        Ok(Some(FileMessage { number, body }))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use cluster::link::Class;
    use proptest::prelude::*;

    use super::*;
    use crate::wire::class_of;

    fn examples() -> [(&'static str, FileBody); 5] {
        let file = |kind, id: &str| FileName { kind, id: id.into() };
        let upload = file(FileKind::Upload, "0123456789abcdef0123456789abcdef");
        let piece = FilePiece {
            size: 600_000,
            name: "très jolie.png".into(),
            media_type: "image/png".into(),
            bytes: b"content".as_slice().into(),
        };
        [
            ("file-read", FileBody::Read { file: upload, start: 300_000, length: 65_536 }),
            (
                "file-delete",
                FileBody::Delete(file(FileKind::Recording, "RE0123456789abcdef0123456789abcdef")),
            ),
            ("file-piece", FileBody::Piece(piece)),
            ("file-deleted", FileBody::Deleted),
            ("file-refused", FileBody::Refused(FileFault::Busy)),
        ]
    }

    fn check(kind: u16, body: &[u8]) {
        let message = Message { kind, epoch: Epoch(0), shard: 0, body: Bytes::copy_from_slice(body) };
        if let Ok(Some(first)) = FileMessage::read(&message) {
            assert_eq!(FileMessage::read(&first.message()), Ok(Some(first)));
        }
    }

    #[test]
    fn each_message_about_a_file_is_written_as_in_its_file_and_comes_back() {
        for (name, body) in examples() {
            let sent = FileMessage { number: 300, body };
            let message = sent.message();
            assert_eq!(class_of(&message), Class::Bulk);
            super::super::tests::is_as_in_file(name, &message);
            assert_eq!(FileMessage::read(&message), Ok(Some(sent)));
        }
    }

    #[test]
    fn a_message_without_number_kind_or_id_or_with_too_long_a_piece_is_a_fault() {
        for kind in READ..=REFUSED {
            let message = Message { kind, epoch: Epoch(0), shard: 0, body: Bytes::new() };
            assert!(FileMessage::read(&message).is_err(), "{kind}");
        }
        let nameless = FileName { kind: FileKind::Upload, id: "".into() };
        let long = FilePiece { bytes: vec![b'x'; FILE_PIECE + 1].into(), ..FilePiece::default() };
        for body in [FileBody::Delete(nameless), FileBody::Piece(long)] {
            assert!(FileMessage::read(&FileMessage { number: 1, body }.message()).is_err());
        }
        let other = Message { kind: REFUSED + 1, epoch: Epoch(0), shard: 0, body: Bytes::new() };
        assert_eq!(FileMessage::read(&other), Ok(None));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_about_a_file_or_a_fault(kind in READ..=REFUSED, body: Vec<u8>) {
            check(kind, &body);
        }

        /// Bytes near those of real messages: one is changed, some are cut off.
        #[test]
        fn almost_a_message_about_a_file_is_one_or_a_fault(
            which in 0..5_usize, place: prop::sample::Index, byte: u8, kept: prop::sample::Index,
        ) {
            let message = FileMessage { number: 300, body: examples()[which].1.clone() }.message();
            let mut body = message.body.to_vec();
            *place.get_mut(&mut body) = byte;
            check(message.kind, &body);
            check(message.kind, &body[..kept.index(body.len())]);
        }
    }
}
