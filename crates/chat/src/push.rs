//! Push notifications (XEP-0357): a client that is not here is told through its maker's service that something waits.
//!
//! A client registers a push service of its maker (`<enable/>`), which is stored. When a message comes that clients should
//! hear of while they are away (`route`, `offline`), or a session loses its connection with messages unacknowledged
//! (`connection`), a notification goes to the service. A service that answers with an error that will last is removed from
//! the list; one that cannot be reached stays there.

use std::collections::{HashMap, VecDeque};

use stdx::Instant;
use stdx::rng::Rng;
use stdx::slab::Key;
use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Bare, Element, Jid, Level, Specification, ns};

use super::effect::{Change, Load, StoreFailure, StoreReply};
use super::feature::{Feature, IqHandler, IqReply, IqRequest, IqTarget, IqView};
use super::iq_effect::IqEffect;
use super::session::Session;
use super::store_requests::StoreRequests;
use super::{ItemQuery, Outbox, change_queue, hints, offline};
use crate::account_memory::AccountMemory;
use crate::{limits, outgoing, token};

pub(super) const FEATURE: Feature = Feature {
    specifications: &[Specification {
        name: "XEP-0357",
        title: "Push Notifications",
        version: "0.4.1",
        level: Level::Complete,
        file: "crates/chat/src/push.rs",
        note: "a notification tells how many messages wait, never their senders or their texts",
    }],
    account: &[ns::PUSH],
    server: &[],
    handles: &[
        IqHandler { at: IqTarget::Own, name: "enable", ns: ns::PUSH, run: enable },
        IqHandler { at: IqTarget::Own, name: "disable", ns: ns::PUSH, run: disable },
    ],
};

/// The node that keeps an account's clients. Only the account reads nodes of that prefix.
const NODE: &str = "private:urn:xmpp:push:0";

/// A client that wants to be told.
#[derive(Clone)]
pub(super) struct PushClient {
    /// The id of its item in the store: made of service and node, so a client that registers again replaces its entry.
    id: Box<str>,
    /// The address of the push service.
    service: Jid,
    /// The node at the service, by which the service knows the client.
    node: Option<Box<str>>,
    /// Sent along, as the client said them.
    options: Option<Element>,
}

impl PushClient {
    /// From `<enable/>`, as it came or as it is kept.
    fn parse(enable: &Element) -> Result<PushClient, StanzaError> {
        let service = enable.attr("jid").ok_or(Condition::BadRequest)?;
        let service = Jid::parse(service).map_err(|_| Condition::JidMalformed)?;
        let node = enable.attr("node").map(Box::<str>::from);
        let options = enable.get("x", ns::DATA).cloned();
        // No address has a line feed in it.
        let id = format!("{service}\n{}", node.as_deref().unwrap_or_default()).into();
        Ok(PushClient { id, service, node, options })
    }

    /// The client as it is stored: the request as its user sent it.
    fn element(&self) -> Element {
        Element::new("enable", ns::PUSH)
            .with("jid", self.service.as_str())
            .with_opt("node", self.node.clone())
            .children(self.options.clone())
    }

    /// The notification for the push service (XEP-0357 §7), with a number and nothing of the messages.
    fn notification(&self, user: &Bare, id: &str, messages: usize) -> Element {
        let field = |var: &'static str, value: &str| {
            let value = Element::new("value", ns::DATA).text(value);
            Element::new("field", ns::DATA).with("var", var).child(value)
        };
        let form = Element::new("x", ns::DATA)
            .with("type", "submit")
            .child(field("FORM_TYPE", ns::PUSH_SUMMARY).with("type", "hidden"))
            .child(field("message-count", &messages.to_string()));
        let item = Element::new("item", ns::PUBSUB).child(Element::new("notification", ns::PUSH).child(form));
        let publish = Element::new("publish", ns::PUBSUB).with_opt("node", self.node.clone()).child(item);
        let options =
            self.options.clone().map(|form| Element::new("publish-options", ns::PUBSUB).child(form));
        Element::new("iq", ns::CLIENT)
            .with("type", "set")
            .with("id", id)
            .with("from", user.as_str())
            .with("to", self.service.as_str())
            .child(Element::new("pubsub", ns::PUBSUB).child(publish).children(options))
    }
}

/// The feature: the clients of accounts, and the notifications on their way. It is told of requests, replies and
/// messages and returns effects.
#[derive(Default)]
pub(super) struct Push {
    /// The clients of accounts in memory, once they were read. A change drops the entry instead of changing
    /// it: the store's list counts.
    known: HashMap<Bare, Vec<PushClient>>,
    /// Notifications whose answer is awaited, and their ids in the order they went out.
    asked: HashMap<Box<str>, (Bare, PushClient)>,
    /// The ids of `asked` in the order they went out: the oldest is forgotten when there are too many.
    order: VecDeque<Box<str>>,
}

/// Everything that [`Push`] asks of its host.
pub(super) enum PushEffect {
    /// Read the account's clients; answered by `handle_clients`.
    ReadClients(Bare, PushTask),
    /// Write a client; answered by `handle_written`.
    Write(Change, Box<PushWrite>),
    /// Answer the request.
    Answer(Element, Result<(), StoreFailure>),
    /// Note at the session that this client is its own.
    Enabled(Key, Box<str>),
    /// Tell the client, by `notify`, of that many messages.
    Notify(Bare, PushClient, PushCount),
}

/// A request of an account about the clients that want notifications.
pub(super) enum PushRequest {
    /// Store a client.
    Enable(PushEffect),
    /// Begin a task with the clients.
    Begin(PushTask),
}

/// The task for which the clients of an account are read.
pub(super) enum PushTask {
    Disable {
        iq: Element,
        wanted: Box<PushClient>,
    },
    /// A message came, and so many wait.
    Message {
        waiting: usize,
    },
    /// The session of the client sleeps, and so many messages wait in it.
    Sleep {
        id: Box<str>,
        waiting: usize,
    },
}

/// A write to the list of clients.
pub(super) enum PushWrite {
    Enable {
        user: Bare,
        id: Box<str>,
        iq: Element,
        session: Option<Key>,
    },
    /// `left`: the clients to remove after this one. `iq`: the request to answer then.
    Remove {
        user: Bare,
        left: Vec<Box<str>>,
        iq: Option<Element>,
    },
}

/// The number of messages in a notification.
pub(super) enum PushCount {
    Exactly(usize),
    /// The messages that wait in the client's session; the number here if it has none. None is sent to a client
    /// that is awake.
    OfSession(usize),
}

impl Push {
    /// The account leaves memory, or its list has changed.
    pub(super) fn forget(&mut self, user: &Bare) {
        self.known.remove(user);
    }

    /// Writes a client into the list (XEP-0357 §5).
    fn enable(now: Instant, iq: &IqRequest<'_>) -> Result<PushEffect, StanzaError> {
        let user = iq.to.bare();
        let client = PushClient::parse(iq.payload)?;
        let element = client.element();
        if element.to_bytes("").len() > limits::PUSH_OPTIONS {
            return Err(StanzaError::new(Condition::PolicyViolation, "more than a notification needs"));
        }
        let change = write(now, &user, client.id.clone(), Some(Box::new(element)));
        let write = PushWrite::Enable { user, id: client.id, iq: iq.iq.clone(), session: iq.session };
        Ok(PushEffect::Write(change, Box::new(write)))
    }

    /// Handles a request of the account.
    pub(super) fn handle_request(
        &mut self,
        now: Instant,
        context: PushContext<'_>,
        (user, request): (Bare, PushRequest),
        out: &mut Outbox,
    ) {
        let effects = match request {
            PushRequest::Enable(effect) => vec![effect],
            PushRequest::Begin(task) => self.begin(now, user, task),
        };
        self.perform(context, effects, out);
    }

    /// Begins a task with the clients in memory, or reads them.
    fn begin(&self, now: Instant, user: Bare, task: PushTask) -> Vec<PushEffect> {
        match self.known.get(&user) {
            Some(known) => act(now, user, task, known.clone()),
            None => vec![PushEffect::ReadClients(user, task)],
        }
    }

    /// A message came that [`is_pushed`]. `kept`: it waits with the offline messages.
    pub(super) fn handle_message(
        &self,
        now: Instant,
        accounts: &AccountMemory,
        user: &Bare,
        kept: bool,
    ) -> Vec<PushEffect> {
        if accounts.is_anonymous(user) {
            return Vec::new();
        }
        let waiting = accounts.data(user).map_or(0, |data| data.offline as usize);
        let waiting = (waiting + usize::from(kept)).max(1);
        self.begin(now, user.clone(), PushTask::Message { waiting })
    }

    /// A session begins to sleep: its client perhaps never got the messages on their way.
    pub(super) fn handle_sleep(&self, now: Instant, accounts: &AccountMemory, key: Key) -> Vec<PushEffect> {
        let Some(session) = accounts.sessions.get(key) else { return Vec::new() };
        let (user, Some(id)) = (session.jid.bare(), session.push.clone()) else { return Vec::new() };
        let waiting = accounts.unacknowledged(key, hints::is_notable);
        if waiting == 0 {
            return Vec::new();
        }
        self.begin(now, user, PushTask::Sleep { id, waiting })
    }

    /// The clients were read, or could not be: then notifications are left out, and a request is answered by
    /// an error. `keeps`: the account is in memory, and its clients with it.
    fn handle_clients(
        &mut self,
        now: Instant,
        (user, task): (Bare, PushTask),
        loaded: Result<StoreReply, StoreFailure>,
        keeps: bool,
    ) -> Vec<PushEffect> {
        let Ok(StoreReply::Items(page)) = loaded else {
            return match task {
                PushTask::Disable { iq, .. } => {
                    vec![PushEffect::Answer(iq, Err(StoreFailure::Unavailable))]
                }
                PushTask::Message { .. } | PushTask::Sleep { .. } => Vec::new(),
            };
        };
        let clients = page.items.iter().rev().filter_map(|(_, _, item)| PushClient::parse(item).ok());
        let clients: Vec<PushClient> = clients.collect();
        if keeps {
            self.known.insert(user.clone(), clients.clone());
        }
        act(now, user, task, clients)
    }

    /// The list of clients has changed in the store, or not. It is read again when it is needed.
    fn handle_written(
        &mut self,
        now: Instant,
        write: PushWrite,
        done: Result<(), StoreFailure>,
    ) -> Vec<PushEffect> {
        match write {
            PushWrite::Enable { user, id, iq, session } => {
                let mut effects = Vec::new();
                if done.is_ok() {
                    effects.extend(session.map(|key| PushEffect::Enabled(key, id)));
                    // Read again when it is needed.
                    self.forget(&user);
                }
                effects.push(PushEffect::Answer(iq, done));
                effects
            }
            PushWrite::Remove { user, left, iq } => {
                self.forget(&user);
                match done {
                    // Another request was faster.
                    Ok(()) | Err(StoreFailure::NotFound) => remove(now, user, left, iq),
                    Err(error) => answer(iq, Err(error)),
                }
            }
        }
    }

    /// Builds a notification and awaits its answer.
    fn notify(&mut self, id: &str, (user, client): (Bare, PushClient), messages: usize) -> Element {
        if self.order.len() >= limits::PUSH_ASKED
            && let Some(oldest) = self.order.pop_front()
        {
            self.asked.remove(&oldest);
        }
        let notification = client.notification(&user, id, messages);
        self.order.push_back(id.into());
        self.asked.insert(id.into(), (user, client));
        notification
    }

    /// Handles an answer that may be to a notification. A push service that returns an error that will last gets no more of
    /// them (XEP-0357 §7.1).
    pub(super) fn handle_answer(&mut self, now: Instant, from: &Jid, iq: &Element) -> Vec<PushEffect> {
        let Some(id) = iq.attr("id") else { return Vec::new() };
        if self.asked.get(id).is_none_or(|(_, client)| client.service != *from) {
            return Vec::new();
        }
        self.order.retain(|known| **known != *id);
        let Some((user, client)) = self.asked.remove(id) else { return Vec::new() };
        let error = iq.get("error", ns::CLIENT).filter(|_| iq.attr("type") == Some("error"));
        if error.is_some_and(is_lasting) {
            return remove(now, user, vec![client.id], None);
        }
        Vec::new()
    }
}

/// True for an error that the push service itself has returned and that will last. This server answers in the service's name when it cannot
/// reach it (RFC 6120 §8.3.3.16 and §8.3.3.17): then the service has refused nothing, and the client could not know that it has to register
/// again.
fn is_lasting(error: &Element) -> bool {
    let has = |condition: Condition| error.get(condition.as_str(), ns::STANZA_ERRORS).is_some();
    let is_unreached = has(Condition::RemoteServerNotFound) || has(Condition::RemoteServerTimeout);
    !is_unreached && error.attr("type") != Some("wait")
}

/// Performs a task with the account's clients.
fn act(now: Instant, user: Bare, task: PushTask, clients: Vec<PushClient>) -> Vec<PushEffect> {
    let notify = |client, count| PushEffect::Notify(user.clone(), client, count);
    match task {
        // XEP-0357 §6.
        PushTask::Disable { iq, wanted } => {
            let is_wanted = |client: &PushClient| {
                client.service == wanted.service && (wanted.node.is_none() || client.node == wanted.node)
            };
            let ids = clients.into_iter().filter(is_wanted).map(|client| client.id).collect();
            remove(now, user, ids, Some(iq))
        }
        PushTask::Message { waiting } => {
            let clients = clients.into_iter();
            clients.map(|client| notify(client, PushCount::OfSession(waiting))).collect()
        }
        PushTask::Sleep { id, waiting } => {
            let client = clients.into_iter().find(|client| client.id == id);
            client.map(|client| notify(client, PushCount::Exactly(waiting))).into_iter().collect()
        }
    }
}

/// Removes clients one after another, and answers the request when none is left.
fn remove(now: Instant, user: Bare, mut left: Vec<Box<str>>, iq: Option<Element>) -> Vec<PushEffect> {
    let Some(id) = left.pop() else { return answer(iq, Ok(())) };
    let change = write(now, &user, id, None);
    vec![PushEffect::Write(change, Box::new(PushWrite::Remove { user, left, iq }))]
}

/// The answer of a request, if there is one.
fn answer(iq: Option<Element>, done: Result<(), StoreFailure>) -> Vec<PushEffect> {
    iq.map(|iq| PushEffect::Answer(iq, done)).into_iter().collect()
}

/// `item`: `None` removes the client.
fn write(now: Instant, user: &Bare, id: Box<str>, item: Option<Box<Element>>) -> Change {
    let (owner, node) = (user.clone(), NODE.into());
    Change::Item { owner, node, id, item, at: now, keep: limits::PUSH_CLIENTS }
}

/// `<enable/>` (XEP-0357 §5).
fn enable(view: &mut IqView<'_>, iq: &IqRequest<'_>) -> IqReply {
    if !iq.is_set {
        return IqReply::Error(Condition::BadRequest.into());
    }
    if view.accounts.is_anonymous(&iq.to.bare()) {
        return IqReply::Error(Condition::NotAllowed.into());
    }
    match Push::enable(view.now, iq) {
        Ok(effect) => IqReply::Perform(IqEffect::Push(PushRequest::Enable(effect))),
        Err(error) => IqReply::Error(error),
    }
}

/// `<disable/>` (XEP-0357 §6): of one node, or of all of a service.
fn disable(_view: &mut IqView<'_>, iq: &IqRequest<'_>) -> IqReply {
    if !iq.is_set {
        return IqReply::Error(Condition::BadRequest.into());
    }
    match PushClient::parse(iq.payload) {
        Ok(wanted) => {
            let task = PushTask::Disable { iq: iq.iq.clone(), wanted: Box::new(wanted) };
            IqReply::Perform(IqEffect::Push(PushRequest::Begin(task)))
        }
        Err(error) => IqReply::Error(error),
    }
}

/// True if clients that are not here are to be told of that message for the account.
pub(super) fn is_pushed(user: &Bare, message: &Element) -> bool {
    let is_own = offline::sender(message).is_some_and(|from| from.bare() == *user);
    !is_own && hints::is_notable(message)
}

/// The parts of a host that effects of [`Push`] need beside it.
pub(super) type PushContext<'a> = (&'a mut AccountMemory, &'a mut StoreRequests, &'a mut Rng);

impl Push {
    /// Performs effects; the store's replies go back into the machine.
    pub(super) fn perform(
        &mut self,
        (accounts, store, rng): PushContext<'_>,
        effects: Vec<PushEffect>,
        out: &mut Outbox,
    ) {
        for effect in effects {
            match effect {
                PushEffect::ReadClients(user, task) => {
                    let query = Box::new(ItemQuery::all());
                    let load = Load::Items { owner: user.clone(), node: NODE.into(), query };
                    store.load(load, out, move |host, now, loaded, out| {
                        let keeps = host.accounts.is_in_memory(&user);
                        let effects = host.push.handle_clients(now, (user, task), loaded, keeps);
                        let context = (&mut host.accounts, &mut host.store, &mut host.rng);
                        host.push.perform(context, effects, out);
                    });
                }
                PushEffect::Write(change, write) => {
                    store.change(change, out, move |host, now, done, out| {
                        let effects = host.push.handle_written(now, *write, done);
                        let context = (&mut host.accounts, &mut host.store, &mut host.rng);
                        host.push.perform(context, effects, out);
                    });
                }
                PushEffect::Answer(iq, done) => {
                    outgoing::answer(&iq, done.map(|()| None).map_err(change_queue::not_written), out);
                }
                PushEffect::Enabled(key, id) => {
                    if let Some(session) = accounts.sessions.get_mut(key) {
                        session.push = Some(id);
                    }
                }
                PushEffect::Notify(user, client, count) => {
                    if let Some(messages) = count_messages(accounts, &user, &client, &count) {
                        let id = token(rng);
                        let notification = self.notify(&id, (user, client), messages);
                        outgoing::send(notification, out);
                    }
                }
            }
        }
    }
}

/// The number of messages for a notification; `None`: the client has a session that is awake, and needs none.
fn count_messages(
    accounts: &AccountMemory,
    user: &Bare,
    client: &PushClient,
    count: &PushCount,
) -> Option<usize> {
    let otherwise = match count {
        PushCount::Exactly(messages) => return Some(*messages),
        PushCount::OfSession(otherwise) => *otherwise,
    };
    let has_it = |session: &Session| session.push.as_ref() == Some(&client.id);
    let keys = accounts.keys_of(user, has_it);
    // A session that is awake is preferred.
    if keys.iter().any(|key| !accounts.is_asleep(*key)) {
        return None;
    }
    let asleep = keys.first();
    Some(asleep.map_or(otherwise, |key| accounts.unacknowledged(*key, hints::is_notable).max(1)))
}
