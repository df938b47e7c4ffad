//! `<exec command>` and `<exec verify>`: a shell's child, reaped by a thread of its own.
//!
//! The shard never waits for a process. 64 KB of stack are enough for a thread that only waits.

use std::io;
use std::process::{Command, Stdio};

/// Runs `sh -c command` beside us. It keeps our standard output, as SIPp's does.
pub(super) fn run(command: &str) -> io::Result<()> {
    let mut child = Command::new("sh").arg("-c").arg(command).stdin(Stdio::null()).spawn()?;
    std::thread::Builder::new().name("exec".to_owned()).stack_size(64 << 10).spawn(move || child.wait())?;
    Ok(())
}

/// Runs `sh -c command` beside us and calls `done` with its verdict, in another thread: `Err` says how it ended when not
/// with exit code 0, or why it did not run.
pub(super) fn verify(
    command: String,
    done: impl FnOnce(Result<(), String>) + Send + 'static,
) -> io::Result<()> {
    let run = move || {
        let ended = Command::new("sh").arg("-c").arg(&command).stdin(Stdio::null()).status();
        done(match ended {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("{command:?} ended with {status}")),
            Err(error) => Err(format!("cannot run {command:?}: {error}")),
        });
    };
    std::thread::Builder::new().name("verify".to_owned()).stack_size(64 << 10).spawn(run)?;
    Ok(())
}
