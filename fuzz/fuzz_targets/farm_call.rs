//! Any bytes as a message of another node, of calls: packets, messages to send, reports of failures, shared
//! responses, relayed messages, and events and sound of conferences. Two bytes are the
//! kind, the rest is the body.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shard_message::wire::{Decoded, encode, read};

#[path = "../../crates/shard-message/src/wire/any_bytes.rs"]
mod any_bytes;

fuzz_target!(|data: &[u8]| {
    let Some((kind, body)) = data.split_first_chunk() else { return };
    // 1 to 3, 8, 9, those of conferences, and one that is not known.
    let kind = match u16::from_be_bytes(*kind) % 12 {
        4..=7 => 0,
        10 => 70,
        11 => 71,
        kind => kind,
    };
    any_bytes::check(kind, body);
});
