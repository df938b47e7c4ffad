//! What crosses between shards for XMPP: between a client's connection and the host of its account, and between hosts.

use xmpp::c2s::{BindRequest, Bound};
use xmpp::host::Edge;
use xmpp::host::phones::Words;
use xmpp::{Bare, Element, Jid};

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

    /// To the host that owns `to`.
    Routed(Box<Element>),
    /// To the host that owns `from`: a phone of his has said that.
    Said {
        from: Bare,
        to: Bare,
        words: Words,
    },
}
