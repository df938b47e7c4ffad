//! State that the tasks of a shard's connections share. All on one thread.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::mailbox::Mailbox;
use crate::streams::nanos;
use cluster::ShardAddress;
use hickory_resolver::TokioResolver;
use net::admission::{Admitted, Handle};
use net::dns;
use net::handshake::HandshakePermits;
use stdx::Instant;
use stdx::attempts::Cause;
use tokio::task::spawn_local;
use xmpp::s2s::{self, Counts, Effect, Failure, LogEvent, Pair, Refusal, Security};

use super::connection::S2sConnection;
use super::posh::FetchCause;
use super::{Counters, Reload, S2sConnectionSettings, S2sEvent, connect, posh};
use crate::limits;
use logging::sign_in_failures::{Failure as Failed, Service};

/// All connections of one shard with other servers. The machine gives their bytes a meaning; it is lent to one task at a time.
pub(super) struct S2sConnections {
    pub(super) settings: S2sConnectionSettings,
    pub(super) reload: RefCell<Reload>,
    pub(super) counters: Cell<Counters>,
    machine: RefCell<s2s::Servers>,
    connections: RefCell<HashMap<u64, Rc<S2sConnection>>>,
    mailbox: Mailbox<S2sEvent>,
    pub(super) handshakes: Arc<HandshakePermits>,
    /// The zero of the time of `Buckets`.
    began: tokio::time::Instant,
    /// Stanzas of the bytes that are being handled: `heard` counts them against their connection.
    delivered: Cell<u32>,
    resolver: RefCell<Option<Rc<TokioResolver>>>,
    /// Every connection reads into this, one at a time.
    pub(super) scratch: RefCell<Box<[u8]>>,
    /// Lent to one that works.
    effects: RefCell<Vec<Effect>>,
    /// Tasks of connections.
    live: Cell<usize>,
    /// For tasks that effects begin.
    this: std::rc::Weak<S2sConnections>,
}

/// A task that has not ended; `close_all` waits until there is none.
pub(super) struct Live(Rc<S2sConnections>);

impl Drop for Live {
    fn drop(&mut self) {
        self.0.live.set(self.0.live.get() - 1);
        self.0.wake();
    }
}

/// Bytes that are read at once from one connection.
const SCRATCH: usize = 16 * 1024;

impl S2sConnections {
    pub(super) fn new(settings: S2sConnectionSettings, shard: ShardAddress) -> Rc<Self> {
        let streams = Arc::clone(&settings.reload.streams);
        Rc::new_cyclic(|this| S2sConnections {
            machine: RefCell::new(s2s::Servers::new(streams, shard, settings.seed)),
            reload: RefCell::new(settings.reload.clone()),
            settings,
            counters: Cell::default(),
            connections: RefCell::default(),
            mailbox: Mailbox::default(),
            handshakes: Arc::new(HandshakePermits::new(net::limits::HANDSHAKES)),
            began: tokio::time::Instant::now(),
            delivered: Cell::new(0),
            resolver: RefCell::default(),
            scratch: RefCell::new(vec![0; SCRATCH].into_boxed_slice()),
            effects: RefCell::default(),
            live: Cell::new(0),
            this: this.clone(),
        })
    }

    pub(super) fn live(self: &Rc<Self>) -> Live {
        self.live.set(self.live.get() + 1);
        Live(Rc::clone(self))
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut Counters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }

    pub(super) fn counts(&self) -> (Counts, Counters) {
        (self.machine.borrow().counts(), self.counters.get())
    }

    pub(super) fn take_panics(&self) -> u64 {
        let panics = self.counters.get().panics;
        self.count(|counters| counters.panics = 0);
        panics
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.machine.borrow().deadline()
    }

    pub(super) fn is_local(&self, domain: &str) -> bool {
        self.reload.borrow().streams.is_local(domain)
    }

    pub(super) fn reload(&self, reload: Reload) {
        let streams = Arc::clone(&reload.streams);
        *self.reload.borrow_mut() = reload;
        self.tell(|servers, now, out| servers.reload(now, &streams, out));
    }

    /// Made with the first question: reading the system's settings is not free, and may fail.
    pub(super) fn resolver(&self) -> Option<Rc<TokioResolver>> {
        let mut known = self.resolver.borrow_mut();
        if known.is_none() {
            let made = dns::resolver(&self.settings.nameservers, net::limits::DNS_TIMEOUT);
            *known = made.inspect_err(|error| tracing::warn!(%error, "no DNS")).ok().map(Rc::new);
        }
        known.clone()
    }

    /// A place for one more connection; it is counted until `leave`. `None`: there are too many.
    pub(super) fn enter(&self, source: IpAddr) -> Option<Admitted> {
        let has_place = self.counters.get().open < self.settings.max_connections;
        let most = self.settings.max_connections_per_source;
        let admitted = has_place.then(|| self.settings.admission.enter(Some(source.into()), most)).flatten();
        self.count(|counters| match admitted {
            Some(_) => counters.open += 1,
            None => counters.refused += 1,
        });
        admitted
    }

    pub(super) fn leave(&self) {
        self.count(|counters| counters.open -= 1);
    }

    /// Adds an incoming connection.
    pub(super) fn accept(
        &self,
        security: Security,
        handle: Handle,
        source: (IpAddr, &'static str),
    ) -> Rc<S2sConnection> {
        let number = self.machine.borrow_mut().accept(self.settings.clock.now(), security);
        let own = Rc::new(S2sConnection::accepted(number, handle, source));
        self.connections.borrow_mut().insert(number, Rc::clone(&own));
        own
    }

    /// The connection has ended: the machine gets nothing more of it, and tells the senders of what waits, or has another one made.
    pub(super) fn broken(&self, own: &S2sConnection, failure: Failure) {
        self.connections.borrow_mut().remove(&own.number);
        self.tell(|servers, now, out| servers.handle_broken(now, own.number, failure, out));
    }

    /// Handles received bytes. Returns the pause before more is to be read: a server that sends too much is
    /// slowed down, and nothing of it is lost.
    pub(super) fn heard(&self, own: &S2sConnection, bytes: &[u8]) -> Duration {
        self.delivered.set(0);
        self.tell(|servers, now, out| servers.handle_bytes(now, own.number, bytes, out));
        if let Some(handle) = own.handle.as_ref().filter(|handle| handle.is_in_progress()) {
            if self.machine.borrow().is_of_use(own.number) {
                handle.establish();
            } else if own.has_queued() {
                handle.step();
            }
        }
        let now = nanos(self.began.elapsed());
        (0..self.delivered.get()).for_each(|_| own.buckets.take_stanza(now, self.settings.allowance));
        let wait = own.buckets.take_bytes(now, bytes.len(), self.settings.allowance);
        if !wait.is_zero() {
            self.count(|counters| counters.pauses += 1);
        }
        wait
    }

    pub(super) fn written(&self, own: &S2sConnection, count: usize) {
        self.tell(|servers, _, out| servers.handle_written(own.number, count, out));
    }

    /// Lets the machine work and does what comes of it. A panic there is our bug; it costs what it was about.
    pub(super) fn tell(&self, act: impl FnOnce(&mut s2s::Servers, Instant, &mut Vec<Effect>)) {
        let mut effects = self.effects.take();
        let acts = || act(&mut self.machine.borrow_mut(), self.settings.clock.now(), &mut effects);
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(acts)).is_err() {
            self.count(|counters| counters.panics += 1);
            tracing::error!("another server made the XMPP core panic; please report what is above");
        }
        for effect in effects.drain(..) {
            self.perform(effect);
        }
        *self.effects.borrow_mut() = effects;
    }

    fn perform(&self, effect: Effect) {
        match effect {
            Effect::Connect(wanted) => {
                let Some(shared) = self.this.upgrade() else { return };
                let own = Rc::new(S2sConnection::to(wanted.pair.remote.clone(), wanted.number));
                self.connections.borrow_mut().insert(wanted.number, Rc::clone(&own));
                spawn_local(connect::run(shared, own, wanted));
            }
            Effect::Write { number, bytes } => self.with(number, |own| own.put(bytes)),
            Effect::StartTls { number } => self.with(number, |own| {
                own.securing.set(true);
                own.wake();
            }),
            Effect::Close { number } => self.close(number),
            Effect::Deliver(element) => {
                self.delivered.set(self.delivered.get().saturating_add(1));
                self.event(S2sEvent::Deliver(element));
            }
            Effect::Send(message) => self.event(S2sEvent::Send(message)),
            Effect::Outcome(receipt, outcome) => self.event(S2sEvent::Outcome(receipt, outcome)),
            Effect::Note(LogEvent { pair, what: s2s::S2sStreamEvent::Refused { number, why } }) => {
                self.refused(&pair, number, why);
            }
            Effect::FetchPosh(fetch) => {
                let Some(shared) = self.this.upgrade() else { return };
                let of_source = |(address, _)| FetchCause::Source(address);
                let of_connection = |own: &Rc<S2sConnection>| own.source.map_or(FetchCause::Own, of_source);
                let connections = self.connections.borrow();
                let cause = connections.get(&fetch.number).map_or(FetchCause::Ended, of_connection);
                spawn_local(posh::run(shared, fetch, cause));
            }
            Effect::PoshFailed { domain, why } => {
                tracing::debug!(remote = &*domain, why = &*why, "no POSH document proves another server");
            }
            Effect::Note(note) => tell_of(&note),
        }
    }

    /// A server that has not proved its domain has failed to sign in: one line in the form that `docs/fail2ban` reads.
    fn refused(&self, pair: &Pair, number: u64, why: Refusal) {
        let (local, remote) = (&*pair.local, &*pair.remote);
        let cause = match why {
            Refusal::WrongKey | Refusal::WrongCertificate => Cause::WrongSecret,
            Refusal::Unverified => Cause::Unverified,
            Refusal::Policy(why) => return tracing::info!(local, remote, why, "refused another server"),
        };
        tracing::debug!(local, remote, why = why.as_str(), "refused another server");
        // `Effect::Close` follows this effect, so the connection is still there.
        let Some((address, transport)) = self.connections.borrow().get(&number).and_then(|own| own.source)
        else {
            return;
        };
        let failure = Failed { service: Service::Servers, transport, address, account: remote, cause };
        self.settings.failures.note(self.settings.clock.now(), &failure);
    }

    fn with(&self, number: u64, act: impl FnOnce(&S2sConnection)) {
        let found = self.connections.borrow().get(&number).cloned();
        if let Some(own) = found {
            act(&own);
        }
    }

    /// Closes a connection once its queue is written, or the time for that is over.
    fn close(&self, number: u64) {
        let Some(own) = self.connections.borrow_mut().remove(&number) else { return };
        own.closing.set(true);
        own.wake();
        spawn_local(async move {
            tokio::time::sleep(limits::XMPP_LINGER).await;
            own.given_up.set(true);
            own.wake();
        });
    }

    fn event(&self, event: S2sEvent) {
        self.mailbox.put(event);
    }

    fn wake(&self) {
        self.mailbox.wake();
    }

    pub(super) fn poll_ready(&self, cx: &Context<'_>) -> Poll<()> {
        self.mailbox.poll_ready(cx)
    }

    /// Ready when there is no connection.
    pub(super) fn poll_empty(&self, cx: &Context<'_>) -> Poll<()> {
        self.mailbox.listen(cx);
        if self.live.get() == 0 { Poll::Ready(()) } else { Poll::Pending }
    }

    pub(super) fn take_events(&self, sink: &mut Vec<S2sEvent>) {
        self.mailbox.take(sink);
    }

    /// True if a connection may read on; if not, `waker` is woken when it may.
    pub(super) fn has_room(&self, waker: &Waker) -> bool {
        self.mailbox.has_room(waker)
    }
}

fn tell_of(note: &LogEvent) {
    let (local, remote) = (&*note.pair.local, &*note.pair.remote);
    match &note.what {
        s2s::S2sStreamEvent::Connected { by, peer, is_encrypted } => {
            let peer_proof = peer.map_or("none", s2s::Proof::as_str);
            tracing::info!(
                local,
                remote,
                ?by,
                peer_proof,
                encrypted = is_encrypted,
                "connected to another server"
            );
        }
        s2s::S2sStreamEvent::Accepted { by, is_encrypted } => {
            tracing::info!(local, remote, ?by, encrypted = is_encrypted, "another server connected");
        }
        s2s::S2sStreamEvent::Failed(failure) => {
            let (condition, why) = (failure.condition.as_str(), &*failure.text);
            tracing::info!(local, remote, condition, why, "cannot reach another server");
        }
        // `S2sConnections::refused` writes it.
        s2s::S2sStreamEvent::Refused { .. } => {}
        s2s::S2sStreamEvent::Closed { why } => {
            tracing::debug!(local, remote, why, "closed a connection to another server");
        }
    }
}
