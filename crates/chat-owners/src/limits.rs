//! Limits of chat between the nodes of a farm, with their reasons and the answer beyond them.

use std::time::Duration;

/// The time for which a message for a chat address waits for an owner of the address in a farm: a death is noticed after at most 5 s, and a
/// bucket is read within a few more. Longer: `resource-constraint` to its sender.
pub const XMPP_OWNER_PATIENCE: Duration = Duration::from_secs(15);

/// Messages of one shard that wait so: the sign-ins and stanzas of some seconds at one node. More: `resource-constraint` at once.
pub const XMPP_OWNER_WAITING: usize = 16_384;

/// Bytes of these messages, about: twice what a link keeps for a node. More: `resource-constraint` at once.
pub const XMPP_OWNER_WAITING_BYTES: usize = 24 * 1024 * 1024;

/// Messages of one shard that other nodes have and have not reported as handled: those of some seconds, the time until a dead node is
/// noticed. More: `resource-constraint` to the sender.
pub const XMPP_UNHANDLED: usize = 16_384;

/// Bytes of these messages on the wire. More: `resource-constraint` to the sender.
pub const XMPP_UNHANDLED_BYTES: usize = 24 * 1024 * 1024;

/// The time after which such a message is not kept any more: its report is lost. Longer than a death of a node, the search for the
/// next owner, and a restart of the database take together.
pub const XMPP_UNHANDLED_FOR: Duration = Duration::from_secs(120);

/// The time after which the node of a stream asks the session's host at another node how many of the client's stanzas it has handled, if
/// its client does not: stanzas that are not acknowledged are sent again when the host dies.
pub const XMPP_FOLLOWED_ASK: Duration = Duration::from_secs(3);

/// The time for which chat of a dead owner's buckets waits at the next owner until all nodes have announced their sessions of these
/// buckets. At [`XMPP_MOVED_CLOSINGS`] a second, 10,000 sessions of a node are announced by then. Longer: the chat begins, and later
/// sessions are restored as ones that begin. It leaves a message that has waited since the death, at most 5 s, the half of
/// [`XMPP_OWNER_PATIENCE`].
pub const XMPP_RESTORE_PATIENCE: Duration = Duration::from_secs(5);

/// Sessions that one node announces, or whose streams it closes, in a second because their owner is dead: each costs the other nodes
/// about a millisecond.
pub const XMPP_MOVED_CLOSINGS: u32 = 2_000;

/// The longest time for which the closing of such streams is spread. With more streams, more are closed in a second.
pub const XMPP_MOVED_SPREAD: Duration = Duration::from_secs(10);

/// Stanzas of one shard for other servers whose outcome is not known: those that wait for connections and owners. More:
/// `resource-constraint` to the sender.
pub const XMPP_REMOTE: usize = 16_384;

/// Bytes of these stanzas. More: `resource-constraint` to the sender.
pub const XMPP_REMOTE_BYTES: usize = 24 * 1024 * 1024;

/// The stanzas for the domains of one bucket, mostly one domain, take at most the third of the room that all others leave: with one server
/// that takes nothing three quarters of all are left for the others, with two nine sixteenths. A pair of domains has less at the owner
/// (`xmpp::limits::S2S_QUEUE`). More: `resource-constraint` to the sender.
pub const XMPP_REMOTE_SHARE: usize = 3;

/// The time for which a shard remembers that it has referred an account's client to this node, once or twice as long: a client that does not follow is refused once
/// in it.
pub const REFERRED_FOR: Duration = Duration::from_hours(1);

/// Accounts that a shard remembers so, in each of two sets: some 100 bytes each. More: the earlier ones are forgotten, and their clients may be referred again.
pub const REFERRALS: usize = 16_384;
