//! The features that a stream offers at each of its stages.

use super::{C2s, Framing};
use crate::sasl::{self, Mechanism, TokenBinding};
use crate::{Element, ns};

pub(super) fn of(stream: &C2s) -> Element {
    let features = Element::new("features", ns::STREAM);
    if stream.jid.is_some() { after(stream, features) } else { before(stream, features) }
}

/// Nothing can be chosen any more; the server's features are listed.
pub(super) fn of_session(stream: &C2s) -> Element {
    informative(stream, Element::new("features", ns::STREAM))
}

/// Those that may be chosen now.
pub(super) fn mechanisms(stream: &C2s) -> Vec<Mechanism> {
    let (settings, security) = (&stream.settings, &stream.entry().security);
    if settings.tls_required && !security.encrypted {
        return Vec::new();
    }
    let is_offered = |mechanism: &Mechanism| match mechanism {
        Mechanism::Scram { plus, .. } => !plus || !security.bindings.is_empty(),
        // Without TLS it could be read on the way.
        Mechanism::Plain => security.encrypted,
        Mechanism::External => security.certified.as_ref().is_some_and(|jid| *jid.domain() == *stream.domain),
        Mechanism::Anonymous => settings.anonymous,
        Mechanism::HashedToken(_) => false,
    };
    sasl::ALL.into_iter().filter(is_offered).collect()
}

/// The bindings of tokens on this connection. Without TLS an eavesdropper could use them (XEP-0484 §6).
pub(super) fn tokens(stream: &C2s) -> impl Iterator<Item = TokenBinding> + '_ {
    let is_on = stream.settings.tokens && stream.entry().security.encrypted;
    let bindings = is_on.then_some(TokenBinding::ALL).into_iter().flatten();
    bindings.filter(|binding| binding.data(&stream.entry().security.bindings).is_some())
}

fn before(stream: &C2s, mut features: Element) -> Element {
    let settings = &stream.settings;
    if settings.tls && !stream.entry().security.encrypted && stream.framing == Framing::Stream {
        let starttls = Element::new("starttls", ns::TLS);
        let required = settings.tls_required.then(|| Element::new("required", ns::TLS));
        features.push(starttls.children(required));
    }
    let mechanisms = mechanisms(stream);
    if !mechanisms.is_empty() {
        let named = |ns: &'static str| {
            mechanisms.iter().map(move |mechanism| Element::new("mechanism", ns).text(mechanism.name()))
        };
        features.push(Element::new("mechanisms", ns::SASL).children(named(ns::SASL)));
        features.push(
            Element::new("authentication", ns::SASL2)
                .children(named(ns::SASL2))
                .child(super::sasl2::inline(stream)),
        );
        if !stream.entry().security.bindings.is_empty() {
            let bindings = stream.entry().security.bindings.names();
            let bindings =
                bindings.map(|name| Element::new("channel-binding", ns::CHANNEL_BINDINGS).with("type", name));
            features.push(Element::new("sasl-channel-binding", ns::CHANNEL_BINDINGS).children(bindings));
        }
        features = features.children(super::register::features(stream));
    }
    features.push(limits(stream));
    features
}

fn after(stream: &C2s, mut features: Element) -> Element {
    features.push(Element::new("bind", ns::BIND));
    features.push(Element::new("session", ns::SESSION).child(Element::new("optional", ns::SESSION)));
    features.push(Element::new("sm", ns::SM));
    features.push(Element::new("csi", ns::CSI));
    informative(stream, features)
}

/// Features that are not negotiated: RFC 6121 §2.6.1 and §3.4.1, XEP-0478, XEP-0115 §6.3.
fn informative(stream: &C2s, mut features: Element) -> Element {
    features.push(Element::new("ver", ns::ROSTER_VERSIONS));
    features.push(Element::new("sub", ns::PRE_APPROVAL));
    features.push(limits(stream));
    features.children(stream.settings.caps.clone())
}

/// XEP-0478.
fn limits(stream: &C2s) -> Element {
    let number = |name: &'static str, value: String| Element::new(name, ns::STREAM_LIMITS).text(value);
    Element::new("limits", ns::STREAM_LIMITS)
        .child(number("max-bytes", stream.settings.max_stanza.to_string()))
        .child(number("idle-seconds", stream.settings.idle_seconds.to_string()))
}
