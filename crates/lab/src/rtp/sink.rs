//! What arrives for one medium of a call: measured, listened to, compared with a pattern, sent back. Whichever shard reads
//! the socket works here under the lock; the call's own shard asks under the same lock.

use media::codec::{Codec, PayloadType};
use media::events::EventReceiver;
use media::quality::{Receiver, Summary};
use media::rtp::{Packet, is_rtcp};
use parking_lot::Mutex;
use stdx::time::Instant;

/// Digits kept between two checks; a peer that sends more is not listened to further.
const DIGITS: usize = 256;

/// Received media of one call.
#[derive(Default)]
pub(super) struct Sink {
    state: Mutex<Heard>,
}

#[derive(Default)]
pub(super) struct Heard {
    receiver: Option<Receiver>,
    /// Of the other side's SDP, else 101.
    pub(super) event_type: Option<u8>,
    events: EventReceiver,
    /// Since the last check.
    pub(super) digits: String,
    pub(super) digits_total: u64,
    /// `None`: as the port does (`-rtp_echo`).
    pub(super) echo: Option<bool>,
    pub(super) echoed: u64,
    pub(super) pattern: Option<Pattern>,
    /// Datagrams that are neither RTP nor RTCP.
    pub(super) malformed: u64,
}

/// The pattern this call sends and expects back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pattern {
    pub(super) fill: u8,
    pub(super) matched: u64,
    pub(super) mismatched: u64,
}

/// What the reader of the socket does with a datagram that was taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    Nothing,
    SendBack,
}

impl Sink {
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut Heard) -> T) -> T {
        act(&mut self.state.lock())
    }
}

impl Heard {
    /// `bytes` is the whole datagram; `at` when it arrived; `echo` what the port would do. What is sent back is appended
    /// to `out`.
    pub(super) fn handle(&mut self, at: Instant, bytes: &[u8], echo: bool, out: &mut Vec<u8>) -> Then {
        let then = if self.echo.unwrap_or(echo) { Then::SendBack } else { Then::Nothing };
        if then == Then::SendBack {
            out.extend_from_slice(bytes);
        }
        if is_rtcp(bytes) {
            return then;
        }
        let Ok(packet) = Packet::parse(bytes) else {
            self.malformed += 1;
            return Then::Nothing;
        };
        let is_event = self.is_event(&packet);
        if is_event {
            self.hear(&packet);
        } else {
            self.compare(&packet);
        }
        let receiver = self.receiver.get_or_insert_with(|| Receiver::new(codec_of(&packet)));
        receiver.handle(at, &packet, !is_event);
        if then == Then::SendBack {
            self.echoed += 1;
        }
        then
    }

    /// By number; without one in the SDP, 96 (SIPp's) and 101 (everyone's) with the four bytes of an event.
    fn is_event(&self, packet: &Packet<'_>) -> bool {
        match self.event_type {
            Some(number) => packet.payload_type() == number,
            None => matches!(packet.payload_type(), 96 | 101) && packet.payload().len() == 4,
        }
    }

    fn hear(&mut self, packet: &Packet<'_>) {
        if let Some(digit) = self.events.handle(packet) {
            self.digits_total += 1;
            if self.digits.len() < DIGITS {
                self.digits.push(digit.to_char());
            }
        }
    }

    fn compare(&mut self, packet: &Packet<'_>) {
        let Some(pattern) = &mut self.pattern else { return };
        if packet.payload().iter().all(|byte| *byte == pattern.fill) {
            pattern.matched += 1;
        } else {
            pattern.mismatched += 1;
        }
    }

    /// All zero when nothing was received.
    pub(super) fn summary(&self) -> Summary {
        self.receiver.as_ref().map(Receiver::summary).unwrap_or_default()
    }
}

fn codec_of(packet: &Packet<'_>) -> Codec {
    PayloadType::fixed(packet.payload_type()).map_or(Codec::Other, |known| known.codec)
}
