//! Networks in virtual time: packets that come late, twice, out of order or not at all.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::rtp::Header;

const G711: Clock = Clock { rate: 8_000, bytewise: true };
const START: Instant = Instant::from_unix_seconds(1_700_000_000);

/// One packet: its arrival in milliseconds, its number, its timestamp in frames, its SSRC.
fn push(buffer: &mut JitterBuffer, at: u32, number: u32, frame: u32, ssrc: u32) -> Pushed {
    push_bytes(buffer, at, number, frame.wrapping_mul(160), ssrc, &[number as u8; 160])
}

fn push_bytes(
    buffer: &mut JitterBuffer,
    at: u32,
    number: u32,
    timestamp: u32,
    ssrc: u32,
    payload: &[u8],
) -> Pushed {
    let header =
        Header { sequence: (number as u16).wrapping_add(65_500), timestamp, ssrc, ..Header::default() };
    let mut bytes = Vec::new();
    header.write(payload, &mut bytes);
    buffer.push(time(at), &Packet::parse(&bytes).unwrap())
}

fn time(ms: u32) -> Instant {
    START + Duration::from_millis(u64::from(ms))
}

/// The result of a tick: a packet's number, `lost` or `-`.
fn pull(buffer: &mut JitterBuffer, at: u32) -> String {
    let mut out = Vec::new();
    match buffer.pull(time(at), &mut out) {
        Pulled::Frame { .. } => {
            assert_eq!(out.len(), 160);
            out[0].to_string()
        }
        Pulled::Lost => "lost".to_owned(),
        Pulled::Silence => "-".to_owned(),
    }
}

/// Packets by arrival (ms) against a tick every 20 ms.
fn play(buffer: &mut JitterBuffer, arrivals: &[(u32, u32)], until: u32) -> String {
    let mut arrivals = arrivals.to_vec();
    arrivals.sort();
    let (mut next, mut pulled) = (0, Vec::new());
    for tick in (0..until).step_by(20) {
        while let Some((at, number)) = arrivals.get(next).filter(|(at, _)| *at <= tick) {
            push(buffer, *at, *number, *number, 1);
            next += 1;
        }
        pulled.push(pull(buffer, tick));
    }
    pulled.join(" ")
}

/// The buffer waits for a late packet as long as its delay allows.
#[test]
fn packets_out_of_order_come_in_order() {
    let mut buffer = JitterBuffer::new(G711, 40);
    let arrivals = [(0, 0), (20, 1), (61, 2), (60, 3), (80, 4), (100, 5)];
    assert_eq!(play(&mut buffer, &arrivals, 180), "- - 0 1 2 3 4 5 lost");
    let expected = JitterCounts { received: 6, played: 6, reordered: 1, lost: 1, ..JitterCounts::default() };
    assert_eq!(buffer.counts(), expected);
}

#[test]
fn missing_packets_are_lost_and_duplicates_are_counted() {
    let mut buffer = JitterBuffer::new(G711, 40);
    let arrivals = [(0, 0), (20, 1), (21, 1), (60, 3), (80, 4), (99, 4)];
    assert_eq!(play(&mut buffer, &arrivals, 140), "- - 0 1 lost 3 4");
    let counts = buffer.counts();
    assert_eq!((counts.lost, counts.duplicates, counts.received), (1, 2, 6));
}

/// A late packet is lost to the ear, but it says how much delay the network needs.
#[test]
fn a_late_packet_is_counted_and_the_delay_grows_for_the_next() {
    let mut buffer = JitterBuffer::new(G711, 40);
    let on_time: Vec<_> = (0..10).map(|at| (at * 20, at)).collect();
    let mut arrivals = on_time.clone();
    arrivals.extend((10..40).map(|at| (at * 20 + if at % 3 == 0 { 70 } else { 0 }, at)));
    let pulled = play(&mut buffer, &arrivals, 900);
    let counts = buffer.counts();
    // The first that was late is not played; those behind it are, in their order.
    assert!(counts.late >= 1 && counts.late <= 2, "{counts:?} {pulled}");
    assert!(counts.stretched >= 1, "{counts:?}");
    let played: Vec<u32> = pulled.split(' ').filter_map(|word| word.parse().ok()).collect();
    assert!(played.is_sorted() && played.len() as u64 == 40 - counts.late, "{pulled}");
    assert!((80..=110).contains(&buffer.target_ms()), "{}", buffer.target_ms());
}

#[test]
fn the_delay_shrinks_when_the_network_is_calm_again() {
    let mut buffer = JitterBuffer::new(G711, 40);
    let shaky = (0..100).map(|at| (at * 20 + if at % 5 == 0 { 90 } else { 0 }, at));
    let calm = (100..1_000).map(|at| (at * 20, at));
    play(&mut buffer, &shaky.chain(calm).collect::<Vec<_>>(), 20_000);
    let counts = buffer.counts();
    assert!(counts.shrunk >= 2 && buffer.target_ms() <= 50, "{counts:?} {}", buffer.target_ms());
    assert!(buffer.waiting_ms() <= 80, "{}", buffer.waiting_ms());
}

/// Silence suppression: the timestamp leaps and the sequence number does not (RFC 3551 §4.1).
#[test]
fn a_pause_of_the_sender_is_silence_and_not_loss() {
    let mut buffer = JitterBuffer::new(G711, 40);
    for (at, number) in [(0, 0), (20, 1)] {
        push(&mut buffer, at, number, number, 1);
    }
    let ticks: Vec<String> = (2..7).map(|tick| pull(&mut buffer, tick * 20)).collect();
    // Until the next packet tells that it was a pause.
    assert_eq!(ticks, ["0", "1", "lost", "lost", "lost"]);
    push(&mut buffer, 130, 2, 8, 1);
    let ticks: Vec<String> = (7..12).map(|tick| pull(&mut buffer, tick * 20)).collect();
    assert_eq!(ticks, ["-", "-", "-", "2", "lost"]);
}

/// Another SSRC, or a timestamp far away, is another stream: nothing of it can be late.
#[test]
fn other_streams_and_leaps_begin_anew() {
    let mut buffer = JitterBuffer::new(G711, 40);
    assert_eq!(push(&mut buffer, 0, 0, 0, 1), Pushed::Restarted);
    assert_eq!(push(&mut buffer, 20, 1, 1, 1), Pushed::Queued);
    assert_eq!(pull(&mut buffer, 40), "0");
    assert_eq!(push(&mut buffer, 45, 9, 900, 2), Pushed::Restarted);
    assert_eq!((pull(&mut buffer, 60), pull(&mut buffer, 100)), ("-".to_owned(), "9".to_owned()));
    // The same source, an hour later by its clock.
    assert_eq!(push(&mut buffer, 110, 10, 180_000, 2), Pushed::Restarted);
    assert_eq!((pull(&mut buffer, 120), pull(&mut buffer, 160)), ("-".to_owned(), "10".to_owned()));
    assert_eq!(buffer.counts().restarts, 2);
    // Long silence: its next packet is a beginning, too.
    (0..60).for_each(|tick| drop(pull(&mut buffer, 180 + 20 * tick)));
    assert_eq!(push(&mut buffer, 1_500, 11, 180_060, 2), Pushed::Restarted);
}

#[test]
fn packets_of_any_length_become_frames() {
    for bytes in [80_usize, 240, 320, 480] {
        let mut buffer = JitterBuffer::new(G711, 40);
        let sound: Vec<u8> = (0..4_800_u32).map(|at| (at % 251) as u8).collect();
        let (mut at, mut pulled) = (0, Vec::new());
        for tick in 0..40 {
            while at < sound.len() && at / 8 <= 20 * tick {
                let number = (at / bytes) as u32;
                push_bytes(&mut buffer, (at / 8) as u32, number, at as u32, 1, &sound[at..at + bytes]);
                at += bytes;
            }
            if !matches!(buffer.pull(time(20 * tick as u32), &mut pulled), Pulled::Frame { .. })
                && pulled.len() >= sound.len()
            {
                break;
            }
        }
        assert!(pulled == sound, "{bytes}: {} of {}", pulled.len(), sound.len());
    }
}

/// The sender's clock has leapt back: the packet with which the stream begins anew is played, and not late as those before it.
#[test]
fn late_packets_in_a_row_begin_the_stream_anew_and_each_is_counted_once() {
    let mut buffer = JitterBuffer::new(G711, 40);
    let begun: Vec<_> = (0..20).map(|number| (20 * number, number)).collect();
    play(&mut buffer, &begun, 500);
    let late = |number| push(&mut buffer, 500, 20 + number, number, 1);
    let pushed: Vec<Pushed> = (0..LATE_IN_A_ROW).map(late).collect();
    assert_eq!(pushed.iter().filter(|pushed| **pushed == Pushed::Late).count(), LATE_IN_A_ROW as usize - 1);
    (500..2_000).step_by(20).for_each(|at| drop(pull(&mut buffer, at)));
    let counts = buffer.counts();
    assert_eq!((counts.restarts, counts.late), (1, u64::from(LATE_IN_A_ROW) - 1));
    assert_eq!((counts.received, counts.played), (20 + u64::from(LATE_IN_A_ROW), 21), "{counts:?}");
}

#[test]
fn packets_beyond_the_bounds_are_dropped() {
    let mut buffer = JitterBuffer::new(G711, 40);
    for number in 0..JITTER_PACKETS as u32 + 5 {
        push(&mut buffer, 0, number, number, 1);
    }
    assert_eq!(buffer.counts().overflows, 5);
    assert_eq!(push_bytes(&mut buffer, 0, 90, 0, 1, &[0; JITTER_PAYLOAD + 1]), Pushed::TooLong);
    assert!(buffer.size() < 16_000, "{}", buffer.size());
}

proptest! {
    /// For any network: packets are played in order, none twice, and every packet is counted.
    #[test]
    fn order_is_restored_and_every_packet_counted(
        delays in prop::collection::vec((0_u32..120, 0_u32..20, 0_u32..20), 60..150),
    ) {
        let mut buffer = JitterBuffer::new(G711, 40);
        let mut arrivals = Vec::new();
        for (number, (delay, loss, twice)) in delays.iter().enumerate() {
            let number = number as u32;
            if *loss > 0 {
                arrivals.push((number * 20 + delay, number));
            }
            if *twice == 0 {
                arrivals.push((number * 20 + delay + 3, number));
            }
        }
        let pulled = play(&mut buffer, &arrivals, 20 * delays.len() as u32 + 600);
        let played: Vec<u32> = pulled.split(' ').filter_map(|word| word.parse().ok()).collect();
        prop_assert!(played.is_sorted_by(|one, next| one < next), "{}", pulled);
        let counts = buffer.counts();
        prop_assert_eq!(counts.received, arrivals.len() as u64);
        prop_assert_eq!(counts.played, played.len() as u64);
        let accounted = counts.played + counts.late + counts.duplicates + counts.shrunk;
        prop_assert!(accounted >= counts.received && counts.played + counts.late + counts.duplicates <= counts.received,
            "{:?}", counts);
    }
}
