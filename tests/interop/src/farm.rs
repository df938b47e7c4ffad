//! A farm of real nodes on loopback that share one SIP address, with NATS as their council.

use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use crate::nats::Nats;
use crate::node::Node;
use crate::ports::free_port;
use crate::wait::wait_until;

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
        let folder = TempDir::new().expect("a temporary folder");
        let secret = folder.path().join("farm.secret");
        let port = free_port();
        let prepared = Node::prepare();
        prepared.run(&["farm", "secret", &secret.display().to_string()]);
        drop(prepared);
        let node = |number| {
            let node = Node::prepare_at(port).with_sections(&section(nats, &format!("n{number}"), &secret));
            node.with_open_route(user, target).started()
        };
        let farm = Farm { port, nodes: (0..count).map(node).collect(), folder };
        farm.wait_for_shares(count);
        farm
    }

    /// A node of this name that is not started. It has a secret of its own unless `knows_secret`.
    pub fn prepare(&self, nats: &Nats, name: &str, knows_secret: bool) -> Node {
        let secret = self.folder.path().join(if knows_secret { "farm.secret" } else { "other.secret" });
        if !knows_secret {
            Node::prepare().run(&["farm", "secret", &secret.display().to_string()]);
        }
        Node::prepare_at(self.port).with_sections(&section(nats, name, &secret))
    }

    /// Waits until every running node sees the call slots divided among so many nodes.
    pub fn wait_for_shares(&self, count: usize) {
        for node in self.nodes.iter().filter(|node| node.id() != 0) {
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

/// `[farm]` of one node.
fn section(nats: &Nats, name: &str, secret: &Path) -> String {
    format!(
        "[farm]\nname = \"test\"\nnode = \"{name}\"\ncouncil = [\"{}\"]\nsecret = \"{}\"\nlisten = \"127.0.0.1:{}\"\nshared_ports = true\n",
        nats.url(),
        secret.display(),
        free_port(),
    )
}
