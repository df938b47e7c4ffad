//! Received packets of one medium of a call: measured, decoded, compared with a pattern, sent back. The shard that
//! reads the socket calls this under the lock; the call's own shard queries it under the same lock.
//!
//! The order for each packet: SRTP is taken off, then it is measured (loss, jitter), taken for an event or compared with the pattern, perhaps
//! listened to for digits, and sent back where an echo is on.

use media::codec::{Codec, Decoder, PayloadType};
use media::events::{Digit, EventReceiver};
use media::quality::{Receiver, Summary};
use media::rtp::{Packet, is_rtcp};
use media::tone::DtmfDetector;
use parking_lot::Mutex;
use stdx::time::Instant;

use super::ReceivedMedia;
use super::crypto::CryptoSession;

/// Digits kept between two checks; a peer that sends more is not listened to further.
const DIGITS: usize = 256;

/// Received media of one call.
#[derive(Default)]
pub(super) struct MediaReceiver {
    state: Mutex<ReceivedStream>,
}

/// The packets received for one medium of a call, and their measures.
#[derive(Default)]
pub(super) struct ReceivedStream {
    /// From the first packet on.
    receiver: Option<Box<Receiver>>,
    /// The figures for `<rtp_stats>`.
    pub(super) seen: ReceivedMedia,
    /// The first packet is kept in `seen`.
    pub(super) keeps_first: bool,
    /// Payload types of events besides the SDP's, a bit each.
    pub(super) event_types: u128,
    /// A payload type that a stream of this call gave a meaning.
    pub(super) agreed: Option<(u8, Codec)>,
    /// From the other side's SDP: dynamic payload types.
    pub(super) mapped: Vec<(u8, Codec)>,
    /// From the other side's SDP.
    pub(super) event_type: Option<u8>,
    /// Puts the packets of an event together to one digit.
    events: EventReceiver,
    /// The sender uses events; its sound is not listened to any more.
    events_heard: bool,
    /// Since the last check.
    pub(super) digits: String,
    /// Since the call began, each with the payload type of its event.
    event_digits: Vec<(u8, char)>,
    /// Digits since the call began, for the report.
    pub(super) digits_total: u64,
    /// Digits as sound are listened for; it costs more than all else, so only where a scenario asks for digits.
    pub(super) wants_tones: bool,
    /// Made with the first sound that is listened to.
    tones: Option<Box<Tones>>,
    /// `None`: as the port does (`-rtp_echo`).
    pub(super) echo: Option<bool>,
    /// Packets sent back.
    pub(super) echoed: u64,
    pub(super) pattern: Option<EchoedPattern>,
    /// SRTP, once both sides named their keys.
    pub(super) session: Option<Box<CryptoSession>>,
    /// Packets that SRTP refused.
    pub(super) refused: u64,
    /// One packet on its way out of SRTP.
    scratch: Vec<u8>,
}

/// Listens for digits in sound.
struct Tones {
    /// For the codec of the first packet.
    decoder: Decoder,
    /// Finds the two tones of a digit in samples.
    detector: DtmfDetector,
    /// The samples of one packet.
    samples: Vec<i16>,
}

/// The pattern this call sends and expects back.
#[derive(Debug, Clone, Copy)]
pub(super) struct EchoedPattern {
    /// The byte that every payload consists of.
    pub(super) fill: u8,
    /// Packets that came back unchanged.
    pub(super) matched: u64,
    /// Packets that came back changed.
    pub(super) mismatched: u64,
}

/// The action of the socket's reader for a received datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReceiveAction {
    /// The datagram is done with.
    Nothing,
    /// The bytes in `out` go back to the sender.
    SendBack,
}

impl MediaReceiver {
    /// Runs `act` under the lock. Kept short: the socket's reader waits for it.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut ReceivedStream) -> T) -> T {
        act(&mut self.state.lock())
    }
}

impl ReceivedStream {
    /// `bytes` is the whole datagram; `at` its time of arrival; `echo` the port's own action. Bytes to send
    /// back are appended to `out`.
    pub(super) fn handle(
        &mut self,
        at: Instant,
        bytes: &[u8],
        echo: bool,
        out: &mut Vec<u8>,
    ) -> ReceiveAction {
        let echo = self.echo.unwrap_or(echo);
        let Some(mut session) = self.session.take() else {
            self.measure(at, bytes);
            return self.send_back(echo, bytes, out);
        };
        let mut plain = std::mem::take(&mut self.scratch);
        plain.clear();
        plain.extend_from_slice(bytes);
        let mut then = ReceiveAction::Nothing;
        if session.unprotect(&mut plain).is_ok() {
            self.measure(at, &plain);
            // An echo is encrypted under our own key, not sent back as it came.
            if echo && session.protect(&mut plain).is_ok() {
                then = self.send_back(true, &plain, out);
            }
        } else {
            self.refused += 1;
        }
        self.scratch = plain;
        self.session = Some(session);
        then
    }

    /// RTCP is sent back too, and not counted as media.
    fn send_back(&mut self, echo: bool, bytes: &[u8], out: &mut Vec<u8>) -> ReceiveAction {
        if !echo {
            return ReceiveAction::Nothing;
        }
        out.extend_from_slice(bytes);
        self.echoed += u64::from(!is_rtcp(bytes));
        ReceiveAction::SendBack
    }

    /// Counts and measures one packet in the clear.
    fn measure(&mut self, at: Instant, bytes: &[u8]) {
        if is_rtcp(bytes) {
            return;
        }
        // A datagram that is no RTP is not measured: a requirement of packets misses it.
        let Ok(packet) = Packet::parse(bytes) else { return };
        self.seen.packets += 1;
        if self.keeps_first && self.seen.first.is_none() {
            self.seen.first = Some((packet.payload_type(), packet.payload().into()));
        }
        let is_event = self.is_event(&packet);
        if is_event {
            self.hear(&packet);
        } else {
            self.compare(&packet);
        }
        if self.wants_tones && !is_event {
            self.listen(&packet);
        }
        let codec = self.codec_of(&packet);
        let receiver = self.receiver.get_or_insert_with(|| Box::new(Receiver::new(codec)));
        receiver.handle(at, &packet, !is_event);
    }

    /// By number; without one in the SDP, 96 (SIPp's) and 101 (the usual one) with the four bytes of an event.
    fn is_event(&self, packet: &Packet<'_>) -> bool {
        if self.event_types & 1 << packet.payload_type() != 0 {
            return true;
        }
        match self.event_type {
            Some(number) => packet.payload_type() == number,
            None => matches!(packet.payload_type(), 96 | 101) && packet.payload().len() == 4,
        }
    }

    /// An event: a digit is told once, however many packets its event has.
    fn hear(&mut self, packet: &Packet<'_>) {
        if let Some(digit) = self.events.handle(packet) {
            self.events_heard = true;
            self.note(digit);
            if self.event_digits.len() < DIGITS {
                self.event_digits.push((packet.payload_type(), digit.to_char()));
            }
        }
    }

    /// The digits of the events with this payload type, since the call began.
    pub(super) fn digits_of(&self, payload_type: u8) -> String {
        let of_type = self.event_digits.iter().filter(|(known, _)| *known == payload_type);
        of_type.map(|(_, digit)| digit).collect()
    }

    /// Sound that does not decode has no digits. A sender of events has its digits there, and hears its own tones here.
    fn listen(&mut self, packet: &Packet<'_>) {
        if self.events_heard {
            return;
        }
        if self.tones.is_none() {
            self.tones = Tones::new(self.codec_of(packet)).map(Box::new);
        }
        let Some(mut tones) = self.tones.take() else { return };
        tones.samples.clear();
        if tones.decoder.decode(packet.payload(), &mut tones.samples).is_ok() {
            tones.detector.handle(&tones.samples, |digit| self.note(digit));
        }
        self.tones = Some(tones);
    }

    /// A digit, as an event or as sound.
    fn note(&mut self, digit: Digit) {
        self.digits_total += 1;
        if self.digits.len() < DIGITS {
            self.digits.push(digit.to_char());
        }
    }

    /// Compares a payload with the pattern, if the call sends one.
    fn compare(&mut self, packet: &Packet<'_>) {
        let Some(pattern) = &mut self.pattern else { return };
        if packet.payload().iter().all(|byte| *byte == pattern.fill) {
            pattern.matched += 1;
        } else {
            pattern.mismatched += 1;
        }
    }

    /// The codec of a payload type: as this call has sent it, as the SDP maps it, or by its fixed number (RFC 3551 §6).
    fn codec_of(&self, packet: &Packet<'_>) -> Codec {
        let number = packet.payload_type();
        let agreed = self.agreed.filter(|(known, _)| *known == number).map(|(_, codec)| codec);
        let mapped = || self.mapped.iter().find(|(known, _)| *known == number).map(|(_, codec)| *codec);
        agreed
            .or_else(mapped)
            .or_else(|| PayloadType::fixed(number).map(|known| known.codec))
            .unwrap_or(Codec::Other)
    }

    /// All zero when nothing was received.
    pub(super) fn summary(&self) -> Summary {
        self.receiver.as_ref().map(|receiver| receiver.summary()).unwrap_or_default()
    }
}

impl Tones {
    /// `None` for a codec that cannot be decoded.
    fn new(codec: Codec) -> Option<Tones> {
        let decoder = Decoder::new(codec).ok()?;
        Some(Tones { decoder, detector: DtmfDetector::new(codec.sample_rate()), samples: Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dynamic_type_has_the_codec_that_the_other_side_named() {
        let bytes = [0x80, 97, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0xff];
        let packet = Packet::parse(&bytes).expect("a packet");
        let mut received = ReceivedStream::default();
        assert_eq!(received.codec_of(&packet), Codec::Other);
        received.mapped = vec![(96, Codec::G722), (97, Codec::Opus)];
        assert_eq!(received.codec_of(&packet), Codec::Opus);
        // The scenario's own setting comes first.
        received.agreed = Some((97, Codec::Pcma));
        assert_eq!(received.codec_of(&packet), Codec::Pcma);
    }

    fn rtp(payload_type: u8, sequence: u16, timestamp: u32, payload: &[u8]) -> Vec<u8> {
        let header = media::rtp::Header {
            payload_type,
            sequence,
            timestamp,
            ssrc: 7,
            ..media::rtp::Header::default()
        };
        let mut bytes = Vec::new();
        header.write(payload, &mut bytes);
        bytes
    }

    /// `<rtp_stats>` and `<rtp_dtmf>`: the SDP names 101, the scenario 96 as well.
    #[test]
    fn the_first_packet_is_kept_and_digits_are_told_apart_by_payload_type() {
        let mut received = ReceivedStream {
            event_type: Some(101),
            event_types: 1 << 96,
            keeps_first: true,
            ..Default::default()
        };
        let mut take = |bytes: &[u8]| received.handle(Instant::default(), bytes, false, &mut Vec::new());
        take(&rtp(8, 1, 160, &[0xd5, 0x0a]));
        take(&rtp(8, 2, 320, &[1; 160]));
        // RFC 4733 §2.3: digit 5, then 9 with its end told thrice; and 7 by the type of the SDP.
        take(&rtp(96, 3, 480, &[5, 10, 0, 160]));
        for sequence in 4..7 {
            take(&rtp(96, sequence, 960, &[9, 0x8a, 1, 0x40]));
        }
        take(&rtp(101, 7, 1_600, &[7, 10, 0, 160]));
        assert_eq!(received.seen, ReceivedMedia { packets: 7, first: Some((8, [0xd5, 0x0a].into())) });
        assert_eq!((received.digits_of(96), received.digits_of(101)), ("59".to_owned(), "7".to_owned()));
        assert_eq!((received.digits_of(8), received.digits.as_str()), (String::new(), "597"));
    }
}
