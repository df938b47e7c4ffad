//! Probes of links: a message to another node, and its answer with the same bytes. The time between them is the delay of the link,
//! with the work of the shards at both ends, as packets of calls meet it.
//!
//! Nodes of earlier versions do not know these kinds and do not answer.

use cluster::fields::{Fields, put_number};
use cluster::limits::MESSAGE_BYTES;
use cluster::link::Message;
use cluster::{Epoch, Life};
use stdx::Instant;

/// Kinds of messages between nodes, beside those of `wire`: 40 to 49 are for operating a farm.
const PROBE: u16 = 40;
const PROBE_ANSWER: u16 = 41;

const SENT_AT: u64 = 1;
const FROM: u64 = 2;

/// A message about the delay of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// To be answered.
    Asked {
        /// The time at the asking node, in microseconds.
        sent_at: u64,
        /// The asking node.
        from: Life,
    },
    /// The answer to this node's probe of that time.
    Answered {
        /// The time at this node, in microseconds.
        sent_at: u64,
        /// The node that answers.
        from: Life,
    },
}

impl Probe {
    /// A probe of this node.
    pub fn new(now: Instant, from: Life) -> Probe {
        Probe::Asked { sent_at: now.as_micros(), from }
    }

    /// The message; the shard with the links handles it.
    pub fn message(self) -> Message {
        let (kind, sent_at, from) = match self {
            Probe::Asked { sent_at, from } => (PROBE, sent_at, from),
            Probe::Answered { sent_at, from } => (PROBE_ANSWER, sent_at, from),
        };
        let mut body = Vec::with_capacity(24);
        put_number(&mut body, SENT_AT, sent_at);
        put_number(&mut body, FROM, u64::from(from.0));
        Message { kind, epoch: Epoch(0), shard: 0, body: body.into() }
    }

    /// Reads a message. None: it is of another kind, or cannot be read.
    pub fn read(message: &Message) -> Option<Probe> {
        if !matches!(message.kind, PROBE | PROBE_ANSWER) {
            return None;
        }
        let (mut sent_at, mut from) = (0, Life(0));
        let mut fields = Fields::new("probe of a link", &message.body, MESSAGE_BYTES).ok()?;
        while let Some(field) = fields.next().ok()? {
            match field.number {
                SENT_AT => sent_at = field.value().ok()?,
                FROM => from = Life(field.value().ok()?),
                _ => {}
            }
        }
        Some(if message.kind == PROBE {
            Probe::Asked { sent_at, from }
        } else {
            Probe::Answered { sent_at, from }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_and_its_answer_come_back() {
        let asked = Probe::new(Instant::from_micros(5), Life(7));
        assert_eq!(Probe::read(&asked.message()), Some(asked));
        let answered = Probe::Answered { sent_at: 5, from: Life(8) };
        assert_eq!(Probe::read(&answered.message()), Some(answered));
        assert_eq!(Probe::read(&Message { kind: 1, ..asked.message() }), None);
    }
}
