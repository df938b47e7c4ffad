//! Probes of the targets of routes: an OPTIONS each (RFC 3261 §11), outside of any dialog.
//!
//! The node decides which targets are probed and makes of the outcomes what it will. Here a probe is built,
//! sent and reported with its final status, with nothing kept in between.

use super::EndpointEffect;
use super::context::TransactionUser;
use super::environment::forwarded_copy::next_hop_in;
use super::lower::{LowerView, UnresolvedMessage};
use crate::resolve::Hop;
use crate::token;
use crate::wire::{Message, RequestBuilder};

/// Sends an OPTIONS to a route's target; [`EndpointEffect::ProbeOutcome`] tells what became of it.
pub(super) fn probe(lower: &mut LowerView<'_>, id: u64, target: &str) {
    let next = next_hop_in(target).ok();
    let waiting = UnresolvedMessage::Probe { id, target: target.into() };
    if let Some((_, hop)) = lower.send_when_resolved(next.as_ref(), waiting) {
        send_probe(lower, id, target, hop);
    }
}

/// Sends it to the resolved hop. Without one, or without a listener for its transport, the outcome is 503.
pub(super) fn send_probe(lower: &mut LowerView<'_>, id: u64, target: &str, hop: Option<Hop>) {
    let sent = hop.and_then(|hop| try_probe(lower, id, target, hop));
    if sent.is_none() {
        lower.out.push(EndpointEffect::ProbeOutcome { id, status: 503 });
    }
}

/// Builds the request and begins its transaction. `None`: it cannot be sent.
fn try_probe(lower: &mut LowerView<'_>, id: u64, target: &str, hop: Hop) -> Option<()> {
    let listener = lower.env.listeners.listener_for(hop.transport, hop.addr, None)?;
    let us = String::from_utf8_lossy(&lower.env.listeners.texts[listener].uri).into_owned();
    // Call-ID and tag are made of the key, the probe and the time: unpredictable, and never twice the same.
    let unique =
        lower.env.keys.branch.mac(&[b"probe", &id.to_be_bytes(), &lower.now.as_micros().to_be_bytes()]);
    let mut request = RequestBuilder::new(b"OPTIONS", target.as_bytes());
    request
        .header("Max-Forwards", b"70")
        .header("From", format!("<{us}>;tag={}", token::to_string(unique)).as_bytes())
        .header("To", format!("<{target}>").as_bytes())
        .header("Call-ID", token::to_string(unique.rotate_left(17)).as_bytes())
        .header("CSeq", b"1 OPTIONS")
        .header("User-Agent", crate::wire::PRODUCT.as_bytes());
    let message = Message::parse(request.finish()).ok()?;
    lower.send_own(&message, hop, None, TransactionUser::Probe(id))
}
