//! TLS to a source: its certificate is always verified, against the authorities of a file or those of the system.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

/// The places of the system's authorities: Debian and its kin, Fedora and its kin, Alpine and others.
const SYSTEM_BUNDLES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// The TLS of connections to a source.
///
/// # Errors
/// No file of authorities, or one without a certificate.
pub(crate) fn client(authorities: Option<&Path>) -> Result<ClientConfig> {
    let found = || SYSTEM_BUNDLES.iter().map(Path::new).find(|path| path.exists());
    let file = authorities.or_else(found);
    let file = file.context("no authorities to check certificates: name a file with `ca`")?;
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let certificates = read.with_context(|| format!("certificates of {}", file.display()))?;
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(certificates);
    if added == 0 {
        bail!("{} holds no certificate of an authority (PEM)", file.display());
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    Ok(builder.with_safe_default_protocol_versions()?.with_root_certificates(roots).with_no_client_auth())
}
