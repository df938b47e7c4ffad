//! What goes out: one frame a tick from the first source that has one, and a report every five seconds.

use std::net::SocketAddr;
use std::time::Duration;

use stdx::time::Instant;

use super::{Event, Feed, MediaSession, Outbox, Playing, REPORT, RecordSource, Work};
use crate::codec::{Codec, Decoder};
use crate::events::{EventOptions, EventSender};
use crate::limits::FRAME_MS;
use crate::rtcp::{self, Report, SenderInfo};
use crate::rtp::Header;

/// Milliseconds of a digit sent: twice what Q.24 asks of a listener, and a whole number of frames.
pub(super) const DIGIT_MS: u32 = 100;
/// Ticks between two digits: Q.24's 40 ms, doubled.
const DIGIT_GAP: u32 = 4;
/// Between 1900 and 1970.
const NTP_EPOCH: u64 = 2_208_988_800;

impl MediaSession {
    /// The second half of a tick. Digits go first, then tones and prompts, then what the peer gives.
    pub fn say(&mut self, now: Instant, feed: Feed<'_>, work: &mut Work, out: &mut impl Outbox) {
        self.said.clear();
        if !self.say_event(work, out) {
            work.payload.clear();
            if self.choose(feed, work, out) {
                self.decode_said(work);
                self.say_frame(work, out);
            } else {
                self.flush(work, out);
                self.is_talking = false;
            }
        }
        self.timestamp = self.timestamp.wrapping_add(self.frame_units());
        self.keep(work, out);
        self.report(now, work, out);
    }

    fn frame_units(&self) -> u32 {
        self.negotiated.audio.clock_rate * FRAME_MS / 1000
    }

    /// The frame to send into `work.payload`; `false` when there is none.
    fn choose(&mut self, feed: Feed<'_>, work: &mut Work, out: &mut impl Outbox) -> bool {
        let scratch = (&mut work.samples, &mut work.resampled);
        if let Some(playing) = &mut self.tones {
            if let Some(frame) = playing.next() {
                self.outgoing.payload(
                    playing.prompt.codec(),
                    playing.prompt.frame(frame).unwrap_or(&[]),
                    scratch,
                    &mut work.payload,
                );
                return true;
            }
            self.tones = None;
            out.event(Event::DigitsSent);
        }
        if let Some(playing) = &mut self.playing {
            if let Some(frame) = playing.next() {
                self.outgoing.payload(
                    playing.prompt.codec(),
                    playing.prompt.frame(frame).unwrap_or(&[]),
                    scratch,
                    &mut work.payload,
                );
                return !work.payload.is_empty();
            }
            let id = playing.id;
            self.playing = None;
            out.event(Event::PromptEnded { id });
        }
        match feed {
            Feed::None => {}
            Feed::Payload { codec, payload } => {
                self.outgoing.payload(codec, payload, scratch, &mut work.payload);
            }
            Feed::Samples { rate, samples } => {
                self.outgoing.samples(rate, samples, &mut work.resampled, &mut work.payload);
            }
        }
        if work.payload.is_empty()
            && let Some(fill) = &self.fill
        {
            let frame = fill.frame(0).unwrap_or(&[]);
            self.outgoing.payload(
                fill.codec(),
                frame,
                (&mut work.samples, &mut work.resampled),
                &mut work.payload,
            );
        }
        !work.payload.is_empty()
    }

    /// For the recording and the tap, when they want it.
    fn decode_said(&mut self, work: &Work) {
        let source = self.recording.as_ref().map(|recording| recording.source);
        if !self.is_tapped && !matches!(source, Some(RecordSource::Both | RecordSource::Dual)) {
            return;
        }
        if self.said_decoder.is_none() {
            self.said_decoder = Decoder::new(self.negotiated.audio.codec).ok();
        }
        if let Some(decoder) = &mut self.said_decoder {
            // What was just encoded decodes.
            let _ = decoder.decode(&work.payload, &mut self.said);
        }
    }

    /// A packet once it has as many frames as the peer asked for.
    fn say_frame(&mut self, work: &mut Work, out: &mut impl Outbox) {
        let frames =
            if self.negotiated.audio.codec == Codec::Opus { 1 } else { self.negotiated.ptime_ms / FRAME_MS };
        if frames <= 1 {
            self.send(self.negotiated.audio.number, self.timestamp, work, out);
            return;
        }
        self.pending.extend_from_slice(&work.payload);
        self.pending_frames += 1;
        if self.pending_frames >= frames {
            // The timestamp is that of the first of them; this tick's is not counted yet.
            self.timestamp = self.timestamp.wrapping_add(self.frame_units());
            self.flush(work, out);
            self.timestamp = self.timestamp.wrapping_sub(self.frame_units());
        }
    }

    /// What waits for more frames goes without them.
    fn flush(&mut self, work: &mut Work, out: &mut impl Outbox) {
        if self.pending_frames == 0 {
            return;
        }
        std::mem::swap(&mut self.pending, &mut work.payload);
        self.pending.clear();
        let behind = self.pending_frames * self.frame_units();
        self.pending_frames = 0;
        self.send(self.negotiated.audio.number, self.timestamp.wrapping_sub(behind), work, out);
    }

    /// `work.payload` as a packet.
    fn send(&mut self, payload_type: u8, timestamp: u32, work: &mut Work, out: &mut impl Outbox) {
        if self.destination().is_none() {
            // Numbers are for what is sent: a gap would be taken for loss.
            self.is_talking = false;
            return;
        }
        let header = Header {
            marker: !self.is_talking,
            payload_type,
            sequence: self.sequence,
            timestamp,
            ssrc: self.ssrc,
        };
        self.is_talking = true;
        self.sequence = self.sequence.wrapping_add(1);
        let payload = std::mem::take(&mut work.payload);
        self.write(header, &payload, work, out);
        work.payload = payload;
    }

    fn destination(&self) -> Option<SocketAddr> {
        self.latch.address().filter(|_| self.negotiated.direction.sends())
    }

    fn write(&mut self, header: Header, payload: &[u8], work: &mut Work, out: &mut impl Outbox) {
        let Some(to) = self.destination() else { return };
        work.packet.clear();
        header.write(payload, &mut work.packet);
        if let Some(context) = self.security.sender()
            && context.protect_rtp(&mut work.packet).is_err()
        {
            return;
        }
        self.packets = self.packets.wrapping_add(1);
        self.bytes = self.bytes.wrapping_add(payload.len() as u32);
        out.rtp(to, &work.packet);
    }

    /// This tick's packet of a digit, or the pause behind one; `false` when none is to be sent.
    fn say_event(&mut self, work: &mut Work, out: &mut impl Outbox) -> bool {
        if self.sender.is_none() {
            if self.digit_gap > 0 {
                self.digit_gap -= 1;
                return false;
            }
            let Some(events) = self.negotiated.events.filter(|_| self.destination().is_some()) else {
                return false;
            };
            let Some(digit) = self.digits.pop_front() else { return false };
            self.flush(work, out);
            let options = EventOptions {
                payload_type: events.number,
                clock_rate: events.clock_rate,
                duration_ms: DIGIT_MS,
                ..EventOptions::default()
            };
            self.sender = Some(EventSender::new(digit, options, self.ssrc, self.sequence, self.timestamp));
        }
        let Some(sender) = &mut self.sender else { return false };
        if let Some(packet) = sender.next() {
            self.sequence = sender.next_sequence();
            self.is_talking = false;
            self.write(packet.header, &packet.payload, work, out);
            return true;
        }
        self.sender = None;
        self.digit_gap = DIGIT_GAP;
        if self.digits.is_empty() {
            out.event(Event::DigitsSent);
        }
        false
    }

    /// RFC 3550 §6.4: a sender's report when something was sent since the last one, else a receiver's.
    fn report(&mut self, now: Instant, work: &mut Work, out: &mut impl Outbox) {
        if self.next_report == Instant::default() {
            // Spread, so that calls that began together do not report together.
            self.next_report = now + Duration::from_millis(2_500 + u64::from(self.ssrc % 2_500));
        }
        if now < self.next_report {
            return;
        }
        self.next_report = now + REPORT;
        self.check_silence(now, out);
        let blocks: Vec<_> = self.receiver.report_block(now).into_iter().collect();
        let report = if self.packets == self.reported_packets {
            Report::Receiver { ssrc: self.ssrc, blocks }
        } else {
            Report::Sender { ssrc: self.ssrc, info: self.sender_info(now), blocks }
        };
        self.reported_packets = self.packets;
        self.send_rtcp(&[report], work, out);
    }

    fn check_silence(&mut self, now: Instant, out: &mut impl Outbox) {
        if !self.negotiated.direction.receives() || self.negotiated.held {
            // A peer on hold has nothing to send (RFC 3264 §8.4).
            self.silence.end(now);
        }
        if let Some(silence) = self.silence.check(now) {
            out.event(Event::NoMedia(silence));
        }
    }

    fn sender_info(&self, now: Instant) -> SenderInfo {
        let micros = now.as_micros();
        let fraction = ((micros % 1_000_000) << 32) / 1_000_000;
        SenderInfo {
            ntp: (micros / 1_000_000).wrapping_add(NTP_EPOCH) << 32 | fraction,
            rtp_timestamp: self.timestamp,
            packets: self.packets,
            bytes: self.bytes,
        }
    }

    /// The end of the stream: a BYE (RFC 3550 §6.6), and the last piece of a recording.
    pub fn finish(&mut self, now: Instant, work: &mut Work, out: &mut impl Outbox) {
        self.stop_recording(out);
        let blocks: Vec<_> = self.receiver.report_block(now).into_iter().collect();
        let report = Report::Sender { ssrc: self.ssrc, info: self.sender_info(now), blocks };
        self.send_rtcp(&[report, Report::Bye { sources: vec![self.ssrc], reason: None }], work, out);
    }

    fn send_rtcp(&mut self, reports: &[Report], work: &mut Work, out: &mut impl Outbox) {
        let Some(to) = self.rtcp_address() else { return };
        work.packet.clear();
        rtcp::write(reports, "belfry", &mut work.packet);
        if let Some(context) = self.security.sender()
            && context.protect_rtcp(&mut work.packet).is_err()
        {
            return;
        }
        out.rtcp(to, &work.packet);
    }

    /// Behind a NAT the next port is a guess, and the best there is. Reports go only where RTP goes to or comes from: the
    /// address of `a=rtcp` (RFC 3605) may be any victim's, and so may that of an INVITE that was never acknowledged.
    fn rtcp_address(&self) -> Option<SocketAddr> {
        let rtp = self.latch.address().filter(|_| self.packets > 0 || self.latch.is_latched())?;
        if self.negotiated.rtcp_mux {
            return Some(rtp);
        }
        let told = self
            .negotiated
            .remote_rtcp
            .filter(|told| told.ip() == rtp.ip())
            .filter(|_| !self.latch.is_latched() || Some(rtp) == self.negotiated.remote);
        told.or_else(|| Some(SocketAddr::new(rtp.ip(), rtp.port().checked_add(1)?)))
    }
}

impl Playing {
    /// The frame of this tick.
    fn next(&mut self) -> Option<usize> {
        if self.frame >= self.prompt.len() {
            self.loops = self.loops.map(|left| left.saturating_sub(1));
            if self.loops == Some(0) || self.prompt.is_empty() {
                return None;
            }
            self.frame = 0;
        }
        if self.loops == Some(0) {
            return None;
        }
        self.frame += 1;
        Some(self.frame - 1)
    }
}
