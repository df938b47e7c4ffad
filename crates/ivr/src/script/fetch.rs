//! Documents: requests, parsing, and fallbacks.

use stdx::Instant;

use super::form::{of_call, pair};
use super::{Answer, Effect, Failure, Id, Notification, Outbox, Refusal, Role, Script, Start, State};
use crate::document::{Document, Item, Piece, Severity, Verb, Voice, code};
use crate::limits;
use crate::request::{Form, Request, Target, resolve};

/// A document that came before this is one that took no time.
const HURRY: std::time::Duration = std::time::Duration::from_millis(200);

const APOLOGY: &str = "We are sorry. An application error has occurred. Goodbye.";

#[derive(Debug)]
pub(super) struct Fetching {
    pub(super) id: Id,
    pub(super) until: Instant,
    url: String,
    /// The parameters without those that the fallback adds.
    form: Form,
    is_fallback: bool,
}

impl Script {
    /// From the start: also when a waiting document begins again.
    pub(super) fn begin(&mut self, now: Instant, out: &mut Outbox) {
        match self.plan.start.clone() {
            Start::Url(target) => self.go_to(now, &target, Vec::new(), out),
            Start::Document(bytes) => {
                self.since = now;
                match Document::parse(&bytes, None) {
                    Ok(document) => self.perform(now, document, out),
                    Err(note) => {
                        let failure = Failure { code: note.code, text: note.to_string() };
                        self.failed(now, String::new(), Vec::new(), false, failure, out);
                    }
                }
            }
        }
    }

    /// To the next document. An empty URL is the current document's.
    pub(super) fn go_to(&mut self, now: Instant, target: &Target, more: Form, out: &mut Outbox) {
        self.hurried = if now.since(self.since) < HURRY { self.hurried + 1 } else { 0 };
        self.documents += 1;
        self.state = State::Between;
        if self.hurried > limits::DOCUMENTS_WITHOUT_PAUSE || self.documents > limits::DOCUMENTS_PER_CALL {
            let text = format!("documents lead to documents without end, at last to {}", target.url);
            self.notify(Severity::Error, code::CIRCLE, text, out);
            self.apologise(now, out);
            return;
        }
        let mut form = of_call(&self.call, self.status);
        form.extend(more);
        let Some(url) = self.absolute(&target.url) else {
            let text = format!("{} is no URL of HTTP", target.url);
            self.failed(now, target.url.clone(), form, false, Failure { code: code::URL, text }, out);
            return;
        };
        self.ask(now, Target { url, method: target.method }, form, false, out);
    }

    fn ask(&mut self, now: Instant, target: Target, form: Form, is_fallback: bool, out: &mut Outbox) {
        let id = self.id();
        let Target { url, method } = target;
        let until = now + limits::FETCH_WAIT;
        self.state = State::Fetching(Box::new(Fetching {
            id,
            until,
            url: url.clone(),
            form: form.clone(),
            is_fallback,
        }));
        self.verbs.clear();
        out.push(Effect::Fetch { id, request: Request { method, url, form } });
    }

    /// Against the current document. Files of the server's own are named by its configuration and by one
    /// another, not by documents of applications.
    pub(super) fn absolute(&self, reference: &str) -> Option<String> {
        let is_ours = match &self.url {
            Some(url) => url.starts_with("file:"),
            None => matches!(self.plan.start, Start::Url(_)),
        };
        let schemes: &[&str] = if is_ours { &["http", "https", "file"] } else { &["http", "https"] };
        resolve(self.url.as_deref(), reference, schemes)
    }

    /// A sound may be a file of the server's folder of prompts; any document may name it.
    pub(super) fn absolute_sound(&self, reference: &str) -> Option<String> {
        resolve(self.url.as_deref(), reference, &["http", "https", "file"])
    }

    /// One that is no URL is noted.
    pub(super) fn absolute_target(&self, target: &Target, out: &mut Outbox) -> Option<Target> {
        let url = self.absolute(&target.url);
        if url.is_none() {
            self.notify(Severity::Warning, code::URL, format!("{} is no URL of HTTP", target.url), out);
        }
        Some(Target { url: url?, method: target.method })
    }

    /// A callback that a document named.
    pub(super) fn tell(&self, target: &Target, form: Form, out: &mut Outbox) {
        if let Some(Target { url, method }) = self.absolute_target(target, out) {
            out.push(Effect::Tell { request: Request { method, url, form } });
        }
    }

    /// The answer to `Effect::Fetch`.
    pub fn handle_fetched(
        &mut self,
        now: Instant,
        id: Id,
        result: Result<Answer, Failure>,
        out: &mut Outbox,
    ) {
        let State::Fetching(fetching) = &mut self.state else { return };
        // That of a document which a redirect of the live call has overtaken.
        if fetching.id != id {
            return;
        }
        let (mut url, is_fallback) = (std::mem::take(&mut fetching.url), fetching.is_fallback);
        let form = std::mem::take(&mut fetching.form);
        let read = result.and_then(|answer| {
            if let Some(last) = &answer.url {
                url.clone_from(last);
            }
            read(&answer, &url)
        });
        match read {
            Ok(document) => {
                self.url = Some(url);
                self.perform(now, document, out);
            }
            Err(failure) => self.failed(now, url, form, is_fallback, failure, out),
        }
    }

    pub(super) fn fetch_timed_out(&mut self, now: Instant, out: &mut Outbox) {
        let State::Fetching(fetching) = &self.state else { return };
        let text = format!("no answer in {} seconds", limits::FETCH_WAIT.as_secs());
        self.handle_fetched(now, fetching.id, Err(Failure { code: code::UNREACHABLE, text }), out);
    }

    fn perform(&mut self, now: Instant, document: Document, out: &mut Outbox) {
        for note in document.notes {
            out.push(Effect::Notify(Notification::of_note(note, self.url.clone())));
        }
        self.since = now;
        self.verbs = document.verbs.into();
        self.advance(now, out);
    }

    /// There is no document: the fallback is asked, once; without it the caller is told.
    fn failed(
        &mut self,
        now: Instant,
        url: String,
        form: Form,
        is_fallback: bool,
        failure: Failure,
        out: &mut Outbox,
    ) {
        let Failure { code, text } = failure;
        let notification =
            Notification { severity: Severity::Error, code, text, url: Some(url.clone()), line: None };
        out.push(Effect::Notify(notification));
        match self.plan.fallback.clone() {
            Some(fallback) if !is_fallback => {
                let mut form = if form.is_empty() { of_call(&self.call, self.status) } else { form };
                form.push(pair("ErrorCode", code.to_string()));
                form.push(pair("ErrorUrl", url));
                self.ask(now, fallback, form, true, out);
            }
            _ => self.apologise(now, out),
        }
    }

    /// The reason is spoken to a caller, and coded if the call is not answered yet.
    fn apologise(&mut self, now: Instant, out: &mut Outbox) {
        if self.plan.role == Role::Waiting {
            self.done(out);
            return;
        }
        if self.answered_at.is_none() && !self.answering {
            self.refuse(now, Refusal::ApplicationError, out);
            return;
        }
        if self.sorry || self.plan.role == Role::Screening {
            self.hang_up(now, out);
            return;
        }
        self.sorry = true;
        let speech = Item::Speech { text: APOLOGY.to_owned(), voice: Voice::Man, language: "en".to_owned() };
        self.verbs = [Verb::Say(Piece { items: vec![speech], loops: 1 }), Verb::Hangup].into();
        self.advance(now, out);
    }
}

/// An answer as a document: XML is one; audio is played and text is spoken.
fn read(answer: &Answer, url: &str) -> Result<Document, Failure> {
    if !(200..300).contains(&answer.status) {
        return Err(Failure { code: code::STATUS, text: format!("status {}", answer.status) });
    }
    // RFC 9110 §15.3.5: there is no content on purpose.
    if answer.status == 204 {
        return Ok(Document::default());
    }
    let written = answer.content_type.as_deref().unwrap_or_default();
    let mut parts = written.split(';').map(str::trim);
    let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
    let charset = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"'))
    });
    let one = |item: Item, play: bool| {
        let piece = Piece { items: vec![item], loops: 1 };
        Ok(Document {
            verbs: vec![if play { Verb::Play(piece) } else { Verb::Say(piece) }],
            notes: Vec::new(),
        })
    };
    match kind.as_str() {
        // PHP's default type, and a missing type, are read as XML.
        "" | "text/xml" | "application/xml" | "text/html" => xml(answer, charset),
        _ if kind.ends_with("+xml") => xml(answer, charset),
        "text/plain" => {
            let text = String::from_utf8_lossy(&answer.body);
            let text: String = text.trim().chars().take(limits::SPEECH_CHARS).collect();
            if text.is_empty() {
                return Ok(Document::default());
            }
            one(Item::Speech { text, voice: Voice::Man, language: "en".to_owned() }, false)
        }
        _ if kind.starts_with("audio/") => one(Item::Audio { url: url.to_owned() }, true),
        _ => Err(Failure {
            code: code::CONTENT_TYPE,
            text: format!("{kind} is neither document, audio nor text"),
        }),
    }
}

fn xml(answer: &Answer, charset: Option<&str>) -> Result<Document, Failure> {
    Document::parse(&answer.body, charset).map_err(|note| Failure { code: note.code, text: note.to_string() })
}
