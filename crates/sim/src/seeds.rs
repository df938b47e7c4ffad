//! Runs one test under many seeds.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// The variable that runs one seed alone: `SIM_SEED=17 cargo test name_of_the_test`.
const ALONE: &str = "SIM_SEED";

/// Calls `test` once for each seed, or only for the one in `SIM_SEED`. A failing seed is printed.
pub fn for_seeds(seeds: Range<u64>, test: impl Fn(u64)) {
    match std::env::var(ALONE).ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => run(seed, &test),
        None => seeds.for_each(|seed| run(seed, &test)),
    }
}

fn run(seed: u64, test: &impl Fn(u64)) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| test(seed))) {
        eprintln!("fails with {ALONE}={seed}");
        resume_unwind(panic);
    }
}
