//! One connection, used on the calling thread.
//!
//! A layer over `tokio-postgres`, whose calls are asynchronous: [`Driver`] runs them on the calling thread. Statements are prepared once in each
//! connection. Several of them can be sent at once ([`Connection::pipeline`]), since each round trip to the server costs its delay. An answer that
//! does not come in time closes the connection.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use stdx::Instant;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Portal, Row, Socket, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::StoreError;
use crate::limits;
use crate::value::Value;

use super::Postgres;
use super::failure::Failure;

/// The values of a statement.
pub(super) type Values<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Borrows values as a statement takes them.
macro_rules! values {
    ($($value:expr),* $(,)?) => { &[$(&$value as &(dyn tokio_postgres::types::ToSql + Sync)),*] };
}
pub(super) use values;

/// A connection with its prepared statements. The thread that calls drives it.
pub(super) struct Connection {
    /// The runtime that moves the connection.
    driver: Driver,
    client: Client,
    /// By their text. Empty again with a new connection.
    statements: HashMap<Box<str>, Statement>,
    /// The database, for connecting again.
    postgres: Postgres,
    /// The time that a statement may take; zero: any.
    limit: Duration,
    /// The count of switches when it was made.
    switches: u32,
    /// The server takes no writes any more, and another one has not been reached yet.
    has_left: bool,
    /// Waits for an answer of the server, those of making the connection apart.
    #[cfg(test)]
    pub(super) round_trips: u32,
}

/// One of several statements that are sent together.
#[derive(Clone, Copy)]
pub(super) enum Step<'a> {
    /// Statements without values.
    Batch(&'a str),
    /// A statement whose number of changed rows counts.
    Execute(&'a str, Values<'a>),
    /// A statement whose rows count.
    Query(&'a str, Values<'a>),
}

/// The result of a [`Step`].
pub(super) enum Outcome {
    /// A batch has ended.
    Done,
    /// The number of rows that were changed.
    Changed(u64),
    /// The rows that were found.
    Rows(Vec<Row>),
}

impl Outcome {
    pub(super) fn changed(&self) -> u64 {
        if let Outcome::Changed(rows) = self { *rows } else { 0 }
    }

    pub(super) fn rows(&self) -> &[Row] {
        if let Outcome::Rows(rows) = self { rows } else { &[] }
    }
}

/// The statement at the beginning of each transaction of a life that writes. It locks the row of the life against being fenced, and fails
/// with `DIVISION_BY_ZERO` if the life is fenced, so that the server refuses the statements that were sent behind it.
pub(super) fn own_fence(life: u32) -> String {
    format!(
        "SELECT 1 / count(*) FROM (SELECT 1 FROM member WHERE life = {life} AND NOT fenced FOR SHARE) AS own"
    )
}

impl Connection {
    /// `limit` is the time that a statement may take; zero: any.
    pub(super) fn open(postgres: &Postgres, limit: Duration) -> Result<Connection, StoreError> {
        let (driver, switches) = (Driver::new()?, postgres.switches());
        let client = connect(&driver, postgres, limit)?;
        driver.set_patience(postgres.patience);
        Ok(Connection {
            driver,
            client,
            statements: HashMap::new(),
            postgres: postgres.clone(),
            limit,
            switches,
            has_left: false,
            #[cfg(test)]
            round_trips: 0,
        })
    }

    /// Connects again if the connection broke, or writers have gone to another server. True: the connection is a new one.
    pub(super) fn ensure(&mut self) -> Result<bool, StoreError> {
        let switches = self.postgres.switches();
        let is_new = self.client.is_closed() || self.switches != switches;
        if is_new {
            self.statements.clear();
            self.driver.abandon();
            self.client = connect(&self.driver, &self.postgres, self.limit)?;
            self.switches =
                if std::mem::take(&mut self.has_left) { self.postgres.switch() } else { switches };
        }
        Ok(is_new)
    }

    /// Leaves a server that takes no writes for one of the URL that does, and the other connections follow.
    pub(super) fn switch(&mut self) -> Result<(), StoreError> {
        self.has_left = true;
        self.driver.abandon();
        self.ensure().map(drop)
    }

    /// Does what `ensure` does, and notices that the server has closed the connection since it was last used: for what may not be sent twice.
    pub(super) fn ensure_alive(&mut self) -> Result<(), StoreError> {
        // The runtime looks at the socket, then drives the connection, which finds its end.
        self.driver.block_on(async {
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
        });
        self.ensure().map(drop)
    }

    /// The error of a life that may write nothing any more.
    pub(super) fn fenced(&self) -> StoreError {
        StoreError::Fenced { server: self.name().into() }
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

    /// Begins a transaction of a writer, which performs these steps and is committed if `commits`. All of it is sent at once. Without
    /// `commits` the caller ends the transaction, also after an error. The outcomes of the steps.
    ///
    /// # Errors
    /// `Fenced` if the life of the connection is fenced; nothing is written then.
    pub(super) fn begin(&mut self, steps: &[Step<'_>], commits: bool) -> Result<Vec<Outcome>, Failure> {
        let fence = self.postgres.life.map(own_fence);
        let mut all = Vec::with_capacity(steps.len() + 3);
        all.push(Step::Batch("BEGIN"));
        all.extend(fence.as_deref().map(|fence| Step::Query(fence, &[])));
        let first = all.len();
        all.extend_from_slice(steps);
        if commits {
            all.push(Step::Batch("COMMIT"));
        }
        let outcomes = self.pipeline(&all)?;
        Ok(outcomes.into_iter().skip(first).take(steps.len()).collect())
    }

    /// Sends all statements at once and waits for the answers. The first one begins a transaction, of which the last may be the end:
    /// the server refuses the statements behind one that fails, and that one's error is returned.
    ///
    /// # Errors
    /// `Fenced` if an [`own_fence`] is among the statements and says so.
    pub(super) fn pipeline(&mut self, steps: &[Step<'_>]) -> Result<Vec<Outcome>, Failure> {
        let statements = steps
            .iter()
            .map(|step| match step {
                Step::Batch(_) => Ok(None),
                Step::Execute(sql, _) | Step::Query(sql, _) => self.statement(sql).map(Some),
            })
            .collect::<Result<Vec<_>, _>>()?;
        self.count();
        let client = &self.client;
        let mut answers: Vec<Answer<'_>> = steps
            .iter()
            .zip(&statements)
            .map(|(step, statement)| Answer::Waiting(Box::pin(perform(client, *step, statement.as_ref()))))
            .collect();
        self.driver.wait(async {
            all(&mut answers).await;
            Ok(())
        })?;
        let mut outcomes = Vec::with_capacity(steps.len());
        for answer in answers {
            match answer {
                Answer::Came(Ok(outcome)) => outcomes.push(outcome),
                Answer::Came(Err(error)) if error.code() == Some(&SqlState::DIVISION_BY_ZERO) => {
                    return Err(self.fenced().into());
                }
                Answer::Came(Err(error)) => return Err(error.into()),
                Answer::Waiting(_) => unreachable!("all answers were waited for"),
            }
        }
        Ok(outcomes)
    }

    /// Counts the round trips for tests.
    fn count(&mut self) {
        #[cfg(test)]
        {
            self.round_trips += 1;
        }
    }

    /// Several statements without values, or the bounds of a transaction.
    pub(super) fn batch(&mut self, sql: &str) -> Result<(), Failure> {
        self.count();
        self.driver.wait(self.client.batch_execute(sql))
    }

    /// Ends a transaction for good.
    ///
    /// # Errors
    /// If a statement of the transaction has failed. The server then answers a COMMIT with ROLLBACK, which is no error; it refuses the statement
    /// before.
    pub(super) fn commit(&mut self) -> Result<(), Failure> {
        self.batch("SELECT 1; COMMIT")
    }

    /// The number of rows that were changed.
    pub(super) fn execute(&mut self, sql: &str, values: Values<'_>) -> Result<u64, Failure> {
        let statement = self.statement(sql)?;
        self.count();
        self.driver.wait(self.client.execute(&statement, values))
    }

    pub(super) fn query(&mut self, sql: &str, values: Values<'_>) -> Result<Vec<Row>, Failure> {
        let statement = self.statement(sql)?;
        self.count();
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

    /// Pages through a portal within one transaction, which shows the rows of one moment.
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

    /// Writes rows by a statement `COPY … FROM STDIN BINARY`, some kilobytes in memory at a time. `types` are those of its
    /// columns. Returns how many were written.
    pub(super) fn copy_in<'v, R: AsRef<[Value<'v>]> + Send>(
        &mut self,
        sql: &str,
        types: &[Type],
        rows: impl Iterator<Item = R> + Send,
    ) -> Result<u64, Failure> {
        let statement = self.statement(sql)?;
        let copied = async {
            let writer = BinaryCopyInWriter::new(self.client.copy_in(&statement).await?, types);
            let mut writer = pin!(writer);
            for row in rows {
                writer.as_mut().write_raw(row.as_ref()).await?;
            }
            writer.finish().await
        };
        self.driver.wait(copied)
    }

    /// The types of a statement's columns.
    pub(super) fn types(&mut self, sql: &str) -> Result<Vec<Type>, Failure> {
        let statement = self.statement(sql)?;
        Ok(statement.columns().iter().map(|column| column.type_().clone()).collect())
    }

    /// The prepared statement; the first use in a connection prepares it.
    fn statement(&mut self, sql: &str) -> Result<Statement, Failure> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        self.count();
        let statement = self.driver.wait(self.client.prepare(sql))?;
        self.statements.insert(sql.into(), statement.clone());
        Ok(statement)
    }
}

/// A statement that was sent with others, and its answer when it has come.
enum Answer<'a> {
    /// Sent, or about to be sent.
    Waiting(Pin<Box<dyn Future<Output = Result<Outcome, tokio_postgres::Error>> + Send + 'a>>),
    /// The answer is here.
    Came(Result<Outcome, tokio_postgres::Error>),
}

/// Sends one step.
async fn perform(
    client: &Client,
    step: Step<'_>,
    statement: Option<&Statement>,
) -> Result<Outcome, tokio_postgres::Error> {
    match (step, statement) {
        (Step::Batch(sql), _) => client.batch_execute(sql).await.map(|()| Outcome::Done),
        (Step::Execute(_, values), Some(statement)) => {
            client.execute(statement, values).await.map(Outcome::Changed)
        }
        (Step::Query(_, values), Some(statement)) => client.query(statement, values).await.map(Outcome::Rows),
        (Step::Execute(sql, values), None) => client.execute(sql, values).await.map(Outcome::Changed),
        (Step::Query(sql, values), None) => client.query(sql, values).await.map(Outcome::Rows),
    }
}

/// Waits for all. A statement is sent when its future is first polled, so they are sent in order.
async fn all(answers: &mut [Answer<'_>]) {
    poll_fn(|context| {
        let mut is_waiting = false;
        for answer in &mut *answers {
            if let Answer::Waiting(future) = answer {
                match future.as_mut().poll(context) {
                    Poll::Ready(result) => *answer = Answer::Came(result),
                    Poll::Pending => is_waiting = true,
                }
            }
        }
        if is_waiting { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
}

/// The connection to a server as the library has it: it moves only while it is polled.
pub(super) type Wire =
    tokio_postgres::Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

/// Connects, and sets what every session of ours needs.
fn connect(driver: &Driver, postgres: &Postgres, limit: Duration) -> Result<Client, StoreError> {
    let (client, wire) = driver.connect(postgres)?;
    // Its end is seen by the client.
    driver.spawn(ignoring(wire));
    // Whatever the server's defaults are, an acknowledged write survives. The server gives up first, so that nothing waits
    // there for a program that has gone away.
    let lock = postgres.patience.map_or(0, |patience| (patience * 4 / 5).as_millis());
    let idle = if postgres.life.is_some() { limits::FENCED_IDLE } else { limits::TRANSACTION_IDLE };
    let settings = format!(
        "SET synchronous_commit = on; SET TIME ZONE 'UTC'; SET lock_timeout = {lock}; \
         SET idle_in_transaction_session_timeout = {}; SET statement_timeout = {}",
        idle.as_millis(),
        limit.as_millis(),
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
            match self.wait_within(Some(limits::GREETING_TIME), server.connect(postgres.tls.clone())) {
                Ok(connected) => return Ok(connected),
                Err(failure) => failed = Some(failure.into_store(postgres.name())),
            }
        }
        Err(failed.unwrap_or_else(|| StoreError::invalid("the URL of the store", "one with a host")))
    }

    /// Waits with the patience of the connection. After silence the connection is closed.
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

    /// Waits at most so long.
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

    /// Starts the task that moves the connection; it runs while a call drives the runtime.
    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        *self.task.borrow_mut() = Some(self.runtime().spawn(work));
    }

    /// On this thread, or on a second one if this one drives a runtime already.
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

// Accounts, domains and routes have their times in seconds, everything else in microseconds.
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
