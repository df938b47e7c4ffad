//! Voice that was granted or revoked, for when its user comes again (XEP-0045 §5.1, §8.3, §8.4).

use std::collections::BTreeMap;

use xmpp::Bare;

use super::rules::Role;
use crate::limits::OCCUPANTS;

/// The roles of users that differ from those of their affiliations in a moderated room.
#[derive(Clone, Default)]
pub(super) struct Voices {
    roles: BTreeMap<Bare, Role>,
}

impl Voices {
    pub(super) fn of(&self, user: &Bare) -> Option<Role> {
        self.roles.get(user).copied()
    }

    /// Keeps a role for the next visit. Beyond the limit it is lost with the visit, which is what §5.1 asks for at least.
    pub(super) fn keep(&mut self, user: Bare, role: Role) {
        if self.roles.len() < OCCUPANTS {
            self.roles.insert(user, role);
        }
    }

    pub(super) fn remove(&mut self, user: &Bare) {
        self.roles.remove(user);
    }

    pub(super) fn clear(&mut self) {
        self.roles.clear();
    }
}
