//! The rights of users in a service of rooms, beside those that a room gives.

use xmpp::stanza::{self, Condition, StanzaKind};
use xmpp::{Element, Jid, ns};

use crate::HostSettings;

/// Administrators of the server (XEP-0045 §5.2: "service-wide administrators"), and its operator, whose requests come
/// from the domain itself, count as owners for a room's IQ requests. Clients cannot send from a domain of ours.
pub(super) fn has_all_rights(settings: &HostSettings, from: &Jid, stanza: &Element) -> bool {
    let is_operator = from.local().is_none() && settings.is_local(from.domain());
    stanza::kind_of(stanza) == Some(StanzaKind::Iq) && (is_operator || settings.admins.contains(&from.bare()))
}

/// §10.1: entering a room that does not exist creates it.
pub(super) fn may_create(
    settings: &HostSettings,
    (from, to): (&Jid, &Jid),
    stanza: &Element,
    has_all_rights: bool,
) -> Result<(), Condition> {
    // The operator of the server creates a room by configuring it.
    let is_configured = from.local().is_none()
        && has_all_rights
        && stanza.attr("type") == Some("set")
        && stanza.get("query", ns::MUC_OWNER).is_some_and(|query| query.get("x", ns::DATA).is_some());
    if is_configured {
        return Ok(());
    }
    let is_entry = stanza::kind_of(stanza) == Some(StanzaKind::Presence)
        && stanza.attr("type").is_none()
        && stanza.get("x", ns::MUC).is_some()
        && to.resource().is_some();
    if !is_entry {
        return Err(Condition::ItemNotFound);
    }
    // Rooms count for the account that creates them; accounts of other servers are without number.
    if settings.is_local(from.domain()) { Ok(()) } else { Err(Condition::NotAllowed) }
}

/// The account that a persistent room counts for: an account of ours, or a foreign domain, whose accounts are without
/// number. `None` for administrators of the server.
pub(super) fn charged(settings: &HostSettings, stanza: &Element) -> Option<Box<str>> {
    let from = stanza::from(stanza).ok().flatten()?;
    if has_all_rights(settings, &from, stanza) {
        return None;
    }
    let is_local = settings.is_local(from.domain());
    Some(if is_local { from.bare_str().into() } else { from.domain().into() })
}
