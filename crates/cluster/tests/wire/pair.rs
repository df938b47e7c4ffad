//! Two ends of a link and the bytes between them.

use bytes::Bytes;
use cluster::link::{Class, FarmSecret, Handshake, Hello, Lane, Link, LinkFault, Message};
use cluster::{Epoch, Life};
use stdx::Instant;

pub(crate) fn at(millis: u64) -> Instant {
    Instant::from_micros(1_800_000_000_000_000 + millis * 1_000)
}

pub(crate) fn message(number: u64, size: usize) -> Message {
    let mut body = number.to_be_bytes().to_vec();
    body.resize(size.max(8), b'x');
    Message { kind: 7, epoch: Epoch(5), shard: 3, body: Bytes::from(body) }
}

pub(crate) fn number(message: &Message) -> u64 {
    u64::from_be_bytes(*message.body.first_chunk().unwrap())
}

pub(crate) fn hello(life: u32, peer: Option<u32>, nonce: u8) -> Hello {
    Hello {
        farm: "example".into(),
        life: Life(life),
        build: "0.1.0".into(),
        wire: (1, 1),
        lane: Lane::Acknowledged,
        nonce: [nonce; 32],
        peer: peer.map(Life),
    }
}

pub(crate) fn secret() -> FarmSecret {
    FarmSecret::new(*b"an example of thirty-two letters")
}

pub(crate) fn dialer() -> Handshake {
    Handshake::dial(at(0), hello(9, Some(4), 1), secret())
}

pub(crate) fn acceptor() -> Handshake {
    Handshake::accept(at(0), hello(4, None, 2), secret())
}

/// One end with the bytes that are on their way to it.
pub(crate) struct End {
    pub(crate) link: Link,
    pub(crate) incoming: Vec<u8>,
    pub(crate) returned: Vec<(Class, Message)>,
}

impl End {
    fn new(lane: Lane) -> End {
        End { link: Link::new(lane), incoming: Vec::new(), returned: Vec::new() }
    }
}

pub(crate) struct Pair {
    pub(crate) ends: [End; 2],
}

impl Pair {
    pub(crate) fn new(lane: Lane) -> Pair {
        Pair { ends: [End::new(lane), End::new(lane)] }
    }

    pub(crate) fn connected(lane: Lane) -> Pair {
        Pair::of_links([Link::new(lane), Link::new(lane)])
    }

    /// These links, connected.
    pub(crate) fn of_links(links: [Link; 2]) -> Pair {
        let ends = links.map(|link| End { link, incoming: Vec::new(), returned: Vec::new() });
        let mut pair = Pair { ends };
        pair.connect(at(0));
        pair.settle(at(0));
        pair
    }

    pub(crate) fn connect(&mut self, now: Instant) {
        for end in &mut self.ends {
            end.incoming.clear();
            end.link.handle_connected(now);
        }
    }

    /// Both ends lose the connection and the bytes under way.
    pub(crate) fn disconnect(&mut self) {
        for end in &mut self.ends {
            end.incoming.clear();
            end.link.handle_disconnected(&mut end.returned);
        }
    }

    /// One end writes what it has.
    pub(crate) fn write(&mut self, from: usize, now: Instant, room: usize) {
        let mut bytes = Vec::new();
        self.ends[from].link.poll_output(now, room, &mut bytes);
        self.ends[1 - from].incoming.append(&mut bytes);
    }

    /// One end reads at most so many bytes.
    pub(crate) fn read(&mut self, to: usize, now: Instant, most: usize) -> Result<(), LinkFault> {
        let End { link, incoming, returned } = &mut self.ends[to];
        let rest = incoming.split_off(most.min(incoming.len()));
        let bytes = std::mem::replace(incoming, rest);
        let handled = link.handle_bytes(now, &bytes);
        link.take_returned(returned);
        handled
    }

    /// Does what is due at both ends, then moves bytes until there are none.
    pub(crate) fn expire(&mut self, now: Instant) {
        self.ends.iter_mut().for_each(|end| end.link.expire(now).unwrap());
        self.settle(now);
    }

    /// Moves bytes until there are none.
    pub(crate) fn settle(&mut self, now: Instant) {
        while self.ends.iter().any(|end| end.link.has_output() || !end.incoming.is_empty()) {
            for end in 0..2 {
                self.write(end, now, 65_536);
            }
            for end in 0..2 {
                self.read(end, now, usize::MAX).unwrap();
            }
        }
    }
}
