//! Numbers of chat that come in kinds: each has a label of its own in the metrics.

use control::{Family, KindCount};

/// Stanzas by what they are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stanzas {
    pub(crate) messages: u64,
    pub(crate) presences: u64,
    pub(crate) iqs: u64,
}

impl Stanzas {
    /// Anything else is no stanza.
    pub(crate) fn count(&mut self, name: &str) {
        match name {
            "message" => self.messages += 1,
            "presence" => self.presences += 1,
            "iq" => self.iqs += 1,
            _ => {}
        }
    }

    pub(crate) fn total(self) -> u64 {
        self.messages + self.presences + self.iqs
    }

    pub(crate) fn kinds(self, family: Family) -> impl Iterator<Item = KindCount> {
        let counts = [("message", self.messages), ("presence", self.presences), ("iq", self.iqs)];
        counts.into_iter().map(move |(kind, count)| KindCount { family, kind: kind.into(), count })
    }
}
