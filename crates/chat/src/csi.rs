//! Client state (XEP-0352): stanzas that an inactive client can do without are held back.
//!
//! A session asks here for each stanza while its client is inactive. The stanzas that are held back go out in
//! their order, with the next urgent one, when they are too many, or when the client is active again. A phone
//! in a pocket is so woken by messages and not by the presence of each contact. Only chat states and presence
//! that a later one replaces are dropped, and no stanza overtakes another.

use xmpp::stanza::{self, StanzaKind};
use xmpp::{Element, Level, Specification, ns};

use super::feature::Feature;
use super::hints;
use super::sm::weight;
use super::sparse::SparseVec;
use crate::limits;

pub(super) const FEATURE: Feature = Feature {
    specifications: &[Specification {
        name: "XEP-0352",
        title: "Client State Indication",
        version: "1.0.0",
        level: Level::Complete,
        file: "crates/chat/src/csi.rs",
        note: "presence: the last of each sender; chat states are dropped; words let all out",
    }],
    account: &[],
    server: &[],
    handles: &[],
};

/// The urgency of a stanza for an inactive client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Urgency {
    /// With all that was held back before it, so that the order stays.
    Now,
    /// With the next urgent stanza.
    Later,
    /// Later, and only the last of its sender.
    Last,
    /// It is of no use later: a chat state without words.
    Never,
}

/// Answers and requests cannot wait, as their senders do. Presence can, but for the answer of a room to the session
/// itself, and for subscriptions and errors.
fn urgency(stanza: &Element) -> Urgency {
    match stanza::kind_of(stanza) {
        Some(StanzaKind::Presence) => match stanza.attr("type") {
            None | Some("unavailable") if !is_about_itself(stanza) => Urgency::Last,
            _ => Urgency::Now,
        },
        Some(StanzaKind::Message) => of_message(copied(stanza).unwrap_or(stanza)),
        Some(StanzaKind::Iq) | None => Urgency::Now,
    }
}

/// Presence of which only the last of its sender counts.
pub(super) fn is_outdated_by_next(stanza: &Element) -> bool {
    stanza::kind_of(stanza) == Some(StanzaKind::Presence) && urgency(stanza) == Urgency::Last
}

/// The urgency of a message by its words and elements: one that is not known to be unimportant is urgent.
fn of_message(message: &Element) -> Urgency {
    if hints::has_body(message) {
        return Urgency::Now;
    }
    if message.get("event", ns::PUBSUB_EVENT).is_some() {
        return Urgency::Later;
    }
    let is_state = |child: &Element| child.ns() == ns::CHATSTATES;
    let is_trimming = |child: &Element| {
        is_state(child)
            || matches!(child.ns(), ns::HINTS | ns::SID)
            || child.is("thread", ns::CLIENT)
            || child.is("x", ns::MUC_USER)
    };
    match message.elements().any(is_state) && message.elements().all(is_trimming) {
        true => Urgency::Never,
        false => Urgency::Now,
    }
}

/// The message in a carbon.
fn copied(message: &Element) -> Option<&Element> {
    let carbon = message.elements().find(|child| child.ns() == ns::CARBONS)?;
    carbon.get("forwarded", ns::FORWARD)?.get("message", ns::CLIENT)
}

/// True for the presence by which a room tells the session that it has entered or left itself (XEP-0045 §7.2.2).
fn is_about_itself(presence: &Element) -> bool {
    let room = presence.get("x", ns::MUC_USER);
    room.is_some_and(|x| {
        x.elements().any(|status| status.name() == "status" && status.attr("code") == Some("110"))
    })
}

/// The state of a session's client, and the stanzas that are held back while it is inactive.
#[derive(Default)]
pub(super) struct ClientState {
    is_inactive: bool,
    held: SparseVec<Element>,
}

impl ClientState {
    /// True after `<inactive/>`.
    pub(super) fn is_inactive(&self) -> bool {
        self.is_inactive
    }

    /// `<inactive/>`: from now on stanzas are judged.
    pub(super) fn handle_inactive(&mut self) {
        self.is_inactive = true;
    }

    /// Returns the stanzas that were held back, in their order.
    pub(super) fn handle_active(&mut self) -> Vec<Element> {
        self.is_inactive = false;
        self.held.take()
    }

    /// Returns the stanzas to send now. An urgent one goes after the stanzas that were held back, so that none
    /// overtakes.
    pub(super) fn handle_stanza(&mut self, stanza: Element) -> Vec<Element> {
        let urgency = urgency(&stanza);
        match urgency {
            Urgency::Never => return Vec::new(),
            Urgency::Now | Urgency::Later => {}
            Urgency::Last => self.drop_last(stanza.attr("from")),
        }
        let is_large = weight(&stanza) > limits::CSI_HELD_EACH;
        self.held.push(stanza);
        if urgency == Urgency::Now || self.held.len() > limits::CSI_HELD || is_large {
            return self.held.take();
        }
        Vec::new()
    }

    /// Removes the presence of a sender that the next one replaces.
    fn drop_last(&mut self, from: Option<&str>) {
        self.held.retain(|other| urgency(other) != Urgency::Last || other.attr("from") != from);
    }
}
