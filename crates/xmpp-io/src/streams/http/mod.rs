//! HTTP at the `ws:` and `wss:` addresses: WebSocket (RFC 7395), BOSH (XEP-0124), where to connect (XEP-0156), files
//! (XEP-0363), the page of users and the page of an invitation (XEP-0401).
//!
//! A connection speaks HTTP until it becomes a WebSocket; from then on nothing of HTTP is kept of it.
//!
//! `serve` calls [`documents`] for each connection; hyper parses its requests and calls `route::answer`, which chooses the service by path.

mod app;
pub mod bosh;
mod files;
pub mod invitation;
mod route;

use std::cell::Cell;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use net::admission::Handle;
use net::clock::Clock;
use net::{WatchedIo, ws};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::serve::Place;
use super::shared::C2sConnections;
use super::wire::Documents;
use crate::limits;
use crate::uploads::Uploads;

/// The settings of the HTTP services besides WebSockets.
#[derive(Clone, Debug)]
pub struct HttpServiceSettings {
    /// The node's clock.
    pub clock: Clock,
    /// The URL that clients are given, as `https://chat.example.net`; `None`: the one they have used, or the
    /// address.
    pub public_url: Option<Box<str>>,
    /// The same of a request that does not say how it found us.
    pub fallback_url: Box<str>,
    /// The page of users: where its phone connects, and how users sign in; `None`: there is no page.
    pub app: Option<web_app::PageSettings>,
    /// Invitations have a page.
    pub invitations: bool,
    /// Files that users share; `None`: uploads are off.
    pub uploads: Option<Arc<Uploads>>,
    /// The time for the head of a request, and between two requests.
    pub head_within: Duration,
    /// The time for the body of a request of BOSH.
    pub body_within: Duration,
}

/// One connection, as its requests see it.
struct Front {
    shared: Rc<C2sConnections>,
    remote: IpAddr,
    /// The client's address of the latest request: behind a proxy it changes.
    source: Cell<IpAddr>,
    is_secure: bool,
    /// It is a WebSocket once the answer is out.
    is_upgraded: Cell<bool>,
    /// A request has come. A connection that breaks before has failed its handshake.
    has_asked: Cell<bool>,
    /// While no request of it is at work, it makes room for other connections.
    handle: Option<Handle>,
}

/// Answers requests until the connection ends or becomes a WebSocket. Returns the WebSocket, on the heap so that the task stays small, and the
/// address of its client.
pub(super) async fn documents<S>(place: &Place, io: S, is_secure: bool) -> Option<(Box<Documents<S>>, IpAddr)>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let (shared, remote, handle) = (place.shared(), place.remote(), place.handle());
    let (is_upgraded, has_asked) = (Cell::new(false), Cell::new(false));
    let source = Cell::new(remote);
    let front = Rc::new(Front {
        shared: Rc::clone(shared),
        remote,
        source,
        is_secure,
        is_upgraded,
        has_asked,
        handle,
    });
    let asked = Rc::clone(&front);
    let service = service_fn(move |request| Box::pin(route::answer(Rc::clone(&asked), request)));
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(shared.settings.http.head_within)
        .max_buf_size(limits::XMPP_HTTP_BUFFER)
        .serve_connection(TokioIo::new(WatchedIo::new(io, front.handle.clone())), service);
    let mut ending = pin!(shared.ending.notified());
    let mut is_ending = false;
    let serve = poll_fn(|cx| {
        if !is_ending && ending.as_mut().poll(cx).is_ready() {
            is_ending = true;
            Pin::new(&mut connection).graceful_shutdown();
        }
        let is_evicted = front.handle.as_ref().is_some_and(|handle| handle.poll_evicted(cx).is_ready());
        if is_evicted { Poll::Ready(None) } else { connection.poll_without_shutdown(cx).map(Some) }
    });
    let done = serve.await?;
    if let Err(error) = &done {
        tracing::debug!(%error, "an HTTP connection broke");
        if !front.has_asked.get() {
            shared.counts.count(|counters| counters.handshake_failures += 1);
        }
    }
    let parts = connection.into_parts();
    let io = parts.io.into_inner().into_inner();
    if !front.is_upgraded.get() {
        linger(io).await;
        return None;
    }
    done.ok()?;
    let largest = shared.stream_settings.borrow().max_stanza;
    let config = Some(ws::config(largest));
    let first = Vec::from(parts.read_buf);
    let documents =
        Documents::new(WebSocketStream::from_partially_read(io, first, Role::Server, config).await);
    Some((Box::new(documents), front.source.get()))
}

/// Reads on for a moment: closing with unread bytes would reset the connection and take the last answer with it.
async fn linger<S: AsyncRead + AsyncWrite + Unpin>(mut io: S) {
    let rest = async {
        io.shutdown().await?;
        let mut scratch = [0; 1024];
        while io.read(&mut scratch).await? > 0 {}
        std::io::Result::Ok(())
    };
    // A client that goes on sending, or does not go, is cut off.
    let _ = timeout(limits::XMPP_LINGER, rest).await;
}
