//! The content of a file of accounts: one account a line, `NAME:SECRET[:DISPLAY NAME[:GROUP,GROUP]]`.

use std::collections::{BTreeMap, HashMap};

use super::secret::{ScramSha256Keys, Secret};
use crate::ldap::{DirectoryRole, MemberQuery};
use crate::limits;

/// A line that is no account.
#[derive(Debug, PartialEq, Eq)]
pub struct LineFault {
    /// From 1. 0: the file as a whole.
    pub line: usize,
    /// The mistake and what was expected, without the secret.
    pub what: String,
}

/// One account.
struct FileAccount {
    secret: Secret,
    display_name: Box<str>,
    groups: Box<[Box<str>]>,
}

/// The accounts of a file.
pub struct FileAccounts {
    accounts: HashMap<Box<str>, FileAccount>,
    /// The secret whose comparison costs the most: stands in for unknown users.
    costliest: Option<Secret>,
    have_keys: bool,
}

impl FileAccounts {
    /// Reads the content of a file.
    ///
    /// # Errors
    /// The first line that is no account, or a file without accounts or with too many.
    pub(super) fn parse(text: &str) -> Result<FileAccounts, LineFault> {
        let mut accounts = HashMap::new();
        for (index, line) in text.lines().enumerate() {
            let at = |what: String| LineFault { line: index + 1, what };
            let line = line.trim_end();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, account) = parse_line(line).map_err(at)?;
            if accounts.len() == limits::FILE_ACCOUNTS {
                return Err(at(format!("more than {} accounts", limits::FILE_ACCOUNTS)));
            }
            if accounts.insert(name.into(), account).is_some() {
                return Err(at(format!("{name:?} stands twice; expected each name once")));
            }
        }
        if accounts.is_empty() {
            // A file that was emptied by mistake would lock out a domain.
            return Err(LineFault { line: 0, what: "no account in it".to_owned() });
        }
        let secrets = || accounts.values().map(|account: &FileAccount| &account.secret);
        let costliest = secrets().max_by_key(|secret| secret.cost()).cloned();
        let have_keys = secrets().all(|secret| matches!(secret, Secret::Scram(_)));
        Ok(FileAccounts { accounts, costliest, have_keys })
    }

    /// True if each account has keys of SCRAM-SHA-256. Clients take the strongest mechanism that is offered and do not fall back, so
    /// one account without keys is a reason to offer none.
    pub fn have_keys(&self) -> bool {
        self.have_keys
    }

    /// The keys of a user. `None`: there is no such user, or the file has no keys of it.
    pub fn keys(&self, user: &str) -> Option<&ScramSha256Keys> {
        match &self.accounts.get(user)?.secret {
            Secret::Scram(keys) => Some(keys),
            Secret::Bcrypt(_) | Secret::Sha512Crypt(_) | Secret::SaltedSha1 { .. } => None,
        }
    }

    /// The parameters of all keys, iterations and bytes of the salt, with the number of accounts that have them: challenges for unknown accounts are
    /// made by them.
    pub fn key_parameters(&self) -> BTreeMap<(u32, usize), u64> {
        let mut parameters = BTreeMap::new();
        for account in self.accounts.values() {
            if let Secret::Scram(keys) = &account.secret {
                *parameters.entry((keys.iterations, keys.salt.len())).or_default() += 1;
            }
        }
        parameters
    }

    /// The display name of a user; empty if there is none.
    pub fn display_name(&self, user: &str) -> &str {
        self.accounts.get(user).map_or("", |account| &account.display_name)
    }

    /// True if this is the password of that user. Slow, and as slow for an unknown one.
    pub(crate) fn is_password(&self, user: &str, password: &str) -> bool {
        match self.accounts.get(user) {
            Some(account) => account.secret.is_of(password),
            None => {
                let stand_in = self.costliest.as_ref().map(|secret| secret.is_of(password));
                // Without `black_box` the compiler could leave the work out.
                let _ = std::hint::black_box(stand_in);
                false
            }
        }
    }

    /// The greatest role that a user has by its groups.
    pub(crate) fn role(&self, user: &str, roles: &[(DirectoryRole, Box<str>)]) -> Option<DirectoryRole> {
        let groups = &self.accounts.get(user)?.groups;
        roles.iter().filter(|(_, group)| groups.contains(group)).map(|(role, _)| *role).max()
    }

    /// For each group that is asked for, those of the users that are in it.
    pub(crate) fn members(&self, query: &MemberQuery) -> Vec<Vec<Box<str>>> {
        let is_in = |user: &str, group: &str| {
            let groups = self.accounts.get(user).map_or(&[][..], |account| &account.groups);
            groups.iter().any(|one| **one == *group)
        };
        let members =
            |group| query.users.iter().filter(|user| is_in(user, group)).cloned().collect::<Vec<_>>();
        query.groups.iter().map(|group| members(group)).collect()
    }
}

/// One line with its name.
fn parse_line(line: &str) -> Result<(&str, FileAccount), String> {
    let (name, rest) = line.split_once(':').ok_or("no colon; expected NAME:SECRET")?;
    check_name(name)?;
    let (secret, columns) = Secret::split(rest);
    let secret = Secret::parse(secret)?;
    let (display_name, groups) = match columns.unwrap_or_default().split_once(':') {
        Some((display_name, groups)) => (display_name, groups),
        None => (columns.unwrap_or_default(), ""),
    };
    let display_name = display_name.trim();
    if display_name.len() > limits::DISPLAY_NAME {
        return Err(format!("a display name of more than {} bytes", limits::DISPLAY_NAME));
    }
    if groups.contains(':') {
        return Err("a colon behind the groups; expected NAME:SECRET:DISPLAY NAME:GROUP,GROUP".to_owned());
    }
    let groups: Box<[Box<str>]> =
        groups.split(',').map(str::trim).filter(|group| !group.is_empty()).map(Box::from).collect();
    if groups.len() > limits::FILE_GROUPS {
        return Err(format!("more than {} groups", limits::FILE_GROUPS));
    }
    Ok((name, FileAccount { secret, display_name: display_name.into(), groups }))
}

/// A name that no prepared local part of an address equals would be a user that never signs in (RFC 7622 §3.3).
fn check_name(name: &str) -> Result<(), String> {
    let is_wrong =
        |letter: char| letter.is_whitespace() || letter.is_control() || "\"&'/<>@".contains(letter);
    if name.is_empty() || name.len() > limits::USER || name.contains(is_wrong) {
        return Err(format!("{name:?} is no local part of an address; expected one without the domain"));
    }
    if name.to_lowercase() != name {
        return Err(format!("{name:?} has capital letters; expected {:?}", name.to_lowercase()));
    }
    Ok(())
}

impl std::fmt::Debug for FileAccounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileAccounts").field("accounts", &self.accounts.len()).finish_non_exhaustive()
    }
}
