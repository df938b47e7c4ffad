//! @xmpp/client, which web pages chat with.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::DOMAIN;
use crate::peer::installed;

/// Runs `xmppjs/chat.js` with two accounts over the WebSocket at `url`; panics unless it succeeds.
/// `certificate`: trusted besides the system's.
pub fn chat_with_xmppjs(url: &str, certificate: &Path, users: [&str; 2], password: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("xmppjs/chat.js");
    let output = Command::new("node")
        .arg(script)
        .arg(installed("xmppjs", "node_modules"))
        .args([url, DOMAIN])
        .args(users)
        .arg(password)
        .env("NODE_EXTRA_CA_CERTS", certificate)
        .stdin(Stdio::null())
        .output()
        .expect("node can be run: run tools/setup");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{errors}", String::from_utf8_lossy(&output.stdout));
}
