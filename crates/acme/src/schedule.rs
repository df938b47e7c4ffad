//! The time of the next order: a function of the certificate in use, the orders of the last hour and their failures. Time and
//! chance are arguments.

use std::collections::VecDeque;
use std::time::Duration;

use net::certificate::Validity;
use stdx::Instant;

use crate::limits;

/// A failure, by what it cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// No order was begun: the authority cannot be reached, or this machine has a fault.
    Unreachable,
    /// The authority has counted an order.
    Refused,
}

/// The times of orders.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// The latest orders, the oldest first; at most `limits::ORDERS_PER_HOUR`.
    begun: VecDeque<Instant>,
    /// Failures of one kind in a row, since the last certificate.
    failures: u32,
    /// Their kind.
    failed: Option<FailureKind>,
    /// No order begins before.
    retry_at: Instant,
    /// Thousandths of a thirtieth of a certificate's life, by which its renewal is earlier: nodes that started together do not
    /// ask together.
    jitter: u32,
}

const HOUR: Duration = Duration::from_hours(1);

impl Schedule {
    /// `begun`: orders of earlier starts.
    pub fn new(begun: impl IntoIterator<Item = Instant>, random: u64) -> Schedule {
        let mut schedule = Schedule {
            begun: VecDeque::new(),
            failures: 0,
            failed: None,
            retry_at: Instant::default(),
            jitter: per_mille(random),
        };
        begun.into_iter().for_each(|at| schedule.remember(at));
        schedule
    }

    /// The time of the next order. `held`: the validity of a certificate of the authority that has all names; none: there is no such
    /// certificate, and one is due as soon as the limits allow it.
    pub fn deadline(&self, held: Option<Validity>) -> Instant {
        let wanted = held.map_or(Instant::default(), |validity| self.renewal(validity));
        let is_full = self.begun.len() >= limits::ORDERS_PER_HOUR;
        let oldest = self.begun.front().filter(|_| is_full);
        let allowed = oldest.map_or(Instant::default(), |oldest| *oldest + HOUR);
        wanted.max(self.retry_at).max(allowed)
    }

    /// An order begins.
    pub fn handle_begun(&mut self, now: Instant) {
        self.remember(now);
    }

    /// An order, or the attempt to begin one, has failed. `retry_after`: the pause that the authority asks for.
    pub fn handle_failed(
        &mut self,
        now: Instant,
        kind: FailureKind,
        retry_after: Option<Duration>,
        random: u64,
    ) {
        let (first, most) = match kind {
            FailureKind::Unreachable => (limits::RETRY_UNREACHABLE, limits::RETRY_UNREACHABLE_MOST),
            FailureKind::Refused => (limits::RETRY_REFUSED, limits::RETRY_REFUSED_MOST),
        };
        if self.failed.replace(kind) != Some(kind) {
            self.failures = 0;
        }
        let doubled = 1_u32.checked_shl(self.failures).and_then(|factor| first.checked_mul(factor));
        let pause = doubled.map_or(most, |pause| pause.min(most));
        self.failures = self.failures.saturating_add(1).min(31);
        let asked = retry_after.unwrap_or_default().min(limits::RETRY_AFTER_MOST);
        // Up to a quarter more.
        let pause = pause.max(asked) + pause / 4_000 * per_mille(random);
        self.retry_at = now + pause;
    }

    /// Orders of other nodes of the farm, and the time before which none begins after a failure there.
    pub fn handle_farm(&mut self, begun: impl IntoIterator<Item = Instant>, retry_at: Instant) {
        self.begun.clear();
        begun.into_iter().for_each(|at| self.remember(at));
        self.retry_at = self.retry_at.max(retry_at);
    }

    /// A certificate is in place.
    pub fn handle_issued(&mut self, random: u64) {
        self.failures = 0;
        self.retry_at = Instant::default();
        self.jitter = per_mille(random);
    }

    /// The time now, before each look at the deadline. A time noted while the clock was ahead, before it was set back, does not count:
    /// such times could keep the node from its renewal for years.
    pub fn handle_clock(&mut self, now: Instant) {
        self.begun.retain(|at| *at <= now);
        self.retry_at = self.retry_at.min(now + limits::RETRY_LONGEST);
    }

    /// The names have changed: an order that failed for the names of before may succeed now.
    pub fn handle_names_changed(&mut self) {
        self.failures = 0;
        self.retry_at = Instant::default();
    }

    /// Orders of the last hour, the oldest first, for the next start.
    pub fn begun(&self) -> impl Iterator<Item = Instant> {
        self.begun.iter().copied()
    }

    /// No order begins before, because of failures.
    pub fn retry_at(&self) -> Instant {
        self.retry_at
    }

    /// The time at which a third of the life is left, or up to a thirtieth of the life earlier.
    fn renewal(&self, validity: Validity) -> Instant {
        let life = validity.lifetime();
        let elapsed = life / 3 * 2;
        validity.not_before + elapsed.saturating_sub(life / 30_000 * self.jitter)
    }

    fn remember(&mut self, at: Instant) {
        self.begun.push_back(at);
        while self.begun.len() > limits::ORDERS_PER_HOUR {
            self.begun.pop_front();
        }
    }
}

fn per_mille(random: u64) -> u32 {
    u32::try_from(random % 1_000).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_hours(24);
    const START: Instant = Instant::from_unix_seconds(1_800_000_000);

    fn validity(days: u32) -> Validity {
        Validity { not_before: START, not_after: START + DAY * days }
    }

    #[test]
    fn the_first_order_is_due_at_once_and_a_renewal_when_a_third_of_the_life_is_left() {
        let schedule = Schedule::new([], 0);
        assert!(schedule.deadline(None) <= START);
        assert_eq!(schedule.deadline(Some(validity(90))), START + DAY * 60);
        assert_eq!(schedule.deadline(Some(validity(6))), START + DAY * 4, "short-lived");
    }

    #[test]
    fn nodes_that_started_together_renew_at_different_times() {
        let at = |random| Schedule::new([], random).deadline(Some(validity(90)));
        assert!(at(999) < at(500) && at(500) < at(0));
        assert!(at(999) >= START + DAY * 57, "not by much");
    }

    #[test]
    fn an_authority_that_is_away_is_asked_again_soon_and_then_more_seldom() {
        let mut schedule = Schedule::new([], 0);
        let mut pauses = Vec::new();
        for _ in 0..12 {
            schedule.handle_failed(START, FailureKind::Unreachable, None, 0);
            pauses.push(schedule.deadline(None).since(START).as_secs());
        }
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 320, 640, 1_280, 1_800, 1_800, 1_800]);
        schedule.handle_issued(0);
        assert!(schedule.deadline(None) <= START, "a success forgets the failures");
    }

    #[test]
    fn an_authority_that_was_away_does_not_make_the_first_refused_order_wait_longer() {
        let mut schedule = Schedule::new([], 0);
        (0..5).for_each(|_| schedule.handle_failed(START, FailureKind::Unreachable, None, 0));
        schedule.handle_failed(START, FailureKind::Refused, None, 0);
        assert_eq!(schedule.deadline(None), START + limits::RETRY_REFUSED);
    }

    #[test]
    fn a_refused_order_waits_longer_by_chance_and_as_the_authority_asks() {
        let mut schedule = Schedule::new([], 0);
        schedule.handle_failed(START, FailureKind::Refused, None, 999);
        let pause = schedule.deadline(None).since(START);
        assert!(pause > Duration::from_secs(370) && pause < Duration::from_secs(375), "{pause:?}");
        schedule.handle_failed(START, FailureKind::Refused, Some(DAY), 0);
        assert_eq!(schedule.deadline(None), START + DAY);
        schedule.handle_failed(START, FailureKind::Refused, Some(DAY * 365), 0);
        assert_eq!(schedule.deadline(None), START + limits::RETRY_AFTER_MOST);
        schedule.handle_names_changed();
        assert!(schedule.deadline(None) <= START, "the fault may have been one of the names");
    }

    #[test]
    fn a_clock_that_was_ahead_and_is_set_back_keeps_no_order_from_beginning() {
        let ahead = START + DAY * 4_000;
        let mut schedule = Schedule::new([ahead; limits::ORDERS_PER_HOUR], 0);
        schedule.handle_failed(ahead, FailureKind::Refused, None, 0);
        schedule.handle_clock(START);
        assert!(schedule.deadline(None) <= START + limits::RETRY_LONGEST, "{:?}", schedule.deadline(None));
        // A pause and orders by the right clock count as before.
        let mut schedule = Schedule::new([START; limits::ORDERS_PER_HOUR], 0);
        schedule.handle_failed(START, FailureKind::Refused, Some(limits::RETRY_AFTER_MOST), 999);
        let deadline = schedule.deadline(None);
        schedule.handle_clock(START);
        assert_eq!(schedule.deadline(None), deadline);
        assert_eq!(schedule.begun().count(), limits::ORDERS_PER_HOUR);
    }

    #[test]
    fn orders_in_an_hour_stay_within_the_limit_over_failures_and_restarts() {
        let mut schedule = Schedule::new([], 0);
        let (mut now, mut begun) = (START, Vec::new());
        let end = START + DAY;
        while now < end {
            now = now.max(schedule.deadline(None));
            schedule.handle_begun(now);
            begun.push(now);
            match begun.len() % 3 {
                // A start after a crash knows the orders of before and no failure.
                0 => schedule = Schedule::new(schedule.begun().collect::<Vec<_>>(), 0),
                1 => schedule.handle_issued(0),
                _ => schedule.handle_failed(now, FailureKind::Refused, None, 0),
            }
        }
        for window in begun.windows(limits::ORDERS_PER_HOUR + 1) {
            assert!(window[limits::ORDERS_PER_HOUR].since(window[0]) >= HOUR, "{window:?}");
        }
        assert!(begun.len() > 24, "and it goes on: {}", begun.len());
    }
}
