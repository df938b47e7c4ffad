//! slixmpp as a chat client and as a component.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::DOMAIN;
use crate::peer::python;

/// Runs `slixmpp/chat.py` with two accounts by way of `tcp` or `tls`; panics unless it succeeds.
pub fn chat_with_slixmpp(way: &str, port: u16, certificate: &Path, users: [&str; 2], password: &str) {
    let [alice, bob] = users.map(|user| format!("{user}@{DOMAIN}"));
    let certificate = certificate.display().to_string();
    run("slixmpp/chat.py", &[way, &port.to_string(), &certificate, &alice, &bob, password]);
}

/// Runs `slixmpp/phone.py`: the first account chats with the second's phone.
pub fn text_with_slixmpp(way: &str, port: u16, certificate: &Path, users: [&str; 2], password: &str) {
    let [alice, bob] = users.map(|user| format!("{user}@{DOMAIN}"));
    let certificate = certificate.display().to_string();
    run("slixmpp/phone.py", &[way, &port.to_string(), &certificate, &alice, &bob, password]);
}

/// Runs `slixmpp/share.py`: the first uploads a file, and the second fetches it. Panics unless it succeeds.
pub fn share_with_slixmpp(port: u16, certificate: &Path, users: [&str; 2], password: &str) {
    let [alice, bob] = users.map(|user| format!("{user}@{DOMAIN}"));
    let certificate = certificate.display().to_string();
    run("slixmpp/share.py", &[&port.to_string(), &certificate, &alice, &bob, password]);
}

/// Runs `slixmpp/transfer.py`: the first sends the second a file through the proxy of bytestreams. Panics unless it succeeds.
pub fn transfer_with_slixmpp(port: u16, certificate: &Path, users: [&str; 2], password: &str) {
    let [alice, bob] = users.map(|user| format!("{user}@{DOMAIN}"));
    let certificate = certificate.display().to_string();
    run("slixmpp/transfer.py", &[&port.to_string(), &certificate, &alice, &bob, password]);
}

/// Runs `slixmpp/nodes.py`: the first has nodes in collections, the second subscribes to one of these. Panics unless it succeeds.
pub fn collect_with_slixmpp(port: u16, certificate: &Path, users: [&str; 2], password: &str) {
    let [alice, bob] = users.map(|user| format!("{user}@{DOMAIN}"));
    let certificate = certificate.display().to_string();
    run("slixmpp/nodes.py", &[&port.to_string(), &certificate, &alice, &bob, password]);
}

/// Runs `slixmpp/put.py`: the user asks for a slot and fills it at each of these ports in turn. The path of the file, and the status of
/// each try. Panics unless it succeeds.
pub fn put_with_slixmpp(
    port: u16,
    certificate: &Path,
    (user, password): (&str, &str),
    http_ports: &[u16],
) -> (String, Vec<String>) {
    let (port, user) = (port.to_string(), format!("{user}@{DOMAIN}"));
    let certificate = certificate.display().to_string();
    let http_ports: Vec<String> = http_ports.iter().map(u16::to_string).collect();
    let mut arguments = vec![&*port, &*certificate, &*user, password];
    arguments.extend(http_ports.iter().map(String::as_str));
    let said = run("slixmpp/put.py", &arguments);
    let mut words = said.split_whitespace().map(str::to_owned);
    (words.next().expect("it prints the path"), words.collect())
}

/// Runs a script of a component: `slixmpp/component.py` echoes what `user` says, `slixmpp/privilege.py` acts for `user` (XEP-0356). The
/// component `domain` connects at `component_port`; panics unless the script succeeds.
pub fn run_slixmpp_component(
    script: &str,
    port: u16,
    certificate: &Path,
    (user, password): (&str, &str),
    component_port: u16,
    (domain, secret): (&str, &str),
) {
    let (port, component_port) = (port.to_string(), component_port.to_string());
    let (user, certificate) = (format!("{user}@{DOMAIN}"), certificate.display().to_string());
    run(script, &[&port, &certificate, &user, password, &component_port, domain, secret]);
}

/// Runs `profanity/chat.py`: the first user at a terminal with profanity, the second with slixmpp; panics unless it
/// succeeds.
pub fn chat_with_profanity(port: u16, certificate: &Path, users: [&str; 2], password: &str) {
    let [alice, bob] = users.map(|user| format!("{user}@{DOMAIN}"));
    let certificate = certificate.display().to_string();
    run("profanity/chat.py", &[&port.to_string(), &certificate, &alice, &bob, password]);
}

/// The output of the script; panics unless it succeeds.
fn run(script: &str, arguments: &[&str]) -> String {
    let output = Command::new(python("slixmpp"))
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(script))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("the interpreter can be run");
    let errors = String::from_utf8_lossy(&output.stderr);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}\n{errors}");
    said
}

/// Runs `slixmpp/federation.py`: the first user is at 127.0.0.1:`port` of ours, the other at a peer; both
/// have the password `secret`. Its output, when it fails.
///
/// # Errors
/// The script's output.
pub fn meet_with_slixmpp(certificate: &Path, own: (u16, &str), peer: (u16, &str)) -> Result<(), String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("slixmpp/federation.py");
    let output = Command::new(python("slixmpp"))
        .arg(script)
        .arg(certificate)
        .args([&own.0.to_string(), own.1, &peer.0.to_string(), peer.1, "secret"])
        .stdin(Stdio::null())
        .output()
        .expect("the interpreter can be run");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(()) } else { Err(text(&output.stdout) + &text(&output.stderr)) }
}

/// Runs `slixmpp/blocklist.py`: the first user of a peer keeps a block list there, and our node refuses the two others in rooms as the list
/// says.
///
/// # Errors
/// The script's output.
pub fn keep_block_list_with_slixmpp(port: u16, users: [&str; 3], room: &str) -> Result<(), String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("slixmpp/blocklist.py");
    let output = Command::new(python("slixmpp"))
        .arg(script)
        .arg(port.to_string())
        .args(users)
        .args([room, "secret"])
        .stdin(Stdio::null())
        .output()
        .expect("the interpreter can be run");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(()) } else { Err(text(&output.stdout) + &text(&output.stderr)) }
}
