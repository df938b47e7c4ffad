//! Any bytes as a message of another node, of the class Call: packets, messages to send, reports of failures. Two bytes are the
//! kind, the rest is the body.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shard_message::wire::{Decoded, encode, read};

#[path = "../../crates/shard-message/src/wire/any_bytes.rs"]
mod any_bytes;

fuzz_target!(|data: &[u8]| {
    let Some((kind, body)) = data.split_first_chunk() else { return };
    // 1 to 3, and one that is not known.
    any_bytes::check(u16::from_be_bytes(*kind) % 4, body);
});
