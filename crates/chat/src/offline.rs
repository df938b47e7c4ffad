//! Messages for accounts without a session (XEP-0160), and their retrieval (XEP-0013).
//!
//! A message that no session takes is kept (`keep`), after its hints are asked. A session that becomes able to take
//! messages gets them page by page: read, delivered, removed from the store, and the next page once its client has
//! acknowledged (`deliver`, `handle_page`, `handle_removed`). If a step fails they stay in the store and come again. The
//! number of waiting messages is with the account's data, so an account without any costs no read.

mod archived;
mod retrieval;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use stdx::Instant;
use stdx::slab::Key;
use xmpp::stanza::{self, Condition, StanzaError};
use xmpp::{Bare, Element, Jid, Level, Specification, ns};

use super::ack::PendingAcks;
use super::effect::{Change, Load, StoreFailure, StoreReply};
use super::feature::{Feature, IqHandler, IqReply, IqRequest, IqTarget, IqView};
use super::iq_effect::IqEffect;
use super::phones::TextEffect;
use super::session::Session;
use super::store_requests::StoreRequests;
use super::{Host, Outbox, StanzaPage, change_queue, hints, push, sm};
use crate::account_memory::AccountMemory;
use crate::{carbons, expiry, limits, outgoing, phones};
use retrieval::{count, describe, headers, read_for_view, read_senders, view};

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

/// The feature: the messages that wait for accounts. It is told of messages, of sessions that take messages and of requests for
/// them, and returns effects.
#[derive(Default)]
pub(super) struct OfflineMessages {
    /// The number of messages of an account that are being written: they are counted once they are on disk.
    writing: HashMap<Bare, u32>,
    /// Accounts whose messages are being read for a session, or removed: at most one at a time, so that no
    /// message is delivered twice.
    reading: HashSet<Bare>,
    /// The time of the last message that was kept, and the number of those kept before that came at the same time.
    last: (Instant, u64),
}

/// Everything that [`OfflineMessages`] asks of its host, for one account.
pub(super) enum OfflineEffect {
    /// Keep a message that no session can take now.
    Keep(Element, MessageOrigin),
    /// Write a message; answered by `handle_written`.
    Write(Change, MessageOrigin),
    /// The message cannot be kept.
    Refuse(MessageOrigin, StanzaError),
    /// Deliver a message to these sessions.
    Deliver(Vec<Key>, Element),
    /// Send the waiting messages to the account's phones.
    SendToPhones,
    /// Read messages; answered by `handle_read`.
    Read(Load, OfflineRead),
    /// Deliver messages to a session, and then remove them.
    DeliverPage(Key, Vec<Element>, Change, OfflineRemoval),
    /// The reading for a session has ended: the account may leave memory.
    EndReading,
    /// Remove messages; answered by `handle_removed`.
    Remove(Change, OfflineRemoval),
    /// The text that a phone took is removed.
    TextRemoved(Result<(), StoreFailure>),
    /// Deliver messages to the session that asked for them by the iq, and then answer it.
    View(Key, Vec<Element>, Element),
    /// Answer a request.
    Answer(Element, Result<Option<Element>, StanzaError>),
}

/// The origin of a message that is to be kept: it learns of a failure.
pub(super) enum MessageOrigin {
    /// A stanza: its sender gets the error.
    Stanza(Element),
    /// A phone: the outcome of its message with this id depends on it.
    Phone(u64),
}

/// The purpose of a read of messages.
pub(super) enum OfflineRead {
    /// A session takes messages.
    Delivery(Key),
    /// A client of Bind 2 reads its archive: the first entry of the archive.
    ArchiveStart,
    /// The messages of which the archive has a copy are to be removed. `first`: the id of its first entry.
    Archived { first: Box<str> },
    /// A request needs the senders of all messages; `known`: those of the pages before.
    Senders { known: Vec<Sender>, goal: SendersGoal },
    /// The session wants to view these messages; `None`: all.
    View { key: Key, iq: Element, wanted: Option<Vec<u64>> },
}

/// The request that needs the senders of all messages that wait.
pub(super) enum SendersGoal {
    /// The number of messages (XEP-0013 §2.1).
    Count(Element),
    /// The list of messages with their senders (XEP-0013 §2.2).
    Headers(Element),
    /// Remove these messages, if all of them are there.
    Remove(Element, Vec<u64>),
}

/// A removal of messages: their number and its purpose.
pub(super) struct OfflineRemoval {
    /// `None`: all of the account.
    count: Option<u32>,
    goal: RemovalGoal,
}

/// The purpose of a removal of messages.
pub(super) enum RemovalGoal {
    /// The session was given them. It gets the next ones if its client has acknowledged these.
    Delivered(Key),
    /// A phone took the text.
    Text,
    /// The client's request, which is answered.
    Request(Element),
    /// The client reads them in its archive. The next messages are those behind the id `after`; `None`: there are none.
    Archived { first: Box<str>, after: Option<u64> },
}

/// The id of a message that waits, and the address of its sender.
type Sender = (u64, Option<Box<str>>);

impl OfflineMessages {
    /// The account has to stay in memory, where its messages are counted.
    pub(super) fn is_keeping(&self, user: &Bare) -> bool {
        self.writing.contains_key(user) || self.reading.contains(user)
    }

    /// Keeps a message that came at `at`.
    fn keep(
        &mut self,
        accounts: &AccountMemory,
        at: Instant,
        user: &Bare,
        (message, origin): (Element, MessageOrigin),
    ) -> OfflineEffect {
        // Without the account's data the number is not known, and the message is refused.
        let waiting = accounts.data(user).map(|data| data.offline);
        if accounts.is_anonymous(user) || waiting.is_none_or(|waiting| waiting >= limits::OFFLINE) {
            // XEP-0160 §2.
            return OfflineEffect::Refuse(origin, Condition::ServiceUnavailable.into());
        }
        *self.writing.entry(user.clone()).or_default() += 1;
        // The store knows a message by its account, time and content when it has to write it again; so no two of one turn have the
        // same time.
        self.last = if self.last.0 == at { (at, self.last.1 + 1) } else { (at, 0) };
        let at = at + Duration::from_micros(self.last.1);
        let change = Change::Offline { user: user.clone(), at, stanza: Box::new(message) };
        OfflineEffect::Write(change, origin)
    }

    /// A message was written, or not. A session or a phone that came while it was written gets it.
    fn handle_written(
        &mut self,
        accounts: &mut AccountMemory,
        user: &Bare,
        is_written: bool,
    ) -> Option<OfflineEffect> {
        if let Some(writing) = self.writing.get_mut(user) {
            *writing -= 1;
            if *writing == 0 {
                self.writing.remove(user);
            }
        }
        if !is_written {
            return None;
        }
        if let Some(data) = accounts.data_mut(user) {
            data.offline += 1;
        }
        let able = accounts.able(user);
        match able.iter().find(|key| !accounts.is_congested(**key)) {
            Some(key) if takes_messages(accounts, *key) => self.deliver(accounts, user, *key),
            None if able.is_empty() => Some(OfflineEffect::SendToPhones),
            // Once its client has read what it was sent.
            Some(_) | None => None,
        }
    }

    /// A message was for a session that has ended, and perhaps never had it. It goes to those that have not had it either, or
    /// is kept.
    pub(super) fn handle_undelivered(
        &mut self,
        accounts: &AccountMemory,
        at: Instant,
        (session, user): (&Jid, &Bare),
        message: Element,
    ) -> Option<OfflineEffect> {
        // Copies and results of archives are stored elsewhere.
        let is_told = |child: &Element| matches!(child.ns(), ns::CARBONS | ns::MAM);
        if !hints::is_worth_keeping(&message) || message.elements().any(is_told) {
            return None;
        }
        let mut able = accounts.able(user);
        if able.is_empty() {
            let origin = MessageOrigin::Stanza(message.clone());
            return Some(self.keep(accounts, at, user, (message, origin)));
        }
        let was_alone = message.attr("to") == Some(session.as_str());
        let is_copied = carbons::is_eligible(&message, false);
        // A session has had the message if it took messages for the account when the message came, or got a copy. Each other one gets it now, so
        // that it is not lost for any.
        let has_had = |other: &Session| {
            let had_copy = is_copied && other.has_carbons && other.carbons_since < at;
            had_copy || (!was_alone && other.able_since < at)
        };
        able.retain(|key| accounts.sessions.get(*key).is_some_and(|other| !has_had(other)));
        Some(OfflineEffect::Deliver(able, delayed(message, at, user.domain())))
    }

    /// A session may take messages: the account whose effect follows.
    pub(super) fn handle_session(
        &mut self,
        accounts: &AccountMemory,
        key: Key,
    ) -> Option<(Bare, OfflineEffect)> {
        if !takes_messages(accounts, key) {
            return None;
        }
        let user = accounts.sessions.get(key)?.jid.bare();
        let effect = self.deliver(accounts, &user, key)?;
        Some((user, effect))
    }

    /// The session of that account [`takes_messages`]: the waiting ones are for it (XEP-0160 §2).
    fn deliver(&mut self, accounts: &AccountMemory, user: &Bare, key: Key) -> Option<OfflineEffect> {
        let waits = accounts.data(user).is_some_and(|data| data.offline > 0);
        if !waits || !self.reading.insert(user.clone()) {
            return None;
        }
        Some(OfflineEffect::Read(page_after(user, 0), OfflineRead::Delivery(key)))
    }

    /// The store's answer to a read.
    fn handle_read(
        &mut self,
        accounts: &AccountMemory,
        now: Instant,
        user: &Bare,
        read: OfflineRead,
        loaded: Result<StoreReply, StoreFailure>,
    ) -> OfflineEffect {
        let page = match (loaded, &read) {
            (Ok(StoreReply::Stanzas(page)), _) => Some(page),
            (Ok(StoreReply::Page(archive)), OfflineRead::ArchiveStart) => {
                return self.handle_archive_start(accounts, user, &archive);
            }
            _ => None,
        };
        match read {
            OfflineRead::ArchiveStart => self.end_archived(accounts, user),
            OfflineRead::Archived { first } => self.handle_archived(accounts, user, (first, page)),
            OfflineRead::Delivery(key) => self.handle_page(accounts, now, user, (key, page)),
            OfflineRead::Senders { known, goal } => self.handle_senders(user, known, goal, page),
            OfflineRead::View { key, iq, wanted } => view(user, (key, iq, wanted), page),
        }
    }

    /// Delivers as many messages of a page as one turn may have, at least one.
    fn handle_page(
        &mut self,
        accounts: &AccountMemory,
        now: Instant,
        user: &Bare,
        (key, page): (Key, Option<StanzaPage>),
    ) -> OfflineEffect {
        // It may have gone, and another may have come.
        let key = Some(key).filter(|key| accounts.sessions.contains(*key));
        let key = key.or_else(|| accounts.able(user).first().copied());
        let (Some(key), Some(StanzaPage { mut stanzas, .. })) = (key, page) else {
            self.reading.remove(user);
            return OfflineEffect::EndReading;
        };
        let (mut ids, mut room) = (Vec::new(), limits::OFFLINE_BYTES);
        for (id, _, message) in &stanzas {
            let weight = sm::weight(message);
            if weight > room && !ids.is_empty() {
                break;
            }
            room = room.saturating_sub(weight);
            ids.push(*id);
        }
        if ids.is_empty() {
            self.reading.remove(user);
            return OfflineEffect::EndReading;
        }
        stanzas.truncate(ids.len());
        let stanzas = stanzas.into_iter().filter(|(_, _, message)| !expiry::has_expired(message, now));
        let messages = stanzas.map(|(_, at, message)| delayed(message, at, user.domain())).collect();
        let (change, removal) = self.begin_removal(user, ids, RemovalGoal::Delivered(key));
        OfflineEffect::DeliverPage(key, messages, change, removal)
    }

    /// Removes messages; all when no id is named.
    pub(super) fn remove(&mut self, user: &Bare, ids: Vec<u64>, goal: RemovalGoal) -> OfflineEffect {
        let (change, removal) = self.begin_removal(user, ids, goal);
        OfflineEffect::Remove(change, removal)
    }

    /// Marks the account as read until the removal is answered, so that no session gets the same messages meanwhile.
    fn begin_removal(&mut self, user: &Bare, ids: Vec<u64>, goal: RemovalGoal) -> (Change, OfflineRemoval) {
        self.reading.insert(user.clone());
        let count = (!ids.is_empty()).then_some(ids.len() as u32);
        (Change::ForgetOffline { user: user.clone(), ids }, OfflineRemoval { count, goal })
    }

    /// Messages were removed, or not.
    fn handle_removed(
        &mut self,
        accounts: &mut AccountMemory,
        user: &Bare,
        OfflineRemoval { count, goal }: OfflineRemoval,
        done: Result<(), StoreFailure>,
    ) -> Option<OfflineEffect> {
        self.reading.remove(user);
        // When it failed they come once more: better twice than never.
        if done.is_ok()
            && let Some(data) = accounts.data_mut(user)
        {
            data.offline = count.map_or(0, |count| data.offline.saturating_sub(count));
        }
        match goal {
            // A client that acknowledges gets the rest then.
            RemovalGoal::Delivered(key) => {
                let has_all = done.is_ok() && accounts.unacknowledged(key, |_| true) == 0;
                (has_all && takes_messages(accounts, key))
                    .then(|| self.deliver(accounts, user, key))
                    .flatten()
            }
            RemovalGoal::Text => Some(OfflineEffect::TextRemoved(done)),
            RemovalGoal::Request(iq) => {
                Some(OfflineEffect::Answer(iq, done.map(|()| None).map_err(change_queue::not_written)))
            }
            RemovalGoal::Archived { first, after } => {
                Some(self.handle_archived_removed(accounts, user, (first, after.filter(|_| done.is_ok()))))
            }
        }
    }

    /// XEP-0013 §2.3 to §2.7.
    pub(super) fn handle_request(
        &mut self,
        user: &Bare,
        iq: &IqRequest<'_>,
    ) -> Result<OfflineEffect, StanzaError> {
        let has = |name: &str| iq.payload.get(name, ns::OFFLINE).is_some();
        let is_wanted = |action: &'static str| {
            let items = iq.payload.elements().filter(move |item| item.attr("action") == Some(action));
            items.filter_map(|item| item.attr("node")?.parse().ok()).collect::<Vec<u64>>()
        };
        let (wanted, ids) = (is_wanted("view"), is_wanted("remove"));
        match (iq.is_set, iq.session) {
            (true, _) if has("purge") => {
                Ok(self.remove(user, Vec::new(), RemovalGoal::Request(iq.iq.clone())))
            }
            (true, _) if ids.len() > limits::OFFLINE as usize => {
                Err(StanzaError::new(Condition::PolicyViolation, "more messages than can be there"))
            }
            (true, _) if !ids.is_empty() => {
                Ok(read_senders(user, Vec::new(), SendersGoal::Remove(iq.iq.clone(), ids)))
            }
            (_, None) => Err(Condition::NotAllowed.into()),
            (false, Some(key)) if has("fetch") => Ok(read_for_view(user, key, iq.iq.clone(), None)),
            (false, Some(key)) if !wanted.is_empty() => {
                Ok(read_for_view(user, key, iq.iq.clone(), Some(wanted)))
            }
            _ => Err(Condition::BadRequest.into()),
        }
    }

    /// The senders of the stored messages, page by page: all pages together are too large for memory, so only
    /// ids and senders are kept.
    fn handle_senders(
        &mut self,
        user: &Bare,
        mut known: Vec<Sender>,
        goal: SendersGoal,
        page: Option<StanzaPage>,
    ) -> OfflineEffect {
        let Some(page) = page else {
            let (SendersGoal::Count(iq) | SendersGoal::Headers(iq) | SendersGoal::Remove(iq, _)) = goal;
            return OfflineEffect::Answer(iq, Err(change_queue::not_written(StoreFailure::Unavailable)));
        };
        known.extend(page.stanzas.iter().map(|(id, _, message)| (*id, message.attr("from").map(Box::from))));
        if !page.is_complete && !page.stanzas.is_empty() {
            return read_senders(user, known, goal);
        }
        match goal {
            SendersGoal::Count(iq) => OfflineEffect::Answer(iq, Ok(Some(count(known.len())))),
            SendersGoal::Headers(iq) => OfflineEffect::Answer(iq, Ok(Some(headers(user, &known)))),
            SendersGoal::Remove(iq, ids) => {
                if !ids.iter().all(|id| known.iter().any(|(known, _)| known == id)) {
                    return OfflineEffect::Answer(iq, Err(Condition::ItemNotFound.into()));
                }
                self.remove(user, ids, RemovalGoal::Request(iq))
            }
        }
    }
}

#[cfg(test)]
impl OfflineMessages {
    pub(super) fn len(&self) -> usize {
        self.writing.len() + self.reading.len()
    }
}

/// True if waiting messages are for the session, and its client has read enough of those before.
fn takes_messages(accounts: &AccountMemory, key: Key) -> bool {
    let is_able = |session: &Session| session.is_able() && !session.takes_offline && !session.is_congested();
    accounts.sessions.get(key).is_some_and(is_able)
}

/// A page of the waiting messages behind that id, the oldest first.
fn page_after(user: &Bare, after: u64) -> Load {
    Load::Offline { user: user.clone(), after, ids: Vec::new() }
}

impl OfflineEffect {
    /// Keeps a message that no session can take now. Its sender learns of a failure before the message counts as handled.
    pub(super) fn keep(message: Element) -> OfflineEffect {
        let origin = MessageOrigin::Stanza(message.clone());
        OfflineEffect::Keep(message, origin)
    }
}

/// A question of service discovery about the messages that wait.
pub(super) fn handle_disco(view: &mut IqView<'_>, iq: &IqRequest<'_>) -> IqReply {
    match describe(view.accounts, &iq.to.bare(), iq) {
        Ok(effect) => IqReply::Perform(IqEffect::Offline(effect)),
        Err(error) => IqReply::Error(error),
    }
}

/// Requests of XEP-0013 need the store, so they are performed after the handler has returned.
fn flexible(_view: &mut IqView<'_>, _iq: &IqRequest<'_>) -> IqReply {
    IqReply::Perform(IqEffect::RetrieveOffline)
}

/// Performs an effect of [`OfflineMessages`] for an account; the store's replies go back into it.
pub(super) fn perform(host: &mut Host, now: Instant, user: &Bare, effect: OfflineEffect, out: &mut Outbox) {
    match effect {
        OfflineEffect::Keep(message, origin) => {
            if push::is_pushed(user, &message) {
                let effects = host.push.handle_message(now, &host.accounts, user, true);
                host.push.perform((&mut host.accounts, &mut host.store, &mut host.rng), effects, out);
            }
            let effect = host.offline.keep(&host.accounts, now, user, (message, origin));
            perform(host, now, user, effect, out);
        }
        OfflineEffect::Write(change, origin) => {
            write((&mut host.store, &mut host.pending_acks), user, (change, origin), out);
        }
        OfflineEffect::Refuse(MessageOrigin::Stanza(message), error) => host.refuse(&message, &error, out),
        // Its outcome says already that it was not kept.
        OfflineEffect::Refuse(MessageOrigin::Phone(_), _) => {}
        OfflineEffect::Deliver(keys, message) => host.deliver(now, &keys, message, out),
        OfflineEffect::SendToPhones => phones::perform_text(host, now, user, TextEffect::SendNext, out),
        OfflineEffect::Read(load, read) => {
            let user = user.clone();
            host.store.load(load, out, move |host, now, loaded, out| {
                let effect = host.offline.handle_read(&host.accounts, now, &user, read, loaded);
                perform(host, now, &user, effect, out);
            });
        }
        OfflineEffect::DeliverPage(key, messages, change, removal) => {
            messages.into_iter().for_each(|message| host.deliver(now, &[key], message, out));
            perform(host, now, user, OfflineEffect::Remove(change, removal), out);
        }
        OfflineEffect::EndReading => host.forget_user(now, user),
        OfflineEffect::Remove(change, removal) => {
            let user = user.clone();
            host.store.change(change, out, move |host, now, done, out| {
                if let Some(effect) = host.offline.handle_removed(&mut host.accounts, &user, removal, done) {
                    perform(host, now, &user, effect, out);
                }
                host.forget_user(now, &user);
            });
        }
        OfflineEffect::TextRemoved(done) => {
            let effect = host.phones.handle_text_removed(&host.accounts, now, user, done);
            phones::perform_text(host, now, user, effect, out);
        }
        OfflineEffect::View(key, messages, iq) => {
            messages.into_iter().for_each(|message| host.deliver(now, &[key], message, out));
            outgoing::answer(&iq, Ok(None), out);
        }
        OfflineEffect::Answer(iq, result) => outgoing::answer(&iq, result, out),
    }
}

/// Writes a message. Until the store has answered, the message under way is not handled.
fn write(
    (store, pending_acks): (&mut StoreRequests, &mut PendingAcks),
    user: &Bare,
    (change, origin): (Change, MessageOrigin),
    out: &mut Outbox,
) {
    let (user, guard) = (user.clone(), pending_acks.guard());
    store.change(change, out, move |host, now, result, out| {
        if let Some(effect) = host.offline.handle_written(&mut host.accounts, &user, result.is_ok()) {
            perform(host, now, &user, effect, out);
        }
        match (origin, result) {
            (MessageOrigin::Phone(id), Ok(())) => host.phones.pending_messages().handle_kept(id),
            (_, Ok(())) => {}
            (origin, Err(error)) => {
                let refusal = OfflineEffect::Refuse(origin, change_queue::not_written(error));
                perform(host, now, &user, refusal, out);
            }
        }
        host.acks().release(guard, out);
        host.forget_user(now, &user);
    });
}

/// Adds the time at which the message came, unless this domain has added it already (XEP-0203).
pub(crate) fn delayed(mut message: Element, at: Instant, domain: &str) -> Element {
    let is_ours = |child: &Element| child.is("delay", ns::DELAY) && child.attr("from") == Some(domain);
    if !message.elements().any(is_ours) {
        let delay = Element::new("delay", ns::DELAY);
        message.push(delay.with("from", domain).with("stamp", xmpp::time::stamp(at)));
    }
    message
}

/// Takes out delays in the name of the account or of its server, which only these may add (XEP-0203 §2): a sender could date its message back, in
/// the place of the true time. Each may speak for itself: an account's nodes send their old items to its own clients.
pub(crate) fn remove_forged_delays(message: &mut Element, from: &Jid, user: &Bare) {
    let is_own = |by: &Jid| by.domain() == user.domain() && (by.local().is_none() || by.bare() == *user);
    message.remove_children(|child| {
        let by = child.attr("from").filter(|_| child.is("delay", ns::DELAY)).map(Jid::parse);
        by.is_some_and(|by| by.is_ok_and(|by| is_own(&by) && by.bare() != from.bare()))
    });
}

/// The sender of a message, if its address is valid.
pub(super) fn sender(message: &Element) -> Option<Jid> {
    stanza::from(message).ok().flatten()
}
