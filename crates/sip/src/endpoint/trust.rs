//! The trust domain (RFC 3324 §3, "Spec(T)"): whose word on identities is taken, and to whom ours is given. And the systems
//! that routes name, which no binding may lead to.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use router::{Change, Register};
use stdx::network::Network;

use super::Endpoint;
use crate::proxy::Destination;
use crate::registrar::Refusal;
use crate::resolve::Hop;
use crate::transport::{Source, Target, Transport, is_reliable};
use crate::wire::{Uri, parse_ip};

/// What the operator trusts, besides routes that say so themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// Systems at these addresses.
    pub networks: Vec<Network>,
    /// Next hops that are reached over TLS and whose certificate carries this name; lower case.
    pub names: Vec<Box<str>>,
    /// Bindings may lead there, wherever their REGISTER came from.
    pub contacts: Vec<Network>,
}

/// A system that a route leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutePeer {
    /// A name in lower case, or an address without brackets.
    pub host: Box<str>,
    /// `None`: the default one, or by SRV.
    pub port: Option<u16>,
    /// `None`: by NAPTR, or UDP.
    pub transport: Option<Transport>,
    /// Identities go there and come from there (RFC 3325 §4).
    pub is_trusted: bool,
}

/// [`RoutePeer`]s as they are asked for.
#[derive(Clone, Debug, Default)]
pub struct RoutePeers {
    /// With the port that a literal address without one means.
    addresses: HashSet<SocketAddr>,
    hosts: HashSet<Box<str>>,
    trusted: HashMap<IpAddr, Vec<RoutePeer>>,
    trusted_hosts: HashSet<Box<str>>,
}

impl RoutePeers {
    pub fn new(peers: Vec<RoutePeer>) -> Self {
        let mut known = RoutePeers::default();
        for peer in peers {
            known.hosts.insert(peer.host.clone());
            if peer.is_trusted {
                known.trusted_hosts.insert(peer.host.clone());
            }
            let Ok(ip) = peer.host.parse::<IpAddr>() else { continue };
            let default = if peer.transport == Some(Transport::Tls) { 5061 } else { 5060 };
            known.addresses.insert(SocketAddr::new(ip.to_canonical(), peer.port.unwrap_or(default)));
            if peer.is_trusted {
                known.trusted.entry(ip.to_canonical()).or_default().push(peer);
            }
        }
        known
    }

    /// A route's target has this address.
    pub(super) fn is_at(&self, address: SocketAddr) -> bool {
        self.addresses.contains(&SocketAddr::new(address.ip().to_canonical(), address.port()))
    }

    /// A route's target has this name, or this address and whatever port.
    pub(super) fn is_host(&self, host: &str) -> bool {
        self.hosts.contains(host)
    }

    /// By address and port; by address alone where a connection proves the address, whose other end has any port.
    fn trusts(&self, transport: Transport, remote: SocketAddr) -> bool {
        let from_there =
            |peer: &RoutePeer| is_reliable(transport) || peer.port.unwrap_or(5060) == remote.port();
        let peers = self.trusted.get(&remote.ip().to_canonical());
        peers.is_some_and(|peers| peers.iter().any(from_there))
    }
}

impl Endpoint {
    /// Whether a binding must not lead there: it is ours, or calls would leave by a route that is not the account's.
    /// At the sender's own address a route's target is another port; elsewhere any port may be the carrier's.
    pub(super) fn is_taken(&self, host: &[u8], port: u16, source: &Source) -> bool {
        let Some(ip) = parse_ip(host) else {
            let name = String::from_utf8_lossy(host).to_ascii_lowercase();
            return self.is_own_host(host, port) || self.settings.route_peers.is_host(&name);
        };
        let is_elsewhere = ip.to_canonical() != source.remote.ip().to_canonical();
        self.is_own_host(host, port)
            || self.settings.route_peers.is_at(SocketAddr::new(ip, port))
            || is_elsewhere && self.settings.route_peers.is_host(&ip.to_canonical().to_string())
    }

    /// A UDP source address can be forged: from a route's target nobody registers, and calls do not leave by it.
    pub(super) fn check_way_back(&self, register: Register, source: &Source) -> Result<Register, Refusal> {
        let comes_from_route =
            source.transport == Transport::Udp && self.settings.route_peers.is_at(source.remote);
        let is_back = |contact: &router::Contact| contact.expires > 0 && contact.received.is_some();
        match &register.change {
            Change::Update(contacts) if comes_from_route && contacts.iter().any(is_back) => {
                Err(Refusal::contact_is_taken())
            }
            _ => Ok(register),
        }
    }

    /// Whether the way that a binding found leads where none may: its name resolved to it, or the route is newer.
    pub(super) fn is_forbidden_way(&self, destination: &Destination, hop: &Hop) -> bool {
        let is_ours = || self.settings.listeners.iter().any(|listener| listener.addr == hop.addr);
        destination.is_binding
            && destination.received.is_none()
            && destination.path.is_empty()
            && (self.settings.route_peers.is_at(hop.addr) || is_ours())
    }

    /// Whether what a message from there says of identities is taken (RFC 3325 §5).
    pub(super) fn trusts_source(&self, source: &Source) -> bool {
        self.trusts_address(source.transport, source.remote)
    }

    /// Whether identities may go where a message is sent, or come from where its answer does.
    pub(super) fn trusts_target(&self, target: &Target) -> bool {
        self.trusts_address(target.transport, target.remote) || self.trusts_name(target.tls_name.as_deref())
    }

    /// Whether identities may go along this hop. `is_planned`: the destination is a route's, so that its host is the next.
    pub(super) fn trusts_hop(&self, hop: &Hop, destination: &Destination, is_planned: bool) -> bool {
        let is_trusted_host = || {
            let host = Uri::parse(&destination.uri).ok().map(|uri| uri.host_lower());
            host.is_some_and(|host| self.settings.route_peers.trusted_hosts.contains(&*host))
        };
        self.trusts_address(hop.transport, hop.addr)
            || self.trusts_name(hop.tls_name.as_deref())
            || is_planned
                && destination.received.is_none()
                && destination.path.is_empty()
                && is_trusted_host()
    }

    /// Whether Path and Contact of a REGISTER are taken as they are: a proxy of ours may say so, a carrier may not.
    pub(super) fn trusts_registrations(&self, source: &Source) -> bool {
        self.settings.trust.networks.iter().any(|network| network.contains(source.remote.ip()))
    }

    fn trusts_address(&self, transport: Transport, remote: SocketAddr) -> bool {
        self.settings.trust.networks.iter().any(|network| network.contains(remote.ip()))
            || self.settings.route_peers.trusts(transport, remote)
    }

    /// A name that a certificate has proved.
    fn trusts_name(&self, name: Option<&str>) -> bool {
        name.is_some_and(|name| {
            self.settings.trust.names.iter().any(|trusted| trusted.eq_ignore_ascii_case(name))
                || self.settings.route_peers.trusted_hosts.contains(&*name.to_ascii_lowercase())
        })
    }
}
