//! `belfry backup`: the database in one file, while the node runs, and `--check` of such a file.
//!
//! A node may run: the database gives a consistent view of one moment while it is written to. `restore` uses the same functions to check a file before it
//! changes anything.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use config::Config;
use net::clock::Clock;
use store::backup::{BackupOptions, Contents, FileFolder, Output};
use store::{CopyEnd, CopyOptions};

use super::backend::no_database;
use super::database::place;
use super::error::CliError;
use super::stop::Stop;
use super::store::{binding_owner, line};
use super::table::{Table, date, grouped};

#[derive(Debug, Args)]
pub(super) struct BackupArgs {
    /// File to make, readable by its owner only: it has what passwords can be guessed from. - is standard output
    file: PathBuf,
    /// Files of users as well: uploads and recordings
    #[arg(long, conflicts_with = "check")]
    files: bool,
    /// Make nothing: read all of a backup, and say what is in it and whether it is whole
    #[arg(long)]
    check: bool,
    /// One JSON object: when it was made, the rows of each table, files and bytes
    #[arg(long)]
    json: bool,
}

impl BackupArgs {
    // With `--check` only the file is read. Else: the folders to take along, the database as it is named, the output, and the copy with progress once a second.
    pub(super) fn run(self, config: &Config) -> Result<(), CliError> {
        let clock = Clock::new();
        let flag = Arc::default();
        let stop = Stop::on_interrupt(Arc::clone(&flag))?;
        let copy = CopyOptions { binding_owner, stop: flag };
        if self.check {
            if self.file == Path::new("-") {
                return Err(CliError::Usage("--check reads a file; standard input is none".into()));
            }
            let contents = checked(&self.file, &copy, clock)?;
            let contents = contents.ok_or_else(|| CliError::Other("interrupted".into()))?;
            return self.report(&contents, "whole", &mut io::stdout().lock());
        }
        let folders = if self.files { folders(config) } else { Vec::new() };
        let options = BackupOptions { copy, folders, now: clock.now() };
        // The database as the node names it; the node is not asked, so a backup works while it hangs.
        let from = end(config);
        // Half of a restore would make a backup that looks whole.
        place(config).refuse_unfinished()?;
        if let CopyEnd::Sqlite(file) = &from
            && !file.exists()
        {
            return Err(CliError::Other(no_database(config, file)));
        }
        // A pipe cannot be renamed at the end, so a reader of it finds out by `--check` if it is whole.
        let is_pipe = self.file == Path::new("-");
        let output = if is_pipe { Output::pipe(io::stdout()) } else { Output::file(&self.file)? };
        let (started, mut told) = (clock.now(), clock.now());
        let contents = store::backup::write(&from, output, &options, &mut |progress| {
            let now = clock.now();
            if now.since(told) >= Duration::from_secs(1) {
                told = now;
                eprintln!("{}", line(progress, now.since(started)));
            }
        })?;
        let Some(contents) = contents else {
            debug_assert!(stop.is_interrupted(), "nothing else stops a backup");
            let left = if is_pipe { "what was written is no whole backup" } else { "nothing is left of it" };
            return Err(CliError::Other(format!("interrupted; {left}; the same command begins anew")));
        };
        // Standard output has the backup.
        if is_pipe {
            return self.report(&contents, "backed up", &mut io::stderr().lock());
        }
        self.report(&contents, "backed up", &mut io::stdout().lock())
    }

    fn report(&self, contents: &Contents, done: &str, out: &mut impl io::Write) -> Result<(), CliError> {
        if self.json {
            writeln!(out, "{}", json(contents))?;
            return Ok(());
        }
        let mut printed = Table::new(&["table", "rows"], &[1]);
        for table in &contents.tables {
            printed.row([table.name.to_owned(), grouped(table.rows)]);
        }
        printed.print(out)?;
        for folder in &contents.folders {
            writeln!(
                out,
                "{}: {} files, {} bytes",
                folder.name,
                grouped(folder.files),
                grouped(folder.bytes)
            )?;
        }
        let (rows, size) = (grouped(contents.rows()), grouped(contents.size));
        let made = date(contents.made_at.unix_seconds());
        writeln!(out, "{done}: {rows} rows as of {made} UTC, by belfry {}, {size} bytes", contents.program)?;
        Ok(())
    }
}

/// The contents of a backup, whose file is read to its end. `None`: Ctrl-C.
pub(super) fn checked(file: &Path, copy: &CopyOptions, clock: Clock) -> Result<Option<Contents>, CliError> {
    // For the progress only: what the file holds is counted by its checks.
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    let mut told = clock.now();
    Ok(store::backup::check(file, &copy.stop, &mut |read| {
        let now = clock.now();
        if now.since(told) >= Duration::from_secs(1) {
            told = now;
            eprintln!("checking: {:.0} %", read as f64 * 100.0 / size.max(1) as f64);
        }
    })?)
}

/// The database of the configuration.
pub(super) fn end(config: &Config) -> CopyEnd {
    let place = place(config);
    match place.url {
        Some(url) => CopyEnd::Postgres(url),
        None => CopyEnd::Sqlite(place.file),
    }
}

/// The folders of users' files.
pub(super) fn folders(config: &Config) -> Vec<FileFolder> {
    let of = |name: &'static str, path: &Option<PathBuf>| FileFolder {
        name,
        path: path.clone().unwrap_or_else(|| config.server.data.join(name)),
        // A folder, and an ending of names, of files that are still being written: they are left out.
        unfinished: ("coming", ".part"),
    };
    vec![of("uploads", &config.uploads.folder), of("recordings", &config.voice.recordings)]
}

pub(super) fn json(contents: &Contents) -> serde_json::Value {
    let rows = contents.tables.iter().map(|table| (table.name.to_owned(), table.rows.into()));
    let files = |folder: &store::backup::FolderCounts| {
        (folder.name.to_string(), serde_json::json!({ "files": folder.files, "bytes": folder.bytes }))
    };
    serde_json::json!({
        "made_at": contents.made_at.unix_seconds(),
        "program": contents.program,
        "rows": serde_json::Value::Object(rows.collect()),
        "files": serde_json::Value::Object(contents.folders.iter().map(files).collect()),
        "bytes": contents.size,
    })
}
