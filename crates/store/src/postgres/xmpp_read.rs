//! Reads of XMPP's tables: every read is bounded by rows, by bytes and, in `reader`, by time. Further rows are another page.
//!
//! As `sqlite::xmpp_read`, except that the database itself cuts a page by its bytes ([`take`]), so that rows beyond it are not sent.

use stdx::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::error::StoreError;
use crate::limits;
use crate::search;
use crate::xmpp::{
    ArchivePage, ArchiveQuery, ItemPage, ItemQuery, RosterRow, RowPage, StanzaPage, UserRow, XmppLoaded,
    XmppRead, damaged, read_budget,
};

use super::connection::{Connection, Values, from_micros, micros, narrow, values};
use super::failure::Failure;

pub(super) fn load(connection: &mut Connection, read: &XmppRead) -> Result<XmppLoaded, Failure> {
    Ok(match read {
        XmppRead::User { user, nodes } => XmppLoaded::User(Box::new(user_row(connection, user, nodes)?)),
        XmppRead::Items { owner, node, query } => {
            XmppLoaded::Items(item_page(connection, (owner, node), query)?)
        }
        XmppRead::Kept { owner } => {
            let sql = "SELECT node, id, item FROM xmpp_item WHERE owner = $1 ORDER BY node, seq";
            let rows = connection.query(sql, values![owner])?;
            let kept = |row: &Row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?));
            XmppLoaded::Kept(rows.iter().map(kept).collect::<Result<_, Failure>>()?)
        }
        XmppRead::Nodes { owner, after } => {
            let sql = "SELECT node, at, config, octet_length(config) FROM xmpp_node \
                       WHERE owner = $1 AND node > $2 ORDER BY node";
            XmppLoaded::Rows(row_page(connection, sql, (owner, after.as_deref()))?)
        }
        XmppRead::Offline { user, after, ids } => {
            XmppLoaded::Stanzas(offline_page(connection, user, *after, ids)?)
        }
        XmppRead::Waiting => {
            let rows = connection.query("SELECT DISTINCT owner FROM xmpp_offline", &[])?;
            let users = rows.iter().map(|row| Ok(row.try_get(0)?)).collect::<Result<_, Failure>>()?;
            XmppLoaded::Users(users)
        }
        XmppRead::Archive { owner, query } => {
            XmppLoaded::Page(search::page(query, |query| page(connection, owner, query))?)
        }
        XmppRead::Room { room } => {
            let row =
                connection.query_first("SELECT config FROM xmpp_room WHERE room = $1", values![room])?;
            XmppLoaded::Room(row.map(|row| row.try_get(0)).transpose()?)
        }
        XmppRead::Rooms { domain, after } => {
            let sql = "SELECT room, 0::bigint, config, octet_length(config) FROM xmpp_room \
                       WHERE domain = $1 AND room > $2 ORDER BY room";
            XmppLoaded::Rows(row_page(connection, sql, (domain, after.as_deref()))?)
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

/// Takes rows of a statement whose third column is the large one, and whose fourth has its bytes, as far as the bytes go: the
/// database sends no row beyond them. The first row is taken whatever it has.
fn take<T>(
    connection: &mut Connection,
    sql: &str,
    given: Values<'_>,
    bytes: usize,
    read: impl Fn(&Row) -> Result<T, Failure>,
) -> Result<Taken<T>, Failure> {
    let budget = read_budget(bytes);
    // A row of nothing but its place tells that the bytes did not suffice.
    let sql = format!(
        "SELECT *, total > {budget} AND place > 1 AS beyond FROM \
         (SELECT *, row_number() OVER () AS place, sum(size) OVER (ROWS UNBOUNDED PRECEDING) AS total \
         FROM ({sql}) AS wanted (a, b, c, size{})) AS measured WHERE total - size <= {budget} OR place <= 2 \
         ORDER BY place",
        if sql.contains(", seq FROM") { ", seq" } else { "" },
    );
    let rows = connection.query(&sql, given)?;
    let mut taken = Taken { rows: Vec::new(), is_cut: false };
    for row in &rows {
        if row.try_get("beyond")? {
            taken.is_cut = true;
            break;
        }
        taken.rows.push(read(row)?);
    }
    Ok(taken)
}

fn item(row: &Row) -> Result<Item, Failure> {
    Ok((row.try_get(0)?, from_micros(row.try_get(1)?), row.try_get(2)?))
}

/// A page of nodes or rooms, behind the name `after`.
fn row_page(
    connection: &mut Connection,
    sql: &str,
    (of, after): (&str, Option<&str>),
) -> Result<RowPage, Failure> {
    // One more tells whether there are more.
    let sql = format!("{sql} LIMIT {}", limits::LISTED_ROWS + 1);
    let mut taken = take(connection, &sql, values![of, after.unwrap_or("")], limits::READ_BYTES, item)?;
    let is_complete = !taken.is_cut && taken.rows.len() <= limits::LISTED_ROWS as usize;
    taken.rows.truncate(limits::LISTED_ROWS as usize);
    Ok(RowPage { rows: taken.rows, is_complete })
}

/// The messages that wait, behind the id `after`, or those of `ids`.
fn offline_page(
    connection: &mut Connection,
    user: &str,
    after: u64,
    ids: &[u64],
) -> Result<StanzaPage, Failure> {
    let stanza = |row: &Row| {
        let id: i64 = row.try_get(0)?;
        Ok((id.unsigned_abs(), from_micros(row.try_get(1)?), row.try_get(2)?))
    };
    let most = limits::MAX_XMPP_OFFLINE;
    let taken = if ids.is_empty() {
        let sql = format!(
            "SELECT id, at, stanza, octet_length(stanza) FROM xmpp_offline WHERE owner = $1 AND id > $2 \
             ORDER BY id LIMIT {most}"
        );
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        take(connection, &sql, values![user, after], limits::READ_BYTES, stanza)?
    } else {
        // In the order in which they were asked for.
        let ids: Vec<i64> =
            ids.iter().take(most as usize).map(|id| i64::try_from(*id).unwrap_or(i64::MAX)).collect();
        let sql = "SELECT id, at, stanza, octet_length(stanza) FROM xmpp_offline WHERE owner = $1 \
                   AND id = ANY($2) ORDER BY array_position($2, id)";
        take(connection, sql, values![user, ids], limits::READ_BYTES, stanza)?
    };
    Ok(StanzaPage { stanzas: taken.rows, is_complete: !taken.is_cut })
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
fn item_page(
    connection: &mut Connection,
    place: (&str, &str),
    query: &ItemQuery,
) -> Result<ItemPage, Failure> {
    if !query.ids.is_empty() {
        return items_of_ids(connection, place, query);
    }
    let (owner, node) = place;
    let mut range = Range { floor: i64::MIN, below: i64::MAX, above: i64::MIN };
    if let Some(newest) = query.newest {
        let sql =
            "SELECT seq FROM xmpp_item WHERE owner = $1 AND node = $2 ORDER BY seq DESC LIMIT 1 OFFSET $3";
        let last = i64::from(newest.saturating_sub(1));
        let found = connection.query_first(sql, values![owner, node, last])?;
        let found = found.map(|row| row.try_get::<_, i64>(0)).transpose()?;
        range.floor = if newest == 0 { i64::MAX } else { found.unwrap_or(i64::MIN) };
    }
    let sql = "SELECT seq FROM xmpp_item WHERE owner = $1 AND node = $2 AND id = $3 AND seq >= $4";
    for (id, bound) in [(&query.after, &mut range.below), (&query.before, &mut range.above)] {
        let Some(id) = id else { continue };
        match connection.query_first(sql, values![owner, node, id, range.floor])? {
            Some(row) => *bound = row.try_get(0)?,
            None => return Ok(ItemPage { is_unknown: true, ..ItemPage::default() }),
        }
    }
    items_in(connection, place, query, &range)
}

/// The page and its place: `index` items are newer than its first one, of `total`.
fn items_in(
    connection: &mut Connection,
    (owner, node): (&str, &str),
    query: &ItemQuery,
    range: &Range,
) -> Result<ItemPage, Failure> {
    let mut newer = |seq: i64| -> Result<u32, Failure> {
        let sql = "SELECT count(*) FROM xmpp_item WHERE owner = $1 AND node = $2 AND seq >= $3 AND seq > $4";
        Ok(narrow(connection.number(sql, values![owner, node, range.floor, seq])?))
    };
    let total = newer(i64::MIN)?;
    let columns = if query.is_ids_only { "'', 0" } else { "item, octet_length(item)" };
    let order = if query.from_end { "ASC" } else { "DESC" };
    let max = query.max.min(limits::MAX_PAGE);
    let sql = format!(
        "SELECT id, at, {columns}, seq FROM xmpp_item WHERE owner = $1 AND node = $2 AND seq >= $3 \
         AND seq < $4 AND seq > $5 ORDER BY seq {order} LIMIT {max} OFFSET {}",
        query.index
    );
    let given = values![owner, node, range.floor, range.below, range.above];
    let mut taken = take(connection, &sql, given, query.bytes, numbered)?;
    if query.from_end {
        taken.rows.reverse();
    }
    let index = match taken.rows.first() {
        Some((_, seq)) => {
            let sql =
                "SELECT count(*) FROM xmpp_item WHERE owner = $1 AND node = $2 AND seq >= $3 AND seq > $4";
            narrow(connection.number(sql, values![owner, node, range.floor, *seq])?)
        }
        None => query.index.min(total),
    };
    let items = taken.rows.into_iter().map(|(item, _)| item).collect();
    Ok(ItemPage { items, index, total, is_cut: taken.is_cut, is_unknown: false })
}

/// An item with its `seq`.
fn numbered(row: &Row) -> Result<(Item, i64), Failure> {
    Ok((item(row)?, row.try_get("seq")?))
}

/// The newest first; ids of no item are passed over.
fn items_of_ids(
    connection: &mut Connection,
    (owner, node): (&str, &str),
    query: &ItemQuery,
) -> Result<ItemPage, Failure> {
    let ids: Vec<&str> = query.ids.iter().take(limits::LISTED_ROWS as usize).map(|id| &**id).collect();
    // Cut in the order of the ids.
    let sql = "SELECT id, at, item, octet_length(item), seq FROM xmpp_item WHERE owner = $1 AND node = $2 \
               AND id = ANY($3) ORDER BY array_position($3, id)";
    let Taken { rows: mut found, is_cut } =
        take(connection, sql, values![owner, node, ids], query.bytes, numbered)?;
    found.sort_by_key(|(_, seq)| std::cmp::Reverse(*seq));
    let items: Vec<Item> = found.into_iter().map(|(item, _)| item).collect();
    let total = u32::try_from(items.len()).unwrap_or(u32::MAX);
    Ok(ItemPage { items, index: 0, total, is_cut, is_unknown: false })
}

/// Whole, or not at all: a part of a roster would give presence to the wrong ones.
pub(super) fn roster_of(
    connection: &mut Connection,
    user: &str,
) -> Result<Vec<(Box<str>, RosterRow)>, Failure> {
    let sql = "SELECT coalesce(sum(octet_length(item)), 0)::bigint FROM xmpp_roster WHERE owner = $1";
    let bytes: usize = usize::try_from(connection.number(sql, values![user])?).unwrap_or(usize::MAX);
    if bytes > limits::MAX_ROSTER_BYTES {
        let expected = format!("at most {} bytes", limits::MAX_ROSTER_BYTES);
        return Err(StoreError::invalid(format!("roster of {user}"), expected).into());
    }
    let sql = "SELECT contact, item FROM xmpp_roster WHERE owner = $1 ORDER BY contact";
    let contact = |row: &Row| -> Result<_, Failure> {
        let item = serde_json::from_str(row.try_get(1)?).map_err(|error| damaged(&error))?;
        Ok((row.try_get(0)?, item))
    };
    connection.query(sql, values![user])?.iter().map(contact).collect()
}

/// All that chat needs of a user who signs in.
fn user_row(connection: &mut Connection, user: &str, nodes: &[&str]) -> Result<UserRow, Failure> {
    let sql = "SELECT coalesce(roster_version, 0), coalesce(blocked, '[]'), last_at, last_status, \
               (SELECT count(*) FROM xmpp_offline WHERE owner = $1), \
               (SELECT max(id) FROM xmpp_archive WHERE owner = $1) \
               FROM (SELECT 1) AS one LEFT JOIN xmpp_user ON owner = $1";
    let mut found = UserRow::default();
    if let Some(row) = connection.query_first(sql, values![user])? {
        found.roster_version = row.try_get::<_, i64>(0)?.unsigned_abs();
        found.blocked = serde_json::from_str(row.try_get(1)?).map_err(|error| damaged(&error))?;
        let status = row.try_get::<_, Option<Box<str>>>(3)?.unwrap_or_default();
        found.last_seen = row.try_get::<_, Option<i64>>(2)?.map(|at| (from_micros(at), status));
        found.offline = narrow(row.try_get(4)?);
        found.last_archived = row.try_get(5)?;
    }
    found.roster = roster_of(connection, user)?;
    let sql = "SELECT item FROM xmpp_item WHERE owner = $1 AND node = $2 ORDER BY seq DESC LIMIT 1";
    for node in nodes {
        if let Some(row) = connection.query_first(sql, values![user, node])? {
            found.items.push(((*node).into(), row.try_get(0)?));
        }
    }
    Ok(found)
}

/// The conditions of a question, and their values.
struct Conditions {
    /// The conditions, with `$1` and so on.
    sql: String,
    values: Vec<Box<dyn ToSql + Sync>>,
}

impl Conditions {
    /// `?` in the condition stands for the value.
    fn add(&mut self, condition: &str, value: impl ToSql + Sync + 'static) {
        self.values.push(Box::new(value));
        self.sql.push_str(&condition.replace('?', &format!("${}", self.values.len())));
    }

    /// The conditions that do not depend on the page.
    fn of(owner: &str, query: &ArchiveQuery) -> Conditions {
        let mut conditions = Conditions { sql: String::new(), values: Vec::new() };
        conditions.add("owner = ?", owner.to_owned());
        if let Some(bare) = &query.bare {
            conditions.add(" AND bare = ?", bare.clone());
        }
        if let Some(resource) = &query.resource {
            conditions.add(" AND resource = ?", resource.clone());
        }
        if let Some(lowest) = &query.lowest {
            conditions.add(" AND id >= ?", lowest.clone());
        }
        if let Some(since) = query.since {
            conditions.add(" AND at >= ?", micros(since));
        }
        if let Some(until) = query.until {
            conditions.add(" AND at <= ?", micros(until));
        }
        if !query.ids.is_empty() {
            conditions.add(" AND id = ANY(?)", query.ids.clone());
        }
        conditions
    }

    fn values(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.values.iter().map(|value| &**value).collect()
    }
}

/// A page of an archive (XEP-0313). Counting stops at `limits::MAX_COUNTED`; beyond, there is no total.
fn page(connection: &mut Connection, owner: &str, query: &ArchiveQuery) -> Result<ArchivePage, Failure> {
    let named: Vec<&str> =
        query.ids.iter().chain(&query.after).chain(&query.before).map(|id| &**id).collect();
    if !named.is_empty() {
        let sql = "SELECT 1 FROM unnest($2::text[]) AS named (id) WHERE NOT EXISTS \
                   (SELECT FROM xmpp_archive WHERE owner = $1 AND xmpp_archive.id = named.id)";
        if connection.exists(sql, values![owner, named])? {
            return Ok(ArchivePage { is_unknown: true, ..ArchivePage::default() });
        }
    }
    let mut conditions = Conditions::of(owner, query);
    // A search for words is not counted: that would read the whole archive.
    let total = if query.text.is_none() { count(connection, &conditions)? } else { None };
    if let Some(after) = &query.after {
        conditions.add(" AND id > ?", after.clone());
    }
    if let Some(before) = &query.before {
        conditions.add(" AND id < ?", before.clone());
    }
    let max = query.max.min(limits::MAX_PAGE) as usize;
    let order = if query.from_end { "DESC" } else { "ASC" };
    // One more tells whether there are more.
    let sql = format!(
        "SELECT id, at, stanza, octet_length(stanza) FROM xmpp_archive WHERE {} ORDER BY id {order} LIMIT {}",
        conditions.sql,
        max + 1
    );
    let Taken { rows: mut stanzas, is_cut } =
        take(connection, &sql, &conditions.values(), query.bytes, item)?;
    let is_complete = stanzas.len() <= max && !is_cut;
    stanzas.truncate(max);
    if query.from_end {
        stanzas.reverse();
    }
    Ok(ArchivePage { stanzas, is_complete, total, ..ArchivePage::default() })
}

/// The messages of these conditions; `None`: more than are counted.
fn count(connection: &mut Connection, conditions: &Conditions) -> Result<Option<u64>, Failure> {
    let most = u64::from(limits::MAX_COUNTED);
    let sql = format!(
        "SELECT count(*) FROM (SELECT FROM xmpp_archive WHERE {} LIMIT {}) AS counted",
        conditions.sql,
        most + 1
    );
    let total: u32 = narrow(connection.number(&sql, &conditions.values())?);
    Ok(Some(u64::from(total)).filter(|total| *total <= most))
}
