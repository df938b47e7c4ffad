//! Notices of changes: `NOTIFY` in the transaction that makes them, and the connection that hears them.
//!
//! The server gives each notice to all listeners, its sender included; the number of the sender's process tells the own ones apart.

use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use tokio_postgres::{AsyncMessage, Client, Error};

use crate::error::StoreError;
use crate::limits;
use crate::notices::{AccountChange, Notice, has_changed};
use crate::record::{Write, WriteDone};
use crate::types::{Address, Alias};

use super::Postgres;
use super::accounts;
use super::connection::{Connection, Driver, Wire, values};
use super::failure::Failure;

/// The name of the channel for all kinds of notices.
const LISTEN: &str = "LISTEN belfry";

/// The notices that a write needs once it has changed something.
pub(super) struct Pending(Vec<Notice>);

impl Pending {
    /// The notices of a write that is about to be made, as it may remove the aliases that they name. `None`: it needs none.
    pub(super) fn before(connection: &mut Connection, write: &Write) -> Result<Option<Pending>, Failure> {
        let Some(notice) = Notice::of(write) else { return Ok(None) };
        let Some(account) = Notice::account_with_aliases(write) else {
            return Ok(Some(Pending(vec![notice])));
        };
        let aliases = match accounts::aliases(connection, Some(account)) {
            // The write itself says that there is no such account.
            Err(Failure::Store(_)) => Vec::new(),
            aliases => aliases?,
        };
        if aliases.len() > limits::NOTICES_OF_ALIASES {
            return Ok(Some(Pending(vec![notice, Notice::Everything])));
        }
        let of_alias =
            |Alias { alias, .. }: Alias| Notice::Account { address: alias, change: AccountChange::Data };
        let aliases = aliases.into_iter().map(of_alias);
        Ok(Some(Pending(std::iter::once(notice).chain(aliases).collect())))
    }

    /// Only a write that has changed something is told of.
    pub(super) fn send(mut self, connection: &mut Connection, done: &WriteDone) -> Result<(), Failure> {
        if done.changes_clients() {
            self.0.push(Notice::Numbers);
        }
        if has_changed(done) { send(connection, &self.0) } else { Ok(()) }
    }
}

/// For an import, whose changes are too many to be told one by one: `changed` are the accounts that have other passwords.
pub(super) fn send_of_import(connection: &mut Connection, changed: &[Address]) -> Result<(), Failure> {
    // Caches are emptied before sessions end, so that no client comes back by the old password.
    let all: Vec<Notice> = std::iter::once(Notice::Everything).chain(Notice::of_passwords(changed)).collect();
    send(connection, &all)
}

/// Within the transaction: the server sends them with the commit.
fn send(connection: &mut Connection, notices: &[Notice]) -> Result<(), Failure> {
    let payloads: Vec<String> = notices.iter().map(Notice::payload).collect();
    let sql = "SELECT pg_backend_pid(), pg_notify('belfry', payload) FROM unnest($1::text[]) AS payload";
    if let Some(row) = connection.query_first(sql, values![payloads])? {
        // The notices come back after the commit, and the listener of this database knows then that they are its own.
        connection.postgres().notifier.store(row.try_get(0)?, Ordering::Release);
    }
    Ok(())
}

impl Postgres {
    pub(crate) fn listen(&self) -> Result<PostgresListener, StoreError> {
        Ok(PostgresListener { driver: Driver::new()?, postgres: self.clone(), open: None })
    }
}

/// A connection that hears notices, made when it is first used and again when it breaks.
pub(crate) struct PostgresListener {
    driver: Driver,
    postgres: Postgres,
    open: Option<Open>,
}

/// A connection that listens.
struct Open {
    /// The count of switches when it was made.
    switches: u32,
    client: Client,
    wire: Wire,
    /// Notices that came while something else was waited for are kept here.
    inbox: Inbox,
}

/// Messages that the server has sent unasked.
#[derive(Default)]
struct Inbox {
    /// Each with the number of the server's process that sent it.
    notices: Vec<(i32, Notice)>,
    /// The server has closed the connection.
    is_closed: bool,
}

/// The sender of a notice of ours, so to speak: no process has this number.
const NO_PROCESS: i32 = -1;
/// No writer of this database has sent a notice yet.
const NO_NOTIFIER: i32 = 0;

impl Inbox {
    /// More than the limit are replaced by one that is about everything.
    fn push(&mut self, sender: i32, notice: Notice) {
        if self.notices.len() >= limits::NOTICES_WAITING {
            self.notices.clear();
            self.notices.push((NO_PROCESS, Notice::Everything));
        }
        self.notices.push((sender, notice));
    }
}

impl PostgresListener {
    /// See `NoticeListener::wait`.
    pub(crate) fn wait(&mut self, patience: Duration) -> Result<Vec<Notice>, StoreError> {
        // A server that takes no writes any more sends no notices of changes.
        let switches = self.postgres.switches();
        self.open = self.open.take().filter(|open| open.switches == switches);
        let Some(open) = &mut self.open else {
            self.open = Some(connect(&self.driver, &self.postgres)?);
            return Ok(vec![Notice::Everything]);
        };
        let heard = self.driver.wait_within(Some(patience), open.hear());
        let checked = match heard {
            // Nothing came. A server that has gone without a word would never send anything.
            Err(Failure::Silent(_)) => {
                self.driver.wait_within(Some(limits::SERVER_SILENCE), open.ask("SELECT 1"))
            }
            heard => heard,
        };
        if checked.is_err() || open.inbox.is_closed {
            // Notices heard until now are part of everything.
            self.open = None;
            return self.wait(patience);
        }
        let own = self.postgres.notifier.load(Ordering::Acquire);
        let of_others = open.inbox.notices.drain(..).filter(|(sender, _)| *sender != own);
        Ok(of_others.map(|(_, notice)| notice).collect())
    }
}

/// Connects and listens. Changes before this are not heard of, so the caller takes everything as changed.
fn connect(driver: &Driver, postgres: &Postgres) -> Result<Open, StoreError> {
    let switches = postgres.switches();
    let (client, wire) = driver.connect(postgres)?;
    let mut open = Open { switches, client, wire, inbox: Inbox::default() };
    let listens = driver.wait_within(Some(limits::GREETING_TIME), open.ask(LISTEN));
    listens.map_err(|failure| failure.into_store(postgres.name()))?;
    // Another server may have given the number to another program.
    postgres.notifier.store(NO_NOTIFIER, Ordering::Release);
    Ok(open)
}

impl Open {
    /// Ends when notices have come, or the connection has ended.
    async fn hear(&mut self) -> Result<(), Error> {
        let Open { wire, inbox, .. } = self;
        moving(wire, inbox, Until::Heard, pending()).await
    }

    /// Sends a statement and waits for its end; notices that come meanwhile are kept.
    async fn ask(&mut self, sql: &str) -> Result<(), Error> {
        let Open { client, wire, inbox, .. } = self;
        moving(wire, inbox, Until::Done, client.batch_execute(sql)).await
    }
}

/// The event that ends a wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// A notice has come.
    Heard,
    /// The work is done.
    Done,
}

/// Moves the connection and keeps the notices that come.
async fn moving(
    wire: &mut Wire,
    inbox: &mut Inbox,
    until: Until,
    work: impl Future<Output = Result<(), Error>>,
) -> Result<(), Error> {
    let mut work = pin!(work);
    poll_fn(|context| {
        // Before, as it queues the statement, and after, as the answer may have come.
        if let Poll::Ready(done) = work.as_mut().poll(context) {
            return Poll::Ready(done);
        }
        loop {
            match wire.poll_message(context) {
                Poll::Ready(Some(Ok(AsyncMessage::Notification(message)))) => {
                    inbox.push(message.process_id(), Notice::from_payload(message.payload()));
                }
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error)),
                Poll::Ready(None) => {
                    inbox.is_closed = true;
                    break;
                }
                Poll::Pending => break,
            }
        }
        if inbox.is_closed || (until == Until::Heard && !inbox.notices.is_empty()) {
            return Poll::Ready(Ok(()));
        }
        work.as_mut().poll(context)
    })
    .await
}
