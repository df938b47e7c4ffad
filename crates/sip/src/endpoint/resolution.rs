//! Requests that wait for the address of a next hop (RFC 3263): branches, requests of sessions, and messages for which nothing
//! else is kept: ACKs to a 2xx, probes, and requests of the notifier.

use bytes::Bytes;
use stdx::Instant;
use stdx::slab::Key;

use super::forward::ForwardedAck;
use super::{Effect, Endpoint, Outbox};
use crate::events::{Onward, RequestId};
use crate::limits;
use crate::resolve::{Hop, NextHop, ResolveEffect, ResolveFault};
use crate::transport::Transport;
use crate::wire::Message;

/// The owner of a resolution.
#[derive(Debug)]
pub(super) enum Resolving {
    Branch(Key, usize),
    /// A request of a session.
    Own(u64),
    Waiting(Box<Waiting>),
}

/// A message that leaves by the first hop. Nothing fails over: an ACK is repeated with the next 2xx (RFC 3261 §13.2.2.4),
/// the others report a failure.
#[derive(Debug)]
pub(super) enum Waiting {
    /// An ACK to a 2xx on its way through.
    Ack(ForwardedAck),
    /// An ACK to a 2xx for a session.
    SessionAck {
        ack: Message,
        onward: Onward,
    },
    Probe {
        id: u64,
        target: Box<str>,
    },
    Notifier {
        id: RequestId,
        request: Bytes,
        onward: Onward,
    },
}

impl Waiting {
    /// Bytes that are held meanwhile.
    fn len(&self) -> usize {
        match self {
            Waiting::Ack(forwarded) => forwarded.ack.bytes().len(),
            Waiting::SessionAck { ack, .. } => ack.bytes().len(),
            Waiting::Probe { target, .. } => target.len(),
            Waiting::Notifier { request, .. } => request.len(),
        }
    }
}

impl Endpoint {
    /// Resolves `next`; the outcome goes to `owner`, at once where no question has to be asked. Returns the resolution's
    /// number.
    pub(super) fn resolve(
        &mut self,
        now: Instant,
        next: &NextHop,
        owner: Resolving,
        out: &mut Outbox,
    ) -> u64 {
        let mut resolved = std::mem::take(&mut self.resolved);
        self.next_resolution += 1;
        let id = self.next_resolution;
        let random = self.keys.branch.hash(&id.to_be_bytes());
        self.resolutions.insert(id, owner);
        self.resolver.resolve(now, id, next, random, &mut resolved);
        self.perform_resolved(now, resolved, out);
        id
    }

    /// Sends `waiting` when the address of its next hop is known. Without a next hop it fails at once, and so does one
    /// that has to wait when there is no room in [`limits::WAITING_BYTES`].
    pub(super) fn send_when_resolved(
        &mut self,
        now: Instant,
        next: Option<&NextHop>,
        waiting: Waiting,
        out: &mut Outbox,
    ) {
        let Some(next) = next else { return self.send_waiting(now, waiting, None, out) };
        self.waiting_bytes += waiting.len();
        let id = self.resolve(now, next, Resolving::Waiting(Box::new(waiting)), out);
        if self.waiting_bytes > limits::WAITING_BYTES
            && let Some(Resolving::Waiting(waiting)) = self.resolutions.remove(&id)
        {
            self.waiting_bytes = self.waiting_bytes.saturating_sub(waiting.len());
            self.send_waiting(now, *waiting, None, out);
        }
    }

    pub(super) fn perform_resolved(
        &mut self,
        now: Instant,
        mut resolved: Vec<ResolveEffect>,
        out: &mut Outbox,
    ) {
        for effect in resolved.drain(..) {
            match effect {
                ResolveEffect::Query { dns_id, query } => out.push(Effect::Dns { id: dns_id, query }),
                ResolveEffect::Resolved { id, result } => self.handle_resolution(now, id, result, out),
            }
        }
        self.resolved = resolved;
    }

    fn handle_resolution(
        &mut self,
        now: Instant,
        id: u64,
        result: Result<Vec<Hop>, ResolveFault>,
        out: &mut Outbox,
    ) {
        match self.resolutions.remove(&id) {
            Some(Resolving::Branch(key, index)) => self.handle_resolved(now, key, index, result, out),
            Some(Resolving::Own(id)) => self.handle_own_resolved(now, id, result, out),
            Some(Resolving::Waiting(waiting)) => {
                self.waiting_bytes = self.waiting_bytes.saturating_sub(waiting.len());
                let hop = result.ok().and_then(|hops| hops.into_iter().next());
                self.send_waiting(now, *waiting, hop, out);
            }
            None => {}
        }
    }

    fn send_waiting(&mut self, now: Instant, waiting: Waiting, hop: Option<Hop>, out: &mut Outbox) {
        match waiting {
            Waiting::Ack(forwarded) => {
                if let Some(hop) = hop {
                    self.transmit_ack(&forwarded, &hop, out);
                }
            }
            Waiting::SessionAck { ack, onward } => {
                if let Some(hop) = hop.filter(|hop| onward.may_reach(hop.addr.ip())) {
                    self.transmit_session_ack(&ack, &hop, &onward, out);
                }
            }
            Waiting::Probe { id, target } => self.send_probe(now, id, &target, hop, out),
            Waiting::Notifier { id, request, onward } => {
                self.send_notifiers_request(now, id, request, &onward, hop, out);
            }
        }
    }

    /// The hops to be tried for a request of `bytes` bytes. RFC 3261 §18.1.1: one near the path MTU goes by TCP, and by
    /// UDP when TCP is refused. Without the operator's word only a request that no datagram can carry does.
    pub(super) fn with_tcp_first(&self, now: Instant, bytes: usize, hops: Vec<Hop>) -> Vec<Hop> {
        let longest = if self.settings.tcp_for_large_requests {
            limits::UDP_REQUEST_BYTES
        } else {
            limits::DATAGRAM_BYTES
        };
        let has_tcp = self.settings.listeners.iter().any(|listener| listener.transport == Transport::Tcp);
        if !has_tcp || bytes + limits::FORWARDING_BYTES <= longest {
            return hops;
        }
        let is_refused = |hop: &Hop| self.tcp_refusals.get_at(now, &hop.addr).is_some();
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
    pub(super) fn note_tcp_refused(
        &mut self,
        now: Instant,
        (addr, transport): (std::net::SocketAddr, Transport),
        next: Option<&Hop>,
    ) {
        let is_fallback = |hop: &Hop| hop.addr == addr && hop.transport == Transport::Udp;
        if transport == Transport::Tcp && next.is_some_and(is_fallback) {
            self.tcp_refusals.insert_until(now + limits::TCP_REFUSAL, addr, ());
        }
    }
}
