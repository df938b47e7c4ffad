//! Clients that show a certificate: who may have signed it, and whose XMPP address is in it (RFC 6120 §13.7.1.4, XEP-0178).

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::crypto::aws_lc_rs;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

/// Whose certificates are asked for and believed. Read once.
#[derive(Debug)]
pub(crate) struct ClientAuthorities {
    verifier: Arc<dyn ClientCertVerifier>,
    /// What was made last, and of which.
    made: Mutex<Option<(Arc<ServerConfig>, Arc<ServerConfig>)>>,
}

impl ClientAuthorities {
    /// # Errors
    /// In words for the operator.
    pub(crate) fn load(file: &Path) -> Result<Arc<Self>, String> {
        let fault = |problem: &dyn std::fmt::Display| format!("{}: {problem}", file.display());
        let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let mut roots = RootCertStore::empty();
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
    pub(crate) fn asking(&self, config: &Arc<ServerConfig>) -> Arc<ServerConfig> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, asking)) = made.as_ref().filter(|(of, _)| Arc::ptr_eq(of, config)) {
            return Arc::clone(asking);
        }
        let mut asking = ServerConfig::builder_with_provider(Arc::clone(config.crypto_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has suites for TLS 1.2 and 1.3")
            .with_client_cert_verifier(Arc::clone(&self.verifier))
            .with_cert_resolver(Arc::clone(&config.cert_resolver));
        asking.alpn_protocols.clone_from(&config.alpn_protocols);
        // A session that is resumed shows no certificate, which may have ended meanwhile: all are new.
        asking.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        asking.send_tls13_tickets = 0;
        let asking = Arc::new(asking);
        *made = Some((Arc::clone(config), Arc::clone(&asking)));
        asking
    }
}

/// The addresses that a certificate names as XMPP's: `id-on-xmppAddr` among the subject's alternative names. It was
/// verified before; what cannot be read is left out.
pub(crate) fn addresses(certificate: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let names = extensions(certificate).and_then(alternative_names);
    let mut rest = names.unwrap_or_default();
    while let Some((tag, name, after)) = der(rest) {
        if tag == OTHER_NAME {
            found.extend(address(name));
        }
        rest = after;
    }
    found
}

/// Context-specific and constructed, of number 0: `otherName` (RFC 5280 §4.2.1.6), and what is explicit in it.
const OTHER_NAME: u8 = 0xa0;
/// Of number 3: a certificate's extensions (§4.1).
const EXTENSIONS: u8 = 0xa3;
const UTF8_STRING: u8 = 0x0c;
/// 2.5.29.17 and 1.3.6.1.5.5.7.8.5.
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];
const ON_XMPP_ADDR: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x08, 0x05];

fn extensions(certificate: &[u8]) -> Option<&[u8]> {
    let (_, certificate, _) = der(certificate)?;
    let (_, mut fields, _) = der(certificate)?;
    loop {
        let (tag, field, after) = der(fields)?;
        if tag == EXTENSIONS {
            return der(field).map(|(_, list, _)| list);
        }
        fields = after;
    }
}

fn alternative_names(mut extensions: &[u8]) -> Option<&[u8]> {
    loop {
        let (_, extension, after) = der(extensions)?;
        let (_, id, value) = der(extension)?;
        if id == SUBJECT_ALT_NAME {
            // Before the value there may be whether it is critical.
            let (tag, first, rest) = der(value)?;
            let octets = if tag == 0x01 { der(rest)?.1 } else { first };
            return der(octets).map(|(_, names, _)| names);
        }
        extensions = after;
    }
}

fn address(name: &[u8]) -> Option<String> {
    let (_, id, value) = der(name)?;
    let (_, value, _) = der(value).filter(|_| id == ON_XMPP_ADDR)?;
    let (tag, text, _) = der(value)?;
    (tag == UTF8_STRING).then(|| std::str::from_utf8(text).ok().map(str::to_owned))?
}

/// The tag and content of the first value, and what follows it.
fn der(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let [tag, first, rest @ ..] = bytes else { return None };
    let (length, rest) = match usize::from(*first) {
        short @ 0..0x80 => (short, rest),
        long => {
            let (length, rest) =
                rest.split_at_checked(long - 0x80).filter(|(length, _)| length.len() <= 4)?;
            (length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
        }
    };
    rest.split_at_checked(length).map(|(content, rest)| (*tag, content, rest))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, SanType};

    use super::*;

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
    fn no_bytes_are_a_panic() {
        let whole = certificate(vec![xmpp("alice@example.org")]);
        for end in 0..whole.len() {
            assert!(addresses(&whole[..end]).len() <= 1);
            let mut broken = whole.clone();
            broken[end] ^= 0x81;
            assert!(addresses(&broken).len() <= 1, "{end}");
        }
    }
}
