//! Where a route leads: another system, or an account of ours.

use std::collections::HashSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// Another system, as RFC 3263 resolves it: without a port by SRV and A, without a transport by NAPTR.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// A name, or an address without brackets; in lower case.
    pub host: Box<str>,
    /// `None`: SRV records or the transport's default port (RFC 3263 §4.2).
    pub port: Option<u16>,
    /// `None`: NAPTR and SRV records decide (RFC 3263 §4.1).
    pub transport: Option<TargetTransport>,
}

/// The transport of a SIP target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TargetTransport {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
    /// TLS over TCP.
    Tls,
}

/// The target that an operator writes behind a pattern: `gw.example.net:5080;transport=tcp` or `account:bob@example.com`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteTarget {
    /// Another SIP system.
    Peer(Target),
    /// An account of ours.
    Account {
        /// The user part, unescaped.
        user: Box<str>,
        /// A served domain.
        domain: Box<str>,
    },
}

/// One target of a route. Lower priorities are tried first; among equals, weights share the calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The target itself.
    pub to: RouteTarget,
    /// 0 is tried first.
    pub priority: u16,
    /// Zero: only when those with a weight have failed.
    pub weight: u16,
}

/// Targets that do not answer their probes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DownTargets(HashSet<Target>);

impl DownTargets {
    /// True if this target is down.
    pub fn contains(&self, target: &Target) -> bool {
        self.0.contains(target)
    }

    /// The number of targets that are down.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if no target is down.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The targets that are down, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Target> {
        self.0.iter()
    }
}

impl FromIterator<Target> for DownTargets {
    fn from_iter<I: IntoIterator<Item = Target>>(targets: I) -> Self {
        DownTargets(targets.into_iter().collect())
    }
}

/// The value that was expected instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetError(pub &'static str);

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}", self.0)
    }
}

impl std::error::Error for TargetError {}

impl Target {
    /// The literal address, when the host is one.
    pub fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// Does a message from this source come from there?
    ///
    /// By address and port; by address alone when the target names no port, or when it is reached over
    /// connections, whose other end has any port.
    pub(crate) fn sends_from(&self, source: SocketAddr) -> bool {
        let connects = matches!(self.transport, Some(TargetTransport::Tcp | TargetTransport::Tls));
        self.ip().is_some_and(|ip| ip.to_canonical() == source.ip().to_canonical())
            && (connects || self.port.is_none_or(|port| port == source.port()))
    }
}

/// `host`, `host:port`, `[v6]:port`, each with `;transport=udp|tcp|tls`, after `sip:` or nothing.
impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let text = text.strip_prefix("sip:").unwrap_or(text);
        let (address, parameter) = match text.split_once(';') {
            Some((address, parameter)) => (address, Some(parameter)),
            None => (text, None),
        };
        let transport = parameter.map(transport).transpose()?;
        let (host, port) = split_port(address)?;
        let port = match port {
            None => None,
            Some(port) => {
                Some(port.parse().ok().filter(|port| *port != 0).ok_or(TargetError("a port, 1 to 65535"))?)
            }
        };
        Ok(Target { host: host_name(host)?, port, transport })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ip() {
            Some(IpAddr::V6(ip)) => write!(f, "[{ip}]")?,
            _ => f.write_str(&self.host)?,
        }
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        match self.transport {
            None => Ok(()),
            Some(TargetTransport::Udp) => f.write_str(";transport=udp"),
            Some(TargetTransport::Tcp) => f.write_str(";transport=tcp"),
            Some(TargetTransport::Tls) => f.write_str(";transport=tls"),
        }
    }
}

impl FromStr for RouteTarget {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let Some(account) = text.strip_prefix("account:") else {
            return text.parse().map(RouteTarget::Peer);
        };
        match account.split_once('@') {
            Some((user, domain)) if !user.is_empty() => {
                Ok(RouteTarget::Account { user: user.into(), domain: host_name(domain)? })
            }
            _ => Err(TargetError("an account, account:user@domain")),
        }
    }
}

impl fmt::Display for RouteTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RouteTarget::Peer(target) => target.fmt(f),
            RouteTarget::Account { user, domain } => write!(f, "account:{user}@{domain}"),
        }
    }
}

fn transport(parameter: &str) -> Result<TargetTransport, TargetError> {
    match parameter.to_ascii_lowercase().as_str() {
        "transport=udp" => Ok(TargetTransport::Udp),
        "transport=tcp" => Ok(TargetTransport::Tcp),
        "transport=tls" => Ok(TargetTransport::Tls),
        _ => Err(TargetError("transport=udp, transport=tcp or transport=tls behind ';'")),
    }
}

fn split_port(address: &str) -> Result<(&str, Option<&str>), TargetError> {
    if let Some(rest) = address.strip_prefix('[') {
        let (host, port) = rest.split_once(']').ok_or(TargetError("']' behind an IPv6 address"))?;
        if host.parse::<std::net::Ipv6Addr>().is_err() {
            return Err(TargetError("an IPv6 address in brackets"));
        }
        return match port.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if port.is_empty() => Ok((host, None)),
            None => Err(TargetError("':' and a port behind ']'")),
        };
    }
    Ok(match address.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (address, None),
    })
}

fn host_name(host: &str) -> Result<Box<str>, TargetError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let is_name = !host.is_empty() && host.len() <= 253 && host.chars().all(plain);
    if is_name || host.parse::<IpAddr>().is_ok() {
        Ok(host.to_ascii_lowercase().into())
    } else {
        Err(TargetError("a host name or address"))
    }
}
