//! Accounts that chat clients make which are not ours.

use std::process::{Command, Stdio};

use interop::{DOMAIN, Node, free_port, python};

#[test]
fn slixmpp_makes_an_account_changes_its_password_and_removes_it() {
    let port = free_port();
    let sections = format!(
        "[xmpp]\nlisten = [\"tcp:127.0.0.1:{port}\"]\n[xmpp.registration]\nopen = true\nremoval = true\n"
    );
    let node = Node::prepare().with_sections(&sections).started();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/slixmpp/account.py");
    let output = Command::new(python("slixmpp"))
        .args([script, &port.to_string()])
        .arg(node.certificate())
        .arg(format!("carol@{DOMAIN}"))
        .stdin(Stdio::null())
        .output()
        .expect("the interpreter can be run");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{}\n{errors}\n{}",
        String::from_utf8_lossy(&output.stdout),
        node.tail()
    );
}
