//! Requests that wait for the address of a next hop (RFC 3263): branches, requests of sessions, and messages for which nothing
//! else is kept: ACKs to a 2xx, probes, and requests of the notifier.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use stdx::Instant;
use stdx::cache::Cache;
use stdx::slab::Key;

use super::LowerView;
use crate::dns::{DnsFault, DnsRecord};
use crate::endpoint::proxy_core::ForwardedAck;
use crate::endpoint::{EndpointEffect, EndpointOutbox};
use crate::events::{OutgoingRoute, RequestId};
use crate::limits;
use crate::resolve::{self, Hop, NextHop, ResolveEffect, ResolveFault, Resolver};
use crate::transport::Transport;
use crate::wire::{Header, Message, trim};

/// The hops of a name in the order to be tried.
pub(crate) type ResolveResult = Result<Vec<Hop>, ResolveFault>;

/// The owner of a resolution.
#[derive(Debug)]
pub(crate) enum ResolutionOwner {
    Branch(Key, usize),
    /// A request of a session.
    Own(u64),
    Waiting(Box<UnresolvedMessage>),
}

/// A message that leaves by the first hop. Nothing fails over: an ACK is repeated with the next 2xx (RFC 3261 §13.2.2.4),
/// the others report a failure.
#[derive(Debug)]
pub(crate) enum UnresolvedMessage {
    /// An ACK to a 2xx on its way through.
    Ack(ForwardedAck),
    /// An ACK to a 2xx for a session.
    SessionAck {
        ack: Message,
        onward: OutgoingRoute,
    },
    Probe {
        id: u64,
        target: Box<str>,
    },
    Notifier {
        id: RequestId,
        request: Bytes,
        onward: OutgoingRoute,
    },
}

impl UnresolvedMessage {
    /// Bytes that are held meanwhile.
    fn len(&self) -> usize {
        match self {
            UnresolvedMessage::Ack(forwarded) => forwarded.ack.bytes().len(),
            UnresolvedMessage::SessionAck { ack, .. } => ack.bytes().len(),
            UnresolvedMessage::Probe { target, .. } => target.len(),
            UnresolvedMessage::Notifier { request, .. } => request.len(),
        }
    }
}

/// The resolutions of an endpoint that have not ended.
pub(crate) struct Resolutions {
    resolver: Resolver,
    effects: Vec<ResolveEffect>,
    /// By the resolution's number.
    owners: HashMap<u64, ResolutionOwner>,
    next: u64,
    /// Bytes of messages that wait for their resolution.
    waiting_bytes: usize,
    /// Peers that took a request by UDP and not by TCP.
    tcp_refusals: Cache<SocketAddr, ()>,
}

impl Resolutions {
    pub(crate) fn new(settings: resolve::ResolverSettings) -> Self {
        Resolutions {
            resolver: Resolver::new(settings),
            effects: Vec::new(),
            owners: HashMap::new(),
            next: 0,
            waiting_bytes: 0,
            tcp_refusals: Cache::new(limits::TCP_REFUSALS),
        }
    }

    /// A request to this hop failed: others are tried before it for a while.
    pub(crate) fn penalise(&mut self, now: Instant, addr: SocketAddr, transport: Transport) {
        self.resolver.penalise(now, addr, transport);
    }

    /// A hop answered 503: it gets no other requests for the time of its Retry-After, as far as they have another way (RFC 3261 §21.5.4).
    pub(crate) fn handle_unavailable(
        &mut self,
        now: Instant,
        (addr, transport): (SocketAddr, Transport),
        response: &Message,
    ) {
        self.resolver.penalise(now, addr, transport);
        if let Some(pause) = retry_after(response) {
            self.resolver.pause(now, addr, transport, pause);
        }
    }

    /// True if none of these hops wants requests now.
    pub(crate) fn is_paused(&self, now: Instant, hops: &[Hop]) -> bool {
        self.resolver.is_paused(now, hops)
    }

    /// The answer to an [`EndpointEffect::Dns`]. Resolutions that end with it are `finished`.
    pub(crate) fn handle_dns(
        &mut self,
        now: Instant,
        id: u64,
        result: Result<Vec<DnsRecord>, DnsFault>,
        finished: &mut Vec<(ResolutionOwner, ResolveResult)>,
        out: &mut EndpointOutbox,
    ) {
        let mut effects = std::mem::take(&mut self.effects);
        self.resolver.handle_answer(now, id, result, &mut effects);
        for effect in effects.drain(..) {
            match effect {
                ResolveEffect::Query { dns_id, query } => out.push(EndpointEffect::Dns { id: dns_id, query }),
                ResolveEffect::Resolved { id, result } => {
                    let Some(owner) = self.owners.remove(&id) else { continue };
                    if let ResolutionOwner::Waiting(waiting) = &owner {
                        self.waiting_bytes = self.waiting_bytes.saturating_sub(waiting.len());
                    }
                    finished.push((owner, result));
                }
            }
        }
        self.effects = effects;
    }
}

impl LowerView<'_> {
    /// Resolves `next`. The result is returned where no question has to be asked; otherwise it comes later, for `owner`.
    pub(crate) fn resolve(
        &mut self,
        next: &NextHop,
        owner: impl FnOnce() -> ResolutionOwner,
    ) -> Option<ResolveResult> {
        self.resolve_for(next, |resolutions, id| {
            resolutions.owners.insert(id, owner());
        })
    }

    fn resolve_for(
        &mut self,
        next: &NextHop,
        wait: impl FnOnce(&mut Resolutions, u64),
    ) -> Option<ResolveResult> {
        let resolutions = &mut *self.resolutions;
        if let Some(result) = resolutions.resolver.resolve_address(self.now, next) {
            return Some(result);
        }
        resolutions.next += 1;
        let id = resolutions.next;
        let random = self.env.keys.branch.hash(&id.to_be_bytes());
        resolutions.resolver.resolve(self.now, id, next, random, &mut resolutions.effects);
        let mut at_once = None;
        for effect in resolutions.effects.drain(..) {
            match effect {
                ResolveEffect::Query { dns_id, query } => {
                    self.out.push(EndpointEffect::Dns { id: dns_id, query });
                }
                ResolveEffect::Resolved { result, .. } => at_once = Some(result),
            }
        }
        if at_once.is_none() {
            wait(resolutions, id);
        }
        at_once
    }

    /// Looks up the address of the next hop of `waiting`. The message and its hop are returned where both are known at once.
    /// Without a next hop it has none, and neither has one that would have to wait when there is no room in
    /// [`limits::WAITING_BYTES`].
    pub(crate) fn send_when_resolved(
        &mut self,
        next: Option<&NextHop>,
        waiting: UnresolvedMessage,
    ) -> Option<(UnresolvedMessage, Option<Hop>)> {
        let Some(next) = next else { return Some((waiting, None)) };
        let mut waiting = Some(waiting);
        let result = self.resolve_for(next, |resolutions, id| {
            let bytes = waiting.as_ref().map_or(0, UnresolvedMessage::len);
            if resolutions.waiting_bytes + bytes <= limits::WAITING_BYTES
                && let Some(waiting) = waiting.take()
            {
                resolutions.waiting_bytes += bytes;
                resolutions.owners.insert(id, ResolutionOwner::Waiting(Box::new(waiting)));
            }
        });
        Some((waiting?, result.and_then(first_hop)))
    }

    /// The hops to be tried for a request of `bytes` bytes. RFC 3261 §18.1.1: one near the path MTU goes by TCP, and by
    /// UDP when TCP is refused. Without the operator's word only a request that no datagram can carry does.
    pub(crate) fn with_tcp_first(&mut self, bytes: usize, hops: Vec<Hop>) -> Vec<Hop> {
        let longest = if self.env.settings.tcp_for_large_requests {
            limits::UDP_REQUEST_BYTES
        } else {
            limits::DATAGRAM_BYTES
        };
        let has_tcp = self.env.listeners.all.iter().any(|listener| listener.transport == Transport::Tcp);
        if !has_tcp || bytes + limits::FORWARDING_BYTES <= longest {
            return hops;
        }
        let is_refused = |hop: &Hop| self.resolutions.tcp_refusals.get_at(self.now, &hop.addr).is_some();
        let mut all = Vec::with_capacity(2 * hops.len());
        for hop in hops {
            if hop.transport == Transport::Udp && !is_refused(&hop) {
                all.push(Hop { transport: Transport::Tcp, ..hop.clone() });
            }
            all.push(hop);
        }
        all
    }

    /// The peer takes no TCP where it takes UDP: later requests do not wait for it.
    pub(crate) fn note_tcp_refused(
        &mut self,
        (addr, transport): (std::net::SocketAddr, Transport),
        next: Option<&Hop>,
    ) {
        let is_fallback = |hop: &Hop| hop.addr == addr && hop.transport == Transport::Udp;
        if transport == Transport::Tcp && next.is_some_and(is_fallback) {
            self.resolutions.tcp_refusals.insert_until(self.now + limits::TCP_REFUSAL, addr, ());
        }
    }
}

/// The hop of a message that does not fail over.
pub(crate) fn first_hop(result: ResolveResult) -> Option<Hop> {
    result.ok().and_then(|hops| hops.into_iter().next())
}

/// The time in Retry-After, without its comment and parameters (RFC 3261 §20.33). `None` also when it is zero or no number: the response
/// counts like a 500 then (§21.5.4).
pub(crate) fn retry_after(response: &Message) -> Option<Duration> {
    let value = trim(response.header(Header::RetryAfter)?);
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = value.split_at(digits);
    if rest.first().is_some_and(|next| !matches!(next, b' ' | b'\t' | b'(' | b';')) {
        return None;
    }
    // A number that does not fit is a long time.
    let seconds = number.iter().fold(0_u64, |sum, digit| {
        let digit = u64::from(digit.saturating_sub(b'0'));
        sum.saturating_mul(10).saturating_add(digit)
    });
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_a_number_of_seconds() {
        let seconds = |value: &str| {
            let text = format!("SIP/2.0 503 Busy\r\nRetry-After: {value}\r\n\r\n");
            let response = Message::parse(Bytes::from(text)).unwrap();
            retry_after(&response).map(|pause| pause.as_secs())
        };
        let good = [("120", 120), ("18000;duration=3600", 18_000), ("60 (maintenance)", 60), ("7(x)", 7)];
        for (value, expected) in good {
            assert_eq!(seconds(value), Some(expected), "{value}");
        }
        assert_eq!(seconds("99999999999999999999999"), Some(u64::MAX));
        for value in ["", "0", "soon", "-5", "5s", "1.5", "(5)", "Fri, 01 Jan 2027 00:00:00 GMT"] {
            assert_eq!(seconds(value), None, "{value}");
        }
    }
}
