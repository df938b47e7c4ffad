//! Clients that show a certificate: the authorities that may have signed it, and the names in it: XMPP addresses (RFC 6120
//! §13.7.1.4, XEP-0178) and domains of SIP (RFC 5922 §7.1).
//!
//! The extensions are read by the small reader of `der`: rustls has verified the chain, and offers none of the
//! names but DNS. Bytes are those of a stranger all the same, so nothing is trusted to be well-formed or short.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::crypto::aws_lc_rs;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use sip::wire::{Scheme, Uri};

use super::der::{DerValue, first_value};
use crate::limits;

/// The authorities whose client certificates are requested and trusted. Read once.
#[derive(Debug)]
pub struct ClientAuthorities {
    verifier: Arc<dyn ClientCertVerifier>,
    /// The latest configuration that `asking` made, after the one that it was made of.
    made: Mutex<Option<(Arc<ServerConfig>, Arc<ServerConfig>)>>,
}

impl ClientAuthorities {
    /// # Errors
    /// In words for the operator.
    pub fn load(file: &Path) -> Result<Arc<Self>, String> {
        let fault = |problem: &dyn std::fmt::Display| format!("{}: {problem}", file.display());
        let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let mut roots = RootCertStore::empty();
        // One authority that cannot be parsed is left out; others of the file still count.
        roots.add_parsable_certificates(read.map_err(|problem| fault(&problem))?);
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            // Most clients have none and prove themselves by a password.
            .allow_unauthenticated()
            .build()
            .map_err(|problem| fault(&problem))?;
        Ok(Arc::new(ClientAuthorities { verifier, made: Mutex::new(None) }))
    }

    /// The same, but asking for a certificate.
    pub fn asking(&self, config: &Arc<ServerConfig>) -> Arc<ServerConfig> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        // The same base by pointer: after a change of the certificate the base is a new one.
        if let Some((_, asking)) = made.as_ref().filter(|(of, _)| Arc::ptr_eq(of, config)) {
            return Arc::clone(asking);
        }
        let mut asking = ServerConfig::builder_with_provider(Arc::clone(config.crypto_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has suites for TLS 1.2 and 1.3")
            .with_client_cert_verifier(Arc::clone(&self.verifier))
            .with_cert_resolver(Arc::clone(&config.cert_resolver));
        asking.alpn_protocols.clone_from(&config.alpn_protocols);
        // Secrets for channel bindings.
        asking.key_log = Arc::clone(&config.key_log);
        // A session that is resumed shows no certificate, which may have ended meanwhile: all are new.
        asking.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        asking.send_tls13_tickets = 0;
        // Kept, as all connections share it: a configuration of TLS is costly to make, and the base changes
        // only with the certificate.
        let asking = Arc::new(asking);
        *made = Some((Arc::clone(config), Arc::clone(&asking)));
        asking
    }
}

/// The addresses that a certificate names as XMPP's: `id-on-xmppAddr` among the subject's alternative names. It was
/// verified before; what cannot be read is left out.
pub fn addresses(certificate: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let names = extensions(certificate).and_then(alternative_names);
    let mut rest = names.unwrap_or_default();
    while let Some(DerValue { tag, content: name, rest: after }) = first_value(rest) {
        if tag == OTHER_NAME {
            found.extend(address(name));
        }
        rest = after;
    }
    found
}

/// The domains that a certificate is for, in lower case: the SIP URIs without a user among the subject's alternative names,
/// and only where there is none of these the DNS names (RFC 5922 §7.1). The common name is not looked at, which §7.1 leaves
/// open, and wildcards match nothing (§7.2). It was verified before; what cannot be read is left out.
pub(crate) fn sip_identities(certificate: &[u8]) -> Vec<Box<str>> {
    let (mut of_uris, mut of_dns) = (Vec::new(), Vec::new());
    let mut rest = extensions(certificate).and_then(alternative_names).unwrap_or_default();
    while let Some(DerValue { tag, content: name, rest: after }) = first_value(rest) {
        match tag {
            URI => of_uris.extend(domain_of_uri(name)),
            DNS_NAME => of_dns.extend(std::str::from_utf8(name).ok().and_then(domain)),
            _ => {}
        }
        rest = after;
    }
    // RFC 5922 §7.1: with one SIP URI there, the DNS names must not be used.
    let mut names = if of_uris.is_empty() { of_dns } else { of_uris };
    names.truncate(limits::CERTIFICATE_NAMES);
    names
}

/// The DNS names of a certificate, in lower case. Unreadable names are left out.
pub(crate) fn dns_names(certificate: &[u8]) -> Vec<Box<str>> {
    let mut names = Vec::new();
    let mut rest = extensions(certificate).and_then(alternative_names).unwrap_or_default();
    while let Some(DerValue { tag, content: name, rest: after }) = first_value(rest) {
        if tag == DNS_NAME && names.len() < limits::CERTIFICATE_NAMES {
            names.extend(std::str::from_utf8(name).ok().and_then(domain));
        }
        rest = after;
    }
    names
}

fn domain_of_uri(uri: &[u8]) -> Option<Box<str>> {
    let uri = Uri::parse(uri).ok().filter(|uri| uri.scheme == Scheme::Sip && uri.user.is_none())?;
    domain(&uri.host_lower())
}

fn domain(name: &str) -> Option<Box<str>> {
    // Without `*`: a wildcard is no domain (RFC 5922 §7.2).
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
    let is_name = !name.is_empty() && name.len() <= 253 && name.chars().all(is_plain);
    is_name.then(|| name.to_ascii_lowercase().into())
}

/// Context-specific, of numbers 2 and 6: `dNSName` and `uniformResourceIdentifier` (RFC 5280 §4.2.1.6).
const DNS_NAME: u8 = 0x82;
const URI: u8 = 0x86;
/// Context-specific and constructed, of number 0: `otherName` (RFC 5280 §4.2.1.6), and what is explicit in it.
const OTHER_NAME: u8 = 0xa0;
/// The tag of field 3: a certificate's extensions (§4.1).
const EXTENSIONS: u8 = 0xa3;
const UTF8_STRING: u8 = 0x0c;
/// 2.5.29.17 and 1.3.6.1.5.5.7.8.5.
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];
const ON_XMPP_ADDR: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x08, 0x05];

fn extensions(certificate: &[u8]) -> Option<&[u8]> {
    let certificate = first_value(certificate)?.content;
    let mut fields = first_value(certificate)?.content;
    loop {
        // The fields before it are optional and of other tags; the search by the tag skips all of them.
        let field = first_value(fields)?;
        if field.tag == EXTENSIONS {
            return first_value(field.content).map(|list| list.content);
        }
        fields = field.rest;
    }
}

fn alternative_names(mut extensions: &[u8]) -> Option<&[u8]> {
    loop {
        let extension = first_value(extensions)?;
        let id = first_value(extension.content)?;
        if id.content == SUBJECT_ALT_NAME {
            // Before the value there may be whether it is critical.
            let first = first_value(id.rest)?;
            let octets = if first.tag == 0x01 { first_value(first.rest)?.content } else { first.content };
            return first_value(octets).map(|names| names.content);
        }
        extensions = extension.rest;
    }
}

fn address(name: &[u8]) -> Option<String> {
    let id = first_value(name)?;
    let value = first_value(id.rest).filter(|_| id.content == ON_XMPP_ADDR)?;
    let text = first_value(value.content)?;
    (text.tag == UTF8_STRING).then(|| std::str::from_utf8(text.content).ok().map(str::to_owned))?
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, SanType};

    use super::*;
    use crate::clock::Clock;
    use crate::tickets::TicketKeys;
    use crate::tls::{Tls, self_signed};

    #[test]
    fn channel_bindings_are_there_for_clients_that_are_asked_for_a_certificate() {
        let folder = tempfile::tempdir().unwrap();
        let files = self_signed(folder.path(), &["localhost"]).unwrap();
        let authorities = ClientAuthorities::load(&files.certificate).unwrap();
        let tls = Tls::load(files, TicketKeys::new([0; 32], Clock::new())).unwrap();
        let (config, _) = tls.xmpp();
        for config in [authorities.asking(&config), config] {
            assert!(config.key_log.will_log("EXPORTER_SECRET"));
        }
        assert!(!tls.server().key_log.will_log("EXPORTER_SECRET"), "no other listener exports keys");
    }

    fn certificate(names: Vec<SanType>) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["example.org".into()]).unwrap();
        params.subject_alt_names.extend(names);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    fn xmpp(address: &str) -> SanType {
        SanType::OtherName((vec![1, 3, 6, 1, 5, 5, 7, 8, 5], address.into()))
    }

    #[test]
    fn addresses_are_found_among_other_names() {
        assert_eq!(addresses(&certificate(Vec::new())), [""; 0]);
        let other = SanType::OtherName((vec![1, 3, 6, 1, 4, 1, 311, 20, 2, 3], "a@b".into()));
        let names = vec![other, xmpp("alice@example.org"), xmpp("ünder@example.org")];
        assert_eq!(addresses(&certificate(names)), ["alice@example.org", "ünder@example.org"]);
    }

    #[test]
    fn identities_are_sip_uris_without_a_user_and_else_dns_names() {
        let uri = |text: &str| SanType::URI(text.try_into().unwrap());
        let dns = |text: &str| SanType::DnsName(text.try_into().unwrap());
        let of = |names: Vec<SanType>| sip_identities(&certificate(names)).join(" ");
        assert_eq!(of(vec![dns("SIP.Example.net"), dns("*.example.com")]), "example.org sip.example.net");
        assert_eq!(of(vec![uri("sip:Carrier.example"), uri("sip:b.example")]), "carrier.example b.example");
        let others = [uri("sip:alice@carrier.example"), uri("sips:a.example"), uri("https://b.example")];
        assert_eq!(of(others.into()), "example.org");
    }

    #[test]
    fn no_bytes_are_a_panic() {
        let whole = certificate(vec![xmpp("alice@example.org")]);
        for end in 0..whole.len() {
            assert!(addresses(&whole[..end]).len() <= 1 && sip_identities(&whole[..end]).len() <= 1);
            let mut broken = whole.clone();
            broken[end] ^= 0x81;
            assert!(addresses(&broken).len() <= 1 && sip_identities(&broken).len() <= 1, "{end}");
        }
    }
}
