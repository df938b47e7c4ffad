//! A backup that was checked, as the source of a copy.

use std::path::Path;

use crate::copy::{Chunk, ChunkHandler, CopySource, Table};
use crate::error::StoreError;

use super::Contents;
use super::rows::{ADDED, Layout};
use super::stream::{Kind, Record, RecordReader, TableEnd, TableHeader};

pub(super) struct Source<'a> {
    pub(super) reader: RecordReader,
    contents: &'a Contents,
    /// A record that was read and not used yet.
    waiting: Option<Record>,
    /// The highest id of the table that was read last.
    last_id: i64,
}

impl<'a> Source<'a> {
    pub(super) fn open(path: &Path, contents: &'a Contents) -> Result<Source<'a>, StoreError> {
        let (reader, _) = RecordReader::open(path)?;
        Ok(Source { reader, contents, waiting: None, last_id: 0 })
    }

    pub(super) fn next(&mut self) -> Result<Record, StoreError> {
        match self.waiting.take() {
            Some(record) => Ok(record),
            None => self.reader.next(),
        }
    }
}

impl CopySource for Source<'_> {
    fn count(&mut self, table: &Table) -> Result<u64, StoreError> {
        let found = self.contents.tables.iter().find(|found| found.name == table.name);
        Ok(found.map_or(0, |found| found.rows))
    }

    fn read(&mut self, table: &Table, take: ChunkHandler<'_>) -> Result<(), StoreError> {
        self.last_id = 0;
        let record = self.next()?;
        if record.kind != Kind::Table {
            self.waiting = Some(record);
            return Ok(());
        }
        let header: TableHeader = self.reader.parse(&record, Kind::Table)?;
        if *header.name != *table.name {
            // A table that was added after the backup was made.
            self.waiting = Some(record);
            return Ok(());
        }
        let layout = Layout::new(table, &header, ADDED).map_err(|found| self.reader.bad(found))?;
        loop {
            let record = self.next()?;
            if record.kind != Kind::Rows {
                let end: TableEnd = self.reader.parse(&record, Kind::TableEnd)?;
                self.last_id = end.last_id;
                return Ok(());
            }
            let rows = layout.read(&record.bytes).ok_or_else(|| self.reader.bad("it has changed"))?;
            let mut chunk = Chunk::default();
            rows.into_iter().for_each(|row| chunk.push(row));
            take(chunk)?;
        }
    }

    fn last_id(&mut self, _: &Table) -> Result<i64, StoreError> {
        Ok(self.last_id)
    }
}
