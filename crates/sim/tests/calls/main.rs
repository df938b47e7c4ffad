//! Calls and more through the real endpoint and router, over a network that loses what the seed says.

#![expect(clippy::unwrap_used, reason = "a test helper that panics is a failed test")]

mod accounts;
mod basic;
mod call_records;
mod cancels;
mod chaos;
mod counted_calls;
mod cut_links;
mod database_away;
mod dialog_routes;
mod farm_calls;
mod forks;
mod killed_dialogs;
mod killed_nodes;
mod long_ringing;
mod moved_slots;
mod phone;
mod raw;
mod relay;
mod routes;
mod server;
mod session_chaos;
mod session_offers;
mod session_world;
mod sessions;
mod shared_accounts;
mod table;
mod texts;
mod waits;
mod watched_calls;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use sim::{NodeId, World};
use sip::endpoint::{Decision, EndpointSettings, PlanRequest};

use phone::Phone;
use server::Server;

/// UDP of the host with that number.
pub const fn address(host: u8) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)), 5060)
}

pub const SERVER: SocketAddr = address(1);

/// A caller, the server, and callees at hosts 3, 4, ...
pub struct Scene {
    pub world: World,
    pub alice: NodeId,
    pub server: NodeId,
    pub callees: Vec<NodeId>,
}

impl Scene {
    /// The server sends everything where `plan` says.
    pub fn new(seed: u64, plan: impl Fn(&PlanRequest) -> Decision + 'static, callees: Vec<Phone>) -> Self {
        Scene::with(seed, server::settings(1), plan, callees)
    }

    pub fn with(
        seed: u64,
        settings: EndpointSettings,
        plan: impl Fn(&PlanRequest) -> Decision + 'static,
        callees: Vec<Phone>,
    ) -> Self {
        Scene::build(seed, Server::new(settings, plan), callees)
    }

    pub fn build(seed: u64, server: Server, callees: Vec<Phone>) -> Self {
        let mut world = World::new(seed);
        world.set_label(sim::ladder::label_with_method);
        let alice = world.add("alice", &[address(2)], Phone::new("alice", address(2), SERVER));
        let [tcp, tls] = [5062, 5061].map(|port| SocketAddr::new(SERVER.ip(), port));
        let server = server.trusting_its_peers(world.now());
        let server = world.add("server", &[SERVER, tcp, tls], server);
        let callees = callees
            .into_iter()
            .map(|phone| {
                let (name, addr) = (phone.name, phone.addr);
                world.add(name, &[addr], phone)
            })
            .collect();
        Scene { world, alice, server, callees }
    }

    pub fn call(&mut self, uri: &str) {
        let uri = uri.to_owned();
        self.world.act(self.alice, move |phone: &mut Phone, now, out| phone.call(now, &uri, out));
    }

    pub fn run(&mut self, millis: u64) {
        self.world.run_for(Duration::from_millis(millis));
    }

    pub fn cancel(&mut self) {
        self.world.act(self.alice, Phone::cancel);
    }

    /// The caller hangs up its last call.
    pub fn hang_up(&mut self) {
        self.world.act(self.alice, |phone: &mut Phone, now, out| {
            phone.hang_up(now, phone.calls.len() - 1, out);
        });
    }

    pub fn alice(&self) -> &Phone {
        self.world.node(self.alice)
    }

    /// The final status of the caller's last call.
    pub fn status(&self) -> u16 {
        self.alice().calls.last().unwrap().status
    }

    pub fn callee(&self, index: usize) -> &Phone {
        self.world.node(self.callees[index])
    }

    pub fn server(&self) -> &Server {
        self.world.node(self.server)
    }

    /// After every timer there is, nothing is left.
    pub fn rest(&mut self) {
        self.run(400_000);
        assert_eq!(self.server().endpoint.load(), (0, 0), "nothing stays behind");
    }
}

pub fn targets(groups: &[&[&str]]) -> Decision {
    Decision::Targets(groups.iter().map(|group| group.iter().map(|&uri| uri.into()).collect()).collect())
}

/// Everything goes to bob, at host 3.
pub fn to_bob(_: &PlanRequest) -> Decision {
    targets(&[&["sip:bob@10.0.0.3:5060"]])
}

pub fn bob() -> Phone {
    Phone::new("bob", address(3), SERVER)
}

pub fn carol() -> Phone {
    Phone::new("carol", address(4), SERVER)
}
