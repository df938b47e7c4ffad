//! Requests that wait for a service that is away, a database for example: each for a limited time, and a limited number of them.
//!
//! The driver tells of each attempt that has ended (`fail`, `succeed`) and gives a request whose attempt failed to `hold`. While requests
//! wait, one attempt at a time shows whether the service is back (`take_try`): its request comes back by `hold` or is done. `succeed` gives
//! all others back. Requests that have waited long enough come out of `expire`, which the driver calls at `deadline`.
//!
//! A service that has been away for `known_after` is known to be away: no request waits for it any more, as this would delay an answer that
//! is known.

use std::collections::VecDeque;
use std::time::Duration;

use crate::Instant;

/// The times and sizes of an [`Outage`].
#[derive(Clone, Copy, Debug)]
pub struct OutageSettings {
    /// The time that a request waits, from its arrival.
    pub patience: Duration,
    /// The time after which a service counts as away for long.
    pub known_after: Duration,
    /// The pause before the first attempt for a waiting request; each further pause is twice as long, up to `longest_pause`.
    pub first_pause: Duration,
    /// The longest pause between two attempts.
    pub longest_pause: Duration,
    /// Requests that may wait.
    pub most: usize,
}

/// A request with the time of its arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held<T> {
    /// The time of its arrival: it waits for the patience from then on.
    pub arrived: Instant,
    /// The request.
    pub request: T,
}

/// A service that may be away, and the requests that wait for it.
#[derive(Debug)]
pub struct Outage<T> {
    settings: OutageSettings,
    /// The first failure since the last success.
    since: Option<Instant>,
    /// The requests in the order of their arrival.
    held: VecDeque<Held<T>>,
    pause: Duration,
    try_at: Option<Instant>,
}

impl<T> Outage<T> {
    /// A service that is there.
    pub fn new(settings: OutageSettings) -> Outage<T> {
        let pause = settings.first_pause;
        Outage { settings, since: None, held: VecDeque::new(), pause, try_at: None }
    }

    /// True if the last attempt has failed.
    pub fn is_away(&self) -> bool {
        self.since.is_some()
    }

    /// True if the service has been away for so long that no request waits for it.
    pub fn is_known(&self, now: Instant) -> bool {
        self.since.is_some_and(|since| now.since(since) >= self.settings.known_after)
    }

    /// The number of requests that wait.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// True if no request waits.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// An attempt has failed. True if it is the first one: the service was there before.
    pub fn fail(&mut self, now: Instant) -> bool {
        let is_first = self.since.is_none();
        self.since.get_or_insert(now);
        is_first
    }

    /// An attempt has succeeded. The requests that have waited, in the order of their arrival.
    pub fn succeed(&mut self) -> VecDeque<Held<T>> {
        (self.since, self.try_at, self.pause) = (None, None, self.settings.first_pause);
        std::mem::take(&mut self.held)
    }

    /// Lets a request wait that arrived then.
    ///
    /// # Errors
    /// The request, if it has waited for long enough, if too many wait, or if the service is known to be away.
    pub fn hold(&mut self, now: Instant, arrived: Instant, request: T) -> Result<(), T> {
        let is_late = now.since(arrived) >= self.settings.patience;
        if is_late || self.held.len() >= self.settings.most || self.is_known(now) {
            return Err(request);
        }
        // Attempts end out of order: nearly always its place is the last one.
        let place = self.held.iter().rposition(|held| held.arrived <= arrived).map_or(0, |last| last + 1);
        self.held.insert(place, Held { arrived, request });
        self.try_at.get_or_insert(now + self.pause);
        Ok(())
    }

    /// The request of the next attempt, once that is due.
    pub fn take_try(&mut self, now: Instant) -> Option<Held<T>> {
        if self.try_at.is_none_or(|at| at > now) {
            return None;
        }
        let next = self.held.pop_front()?;
        self.pause = (self.pause * 2).min(self.settings.longest_pause);
        // The end of the attempt decides when the next one follows; a request that comes meanwhile may be earlier.
        self.try_at = (!self.held.is_empty()).then_some(now + self.pause);
        Some(next)
    }

    /// A request that has waited for long enough: the one that waits longest. To be called until there is none.
    pub fn expire(&mut self, now: Instant) -> Option<Held<T>> {
        let first = self.held.front()?;
        let is_over = now.since(first.arrived) >= self.settings.patience || self.is_known(now);
        if is_over { self.held.pop_front() } else { None }
    }

    /// Removes the requests of this kind.
    pub fn remove(&mut self, is_meant: impl Fn(&T) -> bool) -> Vec<T> {
        let (removed, kept) = self.held.drain(..).partition(|held| is_meant(&held.request));
        self.held = kept;
        let removed: VecDeque<Held<T>> = removed;
        removed.into_iter().map(|held| held.request).collect()
    }

    /// The time at which `expire` or `take_try` has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        let first = self.held.front()?;
        let over = first.arrived + self.settings.patience;
        let known = self.since.map(|since| since + self.settings.known_after);
        [Some(over), known, self.try_at].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    const START: Instant = Instant::from_unix_seconds(1_700_000_000);

    const SETTINGS: OutageSettings = OutageSettings {
        patience: Duration::from_secs(4),
        known_after: Duration::from_secs(10),
        first_pause: Duration::from_millis(50),
        longest_pause: Duration::from_millis(200),
        most: 3,
    };

    fn at(milliseconds: u64) -> Instant {
        START + Duration::from_millis(milliseconds)
    }

    fn requests(held: VecDeque<Held<u32>>) -> Vec<u32> {
        held.into_iter().map(|held| held.request).collect()
    }

    fn expired(outage: &mut Outage<u32>, now: Instant) -> Vec<u32> {
        std::iter::from_fn(|| outage.expire(now)).map(|held| held.request).collect()
    }

    #[test]
    fn requests_wait_in_the_order_of_their_arrival_until_the_service_is_back() {
        let mut outage = Outage::new(SETTINGS);
        assert!(outage.fail(at(20)), "it is the first failure");
        assert!(!outage.fail(at(20)));
        // The attempt of the second ends first.
        for (arrived, request) in [(at(5), 2), (at(1), 1), (at(20), 3)] {
            assert_eq!(outage.hold(at(20), arrived, request), Ok(()));
        }
        assert_eq!(requests(outage.succeed()), [1, 2, 3]);
        assert_eq!((outage.is_away(), outage.deadline()), (false, None));
    }

    #[test]
    fn attempts_follow_with_growing_pauses_and_one_request_at_a_time() {
        let mut outage = Outage::new(SETTINGS);
        outage.fail(at(0));
        outage.hold(at(0), at(0), 1).unwrap();
        let mut tries = Vec::new();
        while let Some(next) = outage.deadline().filter(|next| *next < at(1_000)) {
            let Some(held) = outage.take_try(next) else { panic!("a deadline without a reason at {next:?}") };
            outage.fail(next);
            outage.hold(next, held.arrived, held.request).unwrap();
            tries.push(next.since(START).as_millis());
        }
        assert_eq!(tries, [50, 150, 350, 550, 750, 950]);
        // With the return the pauses are short again.
        outage.succeed();
        outage.fail(at(2_000));
        outage.hold(at(2_000), at(2_000), 2).unwrap();
        assert_eq!(outage.deadline(), Some(at(2_050)));
    }

    #[test]
    fn a_request_waits_for_its_patience_from_its_arrival() {
        let mut outage = Outage::new(SETTINGS);
        outage.fail(at(1_000));
        outage.hold(at(1_000), at(0), 1).unwrap();
        outage.hold(at(1_500), at(1_500), 2).unwrap();
        assert_eq!(expired(&mut outage, at(3_999)), []);
        assert_eq!(expired(&mut outage, at(4_000)), [1]);
        assert_eq!(outage.hold(at(4_001), at(0), 1), Err(1), "it has waited already");
        assert_eq!(expired(&mut outage, at(5_500)), [2]);
    }

    #[test]
    fn no_request_waits_for_a_service_that_is_away_for_long() {
        let mut outage = Outage::new(SETTINGS);
        outage.fail(at(0));
        outage.hold(at(8_000), at(8_000), 1).unwrap();
        assert_eq!(expired(&mut outage, at(9_999)), []);
        assert_eq!(expired(&mut outage, at(10_000)), [1]);
        assert_eq!(outage.hold(at(10_000), at(10_000), 2), Err(2));
        assert!(outage.is_known(at(10_000)));
        outage.succeed();
        outage.fail(at(11_000));
        assert_eq!(outage.hold(at(11_000), at(11_000), 3), Ok(()), "a new outage begins");
    }

    #[test]
    fn so_many_wait_and_no_more() {
        let mut outage = Outage::new(SETTINGS);
        outage.fail(at(0));
        for request in 0..3 {
            outage.hold(at(0), at(0), request).unwrap();
        }
        assert_eq!(outage.hold(at(0), at(0), 3), Err(3));
        assert_eq!(outage.remove(|request| *request == 1), [1]);
        assert_eq!(outage.hold(at(1), at(1), 4), Ok(()));
        assert_eq!(requests(outage.succeed()), [0, 2, 4]);
    }

    /// A property of all orders of events: each request comes out once, none waits beyond its patience, and no deadline stands still.
    #[test]
    fn each_request_comes_out_once_and_in_time() {
        for seed in 0..500 {
            let mut rng = Rng::seeded(seed);
            let mut outage = Outage::new(SETTINGS);
            let (mut now, mut arrived, mut out, mut next) = (START, Vec::new(), Vec::new(), 0_u32);
            for _ in 0..200 {
                now = now + Duration::from_millis(rng.below(400));
                while outage.deadline().is_some_and(|due| due <= now) {
                    out.extend(std::iter::from_fn(|| outage.expire(now)).map(|held| held.request));
                    let Some(held) = outage.take_try(now) else { continue };
                    outage.fail(now);
                    out.extend(outage.hold(now, held.arrived, held.request).err());
                }
                match rng.below(8) {
                    0 => out.extend(requests(outage.succeed())),
                    1..4 => {
                        outage.fail(now);
                    }
                    _ => {
                        outage.fail(now);
                        arrived.push(now);
                        out.extend(outage.hold(now, now, next).err());
                        next += 1;
                    }
                }
                let oldest = outage.held.front().map_or(now, |held| held.arrived);
                assert!(now.since(oldest) < SETTINGS.patience, "seed {seed}");
                assert!(outage.len() <= SETTINGS.most, "seed {seed}");
            }
            out.extend(requests(outage.succeed()));
            out.sort_unstable();
            assert_eq!(out, (0..next).collect::<Vec<_>>(), "seed {seed}");
            assert_eq!(arrived.len(), out.len(), "seed {seed}");
        }
    }
}
