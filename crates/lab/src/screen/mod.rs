//! SIPp's text screens: pure functions from a run's figures to text, and (in `show`) their output to terminal and files.
//!
//! [`page`] makes one screen, [`dump`] all of them for the file. The layout is SIPp's, as scripts read it: columns, words and even the spelling
//! of some titles must stay.

mod remote;
mod repartition;
mod scenario;
mod show;
mod statistics;
pub mod tdm;
#[cfg(test)]
pub(crate) mod tests;
mod users;
mod variables;
mod view;

pub use remote::{RemoteState, RunHandle};
pub(crate) use repartition::buckets;
pub(crate) use scenario::expected;
pub use show::ScreenObserver;
pub(crate) use statistics::per_second;
pub use view::ScreenView;

use crate::engine::{Progress, Setup};

/// The page that a key from 1 to 9 selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScreenPage {
    /// Counters of each step, key 1.
    Scenario,
    /// Counters and rates of the run, key 2.
    Statistics,
    /// Buckets of the counter of this index; the first has call lengths beneath it.
    Repartition(u16),
    /// The variables of the scenario, key 4.
    Variables,
    /// The circuits of `-tdmmap`, key 5.
    Tdm,
}

impl ScreenPage {
    /// SIPp's keys: 6 to 9 are the second to fifth counter.
    pub fn of_key(key: char) -> Option<ScreenPage> {
        Some(match key {
            '1' => ScreenPage::Scenario,
            '2' => ScreenPage::Statistics,
            '3' => ScreenPage::Repartition(0),
            '4' => ScreenPage::Variables,
            '5' => ScreenPage::Tdm,
            '6' => ScreenPage::Repartition(1),
            '7' => ScreenPage::Repartition(2),
            '8' => ScreenPage::Repartition(3),
            '9' => ScreenPage::Repartition(4),
            _ => return None,
        })
    }

    /// The key's number.
    pub fn key(self) -> u8 {
        match self {
            ScreenPage::Scenario => 1,
            ScreenPage::Statistics => 2,
            ScreenPage::Repartition(0) => 3,
            ScreenPage::Variables => 4,
            ScreenPage::Tdm => 5,
            // Counters beyond the fifth have no key of their own.
            ScreenPage::Repartition(index) => u8::try_from(index).map_or(9, |index| (5 + index).min(9)),
        }
    }
}

/// The last line of a screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScreenFooter {
    /// The keys that change the rate.
    Running,
    /// Traffic is paused; the keys that end the pause.
    Paused,
    /// The run waits for open calls to end.
    Quitting,
    /// The run has ended.
    Terminated,
}

/// One screen, its header and footer included.
pub fn page(setup: &Setup, progress: &Progress, page: ScreenPage, footer: ScreenFooter) -> String {
    let mut text = match page {
        // A load of users has one screen, whatever key is pressed.
        _ if setup.chat.is_some() => users::screen(setup, progress),
        ScreenPage::Scenario => scenario::screen(setup, progress),
        ScreenPage::Statistics => statistics::screen(setup, progress),
        ScreenPage::Repartition(index) => repartition::screen(setup, progress, index),
        ScreenPage::Variables => variables::screen(setup),
        ScreenPage::Tdm => variables::circuits(setup, progress),
    };
    if let Some(error) = progress.errors.last() {
        text.push_str(&last_error(error));
    }
    text.push_str(footer_line(setup, footer));
    text.push('\n');
    text
}

/// All that SIPp files at the end or on USR2: scenario, statistics, and buckets of every counter.
pub fn dump(setup: &Setup, progress: &Progress, footer: ScreenFooter) -> String {
    let mut text = page(setup, progress, ScreenPage::Scenario, footer);
    if setup.chat.is_some() {
        return text;
    }
    text.push_str(&page(setup, progress, ScreenPage::Statistics, footer));
    // At least one, as the first has the call lengths beneath it.
    let counters = u16::try_from(setup.scenario.rtds.len().clamp(1, 5)).unwrap_or(1);
    for index in 0..counters {
        text.push_str(&page(setup, progress, ScreenPage::Repartition(index), footer));
    }
    text
}

/// How much of an error fits a line, as in SIPp.
const ERROR_WIDTH: usize = 60;

/// The first line of the last error, cut to the width.
fn last_error(error: &str) -> String {
    let first = error.lines().next().unwrap_or_default();
    if first.chars().count() > ERROR_WIDTH {
        let cut: String = first.chars().take(ERROR_WIDTH).collect();
        return format!("Last Error: {cut}...\n");
    }
    format!("Last Error: {first}\n")
}

/// SIPp's last line: 79 characters.
fn footer_line(setup: &Setup, footer: ScreenFooter) -> &'static str {
    match footer {
        ScreenFooter::Running if setup.scenario.starts_calls() => {
            "------ [+|-|*|/]: Adjust rate ---- [q]: Soft exit ---- [p]: Pause traffic -----"
        }
        ScreenFooter::Running => {
            "------------------------------ Sipp Server Mode -------------------------------"
        }
        ScreenFooter::Paused => {
            "----------------- Traffic Paused - Press [p] again to resume ------------------"
        }
        ScreenFooter::Quitting => {
            "------- Waiting for active calls to end. Press [q] again to force exit. -------"
        }
        ScreenFooter::Terminated => {
            "------------------------------ Test Terminated --------------------------------"
        }
    }
}
