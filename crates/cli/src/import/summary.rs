//! The end of an import in words: the counts of what came, and what was not taken, with the reasons.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use chat::pie::SkippedElements;
use store::Address;

use crate::limits;
use crate::table::{grouped, printable};

/// The summary at the end of an import.
#[derive(Default)]
pub(super) struct ImportSummary {
    /// So many are named of each kind; the others are counted.
    named: usize,
    /// Accounts that came with a password.
    pub(super) passwords: u64,
    /// Contacts of all accounts.
    pub(super) contacts: u64,
    /// Aliases that were made, and those that were there already.
    pub(super) aliases: (u64, u64),
    /// Users who were not taken: the first of them with the reason.
    bad: u64,
    first: Vec<String>,
    /// Accounts of domains that are not served here.
    strangers: BTreeMap<Box<str>, u64>,
    /// Accounts with keys of SCRAM only.
    keys_only: FirstOf,
    /// Accounts with an HA1 of MD5 only.
    md5_only: FirstOf,
    /// Elements that have no place in the database, by name.
    passed: SkippedElements,
}

/// A count, and the first accounts that it is of.
#[derive(Default)]
struct FirstOf {
    count: u64,
    first: Vec<String>,
}

impl FirstOf {
    fn add(&mut self, address: &Address, named: usize) {
        self.count += 1;
        if self.first.len() < named.min(limits::IMPORT_NAMED) {
            self.first.push(address.to_string());
        }
    }
}

impl ImportSummary {
    /// `named`: of each kind of fault so many are named.
    pub(super) fn new(named: usize) -> ImportSummary {
        ImportSummary { named, ..ImportSummary::default() }
    }

    /// Notes something that is not taken, with its file and line.
    pub(super) fn bad(&mut self, place: &str, what: &str) {
        self.bad += 1;
        if self.first.len() < self.named {
            self.first.push(format!("{place}: {}", printable(what)));
        }
    }

    /// Counts a kind of data that has no place here, in the plural.
    pub(super) fn pass(&mut self, what: &str, count: u64) {
        *self.passed.entry(what.into()).or_default() += count;
    }

    /// Counts an account of a domain that is not served here.
    pub(super) fn stranger(&mut self, domain: &str) {
        *self.strangers.entry(domain.into()).or_default() += 1;
    }

    /// Notes an account that came with keys of SCRAM only.
    pub(super) fn keys_only(&mut self, address: &Address) {
        self.keys_only.add(address, self.named);
    }

    /// Notes an account that came with an HA1 of MD5 only.
    pub(super) fn md5_only(&mut self, address: &Address) {
        self.md5_only.add(address, self.named);
    }

    /// The data that came with the accounts, and necessary differences between them and the input.
    pub(super) fn notes(&self) -> String {
        let mut notes = String::new();
        let (added, there) = self.aliases;
        let came = [
            (self.passwords, "passwords"),
            (self.md5_only.count, "digests of MD5"),
            (self.keys_only.count, "keys of SCRAM only"),
            (self.contacts, "contacts"),
            (added, "aliases"),
            (there, "aliases that were there already"),
        ];
        let came = came.iter().filter(|(count, _)| *count > 0);
        let came: Vec<String> = came.map(|(count, what)| format!("{} {what}", grouped(*count))).collect();
        if !came.is_empty() {
            let _ = writeln!(notes, "with them: {}", came.join(", "));
        }
        if self.keys_only.count > 0 {
            let _ = writeln!(
                notes,
                "without a password: {} came with keys of SCRAM only, so chat clients sign in by those and phones \
                 cannot register until it is set with: belfry account passwd ACCOUNT ({})",
                grouped(self.keys_only.count),
                named(&self.keys_only.first, self.keys_only.count, ", ")
            );
        }
        if self.md5_only.count > 0 {
            let _ = writeln!(
                notes,
                "without a password: {} came with an HA1 of MD5 only, so phones register by MD5 and by no other \
                 algorithm: until a chat client has sent the password (PLAIN), or it is set with: belfry account passwd \
                 ACCOUNT, phones that know SHA-256 need [sip] algorithms = [\"MD5\"] ({})",
                grouped(self.md5_only.count),
                named(&self.md5_only.first, self.md5_only.count, ", ")
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

    /// `None`: all of the input is here.
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
