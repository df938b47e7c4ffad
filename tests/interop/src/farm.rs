//! A farm of real nodes on loopback that share one SIP address, with NATS as their council.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use crate::certificates::Certified;
use crate::nats::Nats;
use crate::network::{Namespace, Network};
use crate::node::Node;
use crate::ports::{Ports, free_port};
use crate::wait::wait_until;
use crate::way::TcpWay;

/// The address of a farm behind a balancer (RFC 5737 §3).
pub const VIRTUAL_ADDRESS: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 10);

const SIP: u16 = 5060;

/// The ways of a node that a test can cut.
pub struct NodeWays {
    /// The way from the node to NATS.
    pub council: TcpWay,
    /// The way from the other nodes to this node's links.
    pub links: TcpWay,
    /// The port at which the node listens for links.
    pub listen: u16,
}

impl NodeWays {
    /// Ways of a node of this council.
    pub fn new(nats: &Nats) -> NodeWays {
        let listen = free_port();
        NodeWays { council: TcpWay::to(nats.port), links: TcpWay::to(listen), listen }
    }
}

/// The nodes of one farm.
pub struct Farm {
    /// The SIP address of all nodes, UDP.
    pub port: u16,
    /// The nodes, in the order of their names `n0`, `n1`, …
    pub nodes: Vec<Node>,
    folder: TempDir,
    /// Neighbouring ports of processes.
    _links: Option<Ports>,
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
        let farm = Farm { port, nodes: (0..count).map(node).collect(), folder, _links: None };
        farm.wait_for_shares(count);
        farm
    }

    /// Starts so many nodes with one SIP address and these sections of the configuration.
    pub fn with_sections(nats: &Nats, count: usize, sections: &str) -> Farm {
        let (folder, port) = (TempDir::new().expect("a temporary folder"), free_port());
        let secret = Farm::secret(&folder);
        let node = |number| {
            let links = format!("listen = \"127.0.0.1:{}\"\nshared_ports = true\n", free_port());
            let farm = section(nats, &format!("n{number}"), &secret);
            Node::prepare_at(port).with_sections(&(sections.to_owned() + &farm + &links)).started()
        };
        let farm = Farm { port, nodes: (0..count).map(node).collect(), folder, _links: None };
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
        let farm = Farm { port: nodes[0].port, nodes, folder, _links: None };
        farm.wait_for_shares(count);
        farm
    }

    /// Starts so many nodes on one database, each at a port of its own and with calls of applications, with these lines in the section
    /// `[voice]`, and waits until they share calls and addresses.
    pub fn with_applications(nats: &Nats, count: u16, url: &str, voice: &str) -> Farm {
        let folder = TempDir::new().expect("a temporary folder");
        let secret = Farm::secret(&folder);
        let node = |number: u16| {
            let store = format!("[store]\nurl = \"{url}\"\n");
            let links = format!("listen = \"127.0.0.1:{}\"\n", free_port());
            let media = 32_000 + 100 * number;
            let media = format!("media = \"127.0.0.1\"\nmedia_ports = \"{media}-{}\"\n", media + 99);
            let farm = section(nats, &format!("n{number}"), &secret);
            let voice = format!("[voice]\n{media}open = true\nallow_private = true\n{voice}");
            Node::prepare().with_sections(&(store + &voice + &farm + &links)).started()
        };
        let nodes: Vec<Node> = (0..count).map(node).collect();
        let farm = Farm { port: nodes[0].port, nodes, folder, _links: None };
        farm.wait_for_shares(count.into());
        farm.wait_for_owners(count.into());
        farm
    }

    /// Starts so many processes of one configuration on one database, with `users` accounts, and waits until they share calls. The farm has the
    /// supervisor as its only node.
    pub fn of_processes(nats: &Nats, count: u16, url: &str, users: usize) -> Farm {
        let (folder, links) = (TempDir::new().expect("a temporary folder"), Ports::reserve(count));
        let secret = Farm::secret(&folder);
        let store = format!("[store]\nurl = \"{url}\"\n");
        let own = format!("listen = \"127.0.0.1:{}\"\n", links.first());
        let node = Node::prepare().with_sections(&(store + &section(nats, "n", &secret) + &own));
        let nodes = vec![node.with_users(users).with_processes(count).started()];
        let farm = Farm { port: nodes[0].port, nodes, folder, _links: Some(links) };
        farm.wait_for_shares(count.into());
        farm.wait_for_owners(count.into());
        farm
    }

    /// Starts two routers on one database with `users` accounts, `n0` and `n1`, and `n2`, an edge without a database. Each has a port
    /// of its own. Returns when the routers share the addresses and the edge has the calls.
    pub fn with_edge(nats: &Nats, url: &str, users: usize) -> Farm {
        let folder = TempDir::new().expect("a temporary folder");
        let secret = Farm::secret(&folder);
        let prepare = |number: usize, role: &str, store: &str| {
            let links = format!("listen = \"127.0.0.1:{}\"\nrole = \"{role}\"\n", free_port());
            Node::prepare()
                .with_sections(&(store.to_owned() + &section(nats, &format!("n{number}"), &secret) + &links))
        };
        let store = format!("[store]\nurl = \"{url}\"\n");
        let nodes = vec![
            prepare(0, "router", &store).with_users(users).started(),
            prepare(1, "router", &store).started(),
            prepare(2, "edge", "").started(),
        ];
        let farm = Farm { port: nodes[2].port, nodes, folder, _links: None };
        farm.wait_for_shares(1);
        farm.wait_for_owners(2);
        farm
    }

    /// Starts so many nodes on one database, each with a port of its own for chat, with `users` accounts for chat. Returns the ports, too.
    pub fn with_chat(nats: &Nats, count: usize, url: &str, users: usize) -> (Farm, Vec<u16>) {
        let ports: Vec<u16> = (0..count).map(|_| free_port()).collect();
        let chats: Vec<String> =
            ports.iter().map(|port| format!("[xmpp]\nlisten = [\"tcp:127.0.0.1:{port}\"]\n")).collect();
        (Farm::with_chats(nats, url, users, &chats), ports)
    }

    /// Starts so many nodes on one database, each with ports of its own for chat and for HTTP, with the account `user0`. `sections` say
    /// where uploads are, in a folder of each node if empty. Returns both ports of each node, too.
    pub fn with_uploads(nats: &Nats, count: usize, url: &str, sections: &str) -> (Farm, Vec<(u16, u16)>) {
        let ports: Vec<(u16, u16)> = (0..count).map(|_| (free_port(), free_port())).collect();
        let chats: Vec<String> = ports
            .iter()
            .map(|(chat, web)| {
                let listen = format!("[\"tcp:127.0.0.1:{chat}\", \"ws:127.0.0.1:{web}\"]");
                format!("[xmpp]\nlisten = {listen}\n{sections}")
            })
            .collect();
        (Farm::with_chats(nats, url, 1, &chats), ports)
    }

    /// Starts a node with each of these sections, which begin with `[xmpp]`, on one database, with `users` accounts for chat.
    pub fn with_chat_sections(nats: &Nats, url: &str, users: usize, chats: &[String]) -> Farm {
        Farm::with_chats(nats, url, users, chats)
    }

    /// Starts a node with each of these sections on one database, with `users` accounts for chat.
    fn with_chats(nats: &Nats, url: &str, users: usize, chats: &[String]) -> Farm {
        let folder = TempDir::new().expect("a temporary folder");
        let secret = Farm::secret(&folder);
        let count = chats.len();
        let prepare = |number: usize, more: &str| {
            let store = format!("[store]\nurl = \"{url}\"\n");
            let links = format!("listen = \"127.0.0.1:{}\"\n", free_port());
            let chat = &chats[number];
            let farm = section(nats, &format!("n{number}"), &secret);
            Node::prepare().with_sections(&(store + chat + more + &farm + &links))
        };
        let first = prepare(0, "").with_chat_users(users).started();
        // The certificate that the first node has made.
        let certificate = first.certificate();
        let (certificate, key) = (certificate.display(), certificate.with_file_name("key.pem"));
        let tls = format!("[tls]\ncertificate = \"{certificate}\"\nkey = \"{}\"\n", key.display());
        let mut nodes = vec![first];
        nodes.extend((1..count).map(|number| prepare(number, &tls).started()));
        let farm = Farm { port: nodes[0].port, nodes, folder, _links: None };
        farm.wait_for_shares(count);
        farm
    }

    /// Starts a node for each way to the council and to its links, on one database and at one SIP port of all, each with a port of
    /// its own for chat, with `users` accounts for chat. Returns the ports for chat, too.
    pub fn with_ways(ways: &[NodeWays], url: &str, users: usize, tls: &Certified) -> (Farm, Vec<u16>) {
        let (folder, port) = (TempDir::new().expect("a temporary folder"), free_port());
        let secret = Farm::secret(&folder);
        let ports: Vec<u16> = ways.iter().map(|_| free_port()).collect();
        let (certificate, key) = (tls.certificate.display(), tls.key.display());
        let prepare = |number: usize| {
            let store = format!("[store]\nurl = \"{url}\"\n");
            let tls = format!("[tls]\ncertificate = \"{certificate}\"\nkey = \"{key}\"\n");
            let chat = format!("[xmpp]\nlisten = [\"tcp:127.0.0.1:{}\"]\n", ports[number]);
            let way = &ways[number];
            let links = format!(
                "listen = \"127.0.0.1:{}\"\nadvertise = \"127.0.0.1:{}\"\nshared_ports = true\n",
                way.listen, way.links.port
            );
            let council = format!("nats://127.0.0.1:{}", way.council.port);
            let farm = section_at(&council, &format!("n{number}"), &secret);
            Node::prepare_at(port).with_sections(&(store + &chat + &tls + &farm + &links))
        };
        let mut nodes = vec![prepare(0).with_chat_users(users).started()];
        nodes.extend((1..ways.len()).map(|number| prepare(number).started()));
        let farm = Farm { port, nodes, folder, _links: None };
        farm.wait_for_shares(ways.len());
        (farm, ports)
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
        let farm = Farm { port: SIP, nodes, folder, _links: None };
        farm.wait_for_shares(hosts.len());
        farm
    }

    fn secret(folder: &TempDir) -> PathBuf {
        let secret = folder.path().join("farm.secret");
        Node::prepare().run(&["farm", "secret", &secret.display().to_string()]);
        secret
    }

    /// The farm's secret, for a test that plays a node.
    pub fn shared_secret(&self) -> [u8; 32] {
        let text = std::fs::read_to_string(self.folder.path().join("farm.secret")).expect("the farm has one");
        let text = text.trim();
        std::array::from_fn(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).expect("64 digits"))
    }

    /// Waits until every running node sees the call slots divided among so many nodes.
    pub fn wait_for_shares(&self, count: usize) {
        self.wait_for_shares_at(count, &(0..self.nodes.len()).collect::<Vec<_>>());
    }

    /// Does what [`wait_for_shares`](Self::wait_for_shares) does, as these nodes see it: another one may stand still.
    pub fn wait_for_shares_at(&self, count: usize, numbers: &[usize]) {
        self.wait_for("call_slots", count, numbers);
    }

    /// Waits until every running node sees the buckets divided among so many nodes.
    pub fn wait_for_owners(&self, count: usize) {
        self.wait_for("buckets", count, &(0..self.nodes.len()).collect::<Vec<_>>());
    }

    /// Waits until these nodes see so many with a number greater than 0 of this name in the farm's status.
    fn wait_for(&self, number: &str, count: usize, numbers: &[usize]) {
        let nodes = numbers.iter().map(|number| &self.nodes[*number]);
        for node in nodes.filter(|node| node.id() != 0) {
            let shares = || {
                let status = node.run(&["farm", "status", "--json"]);
                let status: serde_json::Value = serde_json::from_str(&status).unwrap_or_default();
                let nodes = status["nodes"].as_array().cloned().unwrap_or_default();
                nodes.iter().filter(|node| node[number].as_u64() > Some(0)).count()
            };
            wait_until(
                &format!("{number} at {count} nodes"),
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
    section_at(&nats.url(), name, secret)
}

fn section_at(url: &str, name: &str, secret: &Path) -> String {
    let secret = secret.display();
    format!("[farm]\nname = \"test\"\nnode = \"{name}\"\ncouncil = [\"{url}\"]\nsecret = \"{secret}\"\n")
}
