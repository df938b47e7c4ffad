//! Writing XMPP's tables.
//!
//! As `sqlite::xmpp`; columns called `user` there are `owner` here, because `user` is a word of PostgreSQL's.

use stdx::Instant;

use crate::error::StoreError;
use crate::limits;
use crate::record::WriteDone;
use crate::types::check_length;
use crate::xmpp::{ArchiveRow, RosterRow, XmppWrite, contact_text, damaged};

use super::connection::{Connection, micros, values};
use super::failure::Failure;

/// One change of chat's data. `item`, `config` or the like without a value means that the row is deleted.
pub(super) fn write(connection: &mut Connection, write: &XmppWrite) -> Result<WriteDone, Failure> {
    match write {
        XmppWrite::Roster { user, contact, item, version } => {
            roster(connection, user, contact, item.as_deref(), *version)
        }
        XmppWrite::Blocked { user, blocked } => {
            let blocked = serde_json::to_string(blocked).map_err(|error| damaged(&error))?;
            check_length("list of blocked addresses", blocked.len(), limits::MAX_XMPP_XML)?;
            let sql = "INSERT INTO xmpp_user (owner, blocked) VALUES ($1, $2) \
                       ON CONFLICT (owner) DO UPDATE SET blocked = excluded.blocked";
            changed(connection.execute(sql, values![user, blocked])?)
        }
        XmppWrite::LastSeen { user, at, status } => {
            let sql = "INSERT INTO xmpp_user (owner, last_at, last_status) VALUES ($1, $2, $3) \
                       ON CONFLICT (owner) DO UPDATE SET last_at = excluded.last_at, last_status = excluded.last_status";
            changed(connection.execute(sql, values![user, micros(*at), status])?)
        }
        XmppWrite::Offline { user, at, stanza, is_repeated } => {
            // A message that is written again must not wait twice.
            let found = if *is_repeated { find_kept(connection, user, *at, stanza)? } else { None };
            found.map_or_else(|| keep(connection, user, *at, stanza), Ok)
        }
        XmppWrite::ForgetOffline { user, ids } => forget_offline(connection, user, ids),
        XmppWrite::Archive(row) => archive(connection, row),
        XmppWrite::ForgetArchive { before } => {
            let sql = "DELETE FROM xmpp_archive WHERE (owner, id) IN \
                       (SELECT owner, id FROM xmpp_archive WHERE at < $1 ORDER BY at LIMIT $2)";
            changed(connection.execute(sql, values![micros(*before), i64::from(limits::CLEAN_CHUNK)])?)
        }
        XmppWrite::Item { owner, node, id, at, item, keep } => match item {
            Some(item) => publish(connection, (owner, node, id), *at, item, *keep),
            None => {
                let sql = "DELETE FROM xmpp_item WHERE owner = $1 AND node = $2 AND id = $3";
                changed_one(connection.execute(sql, values![owner, node, id])?, id)
            }
        },
        XmppWrite::Node { owner, node, at, config } => match config {
            Some(config) => {
                check_length("configuration of a node", config.len(), limits::MAX_XMPP_XML)?;
                let sql = "INSERT INTO xmpp_node (owner, node, config, at) VALUES ($1, $2, $3, $4) \
                           ON CONFLICT (owner, node) DO UPDATE SET config = excluded.config";
                changed(connection.execute(sql, values![owner, node, config, micros(*at)])?)
            }
            None => {
                purge(connection, owner, node)?;
                let sql = "DELETE FROM xmpp_node WHERE owner = $1 AND node = $2";
                changed(connection.execute(sql, values![owner, node])?)
            }
        },
        XmppWrite::Purge { owner, node } => purge(connection, owner, node),
        XmppWrite::Room { room, config, charged } => {
            room_changed(connection, room, config.as_deref(), charged.as_deref())
        }
        XmppWrite::ForgetUser { user } => forget_user(connection, user),
    }
}

fn changed(rows: u64) -> Result<WriteDone, Failure> {
    Ok(WriteDone::Changed { rows })
}

fn changed_one(rows: u64, what: &str) -> Result<WriteDone, Failure> {
    if rows == 0 { Err(StoreError::not_found(what).into()) } else { changed(rows) }
}

/// Also used by the import.
pub(super) const SET_CONTACT: &str = "INSERT INTO xmpp_roster (owner, contact, item) VALUES ($1, $2, $3) \
    ON CONFLICT (owner, contact) DO UPDATE SET item = excluded.item";

/// The version of a roster only grows, in whatever order its changes come.
fn roster(
    connection: &mut Connection,
    user: &str,
    contact: &str,
    item: Option<&RosterRow>,
    version: u64,
) -> Result<WriteDone, Failure> {
    let text = item.map(contact_text).transpose()?;
    let sql = "INSERT INTO xmpp_user (owner, roster_version) VALUES ($1, $2) ON CONFLICT (owner) \
               DO UPDATE SET roster_version = greatest(xmpp_user.roster_version, excluded.roster_version)";
    let version = i64::try_from(version).unwrap_or(i64::MAX);
    connection.execute(sql, values![user, version])?;
    let rows = match text {
        Some(text) => connection.execute(SET_CONTACT, values![user, contact, text])?,
        None => {
            let sql = "DELETE FROM xmpp_roster WHERE owner = $1 AND contact = $2";
            connection.execute(sql, values![user, contact])?
        }
    };
    changed(rows)
}

/// The message that an attempt before has written.
fn find_kept(
    connection: &mut Connection,
    user: &str,
    at: Instant,
    stanza: &str,
) -> Result<Option<WriteDone>, Failure> {
    let sql = "SELECT id FROM xmpp_offline WHERE owner = $1 AND at = $2 AND stanza = $3";
    let row = connection.query_first(sql, values![user, micros(at), stanza])?;
    row.map(|row| Ok(WriteDone::Added { id: row.try_get(0)? })).transpose()
}

/// The statement that adds the message also counts those that wait.
fn keep(connection: &mut Connection, user: &str, at: Instant, stanza: &str) -> Result<WriteDone, Failure> {
    check_length("stanza", stanza.len(), limits::MAX_XMPP_XML)?;
    let sql = "INSERT INTO xmpp_offline (owner, at, stanza) SELECT $1, $2, $3 \
               WHERE (SELECT count(*) FROM xmpp_offline WHERE owner = $1) < $4 RETURNING id";
    let values = values![user, micros(at), stanza, i64::from(limits::MAX_XMPP_OFFLINE)];
    let Some(row) = connection.query_first(sql, values)? else {
        let expected = format!("at most {}", limits::MAX_XMPP_OFFLINE);
        return Err(StoreError::invalid(format!("messages that wait for {user}"), expected).into());
    };
    Ok(WriteDone::Added { id: row.try_get(0)? })
}

/// Without ids all of the user's.
fn forget_offline(connection: &mut Connection, user: &str, ids: &[u64]) -> Result<WriteDone, Failure> {
    if ids.is_empty() {
        let sql = "DELETE FROM xmpp_offline WHERE owner = $1";
        return changed(connection.execute(sql, values![user])?);
    }
    let ids: Vec<i64> = ids.iter().map(|id| i64::try_from(*id).unwrap_or(i64::MAX)).collect();
    let sql = "DELETE FROM xmpp_offline WHERE owner = $1 AND id = ANY($2)";
    changed(connection.execute(sql, values![user, ids])?)
}

/// An entry that is there gets the new stanza: a write may be tried twice (`retry_queue`).
fn archive(connection: &mut Connection, row: &ArchiveRow) -> Result<WriteDone, Failure> {
    check_length("stanza", row.stanza.len(), limits::MAX_XMPP_XML)?;
    let sql = "INSERT INTO xmpp_archive (owner, id, at, bare, resource, stanza) VALUES ($1, $2, $3, $4, $5, $6) \
               ON CONFLICT (owner, id) DO UPDATE SET stanza = excluded.stanza";
    let values = values![row.owner, row.id, micros(row.at), row.bare, row.resource, row.stanza];
    changed(connection.execute(sql, values)?)
}

/// Deletes all items of a node.
fn purge(connection: &mut Connection, owner: &str, node: &str) -> Result<WriteDone, Failure> {
    let sql = "DELETE FROM xmpp_item WHERE owner = $1 AND node = $2";
    changed(connection.execute(sql, values![owner, node])?)
}

/// Adds or replaces an item as the newest of its node, and deletes the oldest beyond `keep`.
fn publish(
    connection: &mut Connection,
    (owner, node, id): (&str, &str, &str),
    at: Instant,
    item: &str,
    keep: u32,
) -> Result<WriteDone, Failure> {
    check_length("item", item.len(), limits::MAX_XMPP_XML)?;
    let sql = "INSERT INTO xmpp_item (owner, node, id, at, seq, item) \
               VALUES ($1, $2, $3, $4, nextval('xmpp_item_seq'), $5) ON CONFLICT (owner, node, id) \
               DO UPDATE SET at = excluded.at, seq = excluded.seq, item = excluded.item";
    connection.execute(sql, values![owner, node, id, micros(at), item])?;
    let sql = "DELETE FROM xmpp_item WHERE owner = $1 AND node = $2 AND seq <= \
               (SELECT seq FROM xmpp_item WHERE owner = $1 AND node = $2 ORDER BY seq DESC LIMIT 1 OFFSET $3)";
    connection.execute(sql, values![owner, node, i64::from(keep)])?;
    changed(1)
}

/// Without a configuration the room and its archive are deleted. `charged`: the user whose number of rooms is limited; `None`: the operator made it.
fn room_changed(
    connection: &mut Connection,
    room: &str,
    config: Option<&str>,
    charged: Option<&str>,
) -> Result<WriteDone, Failure> {
    let Some(config) = config else {
        connection.execute("DELETE FROM xmpp_archive WHERE owner = $1", values![room])?;
        return changed(connection.execute("DELETE FROM xmpp_room WHERE room = $1", values![room])?);
    };
    check_length("configuration of a room", config.len(), limits::MAX_XMPP_XML)?;
    // A room is named `room@domain`; lists are by domain.
    let domain = room.split_once('@').map_or(room, |(_, domain)| domain);
    let sql = "INSERT INTO xmpp_room (room, domain, config, creator) SELECT $1, $2, $3, $4 \
               WHERE $4::text IS NULL OR EXISTS (SELECT FROM xmpp_room WHERE room = $1 AND creator = $4) \
               OR (SELECT count(*) FROM xmpp_room WHERE creator = $4) < $5 \
               ON CONFLICT (room) DO UPDATE SET config = excluded.config, \
               creator = coalesce(xmpp_room.creator, excluded.creator)";
    let most = limits::MAX_ROOMS_OF_USER;
    let rows = connection.execute(sql, values![room, domain, config, charged, i64::from(most)])?;
    if rows == 0 {
        let what = format!("persistent rooms of {}", charged.unwrap_or_default());
        return Err(StoreError::invalid(what, format!("at most {most}")).into());
    }
    changed(rows)
}

/// All rows of a user, and its traces in rooms and nodes of others. Its tokens and invitations end with it.
pub(super) fn forget_user(connection: &mut Connection, user: &str) -> Result<WriteDone, Failure> {
    let mut rows = 0;
    for sql in [
        "DELETE FROM xmpp_user WHERE owner = $1",
        "DELETE FROM xmpp_roster WHERE owner = $1",
        "DELETE FROM xmpp_offline WHERE owner = $1",
        "DELETE FROM xmpp_archive WHERE owner = $1",
        "DELETE FROM xmpp_item WHERE owner = $1",
        "DELETE FROM xmpp_node WHERE owner = $1",
        "DELETE FROM xmpp_token WHERE owner = $1",
        "DELETE FROM xmpp_invitation WHERE inviter = $1",
        "UPDATE xmpp_room SET creator = NULL WHERE creator = $1",
    ] {
        rows += connection.execute(sql, values![user])?;
    }
    changed(rows + forget_affiliations(connection, user)?)
}

/// Removes its affiliations in rooms and nodes of others, which the next account of its name must not inherit.
fn forget_affiliations(connection: &mut Connection, user: &str) -> Result<u64, Failure> {
    let without_user = connection.without_user();
    let mut rows = 0;
    let sql = "SELECT room, config FROM xmpp_room WHERE strpos(config, $1) > 0 FOR UPDATE";
    for row in connection.query(sql, values![user])? {
        let (room, config): (&str, &str) = (row.try_get(0)?, row.try_get(1)?);
        if let Some(config) = without_user(config, user) {
            let sql = "UPDATE xmpp_room SET config = $2 WHERE room = $1";
            rows += connection.execute(sql, values![room, config])?;
        }
    }
    let sql = "SELECT owner, node, config FROM xmpp_node WHERE strpos(config, $1) > 0 \
               AND (strpos(config, '<affiliation ') > 0 OR strpos(config, '<subscription ') > 0) FOR UPDATE";
    for row in connection.query(sql, values![user])? {
        let (owner, node, config): (&str, &str, &str) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        if let Some(config) = without_user(config, user) {
            let sql = "UPDATE xmpp_node SET config = $3 WHERE owner = $1 AND node = $2";
            rows += connection.execute(sql, values![owner, node, config])?;
        }
    }
    Ok(rows)
}
