//! State that the tasks of a shard's streams share. All on one thread.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cluster::{Bucket, ShardAddress};
use std::task::{Context, Poll, Waker};

use net::admission::Admitted;
use net::handshake::HandshakePermits;
use sip::transport::Transport;
use stdx::Instant;
use tokio::sync::{Notify, Semaphore};
use xmpp::c2s::{self, BindRequest, C2s, Framing, Outbox, Security};
use xmpp::{Element, Jid, ns, sasl, stanza};

use super::congestion::Congestion;
use super::counts::StreamCounts;
use super::http::bosh;
use super::http::invitation::InvitationQuery;
use super::pace::Pauses;
use super::task_probe::TaskProbe;
use super::ticks::{Ticks, Wait};
use super::trace::Tracing;
use super::{C2sConnectionSettings, Stream};
use crate::limits;
use crate::mailbox::Mailbox;
use crate::sign_in_limiter::{DelayedWork, SignInLimiter};

/// A stream's request of the shard.
#[derive(Debug)]
pub enum C2sEvent {
    /// A client proves that it is an account: asks for the account's credentials.
    Find {
        /// The stream's number.
        stream: u64,
        /// The credentials that are needed.
        find: sasl::CredentialQuery,
        /// The domain of the stream.
        domain: Box<str>,
    },
    /// A change of an account's tokens (XEP-0484).
    Tokens {
        /// The stream's number.
        stream: u64,
        /// The change.
        work: Box<c2s::TokenWork>,
    },
    /// A client has shown an invitation (XEP-0445).
    Invited {
        /// The stream's number.
        stream: u64,
        /// The invitation's token.
        token: Box<str>,
        /// The domain of the stream.
        domain: Box<str>,
    },
    /// A browser asks for the page of an invitation (XEP-0401).
    Invitation(Box<InvitationQuery>),
    /// A client makes an account (XEP-0077).
    Register {
        /// The stream's number.
        stream: u64,
        /// The account.
        registration: Box<c2s::Registration>,
    },
    /// A signed-in client binds a resource (RFC 6120 §7).
    Bind {
        /// The stream's number.
        stream: u64,
        /// The account and the resource asked for.
        request: Box<BindRequest>,
    },
    /// A signed-in client resumes a session (XEP-0198 §5).
    Resume {
        /// The stream's number.
        stream: u64,
        /// The account that signed in.
        user: Jid,
        /// The session's identifier, `previd`.
        id: Box<str>,
        /// The number of stanzas that the client has received, `h`.
        seen: u32,
    },
    /// A stanza that the client sent.
    Stanza {
        /// The stream's number.
        stream: u64,
        /// The stanza.
        element: Element,
    },
    /// An element that is no stanza and concerns the session, as those of XEP-0198.
    Nonza {
        /// The stream's number.
        stream: u64,
        /// The element.
        element: Element,
    },
    /// A request of a session of BOSH that is at another shard.
    Bosh {
        /// The shard of the session.
        shard: ShardAddress,
        /// The request.
        call: Box<bosh::Call>,
    },
    /// An attempt to sign in failed.
    Failed {
        /// Address and transport.
        peer: (IpAddr, &'static str),
        /// The domain of the stream.
        domain: Box<str>,
        /// The attempt.
        failed: c2s::FailedAttempt,
    },
    /// The answer to `XmppShardMessage::Flush`.
    Drained {
        /// The stream's number.
        stream: u64,
    },
    /// A stream that had asked for a session has ended, or its client has closed it: then the stream stays open until
    /// `C2sConnections::end`, so that the stanzas on their way to the client are still written.
    Gone {
        /// The stream's number.
        stream: u64,
        /// The bucket of the account.
        bucket: Bucket,
        /// The client closed the stream (RFC 6120 §4.4).
        in_order: bool,
    },
}

/// The connections of one shard, and the parts that all of them use.
pub(super) struct C2sConnections {
    pub(super) settings: C2sConnectionSettings,
    pub(super) shard: ShardAddress,
    /// New streams are refused.
    pub(super) is_leaving: Cell<bool>,
    /// The node ends: connections of HTTP close after the answer that is under way.
    pub(super) ending: Notify,
    pub(super) bosh: bosh::BoshSessions,
    pub(super) stream_settings: RefCell<Arc<c2s::C2sSettings>>,
    pub(super) counts: StreamCounts,
    /// Events for the shard, of all streams.
    mailbox: Mailbox<C2sEvent>,
    /// Streams that have not ended, by number.
    streams: RefCell<HashMap<u64, Rc<Stream>>>,
    /// The number of the next stream.
    next: Cell<u64>,
    /// Handshakes of TLS at the same time.
    pub(super) handshakes: Arc<HandshakePermits>,
    /// Sign-ins are limited while the shard does not keep up.
    pub(super) limiter: RefCell<SignInLimiter>,
    pub(super) probe: TaskProbe,
    /// The time of the first event that the shard has not taken. `None`: it has taken all.
    first_event: Cell<Option<Instant>>,
    /// The longest wait of the events that the shard took last.
    waited: Cell<Duration>,
    /// Questions about invitations that may be under way.
    pub(super) lookups: Arc<Semaphore>,
    pub(super) ticks: Ticks,
    /// Every stream reads into this, one at a time.
    pub(super) scratch: RefCell<Box<[u8]>>,
    /// Lent to one stream at a time.
    outbox: RefCell<Outbox>,
    pub(super) pauses: Pauses,
    pub(super) congestion: Congestion,
    pub(super) tracing: Tracing,
}

/// Bytes that are read at once from one connection.
const SCRATCH: usize = 16 * 1024;

/// The id of our questions for a sign of life.
const PROBE: &str = "belfry-alive";

impl C2sConnections {
    pub(super) fn new(settings: C2sConnectionSettings, shard: ShardAddress) -> Rc<Self> {
        Rc::new(C2sConnections {
            stream_settings: RefCell::new(Arc::clone(&settings.stream)),
            ticks: Ticks::new(settings.idle),
            pauses: Pauses::new(),
            congestion: Congestion::default(),
            tracing: Tracing::new(settings.traces.clone()),
            settings,
            shard,
            is_leaving: Cell::new(false),
            ending: Notify::new(),
            bosh: bosh::BoshSessions::default(),
            counts: StreamCounts::default(),
            mailbox: Mailbox::default(),
            streams: RefCell::default(),
            next: Cell::new(1),
            handshakes: Arc::new(HandshakePermits::new(net::limits::HANDSHAKES)),
            limiter: RefCell::default(),
            probe: TaskProbe::default(),
            first_event: Cell::default(),
            waited: Cell::default(),
            lookups: Arc::new(Semaphore::new(limits::INVITATION_LOOKUPS)),
            scratch: RefCell::new(vec![0; SCRATCH].into_boxed_slice()),
            outbox: RefCell::default(),
        })
    }

    /// The connections that are counted as open.
    pub(super) fn open_connections(&self) -> usize {
        usize::try_from(self.counts.open()).unwrap_or(usize::MAX)
    }

    /// A place for one more connection; it is counted until `leave`. `None`: there are too many.
    pub(super) fn enter(&self, source: IpAddr, transport: Transport) -> Option<Admitted> {
        let has_place = self.counts.open() < self.settings.max_streams as u64;
        let admitted = has_place.then(|| self.admit(source, transport)).flatten();
        if admitted.is_none() {
            self.counts.count(|counters| counters.refused += 1);
            return None;
        }
        self.counts.connected(transport);
        admitted
    }

    /// A place among those of its source; a proxy's connections are those of many clients.
    pub(super) fn admit(&self, source: IpAddr, transport: Transport) -> Option<Admitted> {
        let is_web = matches!(transport, Transport::Ws | Transport::Wss);
        let is_proxy = is_web && self.settings.proxies.trust(source);
        let source = (!is_proxy).then(|| source.into());
        self.settings.admission.enter(source, self.settings.max_streams_per_source)
    }

    /// True if one more stream through a proxy would fit; its connection is counted already.
    pub(super) fn has_place_behind_proxy(&self, source: IpAddr) -> bool {
        let most = self.settings.max_streams_per_source;
        let fits =
            self.settings.proxies.trust(source) || self.settings.admission.has_place(source.into(), most);
        self.counts.count(|counters| counters.refused += u64::from(!fits));
        fits
    }

    pub(super) fn leave(&self, transport: Transport) {
        self.counts.disconnected(transport);
        self.mailbox.wake();
    }

    /// Adds a stream, which has `C2sConnectionSettings::sign_in` to sign in.
    pub(super) fn add(
        &self,
        (remote, transport): (IpAddr, Transport),
        (framing, security): (Framing, Security),
        admitted: Option<Admitted>,
    ) -> Rc<Stream> {
        let number = self.next.get();
        self.next.set(number + 1);
        let settings = Arc::clone(&self.stream_settings.borrow());
        let mut nonce = [0; 16];
        // Without randomness the connection would be a risk; it has none to lose before it is made.
        let random = getrandom::u64().and_then(|id| getrandom::fill(&mut nonce).map(|()| id));
        let id = random.unwrap_or(number);
        let c2s = C2s::new(settings, framing, security, id, stdx::hex::encode(&nonce).into());
        let stream = Rc::new(Stream::new(number, (remote, transport), c2s, self.ticks.now(), admitted));
        self.streams.borrow_mut().insert(number, Rc::clone(&stream));
        self.ticks.expect(Wait::SignIn, self.settings.sign_in, number);
        stream
    }

    pub(super) fn remove(&self, stream: &Stream) {
        if self.streams.borrow_mut().remove(&stream.number).is_none() {
            return;
        }
        self.tracing.ended(stream);
        self.count_failures(stream, &mut stream.c2s.borrow_mut(), |c2s| c2s.handle_gone());
        // A client that has closed its stream has ended its session by that.
        if !stream.c2s.borrow().was_closed() {
            self.end_session(stream, false);
        }
    }

    /// Reports that the session of a stream ends.
    fn end_session(&self, stream: &Stream, in_order: bool) {
        if let Some(bucket) = stream.bucket.get() {
            self.event(C2sEvent::Gone { stream: stream.number, bucket, in_order });
        }
    }

    pub(super) fn stream(&self, number: u64) -> Option<Rc<Stream>> {
        self.streams.borrow().get(&number).cloned()
    }

    pub(super) fn all(&self) -> Vec<Rc<Stream>> {
        self.streams.borrow().values().cloned().collect()
    }

    pub(super) fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.mailbox.poll_ready(cx)
    }

    /// Ready when no client is connected.
    pub(super) fn poll_empty(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.mailbox.listen(cx);
        if self.counts.open() == 0 { Poll::Ready(()) } else { Poll::Pending }
    }

    /// The number of events, for [`take_failures`](Self::take_failures).
    pub(super) fn events(&self) -> usize {
        self.mailbox.len()
    }

    /// Moves out the failed attempts to sign in behind so many events.
    pub(super) fn take_failures(&self, behind: usize) -> Vec<C2sEvent> {
        self.mailbox.take_behind(behind, |event| matches!(event, C2sEvent::Failed { .. }))
    }

    pub(super) fn take_events(&self, sink: &mut Vec<C2sEvent>) {
        self.mailbox.take(sink);
        let waited = self.first_event.take().map(|first| self.clock().since(first));
        self.waited.set(waited.unwrap_or_default());
    }

    /// The time of the limiter.
    pub(super) fn clock(&self) -> Instant {
        Instant::from_micros(self.pauses.now() / 1_000)
    }

    /// One more sign-in begins, if the shard keeps up with those that have begun.
    pub(super) fn admit_sign_in(&self) -> bool {
        let is_admitted = self.limiter.borrow_mut().admit(self.clock());
        self.counts.count(|counters| counters.shed += u64::from(!is_admitted));
        is_admitted
    }

    /// A turn of the shard took so long. Its events waited for it as long as those before it and the tasks of connections took.
    pub(super) fn handle_turn(&self, length: Duration) {
        self.handle_delay(DelayedWork::Turn, length.max(self.waited.take()));
        if let Some(wait) = self.handshakes.take_wait() {
            self.handle_delay(DelayedWork::Handshake, wait);
        }
        self.probe.begin(self.clock());
    }

    /// Work that signing in needs was delayed so long.
    pub(super) fn handle_delay(&self, work: DelayedWork, delay: Duration) {
        self.limiter.borrow_mut().handle_delay(self.clock(), work, delay);
    }

    /// A client has a session.
    pub(super) fn handle_completed(&self) {
        self.limiter.borrow_mut().handle_completed(self.clock());
    }

    /// True while sign-ins are limited.
    pub(super) fn is_limiting(&self) -> bool {
        self.limiter.borrow().is_limiting()
    }

    /// True if a stream may read on; if not, `waker` is woken when it may.
    pub(super) fn has_room(&self, waker: &Waker) -> bool {
        self.mailbox.has_room(waker)
    }

    pub(super) fn event(&self, event: C2sEvent) {
        if self.mailbox.is_empty() {
            self.first_event.set(Some(self.clock()));
        }
        self.mailbox.put(event);
    }

    /// Handles bytes that came: the stream takes them, the clock of a stanza that has not come whole runs on, and the client's allowance
    /// shrinks.
    pub(super) fn heard(&self, stream: &Stream, bytes: &[u8]) {
        stream.heard.set(self.ticks.now());
        stream.probed.set(false);
        let (mut is_whole, mut is_within) = (false, false);
        self.tell(stream, |c2s, out| {
            c2s.handle_bytes(bytes, out);
            is_whole = !out.effects.is_empty() || !out.bytes.is_empty();
            is_within = c2s.is_within_stanza();
        });
        let since = stream.stanza_since.get();
        let since = if is_whole || since == 0 { self.ticks.now().max(1) } else { since };
        stream.stanza_since.set(if is_within { since } else { 0 });
        self.pace(stream, bytes.len());
    }

    /// Handles a ping or pong of the WebSocket: the client is there. The stream does not see it, as it is none of its data (RFC 6455 §5.5), and
    /// it counts for the client's allowance.
    pub(super) fn handle_control_frame(&self, stream: &Stream, payload: usize) {
        // The head and the mask of a client's frame (RFC 6455 §5.2).
        const HEAD: usize = 2 + 4;
        stream.heard.set(self.ticks.now());
        stream.probed.set(false);
        self.pace(stream, HEAD + payload);
    }

    /// Lets a stream work, queues the bytes that it writes and performs its effects. A client that does not read what it is sent is closed
    /// with `resource-constraint`.
    pub(super) fn tell(&self, stream: &Stream, act: impl FnOnce(&mut C2s, &mut Outbox)) {
        let mut out = self.outbox.take();
        let mut c2s = stream.c2s.borrow_mut();
        self.tracing.before(&mut c2s);
        self.count_failures(stream, &mut c2s, |c2s| act(c2s, &mut out));
        self.tracing.after(stream, &c2s, &mut out);
        if !out.bytes.is_empty() {
            stream.step();
        }
        stream.put(c2s.framing(), &out);
        out.bytes.clear();
        out.ends.clear();
        for effect in out.effects.drain(..) {
            self.perform(stream, &c2s, effect);
        }
        if stream.queued() > limits::XMPP_WRITE_QUEUE && !c2s.is_closed() {
            self.counts.count(|counters| counters.overflows += 1);
            stream.forget_queue();
            c2s.fail("resource-constraint", &mut out);
            self.counts.ended(&c2s);
            stream.put(c2s.framing(), &out);
            out = Outbox::default();
            self.close(stream);
        }
        if stream.queued() > limits::XMPP_UNREAD {
            self.congestion.note(stream, self.ticks.now());
        }
        drop(c2s);
        *self.outbox.borrow_mut() = out;
        stream.wake();
    }

    /// Attempts to sign in that fail with it count against their source.
    fn count_failures(&self, stream: &Stream, c2s: &mut C2s, act: impl FnOnce(&mut C2s)) {
        act(c2s);
        for failed in c2s.take_failed() {
            self.event(C2sEvent::Failed { peer: stream.peer(), domain: c2s.domain().into(), failed });
        }
    }

    /// Performs an effect of a stream: most become events for the shard.
    fn perform(&self, stream: &Stream, c2s: &C2s, effect: c2s::Effect) {
        let number = stream.number;
        match effect {
            c2s::Effect::StartTls => stream.securing.set(true),
            c2s::Effect::End => {
                self.end_session(stream, true);
                self.ticks.expect(Wait::SessionEnd, limits::XMPP_SESSION_END, number);
            }
            c2s::Effect::Close => {
                let is_fault = !c2s.was_closed() && !c2s::refusal::is_refused(c2s);
                self.counts.count(|counters| counters.faults += u64::from(is_fault));
                self.counts.ended(c2s);
                self.close(stream);
            }
            c2s::Effect::Find { find, domain } => self.event(C2sEvent::Find { stream: number, find, domain }),
            c2s::Effect::Tokens(work) => self.event(C2sEvent::Tokens { stream: number, work }),
            c2s::Effect::Invited { token, domain } => {
                self.event(C2sEvent::Invited { stream: number, token, domain });
            }
            c2s::Effect::Register(registration) => {
                self.event(C2sEvent::Register { stream: number, registration });
            }
            c2s::Effect::Bind(mut request) => {
                request.can_move = matches!(stream.transport.get(), Transport::Tcp | Transport::Tls);
                self.event(C2sEvent::Bind { stream: number, request });
            }
            c2s::Effect::Resume { user, id, seen } => {
                self.event(C2sEvent::Resume { stream: number, user, id, seen });
            }
            c2s::Effect::Stanza(element) => {
                self.counts.count(|counters| counters.stanzas_in.count(element.name()));
                stream.buckets.take_stanza(self.pauses.now(), self.settings.allowance);
                if !is_sign_of_life(&element) {
                    self.event(C2sEvent::Stanza { stream: number, element });
                }
            }
            c2s::Effect::Nonza(element) => {
                stream.buckets.take_stanza(self.pauses.now(), self.settings.allowance);
                self.event(C2sEvent::Nonza { stream: number, element });
            }
        }
    }

    /// Closes the connection once its queue is written; later it is given up (`sweep`).
    fn close(&self, stream: &Stream) {
        stream.closing.set(true);
        self.ticks.expect(Wait::Linger, limits::XMPP_LINGER, stream.number);
    }

    /// Called once a tick: ends streams that took too long to sign in or to go, and probes silent ones.
    pub(super) fn sweep(&self) {
        let now = self.ticks.advance();
        for number in self.ticks.take_due(Wait::SignIn) {
            if let Some(stream) = self.stream(number).filter(|stream| stream.bucket.get().is_none()) {
                self.time_out(&stream);
            }
        }
        // The owner of the session is gone, or has lost the request.
        for number in self.ticks.take_due(Wait::SessionEnd) {
            if let Some(stream) = self.stream(number) {
                self.tell(&stream, |c2s, out| c2s.close(out));
            }
        }
        for number in self.ticks.take_due(Wait::Linger) {
            if let Some(stream) = self.stream(number) {
                stream.given_up.set(true);
                stream.wake();
            }
        }
        self.sweep_congested();
        let idle = self.ticks.of(self.settings.idle).unwrap_or(u32::MAX);
        if self.ticks.is_idle_step(idle) {
            self.sweep_idle(now, idle);
        }
    }

    /// Probes streams that have been silent for `idle` ticks, and ends those that have not answered a probe in time.
    fn sweep_idle(&self, now: u32, idle: u32) {
        let probe = self.ticks.of(limits::XMPP_PROBE.min(self.settings.idle)).unwrap_or(u32::MAX);
        self.sweep_endless(now);
        let silent = |stream: &&Rc<Stream>| now.wrapping_sub(stream.heard.get()) > idle;
        let silent: Vec<_> = self.streams.borrow().values().filter(silent).cloned().collect();
        for stream in silent {
            let silence = now.wrapping_sub(stream.heard.get());
            if silence > idle.saturating_add(probe) {
                self.time_out(&stream);
            } else if !stream.probed.replace(true) && stream.bucket.get().is_some() {
                self.probe(&stream);
            }
        }
    }

    /// Ends streams with a stanza that does not end: bytes that trickle are a sign of life, but such a stanza is not. The time is three
    /// idle times at most, so that a client that falls silent within a stanza is probed first.
    fn sweep_endless(&self, now: u32) {
        let most = self.ticks.of(limits::XMPP_STANZA.min(self.settings.idle * 3)).unwrap_or(u32::MAX);
        let is_endless = |stream: &&Rc<Stream>| {
            let since = stream.stanza_since.get();
            since != 0 && now.wrapping_sub(since) > most
        };
        let endless: Vec<_> = self.streams.borrow().values().filter(is_endless).cloned().collect();
        for stream in endless {
            self.time_out(&stream);
        }
    }

    /// Stream management has a question of its own, which is not counted among the stanzas (XEP-0198 §4); else a ping
    /// (XEP-0199 §4.1).
    fn probe(&self, stream: &Stream) {
        let managed = stream.is_managed.get();
        self.tell(stream, |c2s, out| {
            let Some(jid) = c2s.jid().filter(|_| c2s.is_bound()) else { return };
            let ping = Element::new("iq", ns::CLIENT)
                .with("type", "get")
                .with("id", PROBE)
                .with("from", c2s.domain())
                .with("to", jid.as_str())
                .child(Element::new("ping", ns::PING));
            let probe = if managed { Element::new("r", ns::SM) } else { ping };
            c2s.write(&probe, out);
        });
    }

    fn time_out(&self, stream: &Stream) {
        if !stream.closing.get() {
            self.counts.count(|counters| counters.timeouts += 1);
            self.tell(stream, |c2s, out| c2s.fail("connection-timeout", out));
        }
    }
}

/// The answer to a probe has done its work by being there.
fn is_sign_of_life(element: &Element) -> bool {
    stanza::kind_of(element) == Some(stanza::StanzaKind::Iq)
        && matches!(element.attr("type"), Some("result" | "error"))
        && element.attr("id") == Some(PROBE)
}
