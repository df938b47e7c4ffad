//! `cargo xtask gate --fast`, which `make test-fast` calls: the tests that need neither a peer nor a socket nor real time.
//! Cargo builds the executables of all crates, with the features that the whole gate has, so that neither run rebuilds
//! the other's; then each runs in turn, without the tests that [`super::REAL`] lists. Doc-tests and the crate `interop`
//! are left out.

use std::path::Path;

use anyhow::{Context as _, Result};

use super::executable::{self, Executable};

/// Runs the tests; returns whether all have passed.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let mut failed = Vec::new();
    for executable in executable::build(root, &["interop"])? {
        let source = &executable.target.source;
        let Some(tests) = pure_tests(&executable)? else { continue };
        println!("     Running {source} ({})", executable.target.name);
        if !run_tests(&executable, &tests)? {
            failed.push(format!("{} {source}", executable.target.name));
        }
    }
    failed.iter().for_each(|name| eprintln!("gate: FAILED: {name}"));
    Ok(failed.is_empty())
}

/// The names of the tests to run: all of them when empty; `None` when none is left.
fn pure_tests(executable: &Executable) -> Result<Option<Vec<String>>> {
    let Some(real) = executable.real_tests() else { return Ok(Some(Vec::new())) };
    let output =
        executable.command().args(["--list", "--format", "terse"]).output().context("a list of tests")?;
    let list = String::from_utf8_lossy(&output.stdout);
    let tests = list.lines().filter_map(|line| line.strip_suffix(": test"));
    let pure: Vec<String> = tests.filter(|test| !real.has(test)).map(str::to_owned).collect();
    Ok((!pure.is_empty()).then_some(pure))
}

fn run_tests(executable: &Executable, tests: &[String]) -> Result<bool> {
    let mut command = executable.command();
    command.arg("--quiet");
    if !tests.is_empty() {
        command.arg("--exact").args(tests);
    }
    Ok(command.status().with_context(|| executable.path.display().to_string())?.success())
}
