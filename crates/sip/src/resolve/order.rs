//! The order in which records are tried: NAPTR (RFC 3403 §4.1), SRV (RFC 2782), addresses (RFC 7984 §3).

use std::net::IpAddr;

use stdx::draw::by_priority_and_weight;

use super::plan::{Service, is_name};
use crate::dns::{DnsData, DnsRecord};
use crate::limits;
use crate::transport::Transport;

/// An SRV record, as far as its order depends on it (RFC 2782).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Srv {
    priority: u16,
    weight: u16,
    pub(super) port: u16,
    pub(super) target: Box<str>,
}

/// The services that NAPTR records name and we support. RFC 3403 §4.1: once an order has a match, higher
/// ones are not looked at; inside it, the lowest preference first.
pub(super) fn services_in_order(records: &[DnsRecord], supported: &[Transport]) -> Vec<Service> {
    let mut found: Vec<(u16, u16, Service)> = Vec::new();
    for record in records {
        let DnsData::Naptr { order, preference, flags, service, replacement } = &record.data else {
            continue;
        };
        // RFC 3263 §4.1: SIP uses the "s" flag only.
        let transport =
            transport_of(service).filter(|t| flags.eq_ignore_ascii_case("s") && supported.contains(t));
        let name = replacement.trim_end_matches('.').to_ascii_lowercase();
        if let Some(transport) = transport.filter(|_| is_name(&name)) {
            found.push((*order, *preference, Service { transport, name: name.into() }));
        }
    }
    found.sort_by_key(|(order, preference, _)| (*order, *preference));
    let lowest = found.first().map(|(order, ..)| *order);
    let matching = found.into_iter().take_while(|(order, ..)| Some(*order) == lowest);
    matching.map(|(.., service)| service).take(limits::SRV_SERVICES).collect()
}

/// RFC 3263 §4.1 and RFC 7118.
fn transport_of(service: &str) -> Option<Transport> {
    let known = [
        ("SIP+D2U", Transport::Udp),
        ("SIP+D2T", Transport::Tcp),
        ("SIPS+D2T", Transport::Tls),
        ("SIP+D2W", Transport::Ws),
        ("SIPS+D2W", Transport::Wss),
    ];
    known.iter().find(|(name, _)| service.eq_ignore_ascii_case(name)).map(|(_, transport)| *transport)
}

/// RFC 2782: by priority; inside one, drawn by weight. The same order for the same `random`.
pub(super) fn srv_in_order(records: &[DnsRecord], random: u64) -> Vec<Srv> {
    let found = records.iter().filter_map(srv).collect();
    by_priority_and_weight(found, |srv: &Srv| (srv.priority, srv.weight), random)
}

fn srv(record: &DnsRecord) -> Option<Srv> {
    let DnsData::Srv { priority, weight, port, target } = &record.data else { return None };
    // "." stays empty here, which is no name.
    let target = target.trim_end_matches('.').to_ascii_lowercase().into();
    Some(Srv { priority: *priority, weight: *weight, port: *port, target })
}

/// IPv6 first, then by turns, each family in the order DNS gave: if one family leads nowhere, the second
/// attempt is already of the other.
pub(super) fn alternate_families(ips: impl Iterator<Item = IpAddr>) -> Vec<IpAddr> {
    let (v6, v4): (Vec<IpAddr>, Vec<IpAddr>) = ips.partition(IpAddr::is_ipv6);
    let mut ordered = Vec::with_capacity(v6.len() + v4.len());
    let (mut v6, mut v4) = (v6.into_iter(), v4.into_iter());
    loop {
        let pair = (v6.next(), v4.next());
        if pair == (None, None) {
            return ordered;
        }
        ordered.extend(pair.0);
        ordered.extend(pair.1);
    }
}
