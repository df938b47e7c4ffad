//! `ringer worker`: started by `ringer xmpp` alone, when one process may not open as many files as there are users.

use super::{ExitCode, xmpp};
use crate::engine::WorkerProcess;

/// Serves one run and ends with it. A setup that cannot be built is told to the run, which prints it.
pub(super) fn main(program: &str) -> ExitCode {
    let worker = match WorkerProcess::from_stdin() {
        Ok(worker) => worker,
        Err(why) => {
            eprintln!("{program}: {why}");
            return ExitCode::Fatal;
        }
    };
    let setup = xmpp::build(worker.words()).map(|(setup, _)| setup);
    // Without the run there is no process to report an error to.
    if worker.work(setup).is_ok() { ExitCode::Success } else { ExitCode::Fatal }
}
