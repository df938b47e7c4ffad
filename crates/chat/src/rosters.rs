//! The bytes of all rosters that a host keeps for accounts that are signed in. Beyond the bound, the roster of an account that was
//! not used lately is evicted; the next stanza that needs it has it read again, and waits for it as for the first time.
//!
//! An account's sessions share one. Writes under way keep it in memory, so that their results find it.
//!
//! Sizes are estimates: they are counted anew after each change of an account (`AccountMemory::weigh`), and
//! `AccountMemory::evict_rosters` evicts after each answer of the store.

use xmpp::{Bare, Jid};

use super::effect::{AccountData, RosterItem};
use crate::limits;

/// Bytes that the rosters of signed-in accounts may take, estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RosterMemory(pub usize);

impl Default for RosterMemory {
    fn default() -> RosterMemory {
        RosterMemory(limits::ROSTERS)
    }
}

/// The bytes of the rosters in memory, and the state of the search for one to evict.
#[derive(Default)]
pub(super) struct Rosters {
    /// The sum of `User::weight`.
    pub(super) bytes: usize,
    /// The place among the sessions at which the search for a roster to evict goes on.
    pub(super) hand: u32,
    /// The number of rosters that were evicted since the start.
    pub(super) dropped: u64,
}

impl AccountData {
    /// Bytes in memory, about.
    pub(super) fn weight(&self) -> usize {
        let contacts = self.roster.iter().map(|(contact, item)| contact.as_str().len() + item.weight());
        let blocked = self.blocked.iter().map(|jid| size_of::<Jid>() + jid.as_str().len());
        size_of::<AccountData>() + contacts.sum::<usize>() + blocked.sum::<usize>()
    }
}

impl RosterItem {
    fn weight(&self) -> usize {
        let text = |text: &str| text.len() + size_of::<Box<str>>();
        let groups = self.groups.iter().map(|group| text(group)).sum::<usize>();
        let asked = self.asked.as_deref().map_or(0, super::sm::weight);
        size_of::<(Bare, RosterItem)>() + self.name.as_deref().map_or(0, str::len) + groups + asked
    }
}
