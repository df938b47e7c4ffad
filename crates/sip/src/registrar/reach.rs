//! Where a binding may lead: to where its REGISTER came from, and elsewhere only by leave of the operator.
//!
//! RFC 3261 §10 lets an account bind any URI. Then any client with a password could make us call what only we may call: a
//! carrier that knows us by our address, a device of the network we stand in.

use std::net::IpAddr;

use stdx::network::Network;

use crate::transport::{Source, has_known_transport};
use crate::wire::{Uri, parse_ip};

/// The facts about the sender of one REGISTER.
#[derive(Clone, Copy)]
pub struct ContactReach<'a> {
    /// Contacts in these networks are called there, wherever their REGISTER came from.
    pub networks: &'a [Network],
    /// The sender is in the trust domain: its Path and Contact are taken as they are.
    pub is_trusted: bool,
    /// True if this address, or name, and port is ours or a route's target.
    pub is_forbidden: &'a dyn Fn(&[u8], u16) -> bool,
}

impl ContactReach<'_> {
    /// True if requests go where the Contact says. Otherwise they go where the REGISTER came from, and nowhere else: also where it says a
    /// transport that we do not know, which the client does not use with us.
    pub(super) fn is_direct(&self, uri: &Uri<'_>, source: &Source) -> bool {
        let at_source = |ip: IpAddr| ip.to_canonical() == source.remote.ip().to_canonical();
        let is_allowed = |ip: IpAddr| self.networks.iter().any(|network| network.contains(ip));
        let is_sound = parse_ip(host(uri)).is_some_and(|ip| at_source(ip) || is_allowed(ip));
        self.is_trusted || is_sound && has_known_transport(uri)
    }

    pub(super) fn leads_astray(&self, uri: &Uri<'_>) -> bool {
        let port = uri.port.unwrap_or(if is_secure(uri) { 5061 } else { 5060 });
        (self.is_forbidden)(host(uri), port)
    }
}

/// RFC 3261 §19.1.1: `maddr` overrides the host.
fn host<'a>(uri: &Uri<'a>) -> &'a [u8] {
    uri.params.get("maddr").filter(|host| !host.is_empty()).unwrap_or(uri.host)
}

fn is_secure(uri: &Uri<'_>) -> bool {
    let is_tls = |name: &[u8]| name.eq_ignore_ascii_case(b"tls");
    uri.scheme == crate::wire::Scheme::Sips || uri.params.get("transport").is_some_and(is_tls)
}
