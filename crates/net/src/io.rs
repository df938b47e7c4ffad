//! All sockets of one shard.
//!
//! [`Io`] is the only object of this crate that a shard holds. In: `send`, `lookup`, `close_flow`; out: packets
//! (`receive_batch`) and events (`take_events`). A call never waits, so a shard's turn is bounded by its work;
//! failures of a message with a report come as events, never as results, as most of them are known only later.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

use mmsg::{Receiver, Sender};
use router::{FlowId, ShardAddress};
use sip::dns::DnsQuery;
use sip::transport::{Packet, Target, Transmit, Transport};
use socket2::Type;
use stdx::Instant;
use tokio::task::{JoinHandle, spawn_local};

use super::capture::{Capture, CaptureSettings, Way};
use super::counters::NetCounters;
use super::dns::Questions;
use super::flow::{Flow, IDLE_TICKS, PeerKey, Queued, Shared};
use super::settings::{Bound, Certified, CloseReason, Listener, NetError, NetEvent, NetSettings, SendFault};
use super::stream;
use super::udp::{Outgoing, ReadTrigger, UdpListener, bind_socket};

/// The sockets of one shard: its UDP sockets, its listeners, its connections. Made and used on the shard's
/// thread, inside its current-thread runtime and a `LocalSet`, because connections are local tasks.
///
/// One turn: await `ready`, `receive_batch`, `take_events`, work, `send` what came of it, `flush`.
pub struct Io {
    shared: Rc<Shared>,
    udp: Vec<UdpListener>,
    receiver: Receiver,
    sender: Sender,
    questions: Questions,
    accepting: Vec<JoinHandle<()>>,
    sweeper: JoinHandle<()>,
    /// Turns since the other tasks of the thread had theirs.
    turns: u32,
}

/// Turns without a pause for connection tasks while datagrams keep coming.
const TURNS: u32 = 4;

impl Io {
    /// Starts the network layer of one shard. Call it in a local task set.
    pub fn new(edge: ShardAddress, settings: NetSettings) -> Self {
        let capture = settings.capture.clone();
        let shared = Shared::new(edge, settings);
        let sweeper = spawn_local(sweep(Rc::clone(&shared)));
        let mut io = Io {
            shared,
            udp: Vec::new(),
            receiver: Receiver::new(),
            sender: Sender::new(),
            questions: Questions::new(),
            accepting: Vec::new(),
            sweeper,
            turns: 0,
        };
        // By the method, so that a failure is logged in the same way as at a reload.
        io.set_capture(capture);
        io
    }

    /// Listens at one address, beside the other shards.
    pub fn bind(&mut self, listener: &Listener) -> Result<Bound, NetError> {
        self.try_bind(listener).map_err(|error| NetError { listener: *listener, error })
    }

    fn try_bind(&mut self, listener: &Listener) -> std::io::Result<Bound> {
        if listener.transport == Transport::Udp {
            let socket = UdpListener::bind(listener.address, &self.shared)?;
            let bound = Bound { address: socket.local, receive_buffer: Some(socket.receive_buffer) };
            self.udp.push(socket);
            return Ok(bound);
        }
        if matches!(listener.transport, Transport::Tls | Transport::Wss) && self.shared.settings.tls.is_none()
        {
            return Err(std::io::Error::other("it needs a certificate, and none is configured"));
        }
        // Each shard has its own socket at the address; the kernel divides the connections among them.
        let socket = stream::listen(listener.address)?;
        let address = socket.local_addr()?;
        self.accepting.push(stream::accept_all(Rc::clone(&self.shared), socket, listener.transport));
        Ok(Bound { address, receive_buffer: None })
    }

    /// Checks that no other socket listens at this address. Sockets that share it (`SO_REUSEPORT`) would not
    /// notice another server of the same user, and each would get half of the traffic: ask before the first
    /// `bind`.
    pub fn check_free(listener: &Listener) -> Result<(), NetError> {
        let kind = if listener.transport == Transport::Udp { Type::DGRAM } else { Type::STREAM };
        bind_socket(listener.address, kind, false)
            .map(|_| ())
            .map_err(|error| NetError { listener: *listener, error })
    }

    /// Waits until there is a packet, an event, or room for what `flush` could not send. Dropping the
    /// future loses nothing.
    pub async fn ready(&mut self) {
        // Under load `poll_ready` is ready at once each time, and tasks of connections would never be polled.
        self.turns += 1;
        if self.turns >= TURNS {
            // Also the only time the runtime asks the kernel about other sockets.
            self.turns = 0;
            tokio::task::yield_now().await;
        }
        poll_fn(|cx| self.poll_ready(cx)).await;
    }

    fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        // Before the look: an event between look and registration would otherwise wake nothing.
        self.shared.listen(cx.waker());
        let mut ready = self.shared.has_something();
        for socket in &self.udp {
            ready |= socket.poll_ready(cx).is_ready();
        }
        if ready { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Adds the messages that are there: of each UDP socket one batch, of all streams together one. Never
    /// waits. The number added.
    pub fn receive_batch(&mut self, sink: &mut Vec<Packet>) -> usize {
        self.receive_looking(ReadTrigger::WhenReady, sink)
    }

    /// As [`receive_batch`](Self::receive_batch), without having awaited [`ready`](Self::ready): for a caller
    /// that slept and expects datagrams. The other tasks of the thread, and so the streams, wait meanwhile.
    pub fn receive_anyway(&mut self, sink: &mut Vec<Packet>) -> usize {
        self.receive_looking(ReadTrigger::Anyway, sink)
    }

    fn receive_looking(&mut self, look: ReadTrigger, sink: &mut Vec<Packet>) -> usize {
        // Counters and events are borrowed once for the batch, not for each datagram.
        let (mut count, before) = (0, sink.len());
        let mut counters = self.shared.counters.borrow_mut();
        let mut events = self.shared.events.borrow_mut();
        for socket in &mut self.udp {
            count += socket.receive(&mut self.receiver, look, &mut counters, &mut events, sink);
        }
        drop((counters, events));
        count += self.shared.take_messages(sink);
        self.capture_received(&sink[before..]);
        count
    }

    fn capture_received(&self, packets: &[Packet]) {
        if let Some(tap) = &self.shared.settings.tap {
            packets.iter().for_each(|packet| tap.received(packet.source.remote, &packet.bytes));
        }
        if let Some(capture) = &mut *self.shared.capture.borrow_mut() {
            for Packet { bytes, source } in packets {
                let (transport, source, destination) = (source.transport, source.remote, source.local);
                capture.note(Way { transport, source, destination }, bytes);
            }
        }
    }

    /// Captures messages from now on, or no longer. If the system gives no socket for it, messages pass uncaptured.
    pub fn set_capture(&mut self, settings: Option<CaptureSettings>) {
        self.flush_capture();
        let capture = settings.map(Capture::new).transpose().unwrap_or_else(|error| {
            tracing::warn!(%error, "SIP messages are not captured: there is no socket for it");
            None
        });
        self.shared.capture.replace(capture.map(Box::new));
    }

    fn flush_capture(&mut self) {
        if let Some(capture) = &mut *self.shared.capture.borrow_mut() {
            capture.flush(&mut self.sender, &mut self.shared.counters.borrow_mut());
        }
    }

    /// Queues one message. Datagrams leave with `flush`; a connection is made if need be.
    pub fn send(&mut self, transmit: Transmit) {
        match transmit.target.transport {
            Transport::Udp => self.send_datagram(transmit),
            _ => self.send_on_stream(transmit),
        }
    }

    fn send_datagram(&mut self, transmit: Transmit) {
        let Transmit { target, bytes, report } = transmit;
        let Some(index) = self.choose_socket(&target) else {
            return self.shared.send_failed(report, SendFault::NoSocket);
        };
        let socket = &mut self.udp[index];
        // On a wildcard socket the kernel would choose the source by its routes, and a NAT or firewall that
        // expects the address that was written to would drop the answer (RFC 3581 §4).
        let from = target.local.map(|local| local.ip());
        let from = from.filter(|ip| socket.is_wildcard() && !ip.is_unspecified());
        let source = from.map_or(socket.local, |ip| SocketAddr::new(ip, socket.local.port()));
        let (transport, destination) = (Transport::Udp, target.remote);
        // Before it is queued: a copy of a datagram that then finds the queue full is harmless, a message
        // without one is not found in a trace.
        self.shared.capture(|| Way { transport, source, destination }, &bytes);
        let message = Outgoing { bytes, remote: target.remote, from, report, order: 0 };
        // A full queue means that the kernel takes nothing. The newest message is refused, as the others are in
        // order.
        if socket.queue(message, self.shared.settings.udp_send_queue).is_err() {
            self.shared.send_failed(report, SendFault::Overflow);
        }
    }

    /// The socket that has the wanted local address; without such a one, the first of the peer's family.
    fn choose_socket(&self, target: &Target) -> Option<usize> {
        let suits = |socket: &UdpListener| match target.local {
            Some(local) if socket.is_wildcard() => {
                socket.local.port() == local.port() && socket.local.is_ipv4() == local.is_ipv4()
            }
            Some(local) => socket.local == local,
            None => true,
        };
        let same_family = |socket: &UdpListener| socket.local.is_ipv4() == target.remote.is_ipv4();
        let wanted = self.udp.iter().position(|socket| same_family(socket) && suits(socket));
        wanted.or_else(|| self.udp.iter().position(same_family))
    }

    fn send_on_stream(&mut self, transmit: Transmit) {
        let Transmit { target, bytes, report } = transmit;
        match self.flow_for(target) {
            Ok(flow) => self.shared.write(&flow, Queued { bytes, report }),
            Err(fault) => self.shared.send_failed(report, fault),
        }
    }

    fn flow_for(&mut self, target: Target) -> Result<Rc<Flow>, SendFault> {
        if let Some(id) = target.flow {
            match self.shared.flow(id) {
                Some(flow) => return Ok(flow),
                // RFC 3261 §18.2.2: a response whose connection is gone goes to the address in the Via, by a
                // new one.
                None if target.reconnect => {}
                None => return Err(SendFault::FlowGone),
            }
        }
        let Target { transport, remote, tls_name, .. } = target;
        if !matches!(transport, Transport::Tcp | Transport::Tls) {
            // Browsers cannot be connected to (RFC 7118 §5).
            return Err(SendFault::FlowGone);
        }
        // The name is part of the key: a connection whose certificate was verified for one domain is not used
        // for another (RFC 5923 §9.3).
        let key = PeerKey { transport, remote, tls_name };
        match self.shared.peer(&key) {
            Some(flow) => Ok(flow),
            None if self.shared.has_place() => Ok(stream::connect(&self.shared, &key)),
            None => Err(SendFault::Overflow),
        }
    }

    /// Hands queued datagrams to the kernel. Streams write by themselves as soon as this thread waits.
    pub fn flush(&mut self) {
        let mut counters = self.shared.counters.borrow_mut();
        let mut events = self.shared.events.borrow_mut();
        for socket in &mut self.udp {
            socket.flush(&mut self.sender, &mut counters, &mut events);
        }
        drop((counters, events));
        self.flush_capture();
    }

    /// Moves out what happened since the last call.
    pub fn take_events(&mut self, sink: &mut Vec<NetEvent>) {
        sink.append(&mut self.shared.events.borrow_mut());
    }

    /// Moves out what became known of peers' certificates since the last call. To be asked before `receive_batch`: what
    /// is received then comes after it.
    pub fn take_certified(&mut self, sink: &mut Vec<Certified>) {
        sink.append(&mut self.shared.certified.borrow_mut());
    }

    /// Returns the counters so far.
    pub fn counters(&self) -> NetCounters {
        *self.shared.counters.borrow()
    }

    /// Ends a connection after writing what is queued, as far as the kernel takes it at once; `FlowClosed`
    /// follows.
    pub fn close_flow(&mut self, flow: FlowId) {
        if let Some(flow) = self.shared.flow(flow) {
            flow.close(CloseReason::Ours);
        }
    }

    /// Asks DNS; `NetEvent::Dns` with this id follows, within `dns_timeout`.
    pub fn lookup(&mut self, now: Instant, id: u64, query: &DnsQuery) {
        self.questions.ask(now, &self.shared, id, query);
    }

    /// For draining: no new connections, the open ones go on. Datagrams still come in.
    pub fn stop_accepting(&mut self) {
        self.accepting.drain(..).for_each(|task| task.abort());
    }

    /// Leaves the groups of UDP sockets at the same addresses: datagrams that come from now on go to the others of a group, and
    /// those that have come can still be read. Returns whether an earlier call has done it, so that nothing more comes.
    pub fn leave_udp_groups(&mut self) -> bool {
        let mut had_left = true;
        for socket in &mut self.udp {
            had_left &= socket.leave_group();
        }
        had_left
    }

    /// Closes the UDP sockets. Datagrams that are not read or could not be sent are lost.
    pub fn close_udp(&mut self) {
        self.flush();
        self.udp.clear();
    }

    /// The addresses bound for UDP, in the order of `bind`.
    pub fn udp_addresses(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        self.udp.iter().map(|socket| socket.local)
    }
}

impl Drop for Io {
    fn drop(&mut self) {
        self.stop_accepting();
        self.sweeper.abort();
        self.shared.close_all();
    }
}

async fn sweep(shared: Rc<Shared>) {
    let mut interval = tokio::time::interval(shared.settings.flow_idle / IDLE_TICKS);
    // After a stall one look is enough; several in a row would count idle time that has not passed.
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        shared.sweep_idle();
    }
}
