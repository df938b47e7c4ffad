//! Stanzas that a host makes itself: answers to requests (iqs of type `get` or `set`) and others. No machine is needed to send them: the
//! mark of an acknowledgement is only on messages (`Session::count`), so an answer ends nothing but its request. Stanzas of others go on by
//! `Host::route`, and end by `Host::refuse`.

use stdx::Instant;
use xmpp::stanza::{self, StanzaError, StanzaKind};
use xmpp::{Element, internal};

use super::{Effect, Host, Outbox};

/// Sends the answer to a request: its result, with or without a payload, or its error.
pub(super) fn answer(iq: &Element, result: Result<Option<Element>, StanzaError>, out: &mut Outbox) {
    match result {
        Ok(payload) => send(stanza::result(iq, payload), out),
        Err(error) => refuse(iq, &error, out),
    }
}

/// Sends the error of a request. Results and errors are not answered.
pub(super) fn refuse(iq: &Element, error: &StanzaError, out: &mut Outbox) {
    debug_assert_eq!(stanza::kind_of(iq), Some(StanzaKind::Iq), "a message ends its acknowledgement, too");
    if stanza::may_be_refused(iq) && iq.attr("from").is_some() {
        send(stanza::refusal(iq, error), out);
    }
}

/// The continuation of a write that a request has asked for: it answers the request.
pub(super) fn answer_written(
    iq: Element,
) -> impl FnOnce(&mut Host, Instant, Result<(), StanzaError>, &mut Outbox) + 'static {
    move |_, _, result, out| answer(&iq, result.map(|()| None), out)
}

/// Sends a stanza that was made here on its way.
pub(super) fn send(stanza: Element, out: &mut Outbox) {
    debug_assert!(
        stanza.attr_ns("mark", internal::NS).is_none(),
        "its acknowledgement is left to the router"
    );
    out.push(Effect::Route(Box::new(stanza)));
}
