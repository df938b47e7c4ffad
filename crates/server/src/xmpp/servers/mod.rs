//! Connections with other servers, of one shard (RFC 6120, XEP-0368).
//!
//! Every shard listens for itself and keeps what it accepts, and makes the connections to the domains it owns. A connection
//! is one task that moves bytes; [`s2s::Servers`], which all tasks of the shard share, gives them their
//! meaning. Its requests of others become [`S2sEvent`]s, which the shard takes in its turn.

mod connect;
mod connection;
mod serve;
mod shared;

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use cluster::ShardAddress;
use stdx::Instant;
use tokio::task::JoinHandle;
use xmpp::s2s::{self, ShardMessage};
use xmpp::{Element, stanza};

use super::streams::Allowance;
use crate::clock::Clock;
use crate::limits;
use crate::net::admission::Admission;
use crate::net::tls::Tls;
use crate::net::{Listener, NetError, stream as tcp};
use crate::sign_in_failures::SignInFailures;
use shared::S2sConnections;

/// The settings of connections.
#[derive(Clone, Debug)]
pub(crate) struct S2sConnectionSettings {
    pub(crate) listen: Vec<Listener>,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) clock: Clock,
    pub(crate) nameservers: Vec<std::net::SocketAddr>,
    pub(crate) max_connections: usize,
    /// Connections from one source, over all shards.
    pub(crate) max_connections_per_source: usize,
    pub(crate) admission: Arc<Admission>,
    pub(crate) failures: Arc<SignInFailures>,
    /// The rate that one connection may send at before it is read more slowly.
    pub(crate) allowance: Allowance,
    pub(crate) reload: Reload,
    pub(crate) seed: [u8; 32],
}

/// The settings that a reload may change.
#[derive(Clone, Debug)]
pub(crate) struct Reload {
    pub(crate) streams: Arc<s2s::S2sSettings>,
    /// Servers that are not looked up in DNS.
    pub(crate) routes: Arc<[config::ServerRoute]>,
}

/// An event that the shard handles.
#[derive(Debug)]
pub(crate) enum S2sEvent {
    /// To the host of `to`.
    Deliver(Box<Element>),
    Send(ShardMessage),
}

/// Counters since the start of the shard, besides those of `s2s`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) open: usize,
    /// Closed as soon as they came: too many.
    pub(crate) refused: u64,
    pub(crate) handshake_failures: u64,
    /// Connections that sent too much were not read from for a while.
    pub(crate) pauses: u64,
    pub(crate) panics: u64,
}

/// All of one shard.
pub(crate) struct Servers {
    shared: Rc<S2sConnections>,
    accepting: Vec<JoinHandle<()>>,
}

impl Servers {
    /// Listens beside the other shards.
    ///
    /// # Errors
    /// An address that cannot be listened at.
    pub(crate) fn new(settings: S2sConnectionSettings, shard: ShardAddress) -> Result<Self, NetError> {
        let listen = settings.listen.clone();
        let shared = S2sConnections::new(settings, shard);
        let mut accepting = Vec::new();
        for listener in &listen {
            let bound = tcp::listen(listener.address);
            let socket = bound.map_err(|error| NetError { listener: *listener, error })?;
            accepting.push(serve::accept_all(Rc::clone(&shared), socket, listener.transport));
        }
        Ok(Servers { shared, accepting })
    }

    /// Ready when there is an event.
    pub(crate) fn poll_ready(&self, cx: &Context<'_>) -> Poll<()> {
        self.shared.poll_ready(cx)
    }

    /// Moves out what was asked since the last call.
    pub(crate) fn take_events(&mut self, sink: &mut Vec<S2sEvent>) {
        self.shared.take_events(sink);
    }

    /// From a domain of ours to one that this shard owns.
    pub(crate) fn handle_message(&mut self, message: ShardMessage) {
        self.shared.tell(|servers, now, out| servers.handle_shard_message(now, message, out));
    }

    /// True if that domain is served here: stanzas of other servers go nowhere else.
    pub(crate) fn is_local(&self, domain: &str) -> bool {
        self.shared.is_local(domain)
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.shared.deadline()
    }

    pub(crate) fn expire(&mut self) {
        self.shared.tell(|servers, now, out| servers.expire(now, out));
    }

    pub(crate) fn reload(&mut self, reload: Reload) {
        self.shared.reload(reload);
    }

    pub(crate) fn counts(&self) -> (s2s::Counts, Counters) {
        self.shared.counts()
    }

    /// Defects met since the last call.
    pub(crate) fn take_panics(&mut self) -> u64 {
        self.shared.take_panics()
    }

    pub(crate) fn stop_accepting(&mut self) {
        self.accepting.drain(..).for_each(|task| task.abort());
    }

    /// Sends a stream error to every peer; peers have `limits::XMPP_LINGER` to read it.
    pub(crate) async fn close_all(&mut self) {
        self.stop_accepting();
        self.shared.tell(|servers, now, out| servers.close_all(now, out));
        let shared = &self.shared;
        let gone = std::future::poll_fn(|cx| shared.poll_empty(cx));
        // A server that has not read it by now will not.
        let _ = tokio::time::timeout(limits::XMPP_LINGER, gone).await;
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.stop_accepting();
    }
}

/// While no other server is spoken with: an answer for the sender, or nothing.
pub(super) fn refuse(stanza: &Element) -> Option<Element> {
    tracing::debug!(to = stanza.attr("to"), "no way to other servers: [xmpp.federation] is not configured");
    let may_be_told =
        stanza::may_be_refused(stanza) && stanza.name() != "presence" && stanza.attr("from").is_some();
    may_be_told.then(|| stanza::refusal(stanza, &stanza::Condition::RemoteServerNotFound.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::xmpp::ns;

    #[test]
    fn who_asks_another_server_is_told_that_it_is_not_found() {
        let stanza =
            |name| Element::new(name, ns::CLIENT).with("from", "a@b/c").with("to", "bob@elsewhere.test");
        let answer = refuse(&stanza("message")).unwrap();
        assert_eq!((answer.attr("to"), answer.attr("from")), (Some("a@b/c"), Some("bob@elsewhere.test")));
        assert!(answer.to_string().contains("<remote-server-not-found"), "{answer}");
        assert_eq!(refuse(&stanza("presence")), None);
        assert_eq!(refuse(&stanza("iq").with("type", "error")), None, "errors are not answered");
    }
}
