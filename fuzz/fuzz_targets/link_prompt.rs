//! Any frames of a proved node in the lane of the classes Call, Ask and Sound: see `crates/cluster/tests/wire/any_bytes.rs`.
#![no_main]

use cluster::link::Lane;
use libfuzzer_sys::fuzz_target;

#[path = "../../crates/cluster/tests/wire/any_bytes.rs"]
mod any_bytes;

fuzz_target!(|data: &[u8]| any_bytes::check(Some(Lane::Prompt), data));
