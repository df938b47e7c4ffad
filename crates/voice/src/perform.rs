//! Performs the effects of scripts.

use ivr::script::{Effect, Refusal};
use stdx::Instant;
use stdx::slab::Key;

use super::leg::{Leg, Partner};
use super::{Voice, World};

impl Voice {
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
            Effect::Notify(notification) => self.calls.note(now, key, &notification, world),
            Effect::Answer => self.calls.answer(now, key, world),
            Effect::Ring | Effect::Reject(_) | Effect::Hangup | Effect::Refer { .. } => {
                self.perform_sip(now, actor, effect, world);
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
            Effect::Dial { legs, options } => self.dial(now, actor, legs, *options, world),
            Effect::Screen { leg, target } => self.screen(now, actor, leg, target, world),
            Effect::Bridge { leg } => self.bridge(now, actor, leg, world),
            Effect::HangupLeg { leg } => self.hang_up_leg(now, actor, leg, world),
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
            Effect::SendMessage { id, message } => self.send_message(now, actor, id, *message, world),
            Effect::SendMail { id, mail } => self.send_mail(actor, id, *mail),
            Effect::Done => self.actor_done(now, actor, world),
            _ => {}
        }
    }

    fn perform_sip(&mut self, now: Instant, actor: Key, effect: Effect, world: &mut World<'_>) {
        let Some((_, leg)) = self.calls.leg_of(actor) else { return };
        let session = leg.session;
        // Errors are ignored: the session has ended, and its end is on its way here.
        match effect {
            Effect::Ring => {
                let _ = world.endpoint.sessions(now, world.out).ring(session, 180, bytes::Bytes::new());
            }
            Effect::Reject(refusal) => {
                let (status, reason) = match refusal {
                    Refusal::Rejected => (603, "Decline"),
                    Refusal::Busy => (486, "Busy Here"),
                    Refusal::ApplicationError => (500, "Server Internal Error"),
                };
                let _ = world.endpoint.sessions(now, world.out).reject(session, status, reason, &[]);
            }
            Effect::Hangup => world.endpoint.sessions(now, world.out).hang_up(session, None),
            Effect::Refer { id, uri } => {
                leg.referring = Some((actor, id));
                if world.endpoint.sessions(now, world.out).refer(session, &uri, None).is_err() {
                    leg.referring = None;
                    self.drive(now, actor, world, |script, out| script.handle_referred(now, id, 400, out));
                }
            }
            _ => {}
        }
    }
}

impl Leg {
    /// Sends the leg's own sound back to it, or ends that.
    fn echo(&mut self, on: bool) {
        self.partner = if on { Partner::Echo } else { Partner::None };
        if let Some(media) = &mut self.media {
            media.listen(on);
        }
    }
}
