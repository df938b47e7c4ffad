//! Performs the effects of scripts: the table from `ivr::script::Effect` to the machines that do it.
//!
//! Called by `Voice::perform_queued` only, one effect after the other, so no effect is performed inside
//! another. Every effect with an id is answered by an input with that id, at once or later; a script that
//! waits for an id whose answer never comes would wait until its time limit. The split in three functions has
//! no meaning but their length.

use ivr::script::{Effect, Id, Refusal};
use stdx::Instant;
use stdx::slab::Key;

use super::dial_effect::DialOutbox;
use super::leg::{Leg, Partner};
use super::{Voice, World, mailboxes};

impl Voice {
    /// Performs one effect. Effects of scripts that are gone are passed over, with the effects that they
    /// still had in the queue.
    pub(super) fn perform(&mut self, now: Instant, actor: Key, effect: Effect, world: &mut World<'_>) {
        if effect == Effect::Hangup && self.rooms.is_announcement(actor, &self.calls) {
            // The hangup of an announcement's script does not end the call.
            return;
        }
        let Some((key, leg)) = self.calls.leg_of(actor) else { return };
        match effect {
            Effect::Fetch { id, request } => {
                let wire = request.to_wire(&leg.owner.signing_key);
                self.calls.helper_requests.document(actor, id, wire);
            }
            Effect::Tell { request } => {
                let wire = request.to_wire(&leg.owner.signing_key);
                self.calls.helper_requests.tell(wire);
            }
            Effect::Notify(notification) => self.calls.note(now, key, None, &notification, world),
            Effect::Answer => self.calls.answer(now, key, world),
            Effect::Ring => leg.ring(now, world),
            Effect::Reject(refusal) => leg.reject(now, refusal, world),
            Effect::Hangup => world.endpoint.sessions(now, world.out).hang_up(leg.session, None),
            Effect::Refer { id, uri } => {
                if !leg.refer(now, (actor, id), &uri, world) {
                    self.calls.tell(now, actor, world, |script, out| {
                        script.handle_referred(now, id, 400, out);
                    });
                }
            }
            Effect::Prompt { id, pieces } => {
                self.calls.speak(now, actor, id, &pieces, &self.recordings, world);
            }
            Effect::StopPrompt { id } => self.calls.stop_prompt(now, actor, id, world),
            // Scripts get every digit, and ignore those that they do not listen for.
            Effect::Listen { speech: None, .. } => {}
            Effect::Echo { on } => leg.echo(on),
            Effect::Ended(status) => {
                tracing::debug!(sid = leg.sid, status = status.as_str(), "a call of an application is over");
                // A script beside the main one ends without the call.
                if leg.main == Some(actor) {
                    leg.call_ended(now, Some(status), world);
                }
                self.actor_ended(now, actor, world);
            }
            other => self.perform_more(now, actor, other, world),
        }
    }

    /// Performs effects that concern other legs, other parties, or files.
    fn perform_more(&mut self, now: Instant, actor: Key, effect: Effect, world: &mut World<'_>) {
        match effect {
            Effect::Listen { speech: Some(how), .. } => {
                self.recordings.recognise(now, actor, *how, &mut self.calls, world);
            }
            Effect::StopListening => self.recordings.stop_recognising(actor, &mut self.calls),
            Effect::Record { id, recording } => {
                mailboxes::look_up(self, (actor, id), &recording, world);
                self.recordings.record(now, actor, id, *recording, &mut self.calls, world);
            }
            Effect::StopRecording { id } => {
                self.recordings.stop_recording(now, actor, id, &mut self.calls, world);
            }
            Effect::Transcribe { recording_sid, callback } => {
                self.recordings.transcribe(now, actor, &recording_sid, callback, &mut self.calls, world);
            }
            Effect::StartStream { id, stream } => self.calls.start_stream(now, actor, id, *stream, world),
            Effect::StopStream { id } => self.calls.stop_stream(now, actor, id, world),
            // A queue's leg is one of the caller's Dial as well, but its room has it and `Dials` does not.
            Effect::HangupLeg { leg }
                if self.with_rooms(now, world, |rooms, parts| {
                    rooms.hang_up_queue_leg(now, actor, leg, parts)
                }) => {}
            Effect::JoinConference { id, conference, record } => {
                let record = record.map(|record| *record);
                self.with_rooms(now, world, |rooms, parts| {
                    rooms.join_conference(now, actor, id, *conference, record, parts);
                });
            }
            Effect::LeaveConference { id } => {
                self.with_rooms(now, world, |rooms, parts| rooms.leave_conference(now, actor, id, parts));
            }
            Effect::Enqueue { id, name, wait, max_size } => {
                self.with_rooms(now, world, |rooms, parts| {
                    rooms.enqueue(now, actor, id, &name, (wait, max_size), parts);
                });
            }
            Effect::LeaveQueue { id } => {
                self.with_rooms(now, world, |rooms, parts| rooms.leave_queue(now, actor, id, parts));
            }
            Effect::SendMessage { id, message } => self
                .with_texts(now, world, |texts, parts| texts.send_message(now, (actor, id), *message, parts)),
            Effect::SendMail { id, mail } => {
                let sid = self.calls.new_sid(ivr::sid::MAIL);
                self.calls.helper_requests.mail((actor, id), sid, *mail);
            }
            // Only `Part::Screening` has use for it: the callee may be connected.
            Effect::Done => {
                if let Some(actor) = self.calls.actors.get_mut(actor) {
                    actor.complete();
                }
            }
            other => self.perform_on_dial(now, actor, other, world),
        }
    }

    /// Gives the Dial of a script its commands.
    fn perform_on_dial(&mut self, now: Instant, actor: Key, effect: Effect, world: &mut World<'_>) {
        let Some((caller, leg)) = self.calls.leg_of(actor) else { return };
        let mut out = DialOutbox::new();
        match effect {
            Effect::Dial { legs, options } => {
                let leg = leg.dial_caller(caller, actor);
                self.dials.dial(now, &leg, (legs, *options), &self.numbers, &mut out);
            }
            Effect::Screen { leg, target } => self.dials.screen((caller, actor), leg, target, &mut out),
            Effect::Bridge { leg } => self.dials.bridge(caller, leg, &mut out),
            Effect::HangupLeg { leg } => self.dials.hang_up(now, caller, leg, &mut out),
            _ => {}
        }
        self.perform_dials(now, out, world);
    }
}

/// Commands to the leg's session. Errors are ignored: the session has ended, and its end is on its way here.
impl Leg {
    fn ring(&self, now: Instant, world: &mut World<'_>) {
        let _ = world.endpoint.sessions(now, world.out).ring(self.session, 180, bytes::Bytes::new());
    }

    fn reject(&self, now: Instant, refusal: Refusal, world: &mut World<'_>) {
        let (status, reason) = match refusal {
            Refusal::Rejected => (603, "Decline"),
            Refusal::Busy => (486, "Busy Here"),
            Refusal::ApplicationError => (500, "Server Internal Error"),
        };
        let _ = world.endpoint.sessions(now, world.out).reject(self.session, status, reason, &[]);
    }

    /// Sends a REFER. `script`: the actor that waits for its answer, and its number for it. `false`: it cannot be sent.
    fn refer(&mut self, now: Instant, script: (Key, Id), uri: &str, world: &mut World<'_>) -> bool {
        let is_sent = world.endpoint.sessions(now, world.out).refer(self.session, uri, None).is_ok();
        self.referring = is_sent.then_some(script);
        is_sent
    }

    /// Sends the leg's own sound back to it, or ends that.
    fn echo(&mut self, on: bool) {
        self.partner = if on { Partner::Echo } else { Partner::None };
        if let Some(media) = &mut self.media {
            media.listen(on);
        }
    }
}
