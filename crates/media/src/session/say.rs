//! Sending: one frame a tick from the first source that has one, and a report every five seconds.

use std::net::SocketAddr;

use stdx::time::Instant;

use super::playback::PlaybackFrame;
use super::{Event, FrameSource, MediaSession, Outbox, TickWork};
use crate::codec::Codec;
use crate::events::EventOptions;
use crate::limits::FRAME_MS;
use crate::rtcp::{self, Report};
use crate::rtp::Header;

/// Milliseconds of a digit sent: twice what Q.24 asks of a listener, and a whole number of frames.
pub(super) const DIGIT_MS: u32 = 100;
impl MediaSession {
    /// The second half of a tick. Digits go first, then tones and prompts, then the frames of the partner leg.
    pub fn say(&mut self, now: Instant, feed: FrameSource<'_>, work: &mut TickWork, out: &mut impl Outbox) {
        self.sent.samples.clear();
        if !self.say_event(work, out) {
            work.payload.clear();
            if self.choose(feed, work, out) {
                self.decode_said(work);
                self.say_frame(work, out);
            } else {
                self.flush(self.stream.timestamp, work, out);
                self.stream.pause();
            }
        }
        self.stream.advance(self.frame_units());
        self.keep(work, out);
        self.report(now, work, out);
    }

    fn frame_units(&self) -> u32 {
        self.negotiated.audio.clock_rate * FRAME_MS / 1000
    }

    /// The frame to send into `work.payload`; `false` when there is none.
    fn choose(&mut self, feed: FrameSource<'_>, work: &mut TickWork, out: &mut impl Outbox) -> bool {
        let TickWork { scratch, payload: into, .. } = work;
        match self.playback.next_tone() {
            PlaybackFrame::Frame { codec, payload } => {
                self.outgoing.payload(codec, payload, scratch, into);
                return true;
            }
            PlaybackFrame::Ended { .. } => out.event(Event::DigitsSent),
            PlaybackFrame::Idle => {}
        }
        match self.playback.next_prompt() {
            PlaybackFrame::Frame { codec, payload } => {
                self.outgoing.payload(codec, payload, scratch, into);
                return !into.is_empty();
            }
            PlaybackFrame::Ended { id } => out.event(Event::PromptEnded { id }),
            PlaybackFrame::Idle => {}
        }
        match feed {
            FrameSource::None => {}
            FrameSource::Payload { codec, payload } => self.outgoing.payload(codec, payload, scratch, into),
            FrameSource::Samples { rate, samples } => {
                self.outgoing.samples(rate, samples, &mut scratch.resampled, into);
            }
        }
        if into.is_empty()
            && let Some((codec, payload)) = self.playback.fill()
        {
            self.outgoing.payload(codec, payload, scratch, into);
        }
        !into.is_empty()
    }

    /// For the recording and the tap, when they want it.
    fn decode_said(&mut self, work: &TickWork) {
        if self.sinks.want_sent() {
            self.sent.decode(self.negotiated.audio.codec, &work.payload);
        }
    }

    /// A packet once it has as many frames as the peer asked for.
    fn say_frame(&mut self, work: &mut TickWork, out: &mut impl Outbox) {
        let frames =
            if self.negotiated.audio.codec == Codec::Opus { 1 } else { self.negotiated.ptime_ms / FRAME_MS };
        if frames <= 1 {
            self.send(self.negotiated.audio.number, self.stream.timestamp, work, out);
            return;
        }
        self.pending.payload.extend_from_slice(&work.payload);
        self.pending.frames += 1;
        if self.pending.frames >= frames {
            // The timestamp of this tick is not counted yet.
            self.flush(self.stream.timestamp.wrapping_add(self.frame_units()), work, out);
        }
    }

    /// Frames that wait for more of them go without these. `end` is the timestamp after the last of them; the packet has
    /// that of the first.
    fn flush(&mut self, end: u32, work: &mut TickWork, out: &mut impl Outbox) {
        if self.pending.frames == 0 {
            return;
        }
        std::mem::swap(&mut self.pending.payload, &mut work.payload);
        let behind = self.pending.frames * self.frame_units();
        self.pending.clear();
        self.send(self.negotiated.audio.number, end.wrapping_sub(behind), work, out);
    }

    /// `work.payload` as a packet.
    fn send(&mut self, payload_type: u8, timestamp: u32, work: &mut TickWork, out: &mut impl Outbox) {
        if self.destination().is_none() {
            // Sequence numbers count sent packets only: a gap would be taken for loss.
            self.stream.pause();
            return;
        }
        let header = self.stream.next_header(payload_type, timestamp);
        let payload = std::mem::take(&mut work.payload);
        self.write(header, &payload, work, out);
        work.payload = payload;
    }

    fn destination(&self) -> Option<SocketAddr> {
        self.latch.address().filter(|_| self.negotiated.direction.sends())
    }

    fn write(&mut self, header: Header, payload: &[u8], work: &mut TickWork, out: &mut impl Outbox) {
        let Some(to) = self.destination() else { return };
        work.packet.clear();
        header.write(payload, &mut work.packet);
        if let Some(context) = self.security.sender()
            && context.protect_rtp(&mut work.packet).is_err()
        {
            return;
        }
        self.stream.count(payload);
        out.rtp(to, &work.packet);
    }

    /// This tick's packet of a digit, or the pause behind one; `false` when none is to be sent.
    fn say_event(&mut self, work: &mut TickWork, out: &mut impl Outbox) -> bool {
        if !self.digit_sender.is_sending() {
            if self.digit_sender.pauses() {
                return false;
            }
            let Some(events) = self.negotiated.events.filter(|_| self.destination().is_some()) else {
                return false;
            };
            let Some(digit) = self.digit_sender.pop() else { return false };
            self.flush(self.stream.timestamp, work, out);
            let options = EventOptions {
                payload_type: events.number,
                clock_rate: events.clock_rate,
                duration_ms: DIGIT_MS,
                ..EventOptions::default()
            };
            self.digit_sender.start(digit, options, &self.stream);
        }
        if let Some((packet, next_sequence)) = self.digit_sender.next_packet() {
            self.stream.skip_to(next_sequence);
            self.write(packet.header, &packet.payload, work, out);
            return true;
        }
        if self.digit_sender.len() == 0 {
            out.event(Event::DigitsSent);
        }
        false
    }

    fn report(&mut self, now: Instant, work: &mut TickWork, out: &mut impl Outbox) {
        if !self.stream.is_report_due(now) {
            return;
        }
        self.check_silence(now, out);
        let blocks = self.receiver.report_block(now).into_iter().collect();
        let report = self.stream.report(now, blocks);
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

    /// The end of the stream: a BYE (RFC 3550 §6.6), and the last piece of a recording.
    pub fn finish(&mut self, now: Instant, work: &mut TickWork, out: &mut impl Outbox) {
        self.stop_recording(out);
        let blocks = self.receiver.report_block(now).into_iter().collect();
        let reports = self.stream.last_reports(now, blocks);
        self.send_rtcp(&reports, work, out);
    }

    fn send_rtcp(&mut self, reports: &[Report], work: &mut TickWork, out: &mut impl Outbox) {
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
        let rtp = self.latch.address().filter(|_| self.stream.packets > 0 || self.latch.is_latched())?;
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
