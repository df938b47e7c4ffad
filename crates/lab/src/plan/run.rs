//! Runs a prepared plan: stage by stage, the loads of a stage together.
//!
//! One thread drives all loads in turn; each has its own shards. A stage ends when its loads in the foreground have; those in the background go
//! on and are ended last.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lab_report::Report;

use super::model::Generator;
use super::prepare::{PreparedLoad, PreparedPlan};
use super::published;
use crate::engine::{Event, Progress, Run, RunChange, RunOutcome, Setup, check_reachable};
use crate::report::{ProcessMeter, Recorder};
use crate::session::Observer;
use crate::threshold::Threshold;

/// Turns of about `LOOK` a load: five seconds with one.
/// How long open calls may take to end once a load was told to stop.
const GRACE: u32 = 100;
/// How often each load is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// The outcome of a plan: a report for each load, in the order of the plan.
pub struct PlanOutcome {
    /// The generator's name with its report.
    pub reports: Vec<(String, Report)>,
}

/// Told of every interval of every load, with its name.
pub type ProgressCallback<'a> = &'a mut dyn FnMut(&str, &Setup, &Progress);

/// One load that runs, or has ended.
struct RunningPlan {
    /// The generator's name.
    name: String,
    /// It does not keep its stage from ending.
    background: bool,
    setup: Setup,
    run: Run,
    /// Writes the report.
    recorder: Box<dyn Observer>,
    /// Read at the end; the recorder fills it.
    report: Arc<std::sync::Mutex<Report>>,
    /// The run is over; it is not turned any more.
    ended: bool,
}

/// `stop` ends the plan early (Ctrl-C): loads are told to stop and their figures are kept.
/// `meter` makes what watches the processes under test, for each load its own.
pub fn run<M: ProcessMeter + 'static>(
    prepared: &PreparedPlan,
    meter: &dyn Fn() -> M,
    stop: &AtomicBool,
    watcher: ProgressCallback<'_>,
) -> Result<PlanOutcome, String> {
    let mut stages: Vec<u32> = prepared.loads.iter().map(|load| load.generator.stage).collect();
    stages.sort_unstable();
    stages.dedup();
    let mut running: Vec<RunningPlan> = Vec::new();
    for stage in stages {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        // A server scenario listens before anything calls it.
        let mut loads: Vec<&PreparedLoad> =
            prepared.loads.iter().filter(|load| load.generator.stage == stage).collect();
        loads.sort_by_key(|load| !load.generator.background);
        for load in loads {
            running.push(start(load, meter())?);
        }
        turn_until(&mut running, stop, watcher, |load| load.background || load.ended);
    }
    end(&mut running, watcher);
    let order = |name: &str| prepared.loads.iter().position(|load| load.generator.name == name);
    let mut reports: Vec<(String, Report)> = running
        .into_iter()
        .map(|load| {
            let mut report = load.report.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
            if let Some(seed) = prepared.plan.seed.as_ref().filter(|seed| seed.generator == load.name) {
                report.tables = published::tables(seed, &report);
            }
            (load.name, report)
        })
        .collect();
    // Loads in the background were started first; reports have the order of the plan.
    reports.sort_by_key(|(name, _)| order(name));
    Ok(PlanOutcome { reports })
}

/// Starts one load with its recorder.
fn start<M: ProcessMeter + 'static>(load: &PreparedLoad, meter: M) -> Result<RunningPlan, String> {
    let Generator { name, background, thresholds, .. } = &load.generator;
    let parsed: Result<Vec<Threshold>, String> =
        thresholds.iter().map(|text| Threshold::parse(text)).collect();
    let recorder = Recorder::new(name, parsed?, meter);
    let report = recorder.report();
    let run = check_reachable(&load.setup).and_then(|()| Run::start(load.setup.clone()));
    let run = run.map_err(|error| format!("generator {name:?}: {}", error.message))?;
    Ok(RunningPlan {
        name: name.clone(),
        background: *background,
        setup: load.setup.clone(),
        run,
        recorder: Box::new(recorder),
        report,
        ended: false,
    })
}

/// Turns all loads until those that count are done. The first sight of `stop` ends the loads in the foreground softly.
fn turn_until(
    running: &mut [RunningPlan],
    stop: &AtomicBool,
    watcher: ProgressCallback<'_>,
    is_done: impl Fn(&RunningPlan) -> bool,
) {
    let mut told = false;
    while !running.iter().all(&is_done) {
        if stop.load(Ordering::Relaxed) && !told {
            told = true;
            running
                .iter()
                .filter(|load| !load.background)
                .for_each(|load| load.run.change(RunChange::SoftQuit));
        }
        running.iter_mut().for_each(|load| load.turn(watcher));
    }
}

/// Ends the loads that ran in the background: first their open calls may end, then they must.
fn end(running: &mut [RunningPlan], watcher: ProgressCallback<'_>) {
    running.iter().for_each(|load| load.run.change(RunChange::SoftQuit));
    let mut turns = 0;
    while !running.iter().all(|load| load.ended) {
        turns += 1;
        if turns == GRACE {
            running.iter().for_each(|load| load.run.change(RunChange::HardQuit));
        }
        running.iter_mut().for_each(|load| load.turn(watcher));
    }
}

impl RunningPlan {
    /// Waits up to `LOOK` for the load's next interval.
    fn turn(&mut self, watcher: ProgressCallback<'_>) {
        if self.ended {
            return;
        }
        match self.run.next(LOOK) {
            Event::Nothing => {}
            Event::Progress(progress) => {
                self.recorder.progress(&self.setup, &progress);
                watcher(&self.name, &self.setup, &progress);
            }
            Event::Ended(outcome) => {
                let outcome: &RunOutcome = &outcome;
                self.recorder.ended(&self.setup, outcome);
                self.ended = true;
            }
        }
    }
}

impl PlanOutcome {
    /// Every threshold kept and Ringer never the limit; loads without thresholds must not have failed a call.
    pub fn passed(&self) -> bool {
        self.reports.iter().all(|(_, report)| report.passed())
    }

    /// Ringer itself was the limit of at least one load.
    pub fn limited_by_ringer(&self) -> bool {
        self.reports.iter().any(|(_, report)| !report.limited_by_ringer.is_empty())
    }

    /// The report of the load with this name.
    pub fn report(&self, generator: &str) -> Option<&Report> {
        self.reports.iter().find(|(name, _)| name == generator).map(|(_, report)| report)
    }
}
