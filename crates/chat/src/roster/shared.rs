//! Contacts by shared groups (`groups`) after a change of these: pushes of the roster, and presence that begins or ends.

use xmpp::Bare;

use super::super::account_memory::AccountMemory;
use super::super::effect::Subscription;
use super::super::presence::subscription::SubscriptionState;
use super::{Roster, RosterEffect};
use crate::blocking;

/// The version of pushes to a client that does not have the whole of a version yet. No roster has it, so a client that asks with it gets the
/// whole roster.
pub(super) const NO_VERSION: &str = "";

impl Roster {
    /// A contact of the account has another state by shared groups, after `was`: the push, if clients see a difference, and presence. Before the
    /// last one of a change clients have no version of the roster: one that is lost between two would miss the rest.
    pub(in super::super) fn handle_group_change(
        &mut self,
        accounts: &AccountMemory,
        (user, contact): (&Bare, &Bare),
        (was, is_last): (Subscription, bool),
    ) {
        let Some(version) = accounts.roster_version(user) else { return };
        let known = accounts.data(user).and_then(|data| data.contact(contact));
        let (own, is_listed) = (SubscriptionState::of(known), known.is_some_and(|item| item.is_listed));
        let after = accounts.subscription(user, contact);
        if is_listed || was.has_to() || after.has_to() {
            let version = if is_last { version } else { NO_VERSION.to_owned() };
            self.push_contact_as(accounts, (user, contact), version);
        }
        let before = (own.to || was.has_to(), own.from || was.has_from());
        if !blocking::blocks_incoming(accounts, user, contact.as_jid()) {
            match (before.1, after.has_from()) {
                (false, true) => self.effects.extend([RosterEffect::SendPresences, RosterEffect::Added]),
                (true, false) => self.effects.push(RosterEffect::SendUnavailable),
                _ => {}
            }
            if after.has_to() && !before.0 {
                self.effects.push(RosterEffect::SendProbes);
            }
        }
    }
}
