//! The fuzz target `http_bounds`, whose allocator counts: it is the only one of its process.

#![expect(unsafe_code, reason = "an allocator that counts")]
#![expect(unreachable_pub, unused_attributes, reason = "for the fuzzer the target is a crate of its own")]

#[path = "../../../fuzz/fuzz_targets/http_bounds.rs"]
mod http_bounds;

#[test]
fn http_bounds_holds() {
    libfuzzer_sys::run("http_bounds", http_bounds::fuzz);
}
