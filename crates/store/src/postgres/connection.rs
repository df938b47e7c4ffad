//! One connection, used on the calling thread.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::Future;
use std::time::Duration;

use stdx::Instant;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Portal, Row, Socket, Statement};

use crate::error::StoreError;
use crate::limits;

use super::Postgres;

/// The values of a statement.
pub(super) type Values<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Borrows values as a statement takes them.
macro_rules! values {
    ($($value:expr),* $(,)?) => { &[$(&$value as &(dyn tokio_postgres::types::ToSql + Sync)),*] };
}
pub(super) use values;

/// A connection with its prepared statements. The thread that calls drives it.
pub(super) struct Connection {
    driver: Driver,
    client: Client,
    statements: HashMap<Box<str>, Statement>,
    postgres: Postgres,
}

/// An error of a statement: the database's, or one of ours about the item.
#[derive(Debug)]
pub(super) enum Failure {
    Postgres(tokio_postgres::Error),
    Store(StoreError),
    /// The server has not answered for so long. The connection is closed.
    Silent(Duration),
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Failure::Postgres(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Failure::Store(error)
    }
}

impl Failure {
    /// True if the value of one write is at fault: a group is done again, each of its writes apart from the others.
    pub(super) fn is_of_value(&self) -> bool {
        // SQLSTATE classes 22, data exception, and 23, integrity constraint violation.
        matches!(self, Failure::Postgres(error)
            if error.code().is_some_and(|code| code.code().starts_with("22") || code.code().starts_with("23")))
    }

    /// True if the same transaction may succeed when it is tried again: class 40, transaction rollback.
    pub(super) fn is_of_moment(&self) -> bool {
        matches!(self, Failure::Postgres(error) if error.code().is_some_and(|code| code.code().starts_with("40")))
    }

    /// True if the connection is no more. The server may have closed it long ago: that is noticed when it is used.
    pub(super) fn is_of_connection(&self) -> bool {
        match self {
            // SQLSTATE 57P01 to 57P03: the server ends, or ends this connection.
            Failure::Postgres(error) => {
                is_of_connection(error) || error.code().is_some_and(|code| code.code().starts_with("57P"))
            }
            // What took too long once is not tried again at once.
            Failure::Store(_) | Failure::Silent(_) => false,
        }
    }

    /// Names the item where the database only says that a rule of uniqueness was broken.
    pub(super) fn or_exists(self, what: impl FnOnce() -> String) -> Self {
        match &self {
            Failure::Postgres(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => {
                Failure::Store(StoreError::exists(what()))
            }
            _ => self,
        }
    }

    pub(super) fn into_store(self, name: &str) -> StoreError {
        match self {
            Failure::Postgres(error) => from_postgres(&error, name),
            Failure::Store(error) => error,
            Failure::Silent(patience) => {
                StoreError::Unreachable { server: name.into(), detail: format!("no answer for {patience:?}") }
            }
        }
    }
}

/// True if the connection could not be made or is no more.
fn is_of_connection(error: &tokio_postgres::Error) -> bool {
    let is_io = |source: &(dyn std::error::Error + 'static)| source.is::<std::io::Error>();
    error.is_closed() || std::error::Error::source(error).is_some_and(is_io)
}

fn from_postgres(error: &tokio_postgres::Error, name: &str) -> StoreError {
    let unreachable = |detail: String| StoreError::Unreachable { server: name.into(), detail };
    let Some(fault) = error.as_db_error() else {
        if !is_of_connection(error) {
            return StoreError::Internal { detail: error.to_string() };
        }
        let cause = std::error::Error::source(error).map(ToString::to_string);
        return unreachable(cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}")));
    };
    let detail = format!("{} ({})", fault.message(), fault.code().code());
    let code = fault.code();
    if *code == SqlState::DISK_FULL {
        return StoreError::Full { path: name.into() };
    }
    if *code == SqlState::QUERY_CANCELED {
        return StoreError::invalid("a read", "one that visits fewer rows of the database");
    }
    match &code.code()[..2] {
        "22" | "23" => StoreError::invalid("a value", format!("one that the database takes: {detail}")),
        // Connection exception, invalid authorization, no such database, insufficient resources, a lock that is held
        // too long, operator intervention, system error; and a server that takes no writes.
        "08" | "28" | "3D" | "53" | "55" | "57" | "58" | "25" | "40" => unreachable(detail),
        // Data or an index that is damaged. The rest of the class is anything that the server did not expect, of its disk for
        // example.
        "XX" if matches!(code.code(), "XX001" | "XX002") => StoreError::Corrupt { path: name.into(), detail },
        "XX" => unreachable(detail),
        _ => StoreError::Internal { detail },
    }
}

impl Connection {
    pub(super) fn open(postgres: &Postgres) -> Result<Connection, StoreError> {
        let driver = Driver::new()?;
        let client = connect(&driver, postgres)?;
        driver.set_patience(postgres.patience);
        Ok(Connection { driver, client, statements: HashMap::new(), postgres: postgres.clone() })
    }

    /// Connects again if the connection broke. True: the connection is a new one.
    pub(super) fn ensure(&mut self) -> Result<bool, StoreError> {
        let is_new = self.client.is_closed();
        if is_new {
            self.statements.clear();
            self.client = connect(&self.driver, &self.postgres)?;
        }
        Ok(is_new)
    }

    /// The next statements may take so long, unless there is no limit at all.
    pub(super) fn set_patience(&mut self, patience: Duration) {
        self.driver.set_patience(self.postgres.patience.map(|_| patience));
    }

    pub(super) fn postgres(&self) -> &Postgres {
        &self.postgres
    }

    pub(super) fn name(&self) -> &str {
        self.postgres.name()
    }

    pub(super) fn without_user(&self) -> fn(&str, &str) -> Option<String> {
        self.postgres.without_user
    }

    /// Several statements without values, or the bounds of a transaction.
    pub(super) fn batch(&mut self, sql: &str) -> Result<(), Failure> {
        self.driver.wait(self.client.batch_execute(sql))
    }

    /// The number of rows that were changed.
    pub(super) fn execute(&mut self, sql: &str, values: Values<'_>) -> Result<u64, Failure> {
        let statement = self.statement(sql)?;
        self.driver.wait(self.client.execute(&statement, values))
    }

    pub(super) fn query(&mut self, sql: &str, values: Values<'_>) -> Result<Vec<Row>, Failure> {
        let statement = self.statement(sql)?;
        self.driver.wait(self.client.query(&statement, values))
    }

    /// The first row, if there is one.
    pub(super) fn query_first(&mut self, sql: &str, values: Values<'_>) -> Result<Option<Row>, Failure> {
        Ok(self.query(sql, values)?.into_iter().next())
    }

    /// True if the statement finds a row.
    pub(super) fn exists(&mut self, sql: &str, values: Values<'_>) -> Result<bool, Failure> {
        Ok(!self.query(sql, values)?.is_empty())
    }

    /// The one number that a statement selects.
    pub(super) fn number(&mut self, sql: &str, values: Values<'_>) -> Result<i64, Failure> {
        let row = self.query_first(sql, values)?;
        let missing = || StoreError::Internal { detail: format!("no row: {sql}") };
        Ok(row.ok_or_else(missing)?.try_get(0)?)
    }

    /// Visits all rows of a statement, some thousand in memory at a time.
    pub(super) fn visit(
        &mut self,
        sql: &str,
        visit: &mut dyn FnMut(&Row) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        const ROWS: i32 = 4_096;
        // A transaction borrows the client, so its connection could not be given up: a start waits for its rows.
        self.driver.set_patience(None);
        let visited = self.visit_all(sql, ROWS, visit);
        self.driver.set_patience(self.postgres.patience);
        visited
    }

    fn visit_all(
        &mut self,
        sql: &str,
        page: i32,
        visit: &mut dyn FnMut(&Row) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        let transaction = self.driver.wait(self.client.transaction())?;
        let portal: Portal = self.driver.wait(transaction.bind(sql, &[]))?;
        let mut count = 0;
        loop {
            let rows = self.driver.wait(transaction.query_portal(&portal, page))?;
            if rows.is_empty() {
                break;
            }
            for row in &rows {
                visit(row)?;
            }
            count += rows.len() as u64;
        }
        self.driver.wait(transaction.rollback())?;
        Ok(count)
    }

    fn statement(&mut self, sql: &str) -> Result<Statement, Failure> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.driver.wait(self.client.prepare(sql))?;
        self.statements.insert(sql.into(), statement.clone());
        Ok(statement)
    }
}

/// The connection to a server as the library has it: it moves only while it is polled.
pub(super) type Wire = tokio_postgres::Connection<Socket, tokio_postgres::tls::NoTlsStream>;

fn connect(driver: &Driver, postgres: &Postgres) -> Result<Client, StoreError> {
    let (client, wire) = driver.connect(postgres)?;
    // Its end is seen by the client.
    driver.spawn(ignoring(wire));
    // Whatever the server's defaults are, an acknowledged write survives. The server gives up first, so that nothing waits
    // there for a program that has gone away.
    let lock = postgres.patience.map_or(0, |patience| (patience * 4 / 5).as_millis());
    let settings = format!(
        "SET synchronous_commit = on; SET TIME ZONE 'UTC'; SET idle_in_transaction_session_timeout = '10s'; \
         SET lock_timeout = {lock}"
    );
    let set = driver.wait_within(Some(limits::GREETING_TIME), client.batch_execute(&settings));
    set.map_err(|failure| failure.into_store(postgres.name()))?;
    Ok(client)
}

/// The runtime of a connection, which the calling thread drives. A thread that drives a runtime of its own, as that of an
/// operator's requests does, may neither block on another nor end one: a second thread waits for it then.
pub(super) struct Driver {
    runtime: Option<Runtime>,
    /// The task that moves the connection.
    task: RefCell<Option<JoinHandle<()>>>,
    /// The time that an answer may take; `None`: any time.
    patience: Cell<Option<Duration>>,
}

impl Driver {
    pub(super) fn new() -> Result<Driver, StoreError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| StoreError::Internal { detail: error.to_string() })?;
        Ok(Driver { runtime: Some(runtime), task: RefCell::default(), patience: Cell::default() })
    }

    fn set_patience(&self, patience: Option<Duration>) {
        self.patience.set(patience);
    }

    /// Connects to the first server that answers and takes writes.
    pub(super) fn connect(&self, postgres: &Postgres) -> Result<(Client, Wire), StoreError> {
        let mut failed = None;
        for server in &*postgres.servers {
            // The library's own limit is one for the socket: a server that is stopped accepts it and says nothing.
            match self.wait_within(Some(limits::GREETING_TIME), server.connect(NoTls)) {
                Ok(connected) => return Ok(connected),
                Err(failure) => failed = Some(failure.into_store(postgres.name())),
            }
        }
        Err(failed.unwrap_or_else(|| StoreError::invalid("the URL of the store", "one with a host")))
    }

    pub(super) fn wait<T: Send>(
        &self,
        work: impl Future<Output = Result<T, tokio_postgres::Error>> + Send,
    ) -> Result<T, Failure> {
        let done = self.wait_within(self.patience.get(), work);
        if matches!(done, Err(Failure::Silent(_))) {
            self.abandon();
        }
        done
    }

    pub(super) fn wait_within<T: Send>(
        &self,
        patience: Option<Duration>,
        work: impl Future<Output = Result<T, tokio_postgres::Error>> + Send,
    ) -> Result<T, Failure> {
        let limited = async move {
            match patience {
                None => Ok(work.await?),
                Some(patience) => match timeout(patience, work).await {
                    Ok(done) => Ok(done?),
                    Err(_) => Err(Failure::Silent(patience)),
                },
            }
        };
        self.block_on(limited)
    }

    /// Closes the connection: an answer that comes late would be taken for the next one's.
    fn abandon(&self) {
        if let Some(task) = self.task.take() {
            task.abort();
            // Its end closes the socket, and the client with it.
            let _ = self.block_on(task);
        }
    }

    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        *self.task.borrow_mut() = Some(self.runtime().spawn(work));
    }

    fn block_on<T: Send>(&self, work: impl Future<Output = T> + Send) -> T {
        let runtime = self.runtime();
        if Handle::try_current().is_err() {
            return runtime.block_on(work);
        }
        let done = std::thread::scope(|scope| scope.spawn(|| runtime.block_on(work)).join());
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it is taken when it is dropped")
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn ignoring(connection: Wire) {
    let _ = connection.await;
}

/// Text as PostgreSQL takes it: every character but NUL, in whose place the one for what cannot be shown stands.
pub(super) fn text(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text.into() }
}

/// PostgreSQL's integers are signed; times and ids fit far beyond any date we meet.
pub(super) fn micros(at: Instant) -> i64 {
    i64::try_from(at.as_micros()).unwrap_or(i64::MAX)
}

pub(super) fn seconds(at: Instant) -> i64 {
    i64::try_from(at.unix_seconds()).unwrap_or(i64::MAX)
}

pub(super) fn from_micros(value: i64) -> Instant {
    Instant::from_micros(u64::try_from(value).unwrap_or(0))
}

pub(super) fn from_seconds(value: i64) -> Instant {
    Instant::from_unix_seconds(u64::try_from(value).unwrap_or(0))
}

/// A number that the database keeps as bigint.
pub(super) fn narrow<T: TryFrom<i64> + Default>(value: i64) -> T {
    T::try_from(value).unwrap_or_default()
}
