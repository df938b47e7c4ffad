//! The connections between processes: bytes in order, cuts in one direction or both, and ends that only one side notices.

use std::collections::{BTreeMap, BTreeSet};

use cluster::Life;
use cluster::link::Lane;
use stdx::Instant;

use super::process::ConnectionNumber;

/// The place of a node in the farm, over all its lives.
pub type NodeNumber = usize;

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The node.
    pub node: NodeNumber,
    /// The process there.
    pub life: Life,
}

/// One TCP connection.
pub struct Connection {
    /// Both ends; the first has dialled.
    pub ends: [End; 2],
    /// The lane of the pair that it is.
    pub lane: Lane,
    /// For each end: when the last bytes to it arrive, and bytes that a cut holds up.
    arrival: [Instant; 2],
    held: [Vec<Vec<u8>>; 2],
}

/// All connections and cuts.
#[derive(Default)]
pub struct Connections {
    all: BTreeMap<ConnectionNumber, Connection>,
    next: ConnectionNumber,
    cuts: BTreeSet<(NodeNumber, NodeNumber)>,
}

/// Bytes for one end.
pub struct Delivery {
    /// The time of arrival.
    pub at: Instant,
    /// The end.
    pub to: End,
    /// The other end's life.
    pub peer: Life,
    /// The lane of the pair that the connection is.
    pub lane: Lane,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl Connections {
    /// Opens a connection.
    pub fn open(&mut self, now: Instant, ends: [End; 2], lane: Lane) -> ConnectionNumber {
        self.next += 1;
        let held = [Vec::new(), Vec::new()];
        self.all.insert(self.next, Connection { ends, lane, arrival: [now; 2], held });
        self.next
    }

    /// An open connection.
    pub fn get(&self, number: ConnectionNumber) -> Option<&Connection> {
        self.all.get(&number)
    }

    /// Ends a connection.
    pub fn close(&mut self, number: ConnectionNumber) -> Option<Connection> {
        self.all.remove(&number)
    }

    /// The connections that a process has.
    pub fn of(&self, life: Life) -> Vec<ConnectionNumber> {
        let has = |connection: &Connection| connection.ends.iter().any(|end| end.life == life);
        self.all.iter().filter(|(_, connection)| has(connection)).map(|(number, _)| *number).collect()
    }

    /// Loses all bytes in this direction until it is healed; TCP sends them again then.
    pub fn cut(&mut self, from: NodeNumber, to: NodeNumber) {
        self.cuts.insert((from, to));
    }

    /// True if bytes pass in this direction.
    pub fn is_open(&self, from: NodeNumber, to: NodeNumber) -> bool {
        !self.cuts.contains(&(from, to))
    }

    /// Sends bytes. They come after all earlier ones.
    pub fn send(
        &mut self,
        number: ConnectionNumber,
        from: Life,
        arrival: Instant,
        bytes: Vec<u8>,
    ) -> Option<Delivery> {
        let connection = self.all.get_mut(&number)?;
        let to = usize::from(connection.ends[0].life == from);
        let (source, target) = (connection.ends[1 - to].node, connection.ends[to].node);
        if self.cuts.contains(&(source, target)) {
            connection.held[to].push(bytes);
            return None;
        }
        Some(connection.deliver(to, arrival, bytes))
    }

    /// Ends a cut. Returns the bytes that it has held up.
    pub fn heal(
        &mut self,
        from: NodeNumber,
        to: NodeNumber,
        arrival: Instant,
    ) -> Vec<(ConnectionNumber, Delivery)> {
        self.cuts.remove(&(from, to));
        let mut out = Vec::new();
        for (number, connection) in &mut self.all {
            let Some(place) = connection.place(from, to) else { continue };
            for bytes in std::mem::take(&mut connection.held[place]) {
                out.push((*number, connection.deliver(place, arrival, bytes)));
            }
        }
        out
    }

    /// All cuts.
    pub fn cuts(&self) -> Vec<(NodeNumber, NodeNumber)> {
        self.cuts.iter().copied().collect()
    }
}

impl Connection {
    /// The end that this direction leads to.
    fn place(&self, from: NodeNumber, to: NodeNumber) -> Option<usize> {
        (0..2).find(|place| self.ends[*place].node == to && self.ends[1 - place].node == from)
    }

    fn deliver(&mut self, to: usize, arrival: Instant, bytes: Vec<u8>) -> Delivery {
        let at = arrival.max(self.arrival[to]);
        self.arrival[to] = at;
        Delivery { at, to: self.ends[to], peer: self.ends[1 - to].life, lane: self.lane, bytes }
    }
}
