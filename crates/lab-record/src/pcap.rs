//! Frames of a capture: classic pcap in both byte orders with microseconds or nanoseconds, and pcapng; link
//! headers are taken off.
//!
//! `media::pcap` reads captures for playing: UDP payloads without addresses. Calls need addresses, TCP and
//! fragments.
//!
//! In: the bytes of a file. Out: each IP packet with its time, in the order of the file. Every length in the
//! file is checked against a bound and against the rest of the file before it is used; the formats are those
//! of draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng.

use std::fmt;
use std::time::Duration;

/// Why a file is not a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaptureError {
    /// The place in the file, in bytes.
    pub position: usize,
    /// The part that a capture has in this place, and the part that the file has.
    pub message: String,
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.position, self.message)
    }
}

impl std::error::Error for CaptureError {}

/// A frame longer than this is no frame: IP ends at 64 KiB, the rest is what offloading on a loopback may merge.
const MAX_FRAME: usize = 0x4_0000;
/// A block longer than this (16 MiB) is damage: one packet and its options fit many times.
const MAX_BLOCK: usize = 0x100_0000;
/// More interfaces in a section are damage. The bound keeps a file of empty descriptions from filling memory.
const MAX_INTERFACES: usize = 4_096;

/// Link types (the registry of tcpdump.org).
/// BSD loopback: four bytes of address family in the host's byte order.
const NULL: u32 = 0;
const ETHERNET: u32 = 1;
/// OpenBSD loopback: the same in network byte order.
const LOOP: u32 = 108;
/// Linux "cooked" headers, of captures on the interface `any`: 16 bytes, and 20 bytes in version 2.
const LINUX_SLL: u32 = 113;
const LINUX_SLL2: u32 = 276;
/// Raw IP by its own number, by two that systems use for it, then IPv4 and IPv6 alone.
const RAW: [u32; 5] = [101, 12, 14, 228, 229];

/// EtherType.
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// 802.1Q, 802.1ad and its older number.
const VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];

/// The sink of IP packets, each with the time of its capture since 1970.
pub(crate) type PacketSink<'a> = dyn FnMut(Duration, &[u8]) + 'a;

/// Hands every IP packet to `each`. After an error those before the damage have been handed over.
pub(crate) fn ip_packets(file: &[u8], each: &mut PacketSink<'_>) -> Result<(), CaptureError> {
    let mut reader = FileReader { file, position: 0, is_big: false };
    match reader.take(4, "the magic number of a capture")? {
        // A Section Header Block, whose type reads the same in both byte orders.
        [0x0a, 0x0d, 0x0d, 0x0a] => blocks(file, each),
        [0xa1, 0xb2, 0xc3, 0xd4] => classic(FileReader { is_big: true, ..reader }, 1_000, each),
        // The magic number with nanoseconds instead of microseconds.
        [0xa1, 0xb2, 0x3c, 0x4d] => classic(FileReader { is_big: true, ..reader }, 1, each),
        [0xd4, 0xc3, 0xb2, 0xa1] => classic(reader, 1_000, each),
        [0x4d, 0x3c, 0xb2, 0xa1] => classic(reader, 1, each),
        other => Err(CaptureError {
            position: 0,
            message: format!("expected the magic number of pcap or pcapng, found {other:02x?}"),
        }),
    }
}

/// Reads the rest of a classic file. `unit`: nanoseconds in one unit of the packets' fraction of a second.
fn classic(mut reader: FileReader<'_>, unit: u64, each: &mut PacketSink<'_>) -> Result<(), CaptureError> {
    let version = reader.u16("the version")?;
    if version != 2 {
        return Err(reader.fault(format!("expected version 2, found {version}")));
    }
    // Minor version, time zone, accuracy and snap length: nothing here depends on them.
    reader.take(14, "the file header")?;
    // The upper bits hold the length of a frame check sequence, which the IP length cuts off anyway.
    let link_type = reader.u32("the link type")? & 0xffff;
    if !is_known(link_type) {
        return Err(reader.fault(unknown_link(link_type)));
    }
    while !reader.is_at_end() {
        let seconds = u64::from(reader.u32("a packet's seconds")?);
        let fraction = u64::from(reader.u32("a packet's fraction of a second")?);
        let captured = reader.length(MAX_FRAME)?;
        // The length on the wire; the captured length above says how many bytes follow.
        reader.u32("a packet's length")?;
        let frame = reader.take(captured, "a packet as long as its header says")?;
        give(link_type, Duration::from_nanos(seconds * 1_000_000_000 + fraction * unit), frame, each);
    }
    Ok(())
}

/// One interface of a pcapng section.
struct Interface {
    link_type: u32,
    /// `if_tsresol`: decimal places, or binary ones with the highest bit set.
    resolution: u8,
    /// `if_tsoffset`: seconds to add to each time.
    offset: i64,
}

impl Interface {
    /// A timestamp of this interface since 1970. One that its resolution or offset puts beyond the range is the nearest within it.
    fn time(&self, ticks: u64) -> Duration {
        let base: u128 = if self.resolution & 0x80 == 0 { 10 } else { 2 };
        let unit = base.checked_pow(u32::from(self.resolution & 0x7f)).unwrap_or(u128::MAX);
        let nanos = u128::from(ticks) * 1_000_000_000 / unit;
        let offset = u128::from(self.offset.unsigned_abs()) * 1_000_000_000;
        let nanos = if self.offset < 0 { nanos.saturating_sub(offset) } else { nanos + offset };
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// Reads the blocks of a pcapng file. Interfaces are numbered anew in each section; `latest` is the time for
/// blocks that have none.
fn blocks(file: &[u8], each: &mut PacketSink<'_>) -> Result<(), CaptureError> {
    let mut reader = FileReader { file, position: 0, is_big: false };
    let mut interfaces: Vec<Interface> = Vec::new();
    let mut latest = Duration::ZERO;
    while !reader.is_at_end() {
        let start = reader.position;
        let kind = reader.u32("a block's type")?;
        if kind == 0x0a0d_0d0a {
            // The length is in the byte order that the body names.
            reader.is_big = match file.get(start + 8..start + 12) {
                Some([0x1a, 0x2b, 0x3c, 0x4d]) => true,
                Some([0x4d, 0x3c, 0x2b, 0x1a]) => false,
                _ => return Err(reader.fault("expected the byte-order magic".to_owned())),
            };
            interfaces.clear();
        }
        let total = reader.length(MAX_BLOCK)?;
        if total < 12 || !total.is_multiple_of(4) {
            return Err(
                reader.fault(format!("expected a block length of 12 or more in fours, found {total}"))
            );
        }
        let body = reader.position;
        reader.take(total - 12, "a block as long as its header says")?;
        // The length stands at both ends of a block, for readers that go backwards; a difference means
        // damage.
        if reader.u32("the block's length again")? as usize != total {
            return Err(reader.fault("expected the block's length again".to_owned()));
        }
        // A reader that ends with the block's body: no length inside can lead beyond it. Positions stay those
        // of the file.
        let mut inner =
            FileReader { file: &file[..body + total - 12], position: body, is_big: reader.is_big };
        match kind {
            // 1: Interface Description, 6: Enhanced Packet, 3: Simple Packet. Statistics, names and others
            // are skipped.
            1 if interfaces.len() >= MAX_INTERFACES => {
                return Err(reader.fault("expected at most 4096 interfaces".to_owned()));
            }
            1 => interfaces.push(interface(&mut inner)?),
            6 => latest = enhanced(&mut inner, &interfaces, each)?,
            3 => simple(&mut inner, &interfaces, latest, each)?,
            _ => {}
        }
    }
    Ok(())
}

/// Hands over the packet of an Enhanced Packet Block and gives its time.
fn enhanced(
    block: &mut FileReader<'_>,
    interfaces: &[Interface],
    each: &mut PacketSink<'_>,
) -> Result<Duration, CaptureError> {
    let number = block.u32("a packet's interface")? as usize;
    let known = interfaces.get(number);
    let known = known.ok_or_else(|| block.fault(format!("interface {number} is not described")))?;
    let high = u64::from(block.u32("a packet's time")?);
    let low = u64::from(block.u32("a packet's time")?);
    let captured = block.length(MAX_FRAME)?;
    block.u32("a packet's length")?;
    let at = known.time(high << 32 | low);
    give(known.link_type, at, block.take(captured, "a packet as long as its block says")?, each);
    Ok(at)
}

/// Hands over the packet of a Simple Packet Block, which has no time of its own.
fn simple(
    block: &mut FileReader<'_>,
    interfaces: &[Interface],
    latest: Duration,
    each: &mut PacketSink<'_>,
) -> Result<(), CaptureError> {
    let known = interfaces.first();
    let known = known.ok_or_else(|| block.fault("no interface is described".to_owned()))?;
    let length = block.length(MAX_FRAME)?.min(block.file.len() - block.position);
    give(known.link_type, latest, block.take(length, "a packet")?, each);
    Ok(())
}

/// Reads an Interface Description Block and its options `if_tsresol` and `if_tsoffset`.
fn interface(body: &mut FileReader<'_>) -> Result<Interface, CaptureError> {
    let link_type = u32::from(body.u16("an interface's link type")?);
    body.take(6, "an interface's snap length")?;
    // Microseconds since 1970 unless the options say otherwise.
    let (mut resolution, mut offset) = (6, 0);
    while !body.is_at_end() {
        let code = body.u16("an option's code")?;
        let length = usize::from(body.u16("an option's length")?);
        let value = body.take(length, "an option's value")?;
        // Options are padded to four bytes.
        body.take(length.wrapping_neg() % 4, "an option's padding")?;
        match (code, value) {
            (0, _) => break,
            (9, [value]) => resolution = *value,
            (14, value) => {
                if let Ok(bytes) = value.try_into() {
                    offset = if body.is_big { i64::from_be_bytes(bytes) } else { i64::from_le_bytes(bytes) };
                }
            }
            _ => {}
        }
    }
    Ok(Interface { link_type, resolution, offset })
}

fn is_known(link_type: u32) -> bool {
    matches!(link_type, NULL | ETHERNET | LOOP | LINUX_SLL | LINUX_SLL2) || RAW.contains(&link_type)
}

fn unknown_link(link_type: u32) -> String {
    format!("expected a link type of Ethernet, Linux cooked, raw IP or loopback, found {link_type}")
}

/// Hands over the IP packet of a frame; a frame of another protocol, such as ARP, is passed over.
fn give(link_type: u32, at: Duration, frame: &[u8], each: &mut PacketSink<'_>) {
    if let Some(packet) = packet_of(link_type, frame) {
        each(at, packet);
    }
}

/// The frame behind its link header. `None`: it is too short, or carries no IP.
fn packet_of(link_type: u32, frame: &[u8]) -> Option<&[u8]> {
    match link_type {
        ETHERNET => tagged(be16(frame, 12)?, frame.get(14..)?),
        LINUX_SLL => tagged(be16(frame, 14)?, frame.get(16..)?),
        LINUX_SLL2 => tagged(be16(frame, 0)?, frame.get(20..)?),
        // The address family before the packet differs by system; the packet itself says which it is.
        NULL | LOOP => frame.get(4..),
        link_type if RAW.contains(&link_type) => Some(frame),
        _ => None,
    }
}

/// The packet behind any VLAN tags.
fn tagged(mut ethertype: u16, mut rest: &[u8]) -> Option<&[u8]> {
    while VLAN.contains(&ethertype) {
        ethertype = be16(rest, 2)?;
        rest = rest.get(4..)?;
    }
    (ethertype == IPV4 || ethertype == IPV6).then_some(rest)
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// Walks a file and knows where it is: each fault names the byte, for a user with a hex editor.
struct FileReader<'a> {
    file: &'a [u8],
    position: usize,
    is_big: bool,
}

impl<'a> FileReader<'a> {
    fn is_at_end(&self) -> bool {
        self.position >= self.file.len()
    }

    fn fault(&self, message: String) -> CaptureError {
        CaptureError { position: self.position, message }
    }

    /// The next bytes. `expected` names them in the error when the file ends before.
    fn take(&mut self, length: usize, expected: &str) -> Result<&'a [u8], CaptureError> {
        let rest = &self.file[self.position..];
        let bytes = rest.get(..length).ok_or_else(|| {
            self.fault(format!("expected {expected}, found the end after {} bytes", rest.len()))
        })?;
        self.position += length;
        Ok(bytes)
    }

    fn u16(&mut self, expected: &str) -> Result<u16, CaptureError> {
        let bytes = self.take(2, expected)?;
        let bytes = [bytes[0], bytes[1]];
        Ok(if self.is_big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    }

    fn u32(&mut self, expected: &str) -> Result<u32, CaptureError> {
        let bytes = self.take(4, expected)?;
        let bytes = [bytes[0], bytes[1], bytes[2], bytes[3]];
        Ok(if self.is_big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    /// A length that has a bound. Checked here, as a wrong one makes everything behind it nonsense.
    fn length(&mut self, most: usize) -> Result<usize, CaptureError> {
        let length = self.u32("a length")? as usize;
        if length > most {
            return Err(self.fault(format!("expected a length of at most {most}, found {length}")));
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Milliseconds, and the packet.
    type TimedPacket = (u128, Vec<u8>);

    fn read(file: &[u8]) -> (Vec<TimedPacket>, Result<(), CaptureError>) {
        let mut found = Vec::new();
        let result = ip_packets(file, &mut |at, packet| found.push((at.as_millis(), packet.to_vec())));
        (found, result)
    }

    fn classic_file(big: bool, magic: u32, link: u32, frames: &[(u32, u32, &[u8])]) -> Vec<u8> {
        let word = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
        let half = |value: u16| if big { value.to_be_bytes() } else { value.to_le_bytes() };
        let mut file = [&word(magic)[..], &half(2), &half(4), &[0; 8], &word(65_535), &word(link)].concat();
        for (seconds, fraction, frame) in frames {
            let length = word(frame.len() as u32);
            file.extend([&word(*seconds)[..], &word(*fraction), &length, &length, frame].concat());
        }
        file
    }

    fn next_generation(offset: Option<i64>) -> Vec<u8> {
        let block = |kind: u32, body: &[u8]| {
            let total = (12 + body.len() as u32).to_le_bytes();
            [&kind.to_le_bytes()[..], &total, body, &total].concat()
        };
        let section = [&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat();
        // Raw IP, times in milliseconds.
        let mut interface = [&[101, 0, 0, 0, 0, 0, 0, 0][..], &[9, 0, 1, 0, 3, 0, 0, 0]].concat();
        if let Some(seconds) = offset {
            interface.extend([&[14, 0, 8, 0][..], &seconds.to_le_bytes()].concat());
        }
        let packet =
            [&[0, 0, 0, 0, 0, 0, 0, 0][..], &5_250_u32.to_le_bytes(), &[3, 0, 0, 0, 3, 0, 0, 0], b"abc\0"]
                .concat();
        [block(0x0a0d_0d0a, &section), block(1, &interface), block(99, b"skip"), block(6, &packet)].concat()
    }

    #[test]
    fn every_form_gives_its_packets_with_their_times() {
        let raw: &[(u32, u32, &[u8])] = &[(5, 250_000, b"abc")];
        for (file, at) in [
            (classic_file(false, 0xa1b2_c3d4, 101, raw), 5_250),
            (classic_file(true, 0xa1b2_c3d4, 12, raw), 5_250),
            (classic_file(true, 0xa1b2_3c4d, 228, raw), 5_000),
            (classic_file(false, 0xa1b2_c3d4, 0, &[(5, 250_000, b"\x02\0\0\0abc")]), 5_250),
            (next_generation(None), 5_250),
            (next_generation(Some(1_000)), 1_005_250),
            (next_generation(Some(-3)), 2_250),
            (next_generation(Some(i64::MIN)), 0),
            (next_generation(Some(i64::MAX)), u128::from(u64::MAX) / 1_000_000),
        ] {
            assert_eq!(read(&file), (vec![(at, b"abc".to_vec())], Ok(())));
        }
        let behind = |header: &[u8]| [header, b"abc"].concat();
        let ethernet = behind(b"\0\0\0\0\0\0\0\0\0\0\0\0\x81\0\0\x05\x08\0");
        let cooked = behind(b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x86\xdd");
        let cooked2 = behind(b"\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        for (link, frame) in [(1, ethernet), (113, cooked), (276, cooked2)] {
            let file = classic_file(false, 0xa1b2_c3d4, link, &[(0, 0, &frame), (0, 0, &[0; 13])]);
            assert_eq!(read(&file).0, [(0, b"abc".to_vec())], "link type {link}");
        }
    }

    #[test]
    fn damage_is_reported_with_its_place_and_earlier_packets_count() {
        let file = classic_file(false, 0xa1b2_c3d4, 101, &[(5, 0, b"abc"), (6, 0, b"def")]);
        let (found, result) = read(&file[..file.len() - 1]);
        let error = result.expect_err("cut");
        assert_eq!(found.len(), 1);
        assert_eq!(
            error.to_string(),
            "at byte 59: expected a packet as long as its header says, found the end after 2 bytes"
        );
        for (bytes, says) in [
            (&b""[..], "found the end after 0 bytes"),
            (b"PK\x03\x04rest", "expected the magic number of pcap or pcapng"),
            (b"\xd4\xc3\xb2\xa1\x09\0", "expected version 2, found 9"),
            (&classic_file(false, 0xa1b2_c3d4, 147, &[])[..], "Linux cooked, raw IP or loopback, found 147"),
            (&classic_file(false, 0xa1b2_c3d4, 1, &[])[..23], "expected the link type"),
        ] {
            let said = read(bytes).1.expect_err("no capture").to_string();
            assert!(said.contains(says), "{says}: {said}");
        }
    }

    #[test]
    fn no_cut_and_no_changed_byte_panics() {
        for whole in [next_generation(None), classic_file(false, 0xa1b2_c3d4, 1, &[(1, 2, &[8; 40])])] {
            for at in 0..whole.len() {
                let mut changed = whole.clone();
                for byte in [0, 0x7f, 0xff] {
                    changed[at] = byte;
                    let _ = read(&changed).1.is_ok();
                }
                let _ = read(&whole[..at]).1.is_ok();
            }
        }
    }
}
