//! Any bytes as a message of another node, of the class Call: packets, messages to send, reports of failures, shared
//! responses and relayed messages. Two bytes are the
//! kind, the rest is the body.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shard_message::wire::{Decoded, encode, read};

#[path = "../../crates/shard-message/src/wire/any_bytes.rs"]
mod any_bytes;

fuzz_target!(|data: &[u8]| {
    let Some((kind, body)) = data.split_first_chunk() else { return };
    // 1 to 3, 8, 9, and one that is not known.
    let kind = match u16::from_be_bytes(*kind) % 10 {
        4..=7 => 0,
        kind => kind,
    };
    any_bytes::check(kind, body);
});
