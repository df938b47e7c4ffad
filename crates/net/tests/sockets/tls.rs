use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use net::admission::{Admission, Bounds};
use net::clock::Clock;
use net::tickets::TicketKeys;
use net::tls::{Tls, TlsFiles, own_certificate, self_signed};
use net::{ClientCertificates, CloseReason, NetSettings, SendFault};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use sip::transport::Transport::Tls as TlsTransport;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, HandshakeKind, RootCertStore};

use super::*;

/// An authority that lives in a directory: `ca.pem`, and what it certified last as `cert.pem`, `key.pem`.
pub(super) struct Authority {
    pub(super) directory: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(super) fn new(names: &[&str]) -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let authority = Authority { directory: TempDir::new().unwrap(), issuer };
        authority.write("ca.pem", &authority.issuer.pem());
        authority.certify(names);
        authority
    }

    fn write(&self, name: &str, content: &str) {
        std::fs::write(self.directory.path().join(name), content).unwrap();
    }

    fn certify(&self, names: &[&str]) {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer).unwrap();
        self.write("cert.pem", &certificate.pem());
        self.write("key.pem", &key.serialize_pem());
    }

    fn files(&self) -> TlsFiles {
        let at = |name: &str| self.directory.path().join(name);
        TlsFiles { certificate: at("cert.pem"), key: at("key.pem"), authorities: Some(at("ca.pem")) }
    }

    pub(super) fn settings(&self) -> NetSettings {
        NetSettings { tls: Some(Tls::load(self.files(), tickets()).unwrap()), ..NetSettings::default() }
    }
}

/// A client that trusts `ca` and expects `name`.
pub(super) async fn client(
    address: SocketAddr,
    ca: &Path,
    name: &str,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca).unwrap()).unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let socket = TcpStream::connect(address).await?;
    TlsConnector::from(Arc::new(config)).connect(ServerName::try_from(name.to_owned()).unwrap(), socket).await
}

fn tickets() -> TicketKeys {
    TicketKeys::new([7; 32], Clock::new())
}

fn shard(settings: NetSettings) -> (Shard, SocketAddr) {
    let mut shard = Shard::new(settings);
    let address = shard.bind(TlsTransport, "127.0.0.1:0").address;
    (shard, address)
}

#[test]
fn messages_go_both_ways_over_tls() {
    run(async {
        let authority = Authority::new(&["sip.example"]);
        let (mut shard, address) = shard(authority.settings());
        let ca = authority.directory.path().join("ca.pem");
        let mut peer = shard.during(client(address, &ca, "sip.example")).await.unwrap();
        peer.write_all(&message("in")).await.unwrap();
        let packet = shard.packet().await;
        assert_eq!((packet.source.transport, &packet.bytes[..]), (TlsTransport, &message("in")[..]));
        shard.io.send(on_flow(&packet.source, &message("out"), 1));
        let mut answer = vec![0; message("out").len()];
        shard.during(peer.read_exact(&mut answer)).await.unwrap();
        assert_eq!(answer, message("out"));
    });
}

#[test]
fn a_burst_larger_than_any_buffer_arrives_whole() {
    run(async {
        let authority = Authority::new(&["sip.example"]);
        let (mut shard, address) = shard(authority.settings());
        let ca = authority.directory.path().join("ca.pem");
        let mut peer = shard.during(client(address, &ca, "sip.example")).await.unwrap();
        let source = shard.opened().await;
        let mut burst = b"X\r\nl: 200000\r\n\r\n".to_vec();
        burst.resize(burst.len() + 200_000, b'x');
        for report in 0..5 {
            shard.io.send(on_flow(&source, &burst, report));
        }
        let mut got = vec![0; burst.len() * 5];
        shard.during(peer.read_exact(&mut got)).await.unwrap();
        assert_eq!(got, burst.repeat(5));
        shard.during(peer.write_all(&burst)).await.unwrap();
        shard.during(peer.flush()).await.unwrap();
        assert_eq!(shard.packet().await.bytes, burst);
    });
}

#[test]
fn peers_are_verified_by_authority_and_name() {
    run(async {
        let authority = Authority::new(&["sip.example", "127.0.0.1"]);
        let (mut shard, address) = shard(authority.settings());
        let mut named = transmit(TlsTransport, address, &message("named"), 1);
        named.target.tls_name = Some("sip.example".into());
        shard.io.send(named);
        assert_eq!(shard.packet().await.bytes, message("named"));
        // Without a name the certificate has to be for the address.
        shard.send(TlsTransport, address, &message("address"), 2);
        assert_eq!(shard.packet().await.bytes, message("address"));

        let mut wrong = transmit(TlsTransport, address, &message("wrong"), 3);
        wrong.target.tls_name = Some("other.example".into());
        shard.io.send(wrong);
        let refused = (TransmitId(3), SendFault::Closed(CloseReason::HandshakeFailed));
        assert_eq!(shard.failed().await, refused);
        assert_eq!(shard.io.counters().flows_connected, 3);
    });
}

#[test]
fn an_unknown_authority_is_refused() {
    run(async {
        let (_server, address) = {
            let authority = Authority::new(&["127.0.0.1"]);
            let (server, address) = shard(authority.settings());
            (server, address)
        };
        let (mut shard, _) = shard(Authority::new(&["127.0.0.1"]).settings());
        shard.send(TlsTransport, address, &message("1"), 1);
        let refused = (TransmitId(1), SendFault::Closed(CloseReason::HandshakeFailed));
        assert_eq!(shard.failed().await, refused);
    });
}

#[test]
fn a_changed_certificate_serves_new_connections_and_a_broken_one_is_not_taken() {
    run(async {
        let authority = Authority::new(&["old.example"]);
        let settings = authority.settings();
        let tls = settings.tls.clone().unwrap();
        let (mut shard, address) = shard(settings);
        let ca = authority.directory.path().join("ca.pem");
        let mut old = shard.during(client(address, &ca, "old.example")).await.unwrap();
        assert!(!tls.reload_if_changed().unwrap());

        authority.certify(&["new.name.example"]);
        assert!(tls.reload_if_changed().unwrap());
        shard.during(client(address, &ca, "new.name.example")).await.unwrap();
        shard.during(client(address, &ca, "old.example")).await.expect_err("not its name any more");
        old.write_all(&message("still here")).await.unwrap();
        assert_eq!(shard.packet().await.bytes, message("still here"));

        authority.write("cert.pem", "nothing of use");
        let error = tls.reload().unwrap_err();
        assert!(error.file.ends_with("cert.pem"), "{error}");
        shard.during(client(address, &ca, "new.name.example")).await.unwrap();
    });
}

#[test]
fn another_file_with_certificate_and_key_serves_new_connections_and_a_broken_one_is_not_taken() {
    run(async {
        let authority = Authority::new(&["old.example"]);
        let settings = authority.settings();
        let tls = settings.tls.clone().unwrap();
        let (mut shard, address) = shard(settings);
        let folder = authority.directory.path();
        let (ca, both) = (folder.join("ca.pem"), folder.join("both.pem"));
        assert_eq!(tls.shown().name.as_deref(), Some("old.example"));

        authority.certify(&["ordered.example"]);
        let parts = ["cert.pem", "key.pem"].map(|name| std::fs::read_to_string(folder.join(name)).unwrap());
        authority.write("both.pem", &parts.concat());
        tls.use_certificate(both.clone(), both.clone()).unwrap();
        assert_eq!(tls.shown().name.as_deref(), Some("ordered.example"));
        assert_eq!(tls.certificate_file(), both);
        shard.during(client(address, &ca, "ordered.example")).await.unwrap();
        assert!(!tls.reload_if_changed().unwrap(), "it was just read");

        authority.write("other.pem", "nothing of use");
        let other = folder.join("other.pem");
        assert_eq!(tls.use_certificate(other.clone(), other.clone()).unwrap_err().file, other);
        assert_eq!(tls.certificate_file(), both);
        shard.during(client(address, &ca, "ordered.example")).await.unwrap();
    });
}

#[test]
fn a_connection_without_a_tls_handshake_is_closed() {
    run(async {
        let settings = NetSettings {
            handshake_timeout: Duration::from_millis(50),
            admission: Admission::new(Bounds { total: 1, per_source: 1 }),
            ..Authority::new(&["sip.example"]).settings()
        };
        let (mut shard, address) = shard(settings);
        let mut silent = TcpStream::connect(address).await.unwrap();
        let mut too_many = TcpStream::connect(address).await.unwrap();
        assert_eq!(shard.during(too_many.read(&mut [0; 1])).await.unwrap(), 0);
        assert_eq!(shard.io.counters().flows_refused, 1);
        assert_eq!(shard.during(silent.read(&mut [0; 1])).await.unwrap(), 0);
        let mut babbling = TcpStream::connect(address).await.unwrap();
        babbling.write_all(&message("plain")).await.unwrap();
        let mut alert = Vec::new();
        // The close may reach us as a reset.
        let _ = shard.during(babbling.read_to_end(&mut alert)).await;
        let counters = shard.io.counters();
        assert_eq!((counters.handshake_failures, counters.flows_open), (2, 0));
        assert!(shard.events.is_empty(), "a flow that never opened does not close either");
    });
}

/// Connects with a certificate for `names` that `by` has signed, to a server of `authority`.
async fn certified_client(
    address: SocketAddr,
    authority: &Authority,
    by: &Authority,
    names: &[&str],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority.directory.path().join("ca.pem")).unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &by.issuer).unwrap();
    let key = tokio_rustls::rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let socket = TcpStream::connect(address).await?;
    TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("sip.example").unwrap(), socket).await
}

/// The verified certificates, in the order in which they were told.
fn certified(shard: &mut Shard) -> Vec<(FlowId, Option<Vec<String>>)> {
    let mut certified = Vec::new();
    shard.io.take_certified(&mut certified);
    let named = |names: &[Box<str>]| names.iter().map(|name| name.to_string()).collect();
    certified.iter().map(|one| (one.flow, one.names.as_deref().map(named))).collect()
}

/// RFC 5922 §7: the names go with the connection, from before its first message until it closes.
#[test]
fn a_client_is_known_by_a_certificate_that_an_authority_vouches_for() {
    run(async {
        let authority = Authority::new(&["sip.example"]);
        let (mut shard, address) = shard(authority.settings());
        let names = ["Trunk.example", "*.example", "b.example"];
        let mut trunk =
            shard.during(certified_client(address, &authority, &authority, &names)).await.unwrap();
        trunk.write_all(&message("1")).await.unwrap();
        let packet = shard.packet().await;
        let flow = packet.source.flow.unwrap();
        let expected = vec!["trunk.example".to_owned(), "b.example".to_owned()];
        assert_eq!(certified(&mut shard), [(flow, Some(expected))]);
        drop(trunk);
        assert_eq!(shard.closed().await.0, flow);
        assert_eq!(certified(&mut shard), [(flow, None)]);

        let ca = authority.directory.path().join("ca.pem");
        let mut phone = shard.during(client(address, &ca, "sip.example")).await.unwrap();
        phone.write_all(&message("2")).await.unwrap();
        assert_eq!(shard.packet().await.bytes, message("2"));
        let other = Authority::new(&[]);
        let mut forged = shard.during(certified_client(address, &authority, &other, &names)).await.unwrap();
        forged.write_all(&message("3")).await.unwrap();
        assert_eq!(shard.packet().await.bytes, message("3"), "it is served as a phone is");
        assert_eq!(certified(&mut shard), []);
        let counters = shard.io.counters();
        assert_eq!((counters.client_certificates, counters.client_certificates_unverified), (1, 1));
    });
}

#[test]
fn a_certificate_that_no_authority_vouches_for_ends_the_connection_where_the_operator_says_so() {
    run(async {
        let authority = Authority::new(&["sip.example"]);
        let settings =
            NetSettings { client_certificates: ClientCertificates::Verified, ..authority.settings() };
        let (mut shard, address) = shard(settings);
        let other = Authority::new(&[]);
        let forged = shard.during(certified_client(address, &authority, &other, &["trunk.example"])).await;
        // With TLS 1.3 the client is done before the server judges.
        if let Ok(mut forged) = forged {
            let _ = forged.write_all(&message("1")).await;
            assert_eq!(shard.during(forged.read(&mut [0; 1])).await.unwrap_or(0), 0);
        }
        assert_eq!(shard.io.counters().handshake_failures, 1);
        let ca = authority.directory.path().join("ca.pem");
        let mut phone = shard.during(client(address, &ca, "sip.example")).await.unwrap();
        phone.write_all(&message("2")).await.unwrap();
        assert_eq!(shard.packet().await.bytes, message("2"), "a phone has no certificate");
    });
}

/// After a restart, or at another node with the same secret, clients do not shake hands in full.
#[test]
fn a_session_is_resumed_by_another_process_with_the_secret() {
    run(async {
        let authority = Authority::new(&["sip.example"]);
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(authority.directory.path().join("ca.pem")).unwrap()).unwrap();
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let connector = TlsConnector::from(Arc::new(config));
        let mut kinds = Vec::new();
        for _ in 0..2 {
            let (mut shard, address) = shard(authority.settings());
            let connect = async {
                let socket = TcpStream::connect(address).await.unwrap();
                connector.connect(ServerName::try_from("sip.example").unwrap(), socket).await.unwrap()
            };
            let mut peer = shard.during(connect).await;
            peer.write_all(&message("in")).await.unwrap();
            let packet = shard.packet().await;
            // The ticket comes before the first bytes of the server.
            shard.io.send(on_flow(&packet.source, &message("out"), 1));
            let mut answer = vec![0; message("out").len()];
            shard.during(peer.read_exact(&mut answer)).await.unwrap();
            kinds.push(peer.get_ref().1.handshake_kind());
        }
        assert_eq!(kinds, [Some(HandshakeKind::Full), Some(HandshakeKind::Resumed)]);
    });
}

#[test]
fn many_handshakes_at_once_all_come_through() {
    run(async {
        let authority = Authority::new(&["sip.example"]);
        let (mut shard, address) = shard(NetSettings { max_handshakes: 2, ..authority.settings() });
        let ca = authority.directory.path().join("ca.pem");
        let mut clients = tokio::task::JoinSet::new();
        for _ in 0..40 {
            let ca = ca.clone();
            clients.spawn_local(async move { client(address, &ca, "sip.example").await.unwrap() });
        }
        let open = shard.during(clients.join_all()).await;
        assert_eq!((open.len(), shard.io.counters().handshake_failures), (40, 0));
    });
}

#[test]
fn the_self_signed_certificate_works_and_its_key_is_private() {
    run(async {
        let directory = TempDir::new().unwrap();
        let files = self_signed(directory.path(), &["localhost", "127.0.0.1"]).unwrap();
        assert_eq!(std::fs::metadata(&files.key).unwrap().permissions().mode() & 0o777, 0o600);
        let trusted = files.certificate.clone();
        let (mut shard, address) =
            shard(NetSettings { tls: Some(Tls::load(files, tickets()).unwrap()), ..NetSettings::default() });
        shard.during(client(address, &trusted, "localhost")).await.unwrap();
        shard.during(client(address, &trusted, "127.0.0.1")).await.unwrap();
    });
}

#[test]
fn the_self_signed_certificate_stays_while_it_has_the_names() {
    let directory = TempDir::new().unwrap();
    let made = |names: &[&str]| {
        let files = own_certificate(directory.path(), names).unwrap();
        std::fs::read_to_string(files.certificate).unwrap()
    };
    let first = made(&["localhost", "example.net", "127.0.0.1"]);
    assert_eq!(made(&["example.net", "127.0.0.1"]), first, "of the start before");
    let other = made(&["example.org"]);
    assert_ne!(other, first, "it has no such name");
    let key = directory.path().join("key.pem");
    std::fs::write(&key, std::fs::read_to_string(&key).unwrap().replace("PRIVATE", "NO")).unwrap();
    assert_ne!(made(&["example.org"]), other, "its key is lost");
}

#[test]
fn without_a_certificate_there_is_no_tls_listener() {
    run(async {
        let listener = Listener { transport: TlsTransport, address: "127.0.0.1:0".parse().unwrap() };
        let error = Io::new(ShardAddress { life: Life(1), shard: 0 }, NetSettings::default())
            .bind(&listener)
            .unwrap_err();
        assert!(error.to_string().contains("certificate"), "{error}");
    });
}
