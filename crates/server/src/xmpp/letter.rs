//! What crosses between shards for XMPP: between a client's connection and the host of its account, and between hosts.

use xmpp::c2s::{BindRequest, Bound};
use xmpp::host::Edge;
use xmpp::{Element, Jid};

use super::streams::http::bosh::Call;

/// One of a batch.
#[derive(Debug)]
pub enum XmppLetter {
    // From a connection to the host of its account.
    Bind {
        edge: Edge,
        request: Box<BindRequest>,
    },
    Resume {
        edge: Edge,
        user: Jid,
        id: Box<str>,
        seen: u32,
    },
    Stanza {
        edge: Edge,
        element: Element,
    },
    Nonza {
        edge: Edge,
        element: Element,
    },
    Gone {
        edge: Edge,
        in_order: bool,
    },

    // From a host to a connection.
    Bound {
        edge: Edge,
        bound: Box<Bound>,
    },
    Deliver {
        edge: Edge,
        element: Element,
    },
    Close {
        edge: Edge,
        condition: &'static str,
    },

    /// To the connection that is a session of BOSH, from a shard that one of its requests came to.
    Bosh(Box<Call>),

    /// To the host that owns `to`.
    Routed(Box<Element>),
}
