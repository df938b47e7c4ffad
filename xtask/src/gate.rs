//! The test run of the gate: `cargo xtask gate`, which `make test` and so `.ci/run` call.
//!
//! All tests run once. A failed test that has real peers, real sockets or real time runs once more, alone, because
//! a busy machine can make it fail; a test that passes then is reported as unsteady, which is a defect of the test
//! (`CONTRIBUTING.md` has the list). A pure test that fails once has failed.

mod disk;
mod fast;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

pub(crate) use fast::run as run_fast;

/// A target of which some or all tests have real peers, sockets or time.
struct RealTests {
    /// The crate's folder name.
    package: &'static str,
    /// The source that Cargo prints for the target.
    source: &'static str,
    name: &'static str,
    /// The modules of these tests; none: all tests of the target.
    modules: &'static [&'static str],
}

const fn real(
    package: &'static str,
    source: &'static str,
    name: &'static str,
    modules: &'static [&'static str],
) -> RealTests {
    RealTests { package, source, name, modules }
}

static REAL: &[RealTests] = &[
    real("server", "tests/live/main.rs", "live", &[]),
    real("external-auth", "tests/sources/main.rs", "sources", &[]),
    real("net", "tests/sockets/main.rs", "sockets", &[]),
    real("net", "unittests src/lib.rs", "net", &[]),
    real("server", "tests/operate/main.rs", "operate", &[]),
    real("lab", "tests/cli/main.rs", "cli", &[]),
    real("lab", "unittests src/lib.rs", "lab", &["engine::", "control::", "watch::", "prometheus::"]),
    real("lab-sip", "unittests src/lib.rs", "lab_sip", &["rtp::"]),
    real("xmpp-io", "unittests src/lib.rs", "xmpp_io", &["streams::", "uploads::"]),
    real("voice-io", "unittests src/lib.rs", "voice_io", &["helpers::", "ports::"]),
    real(
        "store",
        "tests/contract/main.rs",
        "contract",
        &["postgres::", "postgres_18::", "away::", "encrypted::", "ownership::"],
    ),
    real("store", "unittests src/lib.rs", "store", &["postgres::round_trips::"]),
    real("interop", "unittests src/lib.rs", "interop", &[]),
    real("interop", "tests/accounts.rs", "accounts", &[]),
    real("interop", "tests/acme.rs", "acme", &[]),
    real("interop", "tests/administration.rs", "administration", &[]),
    real("interop", "tests/balancer.rs", "balancer", &[]),
    real("interop", "tests/belfry.rs", "belfry", &[]),
    real("interop", "tests/chaos.rs", "chaos", &[]),
    real("interop", "tests/console.rs", "console", &[]),
    real("interop", "tests/council.rs", "council", &[]),
    real("interop", "tests/database.rs", "database", &[]),
    real("interop", "tests/ends.rs", "ends", &[]),
    real("interop", "tests/farm.rs", "farm", &[]),
    real("interop", "tests/federation.rs", "federation", &[]),
    real("interop", "tests/loads.rs", "loads", &[]),
    real("interop", "tests/membership.rs", "membership", &[]),
    real("interop", "tests/observe.rs", "observe", &[]),
    real("interop", "tests/older.rs", "older", &[]),
    real("interop", "tests/package.rs", "package", &[]),
    real("interop", "tests/processes.rs", "processes", &[]),
    real("interop", "tests/readme.rs", "readme", &[]),
    real("interop", "tests/rest.rs", "rest", &[]),
    real("interop", "tests/ringer.rs", "ringer", &[]),
    real("interop", "tests/shared_calls.rs", "shared_calls", &[]),
    real("interop", "tests/shared_chat.rs", "shared_chat", &[]),
    real("interop", "tests/shared_database.rs", "shared_database", &[]),
    real("interop", "tests/stand_in.rs", "stand_in", &[]),
    real("interop", "tests/webphone.rs", "webphone", &[]),
    real("interop", "tests/xmpp.rs", "xmpp", &[]),
];

/// A test that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FailedTest {
    target: Target,
    test: String,
}

/// A test executable as Cargo announces it: `Running tests/live/main.rs (target/debug/deps/live-0123456789abcdef)`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    source: String,
    name: String,
}

/// The outcome of one run of `cargo test`, read from its output line by line.
#[derive(Debug, Default)]
struct Outcome {
    target: Option<Target>,
    /// The present target has announced tests and not yet printed its result.
    is_open: bool,
    failed: Vec<FailedTest>,
    passed: usize,
    /// Executables that ended without a result, such as by a signal.
    crashed: Vec<String>,
}

/// Test programs whose tests mostly wait for time to pass (ringing, pauses, speech), and so run more at once than there
/// are processors. The others keep what the test harness chooses.
static THREADS: [(&str, &str); 1] = [("live", "4")];

/// Cargo starts each test program through this: `xtask run-test PROGRAM ARGUMENTS`. It becomes the program.
pub(crate) fn run_test(program: &str, arguments: &[&str]) -> Result<bool> {
    let mut command = Command::new(program);
    command.args(arguments);
    if let Some(threads) = threads(program).filter(|_| std::env::var_os("RUST_TEST_THREADS").is_none()) {
        command.env("RUST_TEST_THREADS", threads);
    }
    Err(command.exec()).with_context(|| format!("cannot run {program}"))
}

/// The number of tests at once of a program named by Cargo, such as `target/debug/deps/live-0123456789abcdef`.
fn threads(program: &str) -> Option<&'static str> {
    let (name, _) = program.rsplit('/').next()?.rsplit_once('-')?;
    THREADS.iter().find(|(known, _)| *known == name).map(|(_, threads)| *threads)
}

/// The option that makes Cargo start test programs through [`run_test`].
fn runner() -> Result<String> {
    let own = std::env::current_exe().context("the path of xtask is not known")?;
    let own = serde_json::to_string(&own.to_string_lossy()).context("JSON")?;
    Ok(format!("target.'cfg(unix)'.runner = [{own}, \"run-test\"]"))
}

/// Runs all tests; returns whether the gate is passed.
pub(crate) fn run(root: &Path) -> Result<bool> {
    disk::expect_space(root)?;
    let (outcome, succeeded) = cargo_test(root, &["--no-fail-fast"])?;
    if succeeded {
        return Ok(true);
    }
    disk::report_if_full(root);
    if outcome.failed.is_empty() || !outcome.crashed.is_empty() {
        outcome.crashed.iter().for_each(|name| eprintln!("gate: {name} ended without a result"));
        return Ok(false);
    }
    let (real, pure): (Vec<_>, Vec<_>) = outcome.failed.into_iter().partition(FailedTest::is_real);
    let mut unsteady = Vec::new();
    let mut failed = pure;
    for test in real {
        eprintln!("gate: once more, alone: {} {}", test.target.name, test.test);
        let (again, succeeded) = cargo_test(root, &test.arguments())?;
        if succeeded && again.passed > 0 {
            unsteady.push(test);
        } else {
            failed.push(test);
        }
    }
    for test in &unsteady {
        eprintln!("gate: UNSTEADY: {} {} (failed, then passed alone)", test.target.name, test.test);
    }
    for test in &failed {
        eprintln!("gate: FAILED: {} {}", test.target.name, test.test);
    }
    Ok(failed.is_empty())
}

/// Runs `cargo test`, shows its output as it comes, and reads it.
fn cargo_test(root: &Path, arguments: &[&str]) -> Result<(Outcome, bool)> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new("sh");
    // One pipe for both streams: Cargo names the targets on one and the tests print on the other.
    command.args(["-c", "exec \"$0\" test --workspace --locked --config \"$@\" 2>&1", &cargo]);
    command.arg(runner()?).args(arguments);
    let mut child = command.current_dir(root).stdout(Stdio::piped()).spawn().context("cannot start cargo")?;
    let output = child.stdout.take().context("cargo has no output")?;
    let mut outcome = Outcome::default();
    for line in BufReader::new(output).split(b'\n') {
        let line = line.context("cannot read cargo's output")?;
        let mut stdout = std::io::stdout().lock();
        stdout
            .write_all(&line)
            .and_then(|()| stdout.write_all(b"\n"))
            .context("cannot write to the terminal")?;
        outcome.handle_line(&String::from_utf8_lossy(&line));
    }
    let status = child.wait().context("cannot wait for cargo")?;
    outcome.close();
    Ok((outcome, status.success()))
}

impl Outcome {
    fn handle_line(&mut self, line: &str) {
        let text = line.trim();
        if let Some(target) = Target::parse(text) {
            self.close();
            self.target = Some(target);
            self.is_open = true;
        } else if let Some(name) = text.strip_prefix("Doc-tests ") {
            self.close();
            self.target = Some(Target { source: "Doc-tests".to_owned(), name: name.to_owned() });
            self.is_open = true;
        } else if text.starts_with("test result: ") {
            self.is_open = false;
        } else if let Some(test) = text.strip_prefix("test ") {
            self.handle_test(test);
        }
    }

    fn handle_test(&mut self, line: &str) {
        let Some((test, result)) = line.split_once(" ... ") else { return };
        // Output of a test that is not captured may stand between the name and the result.
        if result.ends_with("FAILED") {
            let Some(target) = self.target.clone() else { return };
            let test = test.trim_end_matches(" - should panic").to_owned();
            self.failed.push(FailedTest { target, test });
        } else if result.ends_with("ok") {
            self.passed += 1;
        }
    }

    fn close(&mut self) {
        if let Some(target) = self.target.take().filter(|_| self.is_open) {
            self.crashed.push(target.name);
        }
        self.is_open = false;
    }
}

impl Target {
    fn parse(line: &str) -> Option<Target> {
        let (source, executable) = line.strip_prefix("Running ")?.strip_suffix(')')?.split_once(" (")?;
        let file = executable.rsplit('/').next()?;
        let (name, _) = file.rsplit_once('-')?;
        Some(Target { source: source.to_owned(), name: name.to_owned() })
    }
}

impl RealTests {
    fn has(&self, test: &FailedTest) -> bool {
        let is_module = self.modules.is_empty() || self.modules.iter().any(|it| test.test.starts_with(it));
        test.target.source == self.source && test.target.name == self.name && is_module
    }
}

impl FailedTest {
    /// Cargo does not print the package, so a target of another package with the same source and name counts, too.
    fn is_real(&self) -> bool {
        REAL.iter().any(|real| real.has(self))
    }

    /// All programs of tests, and of each only this test: Cargo builds a single target of the workspace with fewer features of its
    /// dependencies, and so would compile half of them again.
    fn arguments(&self) -> [&str; 4] {
        ["--tests", "--", "--exact", &self.test]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &str) -> Outcome {
        let mut outcome = Outcome::default();
        lines.lines().for_each(|line| outcome.handle_line(line));
        outcome.close();
        outcome
    }

    #[test]
    fn tests_that_wait_run_more_at_once() {
        assert_eq!(threads("target/debug/deps/live-0b2b6a1c9d8e7f60"), Some("4"));
        assert_eq!(threads("/a-b/live"), None);
        assert_eq!(threads("target/debug/deps/sip-0b2b6a1c9d8e7f60"), None);
    }

    const RUN: &str = "
     Running unittests src/lib.rs (target/debug/deps/sip-0b2b6a1c9d8e7f60)

running 2 tests
test wire::tests::folds ... ok
test wire::tests::wraps - should panic ... FAILED

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s

     Running tests/live/main.rs (/somewhere/else/debug/deps/live-0b2b6a1c9d8e7f60)

running 2 tests
test voice::a_call_ends ... FAILED
test voice::a_call_begins ... ok

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 2.01s
";

    #[test]
    fn failures_are_read_with_their_targets() {
        let outcome = read(RUN);
        let failed: Vec<_> =
            outcome.failed.iter().map(|it| (it.target.name.as_str(), it.test.as_str())).collect();
        assert_eq!(failed, [("sip", "wire::tests::wraps"), ("live", "voice::a_call_ends")]);
        assert_eq!(outcome.passed, 2);
        assert_eq!(outcome.crashed, [""; 0]);
    }

    #[test]
    fn only_tests_with_real_peers_or_time_get_a_second_try() {
        let [pure, real] = &read(RUN).failed[..] else { panic!("two tests failed") };
        assert!(!pure.is_real());
        assert!(real.is_real());
        assert_eq!(real.arguments(), ["--tests", "--", "--exact", "voice::a_call_ends"]);
        let engine = "     Running unittests src/lib.rs (target/debug/deps/lab-00)\n\
            test engine::tests::ends::a ... FAILED\ntest scenario::tests::b ... FAILED\ntest result: FAILED.";
        let outcome = read(engine);
        assert_eq!(outcome.failed.iter().map(FailedTest::is_real).collect::<Vec<_>>(), [true, false]);
        // `crates/admin/tests/rest` has the name of an interop target, and no sockets.
        let admin = "Running tests/rest/main.rs (target/debug/deps/rest-00)\ntest lists::a ... FAILED\ntest result: F";
        assert!(!read(admin).failed[0].is_real());
    }

    #[test]
    fn an_executable_that_dies_is_no_unsteady_test() {
        let died = "Running tests/live/main.rs (target/debug/deps/live-00)\ntest a ... ok\nerror: test failed\n\
            Running tests/operate/main.rs (target/debug/deps/operate-00)\ntest result: ok.";
        assert_eq!(read(died).crashed, ["live"]);
    }

    /// Targets of `interop` that read files alone.
    static PURE_INTEROP: [&str; 1] = ["coverage"];

    #[test]
    fn every_target_with_real_peers_is_in_the_list() {
        let tests = crate::workspace().join("tests/interop/tests");
        for entry in std::fs::read_dir(tests).expect("the tests of interop") {
            let path = entry.expect("an entry").path();
            let Some(name) = path.file_stem().filter(|_| path.extension().is_some()) else { continue };
            let name = name.to_string_lossy();
            let is_listed = REAL.iter().any(|real| real.package == "interop" && real.name == name);
            assert_ne!(is_listed, PURE_INTEROP.contains(&&*name), "tests/interop/tests/{name}.rs");
        }
    }

    #[test]
    fn every_target_of_the_list_is_there() {
        let root = crate::workspace();
        for real in REAL {
            let file = real.source.trim_start_matches("unittests ");
            let folders = ["crates", "tests"].map(|folder| root.join(folder).join(real.package));
            let is_there = folders.iter().any(|folder| folder.join(file).exists());
            assert!(is_there, "{}: there is no {}", real.package, real.source);
        }
    }
}
