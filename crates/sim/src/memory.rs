//! Counts allocated memory, for tests that bound a cost.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator, and how many bytes it has given out, rounded as the usual allocators do it: to 16 bytes,
/// with 8 of their own. A test installs it with `#[global_allocator]` and is the only one in its file: others count too.
#[derive(Debug, Default)]
pub struct Counting {
    bytes: AtomicUsize,
    peak: AtomicUsize,
    total: AtomicUsize,
}

impl Counting {
    /// Builds the counters; every field is zero.
    pub const fn new() -> Counting {
        Counting { bytes: AtomicUsize::new(0), peak: AtomicUsize::new(0), total: AtomicUsize::new(0) }
    }

    /// Bytes allocated now.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The most bytes allocated at any time since `reset_peak`.
    pub fn peak(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }

    /// Sets the peak to the bytes allocated now.
    pub fn reset_peak(&self) {
        self.peak.store(self.bytes(), Ordering::Relaxed);
    }

    /// All bytes that were ever allocated: a measure of work.
    pub fn total(&self) -> usize {
        self.total.load(Ordering::Relaxed)
    }
}

fn cost(layout: Layout) -> usize {
    (layout.size() + 8).next_multiple_of(16).max(32)
}

#[expect(unsafe_code, reason = "an allocator can only be written so; it hands everything on to the system's")]
// SAFETY: every call goes to the system's allocator with the arguments it came with.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let cost = cost(layout);
        let bytes = self.bytes.fetch_add(cost, Ordering::Relaxed) + cost;
        self.peak.fetch_max(bytes, Ordering::Relaxed);
        self.total.fetch_add(cost, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.bytes.fetch_sub(cost(layout), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// A bound on the cost of input: so much for each byte that came, and so much besides for each message.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    pub per_byte: usize,
    pub besides: usize,
}

impl Bound {
    /// True if the cost of so many bytes and messages is within the bound.
    pub fn holds(self, figure: usize, bytes: usize, messages: usize) -> bool {
        figure <= self.per_byte * bytes + self.besides * messages
    }
}
