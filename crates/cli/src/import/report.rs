//! Progress of an import.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use net::clock::Clock;
use store::Progress;

use crate::table::{elapsed, grouped};

/// A bar on a terminal, else a line a second on standard error.
pub(super) struct Report {
    /// `None`: standard error is no terminal.
    bar: Option<ProgressBar>,
    /// Bytes of all that is to be read, as far as it is known.
    size: Option<Arc<AtomicU64>>,
    clock: Clock,
    started: stdx::Instant,
    /// The time of the last line.
    told: stdx::Instant,
    /// The newest figures, which the end of the import needs, too.
    pub(super) last: Progress,
}

impl Report {
    pub(super) fn new(size: Option<Arc<AtomicU64>>, clock: Clock) -> Self {
        let now = clock.now();
        let bar = io::stderr().is_terminal().then(|| bar(size.is_some()));
        Report { bar, size, clock, started: now, told: now, last: Progress::default() }
    }

    pub(super) fn update(&mut self, progress: Progress) {
        self.last = progress;
        let now = self.clock.now();
        if let Some(bar) = &self.bar {
            bar.set_message(self.words());
            if let Some(size) = &self.size {
                bar.set_length(size.load(Ordering::Relaxed));
            }
            bar.set_position(progress.bytes);
        } else if now.since(self.told) >= Duration::from_secs(1) {
            self.told = now;
            eprintln!("{}", self.line());
        }
    }

    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    pub(super) fn seconds(&self) -> f64 {
        self.clock.now().since(self.started).as_secs_f64()
    }

    /// Accounts so far, and their rate since the beginning.
    fn words(&self) -> String {
        let total = self.last.imported.total();
        format!("{} accounts, {:.0}/s", grouped(total), total as f64 / self.seconds().max(0.001))
    }

    /// Time left by the share of bytes; without a size there is none.
    fn line(&self) -> String {
        let size = self.size.as_ref().map(|size| size.load(Ordering::Relaxed));
        match size {
            Some(size) if self.last.bytes > 0 => {
                let done = self.last.bytes as f64 / size.max(1) as f64;
                let left = self.seconds() * (1.0 / done - 1.0);
                format!("{}, {:.0} %, {} left", self.words(), done * 100.0, elapsed(left.max(0.0) as u64))
            }
            _ => self.words(),
        }
    }
}

/// Input without a size has a spinner in place of the bar.
fn bar(has_size: bool) -> ProgressBar {
    let (bar, template) = if has_size {
        (ProgressBar::new(0), "{wide_bar} {percent:>3} %  {msg}, {eta} left")
    } else {
        (ProgressBar::new_spinner(), "{spinner} {msg}, {elapsed}")
    };
    let style = ProgressStyle::with_template(template).expect("the templates above are well-formed");
    bar.with_style(style)
}
