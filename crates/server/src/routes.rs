//! Routes of the database as the endpoints know them: SIP needs their systems to tell trunks from strangers, by address or certificate. Where calls
//! go is the plan's to decide (`call::Plan`), made from the same rows.

use call::{RouteTarget, TargetTransport};
use sip::endpoint::{RouteCertificate, RoutePeer};
use sip::transport::Transport;
use store::Route;

/// The systems that routes lead to, as the endpoints know them.
pub fn peers(routes: &[Route]) -> Vec<RoutePeer> {
    let peers_of = |route: &Route| {
        let is_trusted = route.policy.trusted;
        let targets = route.targets.iter().filter_map(|target| match target.uri.parse() {
            Ok(RouteTarget::Peer(target)) => Some(target),
            // Accounts of ours and other targets that are no system of their own.
            _ => None,
        });
        let peer = |target: call::Target| RoutePeer {
            host: target.host,
            port: target.port,
            transport: target.transport.map(|transport| match transport {
                TargetTransport::Udp => Transport::Udp,
                TargetTransport::Tcp => Transport::Tcp,
                TargetTransport::Tls => Transport::Tls,
            }),
            is_trusted,
            has_certificate: !route.policy.certificates.is_empty(),
        };
        targets.map(peer).collect::<Vec<_>>()
    };
    routes.iter().flat_map(peers_of).collect()
}

/// The certificates that systems of routes show.
pub fn certificates(routes: &[Route]) -> Vec<RouteCertificate> {
    let of_route = |route: &Route| {
        let is_trusted = route.policy.trusted;
        let names = route.policy.certificates.iter().cloned();
        names.map(|name| RouteCertificate { name, is_trusted }).collect::<Vec<_>>()
    };
    routes.iter().flat_map(of_route).collect()
}
