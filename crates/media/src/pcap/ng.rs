//! Reading pcapng: sections, interfaces, enhanced and simple packets; other blocks are passed over.

use super::link;
use super::read::{Error, GatheredPackets, MAX_FRAME, Reader};

/// Types of blocks. This one is a palindrome, so that it is found before the byte order is known.
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

/// The resolution of an interface's times.
const IF_TSRESOL: u16 = 9;
/// More interfaces in a section are no capture.
const MAX_INTERFACES: usize = 4096;
/// More bytes in a block are no block.
const MAX_BLOCK: usize = 0x100_0000;

/// The link type and the clock of one interface.
struct Interface {
    link_type: u32,
    /// The most bytes of a packet that were captured; 0: no limit.
    snap_length: usize,
    /// `if_tsresol`: the unit of times.
    resolution: u8,
}

impl Interface {
    /// A time in this interface's unit as nanoseconds: decimal places, or binary ones with the highest bit set.
    fn nanos(&self, ticks: u64) -> u64 {
        let places = u32::from(self.resolution & 0x7f);
        let base: u128 = if self.resolution & 0x80 == 0 { 10 } else { 2 };
        let nanos = match base.checked_pow(places) {
            Some(unit) => u128::from(ticks) * 1_000_000_000 / unit,
            None => 0,
        };
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }
}

/// Reads all blocks of a file; unknown ones are skipped.
pub(super) fn parse(file: &[u8], gathered: &mut GatheredPackets) -> Result<(), Error> {
    let mut reader = Reader::new(file);
    let mut interfaces: Vec<Interface> = Vec::new();
    while !reader.at_end() {
        let start = reader.position;
        let kind = reader.u32("a block's type")?;
        if kind == SECTION_HEADER {
            // Its length is in the byte order that its body names.
            reader.big = byte_order(file, start)?;
            interfaces.clear();
        }
        let total = reader.u32("a block's length")? as usize;
        if !(12..=MAX_BLOCK).contains(&total) || !total.is_multiple_of(4) {
            return Err(Error::new(
                start + 4,
                "a block length of 12 to 16777216 in fours",
                total.to_string(),
            ));
        }
        let base = reader.position;
        let body = reader.take(total - 12, "a block as long as its header says")?;
        let end = reader.position;
        let trailer = reader.u32("the block's length again")? as usize;
        if trailer != total {
            return Err(Error::new(end, "the block's length again", trailer.to_string()));
        }
        let mut body = Reader::part(body, base, reader.big);
        match kind {
            INTERFACE if interfaces.len() < MAX_INTERFACES => interfaces.push(interface(&mut body)?),
            INTERFACE => return Err(Error::new(start, "at most 4096 interfaces", "one more")),
            ENHANCED_PACKET => enhanced(&mut body, base, &interfaces, gathered)?,
            SIMPLE_PACKET => simple(&mut body, total.saturating_sub(16), base, &interfaces, gathered)?,
            _ => {}
        }
    }
    Ok(())
}

/// The byte order of a section, by the magic in its header.
fn byte_order(file: &[u8], start: usize) -> Result<bool, Error> {
    match file.get(start + 8..start + 12) {
        Some([0x1a, 0x2b, 0x3c, 0x4d]) => Ok(true),
        Some([0x4d, 0x3c, 0x2b, 0x1a]) => Ok(false),
        other => Err(Error::new(file.len().min(start + 8), "the byte-order magic", format!("{other:02x?}"))),
    }
}

/// Reads an Interface Description Block and its option `if_tsresol`.
fn interface(body: &mut Reader<'_>) -> Result<Interface, Error> {
    let link_type = u32::from(body.u16("an interface's link type")?);
    body.u16("an interface's reserved field")?;
    let snap_length = body.u32("an interface's snap length")? as usize;
    let mut resolution = 6;
    while !body.at_end() {
        let code = body.u16("an option's code")?;
        let length = usize::from(body.u16("an option's length")?);
        let value = body.take(length, "an option's value")?;
        body.take(length.wrapping_neg() % 4, "an option's padding")?;
        match (code, value) {
            (0, _) => break,
            (IF_TSRESOL, [value]) => resolution = *value,
            _ => {}
        }
    }
    Ok(Interface { link_type, snap_length, resolution })
}

/// Reads an Enhanced Packet Block.
fn enhanced(
    body: &mut Reader<'_>,
    base: usize,
    interfaces: &[Interface],
    gathered: &mut GatheredPackets,
) -> Result<(), Error> {
    let number = body.u32("a packet's interface")?;
    let interface = described(interfaces, number, base)?;
    let high = u64::from(body.u32("a packet's time, upper half")?);
    let low = u64::from(body.u32("a packet's time, lower half")?);
    let captured = body.u32("a packet's captured length")? as usize;
    body.u32("a packet's length")?;
    if captured > MAX_FRAME {
        return Err(Error::new(base + 12, "at most 262144 captured bytes", captured.to_string()));
    }
    let frame = body.take(captured, "a packet as long as its block says")?;
    if link::known(interface.link_type) {
        gathered.frame(interface.link_type, interface.nanos(high << 32 | low), frame);
    }
    Ok(())
}

/// `room`: for the packet and its padding.
fn simple(
    body: &mut Reader<'_>,
    room: usize,
    base: usize,
    interfaces: &[Interface],
    gathered: &mut GatheredPackets,
) -> Result<(), Error> {
    let interface = described(interfaces, 0, base)?;
    let mut captured = body.u32("a packet's length")? as usize;
    if interface.snap_length > 0 {
        captured = captured.min(interface.snap_length);
    }
    let frame = body.take(captured.min(room), "a packet as long as its block says")?;
    if link::known(interface.link_type) {
        gathered.frame_without_time(interface.link_type, frame);
    }
    Ok(())
}

/// The interface that a packet names by its number.
fn described(interfaces: &[Interface], number: u32, base: usize) -> Result<&Interface, Error> {
    let interface = usize::try_from(number).ok().and_then(|index| interfaces.get(index));
    interface.ok_or_else(|| Error::new(base, "an interface described before", format!("interface {number}")))
}
