//! The search at work: each trial is a whole run with its own sockets.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lab_report::{Report, model};
use lab_xmpp::XmppLoad;

use super::args::{FindArguments, STEP};
use super::offered;
use super::search::{Search, SearchOutcome, SearchPhase, TrialRun, TrialVerdict};
use super::table;
use super::users::{UserSearch, asked};
use crate::engine::{Run, RunChange, Setup, check_reachable};
use crate::plan::model::VariedSetting;
use crate::report::{ProcessMeter, Recorder};
use crate::session::{self, Observer, RunController};
use crate::threshold::Threshold;

/// Open calls are no bound of a search for the rate unless `-l` says so.
/// SIPp's own default, three times what the rate needs, would be a bound.
const NO_LIMIT: u64 = 10_000_000;

/// The outcome of a search, with every run's report.
pub struct SearchResult {
    /// `None` when it was stopped.
    pub found: Option<SearchOutcome>,
    /// The runs in order, each with its result and report.
    pub runs: Vec<(TrialRun, TrialVerdict, Report)>,
}

/// The parts of a search beside its numbers.
pub struct Searcher<'a, M> {
    /// The load; each run changes the varied setting.
    pub setup: &'a Setup,
    /// `ringer xmpp`'s parser: worker processes are told a load by its words, so a run of users is made of them.
    pub parse_xmpp: &'a dyn Fn(&[String]) -> Result<Setup, String>,
    /// The arguments of `ringer find` itself.
    pub arguments: &'a FindArguments,
    /// Thresholds that a good run keeps.
    pub thresholds: &'a [Threshold],
    /// Makes the meter of the processes under test, one for each run.
    pub meter: &'a dyn Fn() -> M,
    /// Set by Ctrl-C.
    pub stop: &'a Arc<AtomicBool>,
    /// Takes each line of the table as it comes.
    pub print: &'a mut dyn FnMut(&str),
    /// Makes what shows the progress of one run, if anything does.
    pub observers: &'a dyn Fn() -> Vec<Box<dyn Observer>>,
}

impl<M: ProcessMeter + 'static> Searcher<'_, M> {
    /// Makes runs until the search has its result.
    pub fn run(&mut self) -> Result<SearchResult, String> {
        let mut search = Search::new(self.arguments.search.clone());
        if let Some(chat) = &self.setup.chat {
            // A closed port would fail all users of the lowest value only after their patience.
            check_reachable(self.setup).map_err(|error| error.message)?;
            // Said before the first run rather than before the last.
            asked(
                self.arguments,
                chat,
                TrialRun { value: self.arguments.search.to, phase: SearchPhase::Ramp },
            )?;
        }
        let mut runs = Vec::new();
        (self.print)(&table::head(self.arguments.vary));
        // A trial is made whole before it is judged: figures of a run cut short say nothing.
        while let Some(trial) = search.next() {
            let (setup, rate, limit) = match &self.setup.chat {
                Some(chat) => self.users_of(chat, trial)?,
                None => self.setup_of(trial),
            };
            let report = self.trial(&setup, trial)?;
            if self.stop.load(Ordering::Relaxed) {
                return Ok(SearchResult { found: None, runs });
            }
            if let (true, Some(reason)) = (runs.is_empty(), &report.silence) {
                return Err(reason.clone());
            }
            let verdict = verdict(&report);
            (self.print)(&table::case(runs.len() + 1, trial.phase, rate, limit, &report, verdict));
            search.handle_verdict(verdict);
            runs.push((trial, verdict, report));
        }
        Ok(SearchResult { found: search.found(), runs })
    }

    /// The run's options, its rate per second and its limit of open calls.
    fn setup_of(&self, trial: TrialRun) -> (Setup, f64, u64) {
        let mut options = (*self.setup.options).clone();
        let rate = &mut options.rate;
        match self.arguments.vary {
            VariedSetting::Rate => {
                // The search counts in calls a second, `-r` in calls a period.
                rate.calls = trial.value * rate.period.as_secs_f64();
                rate.limit = Some(rate.limit.unwrap_or(NO_LIMIT));
            }
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and positive")]
            _ => rate.limit = Some(trial.value as u64),
        }
        let per_second = rate.calls / rate.period.as_secs_f64().max(1e-9);
        if trial.phase == SearchPhase::Confirm {
            // The confirming run ends by its number of calls or its time, whatever comes first.
            rate.total = Some(self.arguments.confirm_calls);
            rate.duration = Some(self.arguments.confirm_at_most);
        } else {
            rate.total = None;
            rate.duration = Some(self.arguments.step.unwrap_or(STEP));
        }
        let limit = rate.limit.unwrap_or(NO_LIMIT);
        (Setup { options: Arc::new(options), ..self.setup.clone() }, per_second, limit)
    }

    /// The same of users; the limit is how many they are.
    fn users_of(&self, chat: &XmppLoad, trial: TrialRun) -> Result<(Setup, f64, u64), String> {
        let UserSearch { words, rate, users } = asked(self.arguments, chat, trial)?;
        let words: Vec<String> = self.setup.options.command_line.iter().cloned().chain(words).collect();
        Ok(((self.parse_xmpp)(&words)?, rate, users))
    }

    /// One run to its end, with sockets and a report of its own.
    fn trial(&self, setup: &Setup, trial: TrialRun) -> Result<Report, String> {
        let title = format!("{:?} at {:.1}", trial.phase, trial.value);
        let recorder = Recorder::new(&title, self.thresholds.to_vec(), (self.meter)());
        let report = recorder.report();
        let mut run = Run::start(setup.clone()).map_err(|error| error.message)?;
        let mut observers = (self.observers)();
        observers.push(Box::new(recorder));
        let controls: &mut [Box<dyn RunController>] = &mut [Box::new(HardStop(Arc::clone(self.stop)))];
        session::drive(setup, &mut run, &mut observers, controls);
        let mut report = report.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        match (self.arguments.vary, &setup.chat) {
            (VariedSetting::Open, _) => report.limited_by_ringer.extend(never_open(&report, trial.value)),
            (_, Some(load)) => offered::judge_users(&mut report, load),
            (_, None) => offered::judge_calls(&mut report, &setup.options.rate),
        }
        Ok(report)
    }
}

/// A number of open calls is not carried by a server that never had it.
fn never_open(report: &Report, wanted: f64) -> Option<String> {
    #[expect(clippy::cast_precision_loss, reason = "open calls")]
    let peak = report.totals.peak_open as f64;
    // 5 % below are allowed: calls end while others begin.
    (report.totals.failed == 0 && peak < wanted * 0.95)
        .then(|| format!("only {peak} of {wanted} calls were ever open: raise -r or --step"))
}

/// A run is good when no session failed (RFC 7502 §6.1) and no threshold was missed; among these is the load that was to be offered.
pub(super) fn verdict(report: &Report) -> TrialVerdict {
    // Before all else: with Ringer as the limit neither success nor failure is the server's.
    if !report.limited_by_ringer.is_empty() {
        return TrialVerdict::LimitedByRinger;
    }
    let missed = report.thresholds.iter().any(model::ThresholdResult::is_missed);
    if !missed && report.totals.failed == 0 && report.totals.successful > 0 {
        TrialVerdict::Good
    } else {
        TrialVerdict::Bad
    }
}

/// Ctrl-C ends the run at once: its figures are of no use to the search.
struct HardStop(Arc<AtomicBool>);

impl RunController for HardStop {
    fn poll(&mut self, run: &Run) {
        if self.0.load(Ordering::Relaxed) {
            run.change(RunChange::HardQuit);
        }
    }
}
