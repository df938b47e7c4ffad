//! The writing connection: groups in one transaction.
//!
//! The order for a group: begin, apply each write, delete dead rows of the log of bindings, commit. A write at fault has an error of its own; any
//! other error rolls back the group.

use rusqlite::{Connection, OptionalExtension, params};

use crate::error::StoreError;
use crate::import::{Existing, Imported, NewUser};
use crate::record::{Write, WriteDone, Writer};
use crate::types::Address;

use super::bindings::{self, DeadRows, Pending};
use super::routes::Old;
use super::{Failure, Sqlite, access, accounts, import, micros, rest, routes, seconds, xmpp};

/// The one writer of a node.
pub(super) struct SqliteWriter {
    sqlite: Sqlite,
    conn: Connection,
    /// The disk failed under the connection; what it has cached may not be what is in the file.
    suspect: bool,
    /// Rows of the log of bindings that may be deleted.
    dead: DeadRows,
}

impl SqliteWriter {
    pub(super) fn new(sqlite: &Sqlite) -> Result<Self, StoreError> {
        let conn = sqlite.connect()?;
        let newest = bindings::newest(&conn).map_err(|failure| failure.into_store(&sqlite.path))?;
        Ok(SqliteWriter { conn, sqlite: sqlite.clone(), suspect: false, dead: DeadRows::new(newest) })
    }

    /// Runs `work` in one transaction. An error rolls all of it back.
    fn in_transaction<T>(
        &mut self,
        work: impl FnOnce(&Connection) -> Result<T, Failure>,
    ) -> Result<T, StoreError> {
        self.renew_if_suspect()?;
        let result = transact(&self.conn, work).map_err(|failure| failure.into_store(&self.sqlite.path));
        if !self.conn.is_autocommit() && self.conn.execute_batch("ROLLBACK").is_err() {
            self.suspect = true;
        }
        if matches!(result, Err(StoreError::Io { .. } | StoreError::Corrupt { .. })) {
            self.suspect = true;
        }
        result
    }

    /// A new connection reads the file anew.
    fn renew_if_suspect(&mut self) -> Result<(), StoreError> {
        if self.suspect {
            self.conn = self.sqlite.connect()?;
            self.suspect = false;
        }
        Ok(())
    }
}

/// IMMEDIATE takes the write lock at once: a group never fails half-way because another process was first.
fn transact<T>(
    conn: &Connection,
    work: impl FnOnce(&Connection) -> Result<T, Failure>,
) -> Result<T, Failure> {
    conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    let value = work(conn)?;
    conn.prepare_cached("COMMIT")?.execute([])?;
    Ok(value)
}

impl Writer for SqliteWriter {
    fn write_group(&mut self, group: &[Write]) -> Vec<Result<WriteDone, StoreError>> {
        let path = self.sqlite.path.clone();
        // Taken out while the connection is borrowed.
        let mut dead = std::mem::take(&mut self.dead);
        let mut pending = dead.begin();
        let written = self.in_transaction(|conn| {
            let mut results = Vec::with_capacity(group.len());
            for write in group {
                // Every write makes its checks before its first change, and a statement that fails undoes itself: a write that is at
                // fault leaves no trace, and the others of its group stand.
                match apply(conn, write, &mut pending) {
                    Ok(done) => results.push(Ok(done)),
                    Err(failure) => {
                        let error = failure.into_store(&path);
                        if !error.is_of_item() {
                            return Err(error.into());
                        }
                        results.push(Err(error));
                    }
                }
            }
            let sweep = dead.plan(&pending);
            let swept = sweep.run(conn)?;
            count_swept(group, &mut results, swept);
            Ok((results, sweep))
        });
        let results = match written {
            Ok((results, sweep)) => {
                dead.commit(&sweep, pending);
                results
            }
            Err(error) => {
                dead.abort(&pending);
                group.iter().map(|_| Err(error.clone())).collect()
            }
        };
        self.dead = dead;
        results
    }

    fn secret(&mut self, name: &str, fresh: [u8; 32]) -> Result<[u8; 32], StoreError> {
        self.in_transaction(|conn| {
            let sql = "INSERT OR IGNORE INTO secret (name, value) VALUES (?1, ?2)";
            conn.prepare_cached(sql)?.execute(params![name, fresh])?;
            let mut select = conn.prepare_cached("SELECT value FROM secret WHERE name = ?1")?;
            let value: Option<Vec<u8>> = select.query_row([name], |row| row.get(0)).optional()?;
            value.and_then(|value| value.try_into().ok()).ok_or_else(|| {
                StoreError::Internal { detail: format!("secret {name} is not of 32 bytes") }.into()
            })
        })
    }

    fn import(
        &mut self,
        new: &[NewUser],
        existing: Existing,
    ) -> Result<(Imported, Vec<Address>), StoreError> {
        self.in_transaction(|conn| import::import(conn, new, existing))
    }
}

/// Each write to its module.
fn apply(conn: &Connection, write: &Write, pending: &mut Pending) -> Result<WriteDone, Failure> {
    match write {
        Write::Binding(row) => pending.append(conn, row),
        Write::ForgetBindings { rows } => Ok(pending.forget(rows)),
        Write::CleanBindings { before } => pending.clean(conn, micros(*before)),
        Write::Call(call) => routes::add_call(conn, call),
        Write::EnsureCall(call) => routes::ensure_call(conn, call),
        Write::ForgetCalls { before } => routes::clean(conn, Old::Calls, micros(*before)),
        Write::Keep(message) => routes::keep(conn, message),
        Write::ForgetMessage { aor, id } => routes::forget(conn, aor, *id),
        Write::ForgetMessages { before } => routes::clean(conn, Old::Messages, micros(*before)),
        Write::AddAccount(account) => accounts::add(conn, account),
        Write::SetVerifiers { account, verifiers } => accounts::set_verifiers(conn, account, verifiers),
        Write::AddScram { account, of, keys } => accounts::add_scram(conn, account, of, keys),
        Write::LearnPassword { account, of, verifiers } => {
            accounts::learn_password(conn, account, of, verifiers)
        }
        Write::SetDisplayName { account, display_name } => {
            accounts::set_display_name(conn, account, display_name)
        }
        Write::SetDisabled { account, disabled } => {
            let done = accounts::set_disabled(conn, account, *disabled)?;
            rest::enable_client(conn, account)?;
            Ok(done)
        }
        Write::SetLimits { account, limits } => accounts::set_limits(conn, account, limits),
        Write::RemoveAccount { account } => accounts::remove(conn, account),
        Write::KeepDigests(keep) => accounts::keep_digests(conn, *keep),
        Write::AddDomain { name, created_at } => accounts::add_domain(conn, name, seconds(*created_at)),
        Write::RemoveDomain { name } => accounts::remove_domain(conn, name),
        Write::AddAlias { alias, account } => accounts::add_alias(conn, alias, account),
        Write::RemoveAlias { alias } => accounts::remove_alias(conn, alias),
        Write::Probe { at } => probe(conn, micros(*at)),
        Write::AddRoute(route) => routes::add(conn, route),
        Write::ReplaceRoute(route) => routes::replace(conn, route),
        Write::RemoveRoute { name } => routes::remove(conn, name),
        Write::Rest(write) => rest::write(conn, write),
        Write::AddClient { row, account, disabled } => rest::add_client(conn, row, account, *disabled),
        Write::OfClient { sid, write } => apply_of_client(conn, sid, write, pending),
        Write::Xmpp(write) => xmpp::write(conn, write),
        Write::Access(write) => access::write(conn, write),
    }
}

/// A change of an account as that of a client.
fn apply_of_client(
    conn: &Connection,
    sid: &str,
    write: &Write,
    pending: &mut Pending,
) -> Result<WriteDone, Failure> {
    let account = write.changed_account().ok_or_else(|| StoreError::not_found(sid))?;
    rest::check_client(conn, sid, account)?;
    match write {
        // The client's row says whether the client has disabled it.
        Write::SetDisabled { account, disabled } => accounts::set_disabled(conn, account, *disabled),
        write => apply(conn, write, pending),
    }
}

/// Changes the one row of the table of probes: a write that needs the disk.
fn probe(conn: &Connection, at: i64) -> Result<WriteDone, Failure> {
    let sql = "INSERT INTO probe (id, at) VALUES (1, ?1) ON CONFLICT (id) DO UPDATE SET at = ?1";
    let rows = conn.prepare_cached(sql)?.execute([at])? as u64;
    Ok(WriteDone::Changed { rows })
}

/// Adds swept rows to the result of a cleaning write, so that the service repeats it.
fn count_swept(group: &[Write], results: &mut [Result<WriteDone, StoreError>], swept: u64) {
    for (write, result) in group.iter().zip(results) {
        if let (Write::CleanBindings { .. }, Ok(WriteDone::Changed { rows })) = (write, result) {
            *rows += swept;
        }
    }
}
