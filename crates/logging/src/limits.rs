//! Limits of the log, with their reasons.

use std::time::Duration;

use stdx::rate::{Policy, Rate};

/// Lines of the log about failed sign-ins: of all sources, and of one. A source's first lines tell a program that shuts
/// addresses out all it needs. Further ones are counted, and told as a number.
pub const SIGN_IN_LINES: Rate = Rate { interval: Duration::from_millis(20), burst: 200 };
/// Lines of the log about failed sign-ins from one source.
pub const SIGN_IN_LINES_BY_SOURCE: Policy = Policy {
    capacity: 10_000,
    rate: Rate { interval: Duration::from_secs(1), burst: 20 },
    free_failures: u32::MAX,
    first_penalty: Duration::ZERO,
    longest_penalty: Duration::ZERO,
    forgive_after: Duration::ZERO,
};
