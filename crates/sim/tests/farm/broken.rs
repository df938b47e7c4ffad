//! Each promise is seen broken when the part that keeps it is taken away: the checks can fail.

use std::panic::{AssertUnwindSafe, catch_unwind};

use sim::farm::FarmWorld;
use sim::farm::database::Fences;

use crate::chaos::{run, world};
use crate::scenarios::lose_files;

/// The message of the first of many seeds that fails with the machine broken so.
fn first_failure(break_it: impl Fn(&mut FarmWorld)) -> String {
    let failure = (0..200).find_map(|seed| {
        let mut world = world(seed);
        break_it(&mut world);
        let panic = catch_unwind(AssertUnwindSafe(|| drop(run(world)))).err()?;
        Some(panic.downcast_ref::<String>().cloned().unwrap_or_default())
    });
    failure.expect("one of 200 seeds fails")
}

#[test]
fn without_the_fence_of_holders_a_bucket_has_two_owners_in_an_epoch() {
    let message =
        first_failure(|world| world.database.fences = Fences { of_holders: false, ..Fences::default() });
    assert!(message.contains("is served by"), "{message}");
}

#[test]
fn without_the_fence_of_epochs_an_old_owner_writes_after_a_new_one() {
    let message =
        first_failure(|world| world.database.fences = Fences { of_epochs: false, ..Fences::default() });
    assert!(message.contains("after one of") || message.contains("left: ["), "{message}");
}

#[test]
fn a_node_that_does_not_hear_that_its_watch_is_new_counts_others_as_dead() {
    let has_ends = |seed| {
        let mut world = world(seed);
        lose_files(&mut world, false);
        !world.ends.is_empty()
    };
    assert!((0..60).any(has_ends), "all of 60 seeds end no node");
}
