//! Rows of tables, as servers with a database write them: a dump in SQL, CSV or tabs with a line of headings, db_text of Kamailio.
//!
//! [`RowReader`] tells the form by the first line, and keeps one row in memory. It interprets nothing: the format that asks for the rows
//! (`kamailio`, `openfire`) knows what the columns mean.

mod delimited;
mod scanner;
mod sql;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::Arc;

use self::delimited::Style;
use self::scanner::Scanner;
use self::sql::Sql;
use crate::limits;

/// One row of a table.
#[derive(Debug)]
pub(super) struct Row {
    /// In lower case, without the schema. Empty where the input does not say it.
    pub(super) table: Arc<str>,
    /// The line that it begins at.
    pub(super) line: u64,
    columns: Columns,
    /// `None`: NULL.
    values: Vec<Option<String>>,
}

/// The names of the columns, in lower case.
type Columns = Arc<[Box<str>]>;

impl Row {
    /// The value of a column; empty for NULL and for a column that is not there.
    pub(super) fn get(&self, column: &str) -> &str {
        let at = self.columns.iter().position(|name| **name == *column);
        at.and_then(|at| self.values.get(at)?.as_deref()).unwrap_or_default()
    }

    /// True if the table has that column.
    pub(super) fn has(&self, column: &str) -> bool {
        self.columns.iter().any(|name| **name == *column)
    }
}

/// A row, or what stands in its place.
#[derive(Debug)]
pub(super) enum RowPiece {
    /// A row of a table that was asked for.
    Row(Row),
    /// A row that cannot be read; the next one can.
    Bad { line: u64, found: String, expected: String },
}

/// The reason for which nothing more can be read.
#[derive(Debug)]
pub(super) enum RowsError {
    /// The input failed.
    Io(io::Error),
    /// The text is malformed from this line on.
    At { line: u64, found: String, expected: &'static str },
}

impl From<io::Error> for RowsError {
    fn from(error: io::Error) -> RowsError {
        RowsError::Io(error)
    }
}

/// The form of the input.
enum RowsForm {
    /// Not looked into yet.
    Unknown,
    /// A dump of tables.
    Sql(Sql),
    /// Lines of values, after a line with the names of the columns.
    Delimited(Style, Columns),
}

/// Gives the rows of the tables that are asked for.
pub(super) struct RowReader<R> {
    scanner: Scanner<R>,
    form: RowsForm,
    /// The tables whose rows are given, in lower case; of all others rows are counted.
    wanted: &'static [&'static str],
    /// Rows of other tables.
    pub(super) others: BTreeMap<Arc<str>, u64>,
}

impl<R: Read> RowReader<R> {
    pub(super) fn new(input: R, wanted: &'static [&'static str]) -> RowReader<R> {
        RowReader { scanner: Scanner::new(input), form: RowsForm::Unknown, wanted, others: BTreeMap::new() }
    }

    /// Bytes of the input that are done with.
    pub(super) fn bytes(&self) -> u64 {
        self.scanner.bytes
    }

    /// `None`: the input has ended.
    pub(super) fn next(&mut self) -> Result<Option<RowPiece>, RowsError> {
        loop {
            let scanner = &mut self.scanner;
            let piece = match &mut self.form {
                RowsForm::Unknown => {
                    self.form = look_into(scanner)?;
                    continue;
                }
                RowsForm::Sql(sql) => sql.next(scanner, self.wanted)?,
                RowsForm::Delimited(style, columns) => delimited::next(scanner, *style, columns)?,
            };
            match piece {
                Some(Raw { table, is_wanted: false, .. }) => self.count(table),
                piece => return Ok(piece.map(Raw::piece)),
            }
        }
    }

    fn count(&mut self, table: Arc<str>) {
        // A dump has its rows of one table together, so a bound on the tables bounds the map.
        if self.others.len() < limits::IMPORT_TABLES || self.others.contains_key(&table) {
            *self.others.entry(table).or_default() += 1;
        }
    }
}

/// A row as it was read, before its text is looked at.
struct Raw {
    table: Arc<str>,
    line: u64,
    columns: Columns,
    is_wanted: bool,
    values: Values,
}

impl Raw {
    fn piece(self) -> RowPiece {
        let Raw { table, line, columns, is_wanted: _, values } = self;
        let bad = |found: String, expected: String| RowPiece::Bad { line, found, expected };
        if values.is_too_large {
            let found = format!("a row of more than {} KiB", limits::IMPORT_ROW >> 10);
            return bad(found, "a row of an account".into());
        }
        if values.is_computed {
            return bad("a value that is computed".into(), "a number, a text in quotes or NULL".into());
        }
        if values.count != columns.len() {
            let found = format!("a row of {} values", values.count);
            return bad(found, format!("{}, as many as there are columns", columns.len()));
        }
        let text = |value: Option<Vec<u8>>| value.map(String::from_utf8).transpose();
        match values.done.into_iter().map(text).collect::<Result<_, _>>() {
            Ok(values) => RowPiece::Row(Row { table, line, columns, values }),
            Err(_) => bad("bytes that are not UTF-8".into(), "a file saved as UTF-8".into()),
        }
    }
}

/// The values of one row while it is read. A row that is too large, or of a table that is not wanted, is not kept.
struct Values {
    done: Vec<Option<Vec<u8>>>,
    count: usize,
    size: usize,
    is_kept: bool,
    is_too_large: bool,
    /// A value is a call of a function, as SQLite writes texts of several lines.
    is_computed: bool,
    /// The value that is being read.
    value: Vec<u8>,
}

impl Values {
    fn new(is_kept: bool) -> Values {
        Values {
            done: Vec::new(),
            count: 0,
            size: 0,
            is_kept,
            is_too_large: false,
            is_computed: false,
            value: Vec::new(),
        }
    }

    /// Adds a byte to the value that is being read.
    fn push(&mut self, byte: u8) {
        self.size += 1;
        if self.size > limits::IMPORT_ROW {
            self.is_too_large = true;
            (self.done, self.value) = (Vec::new(), Vec::new());
        } else if self.is_kept {
            self.value.push(byte);
        }
    }

    /// Ends the value that is being read.
    fn end(&mut self, is_null: bool) {
        // An empty value costs memory as well.
        self.size += size_of::<Option<Vec<u8>>>();
        self.is_too_large |= self.size > limits::IMPORT_ROW;
        self.count += 1;
        let value = std::mem::take(&mut self.value);
        if self.is_kept && !self.is_too_large {
            self.done.push((!is_null).then_some(value));
        }
    }
}

/// Tells the form by the first line that has something: `name(type)` of db_text, headings with a column `username`, or else SQL.
fn look_into<R: Read>(scanner: &mut Scanner<R>) -> Result<RowsForm, RowsError> {
    for byte in *b"\xEF\xBB\xBF" {
        scanner.take(byte)?;
    }
    while scanner.peek()?.is_some_and(|byte| byte.is_ascii_whitespace()) {
        scanner.next()?;
    }
    let text = scanner.look_ahead()?;
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line).into_owned();
    let Some((style, columns)) = delimited::headings(&line) else {
        return Ok(RowsForm::Sql(Sql::new()));
    };
    scanner.skip_line()?;
    Ok(RowsForm::Delimited(style, columns))
}

/// The last part of `schema.table`, in lower case.
fn table_name(name: &[u8]) -> Arc<str> {
    let name = String::from_utf8_lossy(name).to_lowercase();
    name.rsplit('.').next().unwrap_or_default().into()
}
