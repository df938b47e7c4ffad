//! The connections of chat clients of one shard (RFC 6120, RFC 7395, XEP-0368).
//!
//! Every shard listens for itself and keeps what it accepts. A connection is one small task that reads into a buffer of
//! the shard's, lets the stream's [`C2s`] work at once, and writes what waits. What a stream asks of others becomes an
//! [`Event`]; the shard takes these in its turn and answers with [`Streams::tell`].

pub(crate) mod http;
mod serve;
mod shared;
mod stream;
mod wire;

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_local};
use xmpp::c2s::{self, C2s};

pub(crate) use shared::{Counters, Event};
pub(crate) use stream::Stream;

use crate::limits;
use crate::net::tls::Tls;
use crate::net::{Listener, NetError, stream as tcp};
use shared::Shared;

/// How connections are made and kept.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) listen: Vec<Listener>,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) origins: Vec<Box<str>>,
    pub(crate) max_streams: usize,
    pub(crate) max_streams_per_source: usize,
    pub(crate) idle: Duration,
    pub(crate) sign_in: Duration,
    pub(crate) http: http::Settings,
    pub(crate) stream: Arc<c2s::Settings>,
}

/// All of one shard.
pub(crate) struct Streams {
    shared: Rc<Shared>,
    accepting: Vec<JoinHandle<()>>,
    sweeper: JoinHandle<()>,
}

impl Streams {
    pub(crate) fn new(settings: Settings, shard: u16) -> Self {
        let shared = Shared::new(settings, shard);
        let sweeper = spawn_local(sweep(Rc::clone(&shared)));
        Streams { shared, accepting: Vec::new(), sweeper }
    }

    /// Listens at one address, beside the other shards.
    pub(crate) fn bind(&mut self, listener: &Listener) -> Result<(), NetError> {
        let bound = tcp::listen(listener.address);
        let socket = bound.map_err(|error| NetError { listener: *listener, error })?;
        self.accepting.push(serve::accept_all(Rc::clone(&self.shared), socket, listener.transport));
        Ok(())
    }

    /// Ready when there is an event.
    pub(crate) fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.shared.poll_ready(cx)
    }

    /// Moves out what was asked since the last call.
    pub(crate) fn take_events(&mut self, sink: &mut Vec<Event>) {
        self.shared.take_events(sink);
    }

    /// Lets a stream work, when it is still there. True: it was.
    pub(crate) fn tell(&mut self, number: u64, act: impl FnOnce(&mut C2s, &mut c2s::Outbox)) -> bool {
        let found = self.shared.stream(number);
        if let Some(stream) = &found {
            self.shared.tell(stream, act);
        }
        found.is_some()
    }

    pub(crate) fn get(&self, number: u64) -> Option<Rc<Stream>> {
        self.shared.stream(number)
    }

    pub(crate) fn counters(&self) -> Counters {
        *self.shared.counters.borrow()
    }

    /// Sessions of BOSH.
    pub(crate) fn bosh_sessions(&self) -> u64 {
        self.shared.bosh.borrow().len() as u64
    }

    pub(crate) fn uploads(&self) -> Option<&Arc<crate::xmpp::uploads::Uploads>> {
        self.shared.settings.http.uploads.as_ref()
    }

    /// A request for a session of this shard.
    pub(crate) fn deliver_call(&self, call: http::bosh::Call) {
        self.shared.deliver_call(call);
    }

    /// Defects met since the last call.
    pub(crate) fn take_panics(&mut self) -> u64 {
        std::mem::take(&mut self.shared.counters.borrow_mut().panics)
    }

    /// For streams that begin from now on.
    pub(crate) fn reload(&mut self, settings: Arc<c2s::Settings>) {
        *self.shared.stream_settings.borrow_mut() = settings;
    }

    pub(crate) fn stop_accepting(&mut self) {
        self.shared.is_leaving.set(true);
        self.accepting.drain(..).for_each(|task| task.abort());
    }

    /// A stream error for everybody; their last words get `limits::XMPP_LINGER`.
    pub(crate) async fn close_all(&mut self, condition: &'static str) {
        self.stop_accepting();
        for stream in self.shared.all() {
            self.shared.tell(&stream, |c2s, out| c2s.fail(condition, out));
        }
        self.shared.ending.notify_waiters();
        let shared = &self.shared;
        let gone = std::future::poll_fn(|cx| shared.poll_empty(cx));
        // Who has not read it by now will not.
        let _ = tokio::time::timeout(limits::XMPP_LINGER, gone).await;
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.stop_accepting();
        self.sweeper.abort();
    }
}

async fn sweep(shared: Rc<Shared>) {
    let mut interval = tokio::time::interval(shared.tick_length);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        shared.sweep();
    }
}
