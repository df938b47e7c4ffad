//! Every limit of this crate: its reason and the answer when it is reached.

use std::time::Duration;

/// Nodes of a farm, dead ones that are remembered included. A million chat clients on processes of 20,000 files take 62.
/// Answer: `Refusal::TooManyMembers`.
pub const MEMBERS: usize = 256;

/// Shards of one node: a message names its shard with one byte. Answer: `Refusal::TooManyShards`.
pub const SHARDS: u16 = 256;

/// Bytes of each name in an announcement: node, farm, address, build. Answer: the announcement is `Corrupt`.
pub const NAME_BYTES: usize = 128;

/// Bytes of an encoded announcement, four names and a few numbers. Answer: `Corrupt`.
pub const MEMBER_BYTES: usize = 1_024;

/// Bytes of an encoded map: 4,096 owners of at most 12 bytes, as many workers of at most 16, and the addresses. A value of
/// JetStream may have 1 MiB. Answer: `Corrupt`.
pub const MAP_BYTES: usize = 512 * 1_024;

/// Dead lives that a map lists: those of a day with a restart every six minutes. A node that slept longer than
/// that is refused by the database. The oldest are dropped.
pub const DEAD_LIVES: usize = 256;

/// Lives by which the council's counter may be ahead of a node's clock for the node to wait for the clock: ten seconds, in which eighty
/// nodes start together. A counter that is further ahead was raised by a node whose clock differs.
pub const LIFE_AHEAD: u32 = 80;

/// The time between two renewals of a lease. A renewal costs the council one small write, and two may be lost before
/// the lease ends.
pub const RENEWAL: Duration = Duration::from_secs(1);

/// The time for which a node may act after it has *sent* its last successful renewal, by its own monotonic clock.
pub const AUTHORITY: Duration = Duration::from_millis(2_500);

/// The time after which other nodes count a node as dead since they have last seen a renewal, by their own clock: the life
/// of the council's key and a margin. It is more than `AUTHORITY` by two seconds, which is how long a renewal
/// that the holder counts may be under way to the observer.
pub const TAKEOVER: Duration = Duration::from_millis(4_500);

/// A renewal that is late by this much makes a member suspect: one renewal was lost or is late.
pub const SUSPICION: Duration = Duration::from_millis(2_200);

/// The time after which a node is dead whose host refuses connections, if it renews nothing meanwhile: a renewal
/// and half of one more. A stopped process is not refused: its kernel still accepts.
pub const REFUSED_TAKEOVER: Duration = Duration::from_millis(1_500);

/// The council counts as away when no renewal has succeeded for so long: two were lost.
pub const COUNCIL_AWAY: Duration = Duration::from_millis(2_200);

/// The time after the beginning of a watch of the council before which a member is not missing that has not renewed since. A
/// council that was away, or came back without its keys, hears of its members one by one: each connects again within a second
/// and opens its stores within a few requests of 1.5 s.
pub const COUNCIL_RETURN: Duration = Duration::from_secs(9);

/// A node that has not been called for so long has been stopped. Messages that it missed meanwhile prove nothing.
pub const PAUSE: Duration = Duration::from_millis(700);

/// The time after which a question to the council is asked again.
pub const COUNCIL_ANSWER: Duration = Duration::from_secs(1);

/// The time between two looks at the council's map by a node that waits for nothing: notices of changes may be lost.
pub const MAP_READ: Duration = Duration::from_secs(5);

/// Epochs of buckets that a node has taken wait so long for more of them before they are written to the map: a node that takes a thousand
/// buckets loads some at a time, and each version of the map goes to all nodes. Nothing waits for them: the database decides.
pub const EPOCHS_WAIT: Duration = Duration::from_millis(100);

/// The time after which a bucket whose previous owner has not let go is asked for again.
pub const FENCE_RETRY: Duration = Duration::from_millis(500);

/// The time after which a question to the database that has no answer is asked again: longer than its own
/// `statement_timeout`, so that an answer that comes at all comes before.
pub const FENCE_ANSWER: Duration = Duration::from_secs(3);

/// The time for which the previous worker of a call slot is asked: Timer C of RFC 3261 §16.6, three minutes, and the
/// skew of the clocks of two nodes.
pub const PREVIOUS_WORKER: Duration = Duration::from_secs(200);

/// Nodes that may give a message to a third one, one after the other, as they have no link to its receiver: the sender and two more. A node
/// that four do not reach is cut off or dead, and a packet for it is better worked on than passed through the whole farm.
/// Answer: the message ends where it is, as [`crate::relay::Passage::next_nodes`] names no node.
pub const RELAY_NODES: usize = 3;

/// Bytes of the largest message between nodes: a stanza, a SIP message or a document of presence with room to spare.
/// Answer: `SendError::TooLong`; from a peer the connection ends with `LinkFault::FrameTooLong`.
pub const MESSAGE_BYTES: usize = 256 * 1_024;

/// Bytes after which a frame gets no further message: at 1 Gbit/s another class waits 0.13 ms for it.
pub const FRAME_FILL: usize = 16 * 1_024;

/// Bytes of the largest frame: a full one whose last message is of the largest kind, and the heads.
pub const FRAME_BYTES: usize = MESSAGE_BYTES + FRAME_FILL + 1_024;

/// Messages of one frame: its count has two bytes.
pub const FRAME_MESSAGES: usize = u16::MAX as usize;

/// Bytes of the hello, before the peer has proved anything: four names and a few numbers. Answer: `LinkFault::HelloTooLong`.
pub const HELLO_BYTES: usize = 1_024;

/// The time in which a peer must prove itself. Answer: `LinkFault::HandshakeTimeout`.
pub const HANDSHAKE: Duration = Duration::from_secs(3);

/// A connection that has nothing to send says so this often.
pub const KEEPALIVE: Duration = Duration::from_secs(1);

/// Keep-alives go out at multiples of this, after [`KEEPALIVE`] or a little earlier: a node that has many links wakes twice a second
/// for all of them, and not for each.
pub const KEEPALIVE_STEP: Duration = Duration::from_millis(500);

/// An acknowledgement waits at most so long for a message of its class to go with. Until it has come, the sender keeps the messages, and is given
/// them back if the peer dies: a longer delay makes more stanzas take effect twice after a death (`docs/decisions/0071`).
pub const ACK_DELAY: Duration = Duration::from_millis(200);

/// Acknowledgements alone go out at multiples of this, after [`ACK_DELAY`] or a little earlier: those of all links with one wake-up.
pub const ACK_STEP: Duration = Duration::from_millis(100);

/// An acknowledgement of this part of a class's window waits for nothing, so that the sender's queue, which is larger than the window, has room
/// by then. The smallest messages of it are fewer than half of [`QUEUE_MESSAGES`].
pub const ACK_PARTS: usize = 16;

/// A connection from which nothing has come for so long is cut off. Three keep-alives were lost.
/// Answer: `LinkFault::Silent`.
pub const SILENCE: Duration = Duration::from_millis(3_500);

/// Sound that is older is worth nothing: two ticks of 20 ms. It is dropped and counted.
pub const SOUND_AGE: Duration = Duration::from_millis(40);

/// Messages of one class that wait at the sender, beside the limit of their bytes: small ones cost 80 bytes of memory each.
/// Answer: `SendError::Full`.
pub const QUEUE_MESSAGES: usize = 65_536;
