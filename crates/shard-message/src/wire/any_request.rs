//! Any bytes as a message of another node about an operator's request: a message that is written as it was read, or a fault. The tests of
//! `request.rs` and the fuzz target `farm_request` use it.

use bytes::Bytes;
use cluster::Epoch;
use cluster::link::Message;

use super::RequestMessage;

/// Reads the body as a message of this kind. A message that is read, written and read again is the same.
pub(crate) fn check(kind: u16, body: &[u8]) {
    let message = Message { kind, epoch: Epoch(0), shard: 0, body: Bytes::copy_from_slice(body) };
    if let Ok(Some(first)) = RequestMessage::read(&message) {
        assert_eq!(RequestMessage::read(&first.message()), Ok(Some(first)));
    }
}
