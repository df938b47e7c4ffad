//! The lease of this node: its right to act as owner and worker.
//!
//! The node renews it every second at the council. It may act until [`AUTHORITY`] after it *sent* the last renewal that
//! succeeded, by its own monotonic clock: the answer may be late, the moment of sending is a lower bound of the moment at which
//! others saw the renewal. They take over [`TAKEOVER`] after they have seen it.
//!
//! While the council is away no node can take over its buckets, so the node asks the database once a second whether it has been fenced.
//! "Not fenced" is worth as much as a renewal. A node that fences another cuts that one's connections to the
//! database; an end of the connection therefore ends the authority that the database gave.

use stdx::Instant;

use crate::limits::{AUTHORITY, COUNCIL_AWAY, RENEWAL};

/// An order of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseEffect {
    /// Write the node's key with its announcement. Success: [`Lease::handle_renewed`] with the same time.
    Renew {
        /// The time of the order. The authority that a success gives counts from it, not from the answer, which may be late.
        sent_at: Instant,
    },
    /// Ask the database whether this life is fenced. The answer: [`Lease::handle_unfenced`] with the same time, or
    /// [`Lease::handle_fenced`].
    AskFence {
        /// The time of the question. An answer proves that the life was not fenced then, and nothing of later.
        sent_at: Instant,
    },
}

/// The lease of one life. It begins without authority.
#[derive(Debug)]
pub struct Lease {
    /// The time at which the last successful renewal was sent.
    renewed: Option<Instant>,
    /// The time of the last question that the database answered with "not fenced".
    unfenced: Option<Instant>,
    next_renewal: Instant,
    is_fenced: bool,
}

impl Lease {
    /// The lease of a node that has just started; the first renewal is due at once.
    pub fn new(now: Instant) -> Lease {
        Lease { renewed: None, unfenced: None, next_renewal: now, is_fenced: false }
    }

    /// Sends what is due.
    pub fn expire(&mut self, now: Instant, out: &mut Vec<LeaseEffect>) {
        if self.is_fenced || now < self.next_renewal {
            return;
        }
        self.next_renewal = now + RENEWAL;
        out.push(LeaseEffect::Renew { sent_at: now });
        // A node that never had a renewal has nothing to keep.
        if self.renewed.is_some() && self.council_is_away(now) {
            out.push(LeaseEffect::AskFence { sent_at: now });
        }
    }

    /// Before a work that may take long: the next renewal is due now if half of the time until it has passed. A work of more than a
    /// second would otherwise come between two renewals and the answers to both.
    pub fn hasten(&mut self, now: Instant) {
        if now + RENEWAL / 2 >= self.next_renewal {
            self.next_renewal = self.next_renewal.min(now);
        }
    }

    /// A renewal that was sent at this time has succeeded.
    pub fn handle_renewed(&mut self, sent_at: Instant) {
        self.renewed = self.renewed.max(Some(sent_at));
    }

    /// The database answers a question of this time: the life is not fenced.
    pub fn handle_unfenced(&mut self, sent_at: Instant) {
        self.unfenced = self.unfenced.max(Some(sent_at));
    }

    /// The database has refused this life. That is for good: the process ends itself and starts with a new life.
    pub fn handle_fenced(&mut self) {
        self.is_fenced = true;
    }

    /// The connection to the database has ended: perhaps because another node has fenced this one.
    pub fn handle_database_lost(&mut self) {
        self.unfenced = None;
    }

    /// True while the node may act as owner of its buckets and answer for them.
    pub fn may_act(&self, now: Instant) -> bool {
        self.authority_ends().is_some_and(|end| now < end)
    }

    /// The end of the authority as it stands; none without any.
    pub fn authority_ends(&self) -> Option<Instant> {
        let last = self.renewed.max(self.unfenced);
        last.filter(|_| !self.is_fenced).map(|sent_at| sent_at + AUTHORITY)
    }

    /// True if no renewal has succeeded for a while. Missing messages of other nodes then prove nothing.
    pub fn council_is_away(&self, now: Instant) -> bool {
        self.renewed.is_none_or(|sent_at| now.since(sent_at) >= COUNCIL_AWAY)
    }

    /// True if the database has refused this life.
    pub fn is_fenced(&self) -> bool {
        self.is_fenced
    }

    /// The time at which [`Lease::expire`] is due next.
    pub fn deadline(&self) -> Instant {
        if self.is_fenced { Instant::FAR_FUTURE } else { self.next_renewal }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::limits::TAKEOVER;

    fn at(millis: u64) -> Instant {
        Instant::from_micros(millis * 1_000)
    }

    fn effects(lease: &mut Lease, now: Instant) -> Vec<LeaseEffect> {
        let mut out = Vec::new();
        lease.expire(now, &mut out);
        out
    }

    #[test]
    fn authority_counts_from_the_sending_of_the_renewal() {
        let mut lease = Lease::new(at(0));
        assert_eq!(effects(&mut lease, at(0)), [LeaseEffect::Renew { sent_at: at(0) }]);
        assert!(!lease.may_act(at(0)));
        // The answer is two seconds late and is worth half a second.
        lease.handle_renewed(at(0));
        assert!(lease.may_act(at(2_000)) && lease.may_act(at(2_499)));
        assert!(!lease.may_act(at(2_500)));
    }

    #[test]
    fn an_answer_out_of_order_takes_nothing_back() {
        let mut lease = Lease::new(at(0));
        lease.handle_renewed(at(1_000));
        lease.handle_renewed(at(0));
        assert!(lease.may_act(at(3_400)));
    }

    #[test]
    fn renewals_are_sent_once_a_second_and_the_fence_is_asked_while_the_council_is_away() {
        let mut lease = Lease::new(at(0));
        effects(&mut lease, at(0));
        lease.handle_renewed(at(0));
        assert_eq!(effects(&mut lease, at(999)), []);
        assert_eq!(effects(&mut lease, at(1_000)), [LeaseEffect::Renew { sent_at: at(1_000) }]);
        assert_eq!(effects(&mut lease, at(2_000)), [LeaseEffect::Renew { sent_at: at(2_000) }]);
        let both = [LeaseEffect::Renew { sent_at: at(3_000) }, LeaseEffect::AskFence { sent_at: at(3_000) }];
        assert_eq!(effects(&mut lease, at(3_000)), both);
        lease.handle_unfenced(at(3_000));
        assert!(lease.may_act(at(5_499)) && !lease.may_act(at(5_500)));
    }

    #[test]
    fn before_a_long_work_a_renewal_is_sent_when_half_its_time_has_passed() {
        let mut lease = Lease::new(at(0));
        effects(&mut lease, at(0));
        lease.hasten(at(499));
        assert_eq!(effects(&mut lease, at(499)), []);
        lease.hasten(at(500));
        assert_eq!(effects(&mut lease, at(500)), [LeaseEffect::Renew { sent_at: at(500) }]);
        assert_eq!(lease.deadline(), at(1_500));
    }

    #[test]
    fn a_cut_connection_to_the_database_ends_the_time_it_gave() {
        let mut lease = Lease::new(at(0));
        lease.handle_renewed(at(0));
        lease.handle_unfenced(at(3_000));
        lease.handle_database_lost();
        assert!(!lease.may_act(at(3_001)) && lease.may_act(at(2_499)));
    }

    #[test]
    fn a_fenced_life_never_acts_again() {
        let mut lease = Lease::new(at(0));
        lease.handle_renewed(at(0));
        lease.handle_fenced();
        lease.handle_renewed(at(100));
        assert!(!lease.may_act(at(200)));
        assert_eq!(effects(&mut lease, at(5_000)), []);
    }

    /// Clocks may run apart by 10 % and a renewal may be under way for a second and a half, and still a holder has stopped
    /// before others take over.
    #[test]
    fn takers_wait_longer_than_holders_act() {
        assert!(TAKEOVER.mul_f64(0.95) > AUTHORITY.mul_f64(1.05) + Duration::from_millis(1_500));
    }
}
