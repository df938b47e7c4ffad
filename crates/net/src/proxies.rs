//! The client for which a reverse proxy speaks: `X-Forwarded-For` or `Forwarded` (RFC 7239), from trusted
//! proxies only.

use std::net::{IpAddr, SocketAddr};

use hyper::HeaderMap;

const FORWARDED_FOR: &str = "x-forwarded-for";
const FORWARDED: &str = "forwarded";

pub use stdx::network::Network;

/// The header in which proxies name their clients. Only this one is read: a proxy passes on any other header
/// as the client wrote it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`, a list of addresses.
    #[default]
    XForwardedFor,
    /// RFC 7239.
    Forwarded,
}

/// Those whose word is taken.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Proxies {
    networks: Vec<Network>,
    header: ForwardedHeader,
}

impl Proxies {
    /// Proxies in these networks, which name their clients in that header.
    pub fn new(networks: Vec<Network>, header: ForwardedHeader) -> Proxies {
        Proxies { networks, header }
    }

    /// True if the address is one of these proxies.
    pub fn trust(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.networks.iter().any(|network| network.contains(address))
    }

    /// The client's address of a request that came from `remote`. Each proxy appends the address of its peer:
    /// entries before the first untrusted address are hearsay.
    pub fn source(&self, remote: IpAddr, headers: &HeaderMap) -> IpAddr {
        // The usual case: no header is read.
        if self.networks.is_empty() {
            return remote;
        }
        let name = match self.header {
            ForwardedHeader::XForwardedFor => FORWARDED_FOR,
            ForwardedHeader::Forwarded => FORWARDED,
        };
        // Several lines are one list, in their order (RFC 9110 §5.3).
        let lines = headers.get_all(name).iter().map(|line| line.to_str().unwrap_or_default());
        let hops: Vec<&str> = lines.flat_map(|line| line.split(',')).collect();
        let mut source = remote;
        for hop in hops.iter().rev() {
            // From the end: the last entry was written by the proxy that connected, each one before it by the
            // proxy named behind it.
            if !self.trust(source) {
                break;
            }
            let address = match self.header {
                ForwardedHeader::XForwardedFor => parse_hop(hop.trim()),
                ForwardedHeader::Forwarded => forwarded_for(hop).and_then(parse_hop),
            };
            // An entry that is no address ends the way: the last proxy that is known counts as the client.
            let Some(address) = address else { break };
            source = address;
        }
        source
    }
}

/// The `for` of one element (RFC 7239 §4). Obfuscated identifiers and `unknown` are no addresses, and an address has no
/// character that would be escaped in a quoted string.
fn forwarded_for(element: &str) -> Option<&str> {
    let pairs = element.split(';').filter_map(|pair| pair.split_once('='));
    let (_, node) = pairs.into_iter().find(|(name, _)| name.trim().eq_ignore_ascii_case("for"))?;
    Some(node.trim().trim_matches('"'))
}

/// Some write the port, and brackets.
fn parse_hop(hop: &str) -> Option<IpAddr> {
    let bare = hop.strip_prefix('[').and_then(|hop| hop.strip_suffix(']')).unwrap_or(hop);
    let address = bare.parse().ok().or_else(|| hop.parse::<SocketAddr>().ok().map(|hop| hop.ip()));
    address.map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn headers(lines: &[&'static str]) -> HeaderMap {
        lines.iter().map(|line| (FORWARDED_FOR.parse().unwrap(), HeaderValue::from_static(line))).collect()
    }

    fn proxies(header: ForwardedHeader) -> Proxies {
        Proxies::new(vec!["127.0.0.1".parse().unwrap(), "10.0.0.0/8".parse().unwrap()], header)
    }

    #[test]
    fn the_header_of_rfc_7239_is_read_where_the_proxies_write_it_and_otherwise_not() {
        let forwarded = |line: &'static str| {
            HeaderMap::from_iter([(hyper::header::FORWARDED, HeaderValue::from_static(line))])
        };
        for (line, expected) in [
            ("for=203.0.113.9", "203.0.113.9"),
            ("For=\"203.0.113.9:4711\";proto=https;by=10.0.0.1", "203.0.113.9"),
            ("proto=https; for=\"[2001:db8::9]:4711\"", "2001:db8::9"),
            ("for=198.51.100.1, for=203.0.113.9, for=10.0.0.7", "203.0.113.9"),
            ("for=unknown", "127.0.0.1"),
            ("for=\"_hidden\", for=10.0.0.7", "10.0.0.7"),
            ("proto=https", "127.0.0.1"),
        ] {
            let source = proxies(ForwardedHeader::Forwarded).source(ip("127.0.0.1"), &forwarded(line));
            assert_eq!(source, ip(expected), "{line}");
        }
        let forged =
            proxies(ForwardedHeader::XForwardedFor).source(ip("127.0.0.1"), &forwarded("for=203.0.113.9"));
        assert_eq!(forged, ip("127.0.0.1"));
        let forged = proxies(ForwardedHeader::Forwarded).source(ip("127.0.0.1"), &headers(&["203.0.113.9"]));
        assert_eq!(forged, ip("127.0.0.1"));
    }

    #[test]
    fn the_source_is_the_address_that_the_first_trusted_proxy_saw() {
        let proxies = proxies(ForwardedHeader::XForwardedFor);
        for (remote, lines, expected) in [
            ("127.0.0.1", &[][..], "127.0.0.1"),
            ("127.0.0.1", &["203.0.113.9"], "203.0.113.9"),
            ("::ffff:127.0.0.1", &["203.0.113.9"], "203.0.113.9"),
            ("127.0.0.1", &["203.0.113.9:4711"], "203.0.113.9"),
            ("127.0.0.1", &["[2001:db8::9]:4711"], "2001:db8::9"),
            ("127.0.0.1", &["[2001:db8::9]"], "2001:db8::9"),
            ("127.0.0.1", &["2001:db8::9"], "2001:db8::9"),
            // Entries that the client itself has written come before that.
            ("127.0.0.1", &["198.51.100.1, 203.0.113.9"], "203.0.113.9"),
            ("127.0.0.1", &["198.51.100.1", "203.0.113.9, 10.0.0.7"], "203.0.113.9"),
            ("127.0.0.1", &["10.0.0.8, 10.0.0.7"], "10.0.0.8"),
            ("127.0.0.1", &["203.0.113.9, unknown"], "127.0.0.1"),
            ("127.0.0.1", &["203.0.113.9, unknown, 10.0.0.7"], "10.0.0.7"),
            // No other header is read.
            ("192.0.2.1", &["203.0.113.9"], "192.0.2.1"),
        ] {
            assert_eq!(proxies.source(ip(remote), &headers(lines)), ip(expected), "{remote} {lines:?}");
        }
        assert_eq!(Proxies::default().source(ip("127.0.0.1"), &headers(&["203.0.113.9"])), ip("127.0.0.1"));
    }
}
