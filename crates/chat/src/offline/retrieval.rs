//! The retrieval of single messages by clients (XEP-0013): the requests for them and their answers. `disco`
//! calls [`describe`] for the number and the list of messages; `offline` has the requests that view and
//! remove them.
//!
//! Messages stay stored when they are viewed; only a removal takes them away. A client that has asked once is
//! not sent the waiting messages unasked in that session.

use stdx::slab::Key;
use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Bare, Element, ns};

use super::super::account_memory::AccountMemory;
use super::super::effect::{Load, StoreFailure};
use super::super::feature::IqRequest;
use super::super::{StanzaPage, change_queue};
use super::{OfflineEffect, OfflineRead, Sender, SendersGoal, delayed, page_after};

/// XEP-0013 §2.1 and §2.2: the client asks what waits before it is available, and so wants to choose.
pub(super) fn describe(
    accounts: &mut AccountMemory,
    user: &Bare,
    iq: &IqRequest<'_>,
) -> Result<OfflineEffect, StanzaError> {
    if iq.is_set || iq.from.bare() != *user {
        return Err(Condition::BadRequest.into());
    }
    // From now on nothing of what waits is sent unasked to this session.
    if let Some(session) = iq.session.and_then(|key| accounts.sessions.get_mut(key)) {
        session.takes_offline = true;
    }
    let wants_items = iq.payload.ns() == ns::DISCO_ITEMS;
    let iq = iq.iq.clone();
    let goal = if wants_items { SendersGoal::Headers(iq) } else { SendersGoal::Count(iq) };
    Ok(read_senders(user, Vec::new(), goal))
}

/// Reads the next page of senders, after those that are known.
pub(super) fn read_senders(user: &Bare, known: Vec<Sender>, goal: SendersGoal) -> OfflineEffect {
    let after = known.last().map_or(0, |(id, _)| *id);
    OfflineEffect::Read(page_after(user, after), OfflineRead::Senders { known, goal })
}

/// Reads the messages that a client wants to view; `wanted`: their ids, `None`: all.
pub(super) fn read_for_view(user: &Bare, key: Key, iq: Element, wanted: Option<Vec<u64>>) -> OfflineEffect {
    let load = Load::Offline { user: user.clone(), after: 0, ids: wanted.clone().unwrap_or_default() };
    OfflineEffect::Read(load, OfflineRead::View { key, iq, wanted })
}

/// The messages that a client wants to view were read: the messages with their nodes, or an error for all.
pub(super) fn view(
    user: &Bare,
    (key, iq, wanted): (Key, Element, Option<Vec<u64>>),
    page: Option<StanzaPage>,
) -> OfflineEffect {
    let Some(page) = page else {
        return OfflineEffect::Answer(iq, Err(change_queue::not_written(StoreFailure::Unavailable)));
    };
    if !page.is_complete {
        let text = "more than is sent at once: view some of the messages by their nodes";
        return OfflineEffect::Answer(iq, Err(StanzaError::new(Condition::ResourceConstraint, text)));
    }
    let is_there = |id: &u64| page.stanzas.iter().any(|(known, _, _)| known == id);
    // All or none: a client that names a message which is gone learns it before it deletes the others.
    if !wanted.iter().flatten().all(is_there) {
        return OfflineEffect::Answer(iq, Err(Condition::ItemNotFound.into()));
    }
    let viewed = page.stanzas.into_iter().map(|(id, at, message)| {
        let item = Element::new("item", ns::OFFLINE).with("node", node_of(id));
        delayed(message.child(Element::new("offline", ns::OFFLINE).child(item)), at, user.domain())
    });
    OfflineEffect::View(key, viewed.collect(), iq)
}

/// The node of a message (XEP-0013 §2.2): of one length, so that the order of texts is the order in which the messages came.
fn node_of(id: u64) -> String {
    format!("{id:020}")
}

/// The list of the messages with their senders (XEP-0013 §2.2).
pub(super) fn headers(user: &Bare, messages: &[Sender]) -> Element {
    let item = |(id, from): &Sender| {
        Element::new("item", ns::DISCO_ITEMS)
            .with("jid", user.as_str())
            .with("node", node_of(*id))
            .with_opt("name", from.clone())
    };
    Element::new("query", ns::DISCO_ITEMS).with("node", ns::OFFLINE).children(messages.iter().map(item))
}

/// The number of the messages (XEP-0013 §2.1).
pub(super) fn count(messages: usize) -> Element {
    let field = |var: &'static str, value: String| {
        Element::new("field", ns::DATA).with("var", var).child(Element::new("value", ns::DATA).text(value))
    };
    let form = Element::new("x", ns::DATA)
        .with("type", "result")
        .child(field("FORM_TYPE", ns::OFFLINE.to_owned()).with("type", "hidden"))
        .child(field("number_of_messages", messages.to_string()));
    Element::new("query", ns::DISCO_INFO)
        .with("node", ns::OFFLINE)
        .child(
            Element::new("identity", ns::DISCO_INFO)
                .with("category", "automation")
                .with("type", "message-list"),
        )
        .child(Element::new("feature", ns::DISCO_INFO).with("var", ns::OFFLINE))
        .child(form)
}
