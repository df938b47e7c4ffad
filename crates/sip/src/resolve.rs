//! RFC 3263: from the next hop's URI to addresses, by NAPTR, SRV and A/AAAA; RFC 7984 for hosts with both
//! families. A machine without a socket: it asks [`DnsQuery`]s and is told their answers.
//!
//! A resolution is planned anew from the target each time one of its answers arrives (`plan`), so there is no
//! state but the answers. Answers are shared: one query in flight serves all resolutions that wait for it.

mod order;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use stdx::Instant;
use stdx::cache::Cache;

use crate::dns::{DnsFault, DnsQuery, DnsRecord};
use crate::limits;
use crate::transport::Transport;
use plan::{Resolution, ResolutionStep};

/// The transports and address families that this node can send by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolverSettings {
    /// Transports that we support, the best liked first. Decides the order where DNS leaves the choice to us.
    pub transports: Vec<Transport>,
    /// The node can send over IPv4.
    pub ipv4: bool,
    /// With both families, a host's IPv6 addresses come first (RFC 6724 §2.1), alternating with IPv4.
    pub ipv6: bool,
}

/// Where a request is to go: the parts of the topmost Route or the Request-URI that decide it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// A name, or an address; IPv6 with or without brackets. `maddr` goes before the host (RFC 3263 §4).
    pub host: Box<str>,
    /// The port of the URI. With a port there are neither NAPTR nor SRV queries (RFC 3263 §4.2).
    pub port: Option<u16>,
    /// The `transport` parameter.
    pub transport: Option<Transport>,
    /// A sips URI: TLS or nothing.
    pub secure: bool,
}

/// One address to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The transport that the records or the URI chose.
    pub transport: Transport,
    /// The address and port to send to.
    pub addr: SocketAddr,
    /// The name that the peer's certificate must have (RFC 5922 §7.1): the domain that was asked for, never the name
    /// that DNS led to. `None` without TLS, and for a numeric host.
    pub tls_name: Option<Box<str>>,
}

impl Hop {
    /// The hop at the other end of a flow.
    pub(crate) fn of_flow(received: &router::Received) -> Self {
        Hop { transport: received.transport, addr: received.remote, tls_name: None }
    }
}

/// Why there is nowhere to send to. A proxy goes on as if it had received a 503 (RFC 3261 §16.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResolveFault {
    /// No such name, nothing behind it, or a service that is "decidedly not available" (RFC 2782).
    NoSuchHost,
    /// The target wants a transport or an address family that we do not have.
    Unsupported,
    /// DNS did not answer: it may be there.
    Failed,
    /// `limits::RESOLUTIONS` are under way, or DNS has too many questions open.
    Busy,
}

/// The orders and results of a [`Resolver`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolveEffect {
    /// Ask this and tell [`Resolver::handle_answer`], exactly once.
    Query {
        /// The number that the answer carries.
        dns_id: u64,
        /// The question.
        query: DnsQuery,
    },
    /// The resolution `id` is over. Hops stand in the order to try them; at least one when `Ok`.
    Resolved {
        /// The number that [`Resolver::resolve`] was given.
        id: u64,
        /// The addresses, or the reason why there are none.
        result: Result<Vec<Hop>, ResolveFault>,
    },
}

type DnsAnswer = Result<Arc<[DnsRecord]>, DnsFault>;

/// The resolutions that are open now, and the number refused since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResolveCounts {
    /// Resolutions without a result yet.
    pub open: usize,
    /// Questions without an answer yet.
    pub asked: usize,
    /// Answers in the cache.
    pub cached: usize,
    /// Resolutions refused at `limits::RESOLUTIONS`, since the start.
    pub refused: u64,
}

/// One shard's resolver.
pub struct Resolver {
    settings: ResolverSettings,
    jobs: HashMap<u64, Resolution>,
    in_flight: HashMap<u64, InFlight>,
    query_ids: HashMap<DnsQuery, u64>,
    next_dns_id: u64,
    refused: u64,
    cache: Cache<DnsQuery, DnsAnswer>,
    penalties: Cache<(SocketAddr, Transport), ()>,
    /// Hops that have said how long they want no requests.
    pauses: Cache<(SocketAddr, Transport), ()>,
}

struct InFlight {
    query: DnsQuery,
    /// Resolutions that wait for it.
    waiters: Vec<u64>,
}

impl Resolver {
    /// A resolver without resolutions.
    pub fn new(settings: ResolverSettings) -> Self {
        Resolver {
            settings,
            jobs: HashMap::new(),
            in_flight: HashMap::new(),
            query_ids: HashMap::new(),
            next_dns_id: 1,
            refused: 0,
            cache: Cache::new(limits::DNS_CACHE),
            penalties: Cache::new(limits::PENALTIES),
            pauses: Cache::new(limits::PENALTIES),
        }
    }

    /// Starts the resolution of a name under the caller's `id`, which no open resolution may have. Pushes `Resolved` at
    /// once when the cache knows all; else it comes with an answer. `random` decides between SRV records of equal
    /// priority. Numeric hosts are for [`Resolver::resolve_address`] alone.
    pub fn resolve(
        &mut self,
        now: Instant,
        id: u64,
        target: &NextHop,
        random: u64,
        out: &mut Vec<ResolveEffect>,
    ) {
        if self.jobs.len() >= limits::RESOLUTIONS {
            self.refused += 1;
            out.push(ResolveEffect::Resolved { id, result: Err(ResolveFault::Busy) });
            return;
        }
        debug_assert!(plan::plan_numeric(&self.settings, target).is_none(), "an address is no name");
        self.advance(now, id, Resolution::new(target.clone(), random), out);
    }

    /// The hops of a numeric host, for which nothing is asked and nothing kept; `None` for a name.
    pub fn resolve_address(&self, now: Instant, target: &NextHop) -> Option<Result<Vec<Hop>, ResolveFault>> {
        let result = plan::plan_numeric(&self.settings, target)?;
        Some(result.map(|hops| self.penalised_last(now, hops)))
    }

    /// The answer to an earlier `Query`. One that is not open is ignored.
    pub fn handle_answer(
        &mut self,
        now: Instant,
        dns_id: u64,
        answer: Result<Vec<DnsRecord>, DnsFault>,
        out: &mut Vec<ResolveEffect>,
    ) {
        let Some(InFlight { query, waiters }) = self.in_flight.remove(&dns_id) else { return };
        self.query_ids.remove(&query);
        let answer = bounded(answer);
        self.cache.insert_until(now + time_to_live(&answer), query.clone(), answer.clone());
        for id in waiters {
            let Some(mut job) = self.jobs.remove(&id) else { continue };
            job.answers.push((query.clone(), answer.clone()));
            job.waits_for -= 1;
            self.advance(now, id, job, out);
        }
    }

    /// A request to this hop timed out, got 503 or could not be sent: others are tried before it for a while.
    pub fn penalise(&mut self, now: Instant, addr: SocketAddr, transport: Transport) {
        self.penalties.insert_until(now + limits::PENALTY, (addr, transport), ());
    }

    /// This hop answered 503 and wants no requests for so long (RFC 3261 §21.5.4): others are tried before it, those of other targets, too.
    pub fn pause(&mut self, now: Instant, addr: SocketAddr, transport: Transport, pause: Duration) {
        self.pauses.insert_until(now + pause.min(limits::LONGEST_PAUSE), (addr, transport), ());
    }

    /// True if all of these hops want no requests now. False for none.
    pub fn is_paused(&self, now: Instant, hops: &[Hop]) -> bool {
        !hops.is_empty()
            && hops.iter().all(|hop| self.pauses.get_at(now, &(hop.addr, hop.transport)).is_some())
    }

    /// Forgets everything DNS said, e.g. after a reload of the configuration.
    pub fn forget(&mut self) {
        self.cache.clear();
        self.penalties.clear();
        self.pauses.clear();
    }

    /// The figures of this moment.
    pub fn counts(&self) -> ResolveCounts {
        ResolveCounts {
            open: self.jobs.len(),
            asked: self.in_flight.len(),
            cached: self.cache.len(),
            refused: self.refused,
        }
    }

    /// Plans as far as the answers reach. Several questions are asked at once; the plan goes on when all are
    /// answered.
    fn advance(&mut self, now: Instant, id: u64, mut job: Resolution, out: &mut Vec<ResolveEffect>) {
        while job.waits_for == 0 {
            match plan::plan(&self.settings, &job) {
                ResolutionStep::Done(result) => {
                    let result = result.map(|hops| self.penalised_last(now, hops));
                    out.push(ResolveEffect::Resolved { id, result });
                    return;
                }
                ResolutionStep::Ask(queries) => {
                    for query in queries {
                        self.ask(now, id, &mut job, query, out);
                    }
                }
            }
        }
        self.jobs.insert(id, job);
    }

    fn ask(
        &mut self,
        now: Instant,
        id: u64,
        job: &mut Resolution,
        query: DnsQuery,
        out: &mut Vec<ResolveEffect>,
    ) {
        if let Some(answer) = self.cache.get_at(now, &query) {
            job.answers.push((query, answer.clone()));
            return;
        }
        job.waits_for += 1;
        if let Some(open) = self.query_ids.get(&query).and_then(|dns_id| self.in_flight.get_mut(dns_id)) {
            open.waiters.push(id);
            return;
        }
        let dns_id = self.next_dns_id;
        self.next_dns_id += 1;
        self.query_ids.insert(query.clone(), dns_id);
        self.in_flight.insert(dns_id, InFlight { query: query.clone(), waiters: vec![id] });
        out.push(ResolveEffect::Query { dns_id, query });
    }

    fn penalised_last(&self, now: Instant, mut hops: Vec<Hop>) -> Vec<Hop> {
        hops.sort_by_key(|hop| {
            let key = (hop.addr, hop.transport);
            self.penalties.get_at(now, &key).is_some() || self.pauses.get_at(now, &key).is_some()
        });
        hops
    }
}

fn bounded(answer: Result<Vec<DnsRecord>, DnsFault>) -> DnsAnswer {
    let mut records = answer?;
    records.truncate(limits::DNS_RECORDS);
    if records.is_empty() { Err(DnsFault::NoData) } else { Ok(records.into()) }
}

fn time_to_live(answer: &DnsAnswer) -> Duration {
    match answer {
        Ok(records) => {
            let seconds = records.iter().map(|record| record.ttl).min().unwrap_or_default();
            Duration::from_secs(seconds.into()).clamp(limits::DNS_TTL_MIN, limits::DNS_TTL_MAX)
        }
        Err(DnsFault::NoName | DnsFault::NoData | DnsFault::BadName) => limits::DNS_TTL_NEGATIVE,
        Err(DnsFault::Failed) => limits::DNS_TTL_FAILURE,
        // Says nothing of the name.
        Err(DnsFault::Busy) => Duration::ZERO,
    }
}
