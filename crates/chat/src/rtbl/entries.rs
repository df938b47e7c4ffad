//! The entries of a list as a set whose copies share what has not changed: each new content of a list is a copy for the hosts, and a change
//! between two of them copies one part of it.

use std::collections::HashSet;
use std::sync::Arc;

use super::AddressHash;
use crate::limits;

/// Parts of a set: one for each first byte of a hash.
const PARTS: usize = 256;

/// A set of at most [`limits::RTBL_ENTRIES`] hashes.
#[derive(Clone, Debug)]
pub(super) struct EntrySet {
    parts: Vec<Arc<HashSet<AddressHash>>>,
    len: usize,
}

impl Default for EntrySet {
    fn default() -> EntrySet {
        // All parts are one allocation until they differ.
        EntrySet { parts: vec![Arc::default(); PARTS], len: 0 }
    }
}

impl EntrySet {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn contains(&self, entry: &AddressHash) -> bool {
        self.parts[part_of(entry)].contains(entry)
    }

    /// Adds an entry unless the set is full.
    pub(super) fn insert(&mut self, entry: AddressHash) {
        // An entry that changes nothing causes no copy.
        if self.len < limits::RTBL_ENTRIES && !self.contains(&entry) {
            Arc::make_mut(&mut self.parts[part_of(&entry)]).insert(entry);
            self.len += 1;
        }
    }

    pub(super) fn remove(&mut self, entry: &AddressHash) {
        if self.contains(entry) {
            Arc::make_mut(&mut self.parts[part_of(entry)]).remove(entry);
            self.len -= 1;
        }
    }
}

fn part_of(entry: &AddressHash) -> usize {
    usize::from(entry[0])
}

#[cfg(test)]
mod tests {
    use stdx::rng::Rng;

    use super::*;

    #[test]
    fn a_change_copies_one_part_and_leaves_copies_as_they_are() {
        let mut set = EntrySet::default();
        for first in 0..=u8::MAX {
            set.insert([first; 32]);
        }
        let published = set.clone();
        let mut added = [7; 32];
        added[31] = 0;
        set.insert(added);
        set.remove(&[7; 32]);
        // Neither is a change.
        set.insert([9; 32]);
        let mut absent = [1; 32];
        absent[31] = 0;
        set.remove(&absent);
        let shared = |(one, other): &(&Arc<_>, &Arc<_>)| Arc::ptr_eq(one, other);
        assert_eq!(set.parts.iter().zip(&published.parts).filter(shared).count(), PARTS - 1);
        assert!(published.contains(&[7; 32]) && !published.contains(&added));
        assert!(set.contains(&added) && !set.contains(&[7; 32]));
        assert_eq!((set.len(), published.len()), (256, 256));
    }

    /// Against the standard library's set.
    #[test]
    fn it_is_a_set() {
        let (mut rng, mut set, mut expected) = (Rng::from_seed([1; 32]), EntrySet::default(), HashSet::new());
        for _ in 0..10_000 {
            let [part, rest, add, ..] = rng.next_u64().to_be_bytes();
            let mut entry = [0; 32];
            (entry[0], entry[1]) = (part & 3, rest);
            if add & 1 == 0 {
                set.insert(entry);
                expected.insert(entry);
            } else {
                set.remove(&entry);
                expected.remove(&entry);
            }
            assert_eq!(set.len(), expected.len());
            assert_eq!(set.contains(&entry), expected.contains(&entry));
        }
        assert!(!set.is_empty());
    }
}
