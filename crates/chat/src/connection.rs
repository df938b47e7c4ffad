//! The events of clients' connections: a client binds a resource, sends, reads, is lost and comes back. `route` has the ways of
//! their stanzas; a [`Session`] decides on its own what it sends, queues and counts.
//!
//! The shard that drives the host calls the methods `handle_…`. Functions here join the machines on a session's behalf:
//! they take effects of sessions (`perform_deliveries`) and of features, and end a session with all that follows from its
//! end (`end_session`).

use stdx::Instant;
use stdx::rng::Rng;
use stdx::slab::Key;
use xmpp::c2s::{BindRequest, Bound};
use xmpp::stanza::{self, Condition, StanzaError, StanzaKind};
use xmpp::{Bare, ConnectionId, Element, Jid, ns};

use super::account_memory::AccountMemory;
use super::effect::{Effect, StreamFault};
use super::offline::{OfflineEffect, OfflineMessages};
use super::presence::PresenceEffect;
use super::resume::ResumeRequest;
use super::session::{BacklogProgress, DeliveryEffect, Session};
use super::store_requests::StoreRequests;
use super::user::AccountState;
use super::{Host, HostSettings, Outbox, SessionLimit, ack, hints, phones, sm};
use crate::{archive, bind2, offline, outgoing, presence, read_queues, route, token, user, vcard, webhooks};
use webhooks::WebhookKind;

impl Host {
    /// A client has signed in and wants a resource (RFC 6120 §7, XEP-0386). The session begins at once; what
    /// needs the account's data waits for them. The answer is `Effect::Bound`, in either case.
    pub fn handle_bind(&mut self, now: Instant, edge: ConnectionId, request: &BindRequest, out: &mut Outbox) {
        let Ok(jid) = request.user.with_resource(&resource_of(&mut self.rng, request)) else {
            let refused = Bound::Refused(Condition::BadRequest.into());
            return out.push(Effect::Bound { edge, bound: refused });
        };
        // The newer one wins (RFC 6120 §7.7.2.2): the older one is most often a dead connection of the same device.
        if let Some(old) = self.accounts.session_of(&jid) {
            end_session(self, now, old, Some("conflict".into()), out);
        }
        let agent = request.agent.as_ref().and_then(|agent| agent.id.as_deref()).filter(|_| request.is_bind2);
        if let Some(agent) = agent {
            // XEP-0386 §4.2: the client has no other session. Its old one goes first, so that it takes no place from the new one.
            let is_same = |other: &Session| other.agent.as_deref() == Some(agent);
            for other in self.accounts.keys_of(&jid.bare(), is_same) {
                end_session(self, now, other, Some("conflict".into()), out);
            }
        }
        let Some(oldest) = sessions_to_end(&self.accounts, self.settings.sessions, &jid.bare()) else {
            let error = StanzaError::new(
                Condition::ResourceConstraint,
                "too many sessions of this account: end another one first",
            );
            return out.push(Effect::Bound { edge, bound: Bound::Refused(error) });
        };
        for key in oldest {
            end_session(self, now, key, Some("conflict".into()), out);
        }
        let key = self.accounts.sessions.insert(Session::new(now, jid.clone(), edge, request.is_anonymous));
        self.accounts.by_edge.insert(edge, key);
        webhooks::report_session(&self.settings, now, WebhookKind::SessionBegin, &jid, out);
        let bare = jid.bare();
        let user = self.user(now, &bare, out);
        user.sessions.push(key);
        if !matches!(user.state, AccountState::Loading(_)) {
            vcard::load_avatar(&mut self.store, (&self.avatars, &self.accounts), &bare, out);
        }
        let parts = (&mut self.accounts, &*self.settings, &mut self.rng);
        let inline = inline_requests(parts, now, key, &request.inline, out);
        perform_deliveries(self, now, out);
        if !request.is_bind2 {
            return out.push(Effect::Bound { edge, bound: Bound::Session { jid, inline } });
        }
        if !bind2::begin(&mut self.accounts, key, agent) {
            return;
        }
        if request.is_anonymous {
            // No stanza has come since the session began to wait.
            bind2::finish(&mut self.accounts, key, inline, None, out);
            return;
        }
        self.with_account_data(now, &bare, out, bind2::forget_archived(bare.clone()));
        bind2::answer(&mut self.store, (key, &bare), inline, out);
    }

    /// A stanza of a client of ours. `from` is its full address already. Counted for XEP-0198 before anything
    /// else, so that counts on both sides agree also for stanzas that are refused.
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
        // Reads for the stanza count for the account of the session.
        let requester = Some(self.store.reads.requester_of(&session.jid));
        if !session.count(now, (self.pending_acks.host(), key), &mut element) {
            return end_session(self, now, key, Some("resource-constraint".into()), out);
        }
        if is_too_large {
            let error = StanzaError::new(Condition::PolicyViolation, stanza::TOO_LARGE);
            return self.refuse(&element, &error, out);
        }
        read_queues::with_requester(self, requester, |host| {
            route::handle_element_of_session(host, now, key, element, out);
        });
    }

    /// An element of a client that is no stanza. Unknown ones are ignored.
    pub fn handle_nonza(&mut self, now: Instant, edge: ConnectionId, element: &Element, out: &mut Outbox) {
        let Some(&key) = self.accounts.by_edge.get(&edge) else { return };
        match element.ns() {
            ns::SM => {
                let parts = (&mut self.accounts, &*self.settings, &mut self.rng);
                match handle_sm(parts, now, key, element, out) {
                    Some(SmEffect::SendBacklog) => {
                        let parts = (&mut self.accounts, &mut self.store, &mut self.offline);
                        if let Some((user, effect)) = send_backlog(parts, now, key, out) {
                            offline::perform(self, now, &user, effect, out);
                        }
                    }
                    Some(SmEffect::Close(fault)) => end_session(self, now, key, Some(fault), out),
                    None => {}
                }
            }
            ns::CSI => {
                self.accounts.handle_client_state(now, key, element, out);
                perform_deliveries(self, now, out);
            }
            _ => {}
        }
    }

    /// A client comes back (XEP-0198 §5). `seen` is the number of stanzas that it has got.
    pub fn handle_resume(
        &mut self,
        now: Instant,
        edge: ConnectionId,
        (user, id, seen): (&Jid, &str, u32),
        out: &mut Outbox,
    ) {
        let request = ResumeRequest { edge, user: user.clone(), id: id.into(), seen };
        let due = self.resumes.handle_request(now, &self.accounts, request);
        self.answer_resumes(now, due, out);
    }

    /// The connection has written what it was given before the last `Flush`: only now more may be sent, so a
    /// client that does not read costs bounded memory.
    pub fn handle_drained(&mut self, now: Instant, edge: ConnectionId, out: &mut Outbox) {
        let Some(&key) = self.accounts.by_edge.get(&edge) else { return };
        let Some(session) = self.accounts.sessions.get_mut(key) else { return };
        session.handle_drained(out);
        let parts = (&mut self.accounts, &mut self.store, &mut self.offline);
        if let Some((user, effect)) = send_backlog(parts, now, key, out) {
            offline::perform(self, now, &user, effect, out);
        }
    }

    /// Delivers a stanza to sessions, whatever their priorities and the account's block list are.
    pub(super) fn deliver(&mut self, now: Instant, keys: &[Key], stanza: Element, out: &mut Outbox) {
        self.accounts.deliver_to_all(now, keys, stanza, out);
        perform_deliveries(self, now, out);
    }

    /// The connection is gone. `in_order`: the client closed its stream.
    pub fn handle_gone(&mut self, now: Instant, edge: ConnectionId, in_order: bool, out: &mut Outbox) {
        self.resumes.remove(edge);
        let Some(key) = self.accounts.by_edge.remove(&edge) else { return };
        let session = self.accounts.sessions.get_mut(key).filter(|_| !in_order);
        let Some(until) = session.and_then(|session| session.sleep(now)) else {
            return end_session(self, now, key, None, out);
        };
        // In order of their deadlines, which are nearly always later than all before.
        let at = self.sleeping.partition_point(|(other, _)| *other <= until);
        self.sleeping.insert(at, (until, key));
        let effects = self.push.handle_sleep(now, &self.accounts, key);
        self.push.perform((&mut self.accounts, &mut self.store, &mut self.rng), effects, out);
    }
}

/// The resource of a client: the one that it asks for, or one that is made up.
fn resource_of(rng: &mut Rng, request: &BindRequest) -> String {
    let name = match (&request.resource, &request.tag) {
        (Some(resource), _) => resource.to_string(),
        (None, Some(tag)) => format!("{tag}~{}", &token(rng)[..8]),
        (None, None) => token(rng)[..16].to_owned(),
    };
    // Contacts see the account's phones by that name.
    if name == phones::RESOURCE { format!("{name}~{}", &token(rng)[..8]) } else { name }
}

/// The oldest sessions, whose end makes room for one more. `None`: there is no room, and sessions do not end for others.
fn sessions_to_end(accounts: &AccountMemory, limit: SessionLimit, user: &Bare) -> Option<Vec<Key>> {
    let sessions = accounts.users.get(user).map(|user| &user.sessions[..]).unwrap_or_default();
    if sessions.len() < limit.most {
        return Some(Vec::new());
    }
    let count = sessions.len() + 1 - limit.most;
    sessions.get(..count).filter(|_| limit.ends_oldest).map(<[Key]>::to_vec)
}

/// Requests that came with Bind 2 (XEP-0386). Returns the answers that the client gets with its address: only stream management has one.
fn inline_requests(
    (accounts, settings, rng): (&mut AccountMemory, &HostSettings, &mut Rng),
    now: Instant,
    key: Key,
    requests: &[Element],
    out: &mut Outbox,
) -> Vec<Element> {
    let mut answers = Vec::new();
    for request in requests {
        match request.ns() {
            ns::SM if request.name() == "enable" => {
                answers.push(enable_sm(accounts, (settings, &mut *rng), key, request));
            }
            ns::CARBONS if request.name() == "enable" => {
                if let Some(session) = accounts.sessions.get_mut(key) {
                    session.set_carbons(now, true);
                }
            }
            ns::CSI => accounts.handle_client_state(now, key, request, out),
            _ => {}
        }
    }
    answers
}

/// Enables stream management, by an element of its own or with Bind 2, and returns the answer for the client.
/// The id names the session when the client resumes, so it cannot be guessed.
fn enable_sm(
    accounts: &mut AccountMemory,
    (settings, rng): (&HostSettings, &mut Rng),
    key: Key,
    request: &Element,
) -> Element {
    let id = token(rng).into();
    match accounts.sessions.get_mut(key) {
        Some(session) => session.enable_sm(request, id, settings.resume_for),
        None => sm::failed(Condition::UnexpectedRequest),
    }
}

/// The effect of an element of stream management, beside the answer to it.
enum SmEffect {
    /// More may have waited than could be sent at once.
    SendBacklog,
    /// The session ends with this stream error.
    Close(StreamFault),
}

/// `<enable/>`, `<r/>` and `<a/>` (XEP-0198).
fn handle_sm(
    (accounts, settings, rng): (&mut AccountMemory, &HostSettings, &mut Rng),
    now: Instant,
    key: Key,
    element: &Element,
    out: &mut Outbox,
) -> Option<SmEffect> {
    if element.name() == "enable" {
        let answer = enable_sm(accounts, (settings, rng), key, element);
        let edge = accounts.sessions.get(key).and_then(|session| session.edge);
        out.extend(edge.map(|edge| Effect::Deliver { edge, element: answer }));
        return None;
    }
    let session = accounts.sessions.get_mut(key)?;
    let edge = session.edge;
    let answer = match (element.name(), &mut session.sm) {
        ("r", Some(sm)) => sm.handle_request(),
        ("a", Some(sm)) => {
            return Some(match sm.handle_answer(now, element) {
                Ok(question) => {
                    let both = edge.zip(question);
                    out.extend(both.map(|(edge, element)| Effect::Deliver { edge, element }));
                    SmEffect::SendBacklog
                }
                Err(fault) => SmEffect::Close(fault),
            });
        }
        // Stanzas sent before are not counted.
        ("a", None) => return None,
        // It has a session already (XEP-0198 §5).
        ("r", None) | ("resume", _) => sm::failed(Condition::UnexpectedRequest),
        _ => sm::failed(Condition::FeatureNotImplemented),
    };
    out.extend(edge.map(|edge| Effect::Deliver { edge, element: answer }));
    None
}

/// Sends as much of a session's backlog as the window takes, then the next page of an archive, then offline
/// messages by the effect: one source at a time, so that the oldest stanzas go first.
pub(super) fn send_backlog(
    (accounts, store, offline): (&mut AccountMemory, &mut StoreRequests, &mut OfflineMessages),
    now: Instant,
    key: Key,
    out: &mut Outbox,
) -> Option<(Bare, OfflineEffect)> {
    let BacklogProgress::Sent(question) = accounts.sessions.get_mut(key)?.send_backlog(now, out)? else {
        return None;
    };
    if let Some((owner, iq)) = question {
        archive::handle_query((&mut *accounts, store), &owner, &iq, out);
    }
    let is_read = accounts.sessions.get_mut(key).is_some_and(Session::end_backlog);
    is_read.then(|| offline.handle_session(accounts, key)).flatten()
}

/// Performs the effects of sessions to which a feature has delivered stanzas. Each caller of a feature that delivers calls this
/// before the message under way may count as handled.
pub(super) fn perform_deliveries(host: &mut Host, now: Instant, out: &mut Outbox) {
    for (key, effect) in host.accounts.take_deliveries() {
        let stanza = match effect {
            DeliveryEffect::Close(condition) => {
                end_session(host, now, key, Some(condition.into()), out);
                continue;
            }
            DeliveryEffect::Overflow(stanza) => stanza,
        };
        match UndeliveredStanza::of(&host.accounts, key, stanza) {
            Some(UndeliveredStanza::Keep(user, effect)) => offline::perform(host, now, &user, effect, out),
            Some(UndeliveredStanza::Refuse(stanza, condition)) => {
                host.refuse(&stanza, &condition.into(), out);
            }
            None => {}
        }
    }
}

/// A stanza that a session has no room for, and that its sender counts on: none of these is lost in silence.
enum UndeliveredStanza {
    /// The account keeps the message.
    Keep(Bare, OfflineEffect),
    Refuse(Element, Condition),
}

impl UndeliveredStanza {
    fn of(accounts: &AccountMemory, key: Key, stanza: Element) -> Option<UndeliveredStanza> {
        let is_told = |child: &Element| matches!(child.ns(), ns::CARBONS | ns::MAM | ns::OFFLINE);
        match stanza::kind_of(&stanza)? {
            // XEP-0045: a room that hears that removes the occupant (333).
            StanzaKind::Message if stanza.attr("type") == Some("groupchat") => {
                Some(UndeliveredStanza::Refuse(stanza, Condition::RecipientUnavailable))
            }
            // These are in an archive, or are still stored.
            StanzaKind::Message if stanza.elements().any(is_told) => None,
            StanzaKind::Message if hints::is_worth_keeping(&stanza) => {
                let user = match accounts.sessions.get(key) {
                    Some(session) => session.jid.bare(),
                    None => stanza::to(&stanza).ok()??.bare(),
                };
                Some(UndeliveredStanza::Keep(user, OfflineEffect::keep(stanza)))
            }
            StanzaKind::Message => hints::is_missed(&stanza)
                .then_some(UndeliveredStanza::Refuse(stanza, Condition::ResourceConstraint)),
            StanzaKind::Iq => Some(UndeliveredStanza::Refuse(stanza, Condition::ResourceConstraint)),
            StanzaKind::Presence => None,
        }
    }
}

/// Ends a session; `fault`: the stream error, if its client has not ended it: another session has its address now, an administrator ends it, or
/// its account has another host. All that saw it available are told first, while its addresses of directed presence are known. Stanzas that its
/// client has not acknowledged find another way once the account's data are in memory, and the account may leave memory.
pub(super) fn end_session(
    host: &mut Host,
    now: Instant,
    key: Key,
    fault: Option<StreamFault>,
    out: &mut Outbox,
) {
    if let Some(fault) = fault {
        close_connection(&mut host.accounts, key, fault, out);
    }
    if let Some(session) = host.accounts.sessions.get(key) {
        let presence = presence::gone(&session.jid);
        let effect = PresenceEffect::Unavailable { key, presence, is_returned: false };
        presence::perform(host, now, effect, out);
    }
    let Some(mut session) = host.accounts.sessions.remove(key) else { return };
    if let Some(edge) = session.edge {
        host.accounts.by_edge.remove(&edge);
    }
    webhooks::report_session(&host.settings, now, WebhookKind::SessionEnd, &session.jid, out);
    let bare = session.jid.bare();
    if let Some(user) = host.accounts.users.get_mut(&bare) {
        user.sessions.retain(|other| *other != key);
    }
    let unacknowledged = host.remembered.handle_end(&mut session);
    if !unacknowledged.is_empty() {
        // Stanzas that were never acknowledged go to the other sessions, or are stored.
        let parts = (&mut host.accounts, &mut host.store);
        let duties = user::when_loaded(parts, &bare, out, move |host, now, out| {
            let user = session.jid.bare();
            for (at, stanza) in unacknowledged {
                let parts = (&mut host.offline, &host.accounts);
                if let Some(effect) = undelivered(parts, at, (&session.jid, &user), stanza, out) {
                    offline::perform(host, now, &user, effect, out);
                }
            }
        });
        if let Some(duties) = duties {
            duties(host, now, out);
        }
    }
    host.forget_user(now, &bare);
}

/// Closes the connection of a session, if it has one, with a stream error.
fn close_connection(accounts: &mut AccountMemory, key: Key, fault: StreamFault, out: &mut Outbox) {
    let Some(session) = accounts.sessions.get(key) else { return };
    let Some(edge) = session.edge else { return };
    // XEP-0198 §4: the last acknowledgement comes before the end of the stream.
    let element = session.sm.as_ref().map(|sm| sm.acknowledgement());
    out.extend(element.map(|element| Effect::Deliver { edge, element }));
    accounts.by_edge.remove(&edge);
    out.push(fault.close(edge));
}

/// A stanza that the client of an ended session has not acknowledged. `at`: when it came, for the delay of a stored
/// message. A message finds its way by the effect.
fn undelivered(
    (offline, accounts): (&mut OfflineMessages, &AccountMemory),
    at: Instant,
    (session, user): (&Jid, &Bare),
    stanza: Element,
    out: &mut Outbox,
) -> Option<OfflineEffect> {
    match stanza::kind_of(&stanza)? {
        StanzaKind::Message => offline.handle_undelivered(accounts, at, (session, user), stanza),
        StanzaKind::Iq if matches!(stanza.attr("type"), Some("get" | "set")) => {
            outgoing::refuse(&stanza, &Condition::ServiceUnavailable.into(), out);
            None
        }
        // The sender of a presence will see that the session is gone.
        StanzaKind::Iq | StanzaKind::Presence => None,
    }
}
