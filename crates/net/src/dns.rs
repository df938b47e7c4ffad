//! DNS questions (RFC 3263 asks NAPTR, SRV, A and AAAA). The callers decide the questions and the order of
//! the answers; here records are fetched.
//!
//! Invariant: every question has exactly one answer, in time: from the hosts file, from DNS, or a fault
//! (`Busy`, `BadName`, `Failed`), so that a branch that waits for it always goes on. The system's own resolver
//! is not used, as it blocks a thread for each question.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

pub use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig, ResolverOpts};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::{Query, ResponseCode};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use hickory_resolver::{Hosts, Resolver, system_conf};
use sip::dns::{DnsData, DnsFault, DnsQuery, DnsRecord};
use stdx::Instant;
use tokio::task::spawn_local;
use tokio::time::timeout;

use super::flow::Shared;
use super::settings::{NetEvent, NetSettings};
use crate::limits;

/// The answer to `Io::lookup` with the same id. Never an empty list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsAnswer {
    /// The number that `Io::lookup` was given.
    pub id: u64,
    /// The records, or the reason why there are none.
    pub result: Result<Vec<DnsRecord>, DnsFault>,
}

/// Asks for one shard, with a cache of its own that honours the records' TTLs.
pub(super) struct Questions {
    /// Made with the first question: reading the system's settings is not free, and may fail.
    resolver: Option<Rc<TokioResolver>>,
    open: Rc<Cell<usize>>,
    hosts: HostsFile,
}

impl Questions {
    pub(super) fn new() -> Self {
        Questions { resolver: None, open: Rc::default(), hosts: HostsFile::new() }
    }

    /// The answer comes as an event.
    pub(super) fn ask(&mut self, now: Instant, shared: &Rc<Shared>, id: u64, query: &DnsQuery) {
        // The answer is an event in this case, too: the core that asks is not ready for it within the call.
        if let Some(result) = self.hosts.current(now).and_then(|hosts| answer_of(hosts, query)) {
            return shared.event(NetEvent::Dns(DnsAnswer { id, result }));
        }
        match self.prepare(shared, query) {
            Err(fault) => shared.event(NetEvent::Dns(DnsAnswer { id, result: Err(fault) })),
            Ok((resolver, name, kind)) => {
                let (shared, open) = (Rc::clone(shared), Rc::clone(&self.open));
                // One task a question, bounded by `max_dns_questions`; a stranger's URI causes questions, so
                // the bound is a defence.
                open.set(open.get() + 1);
                spawn_local(async move {
                    let result = answer(&resolver, name, kind, shared.settings.dns_timeout).await;
                    open.set(open.get() - 1);
                    shared.event(NetEvent::Dns(DnsAnswer { id, result }));
                });
            }
        }
    }

    fn prepare(
        &mut self,
        shared: &Shared,
        query: &DnsQuery,
    ) -> Result<(Rc<TokioResolver>, Name, RecordType), DnsFault> {
        if self.open.get() >= shared.settings.max_dns_questions {
            return Err(DnsFault::Busy);
        }
        let mut name = Name::from_ascii(query.name()).map_err(|_| DnsFault::BadName)?;
        // The root has neither addresses nor services.
        if name.num_labels() == 0 {
            return Err(DnsFault::BadName);
        }
        // Absolute: the system's search list is for people, not for SIP URIs.
        name.set_fqdn(true);
        Ok((self.resolver(&shared.settings)?, name, record_type(query)))
    }

    fn resolver(&mut self, settings: &NetSettings) -> Result<Rc<TokioResolver>, DnsFault> {
        if let Some(resolver) = &self.resolver {
            return Ok(Rc::clone(resolver));
        }
        let made = resolver(&settings.nameservers, settings.dns_timeout)
            .inspect_err(|error| tracing::warn!(%error, "no DNS"));
        let resolver = Rc::new(made.map_err(|_| DnsFault::Failed)?);
        self.resolver = Some(Rc::clone(&resolver));
        Ok(resolver)
    }
}

/// `/etc/hosts`, read again when it has changed.
struct HostsFile {
    /// The time of the last look at the file.
    looked: Option<Instant>,
    modified: Option<SystemTime>,
    hosts: Option<Hosts>,
}

impl HostsFile {
    fn new() -> HostsFile {
        HostsFile { looked: None, modified: None, hosts: None }
    }

    /// `None`: there is no such file, or it cannot be read.
    fn current(&mut self, now: Instant) -> Option<&Hosts> {
        if !self.is_due(now) {
            return self.hosts.as_ref();
        }
        // Cheaper than a watch, and an edit counts soon.
        let modified = std::fs::metadata("/etc/hosts").and_then(|file| file.modified()).ok();
        if modified != self.modified {
            self.modified = modified;
            self.hosts = Hosts::from_system()
                .inspect_err(|error| tracing::warn!(%error, "/etc/hosts cannot be read; DNS is asked alone"))
                .ok();
        }
        self.hosts.as_ref()
    }

    /// True if it is time to look at the file, which is then looked at.
    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.looked.is_none_or(|looked| now.since(looked) >= limits::HOSTS_FILE_LOOK);
        if is_due {
            self.looked = Some(now);
        }
        is_due
    }
}

/// The operator's word on a name goes before DNS. A name that stands in the hosts file has its addresses there and no
/// services: DNS, which may not be there at all, is not asked for its NAPTR and SRV records.
fn answer_of(hosts: &Hosts, query: &DnsQuery) -> Option<Result<Vec<DnsRecord>, DnsFault>> {
    // `_sip._udp.host`: the host of a service.
    let is_label = |label: &&str| label.starts_with('_');
    let name = match query {
        DnsQuery::Srv(name) => name.splitn(3, '.').find(|part| !is_label(part)).unwrap_or_default(),
        DnsQuery::Naptr(name) | DnsQuery::A(name) | DnsQuery::Aaaa(name) => name,
    };
    let name = Name::from_ascii(name).ok()?;
    let look_up = |kind| hosts.lookup_static_host(&Query::query(name.clone(), kind));
    let (ipv4, ipv6) = (look_up(RecordType::A), look_up(RecordType::AAAA));
    if ipv4.is_none() && ipv6.is_none() {
        return None;
    }
    // `NoData` and not `NoName` for the services: the caller goes on with the addresses (RFC 3263 §4.2).
    let found = match query {
        DnsQuery::A(_) => ipv4,
        DnsQuery::Aaaa(_) => ipv6,
        DnsQuery::Naptr(_) | DnsQuery::Srv(_) => None,
    };
    let bounded = |record: DnsRecord| DnsRecord { ttl: limits::HOSTS_FILE_TTL, ..record };
    Some(found.map_or(Err(DnsFault::NoData), |lookup| {
        records(&lookup).map(|records| records.into_iter().map(bounded).collect())
    }))
}

/// Without servers, those of the system.
///
/// # Errors
/// `/etc/resolv.conf` cannot be read, or names no server.
pub fn resolver(nameservers: &[SocketAddr], limit: Duration) -> Result<TokioResolver, NetError> {
    let (config, mut options) = if nameservers.is_empty() {
        system_conf::read_system_conf()?
    } else {
        // Only the servers are replaced; search lists do not matter, as all names are absolute.
        let servers = nameservers.iter().copied().map(name_server).collect();
        (ResolverConfig::from_name_servers(servers), ResolverOpts::default())
    };
    // Two tries of every server fit into the whole time.
    options.timeout = limit / 3;
    options.attempts = 2;
    options.cache_size = limits::DNS_CACHE;
    let mut builder = Resolver::builder_with_config(config, TokioRuntimeProvider::default());
    *builder.options_mut() = options;
    builder.build()
}

fn name_server(address: SocketAddr) -> NameServerConfig {
    let at_port = |mut connection: ConnectionConfig| {
        connection.port = address.port();
        connection
    };
    // By UDP first; a truncated answer is asked for again by TCP (RFC 7766 §5).
    let connections = vec![at_port(ConnectionConfig::udp()), at_port(ConnectionConfig::tcp())];
    NameServerConfig::new(address.ip(), true, connections)
}

fn record_type(query: &DnsQuery) -> RecordType {
    match query {
        DnsQuery::Naptr(_) => RecordType::NAPTR,
        DnsQuery::Srv(_) => RecordType::SRV,
        DnsQuery::A(_) => RecordType::A,
        DnsQuery::Aaaa(_) => RecordType::AAAA,
    }
}

/// As names are in DNS and TLS: with Punycode for what is not ASCII (RFC 5890).
/// A name that has no such form stays as it is, and is then found nowhere.
pub fn ascii(name: &str) -> String {
    if name.is_ascii() {
        return name.to_owned();
    }
    let ascii = Name::from_utf8(name).map(|name| name.to_ascii());
    ascii.map_or_else(|_| name.to_owned(), |ascii| ascii.trim_end_matches('.').to_owned())
}

/// One question of a task of its own.
/// For tasks beside a shard's `Io`, with a resolver of their own: connections to other XMPP servers, and
/// `belfry doctor`.
pub async fn ask(
    resolver: &TokioResolver,
    query: &DnsQuery,
    limit: Duration,
) -> Result<Vec<DnsRecord>, DnsFault> {
    let mut name = Name::from_utf8(query.name()).map_err(|_| DnsFault::BadName)?;
    name.set_fqdn(true);
    answer(resolver, name, record_type(query), limit).await
}

async fn answer(
    resolver: &TokioResolver,
    name: Name,
    kind: RecordType,
    limit: Duration,
) -> Result<Vec<DnsRecord>, DnsFault> {
    match timeout(limit, resolver.lookup(name, kind)).await {
        // Silence is a failure of DNS and no statement about the name: callers may try again later.
        Err(_) => Err(DnsFault::Failed),
        Ok(Err(error)) => Err(fault(&error)),
        Ok(Ok(lookup)) => records(&lookup),
    }
}

fn fault(error: &NetError) -> DnsFault {
    match error {
        NetError::Dns(DnsError::NoRecordsFound(none)) => match none.response_code {
            // A name that is not there has no other records either (RFC 8020); `NoData` says nothing about
            // other kinds.
            ResponseCode::NXDomain => DnsFault::NoName,
            ResponseCode::NoError => DnsFault::NoData,
            _ => DnsFault::Failed,
        },
        NetError::Dns(DnsError::ResponseCode(ResponseCode::NXDomain)) => DnsFault::NoName,
        _ => DnsFault::Failed,
    }
}

fn records(lookup: &Lookup) -> Result<Vec<DnsRecord>, DnsFault> {
    let kind = lookup.query().query_type();
    // The aliases (CNAME) on the way are in the answer, too. Only so many records are used: a zone of a
    // stranger decides how many there are.
    let of_kind = lookup.answers().iter().filter(|record| record.record_type() == kind);
    let records: Vec<DnsRecord> = of_kind.filter_map(convert).take(limits::DNS_RECORDS).collect();
    if records.is_empty() { Err(DnsFault::NoData) } else { Ok(records) }
}

fn convert(record: &Record) -> Option<DnsRecord> {
    let data = match &record.data {
        RData::A(address) => DnsData::Address(address.0.into()),
        RData::AAAA(address) => DnsData::Address(address.0.into()),
        RData::SRV(srv) => DnsData::Srv {
            priority: srv.priority,
            weight: srv.weight,
            port: srv.port,
            target: plain(&srv.target),
        },
        RData::NAPTR(naptr) => DnsData::Naptr {
            order: naptr.order,
            preference: naptr.preference,
            flags: text(&naptr.flags),
            service: text(&naptr.services),
            replacement: plain(&naptr.replacement),
        },
        _ => return None,
    };
    Some(DnsRecord { ttl: record.ttl, data })
}

fn plain(name: &Name) -> Box<str> {
    let name = name.to_lowercase().to_ascii();
    name.trim_end_matches('.').into()
}

fn text(bytes: &[u8]) -> Box<str> {
    String::from_utf8_lossy(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1123 §2.1 leaves to the host how names are looked up; operators expect the hosts file to be read first.
    #[test]
    fn names_of_the_hosts_file_are_not_asked_in_dns() {
        let mut hosts = Hosts::default();
        hosts
            .read_hosts_conf(&b"192.0.2.7 gateway gateway.lan # the PSTN\n2001:db8::7 six.lan\n"[..])
            .unwrap();
        let ask = |query| answer_of(&hosts, &query);
        let address = |text: &str| {
            let data = DnsData::Address(text.parse().unwrap());
            Some(Ok(vec![DnsRecord { ttl: limits::HOSTS_FILE_TTL, data }]))
        };
        assert_eq!(ask(DnsQuery::A("gateway".into())), address("192.0.2.7"));
        assert_eq!(ask(DnsQuery::A("gateway.lan".into())), address("192.0.2.7"));
        assert_eq!(ask(DnsQuery::Aaaa("six.lan".into())), address("2001:db8::7"));
        for query in [
            DnsQuery::Aaaa("gateway.lan".into()),
            DnsQuery::A("six.lan".into()),
            DnsQuery::Naptr("gateway.lan".into()),
            DnsQuery::Srv("_sip._udp.gateway.lan".into()),
            DnsQuery::Srv("_sips._tcp.gateway".into()),
        ] {
            assert_eq!(ask(query.clone()), Some(Err(DnsFault::NoData)), "{query:?}");
        }
        for query in [DnsQuery::A("lan".into()), DnsQuery::Srv("_sip._udp.other.lan".into())] {
            assert_eq!(ask(query.clone()), None, "{query:?}");
        }
    }

    /// A flood of questions costs no system call for each.
    #[test]
    fn the_hosts_file_is_looked_at_once_a_second() {
        let (mut hosts, start) = (HostsFile::new(), Instant::from_unix_seconds(1));
        let looks = (0..10_000).filter(|millis| hosts.is_due(start + Duration::from_millis(*millis))).count();
        assert_eq!(looks, 10);
    }

    #[test]
    fn names_are_punycode_in_dns() {
        assert_eq!(ascii("bücher.example"), "xn--bcher-kva.example");
        assert_eq!(ascii("chat.example"), "chat.example");
        assert_eq!(ascii("::1"), "::1");
    }
}
