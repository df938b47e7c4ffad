//! Captures of every kind, and damaged ones.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::events::{Digit, EventReceiver};
use crate::rtp::Packet;

/// One UDP datagram in IPv4, from port 1000 to 2000.
fn ipv4(payload: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.udp(Duration::ZERO, 1000, 2000, payload);
    writer.finish()[24 + 16 + 14..].to_vec()
}

fn ipv6(payload: &[u8], options: bool) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    let extra = if options { 8 } else { 0 };
    packet.extend((8 + extra + payload.len() as u16).to_be_bytes());
    packet.extend([if options { 0 } else { 17 }, 64]);
    packet.extend([0; 32]);
    if options {
        packet.extend([17, 0, 0, 0, 0, 0, 0, 0]);
    }
    packet.extend(&ipv4(payload)[20..]);
    packet
}

fn classic(big: bool, nanos: bool, link: u32, frames: &[(u32, u32, Vec<u8>)]) -> Vec<u8> {
    let word = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let half = |value: u16| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let mut file = word(if nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 }).to_vec();
    file.extend([half(2), half(4)].concat());
    file.extend([word(0), word(0), word(65535), word(link)].concat());
    for (seconds, fraction, frame) in frames {
        let length = word(frame.len() as u32);
        file.extend([word(*seconds), word(*fraction), length, length].concat());
        file.extend(frame);
    }
    file
}

fn only_payload(file: &[u8]) -> Vec<u8> {
    let capture = Capture::parse(file).unwrap();
    assert_eq!(capture.packets.len(), 1);
    assert_eq!((capture.packets[0].source_port, capture.packets[0].destination_port), (1000, 2000));
    capture.bytes
}

#[test]
fn every_link_type_gives_its_datagram() {
    let behind = |header: &[u8], packet: Vec<u8>| [header, &packet].concat();
    let mut ethernet = vec![0; 12];
    ethernet.extend([8, 0]);
    let mut vlans = vec![0; 12];
    vlans.extend([0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 0x86, 0xdd]);
    let mut cooked = vec![0; 14];
    cooked.extend([8, 0]);
    let mut cooked2 = vec![0x86, 0xdd];
    cooked2.extend([0; 18]);
    for (link, frame) in [
        (1, behind(&ethernet, ipv4(b"x"))),
        (1, behind(&vlans, ipv6(b"x", true))),
        (113, behind(&cooked, ipv4(b"x"))),
        (276, behind(&cooked2, ipv6(b"x", false))),
        (101, ipv4(b"x")),
        (228, ipv4(b"x")),
        (229, ipv6(b"x", false)),
        (0, behind(&[2, 0, 0, 0], ipv4(b"x"))),
        (108, behind(&[0, 0, 0, 30], ipv6(b"x", false))),
    ] {
        assert_eq!(only_payload(&classic(false, false, link, &[(0, 0, frame)])), b"x", "link type {link}");
    }
}

#[test]
fn the_padding_of_a_short_ethernet_frame_is_not_payload() {
    let mut frame = vec![0; 12];
    frame.extend([8, 0]);
    frame.extend(ipv4(b"x"));
    frame.resize(60, 0);
    assert_eq!(only_payload(&classic(true, false, 1, &[(0, 0, frame)])), b"x");
}

#[test]
fn times_count_from_the_first_in_both_byte_orders_and_units() {
    for big in [false, true] {
        for (nanos, unit) in [(false, 1), (true, 1000)] {
            let frames =
                [(9, 999_000 * unit, ipv4(b"a")), (10, 1_000 * unit, ipv4(b"b")), (10, 0, ipv4(b"c"))];
            let capture = Capture::parse(&classic(big, nanos, 101, &frames)).unwrap();
            let offsets: Vec<_> = capture.packets.iter().map(|packet| packet.offset.as_micros()).collect();
            // The last one's clock went back: it follows the one before it at once.
            assert_eq!(offsets, [0, 2_000, 2_000]);
            assert_eq!(capture.bytes, b"abc");
            assert_eq!(capture.duration(), Duration::from_millis(2));
        }
    }
}

#[test]
fn fragments_and_other_protocols_are_left_out() {
    let mut first_fragment = ipv4(b"x");
    first_fragment[6] = 0x20;
    let mut later_fragment = ipv4(b"x");
    later_fragment[7] = 1;
    let mut tcp = ipv4(b"x");
    tcp[9] = 6;
    let mut cut = ipv4(b"xyz");
    cut.truncate(30);
    let mut fragment6 = ipv6(b"x", false);
    fragment6[6] = 44;
    let frames: Vec<_> = [first_fragment, later_fragment, tcp, cut, fragment6, ipv4(b"whole"), Vec::new()]
        .into_iter()
        .map(|frame| (0, 0, frame))
        .collect();
    assert_eq!(only_payload(&classic(false, false, 101, &frames)), b"whole");
}

fn block(big: bool, kind: u32, body: &[u8]) -> Vec<u8> {
    let word = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let mut body = body.to_vec();
    body.resize(body.len().next_multiple_of(4), 0);
    let total = word(body.len() as u32 + 12);
    [&word(kind)[..], &total, &body, &total].concat()
}

fn pcapng(big: bool, resolution: u8, packets: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let word = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let half = |value: u16| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let section = [&word(0x1a2b_3c4d)[..], &half(1), &half(0), &[0xff; 8]].concat();
    let interface = [
        &[half(101), half(0)].concat()[..],
        &word(0),
        &[half(9), half(1)].concat(),
        &[resolution, 0, 0, 0],
        &[half(0), half(0)].concat(),
    ]
    .concat();
    let mut file =
        [block(big, 0x0a0d_0d0a, &section), block(big, 1, &interface), block(big, 4, b"names")].concat();
    for (time, frame) in packets {
        let length = word(frame.len() as u32);
        let mut body = [word(0), word((time >> 32) as u32), word(*time as u32), length, length].concat();
        body.extend(frame);
        file.extend(block(big, 6, &body));
    }
    file
}

#[test]
fn pcapng_in_both_byte_orders_and_its_resolutions() {
    for big in [false, true] {
        // Microseconds, nanoseconds, and 1024ths of a second.
        for (resolution, second) in [(6, 1_000_000), (9, 1_000_000_000), (0x8a, 1024)] {
            let packets = [(7 * second, ipv4(b"a")), (7 * second + second / 2, ipv4(b"b"))];
            let mut file = pcapng(big, resolution, &packets);
            let simple = ipv4(b"c");
            let length = simple.len() as u32;
            let length = if big { length.to_be_bytes() } else { length.to_le_bytes() };
            file.extend(block(big, 3, &[&length[..], &simple].concat()));
            let capture = Capture::parse(&file).unwrap();
            let offsets: Vec<_> = capture.packets.iter().map(|packet| packet.offset.as_millis()).collect();
            assert_eq!(offsets, [0, 500, 500]);
            assert_eq!(capture.bytes, b"abc");
        }
    }
}

#[test]
fn damage_is_reported_with_its_place() {
    let whole = classic(false, false, 101, &[(0, 0, ipv4(b"x"))]);
    let error_of = |file: &[u8]| Capture::parse(file).unwrap_err().to_string();
    assert_eq!(
        error_of(b""),
        "at byte 0: expected the magic number of a capture, found the end after 0 bytes"
    );
    assert_eq!(
        error_of(b"RIFF"),
        "at byte 0: expected the magic number of pcap or pcapng, found 52 49 46 46"
    );
    assert_eq!(
        error_of(&whole[..30]),
        "at byte 28: expected a packet's fraction of a second, found the end after 2 bytes"
    );
    assert_eq!(
        error_of(&whole[..whole.len() - 1]),
        "at byte 40: expected a packet as long as its header says, found the end after 28 bytes"
    );
    let mut wireless = whole.clone();
    wireless[20] = 105;
    assert!(error_of(&wireless).starts_with("at byte 20: expected a link type"));
    let mut huge = whole;
    huge[32..36].copy_from_slice(&[0xff; 4]);
    assert_eq!(error_of(&huge), "at byte 32: expected at most 262144 captured bytes, found 4294967295");
    let mut ng = pcapng(false, 6, &[(0, ipv4(b"x"))]);
    let last = ng.len() - 4;
    ng[last] = 0;
    assert_eq!(error_of(&ng), format!("at byte {last}: expected the block's length again, found 0"));
}

#[test]
fn a_made_digit_has_the_shape_of_sipps() {
    let capture = Capture::parse(&built_in("pcap/dtmf_2833_5.pcap").unwrap()).unwrap();
    let packets: Vec<_> = capture.iter().map(|(_, bytes)| Packet::parse(bytes).unwrap()).collect();
    assert_eq!(packets.len(), 10);
    assert_eq!(capture.duration(), Duration::from_millis(140));
    let durations: Vec<_> =
        packets.iter().map(|one| u16::from_be_bytes([one.payload()[2], one.payload()[3]])).collect();
    assert_eq!(durations, [0, 320, 640, 960, 1280, 1600, 1920, 2240, 2240, 2240]);
    for (index, packet) in packets.iter().enumerate() {
        assert_eq!(packet.marker(), index == 0);
        assert_eq!((packet.payload_type(), packet.timestamp(), packet.ssrc()), (101, 43_200, 0x0e05_384e));
        assert_eq!(packet.payload()[1] & 0x80 != 0, index >= 7);
    }
    assert!(packets[7..].iter().all(|packet| packet.sequence() == 8162));
}

#[test]
fn every_name_of_sipps_captures_is_its_digit() {
    let digit_of = |name: &str| {
        let mut receiver = EventReceiver::new();
        let capture = Capture::parse(&built_in(name)?).unwrap();
        let digits: String = capture
            .iter()
            .filter_map(|(_, bytes)| receiver.handle(&Packet::parse(bytes).unwrap()))
            .map(Digit::to_char)
            .collect();
        Some(digits)
    };
    for digit in 0..10 {
        assert_eq!(digit_of(&format!("a/b/dtmf_2833_{digit}.pcap")), Some(digit.to_string()));
    }
    assert_eq!(digit_of("dtmf_2833_star.pcap").as_deref(), Some("*"));
    assert_eq!(digit_of("dtmf_2833_pound.pcap").as_deref(), Some("#"));
    for other in ["dtmf_2833_A.pcap", "dtmf_2833_10.pcap", "dtmf_2833_.pcap", "dtmf_2833_5", "g711a.pcap.txt"]
    {
        assert_eq!(built_in(other), None, "{other}");
    }
}

#[test]
fn the_made_voice_is_loud_enough_and_has_pauses() {
    let capture = Capture::parse(&built_in("g711a.pcap").unwrap()).unwrap();
    assert_eq!(capture.packets.len(), 400);
    let mut loud = 0;
    let mut silent = 0;
    for (_, bytes) in capture.iter() {
        let packet = Packet::parse(bytes).unwrap();
        assert_eq!((packet.payload_type(), packet.payload().len()), (8, 160));
        let peak = packet.payload().iter().map(|byte| crate::codec::alaw_decode(*byte).unsigned_abs()).max();
        match peak {
            Some(peak) if peak > 1000 => loud += 1,
            Some(peak) if peak < 16 => silent += 1,
            _ => {}
        }
    }
    assert!(loud > 300, "{loud} loud packets");
    assert!((20..80).contains(&silent), "{silent} silent packets");
}

#[test]
fn a_file_of_bytes_in_front_of_a_capture_is_not_one() {
    let mut file = b"\n".to_vec();
    file.extend(dtmf_capture(Digit::STAR));
    assert_eq!(Capture::parse(&file).unwrap_err().position, 0);
}

proptest! {
    #[test]
    fn what_is_written_is_read(datagrams in prop::collection::vec(
        (0_u64..1_000_000, any::<u16>(), any::<u16>(), prop::collection::vec(any::<u8>(), 0..64)), 0..8)) {
        let mut writer = Writer::new();
        let mut at = 0;
        let mut expected = Vec::new();
        for (step, source, destination, payload) in &datagrams {
            at += step;
            writer.udp(Duration::from_micros(at), *source, *destination, payload);
            expected.push((Duration::from_micros(at - datagrams[0].0), *source, *destination, payload.clone()));
        }
        let capture = Capture::parse(&writer.finish()).unwrap();
        let read: Vec<_> = capture.iter()
            .map(|(one, bytes)| (one.offset, one.source_port, one.destination_port, bytes.to_vec()))
            .collect();
        prop_assert_eq!(read, expected);
    }

    /// For any changed or missing byte, the result is a capture inside its own bytes or an error inside the
    /// file.
    #[test]
    fn damaged_files_never_panic(at in any::<prop::sample::Index>(), byte in any::<u8>(),
                                 cut in any::<prop::sample::Index>(), ng in any::<bool>()) {
        let mut file = if ng {
            pcapng(false, 6, &[(1, ipv4(b"abc")), (2, ipv6(b"def", true))])
        } else {
            classic(false, false, 101, &[(0, 0, ipv4(b"abc")), (1, 0, ipv6(b"def", true))])
        };
        let index = at.index(file.len());
        file[index] = byte;
        file.truncate(cut.index(file.len()) + 1);
        match Capture::parse(&file) {
            Ok(capture) => prop_assert!(capture.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() <= file.len()),
            Err(error) => prop_assert!(error.position <= file.len()),
        }
    }
}
