//! `[hep]`: copies of SIP messages for a capture server.
//!
//! The copies are made by the node; only Call-ID and `percent` decide which calls, so that a call is captured with all of its messages at every node.
//! `net::capture` makes the copies where messages are sent and received, so they are of the bytes on the wire,
//! before encryption and after decryption.

use std::net::SocketAddr;

use net::Listener;
use sip::transport::Transport;
use xmpp::sasl::Secret;

use super::reader::Reader;
use super::value::Value as _;

/// `[hep]`
#[derive(Clone, Debug, PartialEq)]
pub struct Hep {
    /// The capture server, over UDP; `None`: messages are not captured.
    pub server: Option<SocketAddr>,
    /// The number of this node at the capture server.
    pub capture_id: u32,
    /// The password that the capture server expects.
    pub password: Option<Secret>,
    /// Calls in a hundred that are captured.
    pub percent: u32,
}

impl Hep {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let mut section = reader.section("hep");
        let server: Option<Listener> = section.optional(
            "server",
            "A capture server, as Homer, that is sent a copy of each SIP message in HEP version 3: `udp:` and its address, usually port 9060. Off without it. The copies are whole and in the clear, those of TLS connections, too.",
        );
        // `Secret` has a `Debug` that hides it, as this configuration is compared and may be shown.
        let password = section.secret("password", "The password that the capture server expects.");
        let hep = Hep {
            server: server.map(|server| server.address),
            capture_id: section.key_in(
                "capture_id",
                2_001,
                1..=u32::MAX,
                "The number of this node at the capture server.",
            ),
            password: password.map(Secret),
            percent: section.key_in(
                "percent",
                100,
                1..=100,
                "Calls in a hundred that are captured, each with all its messages. Which ones the Call-ID decides, so all nodes capture the same calls.",
            ),
        };
        // HEP over TCP exists; here a copy must never wait for its receiver.
        if let Some(server) = server.filter(|server| server.transport != Transport::Udp) {
            section.mistake("server", format!("`server` is {}", server.show()), "udp: and an address");
        }
        section.finish();
        hep
    }

    /// A consequence that may surprise.
    pub(super) fn warning(&self) -> Option<String> {
        let server = self.server?;
        // Canonical: `::ffff:127.0.0.1` is this machine, too.
        (!server.ip().to_canonical().is_loopback()).then(|| {
            format!(
                "[hep] sends copies of all SIP messages to {server} in the clear, those of TLS connections and answers to challenges, too: let the way there be a network of your own"
            )
        })
    }
}
