//! The settings of an endpoint, some of which a reload may change.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use stdx::rate::Rate;

use super::{RoutePeers, Trust};
use crate::digest;
use crate::events::EventRules;
use crate::registrar::RegistrarRules;
use crate::transport::{Transport, via_token};

/// One listening address, and its texts in messages.
#[derive(Clone, Debug)]
pub struct Listener {
    /// The transport it listens on.
    pub transport: Transport,
    /// The address that its socket is bound to.
    pub addr: SocketAddr,
    /// The host and port in messages: the address itself unless the operator names another host or port.
    pub advertised: Box<str>,
}

impl Listener {
    /// A listener whose advertised address is its bound address.
    pub fn new(transport: Transport, addr: SocketAddr) -> Self {
        Listener { transport, addr, advertised: addr.to_string().into() }
    }

    /// `SIP/2.0/UDP host:port`.
    pub(crate) fn sent_protocol(&self) -> String {
        format!("SIP/2.0/{} {}", via_token(self.transport), self.advertised)
    }

    /// The URI by which peers reach this listener, without parameters of ours.
    pub(crate) fn uri(&self) -> String {
        match self.transport {
            Transport::Udp => format!("sip:{}", self.advertised),
            Transport::Tcp => format!("sip:{};transport=tcp", self.advertised),
            // RFC 3261 §26.2.2: transport=tls is deprecated but is what peers understand. COMPAT(kamailio).
            Transport::Tls => format!("sip:{};transport=tls", self.advertised),
            Transport::Ws | Transport::Wss => format!("sip:{};transport=ws", self.advertised),
        }
    }

    /// The sips URI by which peers reach it; `None`: not by TLS. RFC 5630 §5.3 has no `transport=tls` in it.
    pub(crate) fn sips_uri(&self) -> Option<String> {
        match self.transport {
            Transport::Tls => Some(format!("sips:{}", self.advertised)),
            Transport::Wss => Some(format!("sips:{};transport=ws", self.advertised)),
            Transport::Udp | Transport::Tcp | Transport::Ws => None,
        }
    }
}

/// The settings of an [`Endpoint`](super::Endpoint).
#[derive(Clone, Debug)]
pub struct EndpointSettings {
    /// The shard of this node that the router's answers go to.
    pub edge: router::ShardAddress,
    /// The listening addresses; the first that fits a target's transport and family is used to send.
    pub listeners: Vec<Listener>,
    /// Domains whose accounts are ours, lower case.
    pub domains: Vec<Box<str>>,
    /// Other spellings of the domains, each with the domain that it means: A-labels (RFC 5890), lower case.
    pub spellings: Vec<(Box<str>, Box<str>)>,
    /// The longest ringing of a branch: Timer C, RFC 3261 §16.6 step 11, more than three minutes.
    pub timer_c: Duration,
    /// Every secret comes from this one; all shards and nodes of a farm share it.
    pub secret: [u8; 32],
    /// Per-process randomness for the hash tables.
    pub table_seed: [u8; 16],
    /// The bounds of REGISTER, such as the shortest and longest interval.
    pub registrar: RegistrarRules,
    /// The algorithms and nonces of challenges.
    pub digest: digest::DigestSettings,
    /// The bounds of SUBSCRIBE and PUBLISH.
    pub events: EventRules,
    /// RFC 3608: `<sip:...;lr>` for registered phones; empty for none.
    pub service_route: Box<str>,
    /// New requests that one network may make over UDP before it has proved that its addresses are its own.
    pub unproved_requests: Rate,
    /// RFC 5626 §4.4.1: seconds; a flow silent for longer is closed by us.
    pub flow_timer: u32,
    /// The networks and certificates in the trust domain.
    pub trust: Trust,
    /// The systems that routes lead to.
    pub route_peers: Arc<RoutePeers>,
    /// True if 3xx of a route's target leads to its next target. If not, the caller gets it. No Contact of a 3xx is
    /// called by us in either case.
    pub failover_on_redirect: bool,
    /// RFC 3261 §18.1.1: a request over `limits::UDP_REQUEST_BYTES` is tried by TCP before UDP.
    pub tcp_for_large_requests: bool,
}

impl EndpointSettings {
    /// One UDP listener, one domain, a fixed secret.
    #[cfg(test)]
    pub(crate) fn for_tests(edge: router::ShardAddress, listen: SocketAddr) -> EndpointSettings {
        EndpointSettings {
            edge,
            listeners: vec![Listener::new(Transport::Udp, listen)],
            domains: vec!["example.test".into()],
            spellings: Vec::new(),
            timer_c: Duration::from_secs(181),
            secret: [1; 32],
            table_seed: [2; 16],
            registrar: RegistrarRules::default(),
            digest: digest::DigestSettings::default(),
            events: EventRules::default(),
            service_route: "".into(),
            unproved_requests: Rate::per_second(100, 1_000),
            flow_timer: 0,
            trust: Trust::default(),
            route_peers: Arc::default(),
            failover_on_redirect: false,
            tcp_for_large_requests: false,
        }
    }

    /// True if the domain is one of ours.
    pub fn serves(&self, domain: &[u8]) -> bool {
        self.served(domain).is_some()
    }

    /// The domain of ours that a host names, in whichever of its spellings and in any case.
    pub fn served(&self, host: &[u8]) -> Option<&str> {
        // Most clients write the name as it is configured, which one comparison tells.
        let is_name = |known: &str, name: &[u8]| {
            known.as_bytes() == name || known.as_bytes().eq_ignore_ascii_case(name)
        };
        let spelled = self.spellings.iter().find(|(spelling, _)| is_name(spelling, host));
        let name = spelled.map_or(host, |(_, domain)| domain.as_bytes());
        self.domains.iter().find(|served| is_name(served, name)).map(|served| &**served)
    }
}
