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
use super::super::{Host, Outbox};
use super::{SharedGroups, changed};
use crate::{limits, roster};

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
    /// The time at which to call [`expire`].
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
}

/// Tells the clients of the next accounts, if it is time.
pub(in super::super) fn expire(host: &mut Host, now: Instant, out: &mut Outbox) {
    if host.group_changes.deadline().is_none_or(|at| at > now) {
        return;
    }
    let first = out.len();
    while out.len() - first < limits::GROUP_CHANGE_EFFECTS {
        let Some((user, before)) = host.group_changes.waiting.pop_front() else { return };
        if host.accounts.is_signed_in(&user) {
            host.with_account_data(now, &user.clone(), out, move |host, now, out| {
                let changed = changes_of(&mut host.accounts, &user, &before);
                let last = changed.len().saturating_sub(1);
                for (index, (contact, was)) in changed.into_iter().enumerate() {
                    host.roster.handle_group_change(&host.accounts, (&user, &contact), (was, index == last));
                    roster::perform(host, now, (&user, &contact), out);
                }
            });
        }
    }
    host.group_changes.at = now + PAUSE;
}

/// The contacts of one account by groups that have changed, each with its subscription before: its clients and these contacts are told. Of too
/// many none is: its clients have to ask for the roster.
fn changes_of(accounts: &mut AccountMemory, user: &Bare, before: &SharedGroups) -> Vec<(Bare, Subscription)> {
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
