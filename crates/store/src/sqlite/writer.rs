//! The writing connection: groups in one transaction.

use rusqlite::{Connection, OptionalExtension, params};

use crate::error::StoreError;
use crate::import::{Existing, Imported, NewUser};
use crate::limits;
use crate::record::{Write, WriteDone, Writer};
use crate::types::{Address, check_length};

use super::routes::Old;
use super::{Failure, Sqlite, access, accounts, import, micros, rest, routes, seconds, xmpp};

pub(super) struct SqliteWriter {
    sqlite: Sqlite,
    conn: Connection,
    /// The disk failed under the connection; what it has cached may not be what is in the file.
    suspect: bool,
}

impl SqliteWriter {
    pub(super) fn new(sqlite: &Sqlite) -> Result<Self, StoreError> {
        Ok(SqliteWriter { conn: sqlite.connect()?, sqlite: sqlite.clone(), suspect: false })
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
        let written = self.in_transaction(|conn| {
            let mut results = Vec::with_capacity(group.len());
            for write in group {
                // Every write is one changing statement, which undoes itself when it fails: a write that is at
                // fault leaves no trace, and the others of its group stand.
                match apply(conn, write) {
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
            Ok(results)
        });
        written.unwrap_or_else(|error| group.iter().map(|_| Err(error.clone())).collect())
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

fn apply(conn: &Connection, write: &Write) -> Result<WriteDone, Failure> {
    match write {
        Write::Binding { written_at, record } => append_binding(conn, micros(*written_at), record),
        Write::CleanBindings { before } => routes::clean(conn, Old::Bindings, micros(*before)),
        Write::Call(call) => routes::add_call(conn, call),
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
        Write::SetDisabled { account, disabled } => accounts::set_disabled(conn, account, *disabled),
        Write::SetLimits { account, limits } => accounts::set_limits(conn, account, *limits),
        Write::RemoveAccount { account } => accounts::remove(conn, account),
        Write::AddDomain { name, created_at } => accounts::add_domain(conn, name, seconds(*created_at)),
        Write::RemoveDomain { name } => accounts::remove_domain(conn, name),
        Write::AddAlias { alias, account } => accounts::add_alias(conn, alias, account),
        Write::RemoveAlias { alias } => accounts::remove_alias(conn, alias),
        Write::AddRoute(route) => routes::add(conn, route),
        Write::ReplaceRoute(route) => routes::replace(conn, route),
        Write::RemoveRoute { name } => routes::remove(conn, name),
        Write::Rest(write) => rest::write(conn, write),
        Write::Xmpp(write) => xmpp::write(conn, write),
        Write::Access(write) => access::write(conn, write),
    }
}

fn append_binding(conn: &Connection, written_at: i64, record: &[u8]) -> Result<WriteDone, Failure> {
    check_length("binding record", record.len(), limits::MAX_BINDING_RECORD)?;
    conn.prepare_cached("INSERT INTO binding_log (written_at, record) VALUES (?1, ?2)")?
        .execute(params![written_at, record])?;
    Ok(WriteDone::Logged { seq: conn.last_insert_rowid() })
}
