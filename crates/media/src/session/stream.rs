//! The RTP stream that a leg sends: its numbers and its reports (RFC 3550 §5.1, §6.4).

use std::time::Duration;

use stdx::time::Instant;

use crate::rtcp::{Report, ReportBlock, SenderInfo};
use crate::rtp::Header;

/// Between RTCP reports (RFC 3550 §6.2).
const REPORT: Duration = Duration::from_secs(5);
/// Between 1900 and 1970.
const NTP_EPOCH: u64 = 2_208_988_800;

/// The numbers of the stream that is sent.
pub(super) struct RtpStream {
    pub(super) ssrc: u32,
    /// The next packet's.
    pub(super) sequence: u16,
    /// This tick's, in units of the codec's clock.
    pub(super) timestamp: u32,
    /// Packets and bytes of payload sent.
    pub(super) packets: u32,
    pub(super) bytes: u32,
    /// `packets` at the last report: unchanged since then means a receiver's report.
    reported_packets: u32,
    /// Not set before the first tick.
    next_report: Instant,
    /// The last tick had a packet: the next one is without the marker.
    is_talking: bool,
}

impl RtpStream {
    /// `seed`: random, for SSRC, first sequence number and timestamp.
    pub(super) fn new(seed: u64) -> RtpStream {
        RtpStream {
            ssrc: (seed >> 32) as u32,
            sequence: (seed >> 16) as u16 & 0x7fff,
            timestamp: (seed as u32).rotate_left(9),
            packets: 0,
            bytes: 0,
            reported_packets: 0,
            next_report: Instant::default(),
            is_talking: false,
        }
    }

    /// The header of the next packet; the first after a pause has the marker (RFC 3551 §4.1).
    pub(super) fn next_header(&mut self, payload_type: u8, timestamp: u32) -> Header {
        let (marker, sequence) = (!self.is_talking, self.sequence);
        self.is_talking = true;
        self.sequence = self.sequence.wrapping_add(1);
        Header { marker, payload_type, sequence, timestamp, ssrc: self.ssrc }
    }

    /// Nothing is said in this tick.
    pub(super) fn pause(&mut self) {
        self.is_talking = false;
    }

    /// The telephone events of a digit have used the sequence numbers before this one.
    pub(super) fn skip_to(&mut self, sequence: u16) {
        self.sequence = sequence;
        self.is_talking = false;
    }

    /// A packet is out.
    pub(super) fn count(&mut self, payload: &[u8]) {
        self.packets = self.packets.wrapping_add(1);
        self.bytes = self.bytes.wrapping_add(payload.len() as u32);
    }

    /// A frame's time has passed.
    pub(super) fn advance(&mut self, units: u32) {
        self.timestamp = self.timestamp.wrapping_add(units);
    }

    /// True if a report is to be sent now.
    pub(super) fn is_report_due(&mut self, now: Instant) -> bool {
        if self.next_report == Instant::default() {
            // Spread, so that calls that began together do not report together.
            self.next_report = now + Duration::from_millis(2_500 + u64::from(self.ssrc % 2_500));
        }
        let is_due = now >= self.next_report;
        if is_due {
            self.next_report = now + REPORT;
        }
        is_due
    }

    /// RFC 3550 §6.4: a sender's report when something was sent since the last one, else a receiver's.
    pub(super) fn report(&mut self, now: Instant, blocks: Vec<ReportBlock>) -> Report {
        let is_receiver = self.packets == self.reported_packets;
        self.reported_packets = self.packets;
        if is_receiver {
            Report::Receiver { ssrc: self.ssrc, blocks }
        } else {
            self.sender_report(now, blocks)
        }
    }

    /// The report at the end of the stream, with its BYE (RFC 3550 §6.6).
    pub(super) fn last_reports(&self, now: Instant, blocks: Vec<ReportBlock>) -> [Report; 2] {
        [self.sender_report(now, blocks), Report::Bye { sources: vec![self.ssrc], reason: None }]
    }

    /// An SR of this moment (RFC 3550 §6.4.1).
    fn sender_report(&self, now: Instant, blocks: Vec<ReportBlock>) -> Report {
        let micros = now.as_micros();
        let fraction = ((micros % 1_000_000) << 32) / 1_000_000;
        let info = SenderInfo {
            ntp: (micros / 1_000_000).wrapping_add(NTP_EPOCH) << 32 | fraction,
            rtp_timestamp: self.timestamp,
            packets: self.packets,
            bytes: self.bytes,
        };
        Report::Sender { ssrc: self.ssrc, info, blocks }
    }
}
