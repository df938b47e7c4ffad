//! slixmpp as an administrator of chat.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::DOMAIN;
use crate::peer::python;

/// Runs `slixmpp/administer.py` with an administrator and another account; panics unless it succeeds.
pub fn administer_with_slixmpp(port: u16, certificate: &Path, users: [&str; 2], password: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("slixmpp/administer.py");
    let output = Command::new(python("slixmpp"))
        .arg(script)
        .arg(port.to_string())
        .arg(certificate)
        .args(users.map(|user| format!("{user}@{DOMAIN}")))
        .arg(password)
        .stdin(Stdio::null())
        .output()
        .expect("the interpreter can be run");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{errors}", String::from_utf8_lossy(&output.stdout));
}
