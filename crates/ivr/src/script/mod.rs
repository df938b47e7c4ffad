//! The interpreter of one call: a machine that takes events and returns effects.
//!
//! Its caller performs the effects in their order, reports their results by `handle_*`, and calls
//! `expire` at [`Script::deadline`]. States ignore late answers. Every script ends with exactly one
//! [`Effect::Ended`], after which it causes nothing.
//!
//! [`Script`] routes each input to the machine of the verb under way (`gather`, `record`, `dial`, `conference`, `queue`,
//! `message`, `stream`) or of the document that is loaded (`fetch`). A machine owns its verb's state and returns a
//! `Flow`: wait, the next verb, another document. `perform` begins the verbs; `call_context` has the facts, the
//! callbacks and the URLs that all machines use.

mod call_context;
mod conference;
mod dial;
mod effect;
mod end;
mod fetch;
mod form;
mod gather;
mod input;
mod message;
mod perform;
mod queue;
mod record;
mod state;
mod stream;
mod verb_log;

use std::collections::VecDeque;
use std::time::Duration;

use stdx::Instant;

pub use effect::*;
pub use form::{end_form, rfc_2822};
pub use input::*;
pub use verb_log::{PerformedVerb, VerbLog};

use crate::document::{Item, Piece, Severity, Verb, Voice, code};
use crate::limits;
use crate::request::Form;

use call_context::CallContext;
use fetch::{DocumentLoader, Loading};
use perform::{Started, begin_verb, element, is_allowed, needs_answer};
use state::{Flow, ScriptState};
use stream::Streams;

/// The effects of a script, in the order in which they are to be performed.
pub type ScriptOutbox = Vec<Effect>;

/// SIP's own patience for an ACK (64 × T1, RFC 3261 §13.3.1.4), and a little for the way.
const ACK_WAIT: Duration = Duration::from_secs(40);

/// The text that a caller hears when there is no document.
const APOLOGY: &str = "We are sorry. An application error has occurred. Goodbye.";

/// The interpreter of one call's documents.
#[derive(Debug)]
pub struct Script {
    /// Facts, settings and progress of the call.
    call: CallContext,
    /// Counts documents and requests them.
    loader: DocumentLoader,
    /// The verbs of the current document that have not begun.
    verbs: VecDeque<Verb>,
    /// The verb under way, with its machine.
    state: ScriptState,
    /// Streams that run beside the verbs.
    streams: Streams,
    /// The call's own limit.
    ends_by: Instant,
    /// The apology is spoken: nothing is tried after it.
    has_apologised: bool,
    /// Silence between the last sound and a hang-up by the document.
    end_pause: Duration,
    /// The end of the last prompt that was played to its end.
    sound_ended_at: Option<Instant>,
    /// The times of verbs, for traces.
    verb_log: VerbLog,
}

impl Script {
    /// A script that has not begun.
    pub fn new(call: Call, plan: Plan) -> Script {
        Script {
            call: CallContext::new(call, plan),
            loader: DocumentLoader::new(),
            verbs: VecDeque::new(),
            state: ScriptState::NotStarted,
            streams: Streams::default(),
            ends_by: Instant::FAR_FUTURE,
            has_apologised: false,
            end_pause: Duration::ZERO,
            sound_ended_at: None,
            verb_log: VerbLog::default(),
        }
    }

    /// Before `start`: how long the call stays up after the last sound when the document ends it. Zero unless set.
    pub fn set_end_pause(&mut self, end_pause: Duration) {
        self.end_pause = end_pause;
    }

    /// Begins: the first effects.
    pub fn start(&mut self, now: Instant, out: &mut ScriptOutbox) {
        if !matches!(self.state, ScriptState::NotStarted) {
            return;
        }
        let limit = self.call.plan.time_limit.unwrap_or(limits::CALL_DURATION).min(limits::CALL_DURATION);
        self.ends_by = now + limit;
        self.loader.performed_since = now;
        if self.call.call.answered {
            self.call.answered_at = Some(now);
            self.call.tell_progress(now, "answered", out);
        } else {
            self.call.tell_progress(now, "initiated", out);
            if self.call.call.direction != Direction::Inbound {
                self.state = ScriptState::Calling;
                return;
            }
            self.call.tell_progress(now, "ringing", out);
        }
        self.follow(now, Flow::Restart, out);
    }

    /// The call's parameters, as a request of this moment would carry them.
    pub fn parameters(&self) -> Form {
        self.call.form()
    }

    /// The call as it was given to [`Script::new`], with later changes.
    pub fn call(&self) -> &Call {
        &self.call.call
    }

    /// True once [`Effect::Ended`] was returned.
    pub fn is_ended(&self) -> bool {
        matches!(self.state, ScriptState::Ended)
    }

    /// The times of verbs, which are noted once this log is turned on.
    pub fn verb_log(&mut self) -> &mut VerbLog {
        &mut self.verb_log
    }

    /// The status of the call.
    pub fn status(&self) -> CallStatus {
        self.call.status
    }

    /// The time at which [`Script::expire`] is due; [`Instant::FAR_FUTURE`] once the script has ended.
    pub fn deadline(&self) -> Instant {
        match (&self.state, self.state.deadline()) {
            (ScriptState::NotStarted | ScriptState::Ended, _) => Instant::FAR_FUTURE,
            // The call is over; its limit is no matter any more.
            (ScriptState::Closing(_), Some(own)) => own,
            (_, Some(own)) => own.min(self.ends_by),
            (_, None) => self.ends_by,
        }
    }

    /// The deadline has come, or may have: early calls do nothing.
    pub fn expire(&mut self, now: Instant, out: &mut ScriptOutbox) {
        if now < self.deadline() {
            return;
        }
        if let ScriptState::Closing(closing) = &self.state {
            closing.finish(&self.call, None, out);
            self.end_now(now, out);
            return;
        }
        if now >= self.ends_by {
            self.hang_up(now, out);
            return;
        }
        let flow = match &mut self.state {
            ScriptState::Fetching(fetching) => {
                let loading = fetching.expire(&mut self.call, now, out);
                self.handle_loading(now, loading, out);
                return;
            }
            // The caller never acknowledged: there is no leg to keep.
            ScriptState::Answering { .. } => {
                self.hang_up(now, out);
                return;
            }
            ScriptState::Pausing { .. } => Flow::Next,
            ScriptState::Resting { .. } => Flow::Restart,
            ScriptState::Gathering(gathering) => gathering.finish(out),
            ScriptState::Recording(recorder) => recorder.expire(&self.call, out),
            ScriptState::Dialing(dialing) => dialing.expire(&mut self.call, now, out),
            ScriptState::InConference(membership) => membership.expire(now, out),
            ScriptState::AwaitingReply(pending) => pending.expire(&self.call, out),
            // They have no deadline of their own.
            ScriptState::NotStarted
            | ScriptState::Calling
            | ScriptState::BetweenVerbs
            | ScriptState::Speaking { .. }
            | ScriptState::InQueue(_)
            | ScriptState::Echoing
            | ScriptState::Streaming { .. }
            | ScriptState::Closing(_)
            | ScriptState::Ended => Flow::Wait,
        };
        self.follow(now, flow, out);
    }

    /// The party that we call rings.
    pub fn handle_ringing(&mut self, now: Instant, out: &mut ScriptOutbox) {
        if matches!(self.state, ScriptState::Calling) && self.call.status == CallStatus::Queued {
            self.call.status = CallStatus::Ringing;
            self.call.tell_progress(now, "ringing", out);
        }
    }

    /// The party that we call does not answer: busy, no-answer, failed or canceled.
    pub fn handle_unanswered(&mut self, now: Instant, status: CallStatus, out: &mut ScriptOutbox) {
        if matches!(self.state, ScriptState::Calling) {
            self.call.status = status;
            self.end_now(now, out);
        }
    }

    /// The caller's ACK came, or the leg that we called answered.
    pub fn handle_answered(&mut self, now: Instant, out: &mut ScriptOutbox) {
        if self.state.is_over() || matches!(self.state, ScriptState::NotStarted) {
            return;
        }
        self.call.mark_answered(now, out);
        match &mut self.state {
            ScriptState::Answering { keys, .. } => {
                let keys = std::mem::take(keys);
                self.follow(now, Flow::Next, out);
                keys.chars().for_each(|key| self.handle_digit(now, key, out));
            }
            ScriptState::Calling => self.follow(now, Flow::Restart, out),
            _ => {}
        }
    }

    /// A key of the caller, however it came: `0`-`9`, `*`, `#`, `A`-`D`.
    pub fn handle_digit(&mut self, now: Instant, key: char, out: &mut ScriptOutbox) {
        let key = key.to_ascii_uppercase();
        if !matches!(key, '0'..='9' | '*' | '#' | 'A'..='D') {
            return;
        }
        match &mut self.state {
            ScriptState::Gathering(gathering) => {
                let flow = gathering.handle_digit(now, key, out);
                self.follow(now, flow, out);
            }
            ScriptState::Answering { keys, .. } if keys.len() < limits::GATHERED_DIGITS => keys.push(key),
            ScriptState::Recording(recorder) => recorder.handle_digit(now, key, out),
            ScriptState::Dialing(dialing) if key == '*' => dialing.handle_star(now, out),
            ScriptState::InConference(membership) if key == '*' => membership.handle_star(now, out),
            // Ignored: keys pressed before a Gather are not its input, as with Twilio.
            _ => {}
        }
    }

    /// Speech of the caller begins, or ends without a result.
    pub fn handle_speaking(&mut self, now: Instant, is_speaking: bool) {
        if let ScriptState::Gathering(gathering) = &mut self.state {
            gathering.handle_speaking(now, is_speaking);
        }
    }

    /// A result of the recogniser.
    pub fn handle_speech(&mut self, now: Instant, speech: Speech, out: &mut ScriptOutbox) {
        let ScriptState::Gathering(gathering) = &mut self.state else { return };
        let flow = gathering.handle_speech(&self.call, now, speech, out);
        self.follow(now, flow, out);
    }

    /// A prompt is over, with a reason when it could not be played.
    pub fn handle_prompt(
        &mut self,
        now: Instant,
        id: Id,
        failed: Option<EffectFailure>,
        out: &mut ScriptOutbox,
    ) {
        let playing = match &self.state {
            ScriptState::Speaking { prompt } => Some(*prompt),
            ScriptState::Gathering(gathering) => gathering.prompt,
            _ => None,
        };
        // A prompt that was stopped reports too, when the next verb is under way.
        if playing != Some(id) {
            return;
        }
        match failed {
            Some(EffectFailure { code, text }) => self.call.notify(Severity::Warning, code, text, out),
            None => self.sound_ended_at = Some(now),
        }
        let flow = match &mut self.state {
            ScriptState::Gathering(gathering) => gathering.handle_prompt_end(now, out),
            _ => Flow::Next,
        };
        self.follow(now, flow, out);
    }

    /// The result of a recording.
    pub fn handle_recorded(
        &mut self,
        now: Instant,
        id: Id,
        result: Result<Recorded, EffectFailure>,
        out: &mut ScriptOutbox,
    ) {
        match &self.state {
            ScriptState::Recording(recorder) if recorder.id == id => {
                let flow = recorder.handle_recorded(&self.call, result, out);
                self.follow(now, flow, out);
            }
            ScriptState::Closing(closing) if closing.recorder.id == id => {
                closing.finish(&self.call, Some(result), out);
                self.end_now(now, out);
            }
            _ => {}
        }
    }

    /// An event of a leg that this call dials.
    pub fn handle_leg(&mut self, now: Instant, id: Id, event: LegEvent, out: &mut ScriptOutbox) {
        let ScriptState::Dialing(dialing) = &mut self.state else { return };
        let flow = dialing.handle_leg(&mut self.call, now, id, event, out);
        self.follow(now, flow, out);
    }

    /// An event of the conference that this call is in.
    pub fn handle_conference(
        &mut self,
        now: Instant,
        id: Id,
        event: ConferenceEvent,
        out: &mut ScriptOutbox,
    ) {
        if let ScriptState::InConference(membership) = &mut self.state
            && membership.id == id
        {
            let flow = membership.handle_event(&self.call, now, event, out);
            self.follow(now, flow, out);
        }
    }

    /// An event of the queue that this call is in.
    pub fn handle_queue(&mut self, now: Instant, id: Id, event: QueueEvent, out: &mut ScriptOutbox) {
        if let ScriptState::InQueue(membership) = &mut self.state
            && membership.id == id
        {
            let flow = membership.handle_event(now, event);
            self.follow(now, flow, out);
        }
    }

    /// An event of a stream that this call has started.
    pub fn handle_stream(&mut self, now: Instant, id: Id, event: StreamEvent, out: &mut ScriptOutbox) {
        let Some(ended) = self.streams.handle_event(&self.call, now, id, event, out) else { return };
        let ScriptState::Streaming { id: connected, action } = &self.state else { return };
        if *connected == id {
            let form = ended.sid.into_iter().map(|sid| form::pair("StreamSid", sid)).collect();
            let flow = Flow::action(action.as_ref(), form);
            self.follow(now, flow, out);
        }
    }

    /// The result of a message or a mail. Failures are noted also when the script does not wait for them.
    pub fn handle_sent(
        &mut self,
        now: Instant,
        id: Id,
        result: Result<Sent, EffectFailure>,
        out: &mut ScriptOutbox,
    ) {
        if self.state.is_over() || matches!(self.state, ScriptState::NotStarted) {
            return;
        }
        if let Err(EffectFailure { code, text }) = &result {
            self.call.notify(Severity::Error, *code, &**text, out);
        }
        if let ScriptState::AwaitingReply(pending) = &self.state {
            let flow = pending.handle_sent(id, result);
            self.follow(now, flow, out);
        }
    }

    /// The final answer to a transfer, from 200 to 699; 408 when there was none.
    pub fn handle_referred(&mut self, now: Instant, id: Id, code: u16, out: &mut ScriptOutbox) {
        if let ScriptState::AwaitingReply(pending) = &self.state {
            let flow = pending.handle_referred(&self.call, id, code, out);
            self.follow(now, flow, out);
        }
    }

    /// The answer to `Effect::Fetch`. That of a document which a redirect of the live call has overtaken is ignored.
    pub fn handle_fetched(
        &mut self,
        now: Instant,
        id: Id,
        result: Result<FetchResponse, EffectFailure>,
        out: &mut ScriptOutbox,
    ) {
        if let ScriptState::Fetching(fetching) = &mut self.state
            && fetching.id == id
        {
            let loading = fetching.handle_response(&mut self.call, now, result, out);
            self.handle_loading(now, loading, out);
        }
    }

    /// Continues as the machine of a verb, or of a command, says.
    fn follow(&mut self, now: Instant, flow: Flow, out: &mut ScriptOutbox) {
        if flow != Flow::Wait {
            self.verb_log.end(now);
        }
        match flow {
            Flow::Wait => {}
            Flow::Next => self.advance(now, out),
            Flow::Document(target, form) => {
                self.state = ScriptState::BetweenVerbs;
                let loading = self.loader.load(&mut self.call, now, &target, form, out);
                self.handle_loading(now, loading, out);
            }
            Flow::Restart => {
                let loading = self.loader.load_first(&mut self.call, now, out);
                self.handle_loading(now, loading, out);
            }
            Flow::Hangup => match self.sound_ended_at.map(|ended| ended + self.end_pause) {
                // A phone still has the last packets of sound in its jitter buffer, and its user expects a moment of
                // silence after the last word, so a BYE follows the sound after `end_pause`. Time that has passed
                // since the sound, in a `<Pause>` or a `<Gather>`, counts.
                Some(until) if now < until => {
                    // The verb comes here again when the pause is over.
                    self.verbs = [Verb::Hangup].into();
                    self.state = ScriptState::Pausing { until };
                }
                _ => self.hang_up(now, out),
            },
            Flow::Refuse(refusal) => {
                let status = match refusal {
                    Refusal::Busy => CallStatus::Busy,
                    Refusal::Rejected => CallStatus::NoAnswer,
                    Refusal::ApplicationError => CallStatus::Failed,
                };
                self.end(now, status, Some(Effect::Reject(refusal)), out);
            }
            Flow::Done => {
                self.verbs.clear();
                self.state = ScriptState::Ended;
                out.push(Effect::Done);
                out.push(Effect::Ended(self.call.status));
            }
        }
    }

    /// Begins the next verbs, until one takes time or leads elsewhere.
    fn advance(&mut self, now: Instant, out: &mut ScriptOutbox) {
        self.state = ScriptState::BetweenVerbs;
        loop {
            let role = self.call.plan.role;
            let verb = match (self.verbs.pop_front(), role) {
                (Some(verb), _) => verb,
                // The end of a call's document hangs up. An empty document answers before that, as with Twilio, so
                // that the caller is not refused by accident.
                (None, Role::Call) => Verb::Hangup,
                (None, Role::Screening) => return self.follow(now, Flow::Done, out),
                (None, Role::Waiting) => {
                    let rested = self.loader.performed_since + limits::WAIT_REST;
                    if now < rested {
                        self.state = ScriptState::Resting { until: rested };
                        return;
                    }
                    return self.follow(now, Flow::Restart, out);
                }
            };
            if !is_allowed(role, &verb) {
                let text = format!("{} is not performed here: passed over", element(&verb));
                self.call.notify(Severity::Warning, code::INVALID, text, out);
                continue;
            }
            if self.call.answered_at.is_none() && needs_answer(&self.call, &verb) {
                self.verbs.push_front(verb);
                self.state = ScriptState::Answering { until: now + ACK_WAIT, keys: String::new() };
                self.call.request_answer(out);
                return;
            }
            self.verb_log.begin(now, element(&verb));
            match begin_verb(&mut self.call, &mut self.streams, now, verb, out) {
                Started::State(state) => {
                    self.state = state;
                    return;
                }
                Started::Flow(Flow::Next) => self.verb_log.end(now),
                Started::Flow(flow) => return self.follow(now, flow, out),
            }
        }
    }

    /// Performs a document that has come, or waits for it.
    fn handle_loading(&mut self, now: Instant, loading: Loading, out: &mut ScriptOutbox) {
        match loading {
            Loading::Pending(fetching) => {
                self.verbs.clear();
                self.state = ScriptState::Fetching(Box::new(fetching));
            }
            Loading::Loaded(document) => {
                for note in document.notes {
                    out.push(Effect::Notify(Notification::of_note(note, self.call.document_url.clone())));
                }
                self.loader.performed_since = now;
                self.verbs = document.verbs.into();
                self.advance(now, out);
            }
            Loading::Failed => self.apologise(now, out),
        }
    }

    /// There is no document: a caller hears the reason, and a call that is not answered is refused with 500.
    fn apologise(&mut self, now: Instant, out: &mut ScriptOutbox) {
        if self.call.plan.role == Role::Waiting {
            return self.follow(now, Flow::Done, out);
        }
        if !self.call.is_answered_or_answering() {
            return self.follow(now, Flow::Refuse(Refusal::ApplicationError), out);
        }
        if self.has_apologised || self.call.plan.role == Role::Screening {
            self.hang_up(now, out);
            return;
        }
        self.has_apologised = true;
        let speech = Item::Speech { text: APOLOGY.to_owned(), voice: Voice::Man, language: "en".to_owned() };
        self.verbs = [Verb::Say(Piece { items: vec![speech], loops: 1 }), Verb::Hangup].into();
        self.advance(now, out);
    }
}
