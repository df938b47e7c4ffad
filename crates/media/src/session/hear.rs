//! What comes in: datagrams as they arrive, one frame a tick for whoever listens.

use std::net::SocketAddr;

use stdx::time::Instant;

use super::latch::Verdict;
use super::{By, Event, Handled, MIN_DELAY_MS, MediaSession, Outbox, RecordSource, Recording, Work};
use crate::codec::{Codec, Decoder};
use crate::jitter::{JitterBuffer, Pulled};
use crate::level;
use crate::limits::RECORD_PIECE_MS;
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
        work: &mut Work,
        out: &mut impl Outbox,
    ) -> Handled {
        let handled = if is_rtcp(bytes) {
            self.handle_rtcp(now, source, bytes, work)
        } else {
            self.handle_rtp(now, source, bytes, work, out)
        };
        match handled {
            Handled::Taken => {}
            Handled::Stranger => self.dropped.strangers += 1,
            Handled::Malformed => self.dropped.malformed += 1,
            Handled::Unknown => self.dropped.unknown += 1,
        }
        handled
    }

    fn handle_rtp(
        &mut self,
        now: Instant,
        source: SocketAddr,
        bytes: &[u8],
        work: &mut Work,
        out: &mut impl Outbox,
    ) -> Handled {
        let bytes = match self.security.receiver() {
            None => bytes,
            Some(context) => {
                work.packet.clear();
                work.packet.extend_from_slice(bytes);
                if context.unprotect_rtp(&mut work.packet).is_err() {
                    return Handled::Malformed;
                }
                &work.packet
            }
        };
        let Ok(packet) = Packet::parse(bytes) else { return Handled::Malformed };
        let Some(kind) = self.kind(packet.payload_type()) else { return Handled::Unknown };
        match self.latch.handle(now, source, self.security.is_on()) {
            Verdict::Stranger => return Handled::Stranger,
            Verdict::Latched => out.event(Event::Latched(source)),
            Verdict::Known => {}
        }
        self.silence.end(now);
        let is_audio = !matches!(kind, Codec::TelephoneEvent | Codec::ComfortNoise);
        self.receiver.handle(now, &packet, is_audio);
        match kind {
            Codec::TelephoneEvent => self.handle_event(&packet, out),
            Codec::ComfortNoise => self.concealer.handle_noise(packet.payload()),
            _ => self.handle_audio(now, &packet),
        }
        Handled::Taken
    }

    fn kind(&self, number: u8) -> Option<Codec> {
        let Negotiated { receive, receive_events, comfort_noise, .. } = &self.negotiated;
        if number == self.incoming.number {
            return Some(self.incoming.codec);
        }
        let known = receive_events.iter().chain(receive).find(|one| one.number == number);
        known.map(|one| one.codec).or_else(|| (*comfort_noise == Some(number)).then_some(Codec::ComfortNoise))
    }

    fn handle_event(&mut self, packet: &Packet<'_>, out: &mut impl Outbox) {
        if let Some(digit) = self.event_receiver.handle(packet) {
            self.has_events = true;
            out.event(Event::Digit { digit, by: By::Event });
        }
    }

    fn handle_audio(&mut self, now: Instant, packet: &Packet<'_>) {
        if packet.payload_type() != self.incoming.number
            && let Some(one) = self.negotiated.receive.iter().find(|one| one.number == packet.payload_type())
        {
            self.incoming(*one);
        }
        if !self.needs_audio() || !self.negotiated.direction.receives() {
            return;
        }
        let clock = self.jitter_clock();
        let jitter = self.jitter.get_or_insert_with(|| Box::new(JitterBuffer::new(clock, MIN_DELAY_MS)));
        jitter.push(now, packet);
    }

    fn handle_rtcp(&mut self, now: Instant, source: SocketAddr, bytes: &[u8], work: &mut Work) -> Handled {
        if !self.latch.is_peer_ip(source.ip()) {
            return Handled::Stranger;
        }
        work.packet.clear();
        work.packet.extend_from_slice(bytes);
        if let Some(context) = self.security.receiver()
            && context.unprotect_rtcp(&mut work.packet).is_err()
        {
            return Handled::Malformed;
        }
        let Ok(reports) = rtcp::parse(&work.packet) else { return Handled::Malformed };
        self.silence.end(now);
        for report in reports {
            if let Report::Sender { info, .. } = report {
                self.receiver.handle_sender_report(now, info.ntp);
            }
        }
        Handled::Taken
    }

    /// The first half of a tick: the frame that is due, for every sink.
    pub fn hear(&mut self, now: Instant, work: &mut Work, out: &mut impl Outbox) {
        self.hear_frame(now, work, out);
        // Keys and speech of one who is muted are still his.
        if self.is_muted {
            self.heard.clear();
            self.heard_samples.fill(0);
        }
    }

    fn hear_frame(&mut self, now: Instant, work: &mut Work, out: &mut impl Outbox) {
        self.heard.clear();
        self.heard_samples.clear();
        if !self.needs_audio() {
            if self.jitter.is_some() {
                self.incoming(self.incoming);
            }
            return;
        }
        let pulled = match &mut self.jitter {
            Some(jitter) => jitter.pull(now, &mut self.heard),
            None => Pulled::Silence,
        };
        if !self.needs_samples() {
            return;
        }
        self.decode(pulled, work);
        if let Some(event) = self.speech.as_mut().and_then(|speech| speech.handle(&self.heard_samples)) {
            out.event(Event::Speech(event));
        }
        if !self.has_events
            && let Some(detector) = &mut self.in_band
        {
            detector.handle(&self.heard_samples, |digit| out.event(Event::Digit { digit, by: By::Tone }));
        }
    }

    /// Exactly one frame into `heard_samples`.
    fn decode(&mut self, pulled: Pulled, work: &mut Work) {
        let frame = self.frame();
        if self.decoder.is_none() {
            self.decoder = Decoder::new(self.incoming.codec).ok();
        }
        if let (Pulled::Frame { .. }, Some(decoder)) = (pulled, &mut self.decoder) {
            // What does not decode is concealed below.
            let _ = decoder.decode(&self.heard, &mut self.decoded);
            work.payload.clear();
            while self.jitter.as_mut().is_some_and(|jitter| jitter.pull_more(&mut work.payload)) {
                let _ = decoder.decode(&work.payload, &mut self.decoded);
                work.payload.clear();
            }
        }
        if self.decoded.len() >= frame {
            self.heard_samples.extend(self.decoded.drain(..frame));
            // The longest packet has six frames: more than one waiting is a sender in a hurry.
            self.decoded.truncate(6 * frame);
            self.concealer.handle(&self.heard_samples);
            return;
        }
        self.heard_samples.append(&mut self.decoded);
        let missing = frame - self.heard_samples.len();
        match pulled {
            Pulled::Silence => self.concealer.silence(missing, &mut self.heard_samples),
            _ => self.concealer.conceal(missing, &mut self.heard_samples),
        }
    }

    /// Both directions are known: the recording and the tap take them.
    pub(super) fn keep(&mut self, work: &mut Work, out: &mut impl Outbox) {
        if self.is_tapped {
            out.tapped(&self.heard_samples, &self.said);
        }
        let (heard_rate, said_rate) = (self.rate(), self.negotiated.audio.codec.sample_rate());
        let Some(recording) = &mut self.recording else { return };
        let Recording { source, rate, samples, heard, said } = recording;
        let heard = heard.convert(heard_rate, *rate, &self.heard_samples, &mut work.samples);
        let said = said.convert(said_rate, *rate, &self.said, &mut work.resampled);
        let start = samples.len();
        let mut channels = 1;
        match source {
            RecordSource::Heard => samples.extend_from_slice(heard),
            RecordSource::Both => {
                samples.extend_from_slice(heard);
                level::add(&mut samples[start..], said);
            }
            RecordSource::Dual => {
                let said = said.iter().copied().chain(std::iter::repeat(0));
                samples.extend(heard.iter().zip(said).flat_map(|(heard, said)| [*heard, said]));
                channels = 2;
            }
        }
        if samples.len() >= channels * (*rate * RECORD_PIECE_MS / 1000) as usize {
            out.recorded(samples);
            samples.clear();
        }
    }
}
