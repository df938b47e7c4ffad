//! Handshakes of connections that are under way, and when each must be over: `-tls_handshake_timeout` and
//! `-ws_handshake_timeout`. [`StreamConnections`](super::stream::StreamConnections) asks when it is woken.

use std::collections::VecDeque;

use lab_sip::options::Network;
use stdx::slab::Key;
use stdx::time::Instant;

/// A handshake above TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Handshake {
    /// RFC 8446 §4.
    Tls,
    /// RFC 6455 §4; with TLS, that one's included.
    WebSocket,
}

/// The limits in force. Those of one kind are equally long, so each queue is in the order of its ends.
#[derive(Debug, Default)]
pub(super) struct HandshakeLimits {
    /// The end of the time of each TLS handshake, and its connection.
    tls: VecDeque<(Instant, Key)>,
    /// The same for WebSocket.
    web: VecDeque<(Instant, Key)>,
}

impl HandshakeLimits {
    /// The connection's handshake begins.
    pub(super) fn begin(&mut self, now: Instant, kind: Handshake, network: &Network, key: Key) {
        let (queue, limit) = match kind {
            Handshake::Tls => (&mut self.tls, network.tls_handshake),
            Handshake::WebSocket => (&mut self.web, network.ws_handshake),
        };
        // Without the option a handshake may take as long as the peer likes.
        if let Some(limit) = limit {
            queue.push_back((now + limit, key));
        }
    }

    /// The time at which [`HandshakeLimits::expire`] has something to do.
    pub(super) fn deadline(&self) -> Instant {
        let first =
            |queue: &VecDeque<(Instant, Key)>| queue.front().map_or(Instant::FAR_FUTURE, |(end, _)| *end);
        first(&self.tls).min(first(&self.web))
    }

    /// The connections whose handshake had to be over by now. Most of them are done, or gone, long since.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<(Handshake, Key)> {
        let mut due = Vec::new();
        for (kind, queue) in [(Handshake::Tls, &mut self.tls), (Handshake::WebSocket, &mut self.web)] {
            while let Some((_, key)) = queue.pop_front_if(|(end, _)| *end <= now) {
                due.push((kind, key));
            }
        }
        due
    }
}
