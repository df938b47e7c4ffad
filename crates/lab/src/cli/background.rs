//! `-bg`: the program starts itself anew without a terminal and leaves. A fork would take only one thread along.

use std::process::{Command, Stdio};

/// Set in the child, so that it runs instead of starting another.
const MARK: &str = "RINGER_IN_BACKGROUND";

/// True if this process is the one in the background.
pub(super) fn is_child() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Starts the same command without standard streams and gives its process id. It leaves the session itself, by
/// [`detach`]: for that it must not lead a process group.
// Everything of the command line passes through, so that parent and child read the same flags.
pub(super) fn start() -> std::io::Result<u32> {
    use std::os::unix::process::CommandExt as _;

    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_else(|| "ringer".into());
    let child = Command::new(std::env::current_exe()?)
        // The name that the operator typed stays in the list of processes.
        .arg0(name)
        .args(arguments)
        .env(MARK, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok(child.id())
}

/// In the child: out of the terminal's session, so that its end and its Ctrl-C do not reach the run.
pub(super) fn detach() {
    // One that leads a group already was started by hand with the mark set; it runs all the same.
    let _ = super::detach::leave_session();
}
