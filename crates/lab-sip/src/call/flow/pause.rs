//! The duration of a `<pause>`.
//!
//! A negative or tiny draw is no pause at all; the longest is SIPp's.

use super::{Call, CallContext, Duration, number_of};
use crate::scenario::model::Pause;

/// SIPp caps a pause at the largest C `int` of milliseconds.
const LONGEST_MS: f64 = 2_147_483_647.0;

pub(super) fn length(call: &Call, ctx: &mut CallContext<'_>, pause: &Pause) -> Duration {
    let milliseconds = match pause {
        Pause::Default => return ctx.env.options.call.pause,
        Pause::For(distribution) => distribution.sample(ctx.rng),
        Pause::Variable(variable) => number_of(call, ctx, *variable),
    };
    // Distributions reach below zero; what is under a millisecond is no pause. NaN neither.
    if milliseconds >= 1.0 {
        Duration::from_secs_f64(milliseconds.min(LONGEST_MS) / 1e3)
    } else {
        Duration::ZERO
    }
}
