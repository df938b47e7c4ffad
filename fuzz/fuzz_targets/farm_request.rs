//! Any bytes as a message of another node about an operator's request. Two bytes are the kind, the rest is the body.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shard_message::wire::RequestMessage;

#[path = "../../crates/shard-message/src/wire/any_request.rs"]
mod any_request;

fuzz_target!(|data: &[u8]| {
    let Some((kind, body)) = data.split_first_chunk() else { return };
    // 47 and 48.
    any_request::check(47 + u16::from_be_bytes(*kind) % 2, body);
});
