//! Rosters that users make themselves, before the load: who asks whom, and how many at once.

use std::collections::VecDeque;

use super::limits::ASKING;
use super::load_state::LoadStage;
use super::stanzas;
use super::user::UserState;
use super::user_pool::{PoolContext, UserPool};

/// Users who ask for friends now, and those whose turn has not come: a server gets no more to do than it does, and what is
/// asked of it is answered soon, however many users there are.
#[derive(Debug, Default)]
pub(super) struct FriendRequestQueue {
    now: usize,
    later: VecDeque<u32>,
}

impl UserPool {
    pub(super) fn begin_friend_requests(&mut self, turn: &mut PoolContext<'_>) {
        if self.chat.befriend {
            self.asking.later = self.slots().collect();
            self.start_friend_requests(turn);
        }
    }

    /// He came later than the others.
    pub(super) fn queue_friend_requests(&mut self, slot: u32, turn: &mut PoolContext<'_>) {
        if self.chat.befriend {
            self.asking.later.push_back(slot);
            self.start_friend_requests(turn);
        }
    }

    fn start_friend_requests(&mut self, turn: &mut PoolContext<'_>) {
        while self.asking.now < ASKING
            && let Some(slot) = self.asking.later.pop_front()
        {
            if matches!(self.users[slot as usize].phase, UserState::In)
                && self.send_next_friend_request(slot, turn)
            {
                self.users[slot as usize].is_asking = true;
                self.asking.now += 1;
            }
        }
    }

    /// He has a friend more, by his asking or another's.
    pub(super) fn continue_friend_requests(&mut self, slot: u32, turn: &mut PoolContext<'_>) {
        let is_asking = self.stage == LoadStage::Befriending && self.users[slot as usize].is_asking;
        if is_asking && !self.send_next_friend_request(slot, turn) {
            self.stop_friend_requests(slot, turn);
        }
    }

    /// He has all, gets no answer, or has lost his session: another's turn.
    pub(super) fn stop_friend_requests(&mut self, slot: u32, turn: &mut PoolContext<'_>) {
        if std::mem::take(&mut self.users[slot as usize].is_asking) && self.stage == LoadStage::Befriending {
            self.asking.now -= 1;
            self.start_friend_requests(turn);
        }
    }

    /// Asks the next who is no friend yet and whose number is higher: the others ask us. The one after waits until he is a
    /// friend; for who is not there nobody waits. False: nobody is left to wait for.
    pub(super) fn send_next_friend_request(&mut self, slot: u32, turn: &mut PoolContext<'_>) -> bool {
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
                turn.write(slot, |out| stanzas::subscription(out, "subscribe", &to));
            }
            if !self.shared.is_away(other) {
                waits = true;
                break;
            }
        }
        if waits {
            self.set_response_deadline(slot, turn.now + self.chat.patience);
        }
        waits
    }
}
