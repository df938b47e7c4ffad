//! Connections with other servers, of one shard (RFC 6120, XEP-0368).
//!
//! Every shard listens for itself and keeps what it accepts, and makes the connections to the domains it owns. A connection
//! is one task that moves bytes; [`s2s::Servers`], which all tasks of the shard share, gives them their
//! meaning. Its requests of others become [`S2sEvent`]s, which the shard takes in its turn.

mod connect;
mod connection;
mod posh;
mod serve;
mod shared;

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::streams::Allowance;
use cluster::ShardAddress;
use net::admission::Admission;
use net::clock::Clock;
use net::tls::Tls;
use net::{Listener, NetError, stream as tcp};
use stdx::Instant;
use tokio::task::JoinHandle;
use xmpp::s2s::{self, OutboundStanza, Outcome, Receipt, ShardMessage};
use xmpp::{Element, stanza};

use crate::limits;
use logging::sign_in_failures::SignInFailures;
pub use posh::{PoshFetches, PoshSettings};
use shared::S2sConnections;

/// The settings of connections.
#[derive(Clone, Debug)]
pub struct S2sConnectionSettings {
    /// Addresses and transports.
    pub listen: Vec<Listener>,
    /// Certificates, for both directions.
    pub tls: Option<Arc<Tls>>,
    /// The node's clock.
    pub clock: Clock,
    /// Servers of DNS; none: the system's.
    pub nameservers: Vec<std::net::SocketAddr>,
    /// Connections of one shard that others made. More: closed as soon as accepted.
    pub max_connections: usize,
    /// Connections from one source, over all shards.
    pub max_connections_per_source: usize,
    /// The places of connections, of all shards.
    pub admission: Arc<Admission>,
    /// Servers that did not prove their domain are noted here.
    pub failures: Arc<SignInFailures>,
    /// The rate that one connection may send at before it is read more slowly.
    pub allowance: Allowance,
    /// The fetches of POSH documents, of all shards.
    pub posh: Arc<PoshFetches>,
    /// The settings that a reload may change.
    pub reload: Reload,
    /// The seed of stream identifiers and keys of dialback.
    pub seed: [u8; 32],
}

/// The settings that a reload may change.
#[derive(Clone, Debug)]
pub struct Reload {
    /// The settings of the protocol.
    pub streams: Arc<s2s::S2sSettings>,
    /// Servers that are not looked up in DNS.
    pub routes: Arc<[config::ServerRoute]>,
    /// Fetches of POSH documents.
    pub posh: PoshSettings,
}

/// An event that the shard handles.
#[derive(Debug)]
pub enum S2sEvent {
    /// To the host of `to`.
    Deliver(Box<Element>),
    /// To the shard that owns the other domain.
    Send(ShardMessage),
    /// The outcome of a stanza, for its origin in the farm.
    Outcome(Receipt, Outcome),
}

/// Counters since the start of the shard, besides those of `s2s`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Connections now.
    pub open: usize,
    /// Closed as soon as they came: too many.
    pub refused: u64,
    /// TLS handshakes that failed.
    pub handshake_failures: u64,
    /// Connections that sent too much were not read from for a while.
    pub pauses: u64,
    /// Defects met.
    pub panics: u64,
}

/// All of one shard.
pub struct Servers {
    shared: Rc<S2sConnections>,
    accepting: Vec<JoinHandle<()>>,
}

impl Servers {
    /// Listens beside the other shards.
    ///
    /// # Errors
    /// An address that cannot be listened at.
    pub fn new(settings: S2sConnectionSettings, shard: ShardAddress) -> Result<Self, NetError> {
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
    pub fn poll_ready(&self, cx: &Context<'_>) -> Poll<()> {
        self.shared.poll_ready(cx)
    }

    /// Moves out what was asked since the last call.
    pub fn take_events(&mut self, sink: &mut Vec<S2sEvent>) {
        self.shared.take_events(sink);
    }

    /// From a domain of ours to one that this shard owns.
    pub fn handle_message(&mut self, message: ShardMessage) {
        self.shared.tell(|servers, now, out| servers.handle_shard_message(now, message, out));
    }

    /// Takes a stanza for another server that this shard of a farm owns. Its outcome is an event.
    pub fn handle_outbound(&mut self, stanza: OutboundStanza) {
        self.shared.tell(|servers, now, out| servers.handle_outbound(now, stanza, out));
    }

    /// Stops streams to these domains, which another shard of the farm owns from now on.
    pub fn stop(&mut self, is_meant: impl Fn(&str) -> bool) {
        self.shared.tell(|servers, _, out| servers.stop(is_meant, out));
    }

    /// Offers streams again: these domains have another owner in the farm, which learns of the streams that take stanzas back.
    pub fn offer_again(&mut self, is_meant: impl Fn(&str) -> bool) {
        self.shared.tell(|servers, _, out| servers.offer_again(is_meant, out));
    }

    /// True if that domain is served here: stanzas of other servers go nowhere else.
    pub fn is_local(&self, domain: &str) -> bool {
        self.shared.is_local(domain)
    }

    /// The time of the next timer.
    pub fn deadline(&self) -> Option<Instant> {
        self.shared.deadline()
    }

    /// Handles the timers that are due.
    pub fn expire(&mut self) {
        self.shared.tell(|servers, now, out| servers.expire(now, out));
    }

    /// Changes the settings.
    pub fn reload(&mut self, reload: Reload) {
        self.shared.reload(reload);
    }

    /// Counters since the start of the shard.
    pub fn counts(&self) -> (s2s::Counts, Counters) {
        self.shared.counts()
    }

    /// Defects met since the last call.
    pub fn take_panics(&mut self) -> u64 {
        self.shared.take_panics()
    }

    /// Closes the listeners; connections stay.
    pub fn stop_accepting(&mut self) {
        self.accepting.drain(..).for_each(|task| task.abort());
    }

    /// Sends a stream error to every peer; peers have `limits::XMPP_LINGER` to read it.
    pub async fn close_all(&mut self) {
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

/// The answer to a stanza for another server, on a node without federation. Presence and errors have none.
pub fn refuse(stanza: &Element) -> Option<Element> {
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
    fn a_stanza_to_another_server_is_answered_by_remote_server_not_found() {
        let stanza =
            |name| Element::new(name, ns::CLIENT).with("from", "a@b/c").with("to", "bob@elsewhere.test");
        let answer = refuse(&stanza("message")).unwrap();
        assert_eq!((answer.attr("to"), answer.attr("from")), (Some("a@b/c"), Some("bob@elsewhere.test")));
        assert!(answer.to_string().contains("<remote-server-not-found"), "{answer}");
        assert_eq!(refuse(&stanza("presence")), None);
        assert_eq!(refuse(&stanza("iq").with("type", "error")), None, "errors are not answered");
    }
}
