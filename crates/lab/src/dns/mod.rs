//! DNS questions of the command line, one after the other and before a run begins: NAPTR and SRV records, which the
//! system's resolver does not give (RFC 3263). Nothing of this runs beside calls.

mod message;

use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use sip::dns::{DnsData, DnsFault, DnsQuery, DnsRecord};

use message::DnsReply;

/// The time that one server may take to answer; a resolver that asks others itself needs about a second.
const PATIENCE: Duration = Duration::from_secs(2);
/// Each server is asked so often, for datagrams get lost.
const TRIES: usize = 2;
/// Servers of `/etc/resolv.conf` that are asked, as many as the C library does.
const SERVERS: usize = 3;
/// Datagrams that answer another question, read before a try is given up.
const STRAYS: usize = 8;
/// The longest answer by UDP: without EDNS 512 bytes are allowed (RFC 1035 §4.2.1), and some servers send more.
const DATAGRAM: usize = 4_096;
/// Seconds that an entry of the hosts file may be kept. A target is looked up once, so any number does.
const HOSTS_TTL: u32 = 60;

/// The name servers to ask, and the names that need none.
#[derive(Debug)]
pub(crate) struct DnsClient {
    /// In the order to ask; each is asked `TRIES` times.
    servers: Vec<SocketAddr>,
    /// Names of `/etc/hosts` in lower case.
    hosts: Vec<(String, IpAddr)>,
    /// No server has answered a question: none is asked again.
    silent: bool,
}

impl DnsClient {
    /// Asks `server`, or without one those of `/etc/resolv.conf`.
    pub(crate) fn new(server: Option<SocketAddr>) -> DnsClient {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let servers = match server {
            Some(server) => vec![server],
            None => servers_of(&read("/etc/resolv.conf")),
        };
        DnsClient { servers, hosts: hosts_of(&read("/etc/hosts")), silent: false }
    }

    /// The hosts file has the name (with its addresses, and no services), or DNS never has it (RFC 6761 §6.3).
    pub(crate) fn knows_without_asking(&self, host: &str) -> bool {
        let name = host.trim_end_matches('.').to_ascii_lowercase();
        name == "localhost"
            || name.ends_with(".localhost")
            || self.hosts.iter().any(|(known, _)| *known == name)
    }

    /// The records, from the hosts file or a server.
    pub(crate) fn ask(&mut self, query: &DnsQuery) -> Result<Vec<DnsRecord>, DnsFault> {
        if let Some(addresses) = self.addresses(query) {
            return if addresses.is_empty() { Err(DnsFault::NoData) } else { Ok(addresses) };
        }
        if self.silent {
            return Err(DnsFault::Failed);
        }
        // Random, so that an answer cannot be forged without seeing the question (RFC 5452 §4).
        let id = RandomState::new().hash_one(query) as u16;
        let question = message::question(id, query).ok_or(DnsFault::BadName)?;
        let mut fault = None;
        // Round and round: a server that lost a datagram is asked again after the others.
        for server in self.servers.iter().cycle().take(self.servers.len() * TRIES) {
            match ask_one(*server, &question, query) {
                // A server that fails (SERVFAIL, REFUSED) leaves the question to the next; NXDOMAIN and no data are answers.
                Ok(Err(DnsFault::Failed)) => fault = Some(DnsFault::Failed),
                Ok(answer) => return answer,
                Err(_) => {}
            }
        }
        self.silent = fault.is_none();
        Err(DnsFault::Failed)
    }

    /// Addresses that stand in the hosts file. COMPAT(SRV targets that are written addresses): the address itself.
    fn addresses(&self, query: &DnsQuery) -> Option<Vec<DnsRecord>> {
        let (name, is_v4) = match query {
            DnsQuery::A(name) => (name, true),
            DnsQuery::Aaaa(name) => (name, false),
            DnsQuery::Naptr(_) | DnsQuery::Srv(_) => return None,
        };
        let all: Vec<IpAddr> = match name.parse() {
            Ok(ip) => vec![ip],
            Err(_) if !self.knows_without_asking(name) => return None,
            Err(_) => {
                let known: Vec<IpAddr> =
                    self.hosts.iter().filter(|(known, _)| **known == **name).map(|(_, ip)| *ip).collect();
                // `localhost` needs no entry.
                if known.is_empty() {
                    vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
                } else {
                    known
                }
            }
        };
        let of_family = all.into_iter().filter(|ip| ip.is_ipv4() == is_v4);
        Some(of_family.map(|ip| DnsRecord { ttl: HOSTS_TTL, data: DnsData::Address(ip) }).collect())
    }
}

/// One try. The error is the network's; a server's own answer is `Ok`.
fn ask_one(
    server: SocketAddr,
    question: &[u8],
    query: &DnsQuery,
) -> io::Result<Result<Vec<DnsRecord>, DnsFault>> {
    let any: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.send(question)?;
    let mut bytes = [0; DATAGRAM];
    for _ in 0..STRAYS {
        let length = socket.recv(&mut bytes)?;
        match message::reply(question, query, &bytes[..length]) {
            None => {}
            Some(DnsReply::Answer(answer)) => return Ok(answer),
            Some(DnsReply::Truncated) => return ask_by_tcp(server, question, query),
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// RFC 1035 §4.2.2: messages with their length before them.
fn ask_by_tcp(
    server: SocketAddr,
    question: &[u8],
    query: &DnsQuery,
) -> io::Result<Result<Vec<DnsRecord>, DnsFault>> {
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let length = u16::try_from(question.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes(), question].concat())?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut bytes = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut bytes)?;
    match message::reply(question, query, &bytes) {
        Some(DnsReply::Answer(answer)) => Ok(answer),
        Some(DnsReply::Truncated) | None => Ok(Err(DnsFault::Failed)),
    }
}

/// `nameserver` lines of resolv.conf(5).
fn servers_of(text: &str) -> Vec<SocketAddr> {
    let mut servers = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        if words.next() == Some("nameserver")
            && let Some(Ok(ip)) = words.next().map(str::parse::<IpAddr>)
        {
            servers.push(SocketAddr::new(ip, 53));
        }
    }
    servers.truncate(SERVERS);
    servers
}

/// Names of hosts(5) in lower case, each with its address.
fn hosts_of(text: &str) -> Vec<(String, IpAddr)> {
    let mut hosts = Vec::new();
    for line in text.lines() {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let Some(Ok(ip)) = words.next().map(str::parse::<IpAddr>) else { continue };
        hosts.extend(words.map(|name| (name.trim_end_matches('.').to_ascii_lowercase(), ip)));
    }
    hosts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_files_are_read() {
        let servers =
            servers_of("# none\nnameserver 192.0.2.53\n nameserver ::1 x\nsearch a\nnameserver x\n");
        assert_eq!(servers, ["192.0.2.53:53".parse().unwrap(), "[::1]:53".parse().unwrap()]);
        let hosts =
            hosts_of("192.0.2.7 Gateway gateway.lan # the PSTN\n#192.0.2.8 off\n2001:db8::7 gateway.lan\n");
        let client = DnsClient { servers: Vec::new(), hosts, silent: false };
        assert!(client.knows_without_asking("gateway.") && client.knows_without_asking("a.localhost"));
        assert!(!client.knows_without_asking("lan") && !client.knows_without_asking("192.0.2.8"));
        let ask = |query: DnsQuery| client.addresses(&query).map(|records| records.len());
        assert_eq!(ask(DnsQuery::A("gateway.lan".into())), Some(1));
        assert_eq!(ask(DnsQuery::Aaaa("gateway".into())), Some(0));
        assert_eq!(ask(DnsQuery::A("127.0.0.3".into())), Some(1));
        assert_eq!(ask(DnsQuery::A("other.lan".into())), None);
    }
}
