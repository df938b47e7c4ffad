//! SIP over WebSocket (RFC 7118): one SIP message is one WebSocket message, text or binary.
//!
//! HTTP, the upgrade and the frames are those of `tungstenite`; here are the rules of the request (subprotocol,
//! `Origin`, the client behind a proxy) and the translation to [`Wire`]. Chat uses the same rules for its
//! WebSockets ([`answer`], [`allows`], [`config`]).

use std::cell::Cell;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::{Sink, Stream};
use sip::limits::{MAX_STREAM_BODY, MAX_STREAM_HEAD};
use sip::wire::framing::Frame;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::tungstenite::handshake::server::{
    Callback, ErrorResponse, Request, Response, create_response_with_body,
};
use tokio_tungstenite::tungstenite::http::header::{ORIGIN, SEC_WEBSOCKET_PROTOCOL};
use tokio_tungstenite::tungstenite::http::{HeaderMap, HeaderValue, Request as HttpRequest, StatusCode};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes, error::ProtocolError};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async_with_config};

use super::flow::{Flow, Shared};
use super::settings::CloseReason;
use super::wire::{End, Wire};

/// A connection past its HTTP handshake.
pub(super) struct WsWire<S> {
    stream: WebSocketStream<Counted<S>>,
    pongs: Pongs,
}

/// Keeps a peer that does not read from filling memory with answers to its pings: the library queues one for each, and reads on.
#[derive(Debug, Default)]
pub struct Pongs {
    /// A ping has come whose answer may not be written.
    is_due: bool,
}

impl Pongs {
    /// A message has come.
    pub fn note(&mut self, message: &Message) {
        self.is_due |= message.is_ping();
    }

    /// To be called before each read. Ready when the answer to the last ping is with the kernel.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn poll_written<S>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut WebSocketStream<S>,
    ) -> Poll<Result<(), Error>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        if self.is_due {
            ready!(Pin::new(stream).poll_flush(cx))?;
            self.is_due = false;
        }
        Poll::Ready(Ok(()))
    }
}

/// Counts bytes that were read: how much of a message has come that is not whole yet is not told otherwise.
struct Counted<S> {
    io: S,
    read: usize,
}

/// Bytes of a client's frame besides its payload, of at most 125 bytes (RFC 6455 §5.2): the head and the mask.
const CONTROL_HEAD: usize = 2 + 4;

/// The HTTP handshake. The subprotocol `sip` is required (RFC 7118 §4.1), the path is not looked at. Also the address of the
/// client, which a trusted proxy may have named.
pub(super) async fn accept<S>(shared: &Shared, flow: &Flow, io: S) -> io::Result<(WsWire<S>, IpAddr)>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let largest = MAX_STREAM_HEAD + MAX_STREAM_BODY;
    // The callback of the handshake returns only a response, so the client is handed out by a cell.
    let client = Cell::new(flow.remote.get().ip());
    let upgrade = Upgrade { shared, client: &client };
    let io = Counted { io, read: 0 };
    let accepted = accept_hdr_async_with_config(io, upgrade, Some(config(largest)));
    let stream = accepted.await.map_err(io::Error::other)?;
    Ok((WsWire { stream, pongs: Pongs::default() }, client.get()))
}

/// Decides on the request for a WebSocket of SIP.
struct Upgrade<'a> {
    shared: &'a Shared,
    /// The peer, and then the client.
    client: &'a Cell<IpAddr>,
}

impl Callback for Upgrade<'_> {
    fn on_request(self, request: &Request, mut response: Response) -> Result<Response, ErrorResponse> {
        let (shared, peer) = (self.shared, self.client.get());
        let gate = Gate { subprotocol: "sip", origins: &shared.settings.ws_origins };
        gate.check(request.headers()).map_err(|(status, why)| refuse(status, &why))?;
        self.client.set(shared.settings.proxies.source(peer, request.headers()));
        // Refused here with an HTTP status that the page can show; `drive_upgraded` takes the place.
        if self.client.get() != peer && !shared.has_place_behind_proxy(self.client.get()) {
            let why = "too many connections from your address";
            return Err(refuse(StatusCode::SERVICE_UNAVAILABLE, why));
        }
        // RFC 6455 §4.2.2: the one of the offered subprotocols that is used.
        response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static("sip"));
        Ok(response)
    }
}

/// The answer to a request for a WebSocket of that subprotocol, or why there is none.
pub fn answer<B>(
    subprotocol: &'static str,
    origins: &[Box<str>],
    request: &HttpRequest<B>,
) -> Result<Response, (StatusCode, String)> {
    Gate { subprotocol, origins }.check(request.headers())?;
    let mut response = create_response_with_body(request, || ())
        .map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
    response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(subprotocol));
    Ok(response)
}

/// True if pages of that site may ask: it is listed, or no site is.
/// Schemes and hosts are compared without regard to case (RFC 6454 §4).
pub fn allows(origins: &[Box<str>], origin: &[u8]) -> bool {
    origins.is_empty() || origins.iter().any(|allowed| allowed.as_bytes().eq_ignore_ascii_case(origin))
}

/// The configuration of a WebSocket whose messages have at most so many bytes.
pub fn config(largest: usize) -> WebSocketConfig {
    WebSocketConfig::default()
        // Held by every connection, idle or not.
        .read_buffer_size(2048)
        // Nothing is held back: a turn's messages are flushed together anyway.
        .write_buffer_size(0)
        .max_message_size(Some(largest))
        .max_frame_size(Some(largest))
}

/// Decides on the HTTP request.
struct Gate<'a> {
    subprotocol: &'static str,
    origins: &'a [Box<str>],
}

impl Gate<'_> {
    fn check(&self, headers: &HeaderMap) -> Result<(), (StatusCode, String)> {
        let offered = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
        if !offered.flat_map(|list| list.split(',')).any(|name| name.trim() == self.subprotocol) {
            let why = format!("the WebSocket subprotocol {:?} is required", self.subprotocol);
            return Err((StatusCode::BAD_REQUEST, why));
        }
        // A client without an Origin is no browser, and the header's protection does not concern it.
        if headers.get(ORIGIN).is_some_and(|origin| !allows(self.origins, origin.as_bytes())) {
            return Err((StatusCode::FORBIDDEN, "this origin is not allowed".to_owned()));
        }
        Ok(())
    }
}

fn refuse(status: StatusCode, why: &str) -> ErrorResponse {
    let mut response = ErrorResponse::new(Some(why.to_owned()));
    *response.status_mut() = status;
    response
}

/// Keep-alives may also be CRLFs (RFC 7118 §6). Memory of exactly its size, as from a stream.
fn frame(payload: &[u8]) -> Frame {
    match payload {
        // RFC 5626 §4.4.1, as on a stream of TCP.
        b"\r\n\r\n" => Frame::Ping,
        _ if payload.iter().all(|byte| matches!(byte, b'\r' | b'\n')) => Frame::Pong,
        _ => Frame::Message(Bytes::copy_from_slice(payload)),
    }
}

fn end(error: &Error) -> CloseReason {
    match error {
        Error::ConnectionClosed
        | Error::AlreadyClosed
        | Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => CloseReason::Peer,
        Error::Io(_) | Error::Tls(_) => CloseReason::Broken,
        _ => CloseReason::Malformed,
    }
}

/// Text where it can be, because that is what browsers' libraries expect first.
fn message(bytes: Bytes) -> Message {
    match Utf8Bytes::try_from(bytes.clone()) {
        Ok(text) => Message::Text(text),
        Err(_) => Message::Binary(bytes),
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire for WsWire<S> {
    fn poll_frame(&mut self, cx: &mut Context<'_>, _scratch: &mut [u8]) -> Poll<Result<Frame, End>> {
        loop {
            if let Err(error) = ready!(self.pongs.poll_written(cx, &mut self.stream)) {
                return Poll::Ready(Err(End::Closed(end(&error))));
            }
            let next = match ready!(Pin::new(&mut self.stream).poll_next(cx)) {
                None => return Poll::Ready(Err(End::Closed(CloseReason::Peer))),
                Some(Err(error)) => return Poll::Ready(Err(End::Closed(end(&error)))),
                Some(Ok(message)) => message,
            };
            self.pongs.note(&next);
            let read = &mut self.stream.get_mut().read;
            *read = match &next {
                // RFC 6455 §5.4: it may stand between the fragments of a message, which are still held.
                Message::Ping(payload) | Message::Pong(payload) => {
                    read.saturating_sub(CONTROL_HEAD + payload.len())
                }
                // A whole message has come; bytes of the next one that were read with it are not counted, which is
                // less than one read.
                _ => 0,
            };
            return Poll::Ready(Ok(match next {
                Message::Text(text) => frame(text.as_bytes()),
                Message::Binary(bytes) => frame(&bytes),
                // A ping is answered by the library; for us either is a sign of life.
                Message::Ping(_) | Message::Pong(_) => Frame::Pong,
                Message::Close(_) | Message::Frame(_) => continue,
            }));
        }
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        shared: &Shared,
        flow: &Flow,
    ) -> Poll<Result<(), CloseReason>> {
        while !flow.queue.borrow().is_empty() {
            // Before a message is taken out of the queue: while the socket is full it stays there, where its
            // bytes are counted.
            if let Err(error) = ready!(Pin::new(&mut self.stream).poll_ready(cx)) {
                return Poll::Ready(Err(end(&error)));
            }
            let Some(queued) = shared.pop(flow) else { break };
            shared.capture_sent(flow, &queued.bytes);
            if let Err(error) = Pin::new(&mut self.stream).start_send(message(queued.bytes)) {
                shared.send_failed(queued.report, super::SendFault::Closed(end(&error)));
                return Poll::Ready(Err(end(&error)));
            }
            shared.count(|counters| counters.stream_messages_out += 1);
        }
        Pin::new(&mut self.stream).poll_flush(cx).map_err(|error| end(&error))
    }

    fn partial(&self) -> usize {
        self.stream.get_ref().read
    }

    fn pong() -> Bytes {
        Bytes::from_static(b"\r\n")
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.stream).poll_close(cx).map(|_| ())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let done = Pin::new(&mut self.io).poll_read(cx, buffer);
        self.read += buffer.filled().len() - before;
        done
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
    use tokio_tungstenite::tungstenite::protocol::Role;

    use super::*;

    const FRAGMENT: u8 = 0x01;
    const LAST_FRAGMENT: u8 = 0x80;
    const PING: u8 = 0x89;

    /// The server's end of a connection past its handshake, and the client's, between which so many bytes fit each way.
    async fn connection(room: usize) -> (WsWire<DuplexStream>, DuplexStream) {
        let (io, client) = duplex(room);
        let io = Counted { io, read: 0 };
        let stream = WebSocketStream::from_raw_socket(io, Role::Server, Some(config(100_000))).await;
        (WsWire { stream, pongs: Pongs::default() }, client)
    }

    /// A client's frame of less than 64 KiB with the mask 0.
    fn client_frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let length = u16::try_from(payload.len()).unwrap();
        let mut bytes = vec![first];
        match u8::try_from(length) {
            Ok(length @ ..126) => bytes.push(0x80 | length),
            _ => {
                bytes.push(0x80 | 126);
                bytes.extend_from_slice(&length.to_be_bytes());
            }
        }
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(payload);
        bytes
    }

    async fn poll_once(wire: &mut WsWire<DuplexStream>) -> Poll<Result<Frame, End>> {
        poll_fn(|cx| Poll::Ready(wire.poll_frame(cx, &mut []))).await
    }

    /// Reads all that has come; the frames.
    async fn read_all(wire: &mut WsWire<DuplexStream>) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Poll::Ready(Ok(frame)) = poll_once(wire).await {
            frames.push(frame);
        }
        frames
    }

    #[tokio::test]
    async fn a_peer_that_does_not_read_the_answers_to_its_pings_is_not_read_from() {
        let (mut wire, mut client) = connection(1_000).await;
        let ping = client_frame(PING, &[b'x'; 100]);
        let mut taken = 0;
        for _ in 0..10_000 {
            let written = poll_fn(|cx| Poll::Ready(Pin::new(&mut client).poll_write(cx, &ping))).await;
            // A ping that is not written whole is the last one.
            let is_whole = matches!(written, Poll::Ready(Ok(count)) if count == ping.len());
            taken += read_all(&mut wire).await.len();
            if !is_whole {
                break;
            }
        }
        // As many as answers fit, and one that waits.
        assert!((1..=20).contains(&taken), "{taken}");
    }

    #[tokio::test]
    async fn a_ping_between_fragments_does_not_hide_them() {
        let (mut wire, mut client) = connection(100_000).await;
        client.write_all(&client_frame(FRAGMENT, &[b'x'; 50_000])).await.unwrap();
        assert_eq!(read_all(&mut wire).await, []);
        assert!(wire.partial() >= 50_000);
        client.write_all(&client_frame(PING, b"abc")).await.unwrap();
        assert_eq!(read_all(&mut wire).await, [Frame::Pong]);
        assert!(wire.partial() >= 50_000);
        client.write_all(&client_frame(LAST_FRAGMENT, b"y")).await.unwrap();
        assert!(matches!(read_all(&mut wire).await[..], [Frame::Message(_)]));
        assert_eq!(wire.partial(), 0);
    }

    #[tokio::test]
    async fn a_ping_that_comes_in_two_pieces_begins_no_message() {
        let (mut wire, mut client) = connection(1_000).await;
        let ping = client_frame(PING, b"abc");
        client.write_all(&ping[..3]).await.unwrap();
        assert_eq!(read_all(&mut wire).await, []);
        client.write_all(&ping[3..]).await.unwrap();
        assert_eq!(read_all(&mut wire).await, [Frame::Pong]);
        assert_eq!(wire.partial(), 0);
    }
}
