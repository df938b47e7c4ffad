//! Messages for accounts without a session (XEP-0160), and their retrieval (XEP-0013).

use std::collections::{HashMap, HashSet};

use stdx::Instant;
use stdx::slab::Key;
use xmpp::stanza::{self, Condition, StanzaError};
use xmpp::{Bare, Element, Jid, Level, Specification, ns};

use super::effect::{Change, Load, StoreFailure, StoreReply};
use super::feature::{Feature, IqHandler, IqReply, IqRequest, IqTarget};
use super::{Host, Outbox, StanzaPage, change_queue, hints, push, sm};
use crate::{limits, phones, presence};

const FILE: &str = "crates/chat/src/offline.rs";

pub(super) const FEATURE: Feature = Feature {
    specifications: &[
        Specification {
            name: "XEP-0160",
            title: "Best Practices for Handling Offline Messages",
            version: "1.0.1",
            level: Level::Complete,
            file: FILE,
            note: "",
        },
        Specification {
            name: "XEP-0013",
            title: "Flexible Offline Message Retrieval",
            version: "1.2",
            level: Level::Complete,
            file: FILE,
            note: "",
        },
        Specification {
            name: "XEP-0203",
            title: "Delayed Delivery",
            version: "2.0",
            level: Level::Complete,
            file: FILE,
            note: "",
        },
    ],
    account: &[ns::OFFLINE],
    server: &["msgoffline", ns::OFFLINE],
    handles: &[IqHandler { at: IqTarget::Own, name: "offline", ns: ns::OFFLINE, run: flexible }],
};

/// Accounts with messages on their way to the store or from it.
#[derive(Default)]
pub(super) struct OfflineMessages {
    writing: HashMap<Bare, u32>,
    reading: HashSet<Bare>,
}

impl OfflineMessages {
    /// The account has to stay in memory, where its messages are counted.
    pub(super) fn is_keeping(&self, user: &Bare) -> bool {
        self.writing.contains_key(user) || self.reading.contains(user)
    }
}

#[cfg(test)]
impl OfflineMessages {
    pub(super) fn len(&self) -> usize {
        self.writing.len() + self.reading.len()
    }
}

/// With the time it came, unless we said it already (XEP-0203).
pub(crate) fn delayed(mut message: Element, at: Instant, domain: &str) -> Element {
    let is_ours = |child: &Element| child.is("delay", ns::DELAY) && child.attr("from") == Some(domain);
    if !message.elements().any(is_ours) {
        let delay = Element::new("delay", ns::DELAY);
        message.push(delay.with("from", domain).with("stamp", xmpp::time::stamp(at)));
    }
    message
}

/// Stores a message that no session can take now.
pub(super) fn keep_message(host: &mut Host, now: Instant, user: &Bare, message: Element, out: &mut Outbox) {
    if !hints::is_worth_keeping(&message) {
        return;
    }
    if push::is_pushed(user, &message) {
        push::handle_message(host, now, user, true, out);
    }
    keep(host, now, user, message, out);
}

/// As [`keep_message`](Self::keep_message), but a failure is reported only to `then`, which runs before
/// the message counts as handled.
pub(super) fn keep_then(
    host: &mut Host,
    now: Instant,
    user: &Bare,
    message: Element,
    out: &mut Outbox,
    then: impl FnOnce(&mut Host, Result<(), StanzaError>) + 'static,
) {
    if push::is_pushed(user, &message) {
        push::handle_message(host, now, user, true, out);
    }
    try_keep(host, now, user, message, out, move |host, result, _| then(host, result));
}

/// It was for a session that has ended, and perhaps never had it. It goes to those that have not had it either, or
/// is kept.
pub(super) fn message_undelivered(
    host: &mut Host,
    now: Instant,
    at: Instant,
    session: &Jid,
    message: Element,
    out: &mut Outbox,
) {
    let is_told = |child: &Element| matches!(child.ns(), ns::CARBONS | ns::MAM);
    if !hints::is_worth_keeping(&message) || message.elements().any(is_told) {
        return;
    }
    let user = session.bare();
    let able = host.accounts.able(&user);
    if able.is_empty() {
        return keep(host, at, &user, message, out);
    }
    let was_alone = message.attr("to") == Some(session.as_str());
    let has_not = |key: &Key| {
        let other = host.accounts.sessions.get(*key);
        other.is_some_and(|other| other.began >= at || (was_alone && !other.has_carbons))
    };
    let others: Vec<Key> = able.into_iter().filter(has_not).collect();
    let message = delayed(message, at, user.domain());
    presence::deliver_to_all(host, now, &others, message, out);
}

fn keep(host: &mut Host, at: Instant, user: &Bare, message: Element, out: &mut Outbox) {
    let refused = message.clone();
    try_keep(host, at, user, message, out, move |host, result, out| {
        if let Err(error) = result {
            host.refuse(&refused, &error, out);
        }
    });
}

fn try_keep(
    host: &mut Host,
    at: Instant,
    user: &Bare,
    message: Element,
    out: &mut Outbox,
    then: impl FnOnce(&mut Host, Result<(), StanzaError>, &mut Outbox) + 'static,
) {
    let waiting = host.accounts.data(user).map(|data| data.offline);
    if host.accounts.is_anonymous(user) || waiting.is_none_or(|waiting| waiting >= limits::OFFLINE) {
        // XEP-0160 §2.
        return then(host, Err(Condition::ServiceUnavailable.into()), out);
    }
    *host.offline.writing.entry(user.clone()).or_default() += 1;
    let hold = host.pending_acks.guard();
    let change = Change::Offline { user: user.clone(), at, stanza: Box::new(message) };
    let user = user.clone();
    host.store.change(change, out, move |host, now, result, out| {
        if let Some(writing) = host.offline.writing.get_mut(&user) {
            *writing -= 1;
            if *writing == 0 {
                host.offline.writing.remove(&user);
            }
        }
        if result.is_ok() {
            handle_kept(host, now, &user, out);
        }
        then(host, result.map_err(change_queue::not_written), out);
        host.acks().release(hold, out);
        host.forget_user(now, &user);
    });
}

/// Delivers a message to a session that came while it was written.
fn handle_kept(host: &mut Host, now: Instant, user: &Bare, out: &mut Outbox) {
    if let Some(data) = host.accounts.data_mut(user) {
        data.offline += 1;
    }
    let able = host.accounts.able(user);
    match able.iter().find(|key| !host.accounts.is_congested(**key)) {
        Some(key) => deliver(host, now, *key, out),
        None if able.is_empty() => phones::texts_due(host, now, user, out),
        // Once its client has read what it was sent.
        None => {}
    }
}

/// A session has said that it can be reached: the offline messages are for it (XEP-0160 §2).
pub(super) fn deliver(host: &mut Host, _now: Instant, key: Key, out: &mut Outbox) {
    let Some(session) = host.accounts.sessions.get(key) else { return };
    let is_able = session.is_available() && session.priority >= 0 && !session.takes_offline;
    if !is_able || host.accounts.is_congested(key) {
        return;
    }
    let user = session.jid.bare();
    if host.accounts.data(&user).is_none_or(|data| data.offline == 0)
        || !host.offline.reading.insert(user.clone())
    {
        return;
    }
    host.store.load(first_page(&user), out, move |host, now, loaded, out| {
        // It may have gone, and another may have come.
        let key = Some(key).filter(|key| host.accounts.sessions.contains(*key));
        let key = key.or_else(|| host.accounts.able(&user).first().copied());
        let (Some(key), Ok(StoreReply::Stanzas(StanzaPage { stanzas: messages, .. }))) = (key, loaded) else {
            host.offline.reading.remove(&user);
            return host.forget_user(now, &user);
        };
        let (mut ids, mut room) = (Vec::new(), limits::OFFLINE_BYTES);
        for (id, at, message) in messages {
            let weight = sm::weight(&message);
            if weight > room && !ids.is_empty() {
                break;
            }
            room = room.saturating_sub(weight);
            ids.push(id);
            host.deliver(now, key, delayed(message, at, user.domain()), out);
        }
        if ids.is_empty() {
            host.offline.reading.remove(&user);
            return host.forget_user(now, &user);
        }
        forget(host, &user, ids, out, move |host, now, done, out| {
            // A client that acknowledges gets the rest then.
            if done.is_ok()
                && host.accounts.unacknowledged(key, |_| true) == 0
                && !host.accounts.is_congested(key)
            {
                deliver(host, now, key, out);
            }
        });
    });
}

/// They are read elsewhere.
pub(super) fn clear(host: &mut Host, user: &Bare, out: &mut Outbox) {
    forget(host, user, Vec::new(), out, |_, _, _, _| {});
}

pub(super) fn forget(
    host: &mut Host,
    user: &Bare,
    ids: Vec<u64>,
    out: &mut Outbox,
    then: impl FnOnce(&mut Host, Instant, Result<(), StoreFailure>, &mut Outbox) + 'static,
) {
    host.offline.reading.insert(user.clone());
    let (user, count) = (user.clone(), ids.len() as u32);
    let is_all = ids.is_empty();
    host.store.change(Change::ForgetOffline { user: user.clone(), ids }, out, move |host, now, done, out| {
        host.offline.reading.remove(&user);
        // When it failed they come once more: better twice than never.
        if done.is_ok()
            && let Some(data) = host.accounts.data_mut(&user)
        {
            data.offline = if is_all { 0 } else { data.offline.saturating_sub(count) };
        }
        then(host, now, done, out);
        host.forget_user(now, &user);
    });
}

/// XEP-0013 §2.1 and §2.2: the client asks what waits before it is available, and so wants to choose.
pub(super) fn handle_disco(host: &mut Host, iq: &IqRequest<'_>, out: &mut Outbox) -> IqReply {
    let user = iq.to.bare();
    if iq.is_set || iq.from.bare() != user {
        return IqReply::Error(Condition::BadRequest.into());
    }
    if let Some(session) = iq.session.and_then(|key| host.accounts.sessions.get_mut(key)) {
        session.takes_offline = true;
    }
    let (iq, wants_items) = (iq.iq.clone(), iq.payload.ns() == ns::DISCO_ITEMS);
    read_senders(host, user.clone(), Vec::new(), out, move |host, senders, out| {
        let answer = match senders {
            Ok(senders) if wants_items => Ok(Some(headers(&user, &senders))),
            Ok(senders) => Ok(Some(count(senders.len()))),
            Err(error) => Err(change_queue::not_written(error)),
        };
        host.answer(&iq, answer, out);
    });
    IqReply::Later
}

/// The senders of the stored messages, page by page: all pages together are too large for memory.
fn read_senders(
    host: &mut Host,
    user: Bare,
    mut known: Vec<Sender>,
    out: &mut Outbox,
    then: impl FnOnce(&mut Host, Result<Vec<Sender>, StoreFailure>, &mut Outbox) + 'static,
) {
    let after = known.last().map_or(0, |(id, _)| *id);
    let then: SendersContinuation = Box::new(then);
    let load = Load::Offline { user: user.clone(), after, ids: Vec::new() };
    host.store.load(load, out, move |host, _, loaded, out| {
        let Ok(StoreReply::Stanzas(page)) = loaded else {
            return then(host, Err(StoreFailure::Unavailable), out);
        };
        let is_last = page.is_complete || page.stanzas.is_empty();
        known.extend(page.stanzas.iter().map(|(id, _, message)| (*id, message.attr("from").map(Box::from))));
        if is_last { then(host, Ok(known), out) } else { read_senders(host, user, known, out, then) }
    });
}

/// These, or all of them, as many as are sent at once.
fn view_messages(host: &mut Host, key: Key, iq: &IqRequest<'_>, wanted: Option<Vec<u64>>, out: &mut Outbox) {
    let (user, iq) = (iq.to.bare(), iq.iq.clone());
    let load = Load::Offline { user: user.clone(), after: 0, ids: wanted.clone().unwrap_or_default() };
    host.store.load(load, out, move |host, now, loaded, out| {
        let Ok(StoreReply::Stanzas(page)) = loaded else {
            return host.refuse(&iq, &change_queue::not_written(StoreFailure::Unavailable), out);
        };
        if !page.is_complete {
            let text = "more than is sent at once: view some of the messages by their nodes";
            return host.refuse(&iq, &StanzaError::new(Condition::ResourceConstraint, text), out);
        }
        let is_there = |id: &u64| page.stanzas.iter().any(|(known, _, _)| known == id);
        if !wanted.iter().flatten().all(is_there) {
            return host.refuse(&iq, &Condition::ItemNotFound.into(), out);
        }
        for (id, at, message) in page.stanzas {
            let item = Element::new("item", ns::OFFLINE).with("node", node_of(id));
            let message = message.child(Element::new("offline", ns::OFFLINE).child(item));
            host.deliver(now, key, delayed(message, at, user.domain()), out);
        }
        host.answer(&iq, Ok(None), out);
    });
}

/// All, when none is named.
fn remove_messages(host: &mut Host, iq: &IqRequest<'_>, ids: Vec<u64>, out: &mut Outbox) {
    let (user, iq) = (iq.to.bare(), iq.iq.clone());
    if ids.len() > limits::OFFLINE as usize {
        let error = StanzaError::new(Condition::PolicyViolation, "more messages than can be there");
        return host.refuse(&iq, &error, out);
    }
    if ids.is_empty() {
        return finish_removal(host, &user, iq, ids, out);
    }
    read_senders(host, user.clone(), Vec::new(), out, move |host, senders, out| {
        let Ok(messages) = senders else {
            return host.refuse(&iq, &change_queue::not_written(StoreFailure::Unavailable), out);
        };
        if !ids.iter().all(|id| messages.iter().any(|(known, _)| known == id)) {
            return host.refuse(&iq, &Condition::ItemNotFound.into(), out);
        }
        finish_removal(host, &user, iq, ids, out);
    });
}

fn finish_removal(host: &mut Host, user: &Bare, iq: Element, ids: Vec<u64>, out: &mut Outbox) {
    forget(host, user, ids, out, move |host, _, done, out| {
        host.answer(&iq, done.map(|()| None).map_err(change_queue::not_written), out);
    });
}

fn node_of(id: u64) -> String {
    format!("{id:020}")
}

/// The id of a message that waits, and the address of its sender.
type Sender = (u64, Option<Box<str>>);

type SendersContinuation = Box<dyn FnOnce(&mut Host, Result<Vec<Sender>, StoreFailure>, &mut Outbox)>;

fn first_page(user: &Bare) -> Load {
    Load::Offline { user: user.clone(), after: 0, ids: Vec::new() }
}

fn headers(user: &Bare, messages: &[Sender]) -> Element {
    let item = |(id, from): &Sender| {
        Element::new("item", ns::DISCO_ITEMS)
            .with("jid", user.as_str())
            .with("node", node_of(*id))
            .with_opt("name", from.clone())
    };
    Element::new("query", ns::DISCO_ITEMS).with("node", ns::OFFLINE).children(messages.iter().map(item))
}

fn count(messages: usize) -> Element {
    let field = |var: &'static str, value: String| {
        Element::new("field", ns::DATA).with("var", var).child(Element::new("value", ns::DATA).text(value))
    };
    let form = Element::new("x", ns::DATA)
        .with("type", "result")
        .child(field("FORM_TYPE", ns::OFFLINE.to_owned()).with("type", "hidden"))
        .child(field("number_of_messages", messages.to_string()));
    Element::new("query", ns::DISCO_INFO)
        .with("node", ns::OFFLINE)
        .child(
            Element::new("identity", ns::DISCO_INFO)
                .with("category", "automation")
                .with("type", "message-list"),
        )
        .child(Element::new("feature", ns::DISCO_INFO).with("var", ns::OFFLINE))
        .child(form)
}

/// XEP-0013 §2.3 to §2.7.
fn flexible(host: &mut Host, _now: Instant, iq: &IqRequest<'_>, out: &mut Outbox) -> IqReply {
    let has = |name: &str| iq.payload.get(name, ns::OFFLINE).is_some();
    let is_wanted = |action: &'static str| {
        let items = iq.payload.elements().filter(move |item| item.attr("action") == Some(action));
        items.filter_map(|item| item.attr("node")?.parse().ok()).collect::<Vec<u64>>()
    };
    let (view, remove) = (is_wanted("view"), is_wanted("remove"));
    match (iq.is_set, iq.session) {
        (true, _) if has("purge") => remove_messages(host, iq, Vec::new(), out),
        (true, _) if !remove.is_empty() => remove_messages(host, iq, remove, out),
        (_, None) => return IqReply::Error(Condition::NotAllowed.into()),
        (false, Some(key)) if has("fetch") => view_messages(host, key, iq, None, out),
        (false, Some(key)) if !view.is_empty() => view_messages(host, key, iq, Some(view), out),
        _ => return IqReply::Error(Condition::BadRequest.into()),
    }
    IqReply::Later
}

/// The sender of a message, if its address is valid.
pub(super) fn sender(message: &Element) -> Option<Jid> {
    stanza::from(message).ok().flatten()
}
