//! Routes stanzas to components and from them.

use std::net::IpAddr;

use stdx::Instant;
use stdx::attempts::Cause;
use xmpp::ConnectionId;
use xmpp::component::AttachOutcome;
use xmpp::stanza::{self, Condition, StanzaError};
use xmpp::{Element, Jid};

use super::Event;
use crate::limits;
use crate::message::XmppShardMessage;
use crate::net::source_limiter::SourceLimiter;
use crate::sign_in_failures::{Failure, Service};
use crate::xmpp::{Xmpp, XmppEffect};

/// The result of delivering a stanza to a component.
enum Delivered {
    Queued,
    Gone,
    /// The component has to read what it was sent before.
    Full,
}

impl Xmpp {
    /// Handles components' events since the last turn. Returns how many there were.
    pub(in crate::xmpp) fn turn_components(&mut self, now: Instant, outbox: &mut Vec<XmppEffect>) -> usize {
        let events = self.components.take_events();
        let count = events.len();
        for event in events {
            match event {
                Event::Attach { connection, domain, remote } => {
                    let edge = ConnectionId { shard: self.shard, connection };
                    if let Some(transport) = self.components.barred(now, connection, remote) {
                        self.note_component(now, (remote, transport), &domain, Cause::TooManyAttempts);
                    }
                    if self.components.answer(now, connection, &domain, remote) {
                        tracing::info!(component = &*domain, %remote, "a component is connected");
                        let attached = |domain| XmppShardMessage::AttachOutcome { edge, domain };
                        self.tell_all(now, attached, &domain, outbox);
                    }
                }
                Event::Failed { remote, transport, domain } => {
                    self.components.wrong_secrets().fail(now, remote);
                    self.note_component(now, (remote, transport), &domain, Cause::WrongSecret);
                }
                Event::Stanza(element) => self.route(now, Box::new(element), outbox),
                Event::Gone { connection, domain } => {
                    let edge = ConnectionId { shard: self.shard, connection };
                    tracing::info!(component = &*domain, "a component is gone");
                    let detached = |domain| XmppShardMessage::Detached { edge, domain };
                    self.tell_all(now, detached, &domain, outbox);
                }
            }
        }
        count
    }

    fn note_component(&self, now: Instant, (address, transport): (IpAddr, &str), domain: &str, cause: Cause) {
        let service = Service::Components;
        self.access.failures.note(now, &Failure { service, transport, address, account: domain, cause });
    }

    /// Every shard has to know.
    fn tell_all(
        &mut self,
        now: Instant,
        message: impl Fn(Box<str>) -> XmppShardMessage,
        domain: &str,
        outbox: &mut Vec<XmppEffect>,
    ) {
        for shard in self.map.all() {
            self.send(now, shard, message(domain.into()), outbox);
        }
    }

    /// Sends to the component that serves the domain. Returns a stanza whose domain no component serves.
    pub(in crate::xmpp) fn route_to_component(
        &mut self,
        now: Instant,
        to: &Jid,
        element: Box<Element>,
        outbox: &mut Vec<XmppEffect>,
    ) -> Option<Box<Element>> {
        if !self.components.is_component(to.domain()) {
            return Some(element);
        }
        let from = stanza::from(&element).ok().flatten();
        let user = from.as_ref().map_or("", Jid::bare_str);
        match self.components.directory.pick(to.domain(), user) {
            Some(edge) => self.send(now, edge.shard, XmppShardMessage::ToComponent { edge, element }, outbox),
            None => self.refuse_unconnected(now, &element, outbox),
        }
        None
    }

    /// It is not there now: `wait`, as from Prosody, for it will be back.
    fn refuse_unconnected(&mut self, now: Instant, element: &Element, outbox: &mut Vec<XmppEffect>) {
        if stanza::may_be_refused(element) && element.name() != "presence" && element.attr("from").is_some() {
            let text = "this component is not connected";
            let error =
                StanzaError { kind: Some("wait"), ..StanzaError::new(Condition::ServiceUnavailable, text) };
            self.route_answer(now, stanza::refusal(element, &error), outbox);
        }
    }

    pub(in crate::xmpp) fn handle_component_message(
        &mut self,
        now: Instant,
        message: XmppShardMessage,
        outbox: &mut Vec<XmppEffect>,
    ) {
        match message {
            XmppShardMessage::AttachOutcome { edge, domain } => self.components.directory.add(domain, edge),
            XmppShardMessage::Detached { edge, domain } => self.components.directory.remove(&domain, edge),
            XmppShardMessage::ToComponent { edge, element } => {
                match self.components.deliver(edge.connection, &element) {
                    Delivered::Queued => {}
                    // It left while this was on its way.
                    Delivered::Gone => self.refuse_unconnected(now, &element, outbox),
                    Delivered::Full => self.refuse_busy(now, &element, outbox),
                }
            }
            _ => {}
        }
    }
}

impl super::Components {
    fn wrong_secrets(&self) -> &SourceLimiter {
        &self.shared.settings.wrong_secrets
    }

    /// The transport of a connection whose address has sent too many wrong secrets.
    fn barred(&self, now: Instant, connection: u64, remote: IpAddr) -> Option<&'static str> {
        let connection = self.shared.connection(connection)?;
        let is_barred = !self.wrong_secrets().penalty(now, remote).is_pass();
        is_barred.then(|| connection.transport())
    }

    /// True: it is attached now.
    fn answer(&mut self, now: Instant, connection: u64, domain: &str, remote: IpAddr) -> bool {
        let Some(connection) = self.shared.connection(connection) else { return false };
        let attached = if !self.wrong_secrets().penalty(now, remote).is_pass() {
            AttachOutcome::Barred
        } else if self.directory.has_room(domain) {
            AttachOutcome::Here
        } else {
            AttachOutcome::Conflict
        };
        let is_here = attached == AttachOutcome::Here;
        if is_here {
            self.wrong_secrets().succeed(remote);
            connection.was_attached.set(true);
            connection.admitted.establish();
            self.shared.count(|counters| counters.attached += 1);
        }
        self.shared.tell(&connection, |stream, out| stream.handle_attached(attached, out));
        is_here
    }

    fn deliver(&mut self, connection: u64, element: &Element) -> Delivered {
        let Some(connection) = self.shared.connection(connection) else { return Delivered::Gone };
        if connection.queued() > limits::XMPP_COMPONENT_QUEUE {
            return Delivered::Full;
        }
        self.shared.count(|counters| counters.stanzas_out += 1);
        self.shared.tell(&connection, |stream, out| stream.write(element, out));
        Delivered::Queued
    }
}
