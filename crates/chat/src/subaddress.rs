//! Subaddresses (RFC 5233 §1 has the words): a message for `alice+shop` is for `alice`, unless there is an
//! account `alice+shop`.

use xmpp::stanza::{self, StanzaKind};
use xmpp::{Element, Jid};

use super::account_memory::AccountMemory;
use super::{Effect, Outbox};

/// The namespace of XEP-0033: a redirected message says in it how it was addressed, for clients that sort by that.
const ADDRESS: &str = "http://jabber.org/protocol/address";

/// The address before the separator `+`, with the same resource; `None`: the address has no detail.
fn whole(to: &Jid) -> Option<Jid> {
    let (user, detail) = to.local()?.split_once('+')?;
    if user.is_empty() || detail.is_empty() {
        return None;
    }
    Jid::new(Some(user), to.domain(), to.resource()).ok()
}

/// Delivers a message whose address has no account to the account before the separator. Other stanzas
/// would have to be answered from an address without an account. Returns the stanza if it is not
/// redirected.
pub(super) fn redirect_detail(
    accounts: &AccountMemory,
    mut stanza: Element,
    out: &mut Outbox,
) -> Option<Element> {
    let is_message = stanza::kind_of(&stanza) == Some(StanzaKind::Message) && stanza::may_be_refused(&stanza);
    let Some(to) = stanza::to(&stanza).ok().flatten().filter(|_| is_message) else { return Some(stanza) };
    // An account whose name has the separator in it goes before.
    let is_absent = accounts.is_absent(&to.bare());
    let Some(whole) = whole(&to).filter(|_| is_absent) else { return Some(stanza) };
    stanza.set("to", whole.as_str());
    let address = Element::new("address", ADDRESS)
        .with("type", "to")
        .with("jid", to.as_str())
        .with("delivered", "true");
    stanza.remove_children(|child| child.is("addresses", ADDRESS));
    stanza.push(Element::new("addresses", ADDRESS).child(address));
    // With the mark that it may have: it is not handled before it arrives.
    out.push(Effect::Route(Box::new(stanza)));
    None
}
