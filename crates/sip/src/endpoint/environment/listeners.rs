//! The addresses at which peers reach this server, and how they stand in URIs.

use std::net::SocketAddr;

use router::{Received, ShardAddress};

use crate::endpoint::Listener;
use crate::transport::{Source, Transport};
use crate::wire::{Scheme, Uri, parse_ip};

/// The listeners of an endpoint, with their texts for Via and Record-Route.
pub(crate) struct Listeners {
    pub(crate) all: Vec<Listener>,
    /// In the order of `all`.
    pub(crate) texts: Vec<ListenerText>,
}

/// Texts made once, copied into messages.
pub(crate) struct ListenerText {
    /// A Via value up to its branch.
    pub(crate) via_start: Vec<u8>,
    /// A Via value after its branch.
    pub(crate) via_end: Vec<u8>,
    pub(crate) uri: Vec<u8>,
    /// The same as a sips URI, of a listener for TLS.
    sips_uri: Option<Vec<u8>>,
    /// Its address, when it is an IPv4 address: there is one way to write one.
    ipv4: Option<Vec<u8>>,
    /// Its advertised name and port.
    name: Vec<u8>,
    port: u16,
}

impl Listeners {
    /// `edge`: the member of a farm that is named in each Via.
    pub(crate) fn new(all: Vec<Listener>, edge: ShardAddress) -> Self {
        let text = |listener: &Listener| {
            let (name, port) = name_and_port(&listener.advertised);
            ListenerText {
                via_start: format!("{};branch=", listener.sent_protocol()).into_bytes(),
                via_end: via_end(listener, edge).into_bytes(),
                uri: listener.uri().into_bytes(),
                sips_uri: listener.sips_uri().map(String::into_bytes),
                ipv4: listener.addr.is_ipv4().then(|| listener.addr.ip().to_string().into_bytes()),
                name: name.as_bytes().to_vec(),
                port,
            }
        };
        Listeners { texts: all.iter().map(text).collect(), all }
    }

    /// Where this endpoint reaches itself.
    pub(crate) fn own_address(&self) -> Option<Received> {
        let addr = self.all.iter().find(|listener| listener.transport == Transport::Udp)?.addr;
        Some(Received { transport: Transport::Udp, local: addr, remote: addr, flow: None })
    }

    /// The URI of our Contact in messages to this source; empty when no listener reaches it.
    pub(crate) fn contact_for(&self, source: &Source) -> String {
        let listener = self.listener_for(source.transport, source.remote, Some(source.local));
        listener.map_or(String::new(), |index| String::from_utf8_lossy(&self.texts[index].uri).into_owned())
    }

    /// True if the URI names this server: a listening address, or the name of one.
    pub(crate) fn is_us(&self, uri: &Uri<'_>) -> bool {
        let is_sips = uri.scheme == Scheme::Sips;
        let port = uri.port.unwrap_or(if is_sips { 5061 } else { 5060 });
        // A name that is advertised without a port counts with that of sip, also in a sips URI of ours.
        self.is_own_host(uri.host, port) || is_sips && uri.port.is_none() && self.is_own_host(uri.host, 5060)
    }

    pub(crate) fn is_own_host(&self, host: &[u8], port: u16) -> bool {
        self.all.iter().zip(&self.texts).any(|(listener, text)| {
            let is_address = || match &text.ipv4 {
                Some(address) => address == host,
                None => parse_ip(host) == Some(listener.addr.ip()),
            };
            listener.addr.port() == port && is_address()
                || text.port == port && text.name.eq_ignore_ascii_case(host)
        })
    }

    /// The listener from which a message to `remote` leaves: the same one it came in by, if that fits.
    pub(crate) fn listener_for(
        &self,
        transport: Transport,
        remote: SocketAddr,
        preferred: Option<SocketAddr>,
    ) -> Option<usize> {
        let fits = |index: &usize| {
            let listener = &self.all[*index];
            listener.transport == transport && listener.addr.is_ipv4() == remote.is_ipv4()
        };
        let all = 0..self.all.len();
        // A loopback listener cannot reach the world, nor a public one usefully loopback.
        let reaches = |index: &usize| self.all[*index].addr.ip().is_loopback() == remote.ip().is_loopback();
        let is_preferred = |index: &usize| Some(self.all[*index].addr) == preferred;
        let rank = |index: &usize| (!reaches(index), !is_preferred(index));
        all.filter(fits).min_by_key(rank)
    }
}

impl ListenerText {
    /// The URI of a Record-Route.
    pub(crate) fn route(&self, is_sips: bool) -> &[u8] {
        self.sips_uri.as_ref().filter(|_| is_sips).unwrap_or(&self.uri)
    }
}

/// The member that holds the transaction: a response that lands elsewhere is handed over unparsed.
fn via_end(listener: &Listener, edge: ShardAddress) -> String {
    let rport = if listener.transport == Transport::Udp { ";rport" } else { "" };
    format!(";n={:x}.{:x}{rport}", edge.life.0, edge.shard)
}

fn name_and_port(advertised: &str) -> (&str, u16) {
    match advertised.rsplit_once(':') {
        Some((name, text)) if !text.ends_with(']') => (name, text.parse().unwrap_or(5060)),
        _ => (advertised, 5060),
    }
}
