//! The service of a domain that joins clients which cannot reach each other (XEP-0065 §6): `proxy.example.org`.
//!
//! A client asks for the address of the proxy, and activates a transfer when both ends are connected there. The connections belong to the driver
//! (`bytestreams::Proxy`): an activation is `Load::Activate`. In a farm the owner of the service's address answers both
//! requests with its own node's proxy.

use ::bytestreams::{ActivationFault, StreamHash};
use xmpp::stanza::{self, Condition, StanzaError, StanzaKind};
use xmpp::{Element, Jid, Level, Specification, ns};

use super::disco::{feature, identity};
use super::effect::{BytestreamActivation, Load, StoreReply};
use super::feature::Feature;
use super::store_requests::StoreRequests;
use super::{HostSettings, Outbox};
use crate::{limits, outgoing};

pub(super) const FEATURE: Feature = Feature {
    specifications: &[Specification {
        name: "XEP-0065",
        title: "SOCKS5 Bytestreams",
        version: "1.8.2",
        level: Level::Complete,
        file: "crates/chat/src/bytestreams.rs",
        note: "the proxy, at an address of its own; for accounts of the served domains. UDP is not offered",
    }],
    account: &[],
    server: &[],
    handles: &[],
};

/// The proxy that clients are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BytestreamSettings {
    /// The label of the service below each domain: `proxy`.
    pub label: Box<str>,
    /// The name or IP address at which clients connect.
    pub host: Box<str>,
    /// The port of TCP at which clients connect.
    pub port: u16,
}

/// Handles a stanza for the service.
///
/// # Errors
/// The error with which the stanza is refused.
pub(super) fn handle_stanza(
    (settings, store): (&HostSettings, &mut StoreRequests),
    element: &Element,
    (from, to): (&Jid, &Jid),
    out: &mut Outbox,
) -> Result<(), StanzaError> {
    let Some(proxy) = &settings.bytestreams else { return Ok(()) };
    match stanza::kind_of(element) {
        // It answers what it is asked, and asks nothing.
        Some(StanzaKind::Iq) if !matches!(element.attr("type"), Some("get" | "set")) => Ok(()),
        Some(StanzaKind::Iq) if to.is_bare() && to.local().is_none() => {
            match answer(settings, proxy, element, (from, to))? {
                Reply::Result(payload) => outgoing::answer(element, Ok(Some(payload)), out),
                Reply::Activate(activation) => activate(store, element, activation, out),
            }
            Ok(())
        }
        Some(StanzaKind::Presence) | None => Ok(()),
        Some(_) => Err(Condition::ServiceUnavailable.into()),
    }
}

/// The reply to a request.
enum Reply {
    Result(Element),
    /// It follows from the activation.
    Activate(BytestreamActivation),
}

fn answer(
    settings: &HostSettings,
    proxy: &BytestreamSettings,
    iq: &Element,
    (from, to): (&Jid, &Jid),
) -> Result<Reply, StanzaError> {
    // RFC 6120 §8.2.3: an iq has an id, and a question one child.
    let (Some(payload), 1, Some(_)) = (iq.first(), iq.elements().count(), iq.attr("id")) else {
        return Err(Condition::BadRequest.into());
    };
    let is_set = iq.attr("type") == Some("set");
    if payload.is("query", ns::DISCO_INFO) || payload.is("query", ns::DISCO_ITEMS) {
        return match (is_set, payload.attr("node")) {
            (true, _) => Err(Condition::BadRequest.into()),
            (false, Some(_)) => Err(Condition::ItemNotFound.into()),
            (false, None) => Ok(Reply::Result(describe(payload))),
        };
    }
    if !payload.is("query", ns::BYTESTREAMS) {
        return Err(Condition::ServiceUnavailable.into());
    }
    // A relay costs bandwidth, so only accounts of this server may use it. The other end of a transfer may be of any server (§6.2: `forbidden`).
    if from.local().is_none() || !settings.is_local(from.domain()) {
        return Err(Condition::Forbidden.into());
    }
    if is_set {
        return activation_of(payload, from).map(Reply::Activate);
    }
    // §6.2: the address, with the service's own JID.
    let streamhost = Element::new("streamhost", ns::BYTESTREAMS)
        .with("jid", to.as_str())
        .with("host", proxy.host.clone())
        .with("port", proxy.port.to_string());
    let query = Element::new("query", ns::BYTESTREAMS).with_opt("sid", payload.attr("sid"));
    Ok(Reply::Result(query.child(streamhost)))
}

/// Service discovery (§6.1).
fn describe(query: &Element) -> Element {
    if query.is("query", ns::DISCO_ITEMS) {
        return Element::new("query", ns::DISCO_ITEMS);
    }
    let features = [ns::DISCO_INFO, ns::DISCO_ITEMS, ns::BYTESTREAMS];
    Element::new("query", ns::DISCO_INFO)
        .child(identity("proxy", "bytestreams").with("name", "File transfer"))
        .children(features.map(feature))
}

/// §6.3.5: the requester names the stream and the target. Its own address is that of the stanza, which no other entity can claim.
fn activation_of(query: &Element, from: &Jid) -> Result<BytestreamActivation, StanzaError> {
    let bad = |text| StanzaError::new(Condition::BadRequest, text);
    let sid = query.attr("sid").filter(|sid| !sid.is_empty() && sid.len() <= limits::SID);
    let sid = sid.ok_or_else(|| bad("`sid` is missing or too long"))?;
    let activate =
        query.get("activate", ns::BYTESTREAMS).ok_or_else(|| bad("there is nothing to activate"))?;
    let target = Jid::parse(activate.content().trim()).map_err(|_| bad("the target is no address"))?;
    Ok(BytestreamActivation {
        hash: StreamHash::of(sid, from.as_str(), target.as_str()),
        requester: from.clone(),
        target,
    })
}

fn activate(store: &mut StoreRequests, iq: &Element, activation: BytestreamActivation, out: &mut Outbox) {
    let iq = iq.clone();
    let load = Load::Activate(Box::new(activation));
    store.load(load, out, move |_, _, result, out| match result {
        Ok(StoreReply::Activated(Ok(()))) => outgoing::answer(&iq, Ok(None), out),
        Ok(StoreReply::Activated(Err(fault))) => outgoing::refuse(&iq, &error_of(fault), out),
        _ => outgoing::refuse(&iq, &Condition::InternalServerError.into(), out),
    });
}

/// §6.3.5 has these conditions.
fn error_of(fault: ActivationFault) -> StanzaError {
    match fault {
        ActivationFault::Unknown => {
            StanzaError::new(Condition::ItemNotFound, "no end of that stream is connected to the proxy")
        }
        ActivationFault::OneEnd => {
            StanzaError::new(Condition::NotAllowed, "only one end of that stream is connected to the proxy")
        }
        ActivationFault::TooMany => {
            StanzaError::new(Condition::ResourceConstraint, "too many streams are active: try again later")
        }
    }
}
