//! UDP sockets of one shard, and the messages of a turn that wait to leave by them.
//!
//! Messages are queued during a turn and sent at its end, several with one system call. Sockets ask the kernel for stamps of arrival, counts of
//! dropped datagrams and runs of equal datagrams.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use mmsg::{DatagramGroups, Message, Sender};
use socket2::{Domain, Protocol, Socket, Type};
use stdx::slab::{Key, Slab};

use super::limits::RECEIVE_BUFFER;

/// One socket.
pub(super) struct Udp {
    socket: Arc<UdpSocket>,
    pub(super) local: SocketAddr,
    /// Ranges of the turn's bytes and where they go, in order.
    queue: Vec<QueuedDatagram>,
    /// The kernel takes runs of datagrams here.
    runs: bool,
    /// The kernel's count of dropped datagrams when it was last read.
    drops: u32,
    /// To be closed once its queue is empty.
    closing: bool,
    /// The socket's place among those of single calls.
    pub(super) place: usize,
    /// Calls that use it.
    pub(super) users: u32,
}

/// One message that waits: its text is `start..end` of the turn's bytes.
#[derive(Clone, Copy)]
struct QueuedDatagram {
    start: usize,
    end: usize,
    to: SocketAddr,
    /// Told when the kernel refuses the message.
    call: Key,
    /// Place in the order to send in: datagrams of one length and destination follow each other.
    order: u64,
}

/// All of one shard.
pub(super) struct UdpSockets {
    /// By key; the key is in the socket's poll token.
    sockets: Slab<Udp>,
    /// Memory of the system call, shared by all sockets.
    sender: Sender,
    /// With something in their queue or about to close.
    dirty: Vec<Key>,
}

/// The use of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SocketUse {
    /// For many calls, beside those of other shards at the same port.
    Shared { beside: bool },
    /// For one call: nothing is asked of the kernel that costs a system call.
    Call,
}

/// `buffer` is `-buff_size`; a larger one than ours wins.
pub(super) fn bind(
    address: SocketAddr,
    usage: SocketUse,
    buffer: usize,
    device: Option<&str>,
) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    if let SocketUse::Shared { beside } = usage {
        socket.set_reuse_port(beside)?;
        // Forcing the size needs CAP_NET_ADMIN; without it the kernel cuts the size to net.core.rmem_max.
        if mmsg::force_receive_buffer(socket.as_fd(), RECEIVE_BUFFER).is_err() {
            socket.set_recv_buffer_size(RECEIVE_BUFFER.max(buffer))?;
        }
        socket.set_send_buffer_size(RECEIVE_BUFFER.max(buffer))?;
        mmsg::want_drops(socket.as_fd())?;
        mmsg::want_timestamps(socket.as_fd())?;
        // Older kernels do without.
        let _ = mmsg::want_runs(socket.as_fd());
    }
    if let Some(device) = device {
        socket.bind_device(Some(device.as_bytes()))?;
    }
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    Ok(socket.into())
}

impl UdpSockets {
    pub(super) fn new() -> UdpSockets {
        UdpSockets { sockets: Slab::new(), sender: Sender::new(), dirty: Vec::new() }
    }

    /// Watches a socket; its events carry `token(key)`.
    pub(super) fn add(
        &mut self,
        socket: UdpSocket,
        registry: &Registry,
        token: impl FnOnce(Key) -> Token,
    ) -> io::Result<Key> {
        let local = socket.local_addr()?;
        let fd = socket.as_raw_fd();
        let queue = Vec::new();
        let key = self.sockets.insert(Udp {
            socket: Arc::new(socket),
            local,
            queue,
            runs: true,
            drops: 0,
            closing: false,
            place: 0,
            users: 0,
        });
        if let Err(error) = registry.register(&mut SourceFd(&fd), token(key), Interest::READABLE) {
            self.sockets.remove(key);
            return Err(error);
        }
        Ok(key)
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut Udp> {
        self.sockets.get_mut(key)
    }

    pub(super) fn local(&self, key: Key) -> Option<SocketAddr> {
        self.sockets.get(key).map(|socket| socket.local)
    }

    pub(super) fn len(&self) -> usize {
        self.sockets.len()
    }

    /// Closed after the next flush.
    pub(super) fn close(&mut self, key: Key) {
        if let Some(socket) = self.sockets.get_mut(key) {
            socket.closing = true;
            // A socket with a queue is in the list already, and is closed when that is empty.
            if socket.queue.is_empty() {
                self.dirty.push(key);
            }
        }
    }

    /// To receive from without holding on to all of them.
    pub(super) fn handle(&self, key: Key) -> Option<Arc<UdpSocket>> {
        self.sockets.get(key).map(|socket| Arc::clone(&socket.socket))
    }

    /// The kernel's count of dropped datagrams (it wraps around); returns how many are new.
    pub(super) fn note_drops(&mut self, key: Key, total: u32) -> u64 {
        let Some(socket) = self.sockets.get_mut(key) else { return 0 };
        u64::from(total.wrapping_sub(std::mem::replace(&mut socket.drops, total)))
    }

    /// `bytes[start..end]` leaves with the next flush.
    pub(super) fn queue(&mut self, key: Key, start: usize, end: usize, to: SocketAddr, call: Key) -> bool {
        let Some(socket) = self.sockets.get_mut(key) else { return false };
        if socket.queue.is_empty() {
            self.dirty.push(key);
        }
        socket.queue.push(QueuedDatagram { start, end, to, call, order: 0 });
        true
    }

    /// Sends what is queued. Calls whose message the kernel refuses are named in `refused`. False: a socket is
    /// full, `bytes` must stay as they are until another flush.
    pub(super) fn flush(&mut self, bytes: &[u8], refused: &mut Vec<(Key, io::Error)>) -> bool {
        let mut left = 0;
        for at in 0..self.dirty.len() {
            let key = self.dirty[at];
            let Some(socket) = self.sockets.get_mut(key) else { continue };
            socket.flush(&mut self.sender, bytes, refused);
            if !socket.queue.is_empty() {
                self.dirty[left] = key;
                left += 1;
            } else if socket.closing {
                // Closing takes it out of the poll as well.
                self.sockets.remove(key);
            }
        }
        self.dirty.truncate(left);
        left == 0
    }
}

impl Udp {
    fn flush(&mut self, sender: &mut Sender, bytes: &[u8], refused: &mut Vec<(Key, io::Error)>) {
        let runs = self.runs && self.queue.len() > 1;
        if runs {
            self.arrange();
        }
        // One that was refused in a run is tried alone before its call is told.
        let mut alone = !runs;
        let mut done = 0;
        while done < self.queue.len() {
            let messages = self.queue[done..].iter().map(|queued| Message {
                bytes: &bytes[queued.start..queued.end],
                remote: queued.to,
                from: None,
            });
            let socket = self.socket.as_fd();
            match if alone { sender.send(socket, messages) } else { sender.send_runs(socket, messages) } {
                Ok(sent) => done += sent,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error)
                    if error.kind() == io::ErrorKind::WouldBlock
                        || error.raw_os_error() == Some(libc::ENOBUFS) =>
                {
                    // The socket or the device is full: the rest waits for the next turn.
                    break;
                }
                Err(error) if !alone => {
                    alone = true;
                    // EINVAL and EIO: this kernel or device takes no runs at this socket, so none are tried again.
                    self.runs = !matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EIO));
                }
                Err(error) => {
                    // Refused alone: the fault is the message's own, such as a destination without a route.
                    refused.push((self.queue[done].call, error));
                    done += 1;
                }
            }
        }
        self.queue.drain(..done);
    }

    /// Puts messages of one length to one place behind each other, as the kernel takes those as one.
    fn arrange(&mut self) {
        let mut groups = DatagramGroups::new();
        for (index, queued) in self.queue.iter_mut().enumerate() {
            let group = groups.place(queued.end - queued.start, queued.to, queued.call.index().into());
            // Within a group the order of the queue.
            queued.order = (group as u64) << 32 | index as u64;
        }
        self.queue.sort_unstable_by_key(|queued| queued.order);
    }
}

#[cfg(test)]
mod tests {
    use mmsg::Receiver;

    use super::*;

    fn socket() -> UdpSocket {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        bind(address, SocketUse::Shared { beside: false }, 0, None).unwrap()
    }

    /// Datagrams as plain `recv` sees them.
    fn read_plain(socket: &UdpSocket) -> Vec<Vec<u8>> {
        let mut buffer = [0; 65_536];
        std::iter::from_fn(|| socket.recv(&mut buffer).ok().map(|length| buffer[..length].to_vec())).collect()
    }

    fn read_runs(socket: &UdpSocket) -> Vec<Vec<u8>> {
        let mut read = Vec::new();
        let mut receiver = Receiver::new();
        while receiver.receive(socket.as_fd(), |datagram| read.push(datagram.bytes.to_vec())).is_ok() {}
        read
    }

    #[test]
    fn messages_arrive_whole_however_they_are_sent_and_read() {
        let poll = mio::Poll::new().unwrap();
        let mut sockets = UdpSockets::new();
        let key = sockets.add(socket(), poll.registry(), |_| Token(1)).unwrap();
        let (runs, plain) = (socket(), UdpSocket::bind("127.0.0.1:0").unwrap());
        plain.set_nonblocking(true).unwrap();
        let mut bytes = Vec::new();
        for (index, to) in (0..240u64).flat_map(|index| [(index, &runs), (index, &plain)]) {
            let call = Key::from_u64(1 << 32 | index);
            for length in [200 + (index as usize / 70), 900, 20_000] {
                let start = bytes.len();
                bytes.resize(start + length, index as u8);
                assert!(sockets.queue(key, start, start + length, to.local_addr().unwrap(), call));
            }
            // Few enough for the receive buffer of a plain socket.
            if index % 4 == 3 && std::ptr::eq(to, &raw const plain) {
                let mut refused = Vec::new();
                assert!(sockets.flush(&bytes, &mut refused));
                assert!(refused.is_empty());
                for mut read in [read_runs(&runs), read_plain(&plain)] {
                    assert_eq!(read.len(), 12);
                    read.sort_by_key(|message| message[0]);
                    for (at, message) in read.iter().enumerate() {
                        let first = index as usize - 3 + at / 3;
                        let length = [200 + first / 70, 900, 20_000][at % 3];
                        assert_eq!(*message, vec![first as u8; length], "{at}");
                    }
                }
                bytes.clear();
            }
        }
    }
}
