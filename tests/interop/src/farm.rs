//! A farm of real nodes on loopback that share one SIP address, with NATS as their council.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use crate::nats::Nats;
use crate::network::{Namespace, Network};
use crate::node::Node;
use crate::ports::free_port;
use crate::wait::wait_until;

/// The address of a farm behind a balancer (RFC 5737 §3).
pub const VIRTUAL_ADDRESS: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 10);

const SIP: u16 = 5060;

/// The nodes of one farm.
pub struct Farm {
    /// The SIP address of all nodes, UDP.
    pub port: u16,
    /// The nodes, in the order of their names `n0`, `n1`, …
    pub nodes: Vec<Node>,
    folder: TempDir,
}

impl Farm {
    /// Starts so many nodes, each with an open route of calls to `user` to 127.0.0.1:`target`. Returns when all of them share
    /// the calls.
    pub fn start(nats: &Nats, count: usize, user: &str, target: u16) -> Farm {
        let (folder, port) = (TempDir::new().expect("a temporary folder"), free_port());
        let secret = Farm::secret(&folder);
        let node = |number| {
            let links = format!("listen = \"127.0.0.1:{}\"\nshared_ports = true\n", free_port());
            let node = Node::prepare_at(port)
                .with_sections(&(section(nats, &format!("n{number}"), &secret) + &links));
            node.with_open_route(user, target).started()
        };
        let farm = Farm { port, nodes: (0..count).map(node).collect(), folder };
        farm.wait_for_shares(count);
        farm
    }

    /// Starts so many nodes on one database, each at a port of its own, with `users` accounts, and waits until they share calls and
    /// addresses.
    pub fn on_database(nats: &Nats, count: usize, url: &str, users: usize) -> Farm {
        let folder = TempDir::new().expect("a temporary folder");
        let secret = Farm::secret(&folder);
        let prepare = |number| {
            let store = format!("[store]\nurl = \"{url}\"\n");
            let links = format!("listen = \"127.0.0.1:{}\"\n", free_port());
            Node::prepare().with_sections(&(store + &section(nats, &format!("n{number}"), &secret) + &links))
        };
        let mut nodes = vec![prepare(0).with_users(users).started()];
        nodes.extend((1..count).map(|number| prepare(number).started()));
        let farm = Farm { port: nodes[0].port, nodes, folder };
        farm.wait_for_shares(count);
        farm
    }

    /// Starts one node more, with the same route as the others and with so many open files at most. Returns when it has its share.
    pub fn add_with_open_files(&mut self, nats: &Nats, files: u32) {
        let name = format!("n{}", self.nodes.len());
        self.nodes.push(self.prepare(nats, &name, true).with_open_files(files).started());
        self.wait_for_shares(self.nodes.len());
    }

    /// A node of this name that is not started. It has a secret of its own unless `knows_secret`.
    pub fn prepare(&self, nats: &Nats, name: &str, knows_secret: bool) -> Node {
        let secret = self.folder.path().join(if knows_secret { "farm.secret" } else { "other.secret" });
        if !knows_secret {
            Node::prepare().run(&["farm", "secret", &secret.display().to_string()]);
        }
        let links = format!("listen = \"127.0.0.1:{}\"\nshared_ports = true\n", free_port());
        Node::prepare_at(self.port).with_sections(&(section(nats, name, &secret) + &links))
    }

    /// Starts a node on each of these hosts, with one virtual address that a balancer of the network gives them in turn, packet
    /// by packet. Calls to `user` go to `target`.
    pub fn behind_balancer(
        network: &Network,
        hosts: &[Arc<Namespace>],
        nats: &Nats,
        (user, target): (&str, SocketAddrV4),
    ) -> Farm {
        let folder = TempDir::new().expect("a temporary folder");
        let secret = Farm::secret(&folder);
        network.balance(VIRTUAL_ADDRESS, SIP, hosts);
        let node = |(number, host): (usize, &Arc<Namespace>)| {
            let links = format!("listen = \"{}:5280\"\n", host.address());
            let node = Node::prepare_on(host, VIRTUAL_ADDRESS, SIP)
                .with_sections(&(section(nats, &format!("n{number}"), &secret) + &links));
            node.with_open_route_to(user, &target.to_string()).started()
        };
        let nodes = hosts.iter().enumerate().map(node).collect();
        let farm = Farm { port: SIP, nodes, folder };
        farm.wait_for_shares(hosts.len());
        farm
    }

    fn secret(folder: &TempDir) -> PathBuf {
        let secret = folder.path().join("farm.secret");
        Node::prepare().run(&["farm", "secret", &secret.display().to_string()]);
        secret
    }

    /// Waits until every running node sees the call slots divided among so many nodes.
    pub fn wait_for_shares(&self, count: usize) {
        self.wait_for_shares_at(count, &(0..self.nodes.len()).collect::<Vec<_>>());
    }

    /// Does what [`wait_for_shares`](Self::wait_for_shares) does, as these nodes see it: another one may stand still.
    pub fn wait_for_shares_at(&self, count: usize, numbers: &[usize]) {
        let nodes = numbers.iter().map(|number| &self.nodes[*number]);
        for node in nodes.filter(|node| node.id() != 0) {
            let shares = || {
                let status = node.run(&["farm", "status", "--json"]);
                let status: serde_json::Value = serde_json::from_str(&status).unwrap_or_default();
                let nodes = status["nodes"].as_array().cloned().unwrap_or_default();
                nodes.iter().filter(|node| node["call_slots"].as_u64() > Some(0)).count()
            };
            wait_until(
                &format!("call slots at {count} nodes"),
                Duration::from_secs(60),
                || shares() == count,
                || node.tail(),
            );
        }
    }

    /// Calls that were started at each running node.
    pub fn calls(&self) -> Vec<u64> {
        let started = |node: &Node| {
            let metrics = node.metrics();
            let lines = metrics.lines().filter(|line| line.starts_with("belfry_calls_started_total"));
            lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
        };
        self.nodes.iter().filter(|node| node.id() != 0).map(started).collect()
    }
}

/// A test that fails shows the last lines of each running node's log.
impl Drop for Farm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for (number, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.id() != 0) {
                eprintln!("n{number}:\n{}", node.tail());
            }
        }
    }
}

/// The section `[farm]` of a node, without its own addresses.
fn section(nats: &Nats, name: &str, secret: &Path) -> String {
    let (url, secret) = (nats.url(), secret.display());
    format!("[farm]\nname = \"test\"\nnode = \"{name}\"\ncouncil = [\"{url}\"]\nsecret = \"{secret}\"\n")
}
