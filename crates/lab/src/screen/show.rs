//! Prints pages asked for by key, files screens when asked and at the end, prints the last ones.
//!
//! The observer draws only while no live view does. It carries out what the shared state asks for (`dump`, `dump tasks`, `dump variables`) at the
//! next interval, and at the end prints scenario and statistics as SIPp does.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;

use ratatui::crossterm::terminal;

use super::{RemoteState, RunHandle, ScreenFooter, ScreenPage, dump, page, variables};
use crate::engine::{Progress, RunOutcome, Setup};
use crate::session::Observer;
use crate::trace::file_name;

/// Home, and everything beneath is blank.
const CLEAR: &str = "\x1b[H\x1b[2J";
/// Begins the line anew.
const LINE: &str = "\r\x1b[K";

/// Prints the screens and writes them to their file.
pub struct ScreenObserver {
    /// The shared state.
    remote: RunHandle,
    /// The screen file, named with the first dump.
    file: Option<PathBuf>,
    /// The figures that are drawn again when a key asks for another page.
    last: Option<Progress>,
    /// The version of the shown page that is on the terminal.
    drawn: u64,
}

impl ScreenObserver {
    /// An observer for this set-up.
    pub fn new(setup: &Setup) -> ScreenObserver {
        ScreenObserver { remote: RunHandle::new(setup), file: None, last: None, drawn: 0 }
    }

    /// The handle that controls the screens.
    pub fn remote(&self) -> RunHandle {
        self.remote.clone()
    }

    /// Writes screens to their file: the first begins it anew unless `-screen_overwrite false`, later ones append.
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
            self.remote.say(format!("{}: {error}", path.display()));
        }
    }

    /// Without a live view: SIPp's screen of the last key, redrawn, and the line being typed.
    fn draw(&mut self, setup: &Setup) {
        let shown = self.remote.shown();
        self.drawn = shown.version();
        if shown.is_attached() || !std::io::stdout().is_terminal() {
            return;
        }
        let (raw, footer) = self.remote.with(|state| (state.raw_terminal, footer(state)));
        let line = shown.line();
        // As SIPp begins; `0` stops it.
        let key = shown.asked().unwrap_or(ScreenPage::Scenario.key());
        let wanted = ScreenPage::of_key(char::from(b'0' + key));
        if let (Some(wanted), Some(progress)) = (wanted, &self.last) {
            let text = match shown.view().seen(setup, progress) {
                Some((setup, progress)) => page(&setup, &progress, wanted, footer),
                None => page(setup, progress, wanted, footer),
            };
            show(&format!("{CLEAR}{text}{line}"), raw);
        } else if !line.is_empty() {
            show(&format!("{LINE}{line}"), raw);
        }
    }

    /// `dump tasks`, `dump variables`: told, and in the error log, where a run in the background can be read.
    fn answer(&self, setup: &Setup, progress: &Progress, state: &RemoteState) {
        if state.tasks {
            let gauges = &progress.gauges;
            let text = format!(
                "Running tasks: {} calls open, {} threads, {} sockets, last call number {}",
                gauges.open_calls, gauges.threads, gauges.open_sockets, gauges.last_call_number
            );
            setup.tracer.error(progress.now, &text);
            self.remote.say(text);
        }
        if state.variables {
            let text = variables::screen(setup);
            setup.tracer.error(progress.now, &text);
            if self.remote.shown().is_attached() {
                self.remote.shown().set(ScreenPage::Variables.key());
            } else {
                self.remote.say(text);
            }
        }
    }
}

/// The end comes before a pause.
fn footer(state: &RemoteState) -> ScreenFooter {
    match state {
        RemoteState { quitting: true, .. } => ScreenFooter::Quitting,
        RemoteState { paused: true, .. } => ScreenFooter::Paused,
        _ => ScreenFooter::Running,
    }
}

/// To standard output, or nowhere when it is gone.
fn show(text: &str, raw: bool) {
    let text = if raw { text.replace('\n', "\r\n") } else { text.to_owned() };
    let _ = std::io::stdout().write_all(text.as_bytes());
    let _ = std::io::stdout().flush();
}

impl Observer for ScreenObserver {
    fn progress(&mut self, setup: &Setup, progress: &Progress) {
        // Requests are taken with one lock, so that none is carried out twice.
        let state = self.remote.with(|state| {
            state.quitting |= progress.gauges.quitting;
            let now = state.clone();
            state.dump = false;
            state.tasks = false;
            state.variables = false;
            now
        });
        if state.dump {
            self.file(setup, &dump(setup, progress, footer(&state)));
        }
        self.answer(setup, progress, &state);
        self.last = Some(progress.clone());
        self.draw(setup);
        if let Some(said) = self.remote.with(|state| state.said.take()) {
            let said = format!("{}\n", said.trim_end());
            let said = if state.raw_terminal { said.replace('\n', "\r\n") } else { said };
            let _ = std::io::stderr().write_all(said.as_bytes());
        }
    }

    fn turn(&mut self, setup: &Setup) {
        if self.drawn != self.remote.shown().version() {
            self.draw(setup);
        }
    }

    fn ended(&mut self, setup: &Setup, outcome: &RunOutcome) {
        // A live view has given the terminal back already.
        let raw = terminal::is_raw_mode_enabled().unwrap_or(false);
        let progress = &outcome.progress;
        if setup.options.files.screen.on {
            self.file(setup, &dump(setup, progress, ScreenFooter::Terminated));
        }
        show(&page(setup, progress, ScreenPage::Scenario, ScreenFooter::Terminated), raw);
        if setup.chat.is_none() {
            show(&page(setup, progress, ScreenPage::Statistics, ScreenFooter::Terminated), raw);
        }
    }
}
