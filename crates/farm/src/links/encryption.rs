//! TLS of links: which connections are encrypted, and the key that both sides prove.
//!
//! The farm's secret gives one key pair (Ed25519), which all nodes have. Both sides show its public half as a raw public key
//! (RFC 7250), without a certificate and so without names, dates and authorities, and accept no other. TLS 1.3 makes new keys of
//! traffic for each connection, so the secret does not decrypt what was recorded before it was stolen.

use std::net::IpAddr;
use std::sync::Arc;

use cluster::link::{FarmSecret, LinkFault};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::aws_lc_rs::{default_provider, sign::any_eddsa_type};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::CertifiedKey;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, Connection, DigitallySignedStruct,
    DistinguishedName, Error, ServerConfig, ServerConnection, SignatureScheme,
};
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};

/// The connections of links that are encrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encryption {
    /// All but those within this machine, by loopback.
    #[default]
    Auto,
    /// All.
    Always,
    /// None that this node opens. Those that other nodes encrypt are accepted, so that a farm can change node by node.
    Never,
}

impl Encryption {
    /// True if a connection with this address has to be encrypted.
    pub fn applies_to(self, address: IpAddr) -> bool {
        match self {
            Encryption::Auto => !address.to_canonical().is_loopback(),
            Encryption::Always => true,
            Encryption::Never => false,
        }
    }
}

/// The purpose of the key pair, in [`FarmSecret::expand`].
const PURPOSE: &str = "belfry link tls 1";

/// A private key of Ed25519 in PKCS#8, before its 32 bytes (RFC 8410 §7).
const PKCS8_HEAD: [u8; 16] = *b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";

/// The settings of TLS for both sides of links, made once of the farm's secret.
pub(super) struct LinkTls {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

impl LinkTls {
    pub(super) fn new(secret: &FarmSecret) -> LinkTls {
        let mut pkcs8 = PKCS8_HEAD.to_vec();
        pkcs8.extend_from_slice(&secret.expand(PURPOSE));
        let key =
            any_eddsa_type(&PrivatePkcs8KeyDer::from(pkcs8)).expect("any 32 bytes are a key of Ed25519");
        let public = key.public_key().expect("Ed25519 keys have a public half").to_vec();
        let pinned = Arc::new(PinnedKey {
            key: public.clone(),
            algorithms: default_provider().signature_verification_algorithms,
        });
        let own = Arc::new(CertifiedKey::new(vec![CertificateDer::from(public)], key));
        LinkTls { client: Arc::new(client(&pinned, &own)), server: Arc::new(server(pinned, own)) }
    }

    /// TLS of the side that opens a connection.
    pub(super) fn dial(&self) -> Result<Connection, Error> {
        // The verifier reads no name and none is sent, but TLS libraries want one.
        let name = ServerName::from(IpAddr::from([127, 0, 0, 1]));
        ClientConnection::new(Arc::clone(&self.client), name).map(Connection::from)
    }

    /// TLS of the side that accepts a connection.
    pub(super) fn accept(&self) -> Result<Connection, Error> {
        ServerConnection::new(Arc::clone(&self.server)).map(Connection::from)
    }
}

/// Sessions are not resumed: connections between nodes are few and long, and every one proves the secret.
fn client(pinned: &Arc<PinnedKey>, own: &Arc<CertifiedKey>) -> ClientConfig {
    let resolver = AlwaysResolvesClientRawPublicKeys::new(Arc::clone(own));
    let verifier = Arc::clone(pinned);
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("the provider has suites for TLS 1.3")
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_cert_resolver(Arc::new(resolver));
    config.enable_sni = false;
    config.resumption = Resumption::disabled();
    config
}

fn server(pinned: Arc<PinnedKey>, own: Arc<CertifiedKey>) -> ServerConfig {
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("the provider has suites for TLS 1.3")
        .with_client_cert_verifier(pinned)
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(own)));
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config
}

/// The reason of a failed handshake or record, for the log of an operator.
pub(super) fn reason_of(error: &Error) -> Box<str> {
    let is_refusal = |alert: &AlertDescription| {
        use AlertDescription as A;
        matches!(alert, A::AccessDenied | A::UnknownCA | A::BadCertificate | A::CertificateUnknown)
    };
    match error {
        Error::InvalidCertificate(_) => LinkFault::Proof.to_string().into(),
        Error::AlertReceived(alert) if is_refusal(alert) => {
            "the peer does not accept this node's key: give all nodes the same secret".into()
        }
        Error::InvalidMessage(_) => LinkFault::Unencrypted.to_string().into(),
        other => other.to_string().into(),
    }
}

/// Accepts the farm's public key and no other.
#[derive(Debug)]
struct PinnedKey {
    /// The key as SubjectPublicKeyInfo, in DER.
    key: Vec<u8>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl PinnedKey {
    fn check(&self, shown: &CertificateDer<'_>) -> Result<(), Error> {
        // Public keys: the comparison tells nothing by its time.
        if shown.as_ref() == self.key {
            Ok(())
        } else {
            Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
        }
    }

    fn verify(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(shown.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signature, &self.algorithms)
    }
}

impl ServerCertVerifier for PinnedKey {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(end_entity).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _shown: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 was not offered".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify(message, shown, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for PinnedKey {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(end_entity).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        ServerCertVerifier::verify_tls12_signature(self, message, shown, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify(message, shown, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_within_the_machine_are_plain_unless_all_are_encrypted() {
        let addresses = ["127.0.0.1", "::1", "::ffff:127.0.0.1", "10.0.0.11", "2001:db8::1"];
        let encrypted = |encryption: Encryption| {
            addresses.map(|address| encryption.applies_to(address.parse().expect("an address")))
        };
        assert_eq!(encrypted(Encryption::Auto), [false, false, false, true, true]);
        assert_eq!(encrypted(Encryption::Always), [true; 5]);
        assert_eq!(encrypted(Encryption::Never), [false; 5]);
    }
}
