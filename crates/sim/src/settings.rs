//! An endpoint's settings for tests that are about something else.

use std::net::SocketAddr;
use std::time::Duration;

use router::Edge;
use sip::endpoint::{Listener, Settings};
use sip::transport::Transport;

/// UDP at those addresses, one domain, fixed secrets.
pub fn settings(edge: Edge, listeners: &[SocketAddr]) -> Settings {
    Settings {
        edge,
        listeners: listeners.iter().map(|address| Listener::new(Transport::Udp, *address)).collect(),
        domains: vec!["example.test".into()],
        timer_c: Duration::from_secs(181),
        secret: [1; 32],
        table_seed: [2; 16],
        registrar: Default::default(),
        digest: Default::default(),
        events: Default::default(),
        service_route: "".into(),
        flow_timer: 0,
        failover_on_redirect: false,
    }
}
