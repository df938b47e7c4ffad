//! Users of XEP-0227 as the database takes them, and what there is to say of those that it does not.
//!
//! [`People`] is the source of `Admin::import_users`: the store pulls one user after the other, derives the verifiers of passwords on several
//! threads, and writes. Users that cannot be taken are noted in [`ImportSummary`] and passed over.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use chat::pie::{Credentials, Fault, Piece, SkippedElements, User, read_user};
use chat_store::keys;
use store::{Address, ImportOptions, NewAccount, NewUser, SourceUser, StoreError, Users, Verifiers};

use super::files::Files;
use crate::error::CliError;
use crate::limits;
use crate::table::{grouped, printable};

/// The users of all files, one after the other.
pub(super) struct People<'a> {
    files: Files,
    options: &'a ImportOptions,
    /// Domains whose users are taken.
    served: BTreeSet<Box<str>>,
    /// All that there is to say at the end.
    pub(super) told: ImportSummary,
}

/// The summary at the end of an import.
#[derive(Default)]
pub(super) struct ImportSummary {
    /// So many are named of each kind; the others are counted.
    named: usize,
    /// Users who were not taken: the first of them with the reason.
    bad: u64,
    first: Vec<String>,
    /// Accounts of domains that are not served here.
    strangers: BTreeMap<Box<str>, u64>,
    /// Accounts without a password, and the first of them.
    keys_only: u64,
    first_keys_only: Vec<String>,
    /// Elements that have no place in the database, by name.
    passed: SkippedElements,
}

impl<'a> People<'a> {
    pub(super) fn new(
        files: Files,
        options: &'a ImportOptions,
        served: BTreeSet<Box<str>>,
        named: usize,
    ) -> People<'a> {
        People { files, options, served, told: ImportSummary { named, ..ImportSummary::default() } }
    }

    /// One user. `None`: it is not taken, and the summary says why.
    fn read(&mut self, line: u64, host: &str, element: &xmpp::Element) -> Option<SourceUser> {
        let taken = read_user(element, host, self.options.now).and_then(|user| {
            // Counted by domain and passed over: the operator adds the domain and imports again.
            if !self.served.contains(user.address.domain()) {
                *self.told.strangers.entry(user.address.domain().into()).or_default() += 1;
                return Ok(None);
            }
            let account = self.account(&user)?;
            Ok(Some((account, user)))
        });
        match taken {
            Ok(taken) => taken.map(|(account, user)| self.take(account, user)),
            Err(Fault { found, expected }) => {
                let name = element.attr("name").map_or(String::new(), |name| format!("user {name}: "));
                self.bad(line, &format!("{name}{found}; expected {expected}"));
                None
            }
        }
    }

    /// The account of a user, whose password or keys it takes.
    fn account(&self, user: &User) -> Result<NewAccount, Fault> {
        let of_store = |error| match error {
            StoreError::Invalid { what, expected } => Fault { found: what.into(), expected: expected.into() },
            other => Fault { found: other.to_string().into(), expected: "an account".into() },
        };
        let address = Address::new(user.address.local().unwrap_or_default(), user.address.domain())
            .map_err(of_store)?;
        let Credentials { password, keys } = &user.credentials;
        let verifiers = match password {
            Some(password) => {
                store::types::check_password(&password.0).map_err(of_store)?;
                // The import derives them.
                Verifiers::underived()
            }
            None => without_password()?,
        };
        let kept: Vec<_> = keys.iter().map(|(hash, keys)| keys::kept(*hash, keys.clone())).collect();
        Ok(NewAccount {
            verifiers: verifiers.with_scram(&kept),
            address,
            display_name: "".into(),
            limits: store::AccountLimits::default(),
            created_at: self.options.now,
        })
    }

    /// Counts what is to be told of the user, and makes the rows of its roster and messages.
    fn take(&mut self, account: NewAccount, user: User) -> SourceUser {
        if user.credentials.password.is_none() {
            self.told.keys_only += 1;
            if self.told.first_keys_only.len() < self.told.named.min(limits::IMPORT_NAMED) {
                self.told.first_keys_only.push(account.address.to_string());
            }
        }
        for (what, count) in user.passed {
            *self.told.passed.entry(what).or_default() += count;
        }
        let now = self.options.now;
        // The same rows as a client's own changes would make, so that an imported account is like any other.
        let chat = user.changes.into_iter().map(|change| chat_store::rows::write_of(now, change)).collect();
        let password = user.credentials.password.map(|password| password.0);
        SourceUser { user: NewUser { account, chat }, password }
    }

    /// Notes a user that is not taken, with file and line.
    fn bad(&mut self, line: u64, what: &str) {
        self.told.bad += 1;
        // A file with a million bad users must not fill the memory with a million lines.
        if self.told.first.len() < self.told.named {
            self.told.first.push(format!("{}: {}", self.files.place(line), printable(what)));
        }
    }
}

/// Verifiers for an account without a password. They derive from random bytes, so the keys in the file are not enough
/// to compute a digest.
fn without_password() -> Result<Verifiers, Fault> {
    let mut unknown = [0; 32];
    let failed = |error: getrandom::Error| Fault {
        found: format!("no randomness: {error}").into(),
        expected: "a system that gives some".into(),
    };
    getrandom::fill(&mut unknown).map_err(failed)?;
    Ok(Verifiers::without_password(&unknown))
}

impl Users for People<'_> {
    type Error = CliError;

    fn next(&mut self) -> Result<Option<SourceUser>, CliError> {
        while let Some(piece) = self.files.next()? {
            match piece {
                Piece::User { line, host, element } => {
                    if let Some(user) = self.read(line, &host, &element) {
                        return Ok(Some(user));
                    }
                }
                Piece::Unreadable { line, found, expected } => {
                    self.bad(line, &format!("{found}; expected {expected}"));
                }
                Piece::Other(name) => *self.told.passed.entry(name).or_default() += 1,
                // `Files` has followed it.
                Piece::Include { .. } => {}
            }
        }
        Ok(None)
    }

    fn bytes(&self) -> u64 {
        self.files.bytes()
    }
}

impl ImportSummary {
    /// Necessary differences between the imported accounts and the file.
    pub(super) fn notes(&self) -> String {
        let mut notes = String::new();
        if self.keys_only > 0 {
            let _ = writeln!(
                notes,
                "without a password: {} came with keys of SCRAM only, so chat clients sign in by those and phones \
                 cannot register until it is set with: belfry account passwd ACCOUNT ({})",
                grouped(self.keys_only),
                named(&self.first_keys_only, self.keys_only, ", ")
            );
        }
        if !self.passed.is_empty() {
            let all: Vec<String> = self
                .passed
                .iter()
                .map(|(what, count)| format!("{} {}", grouped(*count), printable(what)))
                .collect();
            let _ = writeln!(notes, "passed over: {}", all.join(", "));
        }
        notes
    }

    /// `None`: every user of the file is here.
    pub(super) fn failure(&self, heading: &str) -> Option<String> {
        let mut lines = Vec::new();
        for (host, count) in &self.strangers {
            let host = printable(host);
            let count = grouped(*count);
            lines.push(format!(
                "{count} users of {host}, which is not served here; add it with: belfry domain add {host}"
            ));
        }
        if self.bad > 0 {
            lines.push(named(&self.first, self.bad, "\n"));
        }
        let total = self.bad + self.strangers.values().sum::<u64>();
        (total > 0).then(|| format!("{heading}: {}\n{}", grouped(total), lines.join("\n")))
    }
}

/// The first ones, and how many more there are.
fn named(first: &[String], all: u64, between: &str) -> String {
    let more = all - first.len() as u64;
    let mut text = first.join(between);
    if more > 0 {
        let _ = write!(text, "{between}and {} more", grouped(more));
    }
    text
}
