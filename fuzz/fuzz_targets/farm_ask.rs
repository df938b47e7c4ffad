//! Any bytes as a message of another node, of the class Ask: questions to the owner of an address, answers, pushes. Two bytes
//! are the kind, the rest is the body.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shard_message::wire::{Decoded, encode, read};

#[path = "../../crates/shard-message/src/wire/any_bytes.rs"]
mod any_bytes;

fuzz_target!(|data: &[u8]| {
    let Some((kind, body)) = data.split_first_chunk() else { return };
    // 4 to 7.
    any_bytes::check(4 + u16::from_be_bytes(*kind) % 4, body);
});
