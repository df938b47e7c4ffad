//! How many reads of the store one address has under way. Each may load as much as a page has; more of them wait, and more
//! than may wait are refused. `Host::load` asks here for every read that can be large.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

use stdx::Instant;
use stdx::slab::Key;
use xmpp::{Element, Jid};

use super::effect::{Load, Ticket};
use super::{Host, Outbox};
use crate::limits;

/// The hash of an address: two that share one share the bound, and no address has to be copied for a stanza.
pub(super) type Asker = u64;

#[derive(Default)]
pub(super) struct Reads {
    hasher: RandomState,
    /// For whom the host acts now.
    asker: Option<Asker>,
    of: HashMap<Asker, UnderWay>,
}

#[derive(Default)]
struct UnderWay {
    count: usize,
    waiting: VecDeque<(Ticket, Load)>,
}

impl Reads {
    pub(super) fn asker_of(&self, who: &Jid) -> Asker {
        self.hasher.hash_one(who.bare_str())
    }

    pub(super) fn asker(&self) -> Option<Asker> {
        self.asker
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.of.len()
    }

    /// The read that begins now; `None`: it begins later.
    pub(super) fn begin(&mut self, ticket: Ticket, load: Load) -> Option<(Ticket, Load)> {
        let Some(asker) = self.asker.filter(|_| load.is_large()) else { return Some((ticket, load)) };
        let of = self.of.entry(asker).or_default();
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
    fn end(&mut self, asker: Asker) -> Option<(Ticket, Load)> {
        let of = self.of.get_mut(&asker)?;
        of.count -= 1;
        let has_place = of.count < limits::READS_UNDER_WAY;
        let next = has_place.then(|| of.waiting.pop_front()).flatten();
        of.count += usize::from(next.is_some());
        if of.count == 0 {
            self.of.remove(&asker);
        }
        next
    }
}

impl Host {
    /// Reads that begin in `act` are of that address, and so is what follows from their answers.
    pub(super) fn asking<T>(&mut self, who: &Jid, act: impl FnOnce(&mut Host) -> T) -> T {
        let asker = self.reads.asker_of(who);
        self.asking_again(Some(asker), act)
    }

    pub(super) fn asking_again<T>(&mut self, asker: Option<Asker>, act: impl FnOnce(&mut Host) -> T) -> T {
        let before = std::mem::replace(&mut self.reads.asker, asker);
        let done = act(self);
        self.reads.asker = before;
        done
    }

    /// What is read for the stanza is read for the account of its session.
    pub(super) fn session_asks(&mut self, now: Instant, key: Key, element: Element, out: &mut Outbox) {
        let Some(asker) = self.sessions.get(key).map(|session| self.reads.asker_of(&session.jid)) else {
            return;
        };
        self.asking_again(Some(asker), |host| host.session_says(now, key, element, out));
    }

    pub(super) fn read_answered(&mut self, asker: Option<Asker>, out: &mut Outbox) {
        if let Some(read) = asker.and_then(|asker| self.reads.end(asker)) {
            self.begin_read(read, out);
        }
    }
}
