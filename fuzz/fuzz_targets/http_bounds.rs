//! Any bytes of an HTTP client that is not authenticated, at each kind of listener, cut into reads anywhere: memory that is kept,
//! memory that is used on the way, bytes sent, work and time are bounded by a small multiple of the bytes that came. The first
//! byte says which listener it is and whether the client reads, the second how it is cut.
#![no_main]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::OnceCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/server/tests/web/mod.rs"]
mod web;

use web::{KINDS, Meter, World};

/// Counts the bytes of all threads, because several of them work on requests of REST. The fuzzer's own allocations during a run are few.
struct Counting {
    now: AtomicUsize,
    peak: AtomicUsize,
    total: AtomicUsize,
}

#[global_allocator]
static ALLOCATOR: Counting =
    Counting { now: AtomicUsize::new(0), peak: AtomicUsize::new(0), total: AtomicUsize::new(0) };

// SAFETY: every call goes to the system's allocator with the arguments it came with.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = self.now.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        self.peak.fetch_max(now, Ordering::Relaxed);
        self.total.fetch_add(layout.size(), Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.now.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

struct Allocated;

impl Meter for Allocated {
    fn now(&self) -> usize {
        ALLOCATOR.now.load(Ordering::Relaxed)
    }

    fn reset_peak(&self) {
        ALLOCATOR.peak.store(self.now(), Ordering::Relaxed);
    }

    fn peak(&self) -> usize {
        ALLOCATOR.peak.load(Ordering::Relaxed)
    }

    fn total(&self) -> usize {
        ALLOCATOR.total.load(Ordering::Relaxed)
    }
}

thread_local! {
    static WORLD: OnceCell<World> = const { OnceCell::new() };
}

fn world<T>(act: impl FnOnce(&World) -> T) -> T {
    WORLD.with(|cell| {
        let world = cell.get_or_init(|| {
            let world = World::new();
            // Memory allocated once is not the first input's.
            for kind in KINDS {
                world.run(kind, &[b"GET /openapi.json HTTP/1.1\r\n\r\n"], true, &Allocated);
                world.run(kind, &[b"GET /v1/a HTTP/1.1\r\n\r\n"], true, &Allocated);
            }
            world
        });
        act(world)
    })
}

fuzz_target!(|data: &[u8]| {
    let [kind, cut, text @ ..] = data else { return };
    let (kind, reads) = (KINDS[usize::from(*kind) % KINDS.len()], *kind < 128);
    let pieces: Vec<&[u8]> = text.chunks(usize::from(*cut) * 16 + 1).collect();
    let cost = world(|world| world.run(kind, &pieces, reads, &Allocated));
    let bytes = cost.heard;
    assert!(cost.kept <= 16 * bytes + (256 << 10), "{cost:?}");
    assert!(cost.peak <= 24 * bytes + (256 << 10), "{cost:?}");
    assert!(cost.sent <= 24 * bytes + (192 << 10), "{cost:?}");
    assert!(cost.work <= 480 * bytes + (512 << 10), "{cost:?}");
    assert!(cost.is_gone && cost.silence <= Duration::from_secs(110), "{cost:?}");
});
