//! Accounts from CSV: `account,password,name`, with or without a line of headings.
//!
//! `account` is `user@domain`, or `user` in the default domain; `name` may be missing. One thread reads and
//! hashes, the caller's writes; a batch that is written stays written when a later line is refused.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;

use csv::StringRecord;
use stdx::Instant;

use crate::error::StoreError;
use crate::limits;
use crate::record::Writer;
use crate::types::{Address, NewAccount, check_length};

/// What to do with an account that is there already, and with a second line for one account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existing {
    /// Set its password and, when one is given, its name.
    #[default]
    Update,
    Skip,
}

#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// For accounts without `@domain`.
    pub default_domain: Option<Box<str>>,
    pub existing: Existing,
    /// Accounts in one transaction.
    pub batch: usize,
    /// Stands as the time the accounts were made.
    pub now: Instant,
}

impl ImportOptions {
    pub fn new(default_domain: Option<&str>, now: Instant) -> Self {
        let default_domain = default_domain.map(Box::from);
        ImportOptions { default_domain, existing: Existing::default(), batch: limits::IMPORT_BATCH, now }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    pub added: u64,
    pub updated: u64,
    pub skipped: u64,
}

impl Imported {
    pub fn total(&self) -> u64 {
        self.added + self.updated + self.skipped
    }
}

/// After every batch. The bytes, against the size of the file, give the time left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub imported: Imported,
    /// Of the input, up to the last account that is on disk.
    pub bytes: u64,
}

struct Batch {
    accounts: Vec<NewAccount>,
    bytes: u64,
}

pub(crate) fn run(
    writer: &mut dyn Writer,
    input: impl io::Read + Send,
    options: &ImportOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Imported, StoreError> {
    // One batch being written, one ready: the reader is never more than that ahead.
    let (send, receive) = sync_channel(1);
    std::thread::scope(|scope| {
        Builder::new()
            .name("import-reader".into())
            .spawn_scoped(scope, move || read_all(input, options, &send))
            .map_err(|error| StoreError::Internal { detail: format!("cannot start a thread: {error}") })?;
        write_all(writer, &receive, options.existing, progress)
        // Returning drops `receive`, which ends the reader if it is still at work.
    })
}

fn write_all(
    writer: &mut dyn Writer,
    batches: &Receiver<Result<Batch, StoreError>>,
    existing: Existing,
    progress: &mut dyn FnMut(Progress),
) -> Result<Imported, StoreError> {
    let mut so_far = Progress::default();
    while let Ok(batch) = batches.recv() {
        let batch = batch?;
        let imported = writer.import(&batch.accounts, existing)?;
        so_far.imported.added += imported.added;
        so_far.imported.updated += imported.updated;
        so_far.imported.skipped += imported.skipped;
        so_far.bytes = batch.bytes;
        progress(so_far);
    }
    Ok(so_far.imported)
}

/// Ends with the input, with the first bad line (what came before it is sent first), or when nobody listens.
fn read_all(input: impl io::Read, options: &ImportOptions, batches: &SyncSender<Result<Batch, StoreError>>) {
    let mut lines = Lines::new(input, options);
    let batch_size = options.batch.max(1);
    loop {
        let mut accounts = Vec::with_capacity(batch_size);
        let end = lines.fill(&mut accounts, batch_size);
        let bytes = lines.reader.position().byte();
        if !accounts.is_empty() && batches.send(Ok(Batch { accounts, bytes })).is_err() {
            return;
        }
        match end {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                let _ = batches.send(Err(error));
                return;
            }
        }
    }
}

struct Lines<'a, R> {
    reader: csv::Reader<R>,
    record: StringRecord,
    first: bool,
    options: &'a ImportOptions,
}

impl<'a, R: io::Read> Lines<'a, R> {
    fn new(input: R, options: &'a ImportOptions) -> Self {
        let reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .buffer_capacity(256 * 1024)
            .from_reader(input);
        Lines { reader, record: StringRecord::new(), first: true, options }
    }

    /// True: the batch is full and there may be more.
    fn fill(&mut self, accounts: &mut Vec<NewAccount>, batch: usize) -> Result<bool, StoreError> {
        while accounts.len() < batch {
            if !self.reader.read_record(&mut self.record).map_err(|error| unreadable(&error))? {
                return Ok(false);
            }
            let first = std::mem::take(&mut self.first);
            if first && is_heading(&self.record) {
                continue;
            }
            accounts.push(account(&self.record, first, self.options)?);
        }
        Ok(true)
    }
}

/// An account may be called "account", but then its password is not called "password".
fn is_heading(record: &StringRecord) -> bool {
    let is = |index: usize, word: &str| field(record, index).trim().eq_ignore_ascii_case(word);
    // A spreadsheet starts its file with a byte order mark.
    let account = field(record, 0).trim_start_matches('\u{feff}').trim();
    account.eq_ignore_ascii_case("account") && is(1, "password")
}

fn field(record: &StringRecord, index: usize) -> &str {
    record.get(index).unwrap_or_default()
}

fn account(record: &StringRecord, first: bool, options: &ImportOptions) -> Result<NewAccount, StoreError> {
    let line = record.position().map_or(0, csv::Position::line);
    if !(2..=3).contains(&record.len()) {
        let found = format!("{} fields", record.len());
        return Err(StoreError::Line {
            line,
            found,
            expected: "account,password,name (name may be missing)".into(),
        });
    }
    let name = field(record, 0);
    let name = if first { name.trim_start_matches('\u{feff}') } else { name };
    let build = || {
        let address = Address::parse(name.trim(), options.default_domain.as_deref())?;
        let mut account = NewAccount::with_password(address, field(record, 1), options.now)?;
        account.display_name = field(record, 2).trim().into();
        check_length("name", account.display_name.len(), limits::MAX_DISPLAY_NAME)?;
        Ok(account)
    };
    build().map_err(|error| at_line(line, error))
}

fn at_line(line: u64, error: StoreError) -> StoreError {
    match error {
        StoreError::Invalid { what, expected } => StoreError::Line { line, found: what, expected },
        other => other,
    }
}

fn unreadable(error: &csv::Error) -> StoreError {
    let line = error.position().map_or(0, csv::Position::line);
    match error.kind() {
        csv::ErrorKind::Utf8 { .. } => StoreError::Line {
            line,
            found: "bytes that are not UTF-8".into(),
            expected: "a file saved as UTF-8".into(),
        },
        _ => StoreError::Line { line, found: error.to_string(), expected: "readable CSV".into() },
    }
}
