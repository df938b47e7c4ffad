//! Files with rows of another server's tables: one file, or those of a folder that have a table each.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::Stop;
use super::files::cannot_read;
use super::foreign::{ForeignInput, ForeignPiece, ForeignSource};
use super::rows::{Row, RowPiece, RowReader, RowsError};
use crate::error::CliError;

/// The meaning of a server's rows.
pub(super) trait RowFormat: Send {
    /// Adds what a row of one of its tables says. `domain`: of accounts whose row names none.
    fn row(&mut self, row: &Row, domain: &str, out: &mut VecDeque<ForeignPiece>);

    /// Adds what is known only behind the last row.
    fn end(&mut self, _out: &mut VecDeque<ForeignPiece>) {}
}

/// Gives what the rows of all files say. The line of a piece has the place of its file among them in its upper half.
pub(super) struct RowFiles<F> {
    format: F,
    tables: &'static [&'static str],
    domain: Box<str>,
    stop: Stop,
    /// Files that were not opened yet.
    waiting: VecDeque<PathBuf>,
    /// The files so far; the last is being read.
    names: Vec<PathBuf>,
    /// A row of one of the tables was there.
    is_recognised: bool,
    reader: Option<RowReader<Box<dyn Read + Send>>>,
    ready: VecDeque<ForeignPiece>,
    has_ended: bool,
    /// Bytes of files that are done with, and of all.
    done: u64,
    total: Option<u64>,
}

impl<F: RowFormat> RowFiles<F> {
    /// `names`: the files of a folder that are read; one of them has to be there.
    pub(super) fn open(
        input: ForeignInput<'_>,
        tables: &'static [&'static str],
        names: &[&str],
        format: F,
    ) -> Result<RowFiles<F>, CliError> {
        let ForeignInput { path, file, domain, stop } = input;
        let is_folder = file.is_none();
        let mut files = RowFiles {
            format,
            tables,
            domain,
            stop: stop.clone(),
            waiting: VecDeque::new(),
            names: vec![if path == Path::new("-") { "standard input".into() } else { path.into() }],
            is_recognised: false,
            reader: None,
            ready: VecDeque::new(),
            has_ended: false,
            done: 0,
            total: None,
        };
        if let Some(file) = file {
            files.total = path.metadata().ok().filter(|data| data.is_file()).map(|data| data.len());
            files.read(file);
        } else {
            files.waiting = names.iter().map(|name| path.join(name)).filter(|path| path.is_file()).collect();
            files.total = Some(files.waiting.iter().map(|path| size(path)).sum());
        }
        if is_folder && files.waiting.is_empty() {
            let names = names.join(", ");
            let text = format!(
                "{}: none of {names} is in this folder; name the folder with them, or a file",
                path.display()
            );
            return Err(CliError::Other(text));
        }
        Ok(files)
    }

    fn read(&mut self, file: Box<dyn Read + Send>) {
        self.reader = Some(RowReader::new(Box::new(self.stop.guard(file)), self.tables));
    }

    /// Reads on until something is ready, or all has been read.
    fn advance(&mut self) -> Result<(), CliError> {
        let Some(reader) = &mut self.reader else {
            match self.waiting.pop_front() {
                Some(path) => {
                    let file = File::open(&path).map_err(|error| cannot_read(&path, &error))?;
                    self.names.push(path);
                    self.read(Box::new(file));
                }
                None => {
                    self.format.end(&mut self.ready);
                    self.has_ended = true;
                }
            }
            return Ok(());
        };
        let file = (self.names.len() as u64 - 1) << 32;
        match reader.next() {
            Ok(Some(RowPiece::Row(mut row))) => {
                self.is_recognised = true;
                row.line |= file;
                self.format.row(&row, &self.domain, &mut self.ready);
            }
            Ok(Some(RowPiece::Bad { line, found, expected })) => {
                self.is_recognised = true;
                let what = format!("{found}; expected {expected}");
                self.ready.push_back(ForeignPiece::Bad { line: line | file, what });
            }
            Ok(None) => {
                self.done += reader.bytes();
                let others = std::mem::take(&mut reader.others);
                // Versions of tables, and the like.
                let is_told = |table: &str| !table.ends_with("version");
                for (table, count) in others.into_iter().filter(|(table, _)| is_told(table)) {
                    self.ready.push_back(ForeignPiece::Other(format!("rows of {table}").into(), count));
                }
                self.reader = None;
            }
            Err(RowsError::Io(error)) => {
                return Err(cannot_read(self.names.last().expect("the first is there"), &error));
            }
            Err(RowsError::At { line, found, expected }) => {
                let place = self.place(line | file);
                return Err(CliError::Other(format!("{place}: {found}; expected {expected}")));
            }
        }
        Ok(())
    }
}

impl<F: RowFormat> ForeignSource for RowFiles<F> {
    fn next(&mut self) -> Result<Option<ForeignPiece>, CliError> {
        while self.ready.is_empty() && !self.has_ended {
            self.advance()?;
        }
        Ok(self.ready.pop_front())
    }

    fn place(&self, line: u64) -> String {
        let name = self.names.get((line >> 32) as usize);
        format!("{}:{}", name.map_or("".into(), |name| name.display().to_string()), line as u32)
    }

    fn bytes(&self) -> u64 {
        self.done + self.reader.as_ref().map_or(0, RowReader::bytes)
    }

    fn total(&self) -> Option<u64> {
        self.total
    }

    fn unrecognised(&self) -> Option<String> {
        (!self.is_recognised).then(|| format!("rows of {}", self.tables.join(", ")))
    }
}

fn size(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}
