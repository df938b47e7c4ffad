//! Reads of XMPP's tables: every read is bounded by rows, by bytes and, in `reader`, by the steps of SQLite.
//! Further rows are another page.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Params, Row, params, params_from_iter};
use stdx::Instant;

use crate::error::StoreError;
use crate::limits;
use crate::search;
use crate::xmpp::{
    ArchivePage, ArchiveQuery, ItemPage, ItemQuery, RosterRow, RowPage, StanzaPage, UserRow, XmppLoaded,
    XmppRead, damaged, read_budget,
};

use super::{Failure, from_micros, micros};

/// One read with its result. Reads of one user or one room have no pages.
pub(super) fn load(conn: &Connection, read: &XmppRead) -> Result<XmppLoaded, Failure> {
    Ok(match read {
        XmppRead::User { user, nodes } => XmppLoaded::User(Box::new(user_row(conn, user, nodes)?)),
        XmppRead::Items { owner, node, query } => XmppLoaded::Items(item_page(conn, (owner, node), query)?),
        // Every item of an owner, without pages.
        XmppRead::Kept { owner } => {
            let sql = "SELECT node, id, item FROM xmpp_item WHERE owner = ?1 ORDER BY node, seq";
            let mut statement = conn.prepare_cached(sql)?;
            let rows = statement.query_map([owner], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            XmppLoaded::Kept(rows.collect::<rusqlite::Result<_>>()?)
        }
        XmppRead::Nodes { owner, after } => {
            let sql = "SELECT node, at, config FROM xmpp_node WHERE owner = ?1 AND node > ?2 ORDER BY node LIMIT ?3";
            XmppLoaded::Rows(row_page(conn, sql, (owner, after.as_deref()))?)
        }
        XmppRead::Offline { user, after, ids } => XmppLoaded::Stanzas(offline_page(conn, user, *after, ids)?),
        XmppRead::Waiting => {
            let mut statement = conn.prepare_cached("SELECT DISTINCT user FROM xmpp_offline")?;
            let rows = statement.query_map([], |row| Ok(row.get::<_, String>(0)?.into()))?;
            XmppLoaded::Users(rows.collect::<Result<_, _>>()?)
        }
        XmppRead::Archive { owner, query } => {
            XmppLoaded::Page(search::page(query, |query| page(conn, owner, query))?)
        }
        XmppRead::Room { room } => {
            let sql = "SELECT config FROM xmpp_room WHERE room = ?1";
            let config: Option<String> =
                conn.prepare_cached(sql)?.query_row([room], |row| row.get(0)).optional()?;
            XmppLoaded::Room(config.map(Into::into))
        }
        XmppRead::Rooms { domain, after } => {
            let sql = "SELECT room, 0, config FROM xmpp_room WHERE domain = ?1 AND room > ?2 ORDER BY room LIMIT ?3";
            XmppLoaded::Rows(row_page(conn, sql, (domain, after.as_deref()))?)
        }
    })
}

/// Id or name, time, and XML.
type Item = (Box<str>, Instant, Box<str>);

/// Rows in the order of a statement, as far as the bytes go.
struct Taken<T> {
    rows: Vec<T>,
    /// The bytes did not suffice.
    is_cut: bool,
}

/// Steps through a statement whose third column is the large one. The first row is taken whatever it has.
fn take<T>(
    conn: &Connection,
    sql: &str,
    given: impl Params,
    bytes: usize,
    read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Taken<T>, Failure> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(given)?;
    let mut taken = Taken { rows: Vec::new(), is_cut: false };
    let mut left = read_budget(bytes);
    while let Some(row) = rows.next()? {
        let length = row.get_ref(2)?.as_bytes().map_or(0, <[u8]>::len);
        if length > left && !taken.rows.is_empty() {
            taken.is_cut = true;
            break;
        }
        left = left.saturating_sub(length);
        taken.rows.push(read(row)?);
    }
    Ok(taken)
}

/// Columns in the order of [`Item`].
fn item(row: &Row<'_>) -> rusqlite::Result<Item> {
    Ok((row.get::<_, String>(0)?.into(), from_micros(row.get(1)?), row.get::<_, String>(2)?.into()))
}

/// A page of nodes or rooms, behind the name `after`.
fn row_page(conn: &Connection, sql: &str, (of, after): (&str, Option<&str>)) -> Result<RowPage, Failure> {
    // One more tells whether there are more.
    let given = params![of, after.unwrap_or(""), limits::LISTED_ROWS + 1];
    let mut taken = take(conn, sql, given, limits::READ_BYTES, item)?;
    let is_complete = !taken.is_cut && taken.rows.len() <= limits::LISTED_ROWS as usize;
    taken.rows.truncate(limits::LISTED_ROWS as usize);
    Ok(RowPage { rows: taken.rows, is_complete })
}

/// The messages that wait, behind the id `after`, or those of `ids`.
fn offline_page(conn: &Connection, user: &str, after: u64, ids: &[u64]) -> Result<StanzaPage, Failure> {
    let stanza = |row: &Row<'_>| {
        let id: i64 = row.get(0)?;
        Ok((id.unsigned_abs(), from_micros(row.get(1)?), row.get::<_, String>(2)?.into()))
    };
    if ids.is_empty() {
        let sql = "SELECT id, at, stanza FROM xmpp_offline WHERE user = ?1 AND id > ?2 ORDER BY id LIMIT ?3";
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        let given = params![user, after, limits::MAX_XMPP_OFFLINE];
        let taken = take(conn, sql, given, limits::READ_BYTES, stanza)?;
        return Ok(StanzaPage { stanzas: taken.rows, is_complete: !taken.is_cut });
    }
    // One query for each id: a missing one is passed over.
    let mut page = StanzaPage { stanzas: Vec::new(), is_complete: true };
    let mut left = limits::READ_BYTES;
    let sql = "SELECT id, at, stanza FROM xmpp_offline WHERE user = ?1 AND id = ?2";
    for id in ids.iter().take(limits::MAX_XMPP_OFFLINE as usize) {
        let id = i64::try_from(*id).unwrap_or(i64::MAX);
        for found in take(conn, sql, params![user, id], limits::READ_BYTES, stanza)?.rows {
            if found.2.len() > left && !page.stanzas.is_empty() {
                page.is_complete = false;
                return Ok(page);
            }
            left = left.saturating_sub(found.2.len());
            page.stanzas.push(found);
        }
    }
    Ok(page)
}

/// The items of a node between two places, the newest first. `seq` is unique within a node.
struct Range {
    /// The oldest that exists for the query.
    floor: i64,
    /// Items older than this one.
    below: i64,
    /// Items newer than this one.
    above: i64,
}

/// A page of items (XEP-0059). An id that the query names and that is not there makes the page `is_unknown`.
fn item_page(conn: &Connection, place: (&str, &str), query: &ItemQuery) -> Result<ItemPage, Failure> {
    if !query.ids.is_empty() {
        return items_of_ids(conn, place, query);
    }
    let (owner, node) = place;
    let mut range = Range { floor: i64::MIN, below: i64::MAX, above: i64::MIN };
    if let Some(newest) = query.newest {
        let sql =
            "SELECT seq FROM xmpp_item WHERE owner = ?1 AND node = ?2 ORDER BY seq DESC LIMIT 1 OFFSET ?3";
        let last = newest.saturating_sub(1);
        let found: Option<i64> =
            conn.prepare_cached(sql)?.query_row(params![owner, node, last], |row| row.get(0)).optional()?;
        // Of none nothing exists; with fewer items than `newest` all of them do.
        range.floor = if newest == 0 { i64::MAX } else { found.unwrap_or(i64::MIN) };
    }
    let sql = "SELECT seq FROM xmpp_item WHERE owner = ?1 AND node = ?2 AND id = ?3 AND seq >= ?4";
    let mut place_of = conn.prepare_cached(sql)?;
    // The list goes from the newest to the oldest, so `after` an item means older.
    for (id, bound) in [(&query.after, &mut range.below), (&query.before, &mut range.above)] {
        let Some(id) = id else { continue };
        let seq: Option<i64> =
            place_of.query_row(params![owner, node, id, range.floor], |row| row.get(0)).optional()?;
        match seq {
            Some(seq) => *bound = seq,
            None => return Ok(ItemPage { is_unknown: true, ..ItemPage::default() }),
        }
    }
    items_in(conn, place, query, &range)
}

/// The page and its place: `index` items are newer than its first one, of `total`.
fn items_in(
    conn: &Connection,
    (owner, node): (&str, &str),
    query: &ItemQuery,
    range: &Range,
) -> Result<ItemPage, Failure> {
    let sql = "SELECT count(*) FROM xmpp_item WHERE owner = ?1 AND node = ?2 AND seq >= ?3 AND seq > ?4";
    let mut count = conn.prepare_cached(sql)?;
    let mut newer = |seq: i64| -> rusqlite::Result<u32> {
        count.query_row(params![owner, node, range.floor, seq], |row| row.get(0))
    };
    let total = newer(i64::MIN)?;
    // An empty text in the place of the item: `take` expects three columns, and ids alone are asked for.
    let (columns, order) = match (query.is_ids_only, query.from_end) {
        (false, false) => ("id, at, item, seq", "DESC"),
        (false, true) => ("id, at, item, seq", "ASC"),
        (true, false) => ("id, at, '', seq", "DESC"),
        (true, true) => ("id, at, '', seq", "ASC"),
    };
    let sql = format!(
        "SELECT {columns} FROM xmpp_item WHERE owner = ?1 AND node = ?2 AND seq >= ?3 AND seq < ?4 AND seq > ?5 \
         ORDER BY seq {order} LIMIT ?6 OFFSET ?7"
    );
    let max = query.max.min(limits::MAX_PAGE);
    let given = params![owner, node, range.floor, range.below, range.above, max, query.index];
    let mut taken = take(conn, &sql, given, query.bytes, |row| Ok((item(row)?, row.get::<_, i64>(3)?)))?;
    // The last page is read from the oldest item on and returned in the usual order.
    if query.from_end {
        taken.rows.reverse();
    }
    let index = match taken.rows.first() {
        Some((_, seq)) => newer(*seq)?,
        None => query.index.min(total),
    };
    let items = taken.rows.into_iter().map(|(item, _)| item).collect();
    Ok(ItemPage { items, index, total, is_cut: taken.is_cut, is_unknown: false })
}

/// The newest first; ids of no item are passed over.
fn items_of_ids(
    conn: &Connection,
    (owner, node): (&str, &str),
    query: &ItemQuery,
) -> Result<ItemPage, Failure> {
    let sql = "SELECT id, at, item, seq FROM xmpp_item WHERE owner = ?1 AND node = ?2 AND id = ?3";
    let (mut found, mut is_cut, mut left) = (Vec::new(), false, read_budget(query.bytes));
    for id in query.ids.iter().take(limits::LISTED_ROWS as usize) {
        let given = params![owner, node, id];
        let rows = take(conn, sql, given, query.bytes, |row| Ok((item(row)?, row.get::<_, i64>(3)?)))?.rows;
        let length: usize = rows.iter().map(|((_, _, item), _)| item.len()).sum();
        if length > left && !found.is_empty() {
            is_cut = true;
            break;
        }
        left = left.saturating_sub(length);
        found.extend(rows);
    }
    found.sort_by_key(|(_, seq)| std::cmp::Reverse(*seq));
    // An id may be named twice.
    found.dedup_by_key(|(_, seq)| *seq);
    let items: Vec<Item> = found.into_iter().map(|(item, _)| item).collect();
    let total = u32::try_from(items.len()).unwrap_or(u32::MAX);
    Ok(ItemPage { items, index: 0, total, is_cut, is_unknown: false })
}

/// Whole, or not at all: a part of a roster would give presence to the wrong ones.
pub(super) fn roster_of(conn: &Connection, user: &str) -> Result<Vec<(Box<str>, RosterRow)>, Failure> {
    let sql = "SELECT contact, item FROM xmpp_roster WHERE user = ?1 ORDER BY contact";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([user])?;
    let (mut roster, mut left) = (Vec::new(), limits::MAX_ROSTER_BYTES);
    while let Some(row) = rows.next()? {
        let length = row.get_ref(1)?.as_bytes().map_or(0, <[u8]>::len);
        left = left.checked_sub(length).ok_or_else(|| {
            let expected = format!("at most {} bytes", limits::MAX_ROSTER_BYTES);
            StoreError::invalid(format!("roster of {user}"), expected)
        })?;
        let (contact, item): (String, String) = (row.get(0)?, row.get(1)?);
        roster.push((contact.into(), serde_json::from_str(&item).map_err(|error| damaged(&error))?));
    }
    Ok(roster)
}

/// All that chat needs of a user who signs in.
fn user_row(conn: &Connection, user: &str, nodes: &[&str]) -> Result<UserRow, Failure> {
    let sql = "SELECT roster_version, blocked, last_at, last_status FROM xmpp_user WHERE user = ?1";
    let head: Option<(i64, String, Option<i64>, Option<String>)> = conn
        .prepare_cached(sql)?
        .query_row([user], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
        .optional()?;
    let mut found = UserRow::default();
    if let Some((version, blocked, last_at, status)) = head {
        found.roster_version = version.unsigned_abs();
        found.blocked = serde_json::from_str(&blocked).map_err(|error| damaged(&error))?;
        found.last_seen = last_at.map(|at| (from_micros(at), status.unwrap_or_default().into()));
    }
    found.roster = roster_of(conn, user)?;
    let sql = "SELECT count(*) FROM xmpp_offline WHERE user = ?1";
    found.offline = conn.prepare_cached(sql)?.query_row([user], |row| row.get(0))?;
    let sql = "SELECT max(id) FROM xmpp_archive WHERE owner = ?1";
    let last: Option<String> = conn.prepare_cached(sql)?.query_row([user], |row| row.get(0))?;
    found.last_archived = last.map(Into::into);
    let sql = "SELECT item FROM xmpp_item WHERE owner = ?1 AND node = ?2 ORDER BY seq DESC LIMIT 1";
    let mut newest = conn.prepare_cached(sql)?;
    // Only the newest item of each.
    for node in nodes {
        let item: Option<String> = newest.query_row([user, node], |row| row.get(0)).optional()?;
        found.items.extend(item.map(|item| ((*node).into(), item.into())));
    }
    Ok(found)
}

/// The conditions that do not depend on the page.
fn conditions(owner: &str, query: &ArchiveQuery) -> (String, Vec<Value>) {
    let mut sql = String::from("owner = ?");
    let mut values = vec![Value::Text(owner.to_owned())];
    let mut add = |condition: &str, value: Value| {
        sql.push_str(condition);
        values.push(value);
    };
    if let Some(bare) = &query.bare {
        add(" AND bare = ?", Value::Text(bare.to_string()));
    }
    if let Some(resource) = &query.resource {
        add(" AND resource = ?", Value::Text(resource.to_string()));
    }
    if let Some(lowest) = &query.lowest {
        add(" AND id >= ?", Value::Text(lowest.to_string()));
    }
    if let Some(since) = query.since {
        add(" AND at >= ?", Value::Integer(micros(since)));
    }
    if let Some(until) = query.until {
        add(" AND at <= ?", Value::Integer(micros(until)));
    }
    if !query.ids.is_empty() {
        let places = vec!["?"; query.ids.len()].join(", ");
        sql.push_str(&format!(" AND id IN ({places})"));
        values.extend(query.ids.iter().map(|id| Value::Text(id.to_string())));
    }
    (sql, values)
}

/// A page of an archive (XEP-0313). Counting stops at `limits::MAX_COUNTED`; beyond, there is no total.
fn page(conn: &Connection, owner: &str, query: &ArchiveQuery) -> Result<ArchivePage, Failure> {
    // An id that is not in the archive is an answer of its own, not an empty page.
    let mut known = conn.prepare_cached("SELECT 1 FROM xmpp_archive WHERE owner = ?1 AND id = ?2")?;
    for id in query.ids.iter().chain(&query.after).chain(&query.before) {
        if !known.exists(params![owner, id])? {
            return Ok(ArchivePage { is_unknown: true, ..ArchivePage::default() });
        }
    }
    let (mut sql, mut values) = conditions(owner, query);
    // The total counts all pages, so it comes before the bounds of this one. A search for words is not counted: that would read the
    // whole archive.
    let total = if query.text.is_none() { count(conn, &sql, &values)? } else { None };
    if let Some(after) = &query.after {
        sql.push_str(" AND id > ?");
        values.push(Value::Text(after.to_string()));
    }
    if let Some(before) = &query.before {
        sql.push_str(" AND id < ?");
        values.push(Value::Text(before.to_string()));
    }
    let max = query.max.min(limits::MAX_PAGE) as usize;
    let order = if query.from_end { "DESC" } else { "ASC" };
    // One more tells whether there are more.
    let sql =
        format!("SELECT id, at, stanza FROM xmpp_archive WHERE {sql} ORDER BY id {order} LIMIT {}", max + 1);
    let Taken { rows: mut stanzas, is_cut } =
        take(conn, &sql, params_from_iter(values.iter()), query.bytes, item)?;
    let is_complete = stanzas.len() <= max && !is_cut;
    stanzas.truncate(max);
    if query.from_end {
        stanzas.reverse();
    }
    Ok(ArchivePage { stanzas, is_complete, total, ..ArchivePage::default() })
}

/// The messages of these conditions; `None`: more than are counted.
fn count(conn: &Connection, sql: &str, values: &[Value]) -> Result<Option<u64>, Failure> {
    let most = u64::from(limits::MAX_COUNTED);
    let sql = format!("SELECT count(*) FROM (SELECT 1 FROM xmpp_archive WHERE {sql} LIMIT {})", most + 1);
    let total: u32 = conn.prepare_cached(&sql)?.query_row(params_from_iter(values), |row| row.get(0))?;
    Ok(Some(u64::from(total)).filter(|total| *total <= most))
}
