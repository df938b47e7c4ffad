//! A session beside one of rustls with buffers, over bytes that come in pieces.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, RootCertStore, ServerConfig, SupportedProtocolVersion,
};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};

use crate::{ExporterSecrets, TlsSession, compact_provider, limits};

/// Both directions between two ends that do not block.
#[derive(Default)]
struct Pipe {
    to_server: VecDeque<u8>,
    to_client: VecDeque<u8>,
    /// Bytes that one read gives and that may wait, at most; 0: any number.
    piece: usize,
    room: usize,
}

struct End<'a> {
    from: &'a mut VecDeque<u8>,
    to: &'a mut VecDeque<u8>,
    piece: usize,
    room: usize,
}

impl Pipe {
    fn server(&mut self) -> End<'_> {
        End { from: &mut self.to_server, to: &mut self.to_client, piece: self.piece, room: self.room }
    }

    fn client(&mut self) -> End<'_> {
        End { from: &mut self.to_client, to: &mut self.to_server, piece: self.piece, room: self.room }
    }
}

impl Read for End<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.from.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let most = if self.piece == 0 { buffer.len() } else { self.piece.min(buffer.len()) };
        self.from.read(&mut buffer[..most])
    }
}

impl Write for End<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = if self.room == 0 { bytes.len() } else { self.room.saturating_sub(self.to.len()) };
        if room == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.to.write(&bytes[..bytes.len().min(room)])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn configs(version: &'static SupportedProtocolVersion) -> (Arc<ClientConfig>, ServerConfig) {
    configs_of(aws_lc_rs::default_provider(), version)
}

fn configs_of(
    provider: CryptoProvider,
    version: &'static SupportedProtocolVersion,
) -> (Arc<ClientConfig>, ServerConfig) {
    let provider = Arc::new(provider);
    let own = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let certificate = own.cert.der().clone();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(own.signing_key.serialize_der()));
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (Arc::new(client), server)
}

fn name() -> ServerName<'static> {
    ServerName::try_from("localhost").unwrap()
}

/// What a session reads, until nothing more is there.
fn read_all(session: &mut TlsSession, mut end: End<'_>, into: &mut Vec<u8>) -> io::Result<()> {
    let mut out = [0; 100];
    loop {
        match session.read(&mut end, &mut out) {
            Ok(0) => return Ok(()),
            Ok(count) => into.extend_from_slice(&out[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// A server's session and a client of rustls with buffers, past their handshake.
fn shaken(
    client: &Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    pipe: &mut Pipe,
) -> (ClientConnection, TlsSession) {
    let mut peer = ClientConnection::new(Arc::clone(client), name()).unwrap();
    let mut session = TlsSession::server(server).unwrap();
    let mut nothing = Vec::new();
    while peer.is_handshaking() || session.is_handshaking() {
        pump(&mut peer, pipe);
        read_all(&mut session, pipe.server(), &mut nothing).unwrap();
    }
    pump(&mut peer, pipe);
    assert!(nothing.is_empty());
    (peer, session)
}

/// Lets the peer write and read all it can.
fn pump(peer: &mut ClientConnection, pipe: &mut Pipe) {
    while peer.wants_write() && peer.write_tls(&mut pipe.client()).is_ok() {}
    while peer.read_tls(&mut pipe.client()).is_ok_and(|count| count > 0) {
        peer.process_new_packets().unwrap();
    }
    while peer.wants_write() && peer.write_tls(&mut pipe.client()).is_ok() {}
}

fn plain_of(peer: &mut ClientConnection) -> Vec<u8> {
    let mut plain = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = peer.reader().read(&mut buffer) {
        plain.extend_from_slice(&buffer[..count]);
    }
    plain
}

#[test]
fn bytes_go_both_ways_and_nothing_is_held_when_idle() {
    for version in [&TLS12, &TLS13] {
        for piece in [0, 1, 700] {
            let (client, server) = configs(version);
            let mut pipe = Pipe { piece, ..Pipe::default() };
            let (mut peer, mut session) = shaken(&client, Arc::new(server), &mut pipe);
            let long = vec![7; 40_000];
            peer.writer().write_all(&long).unwrap();
            let mut heard = Vec::new();
            while peer.wants_write() {
                peer.write_tls(&mut pipe.client()).unwrap();
                read_all(&mut session, pipe.server(), &mut heard).unwrap();
            }
            assert!(heard == long, "{} bytes", heard.len());
            let slices = [IoSlice::new(b"one, "), IoSlice::new(b""), IoSlice::new(b"two")];
            assert_eq!(session.write_vectored(&mut pipe.server(), &slices).unwrap(), 8);
            assert_eq!(session.write(&mut pipe.server(), &long).unwrap(), long.len());
            let mut at_peer = Vec::new();
            while !pipe.to_client.is_empty() {
                // The peer reads no more than it has room for.
                pump(&mut peer, &mut pipe);
                at_peer.extend(plain_of(&mut peer));
            }
            assert!(at_peer == [&b"one, two"[..], &long].concat(), "{} bytes", at_peer.len());
            assert_eq!(session.held(), 0);
        }
    }
}

#[test]
fn both_sides_may_be_sessions_and_early_bytes_wait_for_the_handshake() {
    let (client, server) = configs(&TLS13);
    let mut pipe = Pipe::default();
    let mut client = TlsSession::client(client, name()).unwrap();
    let mut server = TlsSession::server(Arc::new(server)).unwrap();
    assert_eq!(client.write(&mut pipe.client(), b"hello").unwrap(), 5);
    let (mut at_server, mut at_client) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        read_all(&mut server, pipe.server(), &mut at_server).unwrap();
        read_all(&mut client, pipe.client(), &mut at_client).unwrap();
    }
    assert_eq!(at_server, b"hello");
    assert_eq!((client.held(), server.held()), (0, 0));
}

#[test]
fn records_that_the_socket_does_not_take_wait_and_keep_their_order() {
    let (client, server) = configs(&TLS13);
    let mut pipe = Pipe::default();
    let (mut peer, mut session) = shaken(&client, Arc::new(server), &mut pipe);
    pipe.room = 1_000;
    assert_eq!(session.write(&mut pipe.server(), &[1; 3_000]).unwrap(), 3_000);
    let refused = session.write(&mut pipe.server(), &[2; 10]).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
    assert!(session.held() > 2_000);
    let mut heard = Vec::new();
    loop {
        let is_done = session.flush(&mut pipe.server()).is_ok();
        pump(&mut peer, &mut pipe);
        heard.extend(plain_of(&mut peer));
        if is_done {
            break;
        }
    }
    assert_eq!(session.write(&mut pipe.server(), &[2; 10]).unwrap(), 10);
    pump(&mut peer, &mut pipe);
    heard.extend(plain_of(&mut peer));
    assert_eq!(heard, [&[1; 3_000][..], &[2; 10]].concat());
}

#[test]
fn keys_are_exported_as_rustls_exports_them() {
    for suite in aws_lc_rs::DEFAULT_CIPHER_SUITES.iter().filter(|suite| suite.tls13().is_some()) {
        let provider = CryptoProvider { cipher_suites: vec![*suite], ..aws_lc_rs::default_provider() };
        let (client, mut server) = configs_of(provider, &TLS13);
        ExporterSecrets::keep(&mut server);
        let (peer, mut session) = shaken(&client, Arc::new(server), &mut Pipe::default());
        let label = b"EXPORTER-Channel-Binding";
        let exporter = session.take_exporter().expect("the secret was kept");
        let expected = peer.export_keying_material([0; 32], label, Some(b"")).unwrap();
        assert_eq!(exporter.export(label, b"").unwrap(), expected, "{suite:?}");
        let expected = peer.export_keying_material([0; 32], label, Some(b"context")).unwrap();
        assert_eq!(exporter.export(label, b"context").unwrap(), expected, "{suite:?}");
        assert!(session.take_exporter().is_none(), "the secret is kept no longer than it is asked for");
    }
}

/// Also that the secret of one handshake is never another's.
#[test]
fn no_keys_are_exported_without_being_asked_for_nor_before_tls_1_3() {
    let (client, mut server) = configs(&TLS12);
    ExporterSecrets::keep(&mut server);
    let (_, mut session) = shaken(&client, Arc::new(server), &mut Pipe::default());
    assert!(session.take_exporter().is_none(), "TLS 1.2");
    let (client, mut server) = configs(&TLS13);
    let silent = Arc::new(server.clone());
    ExporterSecrets::keep(&mut server);
    let (_, _kept) = shaken(&client, Arc::new(server), &mut Pipe::default());
    let (_, mut session) = shaken(&client, silent, &mut Pipe::default());
    assert!(session.take_exporter().is_none(), "secrets are not kept");
}

#[test]
fn the_peer_may_change_its_keys_and_resume_its_session() {
    let (client, mut server) = configs(&TLS13);
    server.ticketer = aws_lc_rs::Ticketer::new().unwrap();
    let server = Arc::new(server);
    let mut pipe = Pipe { piece: 3, ..Pipe::default() };
    let (mut peer, mut session) = shaken(&client, Arc::clone(&server), &mut pipe);
    let mut heard = Vec::new();
    for part in [b"before", b"after_"] {
        peer.writer().write_all(part).unwrap();
        peer.refresh_traffic_keys().unwrap();
        pump(&mut peer, &mut pipe);
        read_all(&mut session, pipe.server(), &mut heard).unwrap();
        session.write(&mut pipe.server(), b"!").unwrap();
        pump(&mut peer, &mut pipe);
        assert_eq!(plain_of(&mut peer), b"!");
    }
    assert_eq!(heard, b"beforeafter_");
    let (_, resumed) = shaken(&client, server, &mut Pipe::default());
    assert_eq!(resumed.handshake_kind(), Some(HandshakeKind::Resumed));
}

#[test]
fn each_side_learns_that_the_other_closes() {
    for version in [&TLS12, &TLS13] {
        let (client, server) = configs(version);
        let mut pipe = Pipe::default();
        let (mut peer, mut session) = shaken(&client, Arc::new(server), &mut pipe);
        peer.writer().write_all(b"last words").unwrap();
        peer.send_close_notify();
        pump(&mut peer, &mut pipe);
        let mut out = [0; 100];
        assert_eq!(session.read(&mut pipe.server(), &mut out).unwrap(), 10);
        assert_eq!(session.read(&mut pipe.server(), &mut out).unwrap(), 0);
        session.write(&mut pipe.server(), b"as well").unwrap();
        session.close();
        session.flush(&mut pipe.server()).unwrap();
        assert_eq!(
            session.write(&mut pipe.server(), b"no more").unwrap_err().kind(),
            io::ErrorKind::BrokenPipe
        );
        pump(&mut peer, &mut pipe);
        let mut all = Vec::new();
        assert_eq!(peer.reader().read_to_end(&mut all).unwrap(), 7, "it ended with the word for it");
    }
}

#[test]
fn a_record_that_was_changed_is_a_fault_that_the_peer_learns_of() {
    let (client, server) = configs(&TLS13);
    let mut pipe = Pipe::default();
    let (mut peer, mut session) = shaken(&client, Arc::new(server), &mut pipe);
    peer.writer().write_all(b"hello").unwrap();
    peer.write_tls(&mut pipe.client()).unwrap();
    *pipe.to_server.back_mut().unwrap() ^= 1;
    for _ in 0..2 {
        let fault = session.read(&mut pipe.server(), &mut [0; 100]).unwrap_err();
        assert_eq!(fault.kind(), io::ErrorKind::InvalidData);
    }
    peer.read_tls(&mut pipe.client()).unwrap();
    assert_eq!(
        peer.process_new_packets().unwrap_err(),
        rustls::Error::AlertReceived(rustls::AlertDescription::BadRecordMac)
    );
}

#[test]
fn a_record_or_handshake_that_does_not_end_is_refused() {
    let (client, server) = configs(&TLS13);
    let mut pipe = Pipe::default();
    let mut session = TlsSession::server(Arc::new(server.clone())).unwrap();
    // A handshake message of 2^24 - 1 bytes in records of 2^14.
    let record = [&[22, 3, 1, 0x40, 0][..], &[1, 0xff, 0xff, 0xff], &[0; (1 << 14) - 4]].concat();
    pipe.to_server.extend(record.iter().cycle().take(2 * limits::HANDSHAKE));
    let fault = read_all(&mut session, pipe.server(), &mut Vec::new()).unwrap_err();
    assert_eq!(fault.kind(), io::ErrorKind::InvalidData);
    assert!(session.held() <= limits::HANDSHAKE + 2 * limits::RECORD, "{}", session.held());
    let mut pipe = Pipe::default();
    let (_, mut session) = shaken(&client, Arc::new(server), &mut pipe);
    pipe.to_server.extend([23, 3, 3, 0xff, 0xff]);
    pipe.to_server.extend([0; 100]);
    let fault = read_all(&mut session, pipe.server(), &mut Vec::new()).unwrap_err();
    assert_eq!(fault.kind(), io::ErrorKind::InvalidData);
}

/// A peer with the keys of rustls reads what ours write, and the other way round, with each suite of TLS 1.3 and after a change of keys.
#[test]
fn keys_that_are_expanded_for_each_record_are_those_of_rustls() {
    let compact = compact_provider();
    let mut suites = 0;
    for suite in compact.cipher_suites.iter().filter(|suite| suite.tls13().is_some()) {
        let of_rustls =
            aws_lc_rs::DEFAULT_CIPHER_SUITES.iter().find(|other| other.suite() == suite.suite()).unwrap();
        assert!(!std::ptr::eq(suite.tls13().unwrap(), of_rustls.tls13().unwrap()), "{suite:?} is compact");
        let provider = CryptoProvider { cipher_suites: vec![*of_rustls], ..aws_lc_rs::default_provider() };
        let (client, mut server) = configs_of(provider, &TLS13);
        let ours = CryptoProvider { cipher_suites: vec![*suite], ..compact_provider() };
        server = ServerConfig::builder_with_provider(Arc::new(ours))
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(server.cert_resolver);
        let mut pipe = Pipe::default();
        let (mut peer, mut session) = shaken(&client, Arc::new(server), &mut pipe);
        let mut heard = Vec::new();
        for length in [1, 1_000, 20_000] {
            let sent = vec![5; length];
            peer.writer().write_all(&sent).unwrap();
            peer.refresh_traffic_keys().unwrap();
            pump(&mut peer, &mut pipe);
            heard.clear();
            read_all(&mut session, pipe.server(), &mut heard).unwrap();
            assert!(heard == sent, "{suite:?}, {length}");
            session.write(&mut pipe.server(), &sent).unwrap();
            let mut at_peer = Vec::new();
            while !pipe.to_client.is_empty() {
                pump(&mut peer, &mut pipe);
                at_peer.extend(plain_of(&mut peer));
            }
            assert!(at_peer == sent, "{suite:?}, {length}");
        }
        suites += 1;
    }
    assert_eq!(suites, 3);
    assert_eq!(
        compact.cipher_suites.len(),
        aws_lc_rs::DEFAULT_CIPHER_SUITES.len(),
        "suites of TLS 1.2 are as they were"
    );
}

#[test]
fn a_record_shorter_than_its_tag_is_a_fault() {
    let (client, server) = configs_of(compact_provider(), &TLS13);
    let mut pipe = Pipe::default();
    let (_, mut session) = shaken(&client, Arc::new(server), &mut pipe);
    pipe.to_server.extend([23, 3, 3, 0, 5, 1, 2, 3, 4, 5]);
    let fault = read_all(&mut session, pipe.server(), &mut Vec::new()).unwrap_err();
    assert_eq!(fault.kind(), io::ErrorKind::InvalidData);
}
