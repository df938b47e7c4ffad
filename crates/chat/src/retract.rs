//! Messages that are taken back (XEP-0424): in an archive a tombstone replaces the message.
//!
//! `archive` calls `retract_archived` for each message that it writes for an account; rooms have their own way (`muc`).
//! The retracted message is named by its sender's id, by which the store cannot search: it is looked for among the latest
//! messages with that contact.

use xmpp::retraction::{retracted, tombstone};
use xmpp::{Bare, Element, Jid, Level, Specification, ns};

use super::effect::{Change, Load, MamQuery, StoreReply};
use super::feature::Feature;
use super::store_requests::StoreRequests;
use super::{Outbox, offline};
use crate::limits;

pub(super) const FEATURE: Feature = Feature {
    specifications: &[Specification {
        name: "XEP-0424",
        title: "Message Retraction",
        version: "0.4.2",
        level: Level::Complete,
        file: "crates/chat/src/retract.rs",
        note: "tombstones in archives of rooms, and of accounts for the latest messages with a contact",
    }],
    account: &[ns::RETRACT, ns::RETRACT_TOMBSTONE],
    server: &[],
    handles: &[],
};

/// The id of the message that this one takes back.
pub(super) fn retracts(message: &Element) -> Option<&str> {
    message.get("retract", ns::RETRACT)?.attr("id").filter(|id| !id.is_empty())
}

/// True for a tombstone: what was retracted once is not retracted again.
fn is_stone(message: &Element) -> bool {
    message.get("retracted", ns::RETRACT).is_some()
}

/// In a conversation of two a message is named by the id that its sender gave it (XEP-0424 §3).
fn is_called(message: &Element, id: &str) -> bool {
    let origin = message.get("origin-id", ns::SID).and_then(|origin| origin.attr("id"));
    origin.or(message.attr("id")) == Some(id)
}

/// A message of the account is archived: it may retract another one.
pub(super) fn retract_archived(
    store: &mut StoreRequests,
    user: &Bare,
    with: &Jid,
    message: &Element,
    out: &mut Outbox,
) {
    let Some(id) = retracts(message).map(Box::<str>::from) else { return };
    let Some(sender) = offline::sender(message).map(|from| from.bare()) else { return };
    let query = MamQuery {
        // Among the latest with this contact only: the search reads at most `RETRACT_AMONG` messages.
        with: Some(with.bare().into_jid()),
        from_end: true,
        max: limits::RETRACT_AMONG,
        ..MamQuery::default()
    };
    let (owner, with) = (user.clone(), with.clone());
    let load = Load::Archive { owner: owner.clone(), query: Box::new(query) };
    store.load(load, out, move |host, now, loaded, out| {
        let Ok(StoreReply::Page(page)) = loaded else { return };
        // §5: only the sender of a message may retract it.
        let is_it = |old: &Element| {
            let is_of_sender = offline::sender(old).is_some_and(|from| from.bare() == sender);
            is_of_sender && is_called(old, &id) && !is_stone(old) && retracts(old).is_none()
        };
        let found = page.stanzas.into_iter().rev().find(|(_, _, old)| is_it(old));
        let Some((id, at, old)) = found else { return };
        let stanza = Box::new(tombstone(&old, retracted(now)));
        // The requester sees the retraction in any case.
        host.store.change(Change::Archive { owner, id, with, at, stanza }, out, |_, _, _, _| {});
    });
}
