//! Attempts to sign in that failed, for the driver: it slows guesses down and logs them.

use stdx::attempts::Cause;

use super::C2s;

/// An attempt to sign in that failed, or a guess at an invitation: for limits and logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedAttempt {
    /// As the client named itself. Empty: it had not.
    pub user: Box<str>,
    pub cause: Cause,
}

impl C2s {
    /// Attempts to sign in that failed.
    pub fn failures(&self) -> u8 {
        self.failures
    }

    /// Those that have failed since the last call.
    pub fn take_failed(&mut self) -> Vec<FailedAttempt> {
        self.entry.as_deref_mut().map(|entry| std::mem::take(&mut entry.failed)).unwrap_or_default()
    }

    /// The name that the client has signed in by, or tries to; until the stream is bound.
    pub fn claimed(&self) -> Option<&str> {
        self.entry().claimed.as_deref()
    }

    pub(super) fn count_failure(&mut self, cause: Cause) {
        self.failures = self.failures.saturating_add(1);
        let entry = self.entry_mut();
        let user = entry.claimed.take().unwrap_or_default();
        entry.failed.push(FailedAttempt { user, cause });
    }
}
