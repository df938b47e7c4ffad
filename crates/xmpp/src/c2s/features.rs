//! The features that a stream offers at each of its stages.

use super::sign_in::SignIn;
use super::writer::StreamWriter;
use super::{ExternalCredential, Framing};
use crate::sasl::{self, Hash, Mechanism, TokenBinding};
use crate::{Element, ns};

/// Nothing can be chosen any more; the server's features are listed.
pub(super) fn of_session(writer: &StreamWriter) -> Element {
    informative(writer, Element::new("features", ns::STREAM))
}

/// Those that may be chosen now.
pub(super) fn mechanisms(writer: &StreamWriter, sign_in: &SignIn) -> Vec<Mechanism> {
    let (settings, security) = (&writer.settings, &sign_in.security);
    if settings.tls_required && !security.encrypted {
        return Vec::new();
    }
    let external = external(writer);
    let is_offered = |mechanism: &Mechanism| match mechanism {
        // Clients take the strongest mechanism: offered without keys, it would fail for all of them.
        Mechanism::Scram { hash, plus } => {
            let has_keys = match external {
                None => true,
                Some(ExternalCredential::PasswordOrKeys) => *hash == Hash::Sha256,
                Some(ExternalCredential::Password | ExternalCredential::Token) => false,
            };
            has_keys && (!plus || !security.bindings.is_empty())
        }
        // Without TLS it could be read on the way.
        Mechanism::Plain => security.encrypted && external != Some(ExternalCredential::Token),
        // RFC 7628 §2: over TLS only.
        Mechanism::OAuthBearer => security.encrypted && external == Some(ExternalCredential::Token),
        Mechanism::External => security.certified.as_ref().is_some_and(|jid| jid.domain() == writer.domain()),
        Mechanism::Anonymous => settings.anonymous,
        Mechanism::HashedToken(_) => false,
    };
    sasl::ALL.into_iter().filter(is_offered).collect()
}

/// XEP-0388 §3: only after the negotiation of TLS. Over HTTP nothing is negotiated: a proxy before this server may have TLS.
pub(super) fn sasl2_mechanisms(writer: &StreamWriter, sign_in: &SignIn) -> Vec<Mechanism> {
    let is_secured = sign_in.security.encrypted || writer.framing != Framing::Stream;
    if is_secured { mechanisms(writer, sign_in) } else { Vec::new() }
}

/// The credential that the source of the stream's domain takes. `None`: the database knows them.
pub(super) fn external(writer: &StreamWriter) -> Option<ExternalCredential> {
    writer.settings.external.get(writer.domain()).copied()
}

/// The bindings of tokens on this connection. Without TLS an eavesdropper could use them (XEP-0484 §6).
pub(super) fn tokens<'a>(
    writer: &StreamWriter,
    sign_in: &'a SignIn,
) -> impl Iterator<Item = TokenBinding> + use<'a> {
    // A token would outlive the account in the service that knows the user.
    let is_on = writer.settings.tokens && sign_in.security.encrypted && external(writer).is_none();
    let bindings = is_on.then_some(TokenBinding::ALL).into_iter().flatten();
    bindings.filter(|binding| binding.data(&sign_in.security.bindings).is_some())
}

/// Those of a stream whose client has not signed in.
pub(super) fn before(writer: &StreamWriter, sign_in: &SignIn) -> Element {
    let mut features = Element::new("features", ns::STREAM);
    let settings = &writer.settings;
    if settings.tls && !sign_in.security.encrypted && writer.framing == Framing::Stream {
        let starttls = Element::new("starttls", ns::TLS);
        let required = settings.tls_required.then(|| Element::new("required", ns::TLS));
        features.push(starttls.children(required));
    }
    let mechanisms = mechanisms(writer, sign_in);
    if !mechanisms.is_empty() {
        let named = |ns: &'static str| {
            mechanisms.iter().map(move |mechanism| Element::new("mechanism", ns).text(mechanism.name()))
        };
        features.push(Element::new("mechanisms", ns::SASL).children(named(ns::SASL)));
        if !sasl2_mechanisms(writer, sign_in).is_empty() {
            let authentication = Element::new("authentication", ns::SASL2).children(named(ns::SASL2));
            features.push(authentication.child(super::sign_in::inline(writer, sign_in)));
        }
        if !sign_in.security.bindings.is_empty() {
            let bindings = sign_in.security.bindings.names();
            let bindings =
                bindings.map(|name| Element::new("channel-binding", ns::CHANNEL_BINDINGS).with("type", name));
            features.push(Element::new("sasl-channel-binding", ns::CHANNEL_BINDINGS).children(bindings));
        }
        features = features.children(super::register::features(writer));
    }
    features.push(limits(writer));
    features
}

/// Those of a stream whose client has signed in and may bind a resource.
pub(super) fn after(writer: &StreamWriter) -> Element {
    let mut features = Element::new("features", ns::STREAM);
    features.push(Element::new("bind", ns::BIND));
    features.push(Element::new("session", ns::SESSION).child(Element::new("optional", ns::SESSION)));
    features.push(Element::new("sm", ns::SM));
    features.push(Element::new("csi", ns::CSI));
    informative(writer, features)
}

/// Features that are not negotiated: RFC 6121 §2.6.1 and §3.4.1, XEP-0478, XEP-0115 §6.3.
fn informative(writer: &StreamWriter, mut features: Element) -> Element {
    features.push(Element::new("ver", ns::ROSTER_VERSIONS));
    features.push(Element::new("sub", ns::PRE_APPROVAL));
    features.push(limits(writer));
    features.children(writer.settings.caps.clone())
}

/// XEP-0478.
fn limits(writer: &StreamWriter) -> Element {
    let number = |name: &'static str, value: String| Element::new(name, ns::STREAM_LIMITS).text(value);
    Element::new("limits", ns::STREAM_LIMITS)
        .child(number("max-bytes", writer.settings.max_stanza.to_string()))
        .child(number("idle-seconds", writer.settings.idle_seconds.to_string()))
}
