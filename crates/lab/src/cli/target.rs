//! From the target as written to its addresses. A name without a port is looked up by NAPTR and SRV records for the
//! transport of `-t` (RFC 3263 §4), as SIPp does since 3.8; where DNS has none of them, the system's resolver is asked.
//!
//! `cli::parse` calls [`TargetLookup::addresses`] once, before the run; with `-round_robin` calls use all the addresses, otherwise the first.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};

use lab_sip::options::Protocol;
use sip::dns::{DnsData, DnsQuery};
use sip::resolve::{Hop, NextHop, ResolveEffect, ResolveFault, Resolver, ResolverSettings};
use sip::transport::Transport;
use stdx::time::Instant;

use super::value;
use crate::dns::DnsClient;

/// The manner in which a name becomes addresses.
#[derive(Debug, Clone, Copy)]
pub(super) struct TargetLookup {
    /// The protocol of `-t`.
    pub(super) protocol: Protocol,
    /// The port of a name or address that is written and found without one.
    pub(super) default_port: u16,
    /// The address of `-i`: addresses of its family come first.
    pub(super) like: Option<IpAddr>,
    /// `--dns`.
    pub(super) server: Option<SocketAddr>,
}

impl TargetLookup {
    /// The addresses of a target, at least one, in the order of its records. All are of the first one's family, because
    /// a run's sockets are.
    pub(super) fn addresses(&self, text: &str) -> Result<Vec<SocketAddr>, String> {
        let (host, port) = value::host_port(text)?;
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(ip, port.unwrap_or(self.default_port))]);
        }
        // RFC 3263 §4.2: with a port there are neither NAPTR nor SRV questions.
        let named = match port {
            None => self.by_services(&host)?,
            Some(_) => None,
        };
        let found = match named {
            Some(found) => found,
            None => system_addresses(&host, port.unwrap_or(self.default_port))?,
        };
        let preferred =
            self.like.and_then(|like| found.iter().find(|found| found.is_ipv4() == like.is_ipv4()));
        let first = *preferred
            .or(found.first())
            .ok_or_else(|| format!("Unknown host '{host}': it has no address; give an IP address"))?;
        let mut addresses: Vec<SocketAddr> = Vec::new();
        for address in found {
            if address.is_ipv4() == first.is_ipv4() && !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        Ok(addresses)
    }

    /// `None`: DNS has no service for the name.
    fn by_services(&self, host: &str) -> Result<Option<Vec<SocketAddr>>, String> {
        let (transport, word) = match self.protocol {
            Protocol::Udp => (Transport::Udp, "UDP"),
            Protocol::Tcp => (Transport::Tcp, "TCP"),
            Protocol::Tls => (Transport::Tls, "TLS"),
            // RFC 7118 §5.3: their servers are found by a URL.
            Protocol::Ws | Protocol::Wss => return Ok(None),
        };
        let mut client = DnsClient::new(self.server);
        // A name of the hosts file is a choice of the operator, which no SRV record may override.
        if client.knows_without_asking(host) {
            return Ok(None);
        }
        let settings = ResolverSettings { transports: vec![transport], ipv4: true, ipv6: true };
        let hop =
            NextHop { host: host.into(), port: None, transport: None, secure: transport == Transport::Tls };
        let (result, has_service) = resolve(&mut client, settings, &hop);
        match result {
            // A name without SRV records is looked up as a host, with the port of the transport.
            _ if !has_service => Ok(None),
            Ok(hops) => Ok(Some(reachable(hops))),
            Err(ResolveFault::NoSuchHost) => Err(format!(
                "Unknown host '{host}': its SRV records name no server that can be reached by {word}; give HOST:PORT"
            )),
            Err(_) => {
                Err(format!("Unknown host '{host}': DNS does not answer for the servers of its SRV records"))
            }
        }
    }
}

/// The result of RFC 3263, and whether an SRV record took part in it.
fn resolve(
    client: &mut DnsClient,
    settings: ResolverSettings,
    hop: &NextHop,
) -> (Result<Vec<SocketAddr>, ResolveFault>, bool) {
    let mut resolver = Resolver::new(settings);
    let (mut effects, mut has_service) = (Vec::new(), false);
    // Records live for this one resolution: the time does not matter.
    let now = Instant::default();
    let addresses = |hops: Vec<Hop>| hops.into_iter().map(|hop| hop.addr).collect();
    // An address in a form that only SIP reads, as `010.0.0.1`: no question is asked for it.
    if let Some(result) = resolver.resolve_address(now, hop) {
        return (result.map(addresses), false);
    }
    resolver.resolve(now, 0, hop, RandomState::new().hash_one(&hop.host), &mut effects);
    // `Resolver` is a machine: it says what to ask, and is given the answers one after the other.
    while let Some(effect) = effects.pop() {
        match effect {
            ResolveEffect::Query { dns_id, query } => {
                let answer = client.ask(&query);
                let is_srv = |data: &DnsData| matches!(data, DnsData::Srv { .. });
                has_service |= matches!(query, DnsQuery::Srv(_))
                    && answer.as_ref().is_ok_and(|records| records.iter().any(|record| is_srv(&record.data)));
                resolver.handle_answer(now, dns_id, answer, &mut effects);
            }
            ResolveEffect::Resolved { result, .. } => {
                return (result.map(addresses), has_service);
            }
        }
    }
    // The resolver always ends with a result; this is for the type alone.
    (Err(ResolveFault::Failed), has_service)
}

/// Addresses that the machine has a route to; all of them when it has a route to none. A machine without IPv6 must not
/// send to the first of a host's addresses, which is its IPv6 one.
fn reachable(all: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let has_route = |address: &SocketAddr| {
        let any: SocketAddr = if address.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0; 16], 0).into() };
        UdpSocket::bind(any).and_then(|socket| socket.connect(address)).is_ok()
    };
    let routed: Vec<SocketAddr> = all.iter().copied().filter(has_route).collect();
    if routed.is_empty() { all } else { routed }
}

/// As the C library resolves names: hosts file, DNS, and whatever else the machine uses.
fn system_addresses(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    let found = (host, port)
        .to_socket_addrs()
        .map_err(|error| format!("Unknown host '{host}': {error}; check the name, or give an IP address"))?;
    Ok(found.collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread::{Builder, JoinHandle};
    use std::time::Duration;

    use super::*;

    /// A name server of these answers, by question (`SRV _sip._udp.x`), as bytes of record data.
    struct NameServer {
        address: SocketAddr,
        has_ended: Arc<AtomicBool>,
        thread: Option<JoinHandle<Vec<String>>>,
    }

    impl NameServer {
        fn start(records: Vec<(&'static str, Vec<u8>)>) -> NameServer {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            let address = socket.local_addr().unwrap();
            let has_ended = Arc::new(AtomicBool::new(false));
            let ends = Arc::clone(&has_ended);
            let serve = move || {
                let (mut asked, mut buffer) = (Vec::new(), [0; 1_500]);
                while !ends.load(Ordering::Acquire) {
                    let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
                    let (name, answer) = answer(&buffer[..length], &records);
                    asked.push(name);
                    socket.send_to(&answer, from).unwrap();
                }
                asked
            };
            let thread = Some(Builder::new().spawn(serve).unwrap());
            NameServer { address, has_ended, thread }
        }

        /// The questions that came.
        fn end(mut self) -> Vec<String> {
            self.has_ended.store(true, Ordering::Release);
            self.thread.take().unwrap().join().unwrap()
        }
    }

    fn answer(question: &[u8], records: &[(&str, Vec<u8>)]) -> (String, Vec<u8>) {
        let (mut labels, mut at) = (Vec::new(), 12);
        while question[at] != 0 {
            let end = at + 1 + usize::from(question[at]);
            labels.push(String::from_utf8_lossy(&question[at + 1..end]).into_owned());
            at = end;
        }
        let kind = match question[at + 2] {
            1 => "A",
            28 => "AAAA",
            33 => "SRV",
            _ => "NAPTR",
        };
        let name = format!("{kind} {}", labels.join("."));
        let found: Vec<&Vec<u8>> =
            records.iter().filter(|(known, _)| **known == name).map(|(_, data)| data).collect();
        let mut bytes = question.to_vec();
        (bytes[2], bytes[3], bytes[7]) = (0x81, 0x80, u8::try_from(found.len()).unwrap());
        for data in found {
            bytes.extend([0xc0, 12, 0, question[at + 2], 0, 1, 0, 0, 0, 60, 0]);
            bytes.push(u8::try_from(data.len()).unwrap());
            bytes.extend(data);
        }
        (name, bytes)
    }

    fn labels(name: &str) -> Vec<u8> {
        let label = |label: &str| [&[u8::try_from(label.len()).unwrap()], label.as_bytes()].concat();
        let labels = name.split('.').filter(|part| !part.is_empty()).flat_map(label);
        labels.chain([0]).collect()
    }

    fn srv(priority: u8, port: u16, target: &str) -> Vec<u8> {
        [&[0, priority, 0, 1], &port.to_be_bytes()[..], &labels(target)].concat()
    }

    fn naptr(preference: u8, service: &str, replacement: &str) -> Vec<u8> {
        let length = u8::try_from(service.len()).unwrap();
        [&[0, 1, 0, preference, 1, b's', length], service.as_bytes(), &[0], &labels(replacement)].concat()
    }

    fn found(protocol: Protocol, text: &str, server: &NameServer) -> Result<Vec<String>, String> {
        let server = Some(server.address);
        let lookup = TargetLookup { protocol, default_port: 5060, like: None, server };
        lookup.addresses(text).map(|all| all.iter().map(ToString::to_string).collect())
    }

    /// RFC 3263 §4.1 and §4.2, RFC 2782: by NAPTR for the transport, then by priority.
    #[test]
    fn a_name_without_a_port_is_looked_up_for_the_transport() {
        let server = NameServer::start(vec![
            ("NAPTR x.test", naptr(1, "SIP+D2T", "tcp.x.test")),
            ("NAPTR x.test", naptr(2, "SIP+D2U", "udp.x.test")),
            ("SRV udp.x.test", srv(2, 5080, "b.x.test")),
            ("SRV udp.x.test", srv(1, 5070, "a.x.test")),
            ("SRV tcp.x.test", srv(1, 5090, "a.x.test")),
            ("SRV _sips._tcp.y.test", srv(1, 5061, "a.x.test")),
            ("A a.x.test", vec![127, 0, 0, 2]),
            ("A b.x.test", vec![127, 0, 0, 3]),
            ("A b.x.test", vec![127, 0, 0, 4]),
        ]);
        let all = ["127.0.0.2:5070", "127.0.0.3:5080", "127.0.0.4:5080"].map(str::to_owned).to_vec();
        assert_eq!(found(Protocol::Udp, "X.test", &server), Ok(all));
        assert_eq!(found(Protocol::Tcp, "x.test", &server), Ok(vec!["127.0.0.2:5090".to_owned()]));
        assert_eq!(found(Protocol::Tls, "y.test", &server), Ok(vec!["127.0.0.2:5061".to_owned()]));
        server.end();
    }

    #[test]
    fn addresses_ports_and_names_of_the_hosts_file_are_not_asked_for() {
        let server = NameServer::start(Vec::new());
        let local = |port| Ok(vec![format!("127.0.0.1:{port}")]);
        let v4 = |text| {
            let like = Some(IpAddr::from([127, 0, 0, 1]));
            let server = Some(server.address);
            let lookup = TargetLookup { protocol: Protocol::Udp, default_port: 5060, like, server };
            lookup.addresses(text).map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(v4("127.0.0.1"), local(5060));
        assert_eq!(v4("localhost"), local(5060));
        assert_eq!(v4("localhost:5070"), local(5070));
        assert!(v4("no.such.invalid:5070").unwrap_err().contains("Unknown host 'no.such.invalid'"));
        assert_eq!(found(Protocol::Ws, "127.0.0.9", &server), Ok(vec!["127.0.0.9:5060".to_owned()]));
        assert_eq!(server.end(), Vec::<String>::new());
    }

    /// RFC 2782: a target of "." says that the service is decidedly not available at this domain.
    #[test]
    fn a_service_that_is_not_there_is_told_and_not_searched_for_elsewhere() {
        let server = NameServer::start(vec![("SRV _sip._udp.x.test", srv(0, 0, ""))]);
        let error = found(Protocol::Udp, "x.test", &server).unwrap_err();
        assert!(error.contains("its SRV records name no server that can be reached by"), "{error}");
        assert_eq!(server.end(), ["NAPTR x.test", "SRV _sip._udp.x.test"]);
    }
}
