//! The steps of one end, in order: sends, receptions, pauses, media.
//!
//! In: the messages of a call and the media of one end, both with times. Out: a list of [`Step`]s, each one
//! element of the scenario. The builder walks the messages once and keeps the facts that a template needs:
//! how far back the INVITE of an ACK or CANCEL is, which request a response answers, whether a route is
//! known.

use std::time::Duration;

use super::sent::{self, SentFacts};
use super::{End, PlayedMedia};
use crate::calls::RecordedMessage;
use crate::limits::{MAX_STEPS, MIN_PAUSE};
use crate::message::SipMessage;

/// One element of the scenario.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) kind: StepKind,
}

/// The kind of a step.
#[derive(Debug, Clone)]
pub(super) enum StepKind {
    /// A message of this end.
    Send {
        /// The text, as `sent::message` returns it.
        lines: Vec<String>,
        ends_with_line: bool,
        /// The player repeats it over UDP until an answer comes.
        retransmits: bool,
        /// The response time is measured from here: the first message of the call.
        starts_clock: bool,
        /// The index of the received request that it answers, where the last one received is another.
        response_txn: Option<usize>,
    },
    /// A message of the peer.
    Recv(RecvStep),
    /// Milliseconds.
    Pause(u128),
    /// RTP from a file.
    Play {
        /// `audio` or `video`.
        kind: &'static str,
        file: String,
    },
    /// Received RTP is sent back from now on.
    Echo,
    /// The call is kept for a while after its last message.
    TimeWait,
}

/// A message that is expected.
#[derive(Debug, Clone, Default)]
pub(super) struct RecvStep {
    /// The method; `None` for a response.
    pub(super) request: Option<String>,
    /// The status code of a response.
    pub(super) code: u16,
    /// The call goes on without it.
    pub(super) is_optional: bool,
    /// Its Record-Route and Contact are those of the dialog (RFC 3261 §12.1).
    pub(super) keeps_route: bool,
    /// Its challenge is answered in a later request (RFC 3261 §22).
    pub(super) keeps_challenge: bool,
    /// Its From, with the tag, is the To of later requests of this end.
    pub(super) keeps_caller: bool,
    /// The response time is measured until here.
    pub(super) stops_clock: bool,
    /// The index of this request, where a response to it is sent only after another message has come.
    pub(super) start_txn: Option<usize>,
}

/// Provisional responses that may come whether they were recorded or not: another server than the recorded
/// one may ring differently.
const PROVISIONAL: [u16; 3] = [100, 180, 183];

/// An event of one end at a time of the recording.
enum Event<'a> {
    Message(usize, &'a RecordedMessage),
    Media(&'a PlayedMedia),
}

/// The steps of an end. `pauses`: waits are kept. `played`: the end's media. Parts that are left out add to
/// `notes`.
pub(super) fn steps(
    end: &End<'_>,
    pauses: bool,
    played: &[PlayedMedia],
    notes: &mut Vec<String>,
) -> Vec<Step> {
    let mut builder = StepBuilder {
        end,
        steps: Vec::new(),
        requests: Vec::new(),
        step_of: Vec::new(),
        last: None,
        cseq: 0,
    };
    let mut clock: Option<Duration> = None;
    for (at, event) in timeline(end, played) {
        if builder.steps.len() >= MAX_STEPS {
            notes.push(format!("the call is cut after {MAX_STEPS} steps"));
            break;
        }
        // Only an end's own steps wait: a reception takes as long as the peer does.
        let is_own = match &event {
            Event::Message(_, recorded) => recorded.is_from_caller == end.is_caller,
            Event::Media(_) => true,
        };
        let waited = clock.map_or(0, |clock| at.saturating_sub(clock).as_millis());
        if pauses && is_own && waited >= MIN_PAUSE {
            builder.push(StepKind::Pause(waited));
        }
        // Times of a capture may go backwards, when it was merged from several interfaces.
        clock = Some(clock.map_or(at, |clock| clock.max(at)));
        match event {
            Event::Message(index, recorded) if is_own => builder.send(index, &recorded.message, notes),
            Event::Message(index, recorded) => builder.receive(index, &recorded.message),
            Event::Media(PlayedMedia::Capture { kind, file, .. }) => {
                builder.push(StepKind::Play { kind, file: file.clone() });
            }
            Event::Media(PlayedMedia::Echo { .. }) => builder.push(StepKind::Echo),
        }
    }
    builder.finish()
}

/// Messages and media of this end by time. Messages keep the order of the file even where times disagree;
/// media follows the message that names its address, also when its first packet was captured before that
/// message.
fn timeline<'a>(end: &End<'a>, played: &'a [PlayedMedia]) -> Vec<(Duration, Event<'a>)> {
    let messages = &end.call.messages;
    let at = |index: usize| messages.get(index).map_or(Duration::ZERO, |it| it.at);
    let mut events: Vec<(usize, Duration, Event<'a>)> = messages
        .iter()
        .enumerate()
        .map(|(index, recorded)| (2 * index, recorded.at, Event::Message(index, recorded)))
        .collect();
    for media in played {
        let (started, named_by) = match media {
            PlayedMedia::Capture { started, named_by, .. } => (*started, *named_by),
            PlayedMedia::Echo { named_by } => (at(*named_by), *named_by),
        };
        // Messages have even places, and media stands at the odd place behind the later of two messages.
        let latest = messages.iter().rposition(|it| it.at <= started).unwrap_or(0);
        let behind = latest.max(named_by);
        events.push((2 * behind + 1, started.max(at(behind)), Event::Media(media)));
    }
    events.sort_by_key(|(place, at, _)| (*place, *at));
    events.into_iter().map(|(_, at, event)| (at, event)).collect()
}

/// The state of the walk over an end's messages. Messages are named by their index in the call.
struct StepBuilder<'a> {
    end: &'a End<'a>,
    steps: Vec<Step>,
    /// Messages that are requests of this end which begin a transaction, in order: all but ACK and CANCEL.
    requests: Vec<usize>,
    /// Message to step. A list: it is searched a few times a call.
    step_of: Vec<(usize, usize)>,
    /// The message received last: the one that the player's `[last_…]` keywords are of.
    last: Option<usize>,
    /// The number of `requests` so far.
    cseq: i64,
}

impl StepBuilder<'_> {
    fn push(&mut self, kind: StepKind) {
        self.steps.push(Step { kind });
    }

    fn message(&self, index: usize) -> &SipMessage {
        &self.end.call.messages[index].message
    }

    fn step_of(&self, message: usize) -> Option<usize> {
        self.step_of.iter().find(|(known, _)| *known == message).map(|(_, step)| *step)
    }

    /// Adds the step of an own message. A response whose request is not in the capture is left out: the
    /// player has nothing to answer.
    fn send(&mut self, index: usize, message: &SipMessage, notes: &mut Vec<String>) {
        let (facts, retransmits, response_txn) = match message.code() {
            None => (self.request_facts(index, message), message.method() != "ACK", None),
            Some(code) => match self.answered(index, message) {
                Some(request) => {
                    let of_last = self.last == Some(request);
                    let facts = SentFacts {
                        adds_tag: self.message(request).tag("To").is_none(),
                        ..SentFacts::default()
                    };
                    // RFC 3261 §13.3.1.4: final responses to INVITE are repeated until the ACK.
                    let retransmits =
                        code >= 200 && message.method() == "INVITE" && self.is_acknowledged(index);
                    (facts, retransmits, (!of_last).then_some(request))
                }
                None => {
                    notes.push(format!(
                        "a response {code} to a request that the capture does not have is left out"
                    ));
                    return;
                }
            },
        };
        // The reception is already in the list; only now it is known that the player must keep its request.
        if let Some(step) = response_txn.and_then(|request| self.step_of(request))
            && let StepKind::Recv(recv) = &mut self.steps[step].kind
        {
            recv.start_txn = response_txn;
        }
        let (lines, ends_with_line) = sent::message(self.end, message, facts);
        let starts_clock = index == 0;
        self.step_of.push((index, self.steps.len()));
        self.push(StepKind::Send { lines, ends_with_line, retransmits, starts_clock, response_txn });
        if message.code().is_none() && message.method() == "INVITE" {
            self.expect_provisional(index);
        }
    }

    /// True if the next request of the call is the peer's ACK. Otherwise the repetition of the response would
    /// wait for an ACK behind other steps.
    fn is_acknowledged(&self, index: usize) -> bool {
        let later = self.end.call.messages[index + 1..].iter();
        let mut later = later.filter(|it| it.message.code().is_none());
        later.next().is_some_and(|it| it.is_from_caller != self.end.is_caller && it.message.method() == "ACK")
    }

    /// The received request that a response answers.
    fn answered(&self, index: usize, response: &SipMessage) -> Option<usize> {
        let before = &self.end.call.messages[..index];
        before.iter().rposition(|it| {
            it.is_from_caller != self.end.is_caller
                && it.message.code().is_none()
                && it.message.cseq() == response.cseq()
        })
    }

    /// The facts about an own request, which is counted if it begins a transaction.
    fn request_facts(&mut self, index: usize, message: &SipMessage) -> SentFacts {
        let mut facts = SentFacts { is_in_dialog: message.tag("To").is_some(), ..SentFacts::default() };
        if !matches!(message.method(), "ACK" | "CANCEL") {
            self.requests.push(index);
            self.cseq += 1;
            facts.is_in_dialog &= self.has_route();
            return facts;
        }
        let number = message.cseq().map(|(number, _)| number);
        let invite = self.requests.iter().rposition(|request| {
            let known = self.message(*request);
            known.method() == "INVITE" && known.cseq().map(|(number, _)| number) == number
        });
        // `[cseq]` counts on with each transaction; an ACK or CANCEL goes back to the number of its INVITE
        // (RFC 3261 §9.1, §13.2.2.4).
        if let Some(place) = invite {
            let request = self.requests[place];
            let (count, of) = (self.requests.len(), place + 1);
            facts.cseq = i64::try_from(of).unwrap_or(0) - i64::try_from(count).unwrap_or(0);
            // RFC 3261 §9.1, §17.1.1.3: CANCEL and the ACK of a refusal have the INVITE's branch and Request-URI.
            if self.message(request).branch() == message.branch()
                && let Some(step) = self.step_of(request)
            {
                facts.branch =
                    i64::try_from(step).unwrap_or(0) - i64::try_from(self.steps.len()).unwrap_or(0);
                facts.is_in_dialog = self.message(request).tag("To").is_some();
            }
        }
        facts.is_in_dialog &= self.has_route();
        facts
    }

    /// True if a step before keeps the peer's Contact. Without it `[next_url]` would be empty, and the
    /// recorded Request-URI is sent.
    fn has_route(&self) -> bool {
        self.steps.iter().any(|step| matches!(&step.kind, StepKind::Recv(recv) if recv.keeps_route))
    }

    /// Optional receptions behind an INVITE, of codes that were not recorded. An optional reception needs
    /// another reception behind it, so none is added where the next step of this end is its own.
    fn expect_provisional(&mut self, invite: usize) {
        let messages = &self.end.call.messages;
        let is_received = messages.get(invite + 1).is_some_and(|it| it.is_from_caller != self.end.is_caller);
        if !is_received {
            return;
        }
        let cseq = self.message(invite).cseq();
        let recorded: Vec<u16> = messages[invite..]
            .iter()
            .filter(|it| it.message.cseq() == cseq)
            .filter_map(|it| it.message.code())
            .collect();
        for code in PROVISIONAL.into_iter().filter(|code| !recorded.contains(code)) {
            self.push(StepKind::Recv(RecvStep { code, ..RecvStep::default() }));
        }
    }

    /// Adds the step of a message of the peer, with all that later steps need of it.
    fn receive(&mut self, index: usize, message: &SipMessage) {
        let mut recv = RecvStep::default();
        let has_contact = message.header("Contact").is_some();
        match message.code() {
            None => {
                recv.request = Some(message.method().to_owned());
                // Methods whose messages make a dialog: RFC 3261 §12, RFC 6665 §4.1, RFC 3515 §2.
                let makes_dialog = matches!(message.method(), "INVITE" | "SUBSCRIBE" | "REFER");
                recv.keeps_route = has_contact && makes_dialog && message.tag("To").is_none();
                recv.keeps_caller = index == 0 && self.sends_requests();
            }
            Some(code) => {
                recv.code = code;
                let makes_dialog = matches!(message.method(), "INVITE" | "SUBSCRIBE" | "REFER");
                recv.keeps_route = has_contact && makes_dialog && (101..300).contains(&code);
                recv.keeps_challenge = matches!(code, 401 | 407)
                    && (message.header("WWW-Authenticate").is_some()
                        || message.header("Proxy-Authenticate").is_some());
                let first = self.message(0);
                recv.stops_clock =
                    self.end.is_caller && (200..300).contains(&code) && message.cseq() == first.cseq();
            }
        }
        self.last = Some(index);
        self.step_of.push((index, self.steps.len()));
        self.push(StepKind::Recv(recv));
    }

    /// True if this end, which is called, sends requests of its own.
    fn sends_requests(&self) -> bool {
        let messages = &self.end.call.messages;
        messages.iter().any(|it| it.is_from_caller == self.end.is_caller && it.message.code().is_none())
    }

    /// Provisional responses are optional where another reception follows: a peer may leave them out (RFC
    /// 3261 §13.3.1.1). A provisional response before an own step is awaited, as that step, such as PRACK or
    /// CANCEL, answers it.
    fn finish(mut self) -> Vec<Step> {
        let is_recv = |step: Option<&Step>| matches!(step.map(|step| &step.kind), Some(StepKind::Recv(_)));
        for at in 0..self.steps.len() {
            let follows = is_recv(self.steps.get(at + 1));
            if let StepKind::Recv(recv) = &mut self.steps[at].kind {
                recv.is_optional = recv.request.is_none() && recv.code < 200 && follows;
            }
        }
        // The peer repeats what it did not see answered.
        if matches!(self.steps.last().map(|step| &step.kind), Some(StepKind::Send { .. })) {
            self.push(StepKind::TimeWait);
        }
        self.steps
    }
}
