//! Where stanzas go: from a client (RFC 6120 §10, RFC 6121 §8) and to our addresses.

use stdx::Instant;
use stdx::slab::Key;
use xmpp::stanza::{self, Condition, StanzaError, StanzaKind};
use xmpp::{Bare, Element, Jid, ns};

use super::ack;
use super::feature::{IqReply, IqRequest, IqTarget, find};
use super::user::{AccountState, QueuedWork};
use super::{Host, Outbox, push};

/// True if the request concerns the account itself or its invitations.
fn is_about_account(iq: &Element, to: &Jid, user: &Bare) -> bool {
    let is_own_domain = to.local().is_none() && to.resource().is_none() && to.domain() == user.domain();
    is_own_domain && (iq.get("query", ns::REGISTER).is_some() || super::invite::is_command(iq))
}

impl Host {
    pub(super) fn handle_element_of_session(
        &mut self,
        now: Instant,
        key: Key,
        mut element: Element,
        out: &mut Outbox,
    ) {
        let Some(session) = self.accounts.sessions.get(key) else { return };
        let (jid, bare) = (session.jid.clone(), session.jid.bare());
        // The effect on contacts depends on the roster and the blocking list.
        if let AccountState::Loading(_) = self.user(now, &bare, out).state {
            return self.wait_for_account_data(
                now,
                &bare,
                QueuedWork::FromSession(key, Box::new(element)),
                out,
            );
        }
        let Ok(to) = stanza::to(&element) else {
            element.unset("to");
            return self.refuse(&element, &Condition::JidMalformed.into(), out);
        };
        let is_own = to.as_ref().is_none_or(|to| to.is_bare() && to.bare() == bare);
        match stanza::kind_of(&element) {
            Some(StanzaKind::Iq) if is_own => self.ask(now, &element, &jid, &bare.into_jid(), Some(key), out),
            // Asked of the domain, which is another host's, about what is this one's.
            Some(StanzaKind::Iq) if to.as_ref().is_some_and(|to| is_about_account(&element, to, &bare)) => {
                let domain = Jid::new(None, bare.domain(), None).unwrap_or_else(|_| bare.into_jid());
                self.ask(now, &element, &jid, &domain, Some(key), out);
            }
            Some(StanzaKind::Iq) => self.send(now, key, element, out),
            Some(StanzaKind::Presence) => {
                let is_broadcast = to.is_none();
                self.presence_from(now, key, to, element, out);
                if is_broadcast {
                    self.offline_deliver(now, key, out);
                }
            }
            Some(StanzaKind::Message) => self.message_from(now, key, element, out),
            None => {}
        }
    }

    /// Sends a stanza out, unless the sender blocks the recipient.
    pub(super) fn send(&mut self, now: Instant, key: Key, element: Element, out: &mut Outbox) {
        if let Some(error) = self.blocks_outgoing(key, &element) {
            return self.refuse_blocked(now, key, &element, &error, out);
        }
        self.route(element, out);
    }

    fn message_from(&mut self, now: Instant, key: Key, mut element: Element, out: &mut Outbox) {
        let Some(jid) = self.accounts.sessions.get(key).map(|session| session.jid.clone()) else { return };
        if element.attr("to").is_none() {
            element.set("to", jid.bare_str());
        }
        if let Some(error) = self.blocks_outgoing(key, &element) {
            self.refused(&element, out);
            return self.refuse_blocked(now, key, &element, &error, out);
        }
        let mark = ack::take_ack_token(&mut element);
        let id = self.archive_sent(now, &jid.bare(), &element, mark.as_deref(), out);
        self.carbons_sent(now, key, &element, id, out);
        ack::put_ack_token(&mut element, mark);
        self.route(element, out);
    }

    /// From another host or server, or from a service of ours: `to` is an address of this host's.
    pub fn handle_routed(&mut self, now: Instant, element: Element, out: &mut Outbox) {
        let Ok(Some(to)) = stanza::to(&element) else { return };
        if self.handle_handled(&element, &to, out) {
            return;
        }
        // Reads for the stanza count for its sender.
        let requester =
            stanza::from(&element).ok().flatten().map(|from| self.store.reads.requester_of(&from));
        self.with_requester(requester, |host| host.routed(now, element, &to, out));
    }

    fn routed(&mut self, now: Instant, mut element: Element, to: &Jid, out: &mut Outbox) {
        let from = match stanza::from(&element) {
            Ok(Some(from)) => from,
            // From the account itself, to a session that named no recipient.
            Ok(None) => {
                if let Some(key) = self.accounts.session_of(to) {
                    self.deliver(now, key, element, out);
                }
                return;
            }
            Err(_) => return,
        };
        let settings = std::sync::Arc::clone(&self.settings);
        if settings.rooms_of(to.domain()).is_some() {
            let hold = self.pending_acks.begin(&mut element);
            self.routed_to_room(now, element, &from, to, out);
            return self.end_ack(hold, out);
        }
        if settings.pubsub_of(to.domain()).is_some() {
            let hold = self.pending_acks.begin(&mut element);
            self.routed_to_pubsub(now, &element, &from, to, out);
            return self.end_ack(hold, out);
        }
        if settings.guest_domain_of(to.domain()).is_some() {
            let hold = self.pending_acks.begin(&mut element);
            self.routed_to_guest(&element, &from, to, out);
            return self.end_ack(hold, out);
        }
        if !settings.is_local(to.domain()) {
            return self.refuse(&element, &Condition::RemoteServerNotFound.into(), out);
        }
        if to.local().is_none() {
            return match stanza::kind_of(&element) {
                Some(StanzaKind::Iq) => self.ask(now, &element, &from, to, None, out),
                _ => {
                    let hold = self.pending_acks.begin(&mut element);
                    self.routed_to_server(&element, out);
                    self.end_ack(hold, out);
                }
            };
        }
        let bare = to.bare();
        match &self.user(now, &bare, out).state {
            AccountState::Loading(_) => {
                self.wait_for_account_data(now, &bare, QueuedWork::Routed(Box::new(element)), out);
            }
            AccountState::Ready(_) | AccountState::Evicted | AccountState::Absent => {
                self.routed_to_account(now, element, out);
            }
        }
    }

    /// Messages and presence for a domain of ours.
    fn routed_to_server(&mut self, element: &Element, out: &mut Outbox) {
        if stanza::kind_of(element) == Some(StanzaKind::Message) {
            self.refuse(element, &Condition::ServiceUnavailable.into(), out);
        }
    }

    pub(super) fn routed_to_account(&mut self, now: Instant, element: Element, out: &mut Outbox) {
        let bare = stanza::to(&element).ok().flatten().map(|to| to.bare());
        let Some(mut element) = self.redirect_detail(element, out) else {
            bare.into_iter().for_each(|bare| self.forget_user(now, &bare));
            return;
        };
        let hold = self.pending_acks.begin(&mut element);
        self.arrived(now, element, out);
        self.end_ack(hold, out);
    }

    fn arrived(&mut self, now: Instant, element: Element, out: &mut Outbox) {
        let (Ok(Some(to)), Ok(Some(from))) = (stanza::to(&element), stanza::from(&element)) else { return };
        let bare = to.bare();
        if self.accounts.users.get(&bare).is_none_or(|user| matches!(user.state, AccountState::Absent)) {
            match stanza::kind_of(&element) {
                Some(StanzaKind::Presence) => self.presence_to_nobody(&from, &to, &element, out),
                Some(StanzaKind::Iq) if to.is_bare() => self.answer_for_nobody(&element, out),
                _ => self.refuse_without_account(&element, out),
            }
            return self.forget_user(now, &bare);
        }
        if self.blocks_incoming(&bare, &from) {
            self.refuse_without_account(&element, out);
            return self.forget_user(now, &bare);
        }
        match stanza::kind_of(&element) {
            Some(StanzaKind::Presence) => self.presence_to(now, &from, &to, element, out),
            Some(StanzaKind::Message) => self.message_to(now, &from, &to, element, out),
            Some(StanzaKind::Iq) if to.is_bare() => self.ask(now, &element, &from, &to, None, out),
            Some(StanzaKind::Iq) if self.hides_last(&to, &from, &element) => {
                self.refuse(&element, &Condition::Forbidden.into(), out);
            }
            Some(StanzaKind::Iq) => match self.accounts.session_of(&to) {
                Some(key) => self.deliver(now, key, element, out),
                None if self.phone_asked(&from, &to, &element, out) => {}
                None => self.refuse(&element, &Condition::ServiceUnavailable.into(), out),
            },
            None => {}
        }
        self.forget_user(now, &bare);
    }

    /// RFC 6121 §8.5.2 and 8.5.3: to the session that is meant, or those that fit best, or kept.
    fn message_to(&mut self, now: Instant, from: &Jid, to: &Jid, mut element: Element, out: &mut Outbox) {
        let bare = to.bare();
        if self.pubsub_message(now, from, to, &element, out) {
            return;
        }
        let kind = element.attr("type").unwrap_or("normal").to_owned();
        let key = self.accounts.session_of(to).filter(|_| !to.is_bare());
        // RFC 6121 §8.5.3.2.1: a message of another type than chat that matches no resource is ignored or
        // answered by an error. Headlines are ignored, others come back, so that their senders know; neither
        // is in the archive.
        if !to.is_bare() && key.is_none() && kind != "chat" && !self.is_for_phone(to, &element) {
            return match kind.as_str() {
                "headline" | "error" => {}
                _ => self.refuse(&element, &Condition::ServiceUnavailable.into(), out),
            };
        }
        self.archive_received(now, &bare, &mut element, out);
        if !to.is_bare() {
            if let Some(key) = key {
                self.carbons_received(now, &bare, &[key], &element, out);
                return self.deliver_message(now, &bare, &[key], element, out);
            }
            if self.is_for_phone(to, &element) {
                return self.send_text_to_phones(now, &bare, element, out);
            }
        }
        if kind == "groupchat" {
            return self.refuse(&element, &Condition::ServiceUnavailable.into(), out);
        }
        self.message_to_account(now, &bare, element, out);
    }

    /// RFC 6121 §8.5.2.
    pub(super) fn message_to_account(
        &mut self,
        now: Instant,
        bare: &Bare,
        element: Element,
        out: &mut Outbox,
    ) {
        let kind = element.attr("type").unwrap_or("normal");
        let able = self.accounts.able(bare);
        if able.is_empty() {
            return match kind {
                "error" | "headline" => {}
                _ => self.keep_message(now, bare, element, out),
            };
        }
        if kind == "error" {
            return;
        }
        // All that are able: with carbons in use, a choice of one would be wrong (RFC 6121 §8.5.2.1.1 allows
        // it).
        self.carbons_received(now, bare, &able, &element, out);
        self.copy_to_phone(now, bare, &element, out);
        self.deliver_message(now, bare, &able, element, out);
    }

    pub(super) fn deliver_message(
        &mut self,
        now: Instant,
        user: &Bare,
        keys: &[Key],
        mut message: Element,
        out: &mut Outbox,
    ) {
        // It has done what it was for (XEP-0280 §10).
        message.remove_children(|child| child.is("private", ns::CARBONS));
        let is_pushed = push::is_pushed(user, &message);
        self.deliver_to_all(now, keys, message, out);
        if is_pushed {
            self.push_message(now, user, false, out);
        }
    }

    /// A question for an account or a domain of ours.
    fn ask(
        &mut self,
        now: Instant,
        iq: &Element,
        from: &Jid,
        to: &Jid,
        session: Option<Key>,
        out: &mut Outbox,
    ) {
        let is_set = match iq.attr("type") {
            Some("get") => false,
            Some("set") => true,
            Some("result" | "error") => return self.answered(now, iq, from, to, out),
            _ => return self.refuse(iq, &Condition::BadRequest.into(), out),
        };
        // RFC 6120 §8.2.3: an iq has an id, and a question one child.
        let (Some(payload), 1, Some(_)) = (iq.first(), iq.elements().count(), iq.attr("id")) else {
            return self.refuse(iq, &Condition::BadRequest.into(), out);
        };
        let is_own = to.local().is_some() && from.bare() == to.bare();
        let places: &[IqTarget] = match (to.local(), is_own) {
            (None, _) => &[IqTarget::Server],
            (Some(_), true) => &[IqTarget::Own, IqTarget::Account],
            (Some(_), false) => &[IqTarget::Account],
        };
        let Some(run) = places.iter().find_map(|at| find(*at, payload)) else {
            return self.refuse(iq, &Condition::ServiceUnavailable.into(), out);
        };
        let session = session.or_else(|| self.accounts.session_of(from).filter(|_| is_own));
        let question = IqRequest { iq, payload, from, to, session, is_set };
        match run(self, now, &question, out) {
            IqReply::Result(payload) => self.answer(iq, Ok(payload), out),
            IqReply::Error(error) => self.refuse(iq, &error, out),
            IqReply::Later => {}
        }
    }

    /// The answer to a question that was promised one.
    pub(super) fn answer(
        &mut self,
        iq: &Element,
        result: Result<Option<Element>, StanzaError>,
        out: &mut Outbox,
    ) {
        match result {
            Ok(payload) => {
                let answer = stanza::result(iq, payload);
                self.route(answer, out);
            }
            Err(error) => self.refuse(iq, &error, out),
        }
    }

    /// Answers to questions that we asked ourselves.
    fn answered(&mut self, now: Instant, iq: &Element, from: &Jid, _to: &Jid, out: &mut Outbox) {
        self.push_answered(now, from, iq, out);
        self.caps_answered(now, from, iq, out);
    }

    pub(super) fn refuse(&mut self, stanza: &Element, error: &StanzaError, out: &mut Outbox) {
        self.refused(stanza, out);
        let is_presence = stanza.name() == "presence";
        if stanza::may_be_refused(stanza) && !is_presence && stanza.attr("from").is_some() {
            self.route(stanza::refusal(stanza, error), out);
        }
    }
}
