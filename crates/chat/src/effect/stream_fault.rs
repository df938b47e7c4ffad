//! The stream error of an effect: its condition alone, or with that of an extension.

use xmpp::{ConnectionId, Element};

use super::Effect;

/// The stream error that ends a client's stream.
#[derive(Debug)]
pub(crate) struct StreamFault {
    /// The condition (RFC 6120 §4.9.3).
    pub(crate) condition: &'static str,
    /// The application-specific condition (RFC 6120 §4.9.4).
    pub(crate) detail: Option<Box<Element>>,
}

impl StreamFault {
    /// The effect that ends the stream of this connection.
    pub(crate) fn close(self, edge: ConnectionId) -> Effect {
        Effect::Close { edge, condition: self.condition, detail: self.detail }
    }
}

impl From<&'static str> for StreamFault {
    fn from(condition: &'static str) -> StreamFault {
        StreamFault { condition, detail: None }
    }
}
