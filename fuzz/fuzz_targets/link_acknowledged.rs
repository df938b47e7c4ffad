//! Any frames of a proved node in the lane of the classes Chat and Bulk: see `crates/cluster/tests/wire/any_bytes.rs`.
#![no_main]

use cluster::link::Lane;
use libfuzzer_sys::fuzz_target;

#[path = "../../crates/cluster/tests/wire/any_bytes.rs"]
#[allow(dead_code, reason = "each target uses a part")]
mod any_bytes;

fuzz_target!(|data: &[u8]| any_bytes::link(Lane::Acknowledged, data));
