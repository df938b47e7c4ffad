//! Questions for addresses of no account. `route` asks here; the answers are those that an account gives strangers.

use xmpp::Element;
use xmpp::stanza::Condition;

use super::{Host, Outbox, archive, disco, roster, vcard};

/// No account has that address. It is answered as an account answers strangers, so that they learn nothing of it.
pub(super) fn answer(host: &mut Host, stanza: &Element, out: &mut Outbox) {
    let is_question = matches!(stanza.attr("type"), Some("get" | "set"));
    match stanza.first() {
        // RFC 6120 §8.2.3.
        _ if !is_question || stanza.elements().count() != 1 => {
            host.refuse(stanza, &Condition::BadRequest.into(), out);
        }
        Some(payload) if disco::asks_for_items(stanza) => {
            host.answer(stanza, Ok(Some(disco::no_items(payload))), out);
        }
        _ if roster::sets_roster(stanza)
            || vcard::sets_vcard(stanza)
            || archive::asks_for_archive(stanza) =>
        {
            host.refuse(stanza, &Condition::Forbidden.into(), out);
        }
        _ => refuse(host, stanza, out),
    }
}

/// Answers as for an address without an account (RFC 6121 §8.5.1), so that the sender cannot tell the two apart.
pub(super) fn refuse(host: &mut Host, stanza: &Element, out: &mut Outbox) {
    host.refuse(stanza, &Condition::ServiceUnavailable.into(), out);
}
