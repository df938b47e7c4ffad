//! The states of a script: the verb under way, or the event that the script waits for.
//!
//! A state has the machine of its verb, its deadline (`deadline`), and two ways of leaving it early: `stop` when another document follows, `close`
//! when the call is over.

use stdx::Instant;

use super::call_context::CallContext;
use super::conference::ConferenceMembership;
use super::dial::Dialing;
use super::fetch::Fetching;
use super::gather::Gathering;
use super::message::PendingReply;
use super::queue::QueueMembership;
use super::record::{ClosingRecording, Recorder};
use super::stream::Streams;
use super::{Effect, Id, Refusal, ScriptOutbox};
use crate::request::{Form, Target};

/// The state of a script. Results of earlier states are ignored by the later ones.
#[derive(Debug)]
pub(super) enum ScriptState {
    /// `start` was not called yet.
    NotStarted,
    /// One verb is over and the next has not begun; no input meets it.
    BetweenVerbs,
    /// An outgoing call that is not yet answered.
    Calling,
    /// A document is requested.
    Fetching(Box<Fetching>),
    /// The caller's ACK is awaited (RFC 3261 §13.3.1.4).
    Answering {
        /// Without the ACK until then the call is over.
        until: Instant,
        /// Keys of the caller, whose side of the call is answered already: they overtook the ACK.
        keys: String,
    },
    /// Say or Play.
    Speaking { prompt: Id },
    /// Pause, or the silence before a hang-up.
    Pausing { until: Instant },
    /// Gather.
    Gathering(Box<Gathering>),
    /// Record.
    Recording(Box<Recorder>),
    /// Dial with parties.
    Dialing(Box<Dialing>),
    /// Dial with a Conference.
    InConference(Box<ConferenceMembership>),
    /// Enqueue.
    InQueue(Box<QueueMembership>),
    /// Sms with an `action`, or Refer.
    AwaitingReply(Box<PendingReply>),
    /// Echo.
    Echoing,
    /// Connect: a stream in both directions, until it ends.
    Streaming { id: Id, action: Option<Target> },
    /// A waiting script whose document took no time.
    Resting { until: Instant },
    /// The call is over and its last recording is not a file yet.
    Closing(Box<ClosingRecording>),
    /// `Effect::Ended` was returned.
    Ended,
}

/// The continuation that a verb's machine returns.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// The state stays and waits for its next input.
    Wait,
    /// The verb is over: the next one.
    Next,
    /// The verb is over: the document at this URL, requested with these additional parameters. An empty URL is the
    /// current document's.
    Document(Target, Form),
    /// The first document again, from its beginning.
    Restart,
    /// The document ends the call, after the sound that was played last.
    Hangup,
    /// The document refuses a call that is not answered.
    Refuse(Refusal),
    /// The document is over, and the leg goes on without it.
    Done,
}

impl Flow {
    /// The document of an `action`; without the attribute the next verb.
    pub(super) fn action(action: Option<&Target>, form: Form) -> Flow {
        match action {
            Some(action) => Flow::Document(action.clone(), form),
            None => Flow::Next,
        }
    }
}

impl ScriptState {
    /// The state's own deadline, the call's limit aside.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self {
            ScriptState::Closing(closing) => Some(closing.until),
            ScriptState::Fetching(fetching) => Some(fetching.until),
            ScriptState::Answering { until, .. }
            | ScriptState::Pausing { until }
            | ScriptState::Resting { until } => Some(*until),
            ScriptState::Gathering(gathering) => gathering.until,
            ScriptState::Recording(recorder) => Some(recorder.until),
            ScriptState::Dialing(dialing) => dialing.until,
            ScriptState::InConference(membership) => Some(membership.until),
            ScriptState::AwaitingReply(pending) => Some(pending.until),
            ScriptState::NotStarted
            | ScriptState::BetweenVerbs
            | ScriptState::Calling
            | ScriptState::Speaking { .. }
            | ScriptState::InQueue(_)
            | ScriptState::Echoing
            | ScriptState::Streaming { .. }
            | ScriptState::Ended => None,
        }
    }

    /// True once the call is over, even if the file of its last recording is still awaited.
    pub(super) fn is_over(&self) -> bool {
        matches!(self, ScriptState::Closing(_) | ScriptState::Ended)
    }

    /// Stops the operations that the verb under way has started: the call goes on with another document.
    pub(super) fn stop(
        &mut self,
        call: &mut CallContext,
        streams: &mut Streams,
        now: Instant,
        out: &mut ScriptOutbox,
    ) {
        match self {
            ScriptState::Speaking { prompt } => out.push(Effect::StopPrompt { id: *prompt }),
            ScriptState::Gathering(gathering) => gathering.stop(out),
            ScriptState::Recording(recorder) => recorder.stop(out),
            ScriptState::Dialing(dialing) => dialing.stop(call, now, out),
            ScriptState::InConference(membership) => membership.stop(out),
            ScriptState::InQueue(membership) => membership.close(call, now, "redirected", out),
            ScriptState::Echoing => out.push(Effect::Echo { on: false }),
            ScriptState::Streaming { id, .. } => streams.stop(call, now, *id, out),
            // No operation runs: a request's answer, an ACK or a message's fate is awaited, or a time.
            ScriptState::NotStarted
            | ScriptState::Calling
            | ScriptState::BetweenVerbs
            | ScriptState::Fetching(_)
            | ScriptState::Answering { .. }
            | ScriptState::Pausing { .. }
            | ScriptState::AwaitingReply(_)
            | ScriptState::Resting { .. }
            | ScriptState::Closing(_)
            | ScriptState::Ended => {}
        }
    }

    /// As [`ScriptState::stop`], because the call has ended: a verb whose `action` reports its result sends that
    /// request as a callback, for no document can follow.
    pub(super) fn close(
        &mut self,
        call: &mut CallContext,
        streams: &mut Streams,
        now: Instant,
        out: &mut ScriptOutbox,
    ) {
        match self {
            ScriptState::Dialing(dialing) => dialing.close(call, now, out),
            ScriptState::InConference(membership) => membership.close(call, now, out),
            ScriptState::InQueue(membership) => membership.close(call, now, "hangup", out),
            _ => self.stop(call, streams, now, out),
        }
    }
}
