//! Certificates and TLS settings, shared by all shards (RFC 3261 §26.3.1, RFC 5922).

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, RwLock};
use std::time::SystemTime;

use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, NoServerSessionStorage, ParsedCertificate, ProducesTickets};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use sha2::Digest;
use tls_session::ExporterSecrets;

use super::certificate::{self, ShownCertificate};
use super::der::first_value;
use super::peers::{self, Peers};
use super::tickets::TicketKeys;

/// The files of certificates. All PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Our chain, our own certificate first.
    pub certificate: PathBuf,
    /// Its private key: PKCS#8, PKCS#1 or SEC1.
    pub key: PathBuf,
    /// Authorities that peers we connect to must be certified by; `None`: those of the system.
    pub authorities: Option<PathBuf>,
}

/// The certificate and keys for TLS connections. `reload` changes them for new connections; open ones keep
/// theirs.
#[derive(Debug)]
pub struct Tls {
    files: RwLock<TlsFiles>,
    tickets: TicketKeys,
    current: RwLock<Current>,
}

#[derive(Clone, Debug)]
struct Current {
    server: Arc<ServerConfig>,
    /// The same, asking for a certificate.
    asking: Arc<ServerConfig>,
    /// The same as the first, speaking XMPP only (XEP-0368 §2).
    xmpp: Arc<ServerConfig>,
    end_point: Option<Box<[u8]>>,
    fingerprint: Option<[u8; 32]>,
    client: Arc<ClientConfig>,
    /// With other servers.
    peers: Arc<Peers>,
    shown: ShownCertificate,
    stamps: Stamps,
}

/// The certificate and keys as [`Tls::read_again`] has read them.
#[derive(Debug)]
pub struct FreshTls(Current);

/// When each file was last changed, and its length.
type Stamps = [Option<(SystemTime, u64)>; 3];

/// A file of TLS that cannot be used.
#[derive(Debug)]
pub struct TlsError {
    /// The file that cannot be used.
    pub file: PathBuf,
    /// The reason, for the operator.
    pub problem: String,
}

impl std::fmt::Display for TlsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.problem)
    }
}

impl std::error::Error for TlsError {}

fn error(file: &Path, problem: &impl ToString) -> TlsError {
    TlsError { file: file.to_owned(), problem: problem.to_string() }
}

/// A certificate and its key that cannot be used, each of which could be read.
pub(crate) fn unusable(certificate: &Path, key: &Path, problem: &rustls::Error) -> TlsError {
    match problem {
        rustls::Error::InconsistentKeys(_) => {
            error(key, &format!("is the key of another certificate than {}", certificate.display()))
        }
        _ => error(certificate, problem),
    }
}

impl Tls {
    /// Reads everything once. `tickets` are the keys of the tickets that clients resume their sessions with.
    pub fn load(files: TlsFiles, tickets: TicketKeys) -> Result<Arc<Self>, TlsError> {
        let current = RwLock::new(read(&files, &tickets)?);
        Ok(Arc::new(Tls { files: RwLock::new(files), tickets, current }))
    }

    /// Reads the files again; on any problem everything stays as it was.
    pub fn reload(&self) -> Result<(), TlsError> {
        self.read_again().map(|fresh| self.apply(fresh))
    }

    /// Reads the files again for [`apply`](Self::apply), and changes nothing yet.
    ///
    /// # Errors
    /// A file that cannot be used.
    pub fn read_again(&self) -> Result<FreshTls, TlsError> {
        read(&self.files(), &self.tickets).map(FreshTls)
    }

    /// Shows on new connections what was read.
    pub fn apply(&self, FreshTls(fresh): FreshTls) {
        *self.current.write().expect("nothing panics while it holds this lock") = fresh;
    }

    /// Shows another certificate on new connections from now on; on any problem everything stays as it was.
    pub fn use_certificate(&self, certificate: PathBuf, key: PathBuf) -> Result<(), TlsError> {
        let files = TlsFiles { certificate, key, ..self.files() };
        let fresh = read(&files, &self.tickets)?;
        *self.files.write().expect("nothing panics while it holds this lock") = files;
        *self.current.write().expect("nothing panics while it holds this lock") = fresh;
        Ok(())
    }

    /// The certificate that listeners show to new connections.
    pub fn shown(&self) -> ShownCertificate {
        self.current().shown
    }

    /// As `reload`, if a file was changed since it was read. Looks at three files: call it every few seconds,
    /// off the shards. True when there was something new.
    pub fn reload_if_changed(&self) -> Result<bool, TlsError> {
        // By time and length: a tool that replaces a file changes at least one of the two.
        if stamps(&self.files()) == self.current().stamps {
            return Ok(false);
        }
        self.reload().map(|()| true)
    }

    /// For streams of XMPP, with what `tls-server-end-point` (RFC 5929 §4) is with that certificate.
    pub fn xmpp(&self) -> (Arc<ServerConfig>, Option<Box<[u8]>>) {
        let current = self.current();
        (current.xmpp, current.end_point)
    }

    /// SHA-256 of the certificate, as peers are told of it out of band (RFC 7711 §3). `None`: the file has none.
    pub fn fingerprint(&self) -> Option<[u8; 32]> {
        self.current().fingerprint
    }

    /// The configuration of listeners that request no certificate.
    pub fn server(&self) -> Arc<ServerConfig> {
        self.current().server
    }

    /// Takes whatever certificate the client shows; it is to be judged by [`Peers::is_trusted`].
    pub(super) fn asking_server(&self) -> Arc<ServerConfig> {
        self.current().asking
    }

    /// The configurations for streams with other XMPP servers.
    pub fn peers(&self) -> Arc<Peers> {
        self.current().peers
    }

    /// The settings for requests over HTTPS to servers that one of the authorities certifies.
    pub fn https_client(&self) -> ClientConfig {
        (*self.client()).clone()
    }

    pub(super) fn client(&self) -> Arc<ClientConfig> {
        self.current().client
    }

    /// The file of that certificate.
    pub fn certificate_file(&self) -> PathBuf {
        self.files().certificate
    }

    fn files(&self) -> TlsFiles {
        self.files.read().expect("nothing panics while it holds this lock").clone()
    }

    fn current(&self) -> Current {
        self.current.read().expect("nothing panics while it holds this lock").clone()
    }
}

fn stamps(files: &TlsFiles) -> Stamps {
    let stamp = |path: &Path| {
        let metadata = fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    // A file that is not there has no stamp, and appears as a change.
    [stamp(&files.certificate), stamp(&files.key), files.authorities.as_deref().and_then(stamp)]
}

fn read(files: &TlsFiles, tickets: &TicketKeys) -> Result<Current, TlsError> {
    // Before reading: a change meanwhile is then seen as one.
    let stamps = stamps(files);
    let provider = Arc::new(aws_lc_rs::default_provider());
    let server = server_config(files, &provider, tickets.ticketer("server"), None)?;
    let any_client = peers::any_client(&provider);
    // With keys of tickets of its own: a session that began without a question for a certificate must not be
    // resumed where one is asked for.
    let asking = server_config(files, &provider, tickets.ticketer("certificate asked"), Some(any_client))?;
    let mut xmpp = server.clone();
    // XEP-0368 §3.
    xmpp.alpn_protocols = vec![b"xmpp-client".to_vec()];
    // For channel bindings (RFC 9266).
    ExporterSecrets::keep(&mut xmpp);
    let own = certificates(&files.certificate)?;
    let roots = roots(files.authorities.as_deref())?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|problem| error(&files.key, &problem))?;
    let peers = Peers::new(&provider, roots.clone(), (own.clone(), key))
        .map_err(|problem| error(&files.certificate, &problem))?;
    let client = Arc::new(client_with(roots, Arc::clone(&provider)));
    Ok(Current {
        server: Arc::new(server),
        asking: Arc::new(asking),
        xmpp: Arc::new(xmpp),
        end_point: own.first().and_then(|own| end_point(own)),
        fingerprint: own.first().map(|own| sha2::Sha256::digest(own).into()),
        client,
        peers: Arc::new(peers),
        shown: own.first().map(|own| certificate::shown(own)).unwrap_or_default(),
        stamps,
    })
}

fn server_config(
    files: &TlsFiles,
    provider: &Arc<CryptoProvider>,
    ticketer: Arc<dyn ProducesTickets>,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
) -> Result<ServerConfig, TlsError> {
    let chain = certificates(&files.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|problem| error(&files.key, &problem))?;
    let mut config = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_safe_default_protocol_versions()
        .expect("the provider has suites for TLS 1.2 and 1.3")
        .with_client_cert_verifier(verifier.unwrap_or_else(|| Arc::new(NoClientAuth)))
        .with_single_cert(chain, key)
        .map_err(|problem| unusable(&files.certificate, &files.key, &problem))?;
    // Sessions are resumed by ticket: the peer keeps the state, not we.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.ticketer = ticketer;
    config.send_tls13_tickets = 1;
    Ok(config)
}

fn roots(authorities: Option<&Path>) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    match authorities {
        Some(path) => {
            let (added, _) = roots.add_parsable_certificates(certificates(path)?);
            // With no authority every connection would fail, and the log would name peers instead of the file.
            if added == 0 {
                return Err(error(path, &"no usable certificate"));
            }
        }
        None => add_system_roots(&mut roots),
    }
    Ok(roots)
}

/// For connections to peers that are certified by an authority of the system.
pub fn system_client() -> Arc<ClientConfig> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    let made = || {
        let mut roots = RootCertStore::empty();
        add_system_roots(&mut roots);
        Arc::new(client_with(roots, Arc::new(aws_lc_rs::default_provider())))
    };
    Arc::clone(CONFIG.get_or_init(made))
}

/// For connections to servers that one of these authorities (PEM) certifies; none: those of the system.
///
/// # Errors
/// The file cannot be read, or has no usable certificate.
pub fn client_of(authorities: Option<&Path>) -> Result<ClientConfig, TlsError> {
    Ok(client_with(roots(authorities)?, Arc::new(aws_lc_rs::default_provider())))
}

fn client_with(roots: RootCertStore, provider: Arc<CryptoProvider>) -> ClientConfig {
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has suites for TLS 1.2 and 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(chain) if chain.is_empty() => Err(error(path, &"no certificate in this file")),
        other => other.map_err(|problem| error(path, &problem)),
    }
}

/// The certificate's hash by the hash of its signature; SHA-256 where that is MD5 or SHA-1 (RFC 5929 §4.1). `None`: it
/// has none of one name, as with Ed25519.
fn end_point(certificate: &[u8]) -> Option<Box<[u8]>> {
    let body = first_value(certificate)?.content;
    let algorithm = first_value(first_value(body)?.rest)?.content;
    let identifier = first_value(algorithm)?.content;
    let (family, last) = identifier.split_last().map(|(last, family)| (family, *last))?;
    Some(match (family, last) {
        (RSA_SIGNATURES, 4 | 5 | 11) | (ECDSA_SIGNATURES, 2) => sha2::Sha256::digest(certificate)[..].into(),
        (RSA_SIGNATURES, 12) | (ECDSA_SIGNATURES, 3) => sha2::Sha384::digest(certificate)[..].into(),
        (RSA_SIGNATURES, 13) | (ECDSA_SIGNATURES, 4) => sha2::Sha512::digest(certificate)[..].into(),
        _ => return None,
    })
}

/// Object identifiers without their last number: 1.2.840.113549.1.1 (RFC 8017 Appendix C) and 1.2.840.10045.4.3
/// (RFC 5758 §3.2).
const RSA_SIGNATURES: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
const ECDSA_SIGNATURES: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03];

/// The bundle's place in distributions: Debian and its kin, Fedora and its kin, Alpine and others.
const SYSTEM_BUNDLES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Without a bundle no peer can be verified: connecting over TLS then fails, listening does not.
fn add_system_roots(roots: &mut RootCertStore) {
    for path in SYSTEM_BUNDLES {
        if let Ok(bundle) = certificates(Path::new(path)) {
            roots.add_parsable_certificates(bundle);
            return;
        }
    }
    tracing::warn!(looked_at = ?SYSTEM_BUNDLES, "no certificate authorities found: outgoing TLS will fail");
}

/// The self-signed certificate of an earlier start, if it has these names; else a fresh one. Clients that trust it need not be told again.
///
/// # Errors
/// The errors of [`self_signed`].
pub fn own_certificate(directory: &Path, names: &[&str]) -> Result<TlsFiles, TlsError> {
    let (certificate, key) = (directory.join("cert.pem"), directory.join("key.pem"));
    let files = TlsFiles { certificate, key, authorities: None };
    if is_of_names(&files, names) { Ok(files) } else { self_signed(directory, names) }
}

/// True if the certificate can be read, belongs to its key, and has these names.
fn is_of_names(files: &TlsFiles, names: &[&str]) -> bool {
    let read = certificates(&files.certificate).ok().zip(PrivateKeyDer::from_pem_file(&files.key).ok());
    let Some((chain, key)) = read else { return false };
    let provider = aws_lc_rs::default_provider();
    let Ok(certified) = CertifiedKey::from_der(chain, key, &provider) else { return false };
    let Ok(own) = certified.end_entity_cert().and_then(ParsedCertificate::try_from) else { return false };
    let has =
        |name: &&str| ServerName::try_from(*name).is_ok_and(|name| verify_server_name(&own, &name).is_ok());
    // One that lacks a name is made anew: clients would refuse it for that name.
    names.iter().all(has)
}

/// Writes a fresh self-signed certificate for these names (DNS names or addresses) as `cert.pem` and
/// `key.pem`, the key readable by its owner only. For trying things out: every client has to be told to trust it.
pub fn self_signed(directory: &Path, names: &[&str]) -> Result<TlsFiles, TlsError> {
    let certificate = directory.join("cert.pem");
    let key = directory.join("key.pem");
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let made = rcgen::generate_simple_self_signed(names).map_err(|problem| error(&certificate, &problem))?;
    fs::create_dir_all(directory).map_err(|problem| error(directory, &problem))?;
    // The key first: a certificate without its key would be taken for a whole pair by its name.
    write_file(&key, &made.signing_key.serialize_pem(), 0o600).map_err(|problem| error(&key, &problem))?;
    write_file(&certificate, &made.cert.pem(), 0o644).map_err(|problem| error(&certificate, &problem))?;
    Ok(TlsFiles { certificate, key, authorities: None })
}

/// By renaming, so that a reader sees the old file or the new one, and so that the mode holds from the start.
fn write_file(path: &Path, content: &str, mode: u32) -> io::Result<()> {
    let fresh = path.with_extension("new");
    let _ = fs::remove_file(&fresh);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&fresh)?;
    file.write_all(content.as_bytes())?;
    file.sync_all()?;
    fs::rename(&fresh, path)
}
