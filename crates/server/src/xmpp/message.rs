//! The messages between shards for XMPP: between a client's connection and the host of its account, between
//! hosts, and between those and components.

use std::sync::Arc;

use chat::effect::HostAction;
use chat::phones::MessageBody;
use chat::{StoreFailure, StoreReply};
use cluster::ShardAddress;
use tokio::sync::oneshot;
use xmpp::ConnectionId;
use xmpp::c2s::{BindRequest, Bound};
use xmpp::{Bare, Element, Jid};

use super::shard_requests::ActAnswer;

use super::streams::http::bosh::Call;

/// One of a batch.
#[derive(Debug)]
pub enum XmppShardMessage {
    // From a connection to the host of its account.
    Bind {
        edge: ConnectionId,
        request: Box<BindRequest>,
    },
    Resume {
        edge: ConnectionId,
        user: Jid,
        id: Box<str>,
        seen: u32,
    },
    Stanza {
        edge: ConnectionId,
        element: Element,
    },
    Nonza {
        edge: ConnectionId,
        element: Element,
    },
    Gone {
        edge: ConnectionId,
        in_order: bool,
    },
    Drained {
        edge: ConnectionId,
    },

    // From a host to a connection.
    Bound {
        edge: ConnectionId,
        bound: Box<Bound>,
    },
    Deliver {
        edge: ConnectionId,
        element: Element,
    },
    /// Answered by `Drained`.
    Flush {
        edge: ConnectionId,
    },
    Close {
        edge: ConnectionId,
        condition: &'static str,
    },

    /// To the connection that is a session of BOSH, from a shard that one of its requests came to.
    Bosh(Box<Call>),

    /// To the host of the invited user: the two are contacts from now on.
    Invited {
        invited: Bare,
        inviter: Bare,
    },
    /// To the host of `user`, who gets this contact.
    Befriend {
        user: Bare,
        contact: Bare,
    },
    // To all shards: where a component (XEP-0114) is, and where it is no more.
    AttachOutcome {
        edge: ConnectionId,
        domain: Box<str>,
    },
    Detached {
        edge: ConnectionId,
        domain: Box<str>,
    },
    /// To a connection of a component.
    ToComponent {
        edge: ConnectionId,
        element: Box<Element>,
    },

    /// To the host that owns `to`.
    Routed(Box<Element>),
    /// To the host that owns `from`: one of its phones has sent that message.
    Said {
        from: Bare,
        to: Bare,
        words: MessageBody,
    },

    /// To every host: its part of what is asked of all.
    Act {
        from: ShardAddress,
        id: u64,
        act: Arc<HostAction>,
    },
    HostActionResult {
        id: u64,
        answer: Box<ActAnswer>,
    },
    // From the operator, to any shard.
    Operate {
        act: Arc<HostAction>,
        answer: oneshot::Sender<ActAnswer>,
    },
    /// A question to one of our addresses; its answer goes back to the asking shard.
    Question {
        iq: Box<Element>,
        answer: oneshot::Sender<Element>,
    },
    /// To the shard that asked: what came of `XmppEffect::Accounts`.
    Administered {
        id: u64,
        result: Box<Result<StoreReply, StoreFailure>>,
    },
    /// To the shard that asked.
    Reply {
        token: Box<str>,
        answer: Box<Element>,
    },
    /// Between what shards have of other servers.
    Servers(Box<::xmpp::s2s::ShardMessage>),
}
