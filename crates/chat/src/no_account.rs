//! Questions for addresses of no account. `route` asks here; the answers are those that an account gives strangers.

use stdx::Instant;
use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Element, Jid};

use super::{Host, archive, disco, last, pubsub, roster, vcard};

/// No account has that address. It is answered as an account answers strangers, so that they learn nothing of it.
///
/// # Errors
/// All requests but those for items and lists of one's own are refused.
pub(super) fn answer(
    host: &mut Host,
    now: Instant,
    iq: &Element,
    (from, to): (&Jid, &Jid),
) -> Result<Option<Element>, StanzaError> {
    // XEP-0012 §8: of the account and of each of its clients.
    if !to.is_bare() {
        let is_hidden = last::asks_for_last(iq);
        return Err(if is_hidden { Condition::Forbidden.into() } else { refusal() });
    }
    let is_question = matches!(iq.attr("type"), Some("get" | "set")) && iq.attr("id").is_some();
    match iq.first() {
        // RFC 6120 §8.2.3.
        _ if !is_question || iq.elements().count() != 1 => Err(Condition::BadRequest.into()),
        Some(payload) if disco::asks_for_items(iq) => Ok(Some(disco::no_items(payload))),
        _ if pubsub::is_request(iq) => pubsub::answer_without_account(host, now, iq, (from, to)),
        _ if roster::sets_roster(iq)
            || vcard::sets_vcard(iq)
            || archive::asks_for_archive(iq)
            || last::asks_for_last(iq) =>
        {
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
