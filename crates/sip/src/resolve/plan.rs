//! RFC 3263 §4.1 and §4.2 as one pure function: target and answers in, questions or hops out.

use std::net::{IpAddr, SocketAddr};

use super::order::{alternate_families, services_in_order, srv_in_order};
use super::{DnsAnswer, Hop, NextHop, ResolveFault, ResolverSettings};
use crate::dns::{DnsData, DnsFault, DnsQuery, DnsRecord};
use crate::limits;
use crate::transport::Transport;
use crate::wire::parse_ip;

/// A resolution under way.
pub(super) struct Resolution {
    pub(super) target: NextHop,
    pub(super) random: u64,
    /// Everything answered so far. A plan asks at most a few dozen questions, so a list is quick enough.
    pub(super) answers: Vec<(DnsQuery, DnsAnswer)>,
    pub(super) waits_for: usize,
}

/// The result of one pass of the plan.
pub(super) enum ResolutionStep {
    /// Never empty, never what is answered already.
    Ask(Vec<DnsQuery>),
    Done(Result<Vec<Hop>, ResolveFault>),
}

/// The reason why a pass over the plan ends early.
enum PassEnd {
    Missing(Vec<DnsQuery>),
    Fault(ResolveFault),
}

impl From<ResolveFault> for PassEnd {
    fn from(fault: ResolveFault) -> Self {
        PassEnd::Fault(fault)
    }
}

/// A service to look up with SRV.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Service {
    pub(super) transport: Transport,
    pub(super) name: Box<str>,
}

/// A host and port whose addresses are wanted.
struct HostPort {
    transport: Transport,
    host: Box<str>,
    port: u16,
}

impl Resolution {
    pub(super) fn new(mut target: NextHop, random: u64) -> Self {
        target.host.make_ascii_lowercase();
        if let Some(host) = target.host.strip_suffix('.') {
            target.host = host.into();
        }
        Resolution { target, random, answers: Vec::new(), waits_for: 0 }
    }

    fn answer(&self, query: &DnsQuery) -> Option<&DnsAnswer> {
        self.answers.iter().find(|(asked, _)| asked == query).map(|(_, answer)| answer)
    }

    /// The answers to all of these, or which of them are missing.
    fn answers_to(&self, queries: &[DnsQuery]) -> Result<Vec<&DnsAnswer>, PassEnd> {
        let mut missing: Vec<DnsQuery> = Vec::new();
        for query in queries {
            if self.answer(query).is_none() && !missing.contains(query) {
                missing.push(query.clone());
            }
        }
        if missing.is_empty() {
            Ok(queries.iter().filter_map(|query| self.answer(query)).collect())
        } else {
            Err(PassEnd::Missing(missing))
        }
    }
}

pub(super) fn plan(settings: &ResolverSettings, job: &Resolution) -> ResolutionStep {
    match plan_hops(settings, job) {
        Ok(hops) => ResolutionStep::Done(Ok(hops)),
        Err(PassEnd::Missing(queries)) => ResolutionStep::Ask(queries),
        Err(PassEnd::Fault(fault)) => ResolutionStep::Done(Err(fault)),
    }
}

/// The hop of a host that is an address: no question is asked for it.
pub(super) fn plan_numeric(
    settings: &ResolverSettings,
    target: &NextHop,
) -> Option<Result<Vec<Hop>, ResolveFault>> {
    parse_ip(target.host.as_bytes()).map(|ip| numeric(settings, target, ip))
}

fn plan_hops(settings: &ResolverSettings, job: &Resolution) -> Result<Vec<Hop>, PassEnd> {
    if !is_name(&job.target.host) {
        return Err(PassEnd::Fault(ResolveFault::NoSuchHost));
    }
    let places = plan_places(settings, job)?;
    addresses(settings, job, &places)
}

fn numeric(settings: &ResolverSettings, target: &NextHop, ip: IpAddr) -> Result<Vec<Hop>, ResolveFault> {
    let transport = fixed_transport(settings, target)?;
    if !(if ip.is_ipv4() { settings.ipv4 } else { settings.ipv6 }) {
        return Err(ResolveFault::Unsupported);
    }
    let port = target.port.unwrap_or(default_port(transport));
    Ok(vec![Hop { transport, addr: SocketAddr::new(ip, port), tls_name: None }])
}

/// The transport where DNS is not asked for one: the URI's, else UDP for sip and TLS for sips (RFC 3263 §4.1).
fn fixed_transport(settings: &ResolverSettings, target: &NextHop) -> Result<Transport, ResolveFault> {
    let transport = match (target.transport, target.secure) {
        (Some(named), false) => named,
        (None, false) if settings.transports.contains(&Transport::Udp) => Transport::Udp,
        // A node without UDP uses what it likes best rather than nothing.
        (None, false) => *settings.transports.first().ok_or(ResolveFault::Unsupported)?,
        // RFC 3261 §26.2.2: sips over "tcp" is TLS over TCP.
        (None | Some(Transport::Tcp | Transport::Tls), true) => Transport::Tls,
        // RFC 7118: the same for WebSocket.
        (Some(Transport::Ws | Transport::Wss), true) => Transport::Wss,
        (Some(Transport::Udp), true) => return Err(ResolveFault::Unsupported),
    };
    if settings.transports.contains(&transport) { Ok(transport) } else { Err(ResolveFault::Unsupported) }
}

fn plan_places(settings: &ResolverSettings, job: &Resolution) -> Result<Vec<HostPort>, PassEnd> {
    let target = &job.target;
    let direct = |transport: Transport| HostPort {
        transport,
        host: target.host.clone(),
        port: target.port.unwrap_or(default_port(transport)),
    };
    // RFC 3263 §4.2: with a port there is no SRV.
    if target.port.is_some() {
        return Ok(vec![direct(fixed_transport(settings, target)?)]);
    }
    let services = match target.transport {
        Some(_) => srv_service(fixed_transport(settings, target)?, &target.host).into_iter().collect(),
        None => plan_services(settings, job)?,
    };
    match srv_places(job, &services)? {
        // RFC 3263 §4.2: no SRV records, so the addresses of the name itself.
        None => Ok(vec![direct(fixed_transport(settings, target)?)]),
        // RFC 2782: a lone "." says that the service is decidedly not available.
        Some(places) if places.is_empty() => Err(PassEnd::Fault(ResolveFault::NoSuchHost)),
        Some(places) => Ok(places),
    }
}

/// RFC 3263 §4.1: by NAPTR; without any, by the transports that we support. A failed NAPTR look-up counts as
/// none: COMPAT(DNS forwarders that know only common types).
fn plan_services(settings: &ResolverSettings, job: &Resolution) -> Result<Vec<Service>, PassEnd> {
    let target = &job.target;
    let supported: Vec<Transport> =
        settings.transports.iter().copied().filter(|t| !target.secure || is_secure(*t)).collect();
    if supported.is_empty() {
        return Err(PassEnd::Fault(ResolveFault::Unsupported));
    }
    let answers = job.answers_to(&[DnsQuery::Naptr(target.host.clone())])?;
    let named = services_in_order(records(answers[0]), &supported);
    if !named.is_empty() {
        return Ok(named);
    }
    Ok(supported.iter().filter_map(|transport| srv_service(*transport, &target.host)).collect())
}

/// `None` when no service has a record.
fn srv_places(job: &Resolution, services: &[Service]) -> Result<Option<Vec<HostPort>>, PassEnd> {
    let queries: Vec<DnsQuery> = services.iter().map(|service| DnsQuery::Srv(service.name.clone())).collect();
    let answers = job.answers_to(&queries)?;
    let mut places = Vec::new();
    let mut found = false;
    for (service, answer) in services.iter().zip(answers) {
        let ordered = srv_in_order(records(answer), job.random);
        found |= !ordered.is_empty();
        let usable = ordered.into_iter().filter(|srv| srv.port != 0 && is_name(&srv.target));
        places.extend(usable.map(|srv| HostPort {
            transport: service.transport,
            host: srv.target,
            port: srv.port,
        }));
    }
    places.truncate(limits::SRV_TARGETS);
    Ok(found.then_some(places))
}

fn addresses(
    settings: &ResolverSettings,
    job: &Resolution,
    places: &[HostPort],
) -> Result<Vec<Hop>, PassEnd> {
    let queries: Vec<DnsQuery> =
        places.iter().flat_map(|place| address_queries(settings, &place.host)).collect();
    let answers = job.answers_to(&queries)?;
    let mut hops = Vec::new();
    for place in places {
        let found = address_queries(settings, &place.host).filter_map(|query| job.answer(&query));
        let ips = found.flat_map(records).filter_map(|record| match record.data {
            DnsData::Address(ip) => Some(ip),
            _ => None,
        });
        for ip in alternate_families(ips) {
            let tls_name = is_secure(place.transport).then(|| job.target.host.clone());
            let hop = Hop { transport: place.transport, addr: SocketAddr::new(ip, place.port), tls_name };
            if !hops.contains(&hop) {
                hops.push(hop);
            }
        }
    }
    hops.truncate(limits::HOPS);
    if hops.is_empty() { Err(PassEnd::Fault(worst_fault(&answers))) } else { Ok(hops) }
}

fn address_queries(settings: &ResolverSettings, host: &str) -> impl Iterator<Item = DnsQuery> {
    let aaaa = settings.ipv6.then(|| DnsQuery::Aaaa(host.into()));
    let a = settings.ipv4.then(|| DnsQuery::A(host.into()));
    aaaa.into_iter().chain(a)
}

/// A fault that may pass says more than "nothing there".
fn worst_fault(answers: &[&DnsAnswer]) -> ResolveFault {
    let any = |fault: DnsFault| answers.iter().any(|answer| matches!(answer, Err(found) if *found == fault));
    if any(DnsFault::Busy) {
        ResolveFault::Busy
    } else if any(DnsFault::Failed) {
        ResolveFault::Failed
    } else {
        ResolveFault::NoSuchHost
    }
}

fn records(answer: &DnsAnswer) -> &[DnsRecord] {
    answer.as_deref().unwrap_or_default()
}

/// `None` for WebSocket, whose servers are found by their URL and not by SRV (RFC 7118 §5.3).
fn srv_service(transport: Transport, host: &str) -> Option<Service> {
    let prefix = match transport {
        Transport::Udp => "_sip._udp",
        Transport::Tcp => "_sip._tcp",
        Transport::Tls => "_sips._tcp",
        Transport::Ws | Transport::Wss => return None,
    };
    Some(Service { transport, name: format!("{prefix}.{host}").into() })
}

fn is_secure(transport: Transport) -> bool {
    matches!(transport, Transport::Tls | Transport::Wss)
}

/// RFC 3261 §19.1.2; for WebSocket those of its URLs (RFC 6455 §3).
fn default_port(transport: Transport) -> u16 {
    match transport {
        Transport::Udp | Transport::Tcp => 5060,
        Transport::Tls => 5061,
        Transport::Ws => 80,
        Transport::Wss => 443,
    }
}

/// True if it can be asked for: RFC 1035 §2.3.4 lengths, and the characters hosts have in practice.
pub(super) fn is_name(host: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    };
    // 253 less the longest prefix we put before it, `_sips._tcp.`.
    host.len() <= 242 && host.split('.').all(is_label)
}
