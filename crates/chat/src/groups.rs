//! Shared roster groups: groups of accounts that the operator names, as `mod_shared_roster` of ejabberd and `mod_groups` of Prosody have them.
//!
//! The members of a group see those of every group that is shown to it in their rosters, without asking: the subscription is there by the
//! configuration. `both` is where each sees the other. Nothing of it is stored: `AccountMemory` joins the account's own contacts and those of
//! groups for every feature that asks who sees the account, and `roster` for clients.
//!
//! [`SharedGroups`] is made once for a configuration and shared by all hosts: it has each member once for each of its groups, and no pair of
//! members. The hosts of two contacts decide alike, as they have the same groups. `changes` tells clients of other groups.

mod changes;

use std::collections::{BTreeMap, HashMap};

use sha2::{Digest, Sha256};
use xmpp::Bare;

use super::effect::{RosterItem, Subscription};
pub(super) use changes::{GroupChanges, changes_of};

/// A group as the operator defines it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedGroup {
    /// Names the group in the configuration.
    pub name: Box<str>,
    /// The name of the group in rosters.
    pub label: Box<str>,
    /// The members, in any order.
    pub members: Vec<Bare>,
    /// The names of the groups whose members see this one.
    pub shown_to: Vec<Box<str>>,
}

/// All groups. Indexes are those of `groups`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedGroups {
    groups: Vec<Group>,
    /// The groups of each member, in ascending order.
    of_member: HashMap<Bare, Box<[u32]>>,
}

/// One group.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    label: Box<str>,
    /// The members in the order of their addresses, each once.
    members: Box<[Bare]>,
    /// The groups whose members see this one, in ascending order.
    shown_to: Box<[u32]>,
    /// The groups that the members of this one see, in ascending order.
    sees: Box<[u32]>,
    /// The hash of its name, label and members: another one is another content of rosters.
    digest: u64,
}

impl SharedGroups {
    /// The groups by their definitions. Names in `shown_to` that no group has are ignored; the configuration refuses them.
    pub fn new(defined: Vec<SharedGroup>) -> SharedGroups {
        let indexes: HashMap<Box<str>, u32> =
            defined.iter().map(|group| group.name.clone()).zip(0..).collect();
        let mut groups = Vec::with_capacity(defined.len());
        let mut of_member: HashMap<Bare, Vec<u32>> = HashMap::new();
        for (index, group) in (0..).zip(defined) {
            let mut members = group.members;
            members.sort_unstable();
            members.dedup();
            for member in &members {
                of_member.entry(member.clone()).or_default().push(index);
            }
            let mut shown_to: Vec<u32> =
                group.shown_to.iter().filter_map(|name| indexes.get(name).copied()).collect();
            shown_to.sort_unstable();
            shown_to.dedup();
            groups.push(Group {
                digest: digest_of(&group.name, &group.label, &members),
                label: group.label,
                members: members.into(),
                shown_to: shown_to.into(),
                sees: Box::default(),
            });
        }
        for index in (0..).take(groups.len()) {
            let is_seen = |(_, group): &(u32, &Group)| group.shown_to.contains(&index);
            let sees = (0..).zip(&groups).filter(is_seen).map(|(seen, _)| seen).collect();
            groups[index as usize].sees = sees;
        }
        let of_member = of_member.into_iter().map(|(member, all)| (member, all.into())).collect();
        SharedGroups { groups, of_member }
    }

    /// The number of groups.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// True if there is no group.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The label of each group, and its members.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[Bare])> {
        self.groups.iter().map(|group| (&*group.label, &group.members[..]))
    }

    fn of(&self, user: &Bare) -> &[u32] {
        self.of_member.get(user).map(|groups| &**groups).unwrap_or_default()
    }

    /// True if a member of `viewer`'s groups sees a member of these groups.
    fn sees(&self, viewer: &[u32], seen: &[u32]) -> bool {
        seen.iter().any(|group| self.shows(*group, viewer))
    }

    /// True if the group is shown to one of these groups.
    fn shows(&self, group: u32, viewer: &[u32]) -> bool {
        let shown_to = &self.groups[group as usize].shown_to;
        viewer.iter().any(|viewer| shown_to.binary_search(viewer).is_ok())
    }

    /// The subscription between an account and a contact by their groups. Nearly all servers have none, and nearly all senders
    /// are in none: both cost one look-up at most.
    pub(super) fn subscription(&self, user: &Bare, contact: &Bare) -> Subscription {
        if self.is_empty() || user == contact {
            return Subscription::None;
        }
        let (own, other) = (self.of(user), self.of(contact));
        Subscription::new(self.sees(own, other), self.sees(other, own))
    }

    /// The labels of the groups by which an account sees a contact, each once.
    pub(super) fn labels(&self, user: &Bare, contact: &Bare) -> Vec<&str> {
        if self.is_empty() || user == contact {
            return Vec::new();
        }
        let own = self.of(user);
        let seen = self.of(contact).iter().filter(|group| self.shows(**group, own));
        let mut labels = Vec::new();
        for label in seen.map(|group| &*self.groups[*group as usize].label) {
            // Two groups may have one label.
            if !labels.contains(&label) {
                labels.push(label);
            }
        }
        labels
    }

    /// The contacts that an account has by groups, each once: those that it sees, and those that see it.
    pub(super) fn contacts<'a, 'u>(
        &'a self,
        user: &'u Bare,
    ) -> impl Iterator<Item = (&'a Bare, Subscription)> + use<'a, 'u> {
        let both = self.concerned(user);
        let members = both
            .clone()
            .into_iter()
            .flat_map(|group| self.groups[group as usize].members.iter().map(move |member| (group, member)));
        members.filter_map(move |(group, member)| {
            // A member of several of these groups is a contact by the first one.
            let first = self.of(member).iter().find(|other| both.binary_search(other).is_ok());
            let is_first = first == Some(&group) && member != user;
            is_first.then(|| (member, self.subscription(user, member)))
        })
    }

    /// The groups that an account sees and those that see it, in ascending order.
    fn concerned(&self, user: &Bare) -> Vec<u32> {
        let groups = self.of(user).iter().map(|group| &self.groups[*group as usize]);
        let mut both: Vec<u32> =
            groups.flat_map(|group| group.sees.iter().chain(&group.shown_to)).copied().collect();
        both.sort_unstable();
        both.dedup();
        both
    }

    /// The version of the contacts that an account has by groups: the same at all nodes and after a restart. `None`: it has none.
    pub(super) fn version(&self, user: &Bare) -> Option<u64> {
        let own = self.of(user);
        let concerned = self.concerned(user);
        (!concerned.is_empty()).then(|| {
            concerned.iter().fold(0, |version: u64, group| {
                let seen = u64::from(self.shows(*group, own));
                let seeing = u64::from(self.sees(&[*group], own));
                let digest = self.groups[*group as usize].digest ^ (2 * seen + seeing);
                // Of two groups the order counts, which is that of the configuration.
                version.rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ digest
            })
        })
    }

    /// An item of the account's roster as clients see it: its own with what groups add. `None`: clients see none.
    pub(super) fn join(&self, user: &Bare, contact: &Bare, own: Option<&RosterItem>) -> Option<RosterItem> {
        let shared = self.subscription(user, contact);
        let own = own.filter(|item| item.is_listed);
        if own.is_none() && !shared.has_to() {
            return None;
        }
        let mut item = own.cloned().unwrap_or_default();
        item.subscription = both_of(item.subscription, shared);
        item.ask &= !shared.has_to();
        item.approved &= !shared.has_from();
        item.is_listed = true;
        for label in self.labels(user, contact) {
            if !item.groups.iter().any(|group| **group == *label) {
                item.groups.push(label.into());
            }
        }
        Some(item)
    }

    /// Removes the labels of groups from those that a client sets: it sends what it was shown, and only its own are stored.
    pub(super) fn strip(&self, user: &Bare, contact: &Bare, groups: &mut Vec<Box<str>>) {
        let labels = self.labels(user, contact);
        groups.retain(|group| !labels.contains(&&**group));
    }
}

/// The directions of two subscriptions together.
pub(super) fn both_of(one: Subscription, other: Subscription) -> Subscription {
    Subscription::new(one.has_to() || other.has_to(), one.has_from() || other.has_from())
}

/// The first bytes of a hash that is the same everywhere.
fn digest_of(name: &str, label: &str, members: &[Bare]) -> u64 {
    let mut hash = Sha256::new();
    for text in [name, label].into_iter().chain(members.iter().map(Bare::as_str)) {
        // No text has this byte, so no two lists are one text.
        hash.update(text.as_bytes());
        hash.update([0xff]);
    }
    let hash = hash.finalize();
    hash.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The contacts whose entries differ between two sets of groups: each with its subscription before. `None`: more than `most`.
fn changed(
    (before, after): (&SharedGroups, &SharedGroups),
    user: &Bare,
    most: usize,
) -> Option<Vec<(Bare, Subscription)>> {
    let state = |groups: &SharedGroups, contact: &Bare, subscription| {
        let labels = groups.labels(user, contact);
        (subscription, labels.into_iter().map(String::from).collect::<Vec<_>>())
    };
    let mut changed = BTreeMap::new();
    for (contact, was) in before.contacts(user) {
        if state(before, contact, was) != state(after, contact, after.subscription(user, contact)) {
            changed.insert(contact.clone(), was);
        }
        if changed.len() > most {
            return None;
        }
    }
    for (contact, _) in after.contacts(user) {
        if before.subscription(user, contact) == Subscription::None {
            changed.insert(contact.clone(), Subscription::None);
        }
        if changed.len() > most {
            return None;
        }
    }
    Some(changed.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use stdx::rng::Rng;

    use super::*;

    fn account(number: u64) -> Bare {
        Bare::parse(&format!("m{number}@example.org")).unwrap()
    }

    /// The labels by which one account sees another: by every group with every group, without an index.
    fn labels(groups: &[SharedGroup], viewer: &Bare, seen: &Bare) -> BTreeSet<Box<str>> {
        let mut labels = BTreeSet::new();
        for group in groups.iter().filter(|group| viewer != seen && group.members.contains(seen)) {
            let shown =
                |other: &SharedGroup| other.members.contains(viewer) && group.shown_to.contains(&other.name);
            if groups.iter().any(shown) {
                labels.insert(group.label.clone());
            }
        }
        labels
    }

    #[test]
    fn contacts_are_those_of_a_naive_model() {
        for seed in 0..300 {
            let mut rng = Rng::seeded(seed);
            let count = rng.below(6);
            let defined: Vec<SharedGroup> = (0..count)
                .map(|name| SharedGroup {
                    name: name.to_string().into(),
                    // Two groups may have one label.
                    label: (name % 3).to_string().into(),
                    members: (0..rng.below(8)).map(|_| account(rng.below(8))).collect(),
                    shown_to: (0..rng.below(4)).map(|_| rng.below(count).to_string().into()).collect(),
                })
                .collect();
            let groups = SharedGroups::new(defined.clone());
            for viewer in (0..9).map(account) {
                let found: Vec<(&Bare, Subscription)> = groups.contacts(&viewer).collect();
                let mut expected = 0;
                for contact in (0..9).map(account) {
                    let to = labels(&defined, &viewer, &contact);
                    let from = !labels(&defined, &contact, &viewer).is_empty();
                    let subscription = Subscription::new(!to.is_empty(), from);
                    assert_eq!(groups.subscription(&viewer, &contact), subscription, "seed {seed}");
                    let named = groups.labels(&viewer, &contact).into_iter().map(Box::from).collect();
                    assert_eq!(to, named, "seed {seed}");
                    if subscription != Subscription::None {
                        expected += 1;
                        assert!(found.contains(&(&contact, subscription)), "seed {seed}");
                    }
                }
                assert_eq!(found.len(), expected, "seed {seed}: each once");
                assert_eq!(groups.version(&viewer).is_some(), !groups.concerned(&viewer).is_empty());
            }
        }
    }

    /// A version that depended on the process would have every client read its roster again at each restart.
    #[test]
    fn the_version_is_the_same_everywhere_and_another_for_other_members_or_labels() {
        let group = |label: &str, members: std::ops::Range<u64>| {
            let members = members.map(account).collect();
            let name: Box<str> = "g".into();
            SharedGroups::new(vec![SharedGroup {
                label: label.into(),
                members,
                shown_to: vec![name.clone()],
                name,
            }])
        };
        let of = |groups: &SharedGroups| groups.version(&account(0));
        let first = of(&group("One", 0..3));
        assert_eq!(first, Some(4_842_024_989_640_741_962));
        assert_ne!(of(&group("Two", 0..3)), first);
        assert_ne!(of(&group("One", 0..4)), first);
        assert_eq!(group("One", 0..3).version(&account(9)), None);
    }
}
