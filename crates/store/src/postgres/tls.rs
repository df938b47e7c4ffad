//! TLS to the server, by the parameters `sslmode` and `sslrootcert` of libpq's connection strings.
//!
//! `tokio-postgres` refuses values of `sslmode` that it does not know and has no `sslrootcert`, so both are taken out of the URL
//! ([`Parameters::take`]) and become a configuration of rustls ([`Parameters::connector`]).

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio_postgres::config::{Config, Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::StoreError;

/// The place of the system's authorities in distributions: Debian and its kin, Fedora and its kin, Alpine and others.
const SYSTEM_BUNDLES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// The protection of a connection: `sslmode`, with libpq's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// No TLS.
    Disable,
    /// TLS if the server has it.
    Prefer,
    /// TLS. The certificate is not verified, unless `sslrootcert` is given.
    Require,
    /// An authority vouches for the server's certificate.
    VerifyCa,
    /// `VerifyCa`, and the certificate is of the host's name.
    VerifyFull,
}

/// The parameters of TLS of a connection string, which `tokio-postgres` does not know all.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Parameters {
    /// `sslmode` as written.
    mode: Option<String>,
    /// `sslrootcert`: a file, or `system`.
    authorities: Option<String>,
}

impl Parameters {
    /// Takes the parameters out of a URL or a string of names and values; the rest of it.
    pub(super) fn take(url: &str) -> (String, Parameters) {
        let mut taken = Parameters::default();
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            let rest: Vec<&str> =
                settings(url).into_iter().filter(|setting| !taken.set_by_value(setting)).collect();
            return (rest.join(" "), taken);
        }
        let Some((place, query)) = url.split_once('?') else { return (url.to_owned(), taken) };
        let rest: Vec<&str> = query.split('&').filter(|part| !taken.set_by_query(part)).collect();
        let mark = if rest.is_empty() { "" } else { "?" };
        (format!("{place}{mark}{}", rest.join("&")), taken)
    }

    /// True if the parameter is one of ours.
    fn set(&mut self, name: &str, value: String) -> bool {
        let place = match name {
            "sslmode" => &mut self.mode,
            "sslrootcert" => &mut self.authorities,
            _ => return false,
        };
        *place = Some(value);
        true
    }

    fn set_by_query(&mut self, part: &str) -> bool {
        part.split_once('=').is_some_and(|(name, value)| self.set(name, percent_decoded(value)))
    }

    fn set_by_value(&mut self, setting: &str) -> bool {
        let Some((name, value)) = setting.split_once('=') else { return false };
        let value = value.trim();
        let value = value.strip_prefix('\'').and_then(|value| value.strip_suffix('\'')).unwrap_or(value);
        let mut escaped = false;
        let plain = value.chars().filter(|character| {
            escaped = *character == '\\' && !escaped;
            !escaped
        });
        self.set(name.trim(), plain.collect())
    }

    /// Sets the mode of the configuration, and makes what encrypts its connections.
    pub(super) fn connector(&self, config: &mut Config) -> Result<MakeRustlsConnect, StoreError> {
        let mode = match self.mode.as_deref() {
            Some("disable") => Mode::Disable,
            None | Some("prefer") => Mode::Prefer,
            Some("require") => Mode::Require,
            Some("verify-ca") => Mode::VerifyCa,
            Some("verify-full") => Mode::VerifyFull,
            Some(other) => {
                return Err(StoreError::invalid(
                    format!("sslmode={other} in the URL of the store"),
                    "disable, prefer, require, verify-ca or verify-full",
                ));
            }
        };
        // A server has no TLS on its sockets in the file system.
        let is_local = config.get_hosts().iter().all(|host| matches!(host, Host::Unix(_)));
        let mode = if is_local { Mode::Disable } else { mode };
        config.ssl_mode(match mode {
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        });
        // As libpq: authorities that are named are used.
        let mode = match mode {
            Mode::Require if self.authorities.is_some() => Mode::VerifyCa,
            mode => mode,
        };
        Ok(MakeRustlsConnect::new(self.client(mode)?))
    }

    /// The configuration of rustls for a mode.
    fn client(&self, mode: Mode) -> Result<ClientConfig, StoreError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| StoreError::Internal { detail: error.to_string() })?;
        if mode == Mode::VerifyFull {
            return Ok(builder.with_root_certificates(self.roots()?).with_no_client_auth());
        }
        let authorities = if mode == Mode::VerifyCa {
            let roots = Arc::new(self.roots()?);
            let built = WebPkiServerVerifier::builder_with_provider(roots, provider.clone()).build();
            Some(built.map_err(|error| self.fault(&error.to_string()))?)
        } else {
            None
        };
        let verifier = AnyName { authorities, algorithms: provider.signature_verification_algorithms };
        let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
        Ok(builder.with_no_client_auth())
    }

    /// The authorities of the file that is named, else those of the system.
    fn roots(&self) -> Result<RootCertStore, StoreError> {
        let named = self.authorities.as_deref().filter(|name| *name != "system");
        let found = || SYSTEM_BUNDLES.iter().copied().find(|path| Path::new(path).exists());
        let file = named.or_else(found).ok_or_else(|| self.fault("the system has no authorities"))?;
        let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let certificates = read.map_err(|error| self.fault(&format!("{file}: {error}")))?;
        let mut roots = RootCertStore::empty();
        let (added, _) = roots.add_parsable_certificates(certificates);
        if added == 0 {
            return Err(self.fault(&format!("{file} has no usable certificate")));
        }
        Ok(roots)
    }

    /// The authorities cannot be read.
    fn fault(&self, detail: &str) -> StoreError {
        let name = self.authorities.as_deref().unwrap_or("system");
        let expected = format!("a file with the certificates of authorities ({detail})");
        StoreError::invalid(format!("sslrootcert={name} in the URL of the store"), expected)
    }
}

/// The settings of a string of names and values, each as it is written: `name = 'a value'`.
fn settings(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let end = setting_end(rest);
        found.push(rest[..end].trim_end());
        rest = rest[end..].trim_start();
    }
    found
}

/// The place behind the first setting: the first space that is neither quoted nor escaped nor beside the equals sign.
fn setting_end(text: &str) -> usize {
    let (mut is_quoted, mut is_escaped, mut has_value) = (false, false, false);
    let mut equals = false;
    for (place, character) in text.char_indices() {
        if is_escaped {
            is_escaped = false;
        } else if character == '\\' {
            is_escaped = true;
        } else if character == '\'' {
            is_quoted = !is_quoted;
            has_value = true;
        } else if character == '=' && !equals && !is_quoted {
            equals = true;
        } else if character.is_whitespace() && !is_quoted {
            if equals && has_value {
                return place;
            }
        } else {
            has_value |= equals;
        }
    }
    text.len()
}

/// Values of a URL's query. A percent sign that begins no code stands for itself.
fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = (bytes[at] == b'%')
            .then(|| bytes.get(at + 1..at + 3))
            .flatten()
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        decoded.push(code.unwrap_or(bytes[at]));
        at += if code.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// Verifies a certificate without its name, or only that the server has the key of the one it shows.
#[derive(Debug)]
struct AnyName {
    /// `None`: any certificate will do.
    authorities: Option<Arc<WebPkiServerVerifier>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(authorities) = &self.authorities else { return Ok(ServerCertVerified::assertion()) };
        // The chain is verified first, the name last.
        match authorities.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(mode: Option<&str>, authorities: Option<&str>) -> Parameters {
        Parameters { mode: mode.map(Into::into), authorities: authorities.map(Into::into) }
    }

    #[test]
    fn the_parameters_are_taken_out_of_both_forms() {
        let cases = [
            ("postgres://u:p@h/d", "postgres://u:p@h/d", parameters(None, None)),
            ("postgres://h/d?sslmode=require", "postgres://h/d", parameters(Some("require"), None)),
            (
                "postgres://h/d?port=1&sslrootcert=%2Fetc%2Fa%20b.pem&sslmode=verify-full&connect_timeout=3",
                "postgres://h/d?port=1&connect_timeout=3",
                parameters(Some("verify-full"), Some("/etc/a b.pem")),
            ),
            (
                "host=h  sslmode = verify-full dbname='a d' sslrootcert='/a b\\'c.pem' user=u",
                "host=h dbname='a d' user=u",
                parameters(Some("verify-full"), Some("/a b'c.pem")),
            ),
            (
                "host=/run/a\\ b password='x sslmode=y'",
                "host=/run/a\\ b password='x sslmode=y'",
                parameters(None, None),
            ),
        ];
        for (url, rest, expected) in cases {
            assert_eq!(Parameters::take(url), (rest.to_owned(), expected), "{url}");
        }
    }

    #[test]
    fn a_mode_that_there_is_not_is_refused() {
        let mut config = Config::new();
        config.host("h");
        let refused =
            parameters(Some("allow"), None).connector(&mut config).map(drop).unwrap_err().to_string();
        assert!(refused.contains("sslmode=allow") && refused.contains("verify-full"), "{refused}");
        let refused = parameters(Some("verify-full"), Some("/nowhere.pem")).connector(&mut config);
        let refused = refused.map(drop).unwrap_err().to_string();
        assert!(refused.contains("sslrootcert=/nowhere.pem"), "{refused}");
    }

    #[test]
    fn a_socket_in_the_file_system_needs_no_tls() {
        let mut config = Config::new();
        config.host_path("/run/postgresql");
        parameters(Some("verify-full"), Some("/nowhere.pem")).connector(&mut config).map(drop).unwrap();
        assert_eq!(config.get_ssl_mode(), SslMode::Disable);
    }
}
