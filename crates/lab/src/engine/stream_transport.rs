//! The bytes of one connection: plain, TLS, and WebSocket (RFC 7118) over either. Nothing here blocks.
//!
//! `StreamConnections` gives sockets and bytes and receives whole messages. Handshakes go on by themselves with each read.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use mio::net::TcpStream;
use rustls_pki_types::ServerName;
use tls_session::TlsSession;
use tungstenite::client::IntoClientRequest;
use tungstenite::handshake::MidHandshake;
use tungstenite::handshake::client::ClientHandshake;
use tungstenite::handshake::server::{ErrorResponse, Request, Response, ServerHandshake};
use tungstenite::http::HeaderValue;
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{HandshakeError, Message, WebSocket};

use super::handshakes::Handshake;
use super::limits;
use super::message_framer::MessageFramer;
use super::tls::Tls;

/// The transport of a connection's messages.
pub(super) enum StreamTransport {
    /// TCP or TLS; SIP messages are cut by their Content-Length.
    Raw(StreamIo, MessageFramer),
    /// A WebSocket handshake as client, not over.
    Client(MidHandshake<ClientHandshake<StreamIo>>),
    /// The same as server.
    Server(MidHandshake<ServerHandshake<StreamIo, Callback>>),
    /// A WebSocket: each SIP message is one WebSocket message (RFC 7118).
    Web(Box<WebSocket<StreamIo>>),
    /// Broken, or in between.
    Gone,
}

/// Chooses the sub-protocol of an accepted WebSocket.
type Callback = fn(&Request, Response) -> Result<Response, ErrorResponse>;

/// Bytes of a TCP connection, or through TLS.
pub(super) enum StreamIo {
    Plain(TcpStream),
    Tls(TlsStream),
}

/// The socket and the state of TLS, which is kept apart from it.
pub(super) struct TlsStream {
    pub(super) tls: Box<TlsSession>,
    pub(super) tcp: TcpStream,
}

/// The options of a new connection.
pub(super) struct ConnectOptions<'a> {
    /// `None`: without TLS.
    pub(super) tls: Option<&'a Tls>,
    /// The WebSocket URL's path, and the sub-protocol.
    pub(super) web: Option<(&'a str, &'static str)>,
    /// The peer as named by the user.
    pub(super) host: &'a str,
}

impl StreamTransport {
    /// A connection that we made: we speak first.
    pub(super) fn connected(tcp: TcpStream, opening: &ConnectOptions<'_>) -> io::Result<StreamTransport> {
        let io = match opening.tls {
            Some(tls) => {
                // The name is sent as server name, and compared with the certificate when that is checked.
                let name = ServerName::try_from(opening.host.to_owned()).map_err(io::Error::other)?;
                let tls = TlsSession::client(Arc::clone(&tls.client), name).map_err(io::Error::other)?;
                StreamIo::Tls(TlsStream { tls: Box::new(tls), tcp })
            }
            None => StreamIo::Plain(tcp),
        };
        let Some((path, protocol)) = opening.web else {
            return Ok(StreamTransport::Raw(io, MessageFramer::default()));
        };
        let scheme = if opening.tls.is_some() { "wss" } else { "ws" };
        let url = format!("{scheme}://{}{path}", opening.host);
        let mut request = url.into_client_request().map_err(io::Error::other)?;
        request.headers_mut().insert("Sec-WebSocket-Protocol", HeaderValue::from_static(protocol));
        let begun = ClientHandshake::start(io, request, Some(web_config())).map_err(io::Error::other)?;
        let mut wire = StreamTransport::Client(begun);
        wire.advance()?;
        Ok(wire)
    }

    /// A connection that a peer made to us.
    pub(super) fn accepted(tcp: TcpStream, opening: &ConnectOptions<'_>) -> io::Result<StreamTransport> {
        let io = match opening.tls {
            Some(tls) => {
                let config = tls.server.as_ref().ok_or_else(|| io::Error::other("no certificate"))?;
                let tls = TlsSession::server(Arc::clone(config)).map_err(io::Error::other)?;
                StreamIo::Tls(TlsStream { tls: Box::new(tls), tcp })
            }
            None => StreamIo::Plain(tcp),
        };
        if opening.web.is_none() {
            return Ok(StreamTransport::Raw(io, MessageFramer::default()));
        }
        let mut wire =
            StreamTransport::Server(ServerHandshake::start(io, speak_sip as Callback, Some(web_config())));
        wire.advance()?;
        Ok(wire)
    }

    /// Goes on with a handshake as far as the peer let it.
    pub(super) fn advance(&mut self) -> io::Result<()> {
        *self = match std::mem::replace(self, StreamTransport::Gone) {
            StreamTransport::Client(begun) => match begun.handshake() {
                Ok((web, _)) => StreamTransport::Web(Box::new(web)),
                Err(HandshakeError::Interrupted(begun)) => StreamTransport::Client(begun),
                Err(HandshakeError::Failure(error)) => return Err(io::Error::other(error)),
            },
            StreamTransport::Server(begun) => match begun.handshake() {
                Ok(web) => StreamTransport::Web(Box::new(web)),
                Err(HandshakeError::Interrupted(begun)) => StreamTransport::Server(begun),
                Err(HandshakeError::Failure(error)) => return Err(io::Error::other(error)),
            },
            other => other,
        };
        Ok(())
    }

    /// This handshake is not over.
    pub(super) fn is_in(&self, handshake: Handshake) -> bool {
        let (io, is_web_open) = match self {
            StreamTransport::Raw(io, _) => (io, true),
            StreamTransport::Client(begun) => (begun.get_ref().get_ref(), false),
            StreamTransport::Server(begun) => (begun.get_ref().get_ref(), false),
            StreamTransport::Web(web) => (web.get_ref(), true),
            StreamTransport::Gone => return false,
        };
        match handshake {
            Handshake::Tls => matches!(io, StreamIo::Tls(stream) if stream.tls.is_handshaking()),
            Handshake::WebSocket => !is_web_open,
        }
    }

    /// Messages can be read and written.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, StreamTransport::Raw(..) | StreamTransport::Web(_))
    }

    /// Whole messages, until nothing more is there, each with the kernel's time of arrival where it says so.
    /// `Ok(true)`: the peer closed.
    pub(super) fn read(
        &mut self,
        scratch: &mut [u8],
        mut each: impl FnMut(&[u8], Option<Duration>),
    ) -> io::Result<bool> {
        self.advance()?;
        match self {
            StreamTransport::Raw(io, cutter) => loop {
                let stamp = match io.read_stamped(scratch) {
                    Ok((0, _)) => return Ok(true),
                    Ok((count, stamp)) => {
                        cutter.push(&scratch[..count]);
                        stamp
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => return Err(error),
                };
                // All messages of one read have the stamp of that read.
                while let Some(message) = cutter.cut().map_err(|()| io::Error::other("message too long"))? {
                    each(message, stamp);
                }
            },
            StreamTransport::Web(web) => loop {
                match web.read() {
                    Ok(Message::Text(text)) => each(text.as_bytes(), None),
                    Ok(Message::Binary(bytes)) => each(&bytes, None),
                    // Pings, pongs and closes: `tungstenite` answers them with the next write.
                    Ok(_) => {}
                    Err(tungstenite::Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                        return Ok(false);
                    }
                    Err(tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed) => {
                        return Ok(true);
                    }
                    Err(error) => return Err(io::Error::other(error)),
                }
            },
            // `advance` above has gone as far as it can.
            StreamTransport::Client(_) | StreamTransport::Server(_) => Ok(false),
            StreamTransport::Gone => Ok(true),
        }
    }

    /// Writes what fits; how many bytes of `bytes` went. `ends` are the ends of the messages in it.
    pub(super) fn write(&mut self, bytes: &[u8], ends: &[usize]) -> io::Result<usize> {
        match self {
            StreamTransport::Raw(io, _) => io.put(bytes),
            StreamTransport::Web(web) => {
                let mut done = 0;
                for end in ends {
                    // Text frames unless a body is binary: peers must take both (RFC 7118 §4.2).
                    let message = match std::str::from_utf8(&bytes[done..*end]) {
                        Ok(text) => Message::text(text),
                        Err(_) => Message::binary(bytes[done..*end].to_vec()),
                    };
                    match web.write(message) {
                        Ok(()) => {}
                        // It keeps the message.
                        Err(tungstenite::Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {}
                        Err(error) => return Err(io::Error::other(error)),
                    }
                    done = *end;
                }
                match web.flush() {
                    Ok(()) => Ok(done),
                    Err(tungstenite::Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                        Ok(done)
                    }
                    Err(error) => Err(io::Error::other(error)),
                }
            }
            // Nothing may be sent before the handshake is over; the queue stays.
            StreamTransport::Client(_) | StreamTransport::Server(_) => Ok(0),
            StreamTransport::Gone => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

impl StreamTransport {
    /// A word of farewell where the protocol has one; a peer that does not take it now goes without.
    pub(super) fn close(&mut self) {
        if let StreamTransport::Web(web) = self {
            let _ = web.close(None);
            let _ = web.flush();
        }
    }
}

impl Drop for TlsStream {
    /// RFC 8446 §6.1: each side says that it closes, so that a cut connection is told from an ended one.
    fn drop(&mut self) {
        self.tls.close();
        // It is closed either way.
        let _ = self.tls.flush(&mut self.tcp);
    }
}

fn web_config() -> WebSocketConfig {
    WebSocketConfig::default().read_buffer_size(limits::WEBSOCKET_BUFFER)
}

/// RFC 7118 §4.1: the sub-protocol is `sip`. A client that does not offer it is accepted all the same.
#[expect(clippy::result_large_err, reason = "the signature is tungstenite's")]
fn speak_sip(request: &Request, mut response: Response) -> Result<Response, ErrorResponse> {
    if request.headers().contains_key("Sec-WebSocket-Protocol") {
        response.headers_mut().insert("Sec-WebSocket-Protocol", HeaderValue::from_static("sip"));
    }
    Ok(response)
}

impl StreamIo {
    /// Writes what the kernel takes now; how many bytes that was.
    pub(super) fn put(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < bytes.len() {
            match self.write(&bytes[done..]) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        match self.flush() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(done),
        }
    }

    /// TLS hides when the bytes came: only plain TCP has the kernel's stamp.
    fn read_stamped(&mut self, buffer: &mut [u8]) -> io::Result<(usize, Option<Duration>)> {
        match self {
            StreamIo::Plain(tcp) => mmsg::receive_stamped(tcp.as_fd(), buffer),
            StreamIo::Tls(..) => self.read(buffer).map(|count| (count, None)),
        }
    }
}

impl Read for StreamIo {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            StreamIo::Plain(tcp) => tcp.read(buffer),
            StreamIo::Tls(TlsStream { tls, tcp }) => match tls.read(tcp, buffer) {
                // A peer that hangs up without saying so in TLS has hung up.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
                other => other,
            },
        }
    }
}

impl Write for StreamIo {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            StreamIo::Plain(tcp) => tcp.write(bytes),
            StreamIo::Tls(TlsStream { tls, tcp }) => tls.write(tcp, bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            StreamIo::Plain(_) => Ok(()),
            StreamIo::Tls(TlsStream { tls, tcp }) => tls.flush(tcp),
        }
    }
}
