//! `belfry account import --check`: all that an import would refuse, and nothing written, not even an empty record.
//!
//! Reads all of the input as the import does and goes on after each mistake, which an import does not. The result is an error if there is any.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::BuildHasher as _;
use std::path::Path;

use config::Config;
use control::{Ask, Listing};
use store::{Address, ImportOptions, Users};

use super::files::Files;
use super::foreign::{ForeignSource, ForeignUsers};
use super::people::People;
use super::{LineError, Source, Stop};
use crate::backend::{Backend, unexpected};
use crate::error::CliError;
use crate::limits;
use crate::table::{grouped, printable};

/// `source` is read to its end. A domain that is not served is a mistake in files of XEP-0227; an import of the others adds it.
pub(super) fn run(
    source: Source,
    file: &Path,
    (options, stop): (&ImportOptions, &Stop),
    config: &Config,
) -> Result<(), CliError> {
    let mut seen = SeenAccounts { served: served(config)?, ..SeenAccounts::default() };
    let checked = match source {
        Source::Lines(input, _) => lines(file, stop.guard(input), options, &mut seen),
        Source::Files(files) => people(files, options, &mut seen),
        Source::Foreign(source) => Ok(foreign(source, options, &mut seen)),
    };
    if stop.is_interrupted() {
        return Err(CliError::Other("interrupted; the rest has not been looked at".into()));
    }
    let failure = checked?;
    say!("good: {} accounts; nothing was written", grouped(seen.good));
    seen.say()?;
    failure.map_or(Ok(()), |text| Err(CliError::Other(text)))
}

/// The mistakes in words, if any.
type Checked = Result<Option<String>, CliError>;

/// The good accounts of an input.
#[derive(Default)]
struct SeenAccounts {
    served: BTreeSet<Box<str>>,
    good: u64,
    /// Domains that the import would add, with their accounts.
    added: BTreeMap<Box<str>, u64>,
    /// Hashes of the accounts so far: their names would be several times as large.
    hashes: HashSet<u64>,
    hasher: RandomState,
    /// Accounts that stand there once more, and the first of them.
    repeated: u64,
    first: Vec<String>,
}

impl SeenAccounts {
    /// `line`: 0 where the input has none.
    fn add(&mut self, address: &Address, line: u64) {
        self.good += 1;
        if !self.served.contains(&address.domain) {
            *self.added.entry(address.domain.clone()).or_default() += 1;
        }
        let hash = self.hasher.hash_one(address);
        if self.hashes.len() < limits::IMPORT_SEEN && self.hashes.insert(hash) || !self.hashes.contains(&hash)
        {
            return;
        }
        self.repeated += 1;
        if self.first.len() < limits::IMPORT_NAMED {
            let place = if line > 0 { format!(" (line {line})") } else { String::new() };
            self.first.push(printable(&format!("{address}{place}")).to_string());
        }
    }

    /// Peculiarities that an import would not refuse.
    fn say(&self) -> Result<(), CliError> {
        for (name, accounts) in self.added.iter().take(limits::IMPORT_NAMED) {
            say!(
                "the import would add the domain {name}, for {} accounts: is it no slip?",
                grouped(*accounts)
            );
        }
        if self.added.len() > limits::IMPORT_NAMED {
            say!("and {} domains more", grouped((self.added.len() - limits::IMPORT_NAMED) as u64));
        }
        if self.repeated > 0 {
            let more = self.repeated - self.first.len() as u64;
            let rest = if more > 0 { format!(" and {} more", grouped(more)) } else { String::new() };
            say!("there more than once, so that the last one counts: {}{rest}", self.first.join(", "));
        }
        Ok(())
    }
}

/// Lines of accounts. The first mistakes are named and the rest counted.
fn lines(
    file: &Path,
    input: impl std::io::Read + Send,
    options: &ImportOptions,
    seen: &mut SeenAccounts,
) -> Checked {
    let (mut bad, mut first) = (0, Vec::new());
    store::import::check(input, options, &mut |line| match line {
        Ok((line, address)) => seen.add(&address, line),
        Err(error) => {
            bad += 1;
            if first.len() < limits::IMPORT_CHECKED {
                let error = LineError { file, error };
                first.push(printable(&error.to_string()).to_string());
            }
        }
    })?;
    if bad == 0 {
        return Ok(None);
    }
    let more = bad - first.len() as u64;
    let rest = if more > 0 { format!("\nand {} more", grouped(more)) } else { String::new() };
    Ok(Some(format!("bad: {}\n{}{rest}", grouped(bad), first.join("\n"))))
}

/// Files of XEP-0227. A mistake in one user is passed over; one in the XML ends the check.
fn people(files: Files, options: &ImportOptions, seen: &mut SeenAccounts) -> Checked {
    let mut people = People::new(files, options, seen.served.clone(), limits::IMPORT_CHECKED);
    let ended = read_all(&mut people, seen);
    Ok(failure_of(people.told.failure("bad"), ended))
}

/// Another server's own form. A mistake in one account is passed over; one in the form itself ends the check.
fn foreign(
    source: Box<dyn ForeignSource>,
    options: &ImportOptions,
    seen: &mut SeenAccounts,
) -> Option<String> {
    let mut users = ForeignUsers::new(source, options, limits::IMPORT_CHECKED);
    let ended = read_all(&mut users, seen);
    failure_of(users.told.failure("bad"), ended)
}

/// The error after which nothing can be read.
fn read_all(users: &mut dyn Users<Error = CliError>, seen: &mut SeenAccounts) -> Option<String> {
    loop {
        match users.next() {
            Ok(Some(user)) => seen.add(&user.user.account.address, 0),
            Ok(None) => return None,
            Err(error) => return Some(error.to_string()),
        }
    }
}

fn failure_of(failure: Option<String>, ended: Option<String>) -> Option<String> {
    let lines: Vec<String> = failure.into_iter().chain(ended).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// The domains of the configuration, and those of the database where there is one.
fn served(config: &Config) -> Result<BTreeSet<Box<str>>, CliError> {
    let mut served: BTreeSet<Box<str>> = config.sip.domains.iter().cloned().collect();
    if crate::database::place(config).is_there() {
        match Backend::open(config)?.ask(Ask::Domains)? {
            Listing::Domains(domains) => served.extend(domains.into_iter().map(|domain| domain.name)),
            other => return Err(unexpected(&other)),
        }
    }
    Ok(served)
}
