//! Names that servers send users to, each asked for once.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};

use lab_xmpp::RedirectTarget;

use super::limits::NAMES_KEPT;

/// The names of one shard. The resolver blocks, so each name costs the shard one wait at most.
#[derive(Debug, Default)]
pub(super) struct NameCache {
    /// A host without an address is kept too (`None`), so that it is asked for once.
    known: HashMap<Box<str>, Option<IpAddr>>,
}

impl NameCache {
    /// An address of the same family as `like`, if there is a choice; the port of `like` where none is named.
    pub(super) fn resolve(&mut self, named: &RedirectTarget, like: SocketAddr) -> io::Result<SocketAddr> {
        let ip = match named.host.parse::<IpAddr>() {
            Ok(ip) => Some(ip),
            Err(_) => self.ask(&named.host, like)?,
        };
        let missing = || io::Error::other(format!("the server names {}, which has no address", named.host));
        let ip = ip.ok_or_else(missing)?;
        Ok(SocketAddr::new(ip, named.port.unwrap_or(like.port())))
    }

    /// The address of the host, from the cache or the resolver.
    fn ask(&mut self, host: &str, like: SocketAddr) -> io::Result<Option<IpAddr>> {
        if let Some(known) = self.known.get(host) {
            return Ok(*known);
        }
        if self.known.len() >= NAMES_KEPT {
            let text =
                format!("the server names {host}, after {NAMES_KEPT} other hosts: it is not looked up");
            return Err(io::Error::other(text));
        }
        let found: Vec<SocketAddr> =
            (host, like.port()).to_socket_addrs().map(Iterator::collect).unwrap_or_default();
        let of_family = found.iter().find(|address| address.is_ipv4() == like.is_ipv4());
        let ip = of_family.or(found.first()).map(SocketAddr::ip);
        self.known.insert(host.into(), ip);
        Ok(ip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ip_address_is_not_looked_up_and_a_name_is_looked_up_once() {
        let like: SocketAddr = "127.0.0.1:5222".parse().unwrap();
        let named = |host: &str, port| RedirectTarget { host: host.into(), port };
        let mut names = NameCache::default();
        let here = names.resolve(&named("127.0.0.2", None), like).unwrap();
        assert_eq!(here.to_string(), "127.0.0.2:5222");
        assert_eq!(names.resolve(&named("localhost", Some(9)), like).unwrap().port(), 9);
        assert_eq!(names.known.len(), 1);
        for number in 0..NAMES_KEPT {
            names.known.insert(format!("host{number}").into(), None);
        }
        let gone = names.resolve(&named("host1", None), like).unwrap_err().to_string();
        assert!(gone.contains("has no address"), "{gone}");
        let many = names.resolve(&named("one.more.invalid", None), like).unwrap_err().to_string();
        assert!(many.contains("not looked up"), "{many}");
    }
}
