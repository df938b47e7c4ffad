//! The lines of the log about an outage: one at its beginning, and then one a minute with the number of failures since. Without it each write and each
//! read of an account writes the same line while the database is away.

use stdx::Instant;

use crate::limits;

/// The failures of one kind, as far as the log has them.
#[derive(Debug, Default)]
pub(crate) struct OutageLog {
    /// The time of the last line. `None`: there is no outage.
    told: Option<Instant>,
    /// Failures since that line.
    untold: u64,
}

impl OutageLog {
    /// Counts a failure. `Some`: a line is due, for so many failures.
    pub(crate) fn handle_failure(&mut self, now: Instant) -> Option<u64> {
        self.untold += 1;
        if self.told.is_some_and(|told| now.since(told) < limits::OUTAGE_LINES) {
            return None;
        }
        self.told = Some(now);
        Some(std::mem::take(&mut self.untold))
    }

    /// The outage is over: the next failure begins another.
    pub(crate) fn end(&mut self) {
        *self = OutageLog::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_has_a_line_at_its_beginning_and_then_one_a_minute() {
        let at = |seconds: u64| Instant::from_unix_seconds(1_000 + seconds);
        let mut log = OutageLog::default();
        assert_eq!(log.handle_failure(at(0)), Some(1));
        let later: Vec<_> = (1..150).filter_map(|second| log.handle_failure(at(second))).collect();
        assert_eq!(later, [60, 60], "the failures since the line before, this one included");
        log.end();
        assert_eq!(log.handle_failure(at(151)), Some(1));
    }
}
