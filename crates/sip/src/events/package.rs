//! The event packages we serve, and their headers in a request.

use router::Topic;

use super::EventRefusal;
use crate::wire::{Header, Message, Params, eq_ignore_case, trim};

/// The event packages that the notifier serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Package {
    /// RFC 3856.
    Presence,
    /// RFC 4235.
    Dialog,
    /// RFC 3842.
    MessageSummary,
    /// RFC 3680.
    Reg,
}

/// The value of Allow-Events.
pub(super) const ALLOW_EVENTS: &str = "presence, dialog, message-summary, reg";

/// RFC 3863.
pub(super) const PIDF: &str = "application/pidf+xml";

impl Package {
    /// The package that a SUBSCRIBE or PUBLISH asks for, when it is one of ours. Other packages, such as `refer`, may be
    /// a phone's to serve; the notifier answers them 489.
    pub fn of(request: &Message) -> Option<Package> {
        EventHeader::of(request).ok().map(|event| event.package)
    }

    fn from_bytes(name: &[u8]) -> Option<Package> {
        let all = [Package::Presence, Package::Dialog, Package::MessageSummary, Package::Reg];
        all.into_iter().find(|package| eq_ignore_case(name, package.as_str()))
    }

    /// The package's name in the Event header.
    pub fn as_str(self) -> &'static str {
        match self {
            Package::Presence => "presence",
            Package::Dialog => "dialog",
            Package::MessageSummary => "message-summary",
            Package::Reg => "reg",
        }
    }

    /// The one body type we make for it.
    pub fn content_type(self) -> &'static str {
        match self {
            Package::Presence => PIDF,
            Package::Dialog => "application/dialog-info+xml",
            Package::MessageSummary => "application/simple-message-summary",
            Package::Reg => "application/reginfo+xml",
        }
    }

    pub(super) fn topic(self) -> Topic {
        match self {
            Package::Presence => Topic::Presence,
            Package::Dialog => Topic::Dialog,
            Package::MessageSummary => Topic::MessageSummary,
            Package::Reg => Topic::Registration,
        }
    }
}

/// The Event header (RFC 6665 §8.2.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EventHeader {
    pub(super) package: Package,
    /// `id`, empty when there is none.
    pub(super) id: Box<str>,
}

impl EventHeader {
    /// RFC 6665 §4.2.1.1: an unknown package is 489, and Allow-Events lists the known ones.
    pub(super) fn of(request: &Message) -> Result<EventHeader, EventRefusal> {
        let value = request.header(Header::Event).unwrap_or_default();
        let end = value.iter().position(|&b| b == b';').unwrap_or(value.len());
        let package = Package::from_bytes(trim(&value[..end]));
        let package = package.ok_or_else(bad_event)?;
        let id = Params(value.get(end + 1..).unwrap_or_default()).get("id").unwrap_or_default();
        let id = std::str::from_utf8(id).map_err(|_| EventRefusal::new(400, "Bad Event"))?;
        Ok(EventHeader { package, id: id.into() })
    }

    /// As it stands in a NOTIFY (RFC 6665 §4.2.2: with the id of the SUBSCRIBE).
    pub(super) fn to_header(&self) -> String {
        match &*self.id {
            "" => self.package.as_str().to_owned(),
            id => format!("{};id={id}", self.package.as_str()),
        }
    }
}

pub(super) fn bad_event() -> EventRefusal {
    EventRefusal::new(489, "Bad Event").with("Allow-Events", ALLOW_EVENTS)
}

/// True if Accept, when it is there, has room for this type (RFC 3261 §20.1).
pub(super) fn accepts(request: &Message, content_type: &str) -> bool {
    let main = content_type.split('/').next().unwrap_or_default();
    request.count(Header::Accept) == 0
        || request.values(Header::Accept).any(|range| {
            let range = media_type(range);
            eq_ignore_case(range, content_type)
                || range == b"*/*"
                || range.strip_suffix(b"/*").is_some_and(|r| eq_ignore_case(r, main))
        })
}

/// A media type without its parameters.
pub(super) fn media_type(value: &[u8]) -> &[u8] {
    let end = value.iter().position(|&b| b == b';').unwrap_or(value.len());
    trim(&value[..end])
}
