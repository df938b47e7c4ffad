//! A file as an end of a copy.
//!
//! [`Source`] reads a file for `copy` (alone) or for a backup (beside a node). [`Target`] writes a new file without a journal under another name,
//! which is moved into its place when it is complete. Bindings are a log in SQLite and a table in PostgreSQL: SQL functions made of
//! `CopyOptions::binding_owner` turn one into the other.

use std::borrow::Cow;
use std::fs::File;
use std::path::{Path, PathBuf};

use cluster::Bucket;
use rusqlite::functions::FunctionFlags;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OpenFlags, OptionalExtension, ToSql, params_from_iter};

use crate::copy::{Chunk, ChunkHandler, CopyOptions, CopySource, CopyTarget, Row, Table};
use crate::error::StoreError;
use crate::limits;
use crate::value::Value;

use super::replaced_file::ReplacedFile;
use super::{Sqlite, migrations};

/// The newest row of each address, where something is bound in it. Next to `max()`, SQLite takes the other columns from the
/// row that has the maximum.
const BINDINGS: &str = "SELECT binding_bucket(aor), aor, seq, written_at, record FROM \
    (SELECT binding_aor(record) AS aor, max(seq) AS seq, written_at, record FROM binding_log GROUP BY aor) \
    WHERE aor IS NOT NULL AND NOT binding_is_empty(record)";

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Null => ValueRef::Null,
            Value::Integer(value) => ValueRef::Integer(*value),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// A file that is read, as it was at one moment.
pub(crate) struct Source {
    conn: Connection,
    path: PathBuf,
}

impl Source {
    /// The file is locked for other processes as long as it is open.
    pub(crate) fn open(path: &Path, options: &CopyOptions) -> Result<Source, StoreError> {
        let conn = connect(path)?;
        lock(&conn).map_err(|error| used_or(path, &error))?;
        Source::of(conn, path, options)
    }

    /// Other processes use the file meanwhile. Their writes are not read; their write-ahead log grows by it until this ends.
    pub(crate) fn open_shared(path: &Path, options: &CopyOptions) -> Result<Source, StoreError> {
        let conn = connect(path)?;
        let source = Source::of(conn, path, options)?;
        // The first read of a transaction takes the moment.
        let begin = || {
            source.conn.execute_batch("BEGIN")?;
            source.conn.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get::<_, i64>(0))
        };
        begin().map_err(|error| source.failed(&error))?;
        Ok(source)
    }

    fn of(mut conn: Connection, path: &Path, options: &CopyOptions) -> Result<Source, StoreError> {
        add_functions(&conn, options).map_err(|error| StoreError::from_sqlite(&error, path))?;
        // A copy has the tables and columns that this program knows: it would lose what a later version has added.
        if let Some(later) = migrations::run(&mut conn, path)? {
            return Err(later.refused(path));
        }
        Ok(Source { conn, path: path.into() })
    }

    fn failed(&self, error: &rusqlite::Error) -> StoreError {
        StoreError::from_sqlite(error, &self.path)
    }

    /// Hands over the rows of a query by chunks, so that a table is never in memory as a whole.
    fn read_rows(&self, sql: &str, take: ChunkHandler<'_>) -> Result<(), StoreError> {
        let failed = |error: rusqlite::Error| self.failed(&error);
        let mut statement = self.conn.prepare(sql).map_err(failed)?;
        let columns = statement.column_count();
        let mut rows = statement.query([]).map_err(failed)?;
        let mut chunk = Chunk::default();
        while let Some(row) = rows.next().map_err(failed)? {
            let value = |index| row.get_ref(index).map_err(failed).and_then(|value| self.value(value));
            chunk.push((0..columns).map(value).collect::<Result<Row, _>>()?);
            if chunk.is_full() {
                take(std::mem::take(&mut chunk))?;
            }
        }
        if chunk.rows.is_empty() { Ok(()) } else { take(chunk) }
    }

    /// The tables have no fractions: one is damage.
    fn value(&self, value: ValueRef<'_>) -> Result<Value<'static>, StoreError> {
        let damaged = |detail: String| StoreError::Corrupt { path: self.path.clone(), detail };
        Ok(match value {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(value) => Value::Integer(value),
            ValueRef::Text(text) => {
                let text = std::str::from_utf8(text).map_err(|error| damaged(error.to_string()))?;
                Value::Text(Cow::Owned(text.into()))
            }
            ValueRef::Blob(bytes) => Value::Bytes(Cow::Owned(bytes.into())),
            ValueRef::Real(_) => return Err(damaged("a number with a fraction".into())),
        })
    }
}

/// Opens a file that is there.
pub(super) fn connect(path: &Path) -> Result<Connection, StoreError> {
    if !path.is_file() {
        return Err(StoreError::not_found(format!("database {}", path.display())));
    }
    // A file that is not there is not made.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || {
        let conn = Connection::open_with_flags(path, flags)?;
        conn.busy_timeout(limits::BUSY_TIMEOUT)?;
        Ok(conn)
    };
    open().map_err(|error: rusqlite::Error| StoreError::from_sqlite(&error, path))
}

/// In exclusive locking mode a connection locks the file when it first reads it, and fails while another has it open.
pub(super) fn lock(conn: &Connection) -> rusqlite::Result<()> {
    conn.pragma_update(None, "locking_mode", "exclusive")?;
    conn.pragma_update(None, "journal_mode", "wal")?;
    conn.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get::<_, i64>(0)).map(drop)
}

/// The advice for a file that is in use.
pub(super) fn used_or(path: &Path, error: &rusqlite::Error) -> StoreError {
    match StoreError::from_sqlite(error, path) {
        StoreError::Locked { path } => StoreError::invalid(
            format!("{}: a node or another command uses it", path.display()),
            "a database that is not in use: end the node, and give the same command again",
        ),
        error => error,
    }
}

/// The functions of [`BINDINGS`]; a record that cannot be read has no owner, and is left out.
fn add_functions(conn: &Connection, options: &CopyOptions) -> rusqlite::Result<()> {
    let owner = options.binding_owner;
    let pure = FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_UTF8;
    conn.create_scalar_function("binding_aor", 1, pure, move |given| {
        Ok(owner(given.get_raw(0).as_blob()?).map(|owner| String::from(owner.aor)))
    })?;
    conn.create_scalar_function("binding_is_empty", 1, pure, move |given| {
        Ok(owner(given.get_raw(0).as_blob()?).is_none_or(|owner| owner.is_empty))
    })?;
    conn.create_scalar_function("binding_bucket", 1, pure, |given| {
        Ok(Bucket::of(given.get_raw(0).as_str()?).number())
    })
}

/// The name of a table in the file.
pub(super) fn name(table: &Table) -> &'static str {
    if table.is_of_bindings() { "binding_log" } else { table.name }
}

fn count(conn: &Connection, table: &Table) -> rusqlite::Result<u64> {
    let count: i64 =
        conn.query_row(&format!("SELECT count(*) FROM {}", name(table)), [], |row| row.get(0))?;
    Ok(count.unsigned_abs())
}

impl CopySource for Source {
    fn count(&mut self, table: &Table) -> Result<u64, StoreError> {
        count(&self.conn, table).map_err(|error| self.failed(&error))
    }

    fn read(&mut self, table: &Table, take: ChunkHandler<'_>) -> Result<(), StoreError> {
        if table.is_of_bindings() {
            return self.read_rows(BINDINGS, take);
        }
        let columns = quoted(table);
        self.read_rows(&format!("SELECT {columns} FROM {}", table.name), take)
    }

    fn last_id(&mut self, table: &Table) -> Result<i64, StoreError> {
        // Tables with AUTOINCREMENT remember ids of rows that were deleted.
        let sql = format!(
            "SELECT max(coalesce((SELECT max(id) FROM {0}), 0), \
             coalesce((SELECT seq FROM sqlite_sequence WHERE name = '{0}'), 0))",
            table.name
        );
        self.conn.query_row(&sql, [], |row| row.get(0)).map_err(|error| self.failed(&error))
    }
}

/// The columns for SQL: `count` and `user` are words of the language.
fn quoted(table: &Table) -> String {
    let columns: Vec<String> = table.sqlite_columns().iter().map(|column| format!("\"{column}\"")).collect();
    columns.join(", ")
}

/// A file that is made. It has another name until it is complete.
pub(crate) struct Target {
    /// `None` when the file is closed.
    conn: Option<Connection>,
    /// The name that it will have.
    path: PathBuf,
    /// The name while it is written.
    part: PathBuf,
    /// The file that it replaces.
    old: Option<ReplacedFile>,
}

impl Target {
    pub(crate) fn open(path: &Path) -> Result<Target, StoreError> {
        if path.exists() {
            let expected = "a name that no file has: move the old one away, with its -wal and -shm";
            return Err(StoreError::invalid(format!("{}: it is there already", path.display()), expected));
        }
        Target::make(path)
    }

    /// The same as `open`, in the place of a file that has no rows, or that is kept with this behind its name. Returns the names of the files that
    /// are kept.
    pub(crate) fn open_over(
        path: &Path,
        keep_as: Option<&str>,
    ) -> Result<(Target, Vec<PathBuf>), StoreError> {
        let old = ReplacedFile::lock(path, keep_as)?;
        let kept = old.as_ref().and_then(|old| old.keep_as.clone()).into_iter().collect();
        let mut target = Target::make(path)?;
        target.old = old;
        Ok((target, kept))
    }

    /// An empty file of this schema, with a transaction begun that has all rows.
    fn make(path: &Path) -> Result<Target, StoreError> {
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        remove(&part);
        let mut target = Target { conn: None, path: path.into(), part, old: None };
        // From here on the file is removed by `drop`.
        let conn = Sqlite::open(&target.part)?.for_import().connect()?;
        // A crash leaves a file of another name: nothing of it has to survive.
        let set = || {
            conn.pragma_update(None, "journal_mode", "off")?;
            conn.pragma_update(None, "synchronous", "off")?;
            conn.execute_batch("BEGIN")
        };
        set().map_err(|error| target.failed(&error))?;
        target.conn = Some(conn);
        Ok(target)
    }

    fn conn(&self) -> Result<&Connection, StoreError> {
        self.conn.as_ref().ok_or(StoreError::Closed)
    }

    fn failed(&self, error: &rusqlite::Error) -> StoreError {
        StoreError::from_sqlite(error, &self.path)
    }

    /// The first two columns of bindings are PostgreSQL's alone.
    fn write_rows(&self, table: &Table, rows: &[Row]) -> rusqlite::Result<()> {
        let Some(conn) = &self.conn else { return Ok(()) };
        let (columns, skipped) =
            if table.is_of_bindings() { ("seq, written_at, record".into(), 2) } else { (quoted(table), 0) };
        let places = vec!["?"; table.columns.len() - skipped].join(", ");
        let mut statement =
            conn.prepare_cached(&format!("INSERT INTO {} ({columns}) VALUES ({places})", name(table)))?;
        for row in rows {
            statement.execute(params_from_iter(&row[skipped..]))?;
        }
        Ok(())
    }

    /// On disk, and as a node opens it.
    fn close(&mut self) -> rusqlite::Result<()> {
        let Some(conn) = self.conn.take() else { return Ok(()) };
        conn.execute_batch("COMMIT")?;
        conn.pragma_update(None, "synchronous", "full")?;
        conn.pragma_update(None, "journal_mode", "wal")?;
        conn.close().map_err(|(_, error)| error)
    }
}

/// Removes the file and its companions, where they are there.
fn remove(part: &Path) {
    for end in ["", "-wal", "-shm", "-journal"] {
        let mut name = part.as_os_str().to_owned();
        name.push(end);
        let _ = std::fs::remove_file(name);
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        drop(self.conn.take());
        // It has its own name by now where the copy is complete.
        remove(&self.part);
    }
}

impl CopyTarget for Target {
    fn write(&mut self, table: &Table, chunk: Chunk) -> Result<(), StoreError> {
        self.write_rows(table, &chunk.rows).map_err(|error| self.failed(&error))
    }

    fn count(&mut self, table: &Table) -> Result<u64, StoreError> {
        count(self.conn()?, table).map_err(|error| self.failed(&error))
    }

    fn end_table(&mut self, table: &Table, last_id: i64) -> Result<(), StoreError> {
        // The next id of a table that never gives one twice stands in `sqlite_sequence`.
        let conn = self.conn()?;
        let set = || {
            let sql = "SELECT 1 FROM sqlite_master WHERE name = ?1 AND sql LIKE '% AUTOINCREMENT%'";
            if conn.query_row(sql, [table.name], |_| Ok(())).optional()?.is_none() {
                return Ok(());
            }
            conn.execute("DELETE FROM sqlite_sequence WHERE name = ?1", [table.name])?;
            conn.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?1, ?2)", (table.name, last_id))?;
            Ok(())
        };
        set().map_err(|error| self.failed(&error))
    }

    fn finish(&mut self) -> Result<(), StoreError> {
        self.close().map_err(|error| self.failed(&error))?;
        let synced = File::open(&self.part).and_then(|file| file.sync_all());
        synced.map_err(|error| StoreError::Io { path: self.path.clone(), detail: error.to_string() })?;
        self.old.as_ref().map_or(Ok(()), |old| old.fold().map_err(|error| self.failed(&error)))
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        let moved = || {
            match &self.old {
                Some(old) => old.replace_by(&self.part)?,
                // Fails where a file got the name meanwhile; a rename would replace it.
                None => std::fs::hard_link(&self.part, &self.path)?,
            }
            let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
        };
        let failed =
            |error: std::io::Error| StoreError::Io { path: self.path.clone(), detail: error.to_string() };
        moved().map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use crate::copy::TABLES;

    use super::*;

    /// A table that a later migration adds has to be copied, too, or be named here.
    #[test]
    fn every_table_of_the_file_is_copied() {
        let folder = tempfile::tempdir().unwrap();
        let conn = Sqlite::open(folder.path().join("belfry.db")).unwrap().connect().unwrap();
        let sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
        let mut statement = conn.prepare(sql).unwrap();
        let names = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
        let mut missing: Vec<String> = names.map(Result::unwrap).collect();
        missing.retain(|found| !TABLES.iter().any(|table| name(table) == found));
        assert_eq!(missing, ["probe"]);
        for table in TABLES.iter().filter(|table| !table.is_of_bindings()) {
            let sql = format!("SELECT name FROM pragma_table_info('{}') ORDER BY name", table.name);
            let mut statement = conn.prepare(&sql).unwrap();
            let there: Vec<String> =
                statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
            let mut copied = table.sqlite_columns().to_vec();
            copied.sort_unstable();
            assert_eq!(there, copied, "{}", table.name);
        }
    }
}
