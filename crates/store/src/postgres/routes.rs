//! Routes, call records and kept messages.
//!
//! Each function runs one statement. Calls come in groups: the writer runs [`ADD_CALLS`] once for all of a group.

use cluster::Bucket;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::call_search::{CallPage, CallSearch};
use crate::error::StoreError;
use crate::limits;
use crate::record::WriteDone;
use crate::types::{CallFilter, CallRecord, Pattern, Route, WaitingMessage, check_length};

use super::connection::{Connection, from_micros, from_seconds, micros, narrow, seconds, values};
use super::failure::Failure;

/// An existing route of that name stays, and the caller gets an error.
pub(super) fn add(connection: &mut Connection, route: &Route) -> Result<WriteDone, Failure> {
    route.check()?;
    let sql = "INSERT INTO route \
        (name, pattern_kind, pattern, targets, open, probe, strip, prefix, policy, created_at) \
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING RETURNING id";
    let row = connection.query_first(
        sql,
        values![
            route.name,
            route.pattern.kind(),
            route.pattern.value(),
            json(&route.targets[..])?,
            route.open,
            route.probe,
            i16::from(route.strip),
            route.prefix,
            json(&route.policy)?,
            seconds(route.created_at),
        ],
    )?;
    let row = row.ok_or_else(|| StoreError::exists(format!("route {}", route.name)))?;
    Ok(WriteDone::Added { id: row.try_get(0)? })
}

/// Keeps its id and when it was made.
pub(super) fn replace(connection: &mut Connection, route: &Route) -> Result<WriteDone, Failure> {
    route.check()?;
    let sql = "UPDATE route SET pattern_kind = $2, pattern = $3, targets = $4, open = $5, probe = $6, \
               strip = $7, prefix = $8, policy = $9 WHERE name = $1";
    let rows = connection.execute(
        sql,
        values![
            route.name,
            route.pattern.kind(),
            route.pattern.value(),
            json(&route.targets[..])?,
            route.open,
            route.probe,
            i16::from(route.strip),
            route.prefix,
            json(&route.policy)?,
        ],
    )?;
    changed_one(rows, || format!("route {}", route.name))
}

/// Fails when there is none of that name, unlike [`forget`].
pub(super) fn remove(connection: &mut Connection, name: &str) -> Result<WriteDone, Failure> {
    let rows = connection.execute("DELETE FROM route WHERE name = $1", values![name])?;
    changed_one(rows, || format!("route {name}"))
}

/// `what` is only made for an error.
fn changed_one(rows: u64, what: impl FnOnce() -> String) -> Result<WriteDone, Failure> {
    match rows {
        0 => Err(StoreError::not_found(what()).into()),
        rows => Ok(WriteDone::Changed { rows }),
    }
}

/// Targets and policy are kept as JSON in one column each; no statement looks into them.
fn json<T: serde::Serialize + ?Sized>(value: &T) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|error| StoreError::Internal { detail: error.to_string() }.into())
}

/// In the order of their making.
pub(super) fn list(connection: &mut Connection) -> Result<Vec<Route>, Failure> {
    let sql = "SELECT id, name, pattern_kind, pattern, targets, open, probe, strip, prefix, created_at, policy \
               FROM route ORDER BY id";
    connection.query(sql, &[])?.iter().map(route).collect()
}

/// A row of [`list`]. A pattern of an unknown kind, as a later version may have written, is an error and not left out.
fn route(row: &Row) -> Result<Route, Failure> {
    let name: Box<str> = row.try_get(1)?;
    let damaged = |detail: String| StoreError::Internal { detail: format!("route {name}: {detail}") };
    let (kind, pattern): (&str, &str) = (row.try_get(2)?, row.try_get(3)?);
    let pattern = Pattern::from_parts(kind, pattern)
        .ok_or_else(|| damaged(format!("unknown kind of pattern {kind:?}")))?;
    let (targets, policy): (&str, &str) = (row.try_get(4)?, row.try_get(10)?);
    Ok(Route {
        id: row.try_get(0)?,
        pattern,
        targets: serde_json::from_str(targets).map_err(|error| damaged(error.to_string()))?,
        open: row.try_get(5)?,
        probe: row.try_get(6)?,
        strip: narrow(i64::from(row.try_get::<_, i16>(7)?)),
        prefix: row.try_get(8)?,
        created_at: from_seconds(row.try_get(9)?),
        policy: serde_json::from_str(policy).map_err(|error| damaged(error.to_string()))?,
        name,
    })
}

/// One statement for all calls of a group.
pub(super) const ADD_CALLS: &str = "INSERT INTO call_record \
    (call_id, from_uri, to_uri, started_at, answered_at, ended_at, code, reason, account, callee) \
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], \
    $7::int[], $8::text[], $9::text[], $10::text[]) RETURNING id";

/// As [`ADD_CALLS`], without calls that are there already.
const ENSURE_CALLS: &str = "INSERT INTO call_record \
    (call_id, from_uri, to_uri, started_at, answered_at, ended_at, code, reason, account, callee) \
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], \
    $7::int[], $8::text[], $9::text[], $10::text[]) \
    AS new (call_id, from_uri, to_uri, started_at, answered_at, ended_at, code, reason, account, callee) \
    WHERE NOT EXISTS (SELECT 1 FROM call_record old WHERE old.ended_at = new.ended_at AND old.call_id = new.call_id \
    AND old.from_uri = new.from_uri AND old.to_uri = new.to_uri AND old.started_at = new.started_at \
    AND old.answered_at IS NOT DISTINCT FROM new.answered_at AND old.code = new.code \
    AND old.account IS NOT DISTINCT FROM new.account AND old.callee IS NOT DISTINCT FROM new.callee)";

/// The end of the call is looked for first, which has an index.
pub(super) fn ensure_call(connection: &mut Connection, call: &CallRecord) -> Result<WriteDone, Failure> {
    let rows = connection.execute(ENSURE_CALLS, &CallColumns::of(&[call]).values())?;
    Ok(WriteDone::Changed { rows })
}

/// Columns of calls for [`ADD_CALLS`].
pub(super) struct CallColumns<'a> {
    ids: Vec<&'a str>,
    from: Vec<&'a str>,
    to: Vec<&'a str>,
    started: Vec<i64>,
    answered: Vec<Option<i64>>,
    ended: Vec<i64>,
    codes: Vec<i32>,
    reasons: Vec<&'a str>,
    accounts: Vec<Option<&'a str>>,
    callees: Vec<Option<&'a str>>,
}

impl<'a> CallColumns<'a> {
    pub(super) fn of(calls: &[&'a CallRecord]) -> Self {
        // A NUL would make the statement fail, and with it all calls of the group.
        let texts = |of: fn(&CallRecord) -> &str| calls.iter().map(|call| cut(of(call))).collect::<Vec<_>>();
        CallColumns {
            ids: texts(|call| &call.call_id),
            from: texts(|call| &call.from),
            to: texts(|call| &call.to),
            started: calls.iter().map(|call| micros(call.started_at)).collect(),
            answered: calls.iter().map(|call| call.answered_at.map(micros)).collect(),
            ended: calls.iter().map(|call| micros(call.ended_at)).collect(),
            codes: calls.iter().map(|call| i32::from(call.code)).collect(),
            reasons: texts(|call| &call.reason),
            accounts: calls.iter().map(|call| call.account.as_deref()).collect(),
            callees: calls.iter().map(|call| call.callee.as_deref()).collect(),
        }
    }

    /// In the order of the parameters of [`ADD_CALLS`].
    pub(super) fn values(&self) -> [&(dyn ToSql + Sync); 10] {
        [
            &self.ids,
            &self.from,
            &self.to,
            &self.started,
            &self.answered,
            &self.ended,
            &self.codes,
            &self.reasons,
            &self.accounts,
            &self.callees,
        ]
    }
}

/// At a limit, and at a NUL, which the database does not take.
fn cut(text: &str) -> &str {
    let text = text.split('\0').next().unwrap_or_default();
    &text[..text.floor_char_boundary(limits::MAX_CALL_TEXT)]
}

/// The newest first. Without a value a filter lets everything through; an account's calls are those it made and those it received.
pub(super) fn calls(connection: &mut Connection, filter: &CallFilter) -> Result<Vec<CallRecord>, Failure> {
    let sql = "SELECT call_id, from_uri, to_uri, started_at, answered_at, ended_at, code, reason, account, callee \
               FROM call_record WHERE ($1::text IS NULL OR account = $1 OR callee = $1) \
               AND ($2::text IS NULL OR call_id = $2) \
               AND ($4::bigint IS NULL OR ended_at <= $4) ORDER BY id DESC LIMIT $3";
    let limit = i64::from(filter.limit.min(limits::MAX_PAGE));
    let until = filter.ended_until.map(micros);
    let rows = connection.query(sql, values![filter.account, filter.call_id, limit, until])?;
    rows.iter().map(call_of).collect()
}

fn call_of(row: &Row) -> Result<CallRecord, Failure> {
    Ok(CallRecord {
        call_id: row.try_get(0)?,
        from: row.try_get(1)?,
        to: row.try_get(2)?,
        started_at: from_micros(row.try_get(3)?),
        answered_at: row.try_get::<_, Option<i64>>(4)?.map(from_micros),
        ended_at: from_micros(row.try_get(5)?),
        code: narrow(i64::from(row.try_get::<_, i32>(6)?)),
        reason: row.try_get(7)?,
        account: row.try_get(8)?,
        callee: row.try_get(9)?,
    })
}

/// Finds calls among so many records, in the order of their ends.
pub(super) fn search_calls(connection: &mut Connection, search: &CallSearch) -> Result<CallPage, Failure> {
    let (from, until) = search.times();
    if let Some(account) = search.of_account_alone() {
        return calls_of_account(connection, search, account);
    }
    // The index alone says where the last record is that may be looked at.
    let sql = "SELECT ended_at FROM call_record WHERE ended_at >= $1 AND ended_at <= $2 \
               ORDER BY ended_at DESC LIMIT 1 OFFSET $3";
    let last = connection.query_first(sql, values![from, until, search.records_to_look_at()])?;
    let last = last.map(|row| row.try_get::<_, i64>(0)).transpose()?;
    let sql = "SELECT call_id, from_uri, to_uri, started_at, answered_at, ended_at, code, reason, account, callee \
               FROM call_record WHERE ended_at >= $1 AND ended_at <= $2 \
               AND ($3::text IS NULL OR account = $3 OR callee = $3) AND ($4::text IS NULL OR call_id = $4) \
               AND ($5::integer IS NULL OR code = $5) \
               AND ($6::text IS NULL OR position($6 IN lower(from_uri)) > 0 OR position($6 IN lower(to_uri)) > 0 \
               OR position($6 IN lower(account)) > 0 OR position($6 IN lower(callee)) > 0 \
               OR position($6 IN lower(reason)) > 0) ORDER BY ended_at DESC, id DESC LIMIT $7";
    let text = search.text.as_ref().map(|text| cut(&text.to_lowercase()).to_owned());
    let code = search.code.map(i32::from);
    let (first, rows) = (last.unwrap_or(from), search.rows_to_read());
    let values = values![first, until, search.account, search.call_id, code, text, rows];
    let calls = connection.query(sql, values)?.iter().map(call_of).collect::<Result<_, _>>()?;
    Ok(CallPage::new(search, calls, last.map(from_micros)))
}

/// The calls of one account, which an index each has for those that it placed and for those that it was called by.
fn calls_of_account(
    connection: &mut Connection,
    search: &CallSearch,
    account: &str,
) -> Result<CallPage, Failure> {
    let (from, until) = search.times();
    let sql = "SELECT call_id, from_uri, to_uri, started_at, answered_at, ended_at, code, reason, account, callee \
               FROM call_record WHERE id IN (\
               (SELECT id FROM call_record WHERE account = $1 AND ended_at >= $2 AND ended_at <= $3 \
               ORDER BY ended_at DESC, id DESC LIMIT $4) UNION \
               (SELECT id FROM call_record WHERE callee = $1 AND ended_at >= $2 AND ended_at <= $3 \
               ORDER BY ended_at DESC, id DESC LIMIT $4)) ORDER BY ended_at DESC, id DESC LIMIT $4";
    let values = values![account, from, until, search.rows_to_read()];
    let calls = connection.query(sql, values)?.iter().map(call_of).collect::<Result<_, _>>()?;
    Ok(CallPage::new(search, calls, None))
}

/// The bucket is stored with the message, so that a node of a farm can count those of its own buckets.
pub(super) fn keep(connection: &mut Connection, message: &WaitingMessage) -> Result<WriteDone, Failure> {
    check_length("kept message", message.body.len(), limits::MAX_MESSAGE_BODY)?;
    let sql = "INSERT INTO kept_message (aor, from_uri, content_type, body, sent_at, bucket, expires_at) \
               VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id";
    let bucket = Bucket::of(&message.aor).number().cast_signed();
    let values = values![
        message.aor,
        message.from,
        message.content_type,
        &message.body[..],
        micros(message.sent_at),
        bucket,
        message.expires_at.map(micros)
    ];
    Ok(WriteDone::Added { id: connection.number(sql, values)? })
}

/// Forgetting what is gone is not an error: two devices may have fetched it.
pub(super) fn forget(connection: &mut Connection, aor: &str, id: u64) -> Result<WriteDone, Failure> {
    let id = i64::try_from(id).unwrap_or(0);
    let rows = connection.execute("DELETE FROM kept_message WHERE id = $1 AND aor = $2", values![id, aor])?;
    Ok(WriteDone::Changed { rows })
}

/// The oldest first, at most [`limits::MAX_KEPT_LOADED`] of them.
pub(super) fn kept(connection: &mut Connection, aor: &str) -> Result<Vec<WaitingMessage>, Failure> {
    let sql = "SELECT id, from_uri, content_type, body, sent_at, expires_at FROM kept_message \
               WHERE aor = $1 ORDER BY id LIMIT $2";
    let message = |row: Row| {
        Ok(WaitingMessage {
            id: narrow(row.try_get(0)?),
            aor: aor.into(),
            from: row.try_get(1)?,
            content_type: row.try_get(2)?,
            body: row.try_get::<_, &[u8]>(3)?.into(),
            sent_at: from_micros(row.try_get(4)?),
            expires_at: row.try_get::<_, Option<i64>>(5)?.map(from_micros),
        })
    };
    let limit = i64::from(limits::MAX_KEPT_LOADED);
    connection.query(sql, values![aor, limit])?.into_iter().map(message).collect()
}

/// How many messages wait, for each address that has any.
pub(super) fn kept_counts(connection: &mut Connection) -> Result<Vec<(Box<str>, u32)>, Failure> {
    let rows = connection.query("SELECT aor, count(*) FROM kept_message GROUP BY aor", &[])?;
    rows.iter().map(|row| Ok((row.try_get(0)?, narrow(row.try_get(1)?)))).collect()
}

/// The same for some buckets of a farm.
pub(super) fn kept_counts_of_buckets(
    connection: &mut Connection,
    buckets: &[u16],
) -> Result<Vec<(Box<str>, u32)>, Failure> {
    let buckets: Vec<i16> = buckets.iter().map(|bucket| bucket.cast_signed()).collect();
    let sql = "SELECT aor, count(*) FROM kept_message WHERE bucket = ANY($1) GROUP BY aor";
    let rows = connection.query(sql, values![buckets])?;
    rows.iter().map(|row| Ok((row.try_get(0)?, narrow(row.try_get(1)?)))).collect()
}

/// The table that `clean` deletes from, from the oldest row on.
#[derive(Clone, Copy)]
pub(super) enum Old {
    Calls,
    Messages,
}

/// Looks at the head of the table only, so cleaning costs the same however long the table is.
pub(super) fn clean(connection: &mut Connection, old: Old, before: i64) -> Result<WriteDone, Failure> {
    let sql = match old {
        Old::Calls => {
            "DELETE FROM call_record WHERE id IN (SELECT id \
             FROM (SELECT id, ended_at FROM call_record ORDER BY id LIMIT $1) AS oldest WHERE ended_at < $2)"
        }
        Old::Messages => {
            "DELETE FROM kept_message WHERE id IN (SELECT id \
             FROM (SELECT id, sent_at FROM kept_message ORDER BY id LIMIT $1) AS oldest WHERE sent_at < $2)"
        }
    };
    let rows = connection.execute(sql, values![i64::from(limits::CLEAN_CHUNK), before])?;
    Ok(WriteDone::Changed { rows })
}
