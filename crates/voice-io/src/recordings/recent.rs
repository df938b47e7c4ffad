//! The accounts of recordings that were begun here lately. An application plays a recording as soon as it is told of it, and the row that
//! names its account may still wait to be written then.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::limits;

/// The accounts of the last [`limits::RECENT_RECORDINGS`] recordings.
#[derive(Default)]
pub(super) struct RecentRecordings(Mutex<Accounts>);

#[derive(Default)]
struct Accounts {
    by_sid: HashMap<Box<str>, Box<str>>,
    /// The sids, the oldest first.
    order: VecDeque<Box<str>>,
}

impl RecentRecordings {
    pub(super) fn insert(&self, sid: &str, account: &str) {
        let mut accounts = self.lock();
        if accounts.by_sid.insert(sid.into(), account.into()).is_none() {
            accounts.order.push_back(sid.into());
        }
        if accounts.order.len() > limits::RECENT_RECORDINGS
            && let Some(oldest) = accounts.order.pop_front()
        {
            accounts.by_sid.remove(&oldest);
        }
    }

    pub(super) fn account_of(&self, sid: &str) -> Option<Box<str>> {
        self.lock().by_sid.get(sid).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Accounts> {
        // Nothing that can panic runs under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_makes_room() {
        let recent = RecentRecordings::default();
        for number in 0..=limits::RECENT_RECORDINGS {
            recent.insert(&format!("RE{number}"), "AC1");
        }
        recent.insert("RE2", "AC2");
        assert_eq!(recent.account_of("RE0"), None);
        assert_eq!(recent.account_of("RE1").as_deref(), Some("AC1"));
        assert_eq!(recent.account_of("RE2").as_deref(), Some("AC2"));
        assert_eq!(recent.lock().order.len(), limits::RECENT_RECORDINGS);
    }
}
