//! The messages between shards for XMPP: between a client's connection and the host of its account, between
//! hosts, and between those and components. Plain data, as [`super::ShardMessage`] is.

use std::sync::Arc;

use chat::effect::HostAction;
use chat::phones::MessageBody;
use cluster::ShardAddress;
use xmpp::ConnectionId;
use xmpp::c2s::{BindRequest, Bound};
use xmpp::{Bare, Element, Jid};

use crate::xmpp::shard_requests::ActAnswer;

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
        condition: StreamCondition,
    },

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
    /// The answer to an `Act` of this shard.
    HostActionResult {
        id: u64,
        answer: Box<ActAnswer>,
    },
    /// To the shard that asked.
    Reply {
        token: Box<str>,
        answer: Box<Element>,
    },
    /// Between what shards have of other servers.
    Servers(Box<::xmpp::s2s::ShardMessage>),
}

/// The condition of the stream error with which a host closes a connection, as its place in [`StreamCondition::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamCondition(u8);

impl StreamCondition {
    /// RFC 6120 §4.9.3. The order is that of the RFC; new conditions go to the end.
    const ALL: [&'static str; 25] = [
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
        assert_eq!(StreamCondition::named("no-such").name(), "undefined-condition");
    }
}
