//! The live view: one ratatui screen with what an operator looks for, and SIPp's own screens under its keys.
//!
//! [`LiveScreen`] is an observer: it draws after each interval, and between two when [`ShownPage`] says that something changed. Keys never come
//! here: they change the `ShownPage`, which this reads.

mod draw;
mod history;
mod shown_page;

use std::io;
use std::mem::ManuallyDrop;

use ratatui::DefaultTerminal;

use crate::engine::{Progress, RunOutcome, Setup};
use crate::session::Observer;

use history::History;
pub use shown_page::ShownPage;

/// Text of one of SIPp's screens.
pub type SippScreen = fn(&Setup, &Progress, u8) -> String;

/// Draws on the terminal while the run goes on and restores it at any end. Keys are read by `control::keys` alone,
/// which informs [`ShownPage`].
pub struct LiveScreen {
    /// Never dropped: its own way of giving the cursor back panics when the terminal is gone.
    terminal: ManuallyDrop<DefaultTerminal>,
    /// Values for the sparklines.
    history: History,
    /// The page that keys have chosen, and the lowest line.
    shown: ShownPage,
    /// Makes the text of SIPp's screens.
    sipp: SippScreen,
    /// The interval that is drawn.
    last: Progress,
    /// The version of [`ShownPage`] that is on the screen.
    drawn: u64,
    /// The terminal was restored.
    given_back: bool,
}

impl LiveScreen {
    /// Takes the terminal and starts drawing.
    pub fn start(shown: ShownPage, sipp: SippScreen) -> io::Result<LiveScreen> {
        // Also sets a panic hook that restores the terminal.
        let terminal = ManuallyDrop::new(ratatui::try_init()?);
        shown.attach(true);
        Ok(LiveScreen {
            given_back: false,
            terminal,
            history: History::default(),
            shown,
            sipp,
            last: Progress::default(),
            drawn: 0,
        })
    }

    /// Once: leaving the screen again would take the cursor back over what was printed since.
    fn give_back(&mut self) {
        self.shown.attach(false);
        if !std::mem::replace(&mut self.given_back, true) {
            // Nothing can be done about a terminal that is gone.
            let _ = self.terminal.show_cursor();
            let _ = ratatui::try_restore();
        }
    }

    /// Draws the chosen page: 0 is the live view, 1 to 9 are SIPp's screens.
    fn draw(&mut self, setup: &Setup) {
        self.drawn = self.shown.version();
        let (history, progress, screen) = (&self.history, &self.last, self.shown.get());
        let text = (screen > 0).then(|| match self.shown.view().seen(setup, progress) {
            Some((setup, progress)) => (self.sipp)(&setup, &progress, screen),
            None => (self.sipp)(setup, progress, screen),
        });
        let line = self.shown.line();
        // A terminal that went away is no reason to end a load run.
        let _ = self.terminal.draw(|frame| match text {
            Some(text) => draw::text(frame, &text, &line),
            None => draw::overview(frame, setup, progress, history, &line),
        });
    }
}

impl Observer for LiveScreen {
    fn progress(&mut self, setup: &Setup, progress: &Progress) {
        self.history.push(progress);
        self.last = progress.clone();
        self.draw(setup);
    }

    fn turn(&mut self, setup: &Setup) {
        if self.drawn != self.shown.version() {
            self.draw(setup);
        }
    }

    fn ended(&mut self, setup: &Setup, outcome: &RunOutcome) {
        self.last = outcome.progress.clone();
        self.draw(setup);
        self.give_back();
    }
}

impl Drop for LiveScreen {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use lab_sip::stats::{Count, Stats, TimerDurations};
    use std::time::Duration;
    use stdx::time::Instant;

    fn progress(second: u64) -> Progress {
        let mut stats = Stats { rtds: vec![TimerDurations::default()], ..Stats::default() };
        stats.add(Count::Due, 100);
        stats.add(Count::OutgoingCall, 98);
        stats.add(Count::Blocked, 2);
        stats.add(Count::SuccessfulCall, 90 + second);
        stats.add(Count::FailedCall, 3);
        stats.add(Count::FailedTimeoutOnRecv, 2);
        stats.add(Count::FailedUnexpectedMessage, 1);
        stats.add(Count::CpuMicros, 430_000);
        stats.rtds[0].service.record(Duration::from_millis(10 + second));
        let mut progress = Progress {
            started: Instant::from_unix_seconds(1_000),
            now: Instant::from_unix_seconds(1_000 + second),
            span: Duration::from_secs(1),
            interval: stats.clone(),
            total: stats,
            errors: vec!["call 12, step 3 (line 40): expected 200, got 486 Busy Here".to_owned()],
            ..Progress::default()
        };
        progress.gauges.open_calls = 120;
        progress.gauges.peak_open_calls = 130;
        progress.gauges.target_rate = 100.0;
        progress.gauges.limit = 1_000;
        progress.gauges.threads = 2;
        progress
    }

    fn screen(width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("memory");
        let mut history = History::default();
        for second in 1..=20 {
            history.push(&progress(second));
        }
        let names = draw::SetupNames {
            scenario: "UAC with media",
            remote: "127.0.0.1:5060",
            rtd: "setup",
            is_of_users: false,
        };
        terminal.draw(|frame| draw::panels(frame, &names, &progress(20), &history, "")).expect("memory");
        terminal.backend().to_string()
    }

    #[test]
    fn the_overview_shows_rates_failures_and_percentiles() {
        insta::assert_snapshot!(screen(100, 30));
    }

    #[test]
    fn a_small_terminal_is_no_reason_to_fall_over() {
        for (width, height) in [(1, 1), (20, 5), (40, 12), (200, 3)] {
            assert!(!screen(width, height).is_empty());
        }
    }

    #[test]
    fn history_is_bounded() {
        let mut history = History::default();
        for second in 0..10_000 {
            history.push(&progress(second % 5));
        }
        assert_eq!(history.len(), history::KEPT);
    }
}
