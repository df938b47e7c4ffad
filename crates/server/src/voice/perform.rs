//! What scripts ask, done.

use ivr::document::{Piece, Severity, code};
use ivr::script::{
    CallStatus, ConferenceEvent, Effect, Failure, Id, LegEvent, LegFailure, Outbox, QueueEvent, QueueResult,
    Refusal, StreamEvent,
};
use media::prompt::Prompt;
use media::session::PlayOptions;
use stdx::Instant;
use stdx::slab::Key;

use super::asks::Waiter;
use super::prompts::{Next, Speaking};
use super::{Voice, World};

impl Voice {
    /// What comes of it at once is put into `new`.
    pub(super) fn perform(
        &mut self,
        now: Instant,
        key: Key,
        effect: Effect,
        world: &mut World<'_>,
        new: &mut Outbox,
    ) {
        match effect {
            Effect::Fetch { id, request } => self.asks.document(key, id, request.to_wire(&self.token)),
            Effect::Tell { request } => self.asks.tell(request.to_wire(&self.token)),
            Effect::Notify(notification) => self.note(key, &notification),
            Effect::Answer => self.answer(now, key, world),
            Effect::Ring | Effect::Reject(_) | Effect::Hangup | Effect::Refer { .. } => {
                self.perform_sip(now, key, effect, world, new);
            }
            Effect::Prompt { id, pieces } => self.speak(now, key, id, &pieces, new),
            Effect::StopPrompt { id } => self.stop_prompt(now, key, id, new),
            // Every digit is told, and those nobody listens to are passed over.
            Effect::Listen { speech: None, .. } | Effect::StopListening => {}
            Effect::Echo { on } => self.echo(key, on),
            Effect::Ended(status) => {
                if let Some(leg) = self.legs.get(key) {
                    tracing::debug!(
                        sid = leg.sid,
                        status = status.as_str(),
                        "a call of an application is over"
                    );
                }
                self.remove(now, key, world);
            }
            other => self.decline(now, key, other, new),
        }
    }

    fn perform_sip(
        &mut self,
        now: Instant,
        key: Key,
        effect: Effect,
        world: &mut World<'_>,
        new: &mut Outbox,
    ) {
        let Some(leg) = self.legs.get_mut(key) else { return };
        let session = leg.session;
        // Whatever cannot be done any more: the session's end is on its way here.
        match effect {
            Effect::Ring => {
                let _ = world.endpoint.ring(now, session, 180, bytes::Bytes::new(), world.out);
            }
            Effect::Reject(refusal) => {
                let (status, reason) = match refusal {
                    Refusal::Rejected => (603, "Decline"),
                    Refusal::Busy => (486, "Busy Here"),
                    Refusal::ApplicationError => (500, "Server Internal Error"),
                };
                let _ = world.endpoint.reject(now, session, status, reason, &[], world.out);
            }
            Effect::Hangup => world.endpoint.hang_up(now, session, None, world.out),
            Effect::Refer { id, uri } => {
                leg.referring = Some(id);
                if world.endpoint.refer(now, session, &uri, None, world.out).is_err() {
                    leg.referring = None;
                    leg.script.handle_referred(now, id, 400, new);
                }
            }
            _ => {}
        }
    }

    fn note(&self, key: Key, note: &ivr::script::Notification) {
        let sid = self.legs.get(key).map_or("", |leg| &leg.sid);
        let (code, text, url, line) = (note.code, &note.text, note.url.as_deref(), note.line);
        match note.severity {
            Severity::Info => tracing::debug!(sid, code, url, line, "{text}"),
            Severity::Warning => tracing::info!(sid, code, url, line, "{text}"),
            Severity::Error => tracing::warn!(sid, code, url, line, "{text}"),
        }
    }

    fn speak(&mut self, now: Instant, key: Key, id: Id, pieces: &[Piece], new: &mut Outbox) {
        let Some(leg) = self.legs.get_mut(key) else { return };
        let Some(media) = &leg.media else {
            let failed = Failure { code: code::PROMPT, text: "the call has no sound".to_owned() };
            return leg.script.handle_prompt(now, id, Some(failed), new);
        };
        let codec = media.negotiated().audio.codec;
        let asks = &mut self.asks;
        leg.speaking = Some(Box::new(Speaking::new(id, pieces, codec, |place, sound| {
            asks.sound(sound, Waiter { leg: key, prompt: id, place, codec })
        })));
        self.go_on(now, key, new);
    }

    /// The next piece of the prompt, when it is here; its end, when there is none.
    fn go_on(&mut self, now: Instant, key: Key, new: &mut Outbox) {
        let Some(leg) = self.legs.get_mut(key) else { return };
        let (Some(speaking), Some(media)) = (&mut leg.speaking, &mut leg.media) else { return };
        match speaking.next() {
            Next::Wait => {}
            Next::Play(prompt, loops) => {
                leg.playing += 1;
                media.play(prompt, PlayOptions { id: leg.playing, loops, offset_ms: 0 });
            }
            Next::Dial(digits) => match media.send_digits(&digits) {
                Ok(true) => {}
                Ok(false) | Err(_) => {
                    speaking.is_playing = false;
                    speaking.failed =
                        Some(Failure { code: code::PROMPT, text: "too many digits to send".to_owned() });
                    self.go_on(now, key, new);
                }
            },
            Next::Over => {
                let (id, failed) = (speaking.id, speaking.failed.take());
                leg.speaking = None;
                leg.script.handle_prompt(now, id, failed, new);
            }
        }
    }

    /// A part of a prompt is here, or will not be.
    pub(super) fn sound_came(
        &mut self,
        now: Instant,
        waiter: Waiter,
        prompt: Result<Prompt, String>,
        world: &mut World<'_>,
    ) {
        let Some(leg) = self.legs.get_mut(waiter.leg) else { return };
        let Some(speaking) = leg.speaking.as_mut().filter(|speaking| speaking.id == waiter.prompt) else {
            return;
        };
        speaking.put(waiter.place, prompt);
        self.continue_prompt(now, waiter.leg, world);
    }

    /// `playing`: which piece; none for keys.
    pub(super) fn piece_ended(
        &mut self,
        now: Instant,
        key: Key,
        playing: Option<u64>,
        world: &mut World<'_>,
    ) {
        let Some(leg) = self.legs.get_mut(key) else { return };
        if playing.is_some_and(|id| id != leg.playing) {
            return;
        }
        let Some(speaking) = &mut leg.speaking else { return };
        speaking.is_playing = false;
        self.continue_prompt(now, key, world);
    }

    fn continue_prompt(&mut self, now: Instant, key: Key, world: &mut World<'_>) {
        let mut new = Vec::new();
        self.go_on(now, key, &mut new);
        if !new.is_empty() {
            self.drive(now, key, world, |_, out| out.append(&mut new));
        }
    }

    fn stop_prompt(&mut self, now: Instant, key: Key, id: Id, new: &mut Outbox) {
        let Some(leg) = self.legs.get_mut(key) else { return };
        if leg.speaking.as_ref().is_none_or(|speaking| speaking.id != id) {
            return;
        }
        leg.speaking = None;
        if let Some(media) = &mut leg.media {
            media.stop();
        }
        leg.script.handle_prompt(now, id, None, new);
    }

    fn echo(&mut self, key: Key, on: bool) {
        let Some(leg) = self.legs.get_mut(key) else { return };
        leg.is_echoing = on;
        if let Some(media) = &mut leg.media {
            media.listen_decoded(on);
        }
    }

    /// What is not built yet takes the way that the script has for its failure.
    fn decline(&mut self, now: Instant, key: Key, effect: Effect, new: &mut Outbox) {
        let Some(leg) = self.legs.get_mut(key) else { return };
        let script = &mut leg.script;
        let verb = match &effect {
            Effect::Record { .. } => "Record",
            Effect::Transcribe { .. } => "transcriptions",
            Effect::StartStream { .. } => "Stream",
            Effect::Dial { .. } => "Dial",
            Effect::JoinConference { .. } => "Conference",
            Effect::Enqueue { .. } => "Enqueue",
            Effect::SendMessage { .. } => "Sms",
            Effect::SendMail { .. } => "Email",
            Effect::Listen { .. } => "speech input",
            // Ends of what never began.
            _ => return,
        };
        let text = format!("{verb}: not built yet");
        tracing::warn!(sid = leg.sid, "{text}");
        let failure = |code: u32| Failure { code, text: text.clone() };
        match effect {
            Effect::Record { id, .. } => script.handle_recorded(now, id, Err(failure(code::RECORDING)), new),
            Effect::StartStream { id, .. } => {
                script.handle_stream(now, id, StreamEvent::Failed { reason: text }, new);
            }
            Effect::Dial { legs, .. } => {
                for leg in legs {
                    let failed = LegFailure {
                        status: CallStatus::Failed,
                        code: None,
                        call_id: None,
                        headers: Vec::new(),
                    };
                    script.handle_leg(now, leg.id, LegEvent::Failed(failed), new);
                }
            }
            Effect::JoinConference { id, .. } => {
                script.handle_conference(now, id, ConferenceEvent::Refused { reason: text }, new);
            }
            Effect::Enqueue { id, .. } => {
                script.handle_queue(now, id, QueueEvent::Left(QueueResult::Error), new);
            }
            Effect::SendMessage { id, .. } | Effect::SendMail { id, .. } => {
                script.handle_sent(now, id, Err(failure(code::MESSAGE)), new);
            }
            _ => {}
        }
    }
}
