//! Addresses of our own network, which documents written by others must not reach. A name is looked up first, and the
//! connection is made to the address that was checked.
//!
//! Documents, sounds and streams are named by applications. Without the check one of them could have the node ask servers that only the node reaches.
//! `http` and `websocket` both use it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use stdx::address::is_private;

/// Names to addresses that may be asked.
pub(super) struct Checked {
    pub(super) allow_private: bool,
}

/// The error of a name that leads only to private addresses.
#[derive(Debug)]
pub(super) struct Private {
    pub(super) host: String,
    pub(super) address: IpAddr,
}

impl fmt::Display for Private {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Private { host, address } = self;
        write!(f, "{host} is in our own network ({address}), and `voice.allow_private` is false")
    }
}

impl std::error::Error for Private {}

impl Resolve for Checked {
    fn resolve(&self, name: Name) -> Resolving {
        let allow_private = self.allow_private;
        Box::pin(async move {
            let found = allowed(name.as_str(), 0, allow_private).await?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// The addresses that a name, or an address without brackets, may be connected to.
pub(super) async fn allowed(
    host: &str,
    port: u16,
    allow_private: bool,
) -> Result<Vec<SocketAddr>, Box<dyn std::error::Error + Send + Sync>> {
    let found: Vec<_> = tokio::net::lookup_host((host, port)).await?.collect();
    let refused = found.iter().map(|address| address.ip()).find(|ip| !allow_private && is_private(*ip));
    let left: Vec<_> = found.into_iter().filter(|a| allow_private || !is_private(a.ip())).collect();
    match refused {
        Some(address) if left.is_empty() => Err(Private { host: host.to_owned(), address }.into()),
        _ => Ok(left),
    }
}
