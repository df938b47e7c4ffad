//! Copies of messages for a capture server, by every transport and in both directions.

use std::net::{IpAddr, UdpSocket};
use std::sync::{Arc, Mutex};

use futures_util::{SinkExt, StreamExt};
use hep::CaptureAgent;
use net::clock::Clock;
use net::{CaptureSettings, MessageTap};
use sip::transport::Transport::{Tcp, Tls, Udp, Ws};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

use super::tls::{Authority, client as tls_client};
use super::ws::open_plain;
use super::*;

/// A capture server that keeps what it is sent.
struct Server {
    socket: UdpSocket,
}

/// A packet: the number of the transport, the addresses, and the message.
#[derive(Debug, PartialEq)]
struct Copy {
    protocol: u8,
    source: SocketAddr,
    destination: SocketAddr,
    correlation: Vec<u8>,
    message: Vec<u8>,
}

impl Server {
    fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        Server { socket }
    }

    fn settings(&self, percent: u32) -> CaptureSettings {
        let agent = Arc::new(CaptureAgent { id: 7, password: "hush".into() });
        CaptureSettings { server: self.socket.local_addr().unwrap(), agent, percent, clock: Clock::new() }
    }

    fn copy(&self) -> Copy {
        let mut packet = vec![0; 65_536];
        let length = self.socket.recv(&mut packet).expect("a packet in time");
        let value = |kind: u16| find(&packet[6..length], kind);
        assert_eq!(value(12), 7_u32.to_be_bytes());
        assert_eq!(value(14), b"hush");
        let end = |address: u16, port: u16| {
            let ip = IpAddr::from(<[u8; 4]>::try_from(value(address)).unwrap());
            SocketAddr::new(ip, u16::from_be_bytes(value(port).try_into().unwrap()))
        };
        Copy {
            protocol: value(2)[0],
            source: end(3, 7),
            destination: end(4, 8),
            correlation: value(17).into(),
            message: value(15).into(),
        }
    }
}

fn find(mut rest: &[u8], kind: u16) -> &[u8] {
    while rest.len() >= 6 {
        let length = usize::from(u16::from_be_bytes([rest[4], rest[5]]));
        if rest[2..4] == kind.to_be_bytes() {
            return &rest[6..length];
        }
        rest = &rest[length..];
    }
    &[]
}

fn call(name: &str) -> Vec<u8> {
    format!("OPTIONS sip:x SIP/2.0\r\nCall-ID: {name}\r\nContent-Length: 0\r\n\r\n").into_bytes()
}

fn copy(protocol: u8, source: SocketAddr, destination: SocketAddr, name: &str) -> Copy {
    Copy { protocol, source, destination, correlation: name.into(), message: call(name) }
}

#[test]
fn datagrams_are_copied_and_keepalives_are_not() {
    run(async {
        let (server, mut shard) = (Server::new(), Shard::new(NetSettings::default()));
        let address = shard.bind(Udp, "127.0.0.1:0").address;
        shard.io.set_capture(Some(server.settings(100)));
        let peer = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let remote = peer.local_addr().unwrap();
        peer.send_to(b"\r\n\r\n", address).await.unwrap();
        peer.send_to(&call("in"), address).await.unwrap();
        shard.packet().await;
        shard.send(Udp, remote, &call("out"), 1);
        shard.io.flush();
        assert_eq!(server.copy(), copy(17, remote, address, "in"));
        assert_eq!(server.copy(), copy(17, address, remote, "out"));
        let counters = shard.io.counters();
        assert_eq!((counters.captures_sent, counters.captures_dropped), (2, 0));
        shard.io.set_capture(None);
        peer.send_to(&call("unseen"), address).await.unwrap();
        shard.packet().await;
        shard.io.flush();
        assert_eq!(shard.io.counters().captures_sent, 2);
    });
}

#[test]
fn messages_of_streams_are_copied_with_the_addresses_of_the_connection() {
    run(async {
        let (server, mut shard) = (Server::new(), Shard::new(NetSettings::default()));
        let address = shard.bind(Tcp, "127.0.0.1:0").address;
        shard.io.set_capture(Some(server.settings(100)));
        let mut peer = TcpStream::connect(address).await.unwrap();
        let remote = peer.local_addr().unwrap();
        peer.write_all(&[call("one"), call("two")].concat()).await.unwrap();
        let source = shard.packets(2).await[0].source;
        shard.io.send(on_flow(&source, &call("answer"), 1));
        let mut answer = vec![0; call("answer").len()];
        shard.during(peer.read_exact(&mut answer)).await.unwrap();
        shard.io.flush();
        assert_eq!(server.copy(), copy(6, remote, address, "one"));
        assert_eq!(server.copy(), copy(6, remote, address, "two"));
        assert_eq!(server.copy(), copy(6, address, remote, "answer"));
    });
}

/// The messages that passed the sockets: received or sent, the other end, and the bytes.
#[derive(Debug, Default)]
struct Seen(Mutex<Vec<(bool, SocketAddr, Vec<u8>)>>);

impl MessageTap for Seen {
    fn received(&self, source: SocketAddr, message: &[u8]) {
        self.0.lock().unwrap().push((true, source, message.into()));
    }

    fn sent(&self, destination: SocketAddr, message: &[u8]) {
        self.0.lock().unwrap().push((false, destination, message.into()));
    }
}

#[test]
fn a_tap_sees_each_message_once_with_its_other_end_and_no_capture_server_is_needed() {
    run(async {
        let seen = Arc::new(Seen::default());
        let tap: Arc<dyn MessageTap> = seen.clone();
        let mut shard = Shard::new(NetSettings { tap: Some(tap), ..NetSettings::default() });
        let (by_udp, by_tcp) =
            (shard.bind(Udp, "127.0.0.1:0").address, shard.bind(Tcp, "127.0.0.1:0").address);
        let phone = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let udp = phone.local_addr().unwrap();
        phone.send_to(&call("one"), by_udp).await.unwrap();
        shard.packet().await;
        shard.send(Udp, udp, &call("two"), 1);
        shard.io.flush();
        let mut peer = TcpStream::connect(by_tcp).await.unwrap();
        let tcp = peer.local_addr().unwrap();
        peer.write_all(&call("three")).await.unwrap();
        let source = shard.packets(1).await[0].source;
        shard.io.send(on_flow(&source, &call("four"), 1));
        let mut answer = vec![0; call("four").len()];
        shard.during(peer.read_exact(&mut answer)).await.unwrap();
        let expected = [(true, udp, "one"), (false, udp, "two"), (true, tcp, "three"), (false, tcp, "four")];
        let expected = expected.map(|(is_received, other, name)| (is_received, other, call(name)));
        assert_eq!(*seen.0.lock().unwrap(), expected);
        assert_eq!(shard.io.counters().captures_sent, 0);
    });
}

/// The connection that carries the first message is not made yet when that is queued.
#[test]
fn a_message_that_waited_for_its_connection_has_the_address_of_that() {
    run(async {
        let (server, mut shard) = (Server::new(), Shard::new(NetSettings::default()));
        shard.io.set_capture(Some(server.settings(100)));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let remote = listener.local_addr().unwrap();
        shard.send(Tcp, remote, &call("first"), 1);
        let (mut peer, source) = shard.during(listener.accept()).await.unwrap();
        let mut received = vec![0; call("first").len()];
        shard.during(peer.read_exact(&mut received)).await.unwrap();
        shard.io.flush();
        assert_eq!(server.copy(), copy(6, source, remote, "first"));
    });
}

#[test]
fn messages_of_tls_and_websockets_are_copied_as_they_were_before_encryption() {
    run(async {
        let authority = Authority::new(&["sip.example"]);
        let (server, mut shard) = (Server::new(), Shard::new(authority.settings()));
        shard.io.set_capture(Some(server.settings(100)));
        let secure = shard.bind(Tls, "127.0.0.1:0").address;
        let web = shard.bind(Ws, "127.0.0.1:0").address;
        let ca = authority.directory.path().join("ca.pem");
        let mut peer = shard.during(tls_client(secure, &ca, "sip.example")).await.unwrap();
        peer.write_all(&call("tls")).await.unwrap();
        let remote = shard.packet().await.source.remote;
        let mut browser = open_plain(&mut shard, web).await;
        browser.send(Message::binary(call("ws"))).await.unwrap();
        let source = shard.packet().await.source;
        shard.io.send(on_flow(&source, &call("answer"), 1));
        shard.during(browser.next()).await.unwrap().unwrap();
        shard.io.flush();
        assert_eq!(server.copy(), copy(22, remote, secure, "tls"));
        assert_eq!(server.copy(), copy(6, source.remote, web, "ws"));
        assert_eq!(server.copy(), copy(6, web, source.remote, "answer"));
    });
}

#[test]
fn more_copies_than_the_buffer_holds_are_dropped_and_counted_and_no_message_waits() {
    run(async {
        let (server, mut shard) = (Server::new(), Shard::new(NetSettings::default()));
        shard.bind(Udp, "127.0.0.1:0");
        shard.io.set_capture(Some(server.settings(100)));
        let peer = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let remote = peer.local_addr().unwrap();
        let most = net::limits::CAPTURE_PACKETS;
        for number in 0..=most {
            shard.send(Udp, remote, &call("many"), number as u64);
        }
        shard.io.flush();
        let counters = shard.io.counters();
        assert_eq!(counters.captures_sent + counters.captures_dropped, most as u64 + 1);
        assert!(counters.captures_dropped >= 1, "{counters:?}");
    });
}

#[test]
fn a_share_of_the_calls_is_copied() {
    run(async {
        let (server, mut shard) = (Server::new(), Shard::new(NetSettings::default()));
        let address = shard.bind(Udp, "127.0.0.1:0").address;
        shard.io.set_capture(Some(server.settings(10)));
        let peer = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let names: Vec<String> = (0..60).map(|number| format!("call-{number}@a.test")).collect();
        for name in &names {
            peer.send_to(&call(name), address).await.unwrap();
        }
        shard.packets(names.len()).await;
        shard.io.flush();
        let expected: Vec<_> = names.iter().filter(|name| hep::is_sampled(name.as_bytes(), 10)).collect();
        assert!(!expected.is_empty() && expected.len() < 20, "{expected:?}");
        for name in &expected {
            assert_eq!(server.copy(), copy(17, peer.local_addr().unwrap(), address, name));
        }
        assert_eq!(shard.io.counters().captures_sent, expected.len() as u64);
    });
}
