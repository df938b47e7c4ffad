//! `belfry store`: the database as a whole.
//!
//! `copy` reads and writes databases by their names and asks neither the configuration nor a node: the node that uses one of them must have ended.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use net::clock::Clock;
use store::copy::copy;
use store::{BindingOwner, CopiedTable, CopyEnd, CopyOptions, CopyProgress};

use super::error::CliError;
use super::owner::give_to_owner_of_folder;
use super::stop::Stop;
use super::table::{Table, elapsed, grouped};

#[derive(Debug, Subcommand)]
pub(super) enum StoreCommand {
    /// Copy all of a database that no node uses into a new one: from the file to PostgreSQL, or back
    Copy(CopyArgs),
}

/// An end of the copy is sqlite:PATH, or a URL of PostgreSQL.
#[derive(Debug, Args)]
pub(super) struct CopyArgs {
    /// The database to read: sqlite:PATH, or postgres://user:password@host/database
    #[arg(long, value_name = "DATABASE")]
    from: String,
    /// The database to make: a file that is not there yet, or an empty database of PostgreSQL
    #[arg(long, value_name = "DATABASE")]
    to: String,
    /// One JSON object: the rows of each table
    #[arg(long)]
    json: bool,
}

impl StoreCommand {
    pub(super) fn run(self) -> Result<(), CliError> {
        match self {
            StoreCommand::Copy(args) => args.run(),
        }
    }
}

impl CopyArgs {
    fn run(self) -> Result<(), CliError> {
        let (from, to) = (end("--from", &self.from)?, end("--to", &self.to)?);
        let clock = Clock::new();
        // One flag for both directions: Ctrl-C sets it, and the copy looks at it between batches.
        let flag = Arc::default();
        let stop = Stop::on_interrupt(Arc::clone(&flag))?;
        let options = CopyOptions { binding_owner, stop: flag };
        let started = clock.now();
        // Progress is told once a second, on standard error.
        let mut told = started;
        let copied = copy(&from, &to, &options, &mut |progress| {
            let now = clock.now();
            if now.since(told) >= Duration::from_secs(1) {
                told = now;
                eprintln!("{}", line(progress, now.since(started)));
            }
        })?;
        // The target is written in one transaction, or under another name until it is whole; so nothing has to
        // be cleaned up here.
        let Some(tables) = copied else {
            debug_assert!(stop.is_interrupted(), "nothing else stops a copy");
            return Err(CliError::Other(
                "interrupted; nothing was written; the same command begins anew".into(),
            ));
        };
        if let CopyEnd::Sqlite(file) = &to {
            give_to_owner_of_folder(file)?;
        }
        self.report(&tables, clock.now().since(started))
    }

    fn report(&self, tables: &[CopiedTable], took: Duration) -> Result<(), CliError> {
        if self.json {
            let rows = tables.iter().map(|table| (table.name.to_owned(), table.rows.into()));
            say!("{}", serde_json::Value::Object(rows.collect()));
            return Ok(());
        }
        let mut printed = Table::new(&["table", "rows"], &[1]);
        for table in tables {
            printed.row([table.name.to_owned(), grouped(table.rows)]);
        }
        printed.print(&mut std::io::stdout().lock())?;
        let rows: u64 = tables.iter().map(|table| table.rows).sum();
        say!("copied: {} rows in {:.1} s; both databases have as many", grouped(rows), took.as_secs_f64());
        Ok(())
    }
}

/// The database that an option names.
fn end(option: &str, text: &str) -> Result<CopyEnd, CliError> {
    if let Some(path) = text.strip_prefix("sqlite:").filter(|path| !path.is_empty()) {
        return Ok(CopyEnd::Sqlite(PathBuf::from(path)));
    }
    // Any form that the driver takes, a connection string among them.
    if config::is_postgres(text) {
        return Ok(CopyEnd::Postgres(text.into()));
    }
    // The text may have a password.
    let expected = "sqlite:PATH or postgres://user:password@host/database";
    Err(CliError::Usage(format!("{option}: not the name of a database; expected {expected}")))
}

/// The account that a record of bindings belongs to. The store keeps such records as bytes; their format is the router's.
pub(super) fn binding_owner(record: &[u8]) -> Option<BindingOwner> {
    let (aor, bindings) = router::decode_record(record).ok()?;
    Some(BindingOwner { aor, is_empty: bindings.is_empty() })
}

/// Progress in words.
/// The time left is an estimate from the rate so far.
pub(super) fn line(progress: CopyProgress, took: Duration) -> String {
    let CopyProgress { table, rows, total } = progress;
    let done = rows as f64 / total.max(1) as f64;
    let rate = rows as f64 / took.as_secs_f64().max(0.001);
    // At the very beginning the rate is not known: the floor keeps the estimate a number.
    let left = took.as_secs_f64() * (1.0 / done.max(0.001) - 1.0);
    format!(
        "{table}: {} rows in all, {rate:.0}/s, {:.0} %, {} left",
        grouped(rows),
        done * 100.0,
        elapsed(left.max(0.0) as u64)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_a_file_or_a_url_and_its_password_is_not_repeated() {
        assert_eq!(end("--from", "sqlite:a/b.db").unwrap(), CopyEnd::Sqlite("a/b.db".into()));
        let url = "postgres://belfry:hush@one/calls";
        assert_eq!(end("--to", url).unwrap(), CopyEnd::Postgres(url.into()));
        assert!(matches!(end("--to", "host=/run/postgresql dbname=calls"), Ok(CopyEnd::Postgres(_))));
        for wrong in ["", "sqlite:", "belfry.db", "mysql://belfry:hush@one/calls"] {
            let error = end("--to", wrong).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{wrong}");
            let text = error.to_string();
            assert!(text.starts_with("--to: ") && !text.contains("hush"), "{text}");
        }
    }
}
