//! The response context of a forking proxy: RFC 3261 §16.7 and what §16.6 needs to know of a branch.
//! Pure bookkeeping: which branches exist, what each said, what is best. The endpoint sends.

mod best;

use std::collections::VecDeque;

use router::Received;
use smallvec::SmallVec;
use stdx::Instant;
use stdx::slab::Key;

pub(crate) use best::{Best, Outcome};

use crate::resolve::Hop;

/// Where one branch goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Destination {
    /// The new Request-URI.
    pub(crate) uri: Box<[u8]>,
    /// Route values to put in front (a binding's Path), comma-separated; empty when none.
    pub(crate) path: Box<str>,
    /// Send there and not where the URI says: a connection, or behind NAT.
    pub(crate) received: Option<Received>,
    /// An account bound it; it must not lead out by a route.
    pub(crate) is_binding: bool,
}

impl Destination {
    /// One that no account bound.
    pub(crate) fn new(uri: &[u8], received: Option<Received>) -> Self {
        Destination { uri: uri.into(), path: "".into(), received, is_binding: false }
    }
}

#[derive(Debug)]
pub(crate) struct Branch {
    pub(crate) destination: Destination,
    pub(crate) state: BranchState,
    /// Next hops not tried yet (RFC 3263 §4.3).
    pub(crate) hops: VecDeque<Hop>,
    /// How many hops were tried: part of the branch parameter.
    pub(crate) attempt: u8,
    /// Its share of the request's Max-Breadth.
    pub(crate) breadth: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BranchState {
    /// Its next hop is being looked up.
    Resolving,
    /// Sent; nothing heard.
    Trying {
        client: Key,
        cancel: bool,
    },
    Proceeding {
        client: Key,
        cancelled: bool,
    },
    /// Final response, timeout, failure.
    Done,
}

/// All branches of one request.
#[derive(Debug)]
pub(crate) struct Forking {
    /// Not rung yet, next group first: equal q rings at once, lower q later.
    pub(crate) waiting: VecDeque<Vec<Destination>>,
    pub(crate) branches: SmallVec<[Branch; 1]>,
    pub(crate) best: Best,
    pub(crate) timer_c: Instant,
    /// Branches that may run at once, here and behind us (RFC 5393 §5.3).
    pub(crate) breadth: usize,
    /// Own Route values to take off before forwarding.
    pub(crate) own_routes: usize,
    pub(crate) record_route: bool,
    /// CANCEL came, a 2xx or 6xx decided, or Timer C ended it: no new branches.
    pub(crate) closed: bool,
    /// For the ledger: this is the INVITE that starts a call.
    pub(crate) starts_call: bool,
    pub(crate) forwarded_final: bool,
}

impl Forking {
    pub(crate) fn is_over(&self) -> bool {
        self.branches.iter().all(|branch| branch.state == BranchState::Done)
            && (self.closed || self.waiting.is_empty())
    }

    /// The branch that this client transaction serves.
    pub(crate) fn branch_of(&self, wanted: Key) -> Option<usize> {
        self.branches.iter().position(|branch| match branch.state {
            BranchState::Trying { client, .. } | BranchState::Proceeding { client, .. } => client == wanted,
            BranchState::Resolving | BranchState::Done => false,
        })
    }

    /// The final response to send now: every branch is done and nothing was sent yet.
    pub(crate) fn take_best(&mut self) -> Option<Outcome> {
        if self.forwarded_final || !self.is_over() {
            return None;
        }
        self.forwarded_final = true;
        Some(self.best.take())
    }
}
