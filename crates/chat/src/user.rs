//! An account while somebody has to do with it.

use stdx::Instant;
use stdx::slab::Key;
use xmpp::{Element, ns};

use super::effect::AccountData;
use super::{Host, Outbox};

/// Nodes whose newest item is read with an account, because who signs in needs it at once.
pub const NODES: &[&str] = &[super::archive::PREFERENCES, ns::VCARD_UPDATE];

/// Of one account.
pub struct User {
    /// In the order they came.
    pub(super) sessions: Vec<Key>,
    pub(super) state: AccountState,
    /// It is an account's, not that of somebody anonymous.
    pub(super) is_stored: bool,
    /// Since `rosters` came by.
    pub(super) is_used: bool,
    /// Of its record in memory, as `rosters` counts it.
    pub(super) weight: u32,
}

/// What the record has of it.
pub(super) enum AccountState {
    /// Asked for; what waits for it, in order.
    Loading(Vec<QueuedWork>),
    Ready(Box<AccountData>),
    /// Let go of while somebody is signed in: `Host::user` asks for it again.
    Evicted,
    /// No such account.
    Absent,
}

/// What is done once the record is here.
pub(super) enum QueuedWork {
    /// From the account's own session.
    FromSession(Key, Box<Element>),
    /// From somebody else.
    Routed(Box<Element>),
    /// Something of a feature or of a session that has ended, that is not done when the record cannot be read.
    Job(AccountJob),
}

pub(super) type AccountJob = Box<dyn FnOnce(&mut Host, Instant, &mut Outbox)>;
