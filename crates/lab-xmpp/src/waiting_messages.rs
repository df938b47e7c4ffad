//! Messages that are stored at the server at the end, for users that did not come back.
//!
//! A user that misses the roll-call is marked by its own shard before the load settles, for good, so that all
//! shards agree. At the end the senders' shards count the messages that were sent to it and not refused, its own
//! shard those that arrived: the difference is stored. A message that was lost in between counts as stored; any
//! other missing message is lost.

use lab_sip::stats::Count;

use super::user_pool::{PoolContext, UserPool};

impl UserPool {
    /// The roll-call is over.
    pub(super) fn mark_missed_users(&self) {
        for user in self.sessions.users.iter().filter(|user| !user.is_in()) {
            self.sessions.shared.mark_missed(user.number);
        }
    }

    /// A message of the user's to the contact at this place came back.
    pub(super) fn record_refused_message(&mut self, slot: u32, from: Option<&str>) {
        let me = self.sessions.users[slot as usize].number;
        let other = from.and_then(|from| self.sessions.chat.people.number(from));
        let Some(place) = other.and_then(|other| self.sessions.chat.people.place(me, other)) else { return };
        self.ledger.handle_refusal(me, place);
    }

    /// The end: nothing arrives any more.
    pub(super) fn count_waiting_messages(&self, ctx: &mut PoolContext<'_>) {
        let people = &self.sessions.chat.people;
        for user in &self.sessions.users {
            let is_missed = self.sessions.shared.is_missed(user.number);
            for (place, contact) in (0_u32..).zip(&user.contacts) {
                if is_missed {
                    ctx.stats.add(Count::ChatCameToMissed, u64::from(contact.came));
                }
                if self.sessions.shared.is_missed(people.contact(user.number, place)) {
                    let refused = self.ledger.refused(user.number, place);
                    ctx.stats.add(Count::ChatToMissed, u64::from(contact.sent.saturating_sub(refused)));
                }
            }
        }
    }
}
