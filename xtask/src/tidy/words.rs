//! Words that may not stand in code: some nowhere, some not in cores, some not in tests.

use crate::source::Source;

/// Crates that are bytes and time in, effects out (ARCHITECTURE.md).
pub(crate) const CORES: [&str; 8] = ["stdx", "sip", "xmpp", "chat", "router", "call", "cluster", "ivr"];

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
    ("allow(dead_code", "delete what nobody uses"),
    ("allow(unused", "delete what nobody uses"),
    ("allow(warnings", "name the one lint and the reason"),
    ("allow(clippy::all", "name the one lint and the reason"),
    ("unbounded_channel", "every queue has a bound"),
];

const NOT_IN_TESTS: [(&str, &str); 2] = [
    ("thread::sleep", "wait for a condition with a deadline, or use virtual time"),
    ("time::sleep", "wait for a condition with a deadline, or use virtual time"),
];

pub(crate) fn findings(sources: &[Source]) -> Vec<String> {
    sources.iter().flat_map(in_one).collect()
}

fn in_one(source: &Source) -> Vec<String> {
    let mut rules = NOWHERE.to_vec();
    // An example is linked into nothing; it may measure the core from outside.
    let is_example = source.path.contains("/examples/");
    if !is_example && source.crate_name().is_some_and(|name| CORES.contains(&name)) {
        rules.extend(NOT_IN_CORES);
    }
    let mut findings = Vec::new();
    // A test module inside a core or the server sleeps no more than a file of tests does; what stands above
    // it is no test.
    let tests_begin = if source.is_test() { Some(0) } else { source.lines_with("#[cfg(test)]").next() };
    for (word, reason) in NOT_IN_TESTS {
        let in_tests = source.lines_with(word).filter(|line| tests_begin.is_some_and(|begin| *line >= begin));
        findings.extend(in_tests.map(|line| format!("{}:{line}: `{word}`: {reason}", source.path)));
    }
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
    }

    #[test]
    fn nothing_is_left_lying_about() {
        assert_eq!(check("crates/server/src/a.rs", "#[ignore = \"slow\"]").len(), 1);
        assert_eq!(check("crates/server/src/a.rs", "#[allow(dead_code)]").len(), 1);
        assert_eq!(check("tests/interop/tests/a.rs", "std::thread::sleep(x)").len(), 1);
    }
}
