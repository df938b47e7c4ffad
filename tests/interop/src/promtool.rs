//! Prometheus' own checks of rules and metrics.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::peer::installed;

/// Runs `promtool` in a folder with this input. Returns its output.
///
/// # Panics
/// With its output, if it finds a fault.
#[track_caller]
pub fn promtool(folder: &Path, arguments: &[&str], input: &str) -> String {
    let mut child = Command::new(installed("prometheus", "promtool"))
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it is there");
    // The whole input fits before it writes: its findings come at the end.
    child.stdin.take().expect("it is piped").write_all(input.as_bytes()).expect("it reads its input");
    let output = child.wait_with_output().expect("it ends");
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "promtool {arguments:?}:\n{text}");
    text
}
