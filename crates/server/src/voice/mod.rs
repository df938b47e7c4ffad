//! Calls that applications answer: for each a script, a dialog and media, all of them on the shard of the call.
//!
//! The pure parts say what to do (`ivr::script`, `sip::session`, `media::session`) and this performs it. What takes
//! time (documents, speech, audio files) the helpers do, and post it back as letters.

mod asks;
mod begin;
pub(crate) mod helpers;
mod leg;
mod limits;
mod numbers;
mod offers;
mod perform;
mod ports;
mod prompts;
mod tick;

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use ivr::script::Script;
use sip::endpoint::{Decision, Endpoint, PlanRequest};
use sip::session::{SessionEvent, SessionId};
use stdx::Instant;
use stdx::rng::Rng;
use stdx::slab::{Key, Slab};

use crate::config;
use crate::shard::CallerProof;
use asks::{Asks, Wanted};
use helpers::{Done, Helpers};
use leg::Leg;
use numbers::Numbers;
use ports::Ports;

/// What calls cause in the shard's SIP.
pub(crate) struct World<'a> {
    pub(crate) endpoint: &'a mut Endpoint,
    pub(crate) out: &'a mut sip::endpoint::Outbox,
}

/// What the helpers have done, on its way to the shard that asked.
#[derive(Debug)]
pub struct Posted {
    ticket: u64,
    done: Done,
}

impl Posted {
    pub(crate) fn new(ticket: helpers::Ticket, done: Done) -> Posted {
        Posted { ticket: ticket.id, done }
    }
}

/// What one shard's calls have now, and have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VoiceCounts {
    // Now.
    pub calls: u64,
    /// Pairs of ports.
    pub ports: u64,
    /// Calls that speak, or wait for what they are to speak.
    pub prompts: u64,
    /// Documents and sounds on their way.
    pub asks: u64,
    /// Dialogs, those that only wait for the answer to their BYE among them.
    pub sessions: u64,

    // Since the start.
    pub calls_total: u64,
    pub digits_total: u64,
    pub packets_in: u64,
    pub packets_out: u64,
    /// Strangers' packets and malformed ones.
    pub packets_dropped: u64,
    /// What the kernel would not take.
    pub packets_unsent: u64,
    /// Ticks of 20 ms that were left out because the shard was late.
    pub ticks_missed: u64,
}

/// What all shards' calls have in common.
pub(crate) struct Common {
    pub(crate) config: config::Voice,
    numbers: Arc<Numbers>,
    helpers: Arc<Helpers>,
}

impl Common {
    pub(crate) fn new(config: config::Voice, helpers: Arc<Helpers>) -> Common {
        Common { numbers: Arc::new(Numbers::new(&config)), config, helpers }
    }
}

/// One shard's calls.
pub(crate) struct Voice {
    /// What peers are told.
    ip: IpAddr,
    account: Box<str>,
    token: Box<str>,
    numbers: Arc<Numbers>,
    asks: Asks,
    ports: Ports,
    rng: Rng,
    legs: Slab<Leg>,
    by_session: HashMap<SessionId, Key>,
    clockwork: tick::Clockwork,
    counts: VoiceCounts,
}

impl Voice {
    /// # Errors
    /// When the system gives no epoll or no randomness.
    pub(crate) fn new(common: &Common, shard: u16, shards: u16) -> std::io::Result<Option<Voice>> {
        let config = &common.config;
        let Some(media) = config.media else { return Ok(None) };
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| std::io::Error::other(error.to_string()))?;
        Ok(Some(Voice {
            ip: config.advertise.unwrap_or(media),
            account: config.account.clone(),
            token: config.auth_token.clone().unwrap_or_default(),
            numbers: Arc::clone(&common.numbers),
            asks: Asks::new(shard, Arc::clone(&common.helpers)),
            ports: Ports::new(media, &config.ports, shard, shards)?,
            rng: Rng::from_seed(seed),
            legs: Slab::new(),
            by_session: HashMap::new(),
            clockwork: tick::Clockwork::new(),
            counts: VoiceCounts::default(),
        }))
    }

    /// `None`: no number of an application.
    pub(crate) fn decide(
        &self,
        plan: &call::Plan,
        proof: CallerProof,
        request: &PlanRequest,
    ) -> Option<Decision> {
        self.numbers.decide(plan, proof, request)
    }

    pub(crate) fn counts(&self) -> VoiceCounts {
        let prompts = self.legs.iter().filter(|(_, leg)| leg.speaking.is_some()).count();
        VoiceCounts {
            calls: self.legs.len() as u64,
            ports: self.ports.used() as u64,
            prompts: prompts as u64,
            asks: self.asks.open() as u64,
            ..self.counts
        }
    }

    pub(crate) fn handle_event(&mut self, now: Instant, event: SessionEvent, world: &mut World<'_>) {
        let (session, event) = match event {
            SessionEvent::Invited { session, invited } => return self.begin(now, session, &invited, world),
            SessionEvent::Ended { session, .. } => return self.session_ended(now, session, world),
            SessionEvent::Confirmed { session, sdp } => return self.confirmed(now, session, sdp, world),
            SessionEvent::Offered { session, offer, sdp } => {
                return self.offered(now, session, offer, sdp.as_ref(), world);
            }
            SessionEvent::OfferAnswered { session, sdp: Some(sdp) } => return self.settled(session, &sdp),
            SessionEvent::Info { session, content_type, body } => {
                return self.informed(now, session, &content_type, &body, world);
            }
            SessionEvent::Referred { session, refer, .. } => {
                // The session may have ended meanwhile.
                let _ = world.endpoint.refuse_refer(now, session, refer, 603, "Decline", world.out);
                return;
            }
            SessionEvent::ReferAnswered { session, status } => (session, status),
            _ => return,
        };
        if let Some(&key) = self.by_session.get(&session)
            && let Some(id) = self.legs.get_mut(key).and_then(|leg| leg.referring.take())
        {
            self.drive(now, key, world, |script, out| script.handle_referred(now, id, event, out));
        }
    }

    /// From the helpers.
    pub(crate) fn handle_done(&mut self, now: Instant, posted: Posted, world: &mut World<'_>) {
        match (self.asks.take(posted.ticket), posted.done) {
            (Some(Wanted::Document(key, id)), Done::Fetched(result)) => {
                self.drive(now, key, world, |script, out| script.handle_fetched(now, id, result, out));
            }
            (Some(Wanted::Sound(sound, waiters)), Done::Samples(result)) => {
                for waiter in waiters {
                    let prompt = match &result {
                        Ok(samples) => self.asks.frames.encode(&sound, waiter.codec, samples),
                        Err(text) => Err(text.clone()),
                    };
                    self.sound_came(now, waiter, prompt, world);
                }
            }
            // A callback's answer, which is nobody's.
            _ => {}
        }
    }

    fn session_ended(&mut self, now: Instant, session: SessionId, world: &mut World<'_>) {
        let Some(key) = self.by_session.remove(&session) else { return };
        if let Some(leg) = self.legs.get_mut(key) {
            leg.is_gone = true;
        }
        self.close_media(now, key);
        self.drive(now, key, world, |script, out| script.handle_hangup(now, out));
    }

    fn informed(
        &mut self,
        now: Instant,
        session: SessionId,
        content_type: &str,
        body: &[u8],
        world: &mut World<'_>,
    ) {
        let kind = media::dtmf_info::Kind::from_content_type(content_type);
        let digit = kind.and_then(|_| media::dtmf_info::parse(body));
        if let (Some(digit), Some(&key)) = (digit, self.by_session.get(&session)) {
            self.digit(now, key, digit.digit.to_char(), world);
        }
    }

    fn digit(&mut self, now: Instant, key: Key, digit: char, world: &mut World<'_>) {
        self.counts.digits_total += 1;
        self.drive(now, key, world, |script, out| script.handle_digit(now, digit, out));
    }

    /// The node leaves: every call gets its BYE.
    pub(crate) fn hang_up_all(&mut self, now: Instant, world: &mut World<'_>) {
        let keys: Vec<Key> = self.legs.iter().map(|(key, _)| key).collect();
        for key in keys {
            self.drive(now, key, world, |script, out| script.hang_up(now, out));
        }
    }

    /// Tells a script something and performs what it makes of it, in order.
    fn drive(
        &mut self,
        now: Instant,
        key: Key,
        world: &mut World<'_>,
        tell: impl FnOnce(&mut Script, &mut ivr::script::Outbox),
    ) {
        let Some(leg) = self.legs.get_mut(key) else { return };
        let mut new = Vec::new();
        tell(&mut leg.script, &mut new);
        let mut todo = VecDeque::from(std::mem::take(&mut new));
        while let Some(effect) = todo.pop_front() {
            self.perform(now, key, effect, world, &mut new);
            todo.extend(new.drain(..));
        }
    }

    /// RTCP's goodbye, and the ports are free.
    fn close_media(&mut self, now: Instant, key: Key) {
        let Some(leg) = self.legs.get_mut(key) else { return };
        let (media, pair) = (leg.media.take(), leg.pair.take());
        leg.speaking = None;
        let Some(pair) = pair else { return };
        if let Some(mut media) = media {
            self.clockwork.finish(now, key, &mut media, &pair, &mut self.counts);
        }
        self.ports.close(pair);
    }

    fn remove(&mut self, now: Instant, key: Key, world: &mut World<'_>) {
        self.close_media(now, key);
        let Some(leg) = self.legs.remove(key) else { return };
        self.by_session.remove(&leg.session);
        if !leg.is_gone {
            world.endpoint.hang_up(now, leg.session, None, world.out);
        }
    }
}
