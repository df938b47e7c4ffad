//! The ways to move bytes and messages over a connection: [`Bytes`] over TCP and TLS, [`Documents`] over WebSocket, and sessions of BOSH
//! (`http::bosh`). `serve` polls a [`Wire`] and knows none of them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::{Sink, Stream as Messages};
use net::ws::Pongs;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

use super::shared::C2sConnections;
use super::stream::Stream;

/// Nothing more can be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended;

/// A way to move bytes or messages between a connection and its [`Stream`], whose queue it empties.
pub(super) trait Wire {
    /// Gives what came to the stream (`C2sConnections::heard`). One read at a time: the caller asks for room before the next.
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        shared: &C2sConnections,
        stream: &Stream,
    ) -> Poll<Result<(), Ended>>;

    /// Writes what waits. Ready when all of it is with the kernel.
    fn poll_write(&mut self, cx: &mut Context<'_>, stream: &Stream) -> Poll<Result<(), Ended>>;

    /// Says goodbye, and reads on until the client has gone too: closing with unread bytes would reset the connection
    /// and take our last words with it.
    fn poll_shutdown(&mut self, cx: &mut Context<'_>, shared: &C2sConnections) -> Poll<()>;
}

/// TCP and TLS.
pub(super) struct Bytes<S> {
    pub(super) io: S,
    /// Written bytes of the first part of the queue.
    written: usize,
    has_shut: bool,
}

impl<S> Bytes<S> {
    pub(super) fn new(io: S) -> Self {
        Bytes { io, written: 0, has_shut: false }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire for Bytes<S> {
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        shared: &C2sConnections,
        stream: &Stream,
    ) -> Poll<Result<(), Ended>> {
        let mut scratch = shared.scratch.borrow_mut();
        let mut buffer = ReadBuf::new(&mut scratch);
        let read = Pin::new(&mut self.io).poll_read(cx, &mut buffer);
        if read.is_pending() {
            // TLS may have an alert of its own to send, as for a renegotiation (RFC 5246 §7.2.2).
            let _ = Pin::new(&mut self.io).poll_flush(cx);
        }
        match ready!(read) {
            Ok(()) if !buffer.filled().is_empty() => {
                shared.heard(stream, buffer.filled());
                Poll::Ready(Ok(()))
            }
            Ok(()) | Err(_) => Poll::Ready(Err(Ended)),
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, stream: &Stream) -> Poll<Result<(), Ended>> {
        while stream.has_queued() {
            let write = |first: &[u8]| {
                let rest = first.get(self.written..).unwrap_or_default();
                let Poll::Ready(result) = Pin::new(&mut self.io).poll_write(cx, rest) else {
                    return Poll::Pending;
                };
                Poll::Ready(result.map(|count| (count, count == rest.len())))
            };
            let Some(written) = stream.with_first(write) else { break };
            match ready!(written) {
                Ok((_, true)) => {
                    self.written = 0;
                    stream.pop();
                }
                Ok((0, false)) | Err(_) => return Poll::Ready(Err(Ended)),
                Ok((count, false)) => {
                    self.written += count;
                    stream.wrote.set(true);
                }
            }
        }
        // A part that was given up half-way is not missed.
        self.written = 0;
        Pin::new(&mut self.io).poll_flush(cx).map_err(|_| Ended)
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>, shared: &C2sConnections) -> Poll<()> {
        if !self.has_shut {
            let shut: io::Result<()> = ready!(Pin::new(&mut self.io).poll_shutdown(cx));
            self.has_shut = true;
            if shut.is_err() {
                return Poll::Ready(());
            }
        }
        loop {
            let mut scratch = shared.scratch.borrow_mut();
            let mut buffer = ReadBuf::new(&mut scratch);
            match ready!(Pin::new(&mut self.io).poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {}
                Ok(()) | Err(_) => return Poll::Ready(()),
            }
        }
    }
}

/// RFC 7395: a message is a document.
pub(super) struct Documents<S> {
    socket: WebSocketStream<S>,
    pongs: Pongs,
}

impl<S> Documents<S> {
    pub(super) fn new(socket: WebSocketStream<S>) -> Self {
        Documents { socket, pongs: Pongs::default() }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire for Documents<S> {
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        shared: &C2sConnections,
        stream: &Stream,
    ) -> Poll<Result<(), Ended>> {
        ready!(self.pongs.poll_written(cx, &mut self.socket)).map_err(|_| Ended)?;
        let next = ready!(Pin::new(&mut self.socket).poll_next(cx));
        if let Some(Ok(message)) = &next {
            self.pongs.note(message);
        }
        match next {
            Some(Ok(Message::Text(text))) => shared.heard(stream, text.as_bytes()),
            // RFC 7395 §3.2: text only.
            Some(Ok(Message::Binary(_))) => shared.tell(stream, |c2s, out| c2s.fail("bad-format", out)),
            // A ping is answered by the library; either is a sign of life.
            Some(Ok(Message::Ping(payload) | Message::Pong(payload))) => {
                shared.handle_control_frame(stream, payload.len());
            }
            Some(Ok(Message::Close(_) | Message::Frame(_))) => {}
            Some(Err(Error::Capacity(_))) => {
                shared.tell(stream, |c2s, out| c2s.fail("policy-violation", out));
            }
            Some(Err(_)) | None => return Poll::Ready(Err(Ended)),
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, stream: &Stream) -> Poll<Result<(), Ended>> {
        while stream.has_queued() {
            ready!(Pin::new(&mut self.socket).poll_ready(cx)).map_err(|_| Ended)?;
            let Some(document) = stream.pop() else { break };
            let text = Utf8Bytes::try_from(Vec::from(document)).map_err(|_| Ended)?;
            Pin::new(&mut self.socket).start_send(Message::Text(text)).map_err(|_| Ended)?;
        }
        Pin::new(&mut self.socket).poll_flush(cx).map_err(|_| Ended)
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>, _shared: &C2sConnections) -> Poll<()> {
        Pin::new(&mut self.socket).poll_close(cx).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::Duration;

    use futures_util::{SinkExt as _, StreamExt as _};
    use tokio::io::DuplexStream;
    use tokio::task::LocalSet;
    use tokio_tungstenite::client_async;
    use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

    use super::super::alone::WebConnections;
    use super::*;

    type Client = WebSocketStream<DuplexStream>;

    /// Reads documents up to the one with these words.
    async fn hear(client: &mut Client, words: &str) {
        loop {
            match client.next().await {
                Some(Ok(Message::Text(text))) if text.contains(words) => return,
                Some(Ok(Message::Text(text))) => {
                    assert!(!text.contains("stream:error") && !text.contains("<failure"), "{text}");
                }
                Some(Ok(_)) => {}
                end => panic!("no {words}: {end:?}"),
            }
        }
    }

    async fn ping_within_an_exchange(io: DuplexStream) {
        let mut request = "ws://a.test/ws".into_client_request().unwrap();
        request.headers_mut().insert("Sec-WebSocket-Protocol", "xmpp".parse().unwrap());
        let (mut client, _) = client_async(request, io).await.unwrap();
        let open = "<open xmlns='urn:ietf:params:xml:ns:xmpp-framing' to='a.test' version='1.0'/>";
        client.send(Message::text(open)).await.unwrap();
        hear(&mut client, "features").await;
        client
            .send(Message::text("<authenticate xmlns='urn:xmpp:sasl:2' mechanism='SCRAM-SHA-1'/>"))
            .await
            .unwrap();
        hear(&mut client, "<challenge").await;
        client.send(Message::Ping("1".into())).await.unwrap();
        client.send(Message::Pong("2".into())).await.unwrap();
        // The exchange goes on.
        client.send(Message::text("<abort xmlns='urn:xmpp:sasl:2'/>")).await.unwrap();
        hear(&mut client, "<aborted").await;
    }

    /// RFC 6455 §5.5: a control frame is no data of the stream, so it is none of the elements that an exchange of SASL2 may not have between
    /// its own (XEP-0388 §2.4).
    #[tokio::test]
    async fn a_ping_or_pong_within_an_exchange_of_sasl2_leaves_the_stream_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (client, server) = tokio::io::duplex(1 << 16);
        let both = async {
            let connections = WebConnections::new(folder.path()).unwrap();
            let served = connections.serve(server, IpAddr::V4(Ipv4Addr::LOCALHOST));
            tokio::join!(served, ping_within_an_exchange(client));
        };
        let local = LocalSet::new();
        let test = local.run_until(both);
        tokio::time::timeout(Duration::from_secs(30), test).await.unwrap();
    }
}
