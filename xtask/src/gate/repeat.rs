//! `cargo xtask gate --repeat N`: the tests with real peers, sockets or time, N times over, to find those that a busy
//! machine makes fail by chance.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::executable::{self, Executable};
use super::{disk, lanes};

/// Runs the real tests of the named programs, or of all, `rounds` times; returns whether all have passed each time.
pub(crate) fn run(root: &Path, rounds: &str, names: &[&str]) -> Result<bool> {
    let rounds: usize = rounds.parse().with_context(|| format!("--repeat takes a number, not {rounds}"))?;
    disk::expect_space(root)?;
    let mut executables = executable::build(root, &[])?;
    executables.retain(|it| {
        it.real_tests().is_some() && (names.is_empty() || names.contains(&it.target.name.as_str()))
    });
    if executables.is_empty() {
        anyhow::bail!("no program of real tests is called {}", names.join(" or "));
    }
    let mut failures: BTreeMap<String, usize> = BTreeMap::new();
    for round in 1..=rounds {
        for finished in lanes::run(&executables, Executable::filters)? {
            for failure in finished.failures() {
                *failures.entry(failure).or_default() += 1;
            }
        }
        eprintln!("gate: round {round} of {rounds}, {} have failed so far", failures.values().sum::<usize>());
    }
    for (test, times) in &failures {
        eprintln!("gate: failed {times} of {rounds} times: {test}");
    }
    Ok(failures.is_empty())
}
