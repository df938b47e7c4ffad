//! The REST interface's rows: one table for all kinds.
//!
//! As `sqlite::rest`, with the same columns.

use tokio_postgres::Row as DatabaseRow;
use tokio_postgres::types::ToSql;

use crate::error::StoreError;
use crate::limits;
use crate::record::WriteDone;
use crate::rest::types::Client;
use crate::rest::{
    Kind, Period, Resource as _, RestFilter, RestLoaded, RestRead, RestWrite, Row, SortBy, Sum, UsageFilter,
};
use crate::types::{Address, NewAccount};

use super::accounts;
use super::connection::{Connection, Values, from_micros, micros, narrow, values};
use super::failure::Failure;

/// In the order in which [`row`] reads them.
const COLUMNS: &str = "kind, sid, account, parent, name, status, from_uri, to_uri, direction, amount, created_at, \
                       updated_at, ended_at, body";

/// A kind as its column has it.
fn number(kind: Kind) -> i16 {
    i16::from(kind as u8)
}

/// One change of one row. `Ensure` adds a row only where none is, which is no error; `Forget` deletes the oldest of a kind, a chunk at a time.
pub(super) fn write(connection: &mut Connection, write: &RestWrite) -> Result<WriteDone, Failure> {
    match write {
        RestWrite::Insert(row) => match add(connection, row)? {
            Some(id) => Ok(WriteDone::Added { id }),
            None => Err(StoreError::exists(name_of(row)).into()),
        },
        RestWrite::Ensure(row) => Ok(WriteDone::Changed { rows: u64::from(add(connection, row)?.is_some()) }),
        RestWrite::Replace(row) => replace(connection, row),
        RestWrite::Remove { kind, sid } => {
            let sql = "DELETE FROM rest WHERE sid = $1 AND kind = $2";
            changed_one(connection.execute(sql, values![sid, number(*kind)])?, sid)
        }
        RestWrite::Forget { kind, before } => {
            let sql = "DELETE FROM rest WHERE id IN (SELECT id FROM rest WHERE kind = $1 AND created_at < $2 \
                       ORDER BY created_at LIMIT $3)";
            let values = values![number(*kind), micros(*before), i64::from(limits::CLEAN_CHUNK)];
            Ok(WriteDone::Changed { rows: connection.execute(sql, values)? })
        }
    }
}

/// The id of the new row; `None`: its sid, or a name that must be its own, is taken.
fn add(connection: &mut Connection, row: &Row) -> Result<Option<i64>, Failure> {
    let sql = "INSERT INTO rest (kind, sid, account, parent, name, status, from_uri, to_uri, direction, amount, \
               created_at, updated_at, ended_at, body) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) \
               ON CONFLICT DO NOTHING RETURNING id";
    let found = connection.query_first(
        sql,
        values![
            number(row.kind),
            row.sid,
            row.account,
            row.parent,
            row.name,
            row.status,
            row.from,
            row.to,
            row.direction,
            row.amount,
            micros(row.created_at),
            micros(row.updated_at),
            row.ended_at.map(micros),
            row.body,
        ],
    )?;
    Ok(found.map(|row| row.try_get(0)).transpose()?)
}

/// The time of creation stays. A row that is not there is an error.
fn replace(connection: &mut Connection, row: &Row) -> Result<WriteDone, Failure> {
    let sql = "UPDATE rest SET account = $3, parent = $4, name = $5, status = $6, from_uri = $7, to_uri = $8, \
               direction = $9, amount = $10, updated_at = $11, ended_at = $12, body = $13 \
               WHERE sid = $2 AND kind = $1";
    // A name that is taken would end the whole transaction: it is looked for first, and the index is the last word. If another transaction has
    // taken the name meanwhile, the index fails the statement; the group is written again, each write apart, and then the name is found here.
    // Kinds whose names are unique: accounts, numbers and clients (0, 2, 3) in the whole record, queues and caller ids (9, 10) in their account.
    let taken = "SELECT 1 FROM rest WHERE kind = $1 AND name = $2 AND sid <> $3 \
                 AND (kind IN (0, 2, 3) OR (kind IN (9, 10) AND account = $4))";
    if connection.exists(taken, values![number(row.kind), row.name, row.sid, row.account])? {
        return Err(StoreError::exists(name_of(row)).into());
    }
    let rows = connection.execute(
        sql,
        values![
            number(row.kind),
            row.sid,
            row.account,
            row.parent,
            row.name,
            row.status,
            row.from,
            row.to,
            row.direction,
            row.amount,
            micros(row.updated_at),
            row.ended_at.map(micros),
            row.body,
        ],
    )?;
    changed_one(rows, &row.sid)
}

/// Takes the voicemail of a removed account out of its mailbox. The rows stay, of a kind of their own, until a node has deleted the sound.
pub(super) fn remove_voicemail(connection: &mut Connection, user: &str) -> Result<(), Failure> {
    // The kind is written out, as the index of mailboxes serves only a statement that names it.
    let sql = "UPDATE rest SET kind = $2 WHERE kind = 6 AND to_uri = $1";
    connection.execute(sql, values![user, number(Kind::RemovedVoicemail)])?;
    Ok(())
}

/// Adds a client and its account. Either is refused alone where its name is taken, and then neither is there.
pub(super) fn add_client(
    connection: &mut Connection,
    client: &Row,
    account: &NewAccount,
    disabled: bool,
) -> Result<WriteDone, Failure> {
    if add(connection, client)?.is_none() {
        return Err(StoreError::exists(name_of(client)).into());
    }
    let added = accounts::add(connection, account);
    if let Err(Failure::Store(_)) = &added {
        // The other writes of the group stand: what was changed before the fault has to be taken back.
        connection.execute("DELETE FROM rest WHERE sid = $1", values![client.sid])?;
    }
    let WriteDone::Added { id } = added? else {
        return Err(StoreError::Internal { detail: "an account without an id".into() }.into());
    };
    if disabled {
        accounts::set_disabled(connection, &account.address, true)?;
    }
    Ok(WriteDone::ClientAdded { id })
}

/// Fails unless the client is there, and the account that a write changes is the one that was made with it. The client stays until the
/// transaction ends.
pub(super) fn check_client(connection: &mut Connection, sid: &str, account: &Address) -> Result<(), Failure> {
    let found = one(connection, "sid = $1 AND kind = $2 FOR UPDATE", values![sid, number(Kind::Client)])?;
    let client = found.ok_or_else(|| StoreError::not_found(sid))?;
    let client = Client::from_row(&client).map_err(|_| StoreError::not_found(sid))?;
    let is_its =
        client.address()? == *account && client.is_made_with(accounts::created_at(connection, account)?);
    if is_its { Ok(()) } else { Err(StoreError::not_found(sid).into()) }
}

/// Deletes the client of an account that is removed. True if there was one.
pub(super) fn remove_client(connection: &mut Connection, account: &Address) -> Result<bool, Failure> {
    let Some(client) = client_of(connection, account)? else { return Ok(false) };
    connection.execute("DELETE FROM rest WHERE sid = $1", values![client.common.sid])?;
    Ok(true)
}

/// The operator has disabled or enabled the account: it is not the client's request any more that disables it.
pub(super) fn enable_client(connection: &mut Connection, account: &Address) -> Result<(), Failure> {
    match client_of(connection, account)?.and_then(Client::enabled) {
        Some(client) => replace(connection, &client.row()?).map(drop),
        None => Ok(()),
    }
}

/// The client of an address. A row that cannot be read is of no account.
fn client_of(connection: &mut Connection, account: &Address) -> Result<Option<Client>, Failure> {
    // The kind is written out, as the index of clients serves only a statement that names it.
    let row = one(connection, "name = $1 AND kind = 3 FOR UPDATE", values![account.user])?;
    let client = row.and_then(|row| Client::from_row(&row).ok());
    Ok(client.filter(|client| client.address().is_ok_and(|address| address == *account)))
}

/// The name of the existing row, for the error.
fn name_of(row: &Row) -> String {
    row.name.as_deref().unwrap_or(&row.sid).to_owned()
}

fn changed_one(rows: u64, sid: &str) -> Result<WriteDone, Failure> {
    match rows {
        0 => Err(StoreError::not_found(sid).into()),
        rows => Ok(WriteDone::Changed { rows }),
    }
}

/// A single row by sid or name, a page of a list, or sums.
pub(super) fn load(connection: &mut Connection, read: &RestRead) -> Result<RestLoaded, Failure> {
    Ok(match read {
        RestRead::Sid { kind, sid } => {
            let values = values![sid, number(*kind)];
            RestLoaded::Row(one(connection, "sid = $1 AND kind = $2", values)?)
        }
        RestRead::Name { kind, account, name } => {
            let condition = "name = $1 AND kind = $2 AND ($3::text IS NULL OR account = $3)";
            RestLoaded::Row(one(connection, condition, values![name, number(*kind), account])?)
        }
        RestRead::List(filter) => list(connection, filter)?,
        RestRead::Usage(filter) => RestLoaded::Sums(usage(connection, filter)?),
    })
}

/// The first row that meets a condition, whose values are `$1` and on.
fn one(
    connection: &mut Connection,
    condition: &str,
    values: Values<'_>,
) -> Result<Option<Box<Row>>, Failure> {
    let sql = format!("SELECT {COLUMNS} FROM rest WHERE {condition}");
    connection.query_first(&sql, values)?.as_ref().map(|found| row(found).map(Box::new)).transpose()
}

/// The conditions of a filter and their values: only those that are asked for, so that the indexes serve.
fn conditions(filter: &RestFilter) -> (String, Vec<Box<dyn ToSql + Sync>>) {
    // The kind is written out, as an index of some kinds only serves a statement that names them.
    let mut sql = format!("kind = {}", number(filter.kind));
    let mut values: Vec<Box<dyn ToSql + Sync>> = Vec::new();
    let texts = [
        ("account", &filter.account),
        ("parent", &filter.parent),
        ("name", &filter.name),
        ("status", &filter.status),
        ("from_uri", &filter.from),
        ("to_uri", &filter.to),
    ];
    for (column, text) in texts.into_iter().filter_map(|(column, text)| Some((column, text.as_ref()?))) {
        values.push(Box::new(text.clone()));
        sql.push_str(&format!(" AND {column} = ${}", values.len()));
    }
    let times = [
        ("created_at >=", filter.created_from),
        ("created_at <=", filter.created_to),
        ("ended_at >=", filter.ended_from),
        ("ended_at <=", filter.ended_to),
    ];
    for (column, at) in times.into_iter().filter_map(|(column, at)| Some((column, at?))) {
        values.push(Box::new(micros(at)));
        sql.push_str(&format!(" AND {column} ${}", values.len()));
    }
    (sql, values)
}

/// As the driver takes them.
fn borrowed(values: &[Box<dyn ToSql + Sync>]) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(|value| &**value).collect()
}

/// A page, and the number of rows on all pages. Rows of equal values are in the order of their ids, so that pages do not overlap.
fn list(connection: &mut Connection, filter: &RestFilter) -> Result<RestLoaded, Failure> {
    let (conditions, mut values) = conditions(filter);
    let sql = format!("SELECT count(*) FROM rest WHERE {conditions}");
    let total = connection.number(&sql, &borrowed(&values))?;
    let column = match filter.sort {
        SortBy::Created => "created_at",
        SortBy::From => "from_uri",
        SortBy::To => "to_uri",
        SortBy::Direction => "direction",
        SortBy::Status => "status",
        SortBy::Amount => "amount",
        SortBy::Name => "name",
    };
    // Nothing is less than any text or number, as in the embedded database.
    let order = if filter.ascending { "ASC NULLS FIRST" } else { "DESC NULLS LAST" };
    values.push(Box::new(i64::from(filter.limit.min(limits::MAX_PAGE))));
    values.push(Box::new(i64::try_from(filter.offset).unwrap_or(i64::MAX)));
    let sql = format!(
        "SELECT {COLUMNS} FROM rest WHERE {conditions} ORDER BY {column} {order}, id {order} LIMIT ${} OFFSET ${}",
        values.len() - 1,
        values.len()
    );
    let rows = connection.query(&sql, &borrowed(&values))?;
    Ok(RestLoaded::Page { rows: rows.iter().map(row).collect::<Result<_, _>>()?, total: narrow(total) })
}

/// Sums of calls, recordings, messages and transcriptions (kinds 4, 6, 8 and 11).
fn usage(connection: &mut Connection, filter: &UsageFilter) -> Result<Vec<Sum>, Failure> {
    let format = match filter.by {
        // An empty pattern gives an empty text, the same for all rows.
        Period::All => "",
        Period::Day => "YYYY-MM-DD",
        Period::Month => "YYYY-MM",
        Period::Year => "YYYY",
    };
    // `amount` is in seconds for all kinds but messages: 59 more make whole minutes, rounded up.
    let sql = "SELECT kind, direction, to_char(to_timestamp(created_at / 1000000) AT TIME ZONE 'UTC', $4::text) AS period, \
               count(*), coalesce(sum(amount), 0)::bigint, coalesce(sum((amount + 59) / 60), 0)::bigint FROM rest \
               WHERE account = $1 AND created_at >= $2 AND created_at < $3 AND kind IN (4, 6, 8, 11) \
               GROUP BY period, kind, direction ORDER BY period DESC, kind, direction NULLS FIRST";
    let (from, to) = (filter.from.map_or(0, micros), filter.to.map_or(i64::MAX, micros));
    let rows = connection.query(sql, values![filter.account, from, to, format])?;
    let sum = |row: &DatabaseRow| {
        Ok(Sum {
            kind: kind(row.try_get(0)?)?,
            direction: row.try_get(1)?,
            period: row.try_get::<_, Option<Box<str>>>(2)?.unwrap_or_default(),
            count: narrow(row.try_get(3)?),
            amount: narrow(row.try_get(4)?),
            minutes: narrow(row.try_get(5)?),
        })
    };
    rows.iter().map(sum).collect()
}

/// The columns by their places in [`COLUMNS`].
fn row(row: &DatabaseRow) -> Result<Row, Failure> {
    let at = |index| row.try_get::<_, i64>(index).map(from_micros);
    Ok(Row {
        kind: kind(row.try_get(0)?)?,
        sid: row.try_get(1)?,
        account: row.try_get(2)?,
        parent: row.try_get(3)?,
        name: row.try_get(4)?,
        status: row.try_get(5)?,
        from: row.try_get(6)?,
        to: row.try_get(7)?,
        direction: row.try_get(8)?,
        amount: row.try_get(9)?,
        created_at: at(10)?,
        updated_at: at(11)?,
        ended_at: row.try_get::<_, Option<i64>>(12)?.map(from_micros),
        body: row.try_get(13)?,
    })
}

/// A row of a kind that only a later version knows is an error.
fn kind(number: i16) -> Result<Kind, Failure> {
    let kind = u8::try_from(number).ok().and_then(Kind::from_number);
    kind.ok_or_else(|| StoreError::Internal { detail: format!("a resource of the kind {number}") }.into())
}
