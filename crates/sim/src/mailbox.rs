//! A party that a test plays itself: it keeps what arrives and says what it is told to say.

use std::net::SocketAddr;

use bytes::Bytes;
use stdx::Instant;

use crate::world::{Datagram, Node};

/// What arrived, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    pub at: Instant,
    pub from: SocketAddr,
    /// The address of the mailbox it came to.
    pub to: SocketAddr,
    pub bytes: Bytes,
}

impl Letter {
    /// As text, for assertions; what is not UTF-8 shows as `�`.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

type Answer = Box<dyn FnMut(&Letter) -> Vec<Bytes>>;

#[derive(Default)]
pub struct Mailbox {
    letters: Vec<Letter>,
    answer: Option<Answer>,
}

impl Mailbox {
    /// Only listens; `World::send` speaks for it.
    pub fn new() -> Self {
        Mailbox::default()
    }

    /// Sends what `answer` returns back to where each letter came from, at once.
    pub fn answering(answer: impl FnMut(&Letter) -> Vec<Bytes> + 'static) -> Self {
        Mailbox { letters: Vec::new(), answer: Some(Box::new(answer)) }
    }

    pub fn letters(&self) -> &[Letter] {
        &self.letters
    }

    /// What arrived since the last time.
    pub fn take(&mut self) -> Vec<Letter> {
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
        let letter = Letter { at: now, from, to, bytes: Bytes::copy_from_slice(bytes) };
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
