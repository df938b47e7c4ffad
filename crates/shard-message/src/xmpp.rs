//! The messages between shards for XMPP: between a client's connection and the host of its account, between
//! hosts, and between those and components. Plain data, as [`super::ShardMessage`] is.

use std::sync::Arc;

use chat::AnnouncedSession;
use chat::effect::{HostAction, HostActionResult};
use chat::phones::MessageBody;
use cluster::ShardAddress;
use router::BucketSet;
use xmpp::ConnectionId;
use xmpp::c2s::{BindRequest, Bound};
use xmpp::s2s::{Outcome, Receipt};
use xmpp::{Bare, Element, Jid};
use xmpp_io::streams::SessionConnection;

/// One of a batch.
#[derive(Debug)]
pub enum XmppShardMessage {
    // From a connection to the host of its account.
    /// A signed-in client binds a resource (RFC 6120 §7); answered by `Bound`.
    Bind {
        /// The client's connection.
        edge: ConnectionId,
        /// The account and the resource asked for.
        request: Box<BindRequest>,
    },
    /// A signed-in client resumes a session (XEP-0198 §5); answered by `Bound`.
    Resume {
        /// The client's new connection.
        edge: ConnectionId,
        /// The account that signed in on the new connection.
        user: Jid,
        /// The session's identifier, `previd`.
        id: Box<str>,
        /// The number of stanzas that the client has received, `h`.
        seen: u32,
    },
    /// A session whose host is dead, for the next host; answered by `Bound`.
    Restore {
        /// The client's connection.
        edge: ConnectionId,
        /// The session.
        session: Box<AnnouncedSession>,
    },
    /// A shard has announced all its sessions of buckets whose owner is dead. It says so to the next owner, and with no buckets to shards
    /// that are new, so that these know of it.
    AllAnnounced {
        /// The shard with the connections.
        edge: ShardAddress,
        /// The buckets.
        buckets: Box<BucketSet>,
    },
    /// A stanza that the client sent.
    Stanza {
        /// The client's connection.
        edge: ConnectionId,
        /// The stanza.
        element: Element,
    },
    /// An element of the client that is no stanza and concerns its session, as those of XEP-0198.
    Nonza {
        /// The client's connection.
        edge: ConnectionId,
        /// The element.
        element: Element,
    },
    /// The connection is gone.
    Gone {
        /// The client's connection.
        edge: ConnectionId,
        /// The client closed its stream (RFC 6120 §4.4); the session cannot be resumed then.
        in_order: bool,
    },
    /// All elements sent before a `Flush` are written.
    Drained {
        /// The client's connection.
        edge: ConnectionId,
    },

    // From a host to a connection.
    /// The result of `Bind` or `Resume`.
    Bound {
        /// The client's connection.
        edge: ConnectionId,
        /// The address of the session, or the refusal.
        bound: Box<Bound>,
    },
    /// The session that the client resumes, before `Bound`: the connection's node announces it to the next host if this one dies.
    Announced {
        /// The client's connection.
        edge: ConnectionId,
        /// The session.
        session: Box<AnnouncedSession>,
    },
    /// An element for the client.
    Deliver {
        /// The client's connection.
        edge: ConnectionId,
        /// The element to write.
        element: Element,
    },
    /// Answered by `Drained`.
    Flush {
        /// The client's connection.
        edge: ConnectionId,
    },
    /// Closes the client's stream with a stream error (RFC 6120 §4.9).
    Close {
        /// The client's connection.
        edge: ConnectionId,
        /// The condition of the stream error.
        condition: StreamCondition,
        /// The application-specific condition beside it (RFC 6120 §4.9.4).
        detail: Option<Box<Element>>,
    },

    /// To the host of the invited user: the two are contacts from now on.
    Invited {
        /// The user that was invited.
        invited: Bare,
        /// The user that invited.
        inviter: Bare,
    },
    /// To the host of `user`, who gets this contact.
    Befriend {
        /// The user whose roster gets an entry.
        user: Bare,
        /// The address of the entry.
        contact: Bare,
    },
    // To all shards, of the other nodes of a farm too: where a component (XEP-0114) is, and where it is no more.
    /// A component is connected from now on.
    AttachOutcome {
        /// The component's connection.
        edge: ConnectionId,
        /// The domain that the component serves.
        domain: Box<str>,
    },
    /// A component's connection is gone.
    Detached {
        /// The component's connection.
        edge: ConnectionId,
        /// The domain that the component served.
        domain: Box<str>,
    },
    /// To a connection of a component.
    ToComponent {
        /// The component's connection.
        edge: ConnectionId,
        /// The stanza to write.
        element: Box<Element>,
    },

    /// To the host that owns `to`.
    Routed(Box<Element>),
    /// To the host that owns `from`: one of its phones has sent that message.
    Said {
        /// The account of the phone.
        from: Bare,
        /// The address that the message is for.
        to: Bare,
        /// The text, or the state of composing (RFC 3994).
        words: MessageBody,
    },

    /// To every host: its part of what is asked of all.
    Act {
        /// The shard that collects the answers.
        from: ShardAddress,
        /// The number of the action at that shard; the answer repeats it.
        id: u64,
        /// The action, one value for all hosts.
        act: Arc<HostAction>,
    },
    /// The answer to an `Act` of this shard.
    HostActionResult {
        /// The number of the action.
        id: u64,
        /// The result of one host.
        answer: Box<ActAnswer>,
    },
    /// To the shard that asked.
    Reply {
        /// The identifier of the request at the shard that asked.
        token: Box<str>,
        /// The stanza that answers.
        answer: Box<Element>,
    },
    /// A stanza for another server, to the shard of the farm that owns the server's domain, which answers with `OutboundOutcome`.
    Outbound {
        /// The stanza's name at the shard that keeps it.
        receipt: Receipt,
        /// The stanza.
        element: Box<Element>,
    },
    /// The outcome of a stanza for another server, to the shard that keeps it.
    OutboundOutcome {
        /// The stanza.
        receipt: Receipt,
        /// Its outcome.
        outcome: Outcome,
    },
    /// Between what shards of one node have of other servers.
    Servers(Box<::xmpp::s2s::ShardMessage>),
}

/// True if both messages are one stanza that differs in its address alone, as a presence for several contacts does: for owners, or for clients of
/// one shard.
pub fn is_copy(one: &XmppShardMessage, other: &XmppShardMessage) -> bool {
    let is_one = |one: &Element, other: &Element| one.attr("to").is_some() && one.is_copy_of(other);
    match (one, other) {
        (XmppShardMessage::Routed(one), XmppShardMessage::Routed(other)) => is_one(one, other),
        (
            XmppShardMessage::Deliver { edge, element: one },
            XmppShardMessage::Deliver { edge: others, element: other },
        ) => edge.shard == others.shard && is_one(one, other),
        _ => false,
    }
}

/// The condition of the stream error with which a host closes a connection, as its place in [`StreamCondition::ALL`], or
/// [`StreamCondition::IN_ORDER`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamCondition(u8);

impl StreamCondition {
    /// No error: the client has closed its stream, and has all stanzas that its session was sent before. A node that does not
    /// know it has closed the stream already.
    pub const IN_ORDER: StreamCondition = StreamCondition(25);

    /// RFC 6120 §4.9.3, and the name of [`IN_ORDER`](Self::IN_ORDER). The order is that of the RFC; new conditions go to the end.
    const ALL: [&'static str; 26] = [
        "bad-format",
        "bad-namespace-prefix",
        "conflict",
        "connection-timeout",
        "host-gone",
        "host-unknown",
        "improper-addressing",
        "internal-server-error",
        "invalid-from",
        "invalid-namespace",
        "invalid-xml",
        "not-authorized",
        "not-well-formed",
        "policy-violation",
        "remote-connection-failed",
        "reset",
        "resource-constraint",
        "restricted-xml",
        "see-other-host",
        "system-shutdown",
        "undefined-condition",
        "unsupported-encoding",
        "unsupported-feature",
        "unsupported-stanza-type",
        "unsupported-version",
        "in-order",
    ];

    /// The condition of this name; `undefined-condition` for a name that RFC 6120 does not have.
    pub fn named(name: &str) -> StreamCondition {
        let place = |name| Self::ALL.iter().position(|known| *known == name);
        let place = place(name).or_else(|| place("undefined-condition"));
        StreamCondition(place.and_then(|place| u8::try_from(place).ok()).unwrap_or_default())
    }

    /// The name of its element.
    pub fn name(self) -> &'static str {
        Self::ALL.get(usize::from(self.0)).copied().unwrap_or("undefined-condition")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_condition_keeps_its_name() {
        for name in StreamCondition::ALL {
            assert_eq!(StreamCondition::named(name).name(), name);
        }
        assert_eq!(StreamCondition::named("in-order"), StreamCondition::IN_ORDER);
        assert_eq!(StreamCondition::named("no-such").name(), "undefined-condition");
    }
}

/// The results of a host action, over all shards.
#[derive(Debug, Default)]
pub struct ActAnswer {
    /// The results of the hosts.
    pub acted: HostActionResult,
    /// The connections of the described sessions.
    pub connections: Vec<SessionConnection>,
}
