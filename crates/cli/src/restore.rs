//! `belfry restore`: the database of the configuration is made of a backup.
//!
//! The order: no node runs, the whole file is checked, the folder is made, the restore is marked so that a node does not start on half of it,
//! rows and files are written, and the mark is taken away.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use config::Config;
use control::{Client, ClientError};
use net::clock::Clock;
use store::backup::{Contents, RestoreOptions, Restored, restore};
use store::{CopyEnd, CopyOptions};

use super::backup::{checked, end, folders, json};
use super::database::place;
use super::error::CliError;
use super::owner::refuse_foreign;
use super::stop::Stop;
use super::store::{binding_owner, line};
use super::table::{date, grouped};

#[derive(Debug, Args)]
pub(super) struct RestoreArgs {
    /// The backup, which is read to its end before anything is changed
    file: PathBuf,
    /// Put it in the place of a database that has something; the old one is kept beside it, and named at the end
    #[arg(long)]
    replace: bool,
    /// One JSON object: as of `belfry backup`, and the names of what is kept
    #[arg(long)]
    json: bool,
}

impl RestoreArgs {
    pub(super) fn run(self, config: &Config) -> Result<(), CliError> {
        // By the control socket of this machine; nodes of a farm at other machines are not found here.
        refuse_beside_node(config)?;
        refuse_foreign(&config.server.data, "restore")?;
        let clock = Clock::new();
        let flag = Arc::default();
        let stop = Stop::on_interrupt(Arc::clone(&flag))?;
        let copy = CopyOptions { binding_owner, stop: flag };
        let interrupted = || {
            debug_assert!(stop.is_interrupted(), "nothing else stops a restore");
            CliError::Other("interrupted; nothing was changed; the same command begins anew".into())
        };
        // Before anything is changed: a file that was cut is found now and not in the middle of the rows.
        let contents = checked(&self.file, &copy, clock)?.ok_or_else(interrupted)?;
        // As 20261121-090000: part of the name of a schema or a file.
        let stamp = date(clock.now().unix_seconds()).replace(['-', ':'], "").replace(' ', "-");
        let options = RestoreOptions {
            copy,
            folders: folders(config),
            // The old database goes on to exist under this name until the operator removes it.
            keep_as: self.replace.then(|| format!("before-{stamp}").into()),
        };
        let place = place(config);
        place.make_folder()?;
        let (to, started, mut told) = (end(config), clock.now(), clock.now());
        let mut begin = || place.mark_restore();
        let restored = restore(&self.file, &contents, &to, &options, &mut begin, &mut |progress| {
            let now = clock.now();
            if now.since(told) >= Duration::from_secs(1) {
                told = now;
                eprintln!("{}", line(progress, now.since(started)));
            }
        })?;
        let restored = restored.ok_or_else(interrupted)?;
        // Last: until here a node refuses to start on this database.
        place.unmark_restore()?;
        self.report(&contents, &restored, &to)
    }

    fn report(&self, contents: &Contents, restored: &Restored, to: &CopyEnd) -> Result<(), CliError> {
        let kept: Vec<String> = restored.kept.iter().map(|path| path.display().to_string()).collect();
        if self.json {
            let mut object = json(contents);
            object["kept"] = kept.into();
            say!("{object}");
            return Ok(());
        }
        for folder in &restored.folders {
            say!("{}: {} files, {} bytes", folder.name, grouped(folder.files), grouped(folder.bytes));
        }
        let rows: u64 = restored.tables.iter().map(|table| table.rows).sum();
        say!("restored: {} rows as of {} UTC", grouped(rows), date(contents.made_at.unix_seconds()));
        for name in kept {
            // Kept folders are paths; a kept schema of PostgreSQL has no slash in its name.
            let is_schema = matches!(to, CopyEnd::Postgres(_)) && !name.contains('/');
            let (what, end) = if is_schema { ("the schema ", "DROP SCHEMA … CASCADE") } else { ("", "rm") };
            say!(
                "kept: {what}{name}; remove it with {end} when calls go through: it has what passwords can be guessed from"
            );
        }
        Ok(())
    }
}

/// A node has the database in memory and would go on with the old rows.
fn refuse_beside_node(config: &Config) -> Result<(), CliError> {
    match Client::connect(&config.server.control) {
        Err(ClientError::NotRunning { .. }) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => {
            let text = "a node runs and has the database in memory: end it, and give the same command again; nothing was changed";
            Err(CliError::Other(text.into()))
        }
    }
}
