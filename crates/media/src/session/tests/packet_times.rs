//! Packets of less and of more than a frame, across a bridge.

use super::*;
use crate::codec::{Decoder, Encoder, payload_samples};

/// A second of sound and more, in packets of Opus with so many samples each.
fn opus_packets(samples: usize) -> Vec<Vec<u8>> {
    let sound = tone(500.0, 8_000, 48_000, 2_400);
    let mut encoder = Encoder::new(Codec::Opus).unwrap();
    let packets = sound.chunks_exact(samples).enumerate().map(|(index, samples)| {
        let (mut payload, mut bytes) = (Vec::new(), Vec::new());
        encoder.encode(samples, &mut payload).unwrap();
        let header = Header {
            marker: index == 0,
            payload_type: payload_type(Codec::Opus).number,
            sequence: u16::try_from(index).unwrap(),
            timestamp: u32::try_from(index * samples.len()).unwrap(),
            ssrc: 7,
        };
        header.write(&payload, &mut bytes);
        bytes
    });
    packets.collect()
}

/// A leg receives a packet of so many samples as each of them begins, and its partner sends what it heard.
fn passed_on(packets: &[Vec<u8>], samples: usize, to: Codec) -> Out {
    let (mut from, mut partner) = (leg(Codec::Opus), leg(to));
    from.listen(true);
    let (mut ignored, mut passed, mut work) = (Out::default(), Out::default(), TickWork::default());
    let mut packets = packets.iter().enumerate().peekable();
    for tick in 0..100 {
        let now = time(20 * tick);
        while let Some((_, bytes)) = packets.next_if(|(index, _)| *index * samples <= 960 * tick as usize) {
            from.handle_packet(now, address(PEER), bytes, &mut work, &mut ignored);
        }
        from.pull_frame(now, &mut work, &mut ignored);
        partner.send_frame(now, from.received_frame(), &mut work, &mut passed);
    }
    passed
}

/// RFC 6716 §3.1, table 2.
#[test]
fn the_duration_of_a_packet_stands_in_its_first_bytes() {
    let packets: [(&[u8], Option<usize>); 9] = [
        (&[0 << 3], Some(480)),
        (&[11 << 3], Some(2_880)),
        (&[12 << 3], Some(480)),
        (&[15 << 3 | 1], Some(1_920)),
        (&[16 << 3], Some(120)),
        (&[31 << 3 | 2], Some(1_920)),
        (&[28 << 3 | 3, 0xc0 | 8], Some(960)),
        (&[31 << 3 | 3], None),
        (&[], None),
    ];
    for (packet, samples) in packets {
        assert_eq!(payload_samples(Codec::Opus, packet), samples, "{packet:?}");
    }
    for samples in [120, 240, 480, 960, 1_920, 2_880] {
        let packets = opus_packets(samples);
        assert!(packets.iter().all(|bytes| payload_samples(Codec::Opus, &bytes[12..]) == Some(samples)));
    }
}

#[test]
fn short_packets_cross_a_bridge_whole() {
    for samples in [120, 240, 480] {
        let packets = opus_packets(samples);
        for to in [Codec::Opus, Codec::Pcma, Codec::G722] {
            let passed = passed_on(&packets, samples, to);
            assert!(passed.rtp.len() >= 95, "{samples} to {to:?}: {}", passed.rtp.len());
            let markers = passed.headers().iter().filter(|header| header.marker).count();
            assert_eq!(markers, 1, "{samples} to {to:?}");
            let (mut decoder, mut received) = (Decoder::new(to).unwrap(), Vec::new());
            for (_, bytes) in &passed.rtp {
                let before = received.len();
                decoder.decode(&bytes[12..], &mut received).unwrap();
                assert_eq!(received.len() - before, crate::prompt::frame_samples(to));
            }
            let half = &received[received.len() / 4..received.len() / 4 * 3];
            let (level, other) = levels(half, to.sample_rate(), 500.0);
            assert!(
                (7_000.0..9_000.0).contains(&level) && other < 900.0,
                "{samples} to {to:?}: {level} {other}"
            );
        }
    }
}

/// RFC 3551 §4.1: the marker is for the first packet behind a pause.
#[test]
fn long_packets_are_no_pauses() {
    for samples in [1_920, 2_880] {
        let packets = opus_packets(samples);
        for to in [Codec::Opus, Codec::Pcma] {
            let passed = passed_on(&packets, samples, to);
            let headers = passed.headers();
            let markers: Vec<bool> = headers.iter().map(|header| header.marker).collect();
            assert_eq!(
                markers.iter().filter(|marker| **marker).count(),
                1,
                "{samples} to {to:?}: {markers:?}"
            );
            let step = u32::try_from(samples).unwrap() / (48_000 / payload_type(to).clock_rate);
            assert!(headers.windows(2).all(|two| two[1].timestamp.wrapping_sub(two[0].timestamp) == step));
        }
    }
}
