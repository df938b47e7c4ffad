//! The record in PostgreSQL, for nodes that share it. A commit is on disk when it returns (`synchronous_commit`).
//!
//! Connections are made when they are first needed and again when they break; what was under way then fails, and its
//! outcome is known to the database alone, so nothing of it was acknowledged.

mod access;
mod accounts;
mod bindings;
mod connection;
pub(crate) mod copy;
mod copy_in;
mod import;
mod migrations;
mod reader;
mod rest;
mod routes;
mod writer;
mod xmpp;
mod xmpp_read;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::config::{Config, Host, TargetSessionAttrs};

use crate::error::StoreError;
use crate::limits;
use crate::record::{Reader, Store, Writer};

use reader::PostgresReader;
use writer::PostgresWriter;

/// A PostgreSQL database and the way to it.
#[derive(Clone)]
pub struct Postgres {
    config: Config,
    /// The servers and the database, without a password.
    name: Arc<str>,
    without_user: fn(&str, &str) -> Option<String>,
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Postgres {
    /// Connects, and brings the schema up to date. `url` is a connection URL or string of libpq's form; several hosts are tried
    /// in turn, and only a server that takes writes is used.
    ///
    /// # Errors
    /// A URL that cannot be read, servers that cannot be reached, a database of another encoding or a later schema.
    pub fn open(url: &str) -> Result<Self, StoreError> {
        let mut config = Config::from_str(url).map_err(|error| {
            // The text of the error has no part of the URL, which may have a password.
            let expected = format!("postgres://user:password@host:port/database ({error})");
            StoreError::invalid("the URL of the store", expected)
        })?;
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        config.application_name("belfry");
        config.connect_timeout(limits::CONNECT_TIMEOUT);
        config.tcp_user_timeout(limits::SERVER_SILENCE);
        config.keepalives_idle(Duration::from_secs(10));
        let name = name_of(&config).into();
        let postgres = Postgres { config, name, without_user: |_, _| None };
        migrations::run(&mut postgres.connect()?)?;
        Ok(postgres)
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

    fn connect(&self) -> Result<connection::Connection, StoreError> {
        connection::Connection::open(self)
    }
}

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
