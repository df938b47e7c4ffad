//! Accounts, aliases and domains.
//!
//! As `sqlite::accounts`. A statement that fails would end the transaction of the whole group, so rules of uniqueness are met by `ON CONFLICT DO
//! NOTHING`, and a row that does not come back is the answer.

use stdx::Instant;
use tokio_postgres::Row;

use crate::error::StoreError;
use crate::limits;
use crate::record::WriteDone;
use crate::types::{
    Account, AccountFilter, AccountLimits, Address, Alias, Domain, NewAccount, check_deny, check_domain,
    check_length, check_new_domain, deny_text,
};
use crate::verifiers::{ScramHash, ScramKeys, Verifiers};

use super::connection::{Connection, from_seconds, narrow, seconds, text, values};
use super::failure::Failure;
use super::{rest, xmpp, xmpp_read};

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

/// The account itself comes before an alias of the same name (there can be none).
const BY_ADDRESS: &str = select_account!(
    "account JOIN domain ON domain.id = account.domain_id WHERE account.id = coalesce(\
     (SELECT account.id FROM account JOIN domain ON domain.id = domain_id WHERE domain.name = $1 AND account.name = $2), \
     (SELECT account_id FROM alias JOIN domain ON domain.id = domain_id WHERE domain.name = $1 AND alias.name = $2))"
);

/// The accounts of one domain, which the planner has to know to be one: their index then gives them in order, and a page reads
/// no row besides its own.
const PAGE: &str = select_account!(
    "account JOIN domain ON domain.id = domain_id \
     WHERE domain_id = (SELECT id FROM domain WHERE name = $1) AND account.name > $2 AND account.name >= $3 \
     AND account.name < $3 || chr(1114111) ORDER BY account.name LIMIT $4"
);

/// An empty display name is NULL. No row comes back if the address is taken.
const INSERT: &str = "INSERT INTO account \
    (domain_id, name, verifiers, display_name, max_contacts, max_calls, created_at, max_rate, deny) \
    VALUES ($1, $2, $3, nullif($4, ''), $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING RETURNING id";

pub(super) fn domain_id(connection: &mut Connection, domain: &str) -> Result<i64, Failure> {
    let row = connection.query_first("SELECT id FROM domain WHERE name = $1", values![domain])?;
    let row = row.ok_or_else(|| StoreError::not_found(format!("domain {domain}")))?;
    Ok(row.try_get(0)?)
}

pub(super) fn account_id(connection: &mut Connection, account: &Address) -> Result<i64, Failure> {
    let sql = "SELECT account.id FROM account JOIN domain ON domain.id = domain_id \
               WHERE domain.name = $1 AND account.name = $2";
    let row = connection.query_first(sql, values![account.domain, account.user])?;
    let row = row.ok_or_else(|| StoreError::not_found(format!("account {account}")))?;
    Ok(row.try_get(0)?)
}

/// The time at which an account was made, by its own address.
pub(super) fn created_at(connection: &mut Connection, account: &Address) -> Result<Instant, Failure> {
    let id = account_id(connection, account)?;
    let row = connection.query_first("SELECT created_at FROM account WHERE id = $1", values![id])?;
    let row = row.ok_or_else(|| StoreError::not_found(format!("account {account}")))?;
    Ok(from_seconds(row.try_get(0)?))
}

/// Refused when the address is an alias: an address has one meaning.
pub(super) fn add(connection: &mut Connection, account: &NewAccount) -> Result<WriteDone, Failure> {
    let address = &account.address;
    check_length("display name", account.display_name.len(), limits::MAX_DISPLAY_NAME)?;
    check_deny(&account.limits.deny)?;
    let domain = domain_id(connection, &address.domain)?;
    let sql = "SELECT 1 FROM alias WHERE domain_id = $1 AND name = $2";
    if connection.exists(sql, values![domain, address.user])? {
        return Err(StoreError::exists(format!("alias {address}")).into());
    }
    let verifiers = kept(connection, &account.verifiers)?;
    let given = &account.limits;
    let row = connection.query_first(
        INSERT,
        values![
            domain,
            address.user,
            verifiers,
            &*text(&account.display_name),
            given.max_contacts.map(i64::from),
            given.max_calls.map(i64::from),
            seconds(account.created_at),
            given.max_rate.map(i64::from),
            deny_text(&given.deny),
        ],
    )?;
    let row = row.ok_or_else(|| StoreError::exists(format!("account {address}")))?;
    Ok(WriteDone::Added { id: row.try_get(0)? })
}

pub(super) fn set_verifiers(
    connection: &mut Connection,
    account: &Address,
    verifiers: &Verifiers,
) -> Result<WriteDone, Failure> {
    let id = account_id(connection, account)?;
    let verifiers = kept(connection, verifiers)?;
    changed(connection.execute("UPDATE account SET verifiers = $2 WHERE id = $1", values![id, verifiers])?)
}

/// In the table of secrets: digests are not kept.
const NO_DIGESTS: &str = "no digests";

/// True if this database keeps no digests.
pub(super) fn has_no_digests(connection: &mut Connection) -> Result<bool, Failure> {
    connection.exists("SELECT 1 FROM secret WHERE name = $1", values![NO_DIGESTS])
}

/// Verifiers as this record keeps them: with digests, or without.
fn kept(connection: &mut Connection, verifiers: &Verifiers) -> Result<Vec<u8>, Failure> {
    let has_none = has_no_digests(connection)?;
    Ok(encoded(verifiers, has_none)?)
}

/// As the bytes of the column. Where no digests are kept, a password of which no keys of SCRAM are made leaves nothing to keep.
pub(super) fn encoded(verifiers: &Verifiers, has_no_digests: bool) -> Result<Vec<u8>, StoreError> {
    if !has_no_digests {
        return Ok(verifiers.encode());
    }
    let expected =
        "one of which keys of SCRAM are made: this database keeps no digests ([accounts] digests = false)";
    Ok(verifiers.without_digests().ok_or_else(|| StoreError::invalid("password", expected))?.encode())
}

/// Sets whether digests are kept. Existing ones are removed, except where nothing else would prove the password: returns how
/// many are left. The old bytes stay in the database's files until VACUUM has passed them.
pub(super) fn keep_digests(connection: &mut Connection, keep: bool) -> Result<WriteDone, Failure> {
    if keep {
        connection.execute("DELETE FROM secret WHERE name = $1", values![NO_DIGESTS])?;
        return changed(0);
    }
    let sql = "INSERT INTO secret (name, value) VALUES ($1, '\\x01') ON CONFLICT DO NOTHING";
    connection.execute(sql, values![NO_DIGESTS])?;
    let (mut last, mut left) = (i64::MIN, 0);
    loop {
        let sql = "SELECT id, verifiers FROM account WHERE id > $1 ORDER BY id LIMIT $2";
        let rows = connection.query(sql, values![last, i64::from(limits::CLEAN_CHUNK)])?;
        let Some(newest) = rows.last() else { return changed(left) };
        last = newest.try_get(0)?;
        for row in &rows {
            let (id, bytes): (i64, &[u8]) = (row.try_get(0)?, row.try_get(1)?);
            let verifiers = Verifiers::decode(bytes)?;
            match verifiers.without_digests() {
                Some(bare) if bare.encode() != bytes => {
                    let sql = "UPDATE account SET verifiers = $2 WHERE id = $1";
                    connection.execute(sql, values![id, bare.encode()])?;
                }
                Some(_) => {}
                None => left += 1,
            }
        }
    }
}

/// Nothing changes when the password is another one by now: the keys are of the old one.
pub(super) fn add_scram(
    connection: &mut Connection,
    account: &Address,
    of: &[u8; 32],
    keys: &[(ScramHash, ScramKeys)],
) -> Result<WriteDone, Failure> {
    match verifiers(connection, account)? {
        known if known.sha256 == *of => set_verifiers(connection, account, &known.with_scram(keys)),
        _ => changed(0),
    }
}

/// The same for an account that had no password: `of` are the random verifiers that it had.
pub(super) fn learn_password(
    connection: &mut Connection,
    account: &Address,
    of: &[u8; 32],
    new: &Verifiers,
) -> Result<WriteDone, Failure> {
    match verifiers(connection, account)? {
        known if known.sha256 == *of => set_verifiers(connection, account, new),
        _ => changed(0),
    }
}

/// Locks the row: what is made of the verifiers that are there is written before another change.
fn verifiers(connection: &mut Connection, account: &Address) -> Result<Verifiers, Failure> {
    let id = account_id(connection, account)?;
    let row =
        connection.query_first("SELECT verifiers FROM account WHERE id = $1 FOR UPDATE", values![id])?;
    let row = row.ok_or_else(|| StoreError::not_found(format!("account {account}")))?;
    Ok(Verifiers::decode(row.try_get(0)?)?)
}

pub(super) fn set_display_name(
    connection: &mut Connection,
    account: &Address,
    name: &str,
) -> Result<WriteDone, Failure> {
    check_length("display name", name.len(), limits::MAX_DISPLAY_NAME)?;
    let id = account_id(connection, account)?;
    let sql = "UPDATE account SET display_name = nullif($2, '') WHERE id = $1";
    changed(connection.execute(sql, values![id, &*text(name)])?)
}

pub(super) fn set_disabled(
    connection: &mut Connection,
    account: &Address,
    disabled: bool,
) -> Result<WriteDone, Failure> {
    let id = account_id(connection, account)?;
    changed(connection.execute("UPDATE account SET disabled = $2 WHERE id = $1", values![id, disabled])?)
}

pub(super) fn set_limits(
    connection: &mut Connection,
    account: &Address,
    limits: &AccountLimits,
) -> Result<WriteDone, Failure> {
    check_deny(&limits.deny)?;
    let id = account_id(connection, account)?;
    let sql = "UPDATE account SET max_contacts = $2, max_calls = $3, max_rate = $4, deny = $5 WHERE id = $1";
    let AccountLimits { max_contacts, max_calls, max_rate, deny } = limits;
    let rows = connection.execute(
        sql,
        values![
            id,
            max_contacts.map(i64::from),
            max_calls.map(i64::from),
            max_rate.map(i64::from),
            deny_text(deny),
        ],
    )?;
    changed(rows)
}

/// The aliases go by the foreign key. Returns the contacts, which are told of it.
pub(super) fn remove(connection: &mut Connection, account: &Address) -> Result<WriteDone, Failure> {
    let id = account_id(connection, account)?;
    // Else it would change the next account of that address. Before the account: changes of the client lock its row first, too.
    let had_client = rest::remove_client(connection, account)?;
    connection.execute("DELETE FROM account WHERE id = $1", values![id])?;
    let user = account.to_string();
    // Those are still to be told of it. A roster beyond its limit keeps no account.
    let roster = match xmpp_read::roster_of(connection, &user) {
        Err(Failure::Store(_)) => Vec::new(),
        roster => roster?,
    };
    // Else the next account of that name would have its contacts and its messages.
    xmpp::forget_user(connection, &user)?;
    rest::remove_voicemail(connection, &user)?;
    Ok(WriteDone::Removed { roster, had_client })
}

pub(super) fn add_domain(
    connection: &mut Connection,
    name: &str,
    created_at: i64,
) -> Result<WriteDone, Failure> {
    let name = check_new_domain(name)?;
    let sql = "INSERT INTO domain (name, created_at) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING id";
    let row = connection.query_first(sql, values![name, created_at])?;
    let row = row.ok_or_else(|| StoreError::exists(format!("domain {name}")))?;
    Ok(WriteDone::Added { id: row.try_get(0)? })
}

pub(super) fn remove_domain(connection: &mut Connection, name: &str) -> Result<WriteDone, Failure> {
    let name = check_domain(name)?;
    let id = domain_id(connection, &name)?;
    let sql = "DELETE FROM domain WHERE id = $1 AND NOT EXISTS (SELECT FROM account WHERE domain_id = $1) \
               AND NOT EXISTS (SELECT FROM alias WHERE domain_id = $1)";
    match connection.execute(sql, values![id])? {
        0 => Err(StoreError::invalid(format!("domain {name}"), "no account and no alias left in it").into()),
        rows => changed(rows),
    }
}

/// Refused when the address is an account's. Returns the account's id.
pub(super) fn add_alias(
    connection: &mut Connection,
    alias: &Address,
    account: &Address,
) -> Result<WriteDone, Failure> {
    let id = account_id(connection, account)?;
    let domain = domain_id(connection, &alias.domain)?;
    let sql = "SELECT 1 FROM account WHERE domain_id = $1 AND name = $2";
    if connection.exists(sql, values![domain, alias.user])? {
        return Err(StoreError::exists(format!("account {alias}")).into());
    }
    let sql = "INSERT INTO alias (domain_id, name, account_id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
    match connection.execute(sql, values![domain, alias.user, id])? {
        0 => Err(StoreError::exists(format!("alias {alias}")).into()),
        _ => Ok(WriteDone::Added { id }),
    }
}

pub(super) fn remove_alias(connection: &mut Connection, alias: &Address) -> Result<WriteDone, Failure> {
    let domain = domain_id(connection, &alias.domain)?;
    let sql = "DELETE FROM alias WHERE domain_id = $1 AND name = $2";
    match connection.execute(sql, values![domain, alias.user])? {
        0 => Err(StoreError::not_found(format!("alias {alias}")).into()),
        rows => changed(rows),
    }
}

fn changed(rows: u64) -> Result<WriteDone, Failure> {
    Ok(WriteDone::Changed { rows })
}

pub(super) fn load(
    connection: &mut Connection,
    user: &str,
    domain: &str,
) -> Result<Option<Account>, Failure> {
    connection.query_first(BY_ADDRESS, values![domain, user])?.as_ref().map(account).transpose()
}

/// A row with the columns of `select_account`.
fn account(row: &Row) -> Result<Account, Failure> {
    let deny = row.try_get::<_, Option<String>>(10)?.map(|deny| serde_json::from_str(&deny)).transpose();
    let damaged =
        |error: serde_json::Error| StoreError::Internal { detail: format!("denied destinations: {error}") };
    let limit = |index| row.try_get::<_, Option<i64>>(index).map(|value| value.map(narrow));
    Ok(Account {
        id: row.try_get(0)?,
        name: row.try_get(1)?,
        domain: row.try_get(2)?,
        verifiers: Verifiers::decode(row.try_get(3)?)?,
        display_name: row.try_get::<_, Option<Box<str>>>(4)?.unwrap_or_default(),
        disabled: row.try_get(5)?,
        limits: AccountLimits {
            max_contacts: limit(6)?,
            max_calls: limit(7)?,
            max_rate: limit(9)?,
            deny: deny.map_err(damaged)?.unwrap_or_default(),
        },
        created_at: from_seconds(row.try_get(8)?),
    })
}

/// Domain by domain, each in order of name; pages follow one another by the last address.
pub(super) fn list(connection: &mut Connection, filter: &AccountFilter) -> Result<Vec<Account>, Failure> {
    let limit = filter.limit.min(limits::MAX_PAGE) as usize;
    let mut found = Vec::new();
    let from = filter.after.as_ref().map_or("", |after| &after.domain);
    let sql = "SELECT name FROM domain WHERE name >= $1 AND name = coalesce($2, name) ORDER BY name";
    for row in connection.query(sql, values![from, filter.domain])? {
        let domain: Box<str> = row.try_get(0)?;
        let after = filter.after.as_ref().filter(|after| after.domain == domain);
        let after = after.map_or("", |after| &after.user);
        let left = i64::try_from(limit - found.len()).unwrap_or(0);
        for row in connection.query(PAGE, values![domain, after, filter.prefix, left])? {
            found.push(account(&row)?);
        }
        if found.len() >= limit {
            break;
        }
    }
    Ok(found)
}

pub(super) fn domains(connection: &mut Connection) -> Result<Vec<Domain>, Failure> {
    let sql =
        "SELECT name, (SELECT count(*) FROM account WHERE domain_id = domain.id) FROM domain ORDER BY name";
    let domain = |row: Row| Ok(Domain { name: row.try_get(0)?, accounts: narrow(row.try_get(1)?) });
    connection.query(sql, &[])?.into_iter().map(domain).collect()
}

pub(super) fn aliases(connection: &mut Connection, of: Option<&Address>) -> Result<Vec<Alias>, Failure> {
    let id = of.map(|account| account_id(connection, account)).transpose()?;
    let sql = "SELECT alias.name, place.name, account.name, domain.name \
               FROM alias JOIN domain AS place ON place.id = alias.domain_id \
               JOIN account ON account.id = account_id JOIN domain ON domain.id = account.domain_id \
               WHERE $1::bigint IS NULL OR account_id = $1 ORDER BY place.name, alias.name";
    let alias = |row: Row| {
        Ok(Alias {
            alias: Address { user: row.try_get(0)?, domain: row.try_get(1)? },
            account: Address { user: row.try_get(2)?, domain: row.try_get(3)? },
        })
    };
    connection.query(sql, values![id])?.into_iter().map(alias).collect()
}
