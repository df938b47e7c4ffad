//! Strophe, with which web pages chat over BOSH.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::DOMAIN;
use crate::peer::installed;

/// Runs `strophe/chat.cjs` with two accounts over BOSH at `url`; panics unless it succeeds. `certificate`:
/// trusted besides the system's.
pub fn chat_with_strophe(url: &str, certificate: &Path, users: [&str; 2], password: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("strophe/chat.cjs");
    let output = Command::new("node")
        .arg(script)
        .arg(installed("strophe", "node_modules"))
        .arg(url)
        .args(users.map(|user| format!("{user}@{DOMAIN}")))
        .arg(password)
        .env("NODE_EXTRA_CA_CERTS", certificate)
        .stdin(Stdio::null())
        .output()
        .expect("node can be run: run tools/setup");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{errors}", String::from_utf8_lossy(&output.stdout));
}
