//! The counting allocator counts.

use sim::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

/// Far more than what the harness allocates meanwhile.
const SIZE: usize = 16 << 20;

#[test]
fn allocated_memory_counts_until_it_is_freed() {
    let before = ALLOCATOR.bytes();
    let held = std::hint::black_box(vec![1u8; SIZE]);
    let during = ALLOCATOR.bytes() - before;
    assert!((SIZE..SIZE + (1 << 20)).contains(&during), "{during}");
    drop(held);
    assert!(ALLOCATOR.bytes() < before + (1 << 20));
}
