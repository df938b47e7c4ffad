//! The sockets of a shard's calls: two ports each, RTP's even one and RTCP's above it, and one epoll that says which
//! have something to read.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use mio::net::UdpSocket;
use mio::{Events, Interest, Poll, Token};
use stdx::slab::Key;

/// One of a call's two sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    Rtp,
    Rtcp,
}

/// A call's two sockets.
pub(super) struct Pair {
    pub(super) port: u16,
    pub(super) rtp: UdpSocket,
    pub(super) rtcp: UdpSocket,
}

impl Pair {
    pub(super) fn socket(&self, wire: Wire) -> &UdpSocket {
        match wire {
            Wire::Rtp => &self.rtp,
            Wire::Rtcp => &self.rtcp,
        }
    }
}

pub(super) struct Ports {
    ip: IpAddr,
    /// Even ports. Taken from the front and given back at the end, so that late packets reach no new call.
    free: VecDeque<u16>,
    used: usize,
    poll: Poll,
    events: Events,
}

/// Sockets that one system call reports.
const READY: usize = 1_024;

/// Ports tried for one call where another process has taken some.
const TRIES: usize = 16;

impl Ports {
    /// The share of shard `shard` of `shards`.
    pub(super) fn new(ip: IpAddr, range: &RangeInclusive<u16>, shard: u16, shards: u16) -> io::Result<Ports> {
        let first = range.start().next_multiple_of(2);
        let pairs = (first..*range.end()).step_by(2).enumerate();
        let own = pairs.filter(|(index, _)| index % usize::from(shards) == usize::from(shard));
        let mut free: VecDeque<u16> = own.map(|(_, port)| port).collect();
        // Phones may still send to the ports that the node had before it was started anew.
        let start = getrandom::u32().map_err(io::Error::other)? as usize;
        free.rotate_left(start % free.len().max(1));
        Ok(Ports { ip, free, used: 0, poll: Poll::new()?, events: Events::with_capacity(READY) })
    }

    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Sockets for that call.
    ///
    /// # Errors
    /// When none is left, or the system gives none.
    pub(super) fn open(&mut self, call: Key) -> io::Result<Pair> {
        let mut last = io::Error::new(io::ErrorKind::AddrInUse, "all media ports are in use");
        for _ in 0..TRIES.min(self.free.len()) {
            let Some(port) = self.free.pop_front() else { break };
            match self.bind(port, call) {
                Ok(pair) => {
                    self.used += 1;
                    return Ok(pair);
                }
                Err(error) => last = error,
            }
            self.free.push_back(port);
        }
        Err(last)
    }

    fn bind(&self, port: u16, call: Key) -> io::Result<Pair> {
        let mut rtp = UdpSocket::bind(SocketAddr::new(self.ip, port))?;
        let mut rtcp = UdpSocket::bind(SocketAddr::new(self.ip, port + 1))?;
        let registry = self.poll.registry();
        registry.register(&mut rtp, token(call, Wire::Rtp), Interest::READABLE)?;
        registry.register(&mut rtcp, token(call, Wire::Rtcp), Interest::READABLE)?;
        Ok(Pair { port, rtp, rtcp })
    }

    pub(super) fn close(&mut self, pair: Pair) {
        let Pair { port, rtp, rtcp } = pair;
        // A closed socket leaves the epoll by itself.
        drop((rtp, rtcp));
        self.free.push_back(port);
        self.used -= 1;
    }

    /// The calls and sockets that have something to read; beyond 1,024 they follow the next time.
    pub(super) fn ready(&mut self, into: &mut Vec<(Key, Wire)>) -> io::Result<()> {
        self.poll.poll(&mut self.events, Some(Duration::ZERO))?;
        into.extend(self.events.iter().map(|event| of_token(event.token())));
        Ok(())
    }
}

/// A key never has the highest bit before its place was used two thousand million times.
const RTCP: usize = 1 << (usize::BITS - 1);

fn token(call: Key, wire: Wire) -> Token {
    let key = call.to_u64() as usize;
    Token(if wire == Wire::Rtcp { key | RTCP } else { key })
}

fn of_token(Token(token): Token) -> (Key, Wire) {
    let wire = if token & RTCP == 0 { Wire::Rtp } else { Wire::Rtcp };
    (Key::from_u64((token & !RTCP) as u64), wire)
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
