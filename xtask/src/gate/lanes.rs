//! Test programs, several at once. Those with real peers mostly wait for them and for time to pass: they have
//! [`REAL_LANES`] lanes, and the pure ones, which keep the processors busy, one beside them, which takes of the others
//! when the pure ones have ended. The output of a program is shown whole when it ends, so that the lines of two never mix.

use std::sync::Mutex;

use anyhow::{Context as _, Result};

use super::executable::Executable;
use super::outcome::Outcome;

/// Programs with real peers that run at once.
const REAL_LANES: usize = 2;

/// One run of a test program.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) output: String,
    pub(super) succeeded: bool,
}

impl Run {
    pub(super) fn outcome(&self) -> Outcome {
        Outcome::read(&self.output)
    }

    /// It ended otherwise than a program of tests does, such as by a signal.
    pub(super) fn is_unfinished(&self, outcome: &Outcome) -> bool {
        !outcome.has_result || (outcome.failed.is_empty() && !self.succeeded)
    }
}

/// A test program that has run.
#[derive(Debug)]
pub(super) struct Finished<'a> {
    pub(super) executable: &'a Executable,
    pub(super) run: Run,
}

impl Finished<'_> {
    /// Failed tests with their program, or the program alone where it has not come to its end.
    pub(super) fn failures(&self) -> Vec<String> {
        let (name, outcome) = (&self.executable.target.name, self.run.outcome());
        let unfinished = self.run.is_unfinished(&outcome).then(|| format!("{name} (ended without a result)"));
        outcome.failed.iter().map(|test| format!("{name} {test}")).chain(unfinished).collect()
    }
}

/// Runs each program once, with the `arguments` for it.
pub(super) fn run<'a>(
    executables: &'a [Executable],
    arguments: fn(&Executable) -> &'static [&'static str],
) -> Result<Vec<Finished<'a>>> {
    let (mut real, pure): (Vec<_>, Vec<_>) = executables.iter().partition(|it| it.real_tests().is_some());
    // In the order of the list: the longest first, so that no lane works alone at the end.
    real.sort_by_key(|it| {
        super::REAL.iter().position(|entry| it.real_tests().is_some_and(|ours| std::ptr::eq(ours, entry)))
    });
    let (real, pure) = (Queue::new(real), Queue::new(pure));
    let finished = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let queues = std::iter::repeat_n(vec![&real], REAL_LANES).chain([vec![&pure, &real]]);
        let finished = &finished;
        let lanes: Vec<_> =
            queues.map(|queues| scope.spawn(move || run_lane(&queues, arguments, finished))).collect();
        lanes.into_iter().try_for_each(|lane| lane.join().expect("a lane does not panic"))
    })?;
    finished.into_inner().ok().context("a lane panicked")
}

/// Programs that wait for a lane.
struct Queue<'a>(Mutex<std::vec::IntoIter<&'a Executable>>);

impl<'a> Queue<'a> {
    fn new(executables: Vec<&'a Executable>) -> Queue<'a> {
        Queue(Mutex::new(executables.into_iter()))
    }

    fn next(&self) -> Option<&'a Executable> {
        self.0.lock().ok()?.next()
    }
}

/// Runs the programs of the first queue, then those that are left in the next.
fn run_lane<'a>(
    queues: &[&Queue<'a>],
    arguments: fn(&Executable) -> &'static [&'static str],
    finished: &Mutex<Vec<Finished<'a>>>,
) -> Result<()> {
    while let Some(executable) = queues.iter().find_map(|queue| queue.next()) {
        let name = &executable.target.name;
        eprintln!("gate: {name} begins ({})", executable.target.source);
        let run = executable.run_captured(arguments(executable))?;
        let mut finished = finished.lock().map_err(|_| anyhow::anyhow!("another lane panicked"))?;
        println!("     Running {} ({name})", executable.target.source);
        println!("{}", run.output);
        finished.push(Finished { executable, run });
    }
    Ok(())
}
