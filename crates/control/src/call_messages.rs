//! The messages of one call, as the nodes remember them without a trace.

use serde::{Deserialize, Serialize};

use super::TraceLine;

/// The messages of a call, of all shards and nodes that were asked, and what these remember of calls. A restart empties it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallMessages {
    /// The messages, by their times, without their contents. Empty: none are remembered.
    pub lines: Vec<TraceLine>,
    /// Messages of the call beyond those that are remembered.
    pub left_out: u64,
    /// Microseconds since 1970: the last start of a node that was asked.
    pub since: u64,
    /// Calls of a shard that are remembered at most.
    pub most_calls: u64,
    /// Calls that a shard begins to remember in a second at most.
    pub most_per_second: u64,
    /// Calls that were not remembered because they came faster.
    pub not_begun: u64,
    /// Calls that were forgotten for newer ones.
    pub forgotten: u64,
}

impl CallMessages {
    /// Adds those of another shard or node.
    pub fn add(&mut self, other: CallMessages) {
        self.lines.extend(other.lines);
        self.left_out += other.left_out;
        self.since = self.since.max(other.since);
        self.most_calls = self.most_calls.max(other.most_calls);
        self.most_per_second = self.most_per_second.max(other.most_per_second);
        self.not_begun += other.not_begun;
        self.forgotten += other.forgotten;
    }

    /// The lines of this list are of the node.
    pub(crate) fn set_node(&mut self, node: &str) {
        self.lines.iter_mut().for_each(|line| line.node = Some(node.into()));
    }

    /// Puts the lines in order. Those of one microsecond stay as they were.
    pub fn finish(&mut self) {
        self.lines.sort_by_key(|line| line.at_micros);
    }
}
