//! Presence (RFC 6121 §4): the available sessions and their subscribers.

mod approval;
pub(super) mod subscription;

use stdx::Instant;
use stdx::slab::Key;
use xmpp::stanza::{self, Condition, StanzaError};
use xmpp::xml::Packed;
use xmpp::{Bare, Element, Jid, Level, Specification, ns};

use super::blocking::Blocklist;
use super::effect::{Change, Effect};
use super::feature::Feature;
use super::session::Session;
use super::{Host, Outbox, phones};
use crate::limits;
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

impl Host {
    /// From a session of ours: its own presence, directed presence, or a subscription stanza.
    pub(super) fn presence_from(
        &mut self,
        now: Instant,
        key: Key,
        to: Option<Jid>,
        presence: Element,
        out: &mut Outbox,
    ) {
        if presence.to_bytes(ns::CLIENT).len() > limits::PRESENCE {
            let error = StanzaError::new(Condition::PolicyViolation, "presence is too long");
            return self.refuse_presence(&presence, &error, out);
        }
        let kind = presence.attr("type");
        let Some(to) = to else {
            return match kind {
                None => self.available_from(now, key, presence, out),
                Some("unavailable") => {
                    // §4.5.2: to all available resources, "as well as to the resource that generated" it.
                    let was_available = self.accounts.sessions.get(key).is_some_and(Session::is_available);
                    self.unavailable_from(now, key, presence.clone(), out);
                    if was_available {
                        self.deliver(now, key, presence, out);
                    }
                }
                Some("error") => {}
                Some(_) => self.refuse_presence(&presence, &Condition::BadRequest.into(), out),
            };
        };
        if let Some(error) = self.blocks_outgoing(key, &presence) {
            return self.refuse_blocked(now, key, &presence, &error, out);
        }
        if let Some(act) = SubscriptionAction::of(&presence) {
            return self.subscription_from(now, key, &to, act, presence, out);
        }
        match kind {
            None | Some("unavailable") => self.directed_from(key, to, presence, out),
            Some("probe" | "error") => self.route(presence, out),
            Some(_) => self.refuse_presence(&presence, &Condition::BadRequest.into(), out),
        }
    }

    /// For an account of ours or one of its sessions.
    pub(super) fn presence_to(
        &mut self,
        now: Instant,
        from: &Jid,
        to: &Jid,
        presence: Element,
        out: &mut Outbox,
    ) {
        let (user, contact) = (to.bare(), from.bare());
        if let Some(act) = SubscriptionAction::of(&presence) {
            return self.subscription_to(now, &user, contact, act, presence, out);
        }
        match presence.attr("type") {
            None | Some("unavailable") => {}
            Some("probe") => return self.probed(now, from, to, out),
            Some("error") => self.undirect(to, from, &presence),
            Some(_) => return,
        }
        // `subscribed` and the presence after it come in this order to clients too.
        if to.is_bare() && self.accounts.is_changing(&user) {
            let (from, to) = (from.clone(), to.clone());
            let has_turn = self.queue_change(now, &user, out, move |host, now, out| {
                if !host.blocks_incoming(&to.bare(), &from) {
                    host.presence_arrived(now, &from, &to, presence, out);
                }
            });
            // Rather out of order than never.
            return has_turn.unwrap_or_else(|job| job(self, now, out));
        }
        self.presence_arrived(now, from, to, presence, out);
    }

    /// RFC 6121 §8.5.2.1.2 and §8.5.3.1.
    fn presence_arrived(&mut self, now: Instant, from: &Jid, to: &Jid, presence: Element, out: &mut Outbox) {
        self.caps_heard(now, from, &to.bare(), &presence, out);
        self.pubsub_presence(now, &to.bare(), from, &presence, out);
        if !to.is_bare() {
            if let Some(key) = self.accounts.session_of(to) {
                self.deliver(now, key, presence, out);
            }
            return;
        }
        // An error for the account itself is of a server that could not be reached: no session waits for it.
        if presence.attr("type") == Some("error") {
            return;
        }
        self.deliver_to_all(now, &self.accounts.keys_of(&to.bare(), Session::is_available), presence, out);
    }

    /// One copy for each but the last.
    pub(super) fn deliver_to_all(&mut self, now: Instant, keys: &[Key], stanza: Element, out: &mut Outbox) {
        let Some((last, others)) = keys.split_last() else { return };
        for key in others {
            self.deliver(now, *key, stanza.clone(), out);
        }
        self.deliver(now, *last, stanza, out);
    }

    /// RFC 6121 §4.2 and §4.4.
    fn available_from(&mut self, now: Instant, key: Key, mut presence: Element, out: &mut Outbox) {
        let priority = match presence.content_of("priority", ns::CLIENT) {
            None => Some(0),
            Some(text) => text.trim().parse::<i8>().ok(),
        };
        let Some(priority) = priority else {
            let error = StanzaError::new(Condition::BadRequest, "a priority is from -128 to 127");
            return self.refuse_presence(&presence, &error, out);
        };
        if let Some(session) = self.accounts.sessions.get(key) {
            self.avatars.stamp(&session.jid.bare(), &mut presence);
        }
        let Some(session) = self.accounts.sessions.get_mut(key) else { return };
        let is_initial = session.presence.replace(Packed::new(&presence)).is_none();
        session.priority = priority;
        let jid = session.jid.clone();
        let user = jid.bare();
        self.caps_heard(now, &jid, &user, &presence, out);
        self.pubsub_presence(now, &user, &jid, &presence, out);
        if is_initial {
            self.tell_of_others(now, key, &user, out);
        }
        self.broadcast(&user, &presence, out);
        self.deliver_to_all(now, &self.accounts.keys_of(&user, Session::is_available), presence, out);
        self.show_to_phones(&user, out);
        if is_initial {
            self.ask_phone(&user, out);
            self.probe_contacts(&user, &jid, out);
            self.ask_again(now, key, &user, out);
            self.send_motd(now, key, out);
        }
    }

    /// Sends the session's last presence again: an element that is added to it has changed.
    pub(super) fn say_again(&mut self, now: Instant, key: Key, out: &mut Outbox) {
        if let Some(presence) = self.accounts.sessions.get(key).and_then(Session::presence) {
            self.available_from(now, key, presence, out);
        }
    }

    /// Sends the last presence of the account's other sessions.
    fn tell_of_others(&mut self, now: Instant, key: Key, user: &Bare, out: &mut Outbox) {
        for other in self.accounts.keys_of(user, Session::is_available) {
            let presence =
                self.accounts.sessions.get(other).filter(|_| other != key).and_then(Session::presence);
            if let Some(presence) = presence {
                self.deliver(now, key, presence, out);
            }
        }
        if let Some(presence) = self.phone_presence(user).cloned() {
            self.deliver(now, key, presence, out);
        }
    }

    /// To all subscribers: one copy each.
    fn broadcast(&self, user: &Bare, presence: &Element, out: &mut Outbox) {
        let Some(data) = self.accounts.data(user) else { return };
        let blocked = Blocklist::new(&data.blocked);
        for (contact, item) in &data.roster {
            if item.subscription.has_from() && !blocked.has(contact.as_jid()) {
                out.push(addressed(presence, contact.as_str()));
            }
        }
    }

    /// RFC 6121 §4.3.1.
    fn probe_contacts(&self, user: &Bare, jid: &Jid, out: &mut Outbox) {
        let Some(data) = self.accounts.data(user) else { return };
        let blocked = Blocklist::new(&data.blocked);
        let probe = probe(jid);
        for (contact, item) in &data.roster {
            if item.subscription.has_to() && !blocked.has(contact.as_jid()) {
                out.push(addressed(&probe, contact.as_str()));
            }
        }
    }

    /// RFC 6121 §3.1.3: a subscription request is repeated until it is answered.
    fn ask_again(&mut self, now: Instant, key: Key, user: &Bare, out: &mut Outbox) {
        let Some(data) = self.accounts.data(user) else { return };
        let blocked = Blocklist::new(&data.blocked);
        let asking = data.roster.iter().filter(|(contact, _)| !blocked.has(contact.as_jid()));
        let asking: Vec<Element> = asking.filter_map(|(_, item)| item.asked.as_deref().cloned()).collect();
        for request in asking {
            self.deliver(now, key, request, out);
        }
    }

    /// RFC 6121 §4.5.2, and §4.6.3 for addresses that saw it by directed presence only.
    fn unavailable_from(&mut self, now: Instant, key: Key, presence: Element, out: &mut Outbox) {
        let Some(session) = self.accounts.sessions.get_mut(key) else { return };
        let was_available = session.presence.take().is_some();
        session.priority = 0;
        let (jid, directed) = (session.jid.clone(), std::mem::take(&mut session.directed));
        let user = jid.bare();
        out.extend(directed.iter().map(|to| addressed(&presence, to.as_str())));
        if !was_available {
            return;
        }
        self.caps_gone(&jid);
        self.show_to_phones(&user, out);
        self.pubsub_presence(now, &user, &jid, &presence, out);
        let others = self.accounts.keys_of(&user, Session::is_available);
        let (told, is_last) = (presence.clone(), others.is_empty());
        if is_last {
            // A contact that sees the account also watches its phones from now on.
            self.keep_phone(&user);
        }
        self.when_account_loaded(now, &user.clone(), out, move |host, now, out| {
            host.broadcast(&user, &told, out);
            if is_last {
                let words = told.content_of("status", ns::CLIENT).map(|text| Box::from(&*text));
                host.note_last_seen(now, user, words.unwrap_or_default(), out);
            }
        });
        self.deliver_to_all(now, &others, presence, out);
    }

    fn note_last_seen(&mut self, now: Instant, user: Bare, status: Box<str>, out: &mut Outbox) {
        if self.accounts.is_anonymous(&user) {
            return;
        }
        // Nothing is written for an account that was removed.
        let Some(data) = self.accounts.data_mut(&user) else { return };
        data.last_seen = Some((now, status.clone()));
        // When the write is lost, an older time stands, and no session waits for it.
        self.change(Change::LastSeen { user, at: now, status }, out, |_, _, _, _| {});
    }

    /// The session ends: all that saw its presence learn that.
    pub(super) fn presence_ended(&mut self, now: Instant, key: Key, out: &mut Outbox) {
        let Some(session) = self.accounts.sessions.get(key) else { return };
        let presence = gone(&session.jid);
        self.unavailable_from(now, key, presence, out);
    }

    /// RFC 6121 §4.6: to one address, which will learn of the end.
    fn directed_from(&mut self, key: Key, to: Jid, presence: Element, out: &mut Outbox) {
        let Some(session) = self.accounts.sessions.get(key) else { return };
        let is_told_anyway = session.is_available()
            && self
                .accounts
                .data(&session.jid.bare())
                .and_then(|data| data.contact(&to.bare()))
                .is_some_and(|item| item.subscription.has_from());
        let Some(session) = self.accounts.sessions.get_mut(key) else { return };
        let known = session.directed.iter().position(|known| *known == to);
        if presence.attr("type").is_some() {
            if let Some(at) = known {
                session.directed.swap_remove(at);
            }
        } else if known.is_none() && !is_told_anyway && to.bare() != session.jid.bare() {
            if session.directed.len() >= limits::DIRECTED {
                let text = "directed presence to too many addresses: end some";
                let error = StanzaError::new(Condition::ResourceConstraint, text);
                return self.refuse_presence(&presence, &error, out);
            }
            session.directed.push(to);
        }
        self.route(presence, out);
    }

    /// Forgets an address that refused directed presence: it need not get the end of that presence.
    fn undirect(&mut self, to: &Jid, from: &Jid, presence: &Element) {
        // Other errors may be of an earlier presence than the one that was taken: a room whose nickname was not free has an
        // occupant a moment later, and must learn that it goes.
        const NOBODY: [Condition; 3] =
            [Condition::Gone, Condition::JidMalformed, Condition::RemoteServerNotFound];
        let error = presence.get("error", ns::CLIENT);
        let is_nobody = |error: &Element| {
            NOBODY.iter().any(|condition| error.get(condition.as_str(), ns::STANZA_ERRORS).is_some())
        };
        if !error.is_some_and(is_nobody) {
            return;
        }
        let session = self.accounts.session_of(to).and_then(|key| self.accounts.sessions.get_mut(key));
        if let Some(session) = session {
            session.directed.retain(|known| known != from);
        }
    }

    /// RFC 6121 §4.3.2.
    fn probed(&mut self, now: Instant, from: &Jid, to: &Jid, out: &mut Outbox) {
        let (contact, user) = (from.bare(), &to.bare());
        let Some(data) = self.accounts.data(user) else { return };
        let is_subscribed = data.contact(&contact).is_some_and(|item| item.subscription.has_from());
        if is_subscribed || contact == *user {
            self.watch_phone(user, out);
            let before = out.len();
            match self.accounts.session_of(to).and_then(|key| self.accounts.sessions.get(key)) {
                Some(session) => {
                    out.extend(session.presence().map(|presence| addressed(&presence, from.as_str())));
                }
                None if to.is_bare() => self.send_presences(user, from.as_str(), out),
                None if to.resource() == Some(phones::RESOURCE) => {
                    out.extend(self.phone_presence(user).map(|presence| addressed(presence, from.as_str())));
                }
                None => {}
            }
            if out.len() == before {
                out.push(self.last_presence(now, user, from));
            }
            return;
        }
        // The target of a directed presence may probe it again.
        let mut saw = false;
        for key in self.accounts.keys_of(user, Session::is_available) {
            let Some(session) = self.accounts.sessions.get(key) else { continue };
            if session.directed.iter().any(|to| to == from || *to == *contact.as_jid()) {
                saw = true;
                out.extend(session.presence().map(|presence| addressed(&presence, from.as_str())));
            }
        }
        if !saw {
            out.push(Effect::Route(Box::new(typed(user, from, "unsubscribed"))));
        }
    }

    /// RFC 6121 §4.3.2 rule 3: the account is unavailable, since when, and with which last status.
    fn last_presence(&self, now: Instant, user: &Bare, to: &Jid) -> Effect {
        let mut presence = typed(user, to, "unavailable");
        if let Some((at, status)) = self.accounts.data(user).and_then(|data| data.last_seen.as_ref()) {
            if !status.is_empty() {
                presence.push(Element::new("status", ns::CLIENT).text(status.clone()));
            }
            let at = (*at).min(now);
            let delay = Element::new("delay", ns::DELAY)
                .with("from", user.as_str())
                .with("stamp", xmpp::time::stamp(at));
            presence.push(delay);
        }
        Effect::Route(Box::new(presence))
    }

    /// Answers a probe of an address without an account. An outsider's probe of an account gets the same answer.
    pub(super) fn presence_to_nobody(&mut self, from: &Jid, to: &Jid, presence: &Element, out: &mut Outbox) {
        if matches!(presence.attr("type"), Some("probe" | "subscribe")) {
            self.route(typed(&to.bare(), from, "unsubscribed"), out);
        }
    }

    /// Sends the last presence of each session of the account to one address.
    pub(super) fn send_presences(&self, user: &Bare, to: &str, out: &mut Outbox) {
        for key in self.accounts.keys_of(user, Session::is_available) {
            let presence = self.accounts.sessions.get(key).and_then(Session::presence);
            out.extend(presence.map(|presence| addressed(&presence, to)));
        }
        out.extend(self.phone_presence(user).map(|presence| addressed(presence, to)));
    }

    /// As if each of them had ended.
    pub(super) fn send_unavailable(&self, user: &Bare, to: &str, out: &mut Outbox) {
        for key in self.accounts.keys_of(user, Session::is_available) {
            out.extend(self.accounts.sessions.get(key).map(|session| addressed(&gone(&session.jid), to)));
        }
        let phone = self.phone_presence(user).and_then(|presence| stanza::from(presence).ok().flatten());
        out.extend(phone.map(|jid| addressed(&gone(&jid), to)));
    }

    /// Asks for a contact's presence for each session of the account.
    pub(super) fn send_probes(&self, user: &Bare, to: &str, out: &mut Outbox) {
        for key in self.accounts.keys_of(user, Session::is_available) {
            out.extend(self.accounts.sessions.get(key).map(|session| addressed(&probe(&session.jid), to)));
        }
    }

    /// An error for presence, which is answered only when it cannot be right.
    pub(super) fn refuse_presence(&mut self, presence: &Element, error: &StanzaError, out: &mut Outbox) {
        if stanza::may_be_refused(presence) && presence.attr("from").is_some() {
            self.route(stanza::refusal(presence, error), out);
        }
    }
}

pub(super) fn addressed(presence: &Element, to: &str) -> Effect {
    Effect::Route(Box::new(presence.copy_to(to)))
}

pub(super) fn gone(jid: &Jid) -> Element {
    Element::new("presence", ns::CLIENT).with("type", "unavailable").with("from", jid.as_str())
}

fn probe(jid: &Jid) -> Element {
    Element::new("presence", ns::CLIENT).with("type", "probe").with("from", jid.as_str())
}

fn typed(from: &Bare, to: &Jid, kind: &'static str) -> Element {
    Element::new("presence", ns::CLIENT)
        .with("type", kind)
        .with("from", from.as_str())
        .with("to", to.as_str())
}
