//! The effects of [`super::dial::Dials`], and `Voice`'s performance of them.

use ivr::document::{BridgeRecording, Item};
use ivr::request::{Form, Target};
use ivr::script::{Id, LegEvent, LegFailure};
use sip::session::{ReferId, SessionId};
use stdx::Instant;
use stdx::slab::Key;

use super::actor::Actor;
use super::dial_attempt::PhoneInvite;
use super::record::Background;
use super::refer::Transfer;
use super::resolving::ResolutionPurpose;
use super::rows;
use super::{Address, Purpose, Voice, VoiceEffect, World};

/// Effects of dial attempts, in order. Legs and actors are named by their keys; those that are gone by then are passed
/// over.
pub(super) enum DialEffect {
    // The shard.
    /// A row, or a call that an account counts.
    Shard(VoiceEffect),
    /// Answered by `Dials::handle_resolved`.
    Resolve {
        attempt: Key,
        address: Address,
    },
    /// The attempt is over before its address was found.
    StopResolving {
        ticket: u64,
    },

    // Phones.
    /// Makes a leg for each phone and sends its INVITE. Answered by `Dials::handle_invited`.
    Invite {
        attempt: Key,
        phones: Vec<PhoneInvite>,
    },
    /// CANCEL or BYE; the leg is removed with everything that belongs to it.
    HangUp {
        leg: Key,
    },
    /// As `HangUp`, of a phone that rang while another was answered: its CANCEL says so (RFC 3326 §3.1).
    AnsweredElsewhere {
        leg: Key,
    },
    /// Digits for the phone before anything is spoken.
    SendDigits {
        leg: Key,
        actor: Key,
        items: Vec<Item>,
    },

    // The caller's sound.
    /// Begins the ringing tone, if the caller still waits then.
    StartRinging {
        caller: Key,
    },
    StopRinging {
        caller: Key,
    },
    /// Connects the caller to a phone that has not answered yet.
    ConnectEarly {
        caller: Key,
        phone: Key,
    },
    Connect {
        caller: Key,
        phone: Key,
    },
    /// Takes the leg out of its connection or room.
    Disconnect {
        leg: Key,
    },
    /// Takes the caller to a queue, as the leg `id` of its Dial.
    DialQueue {
        actor: Key,
        id: Id,
        queue: String,
        /// For the queue's caller, before the connection.
        document: Option<Target>,
    },
    /// The recording that a new Dial of the caller asks for.
    PlanRecording {
        caller: Key,
        record: Option<BridgeRecording>,
    },
    /// Begins that recording, once.
    Record {
        caller: Key,
    },
    /// Ends it. No script has it, as there was no connection.
    EndRecording {
        caller: Key,
    },

    // Scripts.
    /// Tells a script of a leg of its Dial.
    Tell {
        actor: Key,
        id: Id,
        event: LegEvent,
    },
    /// Tells a script that a connection is over. `recorded`: the leg of which a recording ends with it.
    TellEnded {
        actor: Key,
        id: Id,
        recorded: Option<Key>,
    },
    /// Tells a script that its own call rings.
    TellRinging {
        actor: Key,
    },
    /// Tells a script that its own call was not answered.
    TellUnanswered {
        actor: Key,
        failure: LegFailure,
    },
    /// A phone has answered a script's own call: its leg is the script's from now on.
    TakeOver(Box<AnsweredCall>),
    /// Begins a script of its own on a leg.
    StartScript(Box<Actor>),
    /// A notification for the caller's record.
    Warn {
        leg: Key,
        code: u32,
        text: String,
    },
    /// A notification of a call that has failed. `call`: the sid of the Dial's call; `None`: the leg's own.
    NoteFailure {
        leg: Key,
        call: Option<String>,
        failure: LegFailure,
    },

    // Transfers (RFC 3515).
    RefuseRefer {
        session: SessionId,
        refer: ReferId,
        status: u16,
        reason: &'static str,
    },
    /// Answered by `Dials::handle_refer_accepted`, unless the session has ended.
    AcceptRefer {
        session: SessionId,
        refer: ReferId,
        transfer: Box<Transfer>,
    },
    /// The phone's leg is a call of its own from now on.
    Detach {
        phone: Key,
        from: Box<str>,
    },
    /// The main script of the leg goes on with another document.
    TransferScript {
        leg: Key,
        target: Target,
        parameters: Form,
    },
}

/// A phone that has answered a call of the REST interface.
pub(super) struct AnsweredCall {
    pub(super) actor: Key,
    pub(super) phone: Key,
    pub(super) call_id: String,
    /// Parameters of the dialog for the script.
    pub(super) extra: Form,
    /// Begins now.
    pub(super) record: Option<Background>,
}

/// Effects in the order in which they are to be performed.
pub(super) type DialOutbox = Vec<DialEffect>;

impl DialEffect {
    /// The end of an attempt's phone. `is_elsewhere`: another has been answered meanwhile.
    pub(super) fn hang_up(leg: Key, is_elsewhere: bool) -> Self {
        if is_elsewhere { DialEffect::AnsweredElsewhere { leg } } else { DialEffect::HangUp { leg } }
    }
}

impl Voice {
    /// Performs effects in order. An input that answers an effect may have effects of its own, which are performed before
    /// the next one.
    pub(super) fn perform_dials(&mut self, now: Instant, effects: DialOutbox, world: &mut World<'_>) {
        for effect in effects {
            let mut out = DialOutbox::new();
            match effect {
                DialEffect::Shard(effect) => world.outbox.push(effect),
                DialEffect::Resolve { attempt, address } => {
                    let ticket = self.resolutions.insert(ResolutionPurpose::Call(attempt));
                    if self.dials.handle_resolving(attempt, ticket) {
                        world.outbox.push(VoiceEffect::Resolve { ticket, address, purpose: Purpose::Call });
                    } else {
                        self.resolutions.remove(ticket);
                    }
                }
                DialEffect::StopResolving { ticket } => {
                    self.resolutions.remove(ticket);
                }
                DialEffect::Invite { attempt, phones } => {
                    let invite = |phone| self.calls.invite_phone(now, attempt, phone, world);
                    let invited: Vec<_> = phones.into_iter().map(invite).collect();
                    for failed in invited.iter().filter(|phone| phone.result.is_err()) {
                        self.remove(now, failed.leg, world);
                    }
                    self.dials.handle_invited(now, attempt, invited, &mut out);
                }
                DialEffect::HangUp { leg } => self.remove(now, leg, world),
                DialEffect::AnsweredElsewhere { leg } => {
                    if let Some(phone) = self.calls.legs.get(leg).filter(|leg| !leg.is_gone) {
                        let reason = Some("SIP;cause=200;text=\"Call completed elsewhere\"");
                        world.endpoint.sessions(now, world.out).hang_up(phone.session, reason);
                    }
                    self.remove(now, leg, world);
                }
                // Errors are ignored: the session has ended, and its end is on its way here.
                DialEffect::RefuseRefer { session, refer, status, reason } => {
                    let _ =
                        world.endpoint.sessions(now, world.out).refuse_refer(session, refer, status, reason);
                }
                DialEffect::AcceptRefer { session, refer, transfer } => {
                    if world.endpoint.sessions(now, world.out).accept_refer(session, refer).is_ok() {
                        // The document decides the next steps, and its script performs them: for the referrer the transfer
                        // is done. A referrer that does not hang up is hung up, and could then not be notified any more.
                        let _ = world
                            .endpoint
                            .sessions(now, world.out)
                            .notify_refer(session, refer, 200, "OK", true);
                        self.dials.handle_refer_accepted(*transfer, &mut out);
                    }
                }
                other => self.perform_dial_media(now, other, world),
            }
            self.perform_dials(now, out, world);
        }
    }

    /// Performs effects on the sound of legs, and writes notifications.
    fn perform_dial_media(&mut self, now: Instant, effect: DialEffect, world: &mut World<'_>) {
        match effect {
            DialEffect::SendDigits { leg, actor, items } => {
                self.calls.send_first_digits(now, (leg, actor), items, world);
            }
            DialEffect::StartRinging { caller } => {
                if let Some(country) = self.dials.ringing_country(caller)
                    && let Some(leg) = self.calls.legs.get_mut(caller)
                {
                    leg.start_ringing(&mut self.tones, country);
                }
            }
            DialEffect::StopRinging { caller } => {
                if let Some(leg) = self.calls.legs.get_mut(caller) {
                    leg.stop_ringing();
                }
            }
            DialEffect::ConnectEarly { caller, phone } => self.calls.connect_early(caller, phone),
            DialEffect::Connect { caller, phone } => self.calls.join(caller, phone),
            DialEffect::Disconnect { leg } => {
                self.with_rooms(now, world, |rooms, parts| rooms.part(now, leg, parts));
            }
            DialEffect::DialQueue { actor, id, queue, document } => {
                self.with_rooms(now, world, |rooms, parts| {
                    rooms.dial_queue(now, actor, id, (&queue, document), parts);
                });
            }
            DialEffect::PlanRecording { caller, record } => {
                self.recordings.plan_dial_recording(now, caller, record, &mut self.calls, world);
            }
            DialEffect::Record { caller } => {
                self.recordings.record_dial(now, caller, &mut self.calls, world);
            }
            DialEffect::EndRecording { caller } => {
                self.recordings.end_dial_recording(now, caller, &mut self.calls, world);
            }
            DialEffect::Warn { leg, code, text } => self.calls.warn(now, leg, code, text, world),
            DialEffect::NoteFailure { leg, call, failure } => {
                self.calls.note_failed_call(now, leg, call.as_deref(), &failure, world);
            }
            other => self.perform_dial_script(now, other, world),
        }
    }

    /// Performs effects on scripts.
    fn perform_dial_script(&mut self, now: Instant, effect: DialEffect, world: &mut World<'_>) {
        match effect {
            DialEffect::Tell { actor, id, event } => {
                self.drive(now, actor, world, |script, out| script.handle_leg(now, id, event, out));
            }
            DialEffect::TellEnded { actor, id, recorded } => {
                let recording = recorded
                    .and_then(|leg| self.recordings.end_dial_recording(now, leg, &mut self.calls, world));
                let ended = LegEvent::Ended { recording };
                self.drive(now, actor, world, |script, out| script.handle_leg(now, id, ended, out));
            }
            DialEffect::TellRinging { actor } => {
                if let Some((_, leg)) = self.calls.leg_of(actor) {
                    leg.call_rings(now, world);
                }
                self.drive(now, actor, world, |script, out| script.handle_ringing(now, out));
            }
            DialEffect::TellUnanswered { actor, failure } => {
                if let Some(row) = self.calls.leg_of(actor).and_then(|(_, leg)| leg.row.as_mut()) {
                    row.has_failed(&failure);
                }
                self.drive(now, actor, world, |script, out| {
                    script.set_extra(rows::of_failure(&failure));
                    script.handle_unanswered(now, failure.status, out);
                });
            }
            DialEffect::TakeOver(answered) => {
                let AnsweredCall { actor, phone, call_id, extra, record } = *answered;
                self.calls.take_over(actor, phone, &call_id);
                self.drive(now, actor, world, |script, out| {
                    script.set_extra(extra);
                    script.handle_answered(now, out);
                });
                if let Some(how) = record {
                    self.recordings.begin_recording(now, phone, how, &mut self.calls, world);
                }
            }
            DialEffect::StartScript(actor) => {
                let actor = self.calls.add_actor(*actor);
                self.drive(now, actor, world, |script, out| script.start(now, out));
            }
            DialEffect::Detach { phone, from } => {
                if let Some(leg) = self.calls.legs.get_mut(phone) {
                    leg.attempt = None;
                    leg.from = from;
                }
            }
            DialEffect::TransferScript { leg, target, parameters } => {
                if let Some(actor) = self.calls.legs.get(leg).and_then(|leg| leg.main) {
                    self.drive(now, actor, world, |script, out| {
                        script.transfer(now, &target, parameters, out);
                    });
                }
            }
            _ => {}
        }
    }
}
