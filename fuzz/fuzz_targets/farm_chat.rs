//! Any bytes as a message of another node, of the class Chat: stanzas, sessions and their connections.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shard_message::wire::{Decoded, encode, read};

#[path = "../../crates/shard-message/src/wire/any_bytes.rs"]
mod any_bytes;

fuzz_target!(|data: &[u8]| {
    any_bytes::check(50, data);
});
