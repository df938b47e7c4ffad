//! Fraud control: destinations that are not called, and how many calls a second go by one route.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use stdx::Instant;

use crate::pattern::{Pattern, digits};

/// Destinations that a route or an account may not call.
#[derive(Debug, Default)]
pub struct Denied(Vec<Pattern>);

impl Denied {
    /// # Errors
    /// Names the invalid pattern and the expected form.
    pub fn new(patterns: &[Box<str>]) -> Result<Self, String> {
        let parse = |text: &str| Pattern::parse(text).map_err(|problem| format!("deny {text:?}: {problem}"));
        patterns.iter().map(|text| parse(text)).collect::<Result<_, _>>().map(Denied)
    }

    /// A number also without separators between its digits, so that `1-900` is `1900`.
    pub fn covers(&self, user: &str) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let digits = digits(user);
        let is_covered = |pattern: &Pattern| {
            pattern.matches(user) || digits.as_deref().is_some_and(|user| pattern.matches(user))
        };
        self.0.iter().any(is_covered)
    }
}

/// Calls a second, with one second's worth at once after a pause (the generic cell rate algorithm of ITU-T I.371). All
/// shards of a process share it.
#[derive(Debug)]
pub(crate) struct RateMeter {
    /// Microseconds.
    interval: u64,
    /// When the bucket will be full again, in microseconds since the Unix epoch.
    full_at: AtomicU64,
}

impl RateMeter {
    /// Zero calls a second: none at all.
    pub(crate) fn new(calls: u32) -> Self {
        RateMeter {
            interval: 1_000_000_u64.checked_div(calls.into()).unwrap_or(u64::MAX),
            full_at: AtomicU64::new(0),
        }
    }

    /// Takes a turn, or not.
    pub(crate) fn take(&self, now: Instant) -> bool {
        let (now, second) = (now.as_micros(), Duration::from_secs(1).as_micros() as u64);
        let next = |full_at: u64| {
            let next = full_at.max(now).checked_add(self.interval)?;
            (next <= now + second).then_some(next)
        };
        self.full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denied_destinations_are_found_however_they_are_written() {
        let patterns: Vec<Box<str>> = ["+882*", "1900???????", "00*", "premium-*"].map(Into::into).into();
        let denied = Denied::new(&patterns).unwrap();
        for user in [
            "+8821234",
            "882-1234",
            "+882(12)34;phone-context=x",
            "19005551234",
            "+1-900-555-1234",
            "0044",
            "premium-1",
        ] {
            assert!(denied.covers(user), "{user}");
        }
        for user in ["+4930882", "1900", "alice", "+1 900", "premium"] {
            assert!(!denied.covers(user), "{user}");
        }
        assert!(!Denied::default().covers("0044"));
        assert!(Denied::new(&["~(".into()]).unwrap_err().starts_with("deny \"~(\": "));
    }

    #[test]
    fn a_route_takes_its_calls_a_second_and_no_more() {
        let start = Instant::from_unix_seconds(1_700_000_000);
        let meter = RateMeter::new(10);
        let taken = |at| (0..100).filter(|_| meter.take(at)).count();
        assert_eq!(taken(start), 10);
        assert_eq!(taken(start + Duration::from_millis(500)), 5);
        assert_eq!(taken(start + Duration::from_secs(60)), 10);
        assert!(!RateMeter::new(0).take(start));
    }
}
