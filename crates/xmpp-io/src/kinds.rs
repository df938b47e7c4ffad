//! Numbers of chat that come in kinds: each has a label of its own in the metrics.

use control::{Family, KindCount};
use sip::transport::Transport;

/// Stanzas by what they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stanzas {
    /// `<message/>`.
    pub messages: u64,
    /// `<presence/>`.
    pub presences: u64,
    /// `<iq/>`.
    pub iqs: u64,
}

impl Stanzas {
    /// Counts a stanza by its name; anything else is no stanza.
    pub fn count(&mut self, name: &str) {
        match name {
            "message" => self.messages += 1,
            "presence" => self.presences += 1,
            "iq" => self.iqs += 1,
            _ => {}
        }
    }

    /// Stanzas of all kinds.
    pub fn total(self) -> u64 {
        self.messages + self.presences + self.iqs
    }

    /// The numbers, for the metrics.
    pub fn kinds(self, family: Family) -> impl Iterator<Item = KindCount> {
        let counts = [("message", self.messages), ("presence", self.presences), ("iq", self.iqs)];
        counts.into_iter().map(move |(kind, count)| KindCount { family, kind: kind.into(), count })
    }
}

/// The label of connections by this transport.
pub fn name_of(transport: Transport) -> &'static str {
    match transport {
        Transport::Udp | Transport::Tcp => "tcp",
        Transport::Tls => "tls",
        Transport::Ws => "ws",
        Transport::Wss => "wss",
    }
}
