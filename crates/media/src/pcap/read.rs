//! Reading captures: classic pcap (both byte orders, microseconds and nanoseconds) and pcapng.

use std::fmt;
use std::time::Duration;

use super::{Capture, CapturedPacket, link, ng};

/// Why a file is not a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The place in the file, in bytes.
    pub position: usize,
    /// The thing that a capture has at this place.
    pub expected: &'static str,
    /// The bytes, or the number, that the file has there.
    pub found: String,
}

impl Error {
    pub(super) fn new(position: usize, expected: &'static str, found: impl Into<String>) -> Error {
        Error { position, expected, found: found.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: expected {}, found {}", self.position, self.expected, self.found)
    }
}

impl std::error::Error for Error {}

/// A frame longer than this is no frame: a packet of IPv4 or IPv6 ends at 64 KiB, the rest is link headers and
/// what a loopback's segmentation offload may merge.
pub(super) const MAX_FRAME: usize = 0x4_0000;

/// The magic of captures with microseconds, big-endian.
const MICROS: [u8; 4] = [0xa1, 0xb2, 0xc3, 0xd4];
/// The magic of captures with nanoseconds.
const NANOS: [u8; 4] = [0xa1, 0xb2, 0x3c, 0x4d];
/// The block type of a section header, the same in both byte orders.
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// Reads a classic capture or, by its magic, pcapng.
pub(super) fn parse(file: &[u8]) -> Result<Capture, Error> {
    let mut reader = Reader::new(file);
    let magic = reader.take(4, "the magic number of a capture")?;
    let reversed = [magic[3], magic[2], magic[1], magic[0]];
    let mut gathered = GatheredPackets::default();
    if magic == PCAPNG {
        ng::parse(file, &mut gathered)?;
    } else if magic == MICROS || magic == NANOS {
        reader.big = true;
        classic(&mut reader, if magic == NANOS { 1 } else { 1_000 }, &mut gathered)?;
    } else if reversed == MICROS || reversed == NANOS {
        classic(&mut reader, if reversed == NANOS { 1 } else { 1_000 }, &mut gathered)?;
    } else {
        let found = format!("{:02x} {:02x} {:02x} {:02x}", magic[0], magic[1], magic[2], magic[3]);
        return Err(Error::new(0, "the magic number of pcap or pcapng", found));
    }
    Ok(gathered.capture)
}

/// `unit`: nanoseconds in one of the fraction's.
fn classic(reader: &mut Reader<'_>, unit: u64, gathered: &mut GatheredPackets) -> Result<(), Error> {
    let version = reader.u16("the file's version")?;
    if version != 2 {
        return Err(Error::new(4, "version 2", format!("version {version}")));
    }
    reader.take(14, "the rest of the file header")?;
    let link_type = reader.u32("the link type")? & 0xffff;
    if !link::known(link_type) {
        return Err(Error::new(20, link::EXPECTED, format!("link type {link_type}")));
    }
    while !reader.at_end() {
        let seconds = u64::from(reader.u32("a packet's seconds")?);
        let fraction = u64::from(reader.u32("a packet's fraction of a second")?);
        let position = reader.position;
        let captured = reader.u32("a packet's captured length")? as usize;
        reader.u32("a packet's length")?;
        if captured > MAX_FRAME {
            return Err(Error::new(position, "at most 262144 captured bytes", captured.to_string()));
        }
        let frame = reader.take(captured, "a packet as long as its header says")?;
        gathered.frame(link_type, seconds * 1_000_000_000 + fraction * unit, frame);
    }
    Ok(())
}

/// The capture while its frames come in.
#[derive(Default)]
pub(super) struct GatheredPackets {
    capture: Capture,
    /// Nanoseconds of the first datagram.
    first: Option<u64>,
    /// The latest offset, which no later packet goes below: a clock set back would have it wait for ever.
    latest: Duration,
}

impl GatheredPackets {
    /// Takes the UDP datagram of one frame; `nanos`: the time of its capture.
    pub(super) fn frame(&mut self, link_type: u32, nanos: u64, frame: &[u8]) {
        let Some(datagram) = link::udp(link_type, frame) else { return };
        let first = *self.first.get_or_insert(nanos);
        self.latest = self.latest.max(Duration::from_nanos(nanos.saturating_sub(first)));
        let start = self.capture.bytes.len();
        self.capture.bytes.extend_from_slice(datagram.payload);
        self.capture.packets.push(CapturedPacket {
            offset: self.latest,
            range: start..self.capture.bytes.len(),
            source_port: datagram.source_port,
            destination_port: datagram.destination_port,
        });
    }

    /// For a block that has no time of its own.
    pub(super) fn frame_without_time(&mut self, link_type: u32, frame: &[u8]) {
        let latest = u64::try_from(self.latest.as_nanos()).unwrap_or(u64::MAX);
        let nanos = self.first.unwrap_or(0).saturating_add(latest);
        self.frame(link_type, nanos, frame);
    }
}

/// Walks a file and knows where it is.
pub(super) struct Reader<'a> {
    file: &'a [u8],
    /// Bytes read so far, for errors.
    pub(super) position: usize,
    /// Added to the position in errors: where this reader's bytes begin in the file.
    base: usize,
    /// True for big-endian.
    pub(super) big: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(file: &'a [u8]) -> Reader<'a> {
        Reader { file, position: 0, base: 0, big: false }
    }

    /// A reader of the part of the file that starts at `base`.
    pub(super) fn part(file: &'a [u8], base: usize, big: bool) -> Reader<'a> {
        Reader { file, position: 0, base, big }
    }

    /// True if every byte was read.
    pub(super) fn at_end(&self) -> bool {
        self.position >= self.file.len()
    }

    /// The next `len` bytes; `expected` is for the error where there are fewer.
    pub(super) fn take(&mut self, len: usize, expected: &'static str) -> Result<&'a [u8], Error> {
        let rest = &self.file[self.position..];
        let Some(bytes) = rest.get(..len) else {
            let found = format!("the end after {} bytes", rest.len());
            return Err(Error::new(self.base + self.position, expected, found));
        };
        self.position += len;
        Ok(bytes)
    }

    pub(super) fn u16(&mut self, expected: &'static str) -> Result<u16, Error> {
        let bytes = self.take(2, expected)?;
        let bytes = [bytes[0], bytes[1]];
        Ok(if self.big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    }

    pub(super) fn u32(&mut self, expected: &'static str) -> Result<u32, Error> {
        let bytes = self.take(4, expected)?;
        let bytes = [bytes[0], bytes[1], bytes[2], bytes[3]];
        Ok(if self.big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }
}
