//! Rules for the addresses that media goes to, and for calls whose media has stopped.

use std::net::IpAddr;
use std::time::Duration;

use sip::endpoint::Endpoint;
use stdx::Instant;
use stdx::network::Network;
use stdx::slab::Key;

use super::World;
use super::calls::Calls;
use super::leg::Leg;
use super::settings::Settings;

/// `[voice]`'s keys about media.
#[derive(Debug)]
pub(super) struct MediaRules {
    /// Media gateways: sent to before they have sent.
    networks: Box<[Network]>,
    /// The address of this node's own legs: two of them would wait for each other.
    own: IpAddr,
    /// Zero: never.
    timeout: Duration,
    is_ending: bool,
}

impl MediaRules {
    pub(super) fn new(settings: &Settings) -> MediaRules {
        MediaRules {
            own: settings.ip,
            networks: settings.media_networks.clone(),
            timeout: settings.media_timeout,
            is_ending: settings.media_timeout_ends,
        }
    }

    pub(super) fn is_gateway(&self, address: IpAddr) -> bool {
        address == self.own || self.networks.iter().any(|network| network.contains(address))
    }

    /// The address that peers are told to send media to.
    pub(super) fn own(&self) -> IpAddr {
        self.own
    }

    pub(super) fn timeout(&self) -> Option<Duration> {
        (!self.timeout.is_zero()).then_some(self.timeout)
    }
}

impl Leg {
    /// A response came from the peer of an outgoing call: media may go to that address.
    pub(super) fn trust_peer(&mut self, endpoint: &Endpoint) {
        let Some(peer) = endpoint.peer_of(self.session) else { return };
        self.trusted = peer;
        if let Some(media) = &mut self.media {
            media.trust_signalling(peer, true);
        }
    }

    /// An offer within the dialog was accepted. Its To tag is known to the peer alone, so the address that it came from is the
    /// peer's. Unless that `is_proved`, media goes there only after some came.
    pub(super) fn trust_source(&mut self, source: IpAddr, is_proved: bool) {
        if is_proved {
            self.trusted = source;
        }
        if let Some(media) = &mut self.media {
            media.trust_signalling(source, is_proved);
        }
    }
}

impl Calls {
    /// The peer has sent neither RTP nor RTCP for the configured time: its phone or its network is gone.
    pub(super) fn media_ended(&mut self, now: Instant, key: Key, silence: Duration, world: &mut World<'_>) {
        self.counts.media_timeouts += 1;
        let Some(leg) = self.legs.get(key) else { return };
        let (sid, seconds, is_ending) = (&leg.sid, silence.as_secs(), self.media_rules.is_ending);
        tracing::info!(sid, seconds, is_ending, "no media came from the peer");
        if is_ending {
            // RFC 3326; Q.850 cause 102: recovery on timer expiry.
            let reason = Some("Q.850;cause=102;text=\"no media\"");
            world.endpoint.sessions(now, world.out).hang_up(leg.session, reason);
        }
    }
}
