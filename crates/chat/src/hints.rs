//! The treatment of a message, by its content and its sender's hints (XEP-0334): is it archived, kept for
//! later, copied, worth a notification?
//!
//! Pure functions of a message, so that offline storage, archives, carbons and push decide alike. A hint of
//! the sender goes before the content; a type that is never kept (`error`, `headline`) goes before both.

use xmpp::{Element, Level, Specification, ns};

use super::feature::Feature;

pub(super) const FEATURE: Feature = Feature {
    specifications: &[Specification {
        name: "XEP-0334",
        title: "Message Processing Hints",
        version: "0.4.0",
        level: Level::Complete,
        file: "crates/chat/src/hints.rs",
        note: "",
    }],
    account: &[ns::HINTS],
    server: &[ns::HINTS],
    handles: &[],
};

/// True if the sender gave that hint.
pub(super) fn has(message: &Element, hint: &str) -> bool {
    message.get(hint, ns::HINTS).is_some()
}

/// True if there is text. An empty `<body/>` is none.
pub(super) fn has_body(message: &Element) -> bool {
    message.content_of("body", ns::CLIENT).is_some_and(|body| !body.is_empty())
}

/// Elements of a conversation besides its text, by name and namespace. A signal of the moment, such as a chat
/// state, is not among them.
const CONTENT: &[(&str, &str)] = &[
    ("received", ns::RECEIPTS),
    ("displayed", ns::MARKERS),
    ("reactions", ns::REACTIONS),
    ("retract", ns::RETRACT),
    ("encrypted", ns::OMEMO),
    ("encrypted", ns::OMEMO_OLD),
    ("encryption", ns::ENCRYPTION),
    ("propose", ns::JINGLE_MESSAGE),
    ("x", ns::CONFERENCE),
    ("x", ns::DATA),
];

/// The namespaces of signals of the moment, and of what stands beside a text.
const SIGNALS: &[&str] = &[
    ns::CHATSTATES,
    ns::RECEIPTS,
    ns::MARKERS,
    ns::JINGLE_MESSAGE,
    ns::HINTS,
    ns::SID,
    ns::DELAY,
    ns::CARBONS,
    ns::MUC_USER,
    ns::PUBSUB_EVENT,
];

/// True if a later session wants to have it (XEP-0160 §3, XEP-0313 §5.1.1): text and elements that belong to
/// conversations, unless the sender says otherwise.
pub(super) fn is_worth_keeping(message: &Element) -> bool {
    if matches!(message.attr("type"), Some("error" | "groupchat" | "headline")) || has(message, "no-store") {
        return false;
    }
    let is_invitation = |x: &Element| x.is("x", ns::MUC_USER) && x.get("invite", ns::MUC_USER).is_some();
    // RFC 6121 §5.2.4: a message may have a subject alone.
    let is_subject = |child: &Element| child.is("subject", ns::CLIENT) && !child.content().is_empty();
    let is_content = |child: &Element| {
        CONTENT.iter().any(|(name, ns)| child.is(name, ns)) || is_invitation(child) || is_subject(child)
    };
    has(message, "store") || has_body(message) || message.elements().any(is_content)
}

/// True if a message that is not worth keeping is refused where it cannot be delivered (RFC 6121 §8.5.2.2.1): its sender counts on it. It has
/// more than signals of the moment (XEP-0160 §3), and its sender does not say that it may be lost.
pub(super) fn is_missed(message: &Element) -> bool {
    if matches!(message.attr("type"), Some("error" | "headline")) || has(message, "no-store") {
        return false;
    }
    let is_empty = |child: &Element| child.ns() == ns::CLIENT && child.content().is_empty();
    let is_signal =
        |child: &Element| is_empty(child) || child.is("thread", ns::CLIENT) || SIGNALS.contains(&child.ns());
    !message.elements().all(is_signal)
}

/// True if it is worth a notification: text and calls, not the clients' signals to each other. An encrypted
/// message may be a text, so it counts as one.
pub(super) fn is_notable(message: &Element) -> bool {
    let is_call = |child: &Element| {
        let encrypted = child.name() == "encrypted" && matches!(child.ns(), ns::OMEMO | ns::OMEMO_OLD);
        encrypted || child.is("propose", ns::JINGLE_MESSAGE) || child.is("x", ns::CONFERENCE)
    };
    is_worth_keeping(message) && (has_body(message) || message.elements().any(is_call))
}

/// True if an archive keeps the message: it [`is_worth_keeping`], and its sender does not forbid to keep it for good.
pub(super) fn is_worth_archiving(message: &Element) -> bool {
    is_worth_keeping(message) && !has(message, "no-permanent-store")
}
