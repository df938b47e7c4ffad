//! One change of an account at a time: stanzas that depend on its roster or its blocking list wait until the
//! change before is on disk, so that every stanza is judged by the current state.
//!
//! Without the queue two changes could be computed from one state, and the later write would undo the earlier
//! one. A job runs with the account's data in memory and either finishes at once or begins one write; the
//! jobs behind it run after that write and its consequences. The queues are one for each account, so accounts
//! do not wait for each other.

use std::collections::{HashMap, VecDeque};

use stdx::Instant;
use xmpp::Bare;
use xmpp::stanza::{Condition, StanzaError};

use super::account_memory::AccountMemory;
use super::effect::{Change, StoreFailure};
use super::store_requests::StoreRequests;
use super::{Host, Outbox};
use crate::limits;

/// A job that decides by the account's data as they are at its turn, and may [`write`] one change.
type QueuedChange = Box<dyn FnOnce(&mut Host, Instant, &mut Outbox)>;

/// Accounts with a change on its way, and the work that waits for it.
#[derive(Default)]
pub(super) struct ChangeQueues {
    /// Only accounts with a write under way, and the jobs behind it, at most `limits::CHANGES`.
    busy: HashMap<Bare, VecDeque<QueuedChange>>,
}

impl ChangeQueues {
    /// True if a change of the account is on its way to the store.
    pub(super) fn has(&self, user: &Bare) -> bool {
        self.busy.contains_key(user)
    }

    /// True if a change of the account is on its way to the store, and a job behind it has a place.
    pub(super) fn has_place(&self, user: &Bare) -> bool {
        self.busy.get(user).is_some_and(|waiting| waiting.len() < limits::CHANGES)
    }

    /// Gives a job that may change an account its turn: it is returned if it is to be done now; else it is done after the changes that are
    /// on their way.
    ///
    /// # Errors
    /// The job: too much waits already.
    pub(super) fn queue<J>(&mut self, user: &Bare, job: J) -> Result<Option<J>, J>
    where
        J: FnOnce(&mut Host, Instant, &mut Outbox) + 'static,
    {
        let Some(waiting) = self.busy.get_mut(user) else { return Ok(Some(job)) };
        if waiting.len() >= limits::CHANGES {
            return Err(job);
        }
        waiting.push_back(Box::new(job));
        Ok(None)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.busy.len()
    }
}

/// Changes the store, and `then` puts it into memory too. Only from a job of [`ChangeQueues::queue`]. `then` is returned if it is to be done
/// now, as nothing is stored.
pub(super) fn write<F>(
    (accounts, store): (&mut AccountMemory, &mut StoreRequests),
    (user, change): (&Bare, Change),
    out: &mut Outbox,
    then: F,
) -> Option<F>
where
    F: FnOnce(&mut Host, Instant, Result<(), StoreFailure>, &mut Outbox) + 'static,
{
    let user = user.clone();
    if accounts.is_anonymous(&user) {
        return Some(then);
    }
    accounts.changes.busy.insert(user.clone(), VecDeque::new());
    store.change(change, out, move |host, now, result, out| {
        let mut waiting = host.accounts.changes.busy.remove(&user).unwrap_or_default();
        then(host, now, result, out);
        while let Some(job) = waiting.pop_front() {
            job(host, now, out);
            // The job has begun a write of its own, and the others wait for that.
            if let Some(newer) = host.accounts.changes.busy.get_mut(&user) {
                // Jobs that came while this one ran are younger than those that waited already.
                waiting.append(newer);
                *newer = waiting;
                return;
            }
        }
        host.forget_user(now, &user);
    });
    None
}

/// The error of a request whose change was not performed.
pub(super) fn not_written(error: StoreFailure) -> StanzaError {
    match error {
        StoreFailure::Unavailable => {
            StanzaError::new(Condition::ResourceConstraint, "cannot be stored now: try again later")
        }
        StoreFailure::Beyond => {
            StanzaError::new(Condition::ResourceConstraint, "too large to be stored, or one too many")
        }
        StoreFailure::NotFound => {
            StanzaError::new(Condition::InternalServerError, "the account is not in the database any more")
        }
    }
}

/// The error when too much waits.
pub(super) fn too_many() -> StanzaError {
    StanzaError::new(Condition::ResourceConstraint, "too many changes at once: wait for their answers")
}
