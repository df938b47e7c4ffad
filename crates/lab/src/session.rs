//! A run and its observers: the live view, progress lines, trace files of statistics, reports.
//!
//! [`drive`] is the loop of the main thread. The shards never wait for an observer: a slow one only makes the intervals arrive late.

use crate::engine::{Progress, Run, RunOutcome, Setup};

/// Told of every interval and of the end. Screens, CSV, recorder of the report, Prometheus.
pub trait Observer {
    /// An interval is complete.
    fn progress(&mut self, setup: &Setup, progress: &Progress);
    /// The run has ended.
    fn ended(&mut self, setup: &Setup, outcome: &RunOutcome);
    /// Called a few times a second: the moment to show what was asked for since the last interval.
    fn turn(&mut self, _setup: &Setup) {}
}

/// Changes asked for while the run goes on: keys, control port, signals, a search.
pub trait RunController {
    /// Called a few times a second.
    fn poll(&mut self, run: &Run);
}

/// Every turn lets the controllers act first, so that a key is obeyed before the next line is drawn.
/// Runs to the end.
pub fn drive(
    setup: &Setup,
    run: &mut Run,
    observers: &mut [Box<dyn Observer>],
    controls: &mut [Box<dyn RunController>],
) -> Box<RunOutcome> {
    use crate::engine::Event;
    use std::time::Duration;

    loop {
        for control in &mut *controls {
            control.poll(run);
        }
        for observer in &mut *observers {
            observer.turn(setup);
        }
        // 100 ms is the longest that a key waits for its effect.
        match run.next(Duration::from_millis(100)) {
            Event::Nothing => {}
            Event::Progress(progress) => {
                for observer in &mut *observers {
                    observer.progress(setup, &progress);
                }
            }
            Event::Ended(outcome) => {
                for observer in &mut *observers {
                    observer.ended(setup, &outcome);
                }
                return outcome;
            }
        }
    }
}
