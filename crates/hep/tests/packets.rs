//! Packets against bytes that were written by hand from the specification, and against a decoder of its own.

use std::net::{IpAddr, SocketAddr};

use hep::{CaptureAgent, CapturedMessage, IpProtocol, is_sampled, write_packet};
use proptest::prelude::*;
use stdx::Instant;

fn agent(id: u32, password: &str) -> CaptureAgent {
    CaptureAgent { id, password: password.into() }
}

/// A packet, decoded: the type and the value of each chunk.
fn chunks(packet: &[u8]) -> Vec<(u16, Vec<u8>)> {
    assert_eq!(&packet[..4], b"HEP3");
    assert_eq!(usize::from(u16::from_be_bytes([packet[4], packet[5]])), packet.len());
    let (mut rest, mut chunks) = (&packet[6..], Vec::new());
    while !rest.is_empty() {
        assert_eq!(&rest[..2], [0, 0], "a vendor other than the specification's");
        let length = usize::from(u16::from_be_bytes([rest[4], rest[5]]));
        chunks.push((u16::from_be_bytes([rest[2], rest[3]]), rest[6..length].to_vec()));
        rest = &rest[length..];
    }
    chunks
}

#[test]
fn a_packet_has_the_bytes_of_the_specification() {
    let captured = CapturedMessage {
        source: "212.202.0.1:12010".parse().unwrap(),
        destination: "82.116.0.211:5060".parse().unwrap(),
        protocol: IpProtocol::Udp,
        at: Instant::from_micros(1_313_440_139_000_056),
        correlation: b"a1",
        message: b"INVITE",
    };
    let mut packet = vec![0xff];
    write_packet(&agent(228, "myhep"), &captured, &mut packet);
    #[rustfmt::skip]
    let expected = [
        0xff, // what was there before
        0x48, 0x45, 0x50, 0x33, 0x00, 0x7c, // HEP3, 124 bytes
        0x00, 0x00, 0x00, 0x01, 0x00, 0x07, 0x02, // IPv4
        0x00, 0x00, 0x00, 0x02, 0x00, 0x07, 0x11, // UDP
        0x00, 0x00, 0x00, 0x03, 0x00, 0x0a, 0xd4, 0xca, 0x00, 0x01, // 212.202.0.1
        0x00, 0x00, 0x00, 0x04, 0x00, 0x0a, 0x52, 0x74, 0x00, 0xd3, // 82.116.0.211
        0x00, 0x00, 0x00, 0x07, 0x00, 0x08, 0x2e, 0xea, // port 12010
        0x00, 0x00, 0x00, 0x08, 0x00, 0x08, 0x13, 0xc4, // port 5060
        0x00, 0x00, 0x00, 0x09, 0x00, 0x0a, 0x4e, 0x49, 0x81, 0x8b, // seconds
        0x00, 0x00, 0x00, 0x0a, 0x00, 0x0a, 0x00, 0x00, 0x00, 0x38, // 56 microseconds
        0x00, 0x00, 0x00, 0x0b, 0x00, 0x07, 0x01, // SIP
        0x00, 0x00, 0x00, 0x0c, 0x00, 0x0a, 0x00, 0x00, 0x00, 0xe4, // node 228
        0x00, 0x00, 0x00, 0x0e, 0x00, 0x0b, 0x6d, 0x79, 0x68, 0x65, 0x70, // myhep
        0x00, 0x00, 0x00, 0x11, 0x00, 0x08, 0x61, 0x31, // a1
        0x00, 0x00, 0x00, 0x0f, 0x00, 0x0c, 0x49, 0x4e, 0x56, 0x49, 0x54, 0x45, // INVITE
    ];
    assert_eq!(packet, expected);
}

#[test]
fn without_a_password_and_a_call_there_are_no_chunks_of_them() {
    let captured = CapturedMessage {
        source: "[2001:db8::1]:5060".parse().unwrap(),
        destination: "127.0.0.1:5061".parse().unwrap(),
        protocol: IpProtocol::Tls,
        at: Instant::from_micros(1),
        correlation: b"",
        message: b"x",
    };
    let mut packet = Vec::new();
    write_packet(&agent(1, ""), &captured, &mut packet);
    let chunks = chunks(&packet);
    let kinds: Vec<u16> = chunks.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [1, 2, 5, 6, 7, 8, 9, 10, 11, 12, 15]);
    assert_eq!((&*chunks[0].1, &*chunks[1].1), (&[10][..], &[22][..]));
    // Both addresses are of one family.
    assert_eq!(chunks[3].1, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1]);
}

#[test]
fn the_largest_parts_are_cut_to_one_datagram() {
    let (long, password) = (vec![b'x'; 400_000], "p".repeat(70_000));
    let captured = CapturedMessage {
        source: "[2001:db8::1]:5060".parse().unwrap(),
        destination: "[2001:db8::2]:5060".parse().unwrap(),
        protocol: IpProtocol::Tcp,
        at: Instant::from_micros(u64::MAX),
        correlation: &long,
        message: &long,
    };
    let mut packet = Vec::new();
    write_packet(&agent(1, &password), &captured, &mut packet);
    assert!(packet.len() <= 65_507, "{} bytes", packet.len());
    assert_eq!(chunks(&packet).last().map(|(_, value)| value.len()), Some(hep::MESSAGE_BYTES));
}

#[test]
fn a_share_of_the_calls_is_captured_and_a_call_whole() {
    let calls: Vec<String> = (0..10_000).map(|number| format!("{number:08x}@192.0.2.7")).collect();
    let captured = |percent| calls.iter().filter(|call| is_sampled(call.as_bytes(), percent)).count();
    assert_eq!((captured(0), captured(100)), (0, 10_000));
    for percent in [1_u32, 10, 50] {
        let (count, expected) = (captured(percent), percent as usize * 100);
        assert!(count.abs_diff(expected) < 100 + expected / 10, "{count} instead of {expected}");
    }
    // More percent never take a call out.
    assert!(calls.iter().all(|call| !is_sampled(call.as_bytes(), 10) || is_sampled(call.as_bytes(), 11)));
}

fn addresses() -> impl Strategy<Value = (SocketAddr, SocketAddr)> {
    (any::<IpAddr>(), any::<u16>(), any::<IpAddr>(), any::<u16>())
        .prop_map(|(one, port, other, second)| (SocketAddr::new(one, port), SocketAddr::new(other, second)))
}

/// The address in a chunk.
fn address(value: &[u8]) -> IpAddr {
    match <[u8; 4]>::try_from(value) {
        Ok(octets) => octets.into(),
        Err(_) => IpAddr::from(<[u8; 16]>::try_from(value).expect("4 or 16 bytes")).to_canonical(),
    }
}

proptest! {
    #[test]
    fn a_written_packet_is_read_back_unchanged(
        (source, destination) in addresses(),
        micros in 0_u64..4_294_967_296_000_000,
        id in any::<u32>(),
        password in "[a-zA-Z0-9]{0,20}",
        correlation in prop::collection::vec(any::<u8>(), 0..60),
        message in prop::collection::vec(any::<u8>(), 0..2_000),
    ) {
        let at = Instant::from_micros(micros);
        let protocol = IpProtocol::Tcp;
        let captured =
            CapturedMessage { source, destination, protocol, at, correlation: &correlation, message: &message };
        let mut packet = Vec::new();
        write_packet(&agent(id, &password), &captured, &mut packet);
        let chunks = chunks(&packet);
        let find = |kind: u16| chunks.iter().find(|(found, _)| *found == kind).map(|(_, value)| value.as_slice());
        let number = |kind: u16| find(kind).map(|value| value.iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte)));
        prop_assert_eq!(find(3).or(find(5)).map(address), Some(source.ip().to_canonical()));
        prop_assert_eq!(find(4).or(find(6)).map(address), Some(destination.ip().to_canonical()));
        prop_assert_eq!(number(1), Some(if find(3).is_some() { 2 } else { 10 }));
        prop_assert_eq!((number(2), number(11), number(12)), (Some(6), Some(1), Some(u64::from(id))));
        prop_assert_eq!((number(7), number(8)), (Some(source.port().into()), Some(destination.port().into())));
        prop_assert_eq!(number(9).zip(number(10)).map(|(seconds, rest)| seconds * 1_000_000 + rest), Some(micros));
        prop_assert_eq!(find(14).unwrap_or_default(), password.as_bytes());
        prop_assert_eq!(find(17).unwrap_or_default(), correlation);
        prop_assert_eq!(find(15), Some(&*message));
    }
}
