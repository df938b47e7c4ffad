//! `belfry serve`: one node, or several processes of one configuration, each a node of its own, under this one as their supervisor.
//!
//! With `--processes N` the command becomes a supervisor: it starts itself N times with `--process I/N`, the first alone until it serves, and then
//! the others. Signals go on to all of them, and a process that fails is started again after a pause, except when another start would fail the same
//! way.

use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use clap::Args;
use config::{Config, PROCESSES, ProcessNumber};
use control::Client;
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::broadcast;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep};

use super::error::CliError;
use super::owner::refuse_foreign;
use super::service_manager::{ServiceManager, VARIABLES};

/// The pause before a process that has failed is started again; twice as long each time, up to the second number.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// A process that was up for so long has not failed at its start.
const UP: Duration = Duration::from_mins(1);
/// The pause between two looks whether the first process serves.
const LOOK: Duration = Duration::from_millis(100);
/// The interval of the supervisor's signs of life where no service manager wants any.
const UNWATCHED: Duration = Duration::from_hours(1);
/// Exit codes that another start does not change: usage, configuration (`sysexits.h`).
const NOT_AGAIN: [i32; 2] = [2, 78];
/// The code of a node that the farm counts as dead: its next life may begin at once.
const DEAD: i32 = 75;

#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    /// So many processes of this machine, each a node of its own: they share the addresses of SIP and chat, and a machine is used whole
    /// that has many cores or a low limit on open files. Needs [farm] and [store] url
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=i64::from(PROCESSES)))]
    processes: Option<u16>,
    /// This process of those, as the supervisor starts it
    #[arg(long, value_name = "NUMBER/N", hide = true, conflicts_with = "processes")]
    process: Option<ProcessNumber>,
}

impl ServeArgs {
    pub(super) fn run(
        self,
        config: Config,
        serve: impl FnOnce(Config) -> anyhow::Result<()>,
    ) -> Result<(), CliError> {
        refuse_foreign(&config.server.data, "serve")?;
        if let Some(count) = self.processes {
            return supervise(&config, count);
        }
        let config = match self.process {
            Some(process) => {
                // The supervisor may be killed.
                // Without it the processes would go on without a supervisor, and a new one would find their
                // ports taken.
                let _ = set_parent_process_death_signal(Some(Signal::TERM));
                config.for_process(process).map_err(CliError::Config)?
            }
            None => config,
        };
        serve(config).map_err(|error| CliError::Other(format!("{error:#}")))
    }
}

/// Runs the processes until all have ended.
fn supervise(config: &Config, count: u16) -> Result<(), CliError> {
    // A configuration that does not fit so many processes is refused before the first one starts.
    for process in ProcessNumber::all(count) {
        config.clone().for_process(process).map_err(CliError::Config)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(Supervisor::new(config)?.run(config, count))
}

/// Starts processes, passes signals on to them, and starts those again that fail.
struct Supervisor {
    /// This program itself.
    program: PathBuf,
    /// The file of `--config`, for the processes.
    file: Option<PathBuf>,
    /// Signals for the processes.
    orders: broadcast::Sender<Signal>,
    /// One task a process, which ends when the process is not to be started again.
    processes: JoinSet<Result<(), CliError>>,
}

impl Supervisor {
    fn new(config: &Config) -> Result<Supervisor, CliError> {
        // People and systemd send a few signals.
        let (orders, _) = broadcast::channel(16);
        let program = std::env::current_exe()?;
        Ok(Supervisor { program, file: config.file.clone(), orders, processes: JoinSet::new() })
    }

    /// Ends when all processes have: with an error if one of them cannot be mended by another start, which ends the others, too.
    async fn run(mut self, config: &Config, count: u16) -> Result<(), CliError> {
        let mut hangup = signal(SignalKind::hangup())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut processes = ProcessNumber::all(count);
        // The first makes what all share: the certificate, the schema of the database.
        processes.next().into_iter().for_each(|first| self.start(first));
        // The first process has the control socket that the configuration names (`Config::for_process`).
        let mut first_serves = std::pin::pin!(until_served(config.server.control.clone()));
        let (mut is_first_up, mut is_leaving, mut result) = (false, false, Ok(()));
        let manager = ServiceManager::from_environment();
        let mut alive = interval(manager.alive_interval().unwrap_or(UNWATCHED));
        loop {
            let order = tokio::select! {
                _ = alive.tick() => {
                    manager.alive();
                    continue;
                }
                // SIGHUP: all read their configuration again.
                _ = hangup.recv() => Signal::HUP,
                _ = terminate.recv() => Signal::TERM,
                _ = interrupt.recv() => Signal::TERM,
                () = &mut first_serves, if !is_first_up => {
                    is_first_up = true;
                    manager.ready();
                    processes.by_ref().filter(|_| !is_leaving).for_each(|process| self.start(process));
                    continue;
                }
                ended = self.processes.join_next() => match ended {
                    None => return result,
                    // One process has ended in order, as after `belfry drain` at it; the others go on.
                    Some(Ok(Ok(()))) => continue,
                    Some(failed) => {
                        result = failed.unwrap_or_else(|error| Err(CliError::Other(error.to_string())));
                        Signal::TERM
                    }
                },
            };
            if order == Signal::TERM && !std::mem::replace(&mut is_leaving, true) {
                manager.stopping();
            }
            // Without receivers the processes have just ended.
            let _ = self.orders.send(order);
        }
    }

    /// The processes are told nothing of the service manager: the supervisor speaks to it for all.
    fn start(&mut self, process: ProcessNumber) {
        let mut command = Command::new(&self.program);
        command.args(["serve", "--process", &process.to_string()]);
        if let Some(file) = &self.file {
            command.arg("--config").arg(file);
        }
        for name in VARIABLES {
            command.env_remove(name);
        }
        // Ctrl-C comes to this process alone, which passes it on once.
        command.process_group(0).kill_on_drop(true);
        self.processes.spawn(keep_running(command, process, self.orders.subscribe()));
    }
}

/// Runs a process until it has done its work or cannot be mended by another start.
async fn keep_running(
    mut command: Command,
    process: ProcessNumber,
    mut orders: broadcast::Receiver<Signal>,
) -> Result<(), CliError> {
    let (mut is_first, mut pause) = (true, PAUSE.0);
    loop {
        let began = Instant::now();
        let mut child = command.spawn()?;
        let mut is_leaving = false;
        let status = loop {
            tokio::select! {
                status = child.wait() => break status?,
                Some(order) = next_order(&mut orders) => {
                    is_leaving |= order == Signal::TERM;
                    pass_on(child.id(), order);
                }
            }
        };
        // A process that served for a while and failed then is not one whose start fails: it begins again, at
        // the shortest pause.
        let was_up = began.elapsed() >= UP;
        match Next::after(status, is_leaving, is_first && !was_up) {
            Next::End => return Ok(()),
            Next::Fail(code) => return Err(CliError::Said(code)),
            Next::Start => {}
        }
        (is_first, pause) = (false, if was_up { PAUSE.0 } else { pause });
        // Its buckets are given away already; each second without it is lost.
        let wait = if status.code() == Some(DEAD) { Duration::ZERO } else { pause };
        eprintln!("belfry: process {process} has ended ({status}) and starts again in {} s", wait.as_secs());
        let end = sleep(wait);
        tokio::pin!(end);
        loop {
            tokio::select! {
                () = &mut end => break,
                Some(order) = next_order(&mut orders) => if order == Signal::TERM { return Ok(()) },
            }
        }
        pause = (pause * 2).min(PAUSE.1);
    }
}

/// The next signal for the process; `None`: there will be no more. Signals that came faster than they were taken are left out, and the
/// oldest that is left is the next: `Lagged` as an answer would end the waiting of the caller's `select!`.
async fn next_order(orders: &mut broadcast::Receiver<Signal>) -> Option<Signal> {
    loop {
        match orders.recv().await {
            Ok(order) => return Some(order),
            Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => return None,
        }
    }
}

/// The step after a process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// It was drained or stopped.
    End,
    /// It starts again.
    Start,
    /// It has said why it cannot run: the code.
    Fail(u8),
}

impl Next {
    /// `is_start`: it has not been up before.
    fn after(status: ExitStatus, is_leaving: bool, is_start: bool) -> Next {
        match status.code() {
            Some(0) => Next::End,
            _ if is_leaving => Next::End,
            Some(code) if NOT_AGAIN.contains(&code) || is_start && code != DEAD => {
                Next::Fail(u8::try_from(code).unwrap_or(1))
            }
            _ => Next::Start,
        }
    }
}

/// Sends a signal to the process, if it still runs.
fn pass_on(id: Option<u32>, order: Signal) {
    let pid = id.and_then(|id| Pid::from_raw(id.cast_signed()));
    // It may have ended meanwhile, which its status says.
    let _ = pid.map(|pid| kill_process(pid, order));
}

/// Returns when a node answers at this control socket.
async fn until_served(control: PathBuf) {
    loop {
        let socket = control.clone();
        let answer = tokio::task::spawn_blocking(move || Client::connect(&socket).is_ok());
        if answer.await.unwrap_or(false) {
            return;
        }
        sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    fn exit(code: i32) -> ExitStatus {
        ExitStatus::from_raw(code << 8)
    }

    #[test]
    fn a_process_that_fails_starts_again_unless_that_cannot_help() {
        let killed = ExitStatus::from_raw(9);
        assert_eq!(Next::after(exit(0), false, false), Next::End, "drained");
        assert_eq!(Next::after(killed, true, false), Next::End, "stopped");
        assert_eq!(Next::after(killed, false, true), Next::Start);
        assert_eq!(Next::after(exit(1), false, false), Next::Start);
        assert_eq!(Next::after(exit(DEAD), false, true), Next::Start, "its name was still taken");
        assert_eq!(Next::after(exit(1), false, true), Next::Fail(1), "it has never served");
        assert_eq!(Next::after(exit(78), false, false), Next::Fail(78), "the configuration was changed");
    }

    /// A burst of signals must not make the supervisor deaf until its process ends.
    #[tokio::test]
    async fn signals_after_a_burst_arrive() {
        let (sender, mut orders) = broadcast::channel(2);
        for order in [Signal::HUP, Signal::HUP, Signal::HUP, Signal::TERM] {
            sender.send(order).unwrap();
        }
        assert_eq!(next_order(&mut orders).await, Some(Signal::HUP));
        assert_eq!(next_order(&mut orders).await, Some(Signal::TERM));
        drop(sender);
        assert_eq!(next_order(&mut orders).await, None);
    }
}
