//! The backup that is written, as the target of a copy.

use std::io;

use stdx::Instant;

use crate::copy::{Chunk, CopyTarget, Table};
use crate::error::StoreError;

use super::output::Output;
use super::stream::{End, FileHeader, Header, Kind, RecordWriter, TableEnd, TableHeader};
use super::{FORMAT, FolderCounts, rows};

pub(super) struct Target {
    /// `None`: it is complete.
    records: Option<RecordWriter<Output>>,
    name: std::path::PathBuf,
    /// The table whose rows are being written, and how many there are.
    open: Option<(&'static str, u64)>,
    tables: u64,
    rows: u64,
    pub(super) folders: Vec<FolderCounts>,
    size: u64,
}

impl Target {
    pub(super) fn new(output: Output, now: Instant) -> Result<Target, StoreError> {
        let name = output.name().to_path_buf();
        let header =
            Header { format: FORMAT, program: env!("CARGO_PKG_VERSION").into(), made_at: now.unix_seconds() };
        let write = || {
            let mut records = RecordWriter::new(output)?;
            records.write_json(Kind::Header, &header)?;
            Ok(records)
        };
        let records = Some(write().map_err(|error: io::Error| failed(&name, &error))?);
        Ok(Target { records, name, open: None, tables: 0, rows: 0, folders: Vec::new(), size: 0 })
    }

    fn with<T>(
        &mut self,
        write: impl FnOnce(&mut RecordWriter<Output>) -> io::Result<T>,
    ) -> Result<T, StoreError> {
        let records = self.records.as_mut().ok_or(StoreError::Closed)?;
        write(records).map_err(|error| failed(&self.name, &error))
    }

    fn begin(&mut self, table: &Table) -> Result<(), StoreError> {
        if self.open.is_some_and(|(name, _)| name == table.name) {
            return Ok(());
        }
        let columns = table.columns.iter().map(|name| (*name).into()).collect();
        let header = TableHeader { name: table.name.into(), columns };
        self.with(|records| records.write_json(Kind::Table, &header))?;
        self.open = Some((table.name, 0));
        Ok(())
    }

    pub(super) fn file(&mut self, header: &FileHeader) -> Result<(), StoreError> {
        self.with(|records| records.write_json(Kind::File, header))
    }

    pub(super) fn data(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.with(|records| records.write(Kind::Data, bytes))
    }

    /// Bytes that were written, once it is complete.
    pub(super) fn size(&self) -> u64 {
        self.size
    }
}

fn failed(name: &std::path::Path, error: &io::Error) -> StoreError {
    super::io_failed(name, error)
}

impl CopyTarget for Target {
    fn write(&mut self, table: &Table, chunk: Chunk) -> Result<(), StoreError> {
        self.begin(table)?;
        let bytes = rows::encode(&chunk.rows);
        self.with(|records| records.write(Kind::Rows, &bytes))?;
        if let Some((_, count)) = &mut self.open {
            *count += chunk.rows.len() as u64;
        }
        Ok(())
    }

    /// Asked for last of each table.
    fn count(&mut self, table: &Table) -> Result<u64, StoreError> {
        Ok(self.open.filter(|(name, _)| *name == table.name).map_or(0, |(_, count)| count))
    }

    fn end_table(&mut self, table: &Table, last_id: i64) -> Result<(), StoreError> {
        self.begin(table)?;
        let rows = self.open.map_or(0, |(_, count)| count);
        self.with(|records| records.write_json(Kind::TableEnd, &TableEnd { rows, last_id }))?;
        self.tables += 1;
        self.rows += rows;
        Ok(())
    }

    /// Files of users come behind the rows, and `commit` ends both.
    fn finish(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        let Some(records) = self.records.take() else { return Ok(()) };
        let end = End { tables: self.tables, rows: self.rows, folders: self.folders.clone() };
        let complete = || {
            let (output, size) = records.finish(&end)?;
            output.complete()?;
            Ok(size)
        };
        self.size = complete().map_err(|error: io::Error| failed(&self.name, &error))?;
        Ok(())
    }
}
