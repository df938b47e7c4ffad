//! An endpoint's settings for tests that are about something else.

use std::net::SocketAddr;
use std::time::Duration;

use router::ShardAddress;
use sip::endpoint::{Listener, Settings};
use sip::transport::Transport;
use stdx::rate::Rate;

/// UDP at those addresses, one domain, fixed secrets.
pub fn settings(edge: ShardAddress, listeners: &[SocketAddr]) -> Settings {
    Settings {
        edge,
        listeners: listeners.iter().map(|address| Listener::new(Transport::Udp, *address)).collect(),
        domains: vec!["example.test".into()],
        spellings: Vec::new(),
        timer_c: Duration::from_secs(181),
        secret: [1; 32],
        table_seed: [2; 16],
        registrar: Default::default(),
        digest: Default::default(),
        events: Default::default(),
        service_route: "".into(),
        unproved_requests: Rate::per_second(100, 1_000),
        flow_timer: 0,
        trust: Default::default(),
        route_peers: Default::default(),
        failover_on_redirect: false,
        tcp_for_large_requests: false,
    }
}
