//! SIPp and Ringer side by side: the same scenarios run SIPp against SIPp, then with Ringer in place of either end;
//! messages, counts, logs and exit codes must be the same.
//!
//! A case is `corpus/NAME.case`, lines of `key = words`; `{here}` is the corpus folder, `{server}` the server's port:
//!
//! ```text
//! client = -sf {here}/NAME.client.xml -m 3
//! server = -sf {here}/NAME.server.xml -m 3
//! varies = X-Time X-Date          headers (and log lines that start so) whose values are not compared
//! ignore = Retransmissions        counts that are not compared, with a comment that says why
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::peer::Peer;
use crate::wait::{free_port, lines_in, wait_until};

/// Which program plays an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    Sipp,
    Ringer,
}

/// What one end did, with everything taken out that differs from run to run.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    exit: Option<i32>,
    /// By call in order of appearance: `→` or `←` and the message.
    calls: Vec<Vec<String>>,
    counts: BTreeMap<String, String>,
    logs: Vec<String>,
}

struct Case {
    name: String,
    client: Vec<String>,
    server: Option<Vec<String>>,
    varies: Vec<String>,
    ignore: Vec<String>,
}

/// Columns of the statistics that must agree, as SIPp names them; `(C)` is the total.
const COUNTS: &[&str] = &[
    "IncomingCall(C)",
    "OutgoingCall(C)",
    "SuccessfulCall(C)",
    "FailedCall(C)",
    "FailedCannotSendMessage(C)",
    "FailedMaxUDPRetrans(C)",
    "FailedTcpConnect(C)",
    "FailedTcpClosed(C)",
    "FailedUnexpectedMessage(C)",
    "FailedCallRejected(C)",
    "FailedCmdNotSent(C)",
    "FailedRegexpDoesntMatch(C)",
    "FailedRegexpShouldntMatch(C)",
    "FailedRegexpHdrNotFound(C)",
    "FailedOutboundCongestion(C)",
    "FailedTimeoutOnRecv(C)",
    "FailedTimeoutOnSend(C)",
    "FailedTestDoesntMatch(C)",
    "FailedTestShouldntMatch(C)",
    "FailedStrcmpDoesntMatch(C)",
    "FailedStrcmpShouldntMatch(C)",
    "OutOfCallMsgs(C)",
    "DeadCallMsgs(C)",
    "Retransmissions(C)",
    "AutoAnswered(C)",
];

/// Runs a case in its three line-ups; panics with the first difference.
pub fn compare(name: &str) {
    let case = Case::read(name);
    let (client_port, server_port) = (free_port(), free_port());
    let run = |client, server| case.run(client, server, client_port, server_port);
    let reference = run(Tool::Sipp, Tool::Sipp);
    for (client, server) in [(Tool::Ringer, Tool::Sipp), (Tool::Sipp, Tool::Ringer)] {
        let seen = run(client, server);
        for (end, wanted, found) in [
            ("client", &reference.0, Some(&seen.0)),
            ("server", reference.1.as_ref().unwrap_or(&reference.0), seen.1.as_ref()),
        ] {
            let Some(found) = found else { continue };
            assert_same(&format!("{name}: {client:?} calls {server:?}, at the {end}"), wanted, found);
        }
        if case.server.is_none() {
            break;
        }
    }
}

fn assert_same(what: &str, wanted: &Seen, found: &Seen) {
    assert!(
        wanted.exit == found.exit,
        "{what}: exit code {:?}, with SIPp alone {:?}",
        found.exit,
        wanted.exit
    );
    for (name, value) in &wanted.counts {
        let other = found.counts.get(name);
        assert!(other == Some(value), "{what}: {name} is {other:?}, with SIPp alone {value}");
    }
    assert!(
        wanted.calls.len() == found.calls.len(),
        "{what}: {} calls on the wire, with SIPp alone {}",
        found.calls.len(),
        wanted.calls.len()
    );
    for (number, (wanted, found)) in wanted.calls.iter().zip(&found.calls).enumerate() {
        for (index, (wanted, found)) in wanted.iter().zip(found).enumerate() {
            assert!(
                wanted == found,
                "{what}: call {number}, message {index} differs; with SIPp alone:\n{wanted}\nnow:\n{found}"
            );
        }
        assert!(
            wanted.len() == found.len(),
            "{what}: call {number} has {} messages, with SIPp alone {}:\n{}",
            found.len(),
            wanted.len(),
            found.join("\n")
        );
    }
    assert!(
        wanted.logs == found.logs,
        "{what}: log lines differ; with SIPp alone:\n{}\nnow:\n{}",
        wanted.logs.join("\n"),
        found.logs.join("\n")
    );
}

/// Cases there are, by file.
pub fn cases() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(corpus())
        .expect("the corpus is part of the sources")
        .filter_map(|entry| {
            entry.ok()?.file_name().into_string().ok()?.strip_suffix(".case").map(str::to_owned)
        })
        .collect();
    names.sort();
    names
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

impl Case {
    fn read(name: &str) -> Case {
        let path = corpus().join(format!("{name}.case"));
        let mut keys: BTreeMap<String, String> = BTreeMap::new();
        for line in lines_in(&path).iter().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
            let (key, value) = line.split_once('=').unwrap_or_else(|| panic!("{}: {line}", path.display()));
            keys.insert(key.trim().to_owned(), value.trim().to_owned());
        }
        let words = |key: &str| -> Option<Vec<String>> {
            keys.get(key).map(|value| value.split_whitespace().map(str::to_owned).collect())
        };
        Case {
            name: name.to_owned(),
            client: words("client").unwrap_or_else(|| panic!("{}: no client", path.display())),
            server: words("server"),
            varies: words("varies").unwrap_or_default(),
            ignore: words("ignore").unwrap_or_default(),
        }
    }

    fn run(&self, client: Tool, server: Tool, client_port: u16, server_port: u16) -> (Seen, Option<Seen>) {
        let answering = self.server.as_ref().map(|words| {
            let end = End::start(self, server, "server", words, server_port, server_port);
            end.wait_until_bound();
            end
        });
        let calling = End::start(self, client, "client", &self.client, client_port, server_port);
        let seen = calling.seen(self);
        (seen, answering.map(|end| end.seen(self)))
    }
}

/// One program of a run.
struct End {
    peer: Peer,
    folder: TempDir,
    port: u16,
}

impl End {
    fn start(case: &Case, tool: Tool, role: &str, words: &[String], port: u16, server_port: u16) -> End {
        let folder = TempDir::new().expect("a temporary folder");
        let mut arguments: Vec<String> = words
            .iter()
            .map(|word| {
                word.replace("{here}", &corpus().display().to_string())
                    .replace("{server}", &server_port.to_string())
            })
            .collect();
        let fixed = "-i 127.0.0.1 -nostdin -trace_msg -message_file messages.txt -trace_stat -stf stat.csv -fd 1 \
                     -trace_err -error_file errors.txt -trace_logs -log_file log.txt -timeout 60s";
        arguments.extend(fixed.split_whitespace().map(str::to_owned));
        arguments.extend(["-p".to_owned(), port.to_string()]);
        if role == "client" {
            arguments.push(format!("127.0.0.1:{server_port}"));
        }
        let program = match tool {
            Tool::Sipp => "sipp".to_owned(),
            Tool::Ringer => ringer().display().to_string(),
        };
        if tool == Tool::Ringer {
            arguments.insert(0, "sip".to_owned());
        }
        let name = format!("{}-{role}", case.name);
        let peer = Peer::start(&name, &program, &arguments, folder.path());
        End { peer, folder, port }
    }

    fn wait_until_bound(&self) {
        // Linux lists bound sockets by the port in hexadecimal; TCP's in LISTEN have state 0A.
        let entry = format!(":{:04X} ", self.port);
        let is_bound = || {
            ["/proc/net/udp", "/proc/net/tcp"]
                .iter()
                .any(|list| lines_in(Path::new(list)).iter().any(|line| line.contains(&entry)))
        };
        wait_until("the server to listen", Duration::from_secs(20), is_bound, || self.explain());
    }

    fn explain(&self) -> String {
        let errors = lines_in(&self.folder.path().join("errors.txt"));
        format!("{}\n{}", self.peer.tail(), errors[..errors.len().min(40)].join("\n"))
    }

    fn seen(mut self, case: &Case) -> Seen {
        let pid = self.peer.id();
        let exit = self.peer.wait(Duration::from_secs(90)).code();
        let read = |name: &str| {
            let bytes = std::fs::read(self.folder.path().join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let plain = |text: &str| normalise(text, pid, &case.varies);
        Seen {
            exit,
            calls: by_call(&read("messages.txt"), &plain),
            counts: counts(&read("stat.csv"), &case.ignore),
            logs: read("log.txt").lines().map(plain).collect(),
        }
    }
}

/// Messages of a `-trace_msg` file by call, each as `→ text` or `← text`.
fn by_call(trace: &str, plain: &dyn Fn(&str) -> String) -> Vec<Vec<String>> {
    let mut calls: Vec<(String, Vec<String>)> = Vec::new();
    // `----…---- 2026-11-21 10:00:00.000000` then `UDP message sent (123 bytes):`, an empty line, the message.
    for block in trace.split("-----------------------------------------------") {
        let Some((head, message)) = block.split_once("\n\n").map(|(head, rest)| (head, rest.trim_end()))
        else {
            continue;
        };
        let arrow = match (head.contains(" sent"), head.contains(" received")) {
            (true, _) => "→",
            (_, true) => "←",
            _ => continue,
        };
        let id = message
            .lines()
            .find_map(|line| {
                let (name, value) = line.split_once(':')?;
                (name.eq_ignore_ascii_case("call-id") || name == "i").then(|| value.trim().to_owned())
            })
            .unwrap_or_default();
        let text = format!("{arrow} {}", plain(message));
        match calls.iter_mut().find(|(known, _)| *known == id) {
            Some((_, messages)) => messages.push(text),
            None => calls.push((id, vec![text])),
        }
    }
    calls.into_iter().map(|(_, messages)| messages).collect()
}

/// The last line of a statistics file, by column.
fn counts(table: &str, ignore: &[String]) -> BTreeMap<String, String> {
    let mut lines = table.lines().filter(|line| !line.is_empty());
    let names: Vec<&str> = lines.next().unwrap_or_default().split(';').collect();
    let last: Vec<&str> = lines.next_back().unwrap_or_default().split(';').collect();
    COUNTS
        .iter()
        .filter(|name| !ignore.iter().any(|ignored| name.strip_suffix("(C)") == Some(ignored)))
        .filter_map(|name| {
            let column = names.iter().position(|column| column == name)?;
            Some(((*name).to_owned(), (*last.get(column)?).to_owned()))
        })
        .collect()
}

/// Process ids and what the case says varies become `#`.
fn normalise(text: &str, pid: u32, varies: &[String]) -> String {
    let pid = pid.to_string();
    let lines = text.lines().map(|line| {
        let line = line.trim_end_matches('\r');
        match varies.iter().find(|name| line.starts_with(name.as_str())) {
            Some(name) => format!("{name} #"),
            None => without_ids(line, &pid),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The pid of either end stands in tags, branches and Call-IDs; any number of five digits or more that is none of the
/// ports (those are the same in every line-up) may be one.
fn without_ids(line: &str, pid: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut digits = String::new();
    for character in line.chars().chain(std::iter::once('\n')) {
        if character.is_ascii_digit() {
            digits.push(character);
            continue;
        }
        let is_port = out.ends_with(':') || out.ends_with(' ');
        if digits == pid || (digits.len() >= 4 && !is_port) {
            out.push('#');
        } else {
            out.push_str(&digits);
        }
        digits.clear();
        if character != '\n' {
            out.push(character);
        }
    }
    out
}

/// The program under test, beside this test's own.
fn ringer() -> PathBuf {
    let own = std::env::current_exe().expect("a running program has a path");
    let folder = own.ancestors().nth(2).expect("target/PROFILE/deps/test");
    let path = folder.join("ringer");
    assert!(path.is_file(), "{} is not built: run `cargo build --workspace --bins`", path.display());
    path
}

/// Whether `sipp` speaks: for an error that says what to install.
pub fn sipp_version() -> String {
    let output =
        Command::new("sipp").arg("-v").output().expect("sipp: install it: apt-get install sip-tester");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .find(|line| line.contains("SIPp v"))
        .unwrap_or_default()
        .to_owned()
}
