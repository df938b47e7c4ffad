//! One session: requests in order, those that wait, and the answers to the last of them.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use sha1::{Digest, Sha1};
use stdx::Instant;

use super::{BoshSettings, Condition, Request};
use crate::xml::escape;
use crate::{Element, limits, ns};

/// For the stream, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// It begins, or begins anew: the header that a client writes elsewhere.
    Open(Element),
    /// A stanza or another element of the stream.
    Payload(Element),
    /// The client ends it.
    Close,
}

/// The response to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status of HTTP; 200 but for clients from before conditions.
    pub status: u16,
    /// A request broke the rules.
    pub is_refusal: bool,
    /// The `<body/>` as text.
    pub body: Box<str>,
}

/// The effects of a session: elements for the stream and answers to requests.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Elements and events for the stream, in order.
    pub inputs: Vec<Input>,
    /// By the driver's number of the request.
    pub answers: Vec<(u64, Reply)>,
}

/// A request that has no answer yet.
#[derive(Debug)]
struct Pending {
    /// The driver's number. `None`: its connection is lost, and the client will send it again.
    ticket: Option<u64>,
    /// It is answered then, at the latest.
    until: Instant,
    /// The requests before it have come by then, or the session ends.
    in_turn_by: Instant,
    /// Until its turn comes.
    request: Option<Box<Request>>,
}

#[derive(Debug, PartialEq, Eq)]
enum BoshState {
    Open,
    /// The stream is over; the next request will be told. Its terminating body.
    Ending(Box<str>),
    Over,
}

/// A client's session.
#[derive(Debug)]
pub struct Session {
    sid: Box<str>,
    state: BoshState,
    wait: Duration,
    hold: u32,
    /// The window: so many may wait, with those that came too early.
    requests: u32,
    inactivity: Duration,
    /// The allowed inactivity now: a requested pause makes it longer or shorter.
    patience: Duration,
    settings: BoshSettings,
    is_polling: bool,
    is_legacy: bool,
    acks: bool,
    /// All up to this one were passed on.
    received: u64,
    /// All up to this one were answered.
    answered: u64,
    pending: BTreeMap<u64, Pending>,
    /// The last responses, for requests that are repeated.
    replies: VecDeque<(u64, Reply)>,
    /// The expected hash of the next key.
    key: Option<Box<str>>,
    /// When an empty request came last, if the one before was answered with nothing.
    last_empty: Option<Instant>,
    /// When the last request came.
    last: Instant,
    /// Since when no request waits.
    quiet_since: Option<Instant>,
    /// Attributes of the first answer.
    greeting: Option<String>,
}

impl Session {
    /// `sid` is unpredictable; `ticket` is the first request's.
    pub fn begin(
        now: Instant,
        settings: BoshSettings,
        sid: &str,
        request: Request,
        ticket: u64,
        out: &mut Outbox,
    ) -> Session {
        let wait = settings.wait.min(Duration::from_secs(request.wait.unwrap_or(0)));
        let hold = request.hold.unwrap_or(1).min(settings.hold);
        // §12.
        let is_polling = hold == 0 || wait.is_zero();
        let inactivity = if is_polling { settings.inactivity_of_polling } else { settings.inactivity };
        let mut session = Session {
            sid: sid.into(),
            state: BoshState::Open,
            wait,
            hold,
            // §7.2: "either 2 or one more than the value of hold".
            requests: (hold + 1).max(2),
            inactivity,
            patience: inactivity,
            is_polling,
            is_legacy: request.version.is_none(),
            acks: request.ack == Some(1),
            received: request.rid.saturating_sub(1),
            answered: request.rid.saturating_sub(1),
            pending: BTreeMap::new(),
            replies: VecDeque::new(),
            key: request.new_key.clone(),
            last_empty: None,
            last: now,
            quiet_since: None,
            greeting: None,
            settings,
        };
        session.greeting = Some(session.greet(&request));
        let pending =
            Pending { ticket: Some(ticket), until: now + wait, in_turn_by: now + wait, request: None };
        session.received = request.rid;
        session.pending.insert(request.rid, pending);
        out.inputs.push(Input::Open(header(&request)));
        out.inputs.extend(request.payload.into_iter().map(Input::Payload));
        session
    }

    /// §7.2.
    fn greet(&self, request: &Request) -> String {
        let settings = &self.settings;
        let mut text = format!(
            " sid='{}' wait='{}' hold='{}' requests='{}' inactivity='{}' polling='{}' maxpause='{}'",
            self.sid,
            self.wait.as_secs(),
            self.hold,
            self.requests,
            self.inactivity.as_secs(),
            settings.polling.as_secs(),
            settings.max_pause.as_secs(),
        );
        if let Some(version) = request.version {
            // "whichever is lower"
            let (major, minor) = version.min((1, 11));
            text += &format!(" ver='{major}.{minor}'");
        }
        if self.acks {
            text += &format!(" ack='{}'", request.rid);
        }
        if let Some(to) = &request.to {
            text += &format!(" from='{}'", escape(to));
        }
        text + &format!(" xmlns:xmpp='{}' xmpp:version='1.0' xmpp:restartlogic='true'", ns::XBOSH)
    }

    /// The session id.
    pub fn sid(&self) -> &str {
        &self.sid
    }

    /// Nothing more will come of it.
    pub fn is_over(&self) -> bool {
        self.state == BoshState::Over
    }

    /// True if a request waits that may be answered now.
    pub fn is_held(&self) -> bool {
        self.state == BoshState::Open && self.first().is_some_and(|pending| pending.ticket.is_some())
    }

    /// The one that is to be answered next, once its turn has come.
    fn first(&self) -> Option<&Pending> {
        (self.answered < self.received).then(|| self.pending.get(&(self.answered + 1))).flatten()
    }

    /// Those that wait for an earlier one, which has not come.
    fn out_of_turn(&self) -> impl Iterator<Item = &Pending> {
        self.pending.range(self.received + 1..).map(|(_, pending)| pending)
    }

    /// A request that names this session.
    pub fn handle_request(&mut self, now: Instant, request: Request, ticket: u64, out: &mut Outbox) {
        match &self.state {
            BoshState::Open => {}
            BoshState::Over => {
                return out.answers.push((ticket, refusal(Condition::ItemNotFound, self.is_legacy)));
            }
            BoshState::Ending(body) => {
                out.answers.push((ticket, Reply::of(body.clone())));
                self.state = BoshState::Over;
                return;
            }
        }
        let rid = request.rid;
        if rid <= self.answered {
            // §14.3: an exact copy of an answered request.
            return match self.replies.iter().find(|(known, _)| *known == rid) {
                Some((_, reply)) => {
                    out.answers.push((ticket, reply.clone()));
                    self.quiet_since = self.quiet_since.map(|_| now);
                }
                None => self.fail(Condition::ItemNotFound, ticket, out),
            };
        }
        if let Some(pending) = self.pending.get_mut(&rid) {
            // A client repeats a request only after it has given up the first connection.
            if let Some(lost) = pending.ticket.replace(ticket) {
                out.answers.push((lost, Reply::of(body("", &[]))));
            }
            self.quiet_since = None;
            return;
        }
        let window = u64::from(self.requests) + u64::from(request.is_extra());
        if rid > self.received + window {
            return self.fail(Condition::ItemNotFound, ticket, out);
        }
        if let Some(condition) = self.too_active(now, &request) {
            return self.fail(condition, ticket, out);
        }
        self.last = now;
        self.quiet_since = None;
        self.patience = self.inactivity;
        let pending = Pending {
            ticket: Some(ticket),
            until: now + self.wait,
            in_turn_by: now + self.wait.max(limits::BOSH_GAP),
            request: Some(Box::new(request)),
        };
        self.pending.insert(rid, pending);
        self.take_turns(now, out);
        self.note_quiet(now);
    }

    /// §11, §12.
    fn too_active(&self, now: Instant, request: &Request) -> Option<Condition> {
        let waiting = self.pending.len() + 1;
        let most = self.requests as usize + usize::from(request.is_extra());
        let is_early = now.since(self.last) < self.settings.polling;
        // One that a later request has overtaken on another connection was sent before that one.
        let is_newest = self.pending.last_key_value().is_none_or(|(last, _)| *last < request.rid);
        let is_full = waiting >= self.requests as usize;
        let is_busy = !self.is_polling && is_newest && is_full && request.is_empty() && is_early;
        let polls = self.is_polling
            && request.is_empty()
            && self.last_empty.is_some_and(|last| now.since(last) < self.settings.polling);
        (waiting > most || is_busy || polls).then_some(Condition::PolicyViolation)
    }

    /// Passes on the next request, and those that waited for it.
    fn take_turns(&mut self, now: Instant, out: &mut Outbox) {
        while let Some(pending) = self.pending.get_mut(&(self.received + 1)) {
            let ticket = pending.ticket;
            let Some(request) = pending.request.take() else { return };
            if !self.turn_key(&request) {
                self.pending.remove(&(self.received + 1));
                return self.fail(Condition::ItemNotFound, ticket.unwrap_or_default(), out);
            }
            self.received += 1;
            self.last_empty = (self.is_polling && request.is_empty()).then_some(now);
            self.take(*request, out);
        }
    }

    fn take(&mut self, request: Request, out: &mut Outbox) {
        if request.is_restart {
            out.inputs.push(Input::Open(header(&request)));
        }
        let pause = request.pause.map(Duration::from_secs).filter(|pause| *pause <= self.settings.max_pause);
        let is_terminate = request.is_terminate;
        out.inputs.extend(request.payload.into_iter().map(Input::Payload));
        if is_terminate {
            out.inputs.push(Input::Close);
        } else if let Some(pause) = pause {
            // §10: "respond immediately to all pending requests (including the pause request)".
            while self.answered < self.received {
                self.answer(&[], out);
            }
            self.patience = pause;
        }
    }

    /// §15.4: whether the hash of its key is the key before.
    fn turn_key(&mut self, request: &Request) -> bool {
        if let Some(expected) = self.key.take() {
            let Some(key) = &request.key else { return false };
            let hash = stdx::hex::encode(&Sha1::digest(key.as_bytes()));
            if !hash.eq_ignore_ascii_case(&expected) {
                return false;
            }
            self.key = Some(key.clone());
        }
        if let Some(key) = &request.new_key {
            self.key = Some(key.clone());
        }
        true
    }

    /// The connection of a request is gone; the client will send it again.
    pub fn handle_lost(&mut self, now: Instant, ticket: u64) {
        if let Some(pending) = self.pending.values_mut().find(|pending| pending.ticket == Some(ticket)) {
            pending.ticket = None;
        }
        self.note_quiet(now);
    }

    fn note_quiet(&mut self, now: Instant) {
        let is_quiet = self.pending.values().all(|pending| pending.ticket.is_none());
        if !is_quiet {
            self.quiet_since = None;
        } else if self.quiet_since.is_none() {
            self.quiet_since = Some(now);
        }
    }

    /// Takes what the stream wrote, each a document, while [`is_held`](Self::is_held).
    pub fn write(&mut self, now: Instant, documents: &[Box<[u8]>], out: &mut Outbox) {
        if self.answered < self.received {
            self.answer(documents, out);
        }
        self.note_quiet(now);
    }

    /// All that came was taken by the stream: more than may be held is let go of.
    pub fn relax(&mut self, now: Instant, out: &mut Outbox) {
        let hold = if self.is_polling { 0 } else { u64::from(self.hold) };
        while self.state == BoshState::Open && self.received - self.answered > hold && self.greeting.is_none()
        {
            self.answer(&[], out);
        }
        self.note_quiet(now);
    }

    /// The stream is over: its last documents, and the condition. Waiting requests are answered with them,
    /// else the next request is.
    pub fn finish(&mut self, condition: Option<Condition>, documents: &[Box<[u8]>], out: &mut Outbox) {
        if self.state != BoshState::Open {
            return;
        }
        let mut last = terminate(self.greeting.take().unwrap_or_default(), condition, documents);
        let in_turn = self.received - self.answered;
        for number in 0..in_turn {
            // The client's own wish is answered last, a fault of the stream as soon as can be.
            let is_telling = if condition.is_none() { number + 1 == in_turn } else { number == 0 };
            let text = match condition {
                _ if is_telling => last.clone(),
                Some(_) => refusal(Condition::OtherRequest, false).body.into(),
                None => body("", &[]),
            };
            self.answered += 1;
            let told = self.pending.remove(&self.answered).and_then(|pending| pending.ticket);
            if let Some(ticket) = told {
                out.answers.push((ticket, Reply::of(text)));
                if is_telling {
                    last.clear();
                }
            }
        }
        self.let_others_go(out);
        self.state = if last.is_empty() { BoshState::Over } else { BoshState::Ending(last.into()) };
    }

    /// Those that never had their turn.
    fn let_others_go(&mut self, out: &mut Outbox) {
        for (_, pending) in std::mem::take(&mut self.pending) {
            if let Some(ticket) = pending.ticket {
                out.answers.push((ticket, refusal(Condition::OtherRequest, self.is_legacy)));
            }
        }
    }

    /// A request broke the rules, and with that the session.
    fn fail(&mut self, condition: Condition, ticket: u64, out: &mut Outbox) {
        out.answers.push((ticket, refusal(condition, self.is_legacy)));
        self.let_others_go(out);
        self.state = BoshState::Over;
    }

    /// Answers the first that waits.
    fn answer(&mut self, documents: &[Box<[u8]>], out: &mut Outbox) {
        let rid = self.answered + 1;
        let Some(pending) = self.pending.remove(&rid) else { return };
        self.answered = rid;
        if !documents.is_empty() {
            self.last_empty = None;
        }
        let mut attributes = self.greeting.take().unwrap_or_default();
        // §9.1.
        if self.acks && attributes.is_empty() && self.received != rid {
            attributes = format!(" ack='{}'", self.received);
        }
        let reply = Reply::of(body(&attributes, documents));
        if let Some(ticket) = pending.ticket {
            out.answers.push((ticket, reply.clone()));
        }
        // One more than the window: a pause or an end has a request of its own.
        while self.replies.len() > self.requests as usize {
            self.replies.pop_front();
        }
        self.replies.push_back((rid, reply));
    }

    /// When `expire` has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        let waiting = self.first().map(|pending| pending.until);
        let stuck = self.out_of_turn().map(|pending| pending.in_turn_by).min();
        let quiet = self.quiet_since.map(|since| since + self.patience);
        let next = [waiting, stuck, quiet].into_iter().flatten().min();
        next.filter(|_| self.state == BoshState::Open)
    }

    /// Answers the requests whose wait has ended.
    pub fn expire(&mut self, now: Instant, out: &mut Outbox) {
        while self.state == BoshState::Open && self.first().is_some_and(|pending| pending.until <= now) {
            self.answer(&[], out);
        }
        self.note_quiet(now);
        let is_gone = self.quiet_since.is_some_and(|since| since + self.patience <= now);
        // XEP-0124 §14.2: requests may overtake one another. A gap that is not filled within that time will not be.
        let is_stuck = self.out_of_turn().any(|pending| pending.in_turn_by <= now);
        if self.state == BoshState::Open && (is_gone || is_stuck) {
            for (_, pending) in std::mem::take(&mut self.pending) {
                if let Some(ticket) = pending.ticket {
                    out.answers.push((ticket, refusal(Condition::ItemNotFound, self.is_legacy)));
                }
            }
            self.state = BoshState::Over;
        }
    }
}

/// The opening of a stream, as RFC 7395 writes it.
fn header(request: &Request) -> Element {
    let mut open = Element::new("open", ns::FRAMING)
        .with_opt("to", request.to.clone())
        // XEP-0206 §3: a request without a version means 1.0.
        .with("version", request.xmpp_version.as_deref().unwrap_or("1.0"));
    if let Some(lang) = &request.lang {
        open.set_ns("lang", ns::XML, lang.clone());
    }
    open
}

/// A body with these attributes around these documents.
fn body(attributes: &str, documents: &[Box<[u8]>]) -> String {
    let size: usize = documents.iter().map(|document| document.len()).sum();
    let mut text = String::with_capacity(size + attributes.len() + limits::BOSH_WRAPPER);
    text += "<body xmlns='";
    text += ns::BOSH;
    text += "'";
    text += attributes;
    if documents.is_empty() {
        return text + "/>";
    }
    text += " xmlns:stream='";
    text += ns::STREAM;
    text += "'>";
    for document in documents {
        text += &String::from_utf8_lossy(document);
    }
    text + "</body>"
}

fn terminate(greeting: String, condition: Option<Condition>, documents: &[Box<[u8]>]) -> String {
    let mut attributes = greeting + " type='terminate'";
    if let Some(condition) = condition {
        attributes += &format!(" condition='{}'", condition.as_str());
    }
    body(&attributes, documents)
}

/// The answer to a request that ends its session, or has none.
pub(super) fn refusal(condition: Condition, is_legacy: bool) -> Reply {
    let status = if is_legacy { condition.legacy_status() } else { 200 };
    let body = terminate(String::new(), Some(condition), &[]).into();
    let is_ours = matches!(condition, Condition::OtherRequest | Condition::SystemShutdown);
    Reply { status, is_refusal: !is_ours, body }
}

impl Reply {
    fn of(body: impl Into<Box<str>>) -> Reply {
        Reply { status: 200, is_refusal: false, body: body.into() }
    }

    /// To a request of no session.
    pub fn refusal(condition: Condition) -> Reply {
        refusal(condition, false)
    }
}
