//! The streams to other servers for the domains that this shard owns: the stream of each pair of domains, the
//! stanzas that wait for one, and their return when there is none.
//!
//! A stanza is given to a stream once, or answered once. Stanzas that were written to a connection before it
//! broke are lost (RFC 6120 §13.8 knows no receipt between servers) and are not sent twice.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use stdx::Instant;
use stdx::rng::Rng;

use super::dial::{Dial, DialRequest};
use super::failed_pairs::FailedPairs;
use super::outgoing::{Outgoing, OutgoingEvent, OutgoingOutput};
use super::posh::{CertificateHashes, PoshFingerprints};
use super::timers::Timers;
use super::{
    Connect, Counts, Effect, Failure, KeyQuery, LogEvent, OutboundStanza, Outcome, Pair, Proof, S2sSettings,
    S2sStreamEvent, Security, ShardMessage, Verdict,
};
use crate::stanza::{self, Condition};
use crate::{ConnectionId, Element, limits, ns};

/// The route of a pair's stanzas.
#[derive(Debug)]
enum StanzaRoute {
    /// For a stream that lets it speak.
    Waiting {
        queue: VecDeque<OutboundStanza>,
        bytes: usize,
    },
    Stream(u64),
    /// Over a stream that the other server opened (XEP-0288).
    Back(ConnectionId),
}

#[derive(Debug)]
pub(super) struct OutgoingRouter {
    settings: Arc<S2sSettings>,
    rng: Rng,
    ways: HashMap<Pair, StanzaRoute>,
    dials: HashMap<u64, Dial>,
    by_remote: HashMap<Box<str>, Vec<u64>>,
    failed: FailedPairs,
    alarms: Timers,
    last: u64,
    counts: Counts,
    /// Streams that wait for the POSH document of their domain, since the last `take_lookups`.
    lookups: Vec<(u64, Box<str>)>,
}

impl OutgoingRouter {
    pub(super) fn new(settings: Arc<S2sSettings>, rng: Rng) -> OutgoingRouter {
        OutgoingRouter {
            settings,
            rng,
            ways: HashMap::new(),
            dials: HashMap::new(),
            by_remote: HashMap::new(),
            failed: FailedPairs::default(),
            alarms: Timers::default(),
            // Odd; those of incoming streams are even.
            last: 1,
            counts: Counts::default(),
            lookups: Vec::new(),
        }
    }

    pub(super) fn counts(&self) -> Counts {
        Counts { outgoing: self.dials.len() as u64, ..self.counts }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.alarms.first()
    }

    pub(super) fn has(&self, number: u64) -> bool {
        self.dials.contains_key(&number)
    }

    /// From a domain of ours to one that this shard owns.
    pub(super) fn handle_stanza(&mut self, now: Instant, stanza: OutboundStanza, out: &mut Vec<Effect>) {
        let element = &stanza.element;
        let (Ok(Some(from)), Ok(Some(to))) = (stanza::from(element), stanza::to(element)) else {
            return ended(&stanza, out);
        };
        let pair = Pair { local: from.domain().into(), remote: to.domain().into() };
        if !self.settings.is_local(&pair.local) {
            // Other servers may not send through us to third servers.
            let text = "this server does not speak for that domain";
            return self.give_back(&stanza, &Failure::new(Condition::NotAllowed, text), out);
        }
        if self.settings.demands(&pair.remote).is_none() {
            let text = "this server does not speak with that domain";
            return self.give_back(&stanza, &Failure::new(Condition::NotAllowed, text), out);
        }
        match self.ways.get_mut(&pair) {
            Some(StanzaRoute::Stream(number)) => {
                let number = *number;
                self.send(now, number, &stanza, out);
            }
            Some(StanzaRoute::Back(edge)) => {
                let OutboundStanza { element, receipt } = stanza;
                self.counts.stanzas_out += 1;
                out.push(Effect::Send(ShardMessage::Over { edge: *edge, element, receipt }));
            }
            Some(StanzaRoute::Waiting { queue, bytes }) => {
                let size = size_of(element);
                if queue.len() < limits::S2S_QUEUE && *bytes + size <= limits::S2S_QUEUE_BYTES {
                    *bytes += size;
                    queue.push_back(stanza);
                    self.counts.waiting += 1;
                } else {
                    self.give_back(&stanza, &too_much(), out);
                }
            }
            None => self.begin_with(now, &pair, stanza, out),
        }
    }

    /// The first stanza of a pair that has no way.
    fn begin_with(&mut self, now: Instant, pair: &Pair, stanza: OutboundStanza, out: &mut Vec<Effect>) {
        if let Some(failure) = self.failed.current(now, pair).cloned() {
            return self.give_back(&stanza, &failure, out);
        }
        if self.ways.len() >= limits::S2S_PAIRS {
            return self.give_back(&stanza, &too_much(), out);
        }
        let bytes = size_of(&stanza.element);
        self.ways.insert(pair.clone(), StanzaRoute::Waiting { queue: [stanza].into(), bytes });
        self.counts.waiting += 1;
        self.begin(now, pair, out);
    }

    /// A stream for a pair that waits: one that is there, or a new one.
    fn begin(&mut self, now: Instant, pair: &Pair, out: &mut Vec<Effect>) {
        let there = self.by_remote.get(&pair.remote).into_iter().flatten().copied();
        let fits = |number: &u64| {
            self.dials.get(number).is_some_and(|dial| !dial.is_ready() || dial.stream.takes(&pair.local))
        };
        let Some(number) = there.into_iter().find(fits) else {
            let wanted = vec![pair.local.clone()];
            return self.dial(now, DialRequest { wanted, ..DialRequest::empty(pair.clone()) }, out);
        };
        if let Some(dial) = self.dials.get_mut(&number) {
            // It spoke for the domain before another shard owned the other one.
            if dial.is_ready() && dial.stream.may_send(&pair.local) {
                return self.flow(now, number, pair.clone(), out);
            }
            dial.wish.wanted.push(pair.local.clone());
            dial.asked = now;
        }
        self.with(now, number, out, |dial, out| {
            if dial.is_ready() {
                dial.stream.authorize(&pair.local, out);
            }
        });
    }

    /// Begins to connect.
    fn dial(&mut self, now: Instant, mut wish: DialRequest, out: &mut Vec<Effect>) {
        let Some(demands) = self.settings.demands(&wish.pair.remote) else {
            return self.fail(now, wish, &Failure::new(Condition::NotAllowed, "policy"), out);
        };
        self.last += 2;
        let number = self.last;
        if wish.tried == 0 {
            wish.random = self.rng.next_u64();
        }
        let (pair, random, tried) = (wish.pair.clone(), wish.random, wish.tried);
        out.push(Effect::Connect(Connect { number, pair: pair.clone(), random, tried }));
        let stream = Outgoing::new(Arc::clone(&self.settings), demands, pair.clone(), wish.avoid_external);
        let dial = Dial::new(now, wish, stream);
        self.alarms.arm(number, dial.deadline(&self.settings));
        self.by_remote.entry(pair.remote).or_default().push(number);
        self.counts.outgoing_total += 1;
        self.dials.insert(number, dial);
    }

    /// `next`: how many addresses were tried, when there are more.
    pub(super) fn handle_connected(
        &mut self,
        now: Instant,
        number: u64,
        (security, next): (Security, Option<usize>),
        out: &mut Vec<Effect>,
    ) {
        if let Some(dial) = self.dials.get_mut(&number) {
            (dial.is_connected, dial.next, dial.asked, dial.used) = (true, next, now, now);
        }
        self.with(now, number, out, |dial, out| dial.stream.handle_connected(security, out));
    }

    pub(super) fn handle_secured(
        &mut self,
        now: Instant,
        number: u64,
        security: Security,
        out: &mut Vec<Effect>,
    ) {
        self.with(now, number, out, |dial, out| dial.stream.handle_secured(security, out));
    }

    pub(super) fn handle_bytes(&mut self, now: Instant, number: u64, bytes: &[u8], out: &mut Vec<Effect>) {
        self.with(now, number, out, |dial, out| dial.stream.handle_bytes(bytes, out));
    }

    pub(super) fn handle_broken(
        &mut self,
        now: Instant,
        number: u64,
        failure: Failure,
        out: &mut Vec<Effect>,
    ) {
        self.lost(now, number, Some(failure), out);
    }

    /// The streams that wait for the POSH document of a domain, each once.
    pub(super) fn take_lookups(&mut self) -> Vec<(u64, Box<str>)> {
        std::mem::take(&mut self.lookups)
    }

    /// The certificate of the server at the other end of a stream.
    pub(super) fn presented(&self, number: u64) -> Option<&CertificateHashes> {
        self.dials.get(&number)?.stream.presented()
    }

    /// True for a stream that stanzas wait for: others only ask about keys.
    pub(super) fn is_for_stanzas(&self, number: u64) -> bool {
        self.dials.get(&number).is_some_and(|dial| !dial.wish.wanted.is_empty())
    }

    /// The lookup for a stream goes on: the stream waits until then at the latest, unless it needs the outcome.
    pub(super) fn hold(&mut self, number: u64, latest: Instant) {
        let Some(dial) = self.dials.get_mut(&number) else { return };
        dial.stream.hold(latest);
        self.alarms.arm(number, dial.deadline(&self.settings));
    }

    /// Takes the outcome of a lookup for a stream.
    pub(super) fn handle_posh(
        &mut self,
        now: Instant,
        number: u64,
        fingerprints: Option<&PoshFingerprints>,
        out: &mut Vec<Effect>,
    ) {
        self.with(now, number, out, |dial, out| dial.stream.handle_posh(fingerprints, out));
    }

    pub(super) fn handle_written(&mut self, number: u64, count: usize, out: &mut Vec<Effect>) {
        if let Some(dial) = self.dials.get_mut(&number) {
            dial.backlog.take(count, out);
        }
    }

    /// Lets a stream work, and does what comes of it.
    fn with(
        &mut self,
        now: Instant,
        number: u64,
        out: &mut Vec<Effect>,
        act: impl FnOnce(&mut Dial, &mut OutgoingOutput),
    ) {
        let Some(dial) = self.dials.get_mut(&number) else { return };
        let mut done = OutgoingOutput::default();
        act(dial, &mut done);
        let deadline = dial.deadline(&self.settings);
        self.alarms.arm(number, deadline);
        if !done.bytes.is_empty() {
            dial.backlog.give(done.bytes.len());
            out.push(Effect::Write { number, bytes: done.bytes });
        }
        for said in done.said {
            self.heard(now, number, said, out);
        }
    }

    fn heard(&mut self, now: Instant, number: u64, said: OutgoingEvent, out: &mut Vec<Effect>) {
        match said {
            OutgoingEvent::StartTls => out.push(Effect::StartTls { number }),
            OutgoingEvent::LookUp(domain) => self.lookups.push((number, domain)),
            OutgoingEvent::Ready => self.ready(now, number, out),
            OutgoingEvent::Authorized(local, proof) => {
                let Some(dial) = self.dials.get_mut(&number) else { return };
                dial.wish.wanted.retain(|wanted| *wanted != local);
                let is_encrypted = dial.stream.is_encrypted();
                let pair = dial.pair_of(local);
                let peer = dial.stream.peer_proof();
                self.counts.posh_proved += u64::from(peer == Some(Proof::Posh));
                let what = S2sStreamEvent::Connected { by: proof, peer, is_encrypted };
                out.push(Effect::Note(LogEvent { pair: pair.clone(), what }));
                self.failed.remove(&pair);
                self.flow(now, number, pair, out);
            }
            OutgoingEvent::Refused(local, failure) => {
                let Some(dial) = self.dials.get_mut(&number) else { return };
                dial.wish.wanted.retain(|wanted| *wanted != local);
                let pair = dial.pair_of(local);
                self.fail_pair(now, pair, &failure, out);
            }
            OutgoingEvent::Verified(question, verdict) => {
                let Some(dial) = self.dials.get_mut(&number) else { return };
                dial.used = now;
                if let Some(at) = dial.wish.questions.iter().position(|(_, asked)| *asked == question) {
                    let (edge, question) = dial.wish.questions.swap_remove(at);
                    out.push(Effect::Send(ShardMessage::Verified { edge, question, verdict }));
                }
            }
            OutgoingEvent::Stanza(element) => {
                self.counts.stanzas_in += 1;
                if let Some(dial) = self.dials.get_mut(&number) {
                    dial.used = now;
                }
                out.push(Effect::Deliver(element));
            }
            OutgoingEvent::TooLarge(element) => {
                self.counts.stanzas_in += 1;
                out.extend(super::too_large(&element));
            }
            OutgoingEvent::Close(failure) => {
                self.counts.faults += u64::from(failure.is_some());
                out.push(Effect::Close { number });
                self.lost(now, number, failure, out);
            }
        }
    }

    fn ready(&mut self, now: Instant, number: u64, out: &mut Vec<Effect>) {
        let Some(dial) = self.dials.get_mut(&number) else { return };
        dial.was_ready = true;
        let (mine, elsewhere): (Vec<_>, Vec<_>) =
            std::mem::take(&mut dial.wish.wanted).into_iter().partition(|local| dial.stream.takes(local));
        dial.wish.wanted.clone_from(&mine);
        let remote = dial.wish.pair.remote.clone();
        self.with(now, number, out, |dial, out| {
            mine.iter().for_each(|local| dial.stream.authorize(local, out));
            for (_, question) in dial.wish.questions.clone() {
                dial.stream.ask(question, out);
            }
        });
        for local in elsewhere {
            self.begin(now, &Pair { local, remote: remote.clone() }, out);
        }
    }

    /// The pair may speak: waiting stanzas go first.
    fn flow(&mut self, now: Instant, number: u64, pair: Pair, out: &mut Vec<Effect>) {
        // Over another way already: order is kept by staying there.
        let Some(StanzaRoute::Waiting { .. }) = self.ways.get(&pair) else { return };
        let waited = self.take_queue(&pair);
        if let Some(dial) = self.dials.get_mut(&number) {
            dial.speaking.push(pair.local.clone());
            self.ways.insert(pair, StanzaRoute::Stream(number));
        }
        for stanza in waited {
            self.send(now, number, &stanza, out);
        }
    }

    /// Removes a route and returns the stanzas that wait for it.
    fn take_queue(&mut self, pair: &Pair) -> VecDeque<OutboundStanza> {
        let Some(StanzaRoute::Waiting { queue, .. }) = self.ways.remove(pair) else { return VecDeque::new() };
        self.counts.waiting -= queue.len() as u64;
        queue
    }

    fn send(&mut self, now: Instant, number: u64, stanza: &OutboundStanza, out: &mut Vec<Effect>) {
        let is_stuck = self.dials.get(&number).is_none_or(|dial| dial.backlog.len() > limits::S2S_UNSENT);
        if is_stuck {
            return self.give_back(stanza, &too_much(), out);
        }
        let mut fits = true;
        self.with(now, number, out, |dial, out| {
            dial.used = now;
            fits = dial.stream.send(&stanza.element, out);
        });
        if !fits {
            let failure = Failure::new(Condition::PolicyViolation, super::TOO_LARGE_FOR_OTHERS);
            return self.give_back(stanza, &failure, out);
        }
        self.counts.stanzas_out += 1;
        match self.dials.get_mut(&number) {
            Some(dial) => dial.backlog.note(stanza.receipt),
            None => out.extend(stanza.receipt.map(|receipt| Effect::Outcome(receipt, Outcome::Broken))),
        }
    }

    /// A key that has to be asked about.
    pub(super) fn handle_question(
        &mut self,
        now: Instant,
        edge: ConnectionId,
        question: KeyQuery,
        out: &mut Vec<Effect>,
    ) {
        let there = self.by_remote.get(&question.pair.remote).into_iter().flatten().copied();
        let Some(number) = there.into_iter().next() else {
            let mut wish = DialRequest::empty(question.pair.clone());
            wish.questions.push((edge, question));
            return self.dial(now, wish, out);
        };
        let Some(dial) = self.dials.get_mut(&number) else { return };
        if dial.wish.questions.len() >= limits::S2S_VERIFIES {
            let verdict = Verdict::Error(Condition::ResourceConstraint);
            return out.push(Effect::Send(ShardMessage::Verified { edge, question, verdict }));
        }
        dial.wish.questions.push((edge, question.clone()));
        dial.asked = now;
        self.with(now, number, out, |dial, out| {
            if dial.is_ready() {
                dial.stream.ask(question, out);
            }
        });
    }

    /// The other server has opened a stream that takes stanzas back (XEP-0288).
    pub(super) fn handle_offer(&mut self, edge: ConnectionId, pair: Pair, out: &mut Vec<Effect>) {
        match self.ways.get(&pair) {
            // Order is kept by staying on a way.
            Some(StanzaRoute::Stream(_) | StanzaRoute::Back(_)) => return,
            None if self.ways.len() >= limits::S2S_PAIRS => return,
            _ if self.settings.demands(&pair.remote).is_none() => return,
            Some(StanzaRoute::Waiting { .. }) | None => {}
        }
        self.failed.remove(&pair);
        for OutboundStanza { element, receipt } in self.take_queue(&pair) {
            self.counts.stanzas_out += 1;
            out.push(Effect::Send(ShardMessage::Over { edge, element, receipt }));
        }
        self.ways.insert(pair, StanzaRoute::Back(edge));
    }

    pub(super) fn handle_withdrawn(&mut self, edge: ConnectionId, pair: &Pair) {
        if matches!(self.ways.get(pair), Some(StanzaRoute::Back(known)) if *known == edge) {
            self.ways.remove(pair);
        }
    }

    /// The connection is gone, or of no use.
    fn lost(&mut self, now: Instant, number: u64, failure: Option<Failure>, out: &mut Vec<Effect>) {
        let Some(mut dial) = self.dials.remove(&number) else { return };
        self.alarms.disarm(number);
        dial.backlog.end(Outcome::Broken, out);
        if let Some(numbers) = self.by_remote.get_mut(&dial.wish.pair.remote) {
            numbers.retain(|other| *other != number);
            if numbers.is_empty() {
                self.by_remote.remove(&dial.wish.pair.remote);
            }
        }
        for local in std::mem::take(&mut dial.speaking) {
            self.ways.remove(&dial.pair_of(local));
        }
        if dial.wish.is_empty() {
            return;
        }
        let failure = failure
            .unwrap_or_else(|| Failure::new(Condition::RemoteServerTimeout, "the server closed the stream"));
        match dial.again() {
            Some(again) => self.dial(now, again, out),
            None => self.fail(now, dial.wish, &failure, out),
        }
    }

    fn fail(&mut self, now: Instant, wish: DialRequest, failure: &Failure, out: &mut Vec<Effect>) {
        self.counts.failures += 1;
        for local in wish.wanted {
            let pair = Pair { local, remote: wish.pair.remote.clone() };
            self.fail_pair(now, pair, failure, out);
        }
        for (edge, question) in wish.questions {
            let verdict = Verdict::Error(failure.condition);
            out.push(Effect::Send(ShardMessage::Verified { edge, question, verdict }));
        }
    }

    /// There is no way, and for a while none is looked for.
    fn fail_pair(&mut self, now: Instant, pair: Pair, failure: &Failure, out: &mut Vec<Effect>) {
        out.push(Effect::Note(LogEvent {
            pair: pair.clone(),
            what: S2sStreamEvent::Failed(failure.clone()),
        }));
        if !matches!(self.ways.get(&pair), Some(StanzaRoute::Waiting { .. })) {
            return;
        }
        for stanza in self.take_queue(&pair) {
            self.give_back(&stanza, failure, out);
        }
        self.failed.insert(now, pair, failure);
    }

    pub(super) fn expire(&mut self, now: Instant, out: &mut Vec<Effect>) {
        while let Some(number) = self.alarms.pop(now) {
            let Some(dial) = self.dials.get(&number) else { continue };
            let deadline = dial.deadline(&self.settings);
            if deadline > now {
                self.alarms.arm(number, deadline);
            } else {
                self.expired(now, number, out);
            }
        }
    }

    fn expired(&mut self, now: Instant, number: u64, out: &mut Vec<Effect>) {
        let Some(dial) = self.dials.get_mut(&number) else { return };
        if dial.stream.hold_until().is_some() {
            return self.with(now, number, out, |dial, out| dial.stream.release(out));
        }
        let (pair, is_idle) = (dial.wish.pair.clone(), dial.wish.is_empty());
        let late = Failure::new(Condition::RemoteServerTimeout, "the server did not answer in time");
        if dial.is_connected && !is_idle && !dial.speaking.is_empty() {
            // Other pairs use it: only the waiting stanzas are returned.
            let rest = dial.wish.take();
            self.alarms.arm(number, now + self.settings.authorize);
            return self.fail(now, rest, &late, out);
        }
        if is_idle {
            out.push(Effect::Note(LogEvent { pair, what: S2sStreamEvent::Closed { why: "idle" } }));
        }
        self.hang_up(now, number, (!is_idle).then_some(late), out);
    }

    /// Our end of it.
    fn hang_up(&mut self, now: Instant, number: u64, failure: Option<Failure>, out: &mut Vec<Effect>) {
        self.with(now, number, out, |dial, out| dial.stream.close(out));
        out.push(Effect::Close { number });
        self.lost(now, number, failure, out);
    }

    /// Ends the streams that the policy does not allow any more.
    pub(super) fn reload(&mut self, now: Instant, settings: Arc<S2sSettings>, out: &mut Vec<Effect>) {
        self.settings = settings;
        let settings = &self.settings;
        let over = self.dials.iter().filter(|(_, dial)| settings.demands(&dial.wish.pair.remote).is_none());
        let over: Vec<u64> = over.map(|(number, _)| *number).collect();
        for number in over {
            let failure = Failure::new(Condition::NotAllowed, "policy");
            self.hang_up(now, number, Some(failure), out);
        }
        self.failed.clear();
    }

    /// The node ends.
    pub(super) fn close_all(&mut self, now: Instant, out: &mut Vec<Effect>) {
        let numbers: Vec<u64> = self.dials.keys().copied().collect();
        for number in numbers {
            if let Some(dial) = self.dials.get_mut(&number) {
                // Nothing follows it.
                (dial.wish.is_second, dial.next, dial.wish.avoid_external) = (true, None, true);
            }
            let failure = Failure::new(Condition::RemoteServerTimeout, "this server is shutting down");
            self.hang_up(now, number, Some(failure), out);
        }
    }

    /// Returns an error to the sender, if the stanza's kind permits one.
    fn give_back(&mut self, stanza: &OutboundStanza, failure: &Failure, out: &mut Vec<Effect>) {
        self.counts.returned += 1;
        out.extend(
            super::undelivered(&stanza.element, failure).map(|error| Effect::Deliver(Box::new(error))),
        );
        ended(stanza, out);
    }

    /// Another shard owns these domains from now on: their stanzas that wait go back to their origins. Their streams end when they are
    /// idle: until then the other server may send by them (XEP-0288).
    pub(super) fn stop(&mut self, is_meant: impl Fn(&str) -> bool, out: &mut Vec<Effect>) {
        let pairs: Vec<Pair> = self.ways.keys().filter(|pair| is_meant(&pair.remote)).cloned().collect();
        for pair in pairs {
            let waited = self.take_queue(&pair).into_iter().filter_map(|stanza| stanza.receipt);
            out.extend(waited.map(|receipt| Effect::Outcome(receipt, Outcome::Untaken)));
            self.ways.remove(&pair);
        }
        for dial in self.dials.values_mut().filter(|dial| is_meant(&dial.wish.pair.remote)) {
            dial.speaking.clear();
            dial.wish.wanted.clear();
        }
        self.failed.retain(|pair| !is_meant(&pair.remote));
    }
}

/// Tells the origin of a stanza that its way has ended.
fn ended(stanza: &OutboundStanza, out: &mut Vec<Effect>) {
    out.extend(stanza.receipt.map(|receipt| Effect::Outcome(receipt, Outcome::Ended)));
}

fn too_much() -> Failure {
    Failure::new(Condition::ResourceConstraint, "too much waits for that server")
}

/// About.
fn size_of(element: &Element) -> usize {
    element.written_len(ns::CLIENT)
}
