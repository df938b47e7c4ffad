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
                tell(host, now, &user, &before, out);
            });
        }
    }
    host.group_changes.at = now + PAUSE;
}

/// Tells the clients of one account, and the contacts whose view of it changes.
fn tell(host: &mut Host, now: Instant, user: &Bare, before: &SharedGroups, out: &mut Outbox) {
    let after = Arc::clone(&host.accounts.groups);
    let Some(changed) = changed((before, &after), user, limits::GROUP_CHANGES) else {
        // The next roster get has all of it, as the version that the client has is none of ours.
        for key in host.accounts.keys_of(user, |session| session.is_interested) {
            if let Some(session) = host.accounts.sessions.get_mut(key) {
                session.has_old_groups = true;
            }
        }
        return;
    };
    let last = changed.len().saturating_sub(1);
    for (index, (contact, was)) in changed.into_iter().enumerate() {
        roster::handle_group_change(host, now, (user, &contact), (was, index == last), out);
    }
}
