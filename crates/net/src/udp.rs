//! One UDP socket of one shard. Received in batches, sent in batches, never blocking.
//!
//! Each shard has a socket of its own for each address, and the kernel divides datagrams by source. Datagrams
//! are copied out of the batch's buffer at once, so the buffer is the same for all sockets and turns. Datagrams of
//! one length to one peer leave, and arrive, as one (`UDP_SEGMENT`, `UDP_GRO`). In: datagrams and ICMP errors of the kernel; out: packets, answers to keep-alives, and failures of messages
//! whose sender asked for a report.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use mmsg::{BATCH, Datagram, DatagramGroups, Message, Receiver, Sender};
use sip::transport::{Packet, Source, TransmitId, Transport};
use sip::wire::raw_call_id;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::task::{JoinHandle, spawn_local};

use super::counters::NetCounters;
use super::flow::Shared;
use super::settings::{NetEvent, SendFault};
use super::stun;
use crate::limits;

/// When a socket is asked for datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadTrigger {
    /// When the runtime has heard from the kernel that there are some.
    WhenReady,
    /// In any case: the runtime has not been asked lately.
    Anyway,
}

impl ReadTrigger {
    fn at<R>(self, socket: &UdpSocket, receive: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        match self {
            ReadTrigger::WhenReady => socket.try_io(Interest::READABLE, receive),
            ReadTrigger::Anyway => receive(),
        }
    }
}

/// 2^64 divided by the golden ratio, which spreads the bits of a byte over the whole word.
const HASH_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The port of RFC 863, from which no peer sends.
const DISCARD_PORT: u16 = 9;

/// One datagram to send.
pub(super) struct Outgoing {
    pub(super) bytes: Bytes,
    pub(super) remote: SocketAddr,
    /// The source address, on a socket that has several.
    pub(super) from: Option<IpAddr>,
    pub(super) report: Option<TransmitId>,
    /// The place in the batch that it is sent with.
    pub(super) order: u64,
}

impl Outgoing {
    /// A hash of the Call-ID, or 0: messages of one call keep their order. Peers that choose equal ones delay only themselves.
    fn call(&self) -> u64 {
        let id = raw_call_id(&self.bytes).unwrap_or_default();
        id.iter()
            .fold(0, |hash, byte| (u64::rotate_left(hash, 5) ^ u64::from(*byte)).wrapping_mul(HASH_FACTOR))
    }

    fn message(&self) -> Message<'_> {
        Message { bytes: &self.bytes, remote: self.remote, from: self.from }
    }
}

pub(super) struct UdpListener {
    socket: Rc<UdpSocket>,
    /// Sets `refused` when the kernel has an ICMP error for us.
    watcher: JoinHandle<()>,
    refused: Rc<Cell<bool>>,
    pub(super) local: SocketAddr,
    /// Bytes the kernel granted.
    pub(super) receive_buffer: usize,
    queue: VecDeque<Outgoing>,
    /// The last messages that went and whose failure is to be reported, oldest first.
    sent: VecDeque<Outgoing>,
    drops: u32,
    /// The kernel takes and gives runs of datagrams at this socket.
    runs: bool,
    has_left_group: bool,
}

/// Binds a socket; a shared one beside those of the other shards.
pub(super) fn bind_socket(address: SocketAddr, kind: Type, shared: bool) -> io::Result<Socket> {
    let protocol = if kind == Type::DGRAM { Protocol::UDP } else { Protocol::TCP };
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_port(shared)?;
    if address.is_ipv6() {
        // 0.0.0.0 and [::] are two listeners: a dual-stack socket would take the IPv4 address from the other
        // one, and show its peers as mapped addresses.
        socket.set_only_v6(true)?;
    }
    if kind == Type::STREAM {
        // Connections of an earlier process in TIME_WAIT must not keep us out.
        socket.set_reuse_address(true)?;
    }
    socket.bind(&address.into())?;
    Ok(socket)
}

impl UdpListener {
    pub(super) fn bind(address: SocketAddr, shared: &Rc<Shared>) -> io::Result<Self> {
        let receive_buffer = shared.settings.udp_receive_buffer;
        let socket = bind_socket(address, Type::DGRAM, true)?;
        mmsg::prepare(socket.as_fd(), address.is_ipv6(), address.ip().is_unspecified())?;
        // With CAP_NET_ADMIN beyond `net.core.rmem_max`; without it, as much as that allows.
        if mmsg::force_receive_buffer(socket.as_fd(), receive_buffer).is_err() {
            socket.set_recv_buffer_size(receive_buffer)?;
        }
        socket.set_send_buffer_size(limits::UDP_SEND_BUFFER)?;
        // Kernels before 5.0 have none of both.
        let runs = mmsg::want_runs(socket.as_fd()).is_ok();
        // The kernel doubles what was asked for to pay for its own bookkeeping, and says the double.
        let granted = socket.recv_buffer_size()? / 2;
        let socket = Rc::new(UdpSocket::from_std(socket.into())?);
        let refused = Rc::new(Cell::new(false));
        Ok(UdpListener {
            watcher: spawn_local(watch(Rc::clone(&socket), Rc::clone(&refused), Rc::clone(shared))),
            local: socket.local_addr()?,
            socket,
            refused,
            receive_buffer: granted,
            queue: VecDeque::new(),
            sent: VecDeque::new(),
            drops: 0,
            runs,
            has_left_group: false,
        })
    }

    /// Takes the socket out of the group of those at its address; returns whether it was out before. A connected socket gets only what its
    /// peer sends, and the kernel's choice in a group passes it over: so it is connected to a port without a peer.
    pub(super) fn leave_group(&mut self) -> bool {
        let ip = match self.local.ip() {
            ip if !ip.is_unspecified() => ip,
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        // A kernel that refuses leaves the socket as it was: what comes before it is closed may be lost then.
        let _ = SockRef::from(&self.socket).connect(&SocketAddr::new(ip, DISCARD_PORT).into());
        std::mem::replace(&mut self.has_left_group, true)
    }

    pub(super) fn is_wildcard(&self) -> bool {
        self.local.ip().is_unspecified()
    }

    /// There is something to read, or room to send what waits.
    pub(super) fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        // Both are asked, so that both wake us.
        let readable = self.socket.poll_recv_ready(cx).is_ready();
        let writable = !self.queue.is_empty() && self.socket.poll_send_ready(cx).is_ready();
        if readable || writable || self.refused.get() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// One batch; the number of packets added.
    pub(super) fn receive(
        &mut self,
        receiver: &mut Receiver,
        look: ReadTrigger,
        counters: &mut NetCounters,
        events: &mut Vec<NetEvent>,
        sink: &mut Vec<Packet>,
    ) -> usize {
        let before = sink.len();
        let socket = Rc::clone(&self.socket);
        let UdpListener { local, queue, drops, .. } = self;
        let mut intake = Intake { local: *local, drops, queue, counters, sink };
        let result = look.at(&socket, || {
            match receiver.receive(socket.as_fd(), |datagram| intake.take(&datagram)) {
                // Fewer than asked for: the socket is empty. Saying so here saves the call that would only
                // find that out; the next datagram makes the socket readable again.
                Ok(count) if count < BATCH => Err(io::ErrorKind::WouldBlock.into()),
                other => other,
            }
        });
        // The socket tells of an ICMP error before it gives the next datagram. It is still readable then.
        // `WouldBlock` is the empty socket, no failure.
        let failed = result.is_err_and(|error| error.kind() != io::ErrorKind::WouldBlock);
        if self.refused.take() || failed {
            self.take_refusals(counters, events);
        }
        sink.len() - before
    }

    /// Queues, or reports that the queue is full.
    pub(super) fn queue(&mut self, message: Outgoing, limit: usize) -> Result<(), Outgoing> {
        // The bound is in messages: a datagram has 64 KiB at most.
        if self.queue.len() >= limit {
            return Err(message);
        }
        self.queue.push_back(message);
        Ok(())
    }

    /// Sends what is queued, as far as the kernel takes it now.
    pub(super) fn flush(
        &mut self,
        sender: &mut Sender,
        counters: &mut NetCounters,
        events: &mut Vec<NetEvent>,
    ) {
        let mut runs = self.runs && self.queue.len() > 1;
        if runs {
            self.arrange();
        }
        while !self.queue.is_empty() {
            let (socket, messages) = (self.socket.as_fd(), self.queue.iter().map(Outgoing::message));
            match if runs { sender.send_runs(socket, messages) } else { sender.send(socket, messages) } {
                Ok(sent) => self.remember(sent, counters),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return self.await_room(),
                // The device's queue is full, of which readiness says nothing: the next turn tries again.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The socket may tell of an earlier datagram's fate instead of sending this one.
                Err(_) if self.take_refusals(counters, events) => {}
                // A refused run is tried datagram by datagram: on this path they may be too long for a run (EINVAL).
                Err(error) if runs => {
                    runs = false;
                    // EIO: the device of this socket takes no runs at all.
                    self.runs = error.raw_os_error() != Some(libc::EIO);
                }
                Err(error) => self.give_up_first(&error, counters, events),
            }
        }
    }

    /// Puts messages of one length to one peer behind each other, as the kernel takes those as one.
    fn arrange(&mut self) {
        let mut groups = DatagramGroups::new();
        let mut is_arranged = true;
        let mut last = 0;
        for (index, message) in self.queue.iter_mut().enumerate() {
            let group = groups.place(message.bytes.len(), message.remote, message.call());
            // Within a group the order of the queue.
            message.order = u64::from(group) << 32 | index as u64;
            is_arranged &= last <= group;
            last = group;
        }
        if !is_arranged {
            self.queue.make_contiguous().sort_unstable_by_key(|message| message.order);
        }
    }

    fn remember(&mut self, sent: usize, counters: &mut NetCounters) {
        counters.datagrams_out += sent as u64;
        for message in self.queue.drain(..sent) {
            counters.datagram_bytes_out += message.bytes.len() as u64;
            // Only these are kept for a while: an ICMP error about another has no receiver.
            if message.report.is_some() {
                if self.sent.len() == limits::UDP_SENT {
                    self.sent.pop_front();
                }
                self.sent.push_back(message);
            }
        }
    }

    /// Reads ICMP errors: datagrams that did not arrive (RFC 3261 §18.4). Each quotes how its datagram began,
    /// and only one that we did send to there is believed: the quote has the branch in it, which a host off
    /// the path cannot know. True when there was any.
    fn take_refusals(&mut self, counters: &mut NetCounters, events: &mut Vec<NetEvent>) -> bool {
        let mut any = false;
        while let Some((remote, quote)) = mmsg::take_refusal(self.socket.as_fd()) {
            any = true;
            // The last that fits, as retransmissions begin alike.
            let quoted = |sent: &Outgoing| sent.remote == remote && sent.bytes.starts_with(&quote);
            let Some(message) = self.sent.iter().rposition(quoted).and_then(|at| self.sent.remove(at)) else {
                continue;
            };
            counters.send_failures += 1;
            events.extend(message.report.map(|report| NetEvent::SendFailed(report, SendFault::Unreachable)));
        }
        any
    }

    /// Tells the runtime, which we did not ask before sending, that the socket is full.
    fn await_room(&self) {
        let _ = self.socket.try_io(Interest::WRITABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
    }

    /// The error was about the first message only; the others go on.
    fn give_up_first(&mut self, error: &io::Error, counters: &mut NetCounters, events: &mut Vec<NetEvent>) {
        let Some(message) = self.queue.pop_front() else { return };
        let fault = match error.raw_os_error() {
            Some(libc::EMSGSIZE) => SendFault::TooLarge,
            _ => SendFault::Unreachable,
        };
        tracing::debug!(remote = %message.remote, bytes = message.bytes.len(), %error, "datagram not sent");
        counters.send_failures += 1;
        if let Some(report) = message.report {
            events.push(NetEvent::SendFailed(report, fault));
        }
    }
}

impl Drop for UdpListener {
    fn drop(&mut self) {
        self.watcher.abort();
    }
}

/// Errors do not make a socket readable, so they are waited for on their own.
async fn watch(socket: Rc<UdpSocket>, refused: Rc<Cell<bool>>, shared: Rc<Shared>) {
    while socket.ready(Interest::ERROR).await.is_ok() {
        // Noted; the next error counts as new.
        let _ = socket.try_io(Interest::ERROR, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
        refused.set(true);
        shared.wake_shard();
    }
}

/// The destination of the datagrams of one batch.
struct Intake<'a> {
    local: SocketAddr,
    drops: &'a mut u32,
    queue: &'a mut VecDeque<Outgoing>,
    counters: &'a mut NetCounters,
    sink: &'a mut Vec<Packet>,
}

impl Intake<'_> {
    fn take(&mut self, datagram: &Datagram<'_>) {
        self.counters.datagrams_in += 1;
        self.counters.datagram_bytes_in += datagram.bytes.len() as u64;
        if let Some(total) = datagram.drops {
            // The kernel counts since the socket was made, in 32 bits that wrap.
            self.counters.kernel_drops += u64::from(total.wrapping_sub(*self.drops));
            *self.drops = total;
        }
        if is_keepalive(datagram.bytes) {
            self.counters.datagram_keepalives += 1;
            return;
        }
        if stun::is_stun(datagram.bytes) {
            return self.answer_stun(datagram);
        }
        // The address that the peer has written to, also on a wildcard socket: answers leave from it.
        let local = datagram.to.map_or(self.local, |ip| SocketAddr::new(ip, self.local.port()));
        let source = Source { transport: Transport::Udp, local, remote: datagram.remote, flow: None };
        // Exactly its size: a transaction may hold it for 32 s, and must not hold the whole batch with it.
        self.sink.push(Packet { bytes: Bytes::copy_from_slice(datagram.bytes), source });
    }

    /// The answer leaves with the next `flush`, unless messages are waiting for the kernel already.
    fn answer_stun(&mut self, datagram: &Datagram<'_>) {
        self.counters.datagram_keepalives += 1;
        let answer = stun::answer(datagram.bytes, datagram.remote);
        if let Some(answer) = answer.filter(|_| self.queue.len() < BATCH) {
            let (remote, from) = (datagram.remote, datagram.to);
            self.queue.push_back(Outgoing { bytes: answer.into(), remote, from, report: None, order: 0 });
        }
    }
}

/// Phones keep NAT bindings open with line ends, zeros or nothing at all. No answer is expected.
fn is_keepalive(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| matches!(byte, b'\r' | b'\n' | 0))
}
