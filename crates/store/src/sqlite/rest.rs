//! The REST interface's rows: one table for all kinds.
//!
//! Columns are what lists are filtered and sorted by; the resource itself is JSON in `body`. The same statements for PostgreSQL are in
//! `postgres::rest`.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, named_params, params, params_from_iter};
use stdx::Instant;

use crate::error::StoreError;
use crate::limits;
use crate::record::WriteDone;
use crate::rest::types::Client;
use crate::rest::{
    Kind, Period, Resource as _, RestFilter, RestLoaded, RestRead, RestWrite, Row, SortBy, Sum, UsageFilter,
};
use crate::types::{Address, NewAccount};

use super::{Failure, accounts, from_micros, micros};

/// In the order in which [`row`] reads them.
const COLUMNS: &str = "kind, sid, account, parent, name, status, from_uri, to_uri, direction, amount, created_at, \
                       updated_at, ended_at, body";

pub(super) fn write(conn: &Connection, write: &RestWrite) -> Result<WriteDone, Failure> {
    match write {
        RestWrite::Insert(row) => {
            add(conn, row, "")?;
            Ok(WriteDone::Added { id: conn.last_insert_rowid() })
        }
        RestWrite::Ensure(row) => {
            Ok(WriteDone::Changed { rows: add(conn, row, "ON CONFLICT DO NOTHING")? as u64 })
        }
        RestWrite::Replace(row) => replace(conn, row),
        RestWrite::Remove { kind, sid } => {
            let sql = "DELETE FROM rest WHERE sid = ?1 AND kind = ?2";
            changed_one(conn.prepare_cached(sql)?.execute(params![sid, *kind as u8])?, sid)
        }
        RestWrite::Forget { kind, before } => {
            let sql = "DELETE FROM rest WHERE id IN (SELECT id FROM rest WHERE kind = ?1 AND created_at < ?2 \
                       ORDER BY created_at LIMIT ?3)";
            let rows = conn.prepare_cached(sql)?.execute(params![
                *kind as u8,
                micros(*before),
                limits::CLEAN_CHUNK
            ])?;
            Ok(WriteDone::Changed { rows: rows as u64 })
        }
    }
}

/// Returns the number of rows added; `clause` decides on a conflict.
fn add(conn: &Connection, row: &Row, clause: &str) -> Result<usize, Failure> {
    let sql = format!(
        "INSERT INTO rest (kind, sid, account, parent, name, status, from_uri, to_uri, direction, amount, \
         created_at, updated_at, ended_at, body) VALUES (:kind, :sid, :account, :parent, :name, :status, \
         :from, :to, :direction, :amount, :created, :updated, :ended, :body) {clause}"
    );
    conn.prepare_cached(&sql)?
        .execute(named_params! {
            ":kind": row.kind as u8, ":sid": row.sid, ":account": row.account, ":parent": row.parent,
            ":name": row.name, ":status": row.status, ":from": row.from, ":to": row.to,
            ":direction": row.direction, ":amount": row.amount, ":created": micros(row.created_at),
            ":updated": micros(row.updated_at), ":ended": row.ended_at.map(micros), ":body": row.body,
        })
        .map_err(|error| Failure::from(error).or_exists(|| name_of(row)))
}

/// The time of creation stays. A row that is not there is an error.
fn replace(conn: &Connection, row: &Row) -> Result<WriteDone, Failure> {
    let sql = "UPDATE rest SET account = :account, parent = :parent, name = :name, status = :status, \
               from_uri = :from, to_uri = :to, direction = :direction, amount = :amount, updated_at = :updated, \
               ended_at = :ended, body = :body WHERE sid = :sid AND kind = :kind";
    let rows = conn
        .prepare_cached(sql)?
        .execute(named_params! {
            ":kind": row.kind as u8, ":sid": row.sid, ":account": row.account, ":parent": row.parent,
            ":name": row.name, ":status": row.status, ":from": row.from, ":to": row.to,
            ":direction": row.direction, ":amount": row.amount, ":updated": micros(row.updated_at),
            ":ended": row.ended_at.map(micros), ":body": row.body,
        })
        .map_err(|error| Failure::from(error).or_exists(|| name_of(row)))?;
    changed_one(rows, &row.sid)
}

/// Takes the voicemail of a removed account out of its mailbox. The rows stay, of a kind of their own, until a node has deleted the sound.
pub(super) fn remove_voicemail(conn: &Connection, user: &str) -> Result<(), Failure> {
    // The kind is written out, as the index of mailboxes serves only a statement that names it.
    let sql = "UPDATE rest SET kind = ?2 WHERE kind = 6 AND to_uri = ?1";
    conn.prepare_cached(sql)?.execute(params![user, Kind::RemovedVoicemail as u8])?;
    Ok(())
}

/// Adds a client and its account. Either is refused alone where its name is taken, and then neither is there.
pub(super) fn add_client(
    conn: &Connection,
    client: &Row,
    account: &NewAccount,
    disabled: bool,
) -> Result<WriteDone, Failure> {
    add(conn, client, "")?;
    let added = accounts::add(conn, account);
    if added.is_err() {
        // The other writes of the group stand: what was changed before the fault has to be taken back.
        conn.prepare_cached("DELETE FROM rest WHERE sid = ?1")?.execute([&client.sid])?;
    }
    let WriteDone::Added { id } = added? else {
        return Err(StoreError::Internal { detail: "an account without an id".into() }.into());
    };
    if disabled {
        accounts::set_disabled(conn, &account.address, true)?;
    }
    Ok(WriteDone::ClientAdded { id })
}

/// Fails unless the client is there, and the account that a write changes is the one that was made with it.
pub(super) fn check_client(conn: &Connection, sid: &str, account: &Address) -> Result<(), Failure> {
    let found = one(conn, "sid = ?1 AND kind = ?2", params![sid, Kind::Client as u8])?;
    let client = found.ok_or_else(|| StoreError::not_found(sid))?;
    let client = Client::from_row(&client).map_err(|_| StoreError::not_found(sid))?;
    let is_its = client.address()? == *account && client.is_made_with(accounts::created_at(conn, account)?);
    if is_its { Ok(()) } else { Err(StoreError::not_found(sid).into()) }
}

/// Deletes the client of an account that is removed. True if there was one.
pub(super) fn remove_client(conn: &Connection, account: &Address) -> Result<bool, Failure> {
    let Some(client) = client_of(conn, account)? else { return Ok(false) };
    conn.prepare_cached("DELETE FROM rest WHERE sid = ?1")?.execute([client.common.sid])?;
    Ok(true)
}

/// The operator has disabled or enabled the account: it is not the client's request any more that disables it.
pub(super) fn enable_client(conn: &Connection, account: &Address) -> Result<(), Failure> {
    match client_of(conn, account)?.and_then(Client::enabled) {
        Some(client) => replace(conn, &client.row()?).map(drop),
        None => Ok(()),
    }
}

/// The client of an address. A row that cannot be read is of no account.
fn client_of(conn: &Connection, account: &Address) -> Result<Option<Client>, Failure> {
    // The kind is written out, as the index of clients serves only a statement that names it.
    let row = one(conn, "name = ?1 AND kind = 3", params![account.user])?;
    let client = row.and_then(|row| Client::from_row(&row).ok());
    Ok(client.filter(|client| client.address().is_ok_and(|address| address == *account)))
}

/// The name of the existing row, for the error.
fn name_of(row: &Row) -> String {
    row.name.as_deref().unwrap_or(&row.sid).to_owned()
}

fn changed_one(rows: usize, sid: &str) -> Result<WriteDone, Failure> {
    match rows {
        0 => Err(StoreError::not_found(sid).into()),
        rows => Ok(WriteDone::Changed { rows: rows as u64 }),
    }
}

pub(super) fn load(conn: &Connection, read: &RestRead) -> Result<RestLoaded, Failure> {
    Ok(match read {
        RestRead::Sid { kind, sid } => {
            one(conn, "sid = ?1 AND kind = ?2", params![sid, *kind as u8]).map(RestLoaded::Row)?
        }
        RestRead::Name { kind, account, name } => one(
            conn,
            "name = ?1 AND kind = ?2 AND (?3 IS NULL OR account = ?3)",
            params![name, *kind as u8, account],
        )
        .map(RestLoaded::Row)?,
        RestRead::List(filter) => list(conn, filter)?,
        RestRead::Usage(filter) => RestLoaded::Sums(usage(conn, filter)?),
    })
}

fn one(
    conn: &Connection,
    condition: &str,
    given: impl rusqlite::Params,
) -> Result<Option<Box<Row>>, Failure> {
    let sql = format!("SELECT {COLUMNS} FROM rest WHERE {condition}");
    Ok(conn.prepare_cached(&sql)?.query_row(given, row).optional()?.map(Box::new))
}

/// The conditions of a filter and their values: only those that are asked for, so that the indexes serve.
fn conditions(filter: &RestFilter) -> (String, Vec<Value>) {
    // The kind is written out, as an index of some kinds only serves a statement that names them.
    let mut sql = format!("kind = {}", filter.kind as u8);
    let mut values = Vec::new();
    let texts = [
        ("account", &filter.account),
        ("parent", &filter.parent),
        ("name", &filter.name),
        ("status", &filter.status),
        ("from_uri", &filter.from),
        ("to_uri", &filter.to),
    ];
    for (column, text) in texts.into_iter().filter_map(|(column, text)| Some((column, text.as_ref()?))) {
        sql.push_str(&format!(" AND {column} = ?"));
        values.push(Value::Text(text.to_string()));
    }
    let times = [
        ("created_at >=", filter.created_from),
        ("created_at <=", filter.created_to),
        ("ended_at >=", filter.ended_from),
        ("ended_at <=", filter.ended_to),
    ];
    for (column, at) in times.into_iter().filter_map(|(column, at)| Some((column, at?))) {
        sql.push_str(&format!(" AND {column} ?"));
        values.push(Value::Integer(micros(at)));
    }
    (sql, values)
}

/// A page, and the number of rows on all pages. Rows of equal values are in the order of their ids, so that pages do not overlap.
fn list(conn: &Connection, filter: &RestFilter) -> Result<RestLoaded, Failure> {
    let (conditions, mut values) = conditions(filter);
    let sql = format!("SELECT count(*) FROM rest WHERE {conditions}");
    let total: i64 =
        conn.prepare_cached(&sql)?.query_row(params_from_iter(values.iter()), |row| row.get(0))?;
    let column = match filter.sort {
        SortBy::Created => "created_at",
        SortBy::From => "from_uri",
        SortBy::To => "to_uri",
        SortBy::Direction => "direction",
        SortBy::Status => "status",
        SortBy::Amount => "amount",
        SortBy::Name => "name",
    };
    let order = if filter.ascending { "ASC" } else { "DESC" };
    let sql = format!(
        "SELECT {COLUMNS} FROM rest WHERE {conditions} ORDER BY {column} {order}, id {order} LIMIT ? OFFSET ?"
    );
    values.push(Value::Integer(i64::from(filter.limit.min(limits::MAX_PAGE))));
    values.push(Value::Integer(i64::try_from(filter.offset).unwrap_or(i64::MAX)));
    let mut statement = conn.prepare_cached(&sql)?;
    let rows = statement.query_map(params_from_iter(values.iter()), row)?;
    Ok(RestLoaded::Page {
        rows: rows.collect::<rusqlite::Result<_>>()?,
        total: total.try_into().unwrap_or_default(),
    })
}

/// Sums of calls, recordings, messages and transcriptions (kinds 4, 6, 8 and 11).
fn usage(conn: &Connection, filter: &UsageFilter) -> Result<Vec<Sum>, Failure> {
    let format = match filter.by {
        Period::All => "",
        Period::Day => "%Y-%m-%d",
        Period::Month => "%Y-%m",
        Period::Year => "%Y",
    };
    let sql = "SELECT kind, direction, strftime(?4, created_at / 1000000, 'unixepoch') AS period, count(*), \
               coalesce(sum(amount), 0), coalesce(sum((amount + 59) / 60), 0) FROM rest \
               WHERE account = ?1 AND created_at >= ?2 AND created_at < ?3 AND kind IN (4, 6, 8, 11) \
               GROUP BY period, kind, direction ORDER BY period DESC, kind, direction";
    let mut statement = conn.prepare_cached(sql)?;
    let from = filter.from.map_or(0, micros);
    let to = filter.to.map_or(i64::MAX, micros);
    let sums = statement.query_map(params![filter.account, from, to, format], |row| {
        let whole = |index| row.get::<_, i64>(index).map(|value| u64::try_from(value).unwrap_or(0));
        Ok(Sum {
            kind: kind(row.get(0)?)?,
            direction: row.get(1)?,
            period: row.get::<_, Option<Box<str>>>(2)?.unwrap_or_default(),
            count: whole(3)?,
            amount: whole(4)?,
            minutes: whole(5)?,
        })
    })?;
    Ok(sums.collect::<rusqlite::Result<_>>()?)
}

fn row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let at = |index| row.get::<_, i64>(index).map(from_micros);
    Ok(Row {
        kind: kind(row.get(0)?)?,
        sid: row.get(1)?,
        account: row.get(2)?,
        parent: row.get(3)?,
        name: row.get(4)?,
        status: row.get(5)?,
        from: row.get(6)?,
        to: row.get(7)?,
        direction: row.get(8)?,
        amount: row.get(9)?,
        created_at: at(10)?,
        updated_at: at(11)?,
        ended_at: row.get::<_, Option<i64>>(12)?.map(from_micros) as Option<Instant>,
        body: row.get(13)?,
    })
}

/// A row of a kind that only a later version knows is an error.
fn kind(number: u8) -> rusqlite::Result<Kind> {
    Kind::from_number(number).ok_or(rusqlite::Error::IntegralValueOutOfRange(0, number.into()))
}
