//! Sending: one frame a tick from the first source that has one, as packets of one stream.

use stdx::time::Instant;

use super::digits::DigitSender;
use super::media_peer::MediaPeer;
use super::playback::{Playback, PlaybackFrame};
use super::sinks::Sinks;
use super::stream::RtpStream;
use super::transcoder::Transcoder;
use super::{FrameSource, MediaEvent, MediaOutbox, TickWork};
use crate::codec::{Codec, Error, payload_samples};
use crate::events::{Digit, EventOptions};
use crate::limits::{DIGITS_OUT, FRAME_MS};
use crate::prompt::{Prompt, frame_samples};
use crate::rtcp::ReportBlock;
use crate::sdp::Negotiated;

/// Milliseconds of a digit sent: twice what Q.24 asks of a listener, and a whole number of frames.
const DIGIT_MS: u32 = 100;

/// The stream that goes out: its sources of frames, its encoder and its numbers.
pub(super) struct SendPath {
    /// Sequence numbers, timestamps and counts.
    pub(super) stream: RtpStream,
    /// Converts frames into the codec that is sent.
    transcoder: Transcoder,
    /// Frames that wait for more of them in one packet.
    pending: PendingFrames,
    /// Prompt, tones and filling silence.
    pub(super) playback: Playback,
    /// Digits that are sent as events.
    digits: DigitSender,
    /// Ticks to come that the last payload covers: a partner's packets may have more than a frame.
    covered: usize,
}

/// Frames on the way to a packet of more than one.
#[derive(Default)]
struct PendingFrames {
    payload: Vec<u8>,
    /// Frames of 20 ms in `payload`.
    frames: u32,
}

impl PendingFrames {
    fn clear(&mut self) {
        self.payload.clear();
        self.frames = 0;
    }
}

impl SendPath {
    /// `seed`: random, for the numbers of the stream. A codec that is not spoken here is an error.
    pub(super) fn new(codec: Codec, seed: u64) -> Result<SendPath, Error> {
        Ok(SendPath {
            stream: RtpStream::new(seed),
            transcoder: Transcoder::new(codec)?,
            pending: PendingFrames::default(),
            playback: Playback::default(),
            digits: DigitSender::default(),
            covered: 0,
        })
    }

    /// Sends another codec. The stream goes on with its SSRC and numbers; a prompt goes on too, transcoded if need be.
    pub(super) fn change_codec(&mut self, codec: Codec) -> Result<(), Error> {
        self.transcoder = Transcoder::new(codec)?;
        self.pending.clear();
        Ok(())
    }

    /// Stops the prompt: its id, and its position in milliseconds.
    pub(super) fn stop(&mut self) -> Option<(u64, u64)> {
        // Frames that wait for more of them in one packet are of the prompt, too.
        self.pending.clear();
        self.playback.stop()
    }

    /// Queues digits, as events or as tones. `false` if more than 64 would wait.
    pub(super) fn queue_digits(&mut self, negotiated: &Negotiated, digits: &[Digit]) -> bool {
        if self.digits.len() + digits.len() > DIGITS_OUT || self.playback.has_tones() {
            return false;
        }
        if negotiated.events.is_some() {
            self.digits.push(digits);
        } else if !digits.is_empty() {
            self.playback.play_tones(Prompt::digits(negotiated.audio.codec, digits, DIGIT_MS));
        }
        true
    }

    /// One frame: of a digit first, then of tones and prompts, then `feed`.
    pub(super) fn send_frame(
        &mut self,
        peer: &mut MediaPeer,
        sinks: &mut Sinks,
        feed: FrameSource<'_>,
        work: &mut TickWork,
        out: &mut impl MediaOutbox,
    ) {
        if !self.send_event(peer, work, out) {
            work.payload.clear();
            if self.choose(feed, work, out) {
                let codec = peer.negotiated.audio.codec;
                sinks.handle_sent(codec, &work.payload);
                let samples = payload_samples(codec, &work.payload).unwrap_or_default();
                self.covered = (samples / frame_samples(codec)).saturating_sub(1);
                self.queue_frame(peer, work, out);
            } else {
                self.flush(peer, self.stream.timestamp, work, out);
                if self.covered == 0 {
                    self.stream.pause();
                }
                self.covered = self.covered.saturating_sub(1);
            }
        }
        self.stream.advance(frame_units(peer));
    }

    /// The frame to send into `work.payload`; `false` when there is none.
    fn choose(&mut self, feed: FrameSource<'_>, work: &mut TickWork, out: &mut impl MediaOutbox) -> bool {
        let TickWork { scratch, payload: into, .. } = work;
        match self.playback.next_tone() {
            PlaybackFrame::Frame { codec, frame } => {
                self.transcoder.frame(codec, frame, scratch, into);
                return true;
            }
            PlaybackFrame::Ended { .. } => out.event(MediaEvent::DigitsSent),
            PlaybackFrame::Idle => {}
        }
        match self.playback.next_prompt() {
            PlaybackFrame::Frame { codec, frame } => {
                self.transcoder.frame(codec, frame, scratch, into);
                return !into.is_empty();
            }
            PlaybackFrame::Ended { id } => out.event(MediaEvent::PromptEnded { id }),
            PlaybackFrame::Idle => {}
        }
        match feed {
            FrameSource::None => {}
            FrameSource::Payload { codec, payload } => self.transcoder.payload(codec, payload, scratch, into),
            FrameSource::Samples { rate, samples } => {
                self.transcoder.samples(rate, samples, &mut scratch.resampled, into);
            }
        }
        if into.is_empty()
            && self.covered == 0
            && let Some((codec, frame)) = self.playback.fill()
        {
            self.transcoder.frame(codec, frame, scratch, into);
        }
        !into.is_empty()
    }

    /// A packet once it has as many frames as the peer asked for (`a=ptime`, RFC 8866 §6.4).
    fn queue_frame(&mut self, peer: &mut MediaPeer, work: &mut TickWork, out: &mut impl MediaOutbox) {
        let Negotiated { audio, ptime_ms, .. } = &peer.negotiated;
        // RFC 7587 §4.2: an RTP packet has one Opus packet, which cannot be joined from several here.
        let frames = if audio.codec == Codec::Opus { 1 } else { ptime_ms / FRAME_MS };
        if frames <= 1 {
            self.send(peer, self.stream.timestamp, work, out);
            return;
        }
        self.pending.payload.extend_from_slice(&work.payload);
        self.pending.frames += 1;
        if self.pending.frames >= frames {
            // The timestamp of this tick is not counted yet.
            let end = self.stream.timestamp.wrapping_add(frame_units(peer));
            self.flush(peer, end, work, out);
        }
    }

    /// Frames that wait for more of them go without these. `end` is the timestamp after the last of them; the packet has
    /// that of the first.
    fn flush(&mut self, peer: &mut MediaPeer, end: u32, work: &mut TickWork, out: &mut impl MediaOutbox) {
        if self.pending.frames == 0 {
            return;
        }
        std::mem::swap(&mut self.pending.payload, &mut work.payload);
        let behind = self.pending.frames * frame_units(peer);
        self.pending.clear();
        self.send(peer, end.wrapping_sub(behind), work, out);
    }

    /// `work.payload` as a packet.
    fn send(
        &mut self,
        peer: &mut MediaPeer,
        timestamp: u32,
        work: &mut TickWork,
        out: &mut impl MediaOutbox,
    ) {
        if peer.destination().is_none() {
            // Sequence numbers count sent packets only: a gap would be taken for loss.
            self.stream.pause();
            return;
        }
        let header = self.stream.next_header(peer.negotiated.audio.number, timestamp);
        if peer.send_rtp(header, &work.payload, &mut work.packet, out) {
            self.stream.count(&work.payload);
        }
    }

    /// This tick's packet of a digit, or the pause behind one; `false` when none is to be sent.
    fn send_event(&mut self, peer: &mut MediaPeer, work: &mut TickWork, out: &mut impl MediaOutbox) -> bool {
        if !self.digits.is_sending() {
            if self.digits.pauses() {
                return false;
            }
            let Some(events) = peer.negotiated.events.filter(|_| peer.destination().is_some()) else {
                return false;
            };
            let Some(digit) = self.digits.pop() else { return false };
            self.flush(peer, self.stream.timestamp, work, out);
            let options = EventOptions {
                payload_type: events.number,
                clock_rate: events.clock_rate,
                duration_ms: DIGIT_MS,
                ..EventOptions::default()
            };
            self.digits.start(digit, options, &self.stream);
        }
        if let Some((packet, next_sequence)) = self.digits.next_packet() {
            self.stream.skip_to(next_sequence);
            if peer.send_rtp(packet.header, &packet.payload, &mut work.packet, out) {
                self.stream.count(&packet.payload);
            }
            return true;
        }
        if self.digits.len() == 0 {
            out.event(MediaEvent::DigitsSent);
        }
        false
    }

    /// Sends the periodic RTCP report (RFC 3550 §6.4).
    pub(super) fn report(
        &mut self,
        now: Instant,
        blocks: Vec<ReportBlock>,
        peer: &mut MediaPeer,
        work: &mut TickWork,
        out: &mut impl MediaOutbox,
    ) {
        let has_sent = self.stream.packets > 0;
        let report = self.stream.report(now, blocks);
        peer.send_rtcp(&[report], has_sent, work, out);
    }

    /// Sends the last report and a BYE (RFC 3550 §6.6).
    pub(super) fn finish(
        &mut self,
        now: Instant,
        blocks: Vec<ReportBlock>,
        peer: &mut MediaPeer,
        work: &mut TickWork,
        out: &mut impl MediaOutbox,
    ) {
        let reports = self.stream.last_reports(now, blocks);
        peer.send_rtcp(&reports, self.stream.packets > 0, work, out);
    }

    /// Bytes on the heap.
    pub(super) fn size(&self) -> usize {
        self.pending.payload.capacity() + self.digits.size() + self.transcoder.size()
    }
}

/// Units of the RTP clock in a frame.
fn frame_units(peer: &MediaPeer) -> u32 {
    peer.negotiated.audio.clock_rate * FRAME_MS / 1000
}
