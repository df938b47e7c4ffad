//! IP packets to UDP datagrams and TCP segments; fragments of IPv4 (RFC 791 §3.2) and IPv6 (RFC 8200 §4.5) are put together.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::limits::MAX_FRAGMENTED;

const TCP: u8 = 6;
const UDP: u8 = 17;
/// Hop by hop, routing, destination options (RFC 8200 §4).
const IPV6_OPTIONS: [u8; 3] = [0, 43, 60];
const IPV6_FRAGMENT: u8 = 44;
/// Flags of a TCP segment (RFC 9293 §3.1).
const SYN: u8 = 2;

/// The payload of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Payload<'a> {
    /// A datagram's payload.
    Udp(&'a [u8]),
    /// A segment.
    Tcp {
        /// The sequence number of the first byte, or of the SYN.
        sequence: u32,
        /// The first segment of a direction.
        is_first: bool,
        /// The bytes of the stream.
        data: &'a [u8],
    },
}

/// A packet of a transport protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TransportPacket<'a> {
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
    pub(crate) payload: Payload<'a>,
}

/// Source, destination, identification, and for IPv4 the protocol (RFC 791 §3.2). The first three alone name an IPv6 datagram: the Next Header of a later
/// fragment is not looked at (RFC 8200 §4.5).
type FragmentKey = (IpAddr, IpAddr, u32, Option<u8>);

/// The parts of one datagram that have come.
#[derive(Debug, Default)]
struct FragmentedDatagram {
    /// Its bytes from the first one, as far as no piece is missing.
    begin: Vec<u8>,
    /// Pieces beyond a gap, by offset.
    pieces: BTreeMap<usize, Vec<u8>>,
    /// The length of the whole, from the last fragment.
    length: Option<usize>,
    /// The protocol that the first fragment names.
    protocol: Option<u8>,
}

/// Reads packets and keeps fragments until their datagram is whole.
#[derive(Debug, Default)]
pub(crate) struct PacketReader {
    fragmented: BTreeMap<FragmentKey, FragmentedDatagram>,
    /// In the order of their first fragments.
    order: VecDeque<FragmentKey>,
    /// Datagrams that were dropped while a part of them was missing.
    dropped: usize,
}

/// One fragment, or a whole packet.
struct Fragment<'a> {
    key: FragmentKey,
    protocol: u8,
    offset: usize,
    has_more: bool,
    data: &'a [u8],
}

impl PacketReader {
    /// Hands the datagram or segment that this packet is, or completes, to `each`.
    pub(crate) fn read(&mut self, packet: &[u8], each: &mut dyn FnMut(TransportPacket<'_>)) {
        let fragment = match packet.first().map(|byte| byte >> 4) {
            Some(4) => ipv4(packet),
            Some(6) => ipv6(packet),
            _ => None,
        };
        let Some(fragment) = fragment else { return };
        if fragment.offset == 0 && !fragment.has_more {
            if let Some(packet) = transport(&fragment.key, fragment.protocol, fragment.data) {
                each(packet);
            }
        } else if let Some((protocol, whole)) = self.assemble(&fragment)
            && let Some(packet) = transport(&fragment.key, protocol, &whole)
        {
            each(packet);
        }
    }

    /// The protocol and the bytes of the datagram that this fragment completes.
    fn assemble(&mut self, fragment: &Fragment<'_>) -> Option<(u8, Vec<u8>)> {
        if !self.fragmented.contains_key(&fragment.key) {
            if self.order.len() >= MAX_FRAGMENTED
                && let Some(oldest) = self.order.pop_front()
            {
                self.fragmented.remove(&oldest);
                self.dropped += 1;
            }
            self.order.push_back(fragment.key);
        }
        let datagram = self.fragmented.entry(fragment.key).or_default();
        // A datagram ends at 64 KiB, and a fragment but the last has 8 bytes at least.
        if fragment.offset + fragment.data.len() <= 0xffff && (fragment.data.len() >= 8 || !fragment.has_more)
        {
            datagram.insert(fragment.offset, fragment.data);
        }
        if fragment.offset == 0 {
            datagram.protocol.get_or_insert(fragment.protocol);
        }
        if !fragment.has_more {
            datagram.length = Some(fragment.offset + fragment.data.len());
        }
        if datagram.length != Some(datagram.begin.len()) {
            return None;
        }
        self.order.retain(|key| *key != fragment.key);
        let datagram = self.fragmented.remove(&fragment.key)?;
        // A datagram that is whole has its first fragment.
        Some((datagram.protocol?, datagram.begin))
    }

    /// The number of datagrams of which a part is missing, at the end of the capture.
    pub(crate) fn incomplete(&self) -> usize {
        self.dropped + self.fragmented.len()
    }
}

impl FragmentedDatagram {
    /// Adds a piece. Each is joined once, when there is no gap before it any more: a datagram has 8,191 of them at most.
    fn insert(&mut self, offset: usize, data: &[u8]) {
        if offset > self.begin.len() {
            self.pieces.entry(offset).or_insert_with(|| data.to_vec());
            return;
        }
        self.join(offset, data);
        while let Some((offset, piece)) = self.pieces.pop_first() {
            if offset > self.begin.len() {
                self.pieces.insert(offset, piece);
                return;
            }
            self.join(offset, &piece);
        }
    }

    /// The piece that was joined before counts where two overlap.
    fn join(&mut self, offset: usize, data: &[u8]) {
        let fresh = data.get(self.begin.len() - offset..).unwrap_or_default();
        self.begin.extend_from_slice(fresh);
    }
}

fn ipv4(packet: &[u8]) -> Option<Fragment<'_>> {
    let header = usize::from(packet[0] & 0x0f) * 4;
    let total = usize::from(be16(packet, 2)?);
    let field = be16(packet, 6)?;
    let address = |at: usize| -> Option<IpAddr> {
        let bytes: [u8; 4] = packet.get(at..at + 4)?.try_into().ok()?;
        Some(Ipv4Addr::from(bytes).into())
    };
    // A sender that leaves the length to its network card writes 0.
    let end = if total == 0 { packet.len() } else { total };
    let data = packet.get(header.max(20)..end)?;
    let protocol = *packet.get(9)?;
    Some(Fragment {
        key: (address(12)?, address(16)?, u32::from(be16(packet, 4)?), Some(protocol)),
        protocol,
        offset: usize::from(field & 0x1fff) * 8,
        has_more: field & 0x2000 != 0,
        data,
    })
}

fn ipv6(packet: &[u8]) -> Option<Fragment<'_>> {
    let length = usize::from(be16(packet, 4)?);
    let mut next = *packet.get(6)?;
    let mut rest = packet.get(40..if length == 0 { packet.len() } else { 40 + length })?;
    let address = |at: usize| -> Option<IpAddr> {
        let bytes: [u8; 16] = packet.get(at..at + 16)?.try_into().ok()?;
        Some(Ipv6Addr::from(bytes).into())
    };
    let (mut offset, mut has_more, mut identification) = (0, false, 0);
    loop {
        if IPV6_OPTIONS.contains(&next) {
            next = *rest.first()?;
            rest = rest.get(8 * (1 + usize::from(*rest.get(1)?))..)?;
        } else if next == IPV6_FRAGMENT {
            let field = be16(rest, 2)?;
            (offset, has_more) = (usize::from(field & 0xfff8), field & 1 != 0);
            identification = be32(rest, 4)?;
            next = *rest.first()?;
            rest = rest.get(8..)?;
        } else {
            break;
        }
        // The bytes after a fragment header in a later fragment are the middle of a packet.
        if offset > 0 {
            break;
        }
    }
    let key = (address(8)?, address(24)?, identification, None);
    Some(Fragment { key, protocol: next, offset, has_more, data: rest })
}

fn transport<'a>(key: &FragmentKey, protocol: u8, data: &'a [u8]) -> Option<TransportPacket<'a>> {
    let (source, destination) =
        (SocketAddr::new(key.0, be16(data, 0)?), SocketAddr::new(key.1, be16(data, 2)?));
    let payload = match protocol {
        UDP => {
            let length = usize::from(be16(data, 4)?);
            Payload::Udp(data.get(8..if length == 0 { data.len() } else { length })?)
        }
        TCP => Payload::Tcp {
            sequence: be32(data, 4)?,
            is_first: data.get(13)? & SYN != 0,
            data: data.get(usize::from(data.get(12)? >> 4).max(5) * 4..)?,
        },
        _ => return None,
    };
    Some(TransportPacket { source, destination, payload })
}

/// Two bytes in network order.
fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// Four bytes in network order.
fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn udp(payload: &[u8]) -> Vec<u8> {
        let length = (8 + payload.len()) as u16;
        [&[0x13, 0xc4, 0x13, 0xc5][..], &length.to_be_bytes(), &[0, 0], payload].concat()
    }

    fn v4(data: &[u8], identification: u16, field: u16) -> Vec<u8> {
        let mut packet = vec![0x45, 0];
        packet.extend((20 + data.len() as u16).to_be_bytes());
        packet.extend(identification.to_be_bytes());
        packet.extend(field.to_be_bytes());
        packet.extend([64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        packet.extend(data);
        packet
    }

    fn v6_fragment(data: &[u8], offset: u16, more: bool) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0];
        packet.extend((8 + data.len() as u16).to_be_bytes());
        packet.extend([IPV6_FRAGMENT, 64]);
        packet.extend([0; 31]);
        packet.push(1);
        packet[39] = 2;
        packet.extend([UDP, 0]);
        packet.extend((offset | u16::from(more)).to_be_bytes());
        packet.extend([0, 0, 0, 9]);
        packet.extend(data);
        packet
    }

    fn payloads(reader: &mut PacketReader, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        for packet in packets {
            reader.read(packet, &mut |it| {
                if let Payload::Udp(payload) = it.payload {
                    found.push(payload.to_vec());
                }
            });
        }
        found
    }

    #[test]
    fn fragments_are_put_together_in_any_order() {
        let whole = udp(&[7; 100]);
        let fragments = [
            v4(&whole[80..], 1, 10),
            v4(&whole[..40], 1, 0x2000),
            v4(&whole[..40], 1, 0x2000),
            v4(&whole[40..80], 1, 0x2000 | 5),
        ];
        let mut reader = PacketReader::default();
        assert_eq!(payloads(&mut reader, &fragments), [vec![7; 100]]);
        assert!(reader.fragmented.is_empty() && reader.order.is_empty());
        let six = [v6_fragment(&whole[64..], 64, false), v6_fragment(&whole[..64], 0, true)];
        assert_eq!(payloads(&mut reader, &six), [vec![7; 100]]);
        // RFC 8200 §4.5: the Next Header of a later fragment may differ.
        let mut other = v6_fragment(&whole[64..], 64, false);
        other[40] = IPV6_OPTIONS[0];
        assert_eq!(payloads(&mut reader, &[six[1].clone(), other]), [vec![7; 100]]);
        assert!(reader.fragmented.is_empty() && reader.order.is_empty());
    }

    #[test]
    fn each_fragment_is_joined_once_as_soon_as_there_is_no_gap_before_it() {
        let whole = udp(&vec![7; 65_400]);
        let fragments: Vec<Vec<u8>> =
            whole.chunks(8).zip(0..).map(|(data, at)| v4(data, 1, 0x2000 | at)).collect();
        let last = v4(&[7; 8], 1, fragments.len() as u16);
        let kept = |reader: &PacketReader| {
            let datagram = reader.fragmented.values().next().unwrap();
            (datagram.begin.len(), datagram.pieces.len())
        };
        let mut reader = PacketReader::default();
        assert!(payloads(&mut reader, &[last]).is_empty());
        // In their order: a fragment is not kept beside the joined bytes, which would be joined again with each that comes.
        let (head, rest) = fragments.split_at(4_000);
        assert!(payloads(&mut reader, head).is_empty());
        assert_eq!(kept(&reader), (32_000, 1));
        // Every second one, and then the others.
        let odd: Vec<Vec<u8>> = rest.iter().skip(1).step_by(2).cloned().collect();
        assert!(payloads(&mut reader, &odd).is_empty());
        assert_eq!(kept(&reader), (32_000, 1 + odd.len()));
        let even: Vec<Vec<u8>> = rest.iter().step_by(2).cloned().collect();
        assert_eq!(payloads(&mut reader, &even), [vec![7; 65_400]]);
        assert!(reader.fragmented.is_empty() && reader.order.is_empty());
    }

    #[test]
    fn datagrams_with_a_missing_part_are_bounded_and_counted() {
        let whole = udp(&[7; 100]);
        let mut reader = PacketReader::default();
        let heads: Vec<Vec<u8>> = (0..200).map(|number| v4(&whole[..40], number, 0x2000)).collect();
        assert!(payloads(&mut reader, &heads).is_empty());
        assert_eq!((reader.fragmented.len(), reader.dropped), (MAX_FRAGMENTED, 200 - MAX_FRAGMENTED));
        assert_eq!(reader.incomplete(), 200, "those that wait at the end are incomplete, too");
    }

    #[test]
    fn no_packet_of_any_bytes_panics() {
        let packet = v6_fragment(&udp(b"hello"), 0, false);
        let mut reader = PacketReader::default();
        for end in 0..packet.len() {
            payloads(&mut reader, &[packet[..end].to_vec(), v4(&packet[..end], 3, 0)]);
        }
        for byte in 0..=255 {
            payloads(&mut reader, &[vec![byte; 60]]);
        }
    }
}
