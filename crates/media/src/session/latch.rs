//! Symmetric RTP: media goes where it comes from, and a stranger cannot take it over.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use stdx::time::Instant;

/// A latched address must be silent for so long before another port of it is believed.
const SILENT: Duration = Duration::from_secs(1);

/// What an address is to a leg.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Known,
    /// Media goes there from now on.
    Latched,
    Stranger,
}

#[derive(Debug, Clone)]
pub(super) struct Latch {
    /// What the SDP says.
    expected: Option<SocketAddr>,
    /// Where the signalling comes from.
    trusted: Option<IpAddr>,
    latched: Option<SocketAddr>,
    last: Instant,
}

impl Latch {
    pub(super) fn new(expected: Option<SocketAddr>, trusted: Option<IpAddr>) -> Latch {
        Latch { expected, trusted, latched: None, last: Instant::default() }
    }

    /// Another address by a re-offer.
    pub(super) fn expect(&mut self, expected: Option<SocketAddr>) {
        self.expected = expected;
        self.latched = None;
    }

    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.latched.or(self.expected)
    }

    pub(super) fn is_latched(&self) -> bool {
        self.latched.is_some()
    }

    /// A packet of a negotiated payload type came; `authentic`: by SRTP.
    pub(super) fn handle(&mut self, now: Instant, source: SocketAddr, authentic: bool) -> Verdict {
        if self.latched == Some(source) {
            self.last = now;
            return Verdict::Known;
        }
        let is_believed = authentic
            || match self.latched {
                None => self.is_peer(source),
                Some(latched) => match (source.ip() == latched.ip(), Some(source) == self.expected) {
                    // What was latched was its neighbour: an earlier call of the same host still sends.
                    (true, true) => true,
                    // A NAT gave it another port, or the peer itself moved back to what it had told.
                    (true, false) | (false, true) => now.since(self.last) >= SILENT,
                    (false, false) => false,
                },
            };
        if !is_believed {
            return Verdict::Stranger;
        }
        self.latched = Some(source);
        self.last = now;
        Verdict::Latched
    }

    /// The address of the SDP or of the signalling, whatever the port; anyone only when neither is known.
    fn is_peer(&self, source: SocketAddr) -> bool {
        match (self.expected.map(|expected| expected.ip()), self.trusted) {
            (None, None) => true,
            (expected, trusted) => expected == Some(source.ip()) || trusted == Some(source.ip()),
        }
    }

    /// Whether RTCP from there is the peer's: its port is another.
    pub(super) fn is_peer_ip(&self, source: IpAddr) -> bool {
        self.address().is_some_and(|address| address.ip() == source) || self.trusted == Some(source)
    }
}
