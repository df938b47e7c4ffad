//! Slots for files (XEP-0363): who may upload what. The places themselves are the driver's.

use stdx::Instant;
use stdx::cache::Cache;
use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Bare, Element, Level, Specification, ns};

use super::effect::{Change, Load, StoreReply, UploadSlot};
use super::feature::{Feature, IqHandler, IqReply, IqRequest, IqTarget};
use super::{Host, ItemQuery, Outbox, Settings};
use crate::limits;

pub(super) const FEATURE: Feature = Feature {
    specifications: &[Specification {
        name: "XEP-0363",
        title: "HTTP File Upload",
        version: "1.2.0",
        level: Level::Complete,
        file: "crates/chat/src/upload.rs",
        note: "",
    }],
    account: &[],
    server: &[ns::UPLOAD],
    handles: &[IqHandler { at: IqTarget::Server, name: "request", ns: ns::UPLOAD, run: request }],
};

/// What users may upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UploadSettings {
    /// Bytes of one file.
    pub max_size: u64,
    /// Bytes of one user in a day (UTC).
    pub per_day: u64,
}

const DAY: u64 = 86_400;

/// Where a user's item of it is: nothing that users could publish to.
const NODE: &str = "quota:uploads";

/// Bytes that somebody asked for in a day, counted from the epoch.
#[derive(Clone, Copy, Default)]
struct UploadUsage {
    day: u64,
    bytes: u64,
}

impl UploadUsage {
    fn to_item(self) -> Element {
        Element::new("used", NODE).with("day", self.day.to_string()).with("bytes", self.bytes.to_string())
    }

    fn read(item: &Element) -> Option<UploadUsage> {
        let number = |name| item.attr(name)?.parse().ok();
        Some(UploadUsage { day: number("day")?, bytes: number("bytes")? })
    }
}

/// What each user has asked for today.
pub(super) struct Upload {
    used: Cache<Bare, UploadUsage>,
}

impl Default for Upload {
    fn default() -> Upload {
        Upload { used: Cache::new(limits::UPLOADERS) }
    }
}

/// XEP-0363 §4: the bound, in the answer to disco.
pub(super) fn form(settings: &Settings) -> Option<Element> {
    let max_size = settings.uploads?.max_size.to_string();
    let field = |var: &str, value: &str| {
        let value = Element::new("value", ns::DATA).text(value);
        Element::new("field", ns::DATA).with("var", var).child(value)
    };
    Some(
        Element::new("x", ns::DATA)
            .with("type", "result")
            .child(field("FORM_TYPE", ns::UPLOAD).with("type", "hidden"))
            .child(field("max-file-size", &max_size)),
    )
}

/// A file that somebody wants to upload.
struct UploadRequest {
    name: Box<str>,
    size: u64,
    kind: Box<str>,
}

impl UploadRequest {
    fn read(request: &Element) -> Result<UploadRequest, StanzaError> {
        let wrong = |text: &str| StanzaError::new(Condition::BadRequest, text);
        let name = request.attr("filename").filter(|name| is_name(name));
        let name = name.ok_or_else(|| wrong("filename: expected the name of a file, without a path"))?;
        let size = request.attr("size").and_then(|size| size.parse().ok()).filter(|size| *size > 0);
        let size = size.ok_or_else(|| wrong("size: expected a number of bytes"))?;
        let kind = request.attr("content-type").unwrap_or("application/octet-stream");
        if !is_kind(kind) {
            return Err(wrong("content-type: expected a media type as text/plain"));
        }
        Ok(UploadRequest { name: name.into(), size, kind: kind.into() })
    }
}

/// Nothing that could be a place in somebody's files.
fn is_name(name: &str) -> bool {
    let is_plain = |c: char| !c.is_control() && c != '/' && c != '\\';
    !name.is_empty()
        && name.len() <= limits::FILE_NAME
        && name.chars().all(is_plain)
        && !matches!(name, "." | "..")
}

/// It becomes a header of HTTP.
fn is_kind(kind: &str) -> bool {
    let is_token = |text: &str| {
        !text.is_empty() && text.bytes().all(|c| c.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&c))
    };
    let (name, rest) = kind.split_once(';').unwrap_or((kind, ""));
    let is_plain = rest.bytes().all(|c| c.is_ascii_graphic() || c == b' ');
    let is_short = kind.len() <= limits::FILE_NAME;
    is_short
        && is_plain
        && name.trim().split_once('/').is_some_and(|(top, sub)| is_token(top) && is_token(sub))
}

fn request(host: &mut Host, now: Instant, iq: &IqRequest<'_>, out: &mut Outbox) -> IqReply {
    let Some(uploads) = host.settings.uploads else {
        return IqReply::Error(Condition::ServiceUnavailable.into());
    };
    let user = iq.from.bare();
    if user.local().is_none() || !host.settings.is_local(user.domain()) || host.is_anonymous(&user) {
        return IqReply::Error(Condition::NotAllowed.into());
    }
    if iq.is_set {
        return IqReply::Error(Condition::BadRequest.into());
    }
    let file = match UploadRequest::read(iq.payload) {
        Ok(file) => file,
        Err(error) => return IqReply::Error(error),
    };
    if file.size > uploads.max_size {
        return IqReply::Error(too_large(uploads.max_size));
    }
    let question = iq.iq.clone();
    if host.upload.used.get(&user).is_some() {
        host.grant(now, &question, user, file, out);
        return IqReply::Later;
    }
    // A restart forgets nothing that was used today.
    let load = Load::Items { owner: user.clone(), node: NODE.into(), query: Box::new(ItemQuery::newest()) };
    host.load(load, out, move |host, now, result, out| match result {
        Ok(StoreReply::Items(page)) => {
            let kept = match page.items.first() {
                Some((_, _, item)) => UploadUsage::read(item),
                None => Some(UploadUsage::default()),
            };
            // What was used today and cannot be read is not nothing.
            let Some(kept) = kept else { return host.refuse(&question, &no_place(), out) };
            // Another question may have been quicker.
            if host.upload.used.get(&user).is_none() {
                host.upload.used.insert(user.clone(), kept);
            }
            host.grant(now, &question, user, file, out);
        }
        _ => host.refuse(&question, &no_place(), out),
    });
    IqReply::Later
}

impl Host {
    fn grant(&mut self, now: Instant, question: &Element, user: Bare, file: UploadRequest, out: &mut Outbox) {
        let Some(uploads) = self.settings.uploads else {
            return self.refuse(question, &Condition::ServiceUnavailable.into(), out);
        };
        // One of no size costs something too: each is a file.
        let cost = file.size.max(limits::FILE_COST);
        if let Err(error) = self.upload.take(now, &user, cost, uploads.per_day) {
            return self.refuse(question, &error, out);
        }
        let question = question.clone();
        let load = Load::Slot { user: user.clone(), name: file.name, size: file.size, kind: file.kind };
        self.load(load, out, move |host, now, result, out| match result {
            Ok(StoreReply::Slot(slot)) => {
                host.keep_used(now, user, out);
                host.answer(&question, Ok(Some(element(&slot))), out);
            }
            _ => {
                host.upload.give_back(&user, cost);
                host.refuse(&question, &no_place(), out);
            }
        });
    }

    /// Nobody waits for it: what a crash takes with it is a moment's.
    fn keep_used(&mut self, now: Instant, owner: Bare, out: &mut Outbox) {
        let Some(used) = self.upload.used.get(&owner) else { return };
        let item = Some(Box::new(used.to_item()));
        let change = Change::Item { owner, node: NODE.into(), id: "today".into(), item, at: now, keep: 1 };
        self.change(change, out, |_, _, _, _| {});
    }
}

fn no_place() -> StanzaError {
    StanzaError::new(Condition::ResourceConstraint, "no place for the file now: try again later")
}

fn too_large(max_size: u64) -> StanzaError {
    let max = Element::new("max-file-size", ns::UPLOAD).text(max_size.to_string());
    let detail = Element::new("file-too-large", ns::UPLOAD).child(max);
    StanzaError::new(Condition::NotAcceptable, "the file is too large").with(detail)
}

fn element(slot: &UploadSlot) -> Element {
    let headers = slot.headers.iter().map(|(name, value)| {
        Element::new("header", ns::UPLOAD).with("name", name.clone()).text(value.clone())
    });
    let put = Element::new("put", ns::UPLOAD).with("url", slot.put.clone()).children(headers);
    let get = Element::new("get", ns::UPLOAD).with("url", slot.get.clone());
    Element::new("slot", ns::UPLOAD).child(put).child(get)
}

impl Upload {
    fn take(&mut self, now: Instant, user: &Bare, cost: u64, per_day: u64) -> Result<(), StanzaError> {
        let today = now.unix_seconds() / DAY;
        let used = self.used.get(user).filter(|used| used.day == today).map_or(0, |used| used.bytes);
        if used.saturating_add(cost) > per_day {
            let tomorrow = Instant::from_unix_seconds((today + 1) * DAY);
            let retry = Element::new("retry", ns::UPLOAD).with("stamp", xmpp::time::stamp(tomorrow));
            let text = "that is more than one user may upload in a day";
            return Err(StanzaError::new(Condition::ResourceConstraint, text).with(retry));
        }
        self.used.insert(user.clone(), UploadUsage { day: today, bytes: used + cost });
        Ok(())
    }

    fn give_back(&mut self, user: &Bare, cost: u64) {
        if let Some(used) = self.used.get_mut(user) {
            used.bytes = used.bytes.saturating_sub(cost);
        }
    }
}
