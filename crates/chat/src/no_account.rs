//! Questions for addresses of no account. `route` asks here; the answers are those that an account gives strangers.

use xmpp::Element;
use xmpp::stanza::{Condition, StanzaError};

use super::{archive, disco, roster, vcard};

/// No account has that address. It is answered as an account answers strangers, so that they learn nothing of it.
///
/// # Errors
/// All requests but those for items are refused.
pub(super) fn answer(iq: &Element) -> Result<Option<Element>, StanzaError> {
    let is_question = matches!(iq.attr("type"), Some("get" | "set"));
    match iq.first() {
        // RFC 6120 §8.2.3.
        _ if !is_question || iq.elements().count() != 1 => Err(Condition::BadRequest.into()),
        Some(payload) if disco::asks_for_items(iq) => Ok(Some(disco::no_items(payload))),
        _ if roster::sets_roster(iq) || vcard::sets_vcard(iq) || archive::asks_for_archive(iq) => {
            Err(Condition::Forbidden.into())
        }
        _ => Err(refusal()),
    }
}

/// The error for an address without an account (RFC 6121 §8.5.1). An account that blocks the sender answers the same, so that
/// the sender cannot tell the two apart.
pub(super) fn refusal() -> StanzaError {
    Condition::ServiceUnavailable.into()
}
