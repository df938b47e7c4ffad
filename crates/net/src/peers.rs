//! TLS between servers (RFC 6120 §13.7, XEP-0178): both sides show certificates, and the handshake completes
//! with any certificate. Trust is evaluated afterwards, and the caller, which knows the domain and the
//! policy, decides what follows: a server without a good certificate may still prove itself by dialback.
//!
//! [`Peers`] is made with the certificate of the listeners, and again when that changes. Both directions ask
//! for a certificate, since either server may have to prove its domain; the pair for TLS from the first byte
//! differs in ALPN only.

use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig,
    SignatureScheme,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

/// XEP-0368 §3.
const PROTOCOL: &[u8] = b"xmpp-server";

/// TLS with other XMPP servers: the configurations of both ends, and the authorities that their certificates are judged by.
#[derive(Debug)]
pub struct Peers {
    roots: Arc<RootCertStore>,
    algorithms: WebPkiSupportedAlgorithms,
    /// For certificates that are made for clients only.
    clients: Option<Arc<dyn ClientCertVerifier>>,
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
    /// With the protocol's name, for TLS from the first byte.
    direct_server: Arc<ServerConfig>,
    direct_client: Arc<ClientConfig>,
}

impl Peers {
    pub(super) fn new(
        provider: &Arc<CryptoProvider>,
        roots: RootCertStore,
        (chain, key): (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>),
    ) -> Result<Peers, Error> {
        let algorithms = provider.signature_verification_algorithms;
        let any_certificate = Arc::new(AnyCertificate(algorithms));
        let mut server = ServerConfig::builder_with_provider(Arc::clone(provider))
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(any_certificate.clone())
            .with_single_cert(chain.clone(), key.clone_key())?;
        // Connections between servers are few and long.
        // A resumed session would show no certificate, and the trust in the one of before may have ended.
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        let client = ClientConfig::builder_with_provider(Arc::clone(provider))
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(any_certificate)
            .with_client_auth_cert(chain, key)?;
        let (mut direct_server, mut direct_client) = (server.clone(), client.clone());
        direct_server.alpn_protocols = vec![PROTOCOL.to_vec()];
        direct_client.alpn_protocols = vec![PROTOCOL.to_vec()];
        let roots = Arc::new(roots);
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(provider));
        Ok(Peers {
            // Without any authority no client is trusted.
            clients: clients.build().ok(),
            roots,
            algorithms,
            server: Arc::new(server),
            client: Arc::new(client),
            direct_server: Arc::new(direct_server),
            direct_client: Arc::new(direct_client),
        })
    }

    /// The configuration of our end where the other server connects; `is_direct`: TLS from the first byte (XEP-0368).
    pub fn server(&self, is_direct: bool) -> Arc<ServerConfig> {
        Arc::clone(if is_direct { &self.direct_server } else { &self.server })
    }

    /// The configuration of our end where this server connects; `is_direct`: TLS from the first byte (XEP-0368).
    pub fn client(&self, is_direct: bool) -> Arc<ClientConfig> {
        Arc::clone(if is_direct { &self.direct_client } else { &self.client })
    }

    /// True if an authority that we trust vouches for that chain now, whatever names are in it.
    pub fn is_trusted(&self, chain: &[CertificateDer<'_>], now: stdx::Instant) -> bool {
        // The certificate of the peer comes first, the others are intermediate ones (RFC 8446 §4.4.2).
        let Some((own, others)) = chain.split_first() else { return false };
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now.unix_seconds()));
        // Either use will do: many servers connect with a certificate that is made for servers only, some with
        // one for clients.
        let as_server = ParsedCertificate::try_from(own).and_then(|own| {
            verify_server_cert_signed_by_trust_anchor(&own, &self.roots, others, now, self.algorithms.all)
        });
        let as_client = || {
            self.clients.as_ref().is_some_and(|clients| clients.verify_client_cert(own, others, now).is_ok())
        };
        as_server.is_ok() || as_client()
    }
}

/// Asks a client for a certificate and takes any, or none.
pub(super) fn any_client(provider: &CryptoProvider) -> Arc<dyn ClientCertVerifier> {
    Arc::new(AnyCertificate(provider.signature_verification_algorithms))
}

/// Takes every certificate, but only from the holder of its key.
#[derive(Debug)]
struct AnyCertificate(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _own: &CertificateDer<'_>,
        _others: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _status: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, own, signed, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, own, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

impl ClientCertVerifier for AnyCertificate {
    // No hints: a peer would choose among its certificates by them, and any is taken.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    // A server without a certificate may prove its domain by dialback (XEP-0220).
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        _own: &CertificateDer<'_>,
        _others: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, own, signed, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, own, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
