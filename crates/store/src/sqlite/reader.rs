//! A reading connection. WAL: it never waits for the writer, nor the writer for it.
//!
//! Reads that clients cause have a budget of SQLite's steps (`limits::READ_STEPS`): one that asks for too much ends with an error, so that others are
//! not delayed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::Connection;

use crate::error::StoreError;
use crate::limits;
use crate::record::{Loaded, LoggedBinding, Read, Reader};
use crate::xmpp::XmppRead;

use super::{Failure, Sqlite, access, accounts, from_micros, rest, routes, xmpp_read};

/// One thread's reader.
pub(super) struct SqliteReader {
    sqlite: Sqlite,
    conn: Connection,
    /// Steps of SQLite that the present read may still take.
    left: Arc<AtomicU64>,
}

/// Steps of SQLite between two looks at what is left.
const LOOK_EVERY: u16 = 10_000;

impl SqliteReader {
    pub(super) fn new(sqlite: &Sqlite) -> Result<Self, StoreError> {
        let mut conn = sqlite.connect()?;
        conn.pragma_update(None, "query_only", true)
            .map_err(|error| StoreError::from_sqlite(&error, &sqlite.path))?;
        let left = Arc::new(AtomicU64::new(u64::MAX));
        let of_handler = Arc::clone(&left);
        let is_over = move || {
            let left = of_handler.load(Ordering::Relaxed);
            of_handler.store(left.saturating_sub(u64::from(LOOK_EVERY)), Ordering::Relaxed);
            left == 0
        };
        conn.progress_handler(i32::from(LOOK_EVERY.cast_signed()), Some(is_over))
            .map_err(|error| StoreError::from_sqlite(&error, &sqlite.path))?;
        Ok(SqliteReader { conn, sqlite: sqlite.clone(), left })
    }
}

impl Reader for SqliteReader {
    fn load(&mut self, read: &Read) -> Result<Loaded, StoreError> {
        // An operator's read may take its time; a client's read must not delay those of others.
        let is_clients =
            matches!(read, Read::Xmpp(read) if !matches!(read, XmppRead::Waiting | XmppRead::Kept { .. }));
        self.left.store(if is_clients { limits::READ_STEPS } else { u64::MAX }, Ordering::Relaxed);
        load(&self.conn, read).map_err(|failure| failure.into_store(&self.sqlite.path))
    }

    fn replay(&mut self, visit: &mut dyn FnMut(LoggedBinding<'_>)) -> Result<u64, StoreError> {
        self.left.store(u64::MAX, Ordering::Relaxed);
        replay(&self.conn, visit).map_err(|failure| failure.into_store(&self.sqlite.path))
    }
}

/// Each kind of read to its module. A file is one node's, so there are no reads by bucket.
fn load(conn: &Connection, read: &Read) -> Result<Loaded, Failure> {
    Ok(match read {
        Read::Account { user, domain } => Loaded::Account(accounts::load(conn, user, domain)?.map(Box::new)),
        Read::Accounts(filter) => Loaded::Accounts(accounts::list(conn, filter)?),
        Read::Aliases { account } => Loaded::Aliases(accounts::aliases(conn, account.as_ref())?),
        Read::Domains => Loaded::Domains(accounts::domains(conn)?),
        Read::Routes => Loaded::Routes(routes::list(conn)?),
        Read::Calls(filter) => Loaded::Calls(routes::calls(conn, filter)?),
        Read::CallSearch(search) => Loaded::CallPage(routes::search_calls(conn, search)?),
        Read::KeptMessages { aor } => Loaded::KeptMessages(routes::kept(conn, aor)?),
        Read::Rest(read) => Loaded::Rest(rest::load(conn, read)?),
        Read::Xmpp(read) => Loaded::Xmpp(xmpp_read::load(conn, read)?),
        Read::Access(read) => Loaded::Access(access::load(conn, read)?),
        Read::KeptCounts => Loaded::KeptCounts(routes::kept_counts(conn)?),
        Read::BucketBindings { .. } | Read::Bindings { .. } | Read::BucketKeptCounts { .. } => {
            return Err(StoreError::invalid("a read by bucket", "a database that nodes share").into());
        }
    })
}

/// All rows of the log, the oldest first; only one is in memory at a time.
fn replay(conn: &Connection, visit: &mut dyn FnMut(LoggedBinding<'_>)) -> Result<u64, Failure> {
    let mut statement = conn.prepare("SELECT seq, written_at, record FROM binding_log ORDER BY seq")?;
    let mut rows = statement.query([])?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        let record = row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?;
        visit(LoggedBinding { seq: row.get(0)?, written_at: from_micros(row.get(1)?), record });
        count += 1;
    }
    Ok(count)
}
