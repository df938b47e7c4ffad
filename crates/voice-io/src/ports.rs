//! The sockets of a shard's calls: two ports each, RTP's even one and RTCP's above it, and one epoll that says which
//! have something to read.
//!
//! Ports are bound when a call needs them and closed with it. The ports of a range are dealt out to the shards at the start, so no shard asks
//! another. Sockets are read in the tick of the calls, many datagrams with one system call, and not when a packet comes.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::fd::AsFd;
use std::time::Duration;

use ::voice::{MediaSender, MediaSockets, PortKind, PortPair};
use mio::net::UdpSocket;
use mio::{Events, Interest, Poll, Token};
use stdx::slab::{Key, Slab};

use super::limits;

/// A call's two sockets.
struct Pair {
    /// The leg that the datagrams are for.
    leg: Key,
    rtp: UdpSocket,
    rtcp: UdpSocket,
}

impl Pair {
    fn socket(&self, kind: PortKind) -> &UdpSocket {
        match kind {
            PortKind::Rtp => &self.rtp,
            PortKind::Rtcp => &self.rtcp,
        }
    }
}

/// The sockets that are open.
struct OpenPairs(Slab<Pair>);

impl MediaSender for OpenPairs {
    fn send(&self, pair: PortPair, kind: PortKind, to: SocketAddr, datagram: &[u8]) -> bool {
        // A datagram that the kernel does not take at once is lost.
        self.0.get(pair.sockets).is_some_and(|pair| pair.socket(kind).send_to(datagram, to).is_ok())
    }
}

/// The media ports of a shard.
pub struct Ports {
    /// The address of `[voice] media`.
    ip: IpAddr,
    /// Even ports. Taken from the front and given back at the end, so that late packets reach no new call.
    free: VecDeque<u16>,
    /// Apart from the rest, so that it can send while the sockets are read.
    pairs: OpenPairs,
    poll: Poll,
    events: Events,
    receiver: mmsg::Receiver,
    /// Sockets of one report, kept for its memory.
    ready: Vec<(Key, PortKind)>,
}

/// Sockets that one system call reports.
const READY: usize = 1_024;

/// Ports tried for one call where another process has taken some.
const TRIES: usize = 16;

impl Ports {
    /// The share of shard `shard` of `shards`.
    pub fn new(ip: IpAddr, range: &RangeInclusive<u16>, shard: u16, shards: u16) -> io::Result<Ports> {
        let first = range.start().next_multiple_of(2);
        let pairs = (first..*range.end()).step_by(2).enumerate();
        let own = pairs.filter(|(index, _)| index % usize::from(shards) == usize::from(shard));
        let mut free: VecDeque<u16> = own.map(|(_, port)| port).collect();
        // Phones may still send to the ports that the node had before it was started anew.
        let start = getrandom::u32().map_err(io::Error::other)? as usize;
        free.rotate_left(start % free.len().max(1));
        Ok(Ports {
            ip,
            free,
            pairs: OpenPairs(Slab::new()),
            poll: Poll::new()?,
            events: Events::with_capacity(READY),
            receiver: mmsg::Receiver::new(),
            ready: Vec::new(),
        })
    }

    /// Returns the number of pairs of ports in use.
    pub fn used(&self) -> usize {
        self.pairs.0.len()
    }

    /// Binds both ports of a pair, or none.
    fn bind(&mut self, port: u16, leg: Key) -> io::Result<PortPair> {
        let rtp = UdpSocket::bind(SocketAddr::new(self.ip, port))?;
        let rtcp = UdpSocket::bind(SocketAddr::new(self.ip, port + 1))?;
        let key = self.pairs.0.insert(Pair { leg, rtp, rtcp });
        let registered = self.register(key);
        if registered.is_err() {
            self.pairs.0.remove(key);
        }
        registered.map(|()| PortPair { port, sockets: key })
    }

    /// The epoll tells of both sockets from now on.
    fn register(&mut self, key: Key) -> io::Result<()> {
        let Some(Pair { rtp, rtcp, .. }) = self.pairs.0.get_mut(key) else { return Ok(()) };
        let registry = self.poll.registry();
        registry.register(rtp, token(key, PortKind::Rtp), Interest::READABLE)?;
        registry.register(rtcp, token(key, PortKind::Rtcp), Interest::READABLE)
    }

    /// Reads the sockets that have something: for each datagram its leg, its source and its bytes. Beyond 1,024 sockets
    /// the others follow the next time.
    pub fn receive(&mut self, mut handle: impl FnMut(Key, SocketAddr, &[u8], &dyn MediaSender)) {
        let Ports { poll, events, ready, receiver, pairs, .. } = self;
        if let Err(error) = poll.poll(events, Some(Duration::ZERO)) {
            tracing::debug!(%error, "cannot poll the media sockets");
            return;
        }
        ready.extend(events.iter().map(|event| of_token(event.token())));
        for (key, kind) in ready.drain(..) {
            let Some(pair) = pairs.0.get(key) else { continue };
            let socket = pair.socket(kind).as_fd();
            // The epoll tells of a socket once, so it is emptied; what is beyond a flood's share waits for its next datagram.
            for _ in 0..limits::READS {
                let received = receiver.receive(socket, |datagram| {
                    handle(pair.leg, datagram.remote, datagram.bytes, pairs);
                });
                match received {
                    Ok(count) if count == mmsg::BATCH => {}
                    // An ICMP error of what was sent before: taken, and the next read goes on.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                    _ => break,
                }
            }
        }
    }
}

impl MediaSockets for Ports {
    fn open(&mut self, leg: Key) -> io::Result<PortPair> {
        let mut last = io::Error::new(io::ErrorKind::AddrInUse, "all media ports are in use");
        for _ in 0..TRIES.min(self.free.len()) {
            let Some(port) = self.free.pop_front() else { break };
            match self.bind(port, leg) {
                Ok(pair) => return Ok(pair),
                Err(error) => last = error,
            }
            self.free.push_back(port);
        }
        Err(last)
    }

    fn close(&mut self, pair: PortPair) {
        // A closed socket leaves the epoll by itself.
        if self.pairs.0.remove(pair.sockets).is_some() {
            self.free.push_back(pair.port);
        }
    }

    fn sender(&self) -> &dyn MediaSender {
        &self.pairs
    }
}

/// A key never has the highest bit before its place was used two thousand million times.
const RTCP: usize = 1 << (usize::BITS - 1);

/// The key of the pair, and which of its sockets it is.
fn token(pair: Key, kind: PortKind) -> Token {
    let key = pair.to_u64() as usize;
    Token(if kind == PortKind::Rtcp { key | RTCP } else { key })
}

fn of_token(Token(token): Token) -> (Key, PortKind) {
    let kind = if token & RTCP == 0 { PortKind::Rtp } else { PortKind::Rtcp };
    (Key::from_u64((token & !RTCP) as u64), kind)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::Ipv4Addr;

    use super::*;

    fn free(shard: u16) -> BTreeSet<u16> {
        let ports = Ports::new(Ipv4Addr::LOCALHOST.into(), &(30_001..=30_009), shard, 2).unwrap();
        ports.free.into_iter().collect()
    }

    #[test]
    fn shards_share_the_even_ports_that_have_another_above_them() {
        assert_eq!(free(0), BTreeSet::from([30_002, 30_006]));
        assert_eq!(free(1), BTreeSet::from([30_004, 30_008]));
    }

    #[test]
    fn a_node_does_not_begin_where_the_one_before_it_began() {
        let range = 20_000..=59_999;
        let first = || Ports::new(Ipv4Addr::LOCALHOST.into(), &range, 0, 1).unwrap().free[0];
        // Eight of twenty thousand, all the same by chance: never.
        assert!((0..8).map(|_| first()).collect::<BTreeSet<_>>().len() > 1);
    }

    #[test]
    fn a_call_gets_two_ports_and_gives_them_back_at_the_end_of_the_queue() {
        let mut ports = Ports::new(Ipv4Addr::LOCALHOST.into(), &(30_100..=30_103), 0, 1).unwrap();
        let (first, second) = (ports.open(Key::from_u64(1)).unwrap(), ports.open(Key::from_u64(2)).unwrap());
        let taken = BTreeSet::from([first.port, second.port]);
        assert_eq!((taken, ports.used()), (BTreeSet::from([30_100, 30_102]), 2));
        let back = VecDeque::from([second.port, first.port]);
        assert!(ports.open(Key::from_u64(3)).is_err(), "there are two pairs");
        ports.close(second);
        ports.close(first);
        assert_eq!((ports.used(), &ports.free), (0, &back));
    }
}
