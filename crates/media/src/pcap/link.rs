//! From a captured frame to the UDP datagram in it: link header, VLAN tags, IPv4 or IPv6.

/// Loopback of BSD: four bytes of address family, in the byte order of the machine.
const NULL: u32 = 0;
const ETHERNET: u32 = 1;
/// Loopback of OpenBSD.
const LOOP: u32 = 108;
/// Linux cooked capture, 16 bytes.
const LINUX_SLL: u32 = 113;
/// Linux cooked capture version 2, 20 bytes.
const LINUX_SLL2: u32 = 276;
/// Raw IP by its own number, and by two that systems use for it, then IPv4 and IPv6 alone.
const RAW: [u32; 5] = [101, 12, 14, 228, 229];

/// The link types in words, for errors.
pub(super) const EXPECTED: &str = "a link type of Ethernet, Linux cooked, raw IP or loopback";

/// EtherType.
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// 802.1Q, 802.1ad and its older number.
const VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// Protocol number of IP.
const UDP: u8 = 17;
/// Hop by hop, routing, destination options (RFC 8200 §4).
const IPV6_OPTIONS: [u8; 3] = [0, 43, 60];

/// A UDP datagram inside a frame.
pub(super) struct Datagram<'a> {
    pub(super) source_port: u16,
    pub(super) destination_port: u16,
    pub(super) payload: &'a [u8],
}

/// True if frames of this link type are read.
pub(super) fn known(link_type: u32) -> bool {
    matches!(link_type, NULL | ETHERNET | LOOP | LINUX_SLL | LINUX_SLL2) || RAW.contains(&link_type)
}

/// `None` for whatever is not one whole UDP datagram.
pub(super) fn udp(link_type: u32, frame: &[u8]) -> Option<Datagram<'_>> {
    let packet = match link_type {
        ETHERNET => tagged(be16(frame, 12)?, frame.get(14..)?)?,
        LINUX_SLL => tagged(be16(frame, 14)?, frame.get(16..)?)?,
        LINUX_SLL2 => tagged(be16(frame, 0)?, frame.get(20..)?)?,
        // The address family before the packet differs by system and byte order; the packet itself says which it is.
        NULL | LOOP => frame.get(4..)?,
        _ => frame,
    };
    match packet.first()? >> 4 {
        4 => ipv4(packet),
        6 => ipv6(packet),
        _ => None,
    }
}

/// The IP packet behind any VLAN tags.
fn tagged(mut ethertype: u16, mut rest: &[u8]) -> Option<&[u8]> {
    while VLAN.contains(&ethertype) {
        ethertype = be16(rest, 2)?;
        rest = rest.get(4..)?;
    }
    (ethertype == IPV4 || ethertype == IPV6).then_some(rest)
}

/// The datagram of a packet that is not a fragment (RFC 791 §3.1).
fn ipv4(packet: &[u8]) -> Option<Datagram<'_>> {
    let header = usize::from(packet[0] & 0x0f) * 4;
    let total = usize::from(be16(packet, 2)?);
    // More fragments to come, or not the first of them.
    if header < 20 || be16(packet, 6)? & 0x3fff != 0 || *packet.get(9)? != UDP {
        return None;
    }
    // A sender that leaves the length to its network card writes 0.
    datagram(packet.get(header..if total == 0 { packet.len() } else { total })?)
}

/// The datagram of an IPv6 packet (RFC 8200 §3).
fn ipv6(packet: &[u8]) -> Option<Datagram<'_>> {
    let length = usize::from(be16(packet, 4)?);
    let mut next = *packet.get(6)?;
    let mut rest = packet.get(40..if length == 0 { packet.len() } else { 40 + length })?;
    while IPV6_OPTIONS.contains(&next) {
        next = *rest.first()?;
        rest = rest.get(8 * (1 + usize::from(*rest.get(1)?))..)?;
    }
    // A fragment header, another protocol, or nothing at all.
    if next == UDP { datagram(rest) } else { None }
}

/// Ports and payload; `None` if the capture cut it.
fn datagram(udp: &[u8]) -> Option<Datagram<'_>> {
    let length = usize::from(be16(udp, 4)?);
    let end = if length == 0 { udp.len() } else { length };
    Some(Datagram { source_port: be16(udp, 0)?, destination_port: be16(udp, 2)?, payload: udp.get(8..end)? })
}

/// Two bytes in network order.
fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    let field = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes([field[0], field[1]]))
}
