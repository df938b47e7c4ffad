//! `ringer xmpp accounts`: files from which a server makes the accounts and rosters of a load.
//!
//! The same flags as of the load describe the users, so that the accounts made are exactly those that sign in later.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use lab_xmpp::{ImportFormat, UserDirectory};

use super::flags::{FLAGS, XmppFlags};
use super::people;
use crate::whole_file;

/// Flags of the load that describe its users.
const OF_PEOPLE: [&str; 8] =
    ["--users", "--domain", "--name", "--password", "--users-file", "--first", "--contacts", "--monitors"];

/// The formats with what to do with each, and the flags that describe users.
pub(super) fn help(program: &str) -> String {
    let mut text = format!(
        "usage: {program} accounts --domain NAME --format belfry|ejabberd|prosody|csv --out FILE|FOLDER [FLAG VALUE ...]\n\n\
         belfry    one file for `belfry account import FILE --scram` while no node runs, with rosters (XEP-0227)\n\
         ejabberd  the same for `ejabberdctl import_piefxis FILE`\n\
         prosody   a folder for the storage \"xep0227\", or for prosody-migrator, with rosters\n\
         csv       lines for `belfry account import FILE --scram`, beside a node, too; --befriend yes makes rosters\n\n"
    );
    for flag in FLAGS.iter().filter(|flag| OF_PEOPLE.contains(&flag.name)) {
        text += &format!("  {:<24} {}\n", format!("{} {}", flag.name, flag.value), flag.about);
    }
    text
}

/// The words of `ringer xmpp accounts`, understood.
pub(super) struct AccountsArguments {
    /// The users, as the flags describe them.
    users: XmppFlags,
    domain: String,
    format: ImportFormat,
    /// The file to write, or the folder for Prosody.
    place: PathBuf,
}

impl AccountsArguments {
    /// # Errors
    /// The mistake, and what was expected.
    pub(super) fn parse(words: &[String]) -> Result<AccountsArguments, String> {
        let mut users = XmppFlags::new()?;
        let (mut format, mut place) = (None, None);
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value =
                |what: &str| words.next().cloned().ok_or_else(|| format!("{word}: expected {what}"));
            match word.as_str() {
                "--format" => {
                    format = Some(ImportFormat::parse(&value("belfry, ejabberd, prosody or csv")?)?);
                }
                "--out" => place = Some(PathBuf::from(value("a file, or a folder for prosody")?)),
                _ => {
                    let known = FLAGS.iter().find(|flag| flag.name == word && OF_PEOPLE.contains(&flag.name));
                    let flag = known.ok_or_else(|| {
                        format!("{word:?}: expected --format, --out or one of {}", OF_PEOPLE.join(", "))
                    })?;
                    (flag.set)(&mut users, value(flag.value)?).map_err(|error| format!("{word} {error}"))?;
                }
            }
        }
        Ok(AccountsArguments {
            domain: users.domain.clone().ok_or("no --domain: expected that of the accounts")?,
            format: format.ok_or("no --format: expected belfry, ejabberd, prosody or csv")?,
            place: place.ok_or("no --out: expected a file, or a folder for prosody")?,
            users,
        })
    }
}

/// Writes the files; what was written, and what to do with it.
///
/// # Errors
/// The fault, and what was expected.
pub(super) fn write(words: &[String]) -> Result<String, String> {
    let AccountsArguments { users, domain, format, place } = AccountsArguments::parse(words)?;
    let people = people(&users, &domain)?;
    let shown = place.display();
    write_files(&people, format, &place)
        .map_err(|error| format!("{shown}: {error}; mend that and give the same command again"))?;
    let next = match format {
        ImportFormat::Belfry => {
            format!("belfry account import {shown} --scram, while no node runs; then belfry serve")
        }
        ImportFormat::Csv => {
            format!("belfry account import {shown} --scram; then --befriend yes makes the rosters")
        }
        ImportFormat::Ejabberd => format!("ejabberdctl import_piefxis {shown}"),
        ImportFormat::Prosody => format!("with storage = \"xep0227\" copy {shown}/*.xml to the data folder"),
    };
    Ok(format!("{} accounts of {domain} in {shown}\nnext: {next}", people.all()))
}

/// One file, or for Prosody one file a user, each written whole or not at all.
fn write_files(people: &UserDirectory, format: ImportFormat, place: &Path) -> io::Result<()> {
    let whole = |path: &Path, write: &dyn Fn(&mut BufWriter<File>) -> io::Result<()>| {
        // Passwords stand in it.
        whole_file::write(path, 0o600, write)
    };
    match format {
        ImportFormat::Csv => whole(place, &|out| people.write_csv(out)),
        ImportFormat::Belfry | ImportFormat::Ejabberd => {
            whole(place, &|out| people.write_pie(0..people.all(), out))
        }
        ImportFormat::Prosody => {
            fs::create_dir_all(place)?;
            for user in 0..people.all() {
                let path = place.join(format!("{}.xml", people.address(user)));
                whole(&path, &|out| people.write_pie(user..=user, out))?;
            }
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn files_are_written_for_each_server() {
        let folder = tempfile::tempdir().unwrap();
        for (format, name, first, files) in [
            ("csv", "a.csv", "account,password", 0),
            ("belfry", "b.xml", "<?xml", 0),
            ("ejabberd", "a.xml", "<?xml", 0),
            ("prosody", "many", "<?xml", 6),
        ] {
            let place = folder.path().join(name);
            let line = format!(
                "--users 4 --contacts 2 --monitors 1 --domain d --format {format} --out {}",
                place.display()
            );
            let said = write(&words(&line)).unwrap();
            assert!(said.starts_with("6 accounts of d"), "{said}");
            let file = if files == 0 { place.clone() } else { place.join("user0@d.xml") };
            assert!(fs::read_to_string(file).unwrap().starts_with(first));
            assert_eq!(fs::read_dir(&place).map_or(0, Iterator::count), files);
        }
    }

    #[test]
    fn mistakes_name_the_expected_input() {
        for (text, says) in [
            ("--domain d --format belfry", "no --out"),
            ("--domain d --out x", "no --format"),
            ("--format belfry --out x", "no --domain"),
            ("--format openfire", "expected belfry, ejabberd, prosody or csv"),
            ("--logins 3", "expected --format, --out or one of --users"),
            ("--users", "--users: expected N"),
            ("--domain d --format belfry --out /nowhere/at/all", "/nowhere/at/all: No such file"),
        ] {
            let error = write(&words(text)).expect_err(text);
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
