//! An account that was removed loses what it was in rooms and nodes: the next account of its name inherits nothing.
//!
//! The store removes it from its rows, in the transaction that removes the account ([`without_user`]). Hosts
//! remove it from memory, when `HostAction::Departed` reaches them: the driver has every host of every node
//! perform it, whichever program removes the account. A room or node without an owner belongs
//! to the administrators of the server, who may name another or destroy it.

use xmpp::{Bare, Element, Jid, ns};

use super::Outbox;
use super::effect::{HostAction, Load};
use super::store_requests::StoreRequests;

/// The configuration of a room or node without this account's entries; `None` if it has none. Bans stay: a
/// new account of that name does not lift them.
pub fn without_user(config: &Element, user: &Bare) -> Option<Element> {
    let is_of = |child: &Element| {
        let is_right = child.is("item", ns::MUC_OWNER)
            || child.is("hats", ns::HATS)
            || child.is("affiliation", ns::PUBSUB_OWNER)
            || child.is("subscription", ns::PUBSUB_OWNER);
        is_right
            && child.attr("affiliation") != Some("outcast")
            && child.attr("jid").and_then(|jid| Jid::parse(jid).ok()).is_some_and(|jid| jid.bare() == *user)
    };
    let mut without = config.clone();
    without.remove_children(is_of);
    for list in ["affiliations", "subscriptions"] {
        if let Some(list) = without.get_mut(list, ns::PUBSUB_OWNER) {
            list.remove_children(is_of);
        }
    }
    // Of a collection (XEP-0248): the accounts that may put their nodes into it.
    let form = without.get_mut("configure", ns::PUBSUB_OWNER).and_then(|part| part.get_mut("x", ns::DATA));
    let fields = form.into_iter().flat_map(Element::elements_mut);
    for list in fields.filter(|field| field.attr("var") == Some(pubsub::ASSOCIATION_WHITELIST)) {
        list.remove_children(|value| {
            value.is("value", ns::DATA) && Bare::parse(&value.content()).is_ok_and(|jid| jid == *user)
        });
    }
    (without != *config).then_some(without)
}

/// The account is out of the store by its user's own request: all hosts of this node are told. Other nodes of a farm hear of it from the
/// database.
pub(super) fn tell_departed(store: &mut StoreRequests, user: &Bare, out: &mut Outbox) {
    let act = HostAction::Departed { user: user.clone() };
    store.load(Load::Act(Box::new(act)), out, |_, _, _, _| {});
}
