//! Calls that applications answer: for each a script, a dialog and media, all of them on the shard of the call.
//!
//! The pure parts decide (`ivr::script`, `sip::session`, `media::session`) and this module performs their effects.
//! Helpers do the slow work (documents, speech, audio files), and post the results back as messages.

mod active_recordings;
mod actor;
mod begin;
mod bridge;
mod caller_ids;
pub(crate) mod control;
mod dial;
mod dial_attempt;
mod helper_requests;
pub(crate) mod helpers;
mod leg;
pub(crate) mod limits;
pub(crate) mod media_rules;
mod message;
mod messages;
pub(crate) mod numbers;
mod offers;
mod outgoing;
mod perform;
mod phases;
mod ports;
mod prompts;
mod recognise;
pub(crate) mod record;
pub(crate) mod recordings;
mod refer;
mod resolving;
mod ringing;
mod rooms;
mod rows;
mod speak;
mod stream;
mod tick;

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ivr::script::{CallStatus, Effect, LegEvent, Script};
use sip::endpoint::{Decision, Endpoint, PlanRequest};
use sip::session::{Cause, SessionEvent, SessionId};
use stdx::Instant;
use stdx::rng::Rng;
use stdx::slab::{Key, Slab};

use crate::config;
use crate::shard::CallerProof;
use actor::{Actor, Part};
use dial_attempt::DialAttempt;
use helper_requests::{HelperRequests, TicketOutcome};
use helpers::{Done, Helpers};
use leg::Leg;
use media_rules::MediaRules;
use outgoing::CallOrigin;
use ports::Ports;
use record::Recordings;
use recordings::Files;
use ringing::RingTones;

pub use control::Order;
pub use message::VoiceShardMessage;
pub(crate) use message::{Address, CountedCall, Destination, Purpose, Resolved, VoiceEffect};
pub use numbers::Numbers;

/// `ApiVersion` of requests to applications: RestComm's.
const API_VERSION: &str = "2012-04-24";

/// The shard's SIP endpoint, and the outboxes that calls fill.
pub(crate) struct World<'a> {
    pub(crate) endpoint: &'a mut Endpoint,
    pub(crate) out: &'a mut sip::endpoint::EndpointOutbox,
    pub(crate) outbox: &'a mut Vec<VoiceEffect>,
}

/// A helper's result, on its way to the shard that asked.
#[derive(Debug)]
pub struct HelperResult {
    ticket: u64,
    done: Done,
}

impl HelperResult {
    pub(crate) fn new(ticket: helpers::Ticket, done: Done) -> HelperResult {
        HelperResult { ticket: ticket.id, done }
    }
}

/// Current numbers and totals of one shard's calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VoiceCounts {
    // Now.
    pub calls: u64,
    /// Pairs of ports.
    pub ports: u64,
    /// Calls that speak, or wait for what they are to speak.
    pub prompts: u64,
    /// Documents, sounds, texts and mails on their way.
    pub asks: u64,
    /// Media streams, until the last word of each is said.
    pub streams: u64,
    /// Conferences, and connections of queues.
    pub rooms: u64,
    pub queues: u64,
    /// Members of rooms and queues of this shard.
    pub members: u64,
    /// Legs of this shard that are, or want to be, in a room or queue.
    pub seats: u64,
    /// Recordings under way, those that only wait for the disk among them, and callers whose words are awaited.
    pub recordings: u64,
    /// Dialogs, those that only wait for the answer to their BYE among them.
    pub sessions: u64,

    // Since the start.
    pub calls_total: u64,
    pub digits_total: u64,
    pub packets_in: u64,
    pub packets_out: u64,
    /// Packets from unknown sources, and malformed ones.
    pub packets_dropped: u64,
    /// Packets that the kernel did not take.
    pub packets_unsent: u64,
    /// Frames that applications were too slow to be sent.
    pub stream_frames_lost: u64,
    /// Ticks of 20 ms that were left out because the shard was late.
    pub ticks_missed: u64,
    /// Calls whose peer sent no media for `[voice] media_timeout`.
    pub media_timeouts: u64,
}

/// State that the calls of all shards share.
pub(crate) struct Common {
    pub(crate) config: config::Voice,
    /// The default domain.
    domain: Box<str>,
    numbers: Arc<Numbers>,
    helpers: Arc<Helpers>,
    files: Arc<Files>,
    /// The URL under which applications find this node's HTTP.
    public_url: Box<str>,
}

impl Common {
    pub(crate) fn new(
        config: config::Voice,
        numbers: Numbers,
        domain: &str,
        helpers: Arc<Helpers>,
        files: Arc<Files>,
        public_url: &str,
    ) -> Common {
        Common {
            numbers: Arc::new(numbers),
            config,
            domain: domain.into(),
            helpers,
            files,
            public_url: public_url.into(),
        }
    }

    /// The node's recordings, for the REST interface.
    pub(crate) fn files(&self) -> &Arc<Files> {
        &self.files
    }
}

/// The account on whose behalf an application is requested.
pub(crate) struct Owner {
    /// `AccountSid`.
    pub(crate) account: Box<str>,
    /// Signs requests; empty: unsigned.
    pub(crate) signing_key: Box<str>,
}

impl std::fmt::Debug for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The key may be the account's token.
        write!(f, "Owner({}, hidden)", self.account)
    }
}

/// One shard's calls.
///
/// - A leg (`leg`) is a dialog, its media and a pair of ports. An actor (`actor`) is a script at work on a leg. `begin` adds legs
///   and actors, `remove` and `actor_ended` end them.
/// - `drive` passes an event to a script and queues its effects; `perform` performs them in order, so no effect is
///   performed inside another.
/// - A dial attempt (`dial_attempt`) is one call that a Dial or the REST interface places; the routing plan finds its phones
///   (`resolving`). Its INVITEs have Call-IDs of this shard.
/// - A bridge (`bridge`) is two legs of one shard, of one Dial. Legs of several shards hear each other in a room (`rooms`).
/// - No thread and no task belongs to a call. Without `[voice] media` there is no `Voice`.
pub(crate) struct Voice {
    /// The address that peers are told.
    ip: IpAddr,
    media_rules: MediaRules,
    /// `[voice] allow_private`.
    allow_private: bool,
    /// `[voice] end_pause`.
    end_pause: Duration,
    numbers: Arc<Numbers>,
    /// Calls that come in, and legs of theirs, are written to the record.
    has_records: bool,
    /// When calls that ring are looked for.
    rows_due: Instant,
    /// Rows of calls that REST asked for and that are no legs yet.
    placed: HashMap<String, store::rest::types::RestCall>,
    asks: HelperRequests,
    ports: Ports,
    rng: Rng,
    legs: Slab<Leg>,
    actors: Slab<Actor>,
    /// Callees of Dials and of the REST interface.
    parties: Slab<DialAttempt>,
    home: CallOrigin,
    tones: RingTones,
    rooms: rooms::Rooms,
    resolving: resolving::Resolving,
    texts: messages::Texts,
    recordings: Recordings,
    by_session: HashMap<SessionId, Key>,
    /// Effects of scripts that are not performed yet, in order.
    todo: VecDeque<(Key, Effect)>,
    /// A caller further up the stack performs the effects in `todo`.
    is_performing: bool,
    clockwork: tick::MediaTicker,
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
        let mut rng = Rng::from_seed(seed);
        Ok(Some(Voice {
            ip: config.advertise.unwrap_or(media),
            media_rules: MediaRules::new(config, config.advertise.unwrap_or(media)),
            allow_private: config.allow_private,
            end_pause: config.end_pause,
            numbers: Arc::clone(&common.numbers),
            has_records: config.records,
            rows_due: Instant::default(),
            placed: HashMap::new(),
            asks: HelperRequests::new(shard, Arc::clone(&common.helpers)),
            ports: Ports::new(media, &config.ports, shard, shards)?,
            legs: Slab::new(),
            actors: Slab::new(),
            parties: Slab::new(),
            home: CallOrigin::new(&common.domain, shard, shards),
            tones: RingTones::default(),
            resolving: resolving::Resolving::default(),
            texts: messages::Texts::default(),
            rooms: rooms::Rooms::new(shard, shards, rng.fork()),
            recordings: Recordings::new(Arc::clone(&common.files), &common.public_url),
            rng,
            by_session: HashMap::new(),
            todo: VecDeque::new(),
            is_performing: false,
            clockwork: tick::MediaTicker::new(),
            counts: VoiceCounts::default(),
        }))
    }

    /// Whether an application answers that address.
    pub(crate) fn answers(&self, plan: &call::Plan, address: &Address) -> bool {
        self.numbers.answers(plan, &address.user, &address.host, address.port)
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
        let [rooms, queues, members, seats] = self.rooms.counts();
        VoiceCounts {
            rooms,
            queues,
            members,
            seats,
            calls: self.legs.len() as u64,
            ports: self.ports.used() as u64,
            prompts: prompts as u64,
            asks: (self.asks.open() + self.texts.open()) as u64,
            streams: self.asks.streams() as u64,
            recordings: self.recordings_open() as u64,
            ..self.counts
        }
    }

    pub(crate) fn handle_event(&mut self, now: Instant, event: SessionEvent, world: &mut World<'_>) {
        let (session, event) = match event {
            SessionEvent::Invited { session, invited } => return self.begin(now, session, &invited, world),
            SessionEvent::Ended { session, cause } => {
                return self.session_ended(now, session, &cause, world);
            }
            SessionEvent::Confirmed { session, sdp } => return self.confirmed(now, session, sdp, world),
            SessionEvent::Offered { session, offer, sdp } => {
                return self.offered(now, session, offer, sdp.as_ref(), world);
            }
            SessionEvent::OfferAnswered { session, sdp: Some(sdp) } => return self.settled(session, &sdp),
            SessionEvent::Info { session, content_type, body } => {
                return self.informed(now, session, &content_type, &body, world);
            }
            SessionEvent::MessageAnswered { message, status } => {
                return self.message_answered(now, message, status, world);
            }
            SessionEvent::ReferAnswered { session, status } => (session, status),
            other => return self.handle_outgoing(now, other, world),
        };
        let Some(&key) = self.by_session.get(&session) else { return };
        if let Some((actor, id)) = self.legs.get_mut(key).and_then(|leg| leg.referring.take()) {
            self.drive(now, actor, world, |script, out| script.handle_referred(now, id, event, out));
        }
    }

    pub(crate) fn handle_message(&mut self, now: Instant, message: VoiceShardMessage, world: &mut World<'_>) {
        match message {
            VoiceShardMessage::Done(posted) => self.handle_done(now, posted, world),
            VoiceShardMessage::Room(message) => self.handle_room_message(now, message, world),
            VoiceShardMessage::Control(order) => self.handle_order(now, order, world),
            VoiceShardMessage::Numbers(numbers) => self.numbers = numbers,
        }
    }

    /// From the helpers.
    fn handle_done(&mut self, now: Instant, posted: HelperResult, world: &mut World<'_>) {
        let HelperResult { ticket, done } = posted;
        match done {
            Done::Fetched(result) => {
                // A callback's answer is ignored.
                let Some(TicketOutcome::Document(actor, id)) = self.asks.take(ticket) else { return };
                self.drive(now, actor, world, |script, out| script.handle_fetched(now, id, result, out));
            }
            Done::Samples(result) => {
                let Some(TicketOutcome::Sound(sound, waiters)) = self.asks.take(ticket) else { return };
                for waiter in waiters {
                    let prompt = match &result {
                        Ok(samples) => self.asks.frames.encode(&sound, waiter.codec, samples),
                        Err(text) => Err(text.clone()),
                    };
                    self.sound_came(now, waiter, prompt, world);
                }
            }
            Done::Stream(news) => self.stream_news(now, ticket, news, world),
            Done::Mailed(result) => self.mailed(now, ticket, result, world),
            Done::Written(result) => self.written(now, ticket, result, world),
            Done::Heard(heard) => self.heard(now, ticket, heard, world),
            Done::Transcribed(result) => self.transcribed(now, ticket, result, world),
        }
    }

    /// A random number for a name that cannot be guessed.
    fn random(&mut self) -> u128 {
        (u128::from(self.rng.next_u64()) << 64) | u128::from(self.rng.next_u64())
    }

    fn session_ended(&mut self, now: Instant, session: SessionId, cause: &Cause, world: &mut World<'_>) {
        let Some(key) = self.by_session.remove(&session) else { return };
        if let Some(leg) = self.legs.get_mut(key) {
            leg.is_gone = true;
        }
        self.close_media(now, key);
        self.drive_leg(now, key, world, |script, out| script.handle_hangup(now, out));
        if let Some(party) = self.legs.get(key).and_then(|leg| leg.party) {
            self.phone_ended(now, party, key, cause, world);
        }
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
            self.cross_digit(key, digit.digit);
            self.digit(now, key, digit.digit.to_char(), world);
        }
    }

    fn digit(&mut self, now: Instant, key: Key, digit: char, world: &mut World<'_>) {
        self.counts.digits_total += 1;
        self.stream_digit(key, digit);
        self.drive_leg(now, key, world, |script, out| script.handle_digit(now, digit, out));
    }

    /// The node leaves: every call gets its BYE.
    pub(crate) fn hang_up_all(&mut self, now: Instant, world: &mut World<'_>) {
        let keys: Vec<Key> = self.legs.iter().map(|(key, _)| key).collect();
        for key in keys {
            self.drive_leg(now, key, world, |script, out| script.hang_up(now, out));
        }
    }

    /// Tells all scripts of a leg: first the one beside the call's own.
    fn drive_leg(
        &mut self,
        now: Instant,
        leg: Key,
        world: &mut World<'_>,
        tell: impl Fn(&mut Script, &mut ivr::script::Outbox),
    ) {
        let Some(leg) = self.legs.get(leg) else { return };
        for actor in [leg.aside, leg.main].into_iter().flatten() {
            self.drive(now, actor, world, &tell);
        }
    }

    /// Tells a script something and performs what it makes of it, in order. Called again while that goes on, what comes
    /// of it is performed after what is to be done already.
    fn drive(
        &mut self,
        now: Instant,
        actor: Key,
        world: &mut World<'_>,
        tell: impl FnOnce(&mut Script, &mut ivr::script::Outbox),
    ) {
        let Some(told) = self.actors.get_mut(actor) else { return };
        let mut effects = Vec::new();
        tell(&mut told.script, &mut effects);
        let (leg_key, is_up) = (told.leg, told.script.status() == CallStatus::InProgress);
        if let Some(leg) = self.legs.get_mut(leg_key) {
            self.clockwork.arm(now, told.script.deadline(), leg_key, leg);
        }
        if is_up {
            self.call_answered(now, leg_key, world);
        }
        self.todo.extend(effects.into_iter().map(|effect| (actor, effect)));
        if self.is_performing {
            return;
        }
        self.is_performing = true;
        while let Some((actor, effect)) = self.todo.pop_front() {
            self.perform(now, actor, effect, world);
        }
        self.is_performing = false;
    }

    /// The leg on which an actor performs.
    fn leg_of(&mut self, actor: Key) -> Option<(Key, &mut Leg)> {
        let key = self.actors.get(actor)?.leg;
        self.legs.get_mut(key).map(|leg| (key, leg))
    }

    /// RTCP's goodbye, and the ports are free.
    fn close_media(&mut self, now: Instant, key: Key) {
        self.end_recordings(now, key);
        let Some(leg) = self.legs.get_mut(key) else { return };
        let (media, pair) = (leg.media.take().filter(|_| !leg.is_held), leg.pair.take());
        (leg.speaking, leg.first_digits) = (None, None);
        let Some(pair) = pair else { return };
        if let Some(mut media) = media {
            self.clockwork.finish(now, key, &mut media, &pair, &mut self.counts);
        }
        self.ports.close(pair);
    }

    /// A script has ended, and what it was for.
    fn actor_ended(&mut self, now: Instant, actor: Key, world: &mut World<'_>) {
        let Some(Actor { leg, part, .. }) = self.actors.remove(actor) else { return };
        if let Some(leg) = self.legs.get_mut(leg) {
            leg.aside = leg.aside.filter(|aside| *aside != actor);
        }
        match part {
            Part::Main => self.remove(now, leg, world),
            Part::Waiting { main, id } => self.aside_ended(now, (actor, main, id), world),
            Part::Screening { caller, id, accepted } => {
                let screened = LegEvent::Screened { accepted };
                self.drive(now, caller, world, |script, out| script.handle_leg(now, id, screened, out));
            }
        }
    }

    /// Removes a leg with everything that belongs to it.
    fn remove(&mut self, now: Instant, key: Key, world: &mut World<'_>) {
        self.part(now, key, world);
        self.close_media(now, key);
        // A script has already reported how its call ended.
        self.call_ended(now, key, None, world);
        let Some(mut leg) = self.legs.remove(key) else { return };
        release(leg.counted.take(), world);
        for actor in [leg.main, leg.aside].into_iter().flatten() {
            self.actors.remove(actor);
        }
        self.by_session.remove(&leg.session);
        if !leg.is_gone {
            world.endpoint.sessions(now, world.out).hang_up(leg.session, None);
        }
        for party in leg.dialing.map(|dialing| dialing.parties).unwrap_or_default() {
            self.drop_party(now, party, world);
        }
    }
}

/// The last of those that have a call counted ends it.
fn release(counted: Option<Arc<CountedCall>>, world: &mut World<'_>) {
    if let Some(counted) = counted.and_then(Arc::into_inner) {
        world.outbox.push(counted.changed(router::CallPhase::Terminated));
    }
}
