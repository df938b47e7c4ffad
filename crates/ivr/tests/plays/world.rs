//! The stage. A play is text: lines `app:`, `caller:`, `media:`, `leg1:`, `room:`, `queue:`, `rest:`, `wait:` are what
//! happens, in order; the lines `>` after each are everything the script does about it.
//!
//! The application is `http://app/`, its first document `/start`, the caller +1555, the number +1234.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

use ivr::document::{Address, Callback, Conference, Item, Piece, code};
use ivr::request::{Form, Method, Request, Target};
use ivr::script::{
    Call, CallStatus, ConferenceEvent, DialOptions, Direction, Effect, EffectFailure, FetchResponse, Id, Leg,
    LegEvent, LegFailure, Plan, QueueEvent, QueueResult, Recorded, Role, Script, Sent, Speech, Start,
    StreamEvent,
};
use stdx::Instant;

/// The parameters of every request; shown only when a play asks for them.
const OF_EVERY_REQUEST: [&str; 10] = [
    "CallSid",
    "AccountSid",
    "From",
    "To",
    "Caller",
    "Called",
    "CallStatus",
    "ApiVersion",
    "Direction",
    "CallerName",
];

pub(crate) struct Play {
    pub(crate) script: Script,
    now: Instant,
    fetch: Option<Id>,
    prompt: Option<Id>,
    record: Option<Id>,
    legs: Vec<Id>,
    /// Legs of queues: the node has no call that a document could be performed on.
    queue_legs: Vec<Id>,
    /// Legs that perform a document before their connection.
    screened: Vec<Id>,
    /// No leg accepts or declines without a document: events are those of a play, and not any in any order.
    is_of_play: bool,
    room: Option<Id>,
    queue: Option<Id>,
    message: Option<Id>,
    refer: Option<Id>,
    streams: Vec<Id>,
    /// Operations that were started and have neither ended nor been stopped.
    running: BTreeSet<String>,
    pub(crate) ended: bool,
    show_all: bool,
}

pub(crate) fn call() -> Call {
    Call {
        sid: "CA1".into(),
        account_sid: "AC1".into(),
        from: "+1555".into(),
        to: "+1234".into(),
        direction: Direction::Inbound,
        caller_name: Some("Alice".into()),
        forwarded_from: None,
        parent_sid: None,
        api_version: "2012-04-24".into(),
        extra: Form::new(),
        answered: false,
    }
}

pub(crate) fn plan() -> Plan {
    Plan {
        role: Role::Call,
        start: Start::Url(target("http://app/start")),
        fallback: None,
        status: None,
        answer_on_bridge: false,
        time_limit: None,
    }
}

pub(crate) fn target(url: &str) -> Target {
    Target { url: url.into(), method: Method::Post }
}

/// Plays it from the call's arrival, and fails where it goes another way.
pub(crate) fn play(text: &str) -> Play {
    play_with(call(), plan(), text)
}

pub(crate) fn play_with(call: Call, plan: Plan, text: &str) -> Play {
    let mut stage = Play::new(call, plan);
    perform(&mut stage, text);
    stage
}

/// The same on a stage that has been set up.
pub(crate) fn perform(stage: &mut Play, text: &str) {
    stage.is_of_play = true;
    let (mut seen, mut story) = (String::new(), String::new());
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        writeln!(story, "{line}").expect("a string takes it");
        if line.starts_with('>') {
            continue;
        }
        writeln!(seen, "{line}").expect("a string takes it");
        for effect in stage.happens(line) {
            writeln!(seen, "> {effect}").expect("a string takes it");
        }
    }
    assert!(seen == story, "the play went another way:\n{seen}\nthan written:\n{story}");
}

impl Play {
    pub(crate) fn new(call: Call, plan: Plan) -> Play {
        Play {
            script: Script::new(call, plan),
            now: Instant::from_unix_seconds(1_795_263_753),
            fetch: None,
            prompt: None,
            record: None,
            legs: Vec::new(),
            queue_legs: Vec::new(),
            screened: Vec::new(),
            is_of_play: false,
            room: None,
            queue: None,
            message: None,
            refer: None,
            streams: Vec::new(),
            running: BTreeSet::new(),
            ended: false,
            show_all: false,
        }
    }

    /// Performs one line of a play and returns the script's effects.
    pub(crate) fn happens(&mut self, line: &str) -> Vec<String> {
        let (actor, what) = line.split_once(':').expect("a line begins with its actor");
        let (word, rest) = what.trim().split_once(' ').unwrap_or((what.trim(), ""));
        let mut out = Vec::new();
        match actor {
            "app" => self.app(word, rest, what.trim(), &mut out),
            "caller" => self.caller(word, rest, &mut out),
            "media" => self.media(word, rest, &mut out),
            "room" => self.in_room(word, rest, &mut out),
            "queue" => self.in_queue(word, &mut out),
            "rest" => self.rest(word, rest, &mut out),
            "stream" => self.stream(word, &mut out),
            "wait" => {
                self.now = self.now + Duration::from_millis(word.parse().expect("milliseconds"));
                self.script.expire(self.now, &mut out);
            }
            "deadline" => {
                self.now = self.script.deadline().max(self.now);
                self.script.expire(self.now, &mut out);
            }
            _ => {
                let leg = actor.strip_prefix("leg").and_then(|number| number.parse::<usize>().ok());
                let leg = leg.expect("a leg has a number");
                if let Some(id) = self.legs.get(leg - 1).copied() {
                    self.leg(id, leg, word, rest, &mut out);
                }
            }
        }
        self.perform(out)
    }

    pub(crate) fn perform(&mut self, out: Vec<Effect>) -> Vec<String> {
        out.into_iter().map(|effect| self.performed(&effect)).collect()
    }

    fn app(&mut self, word: &str, rest: &str, all: &str, out: &mut Vec<Effect>) {
        let Some(id) = self.fetch else { return };
        let xml = |body: String| FetchResponse {
            status: 200,
            content_type: Some("text/xml; charset=utf-8".into()),
            body: body.into_bytes(),
            url: None,
        };
        let answer = match word {
            "status" => {
                Ok(FetchResponse { status: rest.parse().expect("a status"), ..FetchResponse::default() })
            }
            "fails" => Err(EffectFailure { code: code::UNREACHABLE, text: "connection refused".into() }),
            "audio" => Ok(FetchResponse {
                status: 200,
                content_type: Some("audio/wav".into()),
                ..FetchResponse::default()
            }),
            "text" => Ok(FetchResponse { content_type: Some("text/plain".into()), ..xml(rest.to_owned()) }),
            "image" => Ok(FetchResponse { content_type: Some("image/png".into()), ..xml(rest.to_owned()) }),
            "raw" => Ok(xml(rest.to_owned())),
            "moved" => {
                let (url, body) = rest.split_once(' ').expect("a URL and a document");
                Ok(FetchResponse { url: Some(url.into()), ..xml(format!("<Response>{body}</Response>")) })
            }
            _ => Ok(xml(format!("<Response>{all}</Response>"))),
        };
        self.script.handle_fetched(self.now, id, answer, out);
    }

    fn caller(&mut self, word: &str, rest: &str, out: &mut Vec<Effect>) {
        match word {
            "calls" => self.script.start(self.now, out),
            "answers" => self.script.handle_answered(self.now, out),
            "rings" => self.script.handle_ringing(self.now, out),
            "presses" => rest.chars().for_each(|key| self.script.handle_digit(self.now, key, out)),
            "says" | "mumbles" => {
                let speech = Speech { text: rest.into(), is_final: word == "says", confidence: Some(875) };
                self.script.handle_speech(self.now, speech, out);
            }
            "starts" => self.script.handle_speaking(self.now, true),
            "trails" => self.script.handle_speaking(self.now, false),
            "referred" => {
                let id = self.refer.unwrap_or(Id(0));
                self.script.handle_referred(self.now, id, rest.parse().expect("a status"), out);
            }
            "hangs" => self.script.handle_hangup(self.now, out),
            "busy" => self.script.handle_unanswered(self.now, CallStatus::Busy, out),
            other => panic!("callers do not {other}"),
        }
    }

    fn media(&mut self, word: &str, rest: &str, out: &mut Vec<Effect>) {
        let failed = || EffectFailure { code: code::PROMPT, text: "no such file".into() };
        let (prompt, record) = (self.prompt.unwrap_or(Id(0)), self.record.unwrap_or(Id(0)));
        match word {
            "over" => self.script.handle_prompt(self.now, prompt, None, out),
            "broken" => self.script.handle_prompt(self.now, prompt, Some(failed()), out),
            "recorded" => {
                self.running.remove("recording");
                self.script.handle_recorded(
                    self.now,
                    record,
                    Ok(recorded(rest.parse().expect("seconds"))),
                    out,
                );
            }
            "full" => {
                self.running.remove("recording");
                let full = EffectFailure { code: code::RECORDING, text: "no space left".into() };
                self.script.handle_recorded(self.now, record, Err(full), out);
            }
            "late" => {
                let first = Id(1);
                self.script.handle_prompt(self.now, first, None, out);
            }
            other => panic!("media does not {other}"),
        }
    }

    fn leg(&mut self, id: Id, number: usize, word: &str, rest: &str, out: &mut Vec<Effect>) {
        let failed = |status, code| {
            let headers = vec![("X-Why".to_owned(), "lunch".to_owned())];
            LegEvent::Failed(LegFailure {
                status,
                code: Some(code),
                reason: "why".into(),
                call_id: Some("c1".into()),
                headers,
            })
        };
        if word == "transfers" {
            let more = vec![("ReferTransferTarget".to_owned(), "sip:x".to_owned())];
            return self.script.transfer(self.now, &target(rest), more, out);
        }
        let is_screened = matches!(word, "accepts" | "declines");
        let is_possible = !self.is_of_play || !is_screened || self.screened.contains(&id);
        assert!(is_possible, "leg{number} has no document to accept");
        let event = match word {
            "starts" => LegEvent::Started { sid: format!("CA{}", number + 1) },
            "rings" => LegEvent::Ringing,
            "answers" => LegEvent::Answered,
            "accepts" => LegEvent::Screened { accepted: true },
            "declines" => LegEvent::Screened { accepted: false },
            "busy" => failed(CallStatus::Busy, 486),
            "fails" => failed(CallStatus::Failed, 503),
            "ends" => LegEvent::Ended { recording: rest.parse().ok().map(recorded) },
            other => panic!("legs do not {other}"),
        };
        if matches!(event, LegEvent::Failed(_) | LegEvent::Ended { .. }) {
            self.running.remove(&format!("leg {}", id.0));
        }
        self.script.handle_leg(self.now, id, event, out);
    }

    fn in_room(&mut self, word: &str, rest: &str, out: &mut Vec<Effect>) {
        let event = match word {
            "joined" => ConferenceEvent::Joined { sid: "CF1".into() },
            "left" => ConferenceEvent::Left { recording: rest.parse().ok().map(recorded) },
            "refused" => ConferenceEvent::Refused { reason: "full".into() },
            other => panic!("rooms do not {other}"),
        };
        if word != "joined" {
            self.running.remove("room");
        }
        self.script.handle_conference(self.now, self.room.unwrap_or(Id(0)), event, out);
    }

    fn in_queue(&mut self, word: &str, out: &mut Vec<Effect>) {
        let event = match word {
            "entered" => QueueEvent::Entered { sid: "QU1".into() },
            "taken" => QueueEvent::Bridged,
            "over" => QueueEvent::Left(QueueResult::Bridged),
            "full" => QueueEvent::Left(QueueResult::Full),
            "left" => QueueEvent::Left(QueueResult::Leave),
            "broken" => QueueEvent::Left(QueueResult::Error),
            other => panic!("queues do not {other}"),
        };
        if matches!(event, QueueEvent::Left(_)) {
            self.running.remove("queue");
        }
        self.script.handle_queue(self.now, self.queue.unwrap_or(Id(0)), event, out);
    }

    fn stream(&mut self, word: &str, out: &mut Vec<Effect>) {
        let Some(id) = self.streams.last().copied() else { return };
        let event = match word {
            "starts" => StreamEvent::Started { sid: "MZ1".into() },
            "ends" => StreamEvent::Ended,
            _ => StreamEvent::Failed { reason: "refused".into() },
        };
        if word != "starts" {
            self.running.remove(&format!("stream {}", id.0));
        }
        self.script.handle_stream(self.now, id, event, out);
    }

    fn rest(&mut self, word: &str, rest: &str, out: &mut Vec<Effect>) {
        let id = self.message.unwrap_or(Id(0));
        match word {
            "redirects" => self.script.redirect(self.now, Start::Url(target(rest)), out),
            "performs" => {
                let document = format!("<Response>{rest}</Response>").into_bytes();
                self.script.redirect(self.now, Start::Document(document), out);
            }
            "completes" => self.script.hang_up(self.now, out),
            "sent" => self.script.handle_sent(
                self.now,
                id,
                Ok(Sent { sid: "SM1".into(), status: "sent".into() }),
                out,
            ),
            "unsent" => {
                let failure = EffectFailure { code: code::MESSAGE, text: "nobody there".into() };
                self.script.handle_sent(self.now, id, Err(failure), out);
            }
            "all" => self.show_all = true,
            other => panic!("no actor {other}"),
        }
    }

    /// Nothing runs when the script has ended, and nothing comes after.
    fn performed(&mut self, effect: &Effect) -> String {
        assert!(!self.ended, "after the end: {effect:?}");
        self.remember(effect);
        if matches!(effect, Effect::Ended(_)) {
            self.ended = true;
            assert!(self.running.is_empty(), "still running at the end: {:?}", self.running);
        }
        self.shown(effect)
    }

    fn begun(&mut self, what: impl Into<String>) {
        let what = what.into();
        assert!(self.running.insert(what.clone()), "{what} twice");
    }

    fn remember(&mut self, effect: &Effect) {
        match effect {
            Effect::Fetch { id, .. } => self.fetch = Some(*id),
            Effect::Prompt { id, .. } => self.prompt = Some(*id),
            Effect::Record { id, .. } => {
                self.record = Some(*id);
                self.begun("recording");
            }
            Effect::StopRecording { .. } => drop(self.running.remove("recording")),
            Effect::Listen { .. } => self.begun("listening"),
            Effect::StopListening => assert!(self.running.remove("listening"), "the script did not listen"),
            Effect::Echo { on: true } => self.begun("echo"),
            Effect::Echo { on: false } => drop(self.running.remove("echo")),
            Effect::Dial { legs, .. } => {
                for leg in legs {
                    self.legs.push(leg.id);
                    if matches!(leg.address, Address::Queue { .. }) {
                        self.queue_legs.push(leg.id);
                    }
                    self.begun(format!("leg {}", leg.id.0));
                }
            }
            Effect::Screen { leg, .. } => {
                assert!(!self.queue_legs.contains(leg), "a queue's leg performs no document");
                self.screened.push(*leg);
            }
            Effect::HangupLeg { leg } => drop(self.running.remove(&format!("leg {}", leg.0))),
            Effect::JoinConference { id, .. } => {
                self.room = Some(*id);
                self.begun("room");
            }
            Effect::LeaveConference { .. } => drop(self.running.remove("room")),
            Effect::Enqueue { id, .. } => {
                self.queue = Some(*id);
                self.begun("queue");
            }
            Effect::LeaveQueue { .. } => drop(self.running.remove("queue")),
            Effect::SendMessage { id, .. } | Effect::SendMail { id, .. } => self.message = Some(*id),
            Effect::Refer { id, .. } => self.refer = Some(*id),
            Effect::StartStream { id, .. } => {
                self.streams.push(*id);
                self.begun(format!("stream {}", id.0));
            }
            Effect::StopStream { id } => drop(self.running.remove(&format!("stream {}", id.0))),
            _ => {}
        }
    }

    fn leg_number(&self, id: Id) -> usize {
        self.legs.iter().position(|leg| *leg == id).map_or(0, |at| at + 1)
    }

    fn shown(&self, effect: &Effect) -> String {
        match effect {
            Effect::Fetch { request, .. } => format!("ask {}", self.request(request)),
            Effect::Tell { request } => format!("tell {}", self.request(request)),
            Effect::Notify(note) => format!("note {}: {}", note.code, note.text),
            Effect::Answer => "answer".into(),
            Effect::Ring => "ring".into(),
            Effect::Reject(why) => format!("refuse {why:?}"),
            Effect::Hangup => "hang up".into(),
            Effect::Refer { uri, .. } => format!("refer {uri}"),
            Effect::Prompt { pieces, .. } => {
                format!("play {}", pieces.iter().map(piece).collect::<Vec<_>>().join(" "))
            }
            Effect::StopPrompt { .. } => "stop playing".into(),
            Effect::Listen { digits, speech } => {
                let speech = speech.as_ref().map(|speech| {
                    let end = speech.end_of_speech.map_or("auto".into(), seconds);
                    let partial = if speech.partial { " partial" } else { "" };
                    format!(
                        " speech {} {:?} {end} {}{partial}",
                        speech.language,
                        speech.hints,
                        seconds(speech.max_speech)
                    )
                });
                format!("listen{}{}", if *digits { " digits" } else { "" }, speech.unwrap_or_default())
            }
            Effect::StopListening => "stop listening".into(),
            Effect::Record { recording, .. } => format!(
                "record{} silence {} at most {}{}{}{}",
                if recording.beep { " beep" } else { "" },
                seconds(recording.silence),
                seconds(recording.max_length),
                if recording.trim { " trim" } else { "" },
                recording.mailbox.as_ref().map(|mailbox| format!(" for {mailbox}")).unwrap_or_default(),
                recording
                    .status
                    .as_ref()
                    .map(|to| format!(" told {}", callback(Some(to))))
                    .unwrap_or_default()
            ),
            Effect::StopRecording { .. } => "stop recording".into(),
            Effect::Transcribe { recording_sid, callback } => {
                format!("transcribe {recording_sid} for {}", callback.as_ref().map_or("nobody", |to| &to.url))
            }
            Effect::Echo { on } => format!("echo {on}"),
            other => self.shown_others(other),
        }
    }

    fn shown_others(&self, effect: &Effect) -> String {
        match effect {
            Effect::StartStream { stream, .. } => format!(
                "stream {:?} to {} {:?} {:?} two way {}",
                stream.name.as_deref().unwrap_or_default(),
                stream.url,
                stream.track,
                stream.parameters,
                stream.two_way
            ),
            Effect::StopStream { .. } => "stop stream".into(),
            Effect::Dial { legs, options } => dialled(legs, options),
            Effect::Screen { leg, target } => {
                format!("screen leg{} {} {}", self.leg_number(*leg), target.method.as_str(), target.url)
            }
            Effect::Bridge { leg } => format!("bridge leg{}", self.leg_number(*leg)),
            Effect::HangupLeg { leg } => format!("hang up leg{}", self.leg_number(*leg)),
            Effect::JoinConference { conference, record, .. } => joined(conference, record.is_some()),
            Effect::LeaveConference { .. } => "leave conference".into(),
            Effect::Enqueue { name, wait, max_size, .. } => {
                let wait = wait.as_ref().map_or("music".into(), |wait| match wait.method {
                    Method::Post => wait.url.clone(),
                    Method::Get => format!("GET {}", wait.url),
                });
                let max_size = max_size.map(|max_size| format!(" max {max_size}")).unwrap_or_default();
                format!("enqueue {name} wait {wait}{max_size}")
            }
            Effect::LeaveQueue { .. } => "leave queue".into(),
            Effect::SendMessage { message: m, .. } => {
                format!("message {} to {}: {} ({})", m.from, m.to, m.body, m.status.as_deref().unwrap_or("-"))
            }
            Effect::SendMail { mail: m, .. } => {
                format!(
                    "mail {} to {:?} cc {:?} bcc {:?} {}: {}",
                    m.from, m.to, m.cc, m.bcc, m.subject, m.body
                )
            }
            Effect::Done => "done".into(),
            Effect::Ended(status) => format!("end {}", status.as_str()),
            other => format!("{other:?}"),
        }
    }

    fn request(&self, request: &Request) -> String {
        let shown = |name: &str| self.show_all || !OF_EVERY_REQUEST.contains(&name);
        let form: Vec<String> = request
            .form
            .iter()
            .filter(|(name, _)| shown(name))
            .map(|(name, value)| format!(" {name}={value}"))
            .collect();
        format!("{} {}{}", request.method.as_str(), request.url, form.concat())
    }
}

fn dialled(legs: &[Leg], options: &DialOptions) -> String {
    let to: Vec<String> = legs.iter().map(|leg| address(&leg.address)).collect();
    let mut shown = format!("dial {}", to.join(", "));
    shown.extend(options.caller_id.iter().map(|caller| format!(" as {caller}")));
    shown.extend(options.ring_tone.iter().map(|tone| format!(" tone {tone}")));
    if options.timeout != Duration::from_secs(30) {
        shown += &format!(" rings {}", options.timeout.as_secs());
    }
    shown.extend(options.record.iter().map(|record| {
        let (ringing, dual, trim, track) = (record.from_ringing, record.dual, record.trim, &record.track);
        let told = callback(record.status.as_ref());
        format!(" record ringing {ringing} dual {dual} trim {trim} {track} {told}")
    }));
    shown.extend(
        options.refer.iter().map(|refer| format!(" transfers {} {}", refer.method.as_str(), refer.url)),
    );
    shown
}

fn joined(room: &Conference, own: bool) -> String {
    let wait =
        room.wait.as_ref().map_or("music".into(), |wait| format!("{} {:?}", wait.method.as_str(), wait.url));
    let Conference { name, muted, beep, start_on_enter, end_on_exit, max_participants, record, trim, .. } =
        room;
    format!(
        "join {name} muted {muted} beep {beep:?} start {start_on_enter} end {end_on_exit} wait {wait} \
         max {max_participants} record {record} trim {trim} coach {} label {} told {} recordings {} own {own}",
        room.coach.as_deref().unwrap_or("-"),
        room.label.as_deref().unwrap_or("-"),
        callback(room.status.as_ref()),
        callback(room.recording_status.as_ref()),
    )
}

fn recorded(seconds: u64) -> Recorded {
    Recorded {
        sid: "RE1".into(),
        url: "http://belfry/RE1".into(),
        public_url: Some("http://belfry/RE1.wav".into()),
        duration: Duration::from_secs(seconds),
    }
}

fn seconds(duration: Duration) -> String {
    format!("{}s", duration.as_secs_f64())
}

fn piece(piece: &Piece) -> String {
    let items: Vec<String> = piece.items.iter().map(item).collect();
    match piece.loops {
        1 => items.join(" "),
        0 => format!("({}) for ever", items.join(" ")),
        loops => format!("({})x{loops}", items.join(" ")),
    }
}

pub(crate) fn item(item: &Item) -> String {
    match item {
        Item::Speech { text, voice, language } => format!("{voice:?}/{language} {text:?}"),
        Item::Audio { url } => url.clone(),
        Item::Digits(keys) => format!("keys {keys}"),
        Item::Silence(length) => format!("({})", seconds(*length)),
    }
}

fn address(address: &Address) -> String {
    match address {
        Address::Number { number, send_digits } if send_digits.is_empty() => number.clone(),
        Address::Number { number, send_digits } => {
            format!("{number} then {}", send_digits.iter().map(item).collect::<Vec<_>>().join(" "))
        }
        Address::Client { name } => format!("client {name}"),
        Address::Sip { uri, headers, username, password } => {
            format!(
                "{uri} {headers:?} {}:{}",
                username.as_deref().unwrap_or("-"),
                password.as_deref().unwrap_or("-")
            )
        }
        Address::Uri(uri) => format!("uri {uri}"),
        Address::Queue { name, document } => {
            let hears = |target: &Target| format!(" that hears {} {}", target.method.as_str(), target.url);
            format!("queue {name}{}", document.as_ref().map(hears).unwrap_or_default())
        }
    }
}

fn callback(callback: Option<&Callback>) -> String {
    callback.map_or("nobody".into(), |callback| {
        format!("{} {} {}", callback.target.method.as_str(), callback.target.url, callback.events.join("+"))
    })
}
