//! RTP packets (RFC 3550 §5): read where they lie, written into a buffer, numbered anew in place.

use std::fmt;

/// The fixed part of the header, in bytes.
pub const HEADER_LEN: usize = 12;

/// RFC 3550 §5.1.
const VERSION: u8 = 2;

/// Why bytes are not an RTP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// Shorter than its header, its CSRC list or its extension says.
    Short,
    /// The version is not 2.
    Version(u8),
    /// The padding count is zero or larger than the rest behind the header.
    Padding,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::Short => f.write_str("the packet ends inside its header"),
            Malformed::Version(version) => write!(f, "version {version}, expected 2"),
            Malformed::Padding => f.write_str("the padding count does not fit the packet"),
        }
    }
}

impl std::error::Error for Malformed {}

/// A header extension (RFC 3550 §5.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extension<'a> {
    /// The 16 bits that the profile defines.
    pub profile: u16,
    /// The words of the extension, without its header.
    pub data: &'a [u8],
}

/// A packet checked by [`Packet::parse`]; every getter reads the datagram itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    bytes: &'a [u8],
    /// Where the payload starts and ends, padding left out.
    start: usize,
    end: usize,
}

impl<'a> Packet<'a> {
    /// Parses the fixed header, CSRC list, extension and padding of an RTP packet (RFC 3550 §5.1).
    pub fn parse(bytes: &'a [u8]) -> Result<Packet<'a>, Malformed> {
        let &first = bytes.first().ok_or(Malformed::Short)?;
        if first >> 6 != VERSION {
            return Err(Malformed::Version(first >> 6));
        }
        let start = header_len(bytes).ok_or(Malformed::Short)?;
        let mut end = bytes.len();
        if first & 0x20 != 0 {
            let padding = usize::from(bytes[end - 1]);
            if padding == 0 || padding > end - start {
                return Err(Malformed::Padding);
            }
            end -= padding;
        }
        Ok(Packet { bytes, start, end })
    }

    /// The fields of the fixed header.
    pub fn header(&self) -> Header {
        Header {
            marker: self.marker(),
            payload_type: self.payload_type(),
            sequence: self.sequence(),
            timestamp: self.timestamp(),
            ssrc: self.ssrc(),
        }
    }

    /// The marker bit.
    pub fn marker(&self) -> bool {
        self.bytes[1] & 0x80 != 0
    }

    /// The payload type, 0 to 127.
    pub fn payload_type(&self) -> u8 {
        self.bytes[1] & 0x7f
    }

    /// The sequence number.
    pub fn sequence(&self) -> u16 {
        u16::from_be_bytes([self.bytes[2], self.bytes[3]])
    }

    /// The RTP timestamp, in units of the payload's clock.
    pub fn timestamp(&self) -> u32 {
        be32(self.bytes, 4)
    }

    /// The synchronization source.
    pub fn ssrc(&self) -> u32 {
        be32(self.bytes, 8)
    }

    /// The contributing sources a mixer named.
    pub fn csrc(&self) -> impl Iterator<Item = u32> + use<'a> {
        let count = usize::from(self.bytes[0] & 0x0f);
        let bytes = self.bytes;
        (0..count).map(move |index| be32(bytes, HEADER_LEN + 4 * index))
    }

    /// The header extension (RFC 3550 §5.3.1).
    pub fn extension(&self) -> Option<Extension<'a>> {
        if self.bytes[0] & 0x10 == 0 {
            return None;
        }
        let at = HEADER_LEN + 4 * usize::from(self.bytes[0] & 0x0f);
        let profile = u16::from_be_bytes([self.bytes[at], self.bytes[at + 1]]);
        Some(Extension { profile, data: &self.bytes[at + 4..self.start] })
    }

    /// The payload without padding.
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.start..self.end]
    }

    /// Where the payload starts: the header with its CSRC list and extension, in bytes.
    pub fn header_len(&self) -> usize {
        self.start
    }

    /// Bytes of padding behind the payload, its count included.
    pub fn padding(&self) -> usize {
        self.bytes.len() - self.end
    }
}

/// Header, CSRC list and extension together; `None` when the bytes end inside them.
pub(crate) fn header_len(bytes: &[u8]) -> Option<usize> {
    if bytes.len() < HEADER_LEN {
        return None;
    }
    let mut len = HEADER_LEN + 4 * usize::from(bytes[0] & 0x0f);
    if bytes[0] & 0x10 != 0 {
        let words = bytes.get(len + 2..len + 4)?;
        len += 4 + 4 * usize::from(u16::from_be_bytes([words[0], words[1]]));
    }
    (len <= bytes.len()).then_some(len)
}

/// The header fields that a sender decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// The M bit: the first packet after a pause (RFC 3551 §4.1).
    pub marker: bool,
    /// Seven bits; the eighth is dropped.
    pub payload_type: u8,
    /// Counts packets, modulo 2^16.
    pub sequence: u16,
    /// The sampling instant of the first sample, in units of the clock rate.
    pub timestamp: u32,
    /// The synchronization source.
    pub ssrc: u32,
}

impl Header {
    /// The fixed header as bytes on the wire.
    pub fn to_bytes(self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[0] = VERSION << 6;
        bytes[1] = u8::from(self.marker) << 7 | self.payload_type & 0x7f;
        bytes[2..4].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.timestamp.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.ssrc.to_be_bytes());
        bytes
    }

    /// Appends the header and `payload` to `out`.
    pub fn write(self, payload: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_bytes());
        out.extend_from_slice(payload);
    }
}

/// Gives a packet another sender's numbers in place; marker, payload type, CSRC list and payload stay.
/// A packet too short to carry them is left alone.
pub fn renumber(packet: &mut [u8], ssrc: u32, sequence: u16, timestamp: u32) {
    set_sequence(packet, sequence);
    set_timestamp(packet, timestamp);
    set_ssrc(packet, ssrc);
}

/// Overwrites the sequence number of a packet.
pub fn set_sequence(packet: &mut [u8], sequence: u16) {
    if let Some(field) = packet.get_mut(2..4) {
        field.copy_from_slice(&sequence.to_be_bytes());
    }
}

/// Overwrites the timestamp of a packet.
pub fn set_timestamp(packet: &mut [u8], timestamp: u32) {
    if let Some(field) = packet.get_mut(4..8) {
        field.copy_from_slice(&timestamp.to_be_bytes());
    }
}

/// Overwrites the synchronization source of a packet.
pub fn set_ssrc(packet: &mut [u8], ssrc: u32) {
    if let Some(field) = packet.get_mut(8..12) {
        field.copy_from_slice(&ssrc.to_be_bytes());
    }
}

/// Seven bits; the eighth is dropped.
pub fn set_payload_type(packet: &mut [u8], payload_type: u8) {
    if let Some(field) = packet.get_mut(1) {
        *field = *field & 0x80 | payload_type & 0x7f;
    }
}

/// Overwrites the marker bit of a packet.
pub fn set_marker(packet: &mut [u8], marker: bool) {
    if let Some(field) = packet.get_mut(1) {
        *field = *field & 0x7f | u8::from(marker) << 7;
    }
}

/// True if a datagram on a shared port is RTCP: packet types 192 to 223 (RFC 5761 §4).
pub fn is_rtcp(bytes: &[u8]) -> bool {
    bytes.len() >= 4 && bytes[0] >> 6 == VERSION && (192..=223).contains(&bytes[1])
}

/// Four bytes in network order. The caller has checked the length.
pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Marker, payload type 8, two sources, an extension of one word, payload "hi", three bytes of padding.
    const FULL: [u8; 33] = [
        0xb2, 0x88, 0x12, 0x34, 0, 0, 0, 160, 0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 1, 0, 0, 0, 2, 0xbe, 0xde, 0,
        1, 0x10, 0xaa, 0, 0, b'h', b'i', 0, 0, 3,
    ];

    #[test]
    fn every_field_is_read() {
        let packet = Packet::parse(&FULL).unwrap();
        let header =
            Header { marker: true, payload_type: 8, sequence: 0x1234, timestamp: 160, ssrc: 0xdead_beef };
        assert_eq!(packet.header(), header);
        assert_eq!(packet.csrc().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(packet.extension(), Some(Extension { profile: 0xbede, data: &[0x10, 0xaa, 0, 0] }));
        assert_eq!((packet.payload(), packet.header_len(), packet.padding()), (&b"hi"[..], 28, 3));
    }

    #[test]
    fn packets_that_end_too_early_are_refused() {
        for len in 0..28 {
            assert_eq!(Packet::parse(&FULL[..len]), Err(Malformed::Short), "{len} bytes");
        }
        let changed = |at: usize, byte: u8| {
            let mut bytes = FULL;
            bytes[at] = byte;
            Packet::parse(&bytes).map(|packet| packet.payload().len())
        };
        assert_eq!(changed(0, 0x72), Err(Malformed::Version(1)));
        assert_eq!(changed(32, 0), Err(Malformed::Padding));
        assert_eq!(changed(32, 6), Err(Malformed::Padding));
        assert_eq!(changed(32, 5), Ok(0));
        assert_eq!(changed(23, 3), Err(Malformed::Short));
    }

    #[test]
    fn rtp_is_distinguished_from_rtcp() {
        assert!(is_rtcp(&[0x81, 200, 0, 7]));
        assert!(!is_rtcp(&FULL));
        assert!(!is_rtcp(&[0x81, 200, 0]));
        assert!(!is_rtcp(&[0x41, 200, 0, 7]));
        // Marker and payload type 101.
        assert!(!is_rtcp(&[0x80, 0xe5, 0, 1]));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(marker: bool, payload_type in 0_u8..128, sequence: u16, timestamp: u32, ssrc: u32,
                                   payload: Vec<u8>) {
            let header = Header { marker, payload_type, sequence, timestamp, ssrc };
            let mut bytes = Vec::new();
            header.write(&payload, &mut bytes);
            let packet = Packet::parse(&bytes).unwrap();
            prop_assert_eq!(packet.header(), header);
            prop_assert_eq!(packet.payload(), &payload[..]);
        }

        #[test]
        fn new_numbers_leave_the_rest(ssrc: u32, sequence: u16, timestamp: u32) {
            let mut bytes = FULL;
            renumber(&mut bytes, ssrc, sequence, timestamp);
            let packet = Packet::parse(&bytes).unwrap();
            let header = Header { marker: true, payload_type: 8, sequence, timestamp, ssrc };
            prop_assert_eq!(packet.header(), header);
            prop_assert_eq!(&bytes[12..], &FULL[12..]);
            set_marker(&mut bytes, false);
            set_payload_type(&mut bytes, 0xff);
            prop_assert_eq!(bytes[1], 0x7f);
        }

        #[test]
        fn any_bytes_are_answered(bytes: Vec<u8>, first in 0x80_u8..0xc0) {
            let mut bytes = bytes;
            if let Some(byte) = bytes.first_mut() {
                *byte = first;
            }
            renumber(&mut bytes.clone(), 1, 2, 3);
            if let Ok(packet) = Packet::parse(&bytes) {
                let total = packet.header_len() + packet.payload().len() + packet.padding();
                prop_assert_eq!(total, bytes.len());
                prop_assert!(packet.csrc().count() < 16);
                packet.extension();
            }
        }
    }
}
