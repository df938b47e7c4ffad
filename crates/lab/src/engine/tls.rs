//! Certificates as SIPp has them: a server needs its own, a client looks at the server's only with `-tls_ca`.
//!
//! [`Tls::load`] reads files and checks options once for a run; each shard makes connections from copies of it. A mistake names the file and
//! the option.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lab_sip::options::TlsOptions;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, ServerConfig, SignatureScheme};
use rustls::{SupportedProtocolVersion, version};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, UnixTime};

/// SIPp's defaults.
const CERTIFICATE: &str = "cacert.pem";
const KEY: &str = "cakey.pem";

/// The advice for a server certificate that is not trusted, and for a file of authorities that cannot be read.
const AUTHORITY: &str = "name the authority of the server's certificate with --tls-ca FILE (ringer sip: -tls_ca; PEM), or leave it out to take any";

/// The TLS settings of a run, shared by all its connections.
#[derive(Clone)]
pub(super) struct Tls {
    /// With a certificate of our own when one is set, for servers that ask for it.
    pub(super) client: Arc<ClientConfig>,
    /// `None`: without a certificate no TLS connection is accepted.
    pub(super) server: Option<Arc<ServerConfig>>,
}

impl Tls {
    /// A server must have a certificate; a client may. Errors name the file.
    pub(super) fn load(options: &TlsOptions, server: bool) -> Result<Tls, String> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let versions = versions(options.version.as_deref())?;
        let wanted = server || options.cert.is_some() || options.key.is_some();
        let identity = if wanted { Some(identity(options)?) } else { None };
        let client = client(options, &provider, &versions, identity.as_ref())?;
        let server = match identity {
            Some((chain, key)) => {
                let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
                    .with_protocol_versions(&versions)
                    .map_err(|error| error.to_string())?
                    .with_no_client_auth()
                    .with_single_cert(chain, key)
                    .map_err(|error| format!("{}: {error}", certificate(options).display()))?;
                Some(Arc::new(config))
            }
            None => None,
        };
        Ok(Tls { client: Arc::new(client), server })
    }
}

/// A certificate with its chain, and its key.
type CertifiedIdentity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn certificate(options: &TlsOptions) -> PathBuf {
    options.cert.clone().unwrap_or_else(|| CERTIFICATE.into())
}

/// The certificate and key of the options, or of SIPp's default files in the working directory.
fn identity(options: &TlsOptions) -> Result<CertifiedIdentity, String> {
    let chain = certificates(&certificate(options), "set the certificate with -tls_cert")?;
    let file = options.key.clone().unwrap_or_else(|| KEY.into());
    let key = PrivateKeyDer::from_pem_file(&file)
        .map_err(|error| format!("{}: {error}; set the key with -tls_key", file.display()))?;
    Ok((chain, key))
}

/// Both versions unless one is asked for; older ones are not implemented by the TLS library.
fn versions(wanted: Option<&str>) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
    match wanted {
        None => Ok(vec![&version::TLS13, &version::TLS12]),
        Some("1.2") => Ok(vec![&version::TLS12]),
        Some("1.3") => Ok(vec![&version::TLS13]),
        Some(other) => Err(format!("-tls_version {other}: 1.2 and 1.3 are spoken")),
    }
}

/// With `-tls_ca` the server's certificate is checked; without, any is taken.
fn client(
    options: &TlsOptions,
    provider: &Arc<CryptoProvider>,
    versions: &[&'static SupportedProtocolVersion],
    identity: Option<&CertifiedIdentity>,
) -> Result<ClientConfig, String> {
    let builder = ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(versions)
        .map_err(|error| error.to_string())?;
    let builder = match &options.ca {
        Some(file) => builder.with_webpki_verifier(verifier(options, file, provider)?),
        None => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(Arc::clone(provider)))),
    };
    match identity {
        Some((chain, key)) => builder
            .with_client_auth_cert(chain.clone(), key.clone_key())
            .map_err(|error| format!("{}: {error}", certificate(options).display())),
        None => Ok(builder.with_no_client_auth()),
    }
}

/// Checks against the authorities of `file`, and against the revocation list of `-tls_crl`.
fn verifier(
    options: &TlsOptions,
    file: &Path,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, String> {
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(certificates(file, AUTHORITY)?);
    if added == 0 {
        return Err(format!("{}: no usable certificate", file.display()));
    }
    let mut builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    if let Some(file) = &options.crl {
        let lists: Result<Vec<_>, _> =
            CertificateRevocationListDer::pem_file_iter(file).and_then(Iterator::collect);
        builder = builder.with_crls(lists.map_err(|error| format!("{}: {error}", file.display()))?);
    }
    builder.build().map_err(|error| format!("{}: {error}", file.display()))
}

/// The meaning of a TLS failure for the operator, and the remedy; `None`: the error does not concern TLS.
pub(super) fn explain(error: &io::Error) -> Option<String> {
    let mut at: Option<&(dyn std::error::Error + 'static)> = error.get_ref().map(|inner| inner as _);
    while let Some(inner) = at {
        if let Some(error) = inner.downcast_ref::<Error>() {
            return Some(match error {
                Error::InvalidCertificate(_) => {
                    format!("the server's certificate is not trusted: {error}; {AUTHORITY}")
                }
                _ => format!("TLS: {error}"),
            });
        }
        // An io::Error gives as its source that of what is in it, not what is in it.
        let nested = inner.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        at = nested.map(|inner| inner as _).or_else(|| inner.source());
    }
    None
}

/// `advice`: what to do when it cannot be read.
fn certificates(file: &Path, advice: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    match read {
        Ok(chain) if chain.is_empty() => Err(format!("{}: no certificate in this file", file.display())),
        Ok(chain) => Ok(chain),
        Err(error) => Err(format!("{}: {error}; {advice}", file.display())),
    }
}

/// Takes any certificate: a load test's server often has one of its own making.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // Signatures are still checked below, so that a broken TLS implementation is noticed.
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_untrusted_certificate_is_explained_with_a_remedy() {
        let unknown = || Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let said = explain(&io::Error::other(unknown())).unwrap();
        assert!(said.contains("UnknownIssuer") && said.contains("authority"), "{said}");
        let nested = tungstenite::Error::Io(io::Error::other(unknown()));
        assert!(explain(&io::Error::other(nested)).is_some());
        assert_eq!(explain(&io::Error::other("something else")), None);
        assert_eq!(explain(&io::ErrorKind::ConnectionReset.into()), None);
    }

    #[test]
    fn a_missing_certificate_is_named() {
        let options = TlsOptions { cert: Some("/nowhere/c.pem".into()), ..TlsOptions::default() };
        let Err(error) = Tls::load(&options, true) else { panic!("loaded nothing") };
        assert!(error.contains("/nowhere/c.pem") && error.contains("-tls_cert"), "{error}");
        let options = TlsOptions { ca: Some("/nowhere/ca.pem".into()), ..TlsOptions::default() };
        let Err(error) = Tls::load(&options, false) else { panic!("trusts no authority") };
        assert!(error.contains("/nowhere/ca.pem") && error.contains("authority"), "{error}");
        assert!(Tls::load(&TlsOptions::default(), false).is_ok_and(|tls| tls.server.is_none()));
        let odd = TlsOptions { version: Some("1.0".to_owned()), ..TlsOptions::default() };
        assert!(Tls::load(&odd, false).is_err());
    }
}
