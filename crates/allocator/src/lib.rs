//! The allocator of the programs: mimalloc, asked for blocks of the size that is needed.
//!
//! The crate `mimalloc` asks for every block with an alignment, and mimalloc adds to the size of such a block, unless it is a power of two,
//! as if it had to be moved within a larger one: 640 bytes are taken from the blocks of 768, and 1,280 from those of 1,536. But every block
//! of mimalloc is aligned to 16 bytes, or to its size if that is less, which is enough for nearly all types.
#![expect(unsafe_code, reason = "an allocator can only be written so; it hands everything on to mimalloc")]
#![warn(missing_docs)]

use std::alloc::{GlobalAlloc, Layout};

use libmimalloc_sys as mi;

/// The alignment that all blocks of at least as many bytes have (`MI_MAX_ALIGN_SIZE` of mimalloc).
const ALIGNED: usize = 16;

/// Mimalloc, for `#[global_allocator]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mimalloc;

/// True if a block of this size is aligned enough without being asked.
fn is_aligned(size: usize, align: usize) -> bool {
    align <= ALIGNED && align <= size
}

// SAFETY: mimalloc's functions fulfil the contract of `GlobalAlloc`: they do not unwind, and a block has the size and the alignment that were
// asked for; without an alignment it has that of `ALIGNED` or of its size, which `is_aligned` compares.
unsafe impl GlobalAlloc for Mimalloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        // SAFETY: any size and any power of two may be asked for.
        unsafe {
            if is_aligned(size, align) {
                mi::mi_malloc(size).cast()
            } else {
                mi::mi_malloc_aligned(size, align).cast()
            }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        // SAFETY: as above.
        unsafe {
            if is_aligned(size, align) {
                mi::mi_zalloc(size).cast()
            } else {
                mi::mi_zalloc_aligned(size, align).cast()
            }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        // SAFETY: the caller has the block from this allocator, and mimalloc knows its size.
        unsafe { mi::mi_free(block.cast()) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let align = layout.align();
        // SAFETY: as for `dealloc` and `alloc`.
        unsafe {
            if is_aligned(size, align) {
                mi::mi_realloc(block.cast(), size).cast()
            } else {
                mi::mi_realloc_aligned(block.cast(), size, align).cast()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the sizes that sessions have, and of those next to the bounds of mimalloc's classes.
    const SIZES: [usize; 14] = [1, 7, 8, 15, 16, 24, 48, 96, 320, 640, 1_280, 1_281, 70_000, 3_000_000];

    #[test]
    fn blocks_are_aligned_and_keep_their_bytes() {
        for size in SIZES {
            for align in [1, 2, 4, 8, 16, 32, 128, 4_096] {
                let layout = Layout::from_size_align(size, align).unwrap();
                // SAFETY: the sizes are not zero, and each block is used within its size and freed once.
                unsafe {
                    let blocks: Vec<*mut u8> = (0..20).map(|_| Mimalloc.alloc(layout)).collect();
                    for block in blocks {
                        assert!(!block.is_null() && block.addr().is_multiple_of(align), "{size}, {align}");
                        block.write_bytes(7, size);
                        let block = Mimalloc.realloc(block, layout, size + 100);
                        assert!(!block.is_null() && block.addr().is_multiple_of(align), "{size}, {align}");
                        assert_eq!((block.read(), block.add(size - 1).read()), (7, 7));
                        Mimalloc.dealloc(block, Layout::from_size_align(size + 100, align).unwrap());
                    }
                    let zeroed = Mimalloc.alloc_zeroed(layout);
                    assert!(
                        zeroed.addr().is_multiple_of(align)
                            && zeroed.read() == 0
                            && zeroed.add(size - 1).read() == 0
                    );
                    Mimalloc.dealloc(zeroed, layout);
                }
            }
        }
    }

    /// The memory of an idle chat session over TLS, in bytes of mimalloc's classes: the box of its connection, rustls's list of messages, the stream.
    #[test]
    fn blocks_of_a_class_take_no_larger_one() {
        for size in [640, 1_280, 320, 96] {
            let layout = Layout::from_size_align(size, 8).unwrap();
            // SAFETY: the blocks are of this allocator, are not used, and are freed once.
            unsafe {
                let blocks: Vec<*mut u8> = (0..2_000).map(|_| Mimalloc.alloc(layout)).collect();
                let mut places: Vec<usize> = blocks.iter().map(|block| block.addr()).collect();
                places.sort_unstable();
                let apart: Vec<usize> = places.windows(2).map(|pair| pair[1] - pair[0]).collect();
                // At the bounds of pages they are further apart.
                let next = apart.iter().filter(|distance| **distance == size).count();
                assert!(next > apart.len() * 9 / 10, "{size}: {next} of {}", apart.len());
                blocks.into_iter().for_each(|block| Mimalloc.dealloc(block, layout));
            }
        }
    }
}
