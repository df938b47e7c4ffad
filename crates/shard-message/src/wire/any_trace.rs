//! Any bytes as a message of another node about a trace: a message that is written as it was read, or a fault. The tests of `trace.rs`
//! and the fuzz target `farm_trace` use it.

use bytes::Bytes;
use cluster::Epoch;
use cluster::link::Message;

use super::TraceMessage;

/// Reads the body as a message of this kind. A message that is read, written and read again is the same.
pub(crate) fn check(kind: u16, body: &[u8]) {
    let message = Message { kind, epoch: Epoch(0), shard: 0, body: Bytes::copy_from_slice(body) };
    if let Ok(Some(first)) = TraceMessage::read(&message) {
        assert_eq!(TraceMessage::read(&first.message()), Ok(Some(first)));
    }
}
