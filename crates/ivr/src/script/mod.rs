//! The interpreter of one call: a machine that takes events and returns effects.
//!
//! Its caller performs the effects in their order, reports their results by `handle_*`, and calls
//! `handle_wake` at [`Script::deadline`]. States ignore late answers. Every script ends with exactly one
//! [`Effect::Ended`], after which it causes nothing.

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
mod record;
mod stream;

use std::collections::VecDeque;
use std::time::Duration;

use stdx::Instant;

pub use effect::*;
pub use form::rfc_2822;
pub use input::*;

use crate::document::{Severity, Verb};
use crate::limits;
use crate::request::{Form, Request, Target};

use conference::{Conferring, Queued};
use dial::Dialing;
use fetch::Fetching;
use gather::Gathering;
use message::Awaiting;
use record::{Closing, Recorder};

/// The effects of a script, in the order in which they are to be performed.
pub type Outbox = Vec<Effect>;

/// The interpreter of one call's documents.
#[derive(Debug)]
pub struct Script {
    call: Call,
    plan: Plan,
    status: CallStatus,
    state: State,
    /// The URL of the current document; relative URLs resolve against it.
    url: Option<String>,
    verbs: VecDeque<Verb>,
    next_id: u32,
    documents: u32,
    /// Documents in a row that took no time.
    hurried: u32,
    /// Since when the current document is performed.
    since: Instant,
    answered_at: Option<Instant>,
    /// The call's own limit.
    ends_by: Instant,
    /// The sequence number of status callbacks.
    sequence: u32,
    streams: Vec<stream::Running>,
    /// `Effect::Answer` was asked for; it is asked for once.
    answering: bool,
    /// The apology is spoken: nothing is tried after it.
    sorry: bool,
    /// Silence between the last sound and a hang-up by the document.
    end_pause: Duration,
    /// The end of the last prompt that was played to its end.
    sound_ended_at: Option<Instant>,
}

#[derive(Debug)]
enum State {
    /// `start` was not called yet.
    Fresh,
    /// One verb is over and the next has not begun; no input meets it.
    Between,
    /// An outgoing call that is not yet answered.
    Calling,
    Fetching(Box<Fetching>),
    /// For the caller's ACK.
    Answering {
        until: Instant,
    },
    Speaking {
        prompt: Id,
    },
    Pausing {
        until: Instant,
    },
    Gathering(Box<Gathering>),
    Recording(Box<Recorder>),
    Dialing(Box<Dialing>),
    Conferring(Box<Conferring>),
    Queued(Box<Queued>),
    /// For a message to be taken or a transfer to be answered.
    Awaiting(Box<Awaiting>),
    Echoing,
    /// Both ways, until it ends.
    Streaming {
        id: Id,
        action: Option<Target>,
    },
    /// A waiting script whose document took no time.
    Resting {
        until: Instant,
    },
    /// The call is over and its last recording is not a file yet.
    Closing(Box<Closing>),
    Ended,
}

/// The continuation after a verb: the next verb at once, or a wait for an event.
#[derive(Debug, PartialEq, Eq)]
enum Flow {
    Next,
    Wait,
}

impl Script {
    /// A script that has not begun.
    pub fn new(call: Call, plan: Plan) -> Script {
        let status = match (call.answered, call.direction) {
            (true, _) => CallStatus::InProgress,
            (false, Direction::Inbound) => CallStatus::Ringing,
            (false, _) => CallStatus::Queued,
        };
        Script {
            call,
            plan,
            status,
            state: State::Fresh,
            url: None,
            verbs: VecDeque::new(),
            next_id: 0,
            documents: 0,
            hurried: 0,
            since: Instant::default(),
            answered_at: None,
            ends_by: Instant::FAR_FUTURE,
            sequence: 0,
            streams: Vec::new(),
            answering: false,
            sorry: false,
            end_pause: Duration::ZERO,
            sound_ended_at: None,
        }
    }

    /// Before `start`: how long the call stays up after the last sound when the document ends it. Zero unless set.
    pub fn set_end_pause(&mut self, end_pause: Duration) {
        self.end_pause = end_pause;
    }

    /// Begins: the first effects.
    pub fn start(&mut self, now: Instant, out: &mut Outbox) {
        if !matches!(self.state, State::Fresh) {
            return;
        }
        let limit = self.plan.time_limit.unwrap_or(limits::CALL_DURATION).min(limits::CALL_DURATION);
        self.ends_by = now + limit;
        self.since = now;
        if self.call.answered {
            self.answered_at = Some(now);
            self.tell_progress(now, "answered", out);
        } else {
            self.tell_progress(now, "initiated", out);
            if self.call.direction != Direction::Inbound {
                self.state = State::Calling;
                return;
            }
            self.tell_progress(now, "ringing", out);
        }
        self.begin(now, out);
    }

    /// The one we call rings.
    pub fn handle_ringing(&mut self, now: Instant, out: &mut Outbox) {
        if matches!(self.state, State::Calling) && self.status == CallStatus::Queued {
            self.status = CallStatus::Ringing;
            self.tell_progress(now, "ringing", out);
        }
    }

    /// The one we call does not answer: busy, no-answer, failed or canceled.
    pub fn handle_unanswered(&mut self, now: Instant, status: CallStatus, out: &mut Outbox) {
        if matches!(self.state, State::Calling) {
            self.status = status;
            self.over(now, out);
        }
    }

    /// The call's parameters, as a request of this moment would carry them.
    pub fn parameters(&self) -> Form {
        form::of_call(&self.call, self.status)
    }

    /// When to call `handle_wake`. [`Instant::FAR_FUTURE`] once the script has ended.
    pub fn deadline(&self) -> Instant {
        let own = match &self.state {
            State::Fresh | State::Ended => return Instant::FAR_FUTURE,
            // The call is over; its limit is no matter any more.
            State::Closing(closing) => return closing.until,
            State::Fetching(fetching) => Some(fetching.until),
            State::Answering { until } | State::Pausing { until } | State::Resting { until } => Some(*until),
            State::Gathering(gathering) => gathering.until,
            State::Recording(recorder) => Some(recorder.until),
            State::Dialing(dialing) => dialing.until,
            State::Conferring(conferring) => Some(conferring.until),
            State::Awaiting(awaiting) => Some(awaiting.until),
            State::Speaking { .. } | State::Queued(_) | State::Calling | State::Between => None,
            State::Echoing | State::Streaming { .. } => None,
        };
        own.map_or(self.ends_by, |own| own.min(self.ends_by))
    }

    /// The call as it was given to [`Script::new`], with later changes.
    pub fn call(&self) -> &Call {
        &self.call
    }

    /// More parameters of every request from now on, instead of those there were.
    pub fn set_extra(&mut self, extra: Form) {
        self.call.extra = extra;
    }

    /// True once [`Effect::Ended`] was returned.
    pub fn is_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    /// The status of the call.
    pub fn status(&self) -> CallStatus {
        self.status
    }

    /// The deadline has come, or may have: early calls do nothing.
    pub fn handle_wake(&mut self, now: Instant, out: &mut Outbox) {
        if now < self.deadline() {
            return;
        }
        if let State::Closing(_) = self.state {
            self.finish_closing(now, None, out);
            return;
        }
        if now >= self.ends_by {
            self.hang_up(now, out);
            return;
        }
        match &self.state {
            State::Fetching(_) => self.fetch_timed_out(now, out),
            // The caller never acknowledged: there is no leg to keep.
            State::Answering { .. } => self.hang_up(now, out),
            State::Pausing { .. } => self.advance(now, out),
            State::Resting { .. } => self.begin(now, out),
            State::Gathering(_) => self.gather_timed_out(now, out),
            State::Recording(_) => self.record_timed_out(now, out),
            State::Dialing(_) => self.dial_timed_out(now, out),
            State::Conferring(_) => self.conference_timed_out(now, out),
            State::Awaiting(_) => self.await_timed_out(now, out),
            // They have no deadline of their own.
            State::Fresh
            | State::Calling
            | State::Between
            | State::Speaking { .. }
            | State::Queued(_)
            | State::Echoing
            | State::Streaming { .. }
            | State::Closing(_)
            | State::Ended => {}
        }
    }

    /// The caller's ACK came, or the leg that we called answered.
    pub fn handle_answered(&mut self, now: Instant, out: &mut Outbox) {
        if matches!(self.state, State::Fresh | State::Closing(_) | State::Ended) {
            return;
        }
        self.mark_answered(now, out);
        match self.state {
            State::Answering { .. } => self.advance(now, out),
            State::Calling => self.begin(now, out),
            _ => {}
        }
    }

    fn mark_answered(&mut self, now: Instant, out: &mut Outbox) {
        if self.answered_at.is_some() {
            return;
        }
        self.answered_at = Some(now);
        self.status = CallStatus::InProgress;
        self.tell_progress(now, "answered", out);
    }

    /// A key of the caller, however it came: `0`-`9`, `*`, `#`, `A`-`D`.
    pub fn handle_digit(&mut self, now: Instant, key: char, out: &mut Outbox) {
        let key = key.to_ascii_uppercase();
        if !matches!(key, '0'..='9' | '*' | '#' | 'A'..='D') {
            return;
        }
        match &self.state {
            State::Gathering(_) => self.gather_digit(now, key, out),
            State::Recording(_) => self.record_digit(now, key, out),
            State::Dialing(_) if key == '*' => self.dial_star(now, out),
            State::Conferring(_) if key == '*' => self.conference_star(now, out),
            // Ignored: keys pressed before a Gather are not its input, as with Twilio.
            _ => {}
        }
    }

    /// A prompt is over, with a reason when it could not be played.
    pub fn handle_prompt(&mut self, now: Instant, id: Id, failed: Option<Failure>, out: &mut Outbox) {
        let speaking = match &self.state {
            State::Speaking { prompt } => *prompt == id,
            State::Gathering(gathering) => gathering.prompt == Some(id),
            _ => false,
        };
        // One that was stopped reports too, when the next verb is under way.
        if !speaking {
            return;
        }
        match failed {
            Some(Failure { code, text }) => self.notify(Severity::Warning, code, text, out),
            None => self.sound_ended_at = Some(now),
        }
        match self.state {
            State::Gathering(_) => self.gather_prompt_over(now, out),
            _ => self.advance(now, out),
        }
    }

    fn id(&mut self) -> Id {
        self.next_id += 1;
        Id(self.next_id)
    }

    fn notify(&self, severity: Severity, code: u32, text: impl Into<String>, out: &mut Outbox) {
        let (text, url) = (text.into(), self.url.clone());
        out.push(Effect::Notify(Notification { severity, code, text, url, line: None }));
    }

    /// The account's status callback, when it asked for this event.
    fn tell_progress(&mut self, now: Instant, event: &str, out: &mut Outbox) {
        let Some(callback) = &self.plan.status else { return };
        if !callback.events.contains(&event) {
            return;
        }
        // Twilio's StatusCallback: the event `initiated` has a CallStatus of its own name, whatever the direction.
        let status = if event == "initiated" { CallStatus::Initiated } else { self.status };
        let mut form = form::of_call(&self.call, status);
        if event == "completed" {
            let talked = self.answered_at.map(|since| now.since(since).as_secs()).unwrap_or_default();
            form.push(form::pair("CallDuration", talked.to_string()));
        }
        form::progress(&mut form, now, self.sequence);
        self.sequence += 1;
        let Target { url, method } = callback.target.clone();
        out.push(Effect::Tell { request: Request { method, url, form } });
    }
}
