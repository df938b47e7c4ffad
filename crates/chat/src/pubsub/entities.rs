//! The host's accounts, contacts and clients as its nodes read them.

use std::collections::HashSet;
use std::rc::Rc;

use pubsub::{Entities, Relation};
use xmpp::{Bare, Jid};

use super::super::HostSettings;
use super::super::account_memory::AccountMemory;
use super::super::blocking::Blocklist;
use super::super::caps::Caps;

/// A view of the host, for one event.
pub(super) struct HostEntities<'a> {
    pub(super) settings: &'a HostSettings,
    pub(super) accounts: &'a AccountMemory,
    pub(super) caps: &'a Caps,
}

impl Entities for HostEntities<'_> {
    fn relation(&self, owner: &Bare, user: &Bare) -> Relation {
        let item = self.accounts.listed_item(owner, user);
        Relation {
            // A service belongs to no account; administrators of the server own all of its nodes.
            is_owner: user == owner || (owner.local().is_none() && self.settings.admins.contains(user)),
            has_presence: self.accounts.subscription(owner, user).has_from(),
            groups: item.map(|item| item.groups).unwrap_or_default(),
        }
    }

    fn is_local(&self, domain: &str) -> bool {
        self.settings.is_local(domain)
    }

    fn is_anonymous(&self, user: &Bare) -> bool {
        self.accounts.is_anonymous(user)
    }

    fn watchers(&self, owner: &Bare) -> Vec<&Bare> {
        let Some(data) = self.accounts.data(owner) else { return Vec::new() };
        let blocked = Blocklist::new(&data.blocked);
        let sees = self.accounts.contacts(owner).filter(|(_, subscription)| subscription.has_from());
        sees.map(|(contact, _)| contact).filter(|contact| !blocked.has(contact.as_jid())).collect()
    }

    fn abilities_of(&self, ver: &str) -> Option<Rc<HashSet<Box<str>>>> {
        self.caps.abilities_of(ver)
    }

    fn clients_of(&self, account: &Bare) -> Vec<(Jid, Rc<str>)> {
        self.caps.clients_of(account)
    }

    fn clients_with(&self, account: &Bare, feature: &str) -> Vec<&Jid> {
        self.caps.clients_with(account, feature).collect()
    }
}
