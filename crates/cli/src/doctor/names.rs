//! The records of the domains in DNS: clients and servers find this machine by them (RFC 3263, RFC 6120 §3.2).
//!
//! For each domain and each service that is reached from outside: its SRV record, and the addresses of the record's target, which must be of this
//! machine. Without a record the address of the domain and the usual port count, where the protocol falls back to them.
//!
//! DNS is asked by the function `ask`, so that tests need none. Invariant: after a silence of DNS no further
//! question is asked for that domain, as each would wait for its whole patience.

use std::net::IpAddr;

use config::Config;
use net::Listener;
use sip::dns::{DnsData, DnsFault, DnsQuery, DnsRecord};
use sip::transport::Transport;
use stdx::address::is_private;

use super::Finding;

const CHECK: &str = "DNS";

/// A service whose place is in DNS.
struct Service {
    /// The service and protocol, as `_sip._udp`.
    label: &'static str,
    /// The port of clients that find no SRV record. `None`: they do not look further.
    usual_port: Option<u16>,
    /// Those that the configuration listens at.
    ports: Vec<u16>,
}

/// The facts of this machine.
struct Place<'a> {
    /// The addresses of this machine.
    own: &'a [IpAddr],
    /// The address behind NAT, by `[sip] advertise`.
    advertised: Vec<IpAddr>,
}

impl Place<'_> {
    fn has(&self, ip: &IpAddr) -> bool {
        self.own.contains(ip) || self.advertised.contains(ip)
    }

    /// Without a public address it cannot be known which one leads here.
    fn is_behind_nat(&self) -> bool {
        self.advertised.is_empty() && self.own.iter().all(|ip| is_private(*ip))
    }
}

type Answer = Result<Vec<DnsRecord>, DnsFault>;

/// `own`: the addresses of this machine; `ask` puts a question to DNS.
pub(super) fn check(
    config: &Config,
    own: &[IpAddr],
    mut ask: impl FnMut(&DnsQuery) -> Answer,
) -> Vec<Finding> {
    let services = services(config);
    if services.is_empty() {
        return vec![Finding::good(CHECK, "all listeners are on loopback: no record is needed")];
    }
    // A name is looked up once; without an answer the machine's own addresses are all that is known.
    let advertised = config.sip.advertise.as_deref().map_or(Vec::new(), |host| match host.parse() {
        Ok(ip) => vec![ip],
        Err(_) => addresses(host, &mut ask).unwrap_or_default(),
    });
    let place = Place { own, advertised };
    let mut findings = Vec::new();
    for domain in &config.sip.domains {
        let domain = net::dns::ascii(domain);
        // Neither is ever looked up in DNS (RFC 6761 §6.3; RFC 3263 §4.2 for addresses).
        if domain == "localhost" || domain.parse::<IpAddr>().is_ok() {
            findings.push(Finding::good(CHECK, format!("{domain} needs no record")));
            continue;
        }
        for service in &services {
            match of_service(&domain, service, &place, &mut ask) {
                Ok(found) => findings.push(found),
                // The other questions would take as long.
                Err(()) => {
                    let mend = "check [sip] nameservers, or /etc/resolv.conf, and ask again";
                    findings.push(Finding::warning(CHECK, format!("{domain}: DNS does not answer"), mend));
                    break;
                }
            }
        }
    }
    findings
}

/// The services that others than this machine reach.
/// Ports are those of IANA; XMPP with TLS from the first byte (XEP-0368) has no usual one and is found by SRV
/// alone.
fn services(config: &Config) -> Vec<Service> {
    let service = |label, usual_port, listeners: &[Listener], transport| {
        let fits =
            |listener: &&Listener| listener.transport == transport && !listener.address.ip().is_loopback();
        let ports: Vec<u16> = listeners.iter().filter(fits).map(|listener| listener.address.port()).collect();
        (!ports.is_empty()).then_some(Service { label, usual_port, ports })
    };
    let (sip, chat, servers) = (&config.sip.listen, &config.xmpp.listen, &config.federation.listen);
    [
        service("_sip._udp", Some(5060), sip, Transport::Udp),
        service("_sip._tcp", Some(5060), sip, Transport::Tcp),
        service("_sips._tcp", Some(5061), sip, Transport::Tls),
        service("_xmpp-client._tcp", Some(5222), chat, Transport::Tcp),
        service("_xmpps-client._tcp", None, chat, Transport::Tls),
        service("_xmpp-server._tcp", Some(5269), servers, Transport::Tcp),
        service("_xmpps-server._tcp", None, servers, Transport::Tls),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// `Err`: DNS does not answer.
fn of_service(
    domain: &str,
    service: &Service,
    place: &Place<'_>,
    ask: &mut impl FnMut(&DnsQuery) -> Answer,
) -> Result<Finding, ()> {
    let name = format!("{}.{domain}", service.label);
    match ask(&DnsQuery::Srv(name.as_str().into())) {
        Ok(records) => of_records(&name, &records, service, place, ask),
        // The other faults are answers: there is no such name or record.
        Err(DnsFault::Failed | DnsFault::Busy) => Err(()),
        Err(_) => without_record(domain, &name, service, place, ask),
    }
}

/// One record that leads to a port where the node listens is enough; others may lead to other nodes.
fn of_records(
    name: &str,
    records: &[DnsRecord],
    service: &Service,
    place: &Place<'_>,
    ask: &mut impl FnMut(&DnsQuery) -> Answer,
) -> Result<Finding, ()> {
    let (mut named, mut other_port) = (Vec::new(), None);
    for record in records {
        let DnsData::Srv { port, target, .. } = &record.data else { continue };
        let leads_here = addresses(target, ask)?.iter().any(|ip| place.has(ip));
        if leads_here && service.ports.contains(port) {
            return Ok(Finding::good(CHECK, format!("{name} leads here, {target}:{port}")));
        }
        // The right machine and the wrong port: more likely a slip than another node.
        if leads_here {
            other_port = Some(*port);
        }
        named.push(format!("{target}:{port}"));
    }
    if let Some(port) = other_port {
        let what = format!("{name} names port {port} of this machine, where the node does not listen for it");
        let mend = format!("change the record to port {}, or listen at {port}", service.ports[0]);
        return Ok(Finding::problem(CHECK, what, mend));
    }
    let what = format!("{name} leads to {}", named.join(", "));
    Ok(elsewhere(&what, place))
}

/// RFC 3263 §4.2, RFC 6120 §3.2.2: without an SRV record the address of the domain and the usual port are taken.
fn without_record(
    domain: &str,
    name: &str,
    service: &Service,
    place: &Place<'_>,
    ask: &mut impl FnMut(&DnsQuery) -> Answer,
) -> Result<Finding, ()> {
    let found = addresses(domain, ask)?;
    let usual = service.usual_port.filter(|port| service.ports.contains(port));
    // Only if the node listens at the usual port does the address of the domain lead to it.
    if let Some(port) = usual
        && !found.is_empty()
    {
        if found.iter().any(|ip| place.has(ip)) {
            return Ok(Finding::good(
                CHECK,
                format!("no {name}: the address of {domain} leads here, port {port}"),
            ));
        }
        return Ok(elsewhere(&format!("no {name}, and the address of {domain} is {}", found[0]), place));
    }
    let mend = format!(
        "add to the zone: {name}. 3600 IN SRV 0 0 {} HOST. (HOST: this machine's name)",
        service.ports[0]
    );
    Ok(Finding::warning(CHECK, format!("no {name}: clients do not find the service by the domain"), mend))
}

/// Behind NAT nothing is known, so it is only a warning.
fn elsewhere(what: &str, place: &Place<'_>) -> Finding {
    if place.is_behind_nat() {
        let mend = "set [sip] advertise to the public name or address that is forwarded to this machine, and ask again";
        return Finding::warning(CHECK, format!("{what}; this machine has private addresses only"), mend);
    }
    let mend = "change the record to this machine, or take the domain out of [sip] domains";
    Finding::problem(CHECK, format!("{what}, which is not this machine"), mend)
}

/// IPv4 and IPv6. `Err`: DNS does not answer.
fn addresses(host: &str, ask: &mut impl FnMut(&DnsQuery) -> Answer) -> Result<Vec<IpAddr>, ()> {
    let mut found = Vec::new();
    for query in [DnsQuery::A(host.into()), DnsQuery::Aaaa(host.into())] {
        match ask(&query) {
            Ok(records) => found.extend(records.into_iter().filter_map(|record| match record.data {
                DnsData::Address(ip) => Some(ip),
                _ => None,
            })),
            // A host with one kind of address only is usual, so "no such record" is no fault; silence is.
            Err(DnsFault::Failed | DnsFault::Busy) => return Err(()),
            Err(_) => {}
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const UDP: &str = "[sip]\ndomains = [\"a.test\"]\nlisten = [\"udp:0.0.0.0:5060\"]\n";

    fn srv(port: u16, target: &str) -> Answer {
        let data = DnsData::Srv { priority: 0, weight: 0, port, target: target.into() };
        Ok(vec![DnsRecord { ttl: 60, data }])
    }

    fn address(text: &str) -> Answer {
        Ok(vec![DnsRecord { ttl: 60, data: DnsData::Address(text.parse().unwrap()) }])
    }

    /// Checks a machine whose address is `own`, with these records; others are not there.
    fn states(text: &str, own: &str, zone: &[(&str, Answer)]) -> Vec<String> {
        let config = Config::parse(text, Path::new("belfry.toml")).unwrap();
        let own = [IpAddr::from([127, 0, 0, 1]), own.parse().unwrap()];
        let findings = check(&config, &own, |query| {
            let entry = zone.iter().find(|(name, _)| *name == query.name());
            match (entry, query) {
                (Some(_), DnsQuery::Aaaa(_)) | (None, _) => Err(DnsFault::NoName),
                (Some((_, answer)), _) => answer.clone(),
            }
        });
        findings.iter().map(|finding| format!("{} {}", finding.state(), finding.what)).collect()
    }

    #[test]
    fn loopback_and_localhost_need_no_records() {
        assert_eq!(states("", "8.8.8.8", &[]), ["ok all listeners are on loopback: no record is needed"]);
        let local = states("[sip]\nlisten = [\"udp:0.0.0.0:5060\"]\n", "8.8.8.8", &[]);
        assert_eq!(local, ["ok localhost needs no record"]);
    }

    /// RFC 3263 §4.2.
    #[test]
    fn a_record_leads_here_or_elsewhere() {
        let zone = |port, ip| [("_sip._udp.a.test", srv(port, "sip.a.test")), ("sip.a.test", address(ip))];
        let here = states(UDP, "8.8.8.8", &zone(5060, "8.8.8.8"));
        assert_eq!(here, ["ok _sip._udp.a.test leads here, sip.a.test:5060"]);
        assert!(
            states(UDP, "8.8.8.8", &zone(5070, "8.8.8.8"))[0]
                .starts_with("problem _sip._udp.a.test names port 5070")
        );
        assert!(states(UDP, "8.8.8.8", &zone(5060, "9.9.9.9"))[0].starts_with("problem"));
        let nat = states(UDP, "10.0.0.7", &zone(5060, "9.9.9.9"));
        assert!(nat[0].starts_with("warning") && nat[0].ends_with("private addresses only"), "{nat:?}");
        let advertised = format!("{UDP}advertise = \"9.9.9.9\"\n");
        assert!(states(&advertised, "10.0.0.7", &zone(5060, "9.9.9.9"))[0].starts_with("ok"));
        let by_name = format!("{UDP}advertise = \"sip.a.test\"\n");
        assert!(states(&by_name, "10.0.0.7", &zone(5060, "9.9.9.9"))[0].starts_with("ok"));
    }

    /// RFC 3263 §4.2, RFC 6120 §3.2.2.
    #[test]
    fn without_a_record_the_address_and_the_usual_port_count() {
        let zone = [("a.test", address("8.8.8.8"))];
        assert!(states(UDP, "8.8.8.8", &zone)[0].starts_with("ok no _sip._udp.a.test"));
        assert!(states(UDP, "8.8.4.4", &zone)[0].starts_with("problem no _sip._udp.a.test"));
        let other = UDP.replace("5060", "5070");
        assert!(states(&other, "8.8.8.8", &zone)[0].starts_with("warning no _sip._udp.a.test"));
        assert!(states(UDP, "8.8.8.8", &[])[0].starts_with("warning"));
        let chat = "[sip]\ndomains = [\"a.test\"]\n[xmpp]\nlisten = [\"tcp:0.0.0.0:5222\", \"tls:0.0.0.0:5223\"]\n\
             [xmpp.federation]\nlisten = [\"tcp:0.0.0.0:5269\"]\n";
        let said = states(chat, "8.8.8.8", &zone);
        let kinds: Vec<&str> = said.iter().map(|line| line.split(':').next().unwrap()).collect();
        let expected = [
            "ok no _xmpp-client._tcp.a.test",
            "warning no _xmpps-client._tcp.a.test",
            "ok no _xmpp-server._tcp.a.test",
        ];
        assert_eq!(kinds, expected);
    }

    #[test]
    fn a_server_that_does_not_answer_is_asked_once() {
        let said = states(UDP, "8.8.8.8", &[("_sip._udp.a.test", Err(DnsFault::Failed))]);
        assert_eq!(said, ["warning a.test: DNS does not answer"]);
    }
}
