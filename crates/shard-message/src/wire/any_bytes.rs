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
    assert_eq!(written.len(), 1, "each kind that is read can be written");
    // Fields that were absent are written with their defaults.
    if written[0].body.len() > MESSAGE_BYTES {
        return;
    }
    match read(&written[0]) {
        Ok(Decoded::Message(second)) => assert_eq!(format!("{first:?}"), format!("{second:?}")),
        other => panic!("{first:?} was written so that it is {other:?}"),
    }
}
