//! Any bytes of a peer that is not authenticated, at each kind of stream, cut into reads anywhere: memory that is kept, memory that is
//! used on the way, bytes sent and work are bounded by a small multiple of the bytes that came. The first byte says which stream it
//! is, the second how it is cut.
#![no_main]

use libfuzzer_sys::fuzz_target;

mod counting;

#[path = "../../crates/sim/tests/stranger/mod.rs"]
mod stranger;

use stranger::{KINDS, Stranger};

fuzz_target!(|data: &[u8]| {
    let [kind, cut, text @ ..] = data else { return };
    let mut stranger = Stranger::new(KINDS[usize::from(*kind) % KINDS.len()]);
    let before = counting::begin();
    let sent: usize = text.chunks(usize::from(*cut) * 16 + 1).map(|piece| stranger.hear(piece)).sum();
    let after = counting::now();
    let bytes = text.len().cast_signed();
    assert!(after.now - before.now <= 10 * bytes + (24 << 10), "kept {} of {bytes}", after.now - before.now);
    assert!(
        after.peak - before.now <= 40 * bytes + (96 << 10),
        "peak {} of {bytes}",
        after.peak - before.now
    );
    assert!(
        after.total - before.total <= 96 * bytes + (1 << 20),
        "work {} of {bytes}",
        after.total - before.total
    );
    assert!(sent.cast_signed() <= 8 * bytes + (32 << 10), "sent {sent} of {bytes}");
    assert!(stranger.is_gone_in_time());
});
