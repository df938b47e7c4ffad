//! The page of users in Chromium, driven by puppeteer.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::DOMAIN;
use crate::network::Namespace;
use crate::peer::installed;

/// Runs a play of `webphone/play.cjs` with the page at `url`; panics unless it succeeds. `perform` does what the play asks of the
/// node. `pictures`: the folder that gets them.
pub fn play_in_browsers(url: &str, play: &str, pictures: Option<&Path>, perform: impl FnMut(&str)) {
    let mut command = Command::new("node");
    command.args(script()).args([url, DOMAIN, play]).args(pictures);
    run(command, play, perform);
}

/// Runs a play as [`play_in_browsers`] does, with browsers of this host; alice's password is not the usual one.
pub fn play_in_browsers_on(host: &Namespace, url: &str, play: &str, alices_password: &str) {
    let mut command = host.command("node");
    command.args(script()).args([url, DOMAIN, play]).env("ALICES_PASSWORD", alices_password);
    run(command, play, |line| panic!("the play asks for {line}"));
}

/// The script, and its first argument.
fn script() -> [PathBuf; 2] {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("webphone/play.cjs");
    [script, installed("browser", "node_modules")]
}

fn run(mut command: Command, play: &str, mut perform: impl FnMut(&str)) {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut node = command.spawn().expect("node can be run: run tools/setup");
    let (mut input, output) = (node.stdin.take().expect("piped"), node.stdout.take().expect("piped"));
    for line in BufReader::new(output).lines() {
        perform(&line.expect("text"));
        // A script that has failed meanwhile says so by its code.
        let _ = input.write_all(b"done\n");
    }
    let status = node.wait().expect("it was started");
    assert!(status.success(), "{play}: {status}; the cause is above");
}

/// `crates/web-app/assets/jssip.js`, made again from the packages that `jssip/package-lock.json` pins.
pub fn bundle_jssip() -> Vec<u8> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("jssip/bundle");
    let output = Command::new(script)
        .arg(installed("jssip", "node_modules"))
        .stdin(Stdio::null())
        .output()
        .expect("esbuild can be run: run tools/setup");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}
