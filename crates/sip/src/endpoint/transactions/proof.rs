//! The UDP sources that have proved that they receive packets at their address, and the limit on traffic to
//! the others: anti-amplification as in RFC 9000 §8.1,
//! `docs/decisions/0020-a-source-over-udp-proves-itself.md`.
//!
//! Each request of an unproved source pays for its own answers: its server transaction, or a stateless
//! answer, sends no more than three times the bytes that arrived. So unproved sources need no memory. Proof
//! is a value that the source can only know by having received it: a nonce bound to its address, or the To
//! tag of a response. On TCP, TLS and WebSocket the handshake is the proof.

use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};

use stdx::Instant;
use stdx::cache::Cache;
use stdx::hash::{HashedKeys, Keyed};
use stdx::rate::{Limiter, Policy, Rate};
use stdx::source::SourcePrefix;

use super::{Transactions, reply_address};
use crate::limits;
use crate::transport::{Source, Transport, address_bytes};
use crate::wire::{Message, Via};

/// The proofs of UDP sources, in bounded memory.
pub(crate) struct SourceProofs {
    keyed: Keyed,
    /// The address that was hashed last, and its hash: the source of a request is looked up several times.
    last_hash: Cell<Option<(SocketAddr, u64)>>,
    /// Hashes of addresses that answers reached, and when that was last seen.
    proved: Cache<u64, Instant, HashedKeys>,
    /// Networks with at least one such address.
    networks: Cache<SourcePrefix, ()>,
    /// Dialog identifiers in responses to unproved sources, hashed with the address they went to.
    shown: Cache<u64, (), HashedKeys>,
    new_requests: Limiter<SourcePrefix>,
    new_requests_of_local: Limiter<SourcePrefix>,
    /// Networks that have proved an address since they were last taken by `take_proved_network`.
    newly_proved: Vec<SourcePrefix>,
    /// Responses that were not sent.
    withheld: u64,
}

/// The bytes that an unproved source has paid for in one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceCredit {
    received: u32,
    sent: u32,
    /// The number of final responses that may still be sent until the request arrives again, and their limit.
    finals_left: u8,
    finals_limit: u8,
}

impl SourceCredit {
    pub(crate) fn new(received: usize) -> Self {
        SourceCredit { received: saturate(received), sent: 0, finals_left: u8::MAX, finals_limit: u8::MAX }
    }

    /// The request arrived again.
    pub(crate) fn pay(&mut self, bytes: usize) {
        self.received = self.received.saturating_add(saturate(bytes));
        self.finals_left = self.finals_limit;
    }

    /// An application's answer is sent few times, however long the request was.
    pub(crate) fn limit_finals(&mut self) {
        self.finals_limit = limits::UNPROVED_FINALS;
        self.finals_left = limits::UNPROVED_FINALS;
    }

    /// The largest length of a final response now, in bytes.
    pub(crate) fn left(self) -> usize {
        self.received.saturating_mul(limits::UNPROVED_FACTOR).saturating_sub(self.sent) as usize
    }

    /// Takes the bytes of a response, when they are covered. Provisional responses may use half of it only: the
    /// final response matters more.
    pub(crate) fn spend(&mut self, response: &[u8]) -> bool {
        let is_provisional = response.get(8) == Some(&b'1');
        let reserved =
            if is_provisional { self.received.saturating_mul(limits::UNPROVED_FACTOR) / 2 } else { 0 };
        let is_covered = response.len() <= self.left().saturating_sub(reserved as usize);
        let is_repeated_enough = !is_provisional && self.finals_left == 0;
        if !is_covered || is_repeated_enough {
            return false;
        }
        self.sent = self.sent.saturating_add(saturate(response.len()));
        self.finals_left = self.finals_left.saturating_sub(u8::from(!is_provisional));
        true
    }
}

fn saturate(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

impl SourceProofs {
    /// `new_requests`: how many an unproved network may make.
    pub(crate) fn new(keyed: Keyed, new_requests: Rate) -> Self {
        SourceProofs {
            keyed,
            last_hash: Cell::new(None),
            proved: Cache::of_hashes(limits::PROVED_SOURCES),
            networks: Cache::new(limits::PROVED_SOURCES),
            shown: Cache::of_hashes(limits::SHOWN_TAGS),
            new_requests: limiter(new_requests),
            new_requests_of_local: limiter(wider(new_requests)),
            newly_proved: Vec::new(),
            withheld: 0,
        }
    }

    pub(crate) fn set_rate(&mut self, new_requests: Rate) {
        self.new_requests = limiter(new_requests);
        self.new_requests_of_local = limiter(wider(new_requests));
    }

    pub(crate) fn is_proved(&self, now: Instant, address: SocketAddr) -> bool {
        self.proved.get_at(now, &self.hash_of(address)).is_some()
    }

    /// As [`is_proved`](Self::is_proved), for a transaction that was opened when it was not.
    fn is_proved_since(&self, address: SocketAddr) -> bool {
        self.proved.get(&self.hash_of(address)).is_some()
    }

    pub(crate) fn is_network_proved(&self, now: Instant, address: IpAddr) -> bool {
        self.networks.get_at(now, &SourcePrefix::of(address)).is_some()
    }

    /// True if proof is to be looked for: none is known, or it will soon be forgotten.
    fn wants(&self, now: Instant, address: SocketAddr) -> bool {
        self.proved
            .get_at(now, &self.hash_of(address))
            .is_none_or(|at| now.since(*at) >= limits::PROOF_LIFETIME / 2)
    }

    pub(crate) fn prove(&mut self, now: Instant, address: SocketAddr) {
        let until = now + limits::PROOF_LIFETIME;
        self.proved.insert_until(until, self.hash_of(address), now);
        self.networks.insert_until(until, SourcePrefix::of(address.ip()), ());
    }

    fn forget_expired(&mut self, now: Instant, address: SocketAddr) {
        let hash = self.hash_of(address);
        if self.proved.get_at(now, &hash).is_none() {
            self.proved.remove(&hash);
        }
    }

    fn hash_of(&self, address: SocketAddr) -> u64 {
        if let Some((_, hash)) = self.last_hash.get().filter(|(last, _)| *last == address) {
            return hash;
        }
        let mut bytes = [0; 18];
        bytes[..16].copy_from_slice(&address_bytes(address.ip()));
        bytes[16..].copy_from_slice(&address.port().to_be_bytes());
        let hash = self.keyed.hash(&bytes);
        self.last_hash.set(Some((address, hash)));
        hash
    }

    /// One more request of an unproved source: whether it is looked at.
    pub(crate) fn admits(&mut self, now: Instant, address: IpAddr) -> bool {
        let network = SourcePrefix::of(address);
        let limiter =
            if network.is_local() { &mut self.new_requests_of_local } else { &mut self.new_requests };
        limiter.allow(now, network).is_pass()
    }

    fn dialog(&self, message: &Message, address: IpAddr) -> Option<u64> {
        let parts = [
            message.call_id()?,
            message.from_tag().unwrap_or_default(),
            message.to_tag()?,
            &address_bytes(address),
        ];
        Some(self.keyed.hash_parts(&parts))
    }
}

fn limiter(rate: Rate) -> Limiter<SourcePrefix> {
    Limiter::new(Policy { rate, ..limits::NEW_REQUESTS })
}

fn wider(rate: Rate) -> Rate {
    let factor = limits::LOCAL_REQUESTS_FACTOR;
    Rate { interval: rate.interval / factor, burst: rate.burst.saturating_mul(factor) }
}

impl Transactions {
    /// True if a request of this source is answered without asking whether its address is its own.
    pub(crate) fn is_proved(&self, now: Instant, source: &Source, via: &Via<'_>) -> bool {
        source.transport != Transport::Udp || self.proofs.is_proved(now, reply_address(via, source))
    }

    /// A request within a dialog may show a To tag that only a receiver of our response knows.
    /// `refusal_tag` makes the tag of our own responses to it.
    pub(crate) fn note_tag(
        &mut self,
        now: Instant,
        request: &Message,
        source: &Source,
        via: &Via<'_>,
        refusal_tag: impl FnOnce() -> String,
    ) {
        if source.transport != Transport::Udp {
            return;
        }
        let Some(tag) = request.to_tag() else { return };
        let address = reply_address(via, source);
        if !self.proofs.wants(now, address) {
            return;
        }
        let is_shown = self
            .proofs
            .dialog(request, source.remote.ip())
            .is_some_and(|dialog| self.proofs.shown.get_at(now, &dialog).is_some());
        // The tag of a refusal is made of the address: nothing had to be kept of it.
        if is_shown || tag == refusal_tag().as_bytes() {
            self.prove(now, address);
        }
    }

    /// The address has shown that it received what was sent to it, such as by the branch of a request. A proof that is
    /// fresh is not renewed: each REGISTER and each response gives one.
    pub(crate) fn note_receipt(&mut self, now: Instant, address: SocketAddr) {
        if self.proofs.wants(now, address) {
            self.prove(now, address);
        }
    }

    fn prove(&mut self, now: Instant, address: SocketAddr) {
        self.proofs.prove(now, address);
        self.proofs.newly_proved.push(SourcePrefix::of(address.ip()));
    }

    /// The bytes that a new server transaction may send; `None`: anything.
    pub(crate) fn credit(
        &mut self,
        now: Instant,
        request: &Message,
        source: &Source,
        address: SocketAddr,
    ) -> Option<SourceCredit> {
        if source.transport != Transport::Udp || self.proofs.is_proved(now, address) {
            return None;
        }
        self.proofs.forget_expired(now, address);
        Some(SourceCredit::new(request.bytes().len()))
    }

    /// A response goes to an unproved source: its tag will be the proof.
    pub(crate) fn note_shown(&mut self, now: Instant, response: &[u8], address: SocketAddr) {
        if !self.proofs.wants(now, address) {
            return;
        }
        let Ok(response) = Message::parse(bytes::Bytes::copy_from_slice(response)) else { return };
        if let Some(dialog) = self.proofs.dialog(&response, address.ip()) {
            self.proofs.shown.insert_until(now + limits::SHOWN_TAG_LIFETIME, dialog, ());
        }
    }

    /// True if the source of a request has proved itself by now.
    pub(crate) fn is_transaction_proved(&self, key: stdx::slab::Key) -> bool {
        self.table.get(key).is_some_and(|transaction| {
            transaction.credit.is_none() || self.proofs.is_proved_since(transaction.target().remote)
        })
    }

    /// True if these bytes may go to the peer of a transaction.
    pub(crate) fn is_covered(&mut self, key: stdx::slab::Key, response: &[u8]) -> bool {
        let Some(transaction) = self.table.get_mut(key) else { return false };
        if transaction.credit.is_some() && self.proofs.is_proved_since(transaction.target().remote) {
            transaction.credit = None;
        }
        let Some(credit) = &mut transaction.credit else { return true };
        let is_covered = credit.spend(response);
        self.proofs.withheld += u64::from(!is_covered);
        is_covered
    }

    /// True if a response without a transaction may be sent.
    pub(crate) fn is_covered_alone(
        &mut self,
        now: Instant,
        request: &Message,
        source: &Source,
        bytes: usize,
    ) -> bool {
        let limit = request.bytes().len().saturating_mul(limits::UNPROVED_FACTOR as usize);
        let is_covered =
            bytes <= limit || request.top_via().is_some_and(|via| self.is_proved(now, source, &via));
        self.proofs.withheld += u64::from(!is_covered);
        is_covered
    }

    /// A network that has proved an address, and may have requests that wait for that.
    pub(crate) fn take_proved_network(&mut self) -> Option<SourcePrefix> {
        self.proofs.newly_proved.pop()
    }

    /// Responses that were not sent, because an unproved source had not paid for them.
    pub(crate) fn withheld(&self) -> u64 {
        self.proofs.withheld
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_pays_for_three_times_its_bytes_and_two_repetitions() {
        let response = |status: u16, length: usize| {
            let mut bytes = format!("SIP/2.0 {status} OK").into_bytes();
            bytes.resize(length, b'x');
            bytes
        };
        let mut credit = SourceCredit::new(400);
        assert!(credit.spend(&response(180, 600)), "half of it is for provisional responses");
        assert!(!credit.spend(&response(183, 20)));
        assert!(credit.spend(&response(200, 600)));
        assert!(!credit.spend(&response(200, 20)));
        credit.pay(400);
        credit.limit_finals();
        assert_eq!(credit.left(), 1_200);
        assert!((0..3).all(|_| credit.spend(&response(200, 100))));
        assert!(!credit.spend(&response(200, 100)), "repeated twice");
    }
}
