//! One UDP socket of one shard. Received in batches, sent in batches, never blocking.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::task::{Context, Poll};

use bytes::Bytes;
use sip::transport::{Packet, Source, TransmitId, Transport};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::counters::NetCounters;
use super::mmsg::{self, BATCH, Datagram, Receiver, Sender};
use super::settings::{NetEvent, SendFault};

/// One datagram to send.
pub(super) struct Outgoing {
    pub(super) bytes: Bytes,
    pub(super) remote: SocketAddr,
    /// The source address, on a socket that has several.
    pub(super) from: Option<IpAddr>,
    pub(super) report: Option<TransmitId>,
}

pub(super) struct UdpListener {
    socket: UdpSocket,
    pub(super) local: SocketAddr,
    /// Bytes the kernel granted.
    pub(super) receive_buffer: usize,
    queue: VecDeque<Outgoing>,
    drops: u32,
}

/// Binds beside the sockets of the other shards.
pub(super) fn bind_shared(address: SocketAddr, kind: Type) -> io::Result<Socket> {
    let protocol = if kind == Type::DGRAM { Protocol::UDP } else { Protocol::TCP };
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_port(true)?;
    if address.is_ipv6() {
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
    pub(super) fn bind(address: SocketAddr, receive_buffer: usize) -> io::Result<Self> {
        let socket = bind_shared(address, Type::DGRAM)?;
        mmsg::ask_for_control(socket.as_fd(), address.is_ipv6(), address.ip().is_unspecified())?;
        if mmsg::force_receive_buffer(socket.as_fd(), receive_buffer).is_err() {
            socket.set_recv_buffer_size(receive_buffer)?;
        }
        // The kernel doubles what was asked for to pay for its own bookkeeping, and says the double.
        let granted = socket.recv_buffer_size()? / 2;
        let socket = UdpSocket::from_std(socket.into())?;
        let local = socket.local_addr()?;
        Ok(UdpListener { socket, local, receive_buffer: granted, queue: VecDeque::new(), drops: 0 })
    }

    pub(super) fn is_wildcard(&self) -> bool {
        self.local.ip().is_unspecified()
    }

    /// There is something to read, or room to send what waits.
    pub(super) fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        // Both are asked, so that both wake us.
        let readable = self.socket.poll_recv_ready(cx).is_ready();
        let writable = !self.queue.is_empty() && self.socket.poll_send_ready(cx).is_ready();
        if readable || writable { Poll::Ready(()) } else { Poll::Pending }
    }

    /// One batch; the number of packets added.
    pub(super) fn receive(
        &mut self,
        receiver: &mut Receiver,
        counters: &mut NetCounters,
        sink: &mut Vec<Packet>,
    ) -> usize {
        let before = sink.len();
        let (local, drops) = (self.local, &mut self.drops);
        // A failed read is either "nothing there" or the echo of an earlier send; neither is an event.
        let socket = &self.socket;
        let _ = socket.try_io(Interest::READABLE, || {
            let each = |datagram: Datagram<'_>| take(&datagram, local, drops, counters, sink);
            match receiver.receive(socket.as_fd(), each) {
                // Fewer than asked for: the socket is empty. Saying so here saves the call that would only
                // find that out; the next datagram makes the socket readable again.
                Ok(count) if count < BATCH => Err(io::ErrorKind::WouldBlock.into()),
                other => other,
            }
        });
        sink.len() - before
    }

    /// Queues, or reports that the queue is full.
    pub(super) fn queue(&mut self, message: Outgoing, limit: usize) -> Result<(), Outgoing> {
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
        let mut retried = false;
        while !self.queue.is_empty() {
            match sender.send(self.socket.as_fd(), self.queue.iter()) {
                Ok(sent) => {
                    retried = false;
                    for message in self.queue.drain(..sent) {
                        counters.datagrams_out += 1;
                        counters.datagram_bytes_out += message.bytes.len() as u64;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return self.await_room(),
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The socket hands over an ICMP error of some earlier datagram, once.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused && !retried => retried = true,
                Err(error) => {
                    retried = false;
                    self.give_up_first(&error, counters, events);
                }
            }
        }
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

fn take(
    datagram: &Datagram<'_>,
    bound: SocketAddr,
    drops: &mut u32,
    counters: &mut NetCounters,
    sink: &mut Vec<Packet>,
) {
    counters.datagrams_in += 1;
    counters.datagram_bytes_in += datagram.bytes.len() as u64;
    if let Some(total) = datagram.drops {
        counters.kernel_drops += u64::from(total.wrapping_sub(*drops));
        *drops = total;
    }
    if is_keepalive(datagram.bytes) {
        counters.datagram_keepalives += 1;
        return;
    }
    let local = datagram.to.map_or(bound, |ip| SocketAddr::new(ip, bound.port()));
    let source = Source { transport: Transport::Udp, local, remote: datagram.remote, flow: None };
    // Exactly its size: a transaction may hold it for 32 s, and must not hold the whole batch with it.
    sink.push(Packet { bytes: Bytes::copy_from_slice(datagram.bytes), source });
}

/// Phones keep NAT bindings open with line ends, zeros or nothing at all. No answer is expected.
fn is_keepalive(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| matches!(byte, b'\r' | b'\n' | 0))
}
