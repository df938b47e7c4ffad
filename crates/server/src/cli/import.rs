//! `belfry account import`: a million accounts in minutes, with a bar.
//!
//! It writes to the record itself, also beside a running node, and tells the node afterwards.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use store::{Admin, Existing, ImportOptions, Imported, Progress, StoreError};

use super::error::CliError;
use super::table::{elapsed, grouped};
use crate::clock::Clock;
use crate::config::Config;
use crate::control::{Client, ClientError, Request};
use crate::limits;
use crate::record;

#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// Lines of account,password,name (name may be missing); - is standard input
    file: PathBuf,
    /// Leave accounts that are there as they are [default: set their password and name]
    #[arg(long)]
    skip_existing: bool,
    /// Make keys of SCRAM as well, some 10 ms an account; without, chat clients have to send their password once
    #[arg(long)]
    scram: bool,
}

impl ImportArgs {
    pub(super) fn run(self, config: &Config) -> Result<(), CliError> {
        let stop = stop_on_interrupt()?;
        let (input, size) = open(&self.file)?;
        let node = match Client::connect(&config.server.control) {
            Ok(client) => Some(client),
            Err(ClientError::NotRunning { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let mut admin = Admin::new(&record::open(&config.server)?.for_import())?;
        let clock = Clock::new();
        let mut options = ImportOptions::new(Some(&config.sip.default_domain), clock.now());
        if self.skip_existing {
            options.existing = Existing::Skip;
        }
        options.keys = self.scram.then_some(crate::xmpp::make_keys);
        if node.is_some() {
            options.batch = limits::IMPORT_BATCH_BESIDE_NODE;
        }
        let mut report = Report::new(size, clock);
        let input = Stoppable { input, stop: stop.clone() };
        let mut changed = Vec::new();
        let result = admin.import(input, &options, &mut |progress, others| {
            changed.extend_from_slice(others);
            report.update(progress);
        });
        report.finish();
        if let Some(mut node) = node {
            node.ask(&Request::AccountsChanged)?;
            // Who signed in by an old password is out.
            for some in changed.chunks(limits::CONTROL_ACCOUNTS) {
                node.ask(&Request::PasswordsChanged(some.to_vec()))?;
            }
        }
        let interrupted = stop.load(Ordering::Relaxed);
        conclude(result, report.last.imported, report.seconds(), interrupted)
    }
}

fn conclude(
    result: Result<Imported, StoreError>,
    so_far: Imported,
    seconds: f64,
    interrupted: bool,
) -> Result<(), CliError> {
    match result {
        Err(_) if interrupted => Err(CliError::Other(format!(
            "interrupted; accounts in: {} ({}); the same command takes up the rest",
            grouped(so_far.total()),
            counts(so_far)
        ))),
        Err(error) => Err(CliError::Other(format!(
            "{error}; accounts in before it: {}; mend the file and give the same command again",
            grouped(so_far.total())
        ))),
        Ok(imported) => {
            let rate = imported.total() as f64 / seconds.max(0.001);
            println!(
                "accounts: {} in {seconds:.1} s, {rate:.0}/s: {}",
                grouped(imported.total()),
                counts(imported)
            );
            Ok(())
        }
    }
}

fn counts(imported: Imported) -> String {
    let Imported { added, updated, skipped } = imported;
    format!("{} added, {} updated, {} skipped", grouped(added), grouped(updated), grouped(skipped))
}

/// The input, and its size where it has one.
fn open(file: &Path) -> Result<(Box<dyn Read + Send>, Option<u64>), CliError> {
    if file == Path::new("-") {
        return Ok((Box::new(io::stdin()), None));
    }
    let cannot = |error: io::Error| CliError::Other(format!("{}: cannot be read: {error}", file.display()));
    let input = File::open(file).map_err(cannot)?;
    let metadata = input.metadata().map_err(cannot)?;
    Ok((Box::new(input), metadata.is_file().then_some(metadata.len())))
}

/// Set by the first Ctrl-C; the second ends the process as it would have.
fn stop_on_interrupt() -> Result<Arc<AtomicBool>, CliError> {
    let cannot = |error: io::Error| CliError::Other(format!("cannot catch Ctrl-C: {error}"));
    let stop = Arc::new(AtomicBool::new(false));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(cannot)?;
    let mut interrupts = {
        let _inside = runtime.enter();
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt()).map_err(cannot)?
    };
    let flag = stop.clone();
    let wait = move || {
        runtime.block_on(async {
            interrupts.recv().await;
            flag.store(true, Ordering::Relaxed);
            eprintln!("\nstopping after this batch; Ctrl-C again stops at once");
            interrupts.recv().await;
            std::process::exit(130);
        });
    };
    std::thread::Builder::new().name("interrupts".into()).spawn(wait).map_err(cannot)?;
    Ok(stop)
}

/// Ends the input with an error once it is told to: an end of file would cut the last line.
struct Stoppable<R> {
    input: R,
    stop: Arc<AtomicBool>,
}

impl<R: Read> Read for Stoppable<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(io::Error::other("interrupted"));
        }
        self.input.read(buffer)
    }
}

/// A bar on a terminal, else a line a second on standard error.
struct Report {
    bar: Option<ProgressBar>,
    size: Option<u64>,
    clock: Clock,
    started: stdx::Instant,
    told: stdx::Instant,
    last: Progress,
}

impl Report {
    fn new(size: Option<u64>, clock: Clock) -> Self {
        let now = clock.now();
        let bar = io::stderr().is_terminal().then(|| bar(size));
        Report { bar, size, clock, started: now, told: now, last: Progress::default() }
    }

    fn update(&mut self, progress: Progress) {
        self.last = progress;
        let now = self.clock.now();
        if let Some(bar) = &self.bar {
            bar.set_message(self.words());
            bar.set_position(progress.bytes);
        } else if now.since(self.told) >= Duration::from_secs(1) {
            self.told = now;
            eprintln!("{}", self.line());
        }
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn seconds(&self) -> f64 {
        self.clock.now().since(self.started).as_secs_f64()
    }

    fn words(&self) -> String {
        let total = self.last.imported.total();
        format!("{} accounts, {:.0}/s", grouped(total), total as f64 / self.seconds().max(0.001))
    }

    fn line(&self) -> String {
        match self.size {
            Some(size) if self.last.bytes > 0 => {
                let done = self.last.bytes as f64 / size.max(1) as f64;
                let left = self.seconds() * (1.0 / done - 1.0);
                format!("{}, {:.0} %, {} left", self.words(), done * 100.0, elapsed(left.max(0.0) as u64))
            }
            _ => self.words(),
        }
    }
}

fn bar(size: Option<u64>) -> ProgressBar {
    let (bar, template) = match size {
        Some(size) => (ProgressBar::new(size), "{wide_bar} {percent:>3} %  {msg}, {eta} left"),
        None => (ProgressBar::new_spinner(), "{spinner} {msg}, {elapsed}"),
    };
    let style = ProgressStyle::with_template(template).expect("the templates above are well-formed");
    bar.with_style(style)
}
