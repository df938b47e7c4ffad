//! SIPp's text screens: pure functions from a run's figures to text, and the observer that prints and files them.

mod repartition;
mod scenario;
mod statistics;
pub mod tdm;
#[cfg(test)]
pub(crate) mod tests;
mod variables;

pub(crate) use repartition::buckets;
pub(crate) use scenario::expected;
pub(crate) use statistics::per_second;

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::engine::{Outcome, Progress, Setup};
use crate::session::Observer;
use crate::trace::file_name;

/// What a key from 1 to 9 shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    Scenario,
    Statistics,
    /// Buckets of the counter of this index; the first has call lengths beneath it.
    Repartition(u16),
    Variables,
    Tdm,
}

impl Page {
    /// SIPp's keys: 6 to 9 are the second to fifth counter.
    pub fn of_key(key: char) -> Option<Page> {
        Some(match key {
            '1' => Page::Scenario,
            '2' => Page::Statistics,
            '3' => Page::Repartition(0),
            '4' => Page::Variables,
            '5' => Page::Tdm,
            '6' => Page::Repartition(1),
            '7' => Page::Repartition(2),
            '8' => Page::Repartition(3),
            '9' => Page::Repartition(4),
            _ => return None,
        })
    }
}

/// The last line of a screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Footer {
    Running,
    Paused,
    Quitting,
    Terminated,
}

/// One screen, its header and footer included.
pub fn page(setup: &Setup, progress: &Progress, page: Page, footer: Footer) -> String {
    let mut text = match page {
        Page::Scenario => scenario::screen(setup, progress),
        Page::Statistics => statistics::screen(setup, progress),
        Page::Repartition(index) => repartition::screen(setup, progress, index),
        Page::Variables => variables::screen(setup),
        Page::Tdm => variables::circuits(setup, progress),
    };
    if let Some(error) = progress.errors.last() {
        text.push_str(&last_error(error));
    }
    text.push_str(footer_line(setup, footer));
    text.push('\n');
    text
}

/// All that SIPp files at the end or on USR2: scenario, statistics, and buckets of every counter.
pub fn dump(setup: &Setup, progress: &Progress, footer: Footer) -> String {
    let mut text = page(setup, progress, Page::Scenario, footer);
    text.push_str(&page(setup, progress, Page::Statistics, footer));
    let counters = u16::try_from(setup.scenario.rtds.len().clamp(1, 5)).unwrap_or(1);
    for index in 0..counters {
        text.push_str(&page(setup, progress, Page::Repartition(index), footer));
    }
    text
}

/// How much of an error fits a line, as in SIPp.
const ERROR_WIDTH: usize = 60;

fn last_error(error: &str) -> String {
    let first = error.lines().next().unwrap_or_default();
    if first.chars().count() > ERROR_WIDTH {
        let cut: String = first.chars().take(ERROR_WIDTH).collect();
        return format!("Last Error: {cut}...\n");
    }
    format!("Last Error: {first}\n")
}

fn footer_line(setup: &Setup, footer: Footer) -> &'static str {
    match footer {
        Footer::Running if setup.scenario.starts_calls() => {
            "------ [+|-|*|/]: Adjust rate ---- [q]: Soft exit ---- [p]: Pause traffic -----"
        }
        Footer::Running => "------------------------------ Sipp Server Mode -------------------------------",
        Footer::Paused => "----------------- Traffic Paused - Press [p] again to resume ------------------",
        Footer::Quitting => "------- Waiting for active calls to end. Press [q] again to force exit. -------",
        Footer::Terminated => {
            "------------------------------ Test Terminated --------------------------------"
        }
    }
}

/// What those who control a run and those who show it share.
#[derive(Debug, Clone, Default)]
pub struct Remote(Arc<Mutex<State>>);

#[derive(Debug, Clone, Default)]
pub struct State {
    pub rate: f64,
    pub scale: f64,
    pub paused: bool,
    pub quitting: bool,
    /// Screens are to be written to their file.
    pub dump: bool,
    pub page: Option<Page>,
    /// The terminal is raw: lines need a carriage return.
    pub raw_terminal: bool,
    /// The last thing to tell who controls.
    pub said: Option<String>,
}

impl Remote {
    pub fn new(setup: &Setup) -> Remote {
        let rate = &setup.options.rate;
        Remote(Arc::new(Mutex::new(State { rate: rate.calls, scale: rate.scale, ..State::default() })))
    }

    pub fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.0.lock())
    }
}

impl State {
    pub fn say(&mut self, text: String) {
        self.said = Some(text);
    }
}

/// Prints pages asked for by key, files screens when asked and at the end, prints the last ones.
pub struct Screens {
    remote: Remote,
    file: Option<PathBuf>,
}

impl Screens {
    pub fn new(setup: &Setup) -> Screens {
        Screens { remote: Remote::new(setup), file: None }
    }

    pub fn remote(&self) -> Remote {
        self.remote.clone()
    }

    fn file(&mut self, setup: &Setup, text: &str) {
        let traces = &setup.options.files;
        let fresh = self.file.is_none();
        let path = self.file.get_or_insert_with(|| file_name(setup, &traces.screen, "screen.log")).clone();
        let append = traces.screen.append || !fresh;
        let written = std::fs::OpenOptions::new()
            .create(true)
            .append(append)
            .write(true)
            .truncate(!append)
            .open(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()));
        if let Err(error) = written {
            eprintln!("{}: {error}", path.display());
        }
    }
}

/// To standard output, or nowhere when it is gone.
fn show(text: &str, raw: bool) {
    let text = if raw { text.replace('\n', "\r\n") } else { text.to_owned() };
    let _ = std::io::stdout().write_all(text.as_bytes());
    let _ = std::io::stdout().flush();
}

impl Observer for Screens {
    fn progress(&mut self, setup: &Setup, progress: &Progress) {
        let state = self.remote.with(|state| {
            let now = state.clone();
            state.dump = false;
            state.page = None;
            state.said = None;
            // Another control, or a ramp, may have changed it.
            state.rate = progress.gauges.target_rate.max(0.0);
            now
        });
        let footer = match progress.gauges {
            _ if state.quitting || progress.gauges.quitting => Footer::Quitting,
            _ if state.paused => Footer::Paused,
            _ => Footer::Running,
        };
        if state.dump {
            self.file(setup, &dump(setup, progress, footer));
        }
        if let Some(wanted) = state.page.filter(|_| std::io::stdout().is_terminal()) {
            show(&page(setup, progress, wanted, footer), state.raw_terminal);
        }
        if let Some(said) = state.said {
            eprint!("{said}{}", if state.raw_terminal { "\r\n" } else { "\n" });
        }
    }

    fn ended(&mut self, setup: &Setup, outcome: &Outcome) {
        let raw = self.remote.with(|state| state.raw_terminal);
        let progress = &outcome.progress;
        if setup.options.files.screen.on {
            self.file(setup, &dump(setup, progress, Footer::Terminated));
        }
        show(&page(setup, progress, Page::Scenario, Footer::Terminated), raw);
        show(&page(setup, progress, Page::Statistics, Footer::Terminated), raw);
    }
}
