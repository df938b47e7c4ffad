//! The test run of the gate: `cargo xtask gate`, which `make test` and so `.ci/run` call.
//!
//! All tests run once. A failed test that has real peers, real sockets or real time runs once more, alone, because
//! a busy machine can make it fail; a test that passes then is reported as unsteady, which is a defect of the test
//! (`CONTRIBUTING.md` has the list). A pure test that fails once has failed.
//!
//! Programs of real tests mostly wait, so several of them run at once, beside the pure ones ([`lanes`]).

mod disk;
mod executable;
mod fast;
mod lanes;
mod outcome;
mod repeat;

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use executable::Executable;
pub(crate) use fast::run as run_fast;
use lanes::Finished;
pub(crate) use repeat::run as repeat;

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
    real("object-storage", "unittests src/lib.rs", "object_storage", &["tests::"]),
    real("object-storage", "tests/moto.rs", "moto", &[]),
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
    real("interop", "tests/demo.rs", "demo", &[]),
    real("interop", "tests/ends.rs", "ends", &[]),
    real("interop", "tests/farm.rs", "farm", &[]),
    real("interop", "tests/federation.rs", "federation", &[]),
    real("interop", "tests/groups.rs", "groups", &[]),
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
    real("interop", "tests/shared_rooms.rs", "shared_rooms", &[]),
    real("interop", "tests/shared_servers.rs", "shared_servers", &[]),
    real("interop", "tests/stand_in.rs", "stand_in", &[]),
    real("interop", "tests/tutorials.rs", "tutorials", &[]),
    real("interop", "tests/webphone.rs", "webphone", &[]),
    real("interop", "tests/xmpp.rs", "xmpp", &[]),
];

/// The source of a test program as Cargo prints it, such as `tests/live/main.rs`, and its name, such as `live`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    source: String,
    name: String,
}

/// A test that failed.
struct FailedTest<'a> {
    executable: &'a Executable,
    test: String,
}

impl FailedTest<'_> {
    fn is_real(&self) -> bool {
        self.executable.real_tests().is_some_and(|real| real.has(&self.test))
    }

    /// Runs the test alone; whether it passed.
    fn passes_alone(&self) -> Result<bool> {
        eprintln!("gate: once more, alone: {self}");
        let again = self.executable.run_captured(&["--exact", &self.test])?;
        print!("{}", again.output);
        let outcome = again.outcome();
        Ok(outcome.has_result && outcome.failed.is_empty() && outcome.passed > 0)
    }
}

impl std::fmt::Display for FailedTest<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} {}", self.executable.target.name, self.test)
    }
}

impl RealTests {
    fn has(&self, test: &str) -> bool {
        self.modules.is_empty() || self.modules.iter().any(|it| test.starts_with(it))
    }
}

/// Runs all tests; returns whether the gate is passed.
pub(crate) fn run(root: &Path) -> Result<bool> {
    disk::expect_space(root)?;
    let executables = executable::build(root, &[])?;
    let finished = lanes::run(&executables, |_| &[])?;
    let documentation = run_documentation_tests(root)?;
    let is_passed = judge(&finished, |test| test.passes_alone())? && documentation;
    if !is_passed {
        disk::report_if_full(root);
    }
    Ok(is_passed)
}

/// Gives failed tests their second try by `passes_alone`, and says how all ended.
fn judge(finished: &[Finished<'_>], passes_alone: impl Fn(&FailedTest<'_>) -> Result<bool>) -> Result<bool> {
    let mut is_passed = true;
    let mut fail = |text: String| {
        eprintln!("gate: FAILED: {text}");
        is_passed = false;
    };
    let (mut passed, mut unsteady) = (0, Vec::new());
    for Finished { executable, run } in finished {
        let outcome = run.outcome();
        passed += outcome.passed;
        if run.is_unfinished(&outcome) {
            fail(format!("{} ended without a result", executable.target.name));
        }
        for test in outcome.failed {
            let failed = FailedTest { executable, test };
            if failed.is_real() && passes_alone(&failed)? {
                unsteady.push(failed);
            } else {
                fail(failed.to_string());
            }
        }
    }
    unsteady.iter().for_each(|test| eprintln!("gate: UNSTEADY: {test} (failed, then passed alone)"));
    eprintln!("gate: {passed} tests passed, {} of them unsteady", unsteady.len());
    Ok(is_passed)
}

fn run_documentation_tests(root: &Path) -> Result<bool> {
    let status = Command::new(executable::cargo())
        .args(["test", "--workspace", "--locked", "--doc", "--quiet"])
        .current_dir(root)
        .status()
        .context("cannot start cargo")?;
    Ok(status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executable(package: &str, source: &str, name: &str) -> Executable {
        let target = Target { source: source.to_owned(), name: name.to_owned() };
        Executable {
            path: format!("/w/target/debug/deps/{name}-00").into(),
            folder: format!("/w/{package}").into(),
            target,
        }
    }

    fn finished<'a>(executable: &'a Executable, output: &str, succeeded: bool) -> Finished<'a> {
        Finished { executable, run: lanes::Run { output: output.to_owned(), succeeded } }
    }

    #[test]
    fn only_tests_with_real_peers_or_time_get_a_second_try() {
        let live = executable("server", "tests/live/main.rs", "live");
        let sip = executable("sip", "unittests src/lib.rs", "sip");
        let unsteady =
            finished(&live, "test voice::a ... FAILED\ntest voice::b ... ok\ntest result: FAILED.", false);
        let pure = finished(&sip, "test wire::a ... FAILED\ntest result: FAILED.", false);
        assert!(judge(&[unsteady], |_| Ok(true)).unwrap());
        assert!(!judge(&[pure], |_| Ok(true)).unwrap());
        let failed = finished(&live, "test voice::a ... FAILED\ntest result: FAILED.", false);
        assert!(!judge(&[failed], |_| Ok(false)).unwrap());
    }

    #[test]
    fn real_tests_are_those_of_their_package_and_modules() {
        let lab = executable("lab", "unittests src/lib.rs", "lab");
        let is_real = |executable, test: &str| FailedTest { executable, test: test.to_owned() }.is_real();
        assert!(is_real(&lab, "engine::tests::ends::a"));
        assert!(!is_real(&lab, "scenario::tests::b"));
        // `crates/admin/tests/rest` has the name of an interop target, and no sockets.
        assert!(!is_real(&executable("admin", "tests/rest/main.rs", "rest"), "lists::a"));
    }

    #[test]
    fn an_executable_that_dies_has_failed_without_a_second_try() {
        let live = executable("server", "tests/live/main.rs", "live");
        assert!(!judge(&[finished(&live, "test a ... ok\n", false)], |_| Ok(true)).unwrap());
        assert!(!judge(&[finished(&live, "test a ... ok\ntest result: ok.", false)], |_| Ok(true)).unwrap());
        assert!(judge(&[finished(&live, "test a ... ok\ntest result: ok.", true)], |_| Ok(true)).unwrap());
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
