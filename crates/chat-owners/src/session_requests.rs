//! Requests of clients for sessions, from the edge's side: how long the owner of the account took to answer, and how many of late it has
//! refused because it does not keep up.
//!
//! A refusal comes at the end of a sign-in, after the work of the edge. So an edge does not begin sign-ins that the owner would refuse: it refuses
//! a share of them itself, which grows with the share that the owner refuses ("client-side throttling" of Site Reliability Engineering, chapter 21).
//! Some always pass, and show that the owner takes more again. Each owner counts by itself: accounts of others are not concerned.

use std::collections::HashMap;
use std::time::Duration;

use cluster::ShardAddress;
use stdx::Instant;
use stdx::rng::Rng;

/// The time after which the answers of an owner count half.
const HALF_LIFE: Duration = Duration::from_secs(2);
/// An owner that has answered nothing for so long is as one that was never asked.
const OUTDATED: Duration = Duration::from_secs(20);
/// An owner is asked for so many sessions for each that it gives: more of them find out sooner that it gives more, fewer waste less.
const ASKED_FOR_EACH: u64 = 2;

/// The requests of one shard's clients.
#[derive(Debug)]
pub struct SessionRequests {
    /// Requests that wait for their owner, by the number of the stream.
    pending: HashMap<u64, Pending>,
    owners: HashMap<ShardAddress, Outcomes>,
    rng: Rng,
}

/// A request that is not answered.
#[derive(Clone, Copy, Debug)]
struct Pending {
    asked: Instant,
    /// `None`: it is of this node, whose shards refuse sign-ins when they begin.
    owner: Option<ShardAddress>,
}

/// The answers of one owner of late.
#[derive(Clone, Copy, Debug, Default)]
struct Outcomes {
    given: u64,
    /// Refusals of the owner, and those of this shard in its place.
    refused: u64,
    halved: Instant,
}

impl SessionRequests {
    /// The seed decides which sign-ins are refused for an owner that does not keep up.
    pub fn new(seed: u64) -> SessionRequests {
        SessionRequests { pending: HashMap::new(), owners: HashMap::new(), rng: Rng::seeded(seed) }
    }

    /// A client asks for a session, which an owner is asked for now.
    pub fn insert(&mut self, now: Instant, stream: u64, owner: Option<ShardAddress>) {
        self.pending.insert(stream, Pending { asked: now, owner });
    }

    /// The owner has answered. Returns the time that it took. `None`: it was not asked for a new session.
    pub fn handle_bound(&mut self, now: Instant, stream: u64) -> Option<Duration> {
        let Pending { asked, owner } = self.pending.remove(&stream)?;
        if let Some(owner) = owner {
            self.outcomes(now, owner).given += 1;
        }
        Some(now.since(asked))
    }

    /// The owner has ended the stream because it does not keep up.
    pub fn handle_refused(&mut self, now: Instant, stream: u64) {
        if let Some(owner) = self.pending.remove(&stream).and_then(|pending| pending.owner) {
            self.outcomes(now, owner).refused += 1;
        }
    }

    /// The client waits no more.
    pub fn remove(&mut self, stream: u64) {
        self.pending.remove(&stream);
    }

    /// True if a sign-in may begin whose session this owner will be asked for.
    pub fn may_begin(&mut self, now: Instant, owner: ShardAddress) -> bool {
        // Nearly always none has refused anything.
        if self.owners.get(&owner).is_none_or(|outcomes| outcomes.refused == 0) {
            return true;
        }
        let Outcomes { given, refused, .. } = *self.outcomes(now, owner);
        let excess = (given + refused).saturating_sub(ASKED_FOR_EACH * given);
        let may_begin = self.rng.below(given + refused + 1) >= excess;
        self.outcomes(now, owner).refused += u64::from(!may_begin);
        may_begin
    }

    fn outcomes(&mut self, now: Instant, owner: ShardAddress) -> &mut Outcomes {
        if !self.owners.contains_key(&owner) {
            // Owners of lives that are over among them.
            self.owners.retain(|_, outcomes| now.since(outcomes.halved) < OUTDATED);
        }
        let fresh = Outcomes { halved: now, ..Outcomes::default() };
        let outcomes = self.owners.entry(owner).or_insert(fresh);
        while now.since(outcomes.halved) >= HALF_LIFE {
            if outcomes.given + outcomes.refused == 0 {
                outcomes.halved = now;
                break;
            }
            outcomes.given /= 2;
            outcomes.refused /= 2;
            outcomes.halved = outcomes.halved + HALF_LIFE;
        }
        outcomes
    }
}

#[cfg(test)]
mod tests {
    use cluster::Life;

    use super::*;

    const START: Instant = Instant::from_unix_seconds(1_000);
    const MS: Duration = Duration::from_millis(1);

    fn owner(shard: u16) -> ShardAddress {
        ShardAddress { shard, life: Life::default() }
    }

    /// Ten clients a millisecond for so many milliseconds, of which the owner takes the first `takes` in each. Those that were sent to it, and those
    /// that it took.
    fn load(requests: &mut SessionRequests, now: &mut Instant, millis: u64, takes: u64) -> (u64, u64) {
        let (mut sent, mut given) = (0, 0);
        for _ in 0..millis {
            *now = *now + MS;
            let begun = (0..10).filter(|_| requests.may_begin(*now, owner(1))).count() as u64;
            for stream in 0..begun {
                requests.insert(*now, stream, Some(owner(1)));
                match stream < takes {
                    true => drop(requests.handle_bound(*now, stream)),
                    false => requests.handle_refused(*now, stream),
                }
            }
            sent += begun;
            given += begun.min(takes);
        }
        (sent, given)
    }

    #[test]
    fn an_owner_that_refuses_gets_twice_its_accepted_rate_and_others_are_not_concerned() {
        let (mut requests, mut now) = (SessionRequests::new(1), START);
        assert_eq!(load(&mut requests, &mut now, 1_000, 10), (10_000, 10_000));
        load(&mut requests, &mut now, 4_000, 2);
        let (sent, given) = load(&mut requests, &mut now, 4_000, 2);
        assert!(given >= 4_000 * 2 * 8 / 10, "{given}");
        assert!((given..given * 5 / 2).contains(&sent), "{sent} for {given}");
        assert!((0..1_000).all(|_| requests.may_begin(now, owner(2))));
        // It takes all again.
        load(&mut requests, &mut now, 20_000, 10);
        let (sent, _) = load(&mut requests, &mut now, 1_000, 10);
        assert!(sent > 9_900, "{sent}");
    }

    #[test]
    fn an_owner_that_took_nothing_is_asked_again() {
        let (mut requests, mut now) = (SessionRequests::new(1), START);
        load(&mut requests, &mut now, 5_000, 0);
        let (sent, _) = load(&mut requests, &mut now, 1_000, 0);
        assert!(sent < 100, "{sent} in vain");
        assert!((0..1_000).any(|_| requests.may_begin(now + 2 * OUTDATED, owner(1))));
    }

    #[test]
    fn the_wait_is_that_of_the_last_request_and_a_client_that_is_gone_counts_for_nothing() {
        let mut requests = SessionRequests::new(1);
        requests.insert(START, 7, None);
        assert_eq!(requests.handle_bound(START + 30 * MS, 7), Some(30 * MS));
        assert_eq!(requests.handle_bound(START + 30 * MS, 7), None, "an old session was resumed");
        requests.insert(START, 8, Some(owner(1)));
        requests.remove(8);
        requests.handle_refused(START, 8);
        assert!((0..100).all(|_| requests.may_begin(START, owner(1))));
    }
}
