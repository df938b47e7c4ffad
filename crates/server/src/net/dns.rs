//! DNS questions (RFC 3263 asks NAPTR, SRV, A and AAAA). Which to ask and in which order to use the answers
//! is decided elsewhere; here records are fetched.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig, ResolverOpts};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use hickory_resolver::{Resolver, TokioResolver, system_conf};
use sip::dns::{DnsData, DnsFault, DnsQuery, DnsRecord};
use tokio::task::spawn_local;
use tokio::time::timeout;

use super::flow::Shared;
use super::settings::{NetEvent, NetSettings};
use crate::limits;

/// The answer to `Io::lookup` with the same id. Never an empty list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsAnswer {
    pub id: u64,
    pub result: Result<Vec<DnsRecord>, DnsFault>,
}

/// Asks for one shard, with a cache of its own that honours the records' TTLs.
pub(super) struct Questions {
    /// Made with the first question: reading the system's settings is not free, and may fail.
    resolver: Option<Rc<TokioResolver>>,
    open: Rc<Cell<usize>>,
}

impl Questions {
    pub(super) fn new() -> Self {
        Questions { resolver: None, open: Rc::default() }
    }

    /// The answer comes as an event.
    pub(super) fn ask(&mut self, shared: &Rc<Shared>, id: u64, query: &DnsQuery) {
        match self.prepare(shared, query) {
            Err(fault) => shared.event(NetEvent::Dns(DnsAnswer { id, result: Err(fault) })),
            Ok((resolver, name, kind)) => {
                let (shared, open) = (Rc::clone(shared), Rc::clone(&self.open));
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

/// Without servers, those of the system.
pub(crate) fn resolver(nameservers: &[SocketAddr], limit: Duration) -> Result<TokioResolver, NetError> {
    let (config, mut options) = if nameservers.is_empty() {
        system_conf::read_system_conf()?
    } else {
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
pub(crate) fn ascii(name: &str) -> String {
    if name.is_ascii() {
        return name.to_owned();
    }
    let ascii = Name::from_utf8(name).map(|name| name.to_ascii());
    ascii.map_or_else(|_| name.to_owned(), |ascii| ascii.trim_end_matches('.').to_owned())
}

/// One question of a task of its own.
pub(crate) async fn ask(
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
        Err(_) => Err(DnsFault::Failed),
        Ok(Err(error)) => Err(fault(&error)),
        Ok(Ok(lookup)) => records(&lookup),
    }
}

fn fault(error: &NetError) -> DnsFault {
    match error {
        NetError::Dns(DnsError::NoRecordsFound(none)) => match none.response_code {
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
    #[test]
    fn names_are_punycode_in_dns() {
        assert_eq!(super::ascii("bücher.example"), "xn--bcher-kva.example");
        assert_eq!(super::ascii("chat.example"), "chat.example");
        assert_eq!(super::ascii("::1"), "::1");
    }
}
