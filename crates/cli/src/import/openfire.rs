//! Accounts of Openfire from a dump of its tables: `ofUser`, and `ofUserScram` of newer versions.
//!
//! Before `ofUserScram` the keys of SCRAM-SHA-1 stood in `ofUser`. Accounts without a password or keys in `ofUser` wait in memory for their
//! keys; those that get none are told. Contacts and names come with its export in XML (`chat::pie`).

use std::collections::{HashMap, VecDeque};

use store::{ScramHash, ScramKeys, read_scram_keys};

use super::foreign::{ForeignAccount, ForeignCredentials, ForeignPiece};
use super::row_files::RowFormat;
use super::rows::Row;
use crate::limits;

/// The tables that are read.
pub(super) const TABLES: &[&str] = &["ofuser", "ofuserscram"];

/// Rows of Openfire.
#[derive(Default)]
pub(super) struct Openfire {
    /// Rows of `ofUser` were there.
    has_users: bool,
    /// Accounts of `ofUser` whose keys are still to come, by name.
    waiting: HashMap<Box<str>, Waiting>,
    /// The account whose keys are being read: there is a row for each hash.
    current: Option<ForeignAccount>,
}

/// An account without credentials.
struct Waiting {
    line: u64,
    name: Box<str>,
    is_encrypted: bool,
}

impl RowFormat for Openfire {
    fn row(&mut self, row: &Row, domain: &str, out: &mut VecDeque<ForeignPiece>) {
        let is_scram = &*row.table == "ofuserscram" || (row.table.is_empty() && row.has("mechanism"));
        if is_scram { self.scram(row, domain, out) } else { self.user(row, domain, out) }
    }

    fn end(&mut self, out: &mut VecDeque<ForeignPiece>) {
        out.extend(self.current.take().map(ForeignPiece::Account));
        let mut left: Vec<_> = self.waiting.drain().collect();
        left.sort_by_key(|(_, waiting)| waiting.line);
        for (user, Waiting { line, is_encrypted, .. }) in left {
            let what = if is_encrypted {
                "a password that only Openfire can read (encryptedPassword); expected plainPassword or keys of SCRAM: export \
                 the accounts by its plugin User Import Export, or set the password with belfry account add"
            } else {
                "no password and no keys of SCRAM; expected one of them: set the password with belfry account add"
            };
            out.push_back(ForeignPiece::Bad { line, what: format!("user {user}: {what}") });
        }
    }
}

impl Openfire {
    fn user(&mut self, row: &Row, domain: &str, out: &mut VecDeque<ForeignPiece>) {
        self.has_users = true;
        if !row.get("email").is_empty() {
            out.push_back(ForeignPiece::Other("e-mail addresses".into(), 1));
        }
        let (user, password) = (row.get("username"), row.get("plainpassword"));
        let credentials = match row.get("storedkey") {
            _ if !password.is_empty() => Some(Ok(ForeignCredentials::Password(password.into()))),
            "" => None,
            _ => Some(keys(row, "SCRAM-SHA-1").map(ForeignCredentials::Keys)),
        };
        let (line, name) = (row.line, row.get("name").into());
        match credentials {
            Some(Ok(credentials)) => {
                let (user, domain) = (user.into(), domain.into());
                out.push_back(ForeignPiece::Account(ForeignAccount {
                    line,
                    user,
                    domain,
                    name,
                    credentials,
                }));
            }
            Some(Err(what)) => {
                out.push_back(ForeignPiece::Bad { line, what: format!("user {user}: {what}") });
            }
            None if self.waiting.len() >= limits::IMPORT_WAITING => {
                let limit = limits::IMPORT_WAITING;
                let what = format!(
                    "user {user}: more than {limit} accounts without a password; expected fewer in one dump"
                );
                out.push_back(ForeignPiece::Bad { line, what });
            }
            None => {
                let is_encrypted = !row.get("encryptedpassword").is_empty();
                self.waiting.insert(user.into(), Waiting { line, name, is_encrypted });
            }
        }
    }

    /// Keys of one hash. Those of an account that has a password are not needed; a dump without `ofUser` has all accounts here.
    fn scram(&mut self, row: &Row, domain: &str, out: &mut VecDeque<ForeignPiece>) {
        let user = row.get("username");
        let keys = match keys(row, row.get("mechanism")) {
            Ok(keys) => keys,
            Err(what) => {
                let what = format!("user {user}: {what}");
                return out.push_back(ForeignPiece::Bad { line: row.line, what });
            }
        };
        if let Some(current) = self.current.as_mut().filter(|current| *current.user == *user)
            && let ForeignCredentials::Keys(known) = &mut current.credentials
        {
            if known.len() < limits::IMPORT_HASHES {
                known.extend(keys);
            }
            return;
        }
        out.extend(self.current.take().map(ForeignPiece::Account));
        let waiting = self.waiting.remove(user);
        if waiting.is_none() && self.has_users {
            return;
        }
        self.current = Some(ForeignAccount {
            line: row.line,
            user: user.into(),
            domain: domain.into(),
            name: waiting.map_or("".into(), |waiting| waiting.name),
            credentials: ForeignCredentials::Keys(keys),
        });
    }
}

/// The keys of a row, all in base64, as RFC 5803 writes them.
fn keys(row: &Row, mechanism: &str) -> Result<Vec<(ScramHash, ScramKeys)>, String> {
    let [iterations, salt] = ["iterations", "salt"].map(|column| row.get(column));
    let [stored, server] = ["storedkey", "serverkey"].map(|column| row.get(column));
    read_scram_keys(&format!("{mechanism}${iterations}:{salt}${stored}:{server}")).ok_or_else(|| {
        "keys of SCRAM that are none; expected storedKey, serverKey and salt in base64, and iterations"
            .to_owned()
    })
}
