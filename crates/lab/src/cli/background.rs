//! `-bg`: the program starts itself anew without a terminal and leaves. A fork would take only one thread along.

use std::process::{Command, Stdio};

/// Set in the child, so that it runs instead of starting another.
const MARK: &str = "RINGER_IN_BACKGROUND";

/// Whether this process is the one in the background.
pub(super) fn is_child() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Starts the same command in a process group of its own and gives its process id.
pub(super) fn start() -> std::io::Result<u32> {
    use std::os::unix::process::CommandExt as _;

    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_else(|| "ringer".into());
    let child = Command::new(std::env::current_exe()?)
        .arg0(name)
        .args(arguments)
        .env(MARK, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()?;
    Ok(child.id())
}
