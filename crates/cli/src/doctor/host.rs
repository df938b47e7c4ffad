//! The state of the host that the checks look at: the running node, the addresses of this machine, DNS, the kernel.
//!
//! This is the only file that asks the machine; the checks take its answers as arguments, so that their tests need no machine in a certain state.

use std::net::IpAddr;

use config::Config;
use control::{Client, Request, Response};
use net::clock::Clock;
use net::dns::TokioResolver;
use sip::dns::{DnsFault, DnsQuery, DnsRecord};
use stdx::Instant;
use tokio::runtime::Runtime;

use crate::error::CliError;
use crate::limits;

/// The node of the configuration, if it runs.
#[derive(Clone, Debug, Default)]
pub(super) struct RunningNode {
    /// It answers.
    pub(super) is_up: bool,
    /// All that it listens at: listeners as in the configuration, and URLs.
    pub(super) listens_at: Vec<Box<str>>,
    /// Its process, if the system says so.
    pub(super) process: Option<u32>,
}

/// Asks the node of the configuration. One that does not answer does not run.
pub(super) fn running_node(config: &Config) -> RunningNode {
    let Ok(mut client) = Client::connect(&config.server.control) else { return RunningNode::default() };
    match client.ask(&Request::Status) {
        Ok(Response::Status(status)) => {
            let listens_at = status.node.services.into_iter().flat_map(|service| service.at).collect();
            RunningNode { is_up: true, listens_at, process: Some(status.pid) }
        }
        // A node of another version, perhaps: it is there, but nothing is known of it.
        _ => RunningNode { is_up: true, ..RunningNode::default() },
    }
}

/// The addresses of this machine's interfaces. Without any nothing can be compared, which the checks say.
pub(super) fn addresses() -> Vec<IpAddr> {
    let interfaces = if_addrs::get_if_addrs().unwrap_or_default();
    interfaces.into_iter().map(|interface| interface.ip()).collect()
}

/// The time of certificates.
pub(super) fn now() -> Instant {
    Clock::new().now()
}

/// The DNS servers of the configuration, or of the system.
pub(super) struct Dns {
    /// The resolver is asynchronous, and the command is not.
    runtime: Runtime,
    /// An error is the answer to every question.
    resolver: Result<TokioResolver, DnsFault>,
}

impl Dns {
    pub(super) fn new(config: &Config) -> Result<Dns, CliError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let guard = runtime.enter();
        let resolver = net::dns::resolver(&config.sip.nameservers, limits::DOCTOR_PATIENCE);
        drop(guard);
        Ok(Dns { runtime, resolver: resolver.map_err(|_| DnsFault::Failed) })
    }

    pub(super) fn ask(&mut self, query: &DnsQuery) -> Result<Vec<DnsRecord>, DnsFault> {
        let resolver = self.resolver.as_ref().map_err(Clone::clone)?;
        self.runtime.block_on(net::dns::ask(resolver, query, limits::DOCTOR_PATIENCE))
    }
}

/// Limits and state of the kernel. `None`: it does not say.
#[derive(Clone, Debug, Default)]
pub(super) struct Kernel {
    /// `net.core.rmem_max`, in bytes.
    pub(super) largest_receive_buffer: Option<usize>,
    /// Files that the node, or else this command, may have open.
    pub(super) open_files: Option<u64>,
    /// The limit is that of the running node.
    pub(super) is_of_node: bool,
    /// Something sets the clock by others.
    pub(super) is_clock_set: Option<bool>,
}

impl Kernel {
    pub(super) fn read(node: &RunningNode) -> Kernel {
        let number = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse().ok();
        let files_of = |process: &str| {
            let text = std::fs::read_to_string(format!("/proc/{process}/limits")).ok()?;
            super::kernel::open_files(&text)
        };
        let of_node = node.process.and_then(|process| files_of(&process.to_string()));
        Kernel {
            largest_receive_buffer: number("/proc/sys/net/core/rmem_max"),
            open_files: of_node.or_else(|| files_of("self")),
            is_of_node: of_node.is_some(),
            is_clock_set: super::kernel::is_clock_set(),
        }
    }
}
