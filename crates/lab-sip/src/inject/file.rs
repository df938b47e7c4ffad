//! One injection file: a buffer, where its lines are in it, and an index over one field.
//!
//! All calls of all shards read one file, so its lines are behind a lock that many may hold to read. The text stands once in one buffer; lines are
//! ranges of it, as a file may have millions of them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::RwLock;

use super::printf::{self, Printf};
use super::{FileError, NO_LINE, PAST_END};

/// One injection file, its lines, and the order in which calls take them.
#[derive(Debug)]
pub(super) struct InjectionFile {
    /// The name by which scenarios and messages name the file.
    pub(super) path: PathBuf,
    /// How calls take lines.
    order: LineOrder,
    /// `None`: lines are what they are.
    printf: Option<Printf>,
    /// SEQUENTIAL: the line of the next call.
    next: AtomicU32,
    /// Text and lines; written by `<insert>`, `<replace>` and `<index>`.
    data: RwLock<FileData>,
}

/// The order in which calls take lines: the first line of the file names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineOrder {
    /// One line after the other, from the first again after the last.
    Sequential,
    /// Any line, each as likely as the other.
    Random,
    /// The line of the call's user (`-users`).
    User,
}

/// The lines of a file, which `<insert>` and `<replace>` change.
#[derive(Debug, Default)]
struct FileData {
    /// The text of all lines, one behind the other, without line ends.
    text: Vec<u8>,
    /// In the order of the file; a line's number is its place.
    lines: Vec<LineSpan>,
    /// Bytes of `text` no line refers to, left by `replace`.
    garbage: usize,
    /// `None`: no index was asked for, and `<lookup>` fails.
    index: Option<FieldIndex>,
}

/// A line in the buffer: four bytes each hold for the 4 GiB a file may have.
#[derive(Debug, Clone, Copy)]
struct LineSpan {
    start: u32,
    length: u32,
}

/// Lines by the value of one field, for `<lookup>`.
#[derive(Debug)]
struct FieldIndex {
    /// The column, from 0.
    field: u32,
    /// The last line counts where several have one value.
    lines: HashMap<Box<[u8]>, u32>,
}

impl InjectionFile {
    /// Reads the order from the first line and a row from each other one.
    pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<InjectionFile, FileError> {
        let fail = |line, message| FileError { file: path.to_owned(), line, message };
        if u32::try_from(bytes.len()).is_err() {
            return Err(fail(0, "larger than 4 GiB: split it".to_owned()));
        }
        // A byte order mark, as some spreadsheets write it.
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let mut rows = bytes.split(|byte| *byte == b'\n').map(|row| row.strip_suffix(b"\r").unwrap_or(row));
        let header = String::from_utf8_lossy(rows.next().unwrap_or_default()).into_owned();
        let order = order_of(&header).ok_or_else(|| {
            fail(1, format!("expected SEQUENTIAL, RANDOM or USER, found '{}'", header.trim()))
        })?;
        let printf = printf::parse_header(&header).map_err(|message| fail(1, message))?;
        let mut data = FileData::default();
        // As in SIPp a blank line ends the file.
        for (number, row) in (2..).zip(rows.take_while(|row| !row.is_empty())) {
            // A comment.
            if row[0] == b'#' {
                continue;
            }
            if printf.is_some() {
                printf::check(row).map_err(|message| fail(number, message))?;
            }
            data.push(row);
        }
        if data.lines.is_empty() {
            return Err(fail(2, "expected a line of fields, found none".to_owned()));
        }
        Ok(InjectionFile {
            path: path.to_owned(),
            order,
            printf,
            next: AtomicU32::new(0),
            data: RwLock::new(data),
        })
    }

    pub(super) fn line_count(&self) -> u32 {
        self.count(&self.data.read())
    }

    pub(super) fn is_by_user(&self) -> bool {
        self.order == LineOrder::User
    }

    /// The number of lines that calls see: a PRINTF file has as many as it says.
    fn count(&self, data: &FileData) -> u32 {
        self.printf.as_ref().map_or(data.lines.len() as u32, |printf| printf.lines)
    }

    /// The line of a new call; `NO_LINE` without a user in a USER file, `PAST_END` for more users than lines.
    pub(super) fn next_line(&self, user: u32, random: u64) -> u32 {
        let count = self.line_count();
        match self.order {
            LineOrder::Random => {
                // The upper half of the product is even over 0..count.
                ((u128::from(random) * u128::from(count)) >> 64) as u32
            }
            LineOrder::Sequential => {
                let step = |line: u32| Some(if line + 1 < count { line + 1 } else { 0 });
                self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step).unwrap_or(0)
            }
            LineOrder::User if user == 0 => NO_LINE,
            LineOrder::User if user > count => PAST_END,
            LineOrder::User => user - 1,
        }
    }

    /// Appends a field. A line or field that is not there gives nothing.
    pub(super) fn write_field(&self, line: u32, field: u32, out: &mut Vec<u8>) -> Result<(), String> {
        let data = self.data.read();
        let count = self.count(&data);
        if line == PAST_END {
            return Err(format!("{} has {count} lines, fewer than there are users", self.path.display()));
        }
        if line >= count {
            return Ok(());
        }
        // A PRINTF file repeats its few lines.
        let real = line as usize % data.lines.len();
        let Some(text) = data.field(real, field) else { return Ok(()) };
        match &self.printf {
            None => out.extend_from_slice(text),
            Some(printf) => printf.write(text, line, out),
        }
        Ok(())
    }

    /// `-infindex` and the action `<index>`: builds the index anew.
    pub(super) fn index(&self, field: u32) {
        let mut data = self.data.write();
        let count = self.count(&data);
        let mut lines = HashMap::with_capacity(count as usize);
        for line in 0..count {
            lines.insert(self.key(&data, line, field), line);
        }
        data.index = Some(FieldIndex { field, lines });
    }

    /// The index key of a line: the field as a call would read it.
    fn key(&self, data: &FileData, line: u32, field: u32) -> Box<[u8]> {
        let text = data.field(line as usize % data.lines.len(), field).unwrap_or_default();
        match &self.printf {
            None => text.into(),
            Some(printf) => {
                let mut key = Vec::new();
                printf.write(text, line, &mut key);
                key.into()
            }
        }
    }

    /// The line with this value in the indexed field.
    pub(super) fn lookup(&self, key: &[u8]) -> Result<Option<u32>, String> {
        let data = self.data.read();
        match &data.index {
            Some(index) => Ok(index.lines.get(key).copied()),
            None => {
                let name = self.path.display();
                Err(format!("{name} has no index: give -infindex {name} FIELD or use the action index"))
            }
        }
    }

    /// A new last line.
    pub(super) fn insert(&self, value: &[u8]) -> Result<(), String> {
        self.refuse_printf()?;
        let mut data = self.data.write();
        self.check_room(&data, value)?;
        data.push(value);
        let line = data.lines.len() as u32 - 1;
        self.put_in_index(&mut data, line);
        Ok(())
    }

    /// Another text for a line; the index follows.
    pub(super) fn replace(&self, line: u32, value: &[u8]) -> Result<(), String> {
        self.refuse_printf()?;
        let mut data = self.data.write();
        let count = data.lines.len() as u32;
        if line >= count {
            let name = self.path.display();
            return Err(format!("{name} has lines 0 to {}, not {line}", count - 1));
        }
        self.check_room(&data, value)?;
        if let Some(field) = data.index.as_ref().map(|index| index.field) {
            let key = self.key(&data, line, field);
            let index = data.index.as_mut().expect("it was there above");
            // Another line may have taken the key since.
            if index.lines.get(&key) == Some(&line) {
                index.lines.remove(&key);
            }
        }
        data.replace(line as usize, value);
        self.put_in_index(&mut data, line);
        Ok(())
    }

    fn put_in_index(&self, data: &mut FileData, line: u32) {
        if let Some(field) = data.index.as_ref().map(|index| index.field) {
            let key = self.key(data, line, field);
            data.index.as_mut().expect("it was there above").lines.insert(key, line);
        }
    }

    /// The bytes of the lines, removed ones included.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.data.read().text.len()
    }

    /// Lines of a PRINTF file stand for many, so none can be changed alone.
    fn refuse_printf(&self) -> Result<(), String> {
        match self.printf {
            None => Ok(()),
            Some(_) => Err(format!("{} is a PRINTF file: its lines cannot be changed", self.path.display())),
        }
    }

    /// Offsets have 32 bits.
    fn check_room(&self, data: &FileData, value: &[u8]) -> Result<(), String> {
        // The two highest line numbers say something else.
        let lines = data.lines.len() < PAST_END as usize - 1;
        if lines && u32::try_from(data.text.len() + value.len()).is_ok() {
            Ok(())
        } else {
            Err(format!("{} is full: 4 GiB of lines", self.path.display()))
        }
    }
}

impl FileData {
    fn push(&mut self, row: &[u8]) {
        let span = self.append(row);
        self.lines.push(span);
    }

    /// Adds text to the buffer and gives its place.
    fn append(&mut self, row: &[u8]) -> LineSpan {
        // Callers have checked that offsets fit.
        let span = LineSpan { start: self.text.len() as u32, length: row.len() as u32 };
        self.text.extend_from_slice(row);
        span
    }

    fn line(&self, line: usize) -> &[u8] {
        let LineSpan { start, length } = self.lines[line];
        &self.text[start as usize..][..length as usize]
    }

    /// `None` when the line has fewer.
    fn field(&self, line: usize, field: u32) -> Option<&[u8]> {
        self.line(line).split(|byte| *byte == b';').nth(field as usize)
    }

    /// In place where the new text fits, otherwise at the end; what is left over is garbage.
    fn replace(&mut self, line: usize, value: &[u8]) {
        let LineSpan { start, length } = self.lines[line];
        if value.len() <= length as usize {
            self.text[start as usize..][..value.len()].copy_from_slice(value);
            self.lines[line].length = value.len() as u32;
            self.garbage += length as usize - value.len();
        } else {
            self.lines[line] = self.append(value);
            self.garbage += length as usize;
        }
        // Compacted when half is garbage, and not for a few kilobytes.
        if self.garbage > self.text.len() / 2 && self.garbage > 4_096 {
            self.compact();
        }
    }

    /// A scenario that replaces at every call must not grow for ever.
    fn compact(&mut self) {
        let text = std::mem::take(&mut self.text);
        self.text.reserve(text.len() - self.garbage);
        self.garbage = 0;
        for line in 0..self.lines.len() {
            let LineSpan { start, length } = self.lines[line];
            self.lines[line] = self.append(&text[start as usize..][..length as usize]);
        }
    }
}

/// SIPp looks for the word anywhere in the line, in this order.
fn order_of(header: &str) -> Option<LineOrder> {
    [("RANDOM", LineOrder::Random), ("SEQUENTIAL", LineOrder::Sequential), ("USER", LineOrder::User)]
        .into_iter()
        .find_map(|(word, order)| header.contains(word).then_some(order))
}
