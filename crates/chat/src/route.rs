//! Where stanzas go: from a client (RFC 6120 §10, RFC 6121 §8) and to our addresses.
//!
//! A stanza passes here twice: once at the host of its sender's account, which checks what the sender may do and archives its
//! messages, and once at the host of its addressee, which chooses the sessions. Work that needs an account's data waits until
//! they are in memory, in the order in which it came. Each message is acknowledged to its sender when its last write is done,
//! so every branch ends its guard (`Acks::end`).
//!
//! A client's stanza: `handle_element_of_session` waits for the account and looks at the address. An iq for the account
//! itself goes to `ask`, other iqs to the host of their address; presence to `presence::handle_outbound`; a message to
//! `message_from`.
//!
//! A stanza for an address of this host: `routed` chooses by the domain. One for a service (rooms, publish-subscribe, bytestreams, callers
//! from outside) goes to `to_service`. For an account `to_account` takes the mark of the acknowledgement off and asks whether the
//! account exists and whether it blocks the sender (`ArrivalRefusal`), and `message_to`, `ask` or `presence` ends the way.

use stdx::Instant;
use stdx::slab::Key;
use xmpp::stanza::{self, Condition, StanzaError, StanzaKind};
use xmpp::{Bare, Element, Jid, ns};

use super::account_memory::AccountMemory;
use super::ack::{self, AckGuard};
use super::archive::ArchiveWriter;
use super::caps::{Caps, CapsEffect};
use super::feature::{IqReply, IqRequest, IqTarget, IqView, find};
use super::offline::OfflineEffect;
use super::privileged::{ComponentMessage, PrivilegedComponents};
use super::pubsub::{Approval, PubSubEvent};
use super::push::{Push, PushContext};
use super::rtbl::RtblFilter;
use super::user::{AccountState, QueuedWork, refuse_waiting, too_much_waits, wait_for_account_data};
use super::{Host, HostSettings, Outbox, push};
use crate::{
    blocking, bytestreams, carbons, connection, hints, iq_effect, last, message_writes, no_account, offline,
    outgoing, phones, presence, privileged, read_queues, rtbl, subaddress, webhooks,
};

impl Host {
    /// Takes a stanza from another host or server, or from a service of ours: `to` is an address of this host's.
    pub fn handle_routed(&mut self, now: Instant, element: Element, out: &mut Outbox) {
        let Ok(Some(to)) = stanza::to(&element) else { return };
        if self.acks().handle_report(&element, &to, out) {
            let due = self.resumes.take_due(now, &self.accounts);
            return self.answer_resumes(now, due, out);
        }
        // Reads for the stanza count for its sender.
        let requester =
            stanza::from(&element).ok().flatten().map(|from| self.store.reads.requester_of(&from));
        read_queues::with_requester(self, requester, |host| routed(host, now, element, &to, out));
    }

    /// Ends the way of a stanza here (`Acks::refuse`).
    pub(super) fn refuse(&mut self, stanza: &Element, error: &StanzaError, out: &mut Outbox) {
        self.acks().refuse(stanza, error, out);
    }
}

/// True if the request concerns the account itself or its invitations.
/// Clients send these requests to the domain, which may be of another host; the data are the account's, which are here.
fn is_about_account(iq: &Element, to: &Jid, user: &Bare) -> bool {
    let is_own_domain = to.local().is_none() && to.resource().is_none() && to.domain() == user.domain();
    is_own_domain && (iq.get("query", ns::REGISTER).is_some() || super::invite::is_command(iq))
}

/// A stanza of a session of this host, with its full address as `from`. Reads of the store that follow count for the
/// session's account, which the caller sees to (`read_queues::with_requester`).
pub(super) fn handle_element_of_session(
    host: &mut Host,
    now: Instant,
    key: Key,
    mut element: Element,
    out: &mut Outbox,
) {
    let Some(session) = host.accounts.sessions.get(key) else { return };
    let (jid, bare) = (session.jid.clone(), session.jid.bare());
    // The effect on contacts depends on the roster and the blocking list.
    if let AccountState::Loading(_) = host.user(now, &bare, out).state {
        let work = QueuedWork::FromSession(key, Box::new(element));
        if let Err(work) = wait_for_account_data(&mut host.accounts, &bare, work) {
            refuse_waiting(&mut host.acks(), now, work, &too_much_waits(), out);
            connection::perform_deliveries(host, now, out);
        }
        return;
    }
    let Ok(to) = stanza::to(&element) else {
        // RFC 6120 §8.3.3.8: the answer goes to the sender, without the address that cannot be one.
        element.unset("to");
        return host.refuse(&element, &Condition::JidMalformed.into(), out);
    };
    let is_own = to.as_ref().is_none_or(|to| to.is_bare() && to.bare() == bare);
    match stanza::kind_of(&element) {
        Some(StanzaKind::Iq) if is_own => ask(host, now, &element, &jid, &bare.into_jid(), Some(key), out),
        // Asked of the domain, which is another host's, about what is this one's.
        Some(StanzaKind::Iq) if to.as_ref().is_some_and(|to| is_about_account(&element, to, &bare)) => {
            let domain = Jid::new(None, bare.domain(), None).unwrap_or_else(|_| bare.into_jid());
            ask(host, now, &element, &jid, &domain, Some(key), out);
        }
        Some(StanzaKind::Iq) => match blocking::blocks_outgoing(&host.accounts, key, &element) {
            Some(error) => {
                blocking::refuse_blocked(&mut host.accounts, now, key, &element, &error, out);
                connection::perform_deliveries(host, now, out);
            }
            None => host.route(element, out),
        },
        Some(StanzaKind::Presence) => {
            let is_broadcast = to.is_none();
            match presence::handle_outbound((&mut host.accounts, &host.avatars), now, key, to, element, out) {
                Some(effect) => presence::perform(host, now, effect, out),
                None => connection::perform_deliveries(host, now, out),
            }
            // XEP-0160 §2: offline messages come with presence that has no negative priority, as the feature checks.
            if is_broadcast && let Some((user, effect)) = host.offline.handle_session(&host.accounts, key) {
                offline::perform(host, now, &user, effect, out);
            }
        }
        Some(StanzaKind::Message) => message_from(host, now, key, element, out),
        None => {}
    }
}

/// A message of a session, on its way out. It may be refused (blocking list, no place for its writes) only before it is in
/// the sender's archive, so that no archive has a message that was not sent.
fn message_from(host: &mut Host, now: Instant, key: Key, mut element: Element, out: &mut Outbox) {
    let Some(jid) = host.accounts.sessions.get(key).map(|session| session.jid.clone()) else { return };
    if element.attr("to").is_none() {
        // RFC 6120 §10.3.1: a message without `to` is for the sender's own bare address.
        element.set("to", jid.bare_str());
    }
    if let Some(error) = blocking::blocks_outgoing(&host.accounts, key, &element) {
        host.acks().refuse_to_session(now, key, (&element, &error), out);
        return connection::perform_deliveries(host, now, out);
    }
    if host.store.message_writes.is_refused(now, &element) {
        return host.refuse(&element, &message_writes::refusal(), out);
    }
    let mark = ack::take_ack_token(&mut element);
    let id = ArchiveWriter::of(host).record_sent(now, &jid.bare(), &element, mark.as_deref(), out);
    if id.is_some() {
        host.acks().hold(mark.as_deref());
    }
    webhooks::report_message(&host.settings, now, &element, id.as_deref(), out);
    // XEP-0280: for the sender's other clients, with the id that the archive gave. The token is not in their copies: they end
    // nothing.
    carbons::copy_sent(&mut host.accounts, now, key, &element, id, out);
    connection::perform_deliveries(host, now, out);
    // The token travels with the message again: its addressee's host reports the end of its way.
    ack::put_ack_token(&mut element, mark);
    host.route(element, out);
}

/// A stanza for an address of this host. Each branch below takes the mark of the acknowledgement with it; only a stanza
/// that waits for an account's data keeps it, until `to_account` takes it off.
fn routed(host: &mut Host, now: Instant, mut element: Element, to: &Jid, out: &mut Outbox) {
    let from = match stanza::from(&element) {
        Ok(Some(from)) => from,
        // From the account itself, to a session that named no recipient.
        Ok(None) => {
            if let Some(key) = host.accounts.session_of(to) {
                host.deliver(now, &[key], element, out);
            }
            return;
        }
        Err(_) => return,
    };
    if let Some(service) = Service::at(&host.settings, to.domain()) {
        return to_service(host, now, (service, element), (&from, to), out);
    }
    if !host.settings.is_local(to.domain()) {
        // The domain has been removed while the stanza was on its way here.
        return host.refuse(&element, &Condition::RemoteServerNotFound.into(), out);
    }
    if to.local().is_none() {
        return match stanza::kind_of(&element) {
            Some(StanzaKind::Iq) => ask(host, now, &element, &from, to, None, out),
            kind => {
                let hold = host.pending_acks.begin(&mut element);
                // Presence for a domain of ours has no effect.
                if privilege::is_wrapped_message(&element) {
                    component_message(host, now, &element, &from, out);
                } else if kind == Some(StanzaKind::Message)
                    && !rtbl::is_from_source(&host.settings.rtbl, &from, &element)
                {
                    host.refuse(&element, &Condition::ServiceUnavailable.into(), out);
                }
                host.acks().end(hold, out);
            }
        };
    }
    let bare = to.bare();
    if let AccountState::Loading(_) = host.user(now, &bare, out).state {
        let queued = wait_for_account_data(&mut host.accounts, &bare, QueuedWork::Routed(Box::new(element)));
        return queued
            .unwrap_or_else(|work| refuse_waiting(&mut host.acks(), now, work, &too_much_waits(), out));
    }
    to_account(host, now, element, out);
}

/// A message that a component has wrapped.
fn component_message(host: &mut Host, now: Instant, wrapped: &Element, from: &Jid, out: &mut Outbox) {
    match ComponentMessage::unwrap((&host.settings, &host.accounts), wrapped, from) {
        Ok(ComponentMessage::OfServer(message)) => outgoing::send(message, out),
        Ok(ComponentMessage::OfAccount(_, message))
            if host.store.message_writes.is_refused(now, &message) =>
        {
            host.refuse(wrapped, &message_writes::refusal(), out);
        }
        Ok(ComponentMessage::OfAccount(user, message)) => {
            record_sent(host, now, &user, &message, out);
            outgoing::send(message, out);
        }
        Err(error) => host.refuse(wrapped, &error, out),
    }
}

/// A message of an account that none of its sessions has sent, of a component or of its phone: it is in the archive, and the account's clients
/// get a copy.
pub(super) fn record_sent(host: &mut Host, now: Instant, user: &Bare, message: &Element, out: &mut Outbox) {
    let id = ArchiveWriter::of(host).record_sent(now, user, message, None, out);
    webhooks::report_message(&host.settings, now, message, id.as_deref(), out);
    carbons::copy_without_session(&mut host.accounts, now, user, message, id, out);
    connection::perform_deliveries(host, now, out);
}

/// A service of this host, at a domain of its own below one of accounts.
#[derive(Clone, Copy)]
enum Service {
    Rooms,
    PubSub,
    Bytestreams,
    /// Callers from outside.
    Guests,
}

impl Service {
    fn at(settings: &HostSettings, domain: &str) -> Option<Service> {
        if settings.rooms_of(domain).is_some() {
            return Some(Service::Rooms);
        }
        if settings.pubsub_of(domain).is_some() {
            return Some(Service::PubSub);
        }
        if settings.has_bytestreams_at(domain) {
            return Some(Service::Bytestreams);
        }
        settings.guest_domain_of(domain).map(|_| Service::Guests)
    }
}

/// A stanza for a service, or for a room or an occupant of it. The guard is held until the service has handled it, so that the writes of its
/// archive delay the acknowledgement.
fn to_service(
    host: &mut Host,
    now: Instant,
    (service, mut element): (Service, Element),
    (from, to): (&Jid, &Jid),
    out: &mut Outbox,
) {
    let hold = host.pending_acks.begin(&mut element);
    let kind = stanza::kind_of(&element);
    match service {
        Service::Rooms => {
            if let Some(error) = host.rtbl.refuse_in_room(&host.settings, from, &element) {
                match kind {
                    Some(StanzaKind::Presence) => presence::refuse(&element, &error, out),
                    _ => host.refuse(&element, &error, out),
                }
            } else if kind == Some(StanzaKind::Message) && host.store.message_writes.is_refused(now, &element)
            {
                host.refuse(&element, &message_writes::refusal(), out);
            } else {
                host.routed_to_room(now, element, from, to, out);
            }
        }
        Service::PubSub => {
            let event = PubSubEvent::ServiceStanza { stanza: &element, from, to };
            host.tell_pubsub(now, event, out);
        }
        Service::Bytestreams => {
            let parts = (&*host.settings, &mut host.store);
            if let Err(error) = bytestreams::handle_stanza(parts, &element, (from, to), out) {
                host.refuse(&element, &error, out);
            }
        }
        Service::Guests => match phones::answer_for_guest(&element, from, to) {
            Ok(answer) => answer.into_iter().for_each(|answer| outgoing::send(answer, out)),
            Err(error) => host.refuse(&element, &error, out),
        },
    }
    host.acks().end(hold, out);
}

/// A stanza for an account or one of its resources, whose data were read: it exists, or it is known that it does not. A message for a
/// subaddress goes on to the account (`subaddress::redirect_detail`), still with its mark, and does not end here. The account may be in memory
/// for this stanza only, so each way out lets go of it (`Host::forget_user`).
pub(super) fn to_account(host: &mut Host, now: Instant, mut element: Element, out: &mut Outbox) {
    let (Ok(Some(to)), Ok(Some(from))) = (stanza::to(&element), stanza::from(&element)) else {
        let hold = host.pending_acks.begin(&mut element);
        return host.acks().end(hold, out);
    };
    let bare = to.bare();
    let Some(mut element) = subaddress::redirect_detail(&host.accounts, element, out) else {
        return host.forget_user(now, &bare);
    };
    let hold = host.pending_acks.begin(&mut element);
    let parts = (&*host.settings, &host.accounts, &mut host.rtbl);
    let refusal = ArrivalRefusal::of(parts, (&bare, &from), &element);
    match stanza::kind_of(&element).filter(|_| refusal.is_none()) {
        Some(StanzaKind::Presence) => {
            let parts = (&mut host.accounts, &mut host.store, &mut host.phones);
            if let Some(effect) = presence::handle_inbound(parts, now, (&from, &to), element, out) {
                presence::perform(host, now, effect, out);
            }
        }
        Some(StanzaKind::Message) => message_to(host, now, &from, &to, element, out),
        Some(StanzaKind::Iq) if to.is_bare() => ask(host, now, &element, &from, &to, None, out),
        Some(StanzaKind::Iq) if last::hides_last(&host.accounts, &to, &from, &element) => {
            host.refuse(&element, &Condition::Forbidden.into(), out);
        }
        // RFC 6121 §8.5.3.1 and §8.5.3.2.3: an iq for a resource is that resource's only.
        Some(StanzaKind::Iq) => match host.accounts.session_of(&to) {
            Some(key) => host.deliver(now, &[key], element, out),
            None => match phones::describe_phone((&host.phones, &host.accounts), &from, &to, &element) {
                Some(info) => outgoing::answer(&element, Ok(Some(info)), out),
                None => host.refuse(&element, &Condition::ServiceUnavailable.into(), out),
            },
        },
        None => {
            refusal.into_iter().for_each(|refusal| refusal.answer(host, now, (&from, &to), &element, out));
        }
    }
    host.forget_user(now, &bare);
    host.acks().end(hold, out);
}

/// The reason for which an account gets no stanza of a sender.
enum ArrivalRefusal {
    /// There is no such account.
    NoAccount,
    /// The account blocks the sender.
    Blocked,
    /// A block list that the server follows has the sender.
    Listed(StanzaError),
}

impl ArrivalRefusal {
    /// `None`: the account gets the stanza.
    fn of(
        (settings, accounts, rtbl): (&HostSettings, &AccountMemory, &mut RtblFilter),
        (user, from): (&Bare, &Jid),
        element: &Element,
    ) -> Option<ArrivalRefusal> {
        if accounts.users.get(user).is_none_or(|user| matches!(user.state, AccountState::Absent)) {
            return Some(ArrivalRefusal::NoAccount);
        }
        if blocking::blocks_incoming(accounts, user, from) {
            return Some(ArrivalRefusal::Blocked);
        }
        rtbl.refuse_at_account((settings, accounts), user, from, element).map(ArrivalRefusal::Listed)
    }

    /// Ends the way of the stanza.
    fn answer(
        self,
        host: &mut Host,
        now: Instant,
        (from, to): (&Jid, &Jid),
        element: &Element,
        out: &mut Outbox,
    ) {
        match (self, stanza::kind_of(element)) {
            (ArrivalRefusal::NoAccount, Some(StanzaKind::Presence)) => {
                presence::answer_without_account(from, to, element, out);
            }
            (ArrivalRefusal::NoAccount, Some(StanzaKind::Iq)) => {
                let answer = no_account::answer(host, now, element, (from, to));
                outgoing::answer(element, answer, out);
            }
            // XEP-0191 §3.3: each request is answered by an error, and it is that of an account that does not exist.
            (ArrivalRefusal::Blocked, Some(StanzaKind::Iq)) => {
                let answer = no_account::answer(host, now, element, (from, to));
                outgoing::refuse(element, &answer.err().unwrap_or_else(no_account::refusal), out);
            }
            (ArrivalRefusal::NoAccount | ArrivalRefusal::Blocked, _) => {
                host.refuse(element, &no_account::refusal(), out);
            }
            (ArrivalRefusal::Listed(error), Some(StanzaKind::Presence)) => {
                presence::refuse(element, &error, out);
            }
            (ArrivalRefusal::Listed(error), _) => host.refuse(element, &error, out),
        }
    }
}

/// RFC 6121 §8.5.2 and 8.5.3: to the session that is meant, or those that fit best, or kept.
fn message_to(host: &mut Host, now: Instant, from: &Jid, to: &Jid, mut element: Element, out: &mut Outbox) {
    let bare = to.bare();
    if privileged::is_message(&host.settings, from, &element) {
        return component_message(host, now, &element, from, out);
    }
    if let Some(approval) = Approval::parse(from, to, &element) {
        return host.tell_pubsub(now, PubSubEvent::Approval { approval, from, to }, out);
    }
    let kind = element.attr("type").unwrap_or("normal").to_owned();
    let key = host.accounts.session_of(to).filter(|_| !to.is_bare());
    // RFC 6121 §8.5.3.2.1: a message of another type than chat that matches no resource is ignored or
    // answered by an error. Headlines are ignored, others come back, so that their senders know; neither
    // is in the archive.
    if !to.is_bare()
        && key.is_none()
        && kind != "chat"
        && !phones::is_for_phone((&host.settings, &host.phones), to, &element)
    {
        return match kind.as_str() {
            "headline" | "error" => {}
            _ => host.refuse(&element, &Condition::ServiceUnavailable.into(), out),
        };
    }
    if host.store.message_writes.is_refused(now, &element) {
        return host.refuse(&element, &message_writes::refusal(), out);
    }
    webhooks::report_received(&host.settings, now, from, &element, out);
    offline::remove_forged_delays(&mut element, from, &bare);
    ArchiveWriter::of(host).record_received(now, &bare, &mut element, out);
    if !to.is_bare() {
        if let Some(key) = key {
            carbons::copy_received(&mut host.accounts, now, &bare, &[key], &element, out);
            return deliver_message(host, now, &bare, &[key], element, out);
        }
        if phones::is_for_phone((&host.settings, &host.phones), to, &element) {
            let effect = phones::address_text(&mut host.pending_acks, now, element);
            return phones::perform_text(host, now, &bare, effect, out);
        }
    }
    // RFC 6121 §8.5.2.1.1 and §8.5.2.2.1: an account is no room.
    if kind == "groupchat" {
        return host.refuse(&element, &Condition::ServiceUnavailable.into(), out);
    }
    message_to_account(host, now, &bare, element, out);
}

/// A message that no phone took goes to the account after all. It is handled when the account has it or it is refused.
pub(super) fn return_to_account(
    host: &mut Host,
    now: Instant,
    bare: &Bare,
    message: Element,
    guard: AckGuard,
    out: &mut Outbox,
) {
    if !matches!(host.user(now, bare, out).state, AccountState::Loading(_)) {
        host.pending_acks.resume(&guard);
        message_to_account(host, now, bare, message, out);
        host.acks().end(guard, out);
        return host.forget_user(now, bare);
    }
    let work = QueuedWork::Returned(Box::new(message), guard);
    if let Err(work) = wait_for_account_data(&mut host.accounts, bare, work) {
        refuse_waiting(&mut host.acks(), now, work, &too_much_waits(), out);
    }
}

/// A message for the bare address, or a chat message for a resource that is not there (RFC 6121 §8.5.2): to each session whose priority is
/// not negative, and to the account's phones; stored if there is no such session.
fn message_to_account(host: &mut Host, now: Instant, bare: &Bare, element: Element, out: &mut Outbox) {
    let kind = element.attr("type").unwrap_or("normal");
    let able = host.accounts.able(bare);
    if able.is_empty() {
        return match kind {
            // RFC 6121 §8.5.2.2.1: neither is stored, and an error is never answered.
            "error" | "headline" => {}
            _ if hints::is_worth_keeping(&element) => {
                offline::perform(host, now, bare, OfflineEffect::keep(element), out);
            }
            _ if hints::is_missed(&element) => host.refuse(&element, &no_account::refusal(), out),
            _ => {}
        };
    }
    // RFC 6121 §8.5.2.1.1: an error for the account is for none of its sessions.
    if kind == "error" {
        return;
    }
    // All that are able: with carbons in use, a choice of one would be wrong (RFC 6121 §8.5.2.1.1 allows
    // it).
    carbons::copy_received(&mut host.accounts, now, bare, &able, &element, out);
    for copy in host.phones.begin_copies(&host.settings, now, bare, &element) {
        phones::perform_text(host, now, bare, copy, out);
    }
    deliver_message(host, now, bare, &able, element, out);
}

/// Delivers a message to sessions of its addressee, and tells the account's push services of it (XEP-0357).
pub(super) fn deliver_message(
    host: &mut Host,
    now: Instant,
    user: &Bare,
    keys: &[Key],
    mut message: Element,
    out: &mut Outbox,
) {
    // It has done what it was for (XEP-0280 §10).
    message.remove_children(|child| child.is("private", ns::CARBONS));
    // Decided before the message moves into the sessions.
    let is_pushed = push::is_pushed(user, &message);
    host.deliver(now, keys, message, out);
    if is_pushed {
        let effects = host.push.handle_message(now, &host.accounts, user, false);
        host.push.perform((&mut host.accounts, &mut host.store, &mut host.rng), effects, out);
    }
}

/// An iq for an account or a domain of ours: a request goes to the handler that a feature has in the table of `feature`, an answer to the
/// feature that has sent a request itself (`push`, `caps`). `session`: that of the sender, if the caller knows it.
pub(super) fn ask(
    host: &mut Host,
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
        Some("result" | "error") => {
            let Host { privileged, push, caps, accounts, store, rng, .. } = &mut *host;
            return match handle_answer((privileged, push, caps), (accounts, store, rng), now, (from, iq), out)
            {
                Some(CapsEffect::Send(iq)) => outgoing::send(iq, out),
                Some(CapsEffect::FeaturesKnown(ver)) => {
                    host.tell_pubsub(now, PubSubEvent::FeaturesKnown { ver: &ver }, out);
                }
                None => {}
            };
        }
        _ => return host.refuse(iq, &Condition::BadRequest.into(), out),
    };
    // RFC 6120 §8.2.3: an iq has an id, and a question one child.
    let (Some(payload), 1, Some(_)) = (iq.first(), iq.elements().count(), iq.attr("id")) else {
        return host.refuse(iq, &Condition::BadRequest.into(), out);
    };
    let is_own = to.local().is_some() && from.bare() == to.bare();
    // Handlers for one's own account go before those for any account.
    let places: &[IqTarget] = match (to.local(), is_own) {
        (None, _) => &[IqTarget::Server],
        (Some(_), true) => &[IqTarget::Own, IqTarget::Account],
        (Some(_), false) => &[IqTarget::Account],
    };
    let session = session.or_else(|| host.accounts.session_of(from).filter(|_| is_own));
    let question = IqRequest { iq, payload, from, to, session, is_set };
    let Host { settings, accounts, privileged, rng, .. } = host;
    let of_component =
        to.local().and_then(|_| privileged.handle_request(now, (settings, accounts, rng), &question, out));
    let elsewhere = of_component.or_else(|| privileged.delegate(now, (settings, rng), &question, out));
    let reply = match (elsewhere, places.iter().find_map(|at| find(*at, payload))) {
        (Some(reply), _) => reply,
        // RFC 6120 §8.4: a payload that is not understood is `service-unavailable`.
        (None, None) => IqReply::Error(Condition::ServiceUnavailable.into()),
        (None, Some(run)) => {
            let (accounts, nested) = (&mut host.accounts, host.privileged.nested());
            run(&mut IqView { now, settings: &host.settings, accounts, nested }, &question)
        }
    };
    match reply {
        IqReply::Result(payload) => outgoing::answer(iq, Ok(payload), out),
        IqReply::Error(error) => host.refuse(iq, &error, out),
        IqReply::Perform(effect) => iq_effect::perform(host, now, &question, effect, out),
        IqReply::Later => {}
    }
}

/// The answer to a request of the host's own, or to one that it has passed on for a component.
fn handle_answer(
    (privileged, push, caps): (&mut PrivilegedComponents, &mut Push, &mut Caps),
    (accounts, store, rng): PushContext<'_>,
    now: Instant,
    (from, iq): (&Jid, &Element),
    out: &mut Outbox,
) -> Option<CapsEffect> {
    if privileged.handle_answer(from, iq, out) {
        return None;
    }
    let effects = push.handle_answer(now, from, iq);
    push.perform((accounts, store, &mut *rng), effects, out);
    caps.handle_response(now, from, iq, rng)
}
