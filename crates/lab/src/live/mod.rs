//! The live view: one ratatui screen with what an operator looks for, and SIPp's own screens under its keys.

mod draw;
mod history;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use ratatui::DefaultTerminal;

use crate::engine::{Outcome, Progress, Setup};
use crate::session::Observer;

use history::History;

/// Which screen is shown: 0 is the live view, 1 to 9 are SIPp's.
#[derive(Debug, Clone, Default)]
pub struct Shown(Arc<AtomicU8>);

impl Shown {
    pub fn get(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }

    pub fn set(&self, screen: u8) {
        self.0.store(screen, Ordering::Relaxed);
    }
}

/// Text of one of SIPp's screens.
pub type SippScreen = fn(&Setup, &Progress, u8) -> String;

/// Owns the terminal while the run goes on; gives it back at the end, whatever the end is.
pub struct Live {
    terminal: DefaultTerminal,
    history: History,
    shown: Shown,
    sipp: SippScreen,
}

impl Live {
    pub fn start(shown: Shown, sipp: SippScreen) -> io::Result<Live> {
        // Also sets a panic hook that restores the terminal.
        let terminal = ratatui::try_init()?;
        Ok(Live { terminal, history: History::default(), shown, sipp })
    }

    fn draw(&mut self, setup: &Setup, progress: &Progress) {
        let (history, screen) = (&self.history, self.shown.get());
        let text = (screen > 0).then(|| (self.sipp)(setup, progress, screen));
        // A terminal that went away is no reason to end a load run.
        let _ = self.terminal.draw(|frame| match text {
            Some(text) => draw::text(frame, &text),
            None => draw::overview(frame, setup, progress, history),
        });
    }
}

impl Observer for Live {
    fn progress(&mut self, setup: &Setup, progress: &Progress) {
        self.history.push(progress);
        self.draw(setup, progress);
    }

    fn ended(&mut self, setup: &Setup, outcome: &Outcome) {
        self.draw(setup, &outcome.progress);
        ratatui::restore();
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::stats::{Count, Stats, Timer};
    use std::time::Duration;
    use stdx::time::Instant;

    fn progress(second: u64) -> Progress {
        let mut stats = Stats { rtds: vec![Timer::default()], ..Stats::default() };
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
        let names = draw::Names { scenario: "UAC with media", remote: "127.0.0.1:5060", rtd: "setup" };
        terminal.draw(|frame| draw::panels(frame, &names, &progress(20), &history)).expect("memory");
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
