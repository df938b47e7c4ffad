//! The trust domain (RFC 3324 §3, "Spec(T)"): the peers whose asserted identities are accepted, and those
//! that receive ours. And the systems that routes name, which no binding may lead to.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use router::{Change, Register};
use stdx::network::Network;

use super::Environment;
use crate::events::OutgoingRoute;
use crate::proxy::Destination;
use crate::registrar::RegisterRefusal;
use crate::resolve::Hop;
use crate::transport::{FlowId, Source, Target, TlsNames, Transport, is_reliable};
use crate::wire::{Uri, parse_ip};

/// The systems that the operator trusts, besides those of trusted routes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// Systems at these addresses.
    pub networks: Vec<Network>,
    /// Systems at the other end of a TLS connection, whichever side opened it, whose certificate has this name; lower case.
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
    /// The route names certificates, so requests from its address are its own only on a connection with one of them.
    pub has_certificate: bool,
}

/// A name of which the systems of a route show a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteCertificate {
    /// The DNS name; compared in lower case.
    pub name: Box<str>,
    /// True if these systems may speak for domains of ours (RFC 3324).
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
    /// Peers without a certificate: requests from their addresses are theirs.
    known: HashMap<IpAddr, Vec<RoutePeer>>,
    /// Names in lower case, and whether a trusted route gives them.
    certificates: HashMap<Box<str>, bool>,
}

impl RoutePeers {
    /// The trust of peers by their addresses and of peers by their certificates.
    pub fn new(peers: Vec<RoutePeer>, certificates: Vec<RouteCertificate>) -> Self {
        let mut known = RoutePeers::default();
        for RouteCertificate { name, is_trusted } in certificates {
            *known.certificates.entry(name.to_ascii_lowercase().into()).or_default() |= is_trusted;
        }
        for peer in peers {
            known.hosts.insert(peer.host.clone());
            if peer.is_trusted {
                known.trusted_hosts.insert(peer.host.clone());
            }
            let Ok(ip) = peer.host.parse::<IpAddr>() else { continue };
            let default = if peer.transport == Some(Transport::Tls) { 5061 } else { 5060 };
            known.addresses.insert(SocketAddr::new(ip.to_canonical(), peer.port.unwrap_or(default)));
            if !peer.has_certificate {
                known.known.entry(ip.to_canonical()).or_default().push(peer.clone());
            }
            if peer.is_trusted {
                known.trusted.entry(ip.to_canonical()).or_default().push(peer);
            }
        }
        known
    }

    /// A route's target has this address.
    pub(crate) fn is_at(&self, address: SocketAddr) -> bool {
        self.addresses.contains(&SocketAddr::new(address.ip().to_canonical(), address.port()))
    }

    /// A route's target has this name, or this address and whatever port.
    pub(crate) fn is_host(&self, host: &str) -> bool {
        self.hosts.contains(host)
    }

    /// True if a request to this hop reaches a trusted system: TLS has verified its name, or it is at that address.
    fn trusts_at(&self, transport: Transport, remote: SocketAddr) -> bool {
        let peers = self.trusted.get(&remote.ip().to_canonical());
        peers.is_some_and(|peers| peers.iter().any(|peer| peer.is_at(transport, remote)))
    }

    /// True if requests from this source are of a route's system. `is_trusted_only`: of a trusted route's.
    fn knows(
        &self,
        transport: Transport,
        remote: SocketAddr,
        names: Option<&TlsNames>,
        is_trusted_only: bool,
    ) -> bool {
        let counts = |is_trusted: bool| is_trusted || !is_trusted_only;
        let by_name = |name| self.certificates.get(name).is_some_and(|is_trusted| counts(*is_trusted));
        let from_there = |peer: &RoutePeer| counts(peer.is_trusted) && peer.is_at(transport, remote);
        let peers = self.known.get(&remote.ip().to_canonical());
        peers.is_some_and(|peers| peers.iter().any(from_there))
            || names.is_some_and(|names| names.iter().any(by_name))
    }
}

impl RoutePeer {
    /// By address and port; by address alone where a connection proves the address, whose other end has any port.
    fn is_at(&self, transport: Transport, remote: SocketAddr) -> bool {
        is_reliable(transport) || self.port.unwrap_or(5060) == remote.port()
    }
}

/// The trust domain as the settings and the certificates on present connections make it.
pub(crate) struct TrustDomain<'e> {
    pub(crate) trust: &'e Trust,
    pub(crate) route_peers: &'e RoutePeers,
    /// Names of the certificates that peers have shown, by their connections.
    pub(crate) certified: &'e HashMap<FlowId, TlsNames>,
}

impl<'e> TrustDomain<'e> {
    /// The names of the certificate that the peer has shown. Datagrams have no flow and are not looked up.
    pub(crate) fn tls_names(&self, source: &Source) -> Option<&'e TlsNames> {
        source.flow.and_then(|flow| self.certified.get(&flow))
    }

    /// True if a route's system has sent it, as far as the connection or the address tells. An answer to a forged address
    /// is not seen by the forger, so this decides what answers disclose, and nothing else.
    pub(crate) fn is_of_trunk(&self, source: &Source) -> bool {
        let (transport, remote) = (source.transport, source.remote);
        self.trusts_source(source) || self.route_peers.knows(transport, remote, self.tls_names(source), false)
    }

    /// True if identities may go along this hop with a request of our own.
    pub(crate) fn trusts_own_hop(&self, onward: &OutgoingRoute, hop: &Hop) -> bool {
        let is_trusted_host = || {
            let host = Uri::parse(onward.next_hop.as_bytes()).ok().map(|uri| uri.host_lower());
            host.is_some_and(|host| self.route_peers.trusted_hosts.contains(&*host))
        };
        self.trusts_address(hop.transport, hop.addr)
            || self.trusts_name(hop.tls_name.as_deref())
            || !onward.is_binding && onward.received.is_none() && is_trusted_host()
    }

    /// True if what a message from there says of identities is taken (RFC 3325 §5).
    pub(crate) fn trusts_source(&self, source: &Source) -> bool {
        let names = self.tls_names(source);
        self.trusts_network(source.remote)
            || self.route_peers.knows(source.transport, source.remote, names, true)
            || names.is_some_and(|names| names.iter().any(|name| self.trusts_certificate(name)))
    }

    /// True if identities may go where a message is sent, or come from where its answer does.
    pub(crate) fn trusts_target(&self, target: &Target) -> bool {
        let names = target.flow.and_then(|flow| self.certified.get(&flow));
        let is_trusted = |name: &str| {
            self.trusts_certificate(name) || self.route_peers.certificates.get(name) == Some(&true)
        };
        self.trusts_address(target.transport, target.remote)
            || self.trusts_name(target.tls_name.as_deref())
            || names.is_some_and(|names| names.iter().any(|name| is_trusted(name)))
    }

    /// True if identities may go along this hop. `is_planned`: the destination is a route's, so that its host is the next.
    pub(crate) fn trusts_hop(&self, hop: &Hop, destination: &Destination, is_planned: bool) -> bool {
        let is_trusted_host = || {
            let host = Uri::parse(&destination.uri).ok().map(|uri| uri.host_lower());
            host.is_some_and(|host| self.route_peers.trusted_hosts.contains(&*host))
        };
        self.trusts_address(hop.transport, hop.addr)
            || self.trusts_name(hop.tls_name.as_deref())
            || is_planned
                && destination.received.is_none()
                && destination.path.is_empty()
                && !self.route_peers.trusted_hosts.is_empty()
                && is_trusted_host()
    }

    /// True if Path and Contact of a REGISTER are taken as they are: a proxy of ours may say so, a carrier may not.
    pub(crate) fn trusts_registrations(&self, source: &Source) -> bool {
        let names = || self.tls_names(source);
        self.trusts_network(source.remote)
            || names().is_some_and(|names| names.iter().any(|name| self.trusts_certificate(name)))
    }

    fn trusts_network(&self, remote: SocketAddr) -> bool {
        self.trust.networks.iter().any(|network| network.contains(remote.ip()))
    }

    fn trusts_address(&self, transport: Transport, remote: SocketAddr) -> bool {
        self.trusts_network(remote) || self.route_peers.trusts_at(transport, remote)
    }

    /// A name that the operator trusts by itself.
    fn trusts_certificate(&self, name: &str) -> bool {
        self.trust.names.iter().any(|trusted| trusted.eq_ignore_ascii_case(name))
    }

    /// A name that a certificate has proved.
    fn trusts_name(&self, name: Option<&str>) -> bool {
        name.is_some_and(|name| {
            self.trusts_certificate(name)
                || self.route_peers.trusted_hosts.contains(&*name.to_ascii_lowercase())
        })
    }
}

impl Environment {
    /// True if a binding must not lead there: it is ours, or calls would leave by a route that is not the account's.
    /// At the sender's own address a route's target is another port; elsewhere any port may be the carrier's.
    pub(crate) fn is_taken(&self, host: &[u8], port: u16, source: &Source) -> bool {
        let Some(ip) = parse_ip(host) else {
            let name = String::from_utf8_lossy(host).to_ascii_lowercase();
            return self.listeners.is_own_host(host, port) || self.settings.route_peers.is_host(&name);
        };
        let is_elsewhere = ip.to_canonical() != source.remote.ip().to_canonical();
        self.listeners.is_own_host(host, port)
            || self.settings.route_peers.is_at(SocketAddr::new(ip, port))
            || is_elsewhere && self.settings.route_peers.is_host(&ip.to_canonical().to_string())
    }

    /// A UDP source address can be forged: a REGISTER from a route's target binds nothing, so that calls do not leave by it.
    pub(crate) fn check_way_back(
        &self,
        register: Register,
        source: &Source,
    ) -> Result<Register, RegisterRefusal> {
        let comes_from_route =
            source.transport == Transport::Udp && self.settings.route_peers.is_at(source.remote);
        let is_back = |contact: &router::Contact| contact.expires > 0 && contact.received.is_some();
        match &register.change {
            Change::Update(contacts) if comes_from_route && contacts.iter().any(is_back) => {
                Err(RegisterRefusal::contact_is_taken())
            }
            _ => Ok(register),
        }
    }

    /// True if the way that a binding found leads where none may: its name resolved to it, or the route is newer.
    pub(crate) fn is_forbidden_way(&self, destination: &Destination, hop: &Hop) -> bool {
        destination.is_binding
            && destination.received.is_none()
            && destination.path.is_empty()
            && self.leads_where_none_may(hop)
    }

    /// As [`is_forbidden_way`](Self::is_forbidden_way), for a request of our own.
    pub(crate) fn is_forbidden_for(&self, onward: &OutgoingRoute, hop: &Hop) -> bool {
        onward.is_binding && onward.received.is_none() && self.leads_where_none_may(hop)
    }

    fn leads_where_none_may(&self, hop: &Hop) -> bool {
        let is_ours = || self.listeners.all.iter().any(|listener| listener.addr == hop.addr);
        self.settings.route_peers.is_at(hop.addr) || is_ours()
    }
}
