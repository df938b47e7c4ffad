//! The file of a database in whose place another one is put.
//!
//! Used by a restore. The order: `lock` before anything is written, `fold` when the new file is complete, and `replace_by` as the last step.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension};

use crate::copy::TABLES;
use crate::error::StoreError;

use super::copy;

/// A file that no other process uses as long as this is there.
pub(super) struct ReplacedFile {
    /// `None`: it is damaged, or no database.
    conn: Option<Connection>,
    path: PathBuf,
    /// The name by which it stays. `None`: it has no rows.
    pub(super) keep_as: Option<PathBuf>,
}

/// Endings of the write-ahead log and of its index.
const COMPANIONS: [&str; 2] = ["-wal", "-shm"];

impl ReplacedFile {
    /// `None`: there is no file. `keep_as` is what stands behind the name of one that has rows.
    pub(super) fn lock(path: &Path, keep_as: Option<&str>) -> Result<Option<ReplacedFile>, StoreError> {
        let mut old = ReplacedFile { conn: None, path: path.into(), keep_as: None };
        if !path.exists() {
            // A log without its file would be taken for that of the new one.
            let has_log = COMPANIONS.iter().any(|end| with_end(path, end).exists());
            old.keep_as = keep_as.map(|end| with_end(path, &format!(".{end}")));
            return match (has_log, &old.keep_as) {
                (false, _) => Ok(None),
                (true, Some(_)) => Ok(Some(old)),
                (true, None) => Err(refused(path, "there is a -wal or -shm, but no database")),
            };
        }
        let conn = copy::connect(path)?;
        let found = match copy::lock(&conn).map_err(|error| copy::used_or(path, &error)) {
            Ok(()) => {
                let found = filled(&conn);
                old.conn = Some(conn);
                found.unwrap_or_else(|error| vec![format!("a table that cannot be read ({error})")])
            }
            Err(error @ StoreError::Corrupt { .. }) => {
                // It is kept as it is, with its log.
                let set = conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
                set.map_err(|error| StoreError::from_sqlite(&error, path))?;
                vec![format!("what cannot be read ({error})")]
            }
            Err(error) => return Err(error),
        };
        if found.is_empty() {
            return Ok(Some(old));
        }
        let end = keep_as.ok_or_else(|| refused(path, &format!("it has rows in {}", found.join(", "))))?;
        old.keep_as = Some(with_end(path, &format!(".{end}")));
        Ok(Some(old))
    }

    /// Brings its log into the file, so that one name is all of it. The lock stays.
    pub(super) fn fold(&self) -> rusqlite::Result<()> {
        let Some(conn) = &self.conn else { return Ok(()) };
        conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        conn.query_row("PRAGMA journal_mode = delete", [], |_| Ok(()))?;
        conn.execute_batch("BEGIN EXCLUSIVE")
    }

    /// The name leads to the other file from one moment to the next.
    pub(super) fn replace_by(&self, new: &Path) -> io::Result<()> {
        if let Some(kept) = &self.keep_as {
            if self.path.exists() {
                std::fs::hard_link(&self.path, kept)?;
            }
            for end in COMPANIONS {
                let companion = with_end(&self.path, end);
                if companion.exists() {
                    std::fs::rename(&companion, with_end(kept, end))?;
                }
            }
        }
        std::fs::rename(new, &self.path)
    }
}

fn refused(path: &Path, found: &str) -> StoreError {
    let found = format!("{}: {found}", path.display());
    StoreError::invalid(found, "an empty database, or --replace, which keeps the old one beside it")
}

/// The path with this behind it.
fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// The tables that have rows. One of an earlier version lacks some.
fn filled(conn: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut found = Vec::new();
    for table in TABLES {
        let name = copy::name(table);
        let there = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?1";
        if conn.query_row(there, [name], |_| Ok(())).optional()?.is_some() {
            let sql = format!("SELECT 1 FROM {name} LIMIT 1");
            if conn.query_row(&sql, [], |_| Ok(())).optional()?.is_some() {
                found.push(name.to_owned());
            }
        }
    }
    Ok(found)
}
