//! The ownership of one bucket by one shard of this node, from the map's assignment until another shard has it.
//!
//! ```text
//!          assign            taken            loaded           revoke             drained + given
//!  Vacant ───────▶ Fencing ─────────▶ Loading ───────▶ Serving ───────▶ Draining ───────────────▶ HandedOver
//!                    ▲                                   │  lapse: the node's authority ended
//!                    └───────────────────────────────────┘  taken with the same epoch: memory is still right
//! ```
//!
//! The database gives the epoch by compare-and-swap: a shard names the last epoch that it knows of, and gets the next one if the bucket
//! has no later one and its holder has given the bucket back or is fenced. So a question that arrives late takes nothing. A database that was
//! restored has an earlier epoch than the shard, and gives the one after the shard's.
//! A shard that holds the bucket already gets its epoch again, which makes questions that are asked twice harmless and a lapse of authority
//! cheap.

use stdx::Instant;

use crate::address::Epoch;
use crate::limits::{FENCE_ANSWER, FENCE_RETRY};

/// An order of a tenure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TenureEffect {
    /// Take the bucket in the database if it has no later epoch than this one. The answer: [`Tenure::handle_taken`] or
    /// [`Tenure::handle_refused`].
    Fence(Epoch),
    /// Forget what memory has of the bucket and read its rows. When done: [`Tenure::handle_loaded`].
    Load(Epoch),
    /// Answer questions for the bucket, with this epoch.
    Serve(Epoch),
    /// Answer no more questions for the bucket. Memory stays until the next `Load` or the end.
    Stop(Epoch),
    /// The writes of the bucket are complete: give it back in the database. When done: [`Tenure::handle_given`].
    Give(Epoch),
}

/// The state of a tenure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TenureState {
    /// The bucket is not assigned to this shard, and never was or is not remembered.
    #[default]
    Vacant,
    /// The database has been asked for the bucket, or is to be asked again at `retry_at`. `memory` is the epoch up to which memory is
    /// right, after a lapse.
    Fencing {
        /// The time of the next question.
        retry_at: Instant,
        /// The epoch of the rows in memory.
        memory: Option<Epoch>,
    },
    /// The rows are being read. The store tries until it can, or the epoch ends.
    Loading {
        /// The epoch that the database gave.
        epoch: Epoch,
    },
    /// The shard answers for the bucket.
    Serving {
        /// The epoch of all answers and writes.
        epoch: Epoch,
    },
    /// The bucket is assigned to another shard; writes under way are completed, also those of before a lapse, then it is given back.
    Draining {
        /// The epoch of the last writes.
        epoch: Epoch,
        /// The time at which it is given back again, as the answer may be lost; none until the writes are complete.
        give_at: Option<Instant>,
    },
    /// The bucket has been given back.
    HandedOver {
        /// The epoch that has ended.
        epoch: Epoch,
    },
}

/// One bucket at one shard. `is_assigned` follows the map, `state` what is done about it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tenure {
    state: TenureState,
    is_assigned: bool,
    /// The last epoch of the bucket that the map or the database has told of.
    known: Epoch,
    /// Questions of the last assignment have been answered or given up by the database by then.
    settled_at: Instant,
}

impl Tenure {
    /// The map gives the bucket to this shard. `epoch` is the last one that the map knows.
    pub fn assign(&mut self, now: Instant, epoch: Epoch, out: &mut Vec<TenureEffect>) {
        self.is_assigned = true;
        self.known = self.known.max(epoch);
        // A bucket that is being given back is given back first.
        if matches!(self.state, TenureState::Vacant | TenureState::HandedOver { .. }) {
            self.fence(now, None, out);
        }
    }

    /// The map gives the bucket to another shard.
    pub fn revoke(&mut self, now: Instant, out: &mut Vec<TenureEffect>) {
        self.is_assigned = false;
        match self.state {
            // A question may be under way and succeed. It is asked again when all others have been answered: then the
            // bucket is given back, or the refusal is the last word.
            TenureState::Fencing { memory, .. } => {
                self.settled_at = now + FENCE_ANSWER;
                self.state = TenureState::Fencing { retry_at: self.settled_at, memory };
            }
            TenureState::Loading { epoch } => self.give(now, epoch, out),
            TenureState::Serving { epoch } => {
                out.push(TenureEffect::Stop(epoch));
                self.state = TenureState::Draining { epoch, give_at: None };
            }
            TenureState::Vacant | TenureState::Draining { .. } | TenureState::HandedOver { .. } => {}
        }
    }

    /// The database gives the bucket with this epoch.
    pub fn handle_taken(&mut self, now: Instant, epoch: Epoch, out: &mut Vec<TenureEffect>) {
        // An answer to a question that was asked twice finds another state.
        let TenureState::Fencing { memory, .. } = self.state else { return };
        self.known = self.known.max(epoch);
        if !self.is_assigned && memory == Some(epoch) {
            // It was served until the lapse, and the writes of that time may still be under way: they are completed first.
            out.push(TenureEffect::Stop(epoch));
            self.state = TenureState::Draining { epoch, give_at: None };
        } else if !self.is_assigned {
            self.give(now, epoch, out);
        } else if memory == Some(epoch) {
            self.serve(epoch, out);
        } else {
            out.push(TenureEffect::Load(epoch));
            self.state = TenureState::Loading { epoch };
        }
    }

    /// The database refuses: the bucket has a later epoch than the question, or its holder lives and has not given it back.
    /// `current` is the bucket's epoch.
    pub fn handle_refused(&mut self, now: Instant, current: Epoch, out: &mut Vec<TenureEffect>) {
        let TenureState::Fencing { memory, .. } = self.state else { return };
        let is_new = current > self.known;
        self.known = self.known.max(current);
        if !self.is_assigned {
            // No question that names an older epoch can succeed any more, and none is under way after `settled_at`.
            if is_new || now >= self.settled_at {
                self.state = TenureState::Vacant;
            }
        } else if is_new {
            self.fence(now, memory, out);
        } else {
            self.state = TenureState::Fencing { retry_at: now + FENCE_RETRY, memory };
        }
    }

    /// All rows have been read.
    pub fn handle_loaded(&mut self, epoch: Epoch, out: &mut Vec<TenureEffect>) {
        if self.state == (TenureState::Loading { epoch }) {
            self.serve(epoch, out);
        }
    }

    /// All writes of the bucket under this epoch have been answered by the database.
    pub fn handle_drained(&mut self, now: Instant, epoch: Epoch, out: &mut Vec<TenureEffect>) {
        if self.state == (TenureState::Draining { epoch, give_at: None }) {
            self.give(now, epoch, out);
        }
    }

    /// The database has taken the bucket back.
    pub fn handle_given(&mut self, now: Instant, epoch: Epoch, out: &mut Vec<TenureEffect>) {
        if !matches!(self.state, TenureState::Draining { epoch: own, .. } if own == epoch) {
            return;
        }
        self.state = TenureState::HandedOver { epoch };
        if self.is_assigned {
            self.fence(now, None, out);
        }
    }

    /// The node's authority has ended. Nothing is served until the database confirms the epoch.
    pub fn lapse(&mut self, out: &mut Vec<TenureEffect>) {
        let memory = match self.state {
            TenureState::Serving { epoch } => {
                out.push(TenureEffect::Stop(epoch));
                Some(epoch)
            }
            TenureState::Fencing { memory, .. } => memory,
            TenureState::Loading { .. } => None,
            TenureState::Vacant | TenureState::Draining { .. } | TenureState::HandedOver { .. } => return,
        };
        self.state = TenureState::Fencing { retry_at: Instant::FAR_FUTURE, memory };
    }

    /// The node has authority again: what a lapse stopped goes on.
    pub fn resume(&mut self, now: Instant, out: &mut Vec<TenureEffect>) {
        if let TenureState::Fencing { memory, .. } = self.state {
            self.fence(now, memory, out);
        }
    }

    /// Asks again what has not been answered.
    pub fn expire(&mut self, now: Instant, out: &mut Vec<TenureEffect>) {
        match self.state {
            TenureState::Fencing { retry_at, memory } if retry_at <= now => self.fence(now, memory, out),
            TenureState::Draining { epoch, give_at: Some(at) } if at <= now => self.give(now, epoch, out),
            _ => {}
        }
    }

    /// The time at which [`Tenure::expire`] is due; none while nothing is asked.
    pub fn deadline(&self) -> Option<Instant> {
        match self.state {
            TenureState::Fencing { retry_at, .. } => Some(retry_at),
            TenureState::Draining { give_at, .. } => give_at,
            _ => None,
        }
    }

    /// The epoch under which the bucket is served; none in other states.
    pub fn serving(&self) -> Option<Epoch> {
        match self.state {
            TenureState::Serving { epoch } => Some(epoch),
            _ => None,
        }
    }

    /// The state.
    pub fn state(&self) -> TenureState {
        self.state
    }

    /// True once this shard has nothing of the bucket and is to have nothing.
    pub fn is_over(&self) -> bool {
        !self.is_assigned && matches!(self.state, TenureState::Vacant | TenureState::HandedOver { .. })
    }

    fn fence(&mut self, now: Instant, memory: Option<Epoch>, out: &mut Vec<TenureEffect>) {
        out.push(TenureEffect::Fence(self.known));
        self.state = TenureState::Fencing { retry_at: now + FENCE_ANSWER, memory };
    }

    fn serve(&mut self, epoch: Epoch, out: &mut Vec<TenureEffect>) {
        out.push(TenureEffect::Serve(epoch));
        self.state = TenureState::Serving { epoch };
    }

    fn give(&mut self, now: Instant, epoch: Epoch, out: &mut Vec<TenureEffect>) {
        out.push(TenureEffect::Give(epoch));
        self.state = TenureState::Draining { epoch, give_at: Some(now + FENCE_ANSWER) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUR: Epoch = Epoch(4);
    const FIVE: Epoch = Epoch(5);
    const SIX: Epoch = Epoch(6);

    fn at(millis: u64) -> Instant {
        Instant::from_micros(millis * 1_000)
    }

    /// Runs one input and returns its effects.
    fn after(
        tenure: &mut Tenure,
        input: impl FnOnce(&mut Tenure, &mut Vec<TenureEffect>),
    ) -> Vec<TenureEffect> {
        let mut out = Vec::new();
        input(tenure, &mut out);
        out
    }

    fn serving() -> Tenure {
        let mut tenure = Tenure::default();
        assert_eq!(after(&mut tenure, |t, out| t.assign(at(0), FOUR, out)), [TenureEffect::Fence(FOUR)]);
        assert_eq!(after(&mut tenure, |t, out| t.handle_taken(at(1), FIVE, out)), [TenureEffect::Load(FIVE)]);
        assert_eq!(after(&mut tenure, |t, out| t.handle_loaded(FIVE, out)), [TenureEffect::Serve(FIVE)]);
        tenure
    }

    #[test]
    fn a_bucket_goes_from_vacant_to_handed_over() {
        let mut tenure = serving();
        assert_eq!(tenure.serving(), Some(FIVE));
        assert_eq!(after(&mut tenure, |t, out| t.revoke(at(2), out)), [TenureEffect::Stop(FIVE)]);
        assert_eq!(
            after(&mut tenure, |t, out| t.handle_drained(at(3), FIVE, out)),
            [TenureEffect::Give(FIVE)]
        );
        assert_eq!(after(&mut tenure, |t, out| t.handle_given(at(4), FIVE, out)), []);
        assert_eq!(tenure.state(), TenureState::HandedOver { epoch: FIVE });
        assert!(tenure.is_over());
    }

    #[test]
    fn a_lapse_keeps_memory_if_the_epoch_is_the_same() {
        let mut tenure = serving();
        assert_eq!(after(&mut tenure, |t, out| t.lapse(out)), [TenureEffect::Stop(FIVE)]);
        assert_eq!(after(&mut tenure, |t, out| t.expire(at(9_000), out)), []);
        assert_eq!(after(&mut tenure, |t, out| t.resume(at(9_000), out)), [TenureEffect::Fence(FIVE)]);
        let mut other = tenure;
        assert_eq!(
            after(&mut tenure, |t, out| t.handle_taken(at(9_001), FIVE, out)),
            [TenureEffect::Serve(FIVE)]
        );
        assert_eq!(
            after(&mut other, |t, out| t.handle_taken(at(9_001), SIX, out)),
            [TenureEffect::Load(SIX)]
        );
    }

    #[test]
    fn an_assignment_that_is_withdrawn_while_the_database_is_asked_is_given_back() {
        let mut tenure = Tenure::default();
        after(&mut tenure, |t, out| t.assign(at(0), FOUR, out));
        assert_eq!(after(&mut tenure, |t, out| t.revoke(at(1), out)), []);
        assert_eq!(after(&mut tenure, |t, out| t.handle_taken(at(2), FIVE, out)), [TenureEffect::Give(FIVE)]);
        after(&mut tenure, |t, out| t.handle_given(at(3), FIVE, out));
        assert!(tenure.is_over());
    }

    #[test]
    fn a_bucket_that_is_withdrawn_during_a_lapse_is_given_back_when_its_writes_are_complete() {
        let mut tenure = serving();
        assert_eq!(after(&mut tenure, |t, out| t.lapse(out)), [TenureEffect::Stop(FIVE)]);
        assert_eq!(after(&mut tenure, |t, out| t.revoke(at(9_000), out)), []);
        assert_eq!(after(&mut tenure, |t, out| t.resume(at(9_000), out)), [TenureEffect::Fence(FIVE)]);
        assert_eq!(
            after(&mut tenure, |t, out| t.handle_taken(at(9_001), FIVE, out)),
            [TenureEffect::Stop(FIVE)],
            "a write of before the lapse may be under way"
        );
        assert_eq!(after(&mut tenure, |t, out| t.expire(at(20_000), out)), []);
        assert_eq!(
            after(&mut tenure, |t, out| t.handle_drained(at(20_001), FIVE, out)),
            [TenureEffect::Give(FIVE)]
        );
        after(&mut tenure, |t, out| t.handle_given(at(20_002), FIVE, out));
        assert!(tenure.is_over());
    }

    #[test]
    fn an_assignment_that_comes_back_while_draining_is_asked_for_after_the_give() {
        let mut tenure = serving();
        after(&mut tenure, |t, out| t.revoke(at(2), out));
        assert_eq!(after(&mut tenure, |t, out| t.assign(at(3), FOUR, out)), []);
        after(&mut tenure, |t, out| t.handle_drained(at(4), FIVE, out));
        assert_eq!(
            after(&mut tenure, |t, out| t.handle_given(at(5), FIVE, out)),
            [TenureEffect::Fence(FIVE)]
        );
    }

    #[test]
    fn questions_without_an_answer_are_asked_again() {
        let mut tenure = Tenure::default();
        after(&mut tenure, |t, out| t.assign(at(0), FOUR, out));
        assert_eq!(after(&mut tenure, |t, out| t.expire(at(2_999), out)), []);
        assert_eq!(after(&mut tenure, |t, out| t.expire(at(3_000), out)), [TenureEffect::Fence(FOUR)]);
        assert_eq!(after(&mut tenure, |t, out| t.handle_refused(at(3_001), FOUR, out)), []);
        assert_eq!(after(&mut tenure, |t, out| t.expire(at(3_501), out)), [TenureEffect::Fence(FOUR)]);
        after(&mut tenure, |t, out| t.handle_taken(at(3_600), FIVE, out));
        assert_eq!(tenure.deadline(), None);
    }

    #[test]
    fn an_epoch_that_the_map_does_not_have_yet_is_learnt_from_the_refusal() {
        let mut tenure = Tenure::default();
        after(&mut tenure, |t, out| t.assign(at(0), FOUR, out));
        let again = after(&mut tenure, |t, out| t.handle_refused(at(1), SIX, out));
        assert_eq!(again, [TenureEffect::Fence(SIX)]);
    }

    #[test]
    fn a_withdrawn_assignment_ends_with_the_refusal_of_the_last_question() {
        let mut tenure = Tenure::default();
        after(&mut tenure, |t, out| t.assign(at(0), FOUR, out));
        after(&mut tenure, |t, out| t.revoke(at(1), out));
        assert_eq!(after(&mut tenure, |t, out| t.handle_refused(at(2), FOUR, out)), []);
        assert!(!tenure.is_over());
        assert_eq!(after(&mut tenure, |t, out| t.expire(at(3_001), out)), [TenureEffect::Fence(FOUR)]);
        assert_eq!(after(&mut tenure, |t, out| t.handle_refused(at(3_002), FOUR, out)), []);
        assert!(tenure.is_over());
    }

    #[test]
    fn late_answers_find_a_state_that_ignores_them() {
        let mut tenure = serving();
        assert_eq!(after(&mut tenure, |t, out| t.handle_taken(at(9), SIX, out)), []);
        assert_eq!(after(&mut tenure, |t, out| t.handle_loaded(FIVE, out)), []);
        assert_eq!(after(&mut tenure, |t, out| t.handle_given(at(9), FIVE, out)), []);
        assert_eq!(after(&mut tenure, |t, out| t.handle_drained(at(9), FIVE, out)), []);
        assert_eq!(tenure.serving(), Some(FIVE));
    }
}
