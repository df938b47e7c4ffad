//! All rows of one database into another that is empty: from the file to a server, and back (`belfry store copy`).
//!
//! For each table: count, read by chunks, write, set the next id, and count again in the target. [`backup`](crate::backup) uses the same sources,
//! targets and tables.
//!
//! The copy is there as a whole or not at all: a server has it in one transaction, a file gets its name when it is complete.
//! Rows keep their ids, and what is added later gets ids that were never used. Not copied: the row of probes, the
//! version of the schema, and what the nodes of a farm have agreed on.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::StoreError;
use crate::limits;
use crate::value::Value;
use crate::{postgres, sqlite};

/// One of the two ends of a copy.
#[derive(Clone, PartialEq, Eq)]
pub enum CopyEnd {
    /// A file of SQLite.
    Sqlite(PathBuf),
    /// The URL of a PostgreSQL database.
    Postgres(Box<str>),
}

/// The URL may have a password.
impl fmt::Debug for CopyEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CopyEnd::Sqlite(path) => f.debug_tuple("Sqlite").field(path).finish(),
            CopyEnd::Postgres(_) => f.debug_tuple("Postgres").finish_non_exhaustive(),
        }
    }
}

/// The owner of a row of the log of bindings, which the store does not look into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingOwner {
    /// The address of record.
    pub aor: Box<str>,
    /// The row says that nothing is bound any more.
    pub is_empty: bool,
}

/// The options of a copy.
#[derive(Clone, Debug)]
pub struct CopyOptions {
    /// Reads a row of the log of bindings. `None`: the row is damaged, and is not copied.
    pub binding_owner: fn(&[u8]) -> Option<BindingOwner>,
    /// Ends the copy, which then leaves nothing.
    pub stop: Arc<AtomicBool>,
}

/// After every chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyProgress {
    /// The table that is being copied.
    pub table: &'static str,
    /// Rows copied, of all tables.
    pub rows: u64,
    /// Rows of the source.
    pub total: u64,
}

/// A table that was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopiedTable {
    /// The table's name.
    pub name: &'static str,
    /// Its rows, which both databases have.
    pub rows: u64,
}

/// A row of a table, in the order of its columns.
pub(crate) type Row = Vec<Value<'static>>;

/// A table of both databases.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    /// In the order of the values of a [`Row`].
    pub(crate) columns: &'static [&'static str],
    /// The names of the same columns in SQLite, where they differ.
    sqlite: Option<&'static [&'static str]>,
    /// The order in which rows are read from PostgreSQL: that of SQLite's table.
    pub(crate) key: &'static str,
}

impl Table {
    /// `columns` are those of PostgreSQL.
    const fn new(name: &'static str, key: &'static str, columns: &'static [&'static str]) -> Table {
        Table { name, columns, sqlite: None, key }
    }

    /// As many columns, in the same order.
    const fn with_sqlite(self, sqlite: &'static [&'static str]) -> Table {
        Table { sqlite: Some(sqlite), ..self }
    }

    pub(crate) fn sqlite_columns(&self) -> &'static [&'static str] {
        self.sqlite.unwrap_or(self.columns)
    }

    /// True if its rows have ids that the database gives.
    pub(crate) fn has_ids(&self) -> bool {
        self.columns.first() == Some(&"id")
    }

    /// True for the log of bindings of SQLite, which is the table of the last bindings of each address in PostgreSQL.
    pub(crate) fn is_of_bindings(&self) -> bool {
        self.name == BINDING
    }
}

/// The table of bindings.
pub(crate) const BINDING: &str = "binding";
/// The table of SIP messages that wait for their recipients.
pub(crate) const KEPT_MESSAGE: &str = "kept_message";

/// In this order a row comes after those that it refers to.
pub(crate) const TABLES: &[Table] = &[
    Table::new("domain", "id", &["id", "name", "created_at"]),
    Table::new(
        "account",
        "id",
        &[
            "id",
            "domain_id",
            "name",
            "verifiers",
            "display_name",
            "disabled",
            "max_contacts",
            "max_calls",
            "created_at",
            "max_rate",
            "deny",
        ],
    ),
    Table::new("alias", "domain_id, name", &["domain_id", "name", "account_id"]),
    Table::new(
        "route",
        "id",
        &[
            "id",
            "name",
            "pattern_kind",
            "pattern",
            "targets",
            "open",
            "probe",
            "strip",
            "prefix",
            "policy",
            "created_at",
        ],
    ),
    // SQLite has no more than the last three of these.
    Table::new(BINDING, "seq", &["bucket", "aor", "seq", "written_at", "record"]),
    Table::new(
        "call_record",
        "id",
        &[
            "id",
            "call_id",
            "from_uri",
            "to_uri",
            "started_at",
            "answered_at",
            "ended_at",
            "code",
            "reason",
            "account",
            "callee",
        ],
    ),
    Table::new(
        KEPT_MESSAGE,
        "id",
        &["id", "aor", "from_uri", "content_type", "body", "sent_at", "expires_at"],
    ),
    Table::new("secret", "name", &["name", "value"]),
    Table::new(
        "rest",
        "id",
        &[
            "id",
            "kind",
            "sid",
            "account",
            "parent",
            "name",
            "status",
            "from_uri",
            "to_uri",
            "direction",
            "amount",
            "created_at",
            "updated_at",
            "ended_at",
            "body",
        ],
    ),
    Table::new("xmpp_user", "owner", &["owner", "roster_version", "blocked", "last_at", "last_status"])
        .with_sqlite(&["user", "roster_version", "blocked", "last_at", "last_status"]),
    Table::new("xmpp_roster", "owner, contact", &["owner", "contact", "item"])
        .with_sqlite(&["user", "contact", "item"]),
    Table::new("xmpp_offline", "id", &["id", "owner", "at", "stanza"])
        .with_sqlite(&["id", "user", "at", "stanza"]),
    Table::new("xmpp_archive", "owner, id", &["owner", "id", "at", "bare", "resource", "stanza"]),
    Table::new("xmpp_node", "owner, node", &["owner", "node", "config", "at"]),
    Table::new("xmpp_item", "owner, node, id", &["owner", "node", "id", "at", "seq", "item"]),
    Table::new("xmpp_room", "room", &["room", "domain", "config", "creator"]),
    Table::new(
        "xmpp_token",
        "owner, agent, id",
        &["owner", "agent", "id", "mechanism", "issued_at", "expires_at", "count", "used"],
    )
    .with_sqlite(&["user", "agent", "id", "mechanism", "issued_at", "expires_at", "count", "used"]),
    Table::new("xmpp_invitation", "hash", &["hash", "domain", "name", "inviter", "registers", "expires_at"]),
];

/// The rows of some kilobytes, or of a few large ones.
#[derive(Default)]
pub(crate) struct Chunk {
    pub(crate) rows: Vec<Row>,
    /// About: numbers count as 8.
    bytes: usize,
}

impl Chunk {
    pub(crate) fn push(&mut self, row: Row) {
        let size = |value: &Value<'_>| match value {
            Value::Null | Value::Integer(_) => 8,
            Value::Text(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
        };
        self.bytes += row.iter().map(size).sum::<usize>();
        self.rows.push(row);
    }

    pub(crate) fn is_full(&self) -> bool {
        self.rows.len() >= limits::COPY_ROWS || self.bytes >= limits::COPY_BYTES
    }
}

/// Takes the chunks of a table.
pub(crate) type ChunkHandler<'a> = &'a mut dyn FnMut(Chunk) -> Result<(), StoreError>;

/// The database that is copied, as it was at one moment.
pub(crate) trait CopySource {
    /// Counts the rows of a table; of bindings, those of SQLite's log.
    fn count(&mut self, table: &Table) -> Result<u64, StoreError>;
    /// Gives all rows of a table, by `Table::columns`.
    fn read(&mut self, table: &Table, take: ChunkHandler<'_>) -> Result<(), StoreError>;
    /// The highest id that the table has ever given, as far as the database knows.
    fn last_id(&mut self, table: &Table) -> Result<i64, StoreError>;
}

/// The database that is made.
pub(crate) trait CopyTarget {
    /// Adds rows.
    fn write(&mut self, table: &Table, chunk: Chunk) -> Result<(), StoreError>;
    /// Counts the rows of a table.
    fn count(&mut self, table: &Table) -> Result<u64, StoreError>;
    /// All rows of the table are there. If it has ids, it gives higher ones than `last_id` from now on.
    fn end_table(&mut self, table: &Table, last_id: i64) -> Result<(), StoreError>;
    /// All rows are there. All work that takes time or space is done; [`commit`](CopyTarget::commit) is left.
    fn finish(&mut self) -> Result<(), StoreError>;
    /// The copy is complete. When it returns, it is on disk.
    fn commit(&mut self) -> Result<(), StoreError>;
}

/// Copies all tables, and checks that the target then has as many rows as the source. `None`: it was told to stop, and the
/// target is as it was.
///
/// # Errors
/// The source is not there, or a node or another command has it open; the target has rows, or cannot be written. The target
/// is then as it was.
pub fn copy(
    from: &CopyEnd,
    to: &CopyEnd,
    options: &CopyOptions,
    progress: &mut dyn FnMut(CopyProgress),
) -> Result<Option<Vec<CopiedTable>>, StoreError> {
    let mut source: Box<dyn CopySource> = match from {
        CopyEnd::Sqlite(path) => Box::new(sqlite::copy::Source::open(path, options)?),
        CopyEnd::Postgres(url) => Box::new(postgres::copy::Source::open(url)?),
    };
    let mut target: Box<dyn CopyTarget> = match to {
        CopyEnd::Sqlite(path) => Box::new(sqlite::copy::Target::open(path)?),
        CopyEnd::Postgres(url) => Box::new(postgres::copy::Target::open(url)?),
    };
    let Some(tables) = copy_rows(&mut *source, &mut *target, options, progress)? else { return Ok(None) };
    target.finish()?;
    target.commit()?;
    Ok(Some(tables))
}

/// Copies all tables, and leaves it to the caller to commit. `None`: it was told to stop.
pub(crate) fn copy_rows(
    source: &mut dyn CopySource,
    target: &mut dyn CopyTarget,
    options: &CopyOptions,
    progress: &mut dyn FnMut(CopyProgress),
) -> Result<Option<Vec<CopiedTable>>, StoreError> {
    let mut total = 0;
    for table in TABLES {
        total += source.count(table)?;
    }
    let mut done = Vec::with_capacity(TABLES.len());
    let mut rows = 0;
    for table in TABLES {
        let Some(copied) = copy_table(source, target, table, options, &mut |count| {
            progress(CopyProgress { table: table.name, rows: rows + count, total });
        })?
        else {
            return Ok(None);
        };
        rows += copied;
        done.push(CopiedTable { name: table.name, rows: copied });
    }
    Ok((!options.stop.load(Ordering::Relaxed)).then_some(done))
}

/// `None`: it was told to stop.
fn copy_table(
    source: &mut dyn CopySource,
    target: &mut dyn CopyTarget,
    table: &Table,
    options: &CopyOptions,
    progress: &mut dyn FnMut(u64),
) -> Result<Option<u64>, StoreError> {
    let (mut copied, mut is_stopped) = (0, false);
    let read = source.read(table, &mut |chunk| {
        if options.stop.load(Ordering::Relaxed) {
            is_stopped = true;
            return Err(StoreError::Closed);
        }
        copied += chunk.rows.len() as u64;
        target.write(table, chunk)?;
        progress(copied);
        Ok(())
    });
    if is_stopped {
        return Ok(None);
    }
    read?;
    let last_id = if table.has_ids() { source.last_id(table)? } else { 0 };
    target.end_table(table, last_id)?;
    let there = target.count(table)?;
    // Of the log of bindings not all rows are copied.
    let expected = if table.is_of_bindings() { copied } else { source.count(table)? };
    if there != expected || there != copied {
        let detail =
            format!("of {expected} rows of {}, {copied} were read and {there} are in the copy", table.name);
        return Err(StoreError::Internal { detail });
    }
    Ok(Some(copied))
}
