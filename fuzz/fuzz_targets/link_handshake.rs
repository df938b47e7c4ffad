//! Any bytes of a stranger at the listener of links, or of one that a node has dialed: never a proof, whatever the cuts.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/cluster/tests/wire/any_bytes.rs"]
mod any_bytes;

fuzz_target!(|data: &[u8]| any_bytes::check(None, data));
