//! All that a node's part in a farm can cause.

use stdx::Instant;

use crate::address::{Epoch, Life, ShardAddress};
use crate::bucket::Bucket;
use crate::map::FarmMap;
use crate::member::Member;
use crate::membership::{MembershipEffect, Refusal};
use crate::tenure::TenureEffect;

/// The number of a value in the council, which each write of its key counts up; 0 if the key is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision(pub u64);

/// A bucket that a shard asks the database for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The bucket.
    pub bucket: Bucket,
    /// The shard that is to hold it.
    pub holder: ShardAddress,
    /// The epoch that the bucket must still have.
    pub after: Epoch,
}

/// An order of a [`super::FarmNode`]. Answers are inputs of the same machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FarmEffect {
    /// Council: write this node's key. Success: `handle_renewed` with the same time. There is no answer to failure.
    Announce {
        /// The time of the order, from which the lease counts.
        sent_at: Instant,
        /// The announcement, which is the value of the key.
        member: Box<Member>,
    },
    /// Council: read the keys of all members and go on watching them: `handle_announced` for each, then `handle_members_read`.
    ReadMembers,
    /// Council: read the key of one member, not from a cache: `handle_member_read` with the same time.
    ReadMember {
        /// The life whose key is read.
        life: Life,
        /// The time of the order: an answer tells of this moment or a later one.
        asked_at: Instant,
    },
    /// Council: read the map, and go on watching it: `handle_map`.
    ReadMap,
    /// Council: write the map if its revision is still this one: `handle_swapped`.
    SwapMap {
        /// The revision that the map was planned from; another one means that another node wrote first.
        expected: Revision,
        /// The new map.
        map: Box<FarmMap>,
    },
    /// Database: ask whether this life is fenced: `handle_unfenced` with the same time, or `handle_fenced`.
    AskFence {
        /// The time of the order, from which an answer counts.
        sent_at: Instant,
    },
    /// Database: fence these dead lives as far as they hold one of the buckets, and take the buckets: for each `handle_taken` or
    /// `handle_refused`.
    Take {
        /// The buckets to take, each with the epoch that it must still have.
        claims: Vec<Claim>,
        /// The lives that the farm counts as dead and that may still hold some of them.
        dead: Vec<Life>,
    },
    /// Database: give the bucket back if it still has this holder and epoch; `handle_given` in either case.
    Give {
        /// The bucket.
        bucket: Bucket,
        /// The shard that gives it back.
        holder: ShardAddress,
        /// The epoch under which the shard held it.
        epoch: Epoch,
    },
    /// Shard: forget the bucket, read its rows, then `handle_loaded`.
    Load {
        /// The bucket.
        bucket: Bucket,
        /// The number of the shard in this node.
        shard: u16,
        /// The epoch that the database gave for this tenure.
        epoch: Epoch,
    },
    /// Shard: answer for the bucket, with this epoch, while `serves` says so.
    Serve {
        /// The bucket.
        bucket: Bucket,
        /// The number of the shard in this node.
        shard: u16,
        /// The epoch of all answers and writes from now on.
        epoch: Epoch,
    },
    /// Shard: answer no more for the bucket; when no write of it is under way, `handle_drained`.
    Stop {
        /// The bucket.
        bucket: Bucket,
        /// The number of the shard in this node.
        shard: u16,
        /// The epoch that ends.
        epoch: Epoch,
    },
    /// All: this node has a newer map.
    MapChanged,
    /// All: news of a member.
    Member(MembershipEffect),
    /// All: this node owns nothing any more; when its calls and sessions have ended, too, `end`.
    Drained,
    /// The process: end at once, or start again with a new life.
    End(EndReason),
}

/// The reason why a life ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The database refuses this life: another node has taken its buckets.
    Fenced,
    /// The farm has agreed that this life is dead.
    DeclaredDead,
    /// The farm does not take the node.
    Refused(Refusal),
    /// The node has left in order.
    Left,
}

/// Sorts the orders of tenures: those to the database are collected in one claim.
pub(super) fn of_tenure(
    bucket: Bucket,
    holder: ShardAddress,
    effect: TenureEffect,
    claims: &mut Vec<Claim>,
) -> Option<FarmEffect> {
    let shard = holder.shard;
    match effect {
        TenureEffect::Fence(after) => {
            claims.push(Claim { bucket, holder, after });
            None
        }
        TenureEffect::Load(epoch) => Some(FarmEffect::Load { bucket, shard, epoch }),
        TenureEffect::Serve(epoch) => Some(FarmEffect::Serve { bucket, shard, epoch }),
        TenureEffect::Stop(epoch) => Some(FarmEffect::Stop { bucket, shard, epoch }),
        TenureEffect::Give(epoch) => Some(FarmEffect::Give { bucket, holder, epoch }),
    }
}
