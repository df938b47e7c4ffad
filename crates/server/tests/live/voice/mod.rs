//! Calls that an application answers: a caller with sound and keys, an application that speaks HTTP, and nothing left
//! of the call afterwards.

mod answer;
pub(crate) mod app;
mod bad_input;
mod baresip;
mod bridge;
pub(crate) mod callee;
pub(crate) mod caller;
mod dial;
mod examples;
mod examples_called;
mod hang_up;
mod hear;
mod load;
mod messages;
mod noted;
mod record;
mod rooms;
mod sipp;
mod stream;
pub(crate) mod talker;
pub(crate) mod tones;
mod transfer;

use server::node::Node;
use server::shard::ShardStatus;

use crate::until;

pub(crate) fn sum(node: &Node, read: impl Fn(&ShardStatus) -> u64) -> u64 {
    node.board().shards().iter().map(read).sum()
}

/// Calls, dialogs, ports, prompts, streams and questions: of all that nothing is left.
#[track_caller]
pub(crate) fn nothing_left(node: &Node, calls: u64) {
    until("nothing is left", || {
        let left = |shard: &ShardStatus| {
            let voice = shard.voice;
            voice.calls
                + voice.sessions
                + voice.ports
                + voice.prompts
                + voice.helper_requests
                + voice.streams
                + voice.rooms
                + voice.queues
                + voice.members
                + voice.seats
                + voice.recordings
        };
        (sum(node, |shard| shard.voice.calls_total) == calls && sum(node, left) == 0).then_some(())
    });
}
