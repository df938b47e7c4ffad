//! The fuzz target `xmpp_bounds`, whose allocator counts: it is the only one of its process.

#![expect(unsafe_code, reason = "an allocator that counts")]
#![expect(unreachable_pub, unused_attributes, reason = "for the fuzzer the target is a crate of its own")]

#[path = "../../../fuzz/fuzz_targets/xmpp_bounds.rs"]
mod xmpp_bounds;

#[test]
fn xmpp_bounds_holds() {
    libfuzzer_sys::run("xmpp_bounds", xmpp_bounds::fuzz);
}
