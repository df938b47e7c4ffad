//! Calls that applications answer, of one shard: for each a script, a dialog and media.
//!
//! [`Voice`] composes the machines that decide (`ivr::script`, `sip::session`, `media::session`, `rooms`) and performs
//! their effects. Inputs are events of dialogs, datagrams, results of helpers, messages of other shards and requests of
//! the REST interface; outputs are effects of the endpoint and [`VoiceEffect`]s. The crate opens no socket and no file,
//! starts no thread and reads no clock: the shard's edge gives [`MediaSockets`], a [`HelperService`] for slow work
//! (documents, speech, audio files, mail), and [`RecordingFiles`].

#![warn(missing_docs)]

mod active_recordings;
mod actor;
mod begin;
mod bridge;
mod call_trace;
mod caller_ids;
mod calls;
pub mod control;
mod dial;
mod dial_attempt;
mod dial_effect;
mod dial_recording;
mod effect;
mod forwarded;
mod helper_requests;
mod helper_service;
mod keys;
mod leg;
mod limits;
pub mod lost_calls;
mod mailboxes;
mod media_rules;
mod messages;
pub mod numbers;
mod offers;
mod outgoing;
mod perform;
mod phases;
mod phone_leg;
mod prompts;
mod queue_rows;
mod recognise;
pub mod record;
mod recording_callbacks;
mod recording_files;
mod recording_rows;
pub mod redial;
#[cfg(test)]
mod redial_tests;
mod refer;
mod resolving;
mod ringing;
mod rooms;
mod rows;
mod settings;
mod sockets;
mod speak;
mod stream;
#[cfg(test)]
mod testing;
mod tick;

use std::sync::Arc;

use ivr::script::{LegEvent, Script};
use sip::endpoint::{Decision, Endpoint, PlanRequest};
use sip::session::{Cause, SessionEvent, SessionId};
use stdx::Instant;
use stdx::rng::Rng;
use stdx::slab::Key;

use actor::{Actor, Part};
use calls::Calls;
use dial::Dials;
use dial_effect::DialOutbox;
use helper_requests::{HelperRequests, TicketOutcome};
use keys::{KeyForm, digit_of_info};
use offers::ReceivedOffer;
use outgoing::CallOrigin;
use record::Recordings;
use refer::ReferRequest;
use resolving::Resolutions;
use ringing::RingTones;
use rows::RingingRows;

pub use call_trace::{CallPart, CallPartKind, CallTrace, MediaFigures};
pub use effect::{Address, Destination, Purpose, Resolved, VoiceEffect};
pub use helper_service::{
    Done, HelperResult, HelperService, MediaStreamEvent, Opening, PlayedRecording, RecognitionResult,
    SpeechListener, StreamMessage, StreamOrder, StreamSender, Ticket,
};
pub use numbers::{CallerStanding, Numbers};
pub use recording_files::{RecordingFile, RecordingFiles};
pub use rooms::message as room_message;
pub use rooms::{RoomHomes, RoomMessage, set_room_homes};
pub use settings::{
    Common, ConfiguredNumber, NumberSettings, OwnsCallId, RedialPolicy, Settings, ShardPlace,
};
pub use sockets::{MediaSender, MediaSockets, PortKind, PortPair};

pub(crate) use effect::CountedCall;

/// `ApiVersion` of requests to applications: RestComm's.
const API_VERSION: &str = "2012-04-24";

/// The shard's SIP endpoint and media sockets, and the outboxes that calls fill.
pub struct World<'a> {
    /// Has the dialogs of calls.
    pub endpoint: &'a mut Endpoint,
    /// Effects of the endpoint.
    pub out: &'a mut sip::endpoint::EndpointOutbox,
    /// Effects of calls.
    pub outbox: &'a mut Vec<VoiceEffect>,
    /// Sends what legs say.
    pub sockets: &'a mut dyn MediaSockets,
}

/// Current numbers and totals of one shard's calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VoiceCounts {
    // Now.
    /// Legs.
    pub calls: u64,
    /// Pairs of ports.
    pub ports: u64,
    /// Calls that speak, or wait for what they are to speak.
    pub prompts: u64,
    /// Documents, sounds, texts and mails on their way.
    pub helper_requests: u64,
    /// Media streams, until the last word of each is said.
    pub streams: u64,
    /// Conferences, and connections of queues.
    pub rooms: u64,
    /// Queues, each with the callers that wait in it.
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
    /// Callbacks that were not sent, as too many were open.
    pub callbacks_dropped: u64,
    /// Dialogs of legs.
    pub calls_total: u64,
    /// Keys that were told to scripts.
    pub digits_total: u64,
    /// Datagrams received at media ports.
    pub packets_in: u64,
    /// Datagrams sent from them.
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

/// The account on whose behalf an application is requested.
pub struct Owner {
    /// `AccountSid`.
    pub account: Box<str>,
    /// Signs requests; empty: unsigned.
    pub signing_key: Box<str>,
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
///   and actors, `remove` and `actor_ended` end them. [`Calls`] owns both; the machines beside it ([`Recordings`],
///   `rooms::Rooms`, `messages::Texts`) get it as an argument.
/// - `Calls::tell` passes an event to a script and queues its effects; `perform_queued` performs them in order, so no
///   effect is performed inside another. `drive` does both.
/// - A dial attempt (`dial_attempt`) is one call that a Dial or the REST interface places; the routing plan finds its phones
///   (`resolving`). Its INVITEs have Call-IDs of this shard. [`Dials`] owns the attempts and returns effects (`dial_effect`),
///   which are performed at once, in order.
/// - A bridge (`bridge`) is two legs of one shard, of one Dial. Legs of several shards hear each other in a room (`rooms`).
/// - No thread and no task belongs to a call. Without `[voice] media` there is no `Voice`.
pub struct Voice {
    calls: Calls,
    numbers: Arc<Numbers>,
    dials: Dials,
    tones: RingTones,
    ringing_rows: RingingRows,
    rooms: rooms::Rooms,
    resolutions: Resolutions,
    texts: messages::Texts,
    recordings: Recordings,
    /// A caller further up the stack performs the effects in `queued_effects`.
    is_performing: bool,
}

impl Voice {
    /// The calls of one shard: none yet.
    pub fn new(common: &Common, place: ShardPlace) -> Voice {
        let ShardPlace { shard, shards, seed, owns_call_id } = place;
        let settings = &common.settings;
        let mut rng = Rng::from_seed(seed);
        let own = router::ShardAddress::new(router::Life(common.life), shard);
        let rooms = rooms::Rooms::new(own, shards, rng.fork(), Arc::clone(&common.remote_members));
        let origin = CallOrigin::new(&common.domain, owns_call_id);
        let mut dials = Dials::new(origin, rng.fork(), settings.records, settings.allow_private);
        dials.life = common.life;
        let helper_requests = HelperRequests::new(shard, Arc::clone(&common.helpers));
        let mut calls = Calls::new(settings, helper_requests, rng);
        calls.life = common.life;
        calls.trace = common.trace.clone();
        Voice {
            calls,
            numbers: Arc::clone(&common.numbers),
            dials,
            tones: RingTones::default(),
            ringing_rows: RingingRows::default(),
            resolutions: Resolutions::default(),
            texts: messages::Texts::default(),
            rooms,
            recordings: Recordings::new(Arc::clone(&common.files), &common.public_url),
            is_performing: false,
        }
    }

    /// True if an application answers that address.
    pub fn answers(&self, plan: &call::Plan, address: &Address) -> bool {
        self.numbers.answers(plan, &address.user, &address.host, address.port)
    }

    /// `None`: no number of an application.
    pub fn decide(
        &self,
        plan: &call::Plan,
        request: &PlanRequest,
        caller: CallerStanding<'_>,
    ) -> Option<Decision> {
        self.numbers.decide(plan, request, caller)
    }

    /// Numbers and totals, but for those of the shard's edge: `ports` and `sessions`.
    pub fn counts(&self) -> VoiceCounts {
        let prompts = self.calls.legs.iter().filter(|(_, leg)| leg.speaking.is_some()).count();
        let [rooms, queues, members, seats] = self.rooms.counts();
        VoiceCounts {
            rooms,
            queues,
            members,
            seats,
            calls: self.calls.legs.len() as u64,
            prompts: prompts as u64,
            helper_requests: (self.calls.helper_requests.open() + self.texts.open()) as u64,
            streams: self.calls.helper_requests.streams() as u64,
            recordings: self.recordings.open(&self.calls) as u64,
            callbacks_dropped: self.calls.helper_requests.dropped(),
            ..self.calls.counts
        }
    }

    /// An event of a dialog.
    pub fn handle_event(&mut self, now: Instant, event: SessionEvent, world: &mut World<'_>) {
        let (session, event) = match event {
            SessionEvent::Invited { session, invited } => return self.begin(now, session, &invited, world),
            SessionEvent::Ended { session, cause } => {
                return self.session_ended(now, session, &cause, world);
            }
            SessionEvent::Confirmed { session, sdp } => return self.confirmed(now, session, sdp, world),
            SessionEvent::Offered { session, offer: id, sdp, source, proved } => {
                let offer = ReceivedOffer { id, sdp, source, is_proved: proved };
                return self.calls.offered(now, session, offer, world);
            }
            SessionEvent::OfferAnswered { session, sdp: Some(sdp) } => {
                return self.calls.settled(session, &sdp);
            }
            SessionEvent::Info { session, content_type, body } => {
                if let (Some(digit), Some(&key)) =
                    (digit_of_info(&content_type, &body), self.calls.by_session.get(&session))
                {
                    keys::handle_key(self, now, key, (digit, KeyForm::Info), world);
                }
                return;
            }
            SessionEvent::MessageAnswered { message, status } => {
                return self.with_texts(now, world, |texts, parts| {
                    texts.handle_answered(now, message, status, parts)
                });
            }
            event @ (SessionEvent::Ringing { .. }
            | SessionEvent::Answered { .. }
            | SessionEvent::Referred { .. }) => return self.handle_dial_event(now, event, world),
            SessionEvent::ReferAnswered { session, status } => (session, status),
            // A peer that refuses or takes back an offer leaves the session as it was.
            _ => return,
        };
        let Some(&key) = self.calls.by_session.get(&session) else { return };
        if let Some((actor, id)) = self.calls.legs.get_mut(key).and_then(|leg| leg.referring.take()) {
            self.drive(now, actor, world, |script, out| script.handle_referred(now, id, event, out));
        }
    }

    /// Events of sessions that we began, and transfers.
    fn handle_dial_event(&mut self, now: Instant, event: SessionEvent, world: &mut World<'_>) {
        let mut out = DialOutbox::new();
        match event {
            SessionEvent::Ringing { session, response } => {
                if let Some(phone) = self.calls.handle_phone_response(now, session, &response, world) {
                    self.dials.handle_ringing(&phone, &mut out);
                }
            }
            SessionEvent::Answered { session, response } => {
                if let Some(phone) = self.calls.handle_phone_response(now, session, &response, world) {
                    self.dials.handle_answered(now, &phone, &response, &mut out);
                }
            }
            SessionEvent::Referred { session, refer, request } => {
                if let Some(&leg) = self.calls.by_session.get(&session) {
                    let attempt = self.calls.legs.get(leg).and_then(|leg| leg.attempt);
                    let refer = ReferRequest { session, refer, leg, attempt, request: &request };
                    self.dials.handle_refer(&refer, &mut out);
                }
            }
            _ => {}
        }
        self.perform_dials(now, out, world);
    }

    /// Bindings have changed.
    pub fn set_numbers(&mut self, numbers: Arc<Numbers>) {
        self.numbers = numbers;
    }

    /// A result of the helpers. One of a call that is gone is ignored: it was on its way.
    pub fn handle_result(&mut self, now: Instant, result: HelperResult, world: &mut World<'_>) {
        let HelperResult { ticket, done } = result;
        match done {
            Done::Fetched(result) => {
                let Some(TicketOutcome::Document(actor, id)) = self.calls.helper_requests.take(ticket) else {
                    return;
                };
                self.drive(now, actor, world, |script, out| script.handle_fetched(now, id, result, out));
            }
            Done::Samples(result) => {
                let Some(TicketOutcome::Sound(sound, waiters)) = self.calls.helper_requests.take(ticket)
                else {
                    return;
                };
                speak::handle_samples(&mut self.calls, now, &sound, waiters, &result, world);
            }
            Done::Encoded(result) => {
                let Some((prompt, waiters)) = self.calls.helper_requests.take_encoded(ticket, result) else {
                    return;
                };
                for waiter in waiters {
                    self.calls.sound_came(now, waiter, Ok(prompt.clone()), world);
                }
            }
            Done::Stream(news) => self.calls.stream_news(now, ticket, news, world),
            Done::Mailed(result) => {
                let Some(((actor, id), result)) = self.calls.helper_requests.take_mail(ticket, result) else {
                    return;
                };
                self.drive(now, actor, world, |script, out| script.handle_sent(now, id, result, out));
            }
            Done::Written(result) => self.recordings.written(now, ticket, result, &mut self.calls, world),
            Done::Heard(heard) => self.recordings.heard(now, ticket, heard, &mut self.calls, world),
            Done::Transcribed(result) => {
                self.recordings.transcribed(now, ticket, result, &mut self.calls, world);
            }
        }
        self.perform_queued(now, world);
    }

    fn session_ended(&mut self, now: Instant, session: SessionId, cause: &Cause, world: &mut World<'_>) {
        let Some(key) = self.calls.by_session.remove(&session) else { return };
        if let Some(leg) = self.calls.legs.get_mut(key) {
            leg.is_gone = true;
        }
        self.recordings.end_recordings(now, key, &mut self.calls);
        self.calls.note_media_end(now, key);
        if let Some(leg) = self.calls.legs.get_mut(key) {
            self.calls.ticker.close(now, (key, leg), &mut self.calls.counts, world.sockets);
        }
        self.drive_leg(now, key, world, |script, out| script.handle_hangup(now, out));
        if let Some(attempt) = self.calls.legs.get(key).and_then(|leg| leg.attempt) {
            let mut out = DialOutbox::new();
            self.dials.handle_phone_ended(now, attempt, key, cause, &mut out);
            self.perform_dials(now, out, world);
        }
    }

    /// The node leaves: every call gets its BYE.
    pub fn hang_up_all(&mut self, now: Instant, world: &mut World<'_>) {
        self.rooms.is_ending = true;
        let keys: Vec<Key> = self.calls.legs.iter().map(|(key, _)| key).collect();
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
        tell: impl Fn(&mut Script, &mut ivr::script::ScriptOutbox),
    ) {
        let Some(leg) = self.calls.legs.get(leg) else { return };
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
        tell: impl FnOnce(&mut Script, &mut ivr::script::ScriptOutbox),
    ) {
        self.calls.tell(now, actor, world, tell);
        self.perform_queued(now, world);
    }

    /// Performs the effects that scripts have ordered, in order; those that follow from them, too. Called again while
    /// that goes on, it leaves them to the caller further up the stack.
    fn perform_queued(&mut self, now: Instant, world: &mut World<'_>) {
        if self.is_performing {
            return;
        }
        self.is_performing = true;
        while let Some((actor, effect)) = self.calls.queued_effects.pop_front() {
            self.perform(now, actor, effect, world);
        }
        self.is_performing = false;
    }

    /// A script has ended, and what it was for.
    fn actor_ended(&mut self, now: Instant, actor: Key, world: &mut World<'_>) {
        let Some(Actor { leg, part, .. }) = self.calls.actors.remove(actor) else { return };
        if let Some(leg) = self.calls.legs.get_mut(leg) {
            leg.aside = leg.aside.filter(|aside| *aside != actor);
        }
        match part {
            Part::Main => self.remove(now, leg, world),
            Part::Waiting { main, id } => self.with_rooms(now, world, |rooms, parts| {
                rooms.aside_ended(now, (actor, main, id), parts);
            }),
            Part::Screening { caller, id, accepted } => {
                let screened = LegEvent::Screened { accepted };
                self.drive(now, caller, world, |script, out| script.handle_leg(now, id, screened, out));
            }
        }
    }

    /// Removes a leg with everything that belongs to it.
    fn remove(&mut self, now: Instant, key: Key, world: &mut World<'_>) {
        self.with_rooms(now, world, |rooms, parts| rooms.part(now, key, parts));
        self.recordings.end_recordings(now, key, &mut self.calls);
        self.calls.note_media_end(now, key);
        if let Some(leg) = self.calls.legs.get_mut(key) {
            self.calls.ticker.close(now, (key, leg), &mut self.calls.counts, world.sockets);
        }
        let Some(mut leg) = self.calls.legs.remove(key) else { return };
        // A script has already reported how its call ended.
        leg.call_ended(now, None, world);
        world.outbox.extend(release(leg.counted.take()));
        for actor in [leg.main, leg.aside].into_iter().flatten() {
            self.calls.actors.remove(actor);
        }
        self.calls.by_session.remove(&leg.session);
        if !leg.is_gone {
            world.endpoint.sessions(now, world.out).hang_up(leg.session, None);
        }
        let mut out = DialOutbox::new();
        self.dials.handle_caller_gone(now, key, &mut out);
        self.perform_dials(now, out, world);
    }
}

/// The last of those that have a call counted ends it.
fn release(counted: Option<Arc<CountedCall>>) -> Option<VoiceEffect> {
    let counted = counted.and_then(Arc::into_inner)?;
    Some(counted.changed(router::CallPhase::Terminated))
}
