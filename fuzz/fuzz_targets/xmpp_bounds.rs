//! Any bytes of a peer that is not authenticated, at each kind of stream, cut into reads anywhere: memory that is kept, memory that is
//! used on the way, bytes sent and work are bounded by a small multiple of the bytes that came. The first byte says which stream it
//! is, the second how it is cut.
#![no_main]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/sim/tests/stranger/mod.rs"]
mod stranger;

use stranger::{KINDS, Stranger};

/// Of this thread: the fuzzer has others.
#[derive(Clone, Copy, Default)]
struct Count {
    now: isize,
    peak: isize,
    total: isize,
}

thread_local! {
    static COUNT: Cell<Count> = const { Cell::new(Count { now: 0, peak: 0, total: 0 }) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(change: isize) {
    // A thread that ends has no more count.
    let _ = COUNT.try_with(|cell| {
        let mut count = cell.get();
        count.now += change;
        count.peak = count.peak.max(count.now);
        count.total += change.max(0);
        cell.set(count);
    });
}

// SAFETY: every call goes to the system's allocator with the arguments it came with.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        unsafe { System.dealloc(pointer, layout) }
    }
}

fuzz_target!(|data: &[u8]| {
    let [kind, cut, text @ ..] = data else { return };
    let mut stranger = Stranger::new(KINDS[usize::from(*kind) % KINDS.len()]);
    let before = COUNT.get();
    COUNT.set(Count { peak: before.now, ..before });
    let sent: usize = text.chunks(usize::from(*cut) * 16 + 1).map(|piece| stranger.hear(piece)).sum();
    let after = COUNT.get();
    let bytes = text.len().cast_signed();
    assert!(after.now - before.now <= 10 * bytes + (24 << 10), "kept {} of {bytes}", after.now - before.now);
    assert!(after.peak - before.now <= 40 * bytes + (96 << 10), "peak {} of {bytes}", after.peak - before.now);
    assert!(after.total - before.total <= 96 * bytes + (1 << 20), "work {} of {bytes}", after.total - before.total);
    assert!(sent.cast_signed() <= 8 * bytes + (32 << 10), "sent {sent} of {bytes}");
    assert!(stranger.is_gone_in_time());
});
