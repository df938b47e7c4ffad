//! Streams with everything that happens to streams.

use std::collections::BTreeSet;

use proptest::prelude::*;
use stdx::time::Instant;

use super::*;
use crate::codec::{Encoder, alaw_encode};
use crate::rtp::Header;

/// Sends packets of 20 ms of PCMA, silent unless told otherwise.
struct Stream {
    receiver: Receiver,
    ssrc: u32,
    sample: i16,
}

impl Stream {
    fn new() -> Stream {
        Stream { receiver: Receiver::new(Codec::Pcma), ssrc: 1, sample: 0 }
    }

    /// The packet of that number, `late_us` after its time.
    fn send(&mut self, sequence: u64, late_us: u64) {
        let header = Header {
            payload_type: 8,
            sequence: sequence as u16,
            timestamp: (160 * sequence) as u32,
            ssrc: self.ssrc,
            ..Header::default()
        };
        let mut bytes = Vec::new();
        header.write(&[alaw_encode(self.sample); 160], &mut bytes);
        let now = Instant::from_micros(1_000_000 + 20_000 * sequence + late_us);
        self.receiver.handle(now, &Packet::parse(&bytes).unwrap(), true);
    }

    fn all(numbers: impl IntoIterator<Item = u64>) -> Summary {
        let mut stream = Stream::new();
        numbers.into_iter().for_each(|number| stream.send(number, 0));
        stream.receiver.summary()
    }
}

#[test]
fn a_whole_stream_over_the_end_of_the_sequence_is_perfect() {
    let summary = Stream::all(65_000..66_000);
    assert_eq!((summary.packets, summary.expected, summary.lost, summary.bytes), (1000, 1000, 0, 160_000));
    assert_eq!((summary.duplicates, summary.reordered, summary.restarts, summary.gaps), (0, 0, 0, 0));
    assert_eq!((summary.jitter_us, summary.duration_us, summary.max_interval_us), (0, 19_980_000, 20_000));
    assert!((summary.mos - 4.41).abs() < 0.01, "{}", summary.mos);
}

/// RFC 3550 Appendix A.1: cycles of the 16-bit number are counted.
#[test]
fn two_cycles_of_the_sequence_are_counted() {
    let mut stream = Stream::new();
    (0..140_000).for_each(|number| stream.send(number, 0));
    assert_eq!(stream.receiver.summary().expected, 140_000);
    assert_eq!(stream.receiver.report_block(Instant::default()).unwrap().highest_sequence, 139_999);
}

#[test]
fn losses_are_runs() {
    let summary = Stream::all((0..1000).filter(|number| !matches!(number, 10 | 20..=24 | 500..=799)));
    assert_eq!((summary.lost, summary.gaps, summary.longest_gap), (306, 3, 300));
    assert!(summary.mos < 2.0, "{}", summary.mos);
    // The 300 lost are a pause of six seconds.
    assert!(summary.longest_silence_ms >= 6000, "{}", summary.longest_silence_ms);
}

#[test]
fn duplicates_and_late_packets_are_distinguished() {
    let summary = Stream::all([5, 6, 8, 7, 7, 9, 9, 10, 4]);
    assert_eq!((summary.packets, summary.expected, summary.lost), (7, 7, 0));
    assert_eq!((summary.duplicates, summary.reordered, summary.gaps), (2, 2, 0));
}

#[test]
fn a_sender_that_begins_anew_loses_nothing() {
    let mut stream = Stream::new();
    (0..50).for_each(|number| stream.send(number, 0));
    stream.ssrc = 2;
    (30_000..30_050).for_each(|number| stream.send(number, 0));
    // The same SSRC, but far away: the first of it is thrown away, the second believed.
    (50_000..50_051).for_each(|number| stream.send(number, 0));
    let summary = stream.receiver.summary();
    assert_eq!((summary.restarts, summary.lost, summary.packets), (2, 0, 150));
}

#[test]
fn one_astray_packet_changes_nothing() {
    let summary = Stream::all([1, 2, 40_000, 3, 4]);
    assert_eq!((summary.packets, summary.lost, summary.restarts, summary.reordered), (4, 0, 0, 0));
}

/// RFC 3550 §6.4.1: with every other packet late by d, |D| is always d and J tends to it.
#[test]
fn jitter_tends_to_the_mean_deviation() {
    let mut stream = Stream::new();
    (0..200).for_each(|number| stream.send(number, if number % 2 == 0 { 0 } else { 4_000 }));
    let summary = stream.receiver.summary();
    assert!((3_950..=4_000).contains(&summary.jitter_us), "{}", summary.jitter_us);
    // The first step: 4000/16.
    let mut short = Stream::new();
    short.send(0, 0);
    short.send(1, 4_000);
    assert!((249..=250).contains(&short.receiver.summary().jitter_us));
    // In units of the timestamp: 4 ms at 8 kHz.
    assert_eq!(stream.receiver.report_block(Instant::default()).unwrap().jitter, 31);
}

#[test]
fn sound_and_silence_are_timed() {
    let mut stream = Stream::new();
    for number in 0..150 {
        stream.sample = if (50..100).contains(&number) { 3000 } else { 0 };
        stream.send(number, 0);
    }
    (150..175).for_each(|number| stream.send(number, 0));
    let summary = stream.receiver.summary();
    assert_eq!((summary.sound_ms, summary.silence_ms, summary.longest_silence_ms), (1000, 2500, 1500));
    let unmeasured = Receiver::new(Codec::Pcma).without_sound().summary();
    assert_eq!((unmeasured.sound_ms, unmeasured.silence_ms, unmeasured.mos), (0, 0, 0.0));
}

#[test]
fn every_codec_that_is_decoded_has_its_sound_timed() {
    for (codec, clock_rate) in
        [(Codec::Pcmu, 8000), (Codec::Pcma, 8000), (Codec::G722, 8000), (Codec::Opus, 48_000)]
    {
        let mut encoder = Encoder::new(codec).unwrap();
        let mut receiver = Receiver::with_clock_rate(codec, clock_rate);
        let frame = codec.sample_rate() as usize / 50;
        for number in 0..100_u32 {
            let loud = if number < 50 { 8000.0 } else { 0.0 };
            let at = |index: usize| (number as usize * frame + index) as f64 / f64::from(codec.sample_rate());
            let samples: Vec<i16> = (0..frame)
                .map(|index| ((at(index) * 440.0 * std::f64::consts::TAU).sin() * loud) as i16)
                .collect();
            let mut payload = Vec::new();
            encoder.encode(&samples, &mut payload).unwrap();
            let header =
                Header { sequence: number as u16, timestamp: number * clock_rate / 50, ..Header::default() };
            let mut bytes = Vec::new();
            header.write(&payload, &mut bytes);
            let now = Instant::from_micros(20_000 * u64::from(number) + 1);
            receiver.handle(now, &Packet::parse(&bytes).unwrap(), true);
        }
        let summary = receiver.summary();
        assert!((960..=1060).contains(&summary.sound_ms), "{codec:?} {summary:?}");
        assert_eq!((summary.sound_ms + summary.silence_ms, summary.jitter_us), (2000, 0), "{codec:?}");
    }
}

#[test]
fn report_blocks_have_the_delay_since_the_last_sender_report() {
    let mut stream = Stream::new();
    assert_eq!(stream.receiver.report_block(Instant::default()), None);
    (0..10).for_each(|number| stream.send(number, 0));
    assert_eq!(stream.receiver.report_block(Instant::default()).unwrap().fraction_lost, 0);
    stream.receiver.handle_sender_report(Instant::from_micros(5_000_000), 0x1111_2222_3333_4444);
    (15..20).for_each(|number| stream.send(number, 0));
    let block = stream.receiver.report_block(Instant::from_micros(5_500_000)).unwrap();
    assert_eq!((block.fraction_lost, block.cumulative_lost), (128, 5));
    assert_eq!((block.last_sr, block.delay_since_last_sr), (0x2222_3333, 32_768));
}

proptest! {
    /// A set of numbers is the model: whatever comes, in whatever order within the window, is counted once.
    #[test]
    fn counts_agree_with_a_set(start in 0_u64..70_000, steps in prop::collection::vec((0_u64..5, 0_u64..60), 1..200)) {
        let mut stream = Stream::new();
        let mut seen = BTreeSet::new();
        let mut head = start + 100;
        let mut duplicates = 0;
        for (step, back) in steps {
            head += step;
            let number = head - back.min(head - start - 100);
            stream.send(number, 0);
            duplicates += u64::from(!seen.insert(number));
        }
        let summary = stream.receiver.summary();
        let (first, last) = (*seen.first().unwrap(), *seen.last().unwrap());
        prop_assert_eq!(summary.packets, seen.len() as u64);
        prop_assert_eq!(summary.duplicates, duplicates);
        prop_assert_eq!(summary.expected, last - first + 1);
        prop_assert_eq!(summary.lost, summary.expected - summary.packets);
        let mut gaps = 0;
        let mut longest = 0;
        for (before, after) in seen.iter().zip(seen.iter().skip(1)) {
            gaps += u64::from(after - before > 1);
            longest = longest.max(after - before - 1);
        }
        prop_assert_eq!((summary.gaps, summary.longest_gap), (gaps, longest));
    }
}
