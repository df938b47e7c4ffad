//! The record in PostgreSQL, for nodes that share it. A commit is on disk when it returns (`synchronous_commit`).
//!
//! A node has one writer, several readers, a listener for notices and, in a farm, a connection for the hold on buckets. Each finds out by itself that
//! its server is gone. The other modules are the statements, by kind of row; those of SQLite are in `sqlite` under the same names.
//!
//! Connections are made when they are first needed and again when they break; what was under way then fails, and its
//! outcome is known to the database alone, so nothing of it was acknowledged.

mod access;
mod accounts;
mod bindings;
mod call_table;
mod connection;
pub(crate) mod copy;
mod copy_in;
mod failure;
mod frequent;
mod import;
mod migrations;
mod notices;
mod ownership;
mod reader;
mod rest;
#[cfg(test)]
mod round_trips;
mod routes;
mod tls;
mod writer;
mod xmpp;
mod xmpp_read;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::time::Duration;

use tokio_postgres::config::{Config, Host, TargetSessionAttrs};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::database::LaterSchema;
use crate::error::StoreError;
use crate::limits;
use crate::ownership::Ownership;
use crate::record::{Reader, Store, Writer};

pub use call_table::{CallRow, CallTable, CallTableFault};
pub(crate) use notices::PostgresListener;
use ownership::PostgresOwnership;
use reader::PostgresReader;
use writer::PostgresWriter;

/// A PostgreSQL database and the way to it.
#[derive(Clone)]
pub struct Postgres {
    /// The way to each server of the URL, in its order.
    servers: Arc<[Config]>,
    /// The servers and the database, without a password.
    name: Arc<str>,
    tls: MakeRustlsConnect,
    /// The time that an answer of the server may take; `None`: any time.
    patience: Option<Duration>,
    /// The number of the server's process that sent the last notice of a writer of ours.
    notifier: Arc<AtomicI32>,
    /// See `Options::without_user` of SQLite.
    without_user: fn(&str, &str) -> Option<String>,
    /// The life whose fence stops the writers.
    life: Option<u32>,
    /// Counts the times that a writer has left a server that takes no writes. Connections of another count are made again, so that nothing
    /// is read from a server that another one has replaced.
    switches: Arc<AtomicU32>,
    /// The schema is of a later version.
    later_schema: Option<LaterSchema>,
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Postgres {
    /// Connects, and brings the schema up to date. `url` is a connection URL or string of libpq's form; several hosts are tried
    /// in turn, and only a server that takes writes is used. `sslmode` and `sslrootcert` are as libpq has them, but without
    /// `sslrootcert` the system's authorities vouch for a server.
    ///
    /// # Errors
    /// A URL that cannot be read, servers that cannot be reached, a database of another encoding or a later schema.
    pub fn open(url: &str) -> Result<Self, StoreError> {
        let mut postgres = Postgres::of_url(url)?;
        // A change of the schema takes its time, and another node's is waited for.
        postgres.later_schema = migrations::run(&mut postgres.connect()?)?;
        Ok(postgres.with_patience(Some(limits::ANSWER_TIME)))
    }

    /// Connects as [`open`](Postgres::open) does, changes nothing, and returns [`name`](Postgres::name).
    ///
    /// # Errors
    /// A URL that cannot be read, servers that cannot be reached.
    pub fn reach(url: &str) -> Result<String, StoreError> {
        let postgres = Postgres::of_url(url)?.with_patience(Some(limits::ANSWER_TIME));
        postgres.connect()?;
        Ok(postgres.name().to_owned())
    }

    /// Without a connection. `sslmode` and `sslrootcert` are taken out of the URL first.
    fn of_url(url: &str) -> Result<Self, StoreError> {
        let (url, tls) = tls::Parameters::take(url);
        let mut config = Config::from_str(&url).map_err(|error| {
            // The text of the error has no part of the URL, which may have a password.
            let expected = format!("postgres://user:password@host:port/database ({error})");
            StoreError::invalid("the URL of the store", expected)
        })?;
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        config.application_name(SESSION_NAME);
        config.connect_timeout(limits::CONNECT_TIMEOUT);
        config.tcp_user_timeout(limits::SERVER_SILENCE);
        config.keepalives_idle(Duration::from_secs(10));
        let tls = tls.connector(&mut config)?;
        let name = name_of(&config).into();
        Ok(Postgres {
            servers: servers(&config),
            name,
            tls,
            patience: None,
            notifier: Arc::default(),
            without_user: |_, _| None,
            life: None,
            switches: Arc::default(),
            later_schema: None,
        })
    }

    /// The schema of a later version that this program uses as it is.
    pub fn later_schema(&self) -> Option<LaterSchema> {
        self.later_schema
    }

    /// The same database, whose server may take so long for an answer. `None`: any time.
    #[must_use]
    pub fn with_patience(self, patience: Option<Duration>) -> Self {
        Postgres { patience, ..self }
    }

    /// Sets the function that makes the configuration of a room or node without what an account is in it, for accounts that are
    /// removed; the store looks into no XML.
    #[must_use]
    pub fn with_without_user(self, without_user: fn(&str, &str) -> Option<String>) -> Self {
        Postgres { without_user, ..self }
    }

    /// The servers and the database, without a password.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same database, whose writers write as long as this life of a node is not fenced.
    #[must_use]
    pub fn fenced_by(&self, life: u32) -> Self {
        Postgres { life: Some(life), ..self.with_session_name(&session_name(life.into())) }
    }

    /// The same database, whose server knows our sessions by this name.
    fn with_session_name(&self, name: &str) -> Self {
        let named = |server: &Config| server.clone().application_name(name).clone();
        Postgres { servers: self.servers.iter().map(named).collect(), ..self.clone() }
    }

    /// The hold of a life on the buckets of addresses.
    ///
    /// # Errors
    /// The errors of the connection.
    pub fn ownership(&self, life: u32) -> Result<Box<dyn Ownership>, StoreError> {
        let postgres = self.fenced_by(life).with_patience(Some(limits::OWNERSHIP_ANSWER_TIME));
        Ok(Box::new(PostgresOwnership::new(&postgres, life)?))
    }

    /// The count of switches now.
    fn switches(&self) -> u32 {
        self.switches.load(Ordering::Acquire)
    }

    /// All connections are to be made again, each when it is used next. Returns the new count.
    fn switch(&self) -> u32 {
        self.switches.fetch_add(1, Ordering::AcqRel).wrapping_add(1)
    }

    /// A connection whose statements may take any time.
    fn connect(&self) -> Result<connection::Connection, StoreError> {
        connection::Connection::open(self, Duration::ZERO)
    }
}

/// The name of a session of no life.
const SESSION_NAME: &str = "belfry";

/// The name of the sessions of a life. They are ended by it when the life is fenced.
fn session_name(life: i64) -> String {
    session_name_of(&life.to_string())
}

/// `life` may be empty: the beginning of all such names.
fn session_name_of(life: &str) -> String {
    format!("{SESSION_NAME}.{life}")
}

/// A configuration for each server, so that each has its time to answer: one that has stopped must not keep us from the next.
fn servers(config: &Config) -> Arc<[Config]> {
    let (hosts, addresses, ports) = (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
    let count = hosts.len().max(addresses.len());
    if count < 2 {
        return [config.clone()].into();
    }
    let server = |number: usize| {
        let mut one = Config::new();
        match hosts.get(number) {
            Some(Host::Tcp(name)) => drop(one.host(name)),
            Some(Host::Unix(path)) => drop(one.host_path(path)),
            None => {}
        }
        if let Some(address) = addresses.get(number) {
            one.hostaddr(*address);
        }
        if let Some(port) = ports.get(number).or(ports.first()) {
            one.port(*port);
        }
        if let Some(user) = config.get_user() {
            one.user(user);
        }
        if let Some(password) = config.get_password() {
            one.password(password);
        }
        if let Some(database) = config.get_dbname() {
            one.dbname(database);
        }
        if let Some(options) = config.get_options() {
            one.options(options);
        }
        if let Some(name) = config.get_application_name() {
            one.application_name(name);
        }
        if let Some(limit) = config.get_connect_timeout() {
            one.connect_timeout(*limit);
        }
        if let Some(limit) = config.get_tcp_user_timeout() {
            one.tcp_user_timeout(*limit);
        }
        one.ssl_mode(config.get_ssl_mode()).channel_binding(config.get_channel_binding());
        one.target_session_attrs(config.get_target_session_attrs());
        one.keepalives(config.get_keepalives()).keepalives_idle(config.get_keepalives_idle());
        one
    };
    (0..count).map(server).collect()
}

/// The hosts and the database, for messages.
fn name_of(config: &Config) -> String {
    let host = |host: &Host| match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    };
    let hosts: Vec<String> = config.get_hosts().iter().map(host).collect();
    format!("postgres://{}/{}", hosts.join(","), config.get_dbname().unwrap_or_default())
}

impl Store for Postgres {
    fn reader(&self) -> Result<Box<dyn Reader>, StoreError> {
        Ok(Box::new(PostgresReader::new(self)?))
    }

    fn writer(&self) -> Result<Box<dyn Writer>, StoreError> {
        Ok(Box::new(PostgresWriter::new(self)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_servers_and_no_password() {
        let config = Config::from_str("postgres://belfry:hush@one:5433,two/calls").unwrap();
        assert_eq!(name_of(&config), "postgres://one,two/calls");
    }

    #[test]
    fn a_url_that_cannot_be_read_is_told_without_its_password() {
        let error = Postgres::open("postgres://belfry:hush@one:x/calls").unwrap_err().to_string();
        assert!(error.contains("the URL of the store") && !error.contains("hush"), "{error}");
    }
}
