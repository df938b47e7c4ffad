//! An IP network in CIDR notation, as configuration names it.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// One address, or all addresses of a prefix: `10.0.0.0/8`, `2001:db8::/32`, `192.0.2.1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// True if `address` is in this network. An IPv4-mapped IPv6 address counts as IPv4.
    pub fn contains(self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(address)) => {
                let shift = 32 - u32::from(self.bits);
                own.to_bits().checked_shr(shift) == address.to_bits().checked_shr(shift)
            }
            (IpAddr::V6(own), IpAddr::V6(address)) => {
                let shift = 128 - u32::from(self.bits);
                own.to_bits().checked_shr(shift) == address.to_bits().checked_shr(shift)
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = ();

    fn from_str(text: &str) -> Result<Network, ()> {
        let (address, bits) =
            text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| ())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_| ())?;
        (bits <= most).then_some(Network { address, bits }).ok_or(())
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.address, self.bits) {
            (IpAddr::V4(_), 32) | (IpAddr::V6(_), 128) => write!(f, "{}", self.address),
            (address, bits) => write!(f, "{address}/{bits}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn networks_are_read_shown_and_compared() {
        for (text, inside, outside) in [
            ("127.0.0.1", "127.0.0.1", "127.0.0.2"),
            ("10.1.0.0/16", "10.1.255.9", "10.2.0.1"),
            ("0.0.0.0/0", "203.0.113.9", "::1"),
            ("2001:db8::/32", "2001:db8:9::1", "2001:db9::1"),
            ("::/0", "::1", "127.0.0.1"),
        ] {
            let network: Network = text.parse().unwrap();
            assert_eq!(network.to_string(), text);
            assert!(network.contains(ip(inside)) && !network.contains(ip(outside)), "{text}");
        }
        for wrong in ["", "proxy", "10.0.0.0/33", "10.0.0.0/", "::/129", "10.0.0.0/-1", "10.0.0.1:80"] {
            assert_eq!(wrong.parse::<Network>(), Err(()), "{wrong}");
        }
    }
}
