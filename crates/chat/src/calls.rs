//! The calls of an account that have ended, for its own clients: a query of our own, `urn:belfry:calls:0`, in pages (XEP-0059).
//!
//! A session asks its own account, so a client needs no credential besides that of its stream, and the calls of other accounts cannot be named. The records
//! are those of calls by SIP, of all phones of the account (`Load::Calls`). `docs/webphone.md` has the form of the query and of its answer.

use stdx::Instant;
use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Element, ns};

use super::Outbox;
use super::change_queue;
use super::effect::{CallHistoryPage, CallHistoryQuery, Load, PastCall, StoreFailure, StoreReply};
use super::feature::{Feature, IqHandler, IqReply, IqRequest, IqTarget, IqView};
use super::iq_effect::IqEffect;
use super::store_requests::StoreRequests;
use crate::{limits, outgoing};

pub(super) const FEATURE: Feature = Feature {
    specifications: &[],
    account: &[ns::CALLS],
    server: &[],
    handles: &[IqHandler { at: IqTarget::Own, name: "calls", ns: ns::CALLS, run: handle }],
};

/// A fault of the query, with a text for its author.
fn bad(text: &str) -> StanzaError {
    StanzaError::new(Condition::BadRequest, text)
}

fn handle(_: &mut IqView<'_>, iq: &IqRequest<'_>) -> IqReply {
    // Records are the operator's: a user reads them, and changes none.
    if iq.is_set {
        return IqReply::Error(bad("calls are read by `get`"));
    }
    match read_page(iq.payload, limits::CALLS_PAGE, limits::CALLS_PAGE_MAX) {
        Ok(query) => IqReply::Perform(IqEffect::ReadCalls(query)),
        Err(error) => IqReply::Error(error),
    }
}

/// The page that the client asks for (XEP-0059 §2.1 and §2.2), of so many rows unless it says how many, and at most.
pub(super) fn read_page(payload: &Element, usual: u32, most: u32) -> Result<CallHistoryQuery, StanzaError> {
    let mut query = CallHistoryQuery { until: None, max: usual };
    let Some(set) = payload.get("set", ns::RSM) else { return Ok(query) };
    if set.get("index", ns::RSM).is_some() || set.get("before", ns::RSM).is_some() {
        let text = "pages are read from the newest on, by `after`";
        return Err(StanzaError::new(Condition::FeatureNotImplemented, text));
    }
    if let Some(max) = set.content_of("max", ns::RSM) {
        let max: u32 = max.trim().parse().map_err(|_| bad("max is a number"))?;
        query.max = Some(max).filter(|max| *max > 0).ok_or_else(|| bad("max is at least 1"))?;
        query.max = query.max.min(most);
    }
    if let Some(after) = set.content_of("after", ns::RSM).filter(|after| !after.is_empty()) {
        // XEP-0059 §2.2: the page behind what is not there is an error.
        let micros = after.parse().map_err(|_| StanzaError::from(Condition::ItemNotFound))?;
        query.until = Some(Instant::from_micros(micros));
    }
    Ok(query)
}

/// Reads a page of the sender's calls, and answers.
pub(super) fn read(store: &mut StoreRequests, iq: &IqRequest<'_>, query: CallHistoryQuery, out: &mut Outbox) {
    // The handler is found for the sender's own account only.
    let user = iq.to.bare();
    let iq = iq.iq.clone();
    store.load(Load::Calls { user, query }, out, move |_, _, result, out| match result {
        Ok(StoreReply::Calls(page)) => outgoing::answer(&iq, Ok(Some(answer_of(page))), out),
        Ok(_) => outgoing::refuse(&iq, &change_queue::not_written(StoreFailure::Unavailable), out),
        Err(error) => outgoing::refuse(&iq, &change_queue::not_written(error), out),
    });
}

/// The answer: the newest call first, and the place of the next page, if there is one.
fn answer_of(CallHistoryPage { mut calls, mut next, is_partial }: CallHistoryPage) -> Element {
    // An answer that is too large for its client would be refused each time it asks: the page ends before.
    let mut bytes = 0;
    let fitting = calls.iter().take_while(|call| {
        bytes += bytes_of(call);
        bytes <= limits::CALLS_PAGE_BYTES
    });
    let fitting = fitting.count().max(1);
    if let Some(first_left_out) = calls.get(fitting) {
        next = Some(first_left_out.ended_at);
        calls.truncate(fitting);
    }
    let last = next.map(|next| Element::new("last", ns::RSM).text(next.as_micros().to_string()));
    let set = last.map(|last| Element::new("set", ns::RSM).child(last));
    Element::new("calls", ns::CALLS)
        .with_opt("partial", is_partial.then_some("true"))
        .children(calls.iter().map(element_of))
        .children(set)
}

/// Bytes of a call in XML, at most: a character of its texts is six as an entity, and the rest is as long for all calls.
fn bytes_of(call: &PastCall) -> usize {
    6 * (call.id.len() + call.with.len()) + 200
}

fn element_of(call: &PastCall) -> Element {
    let seconds = call.answered_at.map(|answered| call.ended_at.since(answered).as_secs().to_string());
    Element::new("call", ns::CALLS)
        .with("id", call.id.clone())
        .with("direction", if call.is_incoming { "incoming" } else { "outgoing" })
        .with("with", call.with.clone())
        .with("start", xmpp::time::stamp(call.started_at))
        .with_opt("seconds", seconds)
        .with("outcome", outcome_of(call))
        .with("code", call.code.to_string())
}

/// The end of a call in one word, by the final status of the INVITE (RFC 3261 §21).
fn outcome_of(call: &PastCall) -> &'static str {
    match call.code {
        _ if call.answered_at.is_some() => "answered",
        486 | 600 => "busy",
        603 => "declined",
        // No phone answered: none in time (408), none was registered (480), the caller gave up before (487); 0: the call was lost.
        0 | 408 | 480 | 487 if call.is_incoming => "missed",
        487 => "cancelled",
        0 | 408 | 480 => "no-answer",
        404 | 410 | 484 | 604 => "unknown",
        _ => "failed",
    }
}
