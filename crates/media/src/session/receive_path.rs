//! Reception: datagrams as they arrive, one frame a tick for every sink.

use std::net::SocketAddr;

use stdx::time::Instant;

use super::digits::DigitReceiver;
use super::latch::SourceVerdict;
use super::media_peer::MediaPeer;
use super::received::ReceivedAudio;
use super::silence::Silence;
use super::sinks::Sinks;
use super::{DatagramOutcome, DigitSource, DroppedDatagrams, MediaEvent, MediaOutbox, TickWork};
use crate::codec::{Codec, PayloadType};
use crate::quality::Receiver;
use crate::rtcp::{self, Report, ReportBlock};
use crate::rtp::{Packet, is_rtcp};
use crate::sdp::Negotiated;

/// The stream that comes in: its checks, measurements, digits and sound.
pub(super) struct ReceivePath {
    /// The jitter buffer and the decoder.
    pub(super) audio: ReceivedAudio,
    /// Losses, jitter and quality (RFC 3550 §6.4.1).
    pub(super) quality: Box<Receiver>,
    /// The detectors of events and tones.
    digits: DigitReceiver,
    /// The time without any packet.
    pub(super) silence: Silence,
    /// Datagrams that were not taken, by reason.
    pub(super) dropped: DroppedDatagrams,
}

impl ReceivePath {
    /// The reception of a stream that begins with this payload type.
    pub(super) fn new(incoming: PayloadType) -> ReceivePath {
        let quality = Receiver::with_clock_rate(incoming.codec, incoming.clock_rate).without_sound();
        ReceivePath {
            audio: ReceivedAudio::new(incoming),
            quality: Box::new(quality),
            digits: DigitReceiver::new(),
            silence: Silence::default(),
            dropped: DroppedDatagrams::default(),
        }
    }

    /// Another codec comes in.
    pub(super) fn change(&mut self, incoming: PayloadType) {
        self.audio.change(incoming);
        self.detect_tones(self.digits.detects_tones());
    }

    /// Digits in the sound, at the rate of its codec, or no more.
    pub(super) fn detect_tones(&mut self, on: bool) {
        self.digits.detect_tones(on.then_some(self.audio.rate()));
    }

    /// Events are not negotiated any more: digits come in the sound, and events that came before are no reason to ignore them.
    pub(super) fn end_events(&mut self) {
        self.digits = DigitReceiver::new();
        self.detect_tones(true);
    }

    /// True once an event came.
    pub(super) fn hears_events(&self) -> bool {
        self.digits.has_events()
    }

    /// True if a frame must be decoded.
    fn needs_samples(&self, sinks: &Sinks) -> bool {
        sinks.need_samples() || self.digits.detects_tones()
    }

    /// True if a frame is used at all; otherwise packets are only counted.
    fn needs_audio(&self, sinks: &Sinks) -> bool {
        sinks.is_listened || self.needs_samples(sinks)
    }

    /// A datagram from the leg's port, RTP or RTCP.
    pub(super) fn handle_packet(
        &mut self,
        peer: &mut MediaPeer,
        sinks: &Sinks,
        datagram: Datagram<'_>,
        work: &mut TickWork,
        out: &mut impl MediaOutbox,
    ) -> DatagramOutcome {
        let outcome = if is_rtcp(datagram.bytes) {
            self.handle_rtcp(peer, datagram, work)
        } else {
            self.handle_rtp(peer, sinks, datagram, work, out)
        };
        self.dropped.count(outcome);
        outcome
    }

    /// One RTP packet: decrypted, routed by its payload type, checked by its source.
    fn handle_rtp(
        &mut self,
        peer: &mut MediaPeer,
        sinks: &Sinks,
        datagram: Datagram<'_>,
        work: &mut TickWork,
        out: &mut impl MediaOutbox,
    ) -> DatagramOutcome {
        let Datagram { now, source, bytes } = datagram;
        let bytes = match peer.security.receiver() {
            None => bytes,
            Some(context) => {
                work.packet.clear();
                work.packet.extend_from_slice(bytes);
                if context.unprotect_rtp(&mut work.packet).is_err() {
                    return DatagramOutcome::Malformed;
                }
                &work.packet
            }
        };
        let Ok(packet) = Packet::parse(bytes) else { return DatagramOutcome::Malformed };
        let Some(codec) = self.codec_of(&peer.negotiated, packet.payload_type()) else {
            return DatagramOutcome::Unknown;
        };
        // The source counts only after the payload type: packets of another stream are no reason to move.
        match peer.latch.handle(now, source, peer.security.is_on()) {
            SourceVerdict::Stranger => return DatagramOutcome::Stranger,
            SourceVerdict::Latched => out.event(MediaEvent::Latched(source)),
            SourceVerdict::Known => {}
        }
        self.silence.end(now);
        let is_audio = !matches!(codec, Codec::TelephoneEvent | Codec::ComfortNoise);
        self.quality.handle(now, &packet, is_audio);
        match codec {
            Codec::TelephoneEvent => {
                if let Some(digit) = self.digits.handle_event(&packet) {
                    out.event(MediaEvent::Digit { digit, by: DigitSource::Event });
                }
            }
            Codec::ComfortNoise => self.audio.handle_noise(packet.payload()),
            _ => self.handle_audio(now, &packet, &peer.negotiated, sinks),
        }
        DatagramOutcome::Taken
    }

    /// The codec of a payload type; `None` if the type was not negotiated.
    fn codec_of(&self, negotiated: &Negotiated, number: u8) -> Option<Codec> {
        let Negotiated { receive, receive_events, comfort_noise, .. } = negotiated;
        if number == self.audio.incoming.number {
            return Some(self.audio.incoming.codec);
        }
        let known = receive_events.iter().chain(receive).find(|one| one.number == number);
        known.map(|one| one.codec).or_else(|| (*comfort_noise == Some(number)).then_some(Codec::ComfortNoise))
    }

    /// A packet of sound: into the jitter buffer, if a sink takes the sound.
    fn handle_audio(&mut self, now: Instant, packet: &Packet<'_>, negotiated: &Negotiated, sinks: &Sinks) {
        // RFC 3264 §6.1: a peer may change among the codecs of the answer at any time, without an offer.
        if packet.payload_type() != self.audio.incoming.number
            && let Some(one) = negotiated.receive.iter().find(|one| one.number == packet.payload_type())
        {
            self.change(*one);
        }
        if self.needs_audio(sinks) && negotiated.direction.receives() {
            self.audio.push(now, packet);
        }
    }

    /// A compound RTCP packet.
    fn handle_rtcp(
        &mut self,
        peer: &mut MediaPeer,
        datagram: Datagram<'_>,
        work: &mut TickWork,
    ) -> DatagramOutcome {
        let Datagram { now, source, bytes } = datagram;
        if !peer.latch.is_peer_ip(source.ip()) {
            return DatagramOutcome::Stranger;
        }
        work.packet.clear();
        work.packet.extend_from_slice(bytes);
        if let Some(context) = peer.security.receiver()
            && context.unprotect_rtcp(&mut work.packet).is_err()
        {
            return DatagramOutcome::Malformed;
        }
        let Ok(reports) = rtcp::parse(&work.packet) else { return DatagramOutcome::Malformed };
        self.silence.end(now);
        for report in reports {
            // The time of the peer's report comes back in ours, as LSR and DLSR (RFC 3550 §6.4.1).
            if let Report::Sender { info, .. } = report {
                self.quality.handle_sender_report(now, info.ntp);
            }
        }
        DatagramOutcome::Taken
    }

    /// The frame that is due, for every sink.
    pub(super) fn pull_frame(
        &mut self,
        now: Instant,
        sinks: &mut Sinks,
        work: &mut TickWork,
        out: &mut impl MediaOutbox,
    ) {
        self.audio.clear();
        if !self.needs_audio(sinks) {
            // Sound that was buffered for the last sink is old when the next one comes.
            if self.audio.is_buffered() {
                self.change(self.audio.incoming);
            }
            return;
        }
        let pulled = self.audio.pull(now);
        if !self.needs_samples(sinks) && !self.audio.is_short {
            return;
        }
        self.audio.decode(pulled, work);
        let samples = &self.audio.samples;
        if let Some(event) = sinks.speech.as_mut().and_then(|speech| speech.handle(samples)) {
            out.event(MediaEvent::Speech(event));
        }
        self.digits.handle_samples(samples, |digit| {
            out.event(MediaEvent::Digit { digit, by: DigitSource::Tone });
        });
    }

    /// Reports a silence of the peer that is over the limit.
    pub(super) fn check_silence(&mut self, now: Instant, peer: &MediaPeer, out: &mut impl MediaOutbox) {
        if !peer.negotiated.direction.receives() || peer.negotiated.held {
            // A peer on hold has nothing to send (RFC 3264 §8.4).
            self.silence.end(now);
        }
        if let Some(silence) = self.silence.check(now) {
            out.event(MediaEvent::NoMedia(silence));
        }
    }

    /// The report block of this stream; none before its first packet.
    pub(super) fn report_blocks(&mut self, now: Instant) -> Vec<ReportBlock> {
        self.quality.report_block(now).into_iter().collect()
    }

    /// Bytes on the heap.
    pub(super) fn size(&self) -> usize {
        size_of::<Receiver>() + self.audio.size() + self.digits.size()
    }
}

/// A datagram as it came from the network.
#[derive(Clone, Copy)]
pub(super) struct Datagram<'a> {
    /// The time of the arrival.
    pub(super) now: Instant,
    pub(super) source: SocketAddr,
    pub(super) bytes: &'a [u8],
}
