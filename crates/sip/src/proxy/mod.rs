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
    /// Configured by the operator: its Record-Route and Contact may name other hosts.
    pub(crate) trusted: bool,
}

impl Destination {
    /// One that no account bound, of an unknown system.
    pub(crate) fn new(uri: &[u8], received: Option<Received>) -> Self {
        Destination { uri: uri.into(), path: "".into(), received, is_binding: false, trusted: false }
    }
}

/// What a request is for, as far as its forwarding depends on it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Purpose {
    /// Own Route values to take off before forwarding.
    pub(crate) own_routes: usize,
    /// It may create a dialog: further requests of it shall come by us.
    pub(crate) record_route: bool,
    /// For the ledger: this is the INVITE that starts a call.
    pub(crate) starts_call: bool,
    /// It came by our Route within a dialog.
    pub(crate) within: Option<DialogProof>,
    pub(crate) search: Search,
}

/// When the next group of destinations is tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Search {
    /// Bindings of one address by q: after any final response but 2xx and 6xx (RFC 3261 §16.7 step 5).
    #[default]
    Fork,
    /// Gateways of one route: only after 408, 5xx and failures to reach the last one. Any other response is about
    /// the called number: the next gateway would repeat it, or be paid for it. `redirects`: after 3xx, too.
    Failover { redirects: bool },
}

impl Search {
    /// Whether the search goes on after this final status. `responded`: a peer sent it.
    pub(crate) fn goes_on(self, status: u16, responded: bool) -> bool {
        match self {
            Search::Fork => true,
            Search::Failover { redirects } => {
                !responded
                    || status == 408
                    || (500..600).contains(&status)
                    || redirects && (300..400).contains(&status)
            }
        }
    }
}

/// What a genuine token says of the two targets of its dialog: values of `route_token::target_proof`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DialogProof {
    /// Of the addressee, as the sender knows it now.
    pub(crate) remote: u64,
    /// Of the sender, as the addressee learnt it first. `None` where the token does not have it.
    pub(crate) local: Option<u64>,
    /// The token was made of a response: the sender placed the call.
    pub(crate) from_caller: bool,
}

/// What a response needs on its way upstream, besides the loss of our Via.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ResponseEdit {
    #[default]
    None,
    /// RFC 3261 §16.7 step 8: our Record-Route value with this token becomes the caller's.
    RecordRoute { token: u64, way: WayBack },
    /// A Contact other than the one with this proof is certified.
    Contact { known: u64, way: WayBack },
}

/// How the sender of a response is reached by later requests of the dialog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WayBack {
    /// Where the request went, whatever the response says.
    Flow,
    /// As Record-Route and Contact say.
    Followed,
    /// As Record-Route and Contact say while they name the host where the request went; else where it went.
    Checked,
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
    pub(crate) purpose: Purpose,
    /// The route half of the token in our Record-Route values.
    pub(crate) token: Option<u64>,
    /// CANCEL came, a 2xx or 6xx decided, or Timer C ended it: no new branches.
    pub(crate) closed: bool,
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

    /// What responses of a branch need on their way upstream.
    pub(crate) fn response_edit(&self, branch: usize) -> ResponseEdit {
        let Some(destination) = self.branches.get(branch).map(|branch| &branch.destination) else {
            return ResponseEdit::None;
        };
        let way = match destination {
            Destination { received: Some(_), .. } => WayBack::Flow,
            Destination { trusted: true, .. } => WayBack::Followed,
            _ => WayBack::Checked,
        };
        match (self.token, self.purpose.within) {
            (_, Some(proof)) => ResponseEdit::Contact { known: proof.remote, way },
            (Some(token), None) => ResponseEdit::RecordRoute { token, way },
            (None, None) => ResponseEdit::None,
        }
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
