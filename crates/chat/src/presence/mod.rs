//! Presence (RFC 6121 §4): the available sessions and their subscribers.
//!
//! `route` calls `handle_outbound` for presence of a session and `handle_inbound` for presence to an account, both with the account's data in
//! memory, and performs the effect ([`PresenceEffect`]) by `perform`. Subscription stanzas go on to `roster`, which writes the state that the table of `subscription` has. A session's own presence is
//! kept with it (`begin`), sent to its subscribers (`broadcast`) and to the account's other sessions; the first one also asks for the presence
//! of contacts. `caps`, `pubsub` and `phones` are told of all of it.

mod probe;
pub(super) mod subscription;

use stdx::Instant;
use stdx::rng::Rng;
use stdx::slab::Key;
use xmpp::stanza::{self, Condition, StanzaError};
use xmpp::xml::Packed;
use xmpp::{Bare, Element, Jid, Level, Specification, ns};

use super::blocking::Blocklist;
use super::caps::Caps;
use super::effect::{Change, Effect};
use super::feature::Feature;
use super::phones::Phones;
use super::privileged::PrivilegedComponents;
use super::pubsub::PubSubEvent;
use super::roster::SubscriptionRequest;
use super::session::Session;
use super::store_requests::StoreRequests;
use super::vcard::Avatars;
use super::{Host, HostSettings, Outbox, ownership, phones};
use crate::account_memory::AccountMemory;
use crate::{blocking, commands, connection, limits, outgoing, roster, user, webhooks};
use probe::{handle_probe, probe_contacts};
pub(super) use probe::{probe_lost_contacts, send_probes};
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

/// The effect of a presence, for the router.
pub(super) enum PresenceEffect<'a> {
    /// The presence goes on to its addressee.
    Route(Element),
    /// A stanza changes a subscription.
    Subscribe(SubscriptionRequest),
    /// The session is available with this presence: it is new, or sent again because an element that is added to it has changed
    /// (RFC 6121 §4.2 and §4.4).
    Available(Key, Element),
    /// A session that another host has had is available as before: its contacts have seen its presence, so they are told nothing. Only the
    /// memory of this host (capabilities, phones) is filled again.
    Restored(Key, Element),
    /// The session is unavailable (RFC 6121 §4.5.2), for addresses that saw it by directed presence only, too (§4.6.3).
    Unavailable {
        key: Key,
        presence: Element,
        /// The session has sent the presence, and gets it, too.
        is_returned: bool,
    },
    /// Presence that is no subscription stanza and no probe has come for an account or one of its sessions (RFC 6121 §8.5.2.1.2 and
    /// §8.5.3.1).
    Arrived { from: &'a Jid, to: &'a Jid, presence: Element },
}

/// Takes presence from a session of ours: its own presence, directed presence, or a subscription stanza. The caller performs the effects of
/// the session.
pub(super) fn handle_outbound(
    (accounts, avatars): (&mut AccountMemory, &Avatars),
    now: Instant,
    key: Key,
    to: Option<Jid>,
    mut presence: Element,
    out: &mut Outbox,
) -> Option<PresenceEffect<'static>> {
    let refused = |presence: &Element, error: &StanzaError, out: &mut Outbox| {
        refuse(presence, error, out);
        None
    };
    // Presence is kept with the session and copied for each contact, so its size has a limit of its own.
    if presence.to_bytes(ns::CLIENT).len() > limits::PRESENCE {
        let error = StanzaError::new(Condition::PolicyViolation, "presence is too long");
        return refused(&presence, &error, out);
    }
    let kind = presence.attr("type");
    let Some(to) = to else {
        return match kind {
            None => Some(PresenceEffect::Available(key, presence)),
            Some("unavailable") => Some(PresenceEffect::Unavailable { key, presence, is_returned: true }),
            Some("error") => None,
            Some(_) => refused(&presence, &Condition::BadRequest.into(), out),
        };
    };
    if let Some(error) = blocking::blocks_outgoing(accounts, key, &presence) {
        blocking::refuse_blocked(accounts, now, key, &presence, &error, out);
        return None;
    }
    if let Some(act) = SubscriptionAction::of(&presence) {
        let request = SubscriptionRequest::of_session(accounts, (key, &to), act, presence, out);
        return request.map(PresenceEffect::Subscribe);
    }
    match kind {
        None | Some("unavailable") => match direct(accounts, key, to, &presence) {
            Ok(()) => {
                // XEP-0398, "Presence Broadcast": the hash "MUST also be injected into directed presences such as MUC joins".
                if presence.attr("type").is_none()
                    && let Some(session) = accounts.sessions.get(key)
                {
                    avatars.stamp(&session.jid.bare(), &mut presence);
                }
                Some(PresenceEffect::Route(presence))
            }
            Err(error) => refused(&presence, &error, out),
        },
        // Servers probe for their clients (RFC 6121 §4.3.1); a client that probes itself is not hindered.
        Some("probe" | "error") => Some(PresenceEffect::Route(presence)),
        Some(_) => refused(&presence, &Condition::BadRequest.into(), out),
    }
}

/// Takes presence for an account of ours or one of its sessions. The sender is not blocked (`route::to_account` has asked).
pub(super) fn handle_inbound<'a>(
    (accounts, store, phones): (&mut AccountMemory, &mut StoreRequests, &mut Phones),
    now: Instant,
    (from, to): (&'a Jid, &'a Jid),
    presence: Element,
    out: &mut Outbox,
) -> Option<PresenceEffect<'a>> {
    let (user, contact) = (to.bare(), from.bare());
    if let Some(act) = SubscriptionAction::of(&presence) {
        let parts = (&*accounts, store);
        let request = SubscriptionRequest::of_contact(parts, (&user, contact), act, presence, out);
        return request.map(PresenceEffect::Subscribe);
    }
    match presence.attr("type") {
        None | Some("unavailable") => {}
        // RFC 6121 §4.3.2: the server answers for its account; no session sees the probe.
        Some("probe") => {
            handle_probe((accounts, phones), now, from, to, out);
            return None;
        }
        Some("error") => undirect(accounts, to, from, &presence),
        Some(_) => return None,
    }
    // `subscribed` and the presence after it come in this order to clients too. Presence that finds no place is delivered out of order rather
    // than never.
    if to.is_bare() && accounts.changes.has_place(&user) {
        let (from, to) = (from.clone(), to.clone());
        let wait = move |host: &mut Host, now, out: &mut Outbox| {
            if !blocking::blocks_incoming(&host.accounts, &to.bare(), &from) {
                perform(host, now, PresenceEffect::Arrived { from: &from, to: &to, presence }, out);
            }
        };
        // It waits: there is a change to wait for, and a place.
        accounts.changes.queue(&user, wait).ok();
        return None;
    }
    Some(PresenceEffect::Arrived { from, to, presence })
}

/// Performs the effect of a presence: features learn of it first, then sessions do. The order of the steps is that in which clients see
/// them.
pub(super) fn perform(host: &mut Host, now: Instant, effect: PresenceEffect<'_>, out: &mut Outbox) {
    let Host { settings, accounts, avatars, privileged, caps, phones, rng, .. } = &mut *host;
    let mut context = PresenceContext { now, settings, accounts, avatars, privileged, caps, rng };
    match effect {
        PresenceEffect::Route(presence) => host.route(presence, out),
        PresenceEffect::Subscribe(request) => {
            let job = roster::queue_subscription(&mut host.accounts, request, out);
            job.into_iter().for_each(|job| job(host, now, out));
        }
        PresenceEffect::Available(key, mut presence) => {
            let Some(begun) = context.begin_available(key, &mut presence, out) else { return };
            let AvailableSession { jid, user, is_initial, .. } = &begun;
            host.tell_pubsub(now, PubSubEvent::Presence { user, from: jid, presence: &presence }, out);
            show_available((&mut host.accounts, &mut host.phones), now, &begun, presence, out);
            connection::perform_deliveries(host, now, out);
            if *is_initial {
                commands::send_motd((&host.commands, &mut host.accounts, &mut host.store), now, key, out);
                connection::perform_deliveries(host, now, out);
            }
        }
        PresenceEffect::Restored(key, presence) => context.restore(phones, key, presence, out),
        PresenceEffect::Unavailable { key, presence, is_returned } => {
            let Some((jid, user)) = context.end_available(key, &presence, out) else { return };
            let event = PubSubEvent::Presence { user: &user, from: &jid, presence: &presence };
            host.tell_pubsub(now, event, out);
            let others = host.accounts.keys_of(&user, Session::is_available);
            let parts = (&mut host.accounts, &mut host.store, &mut host.phones);
            if let Some(job) = tell_of_end(parts, user, (presence.clone(), others.is_empty()), out) {
                job(host, now, out);
            }
            let own = is_returned.then(|| presence.clone());
            host.deliver(now, &others, presence, out);
            own.into_iter().for_each(|presence| host.deliver(now, &[key], presence, out));
        }
        PresenceEffect::Arrived { from, to, presence } => {
            let user = to.bare();
            context.ask_features((from, &user), &presence, out);
            host.tell_pubsub(now, PubSubEvent::Presence { user: &user, from, presence: &presence }, out);
            host.privileged.show_contact((&host.settings, &host.accounts), &user, from, &presence, out);
            let parts = (&mut host.accounts, &*host.settings);
            deliver_arrived(parts, now, (from, to, &user), presence, out);
            connection::perform_deliveries(host, now, out);
        }
    }
}

/// A session that is available from now on.
struct AvailableSession {
    key: Key,
    jid: Jid,
    user: Bare,
    /// It was not available before.
    is_initial: bool,
}

/// The accounts, and the features that learn of presence before sessions do.
struct PresenceContext<'a> {
    now: Instant,
    settings: &'a HostSettings,
    accounts: &'a mut AccountMemory,
    avatars: &'a Avatars,
    privileged: &'a mut PrivilegedComponents,
    caps: &'a mut Caps,
    rng: &'a mut Rng,
}

impl PresenceContext<'_> {
    /// A session is available with this presence.
    fn begin_available(
        &mut self,
        key: Key,
        presence: &mut Element,
        out: &mut Outbox,
    ) -> Option<AvailableSession> {
        let (jid, is_initial) = match begin(self.accounts, self.avatars, self.now, key, presence) {
            Ok(begun) => begun?,
            Err(error) => {
                refuse(presence, &error, out);
                return None;
            }
        };
        webhooks::report_presence(self.settings, self.now, &jid, presence, out);
        self.privileged.show_presence(self.settings, &jid, presence, out);
        let user = jid.bare();
        self.ask_features((&jid, &user), presence, out);
        Some(AvailableSession { key, jid, user, is_initial })
    }

    /// A session of another host is available as before.
    fn restore(&mut self, phones: &mut Phones, key: Key, mut presence: Element, out: &mut Outbox) {
        let begun = begin(self.accounts, self.avatars, self.now, key, &mut presence);
        let Ok(Some((jid, _))) = begun else { return };
        let user = jid.bare();
        // Without an avatar the empty photo may be this server's: then an avatar that is set later is shown.
        if let Some(session) = self.accounts.sessions.get_mut(key) {
            session.hides_avatar &= self.avatars.has_avatar(&user);
        }
        self.privileged.note_presence(self.settings, &jid, &presence);
        self.ask_features((&jid, &user), &presence, out);
        phones::show_to_phones(self.accounts, &user, out);
        phones.ask(self.accounts, &user, out);
    }

    /// A session is not available any more. Addresses that saw it by directed presence learn of the end. Returns the address and the account
    /// of the session, if it was available.
    fn end_available(&mut self, key: Key, presence: &Element, out: &mut Outbox) -> Option<(Jid, Bare)> {
        let session = self.accounts.sessions.get_mut(key)?;
        let was_available = session.presence.take().is_some();
        session.priority = 0;
        let (jid, directed) = (session.jid.clone(), session.directed.take());
        session.left_rooms.take();
        // First those that are in no roster: the session may have been available to them alone.
        out.extend(directed.iter().map(|to| addressed(presence, to.as_str())));
        if !was_available {
            return None;
        }
        webhooks::report_presence(self.settings, self.now, &jid, presence, out);
        self.privileged.show_presence(self.settings, &jid, presence, out);
        self.caps.forget(&jid);
        let user = jid.bare();
        phones::show_to_phones(self.accounts, &user, out);
        Some((jid, user))
    }

    /// Asks the client that has sent presence to the account for its features, if they are not known (XEP-0115).
    fn ask_features(&mut self, (from, user): (&Jid, &Bare), presence: &Element, out: &mut Outbox) {
        let question = self.caps.handle_presence(self.now, self.accounts, (from, user), presence, self.rng);
        question.into_iter().for_each(|iq| outgoing::send(iq, out));
    }
}

/// Shows a session's presence to contacts, to the account's sessions and to its phones. A session that begins learns of the account's other
/// resources before its own presence comes back to it, and of requests after it. The caller performs the effects of the sessions.
fn show_available(
    (accounts, phones): (&mut AccountMemory, &mut Phones),
    now: Instant,
    AvailableSession { key, jid, user, is_initial }: &AvailableSession,
    presence: Element,
    out: &mut Outbox,
) {
    if *is_initial {
        tell_of_others(accounts, phones, now, (*key, user), out);
    }
    broadcast(accounts, user, &presence, out);
    let keys = accounts.keys_of(user, Session::is_available);
    accounts.deliver_to_all(now, &keys, presence, out);
    phones::show_to_phones(accounts, user, out);
    if *is_initial {
        phones.ask(accounts, user, out);
        probe_contacts(accounts, user, jid, out);
        ask_again(accounts, now, (*key, user), out);
    }
}

/// The job that tells the account's contacts of the end of a session, by this presence; it is returned if it is to be done now, else it
/// waits for the roster. `is_last`: the account has no other session that is available.
fn tell_of_end(
    (accounts, store, phones): (&mut AccountMemory, &mut StoreRequests, &mut Phones),
    user: Bare,
    (presence, is_last): (Element, bool),
    out: &mut Outbox,
) -> Option<impl FnOnce(&mut Host, Instant, &mut Outbox) + 'static + use<>> {
    if is_last {
        // A contact that sees the account also watches its phones from now on.
        phones.keep(accounts, &user);
    }
    user::when_loaded((accounts, store), &user.clone(), out, move |host, now, out| {
        broadcast(&host.accounts, &user, &presence, out);
        if is_last {
            let words = presence.content_of("status", ns::CLIENT).map(|text| Box::from(&*text));
            note_last_seen((&mut host.accounts, &mut host.store), now, user, words.unwrap_or_default(), out);
        }
    })
}

/// Delivers presence that has come for the account or one of its sessions; to a resource that is not there it has no effect. The caller
/// performs the effects of the sessions.
fn deliver_arrived(
    (accounts, settings): (&mut AccountMemory, &HostSettings),
    now: Instant,
    (from, to, user): (&Jid, &Jid, &Bare),
    presence: Element,
    out: &mut Outbox,
) {
    if !to.is_bare() {
        if let Some(key) = accounts.session_of(to) {
            let presence = ownership::note_room_answer((&mut *accounts, settings), key, from, presence);
            accounts.deliver(now, key, presence, out);
        }
        return;
    }
    // An error for the account itself is of a server that could not be reached: no session waits for it.
    if presence.attr("type") != Some("error") {
        let keys = accounts.keys_of(user, Session::is_available);
        accounts.deliver_to_all(now, &keys, presence, out);
    }
}

/// The session is available with this presence from `now` on. Returns its address, and true if it was not
/// available before. The presence gets the mark of the account's avatar first (XEP-0153), so that all copies
/// have it.
fn begin(
    accounts: &mut AccountMemory,
    avatars: &Avatars,
    now: Instant,
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
    session.hides_avatar = avatars.stamp(&session.jid.bare(), presence);
    let was_able = session.is_able();
    let is_initial = session.presence.replace(Packed::new(presence)).is_none();
    session.priority = priority;
    if !was_able {
        session.able_since = now;
    }
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

/// Answers a probe for an address without an account; other presence for it is ignored (RFC 6121 §8.5.1). An outsider's
/// probe of an account gets the same answer, and its subscription request none at once: neither finds accounts.
pub(super) fn answer_without_account(from: &Jid, to: &Jid, presence: &Element, out: &mut Outbox) {
    if presence.attr("type") == Some("probe") {
        decline(from, to, out);
    }
}

/// Refuses a subscription request of `from`, or says that it has no subscription.
pub(super) fn decline(from: &Jid, to: &Jid, out: &mut Outbox) {
    out.push(Effect::Route(Box::new(typed(&to.bare(), from, "unsubscribed"))));
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

/// Presence of an account, without a resource, of that type.
pub(super) fn typed(from: &Bare, to: &Jid, kind: &'static str) -> Element {
    Element::new("presence", ns::CLIENT)
        .with("type", kind)
        .with("from", from.as_str())
        .with("to", to.as_str())
}
