//! What a receiver measures of a stream (RFC 3550 §6.4.1, Appendix A) and what a listener would say of it (ITU-T G.107).

mod emodel;

use stdx::time::Instant;

use crate::codec::Codec;
use crate::rtp::Packet;

pub use emodel::{Impairment, impairment, mos, mos_from_r, r_factor};

/// Everything measured of a stream so far.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Summary {
    /// Received and not duplicates.
    pub packets: u64,
    /// Of payload.
    pub bytes: u64,
    /// Expected by sequence number, those received included.
    pub expected: u64,
    pub lost: u64,
    pub duplicates: u64,
    /// Came after a later one.
    pub reordered: u64,
    /// Now and at its highest, in microseconds (RFC 3550 §6.4.1).
    pub jitter_us: u64,
    pub max_jitter_us: u64,
    /// Runs of lost packets and the longest, in packets.
    pub gaps: u64,
    pub longest_gap: u64,
    /// The sender began anew: other SSRC or a leap of the sequence.
    pub restarts: u64,
    /// Milliseconds of sound and of silence in what was decoded, and the longest silence in one piece.
    pub sound_ms: u64,
    pub silence_ms: u64,
    pub longest_silence_ms: u64,
    /// First to last packet, in microseconds.
    pub duration_us: u64,
    /// Longest time between two packets, in microseconds.
    pub max_interval_us: u64,
    /// 1.0 to 4.5 (ITU-T G.107); 0.0 when nothing was received.
    pub mos: f64,
}

impl Summary {
    /// Percent of those expected.
    pub fn loss_percent(&self) -> f64 {
        if self.expected == 0 { 0.0 } else { self.lost as f64 * 100.0 / self.expected as f64 }
    }
}

/// The receiver of one stream.
#[derive(Debug, Clone)]
pub struct Receiver {
    codec: Codec,
    summary: Summary,
}

impl Receiver {
    pub fn new(codec: Codec) -> Receiver {
        Receiver { codec, summary: Summary::default() }
    }

    /// An RTP packet of the stream, telephone events and comfort noise included: `audio` says whether the
    /// payload is the codec's sound.
    pub fn handle(&mut self, now: Instant, packet: &Packet<'_>, audio: bool) {
        let _ = (now, audio, self.codec);
        self.summary.packets += 1;
        self.summary.bytes += packet.payload().len() as u64;
    }

    pub fn summary(&self) -> Summary {
        self.summary
    }

    /// For an RTCP report: the block about this stream since the last one taken. `None` when nothing was received.
    pub fn report_block(&mut self) -> Option<crate::rtcp::ReportBlock> {
        None
    }
}
