//! Connections: accepted, made on demand, and the task that drives each.
//!
//! Every shard listens for itself (`SO_REUSEPORT`) and keeps what it accepts: no hand-over, no shard that
//! accepts for all and dies for all. An uneven spread of few connections does not matter: the Call-ID of a
//! message decides its shard, not the connection.
//!
//! One task drives one connection: handshakes, then frames in and queued messages out, until either side ends
//! it. The task and the rest of the shard share a [`Flow`]; whatever ends first, the flow is removed once
//! ([`FlowGuard`]) and the shard hears of it by one event. Backpressure is by not reading: while the shard's
//! inbox of messages is full ([`Shared::has_room`]), the kernel's buffers fill and TCP slows the peer.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use sip::transport::Transport;
use sip::wire::framing::{Frame, FrameFault};
use socket2::{SockRef, TcpKeepalive, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, spawn_local, unconstrained, yield_now};
use tokio::time::timeout;

use super::admission::{Admission, within};
use super::flow::{Flow, Origin, PeerKey, Shared};
use super::patience::MessageTimer;
use super::reserve_file::AcceptFailures;
use super::reuse_group::{self, Room};
use super::settings::{CloseReason, NetEvent};
use super::udp::bind_socket;
use super::wire::{End, StreamWire, Wire};
use super::{handshake, ws};
use crate::limits;

/// Connections the kernel may hold until we accept them; it takes `net.core.somaxconn` if that is less.
const BACKLOG: i32 = 4096;

/// A host that has vanished is noticed after silence of the first, a probe, and the second: after 135 seconds. Linux ends a connection whose
/// peer has been silent for longer than `UNACKNOWLEDGED` when the first probe has had no answer (tcp(7), `TCP_USER_TIMEOUT`); the number
/// of probes counts where that option is missing.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(120);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(15);

/// Bytes we sent that stay unacknowledged for so long break the connection: longer than 64*T1, after
/// which no transaction waits for them.
const UNACKNOWLEDGED: Duration = Duration::from_secs(33);

/// Listens for TCP at an address, beside other listeners at the same one (`SO_REUSEPORT`).
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = bind_socket(address, Type::STREAM, true)?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Accepts the connections that wait in the kernel in large batches. Tokio would let a task accept 128 and then wait for all others: on a busy shard
/// peers would wait in the kernel's queue, where no code counts, paces or refuses them.
#[derive(Debug, Default)]
pub(super) struct Acceptor {
    accepted: usize,
}

impl Acceptor {
    pub(super) async fn accept(&mut self, listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
        if self.accepted == limits::ACCEPT_BATCH {
            self.accepted = 0;
            yield_now().await;
        }
        self.accepted += 1;
        unconstrained(listener.accept()).await
    }
}

/// Accepts for as long as the handle is not aborted. Without file descriptors idle connections of `admission` make room, or new ones are
/// reset.
pub fn accept_each(
    listener: TcpListener,
    admission: Arc<Admission>,
    take: impl Fn(TcpStream, SocketAddr) + 'static,
) -> JoinHandle<()> {
    spawn_local(async move {
        let (mut acceptor, mut failures) = (Acceptor::default(), AcceptFailures::new(admission));
        loop {
            match acceptor.accept(&listener).await {
                Ok((socket, remote)) => take(socket, remote),
                Err(error) => failures.handle(&listener, &error).await,
            }
        }
    })
}

pub(super) fn accept_all(shared: Rc<Shared>, listener: TcpListener, transport: Transport) -> JoinHandle<()> {
    let admission = Arc::clone(&shared.settings.admission);
    if shared.settings.shares_ports {
        let counted = Rc::clone(&shared);
        let room = Room::new(shared.settings.max_flows, move || counted.open_flows());
        let take = move |socket, remote| accept(&shared, socket, remote, transport);
        return reuse_group::accept_each(listener, admission, room, take);
    }
    accept_each(listener, admission, move |socket, remote| accept(&shared, socket, remote, transport))
}

fn accept(shared: &Rc<Shared>, socket: TcpStream, remote: SocketAddr, transport: Transport) {
    let local = socket.local_addr().ok();
    // Before any handshake: a refused connection costs an `accept` and a `close`.
    let Some((local, admitted)) = local.and_then(|local| Some((local, shared.admit(remote, transport)?)))
    else {
        return shared.count(|counters| counters.flows_refused += 1);
    };
    shared.count(|counters| counters.flows_accepted += 1);
    tune(&socket);
    let flow = shared.add_flow(transport, local, remote, Origin::Accepted(admitted));
    let held = FlowGuard { flow, shared: Rc::clone(shared) };
    // One kind of task for each transport: a task is as large as the largest thing it may become.
    match transport {
        Transport::Udp | Transport::Tcp => {
            spawn_local(async move { drive(&held.shared, &held.flow, StreamWire::new(socket)).await })
        }
        Transport::Tls => spawn_local(async move { serve_tls(&held.shared, &held.flow, socket).await }),
        Transport::Ws => spawn_local(async move { serve_ws(&held.shared, &held.flow, socket).await }),
        Transport::Wss => spawn_local(async move { serve_wss(&held.shared, &held.flow, socket).await }),
    };
}

/// The resources of a connection's task. However the task ends, by panic too, the flow is forgotten.
struct FlowGuard {
    shared: Rc<Shared>,
    flow: Rc<Flow>,
}

impl Drop for FlowGuard {
    fn drop(&mut self) {
        self.shared.remove_flow(&self.flow, CloseReason::Broken);
    }
}

async fn serve_tls(shared: &Shared, flow: &Flow, socket: TcpStream) {
    let handshake = Box::pin(handshake::accept_certified(shared, flow, socket));
    if let Some(tls) = shake(shared, flow, handshake).await {
        drive(shared, flow, StreamWire::new(tls)).await;
    }
}

async fn serve_ws(shared: &Shared, flow: &Flow, socket: TcpStream) {
    if let Some(upgraded) = shake(shared, flow, Box::pin(ws::accept(shared, flow, socket))).await {
        drive_upgraded(shared, flow, upgraded).await;
    }
}

async fn serve_wss(shared: &Shared, flow: &Flow, socket: TcpStream) {
    let both = async { ws::accept(shared, flow, handshake::accept(shared, flow, socket).await?).await };
    if let Some(upgraded) = shake(shared, flow, Box::pin(both)).await {
        drive_upgraded(shared, flow, upgraded).await;
    }
}

/// A WebSocket, and the client that it is of: not the same as the peer behind a proxy.
async fn drive_upgraded<W: Wire>(shared: &Shared, flow: &Flow, (wire, client): (W, IpAddr)) {
    if shared.speak_for(flow, client) {
        return drive(shared, flow, wire).await;
    }
    shared.count(|counters| counters.flows_refused += 1);
    shared.remove_flow(flow, CloseReason::HandshakeFailed);
}

/// Bounds a handshake in time, and while the connection may make room for others. `None`: it failed, and the flow is gone.
/// It is on the heap only for as long as it takes: the task of an open connection does not carry its size along.
async fn shake<T>(
    shared: &Shared,
    flow: &Flow,
    handshake: Pin<Box<impl Future<Output = io::Result<T>>>>,
) -> Option<T> {
    let time = shared.settings.handshake_timeout;
    match within(flow.admitted().map(|admitted| &**admitted), time, handshake).await {
        Some(Ok(done)) => return Some(done),
        Some(Err(error)) => tracing::debug!(remote = %flow.remote.get(), %error, "handshake failed"),
        None => {
            tracing::debug!(remote = %flow.remote.get(), "handshake took too long, or made room for another");
        }
    }
    // To tell apart for the counters and the log: a peer's failure, or our want of room.
    let is_evicted = flow.admitted().is_some_and(|admitted| admitted.is_evicted());
    shared.count(|counters| counters.handshake_failures += 1);
    let reason = if is_evicted { CloseReason::Evicted } else { CloseReason::HandshakeFailed };
    shared.remove_flow(flow, reason);
    None
}

/// Connects in a task; messages may be queued on the flow at once.
pub(super) fn connect(shared: &Rc<Shared>, key: &PeerKey) -> Rc<Flow> {
    // The local address is known once the connection is made; until then it is the unspecified one of the same
    // family.
    let unknown = match key.remote {
        SocketAddr::V4(_) => SocketAddr::from(([0; 4], 0)),
        SocketAddr::V6(_) => SocketAddr::from(([0; 16], 0)),
    };
    let flow = shared.add_flow(key.transport, unknown, key.remote, Origin::Ours(key.clone()));
    let held = FlowGuard { flow: Rc::clone(&flow), shared: Rc::clone(shared) };
    spawn_local(async move { connect_and_drive(&held.shared, &held.flow).await });
    flow
}

async fn connect_and_drive(shared: &Shared, flow: &Flow) {
    let connecting = timeout(shared.settings.connect_timeout, TcpStream::connect(flow.remote.get()));
    let Ok(Ok(socket)) = connecting.await else {
        shared.count(|counters| counters.connect_failures += 1);
        return shared.remove_flow(flow, CloseReason::ConnectFailed);
    };
    tune(&socket);
    if let Ok(local) = socket.local_addr() {
        flow.local.set(local);
    }
    shared.count(|counters| counters.flows_connected += 1);
    if flow.transport == Transport::Tcp {
        return drive(shared, flow, StreamWire::new(socket)).await;
    }
    // The name that RFC 3263 began with, not the one of the record: RFC 5922 §7.2 compares that one.
    let name = flow.key.as_ref().and_then(|key| key.tls_name.as_deref());
    let handshake = Box::pin(handshake::connect(shared, socket, flow.remote.get(), name));
    if let Some(tls) = shake(shared, flow, handshake).await {
        // RFC 5923 §8: what the peer says on a connection of ours it says as the name that its certificate was verified for.
        shared.certify(flow, name.map(|name| name.to_ascii_lowercase().into()).into_iter().collect());
        drive(shared, flow, StreamWire::new(tls)).await;
    }
}

/// None of these can fail on a socket that is connected; if one does, TCP's defaults serve.
pub fn tune(socket: &TcpStream) {
    let keepalive =
        TcpKeepalive::new().with_time(KEEPALIVE_AFTER).with_interval(KEEPALIVE_EVERY).with_retries(6);
    let socket = SockRef::from(socket);
    let _ = socket.set_tcp_nodelay(true);
    let _ = socket.set_tcp_keepalive(&keepalive);
    let _ = socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
}

/// The life of a connection after its handshakes.
pub(super) async fn drive<W: Wire>(shared: &Shared, flow: &Flow, mut wire: W) {
    flow.open.set(true);
    flow.last_tick.set(shared.tick.get());
    shared.event(NetEvent::FlowOpened(flow.source()));
    // Only a connection that a peer has made owes us a first message; one of ours may wait for its answer as
    // long as the transaction does.
    let mut timer = match flow.admitted() {
        Some(_) => MessageTimer::of_first(shared.settings.first_message),
        None => MessageTimer::default(),
    };
    let reason = match poll_fn(|cx| poll_conversation(cx, shared, flow, (&mut wire, &mut timer))).await {
        End::Closed(reason) => reason,
        End::Fault(fault) => {
            answer_fault(shared, flow, &mut wire, fault).await;
            CloseReason::Malformed
        }
    };
    shared.remove_flow(flow, reason);
    // These are closed without a farewell: the peer does not read, or is gone, or its place is needed now.
    let is_cut_off = matches!(reason, CloseReason::Broken | CloseReason::Overflow | CloseReason::Evicted);
    if !is_cut_off {
        // Late is as good as never: the socket closes anyway.
        let _ = timeout(limits::FAULT_LINGER, say_goodbye(shared, &mut wire, reason)).await;
    }
}

fn poll_conversation<W: Wire>(
    cx: &mut Context<'_>,
    shared: &Shared,
    flow: &Flow,
    (wire, timer): (&mut W, &mut MessageTimer),
) -> Poll<End> {
    remember_waker(flow, cx);
    if flow.admitted().is_some_and(|admitted| admitted.poll_evicted(cx).is_ready()) {
        return Poll::Ready(End::Closed(CloseReason::Evicted));
    }
    // Also when closing: a last answer may have been queued in the same turn.
    if let Poll::Ready(Err(reason)) = wire.poll_write(cx, shared, flow) {
        return Poll::Ready(End::Closed(reason));
    }
    if let Some(reason) = flow.closing.get() {
        return Poll::Ready(End::Closed(reason));
    }
    // `has_room` keeps the waker if there is none, and wakes the task once the shard has taken messages.
    while shared.has_room(cx.waker()) {
        let mut scratch = shared.scratch.borrow_mut();
        match wire.poll_frame(cx, &mut scratch) {
            Poll::Pending => return poll_patience(cx, shared, flow, (wire, timer)),
            Poll::Ready(Ok(frame)) => handle_frame::<W>(shared, flow, frame, timer),
            Poll::Ready(Err(end)) => return Poll::Ready(end),
        }
    }
    Poll::Pending
}

/// Ready once the peer may not take more time for the message, or memory for the part that has come.
fn poll_patience<W: Wire>(
    cx: &mut Context<'_>,
    shared: &Shared,
    flow: &Flow,
    (wire, timer): (&W, &mut MessageTimer),
) -> Poll<End> {
    let held = wire.partial();
    // Two bounds: one of time, so that a trickle does not hold a connection, and one of bytes over all
    // connections that have half a message.
    let is_over = timer.poll(cx, held > 0, shared.settings.message).is_ready();
    if is_over || !shared.hold_partial(flow, held) {
        tracing::debug!(remote = %flow.remote.get(), held, "closed: a message does not come whole");
        return Poll::Ready(End::Closed(CloseReason::Slow));
    }
    Poll::Pending
}

fn remember_waker(flow: &Flow, cx: &Context<'_>) {
    let mut waker = flow.waker.borrow_mut();
    match waker.as_mut() {
        Some(old) => old.clone_from(cx.waker()),
        None => *waker = Some(cx.waker().clone()),
    }
}

fn handle_frame<W: Wire>(shared: &Shared, flow: &Flow, frame: Frame, timer: &mut MessageTimer) {
    // Only whole messages count as activity: a peer that sends a byte a minute is idle.
    flow.last_tick.set(shared.tick.get());
    match frame {
        Frame::Message(bytes) => {
            timer.stop();
            if let Some(admitted) = flow.admitted() {
                // One whole message: the connection no longer makes room for newcomers.
                admitted.establish();
            }
            shared.deliver(flow, bytes);
        }
        Frame::Ping => {
            shared.count(|counters| counters.stream_keepalives += 1);
            // RFC 5626 §4.4.1: a double CRLF is answered with one.
            shared.write_pong(flow, W::pong());
        }
        Frame::Pong => {}
    }
}

/// Lets the core answer a stream that is beyond repair, then waits for that answer to get out.
async fn answer_fault<W: Wire>(shared: &Shared, flow: &Flow, wire: &mut W, fault: FrameFault) {
    shared.count(|counters| counters.stream_faults += 1);
    tracing::debug!(remote = %flow.remote.get(), kind = ?fault.kind, "stream cannot be cut into messages");
    let Some(reply) = fault.reply() else { return };
    shared.event(NetEvent::StreamFault { source: flow.source(), head: fault.head, reply });
    // The core's answer comes into the queue at a later turn: until it was seen there, an empty queue does not
    // mean that it is sent.
    let mut seen = false;
    let answered = poll_fn(|cx| {
        remember_waker(flow, cx);
        seen |= !flow.queue.borrow().is_empty();
        match wire.poll_write(cx, shared, flow) {
            Poll::Ready(Ok(())) if !seen && flow.closing.get().is_none() => Poll::Pending,
            other => other.map(|_| ()),
        }
    });
    let _ = timeout(limits::FAULT_LINGER, answered).await;
}

async fn say_goodbye<W: Wire>(shared: &Shared, wire: &mut W, reason: CloseReason) {
    poll_fn(|cx| wire.poll_shutdown(cx)).await;
    if reason == CloseReason::Malformed {
        // Closing with unread bytes would reset the connection and take our answer with it.
        poll_fn(|cx| poll_discard(cx, shared, wire)).await;
    }
}

fn poll_discard<W: Wire>(cx: &mut Context<'_>, shared: &Shared, wire: &mut W) -> Poll<()> {
    loop {
        let mut scratch = shared.scratch.borrow_mut();
        match wire.poll_frame(cx, &mut scratch) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Ok(_)) => {}
            Poll::Ready(Err(_)) => return Poll::Ready(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::task::LocalSet;

    use super::super::admission::Bounds;
    use super::*;

    /// More than tokio lets a task accept before others run.
    const CONNECTIONS: usize = 200;

    #[tokio::test]
    async fn connections_that_wait_are_accepted_before_other_tasks_run() {
        let accepting = async {
            let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
            let address = listener.local_addr().unwrap();
            let connect = || std::net::TcpStream::connect(address).unwrap();
            let clients: Vec<_> = (0..CONNECTIONS).map(|_| connect()).collect();
            let accepted = Rc::new(Cell::new(0));
            let counter = Rc::clone(&accepted);
            let count = move |_, _| counter.set(counter.get() + 1);
            let task = accept_each(listener, Admission::new(Bounds::default()), count);
            while accepted.get() == 0 {
                yield_now().await;
            }
            assert_eq!(accepted.get(), clients.len());
            task.abort();
        };
        timeout(Duration::from_secs(30), LocalSet::new().run_until(accepting)).await.unwrap();
    }
}
