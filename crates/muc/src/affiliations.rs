//! The affiliations of a room and the nicknames that are reserved in it (XEP-0045 §5.2, §7.10).

use std::collections::BTreeMap;

use xmpp::{Bare, Element, ns};

use super::rules::Affiliation;
use super::users::listed;
use crate::limits::{AFFILIATIONS, REGISTRATIONS, REGISTRATIONS_BYTES, REGISTRATIONS_OF_DOMAIN};

/// A user with an affiliation or a reserved nickname, in the room or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RoomUser {
    pub(super) affiliation: Affiliation,
    /// The reserved nickname (§7.10), in the form that it has in an address.
    pub(super) nick: Option<Box<str>>,
    /// The reason of a ban.
    pub(super) reason: Option<Box<str>>,
    /// The user has registered itself (§7.10), and no administrator has set the affiliation.
    pub(super) is_registered: bool,
}

impl RoomUser {
    /// `<item/>` of a list.
    fn item(&self, ns: &'static str, user: &Bare) -> Element {
        let reason = self.reason.as_ref().map(|reason| Element::new("reason", ns).text(&**reason));
        listed(ns, Some(user.as_str()), self.nick.as_deref(), (self.affiliation, None)).children(reason)
    }

    /// The item of the stored room.
    fn stored(&self, user: &Bare) -> Element {
        let item = self.item(ns::MUC_OWNER, user);
        item.with_opt("registered", self.is_registered.then_some("true"))
    }
}

/// The users of a room that have an affiliation or a reserved nickname.
#[derive(Clone, Debug, Default)]
pub(super) struct Affiliations {
    /// By user; a domain stands for all its users, and can only be banned.
    entries: BTreeMap<Bare, RoomUser>,
    /// An administrator of the server, who has all rights in this room during a request, whatever the
    /// affiliation.
    above: Option<Bare>,
}

impl Affiliations {
    /// The affiliations of a new room.
    pub(super) fn with_owner(owner: Bare) -> Affiliations {
        let entry = RoomUser { affiliation: Affiliation::Owner, ..RoomUser::default() };
        Affiliations { entries: BTreeMap::from([(owner, entry)]), above: None }
    }

    pub(super) fn set_above(&mut self, above: Option<Bare>) {
        self.above = above;
    }

    /// True for the administrator of the server whose request is being handled.
    pub(super) fn is_above(&self, user: &Bare) -> bool {
        self.above.as_ref() == Some(user)
    }

    /// The affiliation that counts: of an administrator of the server during a request, else of the user, else the ban of
    /// its domain.
    pub(super) fn of(&self, user: &Bare) -> Affiliation {
        if self.is_above(user) {
            return Affiliation::Owner;
        }
        // An affiliation of the user's own goes before that of its domain: a member of a banned domain stays a member.
        let own = self.stored(user);
        if own != Affiliation::None {
            return own;
        }
        // A whole domain may be banned.
        let domain = Bare::new(None, user.domain()).ok();
        let is_banned = domain.is_some_and(|domain| self.stored(&domain) == Affiliation::Outcast);
        if is_banned { Affiliation::Outcast } else { Affiliation::None }
    }

    /// The affiliation of the entry itself.
    pub(super) fn stored(&self, user: &Bare) -> Affiliation {
        self.entries.get(user).map(|entry| entry.affiliation).unwrap_or_default()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn has(&self, user: &Bare) -> bool {
        self.entries.contains_key(user)
    }

    /// True if there is no place for an entry of this user.
    pub(super) fn is_full_for(&self, user: &Bare) -> bool {
        !self.has(user) && self.len() >= AFFILIATIONS
    }

    /// True if there is no place for a user that registers itself under this nickname. `home`: the domain of the room.
    pub(super) fn is_full_for_registration(&self, user: &Bare, nick: &str, home: &str) -> bool {
        let stored = self.entries.get(user);
        // The entry of a member that an administrator has made is there already.
        if stored.is_some_and(|entry| !entry.is_registered && entry.affiliation != Affiliation::None) {
            return false;
        }
        let own = RoomUser {
            affiliation: Affiliation::Member,
            nick: Some(nick.into()),
            is_registered: true,
            ..RoomUser::default()
        };
        let (mut count, mut of_domain, mut bytes) = (0, 0, bytes_of(user, &own));
        for (other, entry) in
            self.entries.iter().filter(|(other, entry)| entry.is_registered && *other != user)
        {
            count += 1;
            of_domain += usize::from(other.domain() == user.domain());
            bytes += bytes_of(other, entry);
        }
        // Rooms are at `conference.example.org`, accounts of the same server at `example.org`.
        let is_home = home.strip_suffix(user.domain()).is_some_and(|service| service.ends_with('.'));
        self.is_full_for(user)
            || count >= REGISTRATIONS
            || (!is_home && of_domain >= REGISTRATIONS_OF_DOMAIN)
            || bytes > REGISTRATIONS_BYTES
    }

    /// Removes the entries of a domain's users that have registered themselves. Those that an administrator has made stay.
    pub(super) fn remove_registered(&mut self, domain: &str) {
        self.entries.retain(|user, entry| !entry.is_registered || user.domain() != domain);
    }

    pub(super) fn owners(&self) -> usize {
        self.entries.values().filter(|entry| entry.affiliation == Affiliation::Owner).count()
    }

    /// The nickname that this user has reserved.
    pub(super) fn nick_of(&self, user: &Bare) -> Option<&str> {
        self.entries.get(user)?.nick.as_deref()
    }

    /// The user that has reserved this nickname.
    pub(super) fn reserved_by(&self, nick: &str) -> Option<&Bare> {
        let mut reserved = self.entries.iter().filter(|(_, entry)| entry.nick.as_deref() == Some(nick));
        reserved.next().map(|(user, _)| user)
    }

    pub(super) fn set(&mut self, user: &Bare, change: impl FnOnce(&mut RoomUser)) {
        let entry = self.entries.entry(user.clone()).or_default();
        change(entry);
        // An entry that says nothing is not stored, and leaves its place in the list.
        if entry.affiliation == Affiliation::None && entry.nick.is_none() {
            self.entries.remove(user);
        }
    }

    /// Puts in an entry of the stored room.
    pub(super) fn restore(&mut self, user: Bare, entry: RoomUser) {
        self.entries.insert(user, entry);
    }

    /// A removed account loses what it is here, unless that is to be banned. True: it was something.
    pub(super) fn remove_user(&mut self, user: &Bare) -> bool {
        // A ban stays, so that a new account of that name does not lift it.
        let is_something =
            self.entries.get(user).is_some_and(|entry| entry.affiliation != Affiliation::Outcast);
        if is_something {
            self.entries.remove(user);
        }
        is_something
    }

    /// The list of an affiliation, for a client (§9).
    pub(super) fn list(&self, affiliation: Affiliation) -> Vec<Element> {
        let those = self.entries.iter().filter(|(_, entry)| entry.affiliation == affiliation);
        those.map(|(user, entry)| entry.item(ns::MUC_ADMIN, user)).collect()
    }

    /// The users of an affiliation.
    pub(super) fn users_of(&self, affiliation: Affiliation) -> impl Iterator<Item = &Bare> {
        let those = self.entries.iter().filter(move |(_, entry)| entry.affiliation == affiliation);
        those.map(|(user, _)| user)
    }

    /// All entries, for the store.
    pub(super) fn stored_items(&self) -> impl Iterator<Item = Element> {
        self.entries.iter().map(|(user, entry)| entry.stored(user))
    }

    #[cfg(test)]
    pub(super) fn entries(&self) -> &BTreeMap<Bare, RoomUser> {
        &self.entries
    }
}

/// The bytes of an entry in the stored room.
fn bytes_of(user: &Bare, entry: &RoomUser) -> usize {
    entry.stored(user).to_bytes(ns::MUC_OWNER).len()
}
