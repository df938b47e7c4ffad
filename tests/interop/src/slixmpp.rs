//! slixmpp as a chat client.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::DOMAIN;
use crate::peer::python;

/// Runs `slixmpp/chat.py` with two accounts by way of `tcp` or `tls`; panics unless it succeeds.
pub fn chat_with_slixmpp(way: &str, port: u16, certificate: &Path, users: [&str; 2], password: &str) {
    run("chat.py", &[way, &port.to_string()], certificate, users, password);
}

/// Runs `slixmpp/share.py`: the first uploads a file, and the second fetches it. Panics unless it succeeds.
pub fn share_with_slixmpp(port: u16, certificate: &Path, users: [&str; 2], password: &str) {
    run("share.py", &[&port.to_string()], certificate, users, password);
}

fn run(script: &str, way: &[&str], certificate: &Path, users: [&str; 2], password: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("slixmpp").join(script);
    let output = Command::new(python("slixmpp"))
        .arg(script)
        .args(way)
        .arg(certificate)
        .args(users.map(|user| format!("{user}@{DOMAIN}")))
        .arg(password)
        .stdin(Stdio::null())
        .output()
        .expect("the interpreter can be run");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{errors}", String::from_utf8_lossy(&output.stdout));
}
