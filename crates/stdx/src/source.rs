//! The network that a limit counts: one IPv4 address, or one IPv6 /64.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The part of a source address that one client cannot change: all of an IPv4 address, the first 64 bits of
/// an IPv6 address. A subscriber is given a /64 or more (RFC 6177, RFC 7934 §6), so the other 64 bits are the
/// client's own choice and say nothing. An IPv4-mapped address is its IPv4 address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourcePrefix(u128);

/// The last 64 bits of an IPv6 address: the interface identifier (RFC 4291 §2.5.1).
const INTERFACE_BITS: u32 = 64;

impl SourcePrefix {
    /// The IPv4 address, or the /64 of the IPv6 address.
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            // An IPv4-mapped address has bits among the last 64, a /64 has none: the two never meet.
            IpAddr::V4(address) => SourcePrefix(u128::from(address.to_ipv6_mapped())),
            IpAddr::V6(address) => SourcePrefix(u128::from(address) >> INTERFACE_BITS << INTERFACE_BITS),
        }
    }

    /// The IPv4 address, or the first address of the /64.
    pub fn first_address(self) -> IpAddr {
        IpAddr::V6(Ipv6Addr::from(self.0)).to_canonical()
    }

    /// The bytes that hashes and keyed checks are computed over.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// True if packets from it come from this host or its own networks: loopback, private (RFC 1918), link-local
    /// and unique local (RFC 4193) addresses. The public Internet cannot send from these.
    pub fn is_local(self) -> bool {
        match self.first_address() {
            IpAddr::V4(address) => address.is_loopback() || address.is_private() || address.is_link_local(),
            IpAddr::V6(address) => {
                // `::1` is the only address of its /64 that is in use.
                address.is_unspecified() || address.is_unique_local() || address.is_unicast_link_local()
            }
        }
    }
}

impl From<IpAddr> for SourcePrefix {
    fn from(address: IpAddr) -> Self {
        SourcePrefix::of(address)
    }
}

impl From<Ipv4Addr> for SourcePrefix {
    fn from(address: Ipv4Addr) -> Self {
        SourcePrefix::of(address.into())
    }
}

impl fmt::Display for SourcePrefix {
    /// `192.0.2.1`, `2001:db8::/64`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first_address() {
            IpAddr::V4(address) => address.fmt(f),
            IpAddr::V6(address) => write!(f, "{address}/64"),
        }
    }
}

impl fmt::Debug for SourcePrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> SourcePrefix {
        SourcePrefix::of(text.parse().unwrap())
    }

    #[test]
    fn addresses_of_one_ipv6_64_are_one_source() {
        assert_eq!(prefix("2001:db8:1:2::1"), prefix("2001:db8:1:2:ffff:ffff:ffff:ffff"));
        assert_ne!(prefix("2001:db8:1:2::1"), prefix("2001:db8:1:3::1"));
        assert_eq!(prefix("2001:db8:1:2:3:4:5:6").to_string(), "2001:db8:1:2::/64");
    }

    #[test]
    fn each_ipv4_address_is_a_source_however_it_is_written() {
        assert_ne!(prefix("192.0.2.1"), prefix("192.0.2.2"));
        assert_eq!(prefix("192.0.2.1"), prefix("::ffff:192.0.2.1"));
        assert_ne!(prefix("192.0.2.1"), prefix("::1"));
        assert_eq!(prefix("::ffff:192.0.2.1").to_string(), "192.0.2.1");
        assert_eq!(prefix("192.0.2.1").first_address(), "192.0.2.1".parse::<IpAddr>().unwrap());
    }

    #[test]
    fn loopback_and_private_networks_are_local() {
        for local in ["127.0.0.1", "10.1.2.3", "192.168.0.9", "169.254.0.1", "::1", "fd00::1", "fe80::1"] {
            assert!(prefix(local).is_local(), "{local}");
        }
        for public in ["192.0.2.1", "8.8.8.8", "2001:db8::1", "172.32.0.1"] {
            assert!(!prefix(public).is_local(), "{public}");
        }
    }
}
