//! A phone's socket, whatever the transport.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use sip::wire::framing::{Frame, Framer};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{self, Message as Ws, WebSocket};

pub(crate) trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

pub(crate) enum Link {
    Udp(UdpSocket),
    Stream { io: Box<dyn Stream>, tcp: TcpStream, framer: Box<Framer>, frames: VecDeque<Frame> },
    WebSocket { io: Box<WebSocket<Box<dyn Stream>>>, tcp: TcpStream },
}

/// The outcome of a wait on a link.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Message(Bytes),
    /// A CRLF in answer to our keep-alive.
    Pong,
    Nothing,
    Closed,
}

impl Link {
    pub(crate) fn udp(server: SocketAddr) -> Link {
        let own: SocketAddr = if server.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" }.parse().unwrap();
        let socket = UdpSocket::bind(own).unwrap();
        Link::Udp(socket)
    }

    pub(crate) fn tcp(server: SocketAddr) -> Link {
        let tcp = TcpStream::connect(server).unwrap();
        Self::stream(Box::new(tcp.try_clone().unwrap()), tcp)
    }

    pub(crate) fn tls(server: SocketAddr, ca: &Path) -> Link {
        let (io, tcp) = tls(server, ca);
        Self::stream(Box::new(io), tcp)
    }

    /// As `tls`, with a certificate of the client's.
    pub(crate) fn tls_as(server: SocketAddr, ca: &Path, (chain, key): Identity) -> Link {
        let config = ClientConfig::builder().with_root_certificates(roots(ca));
        let (io, tcp) = shake(server, config.with_client_auth_cert(vec![chain], key).unwrap()).unwrap();
        Self::stream(Box::new(io), tcp)
    }

    fn stream(io: Box<dyn Stream>, tcp: TcpStream) -> Link {
        Link::Stream { io, tcp, framer: Box::default(), frames: VecDeque::new() }
    }

    pub(crate) fn ws(server: SocketAddr) -> Link {
        let tcp = TcpStream::connect(server).unwrap();
        Self::websocket("ws", Box::new(tcp.try_clone().unwrap()), tcp)
    }

    pub(crate) fn wss(server: SocketAddr, ca: &Path) -> Link {
        let (io, tcp) = tls(server, ca);
        Self::websocket("wss", Box::new(io), tcp)
    }

    fn websocket(scheme: &str, io: Box<dyn Stream>, tcp: TcpStream) -> Link {
        let mut request = format!("{scheme}://localhost/").into_client_request().unwrap();
        request.headers_mut().insert("Sec-WebSocket-Protocol", "sip".parse().unwrap());
        let Ok((io, _)) = tungstenite::client(request, io) else { panic!("no WebSocket handshake") };
        Link::WebSocket { io: Box::new(io), tcp }
    }

    pub(crate) fn local(&self) -> SocketAddr {
        match self {
            Link::Udp(socket) => socket.local_addr(),
            Link::Stream { tcp, .. } | Link::WebSocket { tcp, .. } => tcp.local_addr(),
        }
        .unwrap()
    }

    pub(crate) fn send(&mut self, server: SocketAddr, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Link::Udp(socket) => socket.send_to(bytes, server).map(drop),
            Link::Stream { io, .. } => io.write_all(bytes).and_then(|()| io.flush()),
            Link::WebSocket { io, .. } => io.send(Ws::binary(bytes.to_vec())).map_err(std::io::Error::other),
        }
    }

    /// One thing, waited for at most so long.
    pub(crate) fn hear(&mut self, patience: Duration) -> Heard {
        match self {
            Link::Udp(socket) => {
                socket.set_read_timeout(Some(patience)).unwrap();
                let mut buffer = vec![0; 65_536];
                match socket.recv(&mut buffer) {
                    // Media for a call that had this port before: SIP is text, RTP and RTCP begin with version 2.
                    Ok(1..) if buffer[0] & 0xc0 == 0x80 => Heard::Nothing,
                    Ok(length) => Heard::Message(Bytes::copy_from_slice(&buffer[..length])),
                    // A refused datagram (ICMP) is reported here while the server is away.
                    Err(_) => Heard::Nothing,
                }
            }
            Link::Stream { io, tcp, framer, frames } => {
                tcp.set_read_timeout(Some(patience)).unwrap();
                hear_stream(&mut **io, framer, frames)
            }
            Link::WebSocket { io, tcp } => {
                tcp.set_read_timeout(Some(patience)).unwrap();
                match io.read() {
                    Ok(Ws::Text(text)) => Heard::Message(Bytes::copy_from_slice(text.as_bytes())),
                    Ok(Ws::Binary(bytes)) => Heard::Message(bytes),
                    Ok(_) => Heard::Nothing,
                    Err(tungstenite::Error::Io(error)) if timed_out(&error) => Heard::Nothing,
                    Err(_) => Heard::Closed,
                }
            }
        }
    }
}

fn hear_stream(io: &mut dyn Stream, framer: &mut Framer, frames: &mut VecDeque<Frame>) -> Heard {
    if frames.is_empty() {
        let mut buffer = [0; 16_384];
        match io.read(&mut buffer) {
            Ok(0) => return Heard::Closed,
            // The framer would wait to see whether a ping comes of it.
            Ok(2) if buffer.starts_with(b"\r\n") && framer.is_between_messages() => return Heard::Pong,
            Ok(length) => framer.push(&buffer[..length]),
            Err(error) if timed_out(&error) => return Heard::Nothing,
            Err(_) => return Heard::Closed,
        }
        while let Some(frame) = framer.next() {
            frames.push_back(frame.expect("the server frames well"));
        }
    }
    match frames.pop_front() {
        Some(Frame::Message(bytes)) => Heard::Message(bytes),
        Some(Frame::Pong) => Heard::Pong,
        Some(Frame::Ping) | None => Heard::Nothing,
    }
}

fn timed_out(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// A client that trusts the certificate in `ca`.
type Secured = (StreamOwned<ClientConnection, TcpStream>, TcpStream);

pub(crate) fn tls(server: SocketAddr, ca: &Path) -> Secured {
    try_tls(server, ca).unwrap()
}

/// Fails when the server closes in between.
pub(crate) fn try_tls(server: SocketAddr, ca: &Path) -> std::io::Result<Secured> {
    shake(server, ClientConfig::builder().with_root_certificates(roots(ca)).with_no_client_auth())
}

/// A certificate and its key.
pub(crate) type Identity = (CertificateDer<'static>, PrivateKeyDer<'static>);

fn roots(ca: &Path) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca).unwrap()).unwrap();
    roots
}

fn shake(server: SocketAddr, config: ClientConfig) -> std::io::Result<Secured> {
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let tcp = TcpStream::connect(server).unwrap();
    let mut stream = StreamOwned::new(connection, tcp.try_clone().unwrap());
    stream.conn.complete_io(&mut stream.sock)?;
    Ok((stream, tcp))
}
