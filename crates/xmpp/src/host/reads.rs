//! How many reads of the store one address has under way. Each may load as much as a page has; more of them wait, and more
//! than may wait are refused. `Host::load` asks here for every read that can be large.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

use stdx::Instant;
use stdx::slab::Key;

use super::effect::{Effect, Load, Ticket};
use super::{Host, Outbox};
use crate::{Element, Jid, limits};

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

    /// As an effect now, or later.
    pub(super) fn begin(&mut self, ticket: Ticket, load: Load, out: &mut Outbox) {
        let Some(asker) = self.asker.filter(|_| load.is_large()) else {
            return out.push(Effect::Load { ticket, load });
        };
        let of = self.of.entry(asker).or_default();
        if of.count < limits::READS_UNDER_WAY {
            of.count += 1;
            return out.push(Effect::Load { ticket, load });
        }
        if of.waiting.len() < limits::READS_WAITING {
            return of.waiting.push_back((ticket, load));
        }
        // Its answer takes a place that it never had.
        of.count += 1;
        out.push(Effect::Load { ticket, load: Load::TooMany });
    }

    /// A large read of that address was answered.
    fn end(&mut self, asker: Asker, out: &mut Outbox) {
        let Some(of) = self.of.get_mut(&asker) else { return };
        of.count -= 1;
        if of.count < limits::READS_UNDER_WAY
            && let Some((ticket, load)) = of.waiting.pop_front()
        {
            of.count += 1;
            out.push(Effect::Load { ticket, load });
        }
        if of.count == 0 {
            self.of.remove(&asker);
        }
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
        if let Some(asker) = asker {
            self.reads.end(asker, out);
        }
    }
}
