//! Questions for addresses of no account. `route` asks here; the answers are those that an account gives strangers.

use xmpp::Element;
use xmpp::stanza::Condition;

use super::{Host, Outbox, archive, disco, roster, vcard};

impl Host {
    /// No account has that address. It is answered as an account answers strangers, so that they learn nothing of it.
    pub(super) fn answer_for_nobody(&mut self, stanza: &Element, out: &mut Outbox) {
        let is_question = matches!(stanza.attr("type"), Some("get" | "set"));
        match stanza.first() {
            // RFC 6120 §8.2.3.
            _ if !is_question || stanza.elements().count() != 1 => {
                self.refuse(stanza, &Condition::BadRequest.into(), out);
            }
            Some(payload) if disco::asks_for_items(stanza) => {
                self.answer(stanza, Ok(Some(disco::no_items(payload))), out);
            }
            _ if roster::sets_roster(stanza)
                || vcard::sets_vcard(stanza)
                || archive::asks_for_archive(stanza) =>
            {
                self.refuse(stanza, &Condition::Forbidden.into(), out);
            }
            _ => self.refuse_without_account(stanza, out),
        }
    }

    /// Answers as for an address without an account (RFC 6121 §8.5.1), so that the sender cannot tell the two apart.
    pub(super) fn refuse_without_account(&mut self, stanza: &Element, out: &mut Outbox) {
        self.refuse(stanza, &Condition::ServiceUnavailable.into(), out);
    }
}
