//! Privileged components (XEP-0356) at the host of an account: rosters, messages and requests in the account's name, and presence; and
//! requests to the account or domain that a component answers (XEP-0355).
//!
//! The crate `privilege` has the permissions and reads what components send; here the permitted part is performed by the features that
//! would do it for a session. The features of the delegated namespaces are asked of components and kept here for `disco`. `route` has messages of
//! components unwrapped ([`ComponentMessage`]), and passes requests and answers to [`PrivilegedComponents`], requests of others before the
//! features; `presence` and `roster` tell of changes. A component acts as the account's bare address: blocking, archives and limits apply as
//! to a client.

use std::collections::VecDeque;
use std::time::Duration;

use privilege::{
    NestedDiscovery, PendingDelegations, PendingRequests, PresenceAccess, Privileges, SeenPresences,
};
use stdx::Instant;
use stdx::rng::Rng;
use xmpp::stanza::{self, Condition, StanzaError};
use xmpp::{Bare, Element, Jid, ShardAddress, ns};

use super::account_memory::AccountMemory;
use super::feature::{IqReply, IqRequest, IqView};
use super::iq_effect::IqEffect;
use super::presence::addressed;
use super::session::Session;
use super::{Host, HostSettings, Outbox, token};
use crate::{blocking, limits, outgoing, roster};

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

    /// The time at which to call [`Self::expire`].
    pub(super) fn deadline(&self) -> Option<Instant> {
        let replay = self.presences.front().map(|replay| replay.at);
        let nested = self.nested.deadline();
        [self.requests.deadline(), self.delegations.deadline(), nested, replay].into_iter().flatten().min()
    }

    /// Handles due timers: requests without an answer, questions for features, and the next part of the presence for components.
    pub(super) fn expire(
        &mut self,
        now: Instant,
        (settings, accounts, rng): (&HostSettings, &AccountMemory, &mut Rng),
        out: &mut Outbox,
    ) {
        let refusals = self.requests.expire(now).into_iter().chain(self.delegations.expire(now));
        // The answers are the same for all domains, so one of them asks.
        let domain = settings.domains.first().map_or("", |domain| &**domain);
        let questions = self.nested.expire(now, rng, (domain, &*self.asker));
        for stanza in refusals.chain(questions) {
            outgoing::send(stanza, out);
        }
        let is_due = |replay: &mut PresenceReplay| replay.at <= now;
        let Some(mut replay) = self.presences.pop_front_if(is_due) else { return };
        for _ in 0..limits::COMPONENT_PRESENCES {
            let Some(key) = accounts.sessions.key_from(replay.next) else { return };
            replay.next = key.index() + 1;
            let Some(session) = accounts.sessions.get(key) else { continue };
            let Some(presence) = Session::presence(session) else { continue };
            if self.seen.is_news(&replay.component, &session.jid, &presence) {
                out.push(addressed(&presence, &replay.component));
            }
        }
        replay.at = now + PAUSE;
        self.presences.push_back(replay);
    }

    /// Presence of a session of ours for the components that get it (XEP-0356 §6.1).
    pub(super) fn show_presence(
        &mut self,
        settings: &HostSettings,
        from: &Jid,
        presence: &Element,
        out: &mut Outbox,
    ) {
        self.show((settings, PresenceAccess::ManagedEntity), from, presence, out);
    }

    /// A session goes on at this host: the components have had its presence from the host before, and will get its end.
    pub(super) fn note_presence(&mut self, settings: &HostSettings, from: &Jid, presence: &Element) {
        self.show((settings, PresenceAccess::ManagedEntity), from, presence, &mut Outbox::new());
    }

    /// Presence of a contact for the components that get that of rosters (§6.3). That of accounts of ours comes from their own hosts.
    pub(super) fn show_contact(
        &mut self,
        (settings, accounts): (&HostSettings, &AccountMemory),
        user: &Bare,
        from: &Jid,
        presence: &Element,
        out: &mut Outbox,
    ) {
        let contact = || accounts.data(user)?.contact(&from.bare());
        let is_seen =
            !settings.is_local(from.domain()) && contact().is_some_and(|item| item.subscription.has_to());
        if is_seen && from.resource().is_some() {
            self.show((settings, PresenceAccess::Roster), from, presence, out);
        }
    }

    /// Sends presence to the components with this access or, for that of accounts, with more.
    fn show(
        &mut self,
        (settings, access): (&HostSettings, PresenceAccess),
        from: &Jid,
        presence: &Element,
        out: &mut Outbox,
    ) {
        let gets = |privileges: &&Privileges| match privileges.presence {
            PresenceAccess::None => false,
            PresenceAccess::Roster => true,
            known => known == access,
        };
        for privileges in settings.privileges.iter().filter(gets) {
            if self.seen.is_news(&privileges.component, from, presence) {
                out.push(addressed(presence, &privileges.component));
            }
        }
    }

    /// The reply to a request of a component for an account, if it is one of a privileged component: a wrapped request, or one for the
    /// roster. `None`: any other one.
    pub(super) fn handle_request(
        &mut self,
        now: Instant,
        (settings, accounts, rng): (&HostSettings, &mut AccountMemory, &mut Rng),
        iq: &IqRequest<'_>,
        out: &mut Outbox,
    ) -> Option<IqReply> {
        // A component speaks for all of its domain, but what it may do is granted to the domain itself.
        let privileges = privilege::of(&settings.privileges, iq.from.as_str())?;
        if privilege::is_wrapped_request(iq.iq) {
            let reply = self.begin_request(now, (privileges, accounts, rng), iq, out);
            return Some(reply.unwrap_or_else(IqReply::Error));
        }
        if !iq.payload.is("query", ns::ROSTER) {
            return None;
        }
        // §4.3: "MUST return a <forbidden/> error if it is not the case".
        if !privileges.roster.allows(iq.is_set) {
            return Some(IqReply::Error(Condition::Forbidden.into()));
        }
        let mut view = IqView { now, settings, accounts, nested: &self.nested };
        Some(roster::roster(&mut view, iq))
    }

    /// Sends a request in the name of the account that is asked; one for the account itself is an effect.
    fn begin_request(
        &mut self,
        now: Instant,
        (privileges, accounts, rng): (&Privileges, &AccountMemory, &mut Rng),
        iq: &IqRequest<'_>,
        out: &mut Outbox,
    ) -> Result<IqReply, StanzaError> {
        let account = iq.to.bare();
        let inner = privilege::unwrap_request(Some(privileges), iq.iq, &account)?;
        if accounts.is_anonymous(&account) {
            return Err(Condition::Forbidden.into());
        }
        let to = stanza::to(&inner).ok().flatten().unwrap_or_else(|| account.as_jid().clone());
        refuse_blocked(accounts, &account, &to)?;
        let inner = self.requests.begin(now, rng, iq.iq, inner)?;
        if to == *account.as_jid() {
            return Ok(IqReply::Perform(IqEffect::AskAccount(inner)));
        }
        outgoing::send(inner, out);
        Ok(IqReply::Later)
    }

    /// Gives a request of a delegated namespace to the component that answers it (XEP-0355 §4.2). `None`: this server answers.
    pub(super) fn delegate(
        &mut self,
        now: Instant,
        (settings, rng): (&HostSettings, &mut Rng),
        iq: &IqRequest<'_>,
        out: &mut Outbox,
    ) -> Option<IqReply> {
        let known = privilege::delegate(&settings.privileges, iq.from, iq.payload)?;
        let asked = iq.to.bare();
        Some(match self.delegations.begin(now, rng, (&known.component, &asked), iq.iq) {
            Ok(request) => {
                outgoing::send(request, out);
                IqReply::Later
            }
            Err(error) => IqReply::Error(error),
        })
    }

    /// An answer that came to an account or domain: that to a request of a component goes on to it, and that of a component to the sender
    /// of the request. True: it was one of these.
    pub(super) fn handle_answer(&mut self, from: &Jid, answer: &Element, out: &mut Outbox) -> bool {
        let known = self.requests.handle_answer(from, answer);
        let answer = known.or_else(|| self.delegations.handle_answer(from, answer));
        let is_one = answer.is_some();
        answer.into_iter().for_each(|answer| outgoing::send(answer, out));
        is_one
    }
}

/// The inputs about components from the driver of a host.
pub struct ComponentInputs<'a> {
    settings: &'a HostSettings,
    components: &'a mut PrivilegedComponents,
}

impl Host {
    /// Takes news of components.
    pub fn components(&mut self) -> ComponentInputs<'_> {
        ComponentInputs { settings: &self.settings, components: &mut self.privileged }
    }
}

impl ComponentInputs<'_> {
    /// A component has connected that was not there before: it gets the presence that it would have had (XEP-0356 §8), and is asked for the
    /// features of its delegated namespaces (XEP-0355 §7.2).
    pub fn handle_attached(self, now: Instant, component: &str) {
        let Some(known) = privilege::of(&self.settings.privileges, component) else { return };
        let PrivilegedComponents { nested, seen, presences, .. } = self.components;
        nested.handle_attached(now, known);
        if known.presence == PresenceAccess::None {
            return;
        }
        seen.forget(component);
        presences.retain(|replay| *replay.component != *component);
        presences.push_back(PresenceReplay { component: component.into(), next: 0, at: now });
    }

    /// The connected components are those for which `is_connected` is true: what others said about delegated namespaces is forgotten.
    pub fn retain(self, is_connected: impl Fn(&str) -> bool) {
        let nested = &mut self.components.nested;
        let gone: Vec<Box<str>> =
            nested.components().filter(|component| !is_connected(component)).map(Box::from).collect();
        gone.iter().for_each(|component| nested.handle_detached(component));
    }

    /// A component's answer to a question for the features of a delegated namespace.
    pub fn handle_nested_answer(self, now: Instant, answer: &Element) {
        if let Ok(Some(from)) = stanza::from(answer) {
            self.components.nested.handle_answer(now, &from, answer);
        }
    }
}

/// Pushes a change of an account's roster to the components that may read it (§4.4).
pub(super) fn push_roster(
    (settings, rng): (&HostSettings, &mut Rng),
    user: &Bare,
    query: &Element,
    out: &mut Outbox,
) {
    for privileges in settings.privileges.iter().filter(|privileges| privileges.has_pushes()) {
        let push = Element::new("iq", ns::CLIENT)
            .with("type", "set")
            .with("id", token(rng))
            .with("from", user.as_str())
            .with("to", privileges.component.clone())
            .child(query.clone());
        outgoing::send(push, out);
    }
}

/// True for a message that a privileged component has wrapped.
pub(super) fn is_message(settings: &HostSettings, from: &Jid, message: &Element) -> bool {
    privilege::of(&settings.privileges, from.as_str()).is_some() && privilege::is_wrapped_message(message)
}

/// A message that a component has wrapped and may send.
pub(super) enum ComponentMessage {
    /// In the name of the server itself: of no account, so of no archive.
    OfServer(Element),
    /// In the name of an account: it is sent as by one of its sessions.
    OfAccount(Bare, Element),
}

impl ComponentMessage {
    /// Takes the message out: for a domain of ours, or at the host of the account in whose name it is, whose data are in memory.
    ///
    /// # Errors
    /// The error for the component.
    pub(super) fn unwrap(
        (settings, accounts): (&HostSettings, &AccountMemory),
        wrapped: &Element,
        from: &Jid,
    ) -> Result<ComponentMessage, StanzaError> {
        let privileges = privilege::of(&settings.privileges, from.as_str());
        let (sender, message) = privilege::unwrap_message(privileges, wrapped)?;
        if sender.local().is_none() {
            return Ok(ComponentMessage::OfServer(message));
        }
        let user = sender.bare();
        // A component that asked the domain for an account whose host is another one: the shard of its connection sends it here.
        if accounts.data(&user).is_none() || accounts.is_anonymous(&user) {
            return Err(Condition::Forbidden.into());
        }
        let to = stanza::to(&message).ok().flatten().ok_or(Condition::JidMalformed)?;
        refuse_blocked(accounts, &user, &to)?;
        Ok(ComponentMessage::OfAccount(user, message))
    }
}

/// XEP-0191 §3.2: an account sends nothing to an address that it has blocked, by a component neither.
fn refuse_blocked(accounts: &AccountMemory, user: &Bare, to: &Jid) -> Result<(), StanzaError> {
    if blocking::blocks_incoming(accounts, user, to) {
        return Err(blocking::blocked());
    }
    Ok(())
}
