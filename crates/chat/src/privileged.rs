//! Privileged components (XEP-0356) at the host of an account: rosters, messages and requests in the account's name, and presence; and
//! requests to the account or domain that a component answers (XEP-0355).
//!
//! The crate `privilege` has the permissions and reads what components send; here the permitted part is performed by the features that
//! would do it for a session. The features of the delegated namespaces are asked of components and kept here for `disco`. `route` calls [`handle_message`] and [`handle_request`] for stanzas of components, and
//! [`handle_answer`] for answers to requests, and [`delegate`] before the features for requests of others; `presence` and `roster` tell of changes. A component acts as the account's bare address:
//! blocking, archives and limits apply as to a client.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use privilege::{
    NestedDiscovery, PendingDelegations, PendingRequests, PresenceAccess, Privileges, SeenPresences,
};
use stdx::Instant;
use xmpp::stanza::{self, Condition, StanzaError};
use xmpp::{Bare, Element, Jid, ShardAddress, ns};

use super::archive::ArchiveWriter;
use super::feature::{IqReply, IqRequest, IqView};
use super::presence::addressed;
use super::session::Session;
use super::{Host, Outbox, token};
use crate::{blocking, carbons, connection, limits, message_writes, roster, route, webhooks};

/// The state of a host about privileged components.
pub(super) struct PrivilegedComponents {
    /// The name of this shard in the ids of questions for nested discovery.
    asker: Box<str>,
    requests: PendingRequests,
    delegations: PendingDelegations,
    /// The features of delegated namespaces.
    nested: NestedDiscovery,
    seen: SeenPresences,
    /// Components that have connected and get the presence of the sessions that there are.
    presences: VecDeque<PresenceReplay>,
}

/// The presence of all available sessions for one component, some at a time: its queue is bounded.
struct PresenceReplay {
    component: Box<str>,
    /// The place of the next session.
    next: u32,
    at: Instant,
}

/// The time between two parts of a [`PresenceReplay`].
const PAUSE: Duration = Duration::from_millis(20);

impl PrivilegedComponents {
    /// No component is connected. `address` is that of this shard.
    pub(super) fn new(address: ShardAddress) -> PrivilegedComponents {
        PrivilegedComponents {
            asker: address.to_string().into(),
            requests: PendingRequests::default(),
            delegations: PendingDelegations::default(),
            nested: NestedDiscovery::default(),
            seen: SeenPresences::default(),
            presences: VecDeque::new(),
        }
    }

    /// The features of delegated namespaces, for service discovery.
    pub(super) fn nested(&self) -> &NestedDiscovery {
        &self.nested
    }

    /// The time at which to call [`expire`].
    pub(super) fn deadline(&self) -> Option<Instant> {
        let replay = self.presences.front().map(|replay| replay.at);
        let nested = self.nested.deadline();
        [self.requests.deadline(), self.delegations.deadline(), nested, replay].into_iter().flatten().min()
    }
}

/// A component has connected that was not there before: it gets the presence that it would have had (XEP-0356 §8), and is asked for the
/// features of its delegated namespaces (XEP-0355 §7.2).
pub fn handle_component_attached(host: &mut Host, now: Instant, component: &str) {
    let Some(known) = privilege::of(&host.settings.privileges, component) else { return };
    host.privileged.nested.handle_attached(now, known);
    if known.presence == PresenceAccess::None {
        return;
    }
    host.privileged.seen.forget(component);
    host.privileged.presences.retain(|replay| *replay.component != *component);
    host.privileged.presences.push_back(PresenceReplay { component: component.into(), next: 0, at: now });
}

/// The connected components are those for which `is_connected` is true: what others said about delegated namespaces is forgotten.
pub fn retain_components(host: &mut Host, is_connected: impl Fn(&str) -> bool) {
    let nested = &mut host.privileged.nested;
    let gone: Vec<Box<str>> =
        nested.components().filter(|component| !is_connected(component)).map(Box::from).collect();
    gone.iter().for_each(|component| nested.handle_detached(component));
}

/// A component's answer to a question for the features of a delegated namespace.
pub fn handle_nested_answer(host: &mut Host, now: Instant, answer: &Element) {
    if let Ok(Some(from)) = stanza::from(answer) {
        host.privileged.nested.handle_answer(now, &from, answer);
    }
}

/// Handles due timers: requests without an answer, questions for features, and the next part of the presence for components.
pub(super) fn expire(host: &mut Host, now: Instant, out: &mut Outbox) {
    let PrivilegedComponents { requests, delegations, nested, asker, .. } = &mut host.privileged;
    let refusals = requests.expire(now).into_iter().chain(delegations.expire(now));
    // The answers are the same for all domains, so one of them asks.
    let domain = host.settings.domains.first().map_or("", |domain| &**domain);
    let questions = nested.expire(now, &mut host.rng, (domain, &**asker));
    for stanza in refusals.chain(questions) {
        host.route(stanza, out);
    }
    let is_due = |replay: &mut PresenceReplay| replay.at <= now;
    let Some(mut replay) = host.privileged.presences.pop_front_if(is_due) else { return };
    for _ in 0..limits::COMPONENT_PRESENCES {
        let Some(key) = host.accounts.sessions.key_from(replay.next) else { return };
        replay.next = key.index() + 1;
        let Some(session) = host.accounts.sessions.get(key) else { continue };
        let Some(presence) = Session::presence(session) else { continue };
        if host.privileged.seen.is_news(&replay.component, &session.jid, &presence) {
            out.push(addressed(&presence, &replay.component));
        }
    }
    replay.at = now + PAUSE;
    host.privileged.presences.push_back(replay);
}

/// Presence of a session of ours for the components that get it (XEP-0356 §6.1).
pub(super) fn show_presence(host: &mut Host, from: &Jid, presence: &Element, out: &mut Outbox) {
    show(host, PresenceAccess::ManagedEntity, from, presence, out);
}

/// A session goes on at this host: the components have had its presence from the host before, and will get its end.
pub(super) fn note_presence(host: &mut Host, from: &Jid, presence: &Element) {
    show(host, PresenceAccess::ManagedEntity, from, presence, &mut Outbox::new());
}

/// Presence of a contact for the components that get that of rosters (§6.3). That of accounts of ours comes from their own hosts.
pub(super) fn show_contact(host: &mut Host, user: &Bare, from: &Jid, presence: &Element, out: &mut Outbox) {
    let contact = || host.accounts.data(user)?.contact(&from.bare());
    let is_seen =
        !host.settings.is_local(from.domain()) && contact().is_some_and(|item| item.subscription.has_to());
    if is_seen && from.resource().is_some() {
        show(host, PresenceAccess::Roster, from, presence, out);
    }
}

/// Sends presence to the components with this access or, for that of accounts, with more.
fn show(host: &mut Host, access: PresenceAccess, from: &Jid, presence: &Element, out: &mut Outbox) {
    let settings = Arc::clone(&host.settings);
    let gets = |privileges: &&Privileges| match privileges.presence {
        PresenceAccess::None => false,
        PresenceAccess::Roster => true,
        known => known == access,
    };
    for privileges in settings.privileges.iter().filter(gets) {
        if host.privileged.seen.is_news(&privileges.component, from, presence) {
            out.push(addressed(presence, &privileges.component));
        }
    }
}

/// Pushes a change of an account's roster to the components that may read it (§4.4).
pub(super) fn push_roster(host: &mut Host, user: &Bare, query: &Element, out: &mut Outbox) {
    let settings = Arc::clone(&host.settings);
    for privileges in settings.privileges.iter().filter(|privileges| privileges.has_pushes()) {
        let push = Element::new("iq", ns::CLIENT)
            .with("type", "set")
            .with("id", token(&mut host.rng))
            .with("from", user.as_str())
            .with("to", privileges.component.clone())
            .child(query.clone());
        host.route(push, out);
    }
}

/// The reply to a request of a component for an account, if it is one of a privileged component: a wrapped request, or one for the
/// roster. `None`: any other one.
pub(super) fn handle_request(
    host: &mut Host,
    now: Instant,
    iq: &IqRequest<'_>,
    out: &mut Outbox,
) -> Option<IqReply> {
    let settings = Arc::clone(&host.settings);
    // A component speaks for all of its domain, but what it may do is granted to the domain itself.
    let privileges = privilege::of(&settings.privileges, iq.from.as_str())?;
    if privilege::is_wrapped_request(iq.iq) {
        return Some(match begin_request(host, now, privileges, iq, out) {
            Ok(()) => IqReply::Later,
            Err(error) => IqReply::Error(error),
        });
    }
    if !iq.payload.is("query", ns::ROSTER) {
        return None;
    }
    // §4.3: "MUST return a <forbidden/> error if it is not the case".
    if !privileges.roster.allows(iq.is_set) {
        return Some(IqReply::Error(Condition::Forbidden.into()));
    }
    let (accounts, nested) = (&mut host.accounts, host.privileged.nested());
    let mut view = IqView { now, settings: &settings, accounts, nested };
    Some(roster::roster(&mut view, iq))
}

/// Sends a request in the name of the account that is asked.
fn begin_request(
    host: &mut Host,
    now: Instant,
    privileges: &Privileges,
    iq: &IqRequest<'_>,
    out: &mut Outbox,
) -> Result<(), StanzaError> {
    let account = iq.to.bare();
    let inner = privilege::unwrap_request(Some(privileges), iq.iq, &account)?;
    if host.accounts.is_anonymous(&account) {
        return Err(Condition::Forbidden.into());
    }
    let to = stanza::to(&inner).ok().flatten().unwrap_or_else(|| account.as_jid().clone());
    refuse_blocked(host, &account, &to)?;
    let inner = host.privileged.requests.begin(now, &mut host.rng, iq.iq, inner)?;
    if to == *account.as_jid() {
        route::ask(host, now, &inner, account.as_jid(), &to, None, out);
    } else {
        host.route(inner, out);
    }
    Ok(())
}

/// Gives a request of a delegated namespace to the component that answers it (XEP-0355 §4.2). `None`: this server answers.
pub(super) fn delegate(
    host: &mut Host,
    now: Instant,
    iq: &IqRequest<'_>,
    out: &mut Outbox,
) -> Option<IqReply> {
    let known = privilege::delegate(&host.settings.privileges, iq.from, iq.payload)?;
    let (component, asked) = (known.component.clone(), iq.to.bare());
    let delegations = &mut host.privileged.delegations;
    Some(match delegations.begin(now, &mut host.rng, (&component, &asked), iq.iq) {
        Ok(request) => {
            host.route(request, out);
            IqReply::Later
        }
        Err(error) => IqReply::Error(error),
    })
}

/// An answer that came to an account or domain: that to a request of a component goes on to it, and that of a component to the sender
/// of the request. True: it was one of these.
pub(super) fn handle_answer(host: &mut Host, from: &Jid, answer: &Element, out: &mut Outbox) -> bool {
    let PrivilegedComponents { requests, delegations, .. } = &mut host.privileged;
    let answer = requests.handle_answer(from, answer).or_else(|| delegations.handle_answer(from, answer));
    let is_one = answer.is_some();
    answer.into_iter().for_each(|answer| host.route(answer, out));
    is_one
}

/// Takes a message that a component has wrapped: for a domain of ours, or at the host of the account in whose name it is, whose data are
/// in memory. The caller holds the acknowledgement.
pub(super) fn handle_message(host: &mut Host, now: Instant, wrapped: &Element, from: &Jid, out: &mut Outbox) {
    let settings = Arc::clone(&host.settings);
    let privileges = privilege::of(&settings.privileges, from.as_str());
    let result = privilege::unwrap_message(privileges, wrapped).and_then(|(sender, message)| {
        // In the name of the server itself: of no account, so of no archive.
        match sender.local() {
            None => host.route(message, out),
            Some(_) => send(host, now, &sender.bare(), message, out)?,
        }
        Ok(())
    });
    if let Err(error) = result {
        host.refuse(wrapped, &error, out);
    }
}

/// True for a message that a privileged component has wrapped.
pub(super) fn is_message(host: &Host, from: &Jid, message: &Element) -> bool {
    privilege::of(&host.settings.privileges, from.as_str()).is_some()
        && privilege::is_wrapped_message(message)
}

/// Sends a message in the name of an account, as one of its sessions would: it is in the archive, and the account's clients get a copy.
fn send(
    host: &mut Host,
    now: Instant,
    user: &Bare,
    message: Element,
    out: &mut Outbox,
) -> Result<(), StanzaError> {
    // A component that asked the domain for an account whose host is another one: the shard of its connection sends it here.
    if host.accounts.data(user).is_none() || host.accounts.is_anonymous(user) {
        return Err(Condition::Forbidden.into());
    }
    let to = stanza::to(&message).ok().flatten().ok_or(Condition::JidMalformed)?;
    refuse_blocked(host, user, &to)?;
    if host.store.message_writes.is_refused(now, &message) {
        return Err(message_writes::refusal());
    }
    let id = ArchiveWriter::of(host).record_sent(now, user, &message, None, out);
    webhooks::report_message(host, now, &message, id.as_deref(), out);
    carbons::copy_without_session(&mut host.accounts, now, user, &message, id, out);
    connection::perform_deliveries(host, now, out);
    host.route(message, out);
    Ok(())
}

/// XEP-0191 §3.2: an account sends nothing to an address that it has blocked, by a component neither.
fn refuse_blocked(host: &Host, user: &Bare, to: &Jid) -> Result<(), StanzaError> {
    if blocking::blocks_incoming(&host.accounts, user, to) {
        return Err(blocking::blocked());
    }
    Ok(())
}
