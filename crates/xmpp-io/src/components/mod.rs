//! External components (XEP-0114) of one shard: their connections, and which shard has which component.
//!
//! A connection stays on the shard that accepted it, and all shards are told when a component comes or goes, so that each
//! finds the way itself. Several connections of one component share its stanzas by their senders.

mod connection;
mod directory;
mod events;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::mailbox::Mailbox;
use crate::streams::{Allowance, nanos};
use net::admission::Admission;
use net::handshake::HandshakePermits;
use net::source_limiter::SourceLimiter;
use net::tls::Tls;
use net::{Listener, NetError, stream as tcp};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use xmpp::Element;
use xmpp::component::{self, Component, Effect, Outbox};

use crate::limits;
use connection::ComponentConnection;
use directory::Directory;
pub use events::{ComponentUpdate, Delivery};

/// The settings of connections.
#[derive(Clone, Debug)]
pub struct ComponentConnectionSettings {
    /// Addresses and transports.
    pub listen: Vec<Listener>,
    /// Certificates.
    pub tls: Option<Arc<Tls>>,
    /// The components and their secrets.
    pub known: Arc<component::ComponentSettings>,
    /// The places of connections, of all shards.
    pub admission: Arc<Admission>,
    /// The rate that one connection may send at before it is read more slowly.
    pub allowance: Allowance,
    /// Wrong secrets by source, of all shards.
    pub wrong_secrets: Arc<SourceLimiter>,
    /// Time for the handshake.
    pub sign_in: Duration,
    /// The time that a component may take nothing of its queue.
    pub stalled: Duration,
}

/// A connection's request of the shard.
#[derive(Debug)]
pub enum ComponentEvent {
    /// A handshake is right (XEP-0114 §3): the component asks to be attached.
    Attach {
        /// The connection's number.
        connection: u64,
        /// The component.
        domain: Box<str>,
        /// The peer's address.
        remote: IpAddr,
    },
    /// A wrong secret, by this transport.
    Failed {
        /// The peer's address.
        remote: IpAddr,
        /// The connection's transport.
        transport: &'static str,
        /// The component.
        domain: Box<str>,
    },
    /// A stanza that a component sent.
    Stanza(Element),
    /// Stanzas that an attached connection had not sent when it ended. They come behind its end.
    Unsent(Vec<Element>),
    /// An attached connection has ended.
    Gone {
        /// The connection's number.
        connection: u64,
        /// The component.
        domain: Box<str>,
    },
}

/// Counters since the start of the shard.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Connections now.
    pub attached: u64,
    /// Wrong secrets and other refusals before a handshake was done.
    pub refused: u64,
    /// Stanzas received.
    pub stanzas_in: u64,
    /// Stanzas sent.
    pub stanzas_out: u64,
    /// Components that sent too much were not read from for a while.
    pub pauses: u64,
    /// Components that did not read.
    pub overflows: u64,
    panics: u64,
}

/// State that the tasks of a shard's connections share. All on one thread.
struct ComponentConnections {
    settings: ComponentConnectionSettings,
    counters: RefCell<Counters>,
    mailbox: Mailbox<ComponentEvent>,
    connections: RefCell<HashMap<u64, Rc<ComponentConnection>>>,
    /// Connections, those that wait for their end among them.
    open: Cell<usize>,
    /// One of them has ended.
    ended: Notify,
    /// The number of the next connection.
    next: Cell<u64>,
    /// Handshakes of TLS at the same time.
    handshakes: Arc<HandshakePermits>,
    /// The zero of the time of `Buckets`.
    began: tokio::time::Instant,
}

impl ComponentConnections {
    fn count(&self, change: impl FnOnce(&mut Counters)) {
        change(&mut self.counters.borrow_mut());
    }

    fn event(&self, event: ComponentEvent) {
        self.mailbox.put(event);
    }

    async fn until_there_is_room(&self) {
        poll_fn(|cx| if self.mailbox.has_room(cx.waker()) { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// Counts bytes that were read. Returns the time for which nothing more is to be read: a component that sends too much is slowed down, and
    /// nothing of it is lost.
    fn pause(&self, connection: &ComponentConnection, bytes: usize) -> Duration {
        let now = nanos(self.began.elapsed());
        let wait = connection.buckets.take_bytes(now, bytes, self.settings.allowance);
        if !wait.is_zero() {
            self.count(|counters| counters.pauses += 1);
        }
        wait
    }

    fn connection(&self, number: u64) -> Option<Rc<ComponentConnection>> {
        self.connections.borrow().get(&number).cloned()
    }

    /// Lets a connection's stream work, queues the bytes that it writes and performs its effects. A component that does not read the
    /// answers to its own stanzas is closed.
    fn tell(&self, connection: &ComponentConnection, act: impl FnOnce(&mut Component, &mut Outbox)) {
        let mut out = Outbox::default();
        let mut stream = connection.stream.borrow_mut();
        act(&mut stream, &mut out);
        if !out.bytes.is_empty() && connection.admitted.is_in_progress() {
            connection.admitted.step();
        }
        connection.put(&out.bytes);
        for effect in out.effects.drain(..) {
            self.perform(connection, &stream, effect);
        }
        if connection.queued() > 2 * limits::XMPP_COMPONENT_QUEUE && !stream.is_closed() {
            self.count_overflow(&stream);
            connection.drop_queue();
            out.bytes.clear();
            stream.fail("resource-constraint", "what this component was sent was not read", &mut out);
            connection.put(&out.bytes);
            connection.close();
        }
        connection.wake();
    }

    fn perform(&self, connection: &ComponentConnection, stream: &Component, effect: Effect) {
        match effect {
            Effect::Attach { domain } => {
                let remote = connection.remote;
                self.event(ComponentEvent::Attach { connection: connection.number, domain, remote });
            }
            Effect::Failed => {
                let (remote, transport) = (connection.remote, connection.transport());
                self.event(ComponentEvent::Failed { remote, transport, domain: stream.domain().into() });
            }
            Effect::Stanza(element) => {
                self.count(|counters| counters.stanzas_in += 1);
                connection.buckets.take_stanza(nanos(self.began.elapsed()), self.settings.allowance);
                self.event(ComponentEvent::Stanza(element));
            }
            Effect::Close => {
                self.count(|counters| counters.refused += u64::from(!connection.was_attached.get()));
                connection.close();
            }
        }
    }

    fn count_overflow(&self, stream: &Component) {
        self.count(|counters| counters.overflows += 1);
        tracing::warn!(component = stream.domain(), "does not read what it is sent: closed");
    }

    /// The connection gets nothing more, and its events are over. Called for each end of it; the first one counts.
    fn remove(&self, connection: &ComponentConnection) {
        if self.connections.borrow_mut().remove(&connection.number).is_none() {
            return;
        }
        if connection.was_attached.get() {
            self.count(|counters| counters.attached -= 1);
            let domain = connection.stream.borrow().domain().into();
            self.event(ComponentEvent::Gone { connection: connection.number, domain });
        }
    }
}

/// All of one shard, and where the others are.
pub struct Components {
    shared: Rc<ComponentConnections>,
    directory: Directory,
    accepting: Vec<JoinHandle<()>>,
}

impl Components {
    /// On the shard's thread, inside its runtime.
    ///
    /// # Errors
    /// An address that cannot be listened at.
    pub fn new(settings: ComponentConnectionSettings) -> Result<Self, NetError> {
        let listen = settings.listen.clone();
        let shared = Rc::new(ComponentConnections {
            settings,
            counters: RefCell::default(),
            mailbox: Mailbox::default(),
            connections: RefCell::default(),
            open: Cell::new(0),
            ended: Notify::new(),
            next: Cell::new(1),
            handshakes: Arc::new(HandshakePermits::new(net::limits::HANDSHAKES)),
            began: tokio::time::Instant::now(),
        });
        let mut accepting = Vec::new();
        for listener in listen {
            let socket = tcp::listen(listener.address).map_err(|error| NetError { listener, error })?;
            accepting.push(connection::accept_all(Rc::clone(&shared), socket, listener.transport));
        }
        Ok(Components { shared, directory: Directory::default(), accepting })
    }

    /// Ready when there is an event.
    pub fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.shared.mailbox.poll_ready(cx)
    }

    /// Moves out what was asked since the last call.
    pub fn take_events(&mut self) -> Vec<ComponentEvent> {
        let mut events = Vec::new();
        self.shared.mailbox.take(&mut events);
        events
    }

    /// True if that domain is a component's.
    pub fn is_component(&self, domain: &str) -> bool {
        self.shared.settings.known.is_component(domain)
    }

    /// Counters since the start of the shard.
    pub fn counters(&self) -> Counters {
        *self.shared.counters.borrow()
    }

    /// Defects met since the last call.
    pub fn take_panics(&mut self) -> u64 {
        std::mem::take(&mut self.shared.counters.borrow_mut().panics)
    }

    /// Closes the listeners; connections stay.
    pub fn stop_accepting(&mut self) {
        self.accepting.drain(..).for_each(|task| task.abort());
    }

    /// A stream error for all; their last words get `limits::XMPP_LINGER`.
    pub async fn close_all(&mut self, condition: &'static str) {
        self.stop_accepting();
        let all: Vec<Rc<ComponentConnection>> = self.shared.connections.borrow().values().cloned().collect();
        for connection in all {
            self.shared.tell(&connection, |stream, out| stream.fail(condition, "", out));
        }
        let shared = &self.shared;
        let gone = async {
            while shared.open.get() > 0 {
                shared.ended.notified().await;
            }
        };
        // A component that has not read it by now will not.
        let _ = tokio::time::timeout(limits::XMPP_LINGER, gone).await;
    }
}

impl Drop for Components {
    fn drop(&mut self) {
        self.stop_accepting();
    }
}
