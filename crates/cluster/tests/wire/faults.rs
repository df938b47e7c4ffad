//! Bytes that no node sends: each ends the connection with a reason, none with a panic, and memory stays bounded.

use cluster::limits::FRAME_BYTES;
use cluster::link::{Class, Lane, LinkFault};
use proptest::prelude::*;

use crate::pair::{Pair, at, message};

/// A data frame of no messages and these numbers.
fn empty_frame(class: u8, seq: u64, ack: u64, count: u16) -> Vec<u8> {
    let mut frame = vec![0, 0, 0, 19, class];
    frame.extend_from_slice(&seq.to_be_bytes());
    frame.extend_from_slice(&ack.to_be_bytes());
    frame.extend_from_slice(&count.to_be_bytes());
    frame
}

fn fault(lane: Lane, bytes: &[u8]) -> LinkFault {
    Pair::connected(lane).ends[0].link.handle_bytes(at(1), bytes).unwrap_err()
}

#[test]
fn every_fault_has_its_reason() {
    let (prompt, acknowledged) = (Lane::Prompt, Lane::Acknowledged);
    assert_eq!(fault(prompt, &[1, 0, 0, 0]), LinkFault::FrameTooLong { bytes: 1 << 24 });
    assert_eq!(fault(prompt, &[0, 0, 0, 0]), LinkFault::FrameLength);
    assert_eq!(fault(prompt, &[0, 0, 0, 1, 0]), LinkFault::FrameLength);
    assert_eq!(fault(prompt, &empty_frame(2, 1, 0, 0)), LinkFault::Class { number: 2 });
    assert_eq!(fault(prompt, &empty_frame(9, 1, 0, 0)), LinkFault::Class { number: 9 });
    assert_eq!(fault(prompt, &empty_frame(0, 1, 0, 1)), LinkFault::FrameLength);
    let gap = LinkFault::Sequence { class: Class::Call, expected: 1, found: 2 };
    assert_eq!(fault(prompt, &empty_frame(0, 2, 0, 0)), gap);
    let ahead = LinkFault::Acknowledgement { class: Class::Chat, sent: 0, found: 7 };
    assert_eq!(fault(acknowledged, &empty_frame(2, 1, 7, 0)), ahead);
    // A second resumption, a hello, and one that is not known.
    for class in [0xf2, 0xf0, 0xff] {
        assert_eq!(fault(prompt, &[0, 0, 0, 1, class]), LinkFault::Order { number: class });
    }
    assert_eq!(
        fault(prompt, &[0, 0, 0, 2, 0xf3, 0]).to_string(),
        "credit cannot be read: a field has no length"
    );
}

#[test]
fn data_before_the_resumption_is_out_of_order() {
    let mut pair = Pair::new(Lane::Prompt);
    pair.connect(at(0));
    let fault = pair.ends[0].link.handle_bytes(at(0), &empty_frame(0, 1, 0, 0)).unwrap_err();
    assert_eq!(fault, LinkFault::Order { number: 0 });
}

#[test]
fn a_peer_that_ignores_its_credit_is_cut_off() {
    let mut pair = Pair::connected(Lane::Prompt);
    let mut frame = empty_frame(0, 1, 0, 1);
    frame[..4].copy_from_slice(&(19 + 15 + 200_000_u32).to_be_bytes());
    frame.extend_from_slice(&[0; 11]);
    frame.extend_from_slice(&200_000_u32.to_be_bytes());
    frame.resize(4 + 19 + 15 + 200_000, 0);
    let mut result = Ok(());
    for seq in 1..=9_u64 {
        frame[5..13].copy_from_slice(&seq.to_be_bytes());
        result = result.and_then(|()| pair.ends[0].link.handle_bytes(at(0), &frame));
        assert!(pair.ends[0].link.bytes() <= Class::Call.window());
    }
    assert_eq!(result, Err(LinkFault::Credit { class: Class::Call }));
}

#[test]
fn a_peer_that_forgot_its_acknowledgements_is_refused() {
    let mut pair = Pair::connected(Lane::Acknowledged);
    pair.ends[0].link.send(at(0), Class::Chat, message(1, 20)).unwrap();
    pair.settle(at(0));
    pair.ends[1].link.poll_message(Class::Chat).unwrap();
    pair.expire(at(0) + cluster::limits::ACK_DELAY);
    pair.disconnect();
    pair.ends[1].link = cluster::link::Link::new(Lane::Acknowledged);
    pair.connect(at(1));
    pair.write(1, at(1), 1_000);
    let fault = pair.read(0, at(1), usize::MAX).unwrap_err();
    assert_eq!(fault, LinkFault::Acknowledgement { class: Class::Chat, sent: 1, found: 0 });
}

proptest! {
    #[test]
    fn any_bytes_are_taken_or_a_fault(bytes in proptest::collection::vec(any::<u8>(), 0..2_000), step in 1..500_usize) {
        for lane in [Lane::Prompt, Lane::Acknowledged] {
            let link = &mut Pair::connected(lane).ends[0].link;
            for piece in bytes.chunks(step) {
                if link.handle_bytes(at(1), piece).is_err() {
                    break;
                }
                prop_assert!(link.bytes() <= bytes.len());
            }
        }
    }

    #[test]
    fn a_changed_byte_never_panics(place in 0..2_000_usize, value in 1..=255_u8) {
        let mut pair = Pair::connected(Lane::Acknowledged);
        for n in 1..20 {
            pair.ends[0].link.send(at(0), Class::Chat, message(n, 80)).unwrap();
        }
        pair.write(0, at(0), FRAME_BYTES);
        let place = place % pair.ends[1].incoming.len();
        pair.ends[1].incoming[place] ^= value;
        let _ = pair.read(1, at(0), usize::MAX);
        while pair.ends[1].link.poll_message(Class::Chat).is_some() {}
        prop_assert!(pair.ends[1].link.is_empty());
    }
}
