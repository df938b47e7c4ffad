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
    /// One endpoint for all inputs: its tables of a fixed size are made with their first entries.
    static WORLD: RefCell<World> = RefCell::new(World::new());
}

fuzz_target!(|data: &[u8]| WORLD.with_borrow_mut(|world| {
    let messages = data.split(|byte| *byte == 0xFF).filter_map(<[u8]>::split_first);
    let (mut bytes, mut count, mut over_udp) = (0, 0, 0);
    let (before, sent_before) = (counting::begin(), world.sent_over_udp());
    for (flags, message) in messages {
        let transport = if flags & 1 == 0 { Transport::Udp } else { Transport::Tcp };
        bytes += message.len().cast_signed();
        over_udp += if transport == Transport::Udp { message.len() } else { 0 };
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
    assert!(sent <= 3 * over_udp, "sent {sent} of {over_udp} over UDP");
    assert_eq!(world.load(), (0, 0));
}));
