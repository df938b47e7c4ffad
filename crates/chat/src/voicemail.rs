//! The voicemail of an account, for its own clients: queries of our own, `urn:belfry:voicemail:0`.
//!
//! A session asks its own account, so no request names one. Messages are recordings that an application has put into the account's mailbox
//! (`mailbox` of `<Record>`); the node finds rows and sound, wherever in the farm they are (`Load::Voicemail`). Sound comes in pieces of
//! base64, each by a request of the client, as blocks of XEP-0047 do. `docs/webphone.md` has the forms.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use stdx::Instant;
use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Bare, Element, ns};

use super::Outbox;
use super::change_queue;
use super::effect::{
    Load, StoreFailure, StoreReply, Voicemail, VoicemailPage, VoicemailReply, VoicemailRequest,
};
use super::feature::{Feature, IqHandler, IqReply, IqRequest, IqTarget, IqView};
use super::iq_effect::IqEffect;
use super::store_requests::StoreRequests;
use crate::{limits, outgoing};

pub(super) const FEATURE: Feature = Feature {
    specifications: &[],
    account: &[ns::VOICEMAIL],
    server: &[],
    handles: &[
        IqHandler { at: IqTarget::Own, name: "voicemail", ns: ns::VOICEMAIL, run: handle_list },
        IqHandler { at: IqTarget::Own, name: "sound", ns: ns::VOICEMAIL, run: handle_sound },
        IqHandler { at: IqTarget::Own, name: "heard", ns: ns::VOICEMAIL, run: handle_heard },
        IqHandler { at: IqTarget::Own, name: "delete", ns: ns::VOICEMAIL, run: handle_delete },
    ],
};

fn bad(text: &str) -> StanzaError {
    StanzaError::new(Condition::BadRequest, text)
}

/// Performs a request, if the iq has the type that it needs.
fn perform(iq: &IqRequest<'_>, is_set: bool, request: Result<VoicemailRequest, StanzaError>) -> IqReply {
    if iq.is_set != is_set {
        return IqReply::Error(bad("voicemail is read by `get` and changed by `set`"));
    }
    match request {
        Ok(request) => IqReply::Perform(IqEffect::Voicemail(request)),
        Err(error) => IqReply::Error(error),
    }
}

fn handle_list(_: &mut IqView<'_>, iq: &IqRequest<'_>) -> IqReply {
    let page = super::calls::read_page(iq.payload, limits::VOICEMAIL_PAGE, limits::VOICEMAIL_PAGE_MAX);
    perform(iq, false, page.map(|page| VoicemailRequest::List { until: page.until, max: page.max }))
}

fn handle_sound(_: &mut IqView<'_>, iq: &IqRequest<'_>) -> IqReply {
    let offset = match iq.payload.attr("offset").map(str::parse) {
        None => Ok(0),
        Some(offset) => offset.map_err(|_| bad("offset is a number of bytes")),
    };
    let request = id_of(iq.payload).and_then(|id| Ok(VoicemailRequest::Sound { id, offset: offset? }));
    perform(iq, false, request)
}

fn handle_heard(_: &mut IqView<'_>, iq: &IqRequest<'_>) -> IqReply {
    perform(iq, true, id_of(iq.payload).map(|id| VoicemailRequest::Heard { id }))
}

fn handle_delete(_: &mut IqView<'_>, iq: &IqRequest<'_>) -> IqReply {
    perform(iq, true, id_of(iq.payload).map(|id| VoicemailRequest::Delete { id }))
}

/// The message that a request is about.
fn id_of(payload: &Element) -> Result<Box<str>, StanzaError> {
    match payload.attr("id") {
        None | Some("") => Err(bad("id: the message")),
        Some(id) if id.len() > limits::VOICEMAIL_ID => Err(Condition::ItemNotFound.into()),
        Some(id) => Ok(id.into()),
    }
}

/// Performs a request about the sender's voicemail, and answers.
pub(super) fn ask(
    store: &mut StoreRequests,
    iq: &IqRequest<'_>,
    request: VoicemailRequest,
    out: &mut Outbox,
) {
    // The handler is found for the sender's own account only.
    let user = iq.to.bare();
    let (iq, asked) = (iq.iq.clone(), request.clone());
    store.load(Load::Voicemail { user, request }, out, move |_, _, result, out| match result {
        Ok(StoreReply::Voicemail(VoicemailReply::NotFound)) => {
            outgoing::refuse(&iq, &Condition::ItemNotFound.into(), out);
        }
        Ok(StoreReply::Voicemail(reply)) => outgoing::answer(&iq, Ok(answer_of(&asked, reply)), out),
        Ok(_) => outgoing::refuse(&iq, &change_queue::not_written(StoreFailure::Unavailable), out),
        Err(error) => outgoing::refuse(&iq, &change_queue::not_written(error), out),
    });
}

fn answer_of(asked: &VoicemailRequest, reply: VoicemailReply) -> Option<Element> {
    match (asked, reply) {
        (_, VoicemailReply::Page(page)) => Some(list_of(page)),
        (VoicemailRequest::Sound { id, offset }, VoicemailReply::Sound(sound)) => Some(
            Element::new("sound", ns::VOICEMAIL)
                .with("id", id.clone())
                .with("offset", offset.to_string())
                .with("size", sound.size.to_string())
                .with("type", "audio/wav")
                .text(BASE64_STANDARD.encode(&sound.bytes)),
        ),
        _ => None,
    }
}

/// The newest message first, and the place of the next page, if there is one.
fn list_of(VoicemailPage { mut messages, mut next, unheard }: VoicemailPage) -> Element {
    // As with calls: an answer that is too large for its client would be refused each time it asks.
    let mut bytes = 0;
    let fitting = messages.iter().take_while(|message| {
        // A character of a text is six as an entity, and the rest is as long for all messages.
        bytes += 6 * (message.id.len() + message.from.len()) + 150;
        bytes <= limits::CALLS_PAGE_BYTES
    });
    let fitting = fitting.count().max(1);
    if let Some(first_left_out) = messages.get(fitting) {
        next = Some(first_left_out.at);
        messages.truncate(fitting);
    }
    let last = next.map(|next| Element::new("last", ns::RSM).text(next.as_micros().to_string()));
    let set = last.map(|last| Element::new("set", ns::RSM).child(last));
    Element::new("voicemail", ns::VOICEMAIL)
        .with("unheard", unheard.to_string())
        .children(messages.iter().map(element_of))
        .children(set)
}

fn element_of(message: &Voicemail) -> Element {
    Element::new("message", ns::VOICEMAIL)
        .with("id", message.id.clone())
        .with("from", message.from.clone())
        .with("time", xmpp::time::stamp(message.at))
        .with("seconds", message.seconds.to_string())
        .with("heard", if message.is_heard { "true" } else { "false" })
}

/// The notice to an account's clients that a message has come: a headline, which is not kept for clients that are away, as they ask anyway.
pub fn notice(account: &Bare, id: &str, from: &str, at: Instant) -> Element {
    let message = Element::new("message", ns::VOICEMAIL)
        .with("id", id)
        .with("from", from)
        .with("time", xmpp::time::stamp(at));
    Element::new("message", ns::CLIENT)
        .with("type", "headline")
        .with("from", account.as_str())
        .with("to", account.as_str())
        .child(Element::new("voicemail", ns::VOICEMAIL).child(message))
}
