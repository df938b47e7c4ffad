//! Additions to std: time as a value, timer wheel, slab, bounded containers, keyed hashes, latencies in buckets, rate limits and their sources, the pace of attempts, requests that wait for a service that is away, draws by weight, dates, causes of errors, ladder drawings.
//! No domain words.

#![warn(missing_docs)]

pub mod address;
pub mod attempts;
pub mod cache;
pub mod calendar;
pub mod draw;
pub mod error;
pub mod hash;
pub mod hex;
pub mod ladder;
pub mod latency;
pub mod limits;
pub mod network;
pub mod outage;
pub mod rate;
pub mod ring;
pub mod rng;
pub mod slab;
pub mod source;
pub mod time;
pub mod wheel;

pub use time::Instant;

/// Compares without telling by its duration where the difference is. The lengths are no secret.
pub fn ct_eq(a: &[u8], b: &[u8]) -> bool {
    bool::from(subtle::ConstantTimeEq::ct_eq(a, b))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn constant_time_equality_is_equality(a in "[ab]{0,4}", b in "[ab]{0,4}") {
            prop_assert_eq!(ct_eq(a.as_bytes(), b.as_bytes()), a == b);
        }
    }
}
