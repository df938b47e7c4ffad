//! An allocator that counts the bytes of each thread: a fuzzer has threads of its own.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Bytes of one thread.
#[derive(Clone, Copy, Default)]
pub(crate) struct Count {
    pub(crate) now: isize,
    /// The highest `now` since `begin`.
    pub(crate) peak: isize,
    /// All that was ever allocated.
    pub(crate) total: isize,
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

/// Begins a measurement.
pub(crate) fn begin() -> Count {
    let count = COUNT.get();
    COUNT.set(Count { peak: count.now, ..count });
    count
}

pub(crate) fn now() -> Count {
    COUNT.get()
}
