//! The peer of a leg: the result of offer and answer, the address of its media, and the keys of its SRTP.

use std::net::{IpAddr, SocketAddr};

use super::latch::Latch;
use super::security::Security;
use super::{MediaOutbox, TickWork};
use crate::rtcp::{self, Report};
use crate::rtp::Header;
use crate::sdp::Negotiated;

/// The other end of a leg's media. All packets leave through it, protected and to an address that may have them.
pub(super) struct MediaPeer {
    /// The result of the last offer and answer (RFC 3264).
    pub(super) negotiated: Negotiated,
    /// The SRTP contexts of both directions.
    pub(super) security: Security,
    /// The address from which the peer sends.
    pub(super) latch: Latch,
}

impl MediaPeer {
    /// `trusted`: the address from which the signalling comes.
    pub(super) fn new(negotiated: Negotiated, trusted: Option<IpAddr>) -> MediaPeer {
        MediaPeer {
            security: Security::new(&negotiated),
            latch: Latch::new(negotiated.remote, trusted),
            negotiated,
        }
    }

    /// Takes the result of a re-offer. Another address in the SDP is believed as that of the first offer was.
    pub(super) fn renegotiate(&mut self, negotiated: Negotiated) {
        self.security.renegotiate(&negotiated);
        if negotiated.remote != self.negotiated.remote {
            self.latch.expect(negotiated.remote);
        }
        self.negotiated = negotiated;
    }

    /// The address for RTP; `None` while nothing may be sent, for want of an address or by the direction of the SDP
    /// (RFC 3264 §5.1).
    pub(super) fn destination(&self) -> Option<SocketAddr> {
        self.latch.address().filter(|_| self.negotiated.direction.sends())
    }

    /// Sends an RTP packet, protected where keys were negotiated. False if it was not sent.
    pub(super) fn send_rtp(
        &mut self,
        header: Header,
        payload: &[u8],
        packet: &mut Vec<u8>,
        out: &mut impl MediaOutbox,
    ) -> bool {
        let Some(to) = self.destination() else { return false };
        packet.clear();
        header.write(payload, packet);
        if let Some(context) = self.security.sender()
            && context.protect_rtp(packet).is_err()
        {
            return false;
        }
        out.rtp(to, packet);
        true
    }

    /// Sends RTCP reports as one compound packet. `has_sent`: RTP went to the peer before.
    pub(super) fn send_rtcp(
        &mut self,
        reports: &[Report],
        has_sent: bool,
        work: &mut TickWork,
        out: &mut impl MediaOutbox,
    ) {
        let Some(to) = self.rtcp_address(has_sent) else { return };
        work.packet.clear();
        rtcp::write(reports, "belfry", &mut work.packet);
        if let Some(context) = self.security.sender()
            && context.protect_rtcp(&mut work.packet).is_err()
        {
            return;
        }
        out.rtcp(to, &work.packet);
    }

    /// Behind a NAT the next port is a guess, and the best there is. Reports go only where RTP goes to or comes from: the
    /// address of `a=rtcp` (RFC 3605) may be any victim's, and so may that of an INVITE that was never acknowledged.
    fn rtcp_address(&self, has_sent: bool) -> Option<SocketAddr> {
        let rtp = self.latch.address().filter(|_| has_sent || self.latch.is_latched())?;
        // RFC 5761 §5.1.1: one port for both.
        if self.negotiated.rtcp_mux {
            return Some(rtp);
        }
        let described = self
            .negotiated
            .remote_rtcp
            .filter(|described| described.ip() == rtp.ip())
            .filter(|_| !self.latch.is_latched() || Some(rtp) == self.negotiated.remote);
        described.or_else(|| Some(SocketAddr::new(rtp.ip(), rtp.port().checked_add(1)?)))
    }
}
