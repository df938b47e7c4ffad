//! Accounts, aliases and domains.
//!
//! Functions that change something run in the transaction of a group and make all their checks before their first change.

use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, named_params, params};
use stdx::Instant;

use crate::error::StoreError;
use crate::limits;
use crate::record::WriteDone;
use crate::types::{
    Account, AccountFilter, AccountLimits, Address, Alias, Domain, NewAccount, check_deny, check_domain,
    check_length, check_new_domain, deny_text,
};
use crate::verifiers::{ScramHash, ScramKeys, Verifiers};

use super::{Failure, from_seconds, rest, seconds, xmpp, xmpp_read};

/// The columns `account` reads, before the rest of a query.
macro_rules! select_account {
    ($rest:literal) => {
        concat!(
            "SELECT account.id, account.name, domain.name, verifiers, display_name, disabled, max_contacts, \
             max_calls, account.created_at, max_rate, deny FROM ",
            $rest
        )
    };
}

/// An account by its own address.
pub(super) const DIRECT: &str = select_account!(
    "account JOIN domain ON domain.id = domain_id WHERE domain.name = ?1 AND account.name = ?2"
);

/// The account that an alias leads to.
const BY_ALIAS: &str = select_account!(
    "alias JOIN domain AS of ON of.id = alias.domain_id \
     JOIN account ON account.id = account_id JOIN domain ON domain.id = account.domain_id \
     WHERE of.name = ?1 AND alias.name = ?2"
);

// One lower bound for the index (the plus keeps the other from being taken for it), and an upper one: the
// highest character there is, after the prefix.
const PAGE: &str = select_account!(
    "account JOIN domain ON domain.id = domain_id \
     WHERE domain.name = :domain AND account.name >= max(:after, :prefix) \
     AND account.name < :prefix || char(1114111) AND +account.name > :after \
     ORDER BY account.name LIMIT :limit"
);

/// An empty display name is NULL, so that an import can tell whether there is one.
pub(super) const INSERT: &str = "INSERT INTO account \
    (domain_id, name, verifiers, display_name, disabled, max_contacts, max_calls, created_at, max_rate, deny) \
    VALUES (?1, ?2, ?3, nullif(?4, ''), 0, ?5, ?6, ?7, ?8, ?9)";

/// The row of a domain; fails when there is none.
pub(super) fn domain_id(conn: &Connection, domain: &str) -> Result<i64, Failure> {
    conn.prepare_cached("SELECT id FROM domain WHERE name = ?1")?
        .query_row([domain], |row| row.get(0))
        .optional()?
        .ok_or_else(|| StoreError::not_found(format!("domain {domain}")).into())
}

/// The row of an account by its own address: aliases are not followed.
pub(super) fn account_id(conn: &Connection, account: &Address) -> Result<i64, Failure> {
    let sql = "SELECT account.id FROM account JOIN domain ON domain.id = domain_id \
               WHERE domain.name = ?1 AND account.name = ?2";
    conn.prepare_cached(sql)?
        .query_row([&account.domain, &account.user], |row| row.get(0))
        .optional()?
        .ok_or_else(|| StoreError::not_found(format!("account {account}")).into())
}

/// The time at which an account was made, by its own address.
pub(super) fn created_at(conn: &Connection, account: &Address) -> Result<Instant, Failure> {
    let id = account_id(conn, account)?;
    let sql = "SELECT created_at FROM account WHERE id = ?1";
    Ok(from_seconds(conn.prepare_cached(sql)?.query_row([id], |row| row.get(0))?))
}

/// Refused when the address is an alias: an address has one meaning.
pub(super) fn add(conn: &Connection, account: &NewAccount) -> Result<WriteDone, Failure> {
    let address = &account.address;
    check_length("display name", account.display_name.len(), limits::MAX_DISPLAY_NAME)?;
    check_deny(&account.limits.deny)?;
    let domain = domain_id(conn, &address.domain)?;
    let sql = "SELECT 1 FROM alias WHERE domain_id = ?1 AND name = ?2";
    if conn.prepare_cached(sql)?.exists(params![domain, address.user])? {
        return Err(StoreError::exists(format!("alias {address}")).into());
    }
    let verifiers = kept(conn, &account.verifiers)?;
    insert(&mut conn.prepare_cached(INSERT)?, domain, account, &verifiers)
        .map_err(|error| Failure::from(error).or_exists(|| format!("account {address}")))?;
    Ok(WriteDone::Added { id: conn.last_insert_rowid() })
}

/// With a prepared statement, so that an import prepares it once. `verifiers` come from [`kept`].
pub(super) fn insert(
    statement: &mut CachedStatement<'_>,
    domain: i64,
    account: &NewAccount,
    verifiers: &[u8],
) -> rusqlite::Result<usize> {
    statement.execute(params![
        domain,
        account.address.user,
        verifiers,
        account.display_name,
        account.limits.max_contacts,
        account.limits.max_calls,
        seconds(account.created_at),
        account.limits.max_rate,
        deny_text(&account.limits.deny),
    ])
}

/// Replaces all verifiers, also those that only a later version knows.
pub(super) fn set_verifiers(
    conn: &Connection,
    account: &Address,
    verifiers: &Verifiers,
) -> Result<WriteDone, Failure> {
    let id = account_id(conn, account)?;
    let sql = "UPDATE account SET verifiers = ?2 WHERE id = ?1";
    changed(conn.prepare_cached(sql)?.execute(params![id, kept(conn, verifiers)?])?)
}

/// In the table of secrets: digests are not kept.
const NO_DIGESTS: &str = "no digests";

/// Verifiers as this record keeps them: with digests, or without.
pub(super) fn kept(conn: &Connection, verifiers: &Verifiers) -> Result<Vec<u8>, Failure> {
    if !conn.prepare_cached("SELECT 1 FROM secret WHERE name = ?1")?.exists([NO_DIGESTS])? {
        return Ok(verifiers.encode());
    }
    overwrite_deleted_rows(conn)?;
    let bare = verifiers.without_digests();
    let expected =
        "one of which keys of SCRAM are made: this database keeps no digests ([accounts] digests = false)";
    Ok(bare.ok_or_else(|| StoreError::invalid("password", expected))?.encode())
}

/// Else old bytes stay in the file until their place is needed.
fn overwrite_deleted_rows(conn: &Connection) -> rusqlite::Result<()> {
    conn.pragma_update_and_check(None, "secure_delete", true, |_| Ok(()))
}

/// Sets whether digests are kept. Existing ones are removed, except where nothing else would prove the
/// password: returns how many are left.
pub(super) fn keep_digests(conn: &Connection, keep: bool) -> Result<WriteDone, Failure> {
    if keep {
        conn.prepare_cached("DELETE FROM secret WHERE name = ?1")?.execute([NO_DIGESTS])?;
        return changed(0);
    }
    conn.prepare_cached("INSERT OR IGNORE INTO secret (name, value) VALUES (?1, x'01')")?
        .execute([NO_DIGESTS])?;
    overwrite_deleted_rows(conn)?;
    let select = format!(
        "SELECT id, verifiers FROM account WHERE id > ?1 AND {} ORDER BY id LIMIT ?2",
        Verifiers::HAS_DIGESTS
    );
    // A chunk at a time, so that not all verifiers are in memory at once.
    let (mut select, mut last, mut left) = (conn.prepare(&select)?, i64::MIN, 0);
    loop {
        let rows =
            select.query_map(params![last, limits::CLEAN_CHUNK], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let rows: Vec<(i64, Vec<u8>)> = rows.collect::<rusqlite::Result<_>>()?;
        let Some((newest, _)) = rows.last() else { return changed(left) };
        last = *newest;
        for (id, bytes) in &rows {
            match Verifiers::decode(bytes)?.without_digests() {
                Some(bare) => {
                    let sql = "UPDATE account SET verifiers = ?2 WHERE id = ?1";
                    conn.prepare_cached(sql)?.execute(params![id, bare.encode()])?;
                }
                None => left += 1,
            }
        }
    }
}

/// Nothing changes when the password is another one by now: the keys are of the old one.
pub(super) fn add_scram(
    conn: &Connection,
    account: &Address,
    of: &[u8; 32],
    keys: &[(ScramHash, ScramKeys)],
) -> Result<WriteDone, Failure> {
    match verifiers(conn, account)? {
        known if known.sha256 == *of => set_verifiers(conn, account, &known.with_scram(keys)),
        _ => changed(0),
    }
}

/// The same for an account that had no password: `of` are the random verifiers that it had.
pub(super) fn learn_password(
    conn: &Connection,
    account: &Address,
    of: &[u8; 32],
    new: &Verifiers,
) -> Result<WriteDone, Failure> {
    match verifiers(conn, account)? {
        known if known.sha256 == *of => set_verifiers(conn, account, new),
        _ => changed(0),
    }
}

/// Those of an account as they are kept.
fn verifiers(conn: &Connection, account: &Address) -> Result<Verifiers, Failure> {
    let id = account_id(conn, account)?;
    let sql = "SELECT verifiers FROM account WHERE id = ?1";
    let bytes: Vec<u8> = conn.prepare_cached(sql)?.query_row(params![id], |row| row.get(0))?;
    Ok(Verifiers::decode(&bytes)?)
}

/// An empty name is stored as NULL, as at the account's creation.
pub(super) fn set_display_name(
    conn: &Connection,
    account: &Address,
    name: &str,
) -> Result<WriteDone, Failure> {
    check_length("display name", name.len(), limits::MAX_DISPLAY_NAME)?;
    let id = account_id(conn, account)?;
    let sql = "UPDATE account SET display_name = nullif(?2, '') WHERE id = ?1";
    changed(conn.prepare_cached(sql)?.execute(params![id, name])?)
}

pub(super) fn set_disabled(
    conn: &Connection,
    account: &Address,
    disabled: bool,
) -> Result<WriteDone, Failure> {
    let id = account_id(conn, account)?;
    let sql = "UPDATE account SET disabled = ?2 WHERE id = ?1";
    changed(conn.prepare_cached(sql)?.execute(params![id, disabled])?)
}

/// All limits at once: there is no way to keep one as it is.
pub(super) fn set_limits(
    conn: &Connection,
    account: &Address,
    limits: &AccountLimits,
) -> Result<WriteDone, Failure> {
    check_deny(&limits.deny)?;
    let id = account_id(conn, account)?;
    let sql = "UPDATE account SET max_contacts = ?2, max_calls = ?3, max_rate = ?4, deny = ?5 WHERE id = ?1";
    let AccountLimits { max_contacts, max_calls, max_rate, deny } = limits;
    changed(conn.prepare_cached(sql)?.execute(params![
        id,
        max_contacts,
        max_calls,
        max_rate,
        deny_text(deny)
    ])?)
}

/// The aliases go by the foreign key. Returns the contacts, which are told of it.
pub(super) fn remove(conn: &Connection, account: &Address) -> Result<WriteDone, Failure> {
    let id = account_id(conn, account)?;
    // Else it would change the next account of that address.
    let had_client = rest::remove_client(conn, account)?;
    conn.prepare_cached("DELETE FROM account WHERE id = ?1")?.execute([id])?;
    let user = account.to_string();
    // Those are still to be told of it. A roster that cannot be read keeps no account.
    let roster = xmpp_read::roster_of(conn, &user).unwrap_or_default();
    // Else the next account of that name would have its contacts and its messages.
    xmpp::forget_user(conn, &user)?;
    rest::remove_voicemail(conn, &user)?;
    Ok(WriteDone::Removed { roster, had_client })
}

/// Adds a domain, in the spelling that `check_new_domain` returns.
pub(super) fn add_domain(conn: &Connection, name: &str, created_at: i64) -> Result<WriteDone, Failure> {
    let name = check_new_domain(name)?;
    conn.prepare_cached("INSERT INTO domain (name, created_at) VALUES (?1, ?2)")?
        .execute(params![name, created_at])
        .map_err(|error| Failure::from(error).or_exists(|| format!("domain {name}")))?;
    Ok(WriteDone::Added { id: conn.last_insert_rowid() })
}

/// The foreign keys of accounts and aliases refuse it while there are any.
pub(super) fn remove_domain(conn: &Connection, name: &str) -> Result<WriteDone, Failure> {
    let id = domain_id(conn, &check_domain(name)?)?;
    let removed = conn.prepare_cached("DELETE FROM domain WHERE id = ?1")?.execute([id]);
    match removed.map_err(Failure::from) {
        Err(error) if error.is_constraint() => {
            Err(StoreError::invalid(format!("domain {name}"), "no account and no alias left in it").into())
        }
        Err(error) => Err(error),
        Ok(rows) => changed(rows),
    }
}

/// Refused when the address is an account's. Returns the account's id.
pub(super) fn add_alias(conn: &Connection, alias: &Address, account: &Address) -> Result<WriteDone, Failure> {
    let id = account_id(conn, account)?;
    let domain = domain_id(conn, &alias.domain)?;
    if account_id(conn, alias).is_ok() {
        return Err(StoreError::exists(format!("account {alias}")).into());
    }
    conn.prepare_cached("INSERT INTO alias (domain_id, name, account_id) VALUES (?1, ?2, ?3)")?
        .execute(params![domain, alias.user, id])
        .map_err(|error| Failure::from(error).or_exists(|| format!("alias {alias}")))?;
    Ok(WriteDone::Added { id })
}

pub(super) fn remove_alias(conn: &Connection, alias: &Address) -> Result<WriteDone, Failure> {
    let domain = domain_id(conn, &alias.domain)?;
    let sql = "DELETE FROM alias WHERE domain_id = ?1 AND name = ?2";
    match conn.prepare_cached(sql)?.execute(params![domain, alias.user])? {
        0 => Err(StoreError::not_found(format!("alias {alias}")).into()),
        rows => changed(rows),
    }
}

fn changed(rows: usize) -> Result<WriteDone, Failure> {
    Ok(WriteDone::Changed { rows: rows as u64 })
}

/// The account itself comes before an alias of the same name (there can be none).
pub(super) fn load(conn: &Connection, user: &str, domain: &str) -> Result<Option<Account>, Failure> {
    match one(conn, DIRECT, user, domain)? {
        Some(account) => Ok(Some(account)),
        None => one(conn, BY_ALIAS, user, domain),
    }
}

/// The first row of a query with `DIRECT` or `BY_ALIAS`.
fn one(conn: &Connection, sql: &str, user: &str, domain: &str) -> Result<Option<Account>, Failure> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([domain, user])?;
    rows.next()?.map(account).transpose()
}

/// A row with the columns of `select_account`.
fn account(row: &Row<'_>) -> Result<Account, Failure> {
    let deny = row.get::<_, Option<String>>(10)?.map(|deny| serde_json::from_str(&deny)).transpose();
    let damaged =
        |error: serde_json::Error| StoreError::Internal { detail: format!("denied destinations: {error}") };
    let deny = deny.map_err(damaged)?.unwrap_or_default();
    Ok(Account {
        id: row.get(0)?,
        name: row.get(1)?,
        domain: row.get(2)?,
        verifiers: Verifiers::decode(row.get_ref(3)?.as_blob().map_err(rusqlite::Error::from)?)?,
        display_name: row.get::<_, Option<Box<str>>>(4)?.unwrap_or_default(),
        disabled: row.get(5)?,
        limits: AccountLimits {
            max_contacts: row.get(6)?,
            max_calls: row.get(7)?,
            max_rate: row.get(9)?,
            deny,
        },
        created_at: from_seconds(row.get(8)?),
    })
}

/// Domain by domain, each in order of name; pages follow one another by the last address.
pub(super) fn list(conn: &Connection, filter: &AccountFilter) -> Result<Vec<Account>, Failure> {
    let limit = filter.limit.min(limits::MAX_PAGE) as usize;
    let mut found = Vec::new();
    for domain in domain_names(conn, filter)? {
        // The name of the last page's end counts in its own domain only; later domains begin at their first account.
        let after = filter.after.as_ref().filter(|after| after.domain == domain);
        let after = after.map_or("", |after| &after.user);
        let left = i64::try_from(limit - found.len()).unwrap_or(0);
        let mut statement = conn.prepare_cached(PAGE)?;
        let mut rows = statement.query(named_params! {
            ":domain": domain, ":after": after, ":prefix": filter.prefix, ":limit": left,
        })?;
        while let Some(row) = rows.next()? {
            found.push(account(row)?);
        }
        if found.len() >= limit {
            break;
        }
    }
    Ok(found)
}

/// The domains of a page: from the one of `after` on, or the one that is asked for.
fn domain_names(conn: &Connection, filter: &AccountFilter) -> Result<Vec<Box<str>>, Failure> {
    let after = filter.after.as_ref().map_or("", |after| &after.domain);
    let sql = "SELECT name FROM domain WHERE name >= ?1 AND name = coalesce(?2, name) ORDER BY name";
    let mut statement = conn.prepare_cached(sql)?;
    let names = statement.query_map(params![after, filter.domain], |row| row.get(0))?;
    Ok(names.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn domains(conn: &Connection) -> Result<Vec<Domain>, Failure> {
    let sql =
        "SELECT name, (SELECT count(*) FROM account WHERE domain_id = domain.id) FROM domain ORDER BY name";
    let mut statement = conn.prepare_cached(sql)?;
    let domains = statement.query_map([], |row| {
        Ok(Domain { name: row.get(0)?, accounts: row.get::<_, i64>(1)?.try_into().unwrap_or(0) })
    })?;
    Ok(domains.collect::<rusqlite::Result<_>>()?)
}

/// All aliases, or those of one account; an account that is not there is an error.
pub(super) fn aliases(conn: &Connection, of: Option<&Address>) -> Result<Vec<Alias>, Failure> {
    let id = of.map(|account| account_id(conn, account)).transpose()?;
    let sql = "SELECT alias.name, of.name, account.name, domain.name \
               FROM alias JOIN domain AS of ON of.id = alias.domain_id \
               JOIN account ON account.id = account_id JOIN domain ON domain.id = account.domain_id \
               WHERE ?1 IS NULL OR account_id = ?1 ORDER BY of.name, alias.name";
    let mut statement = conn.prepare_cached(sql)?;
    let aliases = statement.query_map([id], |row| {
        Ok(Alias {
            alias: Address { user: row.get(0)?, domain: row.get(1)? },
            account: Address { user: row.get(2)?, domain: row.get(3)? },
        })
    })?;
    Ok(aliases.collect::<rusqlite::Result<_>>()?)
}
