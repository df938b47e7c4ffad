//! An account while somebody has to do with it.

use stdx::Instant;
use stdx::slab::Key;
use xmpp::{Element, ns};

use super::effect::UserRecord;
use super::{Host, Outbox};

/// Nodes whose newest item is read with an account, because who signs in needs it at once.
pub const NODES: &[&str] = &[super::archive::PREFERENCES, ns::VCARD_UPDATE];

/// Of one account.
pub struct User {
    /// In the order they came.
    pub(super) sessions: Vec<Key>,
    pub(super) record: Record,
    /// It is an account's, not that of somebody anonymous.
    pub(super) is_stored: bool,
    /// Since `rosters` came by.
    pub(super) is_used: bool,
    /// Of its record in memory, as `rosters` counts it.
    pub(super) weight: u32,
}

/// What the record has of it.
pub(super) enum Record {
    /// Asked for; what waits for it, in order.
    Loading(Vec<Waiting>),
    Ready(Box<UserRecord>),
    /// Let go of while somebody is signed in: `Host::user` asks for it again.
    Away,
    /// No such account.
    Nobody,
}

/// What is done once the record is here.
pub(super) enum Waiting {
    /// From the account's own session.
    FromSession(Key, Box<Element>),
    /// From somebody else.
    Routed(Box<Element>),
    /// Something of a feature or of a session that has ended, that is not done when the record cannot be read.
    Job(Job),
}

pub(super) type Job = Box<dyn FnOnce(&mut Host, Instant, &mut Outbox)>;
