//! `-users`: a fixed number of users, each of which starts its next call when its last one ended. Their numbers are dealt out to the shards in
//! turn, and so are the variables of `<User>`, which outlive the calls.

use std::collections::VecDeque;

use lab_sip::call::VariableValue;

/// Those of one shard: every `of`-th of all.
#[derive(Debug, Default)]
pub(super) struct UserVariables {
    shard: u32,
    /// The number of shards.
    of: u32,
    /// All shards' together.
    asked: u32,
    /// Numbers of users without a call, from 1; the one that waited longest is first.
    free: VecDeque<u32>,
    /// Users that ever were; one that is retired keeps its place and variables.
    known: u32,
    /// The user variables of each, by its place in this shard.
    variables: Vec<Vec<VariableValue>>,
    /// The number of user variables of the scenario.
    slots: usize,
}

impl UserVariables {
    /// `slots`: user variables of the scenario.
    pub(super) fn new(shard: usize, of: usize, asked: u32, slots: usize) -> UserVariables {
        let (shard, of) = (u32::try_from(shard).unwrap_or(0), u32::try_from(of).unwrap_or(1));
        let mut users = UserVariables { shard, of: of.max(1), slots, ..UserVariables::default() };
        users.resize(asked);
        users
    }

    pub(super) fn asked(&self) -> u32 {
        self.asked
    }

    /// More begin at once; fewer are retired as their calls end.
    pub(super) fn resize(&mut self, asked: u32) {
        self.asked = asked;
        while self.known * self.of + self.shard < asked {
            self.free.push_back(self.known * self.of + self.shard + 1);
            self.variables.push(vec![VariableValue::Unset; self.slots]);
            self.known += 1;
        }
    }

    /// The user that waited longest and is not retired.
    pub(super) fn take_free(&mut self) -> Option<u32> {
        let at = self.free.iter().position(|user| *user <= self.asked)?;
        self.free.remove(at)
    }

    /// The call of a user ended. User 0 is a call without one.
    pub(super) fn free(&mut self, user: u32) {
        if user > 0 {
            self.free.push_back(user);
        }
    }

    /// `None` for user 0: the call has none.
    pub(super) fn variables(&mut self, user: u32) -> Option<&mut Vec<VariableValue>> {
        let place = user.checked_sub(self.shard + 1)? / self.of;
        self.variables.get_mut(place as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_share_the_users() {
        let mut all: Vec<u32> = Vec::new();
        for shard in 0..3 {
            let mut users = UserVariables::new(shard, 3, 7, 1);
            while let Some(user) = users.take_free() {
                assert!(users.variables(user).is_some_and(|values| values.len() == 1));
                all.push(user);
            }
        }
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn fewer_users_are_retired_and_come_back() {
        let mut users = UserVariables::new(0, 1, 2, 0);
        users.resize(1);
        assert_eq!(users.take_free(), Some(1));
        assert_eq!(users.take_free(), None);
        users.free(1);
        users.resize(3);
        let mut back: Vec<u32> = std::iter::from_fn(|| users.take_free()).collect();
        back.sort_unstable();
        assert_eq!(back, [1, 2, 3]);
        assert!(users.variables(0).is_none());
    }
}
