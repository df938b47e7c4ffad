//! The way of a stanza: to an account, room or service of ours, to a component, or to another server.
//!
//! Owns the connections of components and of other servers. A decision is a message and the shard that it goes to; the
//! caller sends it.
//!
//! Invariants: an address of ours never leaves the farm, even if a component or another server claims its
//! domain; a stanza of another server never goes on to a third one.

use std::task::{Context, Poll};

use chat_owners::MessageTarget;
use cluster::{Bucket, ShardMap};
use router::BucketSet;
use stdx::Instant;
use xmpp::s2s::{Recipient, ShardMessage};
use xmpp::stanza::{self, Condition, StanzaError};
use xmpp::{Bare, Element, Jid};
use xmpp_io::components::{Components, Delivery};
use xmpp_io::servers::{self, S2sEvent, Servers};

use super::{privileged, shard_requests};
use crate::message::XmppShardMessage;

/// A message and its receiver.
#[derive(Debug)]
pub(super) struct AddressedMessage {
    pub(super) to: MessageTarget,
    pub(super) message: XmppShardMessage,
}

/// The components and other servers of one shard, and the ways to them.
pub(super) struct StanzaRouter {
    pub(super) components: Components,
    /// `None`: other servers are not spoken with.
    pub(super) servers: Option<Servers>,
    /// The shards of this node: each other server is the responsibility of one of them.
    map: ShardMap,
}

impl StanzaRouter {
    pub(super) fn new(components: Components, servers: Option<Servers>, map: ShardMap) -> StanzaRouter {
        StanzaRouter { components, servers, map }
    }

    pub(super) fn reload(&mut self, reload: Option<servers::Reload>) {
        if let (Some(servers), Some(reload)) = (&mut self.servers, reload) {
            servers.reload(reload);
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.servers.as_ref().and_then(Servers::deadline)
    }

    /// Ready when a connection has something for the shard.
    pub(super) fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        let servers = self.servers.as_ref().is_some_and(|servers| servers.poll_ready(cx).is_ready());
        let components = self.components.poll_ready(cx).is_ready();
        if servers || components { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Takes no new connections.
    pub(super) fn stop_accepting(&mut self) {
        self.components.stop_accepting();
        if let Some(servers) = &mut self.servers {
            servers.stop_accepting();
        }
    }

    /// The shard serves these buckets no longer: it has no streams to servers of their domains.
    pub(super) fn stop(&mut self, buckets: &BucketSet) {
        if let Some(servers) = &mut self.servers {
            servers.stop(|domain| buckets.contains(Bucket::of(domain)));
        }
    }

    /// Defects met since the last call.
    pub(super) fn take_panics(&mut self) -> u64 {
        self.servers.as_mut().map_or(0, Servers::take_panics) + self.components.take_panics()
    }

    /// The way of a stanza. `None`: it is dropped, or was refused without an answer.
    pub(super) fn route(
        &mut self,
        settings: &chat::HostSettings,
        element: Box<Element>,
    ) -> Option<AddressedMessage> {
        // A stanza without a valid address cannot be routed.
        let to = stanza::to(&element).ok().flatten()?;
        // First: the answer to a question of an operator is for the shard that its resource names, not for a
        // session.
        if let Some((shard, token)) = shard_requests::reply_of(&element, &to) {
            let message = XmppShardMessage::Reply { token, answer: element };
            return Some(AddressedMessage { to: shard.into(), message });
        }
        // Before components, so that one that is configured for a domain of ours gets nothing.
        if settings.is_ours(to.domain()) {
            return Some(StanzaRouter::to_owner(settings, &to, element));
        }
        if self.components.is_component(to.domain()) {
            return self.route_to_component(settings, &to, element);
        }
        if self.servers.is_some() {
            return Some(self.to_server(ShardMessage::Outbound { element }));
        }
        self.route_answer(settings, servers::refuse(&element)?)
    }

    /// The way of an answer to its requester; without an address it is dropped.
    pub(super) fn route_answer(
        &mut self,
        settings: &chat::HostSettings,
        answer: Element,
    ) -> Option<AddressedMessage> {
        let to = stanza::to(&answer).ok().flatten()?;
        let element = Box::new(answer);
        if settings.is_local(to.domain()) {
            Some(StanzaRouter::to_owner(settings, &to, element))
        } else if self.components.is_component(to.domain()) {
            self.route_to_component(settings, &to, element)
        } else {
            self.servers.is_some().then(|| self.to_server(ShardMessage::Outbound { element }))
        }
    }

    /// The way of the answer to a stanza that found its queue full.
    pub(super) fn refuse_busy(
        &mut self,
        settings: &chat::HostSettings,
        element: &Element,
    ) -> Option<AddressedMessage> {
        // An answer to an answer could go round for ever (RFC 6120 §8.3.1); presence is not answered, as its
        // sender did not write to this address alone.
        let is_answered = stanza::may_be_refused(element) && element.name() != "presence";
        is_answered.then_some(())?;
        self.route_answer(settings, stanza::refusal(element, &Condition::ResourceConstraint.into()))
    }

    /// It is not there now: `wait`, as from Prosody, for it will be back.
    pub(super) fn refuse_unconnected(
        &mut self,
        settings: &chat::HostSettings,
        element: &Element,
    ) -> Option<AddressedMessage> {
        let is_answered =
            stanza::may_be_refused(element) && element.name() != "presence" && element.attr("from").is_some();
        is_answered.then_some(())?;
        let text = "this component is not connected";
        let error =
            StanzaError { kind: Some("wait"), ..StanzaError::new(Condition::ServiceUnavailable, text) };
        self.route_answer(settings, stanza::refusal(element, &error))
    }

    /// Addresses a stanza to the owner of its address. The answer to a delegated request is to the domain (XEP-0355 §4.2), and the host of
    /// the account that was asked waits for it; that of a component about its features (§7.2) is for the shard that has asked.
    fn to_owner(settings: &chat::HostSettings, to: &Jid, mut element: Box<Element>) -> AddressedMessage {
        let is_to_domain = !settings.privileges.is_empty() && to.local().is_none();
        let asker = is_to_domain.then(|| privilege::asker_of_answer(&element)).flatten();
        if let Some(shard) = asker.and_then(shard_requests::shard_of) {
            let message = XmppShardMessage::Reply { token: privileged::NESTED.into(), answer: element };
            return AddressedMessage { to: shard.into(), message };
        }
        let account = is_to_domain
            .then(|| privilege::account_of_answer(&element))
            .flatten()
            .filter(|account| settings.is_local(account.domain()));
        if let Some(account) = &account {
            element.set("to", account.as_str());
        }
        let owner = Bucket::of(account.as_ref().map_or(to.bare_str(), Bare::as_str));
        AddressedMessage { to: owner.into(), message: XmppShardMessage::Routed(element) }
    }

    /// To the shard of this node that is responsible for that server.
    fn to_server(&self, message: ShardMessage) -> AddressedMessage {
        let to = match message.recipient() {
            // One shard of this node has the connections to a server, so stanzas for it stay in their order.
            Recipient::Owner(domain) => self.map.owner(Bucket::of(&domain)),
            Recipient::Shard(shard) => shard,
        };
        AddressedMessage { to: to.into(), message: XmppShardMessage::Servers(Box::new(message)) }
    }

    /// To the connection that has the stanzas of this sender, of those of the component.
    fn route_to_component(
        &mut self,
        settings: &chat::HostSettings,
        to: &Jid,
        element: Box<Element>,
    ) -> Option<AddressedMessage> {
        let from = stanza::from(&element).ok().flatten();
        // By the bare address: all clients of a user go to one connection, so their stanzas stay in order.
        let user = from.as_ref().map_or("", Jid::bare_str);
        match self.components.pick(to.domain(), user) {
            Some(edge) => {
                let message = XmppShardMessage::ToComponent { edge, element };
                Some(AddressedMessage { to: edge.shard.into(), message })
            }
            None => self.refuse_unconnected(settings, &element),
        }
    }

    /// Handles a message about components. Returns the answer to a stanza that could not be delivered.
    pub(super) fn handle_component_message(
        &mut self,
        settings: &chat::HostSettings,
        message: XmppShardMessage,
    ) -> Option<AddressedMessage> {
        match message {
            XmppShardMessage::AttachOutcome { edge, domain } => self.components.handle_attached(domain, edge),
            XmppShardMessage::Detached { edge, domain } => self.components.handle_detached(&domain, edge),
            XmppShardMessage::ToComponent { edge, element } => {
                return match self.components.deliver(edge.connection, &element) {
                    Delivery::Queued => None,
                    // It left while this was on its way.
                    Delivery::Gone => self.refuse_unconnected(settings, &element),
                    Delivery::Full => self.refuse_busy(settings, &element),
                };
            }
            _ => {}
        }
        None
    }

    /// Handles due timers of other servers, and takes their events since the last turn.
    pub(super) fn take_server_events(&mut self, now: Instant) -> Vec<S2sEvent> {
        let mut events = Vec::new();
        if let Some(servers) = &mut self.servers {
            // Timers first: they may cause events of this turn.
            if servers.deadline().is_some_and(|deadline| deadline <= now) {
                servers.expire();
            }
            servers.take_events(&mut events);
        }
        events
    }

    /// A stanza of another server goes to an address of ours, and never on to another server.
    pub(super) fn handle_server_event(
        &mut self,
        settings: &chat::HostSettings,
        event: S2sEvent,
    ) -> Option<AddressedMessage> {
        match event {
            S2sEvent::Deliver(element) => {
                let to = stanza::to(&element).ok().flatten()?;
                let is_local = self.servers.as_ref().is_some_and(|servers| servers.is_local(to.domain()));
                is_local.then(|| self.route(settings, element)).flatten()
            }
            S2sEvent::Send(message) => Some(self.to_server(message)),
            // `Xmpp::turn_servers` reports it.
            S2sEvent::Outcome(..) => None,
        }
    }

    /// Handles a message between what shards have of other servers. A node without federation has no machine for it.
    pub(super) fn handle_server_message(&mut self, message: ShardMessage) {
        if let Some(servers) = &mut self.servers {
            servers.handle_message(message);
        }
    }
}
