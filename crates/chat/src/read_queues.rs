//! The limit on the concurrent reads of the store by one address. Each may load as much as a page has; more
//! of them wait, and more than may wait are refused. `StoreRequests::load` asks here for every read that can
//! be large.
//!
//! A read is charged to the address whose stanza caused it, also when a continuation begins it later: the
//! requester is set while a stanza or a continuation runs (`with_requester`). Reads of the host's own have no
//! requester and no limit.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

use xmpp::Jid;

use super::Host;
use super::effect::{Load, Ticket};
use crate::limits;

/// The hash of an address: two that share one share the bound, and no address has to be copied for a stanza.
pub(super) type Requester = u64;

/// The large reads of a host, by the addresses that they are charged to.
#[derive(Default)]
pub(super) struct ReadQueues {
    /// With a random key, so that no sender can choose an address with another one's hash.
    hasher: RandomState,
    /// The client or server for which the host acts now.
    requester: Option<Requester>,
    of: HashMap<Requester, RequesterReads>,
}

/// The large reads of one address.
#[derive(Default)]
struct RequesterReads {
    /// Reads that the store has not answered; refused ones (`Load::TooMany`) count until their answer.
    count: usize,
    /// Reads that begin when one of the address is answered.
    waiting: VecDeque<(Ticket, Load)>,
}

impl ReadQueues {
    /// The account or server that is charged for a stanza: all resources of an address share one bound.
    pub(super) fn requester_of(&self, jid: &Jid) -> Requester {
        self.hasher.hash_one(jid.bare_str())
    }

    /// The address that is charged now.
    pub(super) fn requester(&self) -> Option<Requester> {
        self.requester
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.of.len()
    }

    /// The read that begins now; `None`: it begins later.
    pub(super) fn begin(&mut self, ticket: Ticket, load: Load) -> Option<(Ticket, Load)> {
        let Some(requester) = self.requester.filter(|_| load.is_large()) else { return Some((ticket, load)) };
        let of = self.of.entry(requester).or_default();
        if of.count < limits::READS_UNDER_WAY {
            of.count += 1;
            return Some((ticket, load));
        }
        if of.waiting.len() < limits::READS_WAITING {
            of.waiting.push_back((ticket, load));
            return None;
        }
        // Its answer takes a place that it never had.
        of.count += 1;
        Some((ticket, Load::TooMany))
    }

    /// A large read of that address was answered. The next one that begins.
    pub(super) fn end(&mut self, requester: Requester) -> Option<(Ticket, Load)> {
        let of = self.of.get_mut(&requester)?;
        of.count -= 1;
        let has_place = of.count < limits::READS_UNDER_WAY;
        let next = has_place.then(|| of.waiting.pop_front()).flatten();
        of.count += usize::from(next.is_some());
        if of.count == 0 {
            self.of.remove(&requester);
        }
        next
    }
}

/// Counts the reads that `act` causes as those of this address.
pub(super) fn with_requester<T>(
    host: &mut Host,
    requester: Option<Requester>,
    act: impl FnOnce(&mut Host) -> T,
) -> T {
    let before = std::mem::replace(&mut host.store.reads.requester, requester);
    let done = act(host);
    host.store.reads.requester = before;
    done
}
