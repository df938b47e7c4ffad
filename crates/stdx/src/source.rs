//! The key of every limit per source: an IPv4 address, or a /64 network of IPv6.
//!
//! A single customer line of IPv6 has at least a /64 (RFC 6177), so a limit per IPv6 address would bound nothing.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// Where a connection, a datagram or a request comes from, as limits see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SourcePrefix {
    V4([u8; 4]),
    /// The first 64 bits of the address.
    V6([u8; 8]),
}

impl From<IpAddr> for SourcePrefix {
    /// An IPv4 address that is mapped into IPv6 (`::ffff:192.0.2.1`) is the IPv4 address: a listener at `[::]` sees
    /// clients of IPv4 so.
    fn from(address: IpAddr) -> SourcePrefix {
        match address.to_canonical() {
            IpAddr::V4(address) => SourcePrefix::V4(address.octets()),
            IpAddr::V6(address) => {
                let [a, b, c, d, e, f, g, h, ..] = address.octets();
                SourcePrefix::V6([a, b, c, d, e, f, g, h])
            }
        }
    }
}

impl fmt::Display for SourcePrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SourcePrefix::V4(octets) => IpAddr::from(*octets).fmt(f),
            SourcePrefix::V6(octets) => {
                let bits = u128::from(u64::from_be_bytes(*octets)) << 64;
                write!(f, "{}/64", Ipv6Addr::from_bits(bits))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(address: &str) -> SourcePrefix {
        address.parse::<IpAddr>().unwrap().into()
    }

    #[test]
    fn an_ipv6_source_is_its_64_bit_network_and_an_ipv4_source_its_address() {
        assert_eq!(prefix("2001:db8:1:2::1"), prefix("2001:db8:1:2:ffff::9"));
        assert_ne!(prefix("2001:db8:1:2::1"), prefix("2001:db8:1:3::1"));
        assert_ne!(prefix("192.0.2.1"), prefix("192.0.2.2"));
        assert_eq!(prefix("::ffff:192.0.2.1"), prefix("192.0.2.1"));
        assert_ne!(prefix("::ffff:192.0.2.1"), prefix("::ffff:192.0.2.2"));
        assert_eq!(prefix("2001:db8:1:2::1").to_string(), "2001:db8:1:2::/64");
        assert_eq!(prefix("::ffff:192.0.2.1").to_string(), "192.0.2.1");
    }
}
