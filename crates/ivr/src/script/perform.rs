//! The begin of each verb: its first effects, and the state or the continuation that follows.
//!
//! `Script::advance` calls `is_allowed`, `needs_answer` and `begin_verb` for each verb, in this order.

use stdx::Instant;

use super::call_context::CallContext;
use super::conference::ConferenceMembership;
use super::dial::Dialing;
use super::gather::Gathering;
use super::message::{refer, send_mail, send_message};
use super::queue::QueueMembership;
use super::record::Recorder;
use super::state::{Flow, ScriptState};
use super::stream::Streams;
use super::{Effect, Refusal, Role, ScriptOutbox};
use crate::document::{Dial, Dialed, Piece, Verb};
use crate::request::Form;

/// The outcome of the start of a verb.
pub(super) enum Started {
    /// The verb takes time, in this state.
    State(ScriptState),
    /// The verb is over.
    Flow(Flow),
}

/// True if the verb needs a call that is answered.
pub(super) fn needs_answer(call: &CallContext, verb: &Verb) -> bool {
    match verb {
        Verb::Reject { .. } | Verb::Redirect(_) | Verb::Pause(_) => false,
        Verb::Dial(dial) => !waits_for_callee(call, dial),
        _ => true,
    }
}

/// True if the Dial answers the caller when its callee answers.
fn waits_for_callee(call: &CallContext, dial: &Dial) -> bool {
    let has_parties = matches!(dial.to, Dialed::Parties(_));
    has_parties && dial.answer_on_bridge.unwrap_or(call.plan.answer_on_bridge)
}

/// True if documents of this role may have the verb.
pub(super) fn is_allowed(role: Role, verb: &Verb) -> bool {
    match role {
        // Only a waiting call can leave a queue.
        Role::Call => !matches!(verb, Verb::Leave),
        Role::Screening | Role::Waiting => match verb {
            Verb::Say(_) | Verb::Play(_) | Verb::Pause(_) | Verb::Gather(_) | Verb::Redirect(_) => true,
            Verb::Hangup | Verb::Sms(_) | Verb::Email(_) => true,
            Verb::Leave => role == Role::Waiting,
            _ => false,
        },
    }
}

/// Begins a verb.
pub(super) fn begin_verb(
    call: &mut CallContext,
    streams: &mut Streams,
    now: Instant,
    verb: Verb,
    out: &mut ScriptOutbox,
) -> Started {
    let state = match verb {
        Verb::Say(piece) | Verb::Play(piece) => return speak(call, piece, out),
        Verb::Pause(length) => {
            // As Twilio: a Pause before the answer has the call ring.
            if !call.is_answered_or_answering() {
                out.push(Effect::Ring);
            }
            ScriptState::Pausing { until: now + length }
        }
        Verb::Gather(gather) => ScriptState::Gathering(Box::new(Gathering::start(call, now, gather, out))),
        Verb::Record(record) => ScriptState::Recording(Box::new(Recorder::start(call, now, record, out))),
        Verb::Dial(dial) => begin_dial(call, now, dial, out),
        Verb::Enqueue(enqueue) => {
            ScriptState::InQueue(Box::new(QueueMembership::enter(call, now, enqueue, out)))
        }
        Verb::Leave => {
            out.push(Effect::LeaveQueue { id: None });
            return Started::Flow(Flow::Done);
        }
        Verb::Redirect(target) => return Started::Flow(Flow::Document(target, Form::new())),
        // As Twilio: too late to refuse.
        Verb::Reject { .. } if call.is_answered_or_answering() => return Started::Flow(Flow::Hangup),
        Verb::Reject { busy: true } => return Started::Flow(Flow::Refuse(Refusal::Busy)),
        Verb::Reject { busy: false } => return Started::Flow(Flow::Refuse(Refusal::Rejected)),
        Verb::Hangup => return Started::Flow(Flow::Hangup),
        Verb::Sms(sms) => match send_message(call, now, sms, out) {
            Some(pending) => ScriptState::AwaitingReply(Box::new(pending)),
            None => return Started::Flow(Flow::Next),
        },
        Verb::Email(mail) => {
            send_mail(call, mail, out);
            return Started::Flow(Flow::Next);
        }
        Verb::Refer(verb) => ScriptState::AwaitingReply(Box::new(refer(call, now, verb, out))),
        Verb::Echo => {
            out.push(Effect::Echo { on: true });
            ScriptState::Echoing
        }
        Verb::StartStream(stream) => {
            streams.start(call, stream, false, out);
            return Started::Flow(Flow::Next);
        }
        Verb::StopStream { name } => {
            streams.stop_named(call, now, name.as_deref(), out);
            return Started::Flow(Flow::Next);
        }
        Verb::ConnectStream { stream, action } => match streams.start(call, stream, true, out) {
            Some(id) => ScriptState::Streaming { id, action },
            None => return Started::Flow(Flow::Next),
        },
    };
    Started::State(state)
}

/// Plays a Say or Play. Without a playable item the next verb follows.
fn speak(call: &mut CallContext, piece: Piece, out: &mut ScriptOutbox) -> Started {
    let Some(piece) = call.playable(piece, out) else { return Started::Flow(Flow::Next) };
    let prompt = call.next_id();
    out.push(Effect::Prompt { id: prompt, pieces: vec![piece] });
    Started::State(ScriptState::Speaking { prompt })
}

/// A Dial with a Conference joins it; one with parties calls them.
fn begin_dial(call: &mut CallContext, now: Instant, dial: Box<Dial>, out: &mut ScriptOutbox) -> ScriptState {
    match dial.to.clone() {
        Dialed::Conference(conference) => {
            let membership = ConferenceMembership::join(call, now, dial, conference, out);
            ScriptState::InConference(Box::new(membership))
        }
        Dialed::Parties(parties) => {
            ScriptState::Dialing(Box::new(Dialing::start(call, now, dial, parties, out)))
        }
    }
}

/// The element of a verb, for notifications.
pub(super) fn element(verb: &Verb) -> &'static str {
    match verb {
        Verb::Say(_) => "<Say>",
        Verb::Play(_) => "<Play>",
        Verb::Pause(_) => "<Pause>",
        Verb::Gather(_) => "<Gather>",
        Verb::Record(_) => "<Record>",
        Verb::Dial(_) => "<Dial>",
        Verb::Enqueue(_) => "<Enqueue>",
        Verb::Leave => "<Leave>",
        Verb::Redirect(_) => "<Redirect>",
        Verb::Reject { .. } => "<Reject>",
        Verb::Hangup => "<Hangup>",
        Verb::Sms(_) => "<Sms>",
        Verb::Email(_) => "<Email>",
        Verb::Refer(_) => "<Refer>",
        Verb::Echo => "<Echo>",
        Verb::StartStream(_) => "<Start>",
        Verb::StopStream { .. } => "<Stop>",
        Verb::ConnectStream { .. } => "<Connect>",
    }
}
