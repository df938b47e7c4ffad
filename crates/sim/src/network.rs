//! The path of a packet between two nodes: delay, loss, order.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use stdx::Instant;
use stdx::ladder::MessageFate;
use stdx::rng::Rng;

/// One direction of a path. Chances are per mille of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    pub delay: Duration,
    /// Added to the delay, between zero and this. More than the gap between two packets reorders them.
    pub jitter: Duration,
    pub loss: u32,
    pub duplication: u32,
    /// Packets that are held back by `reordered_by`, so that later ones overtake them.
    pub reordering: u32,
    pub reordered_by: Duration,
    /// No packet overtakes another, whatever the jitter: a stream.
    pub ordered: bool,
}

impl Link {
    /// The same delay for all; nothing is lost. Ladders drawn over it are easy to read.
    pub const fn steady(delay: Duration) -> Self {
        Link {
            delay,
            jitter: Duration::ZERO,
            loss: 0,
            duplication: 0,
            reordering: 0,
            reordered_by: Duration::ZERO,
            ordered: false,
        }
    }

    /// A stream over a bad path: late at times, but whole and in order.
    pub const fn stream(delay: Duration, jitter: Duration) -> Self {
        Link { jitter, ordered: true, ..Link::steady(delay) }
    }

    /// The path of nightmares, for worlds with many seeds: everything at once, in 20 to 60 ms.
    pub const fn rough(loss: u32) -> Self {
        Link {
            jitter: Duration::from_millis(40),
            loss,
            duplication: 50,
            reordering: 50,
            reordered_by: Duration::from_millis(300),
            ..Link::steady(Duration::from_millis(20))
        }
    }
}

/// The links between nodes, by their numbers, and the randomness of what they do.
pub(crate) struct Network {
    rng: Rng,
    default: Link,
    links: HashMap<(usize, usize), Link>,
    cuts: Vec<(usize, usize)>,
    /// When the last packet of an ordered link arrives.
    last_arrivals: HashMap<(SocketAddr, SocketAddr), Instant>,
    losses: Vec<ScriptedLoss>,
}

/// A packet that a test wants lost, whatever the dice say.
struct ScriptedLoss {
    from: usize,
    to: usize,
    label: Box<str>,
    times: u32,
}

/// When a packet arrives: not at all, once or twice.
pub(crate) struct Passage {
    pub(crate) fate: MessageFate,
    pub(crate) arrivals: Vec<Instant>,
}

pub(crate) struct Sent<'a> {
    pub(crate) at: Instant,
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) addresses: (SocketAddr, SocketAddr),
    pub(crate) label: &'a str,
}

impl Network {
    pub(crate) fn new(rng: Rng) -> Self {
        Network {
            rng,
            default: Link::steady(Duration::from_millis(10)),
            links: HashMap::new(),
            cuts: Vec::new(),
            last_arrivals: HashMap::new(),
            losses: Vec::new(),
        }
    }

    pub(crate) fn set_default(&mut self, link: Link) {
        self.default = link;
    }

    pub(crate) fn set(&mut self, from: usize, to: usize, link: Link) {
        self.links.insert((from, to), link);
    }

    pub(crate) fn cut(&mut self, a: usize, b: usize) {
        self.cuts.push((a.min(b), a.max(b)));
    }

    pub(crate) fn heal(&mut self, a: usize, b: usize) {
        self.cuts.retain(|cut| *cut != (a.min(b), a.max(b)));
    }

    pub(crate) fn lose_next(&mut self, from: usize, to: usize, label: &str, times: u32) {
        self.losses.push(ScriptedLoss { from, to, label: label.into(), times });
    }

    pub(crate) fn carry(&mut self, sent: &Sent) -> Passage {
        let link = self.links.get(&(sent.from, sent.to)).copied().unwrap_or(self.default);
        let cut = self.cuts.contains(&(sent.from.min(sent.to), sent.from.max(sent.to)));
        if cut || self.is_scripted_loss(sent) || self.rng.chance(link.loss) {
            return Passage { fate: MessageFate::Lost, arrivals: Vec::new() };
        }
        let doubled = self.rng.chance(link.duplication);
        let arrivals = (0..=u32::from(doubled)).map(|_| self.arrival(sent, &link)).collect();
        Passage { fate: if doubled { MessageFate::Doubled } else { MessageFate::Arrives }, arrivals }
    }

    fn is_scripted_loss(&mut self, sent: &Sent) -> bool {
        let found = self.losses.iter_mut().find(|loss| {
            loss.times > 0 && (loss.from, loss.to) == (sent.from, sent.to) && *loss.label == *sent.label
        });
        found.map(|loss| loss.times -= 1).is_some()
    }

    fn arrival(&mut self, sent: &Sent, link: &Link) -> Instant {
        let jitter = self.rng.below(link.jitter.as_micros() as u64 + 1);
        let mut arrival = sent.at + link.delay + Duration::from_micros(jitter);
        if self.rng.chance(link.reordering) {
            arrival = arrival + link.reordered_by;
        }
        if link.ordered {
            let last = self.last_arrivals.entry(sent.addresses).or_default();
            arrival = arrival.max(*last);
            *last = arrival;
        }
        arrival
    }
}
