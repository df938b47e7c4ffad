//! A party that the test plays: it keeps the packets that arrive and sends those that the test gives it.

use std::net::SocketAddr;

use bytes::Bytes;
use stdx::Instant;

use crate::world::{Datagram, Node};

/// A packet that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedPacket {
    pub at: Instant,
    pub from: SocketAddr,
    /// The address of the mailbox it came to.
    pub to: SocketAddr,
    pub bytes: Bytes,
}

impl ReceivedPacket {
    /// The text, for assertions; bytes that are not UTF-8 show as `�`.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

type Answer = Box<dyn FnMut(&ReceivedPacket) -> Vec<Bytes>>;

/// A node that keeps every packet, in order, and may answer it.
#[derive(Default)]
pub struct Mailbox {
    letters: Vec<ReceivedPacket>,
    answer: Option<Answer>,
}

impl Mailbox {
    /// Only listens; `World::send` speaks for it.
    pub fn new() -> Self {
        Mailbox::default()
    }

    /// Sends what `answer` returns back to where each letter came from, at once.
    pub fn answering(answer: impl FnMut(&ReceivedPacket) -> Vec<Bytes> + 'static) -> Self {
        Mailbox { letters: Vec::new(), answer: Some(Box::new(answer)) }
    }

    /// Returns the packets so far.
    pub fn letters(&self) -> &[ReceivedPacket] {
        &self.letters
    }

    /// Takes the packets since the last call.
    pub fn take(&mut self) -> Vec<ReceivedPacket> {
        std::mem::take(&mut self.letters)
    }
}

impl Node for Mailbox {
    fn handle(
        &mut self,
        now: Instant,
        from: SocketAddr,
        to: SocketAddr,
        bytes: &[u8],
        out: &mut Vec<Datagram>,
    ) {
        let letter = ReceivedPacket { at: now, from, to, bytes: Bytes::copy_from_slice(bytes) };
        if let Some(answer) = &mut self.answer {
            out.extend(answer(&letter).into_iter().map(|bytes| (to, from, bytes)));
        }
        self.letters.push(letter);
    }

    fn wake(&mut self, _: Instant, _: &mut Vec<Datagram>) {}

    fn deadline(&self) -> Option<Instant> {
        None
    }
}
