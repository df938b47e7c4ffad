//! The operators' console in Chromium, driven by puppeteer-core.

use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::peer::installed;

/// Runs `browser/console.cjs` against the console at `url`; panics unless it succeeds. `facts` is what the script is to find, in JSON.
/// Pictures of the pages are written into `docs/console` if `BLESS` is set.
pub fn drive_console_in_chromium(url: &str, facts: &serde_json::Value) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let profile = TempDir::new().expect("a temporary folder");
    let mut command = Command::new("node");
    command
        .arg(here.join("browser/console.cjs"))
        .arg(installed("browser", "node_modules"))
        .arg(url)
        .arg(facts.to_string())
        .arg(profile.path());
    if std::env::var_os("BLESS").is_some() {
        command.arg(here.join("../../docs/console"));
    }
    let output = command.stdin(Stdio::null()).output().expect("node can be run: run tools/setup");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{errors}", String::from_utf8_lossy(&output.stdout));
}
