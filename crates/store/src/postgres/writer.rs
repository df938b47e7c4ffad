//! The writing connection: groups in one transaction.

use crate::error::StoreError;
use crate::import::{Existing, Imported, NewUser};
use crate::record::{Write, WriteDone, Writer};
use crate::types::Address;

use super::connection::{Connection, Failure, micros, seconds, values};
use super::routes::Old;
use super::{Postgres, access, accounts, bindings, import, notices, rest, routes, xmpp};

/// Times that a group is tried which another transaction's changes stopped.
const TRIES: usize = 5;

pub(super) struct PostgresWriter {
    connection: Connection,
}

impl PostgresWriter {
    pub(super) fn new(postgres: &Postgres) -> Result<Self, StoreError> {
        Ok(PostgresWriter { connection: postgres.connect()? })
    }

    /// Runs `work` in one transaction. An error rolls all of it back.
    fn in_transaction<T>(
        &mut self,
        mut work: impl FnMut(&mut Connection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.connection.ensure()?;
        match self.connection.batch("BEGIN") {
            Err(failure) if failure.is_of_connection() => {
                self.connection.ensure()?;
                self.connection.batch("BEGIN")?;
            }
            begun => begun?,
        }
        let mut tries = 1;
        loop {
            match transact(&mut self.connection, &mut work) {
                Err(failure) if failure.is_of_moment() && tries < TRIES => {
                    tries += 1;
                    self.connection.batch("BEGIN")?;
                }
                result => return result,
            }
        }
    }

    fn store_error(&self, failure: Failure) -> StoreError {
        failure.into_store(self.connection.name())
    }
}

/// Ends the transaction that has begun.
fn transact<T>(
    connection: &mut Connection,
    work: &mut impl FnMut(&mut Connection) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let result = work(connection).and_then(|value| connection.batch("COMMIT").map(|()| value));
    if result.is_err() {
        // The error above is the one to tell; a connection that broke is made again with the next group.
        let _ = connection.batch("ROLLBACK");
    }
    result
}

/// The place of a group's writes in its transaction: side by side, or each in a savepoint.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Apart {
    /// A write at fault is found by us before anything was changed, or the group ends.
    No,
    /// Each has a savepoint: one at fault leaves no trace, and the others of its group stand.
    Yes,
}

impl Apart {
    fn apply(self, connection: &mut Connection, write: &Write) -> Result<WriteDone, Failure> {
        if self == Apart::No {
            return apply(connection, write);
        }
        connection.batch("SAVEPOINT item")?;
        let done = apply(connection, write);
        connection.batch(if done.is_ok() { "RELEASE item" } else { "ROLLBACK TO item" })?;
        done
    }
}

type Results = Vec<Result<WriteDone, StoreError>>;

fn apply_all(connection: &mut Connection, group: &[Write], apart: Apart) -> Result<Results, Failure> {
    let name = connection.name().to_owned();
    let mut results = Vec::with_capacity(group.len());
    let mut rest = group;
    while let Some(write) = rest.first() {
        // Runs of the frequent kinds are one statement each.
        let run = rest.iter().take_while(|other| bindings::is_same_run(write, other)).count();
        if run > 1 && apart == Apart::No {
            results.extend(bindings::run(connection, &rest[..run])?.into_iter().map(Ok));
            rest = &rest[run..];
            continue;
        }
        rest = &rest[1..];
        match apart.apply(connection, write) {
            Ok(done) => results.push(Ok(done)),
            // Found by us, before anything was changed; or undone to the savepoint.
            Err(Failure::Store(error)) if error.is_of_item() => results.push(Err(error)),
            Err(failure) if failure.is_of_value() && apart == Apart::Yes => {
                results.push(Err(failure.into_store(&name)));
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(results)
}

impl Writer for PostgresWriter {
    fn write_group(&mut self, group: &[Write]) -> Vec<Result<WriteDone, StoreError>> {
        let mut written = self.in_transaction(|connection| apply_all(connection, group, Apart::No));
        if written.as_ref().is_err_and(Failure::is_of_value) {
            written = self.in_transaction(|connection| apply_all(connection, group, Apart::Yes));
        }
        written.unwrap_or_else(|failure| {
            let error = self.store_error(failure);
            group.iter().map(|_| Err(error.clone())).collect()
        })
    }

    fn secret(&mut self, name: &str, fresh: [u8; 32]) -> Result<[u8; 32], StoreError> {
        let found = self.in_transaction(|connection| {
            let sql = "INSERT INTO secret (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING";
            connection.execute(sql, values![name, &fresh[..]])?;
            let row = connection.query_first("SELECT value FROM secret WHERE name = $1", values![name])?;
            let value: Option<Vec<u8>> = row.map(|row| row.try_get(0)).transpose()?;
            value.and_then(|value| value.try_into().ok()).ok_or_else(|| {
                StoreError::Internal { detail: format!("secret {name} is not of 32 bytes") }.into()
            })
        });
        found.map_err(|failure| self.store_error(failure))
    }

    fn import(
        &mut self,
        users: &[NewUser],
        existing: Existing,
    ) -> Result<(Imported, Vec<Address>), StoreError> {
        let imported = self.in_transaction(|connection| {
            let imported = import::import(connection, users, existing)?;
            notices::send_everything(connection)?;
            Ok(imported)
        });
        imported.map_err(|failure| self.store_error(failure))
    }
}

/// Applies a write and sends the notice that it needs; the server passes it on when the transaction is committed.
fn apply(connection: &mut Connection, write: &Write) -> Result<WriteDone, Failure> {
    let Some(notices) = notices::Pending::before(connection, write)? else {
        return change(connection, write);
    };
    let done = change(connection, write)?;
    notices.send(connection, &done)?;
    Ok(done)
}

fn change(connection: &mut Connection, write: &Write) -> Result<WriteDone, Failure> {
    match write {
        Write::Binding(row) => bindings::write(connection, row),
        // A row is replaced by the next of its address, and removed when nothing can live in it any more.
        Write::ForgetBindings { .. } => Ok(WriteDone::Changed { rows: 0 }),
        Write::CleanBindings { before } => bindings::clean(connection, micros(*before)),
        Write::Call(call) => routes::add_call(connection, call),
        Write::ForgetCalls { before } => routes::clean(connection, Old::Calls, micros(*before)),
        Write::Keep(message) => routes::keep(connection, message),
        Write::ForgetMessage { aor, id } => routes::forget(connection, aor, *id),
        Write::ForgetMessages { before } => routes::clean(connection, Old::Messages, micros(*before)),
        Write::AddAccount(account) => accounts::add(connection, account),
        Write::SetVerifiers { account, verifiers } => accounts::set_verifiers(connection, account, verifiers),
        Write::AddScram { account, of, keys } => accounts::add_scram(connection, account, of, keys),
        Write::LearnPassword { account, of, verifiers } => {
            accounts::learn_password(connection, account, of, verifiers)
        }
        Write::SetDisplayName { account, display_name } => {
            accounts::set_display_name(connection, account, display_name)
        }
        Write::SetDisabled { account, disabled } => accounts::set_disabled(connection, account, *disabled),
        Write::SetLimits { account, limits } => accounts::set_limits(connection, account, limits),
        Write::RemoveAccount { account } => accounts::remove(connection, account),
        Write::KeepDigests(keep) => accounts::keep_digests(connection, *keep),
        Write::AddDomain { name, created_at } => accounts::add_domain(connection, name, seconds(*created_at)),
        Write::RemoveDomain { name } => accounts::remove_domain(connection, name),
        Write::AddAlias { alias, account } => accounts::add_alias(connection, alias, account),
        Write::RemoveAlias { alias } => accounts::remove_alias(connection, alias),
        Write::Probe { at } => {
            let sql = "INSERT INTO probe (id, at) VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET at = $1";
            Ok(WriteDone::Changed { rows: connection.execute(sql, values![micros(*at)])? })
        }
        Write::AddRoute(route) => routes::add(connection, route),
        Write::ReplaceRoute(route) => routes::replace(connection, route),
        Write::RemoveRoute { name } => routes::remove(connection, name),
        Write::Rest(write) => rest::write(connection, write),
        Write::Xmpp(write) => xmpp::write(connection, write),
        Write::Access(write) => access::write(connection, write),
    }
}
