//! Slots for files (XEP-0363): the rights and quotas of users. The files themselves belong to the driver.
//!
//! A request is checked by its form (`request`), then against the user's bytes of the day, which are read from the store
//! at the first request; the driver makes the slot (`Load::Slot`), and the usage is written with the answer.

use stdx::Instant;
use stdx::cache::Cache;
use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Bare, Element, Level, Specification, ns};

use super::effect::{Change, Load, StoreReply, UploadSlot};
use super::feature::{Feature, IqHandler, IqReply, IqRequest, IqTarget, IqView};
use super::iq_effect::IqEffect;
use super::store_requests::StoreRequests;
use super::{HostSettings, ItemQuery, Outbox};
use crate::{limits, outgoing};

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

/// The bounds of uploads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UploadSettings {
    /// Bytes of one file.
    pub max_size: u64,
    /// Bytes of one user in a day (UTC).
    pub per_day: u64,
}

/// Seconds of a day.
const DAY: u64 = 86_400;

/// The node of a user's item of usage. Users cannot publish to it.
const NODE: &str = "quota:uploads";

/// Bytes that a user requested in a day; the day is counted from the epoch.
#[derive(Clone, Copy, Default)]
struct UploadUsage {
    day: u64,
    bytes: u64,
}

impl UploadUsage {
    /// The item that is stored.
    fn to_item(self) -> Element {
        Element::new("used", NODE).with("day", self.day.to_string()).with("bytes", self.bytes.to_string())
    }

    /// The usage in a stored item. `None`: it is damaged.
    fn read(item: &Element) -> Option<UploadUsage> {
        let number = |name| item.attr(name)?.parse().ok();
        Some(UploadUsage { day: number("day")?, bytes: number("bytes")? })
    }
}

/// The feature: how much each user has requested today. It is told of requests and replies and returns effects.
pub(super) struct Upload {
    /// The usage of users that have asked lately. It counts slots when they are granted; the store follows,
    /// so a crash may forget some.
    used: Cache<Bare, UploadUsage>,
}

impl Default for Upload {
    fn default() -> Upload {
        Upload { used: Cache::new(limits::UPLOADERS) }
    }
}

/// XEP-0363 §4: the bound, in the answer to disco.
pub(super) fn form(settings: &HostSettings) -> Option<Element> {
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

/// A request for a slot: the iq, its sender and the file.
pub(super) struct UploadRequest {
    iq: Element,
    user: Bare,
    name: Box<str>,
    size: u64,
    /// The media type.
    kind: Box<str>,
}

/// Everything that [`Upload`] asks of its host.
pub(super) enum UploadEffect {
    /// Read the user's usage of today; answered by `handle_usage`.
    ReadUsage(Box<UploadRequest>),
    /// Ask the driver for a slot; answered by `handle_slot`.
    RequestSlot(Box<UploadRequest>),
    /// Answer the request with this error.
    Refuse(Box<UploadRequest>, StanzaError),
}

impl UploadRequest {
    /// Bytes that count against the user's day. A small file costs as much as `limits::FILE_COST`: each is a
    /// file on disk and a request.
    fn cost(&self) -> u64 {
        self.size.max(limits::FILE_COST)
    }

    /// Reads a request. Name and media type become parts of an address and a header of HTTP, so they are checked.
    fn read(iq: &IqRequest<'_>, user: Bare) -> Result<UploadRequest, StanzaError> {
        let request = iq.payload;
        let wrong = |text: &str| StanzaError::new(Condition::BadRequest, text);
        let name = request.attr("filename").filter(|name| is_name(name));
        let name = name.ok_or_else(|| wrong("filename: expected the name of a file, without a path"))?;
        let size = request.attr("size").and_then(|size| size.parse().ok()).filter(|size| *size > 0);
        let size = size.ok_or_else(|| wrong("size: expected a number of bytes"))?;
        let kind = request.attr("content-type").unwrap_or("application/octet-stream");
        if !is_kind(kind) {
            return Err(wrong("content-type: expected a media type as text/plain"));
        }
        Ok(UploadRequest { iq: iq.iq.clone(), user, name: name.into(), size, kind: kind.into() })
    }
}

/// True if it is a file name without a path.
fn is_name(name: &str) -> bool {
    let is_plain = |c: char| !c.is_control() && c != '/' && c != '\\';
    !name.is_empty()
        && name.len() <= limits::FILE_NAME
        && name.chars().all(is_plain)
        && !matches!(name, "." | "..")
}

/// True if it is a media type: it becomes a header of HTTP.
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

/// Checks a request; [`Upload`] goes on with it.
fn request(view: &mut IqView<'_>, iq: &IqRequest<'_>) -> IqReply {
    let Some(uploads) = view.settings.uploads else {
        return IqReply::Error(Condition::ServiceUnavailable.into());
    };
    let user = iq.from.bare();
    if user.local().is_none() || !view.settings.is_local(user.domain()) || view.accounts.is_anonymous(&user) {
        return IqReply::Error(Condition::NotAllowed.into());
    }
    if iq.is_set {
        return IqReply::Error(Condition::BadRequest.into());
    }
    match UploadRequest::read(iq, user) {
        // Before the quota is read: the client can know this bound from disco.
        Ok(request) if request.size > uploads.max_size => IqReply::Error(too_large(uploads.max_size)),
        Ok(request) => IqReply::Perform(IqEffect::Upload(request)),
        Err(error) => IqReply::Error(error),
    }
}

/// Performs an effect of [`Upload`]; the store's reply goes back into it.
pub(super) fn perform(store: &mut StoreRequests, effect: UploadEffect, out: &mut Outbox) {
    match effect {
        UploadEffect::ReadUsage(request) => {
            let query = Box::new(ItemQuery::newest());
            let load = Load::Items { owner: request.user.clone(), node: NODE.into(), query };
            store.load(load, out, move |host, now, result, out| {
                let usage = match &result {
                    Ok(StoreReply::Items(page)) => Some(page.items.first().map(|(_, _, item)| item)),
                    _ => None,
                };
                let effect = host.upload.handle_usage(now, request, usage, host.settings.uploads);
                perform(&mut host.store, effect, out);
            });
        }
        UploadEffect::RequestSlot(request) => {
            let load = Load::Slot {
                user: request.user.clone(),
                name: request.name.clone(),
                size: request.size,
                kind: request.kind.clone(),
            };
            store.load(load, out, move |host, now, result, out| {
                let slot = match result {
                    Ok(StoreReply::Slot(slot)) => Some(slot),
                    _ => None,
                };
                let (change, answer) = host.upload.handle_slot(now, &request, slot.as_deref());
                if let Some(change) = change {
                    // A write that a crash prevents loses the usage of a moment.
                    host.store.change(change, out, |_, _, _, _| {});
                }
                outgoing::answer(&request.iq, answer.map(Some), out);
            });
        }
        UploadEffect::Refuse(request, error) => outgoing::refuse(&request.iq, &error, out),
    }
}

/// The error for a failure of ours: the client may ask again.
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
    /// Grants the request at once if the user's usage is in memory.
    pub(super) fn handle_request(
        &mut self,
        now: Instant,
        request: UploadRequest,
        settings: Option<UploadSettings>,
    ) -> UploadEffect {
        let request = Box::new(request);
        if self.used.get(&request.user).is_some() {
            return self.grant(now, request, settings);
        }
        // The first request of a user since the start, or since the user was forgotten.
        // A restart keeps the usage of today.
        UploadEffect::ReadUsage(request)
    }

    /// `usage`: `None` when the store failed, and the item that it has otherwise.
    fn handle_usage(
        &mut self,
        now: Instant,
        request: Box<UploadRequest>,
        usage: Option<Option<&Element>>,
        settings: Option<UploadSettings>,
    ) -> UploadEffect {
        let usage = usage.and_then(|item| item.map_or(Some(UploadUsage::default()), UploadUsage::read));
        // Usage that cannot be read is not zero.
        let Some(usage) = usage else { return UploadEffect::Refuse(request, no_place()) };
        // Another request of the user may have been answered meanwhile.
        if self.used.get(&request.user).is_none() {
            self.used.insert(request.user.clone(), usage);
        }
        self.grant(now, request, settings)
    }

    /// Counts the file against the user's day and asks for a slot, or refuses it.
    fn grant(
        &mut self,
        now: Instant,
        request: Box<UploadRequest>,
        settings: Option<UploadSettings>,
    ) -> UploadEffect {
        let Some(settings) = settings else {
            return UploadEffect::Refuse(request, Condition::ServiceUnavailable.into());
        };
        // Counted before the slot is made: two requests at once cannot pass the limit together.
        match self.take(now, &request.user, request.cost(), settings.per_day) {
            Ok(()) => UploadEffect::RequestSlot(request),
            Err(error) => UploadEffect::Refuse(request, error),
        }
    }

    /// Returns the usage to write and the answer. `slot`: `None` when the driver has none.
    fn handle_slot(
        &mut self,
        now: Instant,
        request: &UploadRequest,
        slot: Option<&UploadSlot>,
    ) -> (Option<Change>, Result<Element, StanzaError>) {
        let Some(slot) = slot else {
            // No file came of it, so it does not count.
            self.give_back(&request.user, request.cost());
            return (None, Err(no_place()));
        };
        let change = self.used.get(&request.user).map(|used| Change::Item {
            owner: request.user.clone(),
            node: NODE.into(),
            id: "today".into(),
            item: Some(Box::new(used.to_item())),
            at: now,
            keep: 1,
        });
        (change, Ok(element(slot)))
    }

    /// Counts a file against the user's day, in UTC: at midnight the count begins anew.
    fn take(&mut self, now: Instant, user: &Bare, cost: u64, per_day: u64) -> Result<(), StanzaError> {
        let today = now.unix_seconds() / DAY;
        let used = self.used.get(user).filter(|used| used.day == today).map_or(0, |used| used.bytes);
        if used.saturating_add(cost) > per_day {
            // XEP-0363: the error says when to ask again.
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
