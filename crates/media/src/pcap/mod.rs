//! Captures: the UDP payloads of a pcap or pcapng file, to be played as they were recorded.

mod link;
mod ng;
mod read;
mod synth;
#[cfg(test)]
mod tests;
mod write;

use std::ops::Range;
use std::time::Duration;

pub use read::Error;
pub use synth::{built_in, dtmf_capture, speech_capture};
pub use write::Writer;

/// One UDP payload of a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedPacket {
    /// Since the first one; never decreases.
    pub offset: Duration,
    /// The part of [`Capture::bytes`].
    pub range: Range<usize>,
    /// The UDP port of the sender.
    pub source_port: u16,
    /// The UDP port of the receiver.
    pub destination_port: u16,
}

/// The UDP payloads of a file in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capture {
    /// The packets in the order of the file.
    pub packets: Vec<CapturedPacket>,
    /// The payloads one behind the other.
    pub bytes: Vec<u8>,
}

impl Capture {
    /// Reads pcap and pcapng, told apart by their first bytes. Packets that are not whole UDP datagrams (fragments,
    /// TCP, ARP, those cut by the snap length) are left out; a file that is damaged is an error.
    pub fn parse(file: &[u8]) -> Result<Capture, Error> {
        read::parse(file)
    }

    /// The bytes of a packet's payload.
    pub fn payload(&self, packet: &CapturedPacket) -> &[u8] {
        &self.bytes[packet.range.clone()]
    }

    /// The packets in the order of the file, each with its payload.
    pub fn iter(&self) -> impl Iterator<Item = (&CapturedPacket, &[u8])> {
        self.packets.iter().map(|packet| (packet, self.payload(packet)))
    }

    /// From the first packet to the last.
    pub fn duration(&self) -> Duration {
        self.packets.last().map_or(Duration::ZERO, |packet| packet.offset)
    }
}
