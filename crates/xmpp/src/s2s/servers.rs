//! One shard's streams with other servers: the ways of the domains it owns, and the streams it accepted.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use stdx::Instant;
use stdx::rng::Rng;

use super::backlog::WriteBacklog;
use super::incoming::{Incoming, IncomingEvent, IncomingOutput};
use super::outgoing_router::OutgoingRouter;
use super::posh::{FinishedLookup, LookupReply, LookupRequest, PoshFingerprints, PoshLookups};
use super::timers::Timers;
use super::{
    Counts, Effect, Failure, LogEvent, OutboundStanza, Outcome, Pair, PoshFailure, PoshFetch, Proof, Receipt,
    Recipient, S2sSettings, S2sStreamEvent, Security, ShardMessage,
};
use crate::stanza::{self, Condition, StanzaError};
use crate::{ConnectionId, Element, ShardAddress, limits};

#[derive(Debug)]
struct IncomingConnection {
    stream: Incoming,
    since: Instant,
    /// When something came last.
    heard: Instant,
    /// Bytes that the system has not taken.
    backlog: WriteBacklog,
}

impl IncomingConnection {
    fn deadline(&self, settings: &S2sSettings) -> Instant {
        let silent = if self.stream.is_of_use() {
            self.heard + settings.idle
        } else {
            self.since + settings.authorize
        };
        self.stream.hold_until().map_or(silent, |until| until.min(silent))
    }
}

/// The streams of one shard from and to other servers.
#[derive(Debug)]
pub struct Servers {
    settings: Arc<S2sSettings>,
    shard: ShardAddress,
    rng: Rng,
    keeper: OutgoingRouter,
    posh: PoshLookups,
    callers: HashMap<u64, IncomingConnection>,
    alarms: Timers,
    last: u64,
    counts: Counts,
}

impl ShardMessage {
    /// The recipient of a message between shards.
    pub fn recipient(&self) -> Recipient<'_> {
        match self {
            ShardMessage::Verify { question, .. } => Recipient::Owner(Cow::Borrowed(&question.pair.remote)),
            ShardMessage::Offer { pair, .. } | ShardMessage::Withdraw { pair, .. } => {
                Recipient::Owner(Cow::Borrowed(&pair.remote))
            }
            ShardMessage::Outbound { element } => {
                let to = stanza::to(element).ok().flatten();
                Recipient::Owner(to.map_or_else(String::new, |to| to.domain().to_owned()).into())
            }
            ShardMessage::Verified { edge, .. } | ShardMessage::Over { edge, .. } => {
                Recipient::Shard(edge.shard)
            }
        }
    }
}

impl Servers {
    /// No streams; `seed` seeds their random values.
    pub fn new(settings: Arc<S2sSettings>, shard: ShardAddress, seed: [u8; 32]) -> Servers {
        let mut rng = Rng::from_seed(seed);
        let keeper = OutgoingRouter::new(Arc::clone(&settings), rng.fork());
        Servers {
            settings,
            shard,
            rng,
            keeper,
            posh: PoshLookups::default(),
            callers: HashMap::new(),
            alarms: Timers::default(),
            last: 0,
            counts: Counts::default(),
        }
    }

    /// The settings.
    pub fn settings(&self) -> &S2sSettings {
        &self.settings
    }

    /// The figures of this moment.
    pub fn counts(&self) -> Counts {
        let of = self.keeper.counts();
        let own = self.counts;
        Counts {
            incoming: self.callers.len() as u64,
            incoming_total: own.incoming_total,
            stanzas_in: of.stanzas_in + own.stanzas_in,
            refused: own.refused,
            faults: of.faults + own.faults,
            posh_lookups: self.posh.begun,
            posh_failures: self.posh.failed,
            posh_proved: of.posh_proved + own.posh_proved,
            ..of
        }
    }

    /// The time at which to call `expire`.
    pub fn deadline(&self) -> Option<Instant> {
        [self.keeper.deadline(), self.alarms.first(), self.posh.deadline()].into_iter().flatten().min()
    }

    fn edge(&self, connection: u64) -> ConnectionId {
        ConnectionId { shard: self.shard, connection }
    }

    /// Another server, or a peer that claims to be one, has connected. Its number.
    pub fn accept(&mut self, now: Instant, security: Security) -> u64 {
        // Even; those of our own connections are odd.
        self.last += 2;
        let number = self.last;
        let id = format!("{:016x}{:016x}", self.rng.next_u64(), self.rng.next_u64());
        let stream = Incoming::new(Arc::clone(&self.settings), security, id.into());
        let caller = IncomingConnection { stream, since: now, heard: now, backlog: WriteBacklog::default() };
        self.alarms.arm(number, caller.deadline(&self.settings));
        self.callers.insert(number, caller);
        self.counts.incoming_total += 1;
        number
    }

    /// True once a connection of another server has proved a domain or asked about a key: until then its peer
    /// is unknown.
    pub fn is_of_use(&self, number: u64) -> bool {
        self.callers.get(&number).is_some_and(|caller| caller.stream.is_of_use())
    }

    /// The connection of `Effect::Connect` is established. `next`: how many addresses were tried, when there are more if this one does not do.
    pub fn handle_connected(
        &mut self,
        now: Instant,
        number: u64,
        security: Security,
        next: Option<usize>,
        out: &mut Vec<Effect>,
    ) {
        self.keeper.handle_connected(now, number, (security, next), out);
    }

    /// The handshake that `Effect::StartTls` wanted is done.
    pub fn handle_secured(&mut self, now: Instant, number: u64, security: Security, out: &mut Vec<Effect>) {
        if self.keeper.has(number) {
            return self.keeper.handle_secured(now, number, security, out);
        }
        self.with(now, number, out, |stream, out| stream.handle_secured(security, out));
    }

    /// Handles bytes of a connection.
    pub fn handle_bytes(&mut self, now: Instant, number: u64, bytes: &[u8], out: &mut Vec<Effect>) {
        if self.keeper.has(number) {
            self.keeper.handle_bytes(now, number, bytes, out);
            for (number, domain) in self.keeper.take_lookups() {
                self.look_up(now, number, &domain, out);
            }
            return;
        }
        if let Some(caller) = self.callers.get_mut(&number) {
            caller.heard = now;
        }
        self.with(now, number, out, |stream, out| stream.handle_bytes(bytes, out));
    }

    /// Asks for the POSH document of a domain, for a stream that waits for it.
    fn look_up(&mut self, now: Instant, number: u64, domain: &str, out: &mut Vec<Effect>) {
        let is_ours = self.keeper.has(number);
        let presented = match is_ours {
            true => self.keeper.presented(number),
            false => self.callers.get(&number).and_then(|caller| caller.stream.presented()),
        };
        let Some(presented) = presented else { return };
        // A key of a stranger makes this server open a stream to any domain. The answer about the key needs no proof of its sender's certificate.
        if is_ours && !self.keeper.is_for_stanzas(number) {
            return self.give_posh(now, (number, domain), None, out);
        }
        match self.posh.look_up(now, &LookupRequest { domain, number, is_ours, presented }, out) {
            LookupReply::Known(fingerprints) => {
                self.give_posh(now, (number, domain), fingerprints.as_deref(), out);
            }
            LookupReply::Later { since } if is_ours => self.keeper.hold(number, since + limits::POSH_HOLD),
            LookupReply::Later { since } => {
                let Some(caller) = self.callers.get_mut(&number) else { return };
                caller.stream.hold(since + limits::POSH_HOLD);
                self.alarms.arm(number, caller.deadline(&self.settings));
            }
        }
    }

    fn give_posh(
        &mut self,
        now: Instant,
        (number, domain): (u64, &str),
        fingerprints: Option<&PoshFingerprints>,
        out: &mut Vec<Effect>,
    ) {
        if self.keeper.has(number) {
            return self.keeper.handle_posh(now, number, fingerprints, out);
        }
        self.with(now, number, out, |stream, out| stream.handle_posh(domain, fingerprints, out));
    }

    /// The body that `Effect::FetchPosh` wanted, of at most `limits::POSH_DOCUMENT` bytes, or the reason why there is none.
    pub fn handle_posh(
        &mut self,
        now: Instant,
        fetch: &PoshFetch,
        result: Result<Vec<u8>, PoshFailure>,
        out: &mut Vec<Effect>,
    ) {
        if let Some(finished) = self.posh.handle_fetched(now, fetch, result, out) {
            self.finish_lookup(now, finished, out);
        }
    }

    /// The domains of which a POSH document or its absence is remembered.
    #[cfg(test)]
    pub(super) fn remembered_posh(&self) -> usize {
        self.posh.len()
    }

    fn finish_lookup(&mut self, now: Instant, finished: FinishedLookup, out: &mut Vec<Effect>) {
        let FinishedLookup { domain, waiting, fingerprints } = finished;
        for number in waiting {
            self.give_posh(now, (number, &domain), fingerprints.as_deref(), out);
        }
    }

    /// It could not be made, or is gone.
    pub fn handle_broken(&mut self, now: Instant, number: u64, failure: Failure, out: &mut Vec<Effect>) {
        if self.keeper.has(number) {
            return self.keeper.handle_broken(now, number, failure, out);
        }
        self.forget(now, number, out);
    }

    /// The system has taken so many of the bytes that were written.
    pub fn handle_written(&mut self, number: u64, count: usize, out: &mut Vec<Effect>) {
        self.keeper.handle_written(number, count, out);
        if let Some(caller) = self.callers.get_mut(&number) {
            caller.backlog.take(count, out);
        }
    }

    /// From a domain of ours to one that this shard owns.
    pub fn handle_stanza(&mut self, now: Instant, element: Box<Element>, out: &mut Vec<Effect>) {
        self.keeper.handle_stanza(now, element.into(), out);
    }

    /// Handles a stanza of a farm, whose origin waits for [`Effect::Outcome`].
    pub fn handle_outbound(&mut self, now: Instant, stanza: OutboundStanza, out: &mut Vec<Effect>) {
        self.keeper.handle_stanza(now, stanza, out);
    }

    /// Another shard owns these domains from now on: this one sends nothing more to them, but what is on its way. Stanzas that wait go
    /// back to their origins.
    pub fn stop(&mut self, is_meant: impl Fn(&str) -> bool, out: &mut Vec<Effect>) {
        self.keeper.stop(is_meant, out);
    }

    /// These domains have another owner, which learns of the streams that take stanzas back (XEP-0288).
    pub fn offer_again(&self, is_meant: impl Fn(&str) -> bool, out: &mut Vec<Effect>) {
        for (number, caller) in self.callers.iter().filter(|(_, caller)| caller.stream.is_bidi()) {
            let edge = self.edge(*number);
            let pairs = caller.stream.pairs().iter().filter(|pair| is_meant(&pair.remote));
            out.extend(pairs.map(|pair| Effect::Send(ShardMessage::Offer { edge, pair: pair.clone() })));
        }
    }

    /// Handles a message of another shard.
    pub fn handle_shard_message(&mut self, now: Instant, letter: ShardMessage, out: &mut Vec<Effect>) {
        match letter {
            ShardMessage::Verify { edge, question } => self.keeper.handle_question(now, edge, question, out),
            ShardMessage::Offer { edge, pair } => self.keeper.handle_offer(edge, pair, out),
            ShardMessage::Withdraw { edge, pair } => self.keeper.handle_withdrawn(edge, &pair),
            ShardMessage::Verified { edge, question, verdict } => {
                self.with(now, edge.connection, out, |stream, out| {
                    stream.handle_verified(&question, verdict, out);
                });
            }
            ShardMessage::Over { edge, element, receipt } => {
                self.send_back(now, edge.connection, OutboundStanza { element, receipt }, out);
            }
            ShardMessage::Outbound { element } => self.keeper.handle_stanza(now, element.into(), out),
        }
    }

    /// Over a stream that the other server opened, if it is still there.
    fn send_back(&mut self, now: Instant, number: u64, stanza: OutboundStanza, out: &mut Vec<Effect>) {
        let OutboundStanza { element, receipt } = stanza;
        let caller = self.callers.get(&number);
        let fits = caller
            .is_some_and(|caller| !caller.stream.is_closed() && caller.backlog.len() <= limits::S2S_UNSENT);
        if !fits {
            // Nothing of it was written, so the owner finds another way; `Withdraw` has reached it before this does.
            if caller.is_some() {
                self.withdraw(number, out);
            }
            return out.push(match receipt {
                Some(receipt) => Effect::Outcome(receipt, Outcome::Untaken),
                None => Effect::Send(ShardMessage::Outbound { element }),
            });
        }
        let mut fits = true;
        self.with(now, number, out, |stream, out| fits = stream.send(&element, out));
        if !fits && stanza::may_be_refused(&element) && element.name() != "presence" {
            let error = StanzaError::new(Condition::PolicyViolation, super::TOO_LARGE_FOR_OTHERS);
            out.push(Effect::Deliver(Box::new(stanza::refusal(&element, &error))));
        }
        self.note_receipt(number, receipt, fits, out);
    }

    /// A stanza with a receipt was given to a stream, or refused.
    fn note_receipt(&mut self, number: u64, receipt: Option<Receipt>, is_given: bool, out: &mut Vec<Effect>) {
        let Some(receipt) = receipt else { return };
        match self.callers.get_mut(&number) {
            Some(caller) if is_given => caller.backlog.note(Some(receipt)),
            None if is_given => out.push(Effect::Outcome(receipt, Outcome::Broken)),
            _ => out.push(Effect::Outcome(receipt, Outcome::Ended)),
        }
    }

    fn withdraw(&mut self, number: u64, out: &mut Vec<Effect>) {
        let edge = self.edge(number);
        let Some(caller) = self.callers.get(&number).filter(|caller| caller.stream.is_bidi()) else { return };
        for pair in caller.stream.pairs().to_vec() {
            out.push(Effect::Send(ShardMessage::Withdraw { edge, pair }));
        }
    }

    fn forget(&mut self, _now: Instant, number: u64, out: &mut Vec<Effect>) {
        self.withdraw(number, out);
        self.alarms.disarm(number);
        if let Some(mut caller) = self.callers.remove(&number) {
            caller.backlog.end(Outcome::Broken, out);
        }
    }

    fn with(
        &mut self,
        now: Instant,
        number: u64,
        out: &mut Vec<Effect>,
        act: impl FnOnce(&mut Incoming, &mut IncomingOutput),
    ) {
        let Some(caller) = self.callers.get_mut(&number) else { return };
        let mut done = IncomingOutput::default();
        act(&mut caller.stream, &mut done);
        if caller.backlog.len() + done.bytes.len() > limits::S2S_UNREAD && !caller.stream.is_closed() {
            caller.stream.fail(super::UNREAD, &mut done);
        }
        self.alarms.arm(number, caller.deadline(&self.settings));
        if !done.bytes.is_empty() {
            caller.backlog.give(done.bytes.len());
            out.push(Effect::Write { number, bytes: done.bytes });
        }
        for said in done.said {
            self.heard(now, number, said, out);
        }
    }

    fn heard(&mut self, now: Instant, number: u64, said: IncomingEvent, out: &mut Vec<Effect>) {
        let edge = self.edge(number);
        match said {
            IncomingEvent::StartTls => out.push(Effect::StartTls { number }),
            IncomingEvent::LookUp(domain) => self.look_up(now, number, &domain, out),
            IncomingEvent::Ask(question) => out.push(Effect::Send(ShardMessage::Verify { edge, question })),
            IncomingEvent::Paired(pair, by) => {
                let Some(caller) = self.callers.get(&number) else { return };
                self.counts.posh_proved += u64::from(by == Proof::Posh);
                let what = S2sStreamEvent::Accepted { by, is_encrypted: caller.stream.is_encrypted() };
                out.push(Effect::Note(LogEvent { pair: pair.clone(), what }));
                if caller.stream.is_bidi() {
                    out.push(Effect::Send(ShardMessage::Offer { edge, pair }));
                }
            }
            IncomingEvent::Refused(pair, why) => {
                self.counts.refused += 1;
                out.push(Effect::Note(LogEvent { pair, what: S2sStreamEvent::Refused { number, why } }));
            }
            IncomingEvent::Stanza(element) => {
                self.counts.stanzas_in += 1;
                out.push(Effect::Deliver(element));
            }
            IncomingEvent::TooLarge(element) => {
                self.counts.stanzas_in += 1;
                out.extend(super::too_large(&element));
            }
            IncomingEvent::Close { in_order } => {
                self.counts.faults += u64::from(!in_order);
                out.push(Effect::Close { number });
                self.forget(now, number, out);
            }
        }
    }

    /// Handles the timers that are due at `now`: idle connections close, failed attempts are repeated.
    pub fn expire(&mut self, now: Instant, out: &mut Vec<Effect>) {
        for finished in self.posh.expire(now, out) {
            self.finish_lookup(now, finished, out);
        }
        self.keeper.expire(now, out);
        while let Some(number) = self.alarms.pop(now) {
            let Some(caller) = self.callers.get(&number) else { continue };
            let deadline = caller.deadline(&self.settings);
            if deadline > now {
                self.alarms.arm(number, deadline);
                continue;
            }
            if caller.stream.hold_until().is_some_and(|until| until <= now) {
                self.with(now, number, out, |stream, out| stream.release(out));
                continue;
            }
            // RFC 6120 §4.9.3.4; a stream that was of use is only idle (§4.6.4).
            let is_idle = caller.stream.is_of_use();
            self.with(now, number, out, |stream, out| {
                if is_idle {
                    stream.close(out);
                } else {
                    stream.fail(("connection-timeout", "no domain was proved in time"), out);
                }
            });
        }
    }

    /// S2sSettings that count from now on. Streams with domains that are not allowed any more end.
    pub fn reload(&mut self, now: Instant, settings: &Arc<S2sSettings>, out: &mut Vec<Effect>) {
        self.settings = Arc::clone(settings);
        self.keeper.reload(now, Arc::clone(settings), out);
        let why = |pair: &Pair| match settings.demands(&pair.remote) {
            None if settings.is_local(&pair.remote) => Some(("invalid-from", "that domain is served here")),
            None => Some(("policy-violation", "this server does not speak with that domain")),
            // RFC 6120 §4.9.3.5.
            Some(_) => (!settings.is_local(&pair.local)).then_some(("host-gone", "")),
        };
        let over = self.callers.iter().filter_map(|(number, caller)| {
            let fault = caller.stream.pairs().iter().find_map(why)?;
            Some((*number, fault))
        });
        let over: Vec<_> = over.collect();
        for caller in self.callers.values_mut() {
            caller.stream.reload(Arc::clone(settings));
        }
        for (number, fault) in over {
            self.with(now, number, out, |stream, out| stream.fail(fault, out));
        }
    }

    /// The node ends.
    pub fn close_all(&mut self, now: Instant, out: &mut Vec<Effect>) {
        self.keeper.close_all(now, out);
        let numbers: Vec<u64> = self.callers.keys().copied().collect();
        for number in numbers {
            self.with(now, number, out, |stream, out| stream.fail(("system-shutdown", ""), out));
        }
    }
}
