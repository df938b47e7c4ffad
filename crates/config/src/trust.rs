//! `[sip] trusted`: systems whose word on identities, Path and Contact is taken. And what TLS peers are asked for.
//!
//! A network proves itself by its address, a name by a certificate of TLS. Routes have the same for their targets.
//!
//! [`Trust`] goes to the endpoint as a whole: `sip/src/endpoint/environment/trust.rs` decides by it what of a
//! request is kept, and what is removed.

use net::{ClientCertificates, Network};
use sip::endpoint::Trust;
use toml::de::DeValue;

use super::reader::Section;
use super::value::Value;

/// One entry of `trusted`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Trusted {
    /// All addresses of it, over any transport.
    Network(Network),
    /// In lower case.
    TlsName(Box<str>),
}

impl Value for Trusted {
    const EXPECTED: &'static str = "an address, as \"192.0.2.7\", a network, as \"10.0.0.0/8\", or tls: and the name of a certificate, as \"tls:sip.example.net\"";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        let text = value.as_str()?;
        let Some(name) = text.strip_prefix("tls:") else { return text.parse().ok().map(Trusted::Network) };
        // No wildcard: `tls:*.example.net` would trust each customer that has a certificate below the domain.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
        let is_name = !name.is_empty() && name.chars().all(is_plain);
        // Names of certificates are compared without regard to case (RFC 5922 §7.2).
        is_name.then(|| Trusted::TlsName(name.to_ascii_lowercase().into()))
    }

    fn show(&self) -> String {
        match self {
            Trusted::Network(network) => format!("{:?}", network.to_string()),
            Trusted::TlsName(name) => format!("{:?}", format!("tls:{name}")),
        }
    }
}

impl Value for ClientCertificates {
    const EXPECTED: &'static str = "\"optional\", \"verified\" or \"off\"";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        match value.as_str()? {
            "optional" => Some(ClientCertificates::Optional),
            "verified" => Some(ClientCertificates::Verified),
            "off" => Some(ClientCertificates::Off),
            _ => None,
        }
    }

    fn show(&self) -> String {
        let text = match self {
            ClientCertificates::Optional => "optional",
            ClientCertificates::Verified => "verified",
            ClientCertificates::Off => "off",
        };
        format!("{text:?}")
    }
}

/// `trusted`, and `contacts`, which belongs to the same struct of the endpoint.
pub(super) fn read(section: &mut Section<'_, '_>) -> Trust {
    let entries = section.list(
        "trusted",
        Vec::new(),
        "Carriers and proxies of the trust domain (RFC 3325): their P-Asserted-Identity, Diversion and the like are kept, ours are told them, and what they register (Path, Contact) is taken as it is. From all others such headers are removed. An address counts over UDP, too, where it can be forged: name only what your network protects. A route can be trusted by itself: `belfry route add --trusted`.",
    );
    let mut trust = Trust {
        contacts: section.list(
            "contacts",
            Vec::new(),
            "Networks in which a phone may be registered by another host. Elsewhere a Contact counts only where its REGISTER came from; a Contact that says otherwise is called by the way the REGISTER came.",
        ),
        ..Trust::default()
    };
    for entry in entries {
        match entry {
            Trusted::Network(network) => trust.networks.push(network),
            Trusted::TlsName(name) => trust.names.push(name),
        }
    }
    trust
}
