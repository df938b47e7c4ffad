//! The shortest form of `make chaos`: one fault of each kind after the other, and everything is accounted for.

use interop::chaos::{Form, run};

/// The order of the faults; any number holds.
const SEED: u64 = 1;

#[test]
fn everything_is_accounted_for_after_a_minute_of_faults() {
    let report = run(&Form::MINUTE, SEED, true);
    println!("{}", report.to_text());
    assert!(report.is_clean(), "{}", report.to_text());
}
