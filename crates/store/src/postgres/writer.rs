//! The writing connection: groups in one transaction.
//!
//! A group takes the fast way first (`write_side_by_side`). If the database finds a value at fault, all of it is rolled back and written again with a
//! savepoint for each write (`apply_apart`), so that only the write at fault fails. Another transaction in the way, or a server that takes no writes
//! any more, makes it begin again (`tried`).

use std::time::Duration;

use crate::error::StoreError;
use crate::import::{Existing, Imported, NewUser};
use crate::limits;
use crate::record::{Write, WriteDone, Writer};
use crate::types::Address;

use super::connection::{Connection, micros, seconds, values};
use super::failure::Failure;
use super::frequent::{self, Around, Frequent, Numbers, Written};
use super::routes::Old;
use super::{Postgres, access, accounts, bindings, import, notices, rest, routes, xmpp};

/// Times that a group is tried which another transaction's changes stopped.
const TRIES: usize = 5;

/// One writer of a node, or of a command.
pub(super) struct PostgresWriter {
    pub(super) connection: Connection,
    /// Numbers for rows of bindings.
    numbers: Numbers,
}

impl PostgresWriter {
    pub(super) fn new(postgres: &Postgres) -> Result<Self, StoreError> {
        // Outside a farm a writer may take its time, as an import does.
        let limit = if postgres.life.is_some() { limits::WRITE_TIME } else { Duration::ZERO };
        Ok(PostgresWriter { connection: Connection::open(postgres, limit)?, numbers: Numbers::default() })
    }

    /// Runs `work` in one transaction. An error rolls all of it back.
    fn in_transaction<T>(
        &mut self,
        mut work: impl FnMut(&mut Connection, &mut Numbers) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.connection.ensure_alive()?;
        self.tried(|writer| {
            let PostgresWriter { connection, numbers } = writer;
            let mut begun = connection.begin(&[], false);
            if begun.as_ref().is_err_and(Failure::is_of_connection) {
                connection.ensure()?;
                begun = connection.begin(&[], false);
            }
            let done = begun.and_then(|_| work(connection, numbers));
            writer.end(done)
        })
    }

    /// Writes a group side by side: the frequent kinds first, with the begin of the transaction, and its end if there are no others.
    fn write_side_by_side(&mut self, group: &[Write]) -> Result<Results, Failure> {
        self.connection.ensure_alive()?;
        self.tried(|writer| {
            let frequent = Frequent::of(group);
            let is_all = frequent.len() == group.len();
            let PostgresWriter { connection, numbers } = writer;
            let mut written = frequent.write(connection, numbers, Around::Begin { commits: is_all });
            // Writes that are not committed, or have the same result twice, may be sent again.
            if written.as_ref().is_err_and(Failure::is_of_connection) && (!is_all || frequent.is_repeatable())
            {
                connection.ensure()?;
                written = frequent.write(connection, numbers, Around::Begin { commits: is_all });
            }
            if is_all {
                return Ok(written?.into_values().collect());
            }
            let done = written.and_then(|written| apply_others(connection, numbers, group, written));
            writer.end(done)
        })
    }

    /// Does it again where another transaction's changes stopped it, or where the server takes no writes: then at the server of the URL
    /// that does.
    fn tried<T>(&mut self, mut work: impl FnMut(&mut Self) -> Result<T, Failure>) -> Result<T, Failure> {
        let mut tries = 1;
        loop {
            match work(self) {
                Err(failure) if failure.is_of_moment() && tries < TRIES => tries += 1,
                // The server has refused the first write, so that nothing of the transaction is there.
                Err(failure) if failure.is_of_standby() && tries < TRIES => {
                    tries += 1;
                    self.connection.switch()?;
                }
                result => return result,
            }
        }
    }

    /// Ends the transaction that has begun: with an error nothing of it is there.
    fn end<T>(&mut self, done: Result<T, Failure>) -> Result<T, Failure> {
        let connection = &mut self.connection;
        let result = done.and_then(|value| connection.commit().map(|()| value));
        if result.is_err() {
            // The error above is the one to tell; a connection that broke is made again with the next group.
            let _ = connection.batch("ROLLBACK");
        }
        result
    }

    /// A write that the server has cancelled for its time may succeed later: it is as if the server had not answered.
    fn store_error(&self, failure: Failure) -> StoreError {
        if failure.is_of_time() {
            let detail = format!("a write took longer than {} s", limits::WRITE_TIME.as_secs());
            return StoreError::Unreachable {
                server: self.connection.name().into(),
                detail,
                is_refused: false,
            };
        }
        failure.into_store(self.connection.name())
    }
}

/// One for each write of a group, in order.
type Results = Vec<Result<WriteDone, StoreError>>;

/// Writes the group's writes of kinds that are not frequent, each after the other. `written` has the results of the frequent ones.
fn apply_others(
    connection: &mut Connection,
    numbers: &mut Numbers,
    group: &[Write],
    mut written: Written,
) -> Result<Results, Failure> {
    let mut results = Vec::with_capacity(group.len());
    for (place, write) in group.iter().enumerate() {
        if let Some(done) = written.remove(&place) {
            results.push(done);
            continue;
        }
        match apply(connection, numbers, write) {
            Ok(done) => results.push(Ok(done)),
            // Found by us, before anything was changed. An error of the server has ended the transaction, so it is never one of these.
            Err(Failure::Store(error)) if error.is_of_item() => results.push(Err(error)),
            Err(failure) => return Err(failure),
        }
    }
    Ok(results)
}

/// Writes each of a group in a savepoint: one at fault leaves no trace, and the others of its group stand.
fn apply_apart(
    connection: &mut Connection,
    numbers: &mut Numbers,
    group: &[Write],
) -> Result<Results, Failure> {
    let name = connection.name().to_owned();
    let mut results = Vec::with_capacity(group.len());
    for write in group {
        connection.batch("SAVEPOINT item")?;
        let done = apply(connection, numbers, write);
        connection.batch(if done.is_ok() { "RELEASE item" } else { "ROLLBACK TO item" })?;
        match done {
            Ok(done) => results.push(Ok(done)),
            Err(Failure::Store(error)) if error.is_of_item() => results.push(Err(error)),
            Err(failure) if failure.is_of_value() => results.push(Err(failure.into_store(&name))),
            Err(failure) => return Err(failure),
        }
    }
    Ok(results)
}

impl Writer for PostgresWriter {
    fn write_group(&mut self, group: &[Write]) -> Vec<Result<WriteDone, StoreError>> {
        let mut written = self.write_side_by_side(group);
        if written.as_ref().is_err_and(Failure::is_of_value) {
            written = self.in_transaction(|connection, numbers| apply_apart(connection, numbers, group));
        }
        written.unwrap_or_else(|failure| {
            let error = self.store_error(failure);
            group.iter().map(|_| Err(error.clone())).collect()
        })
    }

    fn secret(&mut self, name: &str, fresh: [u8; 32]) -> Result<[u8; 32], StoreError> {
        let found = self.in_transaction(|connection, _| {
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
        let imported = self.in_transaction(|connection, _| {
            let (imported, changed) = import::import(connection, users, existing)?;
            notices::send_of_import(connection, &changed)?;
            Ok((imported, changed))
        });
        imported.map_err(|failure| self.store_error(failure))
    }
}

/// Applies a write and sends the notice that it needs; the server passes it on when the transaction is committed.
fn apply(connection: &mut Connection, numbers: &mut Numbers, write: &Write) -> Result<WriteDone, Failure> {
    let Some(notices) = notices::Pending::before(connection, write)? else {
        return change(connection, numbers, write);
    };
    let done = change(connection, numbers, write)?;
    notices.send(connection, &done)?;
    Ok(done)
}

/// Each write to its module.
fn change(connection: &mut Connection, numbers: &mut Numbers, write: &Write) -> Result<WriteDone, Failure> {
    match write {
        Write::Binding(_) | Write::Call(_) | Write::Probe { .. } => {
            frequent::write_one(connection, numbers, write)
        }
        Write::EnsureCall(call) => routes::ensure_call(connection, call),
        // A row is replaced by the next of its address, and removed when nothing can live in it any more.
        Write::ForgetBindings { .. } => Ok(WriteDone::Changed { rows: 0 }),
        Write::CleanBindings { before } => bindings::clean(connection, micros(*before)),
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
        Write::SetDisabled { account, disabled } => {
            let done = accounts::set_disabled(connection, account, *disabled)?;
            rest::enable_client(connection, account)?;
            Ok(done)
        }
        Write::SetLimits { account, limits } => accounts::set_limits(connection, account, limits),
        Write::RemoveAccount { account } => accounts::remove(connection, account),
        Write::KeepDigests(keep) => accounts::keep_digests(connection, *keep),
        Write::AddDomain { name, created_at } => accounts::add_domain(connection, name, seconds(*created_at)),
        Write::RemoveDomain { name } => accounts::remove_domain(connection, name),
        Write::AddAlias { alias, account } => accounts::add_alias(connection, alias, account),
        Write::RemoveAlias { alias } => accounts::remove_alias(connection, alias),
        Write::AddRoute(route) => routes::add(connection, route),
        Write::ReplaceRoute(route) => routes::replace(connection, route),
        Write::RemoveRoute { name } => routes::remove(connection, name),
        Write::Rest(write) => rest::write(connection, write),
        Write::AddClient { row, account, disabled } => rest::add_client(connection, row, account, *disabled),
        Write::OfClient { sid, write } => change_of_client(connection, numbers, sid, write),
        Write::Xmpp(write) => xmpp::write(connection, write),
        Write::Access(write) => access::write(connection, write),
    }
}

/// A change of an account as that of a client.
fn change_of_client(
    connection: &mut Connection,
    numbers: &mut Numbers,
    sid: &str,
    write: &Write,
) -> Result<WriteDone, Failure> {
    let account = write.changed_account().ok_or_else(|| StoreError::not_found(sid))?;
    rest::check_client(connection, sid, account)?;
    match write {
        // The client's row says whether the client has disabled it.
        Write::SetDisabled { account, disabled } => accounts::set_disabled(connection, account, *disabled),
        write => change(connection, numbers, write),
    }
}
