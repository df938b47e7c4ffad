//! Texts and mail that scripts, or the REST interface, send. A text is a MESSAGE (RFC 3428) to the
//! destinations of its address, or is kept for an account that is not there.
//!
//! A text's way: its row is in the record, its address is looked up (`VoiceEffect::Resolve`), each group of
//! destinations gets a MESSAGE each at once, and the first 2xx ends it. If no phone is registered (480) and
//! the address is an account's, the router keeps the text (`VoiceEffect::Keep`) until one is. Invariant: each
//! text ends once, with its row, its callback and its script told (`end`).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use admin::numbers::dialled;
use bytes::Bytes;
use ivr::document::code;
use ivr::request::{Method, Request};
use ivr::script::{EffectFailure, Id, Message, Sent};
use ivr::sid;
use router::{Aor, KeepRefused, WaitingMessage};
use sip::session::{MessageId, MessageOut};
use sip::wire::{Uri, escape_user};
use stdx::Instant;
use stdx::slab::Key;
use store::rest::types::{Common, TextMessage};
use store::rest::{Resource, RestWrite};

use super::calls::Calls;
use super::numbers::Numbers;
use super::outgoing::CallOrigin;
use super::resolving::{ResolutionPurpose, Resolutions};
use super::{Address, Destination, Owner, Purpose, Resolved, Voice, VoiceEffect, World, limits};

/// A text to be sent. Its row is in the record.
pub(super) struct NewText {
    pub(super) row: TextMessage,
    pub(super) owner: Arc<Owner>,
    /// The URL that is told the outcome.
    pub(super) status: Option<String>,
    /// The script that may wait for it.
    pub(super) script: Option<(Key, Id)>,
}

/// A text without an outcome yet. It is under the ticket of its look-up, which names it until the end.
struct Text {
    new: NewText,
    /// The account whose phones these are, when it is one of ours.
    aor: Option<Aor>,
    /// Still to be tried, those of a group at once.
    groups: VecDeque<Vec<Destination>>,
    /// MESSAGEs without an answer.
    open: usize,
    /// The status of the last refusal, which is the text's if all fail. At first that of an absent user.
    last_status: u16,
}

/// The outcome of a text that a script waits for.
pub(super) struct TextOutcome {
    /// The script's actor, and its number for the text.
    script: (Key, Id),
    result: Result<Sent, EffectFailure>,
}

/// The parts of the shard that texts use besides their own state.
pub(super) struct TextParts<'a, 'w> {
    origin: &'a CallOrigin,
    numbers: &'a Numbers,
    resolutions: &'a mut Resolutions,
    calls: &'a mut Calls,
    world: &'a mut World<'w>,
}

/// A shard's texts, by the ticket of the search for their address.
#[derive(Default)]
pub(super) struct Texts {
    open: HashMap<u64, Text>,
    /// The text that each open MESSAGE is of. A text may end before all its MESSAGEs have.
    messages: HashMap<MessageId, u64>,
}

impl Texts {
    /// Texts without an outcome.
    pub(super) fn open(&self) -> usize {
        self.open.len()
    }

    /// Keeps a text until its address is looked up. A status: it is refused, and to be ended with that. It is
    /// inserted all the same, as `end` has one way for all.
    fn insert(&mut self, ticket: u64, new: NewText) -> Option<u16> {
        let is_too_much = self.open() >= limits::TEXTS;
        let is_too_long = new.row.body.len() > limits::TEXT_BYTES;
        let text = Text { new, aor: None, groups: VecDeque::new(), open: 0, last_status: 480 };
        self.open.insert(ticket, text);
        match (is_too_long, is_too_much) {
            (true, _) => Some(413),
            (false, true) => Some(503),
            (false, false) => None,
        }
    }

    /// The account that a text's address has led to.
    pub(super) fn handle_account(&mut self, ticket: u64, aor: &Aor) {
        if let Some(text) = self.open.get_mut(&ticket) {
            text.aor = Some(aor.clone());
        }
    }

    /// The destinations of a text's address, or the status that says why there is none.
    pub(super) fn handle_resolved(
        &mut self,
        now: Instant,
        ticket: u64,
        resolved: Resolved,
        parts: &mut TextParts<'_, '_>,
    ) -> Option<TextOutcome> {
        let text = self.open.get_mut(&ticket)?;
        match (resolved, &text.aor) {
            (Ok(groups), _) => {
                text.groups = groups.into();
                self.send_next(now, ticket, parts)
            }
            // The account exists and has no phone now: a text, unlike a call, can wait.
            (Err(480), Some(aor)) => {
                let message = WaitingMessage {
                    id: 0,
                    aor: aor.clone(),
                    from: sender(&text.new.row.from, parts.origin.domain()).into(),
                    content_type: PLAIN.into(),
                    body: text.new.row.body.as_bytes().into(),
                    sent_at: now,
                    expires_at: None,
                };
                parts.world.outbox.push(VoiceEffect::Keep { ticket, message: Box::new(message) });
                None
            }
            (Err(status), _) => self.end(now, ticket, status, parts),
        }
    }

    /// Sends the text to all destinations of the next group; without one, the text has failed.
    fn send_next(&mut self, now: Instant, ticket: u64, parts: &mut TextParts<'_, '_>) -> Option<TextOutcome> {
        let Texts { open, messages } = self;
        let text = open.get_mut(&ticket)?;
        let shown = &text.new.row.from;
        let (from, asserted) =
            (sender(shown, parts.origin.domain()), parts.origin.asserted(Some(shown), None));
        let world = &mut *parts.world;
        while let Some(group) = text.groups.pop_front() {
            for reach in group {
                let out = MessageOut {
                    target: reach.uri,
                    path: reach.path,
                    received: reach.received,
                    from: format!("<{from}>").into(),
                    to: text.aor.as_ref().map(|aor| format!("<{}>", uri_of(aor)).into()).unwrap_or_default(),
                    content_type: PLAIN.into(),
                    body: Bytes::copy_from_slice(text.new.row.body.as_bytes()),
                    is_binding: reach.is_binding,
                    asserted: asserted.clone(),
                    ..MessageOut::default()
                };
                match world.endpoint.sessions(now, world.out).message(out) {
                    Ok(message) => {
                        messages.insert(message, ticket);
                        text.open += 1;
                    }
                    // No transaction could be started: the next destination may still take it.
                    Err(_) => text.last_status = 503,
                }
            }
            if text.open > 0 {
                return None;
            }
        }
        let status = text.last_status;
        self.end(now, ticket, status, parts)
    }

    /// The final answer to one MESSAGE of a text.
    pub(super) fn handle_answered(
        &mut self,
        now: Instant,
        message: MessageId,
        status: u16,
        parts: &mut TextParts<'_, '_>,
    ) -> Option<TextOutcome> {
        let ticket = self.messages.remove(&message)?;
        // `None`: another phone has taken it, and the text is over.
        let text = self.open.get_mut(&ticket)?;
        text.open -= 1;
        text.last_status = status;
        if (200..300).contains(&status) {
            self.end(now, ticket, status, parts)
        } else if text.open == 0 {
            self.send_next(now, ticket, parts)
        } else {
            None
        }
    }

    /// Ends a text with that status: its row, its callback, and the script that waits for it.
    fn end(
        &mut self,
        now: Instant,
        ticket: u64,
        status: u16,
        parts: &mut TextParts<'_, '_>,
    ) -> Option<TextOutcome> {
        let Text { mut new, .. } = self.open.remove(&ticket)?;
        let is_sent = (200..300).contains(&status);
        let row = &mut new.row;
        row.common.updated_at = now;
        if is_sent {
            row.status = "sent".to_owned();
            row.sent_at = Some(now);
        } else {
            row.status = "failed".to_owned();
            row.error_code = Some(code::MESSAGE);
            row.error_message = format!("the message to {} was refused with {status}", row.to);
        }
        if let Ok(row) = row.row() {
            let write = store::Write::Rest(RestWrite::Replace(Box::new(row)));
            parts.world.outbox.push(VoiceEffect::Write(write));
        }
        // The row and the callback are for every text, a waiting script only for one of a call.
        if let Some(url) = &new.status {
            parts.calls.helper_requests.tell(outcome(&new, url).to_wire(&new.owner.signing_key));
        }
        let script = new.script?;
        let TextMessage { common, status, error_message, .. } = new.row;
        let result = if is_sent {
            Ok(Sent { sid: common.sid, status })
        } else {
            Err(EffectFailure { code: code::MESSAGE, text: error_message })
        };
        Some(TextOutcome { script, result })
    }
}

/// Twilio's number for a message's `From` that may not be used.
const INVALID_SENDER: u32 = 14_102;

const PLAIN: &str = "text/plain;charset=UTF-8";

impl Texts {
    /// Sends the text of a script, which is told the outcome. Its row is inserted before the look-up: the
    /// REST interface shows it as sending.
    pub(super) fn send_message(
        &mut self,
        now: Instant,
        script: (Key, Id),
        message: Message,
        parts: &mut TextParts<'_, '_>,
    ) -> Option<TextOutcome> {
        let sid = parts.calls.new_sid(sid::MESSAGE);
        let (leg, found) = parts.calls.leg_of(script.0)?;
        let owner = Arc::clone(&found.owner);
        let Message { from, to, body, status } = message;
        // As Dial reads numbers.
        let (from, to) = (dialled(&from), dialled(&to));
        // Otherwise an application could write under any bank's name.
        if !parts.origin.may_show(parts.numbers, &owner.account, &from) {
            let text =
                format!("the text's sender {from:?} is neither a number nor a caller id of the account");
            parts.calls.warn(now, leg, INVALID_SENDER, text.clone(), parts.world);
            let failure = EffectFailure { code: INVALID_SENDER, text };
            return Some(TextOutcome { script, result: Err(failure) });
        }
        let row = TextMessage {
            common: Common { sid, account: owner.account.to_string(), created_at: now, updated_at: now },
            from,
            to,
            body,
            status: "sending".to_owned(),
            direction: "outbound-call".to_owned(),
            ..TextMessage::default()
        };
        if let Ok(row) = row.row() {
            let write = store::Write::Rest(RestWrite::Insert(Box::new(row)));
            parts.world.outbox.push(VoiceEffect::Write(write));
        }
        self.send(now, NewText { row, owner, status, script: Some(script) }, parts)
    }

    /// Looks up the address of a text, and sends it there. An outcome at once means that it was refused.
    pub(super) fn send(
        &mut self,
        now: Instant,
        text: NewText,
        parts: &mut TextParts<'_, '_>,
    ) -> Option<TextOutcome> {
        let address = address_of(&text.row.to, parts.origin.domain());
        let ticket = parts.resolutions.insert(ResolutionPurpose::Text);
        if let Some(status) = self.insert(ticket, text) {
            parts.resolutions.remove(ticket);
            return self.end(now, ticket, status, parts);
        }
        parts.world.outbox.push(VoiceEffect::Resolve { ticket, address, purpose: Purpose::Text });
        None
    }
}

impl Voice {
    /// Gives texts an input, and the outcome of a text to the script that waits for it.
    pub(super) fn with_texts(
        &mut self,
        now: Instant,
        world: &mut World<'_>,
        act: impl FnOnce(&mut Texts, &mut TextParts<'_, '_>) -> Option<TextOutcome>,
    ) {
        let mut parts = TextParts {
            origin: self.dials.origin(),
            numbers: &self.numbers,
            resolutions: &mut self.resolutions,
            calls: &mut self.calls,
            world: &mut *world,
        };
        let Some(TextOutcome { script: (actor, id), result }) = act(&mut self.texts, &mut parts) else {
            return;
        };
        self.drive(now, actor, world, |script, out| script.handle_sent(now, id, result, out));
    }

    /// Handles the result of `VoiceEffect::Keep`.
    pub fn handle_kept(
        &mut self,
        now: Instant,
        ticket: u64,
        result: Result<(), KeepRefused>,
        world: &mut World<'_>,
    ) {
        let status = match result {
            Ok(()) => 202,
            Err(KeepRefused::TooMany) => 480,
            Err(KeepRefused::TooLarge) => 413,
            Err(KeepRefused::StoreFailed) => 500,
        };
        self.with_texts(now, world, |texts, parts| texts.end(now, ticket, status, parts));
    }
}

/// The sender of a text: a SIP URI is unchanged, any other value is a user of our domain.
fn sender(from: &str, domain: &str) -> String {
    match Uri::parse(from.as_bytes()) {
        Ok(uri) if uri.is_sip() => from.to_owned(),
        _ => uri_of(&format!("{}@{domain}", client(from))),
    }
}

fn outcome(text: &NewText, url: &str) -> Request {
    let TextMessage { common, from, to, status, error_code, .. } = &text.row;
    let mut form = vec![
        ("MessageSid", common.sid.clone()),
        ("MessageStatus", status.clone()),
        ("SmsSid", common.sid.clone()),
        ("SmsStatus", status.clone()),
        ("AccountSid", common.account.clone()),
        ("From", from.clone()),
        ("To", to.clone()),
    ];
    form.extend(error_code.map(|code| ("ErrorCode", code.to_string())));
    let form = form.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Request { url: url.to_owned(), method: Method::Post, form }
}

fn client(name: &str) -> &str {
    name.strip_prefix("client:").unwrap_or(name)
}

fn uri_of(aor: &str) -> String {
    match aor.rsplit_once('@') {
        Some((user, host)) => format!("sip:{}@{host}", escape_user(user)),
        None => format!("sip:{aor}"),
    }
}

/// A number or a name of our domain, or a whole address.
fn address_of(to: &str, domain: &str) -> Address {
    let uri = Uri::parse(to.as_bytes()).ok().filter(Uri::is_sip);
    let of_uri = uri.and_then(|uri| {
        let user = uri.user_decoded()?;
        Some((user, String::from_utf8_lossy(uri.host).into_owned(), uri.port))
    });
    match of_uri {
        Some((user, host, port)) => Address { user: user.into(), host: host.into(), port },
        None => {
            let (user, host) = client(to).split_once('@').unwrap_or((client(to), domain));
            Address { user: user.into(), host: host.into(), port: None }
        }
    }
}
