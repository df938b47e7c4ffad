//! The address of a room and its secret: the addresses and ids of occupants, and stanzas as the room sends them. Elements that
//! only the room may add are removed from all that clients send through it; else an occupant could forge another one's id,
//! address or delay.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use xmpp::{Bare, Element, ns};

use super::occupants::Occupant;

/// Hex digits that name a session, and those that name a nickname, in the id of a forwarded request.
pub(super) const TAG: usize = 12;

/// The address of a room, with the secret that makes the ids of its occupants.
#[derive(Clone)]
pub(super) struct RoomAddress {
    pub(super) bare: Bare,
    /// The key of the ids; it is stored with the room, and a room that is made anew has another one.
    pub(super) secret: [u8; 32],
}

impl RoomAddress {
    pub(super) fn as_str(&self) -> &str {
        self.bare.as_str()
    }

    /// The address of an occupant.
    pub(super) fn of_nick(&self, nick: &str) -> Box<str> {
        format!("{}/{nick}", self.bare).into()
    }

    /// A keyed hash of the text, which does not reveal it: 128 bits, so that no two users of a room share an id.
    pub(super) fn seal(&self, text: &str) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.secret).expect("HMAC takes keys of any length");
        mac.update(text.as_bytes());
        hex(&mac.finalize().into_bytes()[..16])
    }

    /// The name of a session or nickname in the id of a forwarded request.
    pub(super) fn tag(&self, text: &str) -> String {
        let mut tag = self.seal(text);
        tag.truncate(TAG);
        tag
    }

    /// The message as all occupants get it, without addressee and the id of the archive: from the nickname, with the sender's occupant id.
    pub(super) fn message_of(&self, speaker: &Occupant, stanza: &Element) -> Element {
        let mut message = stanza.clone();
        message.unset("to");
        message.set("from", self.of_nick(&speaker.nick));
        message.remove_children(|child| self.may_only_send(child));
        message.push(Element::new("occupant-id", ns::OCCUPANT_ID).with("id", &*speaker.id));
        message
    }

    /// The part of a presence that other occupants get: no element that only the room may send.
    pub(super) fn shown(&self, presence: &Element) -> Element {
        let mut copy = presence.clone();
        for name in ["to", "from", "id", "type"] {
            copy.unset(name);
        }
        copy.remove_children(|child| self.may_only_send(child));
        copy
    }

    /// True if only the room may add such an element to an occupant's presence or message.
    fn may_only_send(&self, child: &Element) -> bool {
        child.is("x", ns::MUC)
            || child.is("x", ns::MUC_USER)
            || child.is("occupant-id", ns::OCCUPANT_ID)
            || child.is("hats", ns::HATS)
            || (child.is("stanza-id", ns::SID) && child.attr("by") == Some(self.as_str()))
            || (child.is("delay", ns::DELAY) && child.attr("from") == Some(self.as_str()))
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
