//! Reception: datagrams as they arrive, one frame a tick for every sink.

use std::net::SocketAddr;

use stdx::time::Instant;

use super::latch::Verdict;
use super::recording::RatedSamples;
use super::{DatagramOutcome, DigitSource, Event, MediaSession, Outbox, TickWork};
use crate::codec::Codec;
use crate::rtcp::{self, Report};
use crate::rtp::{Packet, is_rtcp};
use crate::sdp::Negotiated;

impl MediaSession {
    /// A datagram from the leg's port, RTP or RTCP. Digits sent as events are told at once.
    pub fn handle_packet(
        &mut self,
        now: Instant,
        source: SocketAddr,
        bytes: &[u8],
        work: &mut TickWork,
        out: &mut impl Outbox,
    ) -> DatagramOutcome {
        let handled = if is_rtcp(bytes) {
            self.handle_rtcp(now, source, bytes, work)
        } else {
            self.handle_rtp(now, source, bytes, work, out)
        };
        match handled {
            DatagramOutcome::Taken => {}
            DatagramOutcome::Stranger => self.dropped.strangers += 1,
            DatagramOutcome::Malformed => self.dropped.malformed += 1,
            DatagramOutcome::Unknown => self.dropped.unknown += 1,
        }
        handled
    }

    fn handle_rtp(
        &mut self,
        now: Instant,
        source: SocketAddr,
        bytes: &[u8],
        work: &mut TickWork,
        out: &mut impl Outbox,
    ) -> DatagramOutcome {
        let bytes = match self.security.receiver() {
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
        let Some(kind) = self.kind(packet.payload_type()) else { return DatagramOutcome::Unknown };
        match self.latch.handle(now, source, self.security.is_on()) {
            Verdict::Stranger => return DatagramOutcome::Stranger,
            Verdict::Latched => out.event(Event::Latched(source)),
            Verdict::Known => {}
        }
        self.silence.end(now);
        let is_audio = !matches!(kind, Codec::TelephoneEvent | Codec::ComfortNoise);
        self.receiver.handle(now, &packet, is_audio);
        match kind {
            Codec::TelephoneEvent => {
                if let Some(digit) = self.digit_receiver.handle_event(&packet) {
                    out.event(Event::Digit { digit, by: DigitSource::Event });
                }
            }
            Codec::ComfortNoise => self.received.handle_noise(packet.payload()),
            _ => self.handle_audio(now, &packet),
        }
        DatagramOutcome::Taken
    }

    fn kind(&self, number: u8) -> Option<Codec> {
        let Negotiated { receive, receive_events, comfort_noise, .. } = &self.negotiated;
        if number == self.received.incoming.number {
            return Some(self.received.incoming.codec);
        }
        let known = receive_events.iter().chain(receive).find(|one| one.number == number);
        known.map(|one| one.codec).or_else(|| (*comfort_noise == Some(number)).then_some(Codec::ComfortNoise))
    }

    fn handle_audio(&mut self, now: Instant, packet: &Packet<'_>) {
        if packet.payload_type() != self.received.incoming.number
            && let Some(one) = self.negotiated.receive.iter().find(|one| one.number == packet.payload_type())
        {
            self.incoming(*one);
        }
        if self.needs_audio() && self.negotiated.direction.receives() {
            self.received.push(now, packet);
        }
    }

    fn handle_rtcp(
        &mut self,
        now: Instant,
        source: SocketAddr,
        bytes: &[u8],
        work: &mut TickWork,
    ) -> DatagramOutcome {
        if !self.latch.is_peer_ip(source.ip()) {
            return DatagramOutcome::Stranger;
        }
        work.packet.clear();
        work.packet.extend_from_slice(bytes);
        if let Some(context) = self.security.receiver()
            && context.unprotect_rtcp(&mut work.packet).is_err()
        {
            return DatagramOutcome::Malformed;
        }
        let Ok(reports) = rtcp::parse(&work.packet) else { return DatagramOutcome::Malformed };
        self.silence.end(now);
        for report in reports {
            if let Report::Sender { info, .. } = report {
                self.receiver.handle_sender_report(now, info.ntp);
            }
        }
        DatagramOutcome::Taken
    }

    /// The first half of a tick: the frame that is due, for every sink.
    pub fn hear(&mut self, now: Instant, work: &mut TickWork, out: &mut impl Outbox) {
        self.hear_frame(now, work, out);
        // Keys and speech of a muted peer are still reported.
        if self.sinks.is_muted {
            self.received.mute();
        }
    }

    fn hear_frame(&mut self, now: Instant, work: &mut TickWork, out: &mut impl Outbox) {
        self.received.clear();
        if !self.needs_audio() {
            if self.received.is_buffered() {
                self.incoming(self.received.incoming);
            }
            return;
        }
        let pulled = self.received.pull(now);
        if !self.needs_samples() {
            return;
        }
        self.received.decode(pulled, work);
        let samples = &self.received.samples;
        if let Some(event) = self.sinks.speech.as_mut().and_then(|speech| speech.handle(samples)) {
            out.event(Event::Speech(event));
        }
        self.digit_receiver
            .handle_samples(samples, |digit| out.event(Event::Digit { digit, by: DigitSource::Tone }));
    }

    /// Both directions are known: the recording and the tap take them.
    pub(super) fn keep(&mut self, work: &mut TickWork, out: &mut impl Outbox) {
        let (heard, said) = (&self.received.samples, &self.sent.samples);
        if self.sinks.is_tapped {
            out.tapped(heard, said);
        }
        let heard = RatedSamples { rate: self.received.rate(), samples: heard };
        let said = RatedSamples { rate: self.negotiated.audio.codec.sample_rate(), samples: said };
        if let Some(recording) = &mut self.sinks.recording
            && recording.add(heard, said, &mut work.scratch)
        {
            out.recorded(&recording.samples);
            recording.samples.clear();
        }
    }
}
