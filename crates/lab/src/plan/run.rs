//! Runs a prepared plan: stage by stage, the loads of a stage together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::beside;
use super::model::Generator;
use super::prepare::{Load, Prepared};
use crate::engine::{Change, Event, Outcome, Progress, Run, Setup, check_reachable};
use crate::report::{Meter, Recorder, Report};
use crate::session::Observer;
use crate::threshold::Threshold;

/// How long open calls may take to end once a load was told to stop.
const GRACE: u32 = 100;
/// How often each load is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// What a plan gave: a report a load, in the order of the plan.
pub struct Finished {
    pub reports: Vec<(String, Report)>,
}

/// Told of every interval of every load, with its name.
pub type Watcher<'a> = &'a mut dyn FnMut(&str, &Setup, &Progress);

struct Running {
    name: String,
    background: bool,
    setup: Setup,
    run: Run,
    recorder: Box<dyn Observer>,
    report: Arc<std::sync::Mutex<Report>>,
    ended: bool,
}

/// `stop` ends the plan early (Ctrl-C): loads are told to stop and their figures are kept.
/// `meter` makes what watches the processes under test, for each load its own.
pub fn run<M: Meter + 'static>(
    prepared: &Prepared,
    meter: &dyn Fn() -> M,
    stop: &AtomicBool,
    watcher: Watcher<'_>,
) -> Result<Finished, String> {
    let mut stages: Vec<u32> = prepared.loads.iter().map(|load| load.generator.stage).collect();
    stages.sort_unstable();
    stages.dedup();
    let mut running: Vec<Running> = Vec::new();
    for stage in stages {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        // A server scenario listens before anything calls it.
        let mut loads: Vec<&Load> =
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
                report.tables = beside::tables(seed, &report);
            }
            (load.name, report)
        })
        .collect();
    reports.sort_by_key(|(name, _)| order(name));
    Ok(Finished { reports })
}

fn start<M: Meter + 'static>(load: &Load, meter: M) -> Result<Running, String> {
    let Generator { name, background, thresholds, .. } = &load.generator;
    let parsed: Result<Vec<Threshold>, String> =
        thresholds.iter().map(|text| Threshold::parse(text)).collect();
    let recorder = Recorder::new(name, parsed?, meter);
    let report = recorder.report();
    let run = check_reachable(&load.setup).and_then(|()| Run::start(load.setup.clone()));
    let run = run.map_err(|error| format!("generator {name:?}: {}", error.message))?;
    Ok(Running {
        name: name.clone(),
        background: *background,
        setup: load.setup.clone(),
        run,
        recorder: Box::new(recorder),
        report,
        ended: false,
    })
}

fn turn_until(
    running: &mut [Running],
    stop: &AtomicBool,
    watcher: Watcher<'_>,
    is_done: impl Fn(&Running) -> bool,
) {
    let mut told = false;
    while !running.iter().all(&is_done) {
        if stop.load(Ordering::Relaxed) && !told {
            told = true;
            running.iter().filter(|load| !load.background).for_each(|load| load.run.change(Change::SoftQuit));
        }
        running.iter_mut().for_each(|load| load.turn(watcher));
    }
}

/// Ends the loads that ran in the background: first their open calls may end, then they must.
fn end(running: &mut [Running], watcher: Watcher<'_>) {
    running.iter().for_each(|load| load.run.change(Change::SoftQuit));
    let mut turns = 0;
    while !running.iter().all(|load| load.ended) {
        turns += 1;
        if turns == GRACE {
            running.iter().for_each(|load| load.run.change(Change::HardQuit));
        }
        running.iter_mut().for_each(|load| load.turn(watcher));
    }
}

impl Running {
    fn turn(&mut self, watcher: Watcher<'_>) {
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
                let outcome: &Outcome = &outcome;
                self.recorder.ended(&self.setup, outcome);
                self.ended = true;
            }
        }
    }
}

impl Finished {
    /// Every threshold kept and Ringer never the limit; loads without thresholds must not have failed a call.
    pub fn passed(&self) -> bool {
        self.reports.iter().all(|(_, report)| report.passed())
    }

    pub fn limited_by_ringer(&self) -> bool {
        self.reports.iter().any(|(_, report)| !report.limited_by_ringer.is_empty())
    }

    pub fn report(&self, generator: &str) -> Option<&Report> {
        self.reports.iter().find(|(name, _)| name == generator).map(|(_, report)| report)
    }
}
