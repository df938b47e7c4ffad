//! Words that may not stand in code: some nowhere, some not in cores, some not in tests.

use crate::source::Source;

/// Crates that are bytes and time in, effects out (ARCHITECTURE.md). A crate that does not exist yet has the rule from
/// its first day.
pub(crate) const CORES: [&str; 15] = [
    "stdx",
    "sip-wire",
    "sip",
    "xmpp",
    "muc",
    "bytestreams",
    "privilege",
    "pubsub",
    "chat",
    "router",
    "call",
    "cluster",
    "ivr",
    "media",
    "voice",
];

/// Crates with threads or a runtime of their caller, and neither a socket of the network nor the clock.
const NO_CLOCK_OR_SOCKET: [&str; 7] =
    ["admin", "chat-owners", "chat-store", "control", "lab-report", "lab-xmpp", "metrics"];

/// Sockets and clocks, of the list below.
const CLOCKS_AND_SOCKETS: [&str; 6] =
    ["UdpSocket", "TcpStream", "TcpListener", "Instant::now", "SystemTime", "std::time::Instant"];

const NOT_IN_CORES: [(&str, &str); 10] = [
    ("UdpSocket", "the core names addresses; the server owns sockets"),
    ("TcpStream", "the core names flows; the server owns sockets"),
    ("TcpListener", "the core names flows; the server owns sockets"),
    ("std::thread", "a core is called, it does not run"),
    ("thread::spawn", "a core is called, it does not run"),
    ("tokio", "no runtime in a core"),
    ("async", "no runtime in a core"),
    ("Instant::now", "time is an argument"),
    ("SystemTime", "time is an argument"),
    ("std::time::Instant", "time is stdx::Instant, an argument"),
];

const NOWHERE: [(&str, &str); 9] = [
    ("#[ignore", "mend the test or delete it"),
    ("todo!", "write it or refuse it"),
    ("unimplemented!", "write it or refuse it"),
    ("dbg!", "leave no print behind"),
    ("allow(dead_code", "delete unused code"),
    ("allow(unused", "delete unused code"),
    ("allow(warnings", "name the one lint and the reason"),
    ("allow(clippy::all", "name the one lint and the reason"),
    ("unbounded_channel", "every queue has a bound"),
];

/// Ways to let time pass. A test that waits for a condition leaves them to the crate `wait`.
const NOT_IN_TESTS: [&str; 7] = [
    "thread::sleep",
    "time::sleep",
    "sleep(",
    "sleep_until(",
    "park_timeout",
    "thread::yield_now",
    "spin_loop",
];

/// Tests on a runtime whose clock is paused sleep in virtual time.
const PAUSED_CLOCK: &str = "start_paused(true)";

pub(crate) fn findings(sources: &[Source]) -> Vec<String> {
    sources.iter().flat_map(in_one).collect()
}

fn in_one(source: &Source) -> Vec<String> {
    let mut rules = NOWHERE.to_vec();
    // An example is linked into nothing; it may measure the core from outside.
    let is_example = source.path.contains("/examples/");
    if !is_example && source.crate_name().is_some_and(|name| CORES.contains(&name)) {
        rules.extend(NOT_IN_CORES);
    } else if !is_example && source.crate_name().is_some_and(|name| NO_CLOCK_OR_SOCKET.contains(&name)) {
        rules.extend(NOT_IN_CORES.iter().filter(|(word, _)| CLOCKS_AND_SOCKETS.contains(word)));
    }
    let mut findings = Vec::new();
    // A test module inside a core or the server sleeps no more than a file of tests does; what stands above
    // it is no test.
    let tests_begin = if source.is_test() { Some(0) } else { source.lines_with("#[cfg(test)]").next() };
    let is_virtual = source.lines_with(PAUSED_CLOCK).next().is_some();
    let mut sleeps: Vec<(usize, &str)> = NOT_IN_TESTS
        .iter()
        .flat_map(|word| source.lines_with(word).map(|line| (line, *word)))
        .filter(|(line, _)| !is_virtual && tests_begin.is_some_and(|begin| *line >= begin))
        .collect();
    sleeps.sort_unstable();
    sleeps.dedup_by_key(|(line, _)| *line);
    findings.extend(sleeps.iter().map(|(line, word)| {
        format!(
            "{}:{line}: `{word}`: wait for a condition (the crate `wait`) or use virtual time",
            source.path
        )
    }));
    for (word, reason) in rules {
        findings.extend(
            source.lines_with(word).map(|line| format!("{}:{line}: `{word}`: {reason}", source.path)),
        );
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str) -> Vec<String> {
        findings(&[Source::new(path, text)])
    }

    #[test]
    fn cores_are_pure() {
        assert_eq!(check("crates/sip/src/a.rs", "use std::net::{IpAddr, UdpSocket};").len(), 1);
        assert_eq!(check("crates/sip/src/a.rs", "let now = Instant::now();").len(), 1);
        assert_eq!(check("crates/sip/src/a.rs", "use stdx::Instant; // tokio").len(), 0);
        assert_eq!(check("crates/sip/examples/a.rs", "let now = Instant::now();").len(), 0);
        assert_eq!(check("crates/server/src/a.rs", "use tokio::net::UdpSocket;").len(), 0);
        assert_eq!(check("crates/media/src/a.rs", "use std::net::UdpSocket;").len(), 1);
        assert_eq!(check("crates/admin/src/a.rs", "async fn a() { tokio::spawn(b) }").len(), 0);
        assert_eq!(check("crates/admin/src/a.rs", "let now = SystemTime::now();").len(), 1);
    }

    #[test]
    fn only_one_crate_waits_for_tests() {
        for sleep in
            ["std::thread::sleep(x)", "sleep(x).await", "std::thread::park_timeout(x)", "thread::yield_now()"]
        {
            assert_eq!(check("tests/interop/tests/a.rs", sleep).len(), 1, "{sleep}");
            assert_eq!(check("crates/wait/src/lib.rs", sleep).len(), 0, "{sleep}");
            assert_eq!(
                check("crates/sim/src/a.rs", &format!("#[cfg(test)]\nmod tests {{ {sleep} }}")).len(),
                1,
                "{sleep}"
            );
        }
        let paused = "Builder::new_current_thread().start_paused(true);\nsleep(x).await";
        assert_eq!(check("crates/server/tests/web/mod.rs", paused).len(), 0);
    }

    #[test]
    fn nothing_is_left_lying_about() {
        assert_eq!(check("crates/server/src/a.rs", "#[ignore = \"slow\"]").len(), 1);
        assert_eq!(check("crates/server/src/a.rs", "#[allow(dead_code)]").len(), 1);
        assert_eq!(check("tests/interop/tests/a.rs", "std::thread::sleep(x)").len(), 1);
    }
}
