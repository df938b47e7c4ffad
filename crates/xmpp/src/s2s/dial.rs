//! One connection to another server, and the work that waits for it.

use stdx::Instant;

use super::backlog::WriteBacklog;
use super::outgoing::Outgoing;
use super::{KeyQuery, Pair, S2sSettings};
use crate::ConnectionId;

/// Why a connection is made, and how.
#[derive(Debug)]
pub(super) struct DialRequest {
    /// As in the stream's header; others of ours may speak too.
    pub(super) pair: Pair,
    /// Domains of ours that wait for leave to speak.
    pub(super) wanted: Vec<Box<str>>,
    /// Keys to ask about, asked or not.
    pub(super) questions: Vec<(ConnectionId, KeyQuery)>,
    /// The order of addresses, and how many of them were tried.
    pub(super) random: u64,
    pub(super) tried: usize,
    /// The proof by certificate was refused before.
    pub(super) avoid_external: bool,
    /// There was a connection before it that broke.
    pub(super) is_second: bool,
}

impl DialRequest {
    pub(super) fn empty(pair: Pair) -> DialRequest {
        DialRequest {
            pair,
            wanted: Vec::new(),
            questions: Vec::new(),
            random: 0,
            tried: 0,
            avoid_external: false,
            is_second: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.wanted.is_empty() && self.questions.is_empty()
    }

    /// Takes the waiting stanzas and questions, which are then answered with an error.
    pub(super) fn take(&mut self) -> DialRequest {
        let rest = DialRequest::empty(self.pair.clone());
        std::mem::replace(self, rest)
    }
}

#[derive(Debug)]
pub(super) struct Dial {
    pub(super) wish: DialRequest,
    pub(super) stream: Outgoing,
    pub(super) is_connected: bool,
    pub(super) was_ready: bool,
    /// Domains of ours that may speak.
    pub(super) speaking: Vec<Box<str>>,
    /// The number of the server's addresses that were tried, if there are more.
    pub(super) next: Option<usize>,
    /// When it began, when something was wanted last, and when something was said last.
    pub(super) since: Instant,
    pub(super) asked: Instant,
    pub(super) used: Instant,
    /// Bytes that the system has not taken.
    pub(super) backlog: WriteBacklog,
}

impl Dial {
    pub(super) fn new(now: Instant, wish: DialRequest, stream: Outgoing) -> Dial {
        Dial {
            wish,
            stream,
            is_connected: false,
            was_ready: false,
            speaking: Vec::new(),
            next: None,
            since: now,
            asked: now,
            used: now,
            backlog: WriteBacklog::default(),
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.stream.is_ready()
    }

    pub(super) fn pair_of(&self, local: Box<str>) -> Pair {
        Pair { local, remote: self.wish.pair.remote.clone() }
    }

    /// When it is to be looked at.
    pub(super) fn deadline(&self, settings: &S2sSettings) -> Instant {
        if let Some(until) = self.stream.hold_until() {
            until
        } else if !self.is_connected {
            self.since + settings.connect
        } else if !self.wish.is_empty() {
            self.asked + settings.authorize
        } else {
            self.used + settings.idle
        }
    }

    /// After it broke: the remaining work, when another connection may go better.
    pub(super) fn again(&mut self) -> Option<DialRequest> {
        let was_refused = self.stream.was_refused_external() && !self.wish.avoid_external;
        let other = self.next.filter(|_| !self.was_ready && !was_refused);
        // It was fine, and ended as we began to want more of it: the other side found it idle, perhaps.
        let was_fine = self.was_ready && !self.wish.is_second;
        if self.wish.is_empty() || !(was_refused || other.is_some() || was_fine) {
            return None;
        }
        let before = self.wish.take();
        let (tried, random) = other.map_or((0, 0), |tried| (tried, before.random));
        Some(DialRequest {
            tried,
            random,
            is_second: before.is_second || self.was_ready,
            avoid_external: before.avoid_external || was_refused,
            ..before
        })
    }
}
