//! One stanza for several addresses: a presence for contacts, a message of a room for its occupants. It is written once, with the address of
//! the first, and then the other addresses; one for clients has the connection of each, too.

use cluster::fields::{Corrupt, put_bytes, put_number};
use xmpp::{ConnectionId, Element};

use super::super::values::absent;
use super::{COPY_CONNECTION, COPY_TO};
use crate::XmppShardMessage;

/// The addresses of the copies of a message that is written before.
pub(super) fn put(out: &mut Vec<u8>, copies: &[XmppShardMessage]) {
    let put_to = |out: &mut Vec<u8>, element: &Element| {
        put_bytes(out, COPY_TO, element.attr("to").unwrap_or_default().as_bytes());
    };
    for copy in copies {
        match copy {
            XmppShardMessage::Routed(element) => put_to(out, element),
            XmppShardMessage::Deliver { edge, element } => {
                put_to(out, element);
                put_number(out, COPY_CONNECTION, edge.connection);
            }
            _ => {}
        }
    }
}

/// The copies of a message for these addresses and connections.
pub(super) fn read(
    first: &XmppShardMessage,
    addresses: &[Box<str>],
    connections: &[u64],
) -> Result<Vec<XmppShardMessage>, Corrupt> {
    match first {
        XmppShardMessage::Routed(element) => {
            let copy = |to: &str| XmppShardMessage::Routed(Box::new(element.copy_to(to)));
            Ok(addresses.iter().map(|to| copy(to)).collect())
        }
        XmppShardMessage::Deliver { edge, element } if connections.len() == addresses.len() => {
            let copy = |to: &str, connection| XmppShardMessage::Deliver {
                edge: ConnectionId { shard: edge.shard, connection },
                element: element.copy_to(to),
            };
            Ok(addresses.iter().zip(connections).map(|(to, connection)| copy(to, *connection)).collect())
        }
        _ if addresses.is_empty() => Ok(Vec::new()),
        _ => Err(absent("a copy of a stanza has no connection")),
    }
}
