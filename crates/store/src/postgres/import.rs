//! Many users at once.

use std::collections::{HashMap, HashSet};

use crate::import::{Existing, Imported, NewUser};
use crate::limits;
use crate::types::{Address, NewAccount, deny_text};
use crate::verifiers::Verifiers;
use crate::xmpp::{RosterRow, XmppWrite, contact_text};

use super::accounts::{domain_id, encoded, has_no_digests};
use super::connection::{Connection, Failure, narrow, seconds, text, values};
use super::xmpp;

/// Accounts in one statement.
const ROWS: usize = 5_000;

/// Adds them, in the caller's transaction. Sorted by address, so neighbours in the index are written together.
pub(super) fn import(
    connection: &mut Connection,
    users: &[NewUser],
    existing: Existing,
) -> Result<(Imported, Vec<Address>), Failure> {
    let mut order: Vec<&NewUser> = users.iter().collect();
    // Stable: of two for one account, the later one comes second.
    order.sort_by(|a, b| {
        let (a, b) = (&a.account.address, &b.account.address);
        a.domain.cmp(&b.domain).then_with(|| a.user.cmp(&b.user))
    });
    let mut importer = Importer {
        has_no_digests: has_no_digests(connection)?,
        existing,
        imported: Imported::default(),
        changed: Vec::new(),
    };
    let mut rest = &order[..];
    while let Some(first) = rest.first() {
        let domain = &first.account.address.domain;
        // Of one domain, and each account once: the second is there already when it comes.
        let is_of_run = |pair: &[&NewUser]| {
            let (one, next) = (&pair[0].account.address, &pair[1].account.address);
            next.domain == *domain && next.user != one.user
        };
        let count = 1 + rest.windows(2).take(ROWS - 1).take_while(|pair| is_of_run(pair)).count();
        let (run, others) = rest.split_at(count);
        let domain = domain_or_new(connection, &first.account)?;
        importer.import_run(connection, domain, run)?;
        rest = others;
    }
    Ok((importer.imported, importer.changed))
}

struct Importer {
    has_no_digests: bool,
    existing: Existing,
    imported: Imported,
    changed: Vec<Address>,
}

impl Importer {
    fn import_run(
        &mut self,
        connection: &mut Connection,
        domain: i64,
        run: &[&NewUser],
    ) -> Result<(), Failure> {
        let added = self.add(connection, domain, run)?;
        let there: Vec<&str> = run
            .iter()
            .map(|user| &*user.account.address.user)
            .filter(|name| !added.contains(*name))
            .collect();
        let mut old = HashMap::new();
        if self.existing == Existing::Update && !there.is_empty() {
            let sql = "SELECT name, verifiers FROM account WHERE domain_id = $1 AND name = ANY($2)";
            for row in connection.query(sql, values![domain, there])? {
                old.insert(row.try_get::<_, String>(0)?, row.try_get::<_, Vec<u8>>(1)?);
            }
        }
        for NewUser { account, chat } in run {
            if added.contains(&*account.address.user) {
                self.imported.added += 1;
            } else if let Some(old) = old.get(&*account.address.user) {
                if self.update(connection, domain, account, old)? {
                    self.changed.push(account.address.clone());
                }
                self.imported.updated += 1;
            } else {
                self.imported.skipped += 1;
                continue;
            }
            self.imported.refused += write_chat(connection, chat)?;
        }
        Ok(())
    }

    /// The names of those that were not there.
    fn add(
        &self,
        connection: &mut Connection,
        domain: i64,
        run: &[&NewUser],
    ) -> Result<HashSet<Box<str>>, Failure> {
        let accounts = || run.iter().map(|user| &user.account);
        let names: Vec<&str> = accounts().map(|account| &*account.address.user).collect();
        let verifiers = accounts().map(|account| encoded(&account.verifiers, self.has_no_digests));
        let verifiers: Vec<Vec<u8>> = verifiers.collect::<Result<_, _>>()?;
        let shown: Vec<_> = accounts().map(|account| text(&account.display_name)).collect();
        let limit = |of: fn(&NewAccount) -> Option<u32>| {
            accounts().map(|account| of(account).map(i64::from)).collect::<Vec<_>>()
        };
        let contacts = limit(|account| account.limits.max_contacts);
        let calls = limit(|account| account.limits.max_calls);
        let rates = limit(|account| account.limits.max_rate);
        let times: Vec<i64> = accounts().map(|account| seconds(account.created_at)).collect();
        let denied: Vec<Option<String>> = accounts().map(|account| deny_text(&account.limits.deny)).collect();
        let sql = "INSERT INTO account \
                   (domain_id, name, verifiers, display_name, max_contacts, max_calls, created_at, max_rate, deny) \
                   SELECT $1, name, verifiers, nullif(shown, ''), contacts, calls, at, rate, denied \
                   FROM unnest($2::text[], $3::bytea[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], \
                   $8::bigint[], $9::text[]) AS given (name, verifiers, shown, contacts, calls, at, rate, denied) \
                   ON CONFLICT DO NOTHING RETURNING name";
        let values = values![domain, names, verifiers, shown, contacts, calls, times, rates, denied];
        connection.query(sql, values)?.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }

    /// True: it had another password.
    fn update(
        &self,
        connection: &mut Connection,
        domain: i64,
        account: &NewAccount,
        old: &[u8],
    ) -> Result<bool, Failure> {
        let new = &account.verifiers;
        let is_new = !new.prove_the_same(&Verifiers::decode(old)?);
        // The keys that were made of the same password since are as good as ever.
        let verifiers = if is_new || (new.are_of_password() && new.has_scram()) {
            encoded(new, self.has_no_digests)?
        } else {
            old.to_vec()
        };
        let sql = "UPDATE account SET verifiers = $3, display_name = coalesce(nullif($4, ''), display_name) \
                   WHERE domain_id = $1 AND name = $2";
        connection
            .execute(sql, values![domain, account.address.user, verifiers, &*text(&account.display_name)])?;
        Ok(is_new)
    }
}

fn domain_or_new(connection: &mut Connection, account: &NewAccount) -> Result<i64, Failure> {
    let sql = "INSERT INTO domain (name, created_at) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    connection.execute(sql, values![account.address.domain, seconds(account.created_at)])?;
    domain_id(connection, &account.address.domain)
}

/// Writes one user's rows of XMPP. Returns how many messages there was no room for.
fn write_chat(connection: &mut Connection, rows: &[XmppWrite]) -> Result<u64, Failure> {
    let mut version = None;
    let mut refused = 0;
    for row in rows {
        match row {
            XmppWrite::Roster { user, contact, item: Some(item), .. } => {
                let version = match version {
                    Some(version) => version,
                    None => *version.insert(next_version(connection, user)?),
                };
                let text = contact_text(&RosterRow { version, ..(**item).clone() })?;
                connection.execute(xmpp::SET_CONTACT, values![user, contact, text])?;
            }
            XmppWrite::Offline { user, stanza, .. } if is_waiting(connection, user, stanza)? => {}
            XmppWrite::Offline { user, .. } if is_full(connection, user)? => refused += 1,
            other => drop(xmpp::write(connection, other)?),
        }
    }
    Ok(refused)
}

/// One version for all contacts: a client with an older roster gets all of it.
fn next_version(connection: &mut Connection, user: &str) -> Result<u64, Failure> {
    let sql = "INSERT INTO xmpp_user (owner, roster_version) VALUES ($1, 1) ON CONFLICT (owner) \
               DO UPDATE SET roster_version = xmpp_user.roster_version + 1 RETURNING roster_version";
    Ok(connection.number(sql, values![user])?.unsigned_abs())
}

/// The same import again brings no message twice.
fn is_waiting(connection: &mut Connection, user: &str, stanza: &str) -> Result<bool, Failure> {
    connection.exists("SELECT 1 FROM xmpp_offline WHERE owner = $1 AND stanza = $2", values![user, stanza])
}

fn is_full(connection: &mut Connection, user: &str) -> Result<bool, Failure> {
    let count = connection.number("SELECT count(*) FROM xmpp_offline WHERE owner = $1", values![user])?;
    Ok(narrow::<u32>(count) >= limits::MAX_XMPP_OFFLINE)
}
