//! Any bytes as a message of another node: a message that is written as it was read, or a fault. The tests beside this file and
//! the fuzz targets `farm_call`, `farm_ask` and `farm_chat` use it.

use bytes::Bytes;
use cluster::limits::MESSAGE_BYTES;
use cluster::link::Message;
use cluster::{Epoch, ShardAddress};

use super::{Decoded, encode, read};

/// Reads the body as a message of this kind. A message that is read, written and read again is the same.
pub(crate) fn check(kind: u16, body: &[u8]) {
    let message = Message { kind, epoch: Epoch(0), shard: 0, body: Bytes::copy_from_slice(body) };
    let Ok(Decoded::Message(first)) = read(&message) else { return };
    let written = encode(ShardAddress::default(), &first);
    assert!(!written.is_empty(), "each kind that is read can be written");
    // Copies for several nodes, as changed bytes may make of those for one, are a message to each.
    if written.len() > 1 {
        let is_read = |message: &Message| matches!(read(message), Ok(Decoded::Message(_)));
        assert!(written.iter().all(is_read), "{first:?} was written as {written:?}");
        return;
    }
    // Fields that were absent are written with their defaults.
    if written[0].body.len() > MESSAGE_BYTES {
        return;
    }
    match read(&written[0]) {
        Ok(Decoded::Message(second)) => assert_eq!(format!("{first:?}"), format!("{second:?}")),
        other => panic!("{first:?} was written so that it is {other:?}"),
    }
}
