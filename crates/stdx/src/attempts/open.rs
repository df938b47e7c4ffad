//! Attempts whose credentials are being checked elsewhere: each counts as a failure until its outcome is known, or many at once would all pass a
//! pace that looks at outcomes alone.

use std::collections::HashMap;
use std::sync::Arc;

use super::Key;
use crate::limits::OPEN_ATTEMPTS_KEPT;

/// An attempt that is being checked. Dropping it ends it: its outcome is recorded, or there is none.
#[derive(Debug)]
#[must_use = "the attempt is open as long as this is kept"]
pub struct OpenAttempt {
    _pair: Arc<()>,
    /// `None`: the attempt names no account, or one that has signed in from this network.
    _account: Option<Arc<()>>,
}

/// The attempts that are open, by pair and by account. Their number is bounded by the checks that the callers have at once.
#[derive(Default)]
pub(super) struct OpenAttempts {
    open: HashMap<Key, Arc<()>>,
    /// Keys without an open attempt are removed when there are so many keys.
    removes_at: usize,
}

impl OpenAttempts {
    /// The open attempts of a key.
    pub(super) fn count(&self, key: Key) -> usize {
        self.open.get(&key).map_or(0, |open| Arc::strong_count(open) - 1)
    }

    pub(super) fn begin(&mut self, pair: Key, account: Option<Key>) -> OpenAttempt {
        if self.open.len() >= self.removes_at {
            self.open.retain(|_, open| Arc::strong_count(open) > 1);
            self.removes_at = (self.open.len() * 2).max(OPEN_ATTEMPTS_KEPT);
        }
        let mut of = |key| Arc::clone(self.open.entry(key).or_default());
        OpenAttempt { _pair: of(pair), _account: account.map(&mut of) }
    }

    #[cfg(test)]
    pub(super) fn keys(&self) -> usize {
        self.open.len()
    }
}
