//! The records of a backup: a kind, a length and that many bytes, one after the other, all in one stream of gzip.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::StoreError;
use crate::limits;

use super::{FORMAT, FolderCounts, io_failed, unusable};

/// The first bytes in the stream: `gzip -dc FILE | head -1` shows what the file is.
const MAGIC: &[u8] = b"belfry backup\n";

/// The kind of a record. The values stand in files and never change their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// [`Header`], the first record.
    Header = b'H',
    /// [`TableHeader`]: rows of this table follow.
    Table = b'T',
    /// Rows ([`super::rows`]).
    Rows = b'R',
    /// [`TableEnd`].
    TableEnd = b'E',
    /// [`FileHeader`]: the bytes of a file follow.
    File = b'F',
    /// Bytes of the file.
    Data = b'D',
    /// [`End`], and behind it the hash of all before this record. The last record.
    End = b'Z',
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        use Kind::{Data, End, File, Header, Rows, Table, TableEnd};
        [Header, Table, Rows, TableEnd, File, Data, End].into_iter().find(|kind| *kind as u8 == byte)
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) format: u32,
    /// The version of the program.
    pub(super) program: Box<str>,
    /// Seconds since 1970.
    pub(super) made_at: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TableHeader {
    pub(super) name: Box<str>,
    pub(super) columns: Vec<Box<str>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TableEnd {
    pub(super) rows: u64,
    /// The highest id that was ever given, for tables with ids.
    pub(super) last_id: i64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FileHeader {
    pub(super) folder: Box<str>,
    /// The path in the folder, with `/`.
    pub(super) path: Box<str>,
    pub(super) bytes: u64,
    /// Seconds since 1970.
    pub(super) modified_at: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct End {
    pub(super) tables: u64,
    pub(super) rows: u64,
    pub(super) folders: Vec<FolderCounts>,
}

/// Counts the bytes that pass.
pub(super) struct Counted<T> {
    inner: T,
    pub(super) bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.bytes += read as u64;
        Ok(read)
    }
}

impl<R: BufRead> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.inner.consume(bytes);
    }
}

/// Writes records.
pub(super) struct RecordWriter<W: Write> {
    out: GzEncoder<Counted<W>>,
    hash: Sha256,
}

impl<W: Write> RecordWriter<W> {
    /// Most of a database is keys, which nothing makes smaller: the fastest level is within some percent of the best.
    pub(super) fn new(out: W) -> io::Result<Self> {
        let out = GzEncoder::new(Counted { inner: out, bytes: 0 }, Compression::fast());
        let mut writer = RecordWriter { out, hash: Sha256::new() };
        writer.write_hashed(MAGIC)?;
        Ok(writer)
    }

    fn write_hashed(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.out.write_all(bytes)
    }

    pub(super) fn write(&mut self, kind: Kind, bytes: &[u8]) -> io::Result<()> {
        let length = u32::try_from(bytes.len()).ok().filter(|length| *length <= limits::BACKUP_RECORD);
        let length = length.ok_or_else(|| io::Error::other("a row that is larger than a backup takes"))?;
        self.write_hashed(&[kind as u8])?;
        self.write_hashed(&length.to_be_bytes())?;
        self.write_hashed(bytes)
    }

    pub(super) fn write_json(&mut self, kind: Kind, value: &impl Serialize) -> io::Result<()> {
        self.write(kind, &serde_json::to_vec(value)?)
    }

    /// Writes the last record, and gives what was written to.
    pub(super) fn finish(mut self, end: &End) -> io::Result<(W, u64)> {
        let hash = self.hash.clone().finalize();
        let mut bytes = serde_json::to_vec(end)?;
        bytes.extend_from_slice(&hash);
        self.write(Kind::End, &bytes)?;
        let mut out = self.out.finish()?;
        out.flush()?;
        Ok((out.inner, out.bytes))
    }
}

/// A record that was read.
pub(super) struct Record {
    pub(super) kind: Kind,
    pub(super) bytes: Vec<u8>,
}

/// Reads the records of a file, and verifies what can be at each.
pub(super) struct RecordReader {
    input: GzDecoder<Counted<BufReader<File>>>,
    hash: Sha256,
    path: PathBuf,
}

impl RecordReader {
    /// Opens a backup and reads its first record.
    pub(super) fn open(path: &Path) -> Result<(RecordReader, Header), StoreError> {
        let file = File::open(path).map_err(|error| io_failed(path, &error))?;
        let input = GzDecoder::new(Counted { inner: BufReader::new(file), bytes: 0 });
        let mut reader = RecordReader { input, hash: Sha256::new(), path: path.into() };
        let mut magic = [0; MAGIC.len()];
        reader.fill(&mut magic).map_err(|error| match error {
            StoreError::Invalid { .. } => reader.bad("it is cut short, or not a backup that belfry made"),
            error => error,
        })?;
        if magic != *MAGIC {
            return Err(reader.bad("it is not a backup that belfry made"));
        }
        let record = reader.next()?;
        let header: Header = reader.parse(&record, Kind::Header)?;
        if header.format == 0 || header.format > FORMAT {
            let found = format!(
                "{}: written by belfry {} in form {}, this one knows up to {FORMAT}",
                path.display(),
                header.program,
                header.format
            );
            return Err(StoreError::invalid(found, "the program of that version"));
        }
        Ok((reader, header))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the file that are read.
    pub(super) fn bytes(&self) -> u64 {
        self.input.get_ref().bytes
    }

    pub(super) fn bad(&self, found: impl std::fmt::Display) -> StoreError {
        unusable(&self.path, found)
    }

    fn failed(&self, error: &io::Error) -> StoreError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => self.bad("it is cut short"),
            // The errors of gzip for bytes that are not gzip.
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
                self.bad(format_args!("it is damaged, near byte {} ({error})", self.bytes()))
            }
            _ => io_failed(&self.path, error),
        }
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), StoreError> {
        self.input.read_exact(bytes).map_err(|error| self.failed(&error))?;
        self.hash.update(bytes);
        Ok(())
    }

    /// The next record. The last one verifies the hash of all.
    pub(super) fn next(&mut self) -> Result<Record, StoreError> {
        let before = self.hash.clone();
        let mut head = [0; 5];
        self.fill(&mut head)?;
        let [kind, length @ ..] = head;
        let kind = Kind::of(kind)
            .ok_or_else(|| self.bad(format_args!("it is damaged, near byte {} (a record)", self.bytes())))?;
        let length = u32::from_be_bytes(length);
        if length > limits::BACKUP_RECORD {
            return Err(self.bad(format_args!("it is damaged, near byte {} (a length)", self.bytes())));
        }
        // Memory is taken as bytes come, not as the length says.
        let mut bytes = Vec::new();
        let read = self.input.by_ref().take(length.into()).read_to_end(&mut bytes);
        let read = read.map_err(|error| self.failed(&error))?;
        if read < length as usize {
            return Err(self.bad("it is cut short"));
        }
        self.hash.update(&bytes);
        if kind == Kind::End {
            self.end(&mut bytes, before)?;
        }
        Ok(Record { kind, bytes })
    }

    /// Takes the hash from the last record, and reads the end of the stream, which has gzip's own sum.
    fn end(&mut self, bytes: &mut Vec<u8>, before: Sha256) -> Result<(), StoreError> {
        let hash = before.finalize();
        if !bytes.ends_with(&hash) {
            return Err(self.bad("it is damaged (the hash of its records is another)"));
        }
        bytes.truncate(bytes.len() - hash.len());
        // Behind the end of gzip's stream nothing is read by itself.
        let after = match self.input.read(&mut [0]) {
            Ok(0) => self.input.get_mut().fill_buf().map(<[u8]>::len),
            read => read,
        };
        match after {
            Ok(0) => Ok(()),
            Ok(_) => Err(self.bad("it is damaged (something follows its end)")),
            Err(error) => Err(self.failed(&error)),
        }
    }

    pub(super) fn parse<'a, T: Deserialize<'a>>(
        &self,
        record: &'a Record,
        expected: Kind,
    ) -> Result<T, StoreError> {
        if record.kind != expected {
            return Err(
                self.bad(format_args!("it is damaged ({:?} in the place of {expected:?})", record.kind))
            );
        }
        serde_json::from_slice(&record.bytes)
            .map_err(|error| self.bad(format_args!("it is damaged ({expected:?}: {error})")))
    }
}
