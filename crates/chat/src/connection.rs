//! The events of clients' connections: a client binds a resource, sends, reads, is lost and comes back. `route` has the ways of
//! their stanzas; a [`Session`] decides on its own what it sends, queues and counts.

use stdx::Instant;
use stdx::slab::Key;
use xmpp::c2s::{BindRequest, Bound};
use xmpp::stanza::{self, Condition, StanzaError, StanzaKind};
use xmpp::{Bare, ConnectionId, Element, Jid, ns};

use super::effect::Effect;
use super::session::{BacklogProgress, Session, SessionEffect};
use super::user::AccountState;
use super::{Host, Outbox, ack, phones, sm};

impl Host {
    /// A client has signed in and wants a resource.
    pub fn handle_bind(&mut self, now: Instant, edge: ConnectionId, request: &BindRequest, out: &mut Outbox) {
        let name = match (&request.resource, &request.tag) {
            (Some(resource), _) => resource.to_string(),
            (None, Some(tag)) => format!("{tag}~{}", &self.token()[..8]),
            (None, None) => self.token()[..16].to_owned(),
        };
        // Contacts see the account's phones by that name.
        let name = if name == phones::RESOURCE { format!("{name}~{}", &self.token()[..8]) } else { name };
        let Ok(jid) = request.user.with_resource(&name) else {
            let refused = Bound::Refused(Condition::BadRequest.into());
            return out.push(Effect::Bound { edge, bound: refused });
        };
        // The newer one wins (RFC 6120 §7.7.2.2): the older one is most often a dead connection of the same device.
        if let Some(old) = self.accounts.session_of(&jid) {
            self.close_session(now, old, "conflict", out);
        }
        let agent = request.agent.as_ref().and_then(|agent| agent.id.as_deref()).filter(|_| request.is_bind2);
        if let Some(agent) = agent {
            self.end_sessions_of_agent(now, &jid.bare(), agent, out);
        }
        if !self.make_room_for_session(now, &jid.bare(), out) {
            let error = StanzaError::new(
                Condition::ResourceConstraint,
                "too many sessions of this account: end another one first",
            );
            return out.push(Effect::Bound { edge, bound: Bound::Refused(error) });
        }
        let key = self.accounts.sessions.insert(Session::new(now, jid.clone(), edge, request.is_anonymous));
        self.accounts.by_edge.insert(edge, key);
        let user = self.user(now, &jid.bare(), out);
        user.sessions.push(key);
        if !matches!(user.state, AccountState::Loading(_)) {
            self.load_avatar(&jid.bare(), out);
        }
        let inline = request.inline.iter().filter_map(|child| self.inline(now, key, child, out)).collect();
        if request.is_bind2 {
            return self.bind2(now, key, agent, inline, out);
        }
        out.push(Effect::Bound { edge, bound: Bound::Session { jid, inline } });
    }

    /// True if one more session fits, after the oldest have gone if that is how it is configured.
    fn make_room_for_session(&mut self, now: Instant, user: &Bare, out: &mut Outbox) -> bool {
        let limit = self.settings.sessions;
        loop {
            let sessions = self.accounts.users.get(user).map(|user| &user.sessions[..]).unwrap_or_default();
            if sessions.len() < limit.most {
                return true;
            }
            let Some(oldest) = sessions.first().copied().filter(|_| limit.ends_oldest) else { return false };
            self.close_session(now, oldest, "conflict", out);
        }
    }

    /// A request that came with Bind 2.
    fn inline(&mut self, now: Instant, key: Key, child: &Element, out: &mut Outbox) -> Option<Element> {
        match child.ns() {
            ns::SM if child.name() == "enable" => return Some(self.enable_sm(key, child)),
            ns::CARBONS if child.name() == "enable" => {
                if let Some(session) = self.accounts.sessions.get_mut(key) {
                    session.has_carbons = true;
                }
            }
            ns::CSI => self.handle_client_state(now, key, child, out),
            _ => {}
        }
        None
    }

    fn enable_sm(&mut self, key: Key, request: &Element) -> Element {
        let id = self.token().into();
        match self.accounts.sessions.get_mut(key) {
            Some(session) => session.enable_sm(request, id, self.settings.resume_for),
            None => sm::failed(Condition::UnexpectedRequest),
        }
    }

    fn handle_client_state(&mut self, now: Instant, key: Key, state: &Element, out: &mut Outbox) {
        let Some(session) = self.accounts.sessions.get_mut(key) else { return };
        let effects = session.handle_client_state(now, state, out);
        self.perform_session(now, key, effects, out);
    }

    /// A stanza of a client of ours. `from` is its full address already.
    pub fn handle_stanza(
        &mut self,
        now: Instant,
        edge: ConnectionId,
        mut element: Element,
        out: &mut Outbox,
    ) {
        let Some(&key) = self.accounts.by_edge.get(&edge) else { return };
        let is_too_large = ack::take_too_large(&mut element);
        let Some(session) = self.accounts.sessions.get_mut(key) else { return };
        if !session.count(key, &mut element) {
            return self.close_session(now, key, "resource-constraint", out);
        }
        if is_too_large {
            let error = StanzaError::new(Condition::PolicyViolation, stanza::TOO_LARGE);
            return self.refuse(&element, &error, out);
        }
        self.handle_session_element(now, key, element, out);
    }

    /// An element of a client that is no stanza.
    pub fn handle_nonza(&mut self, now: Instant, edge: ConnectionId, element: &Element, out: &mut Outbox) {
        let Some(&key) = self.accounts.by_edge.get(&edge) else { return };
        match element.ns() {
            ns::SM => self.handle_sm(now, key, element, out),
            ns::CSI => self.handle_client_state(now, key, element, out),
            _ => {}
        }
    }

    /// `<enable/>`, `<r/>` and `<a/>` (XEP-0198).
    fn handle_sm(&mut self, now: Instant, key: Key, element: &Element, out: &mut Outbox) {
        if element.name() == "enable" {
            let answer = self.enable_sm(key, element);
            let edge = self.accounts.sessions.get(key).and_then(|session| session.edge);
            return out.extend(edge.map(|edge| Effect::Deliver { edge, element: answer }));
        }
        let Some(session) = self.accounts.sessions.get_mut(key) else { return };
        let edge = session.edge;
        let answer = match (element.name(), &mut session.sm) {
            ("r", Some(sm)) => sm.handle_request(),
            ("a", Some(sm)) => {
                return match sm.handle_answer(now, element) {
                    Ok(question) => {
                        let both = edge.zip(question);
                        out.extend(both.map(|(edge, element)| Effect::Deliver { edge, element }));
                        // More may have waited than could be sent at once.
                        self.send_backlog(now, key, out);
                    }
                    Err(condition) => self.close_session(now, key, condition, out),
                };
            }
            // Stanzas sent before are not counted.
            ("a", None) => return,
            // It has a session already (XEP-0198 §5).
            ("r", None) | ("resume", _) => sm::failed(Condition::UnexpectedRequest),
            _ => sm::failed(Condition::FeatureNotImplemented),
        };
        out.extend(edge.map(|edge| Effect::Deliver { edge, element: answer }));
    }

    /// A client comes back (XEP-0198 §5).
    pub fn handle_resume(
        &mut self,
        now: Instant,
        edge: ConnectionId,
        (user, id, seen): (&Jid, &str, u32),
        out: &mut Outbox,
    ) {
        let bare = user.bare();
        // Only among the account's own sessions: another account's id is as unknown as one that never was.
        let is_it = |session: &Session| session.sm.as_ref().is_some_and(|sm| sm.is_resumed_by(id));
        let key = self.accounts.keys_of(&bare, is_it).first().copied();
        let Some((key, session)) = key.and_then(|key| Some((key, self.accounts.sessions.get_mut(key)?)))
        else {
            let failed = self.remembered.refuse(&bare, id);
            return out.push(Effect::Bound { edge, bound: Bound::NotResumed { failed } });
        };
        let (old, resumed) = match session.resume(edge, (id, seen)) {
            Ok(resumed) => resumed,
            Err(failed) => return out.push(Effect::Bound { edge, bound: Bound::NotResumed { failed } }),
        };
        let jid = session.jid.clone();
        // The client knows better whether its old connection is dead.
        if let Some(old) = old {
            self.accounts.by_edge.remove(&old);
            out.push(Effect::Close { edge: old, condition: "conflict" });
        }
        out.push(Effect::Bound { edge, bound: Bound::Resumed { jid, resumed } });
        self.accounts.by_edge.insert(edge, key);
        if let Some(session) = self.accounts.sessions.get_mut(key) {
            session.restart_flow();
        }
        self.send_backlog(now, key, out);
        // A new stream is an active one (XEP-0352 §5).
        if let Some(session) = self.accounts.sessions.get_mut(key) {
            let effects = session.activate(now, out);
            self.perform_session(now, key, effects, out);
        }
    }

    /// The connection has written what it was given before the last `Flush`.
    pub fn handle_drained(&mut self, now: Instant, edge: ConnectionId, out: &mut Outbox) {
        let Some(&key) = self.accounts.by_edge.get(&edge) else { return };
        let Some(session) = self.accounts.sessions.get_mut(key) else { return };
        session.handle_drained(out);
        self.send_backlog(now, key, out);
    }

    /// Sends as much of a session's backlog as the window takes, then the next page of an archive, then offline messages.
    pub(super) fn send_backlog(&mut self, now: Instant, key: Key, out: &mut Outbox) {
        let Some(session) = self.accounts.sessions.get_mut(key) else { return };
        let Some(BacklogProgress::Sent(question)) = session.send_backlog(now, out) else { return };
        if let Some((owner, iq)) = question {
            self.archive_query(now, &owner, &iq, out);
        }
        if self.accounts.sessions.get_mut(key).is_some_and(Session::end_backlog) {
            self.offline_deliver(now, key, out);
        }
    }

    /// To one session, unconditionally.
    pub(super) fn deliver(&mut self, now: Instant, key: Key, stanza: Element, out: &mut Outbox) {
        let Some(session) = self.accounts.sessions.get_mut(key) else { return };
        let effects = session.deliver(now, stanza, out);
        self.perform_session(now, key, effects, out);
    }

    /// Performs the effects of a session. Stanzas that it has no room for are stored, answered or dropped by their kind.
    fn perform_session(&mut self, now: Instant, key: Key, effects: Vec<SessionEffect>, out: &mut Outbox) {
        for effect in effects {
            let stanza = match effect {
                SessionEffect::Close(condition) => {
                    self.close_session(now, key, condition, out);
                    continue;
                }
                SessionEffect::Overflow(stanza) => stanza,
            };
            let user = match self.accounts.sessions.get(key) {
                Some(session) => session.jid.bare(),
                None => match stanza::to(&stanza) {
                    Ok(Some(to)) => to.bare(),
                    _ => continue,
                },
            };
            match stanza::kind_of(&stanza) {
                // XEP-0045: a room that hears that removes the occupant (333).
                Some(StanzaKind::Message) if stanza.attr("type") == Some("groupchat") => {
                    self.refuse(&stanza, &Condition::RecipientUnavailable.into(), out);
                }
                // These are in an archive, or are still stored.
                Some(StanzaKind::Message)
                    if stanza
                        .elements()
                        .any(|child| matches!(child.ns(), ns::CARBONS | ns::MAM | ns::OFFLINE)) => {}
                Some(StanzaKind::Message) => self.keep_message(now, &user, stanza, out),
                Some(StanzaKind::Iq) => self.refuse(&stanza, &Condition::ResourceConstraint.into(), out),
                Some(StanzaKind::Presence) | None => {}
            }
        }
    }

    /// The connection is gone. `in_order`: the client closed its stream.
    pub fn handle_gone(&mut self, now: Instant, edge: ConnectionId, in_order: bool, out: &mut Outbox) {
        let Some(key) = self.accounts.by_edge.remove(&edge) else { return };
        let session = self.accounts.sessions.get_mut(key).filter(|_| !in_order);
        let Some(until) = session.and_then(|session| session.sleep(now)) else {
            return self.end_session(now, key, out);
        };
        let at = self.sleeping.partition_point(|(other, _)| *other <= until);
        self.sleeping.insert(at, (until, key));
        self.push_slept(now, key, out);
    }

    /// Not requested by its client: another session has its address now, or an administrator ends it.
    pub(super) fn close_session(
        &mut self,
        now: Instant,
        key: Key,
        condition: &'static str,
        out: &mut Outbox,
    ) {
        if let Some(edge) = self.accounts.sessions.get(key).and_then(|session| session.edge) {
            self.accounts.by_edge.remove(&edge);
            out.push(Effect::Close { edge, condition });
        }
        self.end_session(now, key, out);
    }

    /// The session is over: all that saw it available learn that.
    pub(super) fn end_session(&mut self, now: Instant, key: Key, out: &mut Outbox) {
        self.presence_ended(now, key, out);
        let Some(mut session) = self.accounts.sessions.remove(key) else { return };
        if let Some(edge) = session.edge {
            self.accounts.by_edge.remove(&edge);
        }
        let bare = session.jid.bare();
        if let Some(user) = self.accounts.users.get_mut(&bare) {
            user.sessions.retain(|other| *other != key);
        }
        let unacknowledged = self.remembered.handle_end(&mut session);
        if !unacknowledged.is_empty() {
            // Stanzas that were never acknowledged go to the other sessions, or are stored.
            self.when_account_loaded(now, &bare, out, move |host, now, out| {
                for (at, stanza) in unacknowledged {
                    host.undelivered(now, at, &session.jid, stanza, out);
                }
            });
        }
        self.forget_user(now, &bare);
    }

    fn undelivered(&mut self, now: Instant, at: Instant, of: &Jid, stanza: Element, out: &mut Outbox) {
        match stanza::kind_of(&stanza) {
            Some(StanzaKind::Message) => self.message_undelivered(now, at, of, stanza, out),
            Some(StanzaKind::Iq) if matches!(stanza.attr("type"), Some("get" | "set")) => {
                self.refuse(&stanza, &Condition::ServiceUnavailable.into(), out);
            }
            // The sender of a presence will see that the session is gone.
            _ => {}
        }
    }
}
