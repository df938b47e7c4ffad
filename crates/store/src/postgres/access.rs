//! Tokens and invitations.
//!
//! As `sqlite::access`, with locks in place of the one writer: other nodes may write the same rows at the same time.

use stdx::Instant;
use tokio_postgres::Row;

use crate::access::{
    AccessLoaded, AccessRead, AccessWrite, FreshToken, Invitation, TokenRow, TokenWrite, UsedToken,
};
use crate::error::StoreError;
use crate::limits;
use crate::record::WriteDone;
use crate::types::NewAccount;

use super::accounts;
use super::connection::{Connection, from_micros, micros, values};
use super::failure::Failure;

/// As all writes, each checks before it changes: one at fault leaves no trace.
pub(super) fn write(connection: &mut Connection, write: &AccessWrite) -> Result<WriteDone, Failure> {
    match write {
        AccessWrite::Tokens(tokens) => write_tokens(connection, tokens),
        AccessWrite::ForgetTokens { user } => {
            changed(connection.execute("DELETE FROM xmpp_token WHERE owner = $1", values![user])?)
        }
        AccessWrite::Invite(invitation) => invite(connection, invitation),
        AccessWrite::UseInvitation { hash, inviter, now } => use_invitation(connection, hash, inviter, *now),
        AccessWrite::Register { account, invitation } => register(connection, account, invitation.as_ref()),
        AccessWrite::Clean { before } => clean(connection, *before),
    }
}

fn changed(rows: u64) -> Result<WriteDone, Failure> {
    Ok(WriteDone::Changed { rows })
}

/// First the token that was used, whose count may be too low, and only then a fresh one.
fn write_tokens(connection: &mut Connection, write: &TokenWrite) -> Result<WriteDone, Failure> {
    let (user, agent) = (&*write.user, &*write.agent);
    if let Some(used) = &write.used {
        use_token(connection, user, agent, used)?;
    }
    if let Some(fresh) = &write.fresh {
        add_token(connection, user, agent, fresh)?;
    }
    changed(1)
}

/// XEP-0484 §3.4: the one that is used voids those with an earlier expiry.
fn use_token(connection: &mut Connection, user: &str, agent: &str, used: &UsedToken) -> Result<(), Failure> {
    let count = used.count.map(|count| i64::try_from(count).unwrap_or(i64::MAX));
    let id = &used.id[..];
    // One statement both looks and notes: of two that come with the same count, one is the second.
    let sql = "UPDATE xmpp_token SET used = true, count = coalesce($4::bigint, count) \
               WHERE owner = $1 AND agent = $2 AND id = $3 AND ($4::bigint IS NULL OR $4 > count)";
    if connection.execute(sql, values![user, agent, id, count])? == 0 {
        return Err(StoreError::not_found("token").into());
    }
    let sql = "DELETE FROM xmpp_token WHERE owner = $1 AND agent = $2 AND id <> $3 AND expires_at <= \
               (SELECT expires_at FROM xmpp_token WHERE owner = $1 AND agent = $2 AND id = $3)";
    connection.execute(sql, values![user, agent, id])?;
    if used.revoked {
        let sql = "DELETE FROM xmpp_token WHERE owner = $1 AND agent = $2 AND id = $3";
        connection.execute(sql, values![user, agent, id])?;
    }
    Ok(())
}

/// A fresh token takes the place of those that were never used. Of an account's tokens the newest `limits::MAX_TOKENS` stay.
fn add_token(
    connection: &mut Connection,
    user: &str,
    agent: &str,
    fresh: &FreshToken,
) -> Result<(), Failure> {
    connection.execute(
        "DELETE FROM xmpp_token WHERE owner = $1 AND agent = $2 AND NOT used",
        values![user, agent],
    )?;
    let sql = "INSERT INTO xmpp_token (owner, agent, id, mechanism, issued_at, expires_at) \
               VALUES ($1, $2, $3, $4, $5, $6)";
    let (issued, expires) = (micros(fresh.issued_at), micros(fresh.expires_at));
    connection.execute(sql, values![user, agent, &fresh.id[..], fresh.mechanism, issued, expires])?;
    let sql = "DELETE FROM xmpp_token WHERE owner = $1 AND (agent, id) NOT IN \
               (SELECT agent, id FROM xmpp_token WHERE owner = $1 ORDER BY issued_at DESC LIMIT $2)";
    connection.execute(sql, values![user, i64::from(limits::MAX_TOKENS)])?;
    Ok(())
}

/// Two nodes that invite at once may exceed the limit by one: it keeps a table small, and no more.
fn invite(connection: &mut Connection, invitation: &Invitation) -> Result<WriteDone, Failure> {
    let sql = "INSERT INTO xmpp_invitation (hash, domain, name, inviter, registers, expires_at) \
               SELECT $1, $2, $3, $4, $5, $6 WHERE $4::text IS NULL OR \
               (SELECT count(*) FROM xmpp_invitation WHERE inviter = $4) < $7";
    let rows = connection.execute(
        sql,
        values![
            &invitation.hash[..],
            invitation.domain,
            invitation.name,
            invitation.inviter,
            invitation.registers,
            micros(invitation.expires_at),
            i64::from(limits::MAX_INVITATIONS),
        ],
    )?;
    if rows == 0 {
        let expected = format!("at most {} that are not used", limits::MAX_INVITATIONS);
        return Err(StoreError::invalid("invitations of one user", expected).into());
    }
    changed(rows)
}

fn use_invitation(
    connection: &mut Connection,
    hash: &[u8; 32],
    inviter: &str,
    now: Instant,
) -> Result<WriteDone, Failure> {
    // One statement both looks and takes: of two that come with the same invitation, one is the second.
    let sql = "DELETE FROM xmpp_invitation WHERE hash = $1 AND inviter = $2 AND expires_at > $3";
    match connection.execute(sql, values![&hash[..], inviter, micros(now)])? {
        0 => Err(StoreError::not_found("invitation").into()),
        rows => changed(rows),
    }
}

/// Makes an account, if its name is not reserved for an invitation, or if this is the invitation. It is then used up.
fn register(
    connection: &mut Connection,
    account: &NewAccount,
    invitation: Option<&[u8; 32]>,
) -> Result<WriteDone, Failure> {
    // Rows read before the write may have changed: another registration, another node, a later time.
    let (address, now) = (&account.address, micros(account.created_at));
    let Some(hash) = invitation else {
        let sql = "SELECT 1 FROM xmpp_invitation WHERE domain = $1 AND name = $2 AND expires_at > $3";
        if connection.exists(sql, values![address.domain, address.user, now])? {
            return Err(StoreError::exists(address.to_string()).into());
        }
        return accounts::add(connection, account);
    };
    // The row is locked: another node that uses the invitation waits, and finds none.
    let sql = "SELECT 1 FROM xmpp_invitation WHERE hash = $1 AND registers AND domain = $2 AND expires_at > $4 \
               AND (name IS NULL OR name = $3) FOR UPDATE";
    if !connection.exists(sql, values![&hash[..], address.domain, address.user, now])? {
        return Err(StoreError::not_found("invitation").into());
    }
    let done = accounts::add(connection, account)?;
    connection.execute("DELETE FROM xmpp_invitation WHERE hash = $1", values![&hash[..]])?;
    Ok(done)
}

/// Tokens and invitations that have ended, the oldest first, a chunk of each.
fn clean(connection: &mut Connection, before: Instant) -> Result<WriteDone, Failure> {
    let mut rows = 0;
    for sql in [
        "DELETE FROM xmpp_token WHERE (owner, agent, id) IN \
         (SELECT owner, agent, id FROM xmpp_token WHERE expires_at < $1 ORDER BY expires_at LIMIT $2)",
        "DELETE FROM xmpp_invitation WHERE hash IN \
         (SELECT hash FROM xmpp_invitation WHERE expires_at < $1 ORDER BY expires_at LIMIT $2)",
    ] {
        rows += connection.execute(sql, values![micros(before), i64::from(limits::CLEAN_CHUNK)])?;
    }
    changed(rows)
}

pub(super) fn load(connection: &mut Connection, read: &AccessRead) -> Result<AccessLoaded, Failure> {
    Ok(match read {
        AccessRead::Tokens { user, agent } => {
            let sql = "SELECT id, mechanism, issued_at, expires_at, count, used FROM xmpp_token \
                       WHERE owner = $1 AND agent = $2 ORDER BY issued_at DESC";
            let rows = connection.query(sql, values![user, agent])?;
            AccessLoaded::Tokens(rows.iter().map(token).collect::<Result<_, _>>()?)
        }
        AccessRead::Invitation { hash } => {
            let sql =
                "SELECT domain, name, inviter, registers, expires_at FROM xmpp_invitation WHERE hash = $1";
            let invitation = |row: Row| -> Result<_, Failure> {
                Ok(Box::new(Invitation {
                    hash: *hash,
                    domain: row.try_get(0)?,
                    name: row.try_get(1)?,
                    inviter: row.try_get(2)?,
                    registers: row.try_get(3)?,
                    expires_at: from_micros(row.try_get(4)?),
                }))
            };
            let found = connection.query_first(sql, values![&hash[..]])?;
            AccessLoaded::Invitation(found.map(invitation).transpose()?)
        }
        AccessRead::Reserved { domain, name, now } => {
            let sql = "SELECT 1 FROM xmpp_invitation WHERE domain = $1 AND name = $2 AND expires_at > $3";
            AccessLoaded::Reserved(connection.exists(sql, values![domain, name, micros(*now)])?)
        }
    })
}

fn token(row: &Row) -> Result<TokenRow, Failure> {
    Ok(TokenRow {
        id: row.try_get::<_, &[u8]>(0)?.into(),
        mechanism: row.try_get(1)?,
        issued_at: from_micros(row.try_get(2)?),
        expires_at: from_micros(row.try_get(3)?),
        count: row.try_get::<_, i64>(4)?.unsigned_abs(),
        used: row.try_get(5)?,
    })
}
