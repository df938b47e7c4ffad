//! Other shared groups while clients are signed in: their rosters change, and presence begins or ends.
//!
//! `Host::reload` begins it. The accounts that are signed in follow one after the other, some at a time (`Host::expire`), so a large change
//! takes longer and not more memory. The hosts of two contacts change at different times: the later one sends presence to the
//! contact and asks for the contact's, and what the earlier one asked before was answered as to a stranger, which has no effect.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use stdx::Instant;
use xmpp::Bare;

use super::super::account_memory::AccountMemory;
use super::super::effect::Subscription;
use super::{SharedGroups, changed};
use crate::limits;

/// The time between two parts of a change.
const PAUSE: Duration = Duration::from_millis(20);

/// Accounts whose clients have not been told of other groups.
#[derive(Default)]
pub(in super::super) struct GroupChanges {
    /// Each account, with the groups that its clients know.
    waiting: VecDeque<(Bare, Arc<SharedGroups>)>,
    /// The time of the next part.
    at: Instant,
}

impl GroupChanges {
    /// The time at which to call [`Self::take_due`].
    pub(in super::super) fn deadline(&self) -> Option<Instant> {
        self.waiting.front().map(|_| self.at)
    }

    /// The groups change for these accounts. One that waits already has the groups from before.
    pub(in super::super) fn begin<'a>(
        &mut self,
        before: &Arc<SharedGroups>,
        after: &SharedGroups,
        signed_in: impl Iterator<Item = &'a Bare>,
    ) {
        let waiting: HashSet<Bare> = self.waiting.iter().map(|(user, _)| user.clone()).collect();
        let concerned = signed_in
            .filter(|user| before.version(user) != after.version(user) && !waiting.contains(*user))
            .map(|user| (user.clone(), Arc::clone(before)));
        self.waiting.extend(concerned);
    }

    /// The next account whose clients are to be told, with the groups that they know. `effects`: those of the accounts of this part so far, by
    /// which it ends.
    pub(in super::super) fn take_due(
        &mut self,
        now: Instant,
        effects: usize,
    ) -> Option<(Bare, Arc<SharedGroups>)> {
        if self.at > now {
            return None;
        }
        if effects >= limits::GROUP_CHANGE_EFFECTS {
            self.at = now + PAUSE;
            return None;
        }
        self.waiting.pop_front()
    }
}

/// The contacts of one account by groups that have changed, each with its subscription before: its clients and these contacts are told. Of too
/// many none is: its clients have to ask for the roster.
pub(in super::super) fn changes_of(
    accounts: &mut AccountMemory,
    user: &Bare,
    before: &SharedGroups,
) -> Vec<(Bare, Subscription)> {
    if let Some(changed) = changed((before, &accounts.groups), user, limits::GROUP_CHANGES) {
        return changed;
    }
    // The next roster get has all of it, as the version that the client has is none of ours.
    for key in accounts.keys_of(user, |session| session.is_interested) {
        if let Some(session) = accounts.sessions.get_mut(key) {
            session.has_old_groups = true;
        }
    }
    Vec::new()
}
