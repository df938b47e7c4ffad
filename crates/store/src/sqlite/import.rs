//! Many users at once.
//!
//! Called once a batch by the import; the service's writer is not involved. Rows that are already as they shall be are not written again.

use rusqlite::{Connection, OptionalExtension, params};

use crate::import::{Existing, Imported, NewUser};
use crate::limits;
use crate::types::{Address, NewAccount};
use crate::verifiers::Verifiers;
use crate::xmpp::{RosterRow, XmppWrite, contact_text};

use super::accounts::{INSERT, domain_id, insert, kept};
use super::{Failure, seconds, xmpp};

/// Adds them, in the caller's transaction. Sorted by address, so neighbours in the index are written together.
pub(super) fn import(
    conn: &Connection,
    users: &[NewUser],
    existing: Existing,
) -> Result<(Imported, Vec<Address>), Failure> {
    let mut order: Vec<&NewUser> = users.iter().collect();
    // Stable: of two for one account, the later one comes second.
    order.sort_by(|a, b| {
        let (a, b) = (&a.account.address, &b.account.address);
        a.domain.cmp(&b.domain).then_with(|| a.user.cmp(&b.user))
    });
    let or_ignore = INSERT.replacen("INSERT INTO", "INSERT OR IGNORE INTO", 1);
    let mut add = conn.prepare_cached(&or_ignore)?;
    let mut changed = Vec::new();
    let mut imported = Imported::default();
    let mut domain: (&str, i64) = ("", 0);
    for NewUser { account, chat } in order {
        if *domain.0 != *account.address.domain {
            domain = (&account.address.domain, domain_or_new(conn, account)?);
        }
        if insert(&mut add, domain.1, account, &kept(conn, &account.verifiers)?)? == 1 {
            imported.added += 1;
        } else if existing == Existing::Update {
            if update(conn, domain.1, account)? {
                changed.push(account.address.clone());
            }
            imported.updated += 1;
        } else {
            imported.skipped += 1;
            continue;
        }
        if !chat.is_empty() {
            imported.refused += write_chat(conn, chat)?;
        }
    }
    Ok((imported, changed))
}

/// True: it had another password.
fn update(conn: &Connection, domain: i64, account: &NewAccount) -> Result<bool, Failure> {
    let (user, new) = (&account.address.user, &account.verifiers);
    let sql = "SELECT verifiers FROM account WHERE domain_id = ?1 AND name = ?2";
    let old: Vec<u8> = conn.prepare_cached(sql)?.query_row(params![domain, user], |row| row.get(0))?;
    let known = Verifiers::decode(&old)?;
    let is_new = !new.prove_the_same(&known);
    let verifiers = if new.replace(&known) { kept(conn, new)? } else { old };
    // A row that has all of it already is not written: the same import again, after it was interrupted, writes what is missing.
    let sql = "UPDATE account SET verifiers = ?3, display_name = coalesce(nullif(?4, ''), display_name) \
               WHERE domain_id = ?1 AND name = ?2 AND (verifiers IS NOT ?3 \
               OR display_name IS NOT coalesce(nullif(?4, ''), display_name))";
    conn.prepare_cached(sql)?.execute(params![domain, user, verifiers, account.display_name])?;
    Ok(is_new)
}

/// An import makes the domains that it meets.
fn domain_or_new(conn: &Connection, account: &NewAccount) -> Result<i64, Failure> {
    let sql = "INSERT OR IGNORE INTO domain (name, created_at) VALUES (?1, ?2)";
    conn.prepare_cached(sql)?.execute(params![account.address.domain, seconds(account.created_at)])?;
    domain_id(conn, &account.address.domain)
}

/// Writes one user's rows of XMPP. Returns how many messages there was no room for.
fn write_chat(conn: &Connection, rows: &[XmppWrite]) -> Result<u64, Failure> {
    let mut version = None;
    let mut refused = 0;
    for row in rows {
        match row {
            XmppWrite::Roster { user, contact, item: Some(item), .. } => {
                let version = match version {
                    Some(version) => version,
                    None => *version.insert(next_version(conn, user)?),
                };
                write_contact(conn, (user, contact), item, version)?;
            }
            XmppWrite::Offline { user, stanza, .. } if is_waiting(conn, user, stanza)? => {}
            XmppWrite::Offline { user, .. } if is_full(conn, user)? => refused += 1,
            other => drop(xmpp::write(conn, other)?),
        }
    }
    Ok(refused)
}

/// One version for all contacts: a client with an older roster gets all of it.
fn next_version(conn: &Connection, user: &str) -> Result<u64, Failure> {
    let sql = "INSERT INTO xmpp_user (user, roster_version) VALUES (?1, 1) \
               ON CONFLICT (user) DO UPDATE SET roster_version = roster_version + 1 RETURNING roster_version";
    let version: i64 = conn.prepare_cached(sql)?.query_row([user], |row| row.get(0))?;
    Ok(version.unsigned_abs())
}

/// The contact with the version that all of this import have.
fn write_contact(
    conn: &Connection,
    (user, contact): (&str, &str),
    item: &RosterRow,
    version: u64,
) -> Result<(), Failure> {
    let text = if item.version == version {
        contact_text(item)?
    } else {
        contact_text(&RosterRow { version, ..item.clone() })?
    };
    conn.prepare_cached(xmpp::SET_CONTACT)?.execute(params![user, contact, text])?;
    Ok(())
}

/// The same import again brings no message twice.
fn is_waiting(conn: &Connection, user: &str, stanza: &str) -> Result<bool, Failure> {
    let sql = "SELECT 1 FROM xmpp_offline WHERE user = ?1 AND stanza = ?2";
    Ok(conn.prepare_cached(sql)?.query_row(params![user, stanza], |_| Ok(())).optional()?.is_some())
}

/// As `xmpp::keep` decides it, asked before: an import counts such messages and goes on.
fn is_full(conn: &Connection, user: &str) -> Result<bool, Failure> {
    let sql = "SELECT count(*) FROM xmpp_offline WHERE user = ?1";
    let count: u32 = conn.prepare_cached(sql)?.query_row([user], |row| row.get(0))?;
    Ok(count >= limits::MAX_XMPP_OFFLINE)
}
