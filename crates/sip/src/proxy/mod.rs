//! The proxy core of RFC 3261 §16: a [`ResponseContext`] for each forwarded request. It decides the order of
//! targets, the best response, and the branches to cancel. It takes events of its branches and returns
//! [`ProxyEffect`]s; the endpoint resolves, copies and sends.

mod best_response;
mod effect;
mod response_context;

use router::{Binding, Contact, Received};

pub(crate) use best_response::{BestResponse, FinalResponse};
pub(crate) use effect::{ProxyEffect, ProxyEffects};
pub(crate) use response_context::{ForwardedRequest, ResponseContext};

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
    /// The other flows of its instance, each for the case that those before it have failed (RFC 5626 §7).
    pub(crate) other_flows: Vec<Destination>,
}

impl Destination {
    /// One that no account bound, of an unknown system.
    pub(crate) fn new(uri: &[u8], received: Option<Received>) -> Self {
        Destination {
            uri: uri.into(),
            path: "".into(),
            received,
            is_binding: false,
            trusted: false,
            other_flows: Vec::new(),
        }
    }

    /// The destination at which an account has bound itself.
    pub(crate) fn of_binding(binding: Binding) -> Self {
        let Contact { uri, path, received, .. } = binding.contact;
        let uri = uri.into_boxed_bytes();
        Destination { uri, path, received, is_binding: true, trusted: false, other_flows: Vec::new() }
    }
}

/// The purpose of a request, as far as its forwarding depends on it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ForwardingPurpose {
    /// Own Route values to take off before forwarding.
    pub(crate) own_routes: usize,
    /// It may create a dialog: further requests of it shall come by us.
    pub(crate) record_route: bool,
    /// For the ledger: this is the INVITE that starts a call.
    pub(crate) starts_call: bool,
    /// It came by our Route within a dialog.
    pub(crate) within: Option<DialogProof>,
    pub(crate) search: TargetSearch,
}

/// When the next group of destinations is tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TargetSearch {
    /// Bindings of one address by q: after any final response but 2xx and 6xx (RFC 3261 §16.7 step 5).
    #[default]
    Fork,
    /// Gateways of one route: only after 408, 5xx and failures to reach the last one. Any other response is about
    /// the called number: the next gateway would repeat it, or be paid for it. `redirects`: after 3xx, too.
    Failover { redirects: bool },
}

impl TargetSearch {
    /// True if the search goes on after this final status. `responded`: a peer sent it.
    pub(crate) fn goes_on(self, status: u16, responded: bool) -> bool {
        match self {
            TargetSearch::Fork => true,
            TargetSearch::Failover { redirects } => {
                !responded
                    || status == 408
                    || (500..600).contains(&status)
                    || redirects && (300..400).contains(&status)
            }
        }
    }
}

/// The proofs of the two targets of a dialog in a genuine token: values of `route_token::target_proof`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DialogProof {
    /// The proof of the addressee, as the sender knows it now.
    pub(crate) remote: u64,
    /// The proof of the sender, as the addressee learnt it first. `None` where the token does not have it.
    pub(crate) local: Option<u64>,
    /// The token was made of a response: the sender placed the call.
    pub(crate) from_caller: bool,
}

/// The change that a response needs on its way upstream, besides the removal of our Via.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ResponseEdit {
    #[default]
    None,
    /// RFC 3261 §16.7 step 8: our Record-Route value with this token becomes the caller's.
    RecordRoute { token: u64, way: WayBack },
    /// A Contact other than the one with this proof is certified.
    Contact { known: u64, way: WayBack },
}

impl ResponseEdit {
    /// The change to responses of a branch. `token` is the one of its Record-Route.
    pub(crate) fn of(destination: &Destination, token: Option<u64>, within: Option<DialogProof>) -> Self {
        let way = match destination {
            Destination { received: Some(_), .. } => WayBack::Flow,
            Destination { trusted: true, .. } => WayBack::Followed,
            _ => WayBack::Checked,
        };
        match (token, within) {
            (_, Some(proof)) => ResponseEdit::Contact { known: proof.remote, way },
            (Some(token), None) => ResponseEdit::RecordRoute { token, way },
            (None, None) => ResponseEdit::None,
        }
    }
}

/// The route of the dialog's later requests to the sender of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WayBack {
    /// Where the request went, whatever the response says.
    Flow,
    /// As Record-Route and Contact say.
    Followed,
    /// As Record-Route and Contact say while they name the host where the request went; else where it went.
    Checked,
}
