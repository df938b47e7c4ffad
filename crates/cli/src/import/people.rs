//! Users of XEP-0227 as the database takes them, and what there is to say of those that it does not.
//!
//! [`People`] is the source of `Admin::import_users`: the store pulls one user after the other, derives the verifiers of passwords on several
//! threads, and writes. Users that cannot be taken are noted in `ImportSummary` and passed over.

use std::collections::BTreeSet;

use chat::pie::{Credentials, Fault, Piece, User, read_user};
use chat_store::keys;
use store::{Address, ImportOptions, NewAccount, NewUser, SourceUser, StoreError, Users, Verifiers};

use super::files::Files;
use super::summary::ImportSummary;
use crate::error::CliError;

/// The users of all files, one after the other.
pub(super) struct People<'a> {
    files: Files,
    options: &'a ImportOptions,
    /// Domains whose users are taken.
    served: BTreeSet<Box<str>>,
    /// All that there is to say at the end.
    pub(super) told: ImportSummary,
}

impl<'a> People<'a> {
    pub(super) fn new(
        files: Files,
        options: &'a ImportOptions,
        served: BTreeSet<Box<str>>,
        named: usize,
    ) -> People<'a> {
        People { files, options, served, told: ImportSummary::new(named) }
    }

    /// One user. `None`: it is not taken, and the summary says why.
    fn read(&mut self, line: u64, host: &str, element: &xmpp::Element) -> Option<SourceUser> {
        let taken = read_user(element, host, self.options.now).and_then(|user| {
            // Counted by domain and passed over: the operator adds the domain and imports again.
            if !self.served.contains(user.address.domain()) {
                self.told.stranger(user.address.domain());
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
    fn take(&mut self, mut account: NewAccount, user: User) -> SourceUser {
        if user.display_name.len() <= store::limits::MAX_DISPLAY_NAME {
            account.display_name = user.display_name;
        } else {
            self.told.pass("names that are too long", 1);
        }
        match user.credentials.password {
            Some(_) => self.told.passwords += 1,
            None => self.told.keys_only(&account.address),
        }
        for (what, count) in user.passed {
            self.told.pass(&what, count);
        }
        let is_contact = |change: &&chat::Change| matches!(change, chat::Change::Roster { .. });
        self.told.contacts += user.changes.iter().filter(is_contact).count() as u64;
        let now = self.options.now;
        // The same rows as a client's own changes would make, so that an imported account is like any other.
        let chat = user.changes.into_iter().map(|change| chat_store::rows::write_of(now, change)).collect();
        let password = user.credentials.password.map(|password| password.0);
        SourceUser { user: NewUser { account, chat }, password }
    }

    /// Notes a user that is not taken, with file and line.
    fn bad(&mut self, line: u64, what: &str) {
        self.told.bad(&self.files.place(line), what);
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
                Piece::Other(name) => self.told.pass(&name, 1),
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
