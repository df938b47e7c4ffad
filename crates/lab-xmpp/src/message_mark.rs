//! The mark in each message and presence of the users, by which it is accounted for.
//!
//! Every message and presence of the load carries its sender, its number and its times, so that a receiver in another shard or process needs no other word.

use std::fmt::Write as _;

use stdx::time::Instant;
use xmpp::Element;

/// The namespace of `<n/>`. Servers pass on what they do not know.
pub(super) const NS: &str = "urn:x-ringer:note:1";

/// Number of a directed presence, whose receiver need not be a contact.
pub(super) const DIRECTED: u32 = 0;

/// Sender, number (among the messages to this contact, or among all presences), due time and sending time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct MessageMark {
    /// The number of the sending user.
    pub from: u32,
    /// From 1, or `DIRECTED`.
    pub number: u32,
    /// When the action was due.
    pub due: Instant,
    /// When the stanza was written.
    pub sent: Instant,
    /// In a presence: the places of the sender's contacts that must see it, a bit each.
    pub seen_by: u64,
}

impl MessageMark {
    /// Attributes of one letter: the mark is in every stanza.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let mut text = String::new();
        let (due, sent) = (self.due.as_micros(), self.sent.as_micros());
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "<n xmlns='{NS}' f='{}' s='{}' d='{due}' t='{sent}' v='{:x}'/>",
            self.from, self.number, self.seen_by
        );
        out.extend_from_slice(text.as_bytes());
    }

    /// The mark of a received stanza; `None` for a stanza of another origin.
    pub(super) fn of(stanza: &Element) -> Option<MessageMark> {
        let note = stanza.get("n", NS)?;
        let number = |name: &str| note.attr(name)?.parse::<u64>().ok();
        Some(MessageMark {
            from: u32::try_from(number("f")?).ok()?,
            number: u32::try_from(number("s")?).ok()?,
            due: Instant::from_micros(number("d")?),
            sent: Instant::from_micros(number("t")?),
            seen_by: u64::from_str_radix(note.attr("v")?, 16).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xmpp::xml::{Prefixes, parse};

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let note = MessageMark {
            from: 7,
            number: 4_000_000_000,
            due: Instant::from_micros(1_700_000_000_000_001),
            sent: Instant::from_micros(1_700_000_000_000_002),
            seen_by: u64::MAX,
        };
        let mut bytes = b"<message>".to_vec();
        note.write(&mut bytes);
        bytes.extend_from_slice(b"</message>");
        let stanza = parse(&bytes, &Prefixes::default()).unwrap();
        assert_eq!(MessageMark::of(&stanza), Some(note));
        let odd = parse(b"<message><n xmlns='urn:x-ringer:note:1' f='x'/></message>", &Prefixes::default());
        assert_eq!(MessageMark::of(&odd.unwrap()), None);
    }
}
