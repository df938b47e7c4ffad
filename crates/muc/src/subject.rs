//! The subject of a room (XEP-0045 §8.1), and its message for an occupant that enters (§7.2.15).

use std::sync::Arc;

use stdx::Instant;
use xmpp::{Element, Jid, ns};

use super::address::RoomAddress;
use crate::limits;

/// The subject of a room.
#[derive(Clone, Default)]
pub(super) struct Subject {
    /// The message that set it, without addressee.
    message: Option<Arc<Element>>,
    /// The time at which it was set.
    at: Instant,
}

impl Subject {
    /// Set by that message.
    pub(super) fn new(now: Instant, message: &Element) -> Subject {
        Subject { message: Some(Arc::new(text_of(message))), at: now }
    }

    /// `None`: there is no subject.
    pub(super) fn text(&self) -> Option<std::borrow::Cow<'_, str>> {
        self.message.as_ref()?.content_of("subject", ns::CLIENT)
    }

    /// The message that tells an occupant the subject when it enters (§7.2.15): it is sent also when there is none.
    pub(super) fn message_for(&self, room: &RoomAddress, session: &Jid) -> Element {
        let mut message = match &self.message {
            Some(message) => Element::clone(message),
            None => Element::new("message", ns::CLIENT)
                .with("type", "groupchat")
                .with("from", room.as_str())
                .child(Element::new("subject", ns::CLIENT)),
        };
        if self.message.is_some() {
            let delay = Element::new("delay", ns::DELAY)
                .with("from", room.as_str())
                .with("stamp", xmpp::time::stamp(self.at));
            message.push(delay);
        }
        message.with("to", session.as_str())
    }

    /// `<set/>`, for the store.
    pub(super) fn stored(&self) -> Option<Element> {
        let message = self.message.as_ref()?;
        let set = Element::new("set", ns::MUC_OWNER).with("at", xmpp::time::stamp(self.at));
        Some(set.child(Element::clone(message)))
    }

    /// From `<set/>`.
    pub(super) fn from_stored(set: &Element) -> Subject {
        let at = set.attr("at").and_then(xmpp::time::parse).unwrap_or_default();
        Subject { message: set.first().map(text_of).map(Arc::new), at }
    }
}

/// The stored part of the message that set the subject: its sender and text (XEP-0045 §8.1). The rest of
/// the message goes to the occupants and is not stored with the room.
fn text_of(message: &Element) -> Element {
    let is_occupant = |child: &&Element| child.is("occupant-id", ns::OCCUPANT_ID);
    let short = |name: &'static str| message.attr(name).filter(|value| value.len() <= limits::ROOM_TEXT);
    let text = message.get("subject", ns::CLIENT).map(Element::content).unwrap_or_default();
    Element::new("message", ns::CLIENT)
        .with("type", "groupchat")
        .with_opt("from", message.attr("from"))
        .with_opt("id", short("id"))
        .child(Element::new("subject", ns::CLIENT).text(text.into_owned()))
        .children(message.elements().find(is_occupant).cloned())
}
