//! An endpoint that an unauthenticated peer talks to. It knows no account and no binding, and asks no other system.

#![expect(clippy::unwrap_used, reason = "a test helper that panics is a failed test")]

use std::time::Duration;

use bytes::Bytes;
use router::{Answer, Life, Query, ShardAddress};
use sip::endpoint::{Decision, Endpoint, EndpointEffect, EndpointOutbox, EndpointSettings, PlanRequest};
use sip::transport::{Packet, Source, Transport};
use stdx::Instant;

const START: Instant = Instant::from_unix_seconds(1_700_000_000);
const US: &str = "192.0.2.1:5060";

pub(crate) struct World {
    endpoint: Endpoint,
    now: Instant,
    out: EndpointOutbox,
    /// Bytes of all responses over UDP, repetitions among them.
    sent_over_udp: usize,
}

impl World {
    pub(crate) fn new() -> Self {
        let settings = EndpointSettings {
            domains: vec!["example.com".into()],
            ..sim::settings(ShardAddress { life: Life(1), shard: 0 }, &[US.parse().unwrap()])
        };
        World { endpoint: Endpoint::new(settings, START), now: START, out: Vec::new(), sent_over_udp: 0 }
    }

    pub(crate) fn receive(&mut self, transport: Transport, port: u16, bytes: &[u8]) {
        let source = Source {
            transport,
            local: US.parse().unwrap(),
            remote: ([198, 51, 100, 7], port).into(),
            flow: None,
        };
        let bytes = Bytes::copy_from_slice(bytes);
        self.endpoint.handle_packet(self.now, Packet { bytes, source }, &mut self.out);
        self.settle();
    }

    fn settle(&mut self) {
        while !self.out.is_empty() {
            for effect in std::mem::take(&mut self.out) {
                match effect {
                    EndpointEffect::Transmit(transmit) if transmit.target.transport == Transport::Udp => {
                        self.sent_over_udp += transmit.bytes.len();
                    }
                    EndpointEffect::Plan { id, request } => {
                        self.endpoint.handle_plan(self.now, id, plan(&request), &mut self.out);
                    }
                    EndpointEffect::Account { id, .. } => {
                        self.endpoint.handle_account(self.now, id, Ok(None), &mut self.out);
                    }
                    EndpointEffect::Ask { id, query: Query::Lookup { .. } } => {
                        self.endpoint.handle_answer(
                            self.now,
                            id,
                            Answer::Bindings(Vec::new()),
                            &mut self.out,
                        );
                    }
                    _ => {}
                }
            }
        }
        self.out = Vec::new();
    }

    /// Lets virtual time pass until all timers have run out.
    pub(crate) fn run_out(&mut self) {
        let end = self.now + Duration::from_secs(700);
        while let Some(at) = self.endpoint.deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at) + Duration::from_micros(1);
            self.endpoint.expire(self.now, &mut self.out);
            self.settle();
        }
    }

    /// Contexts and transactions that are open.
    pub(crate) fn load(&self) -> (usize, usize) {
        self.endpoint.load()
    }

    pub(crate) fn sent_over_udp(&self) -> usize {
        self.sent_over_udp
    }
}

fn plan(request: &PlanRequest) -> Decision {
    if request.claims.is_some() {
        return Decision::Authenticate;
    }
    if &*request.host == "example.com" {
        return Decision::Local { user: request.user.clone(), domain: request.host.clone() };
    }
    Decision::Refuse { status: 403, reason: "Relaying Denied".into() }
}
