//! Legs in virtual time: sound of one arrives at the other, unless the test loses it.

mod packet_times;
mod renegotiated;

use proptest::prelude::*;

use super::*;
use crate::codec::PayloadType;
use crate::limits::DIGITS_OUT;
use crate::pcap::{Capture, dtmf_capture};
use crate::prompt::PromptFrame;
use crate::rtcp::{self, Report};
use crate::rtp::{Header, Packet};
use crate::srtp::{CryptoLine, Suite};
use crate::tone::tone;

const START: Instant = Instant::from_unix_seconds(1_700_000_000);
const CODECS: [Codec; 4] = [Codec::Pcmu, Codec::Pcma, Codec::G722, Codec::Opus];

#[derive(Default)]
struct Out {
    rtp: Vec<(SocketAddr, Vec<u8>)>,
    rtcp: Vec<(SocketAddr, Vec<u8>)>,
    events: Vec<MediaEvent>,
    recorded: Vec<i16>,
    pieces: usize,
    tapped: (Vec<i16>, Vec<i16>),
}

impl MediaOutbox for Out {
    fn rtp(&mut self, to: SocketAddr, packet: &[u8]) {
        self.rtp.push((to, packet.to_vec()));
    }

    fn rtcp(&mut self, to: SocketAddr, packet: &[u8]) {
        self.rtcp.push((to, packet.to_vec()));
    }

    fn event(&mut self, event: MediaEvent) {
        self.events.push(event);
    }

    fn recorded(&mut self, samples: &[i16]) {
        self.recorded.extend_from_slice(samples);
        self.pieces += 1;
    }

    fn tapped(&mut self, received: &[i16], sent_by_leg: &[i16]) {
        self.tapped.0.extend_from_slice(received);
        self.tapped.1.extend_from_slice(sent_by_leg);
    }
}

impl Out {
    fn digits(&self) -> String {
        let digit = |event: &MediaEvent| {
            if let MediaEvent::Digit { digit, .. } = event { Some(digit.to_char()) } else { None }
        };
        self.events.iter().filter_map(digit).collect()
    }

    fn headers(&self) -> Vec<Header> {
        self.rtp.iter().map(|(_, bytes)| Packet::parse(bytes).unwrap().header()).collect()
    }
}

fn time(ms: u64) -> Instant {
    START + Duration::from_millis(ms)
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

const PEER: &str = "127.0.0.2:6000";

fn payload_type(codec: Codec) -> PayloadType {
    let opus = PayloadType { number: 96, codec, clock_rate: 48_000, channels: 2 };
    [0, 8, 9].into_iter().filter_map(PayloadType::fixed).find(|one| one.codec == codec).unwrap_or(opus)
}

fn negotiated(codec: Codec, has_events: bool) -> Negotiated {
    let audio = payload_type(codec);
    let events =
        PayloadType { number: 101, codec: Codec::TelephoneEvent, clock_rate: audio.clock_rate, channels: 1 };
    let events = has_events.then_some(events);
    Negotiated {
        audio,
        receive: vec![audio],
        events,
        receive_events: events.into_iter().collect(),
        comfort_noise: Some(13),
        ptime_ms: 20,
        direction: crate::sdp::Direction::SendRecv,
        held: false,
        remote: Some(address(PEER)),
        remote_rtcp: Some(address("127.0.0.2:6001")),
        rtcp_mux: false,
        srtp: None,
    }
}

fn leg(codec: Codec) -> MediaSession {
    MediaSession::new(negotiated(codec, true), 0x1234_5678_9abc_def0, None).unwrap()
}

fn ticks(leg: &mut MediaSession, ticks: std::ops::Range<u64>, out: &mut Out) {
    let mut work = TickWork::default();
    ticks.for_each(|tick| leg.tick(time(20 * tick), &mut work, out));
}

/// One leg says, the other hears what `passes` of its packets.
fn talk(
    sender: &mut MediaSession,
    receiver: &mut MediaSession,
    count: u64,
    passes: impl Fn(usize) -> bool,
) -> (Out, Out) {
    let (mut sent_by_leg, mut received, mut work, mut sent) =
        (Out::default(), Out::default(), TickWork::default(), 0);
    for tick in 0..count {
        sender.tick(time(20 * tick), &mut work, &mut sent_by_leg);
        for (_, bytes) in &sent_by_leg.rtp[sent..] {
            if passes(sent) {
                let handled = receiver.handle_packet(
                    time(20 * tick + 5),
                    address(PEER),
                    bytes,
                    &mut work,
                    &mut received,
                );
                assert_eq!(handled, DatagramOutcome::Taken);
            }
            sent += 1;
        }
        receiver.tick(time(20 * tick + 10), &mut work, &mut received);
    }
    (sent_by_leg, received)
}

/// The level of a frequency and of all else, in samples.
fn levels(samples: &[i16], rate: u32, frequency: f64) -> (f64, f64) {
    let (re, im, power) =
        samples.iter().enumerate().fold((0.0, 0.0, 0.0), |(re, im, power), (at, sample)| {
            let turn = std::f64::consts::TAU * frequency * at as f64 / f64::from(rate);
            let value = f64::from(*sample);
            (re + value * turn.cos(), im + value * turn.sin(), power + value * value)
        });
    let count = samples.len() as f64;
    let level = f64::hypot(re, im) * 2.0 / count;
    (level, f64::max(power / count - level * level / 2.0, 0.0).sqrt())
}

fn tone_prompt(codec: Codec, ms: u32) -> Prompt {
    Prompt::encode(codec, &tone(500.0, 8_000, 8_000, ms), 8_000).unwrap()
}

#[test]
fn a_prompt_is_a_packet_a_tick_and_reports_its_end() {
    for codec in CODECS {
        let (mut leg, mut out) = (leg(codec), Out::default());
        let prompt = tone_prompt(codec, 100);
        assert_eq!(leg.play(prompt.clone(), PlayOptions { loops: Some(2), ..PlayOptions::once(7) }), None);
        ticks(&mut leg, 0..20, &mut out);
        assert_eq!(out.rtp.len(), 10, "{codec:?}");
        let headers = out.headers();
        let units = leg.negotiated().audio.clock_rate / 50;
        for (index, header) in headers.iter().enumerate() {
            assert_eq!(header.sequence, headers[0].sequence + index as u16);
            assert_eq!(header.timestamp, headers[0].timestamp.wrapping_add(units * index as u32));
            assert_eq!((header.marker, header.ssrc), (index == 0, 0x1234_5678));
            assert_eq!(
                Packet::parse(&out.rtp[index].1).unwrap().payload(),
                prompt.frame(index % 5).and_then(PromptFrame::payload).unwrap()
            );
        }
        assert_eq!(out.events, [MediaEvent::PromptEnded { id: 7 }]);
        assert!(!leg.is_playing());
    }
}

#[test]
fn a_prompt_stops_within_a_frame_and_begins_anywhere() {
    let (mut leg, mut out) = (leg(Codec::Pcma), Out::default());
    let prompt = tone_prompt(Codec::Pcma, 2_000);
    leg.play(prompt.clone(), PlayOptions { id: 1, loops: None, offset_ms: 1_960 });
    ticks(&mut leg, 0..5, &mut out);
    let payloads: Vec<_> = out.rtp.iter().map(|(_, bytes)| bytes[12..].to_vec()).collect();
    assert_eq!(
        payloads,
        [98, 99, 0, 1, 2].map(|at| prompt.frame(at).and_then(PromptFrame::payload).unwrap().to_vec())
    );
    assert_eq!(leg.stop(), Some((1, 60)));
    ticks(&mut leg, 5..10, &mut out);
    assert_eq!((out.rtp.len(), leg.stop(), out.events.len()), (5, None, 0));
    // The time of the pause is in the timestamp, the marker says that it was one.
    leg.play(prompt.clone(), PlayOptions::once(2));
    assert_eq!(leg.play(prompt, PlayOptions { offset_ms: u64::MAX, ..PlayOptions::once(3) }), Some((2, 0)));
    ticks(&mut leg, 10..11, &mut out);
    assert_eq!(out.events, [MediaEvent::PromptEnded { id: 3 }]);
    leg.send_silence(true).unwrap();
    ticks(&mut leg, 11..12, &mut out);
    let (first, last) = (out.headers()[0], out.headers()[5]);
    assert_eq!((last.timestamp.wrapping_sub(first.timestamp), last.sequence - first.sequence), (11 * 160, 5));
    assert!(last.marker && out.rtp[5].1[12..] == [0xd5; 160]);
}

/// RFC 4733 §2.5.1.4: the end packet is sent three times, so any one packet may be lost.
#[test]
fn digits_arrive_as_events_despite_losses() {
    let digits: Vec<Digit> = "15#5".chars().filter_map(Digit::from_char).collect();
    for codec in CODECS {
        // Seven packets a digit: all, the ends lost, only the ends, only the second.
        let patterns: [fn(usize) -> bool; 4] =
            [|_| true, |at| at % 7 < 4, |at| at % 7 >= 4, |at| at % 7 == 1];
        for (index, passes) in patterns.into_iter().enumerate() {
            let (mut sender, mut receiver) = (leg(codec), leg(codec));
            sender.play(tone_prompt(codec, 5_000), PlayOptions::once(1));
            assert!(sender.send_digits(&digits));
            // Sound between the digits shares the numbers, not the count.
            sender.stop();
            let (sent_by_leg, received) = talk(&mut sender, &mut receiver, 60, passes);
            assert_eq!(received.digits(), "15#5", "{codec:?} {index}");
            assert_eq!(
                (sent_by_leg.rtp.len(), sent_by_leg.events.as_slice()),
                (28, &[MediaEvent::DigitsSent][..])
            );
            assert!(
                received
                    .events
                    .iter()
                    .all(|event| !matches!(event, MediaEvent::Digit { by: DigitSource::Tone, .. }))
            );
        }
    }
    let mut full = leg(Codec::Pcma);
    assert!(!full.send_digits(&[Digit::STAR; DIGITS_OUT + 1]));
}

/// Events and sound share the sequence numbers of one stream: a gap would count as loss.
#[test]
fn the_prompt_goes_on_behind_digits_with_one_row_of_numbers() {
    let (mut leg, mut out) = (leg(Codec::Pcmu), Out::default());
    leg.play(tone_prompt(Codec::Pcmu, 400), PlayOptions::once(1));
    assert!(leg.send_digits(&[Digit::POUND]));
    ticks(&mut leg, 0..40, &mut out);
    let headers = out.headers();
    assert!(headers.iter().zip(&headers[1..]).all(|(one, next)| next.sequence == one.sequence + 1));
    assert_eq!(
        headers.iter().map(|one| one.payload_type).collect::<Vec<_>>(),
        [[101; 7].as_slice(), &[0; 20]].concat()
    );
    assert_eq!(headers[7].timestamp.wrapping_sub(headers[0].timestamp), 7 * 160);
}

/// Without telephone-event in the answer, digits can only be sent as sound.
#[test]
fn digits_go_as_tones_where_events_were_not_negotiated() {
    let digits: Vec<Digit> = "0*9".chars().filter_map(Digit::from_char).collect();
    for codec in CODECS {
        let new = || MediaSession::new(negotiated(codec, false), 1, None).unwrap();
        let (mut sender, mut receiver) = (new(), new());
        assert!(sender.send_digits(&digits));
        let (sent_by_leg, received) = talk(&mut sender, &mut receiver, 50, |at| at != 6);
        assert_eq!(received.digits(), "0*9", "{codec:?}");
        assert!(sent_by_leg.events.contains(&MediaEvent::DigitsSent));
        assert!(received.events.contains(&MediaEvent::Digit { digit: digits[0], by: DigitSource::Tone }));
    }
    // Asked for beside events, until the first event comes.
    let (mut sender, mut receiver) = (leg(Codec::Pcma), leg(Codec::Pcma));
    receiver.detect_tones(true);
    sender.play(Prompt::digits(Codec::Pcma, &digits, 100), PlayOptions::once(1));
    assert_eq!(talk(&mut sender, &mut receiver, 40, |_| true).1.digits(), "0*9");
    assert!(sender.send_digits(&digits[..1]));
    assert_eq!(talk(&mut sender, &mut receiver, 40, |_| true).1.digits(), "0");
    sender.play(Prompt::digits(Codec::Pcma, &digits, 100), PlayOptions::once(1));
    assert_eq!(talk(&mut sender, &mut receiver, 40, |_| true).1.digits(), "");
}

#[test]
fn the_capture_of_the_load_test_is_a_digit_each_time_without_any_sound() {
    let mut leg = leg(Codec::Pcma);
    let (mut out, mut work) = (Out::default(), TickWork::default());
    let capture = Capture::parse(&dtmf_capture(Digit::from_char('5').unwrap())).unwrap();
    for time_of in [0, 1_000] {
        for (at, (_, bytes)) in capture.iter().enumerate() {
            let now = time(time_of + 20 * at as u64);
            assert_eq!(
                leg.handle_packet(now, address(PEER), bytes, &mut work, &mut out),
                DatagramOutcome::Taken
            );
        }
    }
    assert_eq!(out.digits(), "55");
}

fn packet(payload_type: u8, sequence: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    let header =
        Header { payload_type, sequence, timestamp: 160 * u32::from(sequence), ssrc: 5, ..Header::default() };
    header.write(&[0xd5; 160], &mut bytes);
    bytes
}

/// Symmetric RTP: another port of the latched address counts after a second of silence, another address never.
#[test]
fn strangers_are_dropped_and_counted_and_a_nat_is_followed() {
    let (mut out, mut work) = (Out::default(), TickWork::default());
    let trusted = Some("127.0.0.9".parse().unwrap());
    let mut leg = MediaSession::new(negotiated(Codec::Pcma, true), 1, trusted).unwrap();
    let mut from = |leg: &mut MediaSession, ms: u64, source: &str, payload_type: u8| {
        leg.handle_packet(time(ms), address(source), &packet(payload_type, ms as u16), &mut work, &mut out)
    };
    assert_eq!(leg.remote(), None);
    assert_eq!(from(&mut leg, 0, "127.0.0.66:6000", 8), DatagramOutcome::Stranger);
    assert_eq!(from(&mut leg, 1, "127.0.0.66:6000", 101), DatagramOutcome::Stranger);
    // A number that was not negotiated does not latch either.
    assert_eq!(from(&mut leg, 2, "127.0.0.9:7000", 77), DatagramOutcome::Unknown);
    assert_eq!(from(&mut leg, 3, "127.0.0.9:7000", 8), DatagramOutcome::Taken);
    assert_eq!(leg.remote(), Some(address("127.0.0.9:7000")));
    assert_eq!(from(&mut leg, 4, "127.0.0.2:6000", 8), DatagramOutcome::Stranger);
    assert_eq!(from(&mut leg, 20, "127.0.0.9:7001", 8), DatagramOutcome::Stranger);
    assert_eq!(from(&mut leg, 1_500, "127.0.0.66:7000", 8), DatagramOutcome::Stranger);
    assert_eq!(from(&mut leg, 1_501, "127.0.0.9:7001", 8), DatagramOutcome::Taken);
    assert_eq!(
        leg.handle_packet(time(1_502), address("127.0.0.9:7001"), b"hello", &mut work, &mut out),
        DatagramOutcome::Malformed
    );
    assert_eq!(leg.dropped(), DroppedDatagrams { strangers: 5, malformed: 1, unknown: 1 });
    let latched = ["127.0.0.9:7000", "127.0.0.9:7001"].map(|text| MediaEvent::Latched(address(text)));
    assert_eq!((out.events.as_slice(), leg.remote()), (&latched[..], Some(address("127.0.0.9:7001"))));
}

#[test]
fn the_address_of_the_sdp_is_believed_before_another_port_of_its_host() {
    let (mut out, mut work) = (Out::default(), TickWork::default());
    let mut leg = MediaSession::new(negotiated(Codec::Pcma, true), 1, None).unwrap();
    let described = address(PEER);
    let neighbour = SocketAddr::new(described.ip(), 1_234);
    let mut from =
        |ms: u64, source| leg.handle_packet(time(ms), source, &packet(8, ms as u16), &mut work, &mut out);
    assert_eq!((from(0, neighbour), from(1, described)), (DatagramOutcome::Taken, DatagramOutcome::Taken));
    assert_eq!((from(2, neighbour), from(3, described)), (DatagramOutcome::Stranger, DatagramOutcome::Taken));
    assert_eq!(leg.remote(), Some(described));
}

/// A says to B, whose leg passes it to C's.
fn bridge(from: Codec, to: Codec, loses: fn(usize) -> bool) -> (Out, Out, Vec<i16>) {
    let (mut a, mut b, mut c, mut d) = (leg(from), leg(from), leg(to), leg(to));
    b.listen(true);
    d.listen_decoded(true);
    a.play(tone_prompt(from, 2_000), PlayOptions::once(1));
    let (mut sent_by_leg, mut passed, mut end, mut work) =
        (Out::default(), Out::default(), Out::default(), TickWork::default());
    let mut received = Vec::new();
    for tick in 0..100 {
        let now = time(20 * tick);
        let (before, passed_before) = (sent_by_leg.rtp.len(), passed.rtp.len());
        a.tick(now, &mut work, &mut sent_by_leg);
        for (at, (_, bytes)) in sent_by_leg.rtp.iter().enumerate().skip(before) {
            if !loses(at) {
                b.handle_packet(now, address(PEER), bytes, &mut work, &mut end);
            }
        }
        b.pull_frame(now, &mut work, &mut end);
        c.send_frame(now, b.received_frame(), &mut work, &mut passed);
        for (_, bytes) in &passed.rtp[passed_before..] {
            d.handle_packet(now, address(PEER), bytes, &mut work, &mut end);
        }
        d.pull_frame(now, &mut work, &mut end);
        received.extend_from_slice(d.received_samples());
    }
    (sent_by_leg, passed, received)
}

#[test]
fn a_bridge_of_one_codec_passes_payloads_on_with_its_own_numbers() {
    for codec in CODECS {
        let (sent_by_leg, passed, _) = bridge(codec, codec, |_| false);
        assert!(passed.rtp.len() >= 96, "{codec:?}");
        for (index, (_, bytes)) in passed.rtp.iter().enumerate() {
            assert_eq!(bytes[12..], sent_by_leg.rtp[index].1[12..]);
        }
        let headers = passed.headers();
        assert!(headers.iter().zip(&headers[1..]).all(|(one, next)| next.sequence == one.sequence + 1));
        // A loss stays one: the listener conceals it.
        let (_, passed, received) = bridge(codec, codec, |at| at == 50);
        assert!(passed.rtp.len() >= 95);
        let rate = codec.sample_rate();
        let half = &received[received.len() / 4..received.len() / 4 * 3];
        let (level, other) = levels(half, rate, 500.0);
        assert!(level > 7_000.0 && other < 2_000.0, "{codec:?}: {level} {other}");
    }
}

#[test]
fn a_bridge_of_two_codecs_transcodes_both_ways() {
    for from in CODECS {
        for to in CODECS.into_iter().filter(|to| *to != from) {
            let (_, passed, received) = bridge(from, to, |_| false);
            assert!(passed.headers().iter().all(|header| header.payload_type == payload_type(to).number));
            let rate = to.sample_rate();
            let half = &received[received.len() / 4..received.len() / 4 * 3];
            let (level, other) = levels(half, rate, 500.0);
            let snr = 20.0 * (level / 2_f64.sqrt() / other).log10();
            assert!(
                (7_200.0..8_800.0).contains(&level) && snr > 24.0,
                "{from:?} to {to:?}: {level}, {snr} dB"
            );
        }
    }
}

#[test]
fn recordings_have_both_directions_in_bounded_pieces() {
    for (source, channels) in [(RecordSource::Received, 1), (RecordSource::Both, 1), (RecordSource::Dual, 2)]
    {
        let (mut sender, mut receiver) = (leg(Codec::Pcma), leg(Codec::Pcma));
        sender.play(tone_prompt(Codec::Pcma, 3_000), PlayOptions::once(1));
        let other = Prompt::encode(Codec::Pcma, &tone(900.0, 4_000, 8_000, 3_000), 8_000).unwrap();
        receiver.play(other, PlayOptions::once(1));
        receiver.record(source);
        let (_, mut out) = talk(&mut sender, &mut receiver, 105, |_| true);
        assert_eq!((out.pieces, out.recorded.len()), (10, 10 * 1_600 * channels), "{source:?}");
        receiver.stop_recording(&mut out);
        receiver.stop_recording(&mut out);
        assert_eq!(out.recorded.len(), 105 * 160 * channels);
        let left: Vec<i16> = out.recorded.iter().step_by(channels).copied().collect();
        let right: Vec<i16> = out.recorded.iter().skip(channels - 1).step_by(channels).copied().collect();
        let middle = 4_000..12_000;
        let received = levels(&left[middle.clone()], 8_000, 500.0).0;
        let sent_by_leg = levels(&left[middle.clone()], 8_000, 900.0).0;
        assert!(received > 7_500.0, "{source:?} {received}");
        assert_eq!(sent_by_leg > 3_500.0, source == RecordSource::Both, "{source:?} {sent_by_leg}");
        if source == RecordSource::Dual {
            assert!(levels(&right[middle.clone()], 8_000, 900.0).0 > 3_500.0);
            assert!(levels(&right[middle], 8_000, 500.0).0 < 100.0);
        }
    }
}

#[test]
fn taps_have_both_directions_and_speech_is_reported() {
    let (mut sender, mut receiver) = (leg(Codec::G722), leg(Codec::G722));
    sender.play(tone_prompt(Codec::G722, 500), PlayOptions::once(1));
    receiver.play(tone_prompt(Codec::G722, 200), PlayOptions::once(1));
    receiver.tap(true);
    receiver.detect_speech(Some(SpeechOptions { silence_ms: 1_000, end_ms: 300 }));
    let (_, out) = talk(&mut sender, &mut receiver, 100, |_| true);
    assert_eq!((out.tapped.0.len(), out.tapped.1.len()), (100 * 320, 10 * 320));
    let speech: Vec<_> = out.events.iter().filter(|event| matches!(event, MediaEvent::Speech(_))).collect();
    let expected = [
        SpeechEvent::Started,
        SpeechEvent::Ended { silence_ms: 300 },
        SpeechEvent::Silence { silence_ms: 1_000 },
    ];
    assert_eq!(speech, expected.map(MediaEvent::Speech).iter().collect::<Vec<_>>());
    // Nothing at all comes: the timeout of a recording runs.
    let mut alone = leg(Codec::Pcma);
    alone.detect_speech(Some(SpeechOptions { silence_ms: 500, end_ms: 0 }));
    let mut out = Out::default();
    ticks(&mut alone, 0..30, &mut out);
    assert_eq!(out.events, [MediaEvent::Speech(SpeechEvent::Silence { silence_ms: 500 })]);
}

#[test]
fn srtp_protects_both_directions_and_a_wrong_key_is_malformed() {
    let line =
        |byte| CryptoLine { tag: 1, suite: Suite::AesCm128Sha1_80, key: [byte; 30], unencrypted: false };
    let with = |send, receive| {
        let negotiated =
            Negotiated { srtp: Some((line(send), line(receive))), ..negotiated(Codec::Pcma, true) };
        MediaSession::new(negotiated, 9, None).unwrap()
    };
    let (mut sender, mut receiver) = (with(1, 2), with(2, 1));
    receiver.record(RecordSource::Received);
    sender.play(tone_prompt(Codec::Pcma, 2_000), PlayOptions::once(1));
    let (sent_by_leg, out) = talk(&mut sender, &mut receiver, 60, |_| true);
    assert!(levels(&out.recorded[1_600..8_000], 8_000, 500.0).0 > 7_500.0);
    assert_eq!(sent_by_leg.rtp[0].1.len(), 12 + 160 + 10);
    let (mut work, mut out) = (TickWork::default(), Out::default());
    let handled =
        with(2, 3).handle_packet(time(0), address(PEER), &sent_by_leg.rtp[0].1, &mut work, &mut out);
    assert_eq!((handled, out.events.len()), (DatagramOutcome::Malformed, 0));
    sender.finish(time(9_000), &mut work, &mut out);
    assert!(
        rtcp::parse(&out.rtcp[0].1)
            .map_or(true, |all| !all.iter().any(|one| matches!(one, Report::Bye { .. })))
    );
    let handled = receiver.handle_packet(
        time(9_001),
        address("127.0.0.2:6001"),
        &out.rtcp[0].1,
        &mut work,
        &mut Out::default(),
    );
    assert_eq!(handled, DatagramOutcome::Taken);
}

/// RFC 3550 §6.2 (interval), §6.6 (BYE).
#[test]
fn reports_go_out_every_five_seconds_and_a_bye_at_the_end() {
    let (mut sender, mut receiver) = (leg(Codec::Pcma), leg(Codec::Pcma));
    sender.play(tone_prompt(Codec::Pcma, 1_000), PlayOptions { loops: None, ..PlayOptions::once(1) });
    let (sent_by_leg, received) = talk(&mut sender, &mut receiver, 1_000, |at| at % 10 != 5);
    assert_eq!((sent_by_leg.rtcp.len(), received.rtcp.len()), (4, 4));
    assert_eq!(sent_by_leg.rtcp[0].0, address("127.0.0.2:6001"));
    let Report::Sender { info, .. } = rtcp::parse(&sent_by_leg.rtcp[3].1).unwrap().remove(0) else {
        panic!("no SR")
    };
    assert!(info.packets > 800 && info.bytes == info.packets * 160);
    // This SSRC's first report is due after 4.896 s.
    assert_eq!(info.ntp >> 32, time(0).unix_seconds() + 2_208_988_800 + 19);
    let Report::Receiver { blocks, .. } = rtcp::parse(&received.rtcp[3].1).unwrap().remove(0) else {
        panic!("no RR")
    };
    assert_eq!((blocks[0].ssrc, blocks[0].fraction_lost), (sender.ssrc(), 25));
    let (mut out, mut work) = (Out::default(), TickWork::default());
    sender.finish(time(30_000), &mut work, &mut out);
    let bye = Report::Bye { sources: vec![sender.ssrc()], reason: None };
    assert!(rtcp::parse(&out.rtcp[0].1).unwrap().contains(&bye));
    // From a stranger it counts as one.
    let handled = receiver.handle_packet(
        time(30_001),
        address("127.0.0.66:6001"),
        &out.rtcp[0].1,
        &mut work,
        &mut Out::default(),
    );
    assert_eq!(handled, DatagramOutcome::Stranger);
}

/// RFC 3264 §8.4: the peer on hold hears nothing; the timestamp goes on, so that the pause has its length.
#[test]
fn a_held_leg_is_sent_nothing_and_goes_on_behind_it() {
    let (mut leg, mut out) = (leg(Codec::Pcma), Out::default());
    leg.play(tone_prompt(Codec::Pcma, 1_000), PlayOptions::once(1));
    ticks(&mut leg, 0..5, &mut out);
    let held = Negotiated {
        direction: crate::sdp::Direction::Inactive,
        held: true,
        ..negotiated(Codec::Pcma, true)
    };
    leg.renegotiate(held).unwrap();
    ticks(&mut leg, 5..10, &mut out);
    assert_eq!(out.rtp.len(), 5);
    // Back with another codec at another address: the same stream, the prompt transcoded.
    let moved = Negotiated { remote: Some(address("127.0.0.3:8000")), ..negotiated(Codec::G722, true) };
    leg.renegotiate(moved).unwrap();
    ticks(&mut leg, 10..12, &mut out);
    let last = out.headers()[6];
    assert_eq!((out.rtp[6].0, last.payload_type, last.ssrc), (address("127.0.0.3:8000"), 9, leg.ssrc()));
    assert_eq!(last.timestamp.wrapping_sub(out.headers()[0].timestamp), 11 * 160);
    // Frames that were not sent take no sequence number.
    assert_eq!(last.sequence - out.headers()[0].sequence, 6);
    assert_eq!(out.rtp[6].1.len(), 172);
    assert!(leg.renegotiate(negotiated(Codec::G729, true)).is_err());
}

/// RFC 3550 §5.1: the timestamp is that of the first octet in the packet.
#[test]
fn longer_packets_have_the_timestamp_of_their_first_frame() {
    for (ptime_ms, frames) in [(40, 2), (60, 3)] {
        let negotiated = Negotiated { ptime_ms, ..negotiated(Codec::Pcmu, true) };
        let (mut sender, mut receiver) = (MediaSession::new(negotiated, 3, None).unwrap(), leg(Codec::Pcmu));
        receiver.record(RecordSource::Received);
        sender.play(tone_prompt(Codec::Pcmu, 500), PlayOptions::once(1));
        let (sent_by_leg, mut out) = talk(&mut sender, &mut receiver, 40, |_| true);
        let headers = sent_by_leg.headers();
        assert_eq!(headers.len(), 25_usize.div_ceil(frames));
        for (index, header) in headers.iter().enumerate() {
            let units = (index * frames * 160) as u32;
            assert_eq!(header.timestamp.wrapping_sub(headers[0].timestamp), units, "{ptime_ms}: {index}");
            let left = 25 - index * frames;
            assert_eq!(sent_by_leg.rtp[index].1.len() - 12, left.min(frames) * 160);
        }
        receiver.stop_recording(&mut out);
        assert!(levels(&out.recorded[1_600..4_000], 8_000, 500.0).0 > 7_500.0);
    }
}

/// A leg's memory does not grow with the length of its call.
#[test]
fn a_leg_is_small_and_grows_no_more() {
    let bridge = |leg: &mut MediaSession| leg.listen(true);
    let record = |leg: &mut MediaSession| leg.record(RecordSource::Dual);
    let nothing = |_: &mut MediaSession| {};
    // With G.711: a prompt's leg, a bridge's, a recorded one's.
    type Case = (fn(&mut MediaSession), usize);
    let all: [Case; 3] = [(nothing, 2_048), (bridge, 5_120), (record, 16_384)];
    for (set, bound) in all {
        let (mut sender, mut receiver) = (leg(Codec::Pcma), leg(Codec::Pcma));
        set(&mut receiver);
        for one in [&mut sender, &mut receiver] {
            one.play(tone_prompt(Codec::Pcma, 1_000), PlayOptions { loops: None, ..PlayOptions::once(1) });
        }
        talk(&mut sender, &mut receiver, 100, |at| at % 10 != 5);
        let size = receiver.size();
        talk(&mut sender, &mut receiver, 500, |at| at % 10 != 5);
        assert_eq!(receiver.size(), size);
        assert!(size <= bound, "{size} of {bound}");
    }
}

#[test]
fn a_recording_keeps_its_rate_when_the_codec_changes() {
    let (mut sender, mut receiver) = (leg(Codec::Pcma), leg(Codec::Pcma));
    receiver.record(RecordSource::Both);
    let mut recorded = Vec::new();
    for codec in [Codec::Pcma, Codec::Opus, Codec::G722] {
        sender.renegotiate(negotiated(codec, true)).unwrap();
        receiver.renegotiate(negotiated(codec, true)).unwrap();
        sender.play(tone_prompt(codec, 2_000), PlayOptions::once(1));
        let (_, out) = talk(&mut sender, &mut receiver, 100, |_| true);
        assert_eq!((receiver.record_rate(), receiver.rate()), (Some(8_000), codec.sample_rate()));
        assert!(levels(&out.recorded[8_000..14_000], 8_000, 500.0).0 > 7_000.0, "{codec:?}");
        recorded.extend(out.recorded);
    }
    assert_eq!(recorded.len(), 3 * 16_000);
}

/// RFC 4568 §6.1: each direction has a key of its own.
#[test]
fn a_new_key_of_the_peer_leaves_the_own_direction_alone() {
    let line =
        |byte| CryptoLine { tag: 1, suite: Suite::AesCm128Sha1_80, key: [byte; 30], unencrypted: false };
    let with = |send, receive| Negotiated {
        srtp: Some((line(send), line(receive))),
        ..negotiated(Codec::Pcma, true)
    };
    let mut sender = MediaSession::new(with(1, 2), 9, None).unwrap();
    let mut receiver = MediaSession::new(with(2, 1), 9, None).unwrap();
    sender.send_silence(true).unwrap();
    // Past the turn of the sequence number, which the key's owner counts.
    talk(&mut sender, &mut receiver, 65_600, |_| true);
    sender.renegotiate(with(1, 3)).unwrap();
    // The listener's own receiving key is the same: its count of turns goes on, and so must the sender's.
    talk(&mut sender, &mut receiver, 10, |_| true);
    assert_eq!(
        (sender.dropped(), receiver.dropped()),
        (DroppedDatagrams::default(), DroppedDatagrams::default())
    );
}

/// A leg that is busy sending, and the packets of `ms` milliseconds.
fn sent(leg: &mut MediaSession, from_ms: u64, ms: u64) -> Out {
    let (mut out, mut work) = (Out::default(), TickWork::default());
    (0..ms / 20).for_each(|tick| leg.tick(time(from_ms + 20 * tick), &mut work, &mut out));
    out
}

/// An SDP may name any victim's address; media goes there only after a packet came from there.
#[test]
fn an_address_that_has_not_sent_gets_nothing_unless_it_is_the_signallings() {
    let victim = || negotiated(Codec::Pcma, true);
    let signalling: IpAddr = "127.0.0.9".parse().unwrap();
    let mut leg = MediaSession::new(victim(), 1, Some(signalling)).unwrap();
    leg.send_silence(true).unwrap();
    let out = sent(&mut leg, 0, 20_000);
    assert_eq!((out.rtp.len(), out.rtcp.len()), (0, 0));
    // Nor does a re-offer help.
    leg.renegotiate(Negotiated { remote: Some(address("127.0.0.3:6000")), ..victim() }).unwrap();
    let out = sent(&mut leg, 20_000, 20_000);
    assert_eq!((out.rtp.len(), out.rtcp.len()), (0, 0));
    // Once it has sent, it is answered.
    let (mut out, mut work) = (Out::default(), TickWork::default());
    let from = address("127.0.0.3:6000");
    assert_eq!(
        leg.handle_packet(time(40_000), from, &packet(8, 1), &mut work, &mut out),
        DatagramOutcome::Taken
    );
    assert!(sent(&mut leg, 40_000, 200).rtp.iter().all(|(to, _)| *to == from));
    // The signalling's own address, and one that the operator vouches for, are sent to first.
    for is_vouched_for in [false, true] {
        let mut leg = MediaSession::new(victim(), 1, Some(signalling)).unwrap();
        leg.send_silence(true).unwrap();
        if is_vouched_for {
            leg.trust_description(true);
        } else {
            leg.trust_signalling(address(PEER).ip(), true);
        }
        assert_eq!(sent(&mut leg, 0, 200).rtp.len(), 10);
    }
}

/// `a=rtcp` (RFC 3605) may name another host, which would receive reports that it never asked for.
#[test]
fn reports_go_where_the_sound_goes() {
    // The address of a=rtcp is another host's.
    let elsewhere =
        Negotiated { remote_rtcp: Some(address("127.0.0.77:53")), ..negotiated(Codec::Pcma, true) };
    let mut leg = MediaSession::new(elsewhere, 1, Some(address(PEER).ip())).unwrap();
    // Nothing was said: the call may never have been acknowledged.
    assert_eq!(sent(&mut leg, 0, 20_000).rtcp.len(), 0);
    leg.send_silence(true).unwrap();
    let out = sent(&mut leg, 20_000, 20_000);
    assert!(!out.rtcp.is_empty());
    assert!(out.rtcp.iter().all(|(to, _)| to.ip() == address(PEER).ip()), "{:?}", out.rtcp);
}

/// RFC 3264 §8.4: a peer on hold need not send, so its silence means nothing.
#[test]
fn a_silence_over_the_limit_is_reported_once_and_not_on_hold() {
    let silent = |out: Out| out.events.iter().filter(|event| matches!(event, MediaEvent::NoMedia(_))).count();
    let mut leg = leg(Codec::Pcma);
    leg.limit_silence(Some(Duration::from_secs(60)));
    assert_eq!(silent(sent(&mut leg, 0, 55_000)), 0);
    assert_eq!(silent(sent(&mut leg, 55_000, 200_000)), 1);
    let (mut out, mut work) = (Out::default(), TickWork::default());
    leg.handle_packet(time(255_000), address(PEER), &packet(8, 1), &mut work, &mut out);
    assert_eq!(silent(sent(&mut leg, 255_000, 55_000)), 0);
    leg.renegotiate(Negotiated { held: true, ..negotiated(Codec::Pcma, true) }).unwrap();
    assert_eq!(silent(sent(&mut leg, 310_000, 200_000)), 0);
    leg.renegotiate(negotiated(Codec::Pcma, true)).unwrap();
    assert_eq!(silent(sent(&mut leg, 510_000, 70_000)), 1);
    leg.limit_silence(None);
    assert_eq!(silent(sent(&mut leg, 580_000, 200_000)), 0);
}

/// RFC 3711 §9.1: two packets under one key stream give away the exclusive or of their payloads.
#[test]
fn no_key_stream_is_used_twice_over_suites_and_interludes_of_plain_rtp() {
    let line = |suite| CryptoLine { tag: 1, suite, key: [7; 30], unencrypted: false };
    let with = |suite: Option<Suite>| Negotiated {
        srtp: suite.map(|suite| (line(suite), line(suite))),
        ..negotiated(Codec::Pcma, true)
    };
    let mut leg = MediaSession::new(with(Some(Suite::AesCm128Sha1_80)), 9, None).unwrap();
    leg.send_silence(true).unwrap();
    let mut at = 0;
    let mut run = |leg: &mut MediaSession, ms: u64| {
        at += ms;
        sent(leg, at - ms, ms)
    };
    // Past the turn of the sequence number: the roll-over counter is part of the index.
    let before = run(&mut leg, 20 * 66_000);
    leg.renegotiate(with(Some(Suite::AesCm128Sha1_32))).unwrap();
    let other_suite = run(&mut leg, 20 * 66_000);
    leg.renegotiate(with(None)).unwrap();
    run(&mut leg, 1_000);
    leg.renegotiate(with(Some(Suite::AesCm128Sha1_80))).unwrap();
    let after = run(&mut leg, 20_000);
    // The same sound each time: an equal cipher text means an equal key stream.
    let mut seen = std::collections::HashSet::new();
    for (_, packet) in before.rtp.iter().chain(&other_suite.rtp).chain(&after.rtp) {
        assert!(seen.insert(packet[12..28].to_vec()), "a key stream was used twice");
    }
    let index = |packet: &[u8], tag: usize| {
        let at = packet.len() - tag - 4;
        u32::from_be_bytes(packet[at..at + 4].try_into().unwrap()) & 0x7fff_ffff
    };
    let indices: Vec<_> = [&before, &other_suite, &after]
        .into_iter()
        .flat_map(|out| out.rtcp.iter().map(|(_, packet)| index(packet, 10)))
        .collect();
    assert!(indices.is_sorted_by(|a, b| a < b) && indices.len() > 100, "{indices:?}");
}

#[test]
fn a_stopped_prompt_leaves_nothing_behind_in_longer_packets() {
    let negotiated = Negotiated { ptime_ms: 60, ..negotiated(Codec::Pcmu, true) };
    let (mut leg, mut out) = (MediaSession::new(negotiated, 3, None).unwrap(), Out::default());
    leg.play(tone_prompt(Codec::Pcmu, 500), PlayOptions::once(1));
    ticks(&mut leg, 0..5, &mut out);
    leg.stop();
    ticks(&mut leg, 5..10, &mut out);
    assert_eq!(out.rtp.len(), 1);
}

#[test]
fn digits_wait_while_the_leg_is_held() {
    let held = Negotiated { direction: crate::sdp::Direction::RecvOnly, ..negotiated(Codec::Pcma, true) };
    let (mut sender, mut receiver) = (leg(Codec::Pcma), leg(Codec::Pcma));
    sender.renegotiate(held).unwrap();
    assert!(sender.send_digits(&[Digit::STAR, Digit::POUND]));
    let (sent_by_leg, received) = talk(&mut sender, &mut receiver, 50, |_| true);
    assert_eq!((sent_by_leg.rtp.len(), sent_by_leg.events.len(), received.digits().as_str()), (0, 0, ""));
    sender.renegotiate(negotiated(Codec::Pcma, true)).unwrap();
    assert_eq!(talk(&mut sender, &mut receiver, 50, |_| true).1.digits(), "*#");
}

/// RFC 3264 §6.1: the sender may change the payload type without another offer.
#[test]
fn a_peer_may_change_among_the_codecs_it_offered() {
    let both = Negotiated {
        receive: vec![payload_type(Codec::Pcma), payload_type(Codec::G722)],
        ..negotiated(Codec::Pcma, true)
    };
    let mut receiver = MediaSession::new(both, 1, None).unwrap();
    receiver.listen_decoded(true);
    for codec in [Codec::Pcma, Codec::G722] {
        let mut sender = leg(codec);
        sender.play(tone_prompt(codec, 400), PlayOptions::once(1));
        receiver.tap(true);
        let (_, out) = talk(&mut sender, &mut receiver, 15, |_| true);
        let rate = codec.sample_rate();
        assert_eq!((receiver.rate(), receiver.dropped().unknown), (rate, 0));
        let received = &out.tapped.0[out.tapped.0.len() - rate as usize / 5..];
        assert!(levels(received, rate, 500.0).0 > 7_500.0, "{codec:?}");
    }
}

/// A muted participant of a conference can still press `*` to leave.
#[test]
fn a_muted_peer_is_silent_but_its_keys_count() {
    let (mut sender, mut receiver) = (leg(Codec::Pcma), leg(Codec::Pcma));
    receiver.listen(true);
    receiver.listen_decoded(true);
    let mut level = |muted: bool| {
        receiver.mute(muted);
        sender.play(tone_prompt(Codec::Pcma, 400), PlayOptions::once(1));
        assert!(sender.send_digits(&[Digit::STAR]));
        let digits = talk(&mut sender, &mut receiver, 40, |_| true).1.digits();
        sender.play(tone_prompt(Codec::Pcma, 400), PlayOptions::once(2));
        talk(&mut sender, &mut receiver, 10, |_| true);
        (
            digits,
            crate::level::mean(receiver.received_samples()) > 0,
            receiver.received_frame() != FrameSource::None,
        )
    };
    assert_eq!(level(false), ("*".into(), true, true));
    assert_eq!(level(true), ("*".into(), false, false));
}

/// RFC 3389 §3: the first octet is the level of the noise below 0 dBov.
#[test]
fn comfort_noise_is_heard_in_the_senders_pause() {
    let (mut leg, mut out, mut work) = (leg(Codec::Pcma), Out::default(), TickWork::default());
    leg.listen_decoded(true);
    let mut noise = Vec::new();
    Header { payload_type: 13, sequence: 1, ssrc: 5, ..Header::default() }.write(&[40], &mut noise);
    leg.tick(time(0), &mut work, &mut out);
    assert_eq!(crate::level::mean(leg.received_samples()), 0);
    assert_eq!(
        leg.handle_packet(time(10), address(PEER), &noise, &mut work, &mut out),
        DatagramOutcome::Taken
    );
    leg.tick(time(20), &mut work, &mut out);
    // 32768 at -40 dB, in mean magnitude of even noise.
    let level = crate::level::mean(leg.received_samples());
    assert!((250..320).contains(&level), "{level}");
}

proptest! {
    /// Packets of any numbers, lengths and times, and bytes that are none: every tick is a frame, everything is counted.
    #[test]
    fn any_packets_are_answered(
        codec in 0_usize..4,
        packets in prop::collection::vec((0_u8..5, any::<u16>(), any::<u32>(), 0_u32..3, 0_usize..700, any::<u8>()), 0..60),
    ) {
        let mut leg = leg(CODECS[codec]);
        leg.listen_decoded(true);
        leg.tap(true);
        leg.record(RecordSource::Dual);
        let (mut out, mut work) = (Out::default(), TickWork::default());
        let mut handled = 0;
        for (tick, (kind, sequence, timestamp, ssrc, len, byte)) in packets.iter().enumerate() {
            let audio = leg.negotiated().audio.number;
            // Half of them in order, near each other.
            let (sequence, timestamp) =
                if byte & 1 == 0 { (tick as u16, 160 * tick as u32 + (timestamp & 255)) } else { (*sequence, *timestamp) };
            let header = Header {
                marker: byte & 2 != 0,
                payload_type: [audio, audio, 101, 13, *byte & 0x7f][usize::from(*kind)],
                sequence,
                timestamp,
                ssrc: *ssrc,
            };
            let mut bytes = Vec::new();
            header.write(&vec![*byte; *len], &mut bytes);
            if *byte > 250 {
                bytes.truncate(*len % 12);
            }
            let now = time(20 * tick as u64);
            handled += u64::from(leg.handle_packet(now, address(PEER), &bytes, &mut work, &mut out) != DatagramOutcome::Taken);
            leg.tick(now, &mut work, &mut out);
            prop_assert_eq!(leg.received_samples().len(), leg.receive.audio.frame());
        }
        let DroppedDatagrams { strangers, malformed, unknown } = leg.dropped();
        prop_assert_eq!(strangers + malformed + unknown, handled);
        leg.stop_recording(&mut out);
        prop_assert_eq!(out.recorded.len(), packets.len() * leg.receive.audio.frame() * 2);
        prop_assert!(leg.size() < 120_000, "{}", leg.size());
    }
}
