//! `<exec command>`: a shell's child, not waited for by the call, reaped by a thread of its own.

use std::io;
use std::process::{Command, Stdio};

/// Runs `sh -c command` beside us. It keeps our standard output, as SIPp's does.
pub(super) fn run(command: &str) -> io::Result<()> {
    let mut child = Command::new("sh").arg("-c").arg(command).stdin(Stdio::null()).spawn()?;
    std::thread::Builder::new().name("exec".to_owned()).stack_size(64 << 10).spawn(move || child.wait())?;
    Ok(())
}
