//! The times of verbs, for traces: [`Script`](super::Script) notes where each verb begins and ends, and its caller takes the notes after each input.
//!
//! A verb ends where the next one begins, where its document is left for another one, or with the call. `<Hangup>` is not noted: it takes no time of its own,
//! and the BYE shows it.

use stdx::Instant;

use crate::limits;

/// A verb that was performed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PerformedVerb {
    /// The name of its element, as `Gather`.
    pub name: &'static str,
    /// The time at which it began.
    pub begin: Instant,
    /// The time at which it was over.
    pub end: Instant,
}

/// The verbs that a script has performed, from the time at which the log is turned on.
#[derive(Debug, Default)]
pub struct VerbLog {
    is_on: bool,
    /// The verb under way.
    current: Option<(&'static str, Instant)>,
    performed: Vec<PerformedVerb>,
    missed: u64,
}

impl VerbLog {
    /// Verbs are noted from now on.
    pub fn turn_on(&mut self) {
        self.is_on = true;
    }

    /// The verbs that are over, in the order of their ends, and the number of those that were not noted because there were too many since the last call.
    pub fn take(&mut self) -> (Vec<PerformedVerb>, u64) {
        (std::mem::take(&mut self.performed), std::mem::take(&mut self.missed))
    }

    /// A verb begins. `element`: as in notifications, with its brackets.
    pub(super) fn begin(&mut self, now: Instant, element: &'static str) {
        self.end(now);
        let name = element.trim_matches(['<', '>']);
        if self.is_on && name != "Hangup" {
            self.current = Some((name, now));
        }
    }

    /// The verb under way is over, if there is one.
    pub(super) fn end(&mut self, now: Instant) {
        let Some((name, begin)) = self.current.take() else { return };
        if self.performed.len() < limits::PERFORMED_VERBS {
            self.performed.push(PerformedVerb { name, begin, end: now });
        } else {
            self.missed += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: Instant = Instant::from_unix_seconds(1_700_000_000);

    fn at(second: u64) -> Instant {
        NOW + Duration::from_secs(second)
    }

    #[test]
    fn a_verb_ends_where_the_next_one_begins_and_a_hangup_is_none() {
        let mut log = VerbLog::default();
        log.turn_on();
        log.begin(at(0), "<Say>");
        log.begin(at(2), "<Hangup>");
        log.end(at(3));
        assert_eq!(log.take(), (vec![PerformedVerb { name: "Say", begin: at(0), end: at(2) }], 0));
        assert_eq!(log.take(), (vec![], 0), "they are taken once");
    }

    #[test]
    fn nothing_is_noted_unless_it_is_turned_on_and_the_notes_have_a_bound() {
        let mut log = VerbLog::default();
        log.begin(at(0), "<Say>");
        log.end(at(1));
        assert_eq!(log.take(), (vec![], 0));
        log.turn_on();
        for _ in 0..limits::PERFORMED_VERBS + 3 {
            log.begin(at(0), "<Stop>");
        }
        log.end(at(1));
        let (performed, missed) = log.take();
        assert_eq!((performed.len(), missed), (limits::PERFORMED_VERBS, 3));
    }
}
