//! UDP sockets of one shard, and the messages of a turn that wait to leave by them.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use mmsg::{Message, Sender};
use socket2::{Domain, Protocol, Socket, Type};
use stdx::slab::{Key, Slab};

use super::limits::RECEIVE_BUFFER;

/// One socket.
pub(super) struct Udp {
    socket: Arc<UdpSocket>,
    pub(super) local: SocketAddr,
    /// Ranges of the turn's bytes and where they go, in order.
    queue: Vec<Queued>,
    drops: u32,
    /// To be closed once its queue is empty.
    closing: bool,
    /// Where it stands among the sockets of one call each.
    pub(super) place: usize,
    /// Calls that use it.
    pub(super) users: u32,
}

#[derive(Clone, Copy)]
struct Queued {
    start: usize,
    end: usize,
    to: SocketAddr,
    call: Key,
}

/// All of one shard.
pub(super) struct UdpSockets {
    sockets: Slab<Udp>,
    sender: Sender,
    /// With something in their queue or about to close.
    dirty: Vec<Key>,
}

/// What a socket is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// For many calls, beside those of other shards at the same port.
    Shared { beside: bool },
    /// For one call: nothing is asked of the kernel that costs a system call.
    Call,
}

pub(super) fn bind(
    address: SocketAddr,
    usage: Use,
    buffer: usize,
    device: Option<&str>,
) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    if let Use::Shared { beside } = usage {
        socket.set_reuse_port(beside)?;
        if mmsg::force_receive_buffer(socket.as_fd(), RECEIVE_BUFFER).is_err() {
            socket.set_recv_buffer_size(RECEIVE_BUFFER.max(buffer))?;
        }
        socket.set_send_buffer_size(RECEIVE_BUFFER.max(buffer))?;
        mmsg::want_drops(socket.as_fd())?;
        mmsg::want_timestamps(socket.as_fd())?;
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
            if socket.queue.is_empty() {
                self.dirty.push(key);
            }
        }
    }

    /// To receive from without holding on to all of them.
    pub(super) fn handle(&self, key: Key) -> Option<Arc<UdpSocket>> {
        self.sockets.get(key).map(|socket| Arc::clone(&socket.socket))
    }

    /// What the kernel says it dropped so far (wraps around); how many are new.
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
        socket.queue.push(Queued { start, end, to, call });
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
        let mut done = 0;
        while done < self.queue.len() {
            let messages = self.queue[done..].iter().map(|queued| Message {
                bytes: &bytes[queued.start..queued.end],
                remote: queued.to,
                from: None,
            });
            match sender.send(self.socket.as_fd(), messages) {
                Ok(sent) => done += sent,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error)
                    if error.kind() == io::ErrorKind::WouldBlock
                        || error.raw_os_error() == Some(libc::ENOBUFS) =>
                {
                    break;
                }
                Err(error) => {
                    refused.push((self.queue[done].call, error));
                    done += 1;
                }
            }
        }
        self.queue.drain(..done);
    }
}
