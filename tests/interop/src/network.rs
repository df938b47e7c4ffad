//! Networks that a test makes for itself: a bridge and hosts around it, each host a network namespace of its own. Nothing outside
//! sees their addresses, and two tests may have the same ones at a time.
//!
//! A namespace lives as long as the process that keeps it, which ends with the test, however that ends. Root can make
//! namespaces; other users can where the kernel gives them user namespaces. A test on a machine with neither fails and says so.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::peer::Peer;

/// The bridge, and the router of all hosts.
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);

/// The mark of packets for the first host behind a balancer, and the number of its table of routes.
const FIRST_MARK: usize = 100;

/// Directories of `ip` and `nft`, which a user's path may lack.
const SYSTEM_PATHS: &str = "/usr/sbin:/sbin";

/// A bridge in a namespace of its own, to which hosts are connected.
pub struct Network {
    router: Namespace,
    hosts: AtomicU8,
}

/// A host of a [`Network`].
pub struct Namespace {
    address: Ipv4Addr,
    /// The options of `nsenter` for programs of this host.
    enter: Vec<String>,
    keeper: Child,
}

impl Default for Network {
    fn default() -> Self {
        Network::new()
    }
}

impl Network {
    /// A network without hosts.
    pub fn new() -> Network {
        let router = Namespace::new(ROUTER, None);
        router.run("ip", "link set lo up");
        router.run("ip", "link add bridge type bridge");
        router.run("ip", &format!("address add {ROUTER}/24 dev bridge"));
        router.run("ip", "link set bridge up");
        router.run("sysctl", "-qw net.ipv4.ip_forward=1");
        // A redirect would tell a host of the balancer's choice for one packet.
        router.run("sysctl", "-qw net.ipv4.conf.all.send_redirects=0 net.ipv4.conf.bridge.send_redirects=0");
        Network { router, hosts: AtomicU8::new(0) }
    }

    /// A new host with the next address; the network's router is its default route.
    pub fn host(&self) -> Arc<Namespace> {
        let number = self.hosts.fetch_add(1, Ordering::Relaxed) + 2;
        let address = Ipv4Addr::new(10, 77, 0, number);
        let host = Namespace::new(address, Some(&self.router));
        let process = host.keeper.id();
        self.router.run("ip", &format!("link add v{number} type veth peer name eth0 netns {process}"));
        self.router.run("ip", &format!("link set v{number} master bridge up"));
        host.run("ip", "link set lo up");
        host.run("ip", "link set eth0 up");
        host.run("ip", &format!("address add {address}/24 dev eth0"));
        host.run("ip", &format!("route add default via {ROUTER}"));
        Arc::new(host)
    }

    /// Gives datagrams for the virtual address and port to these hosts in turn, each packet to the next one: as Linux Virtual
    /// Server does with direct routing and one-packet scheduling. Packets are not changed, and no connections are tracked. Each
    /// host has the virtual address on `lo`.
    pub fn balance(&self, virtual_address: Ipv4Addr, port: u16, hosts: &[Arc<Namespace>]) {
        let count = hosts.len();
        let mut rules = String::from("table ip balancer {\n chain arriving {\n");
        // Writing to a string does not fail.
        let _ = writeln!(
            rules,
            "  type filter hook prerouting priority raw;\n  ip daddr {virtual_address} udp dport {port} notrack \
             meta mark set numgen inc mod {count} offset {FIRST_MARK}\n }}\n}}"
        );
        self.router.nft(&rules);
        for (number, host) in hosts.iter().enumerate() {
            let mark = FIRST_MARK + number;
            host.run("ip", &format!("address add {virtual_address}/32 dev lo"));
            self.router.run("ip", &format!("rule add fwmark {mark} table {mark}"));
            let route = format!("route add default via {} dev bridge table {mark}", host.address);
            self.router.run("ip", &route);
        }
    }
}

impl Namespace {
    /// A namespace with this address to be; `beside` is one of the same network.
    fn new(address: Ipv4Addr, beside: Option<&Namespace>) -> Namespace {
        let own = std::fs::metadata("/proc/self").expect("a process has a folder in /proc");
        let is_root = std::os::unix::fs::MetadataExt::uid(&own) == 0;
        let mut command = match beside {
            Some(beside) if !is_root => {
                let mut command = Command::new("nsenter");
                let process = beside.keeper.id().to_string();
                command.args(["--target", &process, "--user", "--", "unshare", "--net"]);
                command
            }
            _ => {
                let mut command = Command::new("unshare");
                command.arg("--net");
                command.args(if is_root { &[][..] } else { &["--user", "--map-root-user"] });
                command
            }
        };
        // Its input ends with the test's process.
        let mut keeper = command
            .args(["sh", "-c", "echo; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare and nsenter of util-linux");
        let mut line = [0];
        let ready = keeper.stdout.as_mut().expect("it is a pipe").read_exact(&mut line);
        assert!(
            ready.is_ok(),
            "this machine gives the test no network namespace: run it as root, or allow user namespaces \
             (sysctl kernel.unprivileged_userns_clone=1)"
        );
        let process = keeper.id().to_string();
        let user = if is_root { &[][..] } else { &["--user"] };
        let words = ["--target", &*process, "--net"];
        let enter = words.iter().chain(user).map(|&word| word.to_owned()).collect();
        Namespace { address, enter, keeper }
    }

    /// The host's address in its network.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Starts a program on this host; its files are those of the test.
    pub fn start(&self, name: &str, program: &str, arguments: &[String], folder: &Path) -> Peer {
        let words = ["--".to_owned(), program.to_owned()];
        let all: Vec<String> =
            self.enter.iter().cloned().chain(words).chain(arguments.iter().cloned()).collect();
        Peer::start(name, "nsenter", &all, folder)
    }

    /// Runs a program on this host and returns its output; panics unless it succeeds.
    pub fn run(&self, program: &str, arguments: &str) -> String {
        let output = self.command(program).args(arguments.split(' ')).stdin(Stdio::null()).output();
        checked(&format!("{program} {arguments}"), &output.expect("nsenter of util-linux"))
    }

    /// Applies rules of nftables to this host.
    pub fn nft(&self, rules: &str) {
        let mut child = self
            .command("nft")
            .args(["-f", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("nsenter of util-linux");
        let written = child.stdin.take().expect("it is a pipe").write_all(rules.as_bytes());
        let output = child.wait_with_output().expect("our own child");
        checked(&format!("nft (install nftables, or run tools/setup): {rules}"), &output);
        written.expect("nft reads the rules");
    }

    /// Drops all that comes from another host from now on; the other direction stays.
    pub fn refuse(&self, from: &Namespace) {
        self.nft(&format!(
            "table ip refusals {{\n chain arriving {{\n  type filter hook input priority filter;\n }}\n}}\n\
             add rule ip refusals arriving ip saddr {} drop\n",
            from.address
        ));
    }

    /// Ends all that [`refuse`](Self::refuse) began.
    pub fn accept_all(&self) {
        self.nft("table ip refusals\ndelete table ip refusals\n");
    }

    /// A program of this host, not started.
    pub(crate) fn command(&self, program: &str) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("nsenter");
        command.args(&self.enter).args(["--", program]).env("PATH", format!("{path}:{SYSTEM_PATHS}"));
        command
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // It has ended already, or ends now.
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

fn checked(what: &str, output: &Output) -> String {
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{what}: {}\n{text}{errors}", output.status);
    text.into_owned()
}
