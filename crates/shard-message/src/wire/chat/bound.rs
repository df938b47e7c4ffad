//! The answer to a client's request for a session, and errors of stanzas.

use cluster::fields::{put_bytes, put_number};
use xmpp::c2s::Bound;
use xmpp::stanza::StanzaError;

use super::super::values::place_of;
use super::{
    ADDRESS, CONDITION, CONDITIONS, ERROR_KIND, ERROR_KINDS, NAME, NOT_RESUMED, OUTCOME, REFUSED, RESUMED,
    SEE_OTHER_HOST, SESSION, TEXT, put_element, put_optional,
};

/// The outcome, and its own fields. A new outcome that an older node reads is a refusal there: see
/// [`ChatFields::bound`](super::ChatFields::bound).
pub(super) fn put(out: &mut Vec<u8>, bound: &Bound) {
    match bound {
        Bound::Session { jid, inline } => {
            put_number(out, OUTCOME, SESSION);
            put_bytes(out, ADDRESS, jid.as_str().as_bytes());
            inline.iter().for_each(|answer| put_element(out, answer));
        }
        Bound::Resumed { jid, resumed } => {
            put_number(out, OUTCOME, RESUMED);
            put_bytes(out, ADDRESS, jid.as_str().as_bytes());
            put_element(out, resumed);
        }
        Bound::NotResumed { failed } => {
            put_number(out, OUTCOME, NOT_RESUMED);
            put_element(out, failed);
        }
        Bound::Refused(error) => {
            put_number(out, OUTCOME, REFUSED);
            put_error(out, error);
        }
        Bound::SeeOtherHost(host) => {
            put_number(out, OUTCOME, SEE_OTHER_HOST);
            put_bytes(out, NAME, host.as_bytes());
        }
    }
}

/// A condition always, and the type where it is not the condition's own.
fn put_error(out: &mut Vec<u8>, error: &StanzaError) {
    let StanzaError { condition, kind, text, detail } = error;
    put_number(out, CONDITION, place_of(&CONDITIONS, condition));
    if let Some(kind) = kind {
        put_number(out, ERROR_KIND, place_of(&ERROR_KINDS, kind));
    }
    put_optional(out, TEXT, text.as_deref());
    if let Some(detail) = detail {
        put_element(out, detail);
    }
}
