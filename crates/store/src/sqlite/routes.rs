//! Routes, call records and kept messages.
//!
//! Targets and policies of routes are JSON in their columns; the other columns are plain.

use rusqlite::{Connection, OptionalExtension as _, Row, named_params, params};

use crate::call_search::{CallPage, CallSearch};
use crate::error::StoreError;
use crate::limits;
use crate::record::WriteDone;
use crate::types::{CallFilter, CallRecord, Pattern, Route, WaitingMessage, check_length};

use super::{Failure, from_micros, from_seconds, micros, seconds};

pub(super) fn add(conn: &Connection, route: &Route) -> Result<WriteDone, Failure> {
    route.check()?;
    let sql = "INSERT INTO route \
        (name, pattern_kind, pattern, targets, open, probe, strip, prefix, policy, created_at) \
        VALUES (:name, :kind, :pattern, :targets, :open, :probe, :strip, :prefix, :policy, :created_at)";
    conn.prepare_cached(sql)?
        .execute(named_params! {
            ":name": route.name,
            ":kind": route.pattern.kind(),
            ":pattern": route.pattern.value(),
            ":targets": json(&route.targets[..])?,
            ":open": route.open,
            ":probe": route.probe,
            ":strip": route.strip,
            ":prefix": route.prefix,
            ":policy": json(&route.policy)?,
            ":created_at": seconds(route.created_at),
        })
        .map_err(|error| Failure::from(error).or_exists(|| format!("route {}", route.name)))?;
    Ok(WriteDone::Added { id: conn.last_insert_rowid() })
}

/// Keeps its id and when it was made.
pub(super) fn replace(conn: &Connection, route: &Route) -> Result<WriteDone, Failure> {
    route.check()?;
    let sql = "UPDATE route SET pattern_kind = :kind, pattern = :pattern, targets = :targets, open = :open, \
        probe = :probe, strip = :strip, prefix = :prefix, policy = :policy WHERE name = :name";
    let rows = conn.prepare_cached(sql)?.execute(named_params! {
        ":name": route.name,
        ":kind": route.pattern.kind(),
        ":pattern": route.pattern.value(),
        ":targets": json(&route.targets[..])?,
        ":open": route.open,
        ":probe": route.probe,
        ":strip": route.strip,
        ":prefix": route.prefix,
        ":policy": json(&route.policy)?,
    })?;
    changed_one(rows, || format!("route {}", route.name))
}

pub(super) fn remove(conn: &Connection, name: &str) -> Result<WriteDone, Failure> {
    let rows = conn.prepare_cached("DELETE FROM route WHERE name = ?1")?.execute([name])?;
    changed_one(rows, || format!("route {name}"))
}

/// No row: what was to be changed is not there.
fn changed_one(rows: usize, what: impl FnOnce() -> String) -> Result<WriteDone, Failure> {
    match rows {
        0 => Err(StoreError::not_found(what()).into()),
        rows => Ok(WriteDone::Changed { rows: rows as u64 }),
    }
}

fn json<T: serde::Serialize + ?Sized>(value: &T) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|error| StoreError::Internal { detail: error.to_string() }.into())
}

pub(super) fn list(conn: &Connection) -> Result<Vec<Route>, Failure> {
    let sql = "SELECT id, name, pattern_kind, pattern, targets, open, probe, strip, prefix, created_at, policy \
               FROM route ORDER BY id";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    let mut routes = Vec::new();
    while let Some(row) = rows.next()? {
        routes.push(route(row)?);
    }
    Ok(routes)
}

/// A row with the columns of `list`.
fn route(row: &Row<'_>) -> Result<Route, Failure> {
    let name: Box<str> = row.get(1)?;
    let damaged = |detail: String| StoreError::Internal { detail: format!("route {name}: {detail}") };
    let (kind, pattern): (String, String) = (row.get(2)?, row.get(3)?);
    let pattern = Pattern::from_parts(&kind, &pattern)
        .ok_or_else(|| damaged(format!("unknown kind of pattern {kind:?}")))?;
    let (targets, policy): (String, String) = (row.get(4)?, row.get(10)?);
    Ok(Route {
        id: row.get(0)?,
        pattern,
        targets: serde_json::from_str(&targets).map_err(|error| damaged(error.to_string()))?,
        open: row.get(5)?,
        probe: row.get(6)?,
        strip: row.get(7)?,
        prefix: row.get(8)?,
        created_at: from_seconds(row.get(9)?),
        policy: serde_json::from_str(&policy).map_err(|error| damaged(error.to_string()))?,
        name,
    })
}

pub(super) fn add_call(conn: &Connection, call: &CallRecord) -> Result<WriteDone, Failure> {
    insert_call(conn, call, "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)")?;
    Ok(WriteDone::Added { id: conn.last_insert_rowid() })
}

/// The end of the call is looked for first, which has an index.
pub(super) fn ensure_call(conn: &Connection, call: &CallRecord) -> Result<WriteDone, Failure> {
    let unless_there = "SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10 WHERE NOT EXISTS (SELECT 1 FROM call_record \
        WHERE ended_at = ?6 AND call_id = ?1 AND from_uri = ?2 AND to_uri = ?3 AND started_at = ?4 AND answered_at IS ?5 \
        AND code = ?7 AND account IS ?9 AND callee IS ?10)";
    Ok(WriteDone::Changed { rows: insert_call(conn, call, unless_there)? as u64 })
}

/// Returns the number of rows added. `source` gives the columns of the record, in their order.
fn insert_call(conn: &Connection, call: &CallRecord, source: &str) -> Result<usize, Failure> {
    let sql = format!(
        "INSERT INTO call_record \
        (call_id, from_uri, to_uri, started_at, answered_at, ended_at, code, reason, account, callee) {source}"
    );
    Ok(conn.prepare_cached(&sql)?.execute(params![
        cut(&call.call_id),
        cut(&call.from),
        cut(&call.to),
        micros(call.started_at),
        call.answered_at.map(micros),
        micros(call.ended_at),
        call.code,
        cut(&call.reason),
        call.account,
        call.callee,
    ])?)
}

/// Texts of a call come from peers: a longer one loses its end, and the record stands.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(limits::MAX_CALL_TEXT)]
}

/// An account's calls are those that it placed and those that it received.
pub(super) fn calls(conn: &Connection, filter: &CallFilter) -> Result<Vec<CallRecord>, Failure> {
    let sql = "SELECT call_id, from_uri, to_uri, started_at, answered_at, ended_at, code, reason, account, callee \
               FROM call_record WHERE (?1 IS NULL OR account = ?1 OR callee = ?1) AND (?2 IS NULL OR call_id = ?2) \
               AND (?4 IS NULL OR ended_at <= ?4) ORDER BY id DESC LIMIT ?3";
    let mut statement = conn.prepare_cached(sql)?;
    let limit = filter.limit.min(limits::MAX_PAGE);
    let until = filter.ended_until.map(micros);
    let calls = statement.query_map(params![filter.account, filter.call_id, limit, until], call_of)?;
    Ok(calls.collect::<rusqlite::Result<_>>()?)
}

fn call_of(row: &rusqlite::Row<'_>) -> rusqlite::Result<CallRecord> {
    Ok(CallRecord {
        call_id: row.get(0)?,
        from: row.get(1)?,
        to: row.get(2)?,
        started_at: from_micros(row.get(3)?),
        answered_at: row.get::<_, Option<i64>>(4)?.map(from_micros),
        ended_at: from_micros(row.get(5)?),
        code: row.get(6)?,
        reason: row.get(7)?,
        account: row.get(8)?,
        callee: row.get(9)?,
    })
}

/// Finds calls among so many records, in the order of their ends. Of letters only those of ASCII are one whether capital or small.
pub(super) fn search_calls(conn: &Connection, search: &CallSearch) -> Result<CallPage, Failure> {
    let (from, until) = search.times();
    if let Some(account) = search.of_account_alone() {
        return calls_of_account(conn, search, account);
    }
    // The index alone says where the last record is that may be looked at.
    let sql = "SELECT ended_at FROM call_record WHERE ended_at >= ?1 AND ended_at <= ?2 \
               ORDER BY ended_at DESC LIMIT 1 OFFSET ?3";
    let mut statement = conn.prepare_cached(sql)?;
    let last = statement.query_row(params![from, until, search.records_to_look_at()], |row| row.get(0));
    let last: Option<i64> = last.optional()?;
    let sql = "SELECT call_id, from_uri, to_uri, started_at, answered_at, ended_at, code, reason, account, callee \
               FROM call_record WHERE ended_at >= ?1 AND ended_at <= ?2 \
               AND (?3 IS NULL OR account = ?3 OR callee = ?3) AND (?4 IS NULL OR call_id = ?4) AND (?5 IS NULL OR code = ?5) \
               AND (?6 IS NULL OR instr(lower(from_uri), ?6) OR instr(lower(to_uri), ?6) OR instr(lower(account), ?6) \
               OR instr(lower(callee), ?6) OR instr(lower(reason), ?6)) ORDER BY ended_at DESC, id DESC LIMIT ?7";
    let mut statement = conn.prepare_cached(sql)?;
    let text = search.text.as_ref().map(|text| text.to_ascii_lowercase());
    let (first, rows) = (last.unwrap_or(from), search.rows_to_read());
    let values = params![first, until, search.account, search.call_id, search.code, text, rows];
    let calls = statement.query_map(values, call_of)?.collect::<rusqlite::Result<_>>()?;
    Ok(CallPage::new(search, calls, last.map(from_micros)))
}

/// The calls of one account, which an index each has for those that it placed and for those that it was called by.
fn calls_of_account(conn: &Connection, search: &CallSearch, account: &str) -> Result<CallPage, Failure> {
    let (from, until) = search.times();
    let sql = "SELECT call_id, from_uri, to_uri, started_at, answered_at, ended_at, code, reason, account, callee \
               FROM call_record WHERE id IN (\
               SELECT id FROM (SELECT id FROM call_record WHERE account = ?1 AND ended_at >= ?2 AND ended_at <= ?3 \
               ORDER BY ended_at DESC, id DESC LIMIT ?4) UNION \
               SELECT id FROM (SELECT id FROM call_record WHERE callee = ?1 AND ended_at >= ?2 AND ended_at <= ?3 \
               ORDER BY ended_at DESC, id DESC LIMIT ?4)) ORDER BY ended_at DESC, id DESC LIMIT ?4";
    let mut statement = conn.prepare_cached(sql)?;
    let values = params![account, from, until, search.rows_to_read()];
    let calls = statement.query_map(values, call_of)?.collect::<rusqlite::Result<_>>()?;
    Ok(CallPage::new(search, calls, None))
}

pub(super) fn keep(conn: &Connection, message: &WaitingMessage) -> Result<WriteDone, Failure> {
    check_length("kept message", message.body.len(), limits::MAX_MESSAGE_BODY)?;
    let sql = "INSERT INTO kept_message (aor, from_uri, content_type, body, sent_at, expires_at) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    conn.prepare_cached(sql)?.execute(params![
        message.aor,
        message.from,
        message.content_type,
        &message.body[..],
        micros(message.sent_at),
        message.expires_at.map(micros)
    ])?;
    Ok(WriteDone::Added { id: conn.last_insert_rowid() })
}

/// Forgetting what is gone is not an error: two devices may have fetched it.
pub(super) fn forget(conn: &Connection, aor: &str, id: u64) -> Result<WriteDone, Failure> {
    let id = i64::try_from(id).unwrap_or(0);
    let sql = "DELETE FROM kept_message WHERE id = ?1 AND aor = ?2";
    let rows = conn.prepare_cached(sql)?.execute(params![id, aor])? as u64;
    Ok(WriteDone::Changed { rows })
}

/// The oldest first, up to `limits::MAX_KEPT_LOADED`.
pub(super) fn kept(conn: &Connection, aor: &str) -> Result<Vec<WaitingMessage>, Failure> {
    let sql = "SELECT id, from_uri, content_type, body, sent_at, expires_at FROM kept_message \
               WHERE aor = ?1 ORDER BY id LIMIT ?2";
    let mut statement = conn.prepare_cached(sql)?;
    let messages = statement.query_map(params![aor, limits::MAX_KEPT_LOADED], |row| {
        Ok(WaitingMessage {
            id: row.get::<_, i64>(0)?.try_into().unwrap_or(0),
            aor: aor.into(),
            from: row.get(1)?,
            content_type: row.get(2)?,
            body: row.get_ref(3)?.as_blob()?.into(),
            sent_at: from_micros(row.get(4)?),
            expires_at: row.get::<_, Option<i64>>(5)?.map(from_micros),
        })
    })?;
    Ok(messages.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn kept_counts(conn: &Connection) -> Result<Vec<(Box<str>, u32)>, Failure> {
    let mut statement = conn.prepare_cached("SELECT aor, count(*) FROM kept_message GROUP BY aor")?;
    let counts = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(counts.collect::<rusqlite::Result<_>>()?)
}

/// The table that `clean` deletes from, from the oldest row on.
#[derive(Clone, Copy)]
pub(super) enum Old {
    Calls,
    Messages,
}

/// Looks at the head of the table only, so cleaning costs the same however long the table is.
pub(super) fn clean(conn: &Connection, old: Old, before: i64) -> Result<WriteDone, Failure> {
    let sql = match old {
        Old::Calls => {
            "DELETE FROM call_record WHERE id IN (SELECT id \
             FROM (SELECT id, ended_at FROM call_record ORDER BY id LIMIT ?1) WHERE ended_at < ?2)"
        }
        Old::Messages => {
            "DELETE FROM kept_message WHERE id IN (SELECT id \
             FROM (SELECT id, sent_at FROM kept_message ORDER BY id LIMIT ?1) WHERE sent_at < ?2)"
        }
    };
    let rows = conn.prepare_cached(sql)?.execute(params![limits::CLEAN_CHUNK, before])? as u64;
    Ok(WriteDone::Changed { rows })
}
