//! Makes a connection to another server: finds its addresses, by configuration or DNS, and tries one after the other until one answers.
//!
//! The machine orders a connection ([`Connect`]) and is told by `handle_connected` or `broken`. If the server at an address turns out to be of no use,
//! the machine orders another one that begins behind that address (`Connect::tried`).

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use hickory_resolver::TokioResolver;
use net::{dns, stream as tcp};
use sip::dns::{DnsData, DnsFault, DnsQuery, DnsRecord};
use tokio::net::TcpStream;
use tokio::time::timeout;
use xmpp::s2s::locate::{self, Srv};
use xmpp::s2s::{Connect, Failure, Security};
use xmpp::stanza::Condition;

use super::connection::{S2sConnection, Wire};
use super::serve::{call_tls, finish, no_tls, shake, talk};
use super::shared::S2sConnections;

/// A connection that is made.
struct OpenedConnection {
    socket: TcpStream,
    /// TLS begins at once (XEP-0368), not after STARTTLS.
    is_direct: bool,
    /// The number of addresses tried; `None`: there are no more.
    next: Option<usize>,
}

/// The life of a connection that we make.
pub(super) async fn run(shared: Rc<S2sConnections>, own: Rc<S2sConnection>, wanted: Connect) {
    let _live = shared.live();
    let making = make(&shared, &wanted);
    let given_up = std::future::poll_fn(|cx| {
        own.remember(cx);
        if own.closing.get() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    });
    let made = tokio::select! {
        biased;
        () = given_up => return,
        made = making => made,
    };
    let made = match made {
        Ok(made) => made,
        Err(failure) => return shared.broken(&own, failure),
    };
    tcp::tune(&made.socket);
    let (number, next) = (wanted.number, made.next);
    if !made.is_direct {
        shared.tell(|servers, now, out| {
            servers.handle_connected(now, number, Security::default(), next, out);
        });
        return talk(&shared, &own, made.socket).await;
    }
    match shake(&shared, None, call_tls(&shared, &own.domain, made.socket, true)).await {
        Ok((io, security)) => {
            shared.tell(|servers, now, out| servers.handle_connected(now, number, security, next, out));
            finish(&shared, &own, &mut Wire::new(io)).await;
        }
        Err(error) => shared.broken(&own, no_tls(&error)),
    }
}

/// Tries the addresses behind those that were tried before. The failure names the last one.
async fn make(shared: &S2sConnections, wanted: &Connect) -> Result<OpenedConnection, Failure> {
    let addresses = addresses(shared, wanted).await?;
    let mut last = None;
    for (index, (address, is_direct)) in addresses.iter().enumerate().skip(wanted.tried) {
        match timeout(net::limits::CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(socket)) => {
                let next = (index + 1 < addresses.len()).then_some(index + 1);
                return Ok(OpenedConnection { socket, is_direct: *is_direct, next });
            }
            Ok(Err(error)) => last = Some(format!("{address}: {error}")),
            Err(_) => last = Some(format!("{address}: no answer in time")),
        }
    }
    let last = last.unwrap_or_else(|| "no address".to_owned());
    Err(Failure::new(Condition::RemoteServerTimeout, format!("cannot connect to the server: {last}")))
}

/// All of them, in the order in which they are tried.
async fn addresses(shared: &S2sConnections, wanted: &Connect) -> Result<Vec<(SocketAddr, bool)>, Failure> {
    let domain = &*wanted.pair.remote;
    let routes = shared.reload.borrow().routes.clone();
    let route = routes.iter().find(|route| route.domains.has(domain));
    let resolver = shared.resolver().ok_or_else(|| {
        Failure::new(Condition::RemoteServerTimeout, "this server cannot ask DNS: see its log")
    });
    let targets = match route {
        Some(route) => vec![route.target.clone()],
        None if locate::is_address(domain) => locate::targets(domain, &[], 0),
        None => {
            let records = services(resolver.clone()?.as_ref(), domain).await?;
            locate::targets(domain, &records, wanted.random)
        }
    };
    if targets.is_empty() {
        let text = "the domain says that it has no chat server";
        return Err(Failure::new(Condition::RemoteServerNotFound, text));
    }
    let mut all = Vec::new();
    let mut fault = DnsFault::NoName;
    for target in targets {
        let ips = match target.host.parse::<IpAddr>() {
            Ok(ip) => Ok(vec![ip]),
            Err(_) => ips(resolver.clone()?.as_ref(), &target.host).await,
        };
        match ips {
            Ok(ips) => {
                all.extend(ips.into_iter().map(|ip| (SocketAddr::new(ip, target.port), target.is_direct)));
            }
            Err(found) => fault = found,
        }
    }
    all.truncate(::xmpp::limits::S2S_TARGETS);
    if all.is_empty() { Err(failure_of(fault)) } else { Ok(all) }
}

fn failure_of(fault: DnsFault) -> Failure {
    match fault {
        DnsFault::NoName | DnsFault::NoData | DnsFault::BadName => {
            Failure::new(Condition::RemoteServerNotFound, "DNS knows no such server")
        }
        DnsFault::Failed | DnsFault::Busy => {
            Failure::new(Condition::RemoteServerTimeout, "DNS did not answer")
        }
    }
}

/// The records of both kinds (XEP-0368 §3).
async fn services(resolver: &TokioResolver, domain: &str) -> Result<Vec<Srv>, Failure> {
    let ask = |(name, is_direct): (String, bool)| async move {
        let answer = dns::ask(resolver, &DnsQuery::Srv(name.into()), net::limits::DNS_TIMEOUT).await;
        let records =
            |found: Vec<DnsRecord>| found.into_iter().filter_map(|found| srv(found, is_direct)).collect();
        answer.map(records)
    };
    let [direct, plain] = locate::questions(domain).map(ask);
    let (direct, plain): (Result<Vec<Srv>, DnsFault>, Result<Vec<Srv>, DnsFault>) =
        tokio::join!(direct, plain);
    let mut all = direct.unwrap_or_default();
    match plain {
        Ok(records) => all.extend(records),
        // RFC 6120 §3.2.1: a failure is no statement that there are none.
        Err(fault @ (DnsFault::Failed | DnsFault::Busy)) if all.is_empty() => return Err(failure_of(fault)),
        Err(_) => {}
    }
    Ok(all)
}

fn srv(record: DnsRecord, is_direct: bool) -> Option<Srv> {
    match record.data {
        DnsData::Srv { priority, weight, port, target } => {
            Some(Srv { priority, weight, port, target, is_direct })
        }
        _ => None,
    }
}

/// Addresses of both families in turn: if one family leads nowhere, the second attempt already uses the other
/// (RFC 7984 §3).
pub(super) async fn ips(resolver: &TokioResolver, host: &str) -> Result<Vec<IpAddr>, DnsFault> {
    let ask = |query| async move { dns::ask(resolver, &query, net::limits::DNS_TIMEOUT).await };
    let (six, four) = tokio::join!(ask(DnsQuery::Aaaa(host.into())), ask(DnsQuery::A(host.into())));
    let fault = four.as_ref().err().copied();
    let ip = |record: &DnsRecord| match record.data {
        DnsData::Address(ip) => Some(ip),
        _ => None,
    };
    let (six, four) = (six.unwrap_or_default(), four.unwrap_or_default());
    let mut ordered = Vec::new();
    for index in 0..six.len().max(four.len()) {
        ordered.extend(six.get(index).and_then(ip));
        ordered.extend(four.get(index).and_then(ip));
    }
    if ordered.is_empty() { Err(fault.unwrap_or(DnsFault::NoData)) } else { Ok(ordered) }
}
