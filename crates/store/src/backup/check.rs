//! Reads a backup to its end, and says what is in it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use stdx::Instant;

use crate::copy::{CopiedTable, TABLES};
use crate::error::StoreError;

use super::rows::{ADDED, Layout};
use super::stream::{End, FileHeader, Kind, Record, RecordReader, TableEnd, TableHeader};
use super::{Contents, FolderCounts, files};

/// Reads all of a backup: every sum, every row, every count. `None`: it was told to stop. `progress` gets the bytes that are read.
///
/// # Errors
/// The file cannot be read, is no backup, is cut short or damaged, or is of a later version.
pub fn check(
    path: &Path,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u64),
) -> Result<Option<Contents>, StoreError> {
    let (mut reader, header) = RecordReader::open(path)?;
    let mut found = Found::default();
    loop {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let record = reader.next()?;
        progress(reader.bytes());
        let is_last = record.kind == Kind::End;
        match found.add(&reader, &record) {
            Ok(()) if is_last => break,
            Ok(()) => {}
            // Bytes that have changed can look like a table of a later version: the hash at the end tells.
            Err(error) if is_last => return Err(error),
            Err(error) => return Err(read_to_end(&mut reader).err().unwrap_or(error)),
        }
    }
    let size = path.metadata().map_err(|error| super::io_failed(path, &error))?.len();
    Ok(Some(Contents {
        made_at: Instant::from_unix_seconds(header.made_at),
        program: header.program,
        tables: found.tables,
        folders: found.folders,
        size,
    }))
}

fn read_to_end(reader: &mut RecordReader) -> Result<(), StoreError> {
    while reader.next()?.kind != Kind::End {}
    Ok(())
}

/// The contents that have been read so far.
#[derive(Default)]
struct Found {
    tables: Vec<CopiedTable>,
    folders: Vec<FolderCounts>,
    /// The table that has not ended yet.
    layout: Option<Layout>,
    /// Bytes of a file that are still to come.
    to_come: u64,
}

impl Found {
    fn add(&mut self, reader: &RecordReader, record: &Record) -> Result<(), StoreError> {
        let is_within_table = matches!(record.kind, Kind::Rows | Kind::TableEnd);
        let is_within_file = record.kind == Kind::Data;
        if is_within_table != self.layout.is_some() || is_within_file != (self.to_come > 0) {
            return Err(reader.bad(format_args!("it is damaged ({:?} in a wrong place)", record.kind)));
        }
        match record.kind {
            Kind::Header => Err(reader.bad("it is damaged (two headers)")),
            Kind::Table => self.table(reader, &reader.parse(record, Kind::Table)?),
            Kind::Rows => self.rows(reader, &record.bytes),
            Kind::TableEnd => {
                self.layout = None;
                let end: TableEnd = reader.parse(record, Kind::TableEnd)?;
                self.expect(reader, self.tables.last().map_or(0, |table| table.rows), end.rows)
            }
            Kind::File => self.file(reader, &reader.parse(record, Kind::File)?),
            Kind::Data => {
                let left = self.to_come.checked_sub(record.bytes.len() as u64);
                self.to_come =
                    left.ok_or_else(|| reader.bad("it is damaged (a file that is longer than it says)"))?;
                Ok(())
            }
            Kind::End => {
                let end: End = reader.parse(record, Kind::End)?;
                self.expect(reader, self.tables.len() as u64, end.tables)?;
                self.expect(reader, self.tables.iter().map(|table| table.rows).sum(), end.rows)?;
                // A folder without files has no record of its own.
                self.folders.iter().try_for_each(|folder| {
                    if end.folders.contains(folder) {
                        Ok(())
                    } else {
                        Err(reader.bad("it is damaged (files)"))
                    }
                })?;
                self.folders = end.folders;
                Ok(())
            }
        }
    }

    fn expect(&self, reader: &RecordReader, there: u64, expected: u64) -> Result<(), StoreError> {
        if there == expected {
            return Ok(());
        }
        let table = self.tables.last().map_or("", |table| table.name);
        Err(reader.bad(format_args!("it is damaged (near {table}: {there} in the place of {expected})")))
    }

    fn table(&mut self, reader: &RecordReader, header: &TableHeader) -> Result<(), StoreError> {
        let later = |what: String| {
            let found = format!("{}: {what}", reader.path().display());
            StoreError::invalid(found, "the version of belfry that made it; see its --version")
        };
        let position = |name: &str| TABLES.iter().position(|table| table.name == name);
        let place = position(&header.name)
            .ok_or_else(|| later(format!("the table {} is of a later version", header.name)))?;
        if self.tables.last().and_then(|table| position(table.name)).is_some_and(|last| last >= place) {
            return Err(reader.bad(format_args!("it is damaged ({} in a wrong place)", header.name)));
        }
        let table = &TABLES[place];
        self.layout = Some(Layout::new(table, header, ADDED).map_err(later)?);
        self.tables.push(CopiedTable { name: table.name, rows: 0 });
        Ok(())
    }

    fn rows(&mut self, reader: &RecordReader, bytes: &[u8]) -> Result<(), StoreError> {
        let (Some(layout), Some(table)) = (&self.layout, self.tables.last_mut()) else { return Ok(()) };
        let rows = layout.read(bytes);
        let rows = rows.ok_or_else(|| reader.bad(format_args!("it is damaged (a row of {})", table.name)))?;
        table.rows += rows.len() as u64;
        Ok(())
    }

    fn file(&mut self, reader: &RecordReader, header: &FileHeader) -> Result<(), StoreError> {
        if !files::is_inside(&header.path) {
            return Err(reader.bad("it has a file whose name leads out of its folder"));
        }
        let counts = match self.folders.iter_mut().position(|folder| folder.name == header.folder) {
            Some(place) => &mut self.folders[place],
            None => {
                self.folders.push(FolderCounts { name: header.folder.clone(), files: 0, bytes: 0 });
                let last = self.folders.len() - 1;
                &mut self.folders[last]
            }
        };
        counts.files += 1;
        counts.bytes = counts.bytes.saturating_add(header.bytes);
        self.to_come = header.bytes;
        Ok(())
    }
}
