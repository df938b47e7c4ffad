//! Tokens and invitations.
//!
//! Called by `writer` within the transaction of a group, and by `reader`.

use rusqlite::{Connection, OptionalExtension, Row, params};
use stdx::Instant;

use crate::access::{
    AccessLoaded, AccessRead, AccessWrite, FreshToken, Invitation, TokenRow, TokenWrite, UsedToken,
};
use crate::error::StoreError;
use crate::limits;
use crate::record::WriteDone;
use crate::types::NewAccount;

use super::{Failure, accounts, from_micros, micros};

/// As all writes, each checks before it changes: one at fault leaves no trace.
pub(super) fn write(conn: &Connection, write: &AccessWrite) -> Result<WriteDone, Failure> {
    match write {
        AccessWrite::Tokens(tokens) => write_tokens(conn, tokens),
        AccessWrite::ForgetTokens { user } => {
            changed(conn.prepare_cached("DELETE FROM xmpp_token WHERE user = ?1")?.execute([user])?)
        }
        AccessWrite::Invite(invitation) => invite(conn, invitation),
        AccessWrite::UseInvitation { hash, inviter, now } => use_invitation(conn, hash, inviter, *now),
        AccessWrite::Register { account, invitation } => register(conn, account, invitation.as_ref()),
        AccessWrite::Clean { before } => clean(conn, *before),
    }
}

fn changed(rows: usize) -> Result<WriteDone, Failure> {
    Ok(WriteDone::Changed { rows: rows as u64 })
}

/// First the token that was used, whose count may be too low, and only then a fresh one.
fn write_tokens(conn: &Connection, write: &TokenWrite) -> Result<WriteDone, Failure> {
    let (user, agent) = (&write.user, &write.agent);
    if let Some(used) = &write.used {
        use_token(conn, user, agent, used)?;
    }
    if let Some(fresh) = &write.fresh {
        add_token(conn, user, agent, fresh)?;
    }
    changed(1)
}

/// XEP-0484 §3.4: the one that is used voids those with an earlier expiry.
fn use_token(conn: &Connection, user: &str, agent: &str, used: &UsedToken) -> Result<(), Failure> {
    let count = used.count.map(|count| i64::try_from(count).unwrap_or(i64::MAX));
    // One statement both looks and notes: of two that come with the same count, one is the second.
    let sql = "UPDATE xmpp_token SET used = 1, count = coalesce(?4, count) \
               WHERE user = ?1 AND agent = ?2 AND id = ?3 AND (?4 IS NULL OR ?4 > count)";
    if conn.prepare_cached(sql)?.execute(params![user, agent, used.id, count])? == 0 {
        return Err(StoreError::not_found("token").into());
    }
    let sql = "DELETE FROM xmpp_token WHERE user = ?1 AND agent = ?2 AND id <> ?3 AND expires_at <= \
               (SELECT expires_at FROM xmpp_token WHERE user = ?1 AND agent = ?2 AND id = ?3)";
    conn.prepare_cached(sql)?.execute(params![user, agent, used.id])?;
    if used.revoked {
        let sql = "DELETE FROM xmpp_token WHERE user = ?1 AND agent = ?2 AND id = ?3";
        conn.prepare_cached(sql)?.execute(params![user, agent, used.id])?;
    }
    Ok(())
}

/// A fresh token takes the place of those that were never used. Of an account's tokens the newest `limits::MAX_TOKENS` stay.
fn add_token(conn: &Connection, user: &str, agent: &str, fresh: &FreshToken) -> Result<(), Failure> {
    conn.prepare_cached("DELETE FROM xmpp_token WHERE user = ?1 AND agent = ?2 AND used = 0")?
        .execute([user, agent])?;
    let sql = "INSERT INTO xmpp_token (user, agent, id, mechanism, issued_at, expires_at) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let (issued, expires) = (micros(fresh.issued_at), micros(fresh.expires_at));
    conn.prepare_cached(sql)?.execute(params![user, agent, fresh.id, fresh.mechanism, issued, expires])?;
    let sql = "DELETE FROM xmpp_token WHERE user = ?1 AND (agent, id) NOT IN \
               (SELECT agent, id FROM xmpp_token WHERE user = ?1 ORDER BY issued_at DESC LIMIT ?2)";
    conn.prepare_cached(sql)?.execute(params![user, limits::MAX_TOKENS])?;
    Ok(())
}

/// The number of an inviter's invitations is checked by the statement that adds one. Invitations of the operator have no inviter and no limit.
fn invite(conn: &Connection, invitation: &Invitation) -> Result<WriteDone, Failure> {
    let sql = "INSERT INTO xmpp_invitation (hash, domain, name, inviter, registers, expires_at) \
               SELECT ?1, ?2, ?3, ?4, ?5, ?6 WHERE ?4 IS NULL OR \
               (SELECT count(*) FROM xmpp_invitation WHERE inviter = ?4) < ?7";
    let rows = conn.prepare_cached(sql)?.execute(params![
        invitation.hash,
        invitation.domain,
        invitation.name,
        invitation.inviter,
        invitation.registers,
        micros(invitation.expires_at),
        limits::MAX_INVITATIONS,
    ])?;
    if rows == 0 {
        let expected = format!("at most {} that are not used", limits::MAX_INVITATIONS);
        return Err(StoreError::invalid("invitations of one user", expected).into());
    }
    changed(rows)
}

fn use_invitation(
    conn: &Connection,
    hash: &[u8; 32],
    inviter: &str,
    now: Instant,
) -> Result<WriteDone, Failure> {
    // One statement both looks and takes: of two that come with the same invitation, one is the second.
    let sql = "DELETE FROM xmpp_invitation WHERE hash = ?1 AND inviter = ?2 AND expires_at > ?3";
    match conn.prepare_cached(sql)?.execute(params![hash, inviter, micros(now)])? {
        0 => Err(StoreError::not_found("invitation").into()),
        rows => changed(rows),
    }
}

/// Makes an account, if its name is not reserved for an invitation, or if this is the invitation. It is then used up.
fn register(
    conn: &Connection,
    account: &NewAccount,
    invitation: Option<&[u8; 32]>,
) -> Result<WriteDone, Failure> {
    // Rows read before the write may have changed: another registration, another node, a later time.
    let (address, now) = (&account.address, micros(account.created_at));
    let Some(hash) = invitation else {
        let sql = "SELECT 1 FROM xmpp_invitation WHERE domain = ?1 AND name = ?2 AND expires_at > ?3";
        if conn.prepare_cached(sql)?.exists(params![address.domain, address.user, now])? {
            return Err(StoreError::exists(address.to_string()).into());
        }
        return accounts::add(conn, account);
    };
    let sql = "SELECT 1 FROM xmpp_invitation WHERE hash = ?1 AND registers AND domain = ?2 AND expires_at > ?4 \
               AND (name IS NULL OR name = ?3)";
    if !conn.prepare_cached(sql)?.exists(params![hash, address.domain, address.user, now])? {
        return Err(StoreError::not_found("invitation").into());
    }
    let done = accounts::add(conn, account)?;
    conn.prepare_cached("DELETE FROM xmpp_invitation WHERE hash = ?1")?.execute([hash])?;
    Ok(done)
}

/// Tokens and invitations that have ended, the oldest first, a chunk of each.
fn clean(conn: &Connection, before: Instant) -> Result<WriteDone, Failure> {
    let mut rows = 0;
    for sql in [
        "DELETE FROM xmpp_token WHERE (user, agent, id) IN \
         (SELECT user, agent, id FROM xmpp_token WHERE expires_at < ?1 ORDER BY expires_at LIMIT ?2)",
        "DELETE FROM xmpp_invitation WHERE hash IN \
         (SELECT hash FROM xmpp_invitation WHERE expires_at < ?1 ORDER BY expires_at LIMIT ?2)",
    ] {
        rows += conn.prepare_cached(sql)?.execute(params![micros(before), limits::CLEAN_CHUNK])?;
    }
    changed(rows)
}

pub(super) fn load(conn: &Connection, read: &AccessRead) -> Result<AccessLoaded, Failure> {
    Ok(match read {
        AccessRead::Tokens { user, agent } => {
            let sql = "SELECT id, mechanism, issued_at, expires_at, count, used FROM xmpp_token \
                       WHERE user = ?1 AND agent = ?2 ORDER BY issued_at DESC";
            let mut statement = conn.prepare_cached(sql)?;
            let rows = statement.query_map([user, agent], token)?;
            AccessLoaded::Tokens(rows.collect::<Result<_, _>>()?)
        }
        AccessRead::Invitation { hash } => {
            let sql =
                "SELECT domain, name, inviter, registers, expires_at FROM xmpp_invitation WHERE hash = ?1";
            let found = conn.prepare_cached(sql)?.query_row([hash], |row| {
                Ok(Box::new(Invitation {
                    hash: *hash,
                    domain: row.get(0)?,
                    name: row.get(1)?,
                    inviter: row.get(2)?,
                    registers: row.get(3)?,
                    expires_at: from_micros(row.get(4)?),
                }))
            });
            AccessLoaded::Invitation(found.optional()?)
        }
        AccessRead::Reserved { domain, name, now } => {
            let sql = "SELECT 1 FROM xmpp_invitation WHERE domain = ?1 AND name = ?2 AND expires_at > ?3";
            AccessLoaded::Reserved(conn.prepare_cached(sql)?.exists(params![domain, name, micros(*now)])?)
        }
    })
}

fn token(row: &Row<'_>) -> rusqlite::Result<TokenRow> {
    Ok(TokenRow {
        id: row.get::<_, Vec<u8>>(0)?.into(),
        mechanism: row.get(1)?,
        issued_at: from_micros(row.get(2)?),
        expires_at: from_micros(row.get(3)?),
        count: row.get::<_, i64>(4)?.unsigned_abs(),
        used: row.get(5)?,
    })
}
