//! The connections of chat clients of one shard (RFC 6120, RFC 7395, XEP-0368).
//!
//! Every shard listens for itself and keeps what it accepts. A connection is one small task that reads into a buffer of
//! the shard's, lets the stream's [`C2s`] work at once, and writes its queue. A stream's requests of others
//! become [`C2sEvent`]s; the shard takes these in its turn and answers with [`Streams::tell`].

mod alone;
mod congestion;
mod counts;
pub mod http;
mod pace;
#[cfg(test)]
mod refusal_tests;
mod serve;
mod shared;
mod stream;
mod task_probe;
mod ticks;
mod trace;
mod wire;

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use cluster::{Bucket, ShardAddress};
use control::{ChatTrace, KindCount};
use net::admission::Admission;
use net::certified::ClientAuthorities;
use net::proxies::Proxies;
use net::tls::Tls;
use net::{Listener, NetError, stream as tcp};
use sip::transport::Transport;
use tokio::sync::broadcast;
use tokio::task::{JoinHandle, spawn_local};
use xmpp::c2s::{self, C2s};
use xmpp::{ConnectionId, Element, Jid, ns};

pub use alone::WebConnections;
pub use counts::Counters;
pub use pace::{Allowance, Buckets, nanos};
pub use shared::C2sEvent;
pub use stream::Stream;

use crate::limits;
use crate::sign_in_limiter::DelayedWork;
use crate::uploads::Uploads;
use shared::C2sConnections;

/// The settings of connections.
#[derive(Clone, Debug)]
pub struct C2sConnectionSettings {
    /// Addresses and transports.
    pub listen: Vec<Listener>,
    /// Certificates, for STARTTLS and for TLS from the start.
    pub tls: Option<Arc<Tls>>,
    /// Clients may show certificates of these (XEP-0178).
    pub client_authorities: Option<Arc<ClientAuthorities>>,
    /// Origins (RFC 6454) that browsers may connect from.
    pub origins: Vec<Box<str>>,
    /// Proxies whose word about a client's address counts.
    pub proxies: Proxies,
    /// Connections of one shard. More: closed as soon as accepted.
    pub max_streams: usize,
    /// Other processes listen at the same addresses: they get the connections that this one has no room for.
    pub shares_ports: bool,
    /// Streams from one source, over all shards.
    pub max_streams_per_source: usize,
    /// The places of connections, of all shards.
    pub admission: Arc<Admission>,
    /// Silence after which a client is asked for a sign of life.
    pub idle: Duration,
    /// The time that a client has to sign in.
    pub sign_in: Duration,
    /// The settings of HTTP.
    pub http: http::HttpServiceSettings,
    /// The settings of a stream's protocol.
    pub stream: Arc<c2s::C2sSettings>,
    /// The rate that one client may send at.
    pub allowance: Allowance,
    /// Receives copies of the elements of traced accounts.
    pub traces: broadcast::Sender<Arc<ChatTrace>>,
}

/// The connection of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionConnection {
    /// Its number, and the shard that has it.
    pub edge: ConnectionId,
    /// The client's address.
    pub remote: IpAddr,
    /// The connection's transport.
    pub transport: Transport,
}

/// All of one shard.
pub struct Streams {
    shared: Rc<C2sConnections>,
    accepting: Vec<JoinHandle<()>>,
    sweeper: JoinHandle<()>,
    pacer: JoinHandle<()>,
    probe: JoinHandle<()>,
}

impl Streams {
    /// Begins the tasks that look after all streams; there are no listeners yet.
    pub fn new(settings: C2sConnectionSettings, shard: ShardAddress) -> Self {
        let shared = C2sConnections::new(settings, shard);
        let sweeper = spawn_local(sweep(Rc::clone(&shared)));
        let pacer = spawn_local(pace::end_pauses(Rc::clone(&shared)));
        let probe = spawn_local(task_probe::run(Rc::clone(&shared)));
        Streams { shared, accepting: Vec::new(), sweeper, pacer, probe }
    }

    /// Listens at one address, beside the other shards.
    pub fn bind(&mut self, listener: &Listener) -> Result<(), NetError> {
        let bound = tcp::listen(listener.address);
        let socket = bound.map_err(|error| NetError { listener: *listener, error })?;
        self.accepting.push(serve::accept_all(Rc::clone(&self.shared), socket, listener.transport));
        Ok(())
    }

    /// Ready when there is an event.
    pub fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.shared.poll_ready(cx)
    }

    /// Moves out what was asked since the last call.
    pub fn take_events(&mut self, sink: &mut Vec<C2sEvent>) {
        self.shared.take_events(sink);
    }

    /// Lets streams work, and moves out the attempts to sign in that have failed by it: they count before the next one is looked at.
    pub fn with_failures<T>(&mut self, act: impl FnOnce(&mut Streams) -> T) -> (T, Vec<C2sEvent>) {
        let before = self.shared.events();
        let done = act(self);
        (done, self.shared.take_failures(before))
    }

    /// Lets a stream work, when it is still there. True: it was.
    pub fn tell(&mut self, number: u64, act: impl FnOnce(&mut C2s, &mut c2s::Outbox)) -> bool {
        let found = self.shared.stream(number);
        if let Some(stream) = &found {
            self.shared.tell(stream, act);
        }
        found.is_some()
    }

    /// The host wants to know when the stream has drained.
    pub fn flush(&self, number: u64) {
        if let Some(stream) = self.shared.stream(number) {
            self.shared.flush(&stream);
        }
    }

    /// The stream with that number.
    pub fn get(&self, number: u64) -> Option<Rc<Stream>> {
        self.shared.stream(number)
    }

    /// All streams, in no order.
    pub fn all(&self) -> Vec<Rc<Stream>> {
        self.shared.all()
    }

    /// The bucket of a stanza's sender. The stream may be gone already: its last stanzas count as well.
    pub fn bucket_of(&self, stream: u64, element: &Element) -> Option<Bucket> {
        let known = self.get(stream).and_then(|stream| stream.bucket.get());
        known.or_else(|| Some(Bucket::of(Jid::parse(element.attr("from")?).ok()?.bare_str())))
    }

    /// The host's answer to a request for a session.
    pub fn handle_bound(&mut self, number: u64, bound: c2s::Bound) {
        let is_managed = match &bound {
            c2s::Bound::Session { inline, .. } => {
                self.shared.handle_completed();
                inline.iter().any(begins_management)
            }
            c2s::Bound::Resumed { .. } => {
                self.shared.handle_completed();
                self.shared.counts.count(|counters| counters.resumed += 1);
                true
            }
            _ => false,
        };
        if let Some(stream) = self.get(number) {
            stream.is_managed.set(is_managed);
        }
        self.tell(number, |c2s, out| c2s.handle_bound(bound, out));
    }

    /// An element for the client.
    pub fn deliver(&mut self, number: u64, element: &Element) {
        if begins_management(element)
            && let Some(stream) = self.get(number)
        {
            stream.is_managed.set(true);
        }
        self.shared.counts.count(|counters| counters.stanzas_out.count(element.name()));
        self.tell(number, |c2s, out| c2s.write(element, out));
    }

    /// Ends a stream in order.
    pub fn end(&mut self, number: u64) {
        self.tell(number, |c2s, out| c2s.close(out));
    }

    /// Ends a stream with this error.
    pub fn fail(&mut self, number: u64, condition: &'static str) {
        self.fail_with(number, condition, None);
    }

    /// Ends a stream with this error and its application-specific condition (RFC 6120 §4.9.4).
    pub fn fail_with(&mut self, number: u64, condition: &'static str, detail: Option<Element>) {
        let condition = Element::new(condition, ns::STREAM_ERRORS);
        self.tell(number, |c2s, out| c2s.fail_with(condition, detail, out));
    }

    /// The connections of this user's sessions, or of all.
    pub fn connections(&self, account: Option<&Jid>, max: usize) -> Vec<SessionConnection> {
        let shard = self.shared.shard;
        let meant = |stream: Rc<Stream>| {
            let jid = stream.jid()?;
            account.is_none_or(|account| jid.bare_str() == account.bare_str()).then_some((jid, stream))
        };
        let mut those: Vec<(Jid, Rc<Stream>)> = self.all().into_iter().filter_map(meant).collect();
        if those.len() > max {
            those.select_nth_unstable_by(max, |one, other| one.0.as_str().cmp(other.0.as_str()));
            those.truncate(max);
        }
        let described = |(_, stream): (Jid, Rc<Stream>)| {
            let edge = ConnectionId { shard, connection: stream.number };
            SessionConnection { edge, remote: stream.remote, transport: stream.transport.get() }
        };
        those.into_iter().map(described).collect()
    }

    /// A turn of the shard took so long: with turns that are late, sign-ins are limited.
    pub fn handle_turn(&self, length: Duration) {
        self.shared.handle_turn(length);
    }

    /// The owner of an account took so long to answer a client that signs in.
    pub fn handle_wait(&self, wait: Duration) {
        self.shared.handle_delay(DelayedWork::Answer, wait);
    }

    /// True while sign-ins are limited.
    pub fn is_limiting(&self) -> bool {
        self.shared.is_limiting()
    }

    /// Counters since the start of the shard.
    pub fn counters(&self) -> Counters {
        self.shared.counts.counters()
    }

    /// Sessions of BOSH.
    pub fn bosh_sessions(&self) -> u64 {
        self.shared.bosh.count()
    }

    /// The files that users share; `None`: uploads are off.
    pub fn uploads(&self) -> Option<&Arc<Uploads>> {
        self.shared.settings.http.uploads.as_ref()
    }

    /// A request for a session of this shard.
    pub fn deliver_call(&self, call: http::bosh::Call) {
        self.shared.bosh.deliver_call(call);
    }

    /// Open connections by transport, sign-ins by mechanism, errors by condition.
    pub fn kinds(&self) -> Vec<KindCount> {
        self.shared.counts.kinds()
    }

    /// Counts a sign-in by its mechanism.
    pub fn count_sign_in(&self, stream: &Stream) {
        self.shared.counts.signed_in(&stream.c2s.borrow());
    }

    /// The elements of these accounts are copied out from now on.
    pub fn set_traced(&self, accounts: Vec<Box<str>>) {
        self.shared.tracing.set_accounts(accounts);
    }

    /// Defects met since the last call.
    pub fn take_panics(&mut self) -> u64 {
        self.shared.counts.take_panics()
    }

    /// True if checking a password of that unknown user is to take as long as for an account with keys only.
    pub fn only_keys(&self, user: &str, domain: &str) -> bool {
        let settings = self.shared.stream_settings.borrow();
        settings.looks.only_keys(&settings.secret, user, domain)
    }

    /// True if accounts of that domain are served.
    pub fn serves(&self, domain: &str) -> bool {
        self.shared.stream_settings.borrow().domains.iter().any(|own| **own == *domain)
    }

    /// Changes the settings of streams that begin from now on.
    pub fn reload(&mut self, settings: Arc<c2s::C2sSettings>) {
        *self.shared.stream_settings.borrow_mut() = settings;
    }

    /// Sends a stream error to the matching clients that have not bound a session: a host ends the others.
    pub fn close_where(&mut self, is_meant: impl Fn(&Jid) -> bool, condition: &'static str) {
        let is_meant = |stream: &Stream| {
            let c2s = stream.c2s.borrow();
            !c2s.is_bound() && c2s.jid().is_some_and(&is_meant)
        };
        for stream in self.shared.all().into_iter().filter(|stream| is_meant(stream)) {
            self.shared.tell(&stream, |c2s, out| c2s.fail(condition, out));
        }
    }

    /// Sends a stream error to the clients that wait for a session of an account in these buckets. Returns the streams of those that
    /// have one.
    pub fn close_unbound(&mut self, is_meant: impl Fn(Bucket) -> bool, condition: &'static str) -> Vec<u64> {
        let is_meant = |stream: &Rc<Stream>| stream.bucket.get().is_some_and(&is_meant);
        let (bound, waiting): (Vec<_>, Vec<_>) =
            self.shared.all().into_iter().filter(is_meant).partition(|stream| stream.c2s.borrow().is_bound());
        for stream in waiting {
            self.shared.tell(&stream, |c2s, out| c2s.fail(condition, out));
        }
        bound.iter().map(|stream| stream.number).collect()
    }

    /// All that speak XMPP yet are sent to these, in turn.
    pub fn see_other_hosts(&mut self, hosts: &[Box<str>]) {
        if hosts.is_empty() {
            return;
        }
        for (stream, host) in self.shared.all().into_iter().zip(hosts.iter().cycle()) {
            self.shared.tell(&stream, |c2s, out| c2s.see_other_host(host, out));
        }
    }

    /// True once the listeners are closed.
    pub fn is_leaving(&self) -> bool {
        self.shared.is_leaving.get()
    }

    /// Closes the listeners; connections stay.
    pub fn stop_accepting(&mut self) {
        self.shared.is_leaving.set(true);
        self.accepting.drain(..).for_each(|task| task.abort());
    }

    /// Sends a stream error to every client; clients have `limits::XMPP_LINGER` to read it.
    pub async fn close_all(&mut self, condition: &'static str) {
        self.stop_accepting();
        for stream in self.shared.all() {
            self.shared.tell(&stream, |c2s, out| c2s.fail(condition, out));
        }
        self.shared.ending.notify_waiters();
        let shared = &self.shared;
        let gone = std::future::poll_fn(|cx| shared.poll_empty(cx));
        // A client that has not read it by now will not.
        let _ = tokio::time::timeout(limits::XMPP_LINGER, gone).await;
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.stop_accepting();
        self.sweeper.abort();
        self.pacer.abort();
        self.probe.abort();
    }
}

/// From then on stanzas are counted (XEP-0198 §3).
fn begins_management(element: &Element) -> bool {
    element.is("enabled", ns::SM) || element.is("resumed", ns::SM)
}

async fn sweep(shared: Rc<C2sConnections>) {
    let mut interval = tokio::time::interval(shared.ticks.length());
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        shared.sweep();
    }
}
