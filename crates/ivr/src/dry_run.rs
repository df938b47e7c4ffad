//! A dry run of a call: the interpreter performs documents, and each of its effects becomes a [`Step`] instead of a deed.
//!
//! The caller of the [`DryRun`] plays the application: it gives the documents that [`DryRun::advance`] asks for, or ends there. The run plays the
//! phone network: prompts are heard to their end, the caller enters the inputs that were given at the start, parties answer as the start says. Time
//! is virtual, nothing is sent, and a run has at most [`limits::DRY_RUN_STEPS`] steps.

use std::collections::VecDeque;
use std::time::Duration;

use stdx::Instant;

use crate::document::{Address, Document, Note, Piece};
use crate::limits;
use crate::request::Request;
use crate::script::{
    Call, CallStatus, ConferenceEvent, Effect, EffectFailure, FetchResponse, Id, LegEvent, LegFailure,
    Notification, Plan, QueueEvent, QueueResult, Recorded, Recording, Refusal, Script, Sent, Speech, Start,
    StreamEvent,
};

/// The parts of a call that no document decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Behaviour {
    /// The caller's entries at one Gather after another; an empty text, or none: nothing.
    pub inputs: Vec<String>,
    /// The outcome of each Dial: completed, busy, no-answer or failed.
    pub dial: CallStatus,
}

/// One step of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A document is requested.
    Request(Request),
    /// A document has come.
    Document {
        /// The URL it came from; `None`: it was given at the start.
        url: Option<String>,
        /// Bytes.
        length: usize,
    },
    /// A callback is sent.
    Callback(Request),
    /// A message to the application's author.
    Note(Notification),
    /// The call is answered.
    Answer,
    /// The caller hears that a phone rings (180).
    Ring,
    /// The call is refused, with this status of SIP.
    Refuse(u16),
    /// The caller hears these.
    Prompt(Vec<Piece>),
    /// The script waits for keys, speech, or both.
    Listen {
        /// Keys are taken.
        keys: bool,
        /// Speech is recognised.
        speech: bool,
    },
    /// The caller presses keys.
    Keys(String),
    /// The caller says something.
    Speech(String),
    /// The caller enters nothing.
    NoInput,
    /// The caller is recorded.
    Record(Recording),
    /// Parties are called at once.
    Dial {
        /// The addresses as the document has them.
        to: Vec<String>,
        /// The caller that is shown; `None`: the call's own.
        caller_id: Option<String>,
        /// The connection is recorded.
        is_recorded: bool,
    },
    /// The outcome of a Dial.
    DialOutcome(CallStatus),
    /// A document is performed for the callee first.
    Screen {
        /// Its URL.
        url: String,
    },
    /// Caller and callee are connected.
    Connected,
    /// The call joins a conference, and stays until that ends.
    Conference {
        /// The name of the room.
        name: String,
    },
    /// The call waits in a queue, until another call takes it.
    Queue {
        /// The name of the queue.
        name: String,
    },
    /// A text message is sent.
    Message {
        /// The sender.
        from: String,
        /// The recipient.
        to: String,
        /// The text.
        body: String,
    },
    /// A mail is sent.
    Mail {
        /// The recipients.
        to: String,
        /// The subject line.
        subject: String,
    },
    /// The caller is transferred (RFC 3515).
    Refer {
        /// The URI of the Refer-To header field.
        uri: String,
    },
    /// The call's sound is sent to a WebSocket.
    Stream {
        /// The URL of the WebSocket.
        url: String,
        /// The caller hears its answer.
        two_way: bool,
    },
    /// The caller's sound comes back until the caller hangs up.
    Echo,
    /// The call is hung up.
    Hangup,
    /// The call is over.
    Ended(CallStatus),
    /// The run ends here: it has as many steps as a run may have.
    TooLong,
}

/// The reason why [`DryRun::advance`] returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// The script waits for the document of this request.
    Wanted(Request),
    /// Nothing follows.
    Over,
}

/// A report to the script that is due, in place of the network's.
#[derive(Debug)]
enum Report {
    Answered,
    PromptEnd(Id),
    Recorded(Id),
    Leg(Id, LegEvent),
    Conference(Id, ConferenceEvent),
    Queue(Id, QueueEvent),
    Stream(Id, StreamEvent),
    Sent(Id),
    Referred(Id),
}

/// A call that is not made.
#[derive(Debug)]
pub struct DryRun {
    script: Script,
    now: Instant,
    inputs: VecDeque<String>,
    dial: CallStatus,
    effects: VecDeque<Effect>,
    reports: VecDeque<Report>,
    steps: Vec<Step>,
    /// The document that is waited for.
    wanted: Option<(Id, Request)>,
    /// A Gather waits for input.
    listens: Option<(bool, bool)>,
    /// The reason why the latest document is none.
    fault: Option<Note>,
    has_started: bool,
    is_over: bool,
}

impl DryRun {
    /// A run that has not begun.
    pub fn new(call: Call, plan: Plan, behaviour: Behaviour) -> DryRun {
        let mut steps = Vec::new();
        let mut fault = None;
        if let Start::Document(bytes) = &plan.start {
            steps.push(Step::Document { url: None, length: bytes.len() });
            fault = Document::parse(bytes, None).err();
        }
        DryRun {
            script: Script::new(call, plan),
            // Any time will do: the script sees differences of times.
            now: Instant::from_unix_seconds(1_000_000),
            inputs: behaviour.inputs.into(),
            dial: behaviour.dial,
            effects: VecDeque::new(),
            reports: VecDeque::new(),
            steps,
            wanted: None,
            listens: None,
            fault,
            has_started: false,
            is_over: false,
        }
    }

    /// The steps so far.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Goes on until a document is wanted, or nothing follows.
    pub fn advance(&mut self) -> Progress {
        if !self.has_started {
            self.has_started = true;
            self.tell(Script::start);
        }
        while !self.is_over {
            if self.steps.len() >= limits::DRY_RUN_STEPS {
                self.steps.push(Step::TooLong);
                self.is_over = true;
            } else if let Some(effect) = self.effects.pop_front() {
                self.perform(effect);
            } else if let Some((_, request)) = &self.wanted {
                return Progress::Wanted(request.clone());
            } else if let Some(report) = self.reports.pop_front() {
                self.report(report);
            } else if let Some((keys, speech)) = self.listens.take() {
                self.enter(keys, speech);
            } else {
                self.wait();
            }
        }
        Progress::Over
    }

    /// The answer to the request that is waited for.
    pub fn handle_fetched(&mut self, result: Result<FetchResponse, EffectFailure>) {
        let Some((id, request)) = self.wanted.take() else { return };
        if let Ok(response) = &result {
            let url = response.url.clone().unwrap_or(request.url);
            self.steps.push(Step::Document { url: Some(url), length: response.body.len() });
            self.fault = Document::parse(&response.body, None).err();
        }
        self.tell(|script, now, out| script.handle_fetched(now, id, result, out));
    }

    /// Gives the script an input, and queues its effects.
    fn tell(&mut self, input: impl FnOnce(&mut Script, Instant, &mut Vec<Effect>)) {
        let mut out = Vec::new();
        input(&mut self.script, self.now, &mut out);
        self.effects.extend(out);
    }

    /// Nothing happens until the script's own deadline: a pause, a time-out, the longest time of a call.
    fn wait(&mut self) {
        let deadline = self.script.deadline();
        if deadline == Instant::FAR_FUTURE {
            self.is_over = true;
            return;
        }
        self.now = self.now.max(deadline);
        self.tell(Script::expire);
    }

    /// The caller's next input: keys where only such stand in it, else words.
    fn enter(&mut self, keys: bool, speech: bool) {
        let input = self.inputs.pop_front().unwrap_or_default();
        let is_keys = input.chars().all(|key| matches!(key, '0'..='9' | '*' | '#' | 'A'..='D'));
        if !input.is_empty() && is_keys && keys {
            self.steps.push(Step::Keys(input.clone()));
            for key in input.chars() {
                self.tell(|script, now, out| script.handle_digit(now, key, out));
            }
        } else if !input.is_empty() && speech {
            self.steps.push(Step::Speech(input.clone()));
            let speech = Speech { text: input, is_final: true, confidence: None };
            self.tell(|script, now, out| script.handle_speech(now, speech, out));
        } else {
            self.steps.push(Step::NoInput);
        }
    }

    /// Passes a report on; most come a second after the one before.
    fn report(&mut self, report: Report) {
        self.now = self.now + Duration::from_secs(1);
        match report {
            Report::Answered => self.tell(Script::handle_answered),
            Report::PromptEnd(id) => self.tell(|script, now, out| script.handle_prompt(now, id, None, out)),
            Report::Recorded(id) => {
                let recorded = recorded();
                self.tell(|script, now, out| script.handle_recorded(now, id, Ok(recorded), out));
            }
            Report::Leg(id, event) => {
                self.tell(|script, now, out| script.handle_leg(now, id, event, out));
            }
            Report::Conference(id, event) => {
                self.tell(|script, now, out| script.handle_conference(now, id, event, out));
            }
            Report::Queue(id, event) => {
                self.tell(|script, now, out| script.handle_queue(now, id, event, out));
            }
            Report::Stream(id, event) => {
                self.tell(|script, now, out| script.handle_stream(now, id, event, out));
            }
            Report::Sent(id) => {
                let sent = Sent { sid: EXAMPLE_SID.into(), status: "sent".into() };
                self.tell(|script, now, out| script.handle_sent(now, id, Ok(sent), out));
            }
            Report::Referred(id) => self.tell(|script, now, out| script.handle_referred(now, id, 200, out)),
        }
    }

    /// Notes an effect as a step, and queues the reports that follow from it.
    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Fetch { id, request } => {
                self.steps.push(Step::Request(request.clone()));
                self.wanted = Some((id, request));
            }
            Effect::Tell { request } => self.steps.push(Step::Callback(request)),
            Effect::Notify(notification) => self.note(notification),
            Effect::Answer => {
                self.steps.push(Step::Answer);
                self.reports.push_back(Report::Answered);
            }
            Effect::Ring => self.steps.push(Step::Ring),
            Effect::Reject(refusal) => self.steps.push(Step::Refuse(status_of(refusal))),
            Effect::Hangup => self.steps.push(Step::Hangup),
            Effect::Refer { id, uri } => {
                self.steps.push(Step::Refer { uri });
                self.reports.push_back(Report::Referred(id));
            }
            Effect::Prompt { id, pieces } => {
                // One that repeats for ever ends with the call.
                if pieces.iter().all(|piece| piece.loops > 0) {
                    self.reports.push_back(Report::PromptEnd(id));
                }
                self.steps.push(Step::Prompt(pieces));
            }
            // The keys that end something are not pressed by this caller.
            Effect::Listen { .. } if self.is_for_end() => {}
            Effect::Listen { digits, speech } => {
                let speech = speech.is_some();
                self.steps.push(Step::Listen { keys: digits, speech });
                self.listens = Some((digits, speech));
            }
            Effect::StopListening => self.listens = None,
            Effect::Record { id, recording } => {
                self.steps.push(Step::Record(*recording));
                self.reports.push_back(Report::Recorded(id));
            }
            Effect::StartStream { id, stream } => {
                self.steps.push(Step::Stream { url: stream.url, two_way: stream.two_way });
                self.reports.push_back(Report::Stream(id, StreamEvent::Started { sid: EXAMPLE_SID.into() }));
                if stream.two_way {
                    self.reports.push_back(Report::Stream(id, StreamEvent::Ended));
                }
            }
            Effect::Echo { on: true } => self.steps.push(Step::Echo),
            Effect::Ended(status) => {
                self.steps.push(Step::Ended(status));
                self.is_over = true;
            }
            others => self.perform_with_others(others),
        }
    }

    /// The effects that concern other parties than the caller.
    fn perform_with_others(&mut self, effect: Effect) {
        match effect {
            Effect::Dial { legs, options } => {
                let to = legs.iter().map(|leg| address(&leg.address)).collect();
                let is_recorded = options.record.is_some();
                self.steps.push(Step::Dial { to, caller_id: options.caller_id, is_recorded });
                for leg in &legs {
                    if let Address::Queue { document: Some(target), .. } = &leg.address {
                        self.steps.push(Step::Screen { url: target.url.clone() });
                    }
                }
                self.ring(legs.iter().map(|leg| leg.id).collect());
            }
            Effect::Screen { leg, target } => {
                self.steps.push(Step::Screen { url: target.url });
                self.reports.push_back(Report::Leg(leg, LegEvent::Screened { accepted: true }));
            }
            Effect::Bridge { leg } => {
                self.steps.push(Step::Connected);
                self.reports.push_back(Report::Leg(leg, LegEvent::Ended { recording: None }));
            }
            Effect::JoinConference { id, conference, .. } => {
                self.steps.push(Step::Conference { name: conference.name });
                let joined = ConferenceEvent::Joined { sid: EXAMPLE_SID.into() };
                self.reports.push_back(Report::Conference(id, joined));
                let left = ConferenceEvent::Left { recording: None };
                self.reports.push_back(Report::Conference(id, left));
            }
            Effect::Enqueue { id, name, .. } => {
                self.steps.push(Step::Queue { name });
                let entered = QueueEvent::Entered { sid: EXAMPLE_SID.into() };
                for event in [entered, QueueEvent::Bridged, QueueEvent::Left(QueueResult::Bridged)] {
                    self.reports.push_back(Report::Queue(id, event));
                }
            }
            Effect::SendMessage { id, message } => {
                let message = *message;
                self.steps.push(Step::Message { from: message.from, to: message.to, body: message.body });
                self.reports.push_back(Report::Sent(id));
            }
            Effect::SendMail { id, mail } => {
                self.steps.push(Step::Mail { to: mail.to.join(", "), subject: mail.subject });
                self.reports.push_back(Report::Sent(id));
            }
            // The ends of what has begun, and work after a recording: the caller perceives none of them.
            _ => {}
        }
    }

    /// The parties of a Dial behave as the start says: the first one answers, or none.
    fn ring(&mut self, legs: Vec<Id>) {
        self.steps.push(Step::DialOutcome(self.dial));
        let mut report = |leg: Id, event: LegEvent| self.reports.push_back(Report::Leg(leg, event));
        for leg in &legs {
            report(*leg, LegEvent::Started { sid: EXAMPLE_SID.into() });
            if self.dial == CallStatus::Completed || self.dial == CallStatus::NoAnswer {
                report(*leg, LegEvent::Ringing);
            }
        }
        match (self.dial, legs.first()) {
            (CallStatus::Completed, Some(first)) => report(*first, LegEvent::Answered),
            (status, _) => {
                for leg in legs {
                    report(leg, LegEvent::Failed(LegFailure::without_answer(status)));
                }
            }
        }
    }

    /// True if what is listened for is the end of a connection, a recording or a stay in a conference, by a key.
    fn is_for_end(&self) -> bool {
        let next = self.effects.front();
        matches!(next, Some(Effect::Bridge { .. } | Effect::Record { .. } | Effect::JoinConference { .. }))
            || matches!(self.steps.last(), Some(Step::Conference { .. } | Step::Record(_)))
    }

    /// A document that is none has its place in the note's own fields.
    fn note(&mut self, mut notification: Notification) {
        if let Some(fault) = self.fault.take_if(|fault| fault.to_string() == notification.text) {
            notification.line = Some(fault.line);
            notification.column = Some(fault.column);
            notification.text = fault.text;
        }
        self.steps.push(Step::Note(notification));
    }
}

/// A sid where the node would make one.
const EXAMPLE_SID: &str = "XX00000000000000000000000000000000";

/// A recording of some seconds.
fn recorded() -> Recorded {
    Recorded {
        sid: "RE00000000000000000000000000000000".into(),
        url: "https://example.invalid/RE00000000000000000000000000000000".into(),
        public_url: None,
        duration: Duration::from_secs(5),
    }
}

fn status_of(refusal: Refusal) -> u16 {
    match refusal {
        Refusal::Rejected => 603,
        Refusal::Busy => 486,
        Refusal::ApplicationError => 500,
    }
}

/// An address in one line, without a password.
fn address(address: &Address) -> String {
    match address {
        Address::Number { number, .. } => number.clone(),
        Address::Client { name } => format!("client:{name}"),
        Address::Sip { uri, .. } | Address::Uri(uri) => uri.clone(),
        Address::Queue { name, .. } => format!("queue:{name}"),
    }
}
