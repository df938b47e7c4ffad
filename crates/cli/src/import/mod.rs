//! `belfry account import`: a million accounts in minutes, with a bar; and accounts with all that belongs to them, from
//! files of XEP-0227; or from other servers in their own forms (`foreign`).
//!
//! The order: the input is opened and looked into (`source`), a running node is looked for, the database is opened for an import (a larger cache, fewer
//! checkpoints), and accounts are written in batches. Each batch is whole, so the same command takes up an import that was interrupted.
//!
//! It writes to the database itself. Accounts alone come in beside a running node too, which is told afterwards; rosters do
//! not, because the node has them in memory.

mod aliases;
mod asterisk;
mod check;
mod files;
mod foreign;
mod input;
mod kamailio;
mod openfire;
mod people;
mod report;
mod row_files;
mod rows;
mod summary;

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Args;
use config::Config;
use control::{Client, ClientError, Request};
use net::clock::Clock;
use store::{Address, Admin, Database, Existing, ImportOptions, Imported, StoreError, Write};

use self::files::{Files, cannot_read};
use self::foreign::{ForeignInput, ForeignSource, ForeignUsers, Server};
use self::people::People;
use self::report::Report;
use super::backend::make_database;
use super::error::CliError;
use super::stop::Stop;
use super::table::grouped;
use crate::limits;

#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// Lines of account,password,name (name may be missing), or of account,scram,name under these headings, with keys of
    /// SCRAM (RFC 5803); or XEP-0227, as ejabberd and Prosody export it, with all that
    /// belongs to the accounts: a file, or a folder of them; or what --from names. - is standard input
    file: PathBuf,
    /// Another server's own form: asterisk, kamailio or openfire
    #[arg(long, value_name = "SERVER")]
    from: Option<Server>,
    /// Domain of accounts for which the file names none [default: default_domain of the configuration]
    #[arg(long)]
    domain: Option<String>,
    /// Leave accounts that are there as they are [default: set their password and name, and add what comes with them]
    #[arg(long)]
    skip_existing: bool,
    /// Make keys of SCRAM as well, some 10 ms an account; without, chat clients have to send their password once
    #[arg(long)]
    scram: bool,
    /// Write nothing; name all that would not be imported, with file, line and what was expected
    #[arg(long)]
    check: bool,
}

/// The input of an import.
/// Told apart by the first character (`look_into`), by `--from`, or by being a folder.
enum Source {
    /// Lines of accounts, and the size of the file for the bar.
    Lines(Box<dyn Read + Send>, Option<Arc<AtomicU64>>),
    /// Files of XEP-0227.
    Files(Files),
    /// Another server's own form.
    Foreign(Box<dyn ForeignSource>),
}

/// One import under way.
struct Import {
    /// The database, opened by this command.
    admin: Admin,
    /// The running node, which is to be told.
    node: Option<Client>,
    /// The node has to be told of changed passwords. All nodes that share a server's database hear of them from it.
    tells_passwords: bool,
    options: ImportOptions,
    clock: Clock,
    stop: Stop,
}

impl ImportArgs {
    pub(super) fn run(self, config: &Config) -> Result<(), CliError> {
        let clock = Clock::new();
        let domain = self.domain.as_deref().unwrap_or(&config.sip.default_domain);
        let mut options = ImportOptions::new(Some(domain), clock.now());
        // For accounts without a password: their verifiers derive from bytes that are not in the file.
        options.unknown = Some(random()?);
        let stop = Stop::on_interrupt(options.stop.clone())?;
        // Opened before the database: a misspelt name changes nothing.
        let file = if self.file.is_dir() { None } else { Some(open(&self.file, &stop)?) };
        if self.check {
            let source = self.source(file, domain, &stop)?;
            return check::run(source, &self.file, (&options, &stop), config);
        }
        // Also decides the batch, and whether rosters may be imported at all.
        let node = running(config)?;
        let database = make_database(config)?;
        let tells_passwords = node.is_some() && matches!(database, Database::Sqlite(_));
        let mut admin = Admin::new(&database.for_import())?;
        // A disk that is full or read-only is told now, not after the first batch.
        admin.write(&Write::Probe { at: clock.now() })?;
        if self.skip_existing {
            options.existing = Existing::Skip;
        }
        options.keys = self.scram.then_some(chat_store::keys::make);
        let source = self.source(file, domain, &stop)?;
        let import = Import { admin, node, tells_passwords, options, clock, stop };
        match source {
            Source::Lines(input, size) => import.lines(&self.file, (input, size), config),
            Source::Files(files) => import.files(files, config),
            Source::Foreign(source) => import.foreign(source, config),
        }
    }

    /// `None`: it is a folder.
    fn source(
        &self,
        file: Option<(Box<dyn Read + Send>, Option<u64>)>,
        domain: &str,
        stop: &Stop,
    ) -> Result<Source, CliError> {
        let foreign = |server: Server, file: Option<Box<dyn Read + Send>>| {
            let input = ForeignInput { path: &self.file, file, domain: domain.into(), stop };
            Ok(Source::Foreign(foreign::open(server, input)?))
        };
        let Some((input, size)) = file else {
            return match self.from.filter(|server| server.has_folders()) {
                Some(server) => foreign(server, None),
                None => Ok(Source::Files(Files::of_folder(&self.file, domain, stop.clone())?)),
            };
        };
        let (input, is_xml) = look_into(input).map_err(|error| cannot_read(&self.file, &error))?;
        Ok(match (is_xml, self.from, &*self.file) {
            (false, Some(server), _) => return foreign(server, Some(input)),
            (false, None, _) => Source::Lines(input, size.map(|size| Arc::new(AtomicU64::new(size)))),
            (true, _, file) if file == Path::new("-") => {
                Source::Files(Files::of_input(input, domain, stop.clone()))
            }
            (true, _, file) => Source::Files(Files::of_file(file, input, domain, stop.clone())?),
        })
    }
}

impl Import {
    /// Accounts only, beside a node or without one. A node reads the accounts again, and ends sessions of accounts whose password is another now.
    fn lines(
        mut self,
        file: &Path,
        (input, size): (Box<dyn Read + Send>, Option<Arc<AtomicU64>>),
        config: &Config,
    ) -> Result<(), CliError> {
        if self.node.is_some() {
            // Smaller transactions: the node waits for the database's lock meanwhile.
            self.options.batch = limits::IMPORT_BATCH_BESIDE_NODE;
        }
        let served = served(&mut self.admin, config)?;
        let mut report = Report::new(size, self.clock);
        let (mut changed, tells_passwords) = (Vec::new(), self.tells_passwords);
        let result = self.admin.import(self.stop.guard(input), &self.options, &mut |progress, others| {
            if tells_passwords {
                changed.extend_from_slice(others);
            }
            report.update(progress);
        });
        report.finish();
        let result = result.map_err(|error| LineError { file, error });
        let is_of_file = |error: &LineError<'_>| matches!(error.error, StoreError::Line { .. });
        // Before all that may fail for the same reason as the import, as when the database goes away.
        let concluded = conclude(result, is_of_file, &report, is_cut(&self.stop, &self.options, true));
        let told = tell(self.node, &changed);
        let added = added_domains(&mut self.admin, &served).and_then(|added| say_added(&added));
        first_failure([concluded, told, added])
    }

    /// Accounts of another server, then their aliases; beside a node or without one.
    fn foreign(mut self, source: Box<dyn ForeignSource>, config: &Config) -> Result<(), CliError> {
        if self.node.is_some() {
            self.options.batch = limits::IMPORT_BATCH_BESIDE_NODE;
        }
        let served = served(&mut self.admin, config)?;
        let total = source.total().map(|total| Arc::new(AtomicU64::new(total)));
        let mut report = Report::new(total, self.clock);
        let (mut changed, tells_passwords) = (Vec::new(), self.tells_passwords);
        let mut users = ForeignUsers::new(source, &self.options, limits::IMPORT_NAMED);
        let result = self.admin.import_users(&mut users, &self.options, &mut |progress, others| {
            if tells_passwords {
                changed.extend_from_slice(others);
            }
            report.update(progress);
        });
        report.finish();
        let told = tell(self.node, &changed);
        let added = added_domains(&mut self.admin, &served);
        // The database is opened again for the aliases, or the node asked.
        drop(self.admin);
        let (mut aliases, mut has_aliases) = (Ok(()), users.aliases.is_empty());
        if result.is_ok() && !self.stop.is_set() {
            let all = std::mem::take(&mut users.aliases);
            match aliases::write(all, &mut users.told, &self.stop, config) {
                Ok(are_all_there) => has_aliases = are_all_there,
                Err(error) => aliases = Err(error),
            }
        }
        let failure = users.told.failure("not imported");
        if result.is_err() {
            failure.iter().for_each(|text| eprintln!("{text}"));
        }
        let is_of_file = |error: &CliError| matches!(error, CliError::Other(_));
        let is_cut = is_cut(&self.stop, &self.options, has_aliases);
        // Before what may have failed for the same reason as the import, as when the database goes away.
        let concluded = conclude(result, is_of_file, &report, is_cut);
        let added = added.and_then(|added| say_added(&added));
        first_failure([concluded, told, added, aliases])?;
        io::stdout().lock().write_all(users.told.notes().as_bytes())?;
        failure.map_or(Ok(()), |text| Err(CliError::Other(text)))
    }

    /// Accounts with rosters, messages and the like: only without a node.
    fn files(mut self, files: Files, config: &Config) -> Result<(), CliError> {
        if self.node.is_some() {
            let text = "a node runs, and has rosters in memory, so they cannot be imported beside it: end it, give the \
                        same command again, and start it; nothing has been written";
            return Err(CliError::Other(text.into()));
        }
        let mut report = Report::new(Some(files.total()), self.clock);
        let served = served(&mut self.admin, config)?;
        let mut people = People::new(files, &self.options, served, limits::IMPORT_NAMED);
        let result =
            self.admin.import_users(&mut people, &self.options, &mut |progress, _| report.update(progress));
        report.finish();
        let failure = people.told.failure("not imported");
        if result.is_err() {
            failure.iter().for_each(|text| eprintln!("{text}"));
        }
        let is_of_file = |error: &CliError| matches!(error, CliError::Other(_));
        conclude(result, is_of_file, &report, is_cut(&self.stop, &self.options, true))?;
        io::stdout().lock().write_all(people.told.notes().as_bytes())?;
        // A start cannot be prevented from here, so it is at least noticed.
        if running(config)?.is_some() {
            eprintln!("a node was started meanwhile: start it again, so that it knows of all");
        }
        failure.map_or(Ok(()), |text| Err(CliError::Other(text)))
    }
}

/// An error with its place: `accounts.csv:3: …`; of standard input `line 3: …`.
struct LineError<'a> {
    file: &'a Path,
    error: StoreError,
}

impl Display for LineError<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.error {
            StoreError::Line { line, found, expected } if self.file != Path::new("-") => {
                write!(f, "{}:{line}: {found}; expected {expected}", self.file.display())
            }
            error => error.fmt(f),
        }
    }
}

/// Tells a running node that accounts have changed, and which of them got another password: sessions that signed in by the old one end.
fn tell(node: Option<Client>, changed: &[Address]) -> Result<(), CliError> {
    let Some(mut node) = node else { return Ok(()) };
    node.ask(&Request::AccountsChanged)?;
    for some in changed.chunks(control::limits::CONTROL_ACCOUNTS) {
        node.ask(&Request::PasswordsChanged(some.to_vec()))?;
    }
    Ok(())
}

fn random() -> Result<[u8; 32], CliError> {
    let mut bytes = [0; 32];
    let failed =
        |error: getrandom::Error| CliError::Other(format!("the system gives no randomness: {error}"));
    getrandom::fill(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

fn running(config: &Config) -> Result<Option<Client>, CliError> {
    match Client::connect(&config.server.control) {
        Ok(client) => Ok(Some(client)),
        Err(ClientError::NotRunning { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Domains of the configuration and of the database: users of others are not imported.
fn served(admin: &mut Admin, config: &Config) -> Result<BTreeSet<Box<str>>, CliError> {
    let known = admin.domains()?.into_iter().map(|domain| domain.name);
    Ok(config.sip.domains.iter().cloned().chain(known).collect())
}

/// Domains that were not served before the import: a slip in the file makes one as well.
fn added_domains(admin: &mut Admin, served: &BTreeSet<Box<str>>) -> Result<Vec<Box<str>>, CliError> {
    let all = admin.domains()?.into_iter().map(|domain| domain.name);
    Ok(all.filter(|name| !served.contains(name)).collect())
}

/// The first of the domains that the import added, by name.
fn say_added(added: &[Box<str>]) -> Result<(), CliError> {
    let (named, others) = added.split_at(limits::IMPORT_NAMED.min(added.len()));
    for name in named {
        say!(
            "domain added: {name}; if it is a slip: belfry account remove its accounts, belfry domain remove {name}"
        );
    }
    if !others.is_empty() {
        say!("and {} domains more: belfry domain list", grouped(others.len() as u64));
    }
    Ok(())
}

/// The first failure is the command's; the others are shown before it.
fn first_failure<const N: usize>(results: [Result<(), CliError>; N]) -> Result<(), CliError> {
    let mut failures = results.into_iter().filter_map(Result::err);
    let first = failures.next();
    failures.for_each(|error| eprintln!("belfry: {error}"));
    first.map_or(Ok(()), Err)
}

/// True if Ctrl-C came before all was read and written: nothing is left for the same command otherwise.
fn is_cut(stop: &Stop, options: &ImportOptions, has_aliases: bool) -> bool {
    let is_whole = has_aliases && options.has_ended.load(Ordering::Relaxed);
    stop.is_interrupted() && !is_whole
}

/// The end in words: an error says how many are in, and that the same command goes on from there. `is_of_file`: the input is at fault, and not the
/// database. `is_cut`: Ctrl-C came before all was read.
fn conclude<E: Display>(
    result: Result<Imported, E>,
    is_of_file: impl Fn(&E) -> bool,
    report: &Report,
    is_cut: bool,
) -> Result<(), CliError> {
    let so_far = report.last.imported;
    match result {
        _ if is_cut => Err(CliError::Other(format!(
            "interrupted; accounts in: {} ({}); the same command takes up the rest",
            grouped(so_far.total()),
            counts(so_far)
        ))),
        Err(error) => {
            let first = if is_of_file(&error) { "mend the file" } else { "when that is mended" };
            let next = if is_of_file(&error) { "and give" } else { "give" };
            Err(CliError::Other(format!(
                "{error}; accounts in before it: {}; {first} {next} the same command again",
                grouped(so_far.total())
            )))
        }
        Ok(imported) => {
            let seconds = report.seconds();
            let rate = imported.total() as f64 / seconds.max(0.001);
            say!(
                "accounts: {} in {seconds:.1} s, {rate:.0}/s: {}",
                grouped(imported.total()),
                counts(imported)
            );
            if imported.refused > 0 {
                say!("messages without room beside those that wait: {}", grouped(imported.refused));
            }
            Ok(())
        }
    }
}

fn counts(imported: Imported) -> String {
    let Imported { added, updated, skipped, refused: _ } = imported;
    format!("{} added, {} updated, {} skipped", grouped(added), grouped(updated), grouped(skipped))
}

/// The input, and its size where it has one.
fn open(file: &Path, stop: &Stop) -> Result<(Box<dyn Read + Send>, Option<u64>), CliError> {
    if file == Path::new("-") {
        return Ok((input::waiting(io::stdin(), stop)?, None));
    }
    let input = File::open(file).map_err(|error| cannot_read(file, &error))?;
    let metadata = input.metadata().map_err(|error| cannot_read(file, &error))?;
    if metadata.is_file() {
        return Ok((Box::new(input), Some(metadata.len())));
    }
    Ok((input::waiting(input, stop)?, None))
}

/// Tells whether the first character that is no space is `<`: no line of accounts begins so. The returned input still
/// has every byte.
fn look_into(mut input: Box<dyn Read + Send>) -> io::Result<(Box<dyn Read + Send>, bool)> {
    let mut seen = Vec::new();
    let first = loop {
        let mut byte = [0];
        if input.read(&mut byte)? == 0 {
            break None;
        }
        seen.push(byte[0]);
        // A byte order mark is skipped, too.
        // Bytes and not characters: the mark is three bytes of UTF-8.
        let is_before = byte[0].is_ascii_whitespace() || b"\xEF\xBB\xBF".contains(&byte[0]);
        if !is_before || seen.len() > limits::IMPORT_LOOK {
            break Some(byte[0]);
        }
    };
    Ok((Box::new(io::Cursor::new(seen).chain(input)), first == Some(b'<')))
}
