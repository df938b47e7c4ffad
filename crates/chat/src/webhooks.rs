//! Events of chat for applications outside: messages, presence, and the begin and end of sessions, each reported once on the whole server
//! as an [`Effect::Event`](super::Effect::Event), which the driver posts to the URLs that are configured.
//!
//! A message is reported where it is accepted: one of an account of ours at the host of its sender, one from outside at the host of its
//! addressee, one to a room by the room. A refused or blocked message is not reported, nor signals of the moment such as chat states
//! (`hints::is_worth_keeping`). An event has the text of a message only if an application is to have it.

use stdx::Instant;
use xmpp::{Bare, Element, Jid, ns};

use super::{Effect, HostSettings, Outbox};
use crate::hints;

/// A kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookKind {
    /// A message of an account, or for one.
    Message,
    /// A message in a room.
    RoomMessage,
    /// A session of an account is available, with a new state, or not available any more.
    Presence,
    /// A client has a session.
    SessionBegin,
    /// The session has ended. One that waits to be resumed (XEP-0198) has not.
    SessionEnd,
}

impl WebhookKind {
    /// All kinds.
    pub const ALL: [WebhookKind; 5] = [
        WebhookKind::Message,
        WebhookKind::RoomMessage,
        WebhookKind::Presence,
        WebhookKind::SessionBegin,
        WebhookKind::SessionEnd,
    ];

    /// The name in configuration and events.
    pub fn name(self) -> &'static str {
        match self {
            WebhookKind::Message => "message",
            WebhookKind::RoomMessage => "room_message",
            WebhookKind::Presence => "presence",
            WebhookKind::SessionBegin => "session_begin",
            WebhookKind::SessionEnd => "session_end",
        }
    }
}

/// The events that applications are to have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebhookSettings {
    /// Their kinds.
    pub kinds: Vec<WebhookKind>,
    /// Texts of messages and states of presence are among them.
    pub bodies: bool,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookEvent {
    /// The kind.
    pub kind: WebhookKind,
    /// The time.
    pub at: Instant,
    /// The full address of the client that it is of.
    pub from: Box<str>,
    /// The addressee of a message.
    pub to: Option<Box<str>>,
    /// The type of a message; `available` or `unavailable` of presence.
    pub stanza_type: Option<Box<str>>,
    /// The `id` that the client gave a message.
    pub stanza_id: Option<Box<str>>,
    /// The id of a message in the archive of its account or room (XEP-0359).
    pub archive_id: Option<Box<str>>,
    /// The `show` of presence: `away`, `xa`, `dnd` or `chat`.
    pub show: Option<Box<str>>,
    /// The text of a message, or the status of presence.
    pub body: Option<Box<str>>,
}

impl WebhookEvent {
    fn new(kind: WebhookKind, at: Instant, from: &str) -> WebhookEvent {
        WebhookEvent {
            kind,
            at,
            from: from.into(),
            to: None,
            stanza_type: None,
            stanza_id: None,
            archive_id: None,
            show: None,
            body: None,
        }
    }
}

/// Reports an event of this kind, if an application is to have it.
fn report(
    settings: &HostSettings,
    kind: WebhookKind,
    event: impl FnOnce(bool) -> WebhookEvent,
    out: &mut Outbox,
) {
    let webhooks = &settings.webhooks;
    if webhooks.kinds.contains(&kind) {
        out.push(Effect::Event(Box::new(event(webhooks.bodies))));
    }
}

fn content_of(element: &Element, name: &str) -> Option<Box<str>> {
    element.content_of(name, ns::CLIENT).map(|text| Box::from(&*text))
}

/// A message for an account of ours. Those of our own accounts and services were reported where they began.
pub(super) fn report_received(
    settings: &HostSettings,
    now: Instant,
    from: &Jid,
    message: &Element,
    out: &mut Outbox,
) {
    if !settings.is_ours(from.domain()) {
        report_message(settings, now, message, None, out);
    }
}

/// A message of an account that is on its way to its addressee.
pub(super) fn report_message(
    settings: &HostSettings,
    now: Instant,
    message: &Element,
    archive_id: Option<&str>,
    out: &mut Outbox,
) {
    if !hints::is_worth_keeping(message) {
        return;
    }
    let event = |bodies| WebhookEvent {
        to: message.attr("to").map(Box::from),
        stanza_type: Some(message.attr("type").unwrap_or("normal").into()),
        stanza_id: message.attr("id").map(Box::from),
        archive_id: archive_id.map(Box::from),
        body: if bodies { content_of(message, "body") } else { None },
        ..WebhookEvent::new(WebhookKind::Message, now, message.attr("from").unwrap_or_default())
    };
    report(settings, WebhookKind::Message, event, out);
}

/// A message that a room gives to its occupants. `sent` is the stanza of its sender, with the real address; a room's own notices, and
/// subjects, have no text and are not reported.
pub(super) fn report_in_room(
    settings: &HostSettings,
    now: Instant,
    room: &Bare,
    sent: &Element,
    archive_id: &str,
    out: &mut Outbox,
) {
    let is_content = hints::has_body(sent) || sent.get("encrypted", ns::OMEMO).is_some();
    if sent.name() != "message" || !is_content {
        return;
    }
    let event = |bodies| WebhookEvent {
        to: Some(room.as_str().into()),
        stanza_type: Some("groupchat".into()),
        stanza_id: sent.attr("id").map(Box::from),
        archive_id: Some(archive_id.into()),
        body: if bodies { content_of(sent, "body") } else { None },
        ..WebhookEvent::new(WebhookKind::RoomMessage, now, sent.attr("from").unwrap_or_default())
    };
    report(settings, WebhookKind::RoomMessage, event, out);
}

/// Presence that a session shows to its contacts.
pub(super) fn report_presence(
    settings: &HostSettings,
    now: Instant,
    of: &Jid,
    presence: &Element,
    out: &mut Outbox,
) {
    let event = |bodies| WebhookEvent {
        stanza_type: Some(presence.attr("type").unwrap_or("available").into()),
        show: content_of(presence, "show"),
        body: if bodies { content_of(presence, "status") } else { None },
        ..WebhookEvent::new(WebhookKind::Presence, now, of.as_str())
    };
    report(settings, WebhookKind::Presence, event, out);
}

/// A session begins or ends.
pub(super) fn report_session(
    settings: &HostSettings,
    now: Instant,
    kind: WebhookKind,
    of: &Jid,
    out: &mut Outbox,
) {
    report(settings, kind, |_| WebhookEvent::new(kind, now, of.as_str()), out);
}
