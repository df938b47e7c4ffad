//! Copies of the SIP messages of one shard to a capture server (HEP version 3, the crate `hep`).
//!
//! `Io` notes each message where it is received and where it is handed to the kernel, so that a message is captured once, at the
//! node with the socket. The packets wait in one buffer and leave with `Io::flush`. Nothing waits for the server: what the kernel
//! does not take at once is dropped and counted.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;

use hep::{CaptureAgent, CapturedMessage, IpProtocol, is_sampled, write_packet};
use mmsg::{Message, Sender};
use sip::transport::Transport;
use sip::wire::raw_call_id;

use crate::clock::Clock;
use crate::counters::NetCounters;
use crate::limits;

/// The capture server, and the messages that it is sent.
#[derive(Clone, Debug)]
pub struct CaptureSettings {
    /// The server, over UDP.
    pub server: SocketAddr,
    /// The node's number there, and the password.
    pub agent: Arc<CaptureAgent>,
    /// Calls in a hundred that are captured.
    pub percent: u32,
    /// The clock of the time stamps.
    pub clock: Clock,
}

/// Looks at each SIP message where it passes the sockets. Called on the shards' threads: it must not wait.
pub trait MessageTap: Send + Sync + std::fmt::Debug {
    /// A message was received from this address.
    fn received(&self, source: SocketAddr, message: &[u8]);

    /// A message is sent to this address.
    fn sent(&self, destination: SocketAddr, message: &[u8]);
}

/// The addresses of a message on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) transport: Transport,
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
}

/// The packets of one shard that wait for the next flush.
pub(super) struct Capture {
    settings: CaptureSettings,
    socket: UdpSocket,
    packets: Vec<u8>,
    /// The end of each packet in the buffer.
    ends: Vec<usize>,
    dropped: u64,
}

impl Capture {
    pub(super) fn new(settings: CaptureSettings) -> io::Result<Self> {
        let any = if settings.server.is_ipv4() {
            SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))
        } else {
            SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))
        };
        // Not connected: a server that is away then causes no error at the next packet.
        let socket = UdpSocket::bind(any)?;
        socket.set_nonblocking(true)?;
        // A whole buffer of packets fits, as far as the system allows.
        let _ = socket2::SockRef::from(&socket).set_send_buffer_size(limits::CAPTURE_BYTES);
        Ok(Capture { settings, socket, packets: Vec::new(), ends: Vec::new(), dropped: 0 })
    }

    /// Adds the packet of a message. Keep-alives are no messages.
    pub(super) fn note(&mut self, way: Way, message: &[u8]) {
        if message.iter().all(|byte| matches!(byte, b'\r' | b'\n')) {
            return;
        }
        let correlation = raw_call_id(message).unwrap_or_default();
        if !is_sampled(correlation, self.settings.percent) {
            return;
        }
        if self.ends.len() >= limits::CAPTURE_PACKETS || self.packets.len() >= limits::CAPTURE_BYTES {
            self.dropped += 1;
            return;
        }
        let Way { transport, source, destination } = way;
        let protocol = match transport {
            Transport::Udp => IpProtocol::Udp,
            Transport::Tcp | Transport::Ws => IpProtocol::Tcp,
            Transport::Tls | Transport::Wss => IpProtocol::Tls,
        };
        let at = self.settings.clock.now();
        let captured = CapturedMessage { source, destination, protocol, at, correlation, message };
        write_packet(&self.settings.agent, &captured, &mut self.packets);
        self.ends.push(self.packets.len());
    }

    /// Sends the packets that wait, as far as the kernel takes them now, and drops the others.
    pub(super) fn flush(&mut self, sender: &mut Sender, counters: &mut NetCounters) {
        let (mut next, remote) = (0, self.settings.server);
        while next < self.ends.len() {
            let begin = |index: usize| index.checked_sub(1).map_or(0, |before| self.ends[before]);
            let packets = (next..self.ends.len()).map(|index| Message {
                bytes: &self.packets[begin(index)..self.ends[index]],
                remote,
                from: None,
            });
            match sender.send(self.socket.as_fd(), packets) {
                Ok(sent) => next += sent,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        counters.captures_sent += next as u64;
        counters.captures_dropped += (self.ends.len() - next) as u64 + std::mem::take(&mut self.dropped);
        self.packets.clear();
        self.ends.clear();
        // The memory of one large burst is not kept.
        self.packets.shrink_to(limits::CAPTURE_KEPT);
    }
}
