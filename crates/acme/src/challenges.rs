//! The answers to the challenges of one order.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::PrivatePkcs8KeyDer;
use sha2::{Digest as _, Sha256};

use crate::ChallengeKind;

/// The protocol of TLS-ALPN-01 (RFC 8737 §6.2).
pub(crate) const ACME_TLS: &[u8] = b"acme-tls/1";

/// The answers of one order. Nothing else is ever answered.
pub(crate) enum Answers {
    /// Key authorizations by token.
    Http(BTreeMap<String, String>),
    /// Certificates by name.
    Tls(BTreeMap<String, Arc<CertifiedKey>>),
}

impl Answers {
    pub(crate) fn new(kind: ChallengeKind) -> Answers {
        match kind {
            ChallengeKind::Http01 => Answers::Http(BTreeMap::new()),
            ChallengeKind::TlsAlpn01 => Answers::Tls(BTreeMap::new()),
        }
    }

    /// # Errors
    /// In words: the key or the certificate cannot be made.
    pub(crate) fn insert(&mut self, name: &str, token: &str, authorization: &str) -> Result<(), String> {
        match self {
            Answers::Http(answers) => {
                answers.insert(token.to_owned(), authorization.to_owned());
            }
            Answers::Tls(answers) => {
                answers
                    .insert(name.to_ascii_lowercase(), Arc::new(challenge_certificate(name, authorization)?));
            }
        }
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Answers::Http(answers) => answers.is_empty(),
            Answers::Tls(answers) => answers.is_empty(),
        }
    }

    /// The key authorization of a token (RFC 8555 §8.3).
    pub(crate) fn file(&self, token: &str) -> Option<String> {
        match self {
            Answers::Http(answers) => answers.get(token).cloned(),
            Answers::Tls(_) => None,
        }
    }

    /// The certificate for a name, if `acme-tls/1` is all that the client offers (RFC 8737 §3).
    fn certificate(
        &self,
        name: Option<&str>,
        mut protocols: impl Iterator<Item = Vec<u8>>,
    ) -> Option<Arc<CertifiedKey>> {
        let is_acme = protocols.next().as_deref() == Some(ACME_TLS) && protocols.next().is_none();
        match self {
            Answers::Tls(answers) if is_acme => answers.get(&name?.to_ascii_lowercase()).cloned(),
            _ => None,
        }
    }
}

impl ResolvesServerCert for Answers {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let protocols = hello.alpn().into_iter().flatten().map(<[u8]>::to_vec);
        self.certificate(hello.server_name(), protocols)
    }
}

/// Key authorizations are no secrets, but nothing for a log.
impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answers::Http(answers) => write!(f, "{} answers by HTTP", answers.len()),
            Answers::Tls(answers) => write!(f, "{} answers by TLS", answers.len()),
        }
    }
}

/// Self-signed, for this name alone, with the hash of the key authorization (RFC 8737 §3).
fn challenge_certificate(name: &str, authorization: &str) -> Result<CertifiedKey, String> {
    let fault = |problem: &dyn fmt::Display| format!("no certificate for the challenge of {name}: {problem}");
    let mut params = CertificateParams::new(vec![name.to_owned()]).map_err(|problem| fault(&problem))?;
    params.distinguished_name = DistinguishedName::new();
    let hash = Sha256::digest(authorization.as_bytes());
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(&hash)];
    let key = KeyPair::generate().map_err(|problem| fault(&problem))?;
    let certificate = params.self_signed(&key).map_err(|problem| fault(&problem))?;
    let signing = any_supported_type(&PrivatePkcs8KeyDer::from(key.serialize_der()).into());
    let signing = signing.map_err(|problem| fault(&problem))?;
    Ok(CertifiedKey::new(vec![certificate.der().clone()], signing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_that_of_a_known_token_only() {
        let mut answers = Answers::new(ChallengeKind::Http01);
        assert!(answers.is_empty());
        answers.insert("a.test", "token", "token.thumbprint").unwrap();
        assert_eq!(answers.file("token").as_deref(), Some("token.thumbprint"));
        assert_eq!(answers.file("other"), None);
        let protocols = || [ACME_TLS.to_vec()].into_iter();
        assert!(answers.certificate(Some("a.test"), protocols()).is_none(), "HTTP-01 has no certificate");
    }

    #[test]
    fn a_certificate_is_shown_for_acme_tls_alone_and_for_a_known_name_alone() {
        let mut answers = Answers::new(ChallengeKind::TlsAlpn01);
        answers.insert("a.test", "token", "token.thumbprint").unwrap();
        let shown = |name: Option<&str>, protocols: &[&[u8]]| {
            let protocols: Vec<_> = protocols.iter().map(|protocol| protocol.to_vec()).collect();
            answers.certificate(name, protocols.into_iter()).is_some()
        };
        assert!(shown(Some("A.test"), &[ACME_TLS]));
        assert!(!shown(Some("b.test"), &[ACME_TLS]));
        assert!(!shown(None, &[ACME_TLS]));
        assert!(!shown(Some("a.test"), &[]));
        assert!(!shown(Some("a.test"), &[b"http/1.1"]));
        assert!(!shown(Some("a.test"), &[ACME_TLS, b"http/1.1"]));
        assert_eq!(answers.file("token"), None, "TLS-ALPN-01 has no file");
    }
}
