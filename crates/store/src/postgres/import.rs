//! Many users at once: their accounts by COPY into a table of the connection's own, and by one statement from there.
//!
//! The order for a batch: rounds (an account may be in it twice), the domains, COPY into the temporary table, one INSERT of those that are new, and
//! pages of those that were there. Rosters and messages follow user by user.

use std::collections::HashSet;

use tokio_postgres::types::Type;

use crate::import::{Existing, Imported, NewUser};
use crate::limits;
use crate::types::{Address, NewAccount, deny_text};
use crate::value::Value;
use crate::verifiers::Verifiers;
use crate::xmpp::{RosterRow, XmppWrite, contact_text};

use super::accounts::{domain_id, encoded, has_no_digests};
use super::connection::{Connection, narrow, seconds, values};
use super::failure::Failure;
use super::xmpp;

/// The accounts of a round, by line of its run. It is empty when a transaction begins.
const STAGING: &str = "CREATE TEMPORARY TABLE import_account (line integer PRIMARY KEY, domain_id bigint NOT NULL, \
    name text COLLATE \"C\" NOT NULL, verifiers bytea NOT NULL, display_name text, max_contacts bigint, \
    max_calls bigint, created_at bigint NOT NULL, max_rate bigint, deny text) ON COMMIT DELETE ROWS";

/// The order of the columns is that of [`STAGING`].
const COPY: &str = "COPY import_account FROM STDIN BINARY";

const COLUMNS: [Type; 10] = [
    Type::INT4,
    Type::INT8,
    Type::TEXT,
    Type::BYTEA,
    Type::TEXT,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::TEXT,
];

/// Adds the accounts that are not there yet.
const MERGE: &str = "INSERT INTO account \
    (domain_id, name, verifiers, display_name, max_contacts, max_calls, created_at, max_rate, deny) \
    SELECT domain_id, name, verifiers, display_name, max_contacts, max_calls, created_at, max_rate, deny \
    FROM import_account ON CONFLICT DO NOTHING";

/// The accounts of a page of lines that were there. Rows that this transaction has inserted have its number in `xmin`; in a second round
/// every account is there.
const THERE: &str = "SELECT staged.line, account.verifiers FROM import_account AS staged \
    JOIN account ON account.domain_id = staged.domain_id AND account.name = staged.name \
    WHERE staged.line >= $1 AND staged.line < $2 \
    AND ($3 OR account.xmin <> pg_current_xact_id()::xid)";

/// A row that has all of it already is not written: the same import again, after it was interrupted, writes what is missing.
const UPDATE: &str = "UPDATE account SET \
    verifiers = CASE WHEN given.is_new THEN staged.verifiers ELSE account.verifiers END, \
    display_name = coalesce(staged.display_name, account.display_name) \
    FROM unnest($1::integer[], $2::boolean[]) AS given (line, is_new) \
    JOIN import_account AS staged ON staged.line = given.line \
    WHERE account.domain_id = staged.domain_id AND account.name = staged.name \
    AND (given.is_new OR account.display_name IS DISTINCT FROM coalesce(staged.display_name, account.display_name))";

/// Lines of which the rows that are there are in memory at once.
const PAGE: usize = 5_000;

/// Adds them, in the caller's transaction. Sorted by address, so neighbours in the index are written together.
pub(super) fn import(
    connection: &mut Connection,
    users: &[NewUser],
    existing: Existing,
) -> Result<(Imported, Vec<Address>), Failure> {
    if !connection.exists("SELECT 1 WHERE to_regclass('pg_temp.import_account') IS NOT NULL", &[])? {
        connection.batch(STAGING)?;
    }
    // Statistics of a table that lives for one transaction are none: each account is looked up by its name, whatever the
    // planner thinks of a pass over millions of accounts.
    connection.batch("SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off")?;
    let has_no_digests = has_no_digests(connection)?;
    let mut importer =
        Importer { has_no_digests, existing, imported: Imported::default(), changed: Vec::new() };
    for (number, users) in rounds(users).into_iter().enumerate() {
        let round = Round { is_first: number == 0, staged: with_domains(connection, &users)? };
        importer.import_round(connection, &round)?;
    }
    Ok((importer.imported, importer.changed))
}

/// Each account once in a round: the second line of an account finds it there. In order of address.
fn rounds(users: &[NewUser]) -> Vec<Vec<&NewUser>> {
    let mut order: Vec<&NewUser> = users.iter().collect();
    // Stable: of two for one account, the later one comes second.
    order.sort_by(|a, b| {
        let (a, b) = (&a.account.address, &b.account.address);
        a.domain.cmp(&b.domain).then_with(|| a.user.cmp(&b.user))
    });
    let mut rounds: Vec<Vec<&NewUser>> = Vec::new();
    for same in order.chunk_by(|a, b| a.account.address == b.account.address) {
        for (number, user) in same.iter().enumerate() {
            match rounds.get_mut(number) {
                Some(round) => round.push(user),
                None => rounds.push(vec![user]),
            }
        }
    }
    rounds
}

/// The users of a round with the ids of their domains, which are made where they are not there.
fn with_domains<'a>(
    connection: &mut Connection,
    users: &[&'a NewUser],
) -> Result<Vec<(i64, &'a NewUser)>, Failure> {
    let mut last: Option<(&str, i64)> = None;
    let mut staged = Vec::with_capacity(users.len());
    for user in users {
        let domain = &*user.account.address.domain;
        let id = match last {
            Some((name, id)) if name == domain => id,
            _ => domain_or_new(connection, &user.account)?,
        };
        last = Some((domain, id));
        staged.push((id, *user));
    }
    Ok(staged)
}

/// Users whose accounts differ from each other.
struct Round<'a> {
    /// Accounts that were there before the transaction are told apart by `xmin`, in the first round only.
    is_first: bool,
    /// By line.
    staged: Vec<(i64, &'a NewUser)>,
}

/// The state of one batch.
struct Importer {
    has_no_digests: bool,
    existing: Existing,
    /// The counts so far.
    imported: Imported,
    /// Accounts that had another password.
    changed: Vec<Address>,
}

impl Importer {
    /// Adds or updates the accounts of a round, and writes the rows of chat of those that were not skipped.
    fn import_round(&mut self, connection: &mut Connection, round: &Round<'_>) -> Result<(), Failure> {
        if !round.is_first {
            connection.batch("TRUNCATE import_account")?;
        }
        self.copy(connection, round)?;
        let added = connection.execute(MERGE, &[])?;
        let mut skipped = HashSet::new();
        if added < round.staged.len() as u64 {
            for page in (0..round.staged.len()).step_by(PAGE) {
                self.merge_page(connection, round, page, &mut skipped)?;
            }
        }
        self.imported.added += added;
        for (line, (_, user)) in round.staged.iter().enumerate() {
            if !user.chat.is_empty() && !skipped.contains(&line) {
                self.imported.refused += write_chat(connection, &user.chat)?;
            }
        }
        Ok(())
    }

    /// Fills the temporary table. An account whose verifiers cannot be kept fails the batch.
    fn copy(&self, connection: &mut Connection, round: &Round<'_>) -> Result<(), Failure> {
        let mut refused = None;
        let rows = round.staged.iter().enumerate().map_while(|(line, (domain, NewUser { account, .. }))| {
            let verifiers = encoded(&account.verifiers, self.has_no_digests);
            let verifiers = verifiers.map_err(|error| refused = Some(error)).ok()?;
            let limit = |limit: Option<u32>| Value::number(limit);
            let shown = &*account.display_name;
            Some([
                Value::Integer(i64::try_from(line).unwrap_or(i64::MAX)),
                Value::Integer(*domain),
                Value::text(&account.address.user),
                Value::Bytes(verifiers.into()),
                if shown.is_empty() { Value::Null } else { Value::text(shown) },
                limit(account.limits.max_contacts),
                limit(account.limits.max_calls),
                Value::Integer(seconds(account.created_at)),
                limit(account.limits.max_rate),
                deny_text(&account.limits.deny).map_or(Value::Null, |deny| Value::Text(deny.into())),
            ])
        });
        connection.copy_in(COPY, &COLUMNS, rows)?;
        refused.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Updates, or skips, the accounts of a page of lines that were there.
    fn merge_page(
        &mut self,
        connection: &mut Connection,
        round: &Round<'_>,
        page: usize,
        skipped: &mut HashSet<usize>,
    ) -> Result<(), Failure> {
        let bound = |line: usize| i32::try_from(line).unwrap_or(i32::MAX);
        let there = values![bound(page), bound(page + PAGE), !round.is_first];
        let there = connection.query(THERE, there)?;
        if self.existing == Existing::Skip {
            for row in &there {
                skipped.insert(narrow::<usize>(row.try_get::<_, i32>(0)?.into()));
            }
            self.imported.skipped += there.len() as u64;
            return Ok(());
        }
        let (mut lines, mut are_new) = (Vec::with_capacity(there.len()), Vec::with_capacity(there.len()));
        for row in &there {
            let line: i32 = row.try_get(0)?;
            let Some((_, user)) = round.staged.get(narrow::<usize>(line.into())) else { continue };
            let (new, old) = (&user.account.verifiers, Verifiers::decode(row.try_get(1)?)?);
            let has_other_password = !new.prove_the_same(&old);
            if has_other_password {
                self.changed.push(user.account.address.clone());
            }
            are_new.push(new.replace(&old));
            lines.push(line);
        }
        connection.execute(UPDATE, values![lines, are_new])?;
        self.imported.updated += there.len() as u64;
        Ok(())
    }
}

/// An import makes the domains that it meets.
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

/// As `xmpp::keep` decides it, asked before: an import counts such messages and goes on.
fn is_full(connection: &mut Connection, user: &str) -> Result<bool, Failure> {
    let count = connection.number("SELECT count(*) FROM xmpp_offline WHERE owner = $1", values![user])?;
    Ok(narrow::<u32>(count) >= limits::MAX_XMPP_OFFLINE)
}
