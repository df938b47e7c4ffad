//! Writing captures: classic pcap, microseconds, Ethernet, IPv4.

use std::time::Duration;

/// Ethernet, IPv4 and UDP headers together.
const HEADERS: usize = 14 + 20 + 8;
/// The longest payload behind them in an IPv4 packet.
const MAX_PAYLOAD: usize = 0xffff - 28;
/// Both addresses of every packet: only the ports are known here.
const LOOPBACK: [u8; 4] = [127, 0, 0, 1];

/// A pcap file under construction.
#[derive(Debug, Clone)]
pub struct Writer {
    file: Vec<u8>,
}

impl Default for Writer {
    fn default() -> Self {
        Writer::new()
    }
}

impl Writer {
    /// A capture without packets.
    pub fn new() -> Writer {
        let mut file = Vec::new();
        file.extend(0xa1b2_c3d4_u32.to_le_bytes());
        file.extend(2_u16.to_le_bytes());
        file.extend(4_u16.to_le_bytes());
        file.extend([0; 8]);
        file.extend(65_535_u32.to_le_bytes());
        file.extend(1_u32.to_le_bytes());
        Writer { file }
    }

    /// One datagram from and to 127.0.0.1, cut at 65,507 bytes. `at`: since the start of the capture.
    pub fn udp(&mut self, at: Duration, source_port: u16, destination_port: u16, payload: &[u8]) {
        let payload = &payload[..payload.len().min(MAX_PAYLOAD)];
        // At most 65,549, so that every length below fits its field.
        let length = (HEADERS + payload.len()) as u32;
        let seconds = u32::try_from(at.as_secs()).unwrap_or(u32::MAX);
        self.file.extend(seconds.to_le_bytes());
        self.file.extend(at.subsec_micros().to_le_bytes());
        self.file.extend(length.to_le_bytes());
        self.file.extend(length.to_le_bytes());
        self.file.extend([0; 12]);
        self.file.extend([0x08, 0x00]);
        self.file.extend(ipv4_header((length - 14) as u16));
        self.file.extend(source_port.to_be_bytes());
        self.file.extend(destination_port.to_be_bytes());
        self.file.extend(((length - 34) as u16).to_be_bytes());
        // No checksum: IPv4 allows it (RFC 768).
        self.file.extend([0, 0]);
        self.file.extend_from_slice(payload);
    }

    /// The bytes of the file.
    pub fn finish(self) -> Vec<u8> {
        self.file
    }
}

/// An IPv4 header with its checksum (RFC 791 §3.1); `total`: bytes of the packet.
fn ipv4_header(total: u16) -> [u8; 20] {
    let mut header = [0; 20];
    header[0] = 0x45;
    header[2..4].copy_from_slice(&total.to_be_bytes());
    // Do not fragment; 64 hops; UDP.
    header[6] = 0x40;
    header[8] = 64;
    header[9] = 17;
    header[12..16].copy_from_slice(&LOOPBACK);
    header[16..20].copy_from_slice(&LOOPBACK);
    let sum: u32 = header.chunks_exact(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    header[10..12].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    header
}
