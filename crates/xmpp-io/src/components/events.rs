//! Attaches the connections of components, and delivers stanzas to them: the part of [`Components`] that the shard calls in its turn.

use std::net::IpAddr;

use cluster::ShardAddress;
use net::source_limiter::SourceLimiter;
use stdx::Instant;
use stdx::attempts::Cause;
use xmpp::component::AttachOutcome;
use xmpp::{ConnectionId, Element};

use super::{ComponentEvent, Components};
use crate::limits;
use logging::sign_in_failures::{Failure, Service, SignInFailures};

/// The result of delivering a stanza to a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The stanza waits to be written.
    Queued,
    /// The connection is not there any more.
    Gone,
    /// The component has to read what it was sent before.
    Full,
}

/// News of the components of one shard.
#[derive(Debug)]
pub enum ComponentUpdate {
    /// Every shard has to know.
    Attached {
        /// The connection.
        edge: ConnectionId,
        /// The component.
        domain: Box<str>,
    },
    /// Every shard has to know.
    Detached {
        /// The connection.
        edge: ConnectionId,
        /// The component.
        domain: Box<str>,
    },
    /// A stanza that a component sent.
    Stanza(Element),
    /// Stanzas that a component was not sent before its connection ended.
    Unsent(Vec<Element>),
}

impl Components {
    /// Handles an event of a connection of this shard.
    pub fn handle_event(
        &mut self,
        now: Instant,
        shard: ShardAddress,
        event: ComponentEvent,
        failures: &SignInFailures,
    ) -> Option<ComponentUpdate> {
        let note = |(address, transport): (IpAddr, &str), domain: &str, cause: Cause| {
            let service = Service::Components;
            failures.note(now, &Failure { service, transport, address, account: domain, cause });
        };
        match event {
            ComponentEvent::Attach { connection, domain, remote } => {
                if let Some(transport) = self.barred(now, connection, remote) {
                    note((remote, transport), &domain, Cause::TooManyAttempts);
                }
                if !self.answer(now, connection, &domain, remote) {
                    return None;
                }
                tracing::info!(component = &*domain, %remote, "a component is connected");
                Some(ComponentUpdate::Attached { edge: ConnectionId { shard, connection }, domain })
            }
            ComponentEvent::Failed { remote, transport, domain } => {
                self.wrong_secrets().fail(now, remote);
                note((remote, transport), &domain, Cause::WrongSecret);
                None
            }
            ComponentEvent::Stanza(element) => Some(ComponentUpdate::Stanza(element)),
            ComponentEvent::Unsent(stanzas) => Some(ComponentUpdate::Unsent(stanzas)),
            ComponentEvent::Gone { connection, domain } => {
                tracing::info!(component = &*domain, "a component is gone");
                Some(ComponentUpdate::Detached { edge: ConnectionId { shard, connection }, domain })
            }
        }
    }

    /// A connection of some shard serves this domain from now on.
    pub fn handle_attached(&mut self, domain: Box<str>, edge: ConnectionId) {
        self.directory.add(domain, edge);
    }

    /// A connection of some shard is gone.
    pub fn handle_detached(&mut self, domain: &str, edge: ConnectionId) {
        self.directory.remove(domain, edge);
    }

    /// The connections of shards that are gone are forgotten. Returns the components that have lost one and have others.
    pub fn retain_shards(&mut self, is_there: impl Fn(ShardAddress) -> bool) -> Vec<Box<str>> {
        self.directory.retain(is_there)
    }

    /// True if this connection of this shard is there.
    pub fn has(&self, connection: u64) -> bool {
        self.shared.connection(connection).is_some()
    }

    /// The attached connections of this shard, by number, with their domains.
    pub fn attached(&self) -> Vec<(u64, Box<str>)> {
        let connections = self.shared.connections.borrow();
        let attached = connections.values().filter(|connection| connection.was_attached.get());
        attached.map(|connection| (connection.number, connection.stream.borrow().domain().into())).collect()
    }

    /// The connection that has the stanzas of this user; `None`: the component is not connected.
    pub fn pick(&self, domain: &str, user: &str) -> Option<ConnectionId> {
        self.directory.pick(domain, user)
    }

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

    /// Writes a stanza to a connection of this shard.
    pub fn deliver(&mut self, connection: u64, element: &Element) -> Delivery {
        let Some(connection) = self.shared.connection(connection) else { return Delivery::Gone };
        if connection.queued() > limits::XMPP_COMPONENT_QUEUE {
            return Delivery::Full;
        }
        self.shared.count(|counters| counters.stanzas_out += 1);
        self.shared.tell(&connection, |stream, out| stream.write(element, out));
        Delivery::Queued
    }
}
