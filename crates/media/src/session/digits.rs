//! Digits in both directions: telephone events (RFC 4733), and tones in the received sound.

use std::collections::VecDeque;

use super::stream::RtpStream;
use crate::events::{Digit, EventOptions, EventPacket, EventReceiver, EventSender};
use crate::rtp::Packet;
use crate::tone::DtmfDetector;

/// Ticks between two digits: Q.24's 40 ms, doubled.
const DIGIT_GAP: u32 = 4;

/// Digits that are sent as events, one after the other.
#[derive(Default)]
pub(super) struct DigitSender {
    /// Digits that have not begun; at most [`crate::limits::DIGITS_OUT`].
    queue: VecDeque<Digit>,
    /// The digit whose packets are being sent.
    sender: Option<EventSender>,
    /// Ticks until the next digit may begin.
    gap: u32,
}

impl DigitSender {
    /// Queues digits behind those that wait.
    pub(super) fn push(&mut self, digits: &[Digit]) {
        self.queue.extend(digits);
    }

    /// Digits that have not begun.
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// True from the first packet of a digit to the last of its end packets.
    pub(super) fn is_sending(&self) -> bool {
        self.sender.is_some()
    }

    /// Counts a tick of the pause behind a digit; false when it is over.
    pub(super) fn pauses(&mut self) -> bool {
        let pauses = self.gap > 0;
        self.gap = self.gap.saturating_sub(1);
        pauses
    }

    /// The next digit that has not begun.
    pub(super) fn pop(&mut self) -> Option<Digit> {
        self.queue.pop_front()
    }

    /// Begins a digit: its packets have the next numbers of the stream, and one timestamp.
    pub(super) fn start(&mut self, digit: Digit, options: EventOptions, stream: &RtpStream) {
        self.sender = Some(EventSender::new(digit, options, stream.ssrc, stream.sequence, stream.timestamp));
    }

    /// This tick's packet of the digit, and the sequence number after it. `None`: the digit is over.
    pub(super) fn next_packet(&mut self) -> Option<(EventPacket, u16)> {
        let packet = self.sender.as_mut().and_then(|sender| {
            let packet = sender.next()?;
            Some((packet, sender.next_sequence()))
        });
        if packet.is_none() {
            self.sender = None;
            self.gap = DIGIT_GAP;
        }
        packet
    }

    pub(super) fn size(&self) -> usize {
        self.queue.capacity()
    }
}

/// Digits of the peer. Once an event came, tones are not listened for; a new receiver begins where events end.
pub(super) struct DigitReceiver {
    events: EventReceiver,
    /// An event came: tones are ignored from then on.
    has_events: bool,
    /// The detector of tones, while they count.
    in_band: Option<Box<DtmfDetector>>,
}

impl DigitReceiver {
    pub(super) fn new() -> DigitReceiver {
        DigitReceiver { events: EventReceiver::new(), has_events: false, in_band: None }
    }

    /// Listens for tones in sound of this rate, or no more.
    pub(super) fn detect_tones(&mut self, rate: Option<u32>) {
        self.in_band = rate.map(|rate| Box::new(DtmfDetector::new(rate)));
    }

    pub(super) fn detects_tones(&self) -> bool {
        self.in_band.is_some()
    }

    /// True once an event came.
    pub(super) fn has_events(&self) -> bool {
        self.has_events
    }

    /// A packet of telephone-event; the digit, with the first packet that shows it.
    pub(super) fn handle_event(&mut self, packet: &Packet<'_>) -> Option<Digit> {
        let digit = self.events.handle(packet);
        self.has_events |= digit.is_some();
        digit
    }

    /// A frame of sound. Ignored once an event came: a gateway may send both forms of a digit.
    pub(super) fn handle_samples(&mut self, samples: &[i16], on_digit: impl FnMut(Digit)) {
        if !self.has_events
            && let Some(detector) = &mut self.in_band
        {
            detector.handle(samples, on_digit);
        }
    }

    pub(super) fn size(&self) -> usize {
        self.in_band.as_ref().map_or(0, |_| size_of::<DtmfDetector>())
    }
}
