//! Presence (RFC 6121 §4): the available sessions and their subscribers.
//!
//! `route` calls `handle_outbound` for presence of a session and `handle_inbound` for presence to an account, both with the account's data in
//! memory. Subscription stanzas go on to `roster`, which writes the state that the table of `subscription` has. A session's own presence is
//! kept with it (`begin`), sent to its subscribers (`broadcast`) and to the account's other sessions; the first one also asks for the presence
//! of contacts. `caps`, `pubsub` and `phones` are told of all of it.

pub(super) mod subscription;

use stdx::Instant;
use stdx::slab::Key;
use xmpp::stanza::{self, Condition, StanzaError};
use xmpp::xml::Packed;
use xmpp::{Bare, Element, Jid, Level, Specification, ns};

use super::blocking::Blocklist;
use super::effect::{Change, Effect};
use super::feature::Feature;
use super::phones::{Phones, RESOURCE};
use super::pubsub::PubSubEvent;
use super::roster::SubscriptionRequest;
use super::session::Session;
use super::store_requests::StoreRequests;
use super::vcard::Avatars;
use super::{Host, Outbox, ownership, phones};
use crate::account_memory::AccountMemory;
use crate::{blocking, commands, connection, limits, roster, user, webhooks};
use subscription::SubscriptionAction;

pub(super) const FEATURE: Feature = Feature {
    specifications: &[Specification {
        name: "RFC 6121",
        title: "XMPP: Instant Messaging and Presence",
        version: "2011",
        level: Level::Complete,
        file: "crates/chat/src/presence/mod.rs",
        note: "rosters in roster.rs, messages in route.rs, subaddresses in subaddress.rs",
    }],
    account: &[],
    server: &[],
    handles: &[],
};

/// Takes presence from a session of ours: its own presence, directed presence, or a subscription stanza.
pub(super) fn handle_outbound(
    host: &mut Host,
    now: Instant,
    key: Key,
    to: Option<Jid>,
    presence: Element,
    out: &mut Outbox,
) {
    // Presence is kept with the session and copied for each contact, so its size has a limit of its own.
    if presence.to_bytes(ns::CLIENT).len() > limits::PRESENCE {
        let error = StanzaError::new(Condition::PolicyViolation, "presence is too long");
        return refuse(&presence, &error, out);
    }
    let kind = presence.attr("type");
    let Some(to) = to else {
        return match kind {
            None => available_from(host, now, key, presence, out),
            Some("unavailable") => {
                // RFC 6121 §4.5.2: to all available resources, "as well as to the resource that generated" it.
                let was_available = host.accounts.sessions.get(key).is_some_and(Session::is_available);
                unavailable_from(host, now, key, presence.clone(), out);
                if was_available {
                    host.deliver(now, &[key], presence, out);
                }
            }
            Some("error") => {}
            Some(_) => refuse(&presence, &Condition::BadRequest.into(), out),
        };
    };
    if let Some(error) = blocking::blocks_outgoing(&host.accounts, key, &presence) {
        blocking::refuse_blocked(&mut host.accounts, now, key, &presence, &error, out);
        return connection::perform_deliveries(host, now, out);
    }
    if let Some(act) = SubscriptionAction::of(&presence) {
        let request = SubscriptionRequest::of_session(&host.accounts, (key, &to), act, presence, out);
        let job = request.and_then(|request| roster::queue_subscription(&mut host.accounts, request, out));
        return job.into_iter().for_each(|job| job(host, now, out));
    }
    match kind {
        None | Some("unavailable") => match direct(&mut host.accounts, key, to, &presence) {
            Ok(()) => host.route(presence, out),
            Err(error) => refuse(&presence, &error, out),
        },
        // Servers probe for their clients (RFC 6121 §4.3.1); a client that probes itself is not hindered.
        Some("probe" | "error") => host.route(presence, out),
        Some(_) => refuse(&presence, &Condition::BadRequest.into(), out),
    }
}

/// Takes presence for an account of ours or one of its sessions. The sender is not blocked (`route::arrived` has asked).
pub(super) fn handle_inbound(
    host: &mut Host,
    now: Instant,
    from: &Jid,
    to: &Jid,
    presence: Element,
    out: &mut Outbox,
) {
    let (user, contact) = (to.bare(), from.bare());
    if let Some(act) = SubscriptionAction::of(&presence) {
        let parts = (&host.accounts, &mut host.store);
        let request = SubscriptionRequest::of_contact(parts, (&user, contact), act, presence, out);
        let job = request.and_then(|request| roster::queue_subscription(&mut host.accounts, request, out));
        return job.into_iter().for_each(|job| job(host, now, out));
    }
    match presence.attr("type") {
        None | Some("unavailable") => {}
        // RFC 6121 §4.3.2: the server answers for its account; no session sees the probe.
        Some("probe") => return handle_probe((&host.accounts, &mut host.phones), now, from, to, out),
        Some("error") => undirect(&mut host.accounts, to, from, &presence),
        Some(_) => return,
    }
    // `subscribed` and the presence after it come in this order to clients too.
    if to.is_bare() && host.accounts.is_changing(&user) {
        let (from, to) = (from.clone(), to.clone());
        let turn = host.accounts.changes.queue(&user, move |host: &mut Host, now, out: &mut Outbox| {
            if !blocking::blocks_incoming(&host.accounts, &to.bare(), &from) {
                arrived(host, now, &from, &to, presence, out);
            }
        });
        // Rather out of order than never.
        return turn.unwrap_or_else(Some).into_iter().for_each(|job| job(host, now, out));
    }
    arrived(host, now, from, to, presence, out);
}

/// Presence that is no subscription stanza and no probe (RFC 6121 §8.5.2.1.2 and §8.5.3.1). Features learn of it before sessions do; to a
/// resource that is not there it has no other effect.
fn arrived(host: &mut Host, now: Instant, from: &Jid, to: &Jid, presence: Element, out: &mut Outbox) {
    let user = to.bare();
    let question = host.caps.handle_presence(now, &host.accounts, (from, &user), &presence, &mut host.rng);
    if let Some(iq) = question {
        host.route(iq, out);
    }
    let event = PubSubEvent::Presence { user: &user, from, presence: &presence };
    host.tell_pubsub(now, event, out);
    host.privileged.show_contact((&host.settings, &host.accounts), &user, from, &presence, out);
    if !to.is_bare() {
        if let Some(key) = host.accounts.session_of(to) {
            let presence =
                ownership::note_room_answer((&mut host.accounts, &host.settings), key, from, presence);
            host.deliver(now, &[key], presence, out);
        }
        return;
    }
    // An error for the account itself is of a server that could not be reached: no session waits for it.
    if presence.attr("type") == Some("error") {
        return;
    }
    let keys = host.accounts.keys_of(&user, Session::is_available);
    host.deliver(now, &keys, presence, out);
}

/// A session's presence, new or sent again because an element that is added to it has changed (RFC 6121 §4.2 and §4.4). The order of the
/// steps is that in which the client sees them.
pub(super) fn available_from(
    host: &mut Host,
    now: Instant,
    key: Key,
    mut presence: Element,
    out: &mut Outbox,
) {
    let (jid, is_initial) = match begin(&mut host.accounts, &host.avatars, key, &mut presence) {
        Ok(Some(begun)) => begun,
        Ok(None) => return,
        Err(error) => return refuse(&presence, &error, out),
    };
    let user = jid.bare();
    webhooks::report_presence(&host.settings, now, &jid, &presence, out);
    host.privileged.show_presence(&host.settings, &jid, &presence, out);
    let question = host.caps.handle_presence(now, &host.accounts, (&jid, &user), &presence, &mut host.rng);
    if let Some(iq) = question {
        host.route(iq, out);
    }
    let event = PubSubEvent::Presence { user: &user, from: &jid, presence: &presence };
    host.tell_pubsub(now, event, out);
    // The session learns of the account's other resources before its own presence comes back to it, and of requests
    // and the message of the day after it.
    if is_initial {
        tell_of_others(&mut host.accounts, &host.phones, now, (key, &user), out);
    }
    broadcast(&host.accounts, &user, &presence, out);
    let keys = host.accounts.keys_of(&user, Session::is_available);
    host.accounts.deliver_to_all(now, &keys, presence, out);
    phones::show_to_phones(&host.accounts, &user, out);
    if is_initial {
        host.phones.ask(&host.accounts, &user, out);
        probe_contacts(&host.accounts, &user, &jid, out);
        ask_again(&mut host.accounts, now, (key, &user), out);
    }
    connection::perform_deliveries(host, now, out);
    if is_initial {
        commands::send_motd((&host.commands, &mut host.accounts, &mut host.store), now, key, out);
        connection::perform_deliveries(host, now, out);
    }
}

/// A session that another host has had is available as before: its contacts have seen its presence, so they are told nothing. Only the memory
/// of this host (capabilities, phones) is filled again.
pub(super) fn restore(host: &mut Host, now: Instant, key: Key, mut presence: Element, out: &mut Outbox) {
    let Ok(Some((jid, _))) = begin(&mut host.accounts, &host.avatars, key, &mut presence) else { return };
    let user = jid.bare();
    host.privileged.note_presence(&host.settings, &jid, &presence);
    let question = host.caps.handle_presence(now, &host.accounts, (&jid, &user), &presence, &mut host.rng);
    if let Some(iq) = question {
        host.route(iq, out);
    }
    phones::show_to_phones(&host.accounts, &user, out);
    host.phones.ask(&host.accounts, &user, out);
}

/// The session is available with this presence from now on. Returns its address, and true if it was not
/// available before. The presence gets the mark of the account's avatar first (XEP-0153), so that all copies
/// have it.
fn begin(
    accounts: &mut AccountMemory,
    avatars: &Avatars,
    key: Key,
    presence: &mut Element,
) -> Result<Option<(Jid, bool)>, StanzaError> {
    // RFC 6121 §4.7.2.3: an integer between -128 and +127; 0 without the element.
    let priority = match presence.content_of("priority", ns::CLIENT) {
        None => Some(0),
        Some(text) => text.trim().parse::<i8>().ok(),
    };
    let Some(priority) = priority else {
        return Err(StanzaError::new(Condition::BadRequest, "a priority is from -128 to 127"));
    };
    let Some(session) = accounts.sessions.get_mut(key) else { return Ok(None) };
    avatars.stamp(&session.jid.bare(), presence);
    let is_initial = session.presence.replace(Packed::new(presence)).is_none();
    session.priority = priority;
    Ok(Some((session.jid.clone(), is_initial)))
}

/// Sends the last presence of the account's other sessions and of its phones to a session. Blocking does not
/// apply: they are the user's own.
fn tell_of_others(
    accounts: &mut AccountMemory,
    phones: &Phones,
    now: Instant,
    (key, user): (Key, &Bare),
    out: &mut Outbox,
) {
    for other in accounts.keys_of(user, Session::is_available) {
        let presence = accounts.sessions.get(other).filter(|_| other != key).and_then(Session::presence);
        if let Some(presence) = presence {
            accounts.deliver(now, key, presence, out);
        }
    }
    if let Some(presence) = phones.presence(user).cloned() {
        accounts.deliver(now, key, presence, out);
    }
}

/// Sends presence to all subscribers that are not blocked, one copy each. The roster has to be in memory;
/// copies share the children of the presence.
fn broadcast(accounts: &AccountMemory, user: &Bare, presence: &Element, out: &mut Outbox) {
    let Some(data) = accounts.data(user) else { return };
    let blocked = Blocklist::new(&data.blocked);
    for (contact, subscription) in accounts.contacts(user) {
        if subscription.has_from() && !blocked.has(contact.as_jid()) {
            out.push(addressed(presence, contact.as_str()));
        }
    }
}

/// Asks for the presence of each contact that shows it to the user, for a session that begins (RFC 6121 §4.3.1).
fn probe_contacts(accounts: &AccountMemory, user: &Bare, jid: &Jid, out: &mut Outbox) {
    let Some(data) = accounts.data(user) else { return };
    let blocked = Blocklist::new(&data.blocked);
    let probe = probe(jid);
    for (contact, subscription) in accounts.contacts(user) {
        if subscription.has_to() && !blocked.has(contact.as_jid()) {
            out.push(addressed(&probe, contact.as_str()));
        }
    }
}

/// RFC 6121 §3.1.3: a subscription request is repeated until it is answered, so each session that becomes
/// available gets those that wait.
fn ask_again(accounts: &mut AccountMemory, now: Instant, (key, user): (Key, &Bare), out: &mut Outbox) {
    let Some(data) = accounts.data(user) else { return };
    let blocked = Blocklist::new(&data.blocked);
    // A member of a shared group that may see the account asks for nothing any more.
    let asking = data.roster.iter().filter(|(contact, _)| {
        !blocked.has(contact.as_jid()) && !accounts.groups.subscription(user, contact).has_from()
    });
    let asking: Vec<Element> = asking.filter_map(|(_, item)| item.asked.as_deref().cloned()).collect();
    for request in asking {
        accounts.deliver(now, key, request, out);
    }
}

/// RFC 6121 §4.5.2, and §4.6.3 for addresses that saw it by directed presence only.
pub(super) fn unavailable_from(host: &mut Host, now: Instant, key: Key, presence: Element, out: &mut Outbox) {
    let Some(session) = host.accounts.sessions.get_mut(key) else { return };
    let was_available = session.presence.take().is_some();
    session.priority = 0;
    let (jid, directed) = (session.jid.clone(), session.directed.take());
    session.left_rooms.take();
    let user = jid.bare();
    // First those that are in no roster: the session may have been available to them alone.
    out.extend(directed.iter().map(|to| addressed(&presence, to.as_str())));
    if !was_available {
        return;
    }
    webhooks::report_presence(&host.settings, now, &jid, &presence, out);
    host.privileged.show_presence(&host.settings, &jid, &presence, out);
    host.caps.forget(&jid);
    phones::show_to_phones(&host.accounts, &user, out);
    let event = PubSubEvent::Presence { user: &user, from: &jid, presence: &presence };
    host.tell_pubsub(now, event, out);
    let others = host.accounts.keys_of(&user, Session::is_available);
    let (told, is_last) = (presence.clone(), others.is_empty());
    if is_last {
        // A contact that sees the account also watches its phones from now on.
        host.phones.keep(&host.accounts, &user);
    }
    user::when_loaded(host, now, &user.clone(), out, move |host, now, out| {
        broadcast(&host.accounts, &user, &told, out);
        if is_last {
            let words = told.content_of("status", ns::CLIENT).map(|text| Box::from(&*text));
            note_last_seen((&mut host.accounts, &mut host.store), now, user, words.unwrap_or_default(), out);
        }
    });
    host.deliver(now, &others, presence, out);
}

/// Notes the end of the last session with the text of its last status, for probes and XEP-0012. Anonymous
/// accounts store nothing.
fn note_last_seen(
    (accounts, store): (&mut AccountMemory, &mut StoreRequests),
    now: Instant,
    user: Bare,
    status: Box<str>,
    out: &mut Outbox,
) {
    if accounts.is_anonymous(&user) {
        return;
    }
    // Nothing is written for an account that was removed.
    let Some(data) = accounts.data_mut(&user) else { return };
    data.last_seen = Some((now, status.clone()));
    // When the write is lost, an older time stands, and no session waits for it.
    store.change(Change::LastSeen { user, at: now, status }, out, |_, _, _, _| {});
}

/// Notes presence to one address (RFC 6121 §4.6), which will learn of the end; unavailable presence takes the note back. The caller routes
/// the presence.
///
/// # Errors
/// Too many addresses have directed presence of the session.
fn direct(accounts: &mut AccountMemory, key: Key, to: Jid, presence: &Element) -> Result<(), StanzaError> {
    let Some(session) = accounts.sessions.get(key) else { return Ok(()) };
    // RFC 6121 §4.6.3: the end of a broadcast reaches contacts with a subscription; all others are noted to get it.
    let is_told_anyway =
        session.is_available() && accounts.subscription(&session.jid.bare(), &to.bare()).has_from();
    let Some(session) = accounts.sessions.get_mut(key) else { return Ok(()) };
    let known = session.directed.iter().position(|known| *known == to);
    session.left_rooms.retain(|left| *left != to);
    if presence.attr("type").is_some() {
        if let Some(at) = known {
            session.directed.change(|directed| directed.swap_remove(at));
        }
    } else if known.is_none() && !is_told_anyway && to.bare() != session.jid.bare() {
        if session.directed.len() >= limits::DIRECTED {
            let text = "directed presence to too many addresses: end some";
            return Err(StanzaError::new(Condition::ResourceConstraint, text));
        }
        session.directed.push(to);
    }
    Ok(())
}

/// Forgets an address that refused directed presence: it need not get the end of that presence. Only errors
/// that mean that there is no such address count.
fn undirect(accounts: &mut AccountMemory, to: &Jid, from: &Jid, presence: &Element) {
    // Other errors may be of an earlier presence than the one that was taken: a room whose nickname was not free has an
    // occupant a moment later, and must learn that it goes.
    const NO_ACCOUNT: [Condition; 3] =
        [Condition::Gone, Condition::JidMalformed, Condition::RemoteServerNotFound];
    let error = presence.get("error", ns::CLIENT);
    let is_no_account = |error: &Element| {
        NO_ACCOUNT.iter().any(|condition| error.get(condition.as_str(), ns::STANZA_ERRORS).is_some())
    };
    if !error.is_some_and(is_no_account) {
        return;
    }
    let session = accounts.session_of(to).and_then(|key| accounts.sessions.get_mut(key));
    if let Some(session) = session {
        session.directed.retain(|known| known != from);
        session.left_rooms.retain(|known| known != from);
    }
}

/// Answers a probe for the account (RFC 6121 §4.3.2): a subscriber gets the presence of the resource or of all, else the last one; the target of
/// directed presence gets that one again; all others get `unsubscribed`.
fn handle_probe(
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

/// Answers a probe or a subscription request for an address without an account. An outsider's probe of an
/// account gets the same answer, so that accounts cannot be found by probing.
pub(super) fn answer_without_account(from: &Jid, to: &Jid, presence: &Element, out: &mut Outbox) {
    if matches!(presence.attr("type"), Some("probe" | "subscribe")) {
        out.push(Effect::Route(Box::new(typed(&to.bare(), from, "unsubscribed"))));
    }
}

/// Asks for the presence of the contacts of one session whose hosts are dead: their sessions may have ended
/// with it. `is_lost` tells by the contact's address.
pub(super) fn probe_lost_contacts(
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
pub(super) fn send_probes(accounts: &AccountMemory, user: &Bare, to: &str, out: &mut Outbox) {
    for key in accounts.keys_of(user, Session::is_available) {
        out.extend(accounts.sessions.get(key).map(|session| addressed(&probe(&session.jid), to)));
    }
}

/// An error for presence, if presence of its kind may be answered at all: an error never is.
pub(super) fn refuse(presence: &Element, error: &StanzaError, out: &mut Outbox) {
    if stanza::may_be_refused(presence) && presence.attr("from").is_some() {
        out.push(Effect::Route(Box::new(stanza::refusal(presence, error))));
    }
}

/// Sends the last presence of each session of the account to one address.
pub(super) fn send_presences(
    accounts: &AccountMemory,
    phones: &Phones,
    user: &Bare,
    to: &str,
    out: &mut Outbox,
) {
    for key in accounts.keys_of(user, Session::is_available) {
        let presence = accounts.sessions.get(key).and_then(Session::presence);
        out.extend(presence.map(|presence| addressed(&presence, to)));
    }
    out.extend(phones.presence(user).map(|presence| addressed(presence, to)));
}

/// Sends unavailable presence of each session of the account and of its phones to one address, as if they had ended.
pub(super) fn send_unavailable(
    accounts: &AccountMemory,
    phones: &Phones,
    user: &Bare,
    to: &str,
    out: &mut Outbox,
) {
    for key in accounts.keys_of(user, Session::is_available) {
        out.extend(accounts.sessions.get(key).map(|session| addressed(&gone(&session.jid), to)));
    }
    let phone = phones.presence(user).and_then(|presence| stanza::from(presence).ok().flatten());
    out.extend(phone.map(|jid| addressed(&gone(&jid), to)));
}

/// A copy of presence for one address, on its way.
pub(super) fn addressed(presence: &Element, to: &str) -> Effect {
    Effect::Route(Box::new(presence.copy_to(to)))
}

/// Unavailable presence of a session.
pub(super) fn gone(jid: &Jid) -> Element {
    Element::new("presence", ns::CLIENT).with("type", "unavailable").with("from", jid.as_str())
}

/// A probe for a session. The server sends it, on the client's behalf (RFC 6121 §4.3.1).
fn probe(jid: &Jid) -> Element {
    Element::new("presence", ns::CLIENT).with("type", "probe").with("from", jid.as_str())
}

/// Presence of an account, without a resource, of that type.
pub(super) fn typed(from: &Bare, to: &Jid, kind: &'static str) -> Element {
    Element::new("presence", ns::CLIENT)
        .with("type", kind)
        .with("from", from.as_str())
        .with("to", to.as_str())
}
