//! The loading of documents: requests, fallbacks, and the end of circles.
//!
//! The order: the first document (`load_first`) or the next (`load`), the response or its absence, and, once, the fallback of the account or number.
//! Two counters end circles: all documents of a call, and those in a row that took no time.

use stdx::Instant;

use super::call_context::CallContext;
use super::form::pair;
use super::{Effect, EffectFailure, FetchResponse, Id, Notification, ScriptOutbox, Start};
use crate::document::{Document, Item, Piece, Severity, Verb, Voice, code};
use crate::limits;
use crate::request::{Form, Request, Target};

/// A document that came before this is one that took no time.
const HURRY: std::time::Duration = std::time::Duration::from_millis(200);

/// The loader of a script's documents: their number, and the time that each took.
#[derive(Debug)]
pub(super) struct DocumentLoader {
    /// Documents of this call so far.
    loaded: u32,
    /// Documents in a row that took no time.
    without_pause: u32,
    /// The time since which the current document is performed.
    pub(super) performed_since: Instant,
}

/// The outcome of a step of loading.
pub(super) enum Loading {
    /// The application is asked.
    Pending(Fetching),
    /// The document to perform.
    Loaded(Document),
    /// There is no document, nor a fallback; the failure is noted.
    Failed,
}

/// A document that was requested.
#[derive(Debug)]
pub(super) struct Fetching {
    /// The id of `Effect::Fetch`.
    pub(super) id: Id,
    /// The end of the wait, for an HTTP client that never answers.
    pub(super) until: Instant,
    /// The requested URL; the base of the document's relative URLs, redirects aside.
    url: String,
    /// The parameters without those that the fallback adds.
    form: Form,
    /// The request goes to the fallback URL, which has none itself.
    is_fallback: bool,
}

impl DocumentLoader {
    /// The loader of a script that has not begun.
    pub(super) fn new() -> DocumentLoader {
        DocumentLoader { loaded: 0, without_pause: 0, performed_since: Instant::default() }
    }

    /// The first document: at the start, and when a waiting document begins again.
    pub(super) fn load_first(
        &mut self,
        call: &mut CallContext,
        now: Instant,
        out: &mut ScriptOutbox,
    ) -> Loading {
        match call.plan.start.clone() {
            Start::Url(target) => self.load(call, now, &target, Form::new(), out),
            Start::Document(bytes) => {
                self.performed_since = now;
                match Document::parse(&bytes, None) {
                    Ok(document) => Loading::Loaded(document),
                    Err(note) => {
                        let failure = EffectFailure { code: note.code, text: note.to_string() };
                        let form = call.form();
                        fall_back(
                            call,
                            now,
                            Fetched { url: String::new(), form, is_fallback: false },
                            failure,
                            out,
                        )
                    }
                }
            }
        }
    }

    /// The next document, requested with `more` parameters. An empty URL is the current document's.
    pub(super) fn load(
        &mut self,
        call: &mut CallContext,
        now: Instant,
        target: &Target,
        more: Form,
        out: &mut ScriptOutbox,
    ) -> Loading {
        let is_hurried = now.since(self.performed_since) < HURRY;
        self.without_pause = if is_hurried { self.without_pause + 1 } else { 0 };
        self.loaded += 1;
        if self.without_pause > limits::DOCUMENTS_WITHOUT_PAUSE || self.loaded > limits::DOCUMENTS_PER_CALL {
            let text = format!("documents lead to documents without end, at last to {}", target.url);
            call.notify(Severity::Error, code::CIRCLE, text, out);
            return Loading::Failed;
        }
        let mut form = call.form();
        form.extend(more);
        let Some(url) = call.absolute(&target.url) else {
            // The current document, if it was given and not fetched.
            let text = match &*target.url {
                "" => "the document has no URL by which it could be asked for again; expected an action"
                    .to_owned(),
                url => format!("{url} is no URL of HTTP"),
            };
            let request = Fetched { url: target.url.clone(), form, is_fallback: false };
            return fall_back(call, now, request, EffectFailure { code: code::URL, text }, out);
        };
        Loading::Pending(Fetching::start(call, now, Target { url, method: target.method }, form, false, out))
    }
}

/// A request for a document that has its result.
struct Fetched {
    /// The URL that brought no document; the fallback learns it as `ErrorUrl`.
    url: String,
    /// The parameters, which the fallback gets too.
    form: Form,
    /// True if there is nothing left to ask.
    is_fallback: bool,
}

impl Fetching {
    /// Requests a document.
    fn start(
        call: &mut CallContext,
        now: Instant,
        target: Target,
        form: Form,
        is_fallback: bool,
        out: &mut ScriptOutbox,
    ) -> Fetching {
        let id = call.next_id();
        let Target { url, method } = target;
        let until = now + limits::FETCH_WAIT;
        out.push(Effect::Fetch { id, request: Request { method, url: url.clone(), form: form.clone() } });
        Fetching { id, until, url, form, is_fallback }
    }

    /// The result of the request: a document, or the fallback.
    pub(super) fn handle_response(
        &mut self,
        call: &mut CallContext,
        now: Instant,
        result: Result<FetchResponse, EffectFailure>,
        out: &mut ScriptOutbox,
    ) -> Loading {
        let mut url = std::mem::take(&mut self.url);
        let form = std::mem::take(&mut self.form);
        let document = result.and_then(|response| {
            // The URL after redirects is the base of the document's relative URLs (RFC 3986 §5.1.3).
            if let Some(last) = &response.url {
                url.clone_from(last);
            }
            read(&response, &url)
        });
        match document {
            Ok(document) => {
                call.document_url = Some(url);
                Loading::Loaded(document)
            }
            Err(failure) => {
                fall_back(call, now, Fetched { url, form, is_fallback: self.is_fallback }, failure, out)
            }
        }
    }

    /// The HTTP client never answered.
    pub(super) fn expire(&mut self, call: &mut CallContext, now: Instant, out: &mut ScriptOutbox) -> Loading {
        let text = format!("no answer in {} seconds", limits::FETCH_WAIT.as_secs());
        self.handle_response(call, now, Err(EffectFailure { code: code::UNREACHABLE, text }), out)
    }
}

/// There is no document: the failure is noted, and the fallback is requested, once.
fn fall_back(
    call: &mut CallContext,
    now: Instant,
    request: Fetched,
    failure: EffectFailure,
    out: &mut ScriptOutbox,
) -> Loading {
    let Fetched { url, mut form, is_fallback } = request;
    let EffectFailure { code, text } = failure;
    let (severity, about) = (Severity::Error, Some(url.clone()));
    let notification = Notification { severity, code, text, url: about, line: None, column: None };
    out.push(Effect::Notify(notification));
    match call.plan.fallback.clone() {
        Some(fallback) if !is_fallback => {
            form.push(pair("ErrorCode", code.to_string()));
            form.push(pair("ErrorUrl", url));
            Loading::Pending(Fetching::start(call, now, fallback, form, true, out))
        }
        _ => Loading::Failed,
    }
}

/// A response as a document: XML is one; audio is played and text is spoken.
fn read(response: &FetchResponse, url: &str) -> Result<Document, EffectFailure> {
    if !(200..300).contains(&response.status) {
        return Err(EffectFailure { code: code::STATUS, text: format!("status {}", response.status) });
    }
    // RFC 9110 §15.3.5: there is no content on purpose.
    if response.status == 204 {
        return Ok(Document::default());
    }
    let written = response.content_type.as_deref().unwrap_or_default();
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
        "" | "text/xml" | "application/xml" | "text/html" => xml(response, charset),
        _ if kind.ends_with("+xml") => xml(response, charset),
        "text/plain" => {
            let text = String::from_utf8_lossy(&response.body);
            let text: String = text.trim().chars().take(limits::SPEECH_CHARS).collect();
            if text.is_empty() {
                return Ok(Document::default());
            }
            one(Item::Speech { text, voice: Voice::Man, language: "en".to_owned() }, false)
        }
        _ if kind.starts_with("audio/") => one(Item::Audio { url: url.to_owned() }, true),
        _ => Err(EffectFailure {
            code: code::CONTENT_TYPE,
            text: format!("{kind} is neither document, audio nor text"),
        }),
    }
}

/// An XML body as a document; `charset` is that of the Content-Type.
fn xml(response: &FetchResponse, charset: Option<&str>) -> Result<Document, EffectFailure> {
    Document::parse(&response.body, charset)
        .map_err(|note| EffectFailure { code: note.code, text: note.to_string() })
}
