//! The calls of an account that have ended, page by page from the newest end to the oldest.

use stdx::Instant;

/// A page of calls to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallHistoryQuery {
    /// Calls that ended then or earlier: the `next` of the page before. `None`: the first page.
    pub until: Option<Instant>,
    /// The most calls of the page.
    pub max: u32,
}

/// Calls of an account, the newest end first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallHistoryPage {
    /// The calls.
    pub calls: Vec<PastCall>,
    /// The `until` of the next page; `None`: this is the last one. Calls that ended at that time may be on both.
    pub next: Option<Instant>,
    /// Nodes of the farm have not answered: calls of theirs may be missing.
    pub is_partial: bool,
}

/// A call that has ended, as the account's user saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastCall {
    /// Call-ID of the INVITE.
    pub id: Box<str>,
    /// The other end, as phones showed it: the URI in the From of a call that the account got, in the To of one that it placed.
    pub with: Box<str>,
    /// The account was called.
    pub is_incoming: bool,
    /// The time of the INVITE.
    pub started_at: Instant,
    /// The time of the answer; `None`: it was not answered.
    pub answered_at: Option<Instant>,
    /// The time of the end.
    pub ended_at: Instant,
    /// The final status of the INVITE; 0: none came.
    pub code: u16,
}
