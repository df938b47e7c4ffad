//! Messages that still wait at the end, for users who did not come back: stored by the server, as far as anybody can tell.
//!
//! Who misses the roll-call is marked by his own shard before the load settles, for good, so that all shards agree on him. At
//! the end the senders' shards count what was sent to him and not refused, his own what came: the difference waits. What
//! is lost in between is taken for waiting; whatever else is missing is lost.

use lab_sip::stats::Count;

use super::limits::REFUSED_PAIRS;
use super::user_pool::{PoolContext, UserPool};

impl UserPool {
    /// The roll-call is over.
    pub(super) fn miss_absent(&self) {
        for user in self.users.iter().filter(|user| !user.is_in()) {
            self.shared.miss(user.number);
        }
    }

    /// A message of the user's to the contact at this place came back.
    pub(super) fn keep_refused(&mut self, slot: u32, from: Option<&str>) {
        let me = self.users[slot as usize].number;
        let other = from.and_then(|from| self.chat.people.number(from));
        let Some(place) = other.and_then(|other| self.chat.people.place(me, other)) else { return };
        let has_room = self.refused.len() < REFUSED_PAIRS;
        if has_room || self.refused.contains_key(&(me, place)) {
            *self.refused.entry((me, place)).or_default() += 1;
        }
    }

    /// The end: nothing arrives any more.
    pub(super) fn count_waiting(&self, turn: &mut PoolContext<'_>) {
        let people = &self.chat.people;
        for user in &self.users {
            let is_missed = self.shared.is_missed(user.number);
            for (place, contact) in (0_u32..).zip(&user.contacts) {
                if is_missed {
                    turn.stats.add(Count::ChatCameToMissed, u64::from(contact.came));
                }
                if self.shared.is_missed(people.contact(user.number, place)) {
                    let refused = self.refused.get(&(user.number, place)).copied().unwrap_or_default();
                    turn.stats.add(Count::ChatToMissed, u64::from(contact.sent.saturating_sub(refused)));
                }
            }
        }
    }
}
