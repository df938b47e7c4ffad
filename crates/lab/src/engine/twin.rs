//! 3PCC: commands between instances.

use stdx::slab::Key;

use super::shard::Shard;
use crate::call::TransportFault;

impl Shard {
    pub(super) fn command(&mut self, key: Key, _start: usize, _end: usize, _peer: Option<&str>) {
        self.faults.push((key, TransportFault::CannotSend));
    }
}
