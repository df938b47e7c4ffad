//! Chat of one shard in a farm: the ways of its messages to the owners of addresses, and what it keeps while owners move or die.
//!
//! Each machine is given the farm's views, its messages and the time, and says what is to be done; the server's `xmpp::farm` and
//! `xmpp::announcing` do it.
//!
//! | machine | its part |
//! |---|---|
//! | [`ShardQueues`] | the ways of messages to other shards, of one process as of a farm |
//! | [`SharedOwners`] | the owners of addresses where nodes share a database, and messages that wait for them |
//! | [`RestoreBarrier`] | buckets of a dead owner, until all sessions of them are announced to the next one |
//! | [`UnhandledMessages`] | messages that other nodes have and that are not handled, to be sent again if these nodes die |
//! | [`FollowedSessions`] | sessions whose hosts are at other nodes, to be announced to the next host if that node dies |
//! | [`RemoteQueues`] | stanzas for other servers, until the owner of the server's domain reports what became of them |
//! | [`RemoteRuns`] | which of these stanzas an owner takes |
//! | [`SessionRequests`] | requests of clients for sessions, and which owners refuse them because they do not keep up |
//! | [`MovedStreams`] | clients' streams whose sessions are lost, until their turn to be announced or closed comes |

#![warn(missing_docs)]

mod followed_sessions;
pub mod limits;
mod message;
mod moved_streams;
mod referrals;
mod remote_queues;
#[cfg(test)]
mod remote_queues_tests;
mod remote_runs;
mod restore_barrier;
mod session_requests;
mod shard_queues;
mod shared_owners;
mod unhandled;

pub use followed_sessions::{BoundStep, ElementStep, FollowedSessions};
pub use message::bucket_of;
pub use moved_streams::MovedStreams;
pub use referrals::Referrals;
pub use remote_queues::{RemoteEffect, RemoteQueues};
pub use remote_runs::RemoteRuns;
pub use restore_barrier::RestoreBarrier;
pub use session_requests::SessionRequests;
pub use shard_queues::{MessageTarget, ShardQueues, Way};
pub use shared_owners::{OwnerChange, SharedOwners, WaitingMessage};
pub use unhandled::{SentMessage, UnhandledMessages};
