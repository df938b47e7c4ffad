//! Many users at once; and accounts from CSV: `account,password,name`, with or without a line of headings.
//!
//! `account` is `user@domain`, or `user` in the default domain; `name` may be missing. One thread reads and
//! hashes, the caller's writes; a batch that is written stays written when a later line is refused.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;

use csv::StringRecord;
use stdx::Instant;

use crate::error::StoreError;
use crate::limits;
use crate::record::Writer;
use crate::types::{Address, NewAccount, check_length};
use crate::verifiers::MakeKeys;
use crate::xmpp::XmppWrite;

/// The treatment of an account that exists, and of a second line for one account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existing {
    /// Set its password and, when one is given, its name; what comes with it is added to what it has.
    #[default]
    Update,
    /// Leave the account as it is, and count its line as skipped.
    Skip,
}

/// The options of an import.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// For accounts without `@domain`.
    pub default_domain: Option<Box<str>>,
    /// The treatment of accounts that are in the database already.
    pub existing: Existing,
    /// Accounts, or what takes as much memory, in one transaction at first; grows up to `limits::MAX_IMPORT_BATCH`.
    pub batch: usize,
    /// Stands as the time the accounts were made.
    pub now: Instant,
    /// Derives SCRAM keys of each password. They take milliseconds each, hashes of phones' passwords
    /// microseconds.
    pub keys: Option<MakeKeys>,
    /// Ends the import after the users that have been read. The import sets it, too, when a write has failed: an input
    /// that waits for more can give up then.
    pub stop: Arc<AtomicBool>,
}

impl ImportOptions {
    /// Builds options with the defaults.
    pub fn new(default_domain: Option<&str>, now: Instant) -> Self {
        let default_domain = default_domain.map(Box::from);
        ImportOptions {
            default_domain,
            existing: Existing::default(),
            batch: limits::IMPORT_BATCH,
            now,
            keys: None,
            stop: Arc::default(),
        }
    }
}

/// The counts of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Accounts that were created.
    pub added: u64,
    /// Accounts that existed and were changed.
    pub updated: u64,
    /// Accounts that existed and were left as they were.
    pub skipped: u64,
    /// Messages for which there was no room beside those that waited.
    pub refused: u64,
}

impl Imported {
    /// Accounts read, whatever became of them.
    pub fn total(&self) -> u64 {
        self.added + self.updated + self.skipped
    }
}

/// After every batch. The bytes, against the size of the file, give the time left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The counts so far: everything in them is on disk.
    pub imported: Imported,
    /// Bytes of the input, up to the last user who is on disk.
    pub bytes: u64,
}

/// An account to be made, and what XMPP keeps of it.
#[derive(Clone, Debug, PartialEq)]
pub struct NewUser {
    /// The row of the account.
    pub account: NewAccount,
    /// All of this user. The version of a roster is counted on from the one that it has.
    pub chat: Vec<XmppWrite>,
}

impl NewUser {
    /// In accounts that take as much memory.
    fn weight(&self) -> usize {
        let text = |row: &XmppWrite| match row {
            XmppWrite::Offline { stanza, .. } => stanza.len(),
            XmppWrite::Archive(row) => row.stanza.len(),
            XmppWrite::Item { item, .. } => item.as_ref().map_or(0, |item| item.len()),
            _ => 0,
        };
        let rows = self.chat.iter().map(|row| limits::IMPORT_ROW + text(row) / limits::IMPORT_BYTES);
        1 + rows.sum::<usize>()
    }
}

/// The source of users, one by one.
pub trait Users: Send {
    /// The error of the source, which also carries the errors of the database.
    type Error: From<StoreError> + Send;

    /// `None`: there are no more.
    ///
    /// # Errors
    /// What cannot be read; nothing comes after it.
    fn next(&mut self) -> Result<Option<NewUser>, Self::Error>;

    /// Bytes of the input, up to the last user.
    fn bytes(&self) -> u64;
}

struct Batch {
    users: Vec<NewUser>,
    bytes: u64,
}

pub(crate) fn run<U: Users>(
    writer: &mut dyn Writer,
    users: &mut U,
    options: &ImportOptions,
    progress: &mut dyn FnMut(Progress, &[Address]),
) -> Result<Imported, U::Error> {
    // One batch being written, one ready: the reader is never more than that ahead.
    let (send, receive) = sync_channel(1);
    std::thread::scope(|scope| {
        // Moved in here: the scope waits for the reader, which waits for room in the channel until this is dropped.
        let receive = receive;
        Builder::new()
            .name("import-reader".into())
            .spawn_scoped(scope, move || read_all(users, options, &send))
            .map_err(|error| StoreError::Internal { detail: format!("cannot start a thread: {error}") })?;
        let written = write_all(writer, &receive, options.existing, progress);
        if written.is_err() {
            options.stop.store(true, Ordering::Relaxed);
        }
        written
    })
}

fn write_all<E: From<StoreError>>(
    writer: &mut dyn Writer,
    batches: &Receiver<Result<Batch, E>>,
    existing: Existing,
    progress: &mut dyn FnMut(Progress, &[Address]),
) -> Result<Imported, E> {
    let mut so_far = Progress::default();
    while let Ok(batch) = batches.recv() {
        let batch = batch?;
        let (imported, changed) = writer.import(&batch.users, existing)?;
        so_far.imported.added += imported.added;
        so_far.imported.updated += imported.updated;
        so_far.imported.skipped += imported.skipped;
        so_far.imported.refused += imported.refused;
        so_far.bytes = batch.bytes;
        progress(so_far, &changed);
    }
    Ok(so_far.imported)
}

/// Ends with the users, with the first that cannot be read (what came before it is sent first), when it is told to stop,
/// or when the writer is gone.
fn read_all<U: Users>(users: &mut U, options: &ImportOptions, batches: &SyncSender<Result<Batch, U::Error>>) {
    let (least, most) = match options.keys {
        Some(_) => (options.batch.min(limits::IMPORT_BATCH_WITH_KEYS), limits::IMPORT_BATCH_WITH_KEYS),
        None => (options.batch, limits::MAX_IMPORT_BATCH),
    };
    let mut done = 0;
    loop {
        let size = (done / 4).min(most).max(least).max(1);
        let mut batch = Batch { users: Vec::with_capacity(size), bytes: 0 };
        let mut weight = 0;
        let end = loop {
            if weight >= size {
                break None;
            }
            if options.stop.load(Ordering::Relaxed) {
                break Some(Ok(()));
            }
            match users.next() {
                Ok(Some(user)) => {
                    weight += user.weight();
                    batch.users.push(user);
                    batch.bytes = users.bytes();
                }
                Ok(None) => break Some(Ok(())),
                Err(error) => break Some(Err(error)),
            }
        };
        done += weight;
        if !batch.users.is_empty() && batches.send(Ok(batch)).is_err() {
            return;
        }
        match end {
            None => {}
            Some(Ok(())) => return,
            Some(Err(error)) => {
                let _ = batches.send(Err(error));
                return;
            }
        }
    }
}

/// Reads all of an input as an import would and writes nothing: how many lines are accounts. `bad` is told of each that is
/// not.
///
/// # Errors
/// The input could not be read to its end.
pub fn check(
    input: impl io::Read + Send,
    options: &ImportOptions,
    bad: &mut dyn FnMut(StoreError),
) -> Result<u64, StoreError> {
    let mut lines = Lines::new(input, options);
    let mut good = 0;
    while !options.stop.load(Ordering::Relaxed) {
        match lines.next() {
            Ok(Some(_)) => good += 1,
            Ok(None) => break,
            Err(error @ StoreError::Line { .. }) if !lines.is_broken => bad(error),
            Err(error) => return Err(error),
        }
    }
    Ok(good)
}

/// Accounts from CSV.
pub(crate) struct Lines<'a, R> {
    reader: csv::Reader<io::Chain<R, &'static [u8]>>,
    record: StringRecord,
    first: bool,
    /// The input itself failed, not a line of it: nothing comes after.
    is_broken: bool,
    options: &'a ImportOptions,
}

impl<'a, R: io::Read> Lines<'a, R> {
    /// Every record is made to end in a line feed, the last one too: only then can its line be told from the
    /// reader's count, which is one further. The carriage return of a CRLF stays in the last field.
    pub(crate) fn new(input: R, options: &'a ImportOptions) -> Self {
        let reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .terminator(csv::Terminator::Any(b'\n'))
            .buffer_capacity(256 * 1024)
            .from_reader(input.chain(&b"\n"[..]));
        Lines { reader, record: StringRecord::new(), first: true, is_broken: false, options }
    }

    /// The line at which the last record began.
    fn line(&self) -> u64 {
        let inside = self.record.as_slice().bytes().filter(|byte| *byte == b'\n').count() as u64;
        self.reader.position().line().saturating_sub(1 + inside)
    }
}

impl<R: io::Read + Send> Users for Lines<'_, R> {
    type Error = StoreError;

    fn next(&mut self) -> Result<Option<NewUser>, StoreError> {
        loop {
            let more = self.reader.read_record(&mut self.record).map_err(|error| {
                self.is_broken = matches!(error.kind(), csv::ErrorKind::Io(_));
                unreadable(&error, self.reader.position())
            })?;
            if !more {
                return Ok(None);
            }
            let fields = Fields::new(&self.record);
            let first = std::mem::take(&mut self.first);
            if fields.is_blank() || (first && fields.is_heading()) {
                continue;
            }
            let account = fields.account(self.options).map_err(|error| at_line(self.line(), error))?;
            return Ok(Some(NewUser { account, chat: Vec::new() }));
        }
    }

    fn bytes(&self) -> u64 {
        self.reader.position().byte()
    }
}

struct Fields<'a> {
    account: &'a str,
    password: &'a str,
    name: &'a str,
    count: usize,
}

impl<'a> Fields<'a> {
    fn new(record: &'a StringRecord) -> Self {
        let field = |index| {
            let field: &str = record.get(index).unwrap_or_default();
            if index + 1 == record.len() { field.strip_suffix('\r').unwrap_or(field) } else { field }
        };
        // A spreadsheet starts its file with a byte order mark.
        let account = field(0).trim_start_matches('\u{feff}').trim();
        Fields { account, password: field(1), name: field(2).trim(), count: record.len() }
    }

    fn is_blank(&self) -> bool {
        self.count == 1 && self.account.is_empty()
    }

    /// An account may be called "account", but then its password is not called "password".
    fn is_heading(&self) -> bool {
        self.account.eq_ignore_ascii_case("account") && self.password.trim().eq_ignore_ascii_case("password")
    }

    fn account(&self, options: &ImportOptions) -> Result<NewAccount, StoreError> {
        if !(2..=3).contains(&self.count) {
            let found = if self.count == 1 { "1 field".into() } else { format!("{} fields", self.count) };
            return Err(StoreError::invalid(found, "account,password,name (name may be missing)"));
        }
        let address = Address::parse(self.account, options.default_domain.as_deref())?;
        let mut account = NewAccount::with_password(address, self.password, options.now)?;
        check_length("name", self.name.len(), limits::MAX_DISPLAY_NAME)?;
        account.display_name = self.name.into();
        if let Some(make) = options.keys {
            account.verifiers = account.verifiers.with_scram(&make(self.password));
        }
        Ok(account)
    }
}

fn at_line(line: u64, error: StoreError) -> StoreError {
    match error {
        StoreError::Invalid { what, expected } => StoreError::Line { line, found: what, expected },
        other => other,
    }
}

fn unreadable(error: &csv::Error, after: &csv::Position) -> StoreError {
    let line = after.line().saturating_sub(1).max(1);
    match error.kind() {
        csv::ErrorKind::Utf8 { .. } => StoreError::Line {
            line,
            found: "bytes that are not UTF-8".into(),
            expected: "a file saved as UTF-8".into(),
        },
        _ => StoreError::Line { line, found: error.to_string(), expected: "readable CSV".into() },
    }
}
