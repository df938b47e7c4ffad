//! For any SIP traffic of an unauthenticated peer, the memory kept, the memory used on the way, and the work
//! are bounded by a small multiple of the bytes that came, and all memory is freed when the timers have run
//! out. `amplification.rs` bounds the answers.

#![expect(clippy::unwrap_used, reason = "a test helper that panics is a failed test")]

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sim::{Bound, Counting};
use sip::transport::Transport;

use world::World;

mod world;

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

/// A transaction and its context hold the request and the answer; tables grow by doubling.
const KEPT: Bound = Bound { per_byte: 4, besides: 8 << 10 };
/// The most at any time, while a message is read and answered.
const PEAK: Bound = Bound { per_byte: 24, besides: 32 << 10 };
/// All that was ever allocated, as a measure of work: retransmissions and timers among it.
const WORK: Bound = Bound { per_byte: 48, besides: 64 << 10 };
/// Tables that keep their room, whatever came: proofs, limits of sources, the wheel.
const AT_REST: usize = 64 << 10;

/// The messages of RFC 4475 and 5118.
fn torture() -> Vec<Vec<u8>> {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sip-wire/tests/vectors");
    let folders = ["rfc4475", "rfc5118"].map(|name| fs::read_dir(vectors.join(name)).unwrap());
    let files = folders.into_iter().flatten().map(|entry| entry.unwrap().path());
    files
        .filter(|path| path.extension().is_some_and(|kind| kind == "dat"))
        .map(|path| fs::read(path).unwrap())
        .collect()
}

/// Requests with headers of any number and size, some of which mean something.
fn request() -> impl Strategy<Value = Vec<u8>> {
    const METHODS: [&str; 10] =
        ["INVITE", "REGISTER", "OPTIONS", "MESSAGE", "SUBSCRIBE", "BYE", "ACK", "CANCEL", "PUBLISH", "NOISE"];
    const NAMES: [&str; 13] = [
        "Route",
        "Record-Route",
        "Via",
        "Contact",
        "Path",
        "Authorization",
        "Proxy-Authorization",
        "Require",
        "Supported",
        "X-Any",
        "P-Asserted-Identity",
        "Event",
        "Accept",
    ];
    let values = prop_oneof![
        Just("<sip:192.0.2.1;lr;t=abcdefg>".to_owned()),
        Just("<sip:a@example.com>;q=0.5;expires=60".to_owned()),
        Just(
            "Digest username=\"a\", realm=\"example.com\", nonce=\"0\", uri=\"sip:a\", response=\"0\""
                .to_owned()
        ),
        "[ -~]{0,40}",
        (1_usize..2_000).prop_map(|length| "a,".repeat(length)),
    ];
    let header =
        (prop::sample::select(&NAMES[..]), values).prop_map(|(name, value)| format!("{name}: {value}\r\n"));
    let headers = prop::collection::vec(header, 0..30).prop_map(|headers| headers.concat());
    let body = prop::collection::vec(any::<u8>(), 0..600);
    let number = any::<u32>();
    let tag = prop::sample::select(&["", ";tag=x"][..]);
    let from = prop::sample::select(&["sip:a@example.com", "sip:b@elsewhere.test"][..]);
    let uri =
        prop::sample::select(&["sip:bob@example.com", "sip:example.com", "sip:x@192.0.2.200", "tel:+1"][..]);
    (prop::sample::select(&METHODS[..]), uri, from, tag, number, headers, body).prop_map(
        |(method, uri, from, tag, number, headers, body)| {
            let head = format!(
                "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP 198.51.100.7;branch=z9hG4bK{number};rport\r\n\
                 From: <{from}>;tag=f\r\nTo: <{uri}>{tag}\r\nCall-ID: {number}\r\nCSeq: 1 {method}\r\n\
                 Max-Forwards: 70\r\nContact: <sip:a@198.51.100.7>\r\n{headers}Content-Length: {}\r\n\r\n",
                body.len()
            );
            [head.as_bytes(), &body].concat()
        },
    )
}

/// Messages of one peer, and their cost. Tables of a fixed size are made with their first entry, so `world`
/// has had some.
fn check(world: &mut World, messages: &[(u16, bool, Vec<u8>)]) -> Result<(), String> {
    let (base, bytes, count) =
        (ALLOCATOR.bytes(), messages.iter().map(|m| m.2.len()).sum::<usize>(), messages.len());
    let work = ALLOCATOR.total();
    let sent_before = world.sent_over_udp();
    ALLOCATOR.reset_peak();
    for (port, is_udp, message) in messages {
        world.receive(if *is_udp { Transport::Udp } else { Transport::Tcp }, *port, message);
    }
    let kept = ALLOCATOR.bytes().saturating_sub(base);
    let peak = ALLOCATOR.peak().saturating_sub(base);
    world.run_out();
    let rest = ALLOCATOR.bytes().saturating_sub(base);
    let work = ALLOCATOR.total() - work;
    let sent = world.sent_over_udp() - sent_before;
    let figures = format!(
        "{bytes} bytes in {count} messages: kept {kept}, peak {peak}, at rest {rest}, work {work}, sent {sent}"
    );
    let holds = KEPT.holds(kept, bytes, count)
        && PEAK.holds(peak, bytes, count)
        && WORK.holds(work, bytes, count)
        && rest <= AT_REST
        // A copy over TCP is the same transaction (RFC 3261 §17.2.3), so all bytes count.
        && sent <= 3 * bytes
        && world.load() == (0, 0);
    if holds { Ok(()) } else { Err(figures) }
}

#[test]
fn a_stranger_costs_a_small_multiple_of_its_input() {
    let mut world = World::new();
    let each =
        || torture().into_iter().enumerate().map(|(at, message)| (at as u16 + 1, at % 2 == 0, message));
    for (port, is_udp, message) in each() {
        world.receive(if is_udp { Transport::Udp } else { Transport::Tcp }, port, &message);
    }
    world.run_out();
    for (_, _, message) in each() {
        for is_udp in [true, false] {
            check(&mut world, &[(5060, is_udp, message.clone())]).unwrap();
        }
    }
    check(&mut world, &each().collect::<Vec<_>>()).unwrap();
    let world = std::cell::RefCell::new(world);
    let mut runner = TestRunner::new(Config { cases: 200, failure_persistence: None, ..Config::default() });
    let messages = prop::collection::vec((any::<u16>(), any::<bool>(), request()), 1..40);
    let outcome = runner
        .run(&messages, |messages| check(&mut world.borrow_mut(), &messages).map_err(TestCaseError::fail));
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}
