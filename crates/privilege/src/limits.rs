//! Limits of privileged components, with their reasons and the answer beyond them.

use std::time::Duration;

/// Requests of one host in the names of accounts that are not answered, and as many that components have to answer. Beyond: `resource-constraint`. Each holds its addresses and ids.
pub const REQUESTS: usize = 1_000;

/// Delegated requests of one account, or of one other domain, at one host that are not answered. Beyond: `resource-constraint`. Senders
/// who ask a slow component again and again leave room for others.
pub const REQUESTS_OF_ONE: usize = 50;

/// The time for the answer to such a request. Beyond: `remote-server-timeout`. Components that are libraries' wait for half a minute
/// or a minute themselves.
pub const ANSWER: Duration = Duration::from_secs(60);

/// Bytes of a request's id. Beyond: `bad-request`. It is kept until the answer.
pub const ID: usize = 1_023;

/// Clients whose presence a component has had, so that it has each once. Beyond: it gets one again.
pub const PRESENCES: usize = 100_000;

/// Namespaces of requests that one component may have permissions for: each is in its advertisement. Beyond: the configuration is
/// refused.
pub const NAMESPACES: usize = 64;

/// Attributes by which requests of one namespace are chosen. Beyond: the configuration is refused.
pub const ATTRIBUTES: usize = 8;

/// Bytes of a component's answer about one delegated namespace. Beyond: the answer counts for none. All features of publish-subscribe
/// have 3 KiB.
pub const DISCOVERY_ANSWER: usize = 16 << 10;

/// Bytes of all such answers in one description of service discovery, which has to fit a stanza. Beyond: those of the components and
/// namespaces that are last in their order are left out.
pub const DISCOVERY: usize = 64 << 10;

/// Questions to a component that are asked once more after no answer, or after one of type `wait`. Beyond: not before it connects anew.
pub const DISCOVERY_RETRIES: u32 = 5;
