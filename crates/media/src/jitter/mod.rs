//! A jitter buffer: packets in as they come, one frame of 20 ms out a tick. It plays by timestamp, tells loss from a
//! sender's pause by sequence number, and delays as much as the packets of late needed.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use stdx::time::Instant;

use crate::limits::{FRAME_MS, JITTER_DELAY_MS, JITTER_PACKETS, JITTER_PAYLOAD};
use crate::rtp::Packet;

/// The outcome of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushed {
    /// The packet waits for its time.
    Queued,
    /// The first of a stream, or of one that began anew: other SSRC or a leap of its timestamp.
    Restarted,
    /// Its sequence number is there already.
    Duplicate,
    /// Its time is over.
    Late,
    /// A payload beyond what is kept.
    TooLong,
}

/// The result of one pull.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pulled {
    /// A payload, and whether it is the first behind a pause.
    Frame {
        /// True behind a pause.
        first: bool,
    },
    /// Nothing where something should be: to be concealed.
    Lost,
    /// The sender pauses, or nothing came yet.
    Silence,
}

/// The figures of a jitter buffer, in packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JitterCounts {
    /// Packets pushed.
    pub received: u64,
    /// Frames pulled.
    pub played: u64,
    /// Packets whose sequence number was there already.
    pub duplicates: u64,
    /// Packets that came after their time.
    pub late: u64,
    /// Came behind a later one and in time.
    pub reordered: u64,
    /// Frames concealed because their packet was missing.
    pub lost: u64,
    /// Dropped because too many waited, or too long ones.
    pub overflows: u64,
    /// Streams that began anew: another SSRC, or a leap of the timestamp.
    pub restarts: u64,
    /// Frames inserted to lengthen the delay.
    pub stretched: u64,
    /// Frames left out to shorten the delay.
    pub shrunk: u64,
}

/// The relation of timestamps to time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// Units of the timestamp in a second.
    pub rate: u32,
    /// One byte of payload for one unit (PCMU, PCMA and G.722): packets of any length become frames of 20 ms. Without it a
    /// packet comes out as it came in.
    pub bytewise: bool,
}

struct BufferedPacket {
    sequence: u16,
    /// Extended: it does not turn over.
    timestamp: i64,
    /// Bytes already played of a longer packet.
    used: usize,
    payload: Vec<u8>,
}

/// Frames concealed before an empty buffer means silence.
const CONCEAL: u32 = 5;
/// Frames of nothing after which the next packet begins anew.
const IDLE: u32 = 50;
/// A timestamp this far away, in seconds, is another stream's.
const LEAP: i64 = 3;
/// Late packets in a row after which the clock was wrong, not they.
const LATE_IN_A_ROW: u32 = 8;
/// Ticks for which the delay must have been too long before a frame is left out.
const PATIENCE: u32 = 50;
/// Packets over which the fastest is looked for, so that a drifting clock is followed.
const WINDOW: u32 = 256;

/// The buffer of one stream.
pub struct JitterBuffer {
    clock: Clock,
    min_ms: u32,
    /// By timestamp.
    entries: VecDeque<BufferedPacket>,
    /// Payloads that were played, for their memory.
    spare: Vec<Vec<u8>>,
    ssrc: Option<u32>,
    /// The extended timestamp of the next frame, once playing.
    next: i64,
    is_playing: bool,
    started: Instant,
    highest: u16,
    /// Bit n: the number n below the highest came.
    seen: u64,
    /// The sequence number of the last frame; earlier ones are late.
    last_played: Option<u16>,
    /// Units: arrival less timestamp of the fastest packet, of this window and the one before.
    fastest: [i64; 2],
    in_window: u32,
    /// Units above the fastest: falls by and by.
    peak: i64,
    /// Pulls in a row that found no packet.
    empty: u32,
    /// Late packets without one in time: the sender's clock has leapt.
    late_in_a_row: u32,
    too_long: u32,
    counts: JitterCounts,
}

impl JitterBuffer {
    /// `min_ms`: of delay, when the network has no jitter; 40 bears one packet out of order.
    pub fn new(clock: Clock, min_ms: u32) -> JitterBuffer {
        JitterBuffer {
            clock: Clock { rate: if clock.rate == 0 { 8_000 } else { clock.rate }, ..clock },
            min_ms: min_ms.clamp(FRAME_MS, JITTER_DELAY_MS),
            entries: VecDeque::new(),
            spare: Vec::new(),
            ssrc: None,
            next: 0,
            is_playing: false,
            started: Instant::default(),
            highest: 0,
            seen: 0,
            last_played: None,
            fastest: [i64::MAX; 2],
            in_window: 0,
            peak: 0,
            empty: 0,
            late_in_a_row: 0,
            too_long: 0,
            counts: JitterCounts::default(),
        }
    }

    /// The figures so far.
    pub fn counts(&self) -> JitterCounts {
        self.counts
    }

    /// Units of the timestamp in a frame.
    fn frame(&self) -> i64 {
        i64::from(self.clock.rate * FRAME_MS / 1000)
    }

    fn units(&self, now: Instant) -> i64 {
        // Microseconds since 1970 times 48 kHz do not fit 64 bits.
        (i128::from(now.as_micros()) * i128::from(self.clock.rate) / 1_000_000) as i64
    }

    /// A packet of sound.
    pub fn push(&mut self, now: Instant, packet: &Packet<'_>) -> Pushed {
        if packet.payload().len() > JITTER_PAYLOAD {
            self.counts.overflows += 1;
            return Pushed::TooLong;
        }
        self.counts.received += 1;
        let is_new = self.ssrc.replace(packet.ssrc()) != Some(packet.ssrc());
        let timestamp = self.extended(packet.timestamp());
        let behind = timestamp - self.next;
        let is_leap = self.is_playing && behind.abs() > LEAP * i64::from(self.clock.rate);
        if is_new || is_leap || !self.is_playing && self.entries.is_empty() {
            self.restart(now, packet);
            return Pushed::Restarted;
        }
        let ahead = packet.sequence().wrapping_sub(self.highest) as i16;
        if self.is_seen(packet.sequence(), ahead) {
            self.counts.duplicates += 1;
            return Pushed::Duplicate;
        }
        self.measure(now, timestamp);
        if self.is_playing && behind < 0 && !self.is_partly_due(behind, packet.payload().len()) {
            self.late_in_a_row += 1;
            if self.late_in_a_row >= LATE_IN_A_ROW {
                // It is the first of the stream that begins, and played.
                self.restart(now, packet);
                return Pushed::Restarted;
            }
            self.counts.late += 1;
            return Pushed::Late;
        }
        self.late_in_a_row = 0;
        self.counts.reordered += u64::from(ahead < 0);
        self.insert(packet, timestamp);
        Pushed::Queued
    }

    fn extended(&self, timestamp: u32) -> i64 {
        self.next + i64::from(timestamp.wrapping_sub(self.next as u32) as i32)
    }

    /// True if the end of a long packet can still be played.
    fn is_partly_due(&self, behind: i64, len: usize) -> bool {
        self.clock.bytewise && behind + len as i64 > 0
    }

    fn is_seen(&mut self, sequence: u16, ahead: i16) -> bool {
        if ahead > 0 {
            self.seen = self.seen.checked_shl(u32::from(ahead.unsigned_abs())).unwrap_or(0) | 1;
            self.highest = sequence;
            return false;
        }
        let bit = 1_u64.checked_shl(u32::from(ahead.unsigned_abs())).unwrap_or(0);
        let seen = self.seen & bit != 0;
        self.seen |= bit;
        seen
    }

    fn restart(&mut self, now: Instant, packet: &Packet<'_>) {
        while let Some(entry) = self.entries.pop_front() {
            self.spare.push(entry.payload);
        }
        self.counts.restarts += u64::from(self.counts.restarts > 0 || self.last_played.is_some());
        self.is_playing = false;
        self.started = now;
        (self.highest, self.seen) = (packet.sequence(), 1);
        self.last_played = None;
        self.fastest = [i64::MAX; 2];
        (self.in_window, self.late_in_a_row, self.empty, self.too_long) = (0, 0, 0, 0);
        self.next = i64::from(packet.timestamp());
        self.measure(now, self.next);
        self.insert(packet, self.next);
    }

    /// Measures the delay of a packet against the fastest; the largest of late decides the playout delay.
    fn measure(&mut self, now: Instant, timestamp: i64) {
        let offset = self.units(now) - timestamp;
        self.fastest[0] = self.fastest[0].min(offset);
        self.in_window += 1;
        if self.in_window >= WINDOW {
            self.in_window = 0;
            self.fastest = [offset, self.fastest[0]];
        }
        let slower = offset - self.fastest();
        // Half of a peak is forgotten after some three seconds.
        self.peak = slower.max(self.peak - (self.peak >> 8) - i64::from(self.peak > 0));
    }

    fn fastest(&self) -> i64 {
        self.fastest[0].min(self.fastest[1])
    }

    /// Milliseconds of delay that the last seconds call for.
    pub fn target_ms(&self) -> u32 {
        let peak_ms = u32::try_from(self.peak.max(0) * 1000 / i64::from(self.clock.rate)).unwrap_or(u32::MAX);
        peak_ms.saturating_add(FRAME_MS).clamp(self.min_ms, JITTER_DELAY_MS)
    }

    fn insert(&mut self, packet: &Packet<'_>, timestamp: i64) {
        if self.entries.len() >= JITTER_PACKETS
            && let Some(oldest) = self.entries.pop_front()
        {
            self.counts.overflows += 1;
            self.spare.push(oldest.payload);
        }
        let mut payload = self.spare.pop().unwrap_or_default();
        payload.clear();
        payload.extend_from_slice(packet.payload());
        let entry = BufferedPacket { sequence: packet.sequence(), timestamp, used: 0, payload };
        let at = self.entries.iter().rposition(|other| other.timestamp <= timestamp).map_or(0, |at| at + 1);
        self.entries.insert(at, entry);
    }

    /// The frame of this tick; its payload is appended to `out`.
    pub fn pull(&mut self, now: Instant, out: &mut Vec<u8>) -> Pulled {
        if !self.is_playing && !self.begin(now) {
            return Pulled::Silence;
        }
        if let Some(pulled) = self.adapt(now) {
            return pulled;
        }
        let frame = self.frame();
        self.drop_past();
        let due = self.entries.front().map(|entry| entry.timestamp + entry.used as i64 - self.next);
        match due {
            Some(due) if due < frame => {
                let first = self.empty > 0 || self.last_played.is_none();
                self.empty = 0;
                self.counts.played += 1;
                if self.clock.bytewise {
                    self.fill(out);
                } else {
                    self.whole(out);
                }
                Pulled::Frame { first }
            }
            _ => {
                self.next += frame;
                self.nothing(due.is_some())
            }
        }
    }

    fn begin(&mut self, now: Instant) -> bool {
        let delay_ms = now.since(self.started).as_millis();
        let Some(first) = self.entries.front().filter(|_| delay_ms + 1 >= u128::from(self.target_ms()))
        else {
            return false;
        };
        self.next = first.timestamp;
        self.is_playing = true;
        true
    }

    /// Changes the delay by a frame where it is wrong: at once when too short, with patience when too long.
    fn adapt(&mut self, now: Instant) -> Option<Pulled> {
        let frame = self.frame();
        let delay = self.units(now) - self.next - self.fastest();
        let target = i64::from(self.target_ms()) * i64::from(self.clock.rate) / 1000;
        if delay + frame / 2 < target && self.empty == 0 {
            self.counts.stretched += 1;
            return Some(Pulled::Lost);
        }
        self.too_long = if delay > target + frame * 3 / 2 { self.too_long + 1 } else { 0 };
        if self.too_long > PATIENCE {
            self.too_long = PATIENCE / 2;
            self.counts.shrunk += 1;
            self.next += frame;
        }
        None
    }

    /// Entries before the clock, such as those of a frame left out.
    fn drop_past(&mut self) {
        while let Some(entry) = self.entries.front_mut() {
            let behind = self.next - entry.timestamp;
            let units = if self.clock.bytewise { entry.payload.len() as i64 } else { 1 };
            if behind < units {
                // The beginning of a packet may be over.
                entry.used = entry.used.max(usize::try_from(behind).unwrap_or(0));
                break;
            }
            self.pop();
        }
    }

    fn pop(&mut self) {
        if let Some(entry) = self.entries.pop_front() {
            self.last_played = Some(entry.sequence);
            self.spare.push(entry.payload);
        }
    }

    /// One frame of bytes, out of as many packets as reach into it; a hole is filled with its neighbour's last byte.
    fn fill(&mut self, out: &mut Vec<u8>) {
        let frame = self.frame() as usize;
        let start = out.len();
        while out.len() - start < frame {
            let at = self.next + (out.len() - start) as i64;
            let Some(entry) = self.entries.front_mut() else { break };
            // Packets that overlap give what the earlier has.
            let hole = usize::try_from(entry.timestamp + entry.used as i64 - at).unwrap_or(0);
            if hole >= frame - (out.len() - start) {
                break;
            }
            let quiet = entry.payload.get(entry.used).copied().unwrap_or(0xff);
            out.resize(out.len() + hole, quiet);
            let rest = &entry.payload[entry.used.min(entry.payload.len())..];
            let take = rest.len().min(frame - (out.len() - start));
            out.extend_from_slice(&rest[..take]);
            entry.used += take;
            if entry.used >= entry.payload.len() {
                self.pop();
            }
        }
        let quiet = out.last().copied().unwrap_or(0xff);
        out.resize(start + frame, quiet);
        self.next += self.frame();
    }

    fn whole(&mut self, out: &mut Vec<u8>) {
        if let Some(entry) = self.entries.front() {
            out.extend_from_slice(&entry.payload);
        }
        self.pop();
        self.next += self.frame();
    }

    /// Behind a frame that is whole: one more packet of the same 20 ms, where packets are shorter.
    pub fn pull_more(&mut self, out: &mut Vec<u8>) -> bool {
        let is_due = !self.clock.bytewise && self.is_playing;
        let Some(entry) = self.entries.front().filter(|entry| is_due && entry.timestamp < self.next) else {
            return false;
        };
        out.extend_from_slice(&entry.payload);
        self.pop();
        true
    }

    /// Nothing is due: lost, or not sent.
    fn nothing(&mut self, more: bool) -> Pulled {
        self.empty += 1;
        let follows = match (self.entries.front(), self.last_played) {
            (Some(entry), Some(last)) => entry.sequence == last.wrapping_add(1),
            _ => false,
        };
        if !more && self.empty > IDLE {
            self.is_playing = false;
        }
        if follows || self.empty > CONCEAL {
            return Pulled::Silence;
        }
        self.counts.lost += 1;
        Pulled::Lost
    }

    /// Milliseconds of sound waiting, packets without their length counted as a frame.
    pub fn waiting_ms(&self) -> u32 {
        let bytes: usize =
            self.entries.iter().map(|entry| entry.payload.len() - entry.used.min(entry.payload.len())).sum();
        let units = if self.clock.bytewise {
            bytes as u64
        } else {
            self.entries.len() as u64 * self.frame().unsigned_abs()
        };
        u32::try_from(units * 1000 / u64::from(self.clock.rate)).unwrap_or(u32::MAX)
    }

    /// Bytes on the heap.
    pub fn size(&self) -> usize {
        let payloads = self.entries.iter().map(|entry| &entry.payload).chain(&self.spare);
        self.entries.capacity() * size_of::<BufferedPacket>()
            + self.spare.capacity() * size_of::<Vec<u8>>()
            + payloads.map(Vec::capacity).sum::<usize>()
    }
}
