//! The farm's council: a small set of keys that all nodes of a farm see alike, kept by NATS JetStream. It holds the number
//! of the last life, one key for each live node, the map, and requests that nodes drain.
//!
//! The council decides nothing. A node's membership machine (crate `cluster`) sends it [`CouncilCommand`]s and receives
//! [`CouncilEvent`]s; leases are counted by the node's own clock, which is why nothing here reads a clock.
//!
//! Two key-value stores hold the keys; a third one, [`crate::table`], holds what nodes share besides. `FARM-members` forgets a key [`CouncilSettings::member_age`] after its last renewal, so a node that
//! starts again under its name waits for no operator; `FARM-state` forgets nothing. Every write of a key that two nodes
//! might want is a compare-and-swap by the key's revision.
//!
//! The client reconnects for ever. While the council is away nothing is lost that a node needs to carry on: the machine
//! sees no renewals, and [`CouncilEvent::Away`] says why. A council that has lost its keys is told from one that was only away by the
//! node's own key: when that is not there, the stores are opened and watched anew, because a watch of lost keys goes on at a
//! revision that the new ones do not reach for long.

mod connection;
pub(crate) mod keys;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;

pub(crate) use connection::{connect, open_store, watch_all};
pub use keys::JoinRefused;

/// The age at which the council forgets a node that does not renew. No node takes over from another because of this: it
/// only frees the name. It is longer than the time after which a node counts as dead, so that the map is decided first.
pub const MEMBER_AGE: Duration = Duration::from_secs(8);

/// The time for one request to the council; a renewal that takes longer counts as failed.
pub const REQUEST_TIMEOUT: Duration = Duration::from_millis(1_500);

/// The pause before the next attempt to reach a council that refuses or does not answer.
pub const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// The place of the council and the node's credentials there.
#[derive(Clone, Debug)]
pub struct CouncilSettings {
    /// `nats://host:port` or `tls://host:port`, with user and password where the server wants them; any one suffices.
    pub servers: Vec<String>,
    /// The farm's name: letters, digits and hyphens.
    pub farm: Box<str>,
    /// The node's name: the same for all its lives, letters, digits and hyphens.
    pub node: Box<str>,
    /// A file of NATS credentials (JWT and key).
    pub credentials: Option<PathBuf>,
    /// A file of certificates, PEM, that the server's certificate is checked against; none: the system's.
    pub authorities: Option<PathBuf>,
    /// Copies of each key in a cluster of NATS servers: 1, 3 or 5.
    pub replicas: usize,
    /// [`MEMBER_AGE`]; counts when the first node of a farm makes the stores.
    pub member_age: Duration,
    /// A value derived from the farm's secret. A node with another secret is refused.
    pub proof: Bytes,
    /// The clock that lives follow, which makes them unique even if the council has lost its files (`cluster::life_draw`).
    pub clock: LifeClock,
}

/// A clock that counts lives: eight a second.
#[derive(Clone)]
pub struct LifeClock(pub Arc<dyn Fn() -> u32 + Send + Sync>);

impl fmt::Debug for LifeClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LifeClock").field(&(self.0)()).finish()
    }
}

/// A request to the council.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CouncilCommand {
    /// Writes the node's own key. `token` comes back in [`CouncilEvent::Renewed`].
    Renew {
        /// Chosen by the sender, who remembers when it sent it.
        token: u64,
        /// The node's announcement.
        value: Bytes,
    },
    /// Writes the own key again after [`CouncilEvent::Expired`].
    Announce {
        /// The node's announcement.
        value: Bytes,
    },
    /// Replaces the map if its revision is still the expected one; 0 if there is none yet.
    SwapMap {
        /// The revision that the new map was made from.
        expected: u64,
        /// The new map.
        value: Bytes,
    },
    /// Reads the keys of all nodes: an event for each, then [`CouncilEvent::MembersRead`].
    ReadMembers,
    /// Reads the map: [`CouncilEvent::MapRead`].
    ReadMap,
    /// Reads another node's key: [`CouncilEvent::MemberRead`].
    ReadMember {
        /// The node's name.
        node: Box<str>,
        /// Chosen by the sender, who remembers what it asked and when.
        token: u64,
    },
    /// Asks a node to drain: [`CouncilEvent::DrainAsked`] at that node.
    AskToDrain {
        /// The node's name.
        node: Box<str>,
        /// Its life; a later one does not drain.
        life: u32,
    },
    /// Removes the own key: an orderly leave. The connection to the council ends.
    Withdraw,
}

impl CouncilCommand {
    /// True if it writes the node's own key, which the watch of the members then shows.
    fn is_renewal(&self) -> bool {
        matches!(self, CouncilCommand::Renew { .. } | CouncilCommand::Announce { .. })
    }
}

/// News from the council.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CouncilEvent {
    /// The node is a member.
    Joined {
        /// The number of this start.
        life: u32,
    },
    /// The node cannot be a member; the connection has ended.
    Refused(JoinRefused),
    /// The own key has been written.
    Renewed {
        /// The command's.
        token: u64,
    },
    /// The own key was not there any more at a renewal: the council was away for long, or it lost its files.
    Expired,
    /// Another life has the node's name.
    Superseded {
        /// The other life.
        by: u32,
    },
    /// A node's announcement, at the start and at each renewal.
    Member {
        /// The node's life.
        life: u32,
        /// The node's name.
        node: Box<str>,
        /// The announcement.
        value: Bytes,
    },
    /// The answer to [`CouncilCommand::ReadMember`].
    MemberRead {
        /// The node's name.
        node: Box<str>,
        /// The command's.
        token: u64,
        /// The life and announcement that its key has; none if there is no key.
        found: Option<(u32, Bytes)>,
    },
    /// A node has withdrawn.
    Withdrawn {
        /// The node's name.
        node: Box<str>,
    },
    /// Another node asks this life to drain.
    DrainAsked,
    /// All keys of nodes that there were at a [`CouncilCommand::ReadMembers`] have been reported.
    MembersRead,
    /// The map has been written, by this node or another.
    MapWritten {
        /// For the next [`CouncilCommand::SwapMap`].
        revision: u64,
        /// The map.
        value: Bytes,
    },
    /// The answer to [`CouncilCommand::ReadMap`].
    MapRead {
        /// For the next [`CouncilCommand::SwapMap`]; 0 if there is none.
        revision: u64,
        /// The map; none if there is none yet.
        value: Option<Bytes>,
    },
    /// The answer to [`CouncilCommand::SwapMap`].
    Swapped {
        /// The revision of the new map; none if another write came before.
        revision: Option<u64>,
    },
    /// Members and map are watched again, after an absence of the council or a loss of its keys: all that there is follows.
    /// Other nodes may return to it later than this one.
    WatchBegun,
    /// The council cannot be reached.
    Away {
        /// For the operator.
        reason: Box<str>,
    },
    /// The council answers again.
    Back,
}

/// Speaks with the council until [`CouncilCommand::Withdraw`], a refusal, or the end of `commands`.
///
/// `value` is the announcement that the node joins with. Events are dropped when nothing reads `events` any more.
pub async fn run(
    settings: CouncilSettings,
    value: impl Fn(u32) -> Bytes,
    commands: mpsc::Receiver<CouncilCommand>,
    events: mpsc::Sender<CouncilEvent>,
) {
    connection::run(settings, value, commands, events).await;
}
