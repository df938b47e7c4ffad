//! Many users at once; and accounts from CSV: `account,password,name`, with or without a line of headings, or
//! `account,scram,name` under these headings, with keys of SCRAM (RFC 5803) in the place of passwords.
//!
//! `account` is `user@domain`, or `user` in the default domain; `name` may be missing. One thread reads, threads on all cores
//! derive the verifiers of passwords, the caller's writes; a batch that is written stays written when a later line is refused.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;

use csv::StringRecord;
use sha2::{Digest as _, Sha256};
use stdx::Instant;

use crate::error::StoreError;
use crate::limits;
use crate::record::Writer;
use crate::scram_text;
use crate::types::{AccountLimits, Address, NewAccount, check_length, check_password};
use crate::verifiers::{MakeKeys, ScramHash, Verifiers};
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
    /// Random bytes, of which values are made that stand in the place of digests where no password is known: no password
    /// fits them. `None`: lines with keys of SCRAM are refused.
    pub unknown: Option<[u8; 32]>,
    /// Ends the import after the users that have been read. The import sets it, too, when a write has failed: an input
    /// that waits for more can give up then.
    pub stop: Arc<AtomicBool>,
    /// Set when the input has been read to its end: a stop after that leaves nothing out.
    pub has_ended: Arc<AtomicBool>,
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
            unknown: None,
            stop: Arc::default(),
            has_ended: Arc::default(),
        }
    }

    /// Random bytes of an account's own, for the digests that an input does not have.
    ///
    /// # Errors
    /// `Invalid`: the options have no random bytes, so that accounts need passwords.
    pub fn stand_in(&self, address: &Address) -> Result<[u8; 32], StoreError> {
        let unknown = self.unknown.ok_or_else(|| StoreError::invalid("keys of SCRAM", "passwords"))?;
        Ok(Sha256::digest([&unknown[..], address.to_string().as_bytes()].concat()).into())
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

/// A user as a source reads it. The import derives the verifiers of its password, on all cores.
#[derive(Clone, PartialEq)]
pub struct SourceUser {
    /// The user. The digests of its verifiers are still to be derived where there is a password; keys of SCRAM that are
    /// there already stay.
    pub user: NewUser,
    /// `None`: the verifiers are complete.
    pub password: Option<Box<str>>,
}

impl SourceUser {
    /// A user with the verifiers of its password.
    fn derive(self, make: Option<MakeKeys>) -> NewUser {
        let SourceUser { mut user, password } = self;
        let Some(password) = password else { return user };
        let NewAccount { address, verifiers, .. } = &mut user.account;
        let mut derived = Verifiers::from_password(&address.user, &address.domain, &password);
        if let Some(make) = make {
            derived = derived.with_scram(&make(&password));
        }
        for hash in [ScramHash::Sha1, ScramHash::Sha256, ScramHash::Sha512] {
            if let Some(keys) = verifiers.scram(hash) {
                derived.set_scram(hash, &keys);
            }
        }
        *verifiers = derived;
        user
    }
}

impl fmt::Debug for SourceUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceUser").field("user", &self.user).finish_non_exhaustive()
    }
}

/// The source of users, one by one.
pub trait Users: Send {
    /// The error of the source, which also carries the errors of the database.
    type Error: From<StoreError> + Send;

    /// `None`: there are no more.
    ///
    /// # Errors
    /// An entry that cannot be read; nothing comes after it.
    fn next(&mut self) -> Result<Option<SourceUser>, Self::Error>;

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
        let (mut read, mut bytes) = (Vec::with_capacity(size), 0);
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
                    weight += user.user.weight();
                    read.push(user);
                    bytes = users.bytes();
                }
                Ok(None) => {
                    options.has_ended.store(true, Ordering::Relaxed);
                    break Some(Ok(()));
                }
                Err(error) => break Some(Err(error)),
            }
        };
        done += weight;
        if !read.is_empty() {
            let batch = Batch { users: derive_all(read, options.keys), bytes };
            if batches.send(Ok(batch)).is_err() {
                return;
            }
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

/// Derives the verifiers of a batch, on all cores; in the order of the batch.
fn derive_all(mut read: Vec<SourceUser>, make: Option<MakeKeys>) -> Vec<NewUser> {
    let derive = |part: Vec<SourceUser>| part.into_iter().map(|user| user.derive(make)).collect::<Vec<_>>();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let least = if make.is_some() { 1 } else { limits::IMPORT_DERIVED };
    let size = read.len().div_ceil(threads).max(least);
    std::thread::scope(|scope| {
        let mut others = Vec::new();
        while read.len() > size {
            let part = read.split_off(read.len() - size);
            others.push(scope.spawn(move || derive(part)));
        }
        let mut users = derive(read);
        for other in others.into_iter().rev() {
            users.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        users
    })
}

/// Reads all of an input as an import would and writes nothing. `seen` is told of each account with its line, and of each line that is none.
///
/// # Errors
/// The input could not be read to its end.
pub fn check(
    input: impl io::Read + Send,
    options: &ImportOptions,
    seen: &mut dyn FnMut(Result<(u64, Address), StoreError>),
) -> Result<(), StoreError> {
    let mut lines = Lines::new(input, options);
    while !options.stop.load(Ordering::Relaxed) {
        match lines.next() {
            Ok(Some(user)) => seen(Ok((lines.line(), user.user.account.address))),
            Ok(None) => break,
            Err(error @ StoreError::Line { .. }) if !lines.is_broken => seen(Err(error)),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Accounts from CSV.
pub(crate) struct Lines<'a, R> {
    reader: csv::Reader<io::Chain<BoundedRows<R>, &'static [u8]>>,
    /// Bytes that were read since the last row.
    since_row: Arc<AtomicUsize>,
    record: StringRecord,
    form: Option<Form>,
    /// The input itself failed, not a line of it: nothing comes after.
    is_broken: bool,
    options: &'a ImportOptions,
}

impl<'a, R: io::Read> Lines<'a, R> {
    /// Every record is made to end in a line feed, the last one too: only then can its line be told from the
    /// reader's count, which is one further. The carriage return of a CRLF stays in the last field.
    pub(crate) fn new(input: R, options: &'a ImportOptions) -> Self {
        let since_row = Arc::default();
        let input = BoundedRows { input, since_row: Arc::clone(&since_row) };
        let reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .terminator(csv::Terminator::Any(b'\n'))
            .buffer_capacity(256 * 1024)
            .from_reader(io::Read::chain(input, &b"\n"[..]));
        Lines { reader, since_row, record: StringRecord::new(), form: None, is_broken: false, options }
    }

    /// The line at which the last record began.
    fn line(&self) -> u64 {
        let inside = self.record.as_slice().bytes().filter(|byte| *byte == b'\n').count() as u64;
        self.reader.position().line().saturating_sub(1 + inside)
    }
}

impl<R: io::Read + Send> Users for Lines<'_, R> {
    type Error = StoreError;

    fn next(&mut self) -> Result<Option<SourceUser>, StoreError> {
        loop {
            let more = self.reader.read_record(&mut self.record).map_err(|error| {
                self.is_broken = matches!(error.kind(), csv::ErrorKind::Io(_));
                unreadable(&error, self.reader.position())
            })?;
            if !more {
                return Ok(None);
            }
            self.since_row.store(0, Ordering::Relaxed);
            let fields = Fields::new(&self.record);
            let heading = if self.form.is_none() { fields.heading() } else { None };
            let form = *self.form.get_or_insert(heading.unwrap_or(Form::Passwords));
            if fields.is_blank() || heading.is_some() {
                continue;
            }
            return fields.user(form, self.options).map(Some).map_err(|error| at_line(self.line(), error));
        }
    }

    fn bytes(&self) -> u64 {
        self.reader.position().byte()
    }
}

/// The input, which fails where a row has no end: a quote that is not closed takes all that follows into one field.
struct BoundedRows<R> {
    input: R,
    since_row: Arc<AtomicUsize>,
}

impl<R: io::Read> io::Read for BoundedRows<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.since_row.load(Ordering::Relaxed) > limits::IMPORT_LINE {
            let text = format!("a row of more than {} KiB", limits::IMPORT_LINE >> 10);
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let read = self.input.read(buffer)?;
        self.since_row.fetch_add(read, Ordering::Relaxed);
        Ok(read)
    }
}

/// The second field of the lines.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `password`.
    Passwords,
    /// `scram`.
    Keys,
}

struct Fields<'a> {
    account: &'a str,
    /// The password, or keys of SCRAM.
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

    /// An account may be called "account", but then its password is neither "password" nor "scram".
    fn heading(&self) -> Option<Form> {
        let is = |field: &str, name: &str| field.trim().eq_ignore_ascii_case(name);
        let form = [("password", Form::Passwords), ("scram", Form::Keys)];
        let form = form.into_iter().find(|(name, _)| is(self.password, name)).map(|(_, form)| form);
        form.filter(|_| is(self.account, "account"))
    }

    fn user(&self, form: Form, options: &ImportOptions) -> Result<SourceUser, StoreError> {
        if !(2..=3).contains(&self.count) {
            let found = if self.count == 1 { "1 field".into() } else { format!("{} fields", self.count) };
            // A spreadsheet of a country with a decimal comma writes semicolons.
            let hint = if self.count == 1 && self.account.contains(';') {
                ": commas between the fields, in place of the semicolons"
            } else {
                ""
            };
            let expected = format!("account,password,name (name may be missing){hint}");
            return Err(StoreError::invalid(found, expected));
        }
        let address =
            Address::parse(self.account, options.default_domain.as_deref())?.with_addable_domain()?;
        let (verifiers, password) = match form {
            Form::Passwords => {
                check_password(self.password)?;
                (Verifiers::underived(), Some(self.password.into()))
            }
            Form::Keys => (self.keys(&address, options)?, None),
        };
        check_length("name", self.name.len(), limits::MAX_DISPLAY_NAME)?;
        let account = NewAccount {
            address,
            display_name: self.name.into(),
            verifiers,
            limits: AccountLimits::default(),
            created_at: options.now,
        };
        let user = NewUser { account, chat: Vec::new() };
        Ok(SourceUser { user, password })
    }

    fn keys(&self, address: &Address, options: &ImportOptions) -> Result<Verifiers, StoreError> {
        // The error must not repeat the field, which may be a password after all.
        let expected = "SCRAM-SHA-256$ITERATIONS:SALT$STORED:SERVER (RFC 5803), in base64, also of SCRAM-SHA-1 and SCRAM-SHA-512";
        let keys =
            scram_text::read(self.password).ok_or_else(|| StoreError::invalid("keys of SCRAM", expected))?;
        Ok(Verifiers::without_password(&options.stand_in(address)?).with_scram(&keys))
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
