//! A receiver's measurements of a stream (RFC 3550 §6.4.1, Appendix A) and its estimated quality (ITU-T G.107).

mod arrivals;
mod emodel;
mod sound;
#[cfg(test)]
mod tests;

use stdx::time::Instant;

use crate::codec::Codec;
use crate::rtcp::ReportBlock;
use crate::rtp::Packet;
use arrivals::{Arrival, Arrivals};
use sound::SoundMeter;

pub use emodel::{Impairment, impairment, mos, mos_from_r, r_factor};

/// Everything measured of a stream so far.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Summary {
    /// Received and not duplicates.
    pub packets: u64,
    /// Bytes of payload.
    pub bytes: u64,
    /// Expected by sequence number, those received included.
    pub expected: u64,
    /// Expected and not received.
    pub lost: u64,
    /// Packets whose sequence number was received already.
    pub duplicates: u64,
    /// Came after a later one.
    pub reordered: u64,
    /// The estimate of the interarrival jitter now, in microseconds (RFC 3550 §6.4.1).
    pub jitter_us: u64,
    /// The highest value of that estimate.
    pub max_jitter_us: u64,
    /// Runs of lost packets.
    pub gaps: u64,
    /// Packets of the longest run.
    pub longest_gap: u64,
    /// The sender began anew: other SSRC or a leap of the sequence.
    pub restarts: u64,
    /// Milliseconds of the decoded stream that are louder than silence.
    pub sound_ms: u64,
    /// Milliseconds of the decoded stream that are silent.
    pub silence_ms: u64,
    /// Milliseconds of the longest silence in one piece.
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

/// A pause in the arrivals from this on is silence heard: no jitter buffer bridges it.
const PAUSE_US: u64 = 200_000;

/// The receiver of one stream.
pub struct Receiver {
    codec: Codec,
    clock_rate: u32,
    /// The source of the last packet; another one begins a new stream.
    ssrc: Option<u32>,
    arrivals: Arrivals,
    /// `None` where the samples are measured elsewhere, or not at all.
    sound: Option<SoundMeter>,
    /// Everything that is counted as it comes; [`Receiver::summary`] adds what follows from the arrivals.
    summary: Summary,
    first: Instant,
    last: Instant,
    /// Arrival and timestamp of the last packet of sound.
    previous: Option<(Instant, u32)>,
    /// Sixteen times microseconds, as RFC 3550 A.8 keeps it.
    jitter: u64,
    /// Expected and received at the last report.
    reported: (u64, u64),
    /// The middle 32 bits of the last SR's NTP time, and its arrival (RFC 3550 §6.4.1).
    last_sr: Option<(u32, Instant)>,
}

impl Receiver {
    /// With the codec's usual clock: 8 kHz, 48 kHz for Opus, 44.1 kHz for L16.
    pub fn new(codec: Codec) -> Receiver {
        let clock_rate = match codec {
            Codec::Opus => 48_000,
            Codec::L16 => 44_100,
            _ => 8_000,
        };
        Receiver::with_clock_rate(codec, clock_rate)
    }

    /// `clock_rate`: of the timestamps, in Hz, as the rtpmap says; 0 counts as 8000.
    pub fn with_clock_rate(codec: Codec, clock_rate: u32) -> Receiver {
        Receiver {
            codec,
            clock_rate: if clock_rate == 0 { 8_000 } else { clock_rate },
            ssrc: None,
            arrivals: Arrivals::default(),
            sound: Some(SoundMeter::new(codec)),
            summary: Summary::default(),
            first: Instant::default(),
            last: Instant::default(),
            previous: None,
            jitter: 0,
            reported: (0, 0),
            last_sr: None,
        }
    }

    /// Leaves sound and silence unmeasured, which spares decoding: the times stay 0.
    pub fn without_sound(mut self) -> Receiver {
        self.sound = None;
        self
    }

    /// An RTP packet of the stream, telephone events and comfort noise included: `audio` says whether the
    /// payload is the codec's sound.
    pub fn handle(&mut self, now: Instant, packet: &Packet<'_>, audio: bool) {
        let arrival = self.arrive(packet);
        match arrival {
            // Its sound is another's or comes again.
            Arrival::Duplicate => self.summary.duplicates += 1,
            Arrival::Reordered => self.summary.reordered += 1,
            Arrival::Restarted => {
                self.summary.restarts += 1;
                self.previous = None;
            }
            Arrival::Next | Arrival::Astray => {}
        }
        self.interval(now);
        if matches!(arrival, Arrival::Duplicate | Arrival::Astray) {
            return;
        }
        self.summary.bytes += packet.payload().len() as u64;
        if audio {
            self.measure_jitter(now, packet.timestamp());
            if let Some(sound) = &mut self.sound {
                sound.handle(self.codec, packet.payload());
            }
        }
    }

    fn arrive(&mut self, packet: &Packet<'_>) -> Arrival {
        match self.ssrc.replace(packet.ssrc()) {
            Some(before) if before != packet.ssrc() => {
                self.arrivals.restart(packet.sequence());
                Arrival::Restarted
            }
            _ => self.arrivals.handle(packet.sequence()),
        }
    }

    fn interval(&mut self, now: Instant) {
        if self.first == Instant::default() {
            self.first = now;
            self.last = now;
        }
        let interval = now.as_micros().saturating_sub(self.last.as_micros());
        self.summary.max_interval_us = self.summary.max_interval_us.max(interval);
        if interval >= PAUSE_US
            && let Some(sound) = &mut self.sound
        {
            sound.silence(interval);
        }
        self.last = self.last.max(now);
    }

    /// RFC 3550 §6.4.1: J(i) = J(i-1) + (|D(i-1,i)| - J(i-1))/16.
    fn measure_jitter(&mut self, now: Instant, timestamp: u32) {
        if let Some((before, timestamp_before)) = self.previous.replace((now, timestamp)) {
            let arrived = now.as_micros() as i64 - before.as_micros() as i64;
            let units = i64::from(timestamp.wrapping_sub(timestamp_before) as i32);
            let sent = units * 1_000_000 / i64::from(self.clock_rate);
            let leak = (self.jitter + 8) >> 4;
            self.jitter = self.jitter + (arrived - sent).unsigned_abs() - leak;
            self.summary.max_jitter_us = self.summary.max_jitter_us.max(self.jitter >> 4);
        }
    }

    /// The quality of the stream so far.
    pub fn summary(&self) -> Summary {
        let runs = self.arrivals.runs();
        let expected = self.arrivals.expected();
        let packets = self.arrivals.received;
        let mut summary = Summary {
            packets,
            expected,
            lost: expected.saturating_sub(packets),
            jitter_us: self.jitter >> 4,
            gaps: runs.gaps,
            longest_gap: runs.longest,
            duration_us: self.last.as_micros().saturating_sub(self.first.as_micros()),
            ..self.summary
        };
        if let Some(sound) = &self.sound {
            summary.sound_ms = sound.sound_us / 1000;
            summary.silence_ms = sound.silence_us / 1000;
            summary.longest_silence_ms = sound.longest_us / 1000;
        }
        if packets > 0 {
            // The network's own delay is unknown here: a packet of 20 ms and a buffer of twice the jitter remain.
            let delay_ms = 20.0 + 2.0 * summary.jitter_us as f64 / 1000.0;
            summary.mos = mos(delay_ms, summary.loss_percent(), burst_ratio(&summary), self.codec);
        }
        summary
    }

    /// A sender report arrived about this stream: its time goes into the next block.
    pub fn handle_sender_report(&mut self, now: Instant, ntp: u64) {
        self.last_sr = Some(((ntp >> 16) as u32, now));
    }

    /// For an RTCP report: the block about this stream since the last one taken. `None` when nothing was received.
    pub fn report_block(&mut self, now: Instant) -> Option<ReportBlock> {
        let ssrc = self.ssrc?;
        let (expected, received) = (self.arrivals.expected(), self.arrivals.received);
        let expected_since = expected.saturating_sub(self.reported.0);
        let lost_since = expected_since.saturating_sub(received.saturating_sub(self.reported.1));
        self.reported = (expected, received);
        let fraction = (lost_since << 8).checked_div(expected_since).unwrap_or(0);
        let (last_sr, delay) = match self.last_sr {
            Some((ntp, at)) => (ntp, now.since(at).as_micros() * 65_536 / 1_000_000),
            None => (0, 0),
        };
        let jitter = u128::from(self.jitter >> 4) * u128::from(self.clock_rate) / 1_000_000;
        Some(ReportBlock {
            ssrc,
            fraction_lost: u8::try_from(fraction).unwrap_or(u8::MAX),
            cumulative_lost: i32::try_from(expected.saturating_sub(received)).unwrap_or(i32::MAX),
            highest_sequence: self.arrivals.highest(),
            jitter: u32::try_from(jitter).unwrap_or(u32::MAX),
            last_sr,
            delay_since_last_sr: u32::try_from(delay).unwrap_or(u32::MAX),
        })
    }
}

/// The mean length of a loss against that of random loss at the same rate (G.107 §3.5.2).
fn burst_ratio(summary: &Summary) -> f64 {
    if summary.gaps == 0 {
        return 1.0;
    }
    let mean = summary.lost as f64 / summary.gaps as f64;
    (mean * (1.0 - summary.loss_percent() / 100.0)).max(1.0)
}
