//! Any SIP messages of a peer that is not authenticated: the memory that is kept, the memory that is used on the way, the work
//! and the bytes sent over UDP are bounded by a small multiple of the bytes that came, and nothing is open when the timers have run
//! out. Each message ends with the byte 0xFF and begins with one whose lowest bit selects UDP (0) or TCP (1).
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use sip::transport::Transport;

mod counting;

#[path = "../../crates/sip/tests/unauthenticated/world.rs"]
mod world;

use world::World;

thread_local! {
    /// One endpoint for all inputs.
    static WORLD: RefCell<World> = RefCell::new(warm());
}

/// Tables of a fixed size are made with their first entries, which are no input's.
fn warm() -> World {
    let mut world = World::new();
    for method in ["OPTIONS", "REGISTER", "INVITE", "SUBSCRIBE", "MESSAGE", "ACK", "BYE", "CANCEL", "PUBLISH"]
    {
        for user in ["a@example.com", "b@elsewhere.test"] {
            for transport in [Transport::Udp, Transport::Tcp] {
                let request = format!(
                    "{method} sip:bob@example.com SIP/2.0\r\nVia: SIP/2.0/UDP 198.51.100.7;branch=z9hG4bK{method}{user};rport\r\n\
                     From: <sip:{user}>;tag=f\r\nTo: <sip:bob@example.com>\r\nCall-ID: {method}{user}\r\n\
                     CSeq: 1 {method}\r\nMax-Forwards: 70\r\nContact: <sip:a@198.51.100.7>\r\nContent-Length: 0\r\n\r\n"
                );
                world.receive(transport, 5060, request.as_bytes());
            }
        }
    }
    world.run_out();
    world
}

fuzz_target!(|data: &[u8]| WORLD.with_borrow_mut(|world| {
    let messages = data.split(|byte| *byte == 0xFF).filter_map(<[u8]>::split_first);
    let (mut bytes, mut count) = (0, 0);
    let (before, sent_before) = (counting::begin(), world.sent_over_udp());
    for (flags, message) in messages {
        let transport = if flags & 1 == 0 { Transport::Udp } else { Transport::Tcp };
        bytes += message.len().cast_signed();
        count += 1;
        world.receive(transport, 5060, message);
    }
    let after = counting::now();
    world.run_out();
    let work = counting::now().total - before.total;
    let sent = world.sent_over_udp() - sent_before;
    let (kept, peak) = (after.now - before.now, after.peak - before.now);
    // A table that grows by doubling may do so in any input.
    assert!(kept <= 4 * bytes + (8 << 10) * count + (256 << 10), "kept {kept} of {bytes}");
    assert!(peak <= 24 * bytes + (32 << 10) * count + (512 << 10), "peak {peak} of {bytes}");
    assert!(work <= 48 * bytes + (64 << 10) * count + (1 << 20), "work {work} of {bytes}");
    // A copy over TCP of a request over UDP is the same transaction (RFC 3261 §17.2.3), and pays for the answer's copy.
    assert!(sent.cast_signed() <= 3 * bytes, "sent {sent} of {bytes} over UDP");
    assert_eq!(world.load(), (0, 0));
}));
