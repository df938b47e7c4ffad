//! Telephone events (RFC 4733): digits sent as packets and heard from packets.

use crate::rtp::{Header, Packet};

/// A DTMF digit: events 0 to 15 (RFC 4733 §3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digit(u8);

impl Digit {
    /// The key `*`, event 10 (RFC 4733 §3.2).
    pub const STAR: Digit = Digit(10);
    /// The key `#`, event 11.
    pub const POUND: Digit = Digit(11);

    /// The digit of an event code 0 to 15 (RFC 4733 §3.2); `None` for other events.
    pub fn from_event(event: u8) -> Option<Digit> {
        (event < 16).then_some(Digit(event))
    }

    /// `0`-`9`, `*`, `#`, `A`-`D` in either case.
    pub fn from_char(char: char) -> Option<Digit> {
        let event = "0123456789*#ABCD".find(char.to_ascii_uppercase())?;
        u8::try_from(event).ok().map(Digit)
    }

    /// The event code, 0 to 15.
    pub fn event(self) -> u8 {
        self.0
    }

    /// The digit as a character: `0`-`9`, `*`, `#`, `A`-`D`.
    pub fn to_char(self) -> char {
        char::from(b"0123456789*#ABCD"[usize::from(self.0)])
    }
}

/// The options for sending a digit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventOptions {
    /// The negotiated number of telephone-event.
    pub payload_type: u8,
    /// The clock rate of the timestamp: 8000, 16000 or 48000 as the rtpmap says, in Hz.
    pub clock_rate: u32,
    /// Milliseconds of the key held down. Cut where its field ends: 65535 units of the clock.
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

/// The last packet is sent this often (RFC 4733 §2.5.1.4).
const END_PACKETS: u32 = 3;
/// The E bit (RFC 4733 §2.3.2).
const END: u8 = 0x80;
/// A segment of a long event ends with the duration field at its end (RFC 4733 §2.5.1.3). The last packets before that may be
/// lost: a third of a second at 48 kHz, two seconds at 8 kHz.
const LONG: u16 = 0xc000;
/// Units by which the begin of the next segment may be off: 20 ms at 48 kHz.
const SEGMENT_SLACK: u32 = 960;

/// One packet of a digit, to be sent `offset_ms` after the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventPacket {
    /// Milliseconds from the begin of the event to the packet.
    pub offset_ms: u32,
    /// The RTP header; all packets of an event have its timestamp (RFC 4733 §2.2.1).
    pub header: Header,
    /// Event, E bit and volume, duration (RFC 4733 §2.3).
    pub payload: [u8; 4],
}

/// Sends one digit: an iterator of its packets, the end three times, each with its own sequence number.
#[derive(Debug, Clone)]
pub struct EventSender {
    digit: Digit,
    options: EventOptions,
    ssrc: u32,
    sequence: u16,
    /// The begin of the event; all its packets have it (RFC 4733 §2.2.1).
    timestamp: u32,
    /// Packets sent so far, the three end packets included.
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

    /// Packets while the key is down, the first end not among them.
    fn held(&self) -> u32 {
        self.options.duration_ms.saturating_sub(1) / self.options.interval_ms.max(1)
    }
}

impl Iterator for EventSender {
    type Item = EventPacket;

    fn next(&mut self) -> Option<EventPacket> {
        let held = self.held();
        if self.sent >= held + END_PACKETS {
            return None;
        }
        let interval = self.options.interval_ms.max(1);
        let ended = self.sent >= held;
        // A packet tells of the time up to itself: the first goes out when one interval is over.
        let lasted_ms = if ended { self.options.duration_ms } else { (self.sent + 1) * interval };
        let units = u64::from(lasted_ms) * u64::from(self.options.clock_rate) / 1000;
        let [high, low] = u16::try_from(units).unwrap_or(u16::MAX).to_be_bytes();
        let end = if ended { END } else { 0 };
        let packet = EventPacket {
            offset_ms: self.sent * interval,
            header: Header {
                marker: self.sent == 0,
                payload_type: self.options.payload_type,
                sequence: self.sequence,
                timestamp: self.timestamp,
                ssrc: self.ssrc,
            },
            payload: [self.digit.event(), end | self.options.volume.min(63), high, low],
        };
        self.sent += 1;
        self.sequence = self.sequence.wrapping_add(1);
        Some(packet)
    }
}

/// Hears the digits of one stream's event packets, also where packets are lost, late or sent twice.
#[derive(Debug, Clone, Default)]
pub struct EventReceiver {
    /// The event that was reported last; its other packets are repetitions.
    current: Option<ReceivedEvent>,
}

/// The event last told, or its last segment.
#[derive(Debug, Clone, Copy)]
struct ReceivedEvent {
    ssrc: u32,
    timestamp: u32,
    digit: Digit,
    /// The sequence number of the packet that began it.
    sequence: u16,
    /// The longest duration so far.
    duration: u16,
    /// A packet with the E bit came: the same key again is another press.
    ended: bool,
}

impl EventReceiver {
    /// A receiver that has seen no event.
    pub fn new() -> EventReceiver {
        EventReceiver::default()
    }

    /// A packet of the telephone-event payload type. A digit is told once, with the first packet that shows it,
    /// whatever its duration; `None` also for events that are no digits and payloads that are no events.
    pub fn handle(&mut self, packet: &Packet<'_>) -> Option<Digit> {
        let &[event, flags, high, low, ..] = packet.payload() else { return None };
        let digit = Digit::from_event(event)?;
        let ended = flags & END != 0;
        let duration = u16::from_be_bytes([high, low]);
        let mut is_press = true;
        if let Some(current) = &mut self.current {
            is_press = begins(current, packet, digit);
            if !is_press && current.timestamp == packet.timestamp() {
                current.ended |= ended;
                current.duration = current.duration.max(duration);
            }
            if !is_press && !continues(current, packet, digit) {
                return None;
            }
        }
        self.current = Some(ReceivedEvent {
            ssrc: packet.ssrc(),
            timestamp: packet.timestamp(),
            digit,
            sequence: packet.sequence(),
            duration,
            ended,
        });
        is_press.then_some(digit)
    }
}

/// True if a packet is the first of another event than `current`.
fn begins(current: &ReceivedEvent, packet: &Packet<'_>, digit: Digit) -> bool {
    if packet.ssrc() != current.ssrc {
        return true;
    }
    if packet.timestamp() == current.timestamp {
        // COMPAT(SIPp): a capture played again repeats SSRC, timestamp and even the sequence numbers. After an end, a
        // marker is a new press; before it, the marker is the first packet twice. Another digit is always new.
        return digit != current.digit || packet.marker() && current.ended;
    }
    // COMPAT(SIPp): its captures share one timestamp, so a marker begins an event even with an older one.
    if packet.marker() {
        return true;
    }
    // RFC 4733 §2.5.1.4: the ends are sent three times, and one of them may come after the next event began.
    let older = (packet.timestamp().wrapping_sub(current.timestamp) as i32) < 0;
    let late = (packet.sequence().wrapping_sub(current.sequence) as i16) < 0;
    !(older && late || continues(current, packet, digit))
}

/// True if a packet is of the next segment of the same event, whose key is held for longer than the duration field can say.
/// RFC 4733 §2.5.1.3: the segment has no marker, and its timestamp is the time at which the previous one ended.
fn continues(current: &ReceivedEvent, packet: &Packet<'_>, digit: Digit) -> bool {
    let behind = packet.timestamp().wrapping_sub(current.timestamp);
    let ends = u32::from(current.duration)..=u32::from(u16::MAX) + SEGMENT_SLACK;
    let is_long = !current.ended && current.duration >= LONG && ends.contains(&behind);
    is_long && !packet.marker() && digit == current.digit && packet.ssrc() == current.ssrc
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pcap::{Capture, dtmf_capture};

    fn packets(sender: EventSender) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        for packet in sender {
            let mut bytes = Vec::new();
            packet.header.write(&packet.payload, &mut bytes);
            all.push(bytes);
        }
        all
    }

    fn digits_of<'a>(receiver: &mut EventReceiver, packets: impl IntoIterator<Item = &'a [u8]>) -> String {
        let mut digits = String::new();
        for bytes in packets {
            digits.extend(receiver.handle(&Packet::parse(bytes).unwrap()).map(Digit::to_char));
        }
        digits
    }

    fn digit(char: char) -> Digit {
        Digit::from_char(char).unwrap()
    }

    #[test]
    fn a_digit_is_packets_that_grow_and_three_ends() {
        let sender = EventSender::new(digit('#'), EventOptions::default(), 7, 65_534, 1000);
        let all: Vec<_> = sender.clone().collect();
        let durations: Vec<_> =
            all.iter().map(|one| u16::from_be_bytes([one.payload[2], one.payload[3]])).collect();
        assert_eq!(durations, [160, 320, 480, 640, 800, 960, 1120, 1280, 1280, 1280]);
        let sequences: Vec<_> = all.iter().map(|one| one.header.sequence).collect();
        assert_eq!(sequences, [65_534, 65_535, 0, 1, 2, 3, 4, 5, 6, 7]);
        for (index, one) in all.iter().enumerate() {
            assert_eq!(one.offset_ms, 20 * index as u32);
            assert_eq!(one.header.marker, index == 0);
            assert_eq!((one.header.timestamp, one.header.ssrc), (1000, 7));
            assert_eq!(one.payload[..2], [11, if index >= 7 { 0x8a } else { 0x0a }]);
        }
        let mut spent = sender;
        spent.by_ref().for_each(drop);
        assert_eq!(spent.next_sequence(), 8);
    }

    #[test]
    fn durations_count_the_clock_of_the_rtpmap_and_stop_at_their_field() {
        let last = |clock_rate, duration_ms| {
            let options = EventOptions { clock_rate, duration_ms, ..EventOptions::default() };
            let last = EventSender::new(digit('1'), options, 0, 0, 0).last().unwrap();
            u16::from_be_bytes([last.payload[2], last.payload[3]])
        };
        assert_eq!(last(8_000, 100), 800);
        assert_eq!(last(16_000, 100), 1_600);
        assert_eq!(last(48_000, 100), 4_800);
        assert_eq!(last(48_000, 2_000), 65_535);
        assert_eq!(last(8_000, 0), 0);
    }

    #[test]
    fn the_same_capture_thrice_is_three_digits() {
        let capture = Capture::parse(&dtmf_capture(digit('5'))).unwrap();
        let mut receiver = EventReceiver::new();
        for _ in 0..3 {
            assert_eq!(digits_of(&mut receiver, capture.iter().map(|(_, bytes)| bytes)), "5");
        }
    }

    #[test]
    fn a_repeated_first_packet_is_one_press() {
        let all = packets(EventSender::new(digit('9'), EventOptions::default(), 1, 1, 1));
        let order = [0, 0, 1, 2, 9, 9].map(|index: usize| all[index].as_slice());
        assert_eq!(digits_of(&mut EventReceiver::new(), order), "9");
    }

    #[test]
    fn a_late_end_of_the_digit_before_is_not_a_digit() {
        let first = packets(EventSender::new(digit('1'), EventOptions::default(), 1, 1, 1000));
        let second = packets(EventSender::new(digit('2'), EventOptions::default(), 1, 11, 3000));
        let order = first[..9].iter().chain(&second[..2]).chain(&first[9..]).chain(&second[2..]);
        assert_eq!(digits_of(&mut EventReceiver::new(), order.map(Vec::as_slice)), "12");
    }

    #[test]
    fn two_presses_of_one_key_with_all_ends_lost_are_two() {
        let mut order = packets(EventSender::new(digit('4'), EventOptions::default(), 1, 1, 1000));
        order.truncate(3);
        // The second press lost its marker too: its timestamp alone tells.
        order
            .extend(packets(EventSender::new(digit('4'), EventOptions::default(), 1, 11, 4000)).split_off(1));
        assert_eq!(digits_of(&mut EventReceiver::new(), order.iter().map(Vec::as_slice)), "44");
    }

    /// A key held for so many milliseconds, a packet each 20 ms: RFC 4733 §2.5.1.3.
    fn held(char: char, clock_rate: u32, ms: u32) -> Vec<Vec<u8>> {
        let (begin, mut segment, mut sequence, mut all) = (u32::MAX - 30_000, 0, 65_500_u16, Vec::new());
        let mut add = |segment: u32, end: u8, duration: u32| {
            let [high, low] = u16::try_from(duration).unwrap().to_be_bytes();
            let timestamp = begin.wrapping_add(segment);
            let marker = all.is_empty();
            let header = Header { marker, payload_type: 101, sequence, timestamp, ssrc: 1 };
            let mut bytes = Vec::new();
            header.write(&[digit(char).event(), end | 10, high, low], &mut bytes);
            all.push(bytes);
            sequence = sequence.wrapping_add(1);
        };
        for at in 1..=ms / 20 {
            let units = at * clock_rate / 50;
            if units - segment > 65_535 {
                add(segment, 0, 65_535);
                segment += 65_535;
            }
            add(segment, 0, units - segment);
        }
        (0..3).for_each(|_| add(segment, END, ms * (clock_rate / 1_000) - segment));
        all
    }

    #[test]
    fn a_key_held_for_longer_than_the_duration_field_is_one_press() {
        for (clock_rate, ms) in [(48_000, 1_400), (48_000, 2_000), (48_000, 8_000), (8_000, 30_000)] {
            let all = held('5', clock_rate, ms);
            let all: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
            assert_eq!(digits_of(&mut EventReceiver::new(), all.iter().copied()), "5", "{clock_rate} {ms}");
            // Every seventh packet is lost, and every fifth comes behind the next one.
            for first in 0..7 {
                let kept = all.iter().copied().enumerate().filter(|(at, _)| at % 7 != first);
                let mut kept: Vec<&[u8]> = kept.map(|(_, bytes)| bytes).collect();
                kept.chunks_exact_mut(5).skip(1).for_each(|five| five.swap(3, 4));
                assert_eq!(digits_of(&mut EventReceiver::new(), kept), "5", "{clock_rate} {ms} {first}");
            }
        }
    }

    #[test]
    fn two_long_presses_of_one_key_are_two() {
        let (first, mut receiver) = (held('5', 48_000, 1_340), EventReceiver::new());
        assert_eq!(digits_of(&mut receiver, first.iter().map(Vec::as_slice)), "5");
        // The ends have come: a segment never follows them.
        let next = |marker, digit: char| {
            let header = Header {
                marker,
                payload_type: 101,
                sequence: 100,
                timestamp: (u32::MAX - 30_000).wrapping_add(65_535),
                ssrc: 1,
            };
            let mut bytes = Vec::new();
            header.write(&[self::digit(digit).event(), 10, 3, 192], &mut bytes);
            bytes
        };
        assert_eq!(digits_of(&mut receiver.clone(), [&next(false, '5')[..]]), "5");
        // Without the ends, the marker tells, or another key.
        let mut receiver = EventReceiver::new();
        digits_of(&mut receiver, first[..first.len() - 3].iter().map(Vec::as_slice));
        for (marker, digit, pressed) in [(true, '5', "5"), (false, '6', "6"), (false, '5', "")] {
            assert_eq!(digits_of(&mut receiver.clone(), [&next(marker, digit)[..]]), pressed);
        }
    }

    #[test]
    fn a_restarted_sender_is_heard_at_once() {
        let mut order = packets(EventSender::new(digit('4'), EventOptions::default(), 1, 500, 90_000));
        order.extend(packets(EventSender::new(digit('4'), EventOptions::default(), 2, 3, 10)));
        assert_eq!(digits_of(&mut EventReceiver::new(), order.iter().map(Vec::as_slice)), "44");
    }

    #[test]
    fn events_that_are_no_digits_are_ignored() {
        let mut receiver = EventReceiver::new();
        for payload in [&[][..], &[5, 0, 0], &[16, 0, 0, 160], &[255, 0x80, 0, 160]] {
            let mut bytes = Vec::new();
            Header { marker: true, payload_type: 101, ..Header::default() }.write(payload, &mut bytes);
            assert_eq!(receiver.handle(&Packet::parse(&bytes).unwrap()), None, "{payload:?}");
        }
    }

    #[test]
    fn digits_have_their_letters() {
        for event in 0..16 {
            let one = Digit::from_event(event).unwrap();
            assert_eq!(Digit::from_char(one.to_char()), Some(one));
        }
        assert_eq!(digit('d').event(), 15);
        assert_eq!(Digit::from_event(16), None);
        assert_eq!(Digit::from_char('E'), None);
        assert_eq!(Digit::from_char('é'), None);
    }

    proptest! {
        /// One packet of each digit is enough, whichever it is.
        #[test]
        fn any_one_packet_of_each_is_enough(keys in "[0-9*#]{1,12}", kept in prop::collection::vec(0_usize..10, 12)) {
            let mut receiver = EventReceiver::new();
            let mut digits = String::new();
            for (index, key) in keys.chars().enumerate() {
                let at = index as u32;
                let sender =
                    EventSender::new(digit(key), EventOptions::default(), 9, 65_500 + 10 * at as u16 % 30, 4000 * at);
                let all = packets(sender);
                digits += &digits_of(&mut receiver, [all[kept[index]].as_slice()]);
            }
            prop_assert_eq!(digits, keys);
        }
    }
}
