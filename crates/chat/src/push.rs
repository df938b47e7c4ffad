//! Push notifications (XEP-0357): a client that is not here is told through its maker's service that something waits.

use std::collections::{HashMap, VecDeque};

use stdx::Instant;
use stdx::slab::Key;
use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Bare, Element, Jid, Level, Specification, ns};

use super::effect::{Change, Load, StoreFailure, StoreReply};
use super::feature::{Feature, IqHandler, IqReply, IqRequest, IqTarget};
use super::{Host, ItemQuery, Outbox, change_queue, hints, offline};
use crate::limits;

pub(super) const FEATURE: Feature = Feature {
    specifications: &[Specification {
        name: "XEP-0357",
        title: "Push Notifications",
        version: "0.4.1",
        level: Level::Complete,
        file: "crates/chat/src/push.rs",
        note: "a notification tells how many messages wait, never from whom or what they say",
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

type PushContinuation = Box<dyn FnOnce(&mut Host, Instant, Result<(), StoreFailure>, &mut Outbox)>;

/// A client that wants to be told.
#[derive(Clone)]
struct PushClient {
    /// In the store.
    id: Box<str>,
    service: Jid,
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

    fn element(&self) -> Element {
        Element::new("enable", ns::PUSH)
            .with("jid", self.service.as_str())
            .with_opt("node", self.node.clone())
            .children(self.options.clone())
    }

    /// XEP-0357 §7.
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

#[derive(Default)]
pub(super) struct Push {
    /// The clients of accounts in memory, once they were read.
    known: HashMap<Bare, Vec<PushClient>>,
    /// Notifications whose answer is awaited, and their ids in the order they went out.
    asked: HashMap<Box<str>, (Bare, PushClient)>,
    order: VecDeque<Box<str>>,
}

impl Push {
    pub(super) fn forget(&mut self, user: &Bare) {
        self.known.remove(user);
    }

    fn remember(&mut self, id: &str, user: &Bare, client: &PushClient) {
        if self.order.len() >= limits::PUSH_ASKED
            && let Some(oldest) = self.order.pop_front()
        {
            self.asked.remove(&oldest);
        }
        self.order.push_back(id.into());
        self.asked.insert(id.into(), (user.clone(), client.clone()));
    }
}

/// XEP-0357 §5.
fn enable(host: &mut Host, now: Instant, iq: &IqRequest<'_>, out: &mut Outbox) -> IqReply {
    let user = iq.to.bare();
    if !iq.is_set {
        return IqReply::Error(Condition::BadRequest.into());
    }
    if host.is_anonymous(&user) {
        return IqReply::Error(Condition::NotAllowed.into());
    }
    let client = match PushClient::parse(iq.payload) {
        Ok(client) => client,
        Err(error) => return IqReply::Error(error),
    };
    let element = client.element();
    if element.to_bytes("").len() > limits::PUSH_OPTIONS {
        return IqReply::Error(StanzaError::new(
            Condition::PolicyViolation,
            "more than a notification needs",
        ));
    }
    let change = Change::Item {
        owner: user.clone(),
        node: NODE.into(),
        id: client.id.clone(),
        item: Some(Box::new(element)),
        at: now,
        keep: limits::PUSH_CLIENTS,
    };
    let (iq, key) = (iq.iq.clone(), iq.session);
    host.change(change, out, move |host, _, done, out| {
        if done.is_ok() {
            if let Some(session) = key.and_then(|key| host.sessions.get_mut(key)) {
                session.push = Some(client.id.clone());
            }
            // Read again when it is needed.
            host.push.forget(&user);
        }
        host.answer(&iq, done.map(|()| None).map_err(change_queue::not_written), out);
    });
    IqReply::Later
}

/// XEP-0357 §6.
fn disable(host: &mut Host, now: Instant, iq: &IqRequest<'_>, out: &mut Outbox) -> IqReply {
    if !iq.is_set {
        return IqReply::Error(Condition::BadRequest.into());
    }
    let wanted = match PushClient::parse(iq.payload) {
        Ok(wanted) => wanted,
        Err(error) => return IqReply::Error(error),
    };
    let (user, iq) = (iq.to.bare(), iq.iq.clone());
    let named = user.clone();
    host.push_clients(now, &user, out, move |host, now, clients, out| {
        let Ok(clients) = clients else {
            return host.refuse(&iq, &change_queue::not_written(StoreFailure::Unavailable), out);
        };
        let is_wanted = |client: &PushClient| {
            client.service == wanted.service && (wanted.node.is_none() || client.node == wanted.node)
        };
        let ids = clients.into_iter().filter(is_wanted).map(|client| client.id).collect();
        let answer: PushContinuation = Box::new(move |host, _, done, out| {
            host.answer(&iq, done.map(|()| None).map_err(change_queue::not_written), out);
        });
        host.push_remove(now, &named, ids, out, answer);
    });
    IqReply::Later
}

impl Host {
    /// The account's clients, from memory or from the store.
    fn push_clients(
        &mut self,
        now: Instant,
        user: &Bare,
        out: &mut Outbox,
        then: impl FnOnce(&mut Host, Instant, Result<Vec<PushClient>, StoreFailure>, &mut Outbox) + 'static,
    ) {
        if let Some(known) = self.push.known.get(user) {
            let known = known.clone();
            return then(self, now, Ok(known), out);
        }
        let user = user.clone();
        let query = Box::new(ItemQuery::all());
        let load = Load::Items { owner: user.clone(), node: NODE.into(), query };
        self.load(load, out, move |host, now, loaded, out| {
            let clients = match loaded {
                Ok(StoreReply::Items(page)) => page.items,
                Ok(_) => return then(host, now, Err(StoreFailure::Unavailable), out),
                Err(error) => return then(host, now, Err(error), out),
            };
            let clients: Vec<PushClient> =
                clients.iter().rev().filter_map(|(_, _, item)| PushClient::parse(item).ok()).collect();
            if host.is_in_memory(&user) {
                host.push.known.insert(user, clients.clone());
            }
            then(host, now, Ok(clients), out);
        });
    }

    fn push_remove(
        &mut self,
        now: Instant,
        user: &Bare,
        mut ids: Vec<Box<str>>,
        out: &mut Outbox,
        then: PushContinuation,
    ) {
        let Some(id) = ids.pop() else { return then(self, now, Ok(()), out) };
        let (user, node) = (user.clone(), NODE.into());
        let change =
            Change::Item { owner: user.clone(), node, id, item: None, at: now, keep: limits::PUSH_CLIENTS };
        self.change(change, out, move |host, now, done, out| {
            host.push.forget(&user);
            match done {
                // Another request was faster.
                Ok(()) | Err(StoreFailure::NotFound) => host.push_remove(now, &user, ids, out, then),
                Err(error) => then(host, now, Err(error), out),
            }
        });
    }

    /// True if clients that are not here are to be told of that message for the account.
    pub(super) fn is_pushed(&self, user: &Bare, message: &Element) -> bool {
        let is_own = offline::sender(message).is_some_and(|from| from.bare() == *user);
        !is_own && hints::is_notable(message) && !self.is_anonymous(user)
    }

    /// That message is where it belongs. `kept`: with those that wait.
    pub(super) fn push_message(&mut self, now: Instant, user: &Bare, kept: bool, out: &mut Outbox) {
        let waiting = self.account_data(user).map_or(0, |data| data.offline as usize);
        let waiting = (waiting + usize::from(kept)).max(1);
        let named = user.clone();
        self.push_clients(now, user, out, move |host, _, clients, out| {
            for client in clients.unwrap_or_default() {
                match host.push_session(&named, &client.id) {
                    Some(key) if !host.is_asleep(key) => {}
                    Some(key) => {
                        let waiting = host.sm_waiting(key, hints::is_notable).max(1);
                        host.push_notify(&named, &client, waiting, out);
                    }
                    None => host.push_notify(&named, &client, waiting, out),
                }
            }
        });
    }

    /// A client has gone to sleep, and perhaps never had what was on its way.
    pub(super) fn push_slept(&mut self, now: Instant, key: Key, out: &mut Outbox) {
        let Some(session) = self.sessions.get(key) else { return };
        let (user, Some(id)) = (session.jid.bare(), session.push.clone()) else { return };
        let waiting = self.sm_waiting(key, hints::is_notable);
        if waiting == 0 {
            return;
        }
        let named = user.clone();
        self.push_clients(now, &user, out, move |host, _, clients, out| {
            let client = clients.unwrap_or_default().into_iter().find(|client| client.id == id);
            if let Some(client) = client {
                host.push_notify(&named, &client, waiting, out);
            }
        });
    }

    fn push_session(&self, user: &Bare, id: &str) -> Option<Key> {
        let keys = self.users.get(user).map(|user| &user.sessions[..]).unwrap_or_default();
        let is_of =
            |key: &&Key| self.sessions.get(**key).is_some_and(|session| session.push.as_deref() == Some(id));
        // A session that is awake is preferred.
        let asleep = keys.iter().find(is_of);
        keys.iter().filter(is_of).find(|key| !self.is_asleep(**key)).or(asleep).copied()
    }

    fn push_notify(&mut self, user: &Bare, client: &PushClient, messages: usize, out: &mut Outbox) {
        let id = self.token();
        self.push.remember(&id, user, client);
        let notification = client.notification(user, &id, messages);
        self.route(notification, out);
    }

    /// Handles an answer that may be to a notification. A push service that returns an error gets no more of
    /// them (XEP-0357 §7).
    pub(super) fn push_answered(&mut self, now: Instant, from: &Jid, iq: &Element, out: &mut Outbox) {
        let Some(id) = iq.attr("id") else { return };
        if self.push.asked.get(id).is_none_or(|(_, client)| client.service != *from) {
            return;
        }
        self.push.order.retain(|known| **known != *id);
        let Some((user, client)) = self.push.asked.remove(id) else { return };
        let error = iq.get("error", ns::CLIENT).filter(|_| iq.attr("type") == Some("error"));
        if error.is_some_and(|error| error.attr("type") != Some("wait")) {
            self.push_remove(now, &user, vec![client.id], out, Box::new(|_, _, _, _| {}));
        }
    }
}
