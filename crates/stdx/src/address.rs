//! Addresses of private networks and of this machine, which input from others must not make a server connect to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// True if the address is not of the public network: IANA's special-purpose registries (RFC 6890).
pub fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_private_v4(ip),
        IpAddr::V6(ip) => is_private_v6(ip),
    }
}

fn is_private_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_multicast()
        || ip.is_documentation()
        // This network, carriers' NAT (RFC 6598), protocol assignments, benchmarks, class E and broadcast.
        || matches!((a, b, c), (0, _, _) | (100, 64..=127, _) | (192, 0, 0) | (198, 18..=19, _) | (240..=255, _, _))
}

fn is_private_v6(ip: Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, g, h] = ip.segments();
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_private_v4(Ipv4Addr::new(a, b, c, d))
    };
    match (a, b, c, d, e, f) {
        // Unspecified, loopback, IPv4-compatible and IPv4-mapped.
        (0, 0, 0, 0, 0, 0 | 0xffff) => embedded(g, h),
        // NAT64 (RFC 6052) and 6to4 (RFC 3056) carry an IPv4 address; a local translator would deliver it here.
        (0x64, 0xff9b, 0, 0, 0, 0) => embedded(g, h),
        (0x2002, ..) => embedded(b, c),
        // NAT64 of a network's own (RFC 8215), protocol assignments (Teredo, benchmarks, ORCHID), documentation (RFC 9637),
        // discarded packets (RFC 6666), segment identifiers (RFC 9602).
        (0x64, 0xff9b, ..) | (0x2001, 0..=0x1ff | 0xdb8, ..) | (0x3fff, 0..=0xfff, ..) => true,
        (0x100, 0, 0, 0, ..) | (0x5f00, ..) => true,
        _ => ip.is_unique_local() || ip.is_unicast_link_local() || ip.is_multicast() || a & 0xffc0 == 0xfec0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_network_is_told_from_the_public_one() {
        let own = "0.0.0.0 127.0.0.1 127.9.9.9 10.1.2.3 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 224.0.0.1 \
                   255.255.255.255 192.0.0.8 198.18.0.1 :: ::1 ::ffff:10.0.0.1 ::127.0.0.1 64:ff9b::a00:1 2002:a00:1:: \
                   fc00::1 fd12::1 fe80::1 fec0::1 ff02::1 2001:db8::1 2001::1 64:ff9b:1::1 \
                   2001:2::1 2001:10::1 3fff:123::1 100::1 5f00::1";
        for ip in own.split_whitespace() {
            assert!(is_private(ip.parse().unwrap()), "{ip}");
        }
        let public = "8.8.8.8 172.32.0.1 100.128.0.1 192.0.1.1 2606:4700::1111 ::ffff:8.8.8.8 64:ff9b::808:808 2002:808:808::1 \
                      2001:200::1 3fff:1000::1 100:0:0:1::1 5f01::1";
        for ip in public.split_whitespace() {
            assert!(!is_private(ip.parse().unwrap()), "{ip}");
        }
    }
}
