//! Probes (RFC 6121 §4.3): questions for the presence of contacts, which a server asks for its clients, and their answers.

use stdx::Instant;
use stdx::slab::Key;
use xmpp::{Bare, Element, Jid, ns};

use super::super::Outbox;
use super::super::account_memory::AccountMemory;
use super::super::blocking::Blocklist;
use super::super::effect::Effect;
use super::super::phones::{Phones, RESOURCE};
use super::super::session::Session;
use super::{addressed, send_presences, typed};

/// Answers a probe for the account (RFC 6121 §4.3.2): a subscriber gets the presence of the resource or of all, else the last one; the target of
/// directed presence gets that one again; all others get `unsubscribed`.
pub(super) fn handle_probe(
    (accounts, phones): (&AccountMemory, &mut Phones),
    now: Instant,
    from: &Jid,
    to: &Jid,
    out: &mut Outbox,
) {
    let (contact, user) = (from.bare(), &to.bare());
    if accounts.data(user).is_none() {
        return;
    }
    let is_subscribed = accounts.subscription(user, &contact).has_from();
    // A contact that probes watches from now on, so the state of the phones has to be known.
    if is_subscribed || contact == *user {
        phones.watch(accounts, user, out);
        let before = out.len();
        match accounts.session_of(to).and_then(|key| accounts.sessions.get(key)) {
            Some(session) => {
                out.extend(session.presence().map(|presence| addressed(&presence, from.as_str())));
            }
            None if to.is_bare() => send_presences(accounts, phones, user, from.as_str(), out),
            None if to.resource() == Some(RESOURCE) => {
                out.extend(phones.presence(user).map(|presence| addressed(presence, from.as_str())));
            }
            None => {}
        }
        if out.len() == before {
            out.push(last_presence(accounts, now, user, from));
        }
        return;
    }
    // The target of a directed presence may probe it again.
    let mut saw = false;
    for key in accounts.keys_of(user, Session::is_available) {
        let Some(session) = accounts.sessions.get(key) else { continue };
        if session.directed.iter().any(|to| to == from || *to == *contact.as_jid()) {
            saw = true;
            out.extend(session.presence().map(|presence| addressed(&presence, from.as_str())));
        }
    }
    // RFC 6121 §4.3.2 rule 1: a probe without a subscription is answered by `unsubscribed`, so that the two rosters agree again.
    if !saw {
        out.push(Effect::Route(Box::new(typed(user, from, "unsubscribed"))));
    }
}

/// RFC 6121 §4.3.2 rule 3: the account is unavailable, since when, and with which last status.
fn last_presence(accounts: &AccountMemory, now: Instant, user: &Bare, to: &Jid) -> Effect {
    let mut presence = typed(user, to, "unavailable");
    if let Some((at, status)) = accounts.data(user).and_then(|data| data.last_seen.as_ref()) {
        if !status.is_empty() {
            presence.push(Element::new("status", ns::CLIENT).text(status.clone()));
        }
        let at = (*at).min(now);
        let delay =
            Element::new("delay", ns::DELAY).with("from", user.as_str()).with("stamp", xmpp::time::stamp(at));
        presence.push(delay);
    }
    Effect::Route(Box::new(presence))
}

/// Asks for the presence of each contact that shows it to the user, for a session that begins (RFC 6121 §4.3.1).
pub(super) fn probe_contacts(accounts: &AccountMemory, user: &Bare, jid: &Jid, out: &mut Outbox) {
    let Some(data) = accounts.data(user) else { return };
    let blocked = Blocklist::new(&data.blocked);
    let probe = probe(jid);
    for (contact, subscription) in accounts.contacts(user) {
        if subscription.has_to() && !blocked.has(contact.as_jid()) {
            out.push(addressed(&probe, contact.as_str()));
        }
    }
}

/// Asks for the presence of the contacts of one session whose hosts are dead: their sessions may have ended
/// with it. `is_lost` tells by the contact's address.
pub(in super::super) fn probe_lost_contacts(
    accounts: &AccountMemory,
    key: Key,
    is_lost: impl Fn(&str) -> bool,
    out: &mut Outbox,
) {
    let Some(session) = accounts.sessions.get(key) else { return };
    let user = session.jid.bare();
    let Some(data) = accounts.data(&user) else { return };
    let blocked = Blocklist::new(&data.blocked);
    let probe = probe(&session.jid);
    for (contact, subscription) in accounts.contacts(&user) {
        if subscription.has_to() && is_lost(contact.as_str()) && !blocked.has(contact.as_jid()) {
            out.push(addressed(&probe, contact.as_str()));
        }
    }
}

/// Asks for a contact's presence for each session of the account.
pub(in super::super) fn send_probes(accounts: &AccountMemory, user: &Bare, to: &str, out: &mut Outbox) {
    for key in accounts.keys_of(user, Session::is_available) {
        out.extend(accounts.sessions.get(key).map(|session| addressed(&probe(&session.jid), to)));
    }
}

/// A probe for a session. The server sends it, on the client's behalf (RFC 6121 §4.3.1).
fn probe(jid: &Jid) -> Element {
    Element::new("presence", ns::CLIENT).with("type", "probe").with("from", jid.as_str())
}
