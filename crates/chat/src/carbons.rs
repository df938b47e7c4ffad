//! Message carbons (XEP-0280): the messages of one session, copied to the others. `route` calls `copy_sent`
//! before it sends a message on, and `copy_received` before it delivers one; both queue the copies at the
//! sessions, and their caller performs the effects.
//!
//! Copies are only for live sessions that have asked for them: they are not stored, and a client that was
//! away reads the archive instead. So a copy has the id of the archived message, by which the client knows it
//! again.

use stdx::Instant;
use stdx::slab::Key;
use xmpp::stanza::{self, Condition};
use xmpp::{Bare, Element, Level, Specification, ns};

use super::account_memory::AccountMemory;
use super::feature::{Feature, IqHandler, IqReply, IqRequest, IqTarget, IqView};
use super::{Outbox, archive, hints};

pub(super) const FEATURE: Feature = Feature {
    specifications: &[Specification {
        name: "XEP-0280",
        title: "Message Carbons",
        version: "1.0.1",
        level: Level::Complete,
        file: "crates/chat/src/carbons.rs",
        note: "an error is copied when it has its message's words in it",
    }],
    account: &[ns::CARBONS, ns::CARBON_RULES],
    server: &[ns::CARBONS, ns::CARBON_RULES],
    handles: &[
        IqHandler { at: IqTarget::Own, name: "enable", ns: ns::CARBONS, run: switch },
        IqHandler { at: IqTarget::Own, name: "disable", ns: ns::CARBONS, run: switch },
    ],
};

/// `<enable/>` and `<disable/>`, of the session that asks.
fn switch(view: &mut IqView<'_>, iq: &IqRequest<'_>) -> IqReply {
    if !iq.is_set {
        return IqReply::Error(Condition::BadRequest.into());
    }
    match iq.session.and_then(|key| view.accounts.sessions.get_mut(key)) {
        Some(session) => {
            // Of the session alone, and not stored: a client enables them at each sign-in.
            session.set_carbons(view.now, iq.payload.name() == "enable");
            IqReply::Result(None)
        }
        None => IqReply::Error(Condition::NotAllowed.into()),
    }
}

/// XEP-0280 §6.1. `is_sent`: by one of our sessions. `<private/>` and the hint `no-copy` are the sender's
/// veto.
pub(super) fn is_eligible(message: &Element, is_sent: bool) -> bool {
    if message.get("private", ns::CARBONS).is_some() || hints::has(message, "no-copy") {
        return false;
    }
    // Copies are never copied, nor what is told of an archive.
    if message.elements().any(|child| matches!(child.ns(), ns::CARBONS | ns::MAM)) {
        return false;
    }
    // Also with an element of rooms: each session in the room has its own copy.
    if matches!(message.attr("type"), Some("groupchat" | "headline")) {
        return false;
    }
    if let Some(room) = message.get("x", ns::MUC_USER).filter(|_| message.attr("type") != Some("error")) {
        // An invitation is for the user; private messages of occupants are copied by the room itself.
        return is_sent || room.get("invite", ns::MUC_USER).is_some();
    }
    let is_talk =
        |child: &Element| matches!(child.ns(), ns::CHATSTATES | ns::RECEIPTS | ns::MARKERS | ns::CONFERENCE);
    match message.attr("type") {
        // Also without text: chat states tell the other clients that the user is at another one.
        Some("chat") => true,
        Some("error") => hints::has_body(message),
        _ => hints::has_body(message) || message.elements().any(is_talk),
    }
}

/// One copy: `name` is `sent` or `received` (XEP-0280 §7 and §8). It comes from the bare address of the
/// account: clients ignore copies from any other address, which would be forged.
fn carbon(user: &Bare, to: &str, name: &'static str, message: &Element) -> Element {
    let forwarded = Element::new("forwarded", ns::FORWARD).child(message.clone());
    Element::new("message", ns::CLIENT)
        .with("from", user.as_str())
        .with("to", to)
        .with_opt("type", message.attr("type").filter(|kind| *kind != "error"))
        .child(Element::new(name, ns::CARBONS).child(forwarded))
}

/// Copies a message of a session to the account's other sessions. `id`: its id in the account's archive.
pub(super) fn copy_sent(
    accounts: &mut AccountMemory,
    now: Instant,
    key: Key,
    message: &Element,
    id: Option<Box<str>>,
    out: &mut Outbox,
) {
    let Some(user) = accounts.sessions.get(key).map(|session| session.jid.bare()) else { return };
    let Ok(Some(to)) = stanza::to(message) else { return };
    // To oneself: all get it anyway.
    if (to.is_bare() && to.bare() == user) || !is_eligible(message, true) {
        return;
    }
    // The sender has the message, and a session that it is addressed to gets the message itself.
    let mut except = vec![key];
    except.extend(accounts.session_of(&to));
    let copy = id.map(|id| archive::with_id(message.clone(), &user, id));
    copy_to_sessions(accounts, now, &user, &except, "sent", copy.as_ref().unwrap_or(message), out);
}

/// Copies a message of the account that no session has sent: of its phone, or of a component in its name. `id` as for `copy_sent`.
pub(super) fn copy_without_session(
    accounts: &mut AccountMemory,
    now: Instant,
    user: &Bare,
    message: &Element,
    id: Option<Box<str>>,
    out: &mut Outbox,
) {
    let is_to_oneself = stanza::to(message).ok().flatten().is_none_or(|to| to.bare() == *user);
    if !is_to_oneself && is_eligible(message, true) {
        let copy = id.map(|id| archive::with_id(message.clone(), user, id));
        copy_to_sessions(accounts, now, user, &[], "sent", copy.as_ref().unwrap_or(message), out);
    }
}

/// Copies a message for the account or one of its sessions to the others; the sessions in `except` get the message itself.
pub(super) fn copy_received(
    accounts: &mut AccountMemory,
    now: Instant,
    user: &Bare,
    except: &[Key],
    message: &Element,
    out: &mut Outbox,
) {
    // From one of ours: it was copied when it was sent.
    let is_own = stanza::from(message).ok().flatten().is_some_and(|from| from.bare() == *user);
    if !is_own && is_eligible(message, false) {
        copy_to_sessions(accounts, now, user, except, "received", message, out);
    }
}

/// Delivers copies to the account's sessions that want them, but for those in `except`. Each copy has the
/// address of its session.
fn copy_to_sessions(
    accounts: &mut AccountMemory,
    now: Instant,
    user: &Bare,
    except: &[Key],
    name: &'static str,
    message: &Element,
    out: &mut Outbox,
) {
    let keys = accounts.users.get(user).map(|user| user.sessions.clone()).unwrap_or_default();
    for key in keys {
        let Some(session) = accounts.sessions.get(key) else { continue };
        if session.has_carbons && !except.contains(&key) {
            let copy = carbon(user, session.jid.as_str(), name, message);
            accounts.deliver(now, key, copy, out);
        }
    }
}
