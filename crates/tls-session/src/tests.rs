//! A session beside one of rustls with buffers, over bytes that come in pieces.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, RootCertStore, ServerConfig, SupportedProtocolVersion,
};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};

use crate::{ExporterSecrets, TlsSession, limits};

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

/// The bytes that a session reads, until nothing more is there.
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

#[test]
fn a_record_shorter_than_its_tag_is_a_fault() {
    let (client, server) = configs(&TLS13);
    let mut pipe = Pipe::default();
    let (_, mut session) = shaken(&client, Arc::new(server), &mut pipe);
    pipe.to_server.extend([23, 3, 3, 0, 5, 1, 2, 3, 4, 5]);
    let fault = read_all(&mut session, pipe.server(), &mut Vec::new()).unwrap_err();
    assert_eq!(fault.kind(), io::ErrorKind::InvalidData);
}

/// The bytes in front of the fault are the peer's, and none of those behind them comes before the fault is reported.
#[test]
fn plain_bytes_before_a_fault_are_read_and_then_the_fault() {
    let (client, server) = configs(&TLS13);
    let mut pipe = Pipe::default();
    let (mut peer, mut session) = shaken(&client, Arc::new(server), &mut pipe);
    peer.writer().write_all(b"first, second").unwrap();
    pump(&mut peer, &mut pipe);
    peer.writer().write_all(b"changed").unwrap();
    pump(&mut peer, &mut pipe);
    *pipe.to_server.back_mut().unwrap() ^= 1;
    let mut heard = Vec::new();
    let mut out = [0; 5];
    let fault = loop {
        match session.read(&mut pipe.server(), &mut out) {
            Ok(count) => heard.extend_from_slice(&out[..count]),
            Err(fault) => break fault,
        }
    };
    assert_eq!((fault.kind(), &heard[..]), (io::ErrorKind::InvalidData, &b"first, second"[..]));
    let problem = fault.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    assert_eq!(problem, Some(&rustls::Error::DecryptError));
    let sent = pipe.to_client.len();
    let refused = session.write(&mut pipe.server(), b"more").unwrap_err();
    session.close();
    session.flush(&mut pipe.server()).unwrap();
    assert_eq!(refused.kind(), io::ErrorKind::BrokenPipe);
    assert_eq!((pipe.to_client.len(), session.held()), (sent, 0), "nothing is sent behind the alert");
}

/// RFC 8446 §6.1: data after the closure alert is ignored. A truncated stream is told apart from one that was closed.
#[test]
fn nothing_is_read_behind_the_word_that_closes_and_an_end_without_it_is_an_error() {
    struct Ended<'a>(End<'a>);
    impl Read for Ended<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0.from.is_empty() { Ok(0) } else { self.0.read(buffer) }
        }
    }
    impl Write for Ended<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    for version in [&TLS12, &TLS13] {
        for says_so in [false, true] {
            let (client, server) = configs(version);
            let mut pipe = Pipe::default();
            let (mut peer, mut session) = shaken(&client, Arc::new(server), &mut pipe);
            peer.writer().write_all(b"whole").unwrap();
            pump(&mut peer, &mut pipe);
            if says_so {
                peer.send_close_notify();
                pump(&mut peer, &mut pipe);
            }
            // The beginning of a record.
            pipe.to_server.extend([23, 3, 3, 0, 50, 1, 2, 3]);
            let mut out = [0; 100];
            let mut end = Ended(pipe.server());
            assert_eq!(session.read(&mut end, &mut out).unwrap(), 5);
            match session.read(&mut end, &mut out) {
                Ok(count) => assert_eq!((says_so, count), (true, 0)),
                Err(error) => assert_eq!((says_so, error.kind()), (false, io::ErrorKind::UnexpectedEof)),
            }
            if says_so {
                assert_eq!(session.held(), 0, "bytes behind it are not kept");
            }
        }
    }
}

/// A task that writes waits for the socket, and another one reads: a socket wakes the task that has written last.
#[test]
fn reading_writes_nothing_while_earlier_records_wait() {
    let (client, server) = configs(&TLS13);
    let mut pipe = Pipe::default();
    let (mut peer, mut session) = shaken(&client, Arc::new(server), &mut pipe);
    pipe.room = 100;
    session.write(&mut pipe.server(), &[1; 3_000]).unwrap();
    assert_eq!(session.flush(&mut pipe.server()).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    let (sent, waiting) = (std::mem::take(&mut pipe.to_client), session.held());
    pipe.room = 0;
    peer.writer().write_all(b"hello").unwrap();
    pump(&mut peer, &mut pipe);
    let mut heard = Vec::new();
    read_all(&mut session, pipe.server(), &mut heard).unwrap();
    assert_eq!((&heard[..], pipe.to_client.len(), session.held()), (&b"hello"[..], 0, waiting));
    pipe.to_client = sent;
    session.flush(&mut pipe.server()).unwrap();
    pump(&mut peer, &mut pipe);
    assert_eq!(plain_of(&mut peer), [1; 3_000]);
}

/// RFC 8446 §5.1: messages of a handshake, tickets among them, may be fragmented over records.
#[test]
fn bytes_are_written_while_a_message_of_the_handshake_has_not_come_whole() {
    for version in [&TLS12, &TLS13] {
        let (client, mut server) = configs(version);
        server.ticketer = aws_lc_rs::Ticketer::new().unwrap();
        server.max_fragment_size = Some(64);
        let mut pipe = Pipe { piece: 50, ..Pipe::default() };
        let mut peer = rustls::ServerConnection::new(Arc::new(server)).unwrap();
        let mut session = TlsSession::client(client, name()).unwrap();
        session.write(&mut pipe.client(), b"early").unwrap();
        let (mut out, mut heard, mut written) = ([0; 100], Vec::new(), 0);
        while written < 200 {
            while peer.read_tls(&mut pipe.server()).is_ok_and(|count| count > 0) {
                peer.process_new_packets().unwrap();
                let mut plain = [0; 100];
                while let Ok(count @ 1..) = peer.reader().read(&mut plain) {
                    heard.extend_from_slice(&plain[..count]);
                }
            }
            while peer.wants_write() {
                peer.write_tls(&mut pipe.server()).unwrap();
            }
            // One piece, also of what has come by now.
            let mut piece = pipe.to_client.drain(..pipe.to_client.len().min(50)).collect::<VecDeque<u8>>();
            let mut end = End { from: &mut piece, to: &mut pipe.to_server, piece: 0, room: 0 };
            assert_eq!(session.read(&mut end, &mut out).unwrap_err().kind(), io::ErrorKind::WouldBlock);
            if !session.is_handshaking() {
                written += session.write(&mut end, b"x").unwrap();
            }
        }
        assert!(heard.starts_with(b"earlyxxxx"), "{heard:?}");
        assert_eq!(session.held(), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// However the bytes come and wherever they are read to: the handshake, records of any length, changes of keys, and the end.
    #[test]
    fn bytes_in_any_pieces_are_the_same_bytes(
        is_old in any::<bool>(),
        parts in vec((any::<u8>(), 1..20_000_usize), 1..5),
        pieces in vec(prop_oneof![1..8_usize, 1..2_000_usize, 1..70_000_usize], 1..20),
        room in prop_oneof![1..20_usize, 1..40_000_usize],
        changes_keys in any::<bool>(),
    ) {
        let (client, server) = configs(if is_old { &TLS12 } else { &TLS13 });
        let mut pipe = Pipe::default();
        let mut peer = ClientConnection::new(client, name()).unwrap();
        peer.set_buffer_limit(None);
        let mut session = TlsSession::server(Arc::new(server)).unwrap();
        let (mut sent, mut heard) = (Vec::new(), Vec::new());
        let mut parts = parts.into_iter();
        let mut pieces = pieces.iter().cycle();
        let mut out = vec![0; room];
        let mut has_closed = false;
        loop {
            pump(&mut peer, &mut pipe);
            if !peer.is_handshaking() && pipe.to_server.is_empty() {
                match parts.next() {
                    Some((byte, length)) => {
                        let part = vec![byte; length];
                        peer.writer().write_all(&part).unwrap();
                        sent.extend(part);
                        if changes_keys && !is_old {
                            peer.refresh_traffic_keys().unwrap();
                        }
                    }
                    None if !has_closed => {
                        peer.send_close_notify();
                        has_closed = true;
                    }
                    None => break,
                }
                pump(&mut peer, &mut pipe);
            }
            pipe.piece = *pieces.next().unwrap();
            loop {
                match session.read(&mut pipe.server(), &mut out) {
                    Ok(0) => break,
                    Ok(count) => heard.extend_from_slice(&out[..count]),
                    Err(error) => {
                        prop_assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                        break;
                    }
                }
                pipe.piece = *pieces.next().unwrap();
            }
            prop_assert!(session.held() <= limits::RECORD);
        }
        prop_assert!(heard == sent, "{} of {} bytes", heard.len(), sent.len());
        prop_assert_eq!(session.held(), 0);
    }

    /// A stranger's bytes: no panic, no endless loop, and no more is kept than a handshake may have.
    #[test]
    fn strange_bytes_end_in_a_fault_or_wait(
        kind in prop_oneof![Just(20_u8), Just(21), Just(22), Just(23), any::<u8>()],
        records in vec(vec(any::<u8>(), 0..40), 0..40),
        is_shaken in any::<bool>(),
        piece in 0..20_usize,
    ) {
        let (client, server) = configs(&TLS13);
        let mut pipe = Pipe::default();
        let server = Arc::new(server);
        let mut session = if is_shaken {
            shaken(&client, server, &mut pipe).1
        } else {
            TlsSession::server(server).unwrap()
        };
        for record in records {
            pipe.to_server.extend([kind, 3, 3, 0, u8::try_from(record.len()).unwrap()]);
            pipe.to_server.extend(record);
        }
        pipe.piece = piece;
        let mut heard = Vec::new();
        let _ = read_all(&mut session, pipe.server(), &mut heard);
        let _ = session.write(&mut pipe.server(), b"answer");
        session.close();
        prop_assert!(heard.is_empty());
        prop_assert!(session.held() <= limits::HANDSHAKE);
    }
}

/// 1,160 bytes: with the rest of a chat client's connection it fills a box of the allocator's class of 1,280 (`net::tls_stream`).
#[test]
fn a_session_is_rustlss_connection_and_little_more() {
    let (session, connection) =
        (size_of::<TlsSession>(), size_of::<rustls::server::UnbufferedServerConnection>());
    assert!(session <= connection + 72, "{session}, {connection}");
}
