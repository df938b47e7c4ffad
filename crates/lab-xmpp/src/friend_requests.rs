//! Rosters that users build themselves before the load: the order of subscription requests, and their number at once.
//!
//! A user asks one contact at a time and goes on when that contact is mutual. At most `ASKING` users of a shard ask at once.

use std::collections::VecDeque;

use super::limits::ASKING;
use super::load_state::LoadStage;
use super::stanzas;
use super::user::UserState;
use super::user_pool::PoolContext;
use super::user_sessions::UserSessions;

/// Users that send subscription requests now, and those that wait for their turn. The server never has more of them
/// than it can answer soon, however many users there are.
#[derive(Debug, Default)]
pub(super) struct FriendRequestQueue {
    /// Users that ask now.
    now: usize,
    /// Slots of users that wait.
    later: VecDeque<u32>,
}

impl UserSessions {
    /// The stage begins: all users of the shard queue.
    pub(super) fn begin_friend_requests(&mut self, ctx: &mut PoolContext<'_>) {
        if self.chat.befriend {
            self.asking.later = self.slots().collect();
            self.start_friend_requests(ctx);
        }
    }

    /// Queues a user that signed in after the stage began.
    pub(super) fn queue_friend_requests(&mut self, slot: u32, ctx: &mut PoolContext<'_>) {
        if self.chat.befriend {
            self.asking.later.push_back(slot);
            self.start_friend_requests(ctx);
        }
    }

    /// Lets users of the queue start while there is room; one that is not signed in or has nothing to ask is passed over.
    fn start_friend_requests(&mut self, ctx: &mut PoolContext<'_>) {
        while self.asking.now < ASKING
            && let Some(slot) = self.asking.later.pop_front()
        {
            if matches!(self.users[slot as usize].phase, UserState::In)
                && self.send_next_friend_request(slot, ctx)
            {
                self.users[slot as usize].is_asking = true;
                self.asking.now += 1;
            }
        }
    }

    /// The roster of the user has one more mutual entry, requested by either side.
    pub(super) fn continue_friend_requests(&mut self, slot: u32, ctx: &mut PoolContext<'_>) {
        let is_asking = self.stage == LoadStage::Befriending && self.users[slot as usize].is_asking;
        if is_asking && !self.send_next_friend_request(slot, ctx) {
            self.stop_friend_requests(slot, ctx);
        }
    }

    /// The user has all its roster entries, got no answer, or lost its session: the next user in the queue starts.
    pub(super) fn stop_friend_requests(&mut self, slot: u32, ctx: &mut PoolContext<'_>) {
        if std::mem::take(&mut self.users[slot as usize].is_asking) && self.stage == LoadStage::Befriending {
            self.asking.now -= 1;
            self.start_friend_requests(ctx);
        }
    }

    /// Sends a subscription request to the next contact that is not mutual yet and has a higher number:
    /// contacts with lower numbers send theirs. The following request waits until this contact is mutual;
    /// absent contacts are not waited for. Returns false when no contact is left to wait for.
    pub(super) fn send_next_friend_request(&mut self, slot: u32, ctx: &mut PoolContext<'_>) -> bool {
        let people = &self.chat.people;
        let user = &mut self.users[slot as usize];
        let number = user.number;
        let mut waits = false;
        for (place, contact) in (0_u32..).zip(&mut user.contacts) {
            let other = people.contact(number, place);
            if contact.is_friend || other <= number {
                continue;
            }
            if !std::mem::replace(&mut contact.is_asked, true) {
                let to = people.address(other);
                ctx.write(slot, |out| stanzas::subscription(out, "subscribe", &to));
            }
            if !self.shared.is_away(other) {
                waits = true;
                break;
            }
        }
        if waits {
            self.set_response_deadline(slot, ctx.now + self.chat.patience);
        }
        waits
    }
}
