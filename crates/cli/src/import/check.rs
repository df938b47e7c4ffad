//! `belfry account import --check`: all that an import would refuse, and nothing written, not even an empty record.
//!
//! Reads all of the input as the import does and goes on after each mistake, which an import does not. The result is an error if there is any.

use std::collections::BTreeSet;
use std::path::Path;

use config::Config;
use control::{Ask, Listing};
use store::{ImportOptions, Users};

use super::files::Files;
use super::foreign::{ForeignSource, ForeignUsers};
use super::people::People;
use super::{LineError, Source, Stop};
use crate::backend::{Backend, unexpected};
use crate::error::CliError;
use crate::limits;
use crate::table::{grouped, printable};

/// `source` is read to its end. Domains are looked up only for files of XEP-0227: lines may name any domain.
pub(super) fn run(
    source: Source,
    file: &Path,
    (options, stop): (&ImportOptions, &Stop),
    config: &Config,
) -> Result<(), CliError> {
    let checked = match source {
        Source::Lines(input, _) => lines(file, stop.guard(input), options),
        Source::Files(files) => people(files, options, served(config)?),
        Source::Foreign(source) => Ok(foreign(source, options)),
    };
    if stop.is_interrupted() {
        return Err(CliError::Other("interrupted; the rest has not been looked at".into()));
    }
    let (good, failure) = checked?;
    say!("good: {} accounts; nothing was written", grouped(good));
    failure.map_or(Ok(()), |text| Err(CliError::Other(text)))
}

/// The good accounts, and the mistakes in words, if any.
type Checked = Result<(u64, Option<String>), CliError>;

/// Lines of accounts. The first mistakes are named and the rest counted.
fn lines(file: &Path, input: impl std::io::Read + Send, options: &ImportOptions) -> Checked {
    let (mut bad, mut first) = (0, Vec::new());
    let good = store::import::check(input, options, &mut |error| {
        bad += 1;
        if first.len() < limits::IMPORT_CHECKED {
            let error = LineError { file, error };
            first.push(printable(&error.to_string()).to_string());
        }
    })?;
    if bad == 0 {
        return Ok((good, None));
    }
    let more = bad - first.len() as u64;
    let rest = if more > 0 { format!("\nand {} more", grouped(more)) } else { String::new() };
    Ok((good, Some(format!("bad: {}\n{}{rest}", grouped(bad), first.join("\n")))))
}

/// Files of XEP-0227. A mistake in one user is passed over; one in the XML ends the check.
fn people(files: Files, options: &ImportOptions, served: BTreeSet<Box<str>>) -> Checked {
    let mut people = People::new(files, options, served, limits::IMPORT_CHECKED);
    let (good, ended) = read_all(&mut people);
    Ok((good, failure_of(people.told.failure("bad"), ended)))
}

/// Another server's own form. A mistake in one account is passed over; one in the form itself ends the check.
fn foreign(source: Box<dyn ForeignSource>, options: &ImportOptions) -> (u64, Option<String>) {
    let mut users = ForeignUsers::new(source, options, limits::IMPORT_CHECKED);
    let (good, ended) = read_all(&mut users);
    (good, failure_of(users.told.failure("bad"), ended))
}

/// The good users, and the error after which nothing can be read.
fn read_all(users: &mut dyn Users<Error = CliError>) -> (u64, Option<String>) {
    let mut good = 0;
    loop {
        match users.next() {
            Ok(Some(_)) => good += 1,
            Ok(None) => return (good, None),
            Err(error) => return (good, Some(error.to_string())),
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
