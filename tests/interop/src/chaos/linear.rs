//! Checks that the history of a register is linearizable (Herlihy and Wing, 1990): that one order of its operations explains all
//! that was read, where each operation takes effect at one moment between its begin and its end.
//!
//! A register here is one contact of one address; its value is the `q` of the binding, or none. The check is Lowe's
//! just-in-time linearization: it goes through the begins and ends in the order of time, keeps all states that are possible, and
//! lets an operation take effect only when its end demands it. An operation whose outcome is unknown may take effect at any
//! time after its begin, or never.

use std::collections::{BTreeMap, HashSet};

/// The `q` of a binding in thousandths; none: there is no binding.
pub type Value = Option<u16>;

/// A write or a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sets the value.
    Write(Value),
    /// The value that was returned.
    Read(Value),
}

/// An operation in a history. Times are microseconds since the begin of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The write or the read.
    pub action: Action,
    /// The time at which the client sent the request.
    pub began: u64,
    /// The time at which the client had the answer; none: the outcome is unknown.
    pub ended: Option<u64>,
}

/// The first operation that no order explains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its place in the history.
    pub operation: usize,
    /// The values that the register could have when it ended.
    pub possible: Vec<Value>,
}

/// One explanation of the history so far.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Explanation {
    value: Value,
    /// The operations that have taken effect and not ended, in order.
    effective: Vec<usize>,
}

/// Checks a history of a register without a value.
///
/// # Errors
/// The first operation that no order explains.
pub fn check(history: &[Operation]) -> Result<(), Violation> {
    let mut open: BTreeMap<usize, Operation> = BTreeMap::new();
    let mut explanations = HashSet::from([Explanation { value: None, effective: Vec::new() }]);
    for (_, is_end, number) in events(history) {
        if !is_end {
            open.insert(number, history[number]);
            continue;
        }
        let after: HashSet<Explanation> =
            explanations.iter().flat_map(|explanation| explanation.with(number, &open)).collect();
        if after.is_empty() {
            let mut possible: Vec<Value> = explanations.iter().map(|it| it.value).collect();
            possible.sort_unstable();
            possible.dedup();
            return Err(Violation { operation: number, possible });
        }
        explanations = after;
        open.remove(&number);
    }
    Ok(())
}

/// Begins and ends in the order of time. Of the same microsecond begins come first: these operations overlap.
fn events(history: &[Operation]) -> Vec<(u64, bool, usize)> {
    // A read without an answer says nothing.
    let is_relevant =
        |operation: &Operation| operation.ended.is_some() || matches!(operation.action, Action::Write(_));
    let operations = history.iter().enumerate().filter(|(_, operation)| is_relevant(operation));
    let both = operations.flat_map(|(number, operation)| {
        let begin = (operation.began, false, number);
        [Some(begin), operation.ended.map(|ended| (ended, true, number))].into_iter().flatten()
    });
    let mut events: Vec<_> = both.collect();
    events.sort_unstable();
    events
}

impl Explanation {
    /// The explanations that follow from this one in which the operation `ending` has taken effect.
    fn with(&self, ending: usize, open: &BTreeMap<usize, Operation>) -> Vec<Explanation> {
        let (mut found, mut seen) = (Vec::new(), HashSet::new());
        let mut waiting = vec![self.clone()];
        while let Some(explanation) = waiting.pop() {
            if let Some(place) = explanation.effective.iter().position(|number| *number == ending) {
                let mut done = explanation;
                done.effective.remove(place);
                found.push(done);
                continue;
            }
            let next =
                open.iter().filter_map(|(number, operation)| explanation.then(*number, operation, open));
            waiting.extend(next.filter(|next| seen.insert(next.clone())));
        }
        found
    }

    /// This explanation after an open operation, if that can take effect now.
    fn then(
        &self,
        number: usize,
        operation: &Operation,
        open: &BTreeMap<usize, Operation>,
    ) -> Option<Explanation> {
        if self.effective.contains(&number) {
            return None;
        }
        let value = match operation.action {
            Action::Read(value) if value != self.value => return None,
            Action::Read(value) => value,
            // A write of unknown outcome that no read sees might as well not have happened.
            Action::Write(value) if operation.ended.is_none() && !self.is_awaited(value, open) => {
                return None;
            }
            Action::Write(value) => value,
        };
        let mut effective = self.effective.clone();
        effective.push(number);
        effective.sort_unstable();
        Some(Explanation { value, effective })
    }

    /// True if an open read needs a value that the register does not have.
    fn is_awaited(&self, value: Value, open: &BTreeMap<usize, Operation>) -> bool {
        let mut reads = open.iter().filter(|(number, operation)| {
            operation.action == Action::Read(value) && !self.effective.contains(number)
        });
        self.value != value && reads.next().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(value: u16, began: u64, ended: u64) -> Operation {
        Operation { action: Action::Write(Some(value)), began, ended: Some(ended) }
    }

    fn remove(began: u64, ended: u64) -> Operation {
        Operation { action: Action::Write(None), began, ended: Some(ended) }
    }

    fn unknown(value: u16, began: u64) -> Operation {
        Operation { action: Action::Write(Some(value)), began, ended: None }
    }

    fn read(value: impl Into<Value>, began: u64, ended: u64) -> Operation {
        Operation { action: Action::Read(value.into()), began, ended: Some(ended) }
    }

    #[test]
    fn operations_one_after_the_other_are_explained() {
        assert_eq!(
            check(&[read(None, 0, 1), write(1, 2, 3), read(1, 4, 5), remove(6, 7), read(None, 8, 9)]),
            Ok(())
        );
    }

    #[test]
    fn a_lost_write_is_found() {
        let history = [write(1, 0, 1), write(2, 2, 3), read(1, 4, 5)];
        assert_eq!(check(&history), Err(Violation { operation: 2, possible: vec![Some(2)] }));
        assert!(check(&[write(1, 0, 1), read(None, 2, 3)]).is_err(), "a binding that is not there");
        assert!(check(&[write(1, 0, 1), remove(2, 3), read(1, 4, 5)]).is_err(), "a binding that came back");
    }

    #[test]
    fn a_read_of_a_later_write_is_found() {
        assert!(check(&[read(1, 0, 1), write(1, 2, 3)]).is_err());
        assert!(check(&[read(7, 0, 1)]).is_err(), "never written");
    }

    #[test]
    fn operations_at_the_same_time_have_any_order() {
        for seen in [None, Some(1)] {
            assert_eq!(check(&[write(1, 0, 10), read(seen, 2, 3), read(1, 11, 12)]), Ok(()), "{seen:?}");
        }
        for last in [1, 2] {
            assert_eq!(check(&[write(1, 0, 10), write(2, 1, 9), read(last, 11, 12)]), Ok(()));
        }
    }

    #[test]
    fn two_reads_during_a_write_agree_on_its_moment() {
        assert_eq!(check(&[write(1, 0, 10), read(None, 1, 2), read(1, 3, 4)]), Ok(()));
        assert!(check(&[write(1, 0, 10), read(1, 1, 2), read(None, 3, 4)]).is_err(), "a value that vanishes");
        let flip = [write(1, 0, 20), write(2, 0, 20), read(1, 1, 2), read(2, 3, 4), read(1, 5, 6)];
        assert!(check(&flip).is_err(), "a value that comes back");
    }

    #[test]
    fn a_write_of_unknown_outcome_happens_later_or_never() {
        assert_eq!(check(&[write(1, 0, 1), unknown(2, 2), read(1, 3, 4), read(1, 5, 6)]), Ok(()));
        assert_eq!(check(&[write(1, 0, 1), unknown(2, 2), read(1, 3, 4), read(2, 5, 6)]), Ok(()));
        assert_eq!(check(&[unknown(2, 0), write(1, 2, 3), read(2, 5, 6)]), Ok(()), "it may have been late");
    }

    #[test]
    fn a_write_of_unknown_outcome_happens_once() {
        let history = [unknown(2, 0), read(2, 1, 2), write(1, 3, 4), read(1, 5, 6), read(2, 7, 8)];
        assert_eq!(check(&history), Err(Violation { operation: 4, possible: vec![Some(1)] }));
        assert!(check(&[read(2, 0, 1), unknown(2, 2)]).is_err(), "not before its begin");
    }

    #[test]
    fn a_long_history_with_many_unknown_outcomes_is_checked_quickly() {
        let mut history = Vec::new();
        for turn in 0..400_u16 {
            let began = u64::from(turn) * 100;
            history.push(if turn % 3 == 0 { unknown(turn, began) } else { write(turn, began, began + 60) });
            let seen = if turn % 3 == 0 { turn.checked_sub(1) } else { Some(turn) };
            history.push(read(seen, began + 70, began + 80));
        }
        assert_eq!(check(&history), Ok(()));
        history.push(read(399 - 1, 50_000, 50_001));
        // 398 was overwritten by 399, which is of unknown outcome, so this read is right.
        assert_eq!(check(&history), Ok(()));
        history.push(read(5, 50_002, 50_003));
        assert!(check(&history).is_err());
    }
}
