//! For whom a reverse proxy speaks: `X-Forwarded-For`, of proxies that are trusted and of nobody else.

use std::net::{IpAddr, SocketAddr};

use hyper::HeaderMap;

const FORWARDED_FOR: &str = "x-forwarded-for";

pub use stdx::network::Network;

/// Those whose word is taken.
#[derive(Clone, Debug, Default)]
pub(crate) struct Proxies(pub(crate) Vec<Network>);

impl Proxies {
    pub(crate) fn trust(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(address))
    }

    /// Whose request it is that came from `remote`. Each proxy adds at the end who asked it: what stands before the first
    /// that is not trusted is hearsay.
    pub(crate) fn source(&self, remote: IpAddr, headers: &HeaderMap) -> IpAddr {
        let lines = headers.get_all(FORWARDED_FOR).iter().map(|line| line.to_str().unwrap_or_default());
        let hops: Vec<&str> = lines.flat_map(|line| line.split(',')).collect();
        let mut source = remote;
        for hop in hops.iter().rev() {
            if !self.trust(source) {
                break;
            }
            let Some(address) = parse_hop(hop.trim()) else { break };
            source = address;
        }
        source
    }
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

    #[test]
    fn who_asked_is_whom_the_first_trusted_proxy_saw() {
        let proxies = Proxies(vec!["127.0.0.1".parse().unwrap(), "10.0.0.0/8".parse().unwrap()]);
        for (remote, lines, expected) in [
            ("127.0.0.1", &[][..], "127.0.0.1"),
            ("127.0.0.1", &["203.0.113.9"], "203.0.113.9"),
            ("::ffff:127.0.0.1", &["203.0.113.9"], "203.0.113.9"),
            ("127.0.0.1", &["203.0.113.9:4711"], "203.0.113.9"),
            ("127.0.0.1", &["[2001:db8::9]:4711"], "2001:db8::9"),
            ("127.0.0.1", &["[2001:db8::9]"], "2001:db8::9"),
            ("127.0.0.1", &["2001:db8::9"], "2001:db8::9"),
            // What the client itself has said is before that.
            ("127.0.0.1", &["198.51.100.1, 203.0.113.9"], "203.0.113.9"),
            ("127.0.0.1", &["198.51.100.1", "203.0.113.9, 10.0.0.7"], "203.0.113.9"),
            ("127.0.0.1", &["10.0.0.8, 10.0.0.7"], "10.0.0.8"),
            ("127.0.0.1", &["203.0.113.9, unknown"], "127.0.0.1"),
            ("127.0.0.1", &["203.0.113.9, unknown, 10.0.0.7"], "10.0.0.7"),
            // Nobody else is asked.
            ("192.0.2.1", &["203.0.113.9"], "192.0.2.1"),
        ] {
            assert_eq!(proxies.source(ip(remote), &headers(lines)), ip(expected), "{remote} {lines:?}");
        }
        assert_eq!(Proxies::default().source(ip("127.0.0.1"), &headers(&["203.0.113.9"])), ip("127.0.0.1"));
    }
}
