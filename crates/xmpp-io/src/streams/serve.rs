//! The life of one connection of a client: accepted, secured, talking, closed.
//!
//! A connection waits nearly all of its life, so the task that waits is kept small ([`Conversation`], a future by hand), and larger tasks, as of a
//! handshake, end before it begins. TCP: `serve_tcp`, and after STARTTLS `secure`; TLS from the start: `serve_tls`; WebSocket and other HTTP:
//! `serve_ws`, `serve_wss`.

use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use net::admission::{Admitted, Handle, within};
use net::reuse_group::{self, Room};
use net::tls_stream::TlsStream;
use net::{certified, handshake, stream as tcp};
use sip::transport::Transport;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{Sleep, sleep};
use xmpp::Jid;
use xmpp::c2s::{Framing, Security, refusal};
use xmpp::sasl::Bindings;

use super::http;
use super::shared::C2sConnections;
use super::stream::Stream;
use super::wire::{Bytes, Wire};
use crate::limits;

pub(super) fn accept_all(
    shared: Rc<C2sConnections>,
    listener: TcpListener,
    transport: Transport,
) -> JoinHandle<()> {
    let admission = Arc::clone(&shared.settings.admission);
    if shared.settings.shares_ports {
        let counted = Rc::clone(&shared);
        let room = Room::new(shared.settings.max_streams, move || counted.open_connections());
        return reuse_group::accept_each(listener, admission, room, move |socket, remote| {
            accept(&shared, socket, remote.ip(), transport);
        });
    }
    tcp::accept_each(listener, admission, move |socket, remote| {
        accept(&shared, socket, remote.ip(), transport);
    })
}

pub(super) fn accept(shared: &Rc<C2sConnections>, socket: TcpStream, remote: IpAddr, transport: Transport) {
    // No stream error can be sent before the handshake, which is what a sign-in costs most: the client connects again, later each
    // time (RFC 6120 §3.3).
    if transport == Transport::Tls && !shared.admit_sign_in() {
        return;
    }
    let Some(place) = Place::enter(shared, remote, transport) else { return };
    tcp::tune(&socket);
    // One kind of task for each transport: a task is as large as the largest thing it may become.
    match transport {
        Transport::Udp | Transport::Tcp => serve_tcp(place, socket),
        Transport::Tls => drop(spawn_local(serve_tls(place, socket))),
        Transport::Ws => drop(spawn_local(serve_ws(place, socket))),
        Transport::Wss => drop(spawn_local(serve_wss(place, socket))),
    }
}

/// The resources of a connection's task. However the task ends, by panic too, the stream is forgotten.
pub(super) struct Place {
    shared: Rc<C2sConnections>,
    remote: IpAddr,
    transport: Transport,
    stream: Option<Rc<Stream>>,
    /// The stream's once there is one.
    admitted: Option<Admitted>,
}

impl Place {
    /// Takes a place among all connections and those of its source. `None`: there are too many.
    pub(super) fn enter(shared: &Rc<C2sConnections>, remote: IpAddr, transport: Transport) -> Option<Place> {
        let admitted = Some(shared.enter(remote, transport)?);
        Some(Place { shared: Rc::clone(shared), remote, transport, stream: None, admitted })
    }

    pub(super) fn shared(&self) -> &Rc<C2sConnections> {
        &self.shared
    }

    pub(super) fn remote(&self) -> IpAddr {
        self.remote
    }

    pub(super) fn handle(&self) -> Option<Handle> {
        self.admitted.as_deref().cloned().or_else(|| self.stream.as_ref()?.handle())
    }

    /// It is counted as the client that speaks through the proxy. False: that one has too many connections.
    #[must_use]
    fn speak_for(&mut self, source: IpAddr) -> bool {
        if source != self.remote {
            self.admitted = self.shared.admit(source, self.transport);
            self.remote = source;
        }
        self.admitted.is_some()
    }

    /// Begins the stream. Its place among the connections is the stream's from now on. While the shard does not keep up with sign-ins, the
    /// stream is refused as soon as the client opens it.
    pub(super) fn open(&mut self, framing: Framing, security: Security) -> Rc<Stream> {
        let admitted = self.admitted.take();
        // TLS from the start: `accept` has asked before the handshake.
        let is_refused = self.transport != Transport::Tls && !self.shared.admit_sign_in();
        let stream = self.shared.add((self.remote, self.transport), (framing, security), admitted);
        if is_refused {
            refusal::refuse(&mut stream.c2s.borrow_mut());
        }
        self.stream = Some(Rc::clone(&stream));
        stream
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.counts.count(|counters| counters.panics += 1);
            tracing::error!("a stream made the XMPP core panic: it was closed; please report what is above");
        }
        if let Some(stream) = &self.stream {
            self.shared.remove(stream);
            stream.leave(&self.shared.settings.admission);
        }
        let transport = self.stream.as_ref().map_or(self.transport, |stream| stream.transport.get());
        self.shared.leave(transport);
    }
}

fn serve_tcp(mut place: Place, socket: TcpStream) {
    place.open(Framing::Stream, Security::default());
    spawn_local(Conversation::new(place, Bytes::new(socket), |place, wire| {
        spawn_local(secure(place, wire.io));
    }));
}

/// STARTTLS (RFC 6120 §5). The handshake is a task of its own, so that the task of the encrypted connection
/// need not be as large.
async fn secure(place: Place, socket: TcpStream) {
    let shared = Rc::clone(&place.shared);
    let Some(stream) = place.stream.clone() else { return };
    stream.securing.set(false);
    let handle = stream.handle();
    let handle = handle.as_ref();
    let shaken = shake(&shared, handle, Box::pin(secured(&shared, handle, socket))).await;
    let Some((tls, security)) = shaken else { return };
    shared.counts.moved(stream.transport.replace(Transport::Tls), Transport::Tls);
    shared.tell(&stream, |c2s, out| c2s.handle_secured(security, out));
    converse_tls(place, tls);
}

async fn serve_tls(mut place: Place, socket: TcpStream) {
    let shared = Rc::clone(&place.shared);
    let handle = place.handle();
    let handle = handle.as_ref();
    let shaken = shake(&shared, handle, Box::pin(secured(&shared, handle, socket))).await;
    let Some((tls, security)) = shaken else { return };
    place.open(Framing::Stream, security);
    converse_tls(place, tls);
}

/// The conversation and its session of TLS are one box: beside each other they fill a size class of the allocator, and the task is half as
/// large.
fn converse_tls(place: Place, tls: TlsStream<TcpStream>) {
    spawn_local(Box::pin(Conversation::new(place, Bytes::new(tls.unboxed()), never)));
}

/// The handler for STARTTLS on a connection that has TLS: it is never called, because TLS is not offered
/// there and `<starttls/>` is refused.
fn never<W>(_: Place, _: W) {}

pub(super) async fn serve_ws<S>(mut place: Place, socket: S)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let shared = Rc::clone(&place.shared);
    let asked = Box::pin(http::documents(&place, socket, false)).await;
    let Some((mut wire, source)) = asked else { return };
    if !place.speak_for(source) {
        return;
    }
    let stream = place.open(Framing::Messages, Security::default());
    drive(&shared, &stream, &mut *wire).await;
}

async fn serve_wss(mut place: Place, socket: TcpStream) {
    let shared = Rc::clone(&place.shared);
    let shaken = {
        let handle = place.handle();
        let handle = handle.as_ref();
        let tls = async {
            // Browsers ask for HTTP, so this is not XMPP's own configuration.
            let config = shared.settings.tls.as_ref().ok_or(io::ErrorKind::Unsupported)?.server();
            handshake::accept_as((&shared.handshakes, handle), config, socket).await
        };
        shake(&shared, handle, Box::pin(tls)).await
    };
    let Some(tls) = shaken else { return };
    let asked = Box::pin(http::documents(&place, tls, true)).await;
    let Some((mut wire, source)) = asked else { return };
    if !place.speak_for(source) {
        return;
    }
    // Scripts of a page do not learn channel bindings.
    let security = Security { encrypted: true, ..Security::default() };
    let stream = place.open(Framing::Messages, security);
    drive(&shared, &stream, &mut *wire).await;
}

/// The handshake of TLS, and all that the stream has to know of it: channel bindings and the address in the client's certificate.
async fn secured(
    shared: &C2sConnections,
    handle: Option<&Handle>,
    socket: TcpStream,
) -> io::Result<(TlsStream<TcpStream>, Security)> {
    let (config, end_point) = shared.settings.tls.as_ref().ok_or(io::ErrorKind::Unsupported)?.xmpp();
    let config = match &shared.settings.client_authorities {
        Some(authorities) => authorities.asking(&config),
        None => config,
    };
    let mut tls = handshake::accept_as((&shared.handshakes, handle), config, socket).await?;
    let agreed = tls.session();
    // RFC 7590 §3.6.
    tracing::debug!(version = ?agreed.protocol_version(), suite = ?agreed.negotiated_cipher_suite(), "TLS");
    let (bindings, certified) = (bindings(&mut tls, end_point), certified(&tls));
    let security = Security { encrypted: true, bindings, certified };
    Ok((tls, security))
}

/// The address in the client's certificate, if there is exactly one (XEP-0178 §2).
fn certified(tls: &TlsStream<TcpStream>) -> Option<Jid> {
    // Without an authority of ours none was asked for, and none was verified.
    let own = tls.session().peer_certificates()?.first()?;
    let addresses = certified::addresses(own);
    let [address] = &addresses[..] else { return None };
    Jid::parse(address).ok().filter(|jid| jid.local().is_some() && jid.is_bare())
}

/// RFC 9266 for the first: TLS 1.2 would need the extended master secret, and cannot say whether it has it.
fn bindings(tls: &mut TlsStream<TcpStream>, end_point: Option<Box<[u8]>>) -> Bindings {
    let exporter = tls.session_mut().take_exporter();
    let exported = exporter.and_then(|exporter| exporter.export(b"EXPORTER-Channel-Binding", b""));
    Bindings { tls_exporter: exported.map(|bytes| bytes[..].into()), tls_server_end_point: end_point }
}

/// Bounds a handshake in time, and while the connection may make room for others. `None`: it failed.
async fn shake<T>(
    shared: &C2sConnections,
    handle: Option<&Handle>,
    handshake: Pin<Box<impl Future<Output = io::Result<T>>>>,
) -> Option<T> {
    // On the heap only for as long as it takes; an open connection does not carry its size along.
    let result = Box::pin(within(handle, net::limits::HANDSHAKE_TIMEOUT, handshake)).await;
    match result {
        Some(Ok(done)) => return Some(done),
        Some(Err(error)) => tracing::debug!(%error, "handshake failed"),
        None => tracing::debug!("handshake took too long, or made room for another"),
    }
    shared.counts.count(|counters| counters.handshake_failures += 1);
    None
}

/// The reason why a conversation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The stream is closed and all is written; the connection lingers.
    Closed,
    /// The connection has ended, or is given up.
    Broken,
    /// All is written, and TLS begins (RFC 6120 §5).
    Secure,
}

/// A connection's task until it ends, and nothing besides what that takes: most connections do nothing but wait in it.
struct Conversation<W> {
    /// `None` after the end, or once TLS has taken the connection over.
    held: Option<(Place, W)>,
    leaving: Leaving,
    /// TLS is to begin.
    on_secure: fn(Place, W),
}

/// The time that the goodbye may still take, once it has begun.
type Leaving = Option<Pin<Box<Sleep>>>;

impl<W> Conversation<W> {
    /// The place has an open stream.
    fn new(place: Place, wire: W, on_secure: fn(Place, W)) -> Self {
        Conversation { held: Some((place, wire)), leaving: None, on_secure }
    }
}

impl<W: Wire + Unpin> Future for Conversation<W> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Conversation { held, leaving, on_secure } = &mut *self;
        let Some((place, wire)) = held else { return Poll::Ready(()) };
        let Some(stream) = &place.stream else { return Poll::Ready(()) };
        let end = ready!(poll_life(cx, (&place.shared, stream), wire, leaving));
        if let Some((place, wire)) = held.take().filter(|_| end == End::Secure) {
            on_secure(place, wire);
        }
        Poll::Ready(())
    }
}

/// Moves the bytes of a stream over its wire until it ends, for tasks that need not be small.
pub(super) async fn drive<W: Wire>(shared: &C2sConnections, stream: &Stream, wire: &mut W) -> End {
    let mut leaving = None;
    poll_fn(|cx| poll_life(cx, (shared, stream), wire, &mut leaving)).await
}

/// The conversation, and then the goodbye, for [`limits::XMPP_LINGER`] at most.
fn poll_life<W: Wire>(
    cx: &mut Context<'_>,
    (shared, stream): (&C2sConnections, &Stream),
    wire: &mut W,
    leaving: &mut Leaving,
) -> Poll<End> {
    if leaving.is_none() {
        let end = ready!(poll_conversation(cx, shared, stream, wire));
        if end != End::Closed {
            return Poll::Ready(end);
        }
        // The session is over already; only the connection lingers.
        shared.remove(stream);
    }
    let leaving = leaving.get_or_insert_with(|| Box::pin(sleep(limits::XMPP_LINGER)));
    match wire.poll_shutdown(cx, shared) {
        Poll::Ready(()) => Poll::Ready(End::Closed),
        Poll::Pending => leaving.as_mut().poll(cx).map(|()| End::Closed),
    }
}

fn poll_conversation<W: Wire>(
    cx: &mut Context<'_>,
    shared: &C2sConnections,
    stream: &Stream,
    wire: &mut W,
) -> Poll<End> {
    stream.remember(cx);
    if stream.given_up.get() {
        return Poll::Ready(End::Broken);
    }
    if stream.poll_evicted(cx).is_ready() {
        shared.tell(stream, |c2s, out| c2s.fail("resource-constraint", out));
        // The rest that the kernel does not take at once is dropped: the place is needed.
        let _ = wire.poll_write(cx, stream);
        return Poll::Ready(End::Broken);
    }
    loop {
        match wire.poll_write(cx, stream) {
            Poll::Ready(Err(_)) => return Poll::Ready(End::Broken),
            Poll::Ready(Ok(())) if stream.closing.get() => return Poll::Ready(End::Closed),
            Poll::Ready(Ok(())) if stream.securing.get() => return Poll::Ready(End::Secure),
            _ => {}
        }
        shared.note_drained(stream);
        // Until an answer is here, or there is room, or it has read what it was sent, the client waits.
        let is_deaf = stream.closing.get()
            || stream.flushing.get()
            || stream.queued() > limits::XMPP_UNREAD
            || stream.securing.get()
            || stream.paused.get()
            || stream.c2s.borrow().is_waiting();
        if is_deaf || !shared.has_room(cx.waker()) {
            return Poll::Pending;
        }
        match wire.poll_read(cx, shared, stream) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(_)) => return Poll::Ready(End::Broken),
        }
    }
}

#[cfg(test)]
mod tests {
    use net::tls_stream::InlineTlsStream;

    use super::*;

    fn size<F: Future>(_: fn(Place, TcpStream) -> F) -> usize {
        size_of::<F>()
    }

    /// With tokio's header a task of TCP takes 256 bytes, and one of TLS, which is a pointer, 128.
    #[test]
    fn the_tasks_of_connections_are_small() {
        let tcp = size_of::<Conversation<Bytes<TcpStream>>>();
        let tls = size_of::<Conversation<Bytes<InlineTlsStream<TcpStream>>>>();
        // The allocator's size class is 1,280.
        assert!(tcp <= 128 && tls <= 1_280, "{tcp}, {tls}");
        for size in [size(serve_tls), size(secure), size(serve_ws), size(serve_wss)] {
            assert!(size <= 768, "{size}");
        }
        // With the counters of `Rc` the allocator's size class is 320.
        assert!(size_of::<Stream>() <= 304, "{}", size_of::<Stream>());
    }
}
