//! Writing captures: classic pcap, microseconds, Ethernet, IPv4.

use std::time::Duration;

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
    pub fn new() -> Writer {
        Writer { file: Vec::new() }
    }

    /// `at`: since the start of the capture.
    pub fn udp(&mut self, at: Duration, source_port: u16, destination_port: u16, payload: &[u8]) {
        let _ = (at, source_port, destination_port);
        self.file.extend_from_slice(payload);
    }

    pub fn finish(self) -> Vec<u8> {
        self.file
    }
}
