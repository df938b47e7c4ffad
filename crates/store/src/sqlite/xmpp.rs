//! Writing XMPP's tables.
//!
//! Called by `writer` in the transaction of a group. XML and JSON of chat are text here, with a limit on its length.

use rusqlite::{Connection, OptionalExtension as _, params};
use stdx::Instant;

use crate::error::StoreError;
use crate::limits;
use crate::record::WriteDone;
use crate::types::check_length;
use crate::xmpp::{ArchiveRow, RosterRow, XmppWrite, contact_text, damaged};

use super::{Failure, micros};

pub(super) fn write(conn: &Connection, write: &XmppWrite) -> Result<WriteDone, Failure> {
    match write {
        XmppWrite::Roster { user, contact, item, version } => {
            roster(conn, user, contact, item.as_deref(), *version)
        }
        XmppWrite::Blocked { user, blocked } => {
            let blocked = serde_json::to_string(blocked).map_err(|error| damaged(&error))?;
            check_length("list of blocked addresses", blocked.len(), limits::MAX_XMPP_XML)?;
            let sql = "INSERT INTO xmpp_user (user, blocked) VALUES (?1, ?2) \
                       ON CONFLICT (user) DO UPDATE SET blocked = excluded.blocked";
            changed(conn.prepare_cached(sql)?.execute(params![user, blocked])?)
        }
        XmppWrite::LastSeen { user, at, status } => {
            let sql = "INSERT INTO xmpp_user (user, last_at, last_status) VALUES (?1, ?2, ?3) \
                       ON CONFLICT (user) DO UPDATE SET last_at = excluded.last_at, last_status = excluded.last_status";
            changed(conn.prepare_cached(sql)?.execute(params![user, micros(*at), status])?)
        }
        XmppWrite::Offline { user, at, stanza, is_repeated } => {
            let found = if *is_repeated { find_kept(conn, user, *at, stanza)? } else { None };
            found.map_or_else(|| keep(conn, user, *at, stanza), Ok)
        }
        XmppWrite::ForgetOffline { user, ids } => forget_offline(conn, user, ids),
        XmppWrite::Archive(row) => archive(conn, row),
        XmppWrite::ForgetArchive { before } => {
            let sql = "DELETE FROM xmpp_archive WHERE (owner, id) IN \
                       (SELECT owner, id FROM xmpp_archive WHERE at < ?1 ORDER BY at LIMIT ?2)";
            changed(conn.prepare_cached(sql)?.execute(params![micros(*before), limits::CLEAN_CHUNK])?)
        }
        XmppWrite::Item { owner, node, id, at, item, keep } => match item {
            Some(item) => publish(conn, (owner, node, id), *at, item, *keep),
            None => {
                let sql = "DELETE FROM xmpp_item WHERE owner = ?1 AND node = ?2 AND id = ?3";
                changed_one(conn.prepare_cached(sql)?.execute(params![owner, node, id])?, id)
            }
        },
        XmppWrite::Node { owner, node, at, config } => match config {
            Some(config) => {
                check_length("configuration of a node", config.len(), limits::MAX_XMPP_XML)?;
                let sql = "INSERT INTO xmpp_node (owner, node, config, at) VALUES (?1, ?2, ?3, ?4) \
                           ON CONFLICT (owner, node) DO UPDATE SET config = excluded.config";
                changed(conn.prepare_cached(sql)?.execute(params![owner, node, config, micros(*at)])?)
            }
            None => {
                purge(conn, owner, node)?;
                let sql = "DELETE FROM xmpp_node WHERE owner = ?1 AND node = ?2";
                changed(conn.prepare_cached(sql)?.execute(params![owner, node])?)
            }
        },
        XmppWrite::Purge { owner, node } => purge(conn, owner, node),
        XmppWrite::Room { room, config, charged } => {
            room_changed(conn, room, config.as_deref(), charged.as_deref())
        }
        XmppWrite::ForgetUser { user } => forget_user(conn, user),
    }
}

fn changed(rows: usize) -> Result<WriteDone, Failure> {
    Ok(WriteDone::Changed { rows: rows as u64 })
}

fn changed_one(rows: usize, what: &str) -> Result<WriteDone, Failure> {
    if rows == 0 { Err(StoreError::not_found(what).into()) } else { changed(rows) }
}

/// Also used by the import.
pub(super) const SET_CONTACT: &str = "INSERT INTO xmpp_roster (user, contact, item) VALUES (?1, ?2, ?3) \
    ON CONFLICT (user, contact) DO UPDATE SET item = excluded.item";

/// The version of a roster only grows, in whatever order its changes come.
fn roster(
    conn: &Connection,
    user: &str,
    contact: &str,
    item: Option<&RosterRow>,
    version: u64,
) -> Result<WriteDone, Failure> {
    let text = item.map(contact_text).transpose()?;
    let sql = "INSERT INTO xmpp_user (user, roster_version) VALUES (?1, ?2) \
               ON CONFLICT (user) DO UPDATE SET roster_version = max(roster_version, excluded.roster_version)";
    let version = i64::try_from(version).unwrap_or(i64::MAX);
    conn.prepare_cached(sql)?.execute(params![user, version])?;
    let rows = match text {
        Some(text) => conn.prepare_cached(SET_CONTACT)?.execute(params![user, contact, text])?,
        None => conn
            .prepare_cached("DELETE FROM xmpp_roster WHERE user = ?1 AND contact = ?2")?
            .execute(params![user, contact])?,
    };
    changed(rows)
}

/// The message that an attempt before has written.
fn find_kept(conn: &Connection, user: &str, at: Instant, stanza: &str) -> Result<Option<WriteDone>, Failure> {
    let sql = "SELECT id FROM xmpp_offline WHERE user = ?1 AND at = ?2 AND stanza = ?3";
    let mut statement = conn.prepare_cached(sql)?;
    let id = statement.query_row(params![user, micros(at), stanza], |row| row.get(0)).optional()?;
    Ok(id.map(|id| WriteDone::Added { id }))
}

/// The statement that adds the message also counts those that wait.
fn keep(conn: &Connection, user: &str, at: Instant, stanza: &str) -> Result<WriteDone, Failure> {
    check_length("stanza", stanza.len(), limits::MAX_XMPP_XML)?;
    let sql = "INSERT INTO xmpp_offline (user, at, stanza) SELECT ?1, ?2, ?3 \
               WHERE (SELECT count(*) FROM xmpp_offline WHERE user = ?1) < ?4";
    let rows =
        conn.prepare_cached(sql)?.execute(params![user, micros(at), stanza, limits::MAX_XMPP_OFFLINE])?;
    if rows == 0 {
        let expected = format!("at most {}", limits::MAX_XMPP_OFFLINE);
        return Err(StoreError::invalid(format!("messages that wait for {user}"), expected).into());
    }
    Ok(WriteDone::Added { id: conn.last_insert_rowid() })
}

/// Without ids all of the user's.
fn forget_offline(conn: &Connection, user: &str, ids: &[u64]) -> Result<WriteDone, Failure> {
    if ids.is_empty() {
        let sql = "DELETE FROM xmpp_offline WHERE user = ?1";
        return changed(conn.prepare_cached(sql)?.execute([user])?);
    }
    let mut statement = conn.prepare_cached("DELETE FROM xmpp_offline WHERE user = ?1 AND id = ?2")?;
    let mut rows = 0;
    for id in ids {
        rows += statement.execute(params![user, i64::try_from(*id).unwrap_or(i64::MAX)])?;
    }
    changed(rows)
}

/// An entry that is there gets the new stanza: a write may be tried twice (`retry_queue`).
fn archive(conn: &Connection, row: &ArchiveRow) -> Result<WriteDone, Failure> {
    check_length("stanza", row.stanza.len(), limits::MAX_XMPP_XML)?;
    let sql = "INSERT INTO xmpp_archive (owner, id, at, bare, resource, stanza) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
               ON CONFLICT (owner, id) DO UPDATE SET stanza = excluded.stanza";
    changed(conn.prepare_cached(sql)?.execute(params![
        row.owner,
        row.id,
        micros(row.at),
        row.bare,
        row.resource,
        row.stanza
    ])?)
}

/// Deletes all items of a node.
fn purge(conn: &Connection, owner: &str, node: &str) -> Result<WriteDone, Failure> {
    let sql = "DELETE FROM xmpp_item WHERE owner = ?1 AND node = ?2";
    changed(conn.prepare_cached(sql)?.execute(params![owner, node])?)
}

/// Adds or replaces an item as the newest of its node, and deletes the oldest beyond `keep`.
fn publish(
    conn: &Connection,
    (owner, node, id): (&str, &str, &str),
    at: Instant,
    item: &str,
    keep: u32,
) -> Result<WriteDone, Failure> {
    check_length("item", item.len(), limits::MAX_XMPP_XML)?;
    let sql = "INSERT INTO xmpp_item (owner, node, id, at, seq, item) VALUES (?1, ?2, ?3, ?4, \
               (SELECT coalesce(max(seq), 0) + 1 FROM xmpp_item WHERE owner = ?1 AND node = ?2), ?5) \
               ON CONFLICT (owner, node, id) DO UPDATE SET at = excluded.at, seq = excluded.seq, item = excluded.item";
    conn.prepare_cached(sql)?.execute(params![owner, node, id, micros(at), item])?;
    let sql = "DELETE FROM xmpp_item WHERE owner = ?1 AND node = ?2 AND seq <= \
               (SELECT max(seq) FROM xmpp_item WHERE owner = ?1 AND node = ?2) - ?3 AND id NOT IN \
               (SELECT id FROM xmpp_item WHERE owner = ?1 AND node = ?2 ORDER BY seq DESC LIMIT ?3)";
    conn.prepare_cached(sql)?.execute(params![owner, node, keep])?;
    changed(1)
}

/// Without a configuration the room and its archive are deleted. `charged`: the user whose number of rooms is limited; `None`: the operator made it.
fn room_changed(
    conn: &Connection,
    room: &str,
    config: Option<&str>,
    charged: Option<&str>,
) -> Result<WriteDone, Failure> {
    let Some(config) = config else {
        conn.prepare_cached("DELETE FROM xmpp_archive WHERE owner = ?1")?.execute([room])?;
        return changed(conn.prepare_cached("DELETE FROM xmpp_room WHERE room = ?1")?.execute([room])?);
    };
    check_length("configuration of a room", config.len(), limits::MAX_XMPP_XML)?;
    let domain = room.split_once('@').map_or(room, |(_, domain)| domain);
    let sql = "INSERT INTO xmpp_room (room, domain, config, creator) SELECT ?1, ?2, ?3, ?4 \
               WHERE ?4 IS NULL OR EXISTS (SELECT 1 FROM xmpp_room WHERE room = ?1 AND creator = ?4) \
               OR (SELECT count(*) FROM xmpp_room WHERE creator = ?4) < ?5 \
               ON CONFLICT (room) DO UPDATE SET config = excluded.config, \
               creator = coalesce(xmpp_room.creator, excluded.creator)";
    let most = limits::MAX_ROOMS_OF_USER;
    let rows = conn.prepare_cached(sql)?.execute(params![room, domain, config, charged, most])?;
    if rows == 0 {
        let what = format!("persistent rooms of {}", charged.unwrap_or_default());
        return Err(StoreError::invalid(what, format!("at most {most}")).into());
    }
    changed(rows)
}

/// All rows of a user, and its traces in rooms and nodes of others. Its tokens and invitations end with it.
pub(super) fn forget_user(conn: &Connection, user: &str) -> Result<WriteDone, Failure> {
    let mut rows = 0;
    for sql in [
        "DELETE FROM xmpp_user WHERE user = ?1",
        "DELETE FROM xmpp_roster WHERE user = ?1",
        "DELETE FROM xmpp_offline WHERE user = ?1",
        "DELETE FROM xmpp_archive WHERE owner = ?1",
        "DELETE FROM xmpp_item WHERE owner = ?1",
        "DELETE FROM xmpp_node WHERE owner = ?1",
        "DELETE FROM xmpp_token WHERE user = ?1",
        "DELETE FROM xmpp_invitation WHERE inviter = ?1",
        "UPDATE xmpp_room SET creator = NULL WHERE creator = ?1",
        // Its affiliations in rooms and nodes of others, which the next account of its name must not inherit.
        "UPDATE xmpp_room SET config = without_user(config, ?1) WHERE instr(config, ?1) > 0",
        "UPDATE xmpp_node INDEXED BY xmpp_node_shared SET config = without_user(config, ?1) \
         WHERE (instr(config, '<affiliation ') > 0 OR instr(config, '<subscription ') > 0) \
         AND instr(config, ?1) > 0",
    ] {
        rows += conn.prepare_cached(sql)?.execute([user])?;
    }
    changed(rows)
}
