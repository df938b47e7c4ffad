//! Symmetric RTP: media goes where it comes from, and a stranger cannot take it over.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use stdx::time::Instant;

/// A latched address must be silent for so long before another port of it is believed.
const SILENT: Duration = Duration::from_secs(1);

/// The relation of an address to a leg.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SourceVerdict {
    /// Media goes there already.
    Known,
    /// Media goes there from now on.
    Latched,
    /// The packet is dropped.
    Stranger,
}

/// The address from which the peer sends, and the addresses that are believed to be the peer's.
#[derive(Debug, Clone)]
pub(super) struct Latch {
    /// The address in the SDP.
    expected: Option<SocketAddr>,
    /// Where the signalling comes from.
    trusted: Option<IpAddr>,
    /// The last such address that is known to receive what is sent to it.
    proved: Option<IpAddr>,
    /// The owner vouches for the address of the SDP: a media gateway of its configuration.
    is_vouched_for: bool,
    /// The address of the peer's last accepted move.
    latched: Option<SocketAddr>,
    /// The time of the last packet from there.
    last: Instant,
}

impl Latch {
    /// Nothing came yet.
    pub(super) fn new(expected: Option<SocketAddr>, trusted: Option<IpAddr>) -> Latch {
        let (proved, last) = (trusted, Instant::default());
        Latch { expected, trusted, proved, is_vouched_for: false, latched: None, last }
    }

    /// Where the signalling comes from, learnt after the leg was made. Unless the address `is_proved`, its source may be forged:
    /// media from there is believed, but media goes there only after some came.
    pub(super) fn trust(&mut self, signalling: IpAddr, is_proved: bool) {
        self.trusted = Some(signalling);
        if is_proved {
            self.proved = Some(signalling);
        }
    }

    /// The owner believes the SDP, whatever the signalling's address is.
    pub(super) fn vouch(&mut self, is_vouched_for: bool) {
        self.is_vouched_for = is_vouched_for;
    }

    /// Another address by a re-offer.
    pub(super) fn expect(&mut self, expected: Option<SocketAddr>) {
        self.expected = expected;
        self.latched = None;
    }

    /// Where media goes: the address that has sent, else that of the SDP if it is the signalling's own. An SDP may
    /// name any victim, so another address is sent nothing before it has sent itself (RFC 5853 §3.1.1 has the latching).
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.latched.or_else(|| self.expected.filter(|expected| self.may_send_first_to(expected.ip())))
    }

    /// True if media may go to the SDP's address before any came from there.
    fn may_send_first_to(&self, expected: IpAddr) -> bool {
        self.is_vouched_for || self.trusted.is_none() || self.proved == Some(expected)
    }

    /// True once a packet of the peer came.
    pub(super) fn is_latched(&self) -> bool {
        self.latched.is_some()
    }

    /// A packet of a negotiated payload type came; `authentic`: by SRTP.
    pub(super) fn handle(&mut self, now: Instant, source: SocketAddr, authentic: bool) -> SourceVerdict {
        if self.latched == Some(source) {
            self.last = now;
            return SourceVerdict::Known;
        }
        let is_believed = authentic
            || match self.latched {
                None => self.is_peer(source),
                Some(latched) => match (source.ip() == latched.ip(), Some(source) == self.expected) {
                    // The latched source was a neighbour: an earlier call of the same host still sends.
                    (true, true) => true,
                    // A NAT gave it another port, or the peer itself moved back to the address of its SDP.
                    (true, false) | (false, true) => now.since(self.last) >= SILENT,
                    // The peer moved to another network, and its description is as it was: it names a private address.
                    (false, false) => self.trusted == Some(source.ip()) && now.since(self.last) >= SILENT,
                },
            };
        if !is_believed {
            return SourceVerdict::Stranger;
        }
        self.latched = Some(source);
        self.last = now;
        SourceVerdict::Latched
    }

    /// A source is the peer if it has the address of the SDP or of the signalling, on any port. Any source
    /// is, if neither address is known.
    fn is_peer(&self, source: SocketAddr) -> bool {
        match (self.expected.map(|expected| expected.ip()), self.trusted) {
            (None, None) => true,
            (expected, trusted) => expected == Some(source.ip()) || trusted == Some(source.ip()),
        }
    }

    /// True if RTCP from there is the peer's: its port is another.
    pub(super) fn is_peer_ip(&self, source: IpAddr) -> bool {
        self.address().is_some_and(|address| address.ip() == source) || self.trusted == Some(source)
    }
}
