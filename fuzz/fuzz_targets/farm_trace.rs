//! Any bytes as a message of another node about a trace of the farm. Two bytes are the kind, the rest is the body.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shard_message::wire::TraceMessage;

#[path = "../../crates/shard-message/src/wire/any_trace.rs"]
mod any_trace;

fuzz_target!(|data: &[u8]| {
    let Some((kind, body)) = data.split_first_chunk() else { return };
    // 42 to 46.
    any_trace::check(42 + u16::from_be_bytes(*kind) % 5, body);
});
