//! The fuzz target `sip_bounds`, whose allocator counts: it is the only one of its process.

#![expect(unsafe_code, reason = "an allocator that counts")]
#![expect(unused_attributes, reason = "for the fuzzer the target is a crate of its own")]

#[path = "../../../fuzz/fuzz_targets/sip_bounds.rs"]
mod sip_bounds;

#[test]
fn sip_bounds_holds() {
    libfuzzer_sys::run("sip_bounds", sip_bounds::fuzz);
}
