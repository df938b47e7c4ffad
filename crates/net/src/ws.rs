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
}

/// Counts bytes that were read: how much of a message has come that is not whole yet is not told otherwise.
struct Counted<S> {
    io: S,
    read: usize,
}

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
    Ok((WsWire { stream }, client.get()))
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
            let next = match ready!(Pin::new(&mut self.stream).poll_next(cx)) {
                None => return Poll::Ready(Err(End::Closed(CloseReason::Peer))),
                Some(Err(error)) => return Poll::Ready(Err(End::Closed(end(&error)))),
                Some(Ok(message)) => message,
            };
            // A whole message has come; bytes of the next one that were read with it are not counted, which is
            // less than one read.
            self.stream.get_mut().read = 0;
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
            let Some(queued) = flow.pop() else { break };
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
