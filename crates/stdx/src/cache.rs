//! A bounded map that forgets what was not used for a while (CLOCK, an approximation of least recently
//! used that costs one bit an entry and nothing on a hit).

use std::borrow::Borrow;
use std::cell::Cell;
use std::hash::{BuildHasher, Hash, RandomState};

use hashbrown::HashTable;

use crate::Instant;
use crate::hash::HashedKeys;
use crate::limits::LIMITER_SPARES;

/// Not shared between threads. The evicted entry depends only on the calls made, not on the hash, so a run
/// with equal inputs stays equal.
///
/// Keys are hashed by `S`. Keys that are hashes under a secret already need no second one: `Cache<u64, V, HashedKeys>`.
pub struct Cache<K, V, S = RandomState> {
    /// Positions in `entries`, found by key.
    index: HashTable<u32>,
    entries: Vec<Entry<K, V>>,
    hand: usize,
    /// Where the next `sweep` begins.
    swept: usize,
    capacity: usize,
    hasher: S,
}

struct Entry<K, V> {
    key: K,
    value: V,
    until: Instant,
    used: Cell<bool>,
}

impl<K: Hash + Eq, V> Cache<K, V> {
    /// A capacity of zero keeps nothing. Memory is taken as it fills.
    pub fn new(capacity: usize) -> Self {
        Cache::with_hasher(capacity, RandomState::new())
    }
}

impl<V> Cache<u64, V, HashedKeys> {
    /// As `new`, for keys that are hashes under a secret.
    pub fn of_hashes(capacity: usize) -> Self {
        Cache::with_hasher(capacity, HashedKeys::default())
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    fn with_hasher(capacity: usize, hasher: S) -> Self {
        Cache {
            index: HashTable::new(),
            entries: Vec::new(),
            hand: 0,
            swept: 0,
            capacity: capacity.min(u32::MAX as usize),
            hasher,
        }
    }

    /// Pays no heed to the time to live; `get_at` does.
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let entry = &self.entries[self.position(key)?];
        entry.used.set(true);
        Some(&entry.value)
    }

    /// The key that is kept, where it is.
    pub fn get_key<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&K>
    where
        K: Borrow<Q>,
    {
        Some(&self.entries[self.position(key)?].key)
    }

    /// `None` also when the entry's time is over at `now`.
    pub fn get_at<Q: Hash + Eq + ?Sized>(&self, now: Instant, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let entry = &self.entries[self.position(key)?];
        if entry.until <= now {
            return None;
        }
        entry.used.set(true);
        Some(&entry.value)
    }

    /// The value of a key, marked as used.
    pub fn get_mut<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let position = self.position(key)?;
        let entry = &mut self.entries[position];
        entry.used.set(true);
        Some(&mut entry.value)
    }

    /// Without end. Returns the value this key had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.insert_until(Instant::FAR_FUTURE, key, value)
    }

    /// For `get_at` until `until`. Returns the value this key had.
    pub fn insert_until(&mut self, until: Instant, key: K, value: V) -> Option<V> {
        self.insert_sparing(until, key, value, |_| false)
    }

    /// Removes a key and returns its value.
    pub fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let position = self.position(key)?;
        Some(self.remove_at(position).value)
    }

    /// Forgets all entries that `keep` does not want, e.g. those of a domain that was removed.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &V) -> bool) {
        for position in (0..self.entries.len()).rev() {
            let entry = &self.entries[position];
            if !keep(&entry.key, &entry.value) {
                self.remove_at(position);
            }
        }
    }

    /// Looks at so many entries, all of them in turn, and forgets those whose time is over at `now`: no look-up finds them any
    /// more, but they take memory.
    pub fn sweep(&mut self, now: Instant, count: usize) {
        for _ in 0..count.min(self.entries.len()) {
            if self.swept >= self.entries.len() {
                self.swept = 0;
            }
            match self.entries.get(self.swept) {
                Some(entry) if entry.until <= now => drop(self.remove_at(self.swept)),
                _ => self.swept += 1,
            }
        }
    }

    /// All entries in no order, also those whose time is over. None of them counts as used by it.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().map(|entry| (&entry.key, &entry.value))
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.index.clear();
        self.entries.clear();
        self.hand = 0;
    }

    /// The number of entries, expired ones included.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True without entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The largest number of entries.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// As `insert_until`, passing over a bounded number of entries that `spare` would rather keep.
    pub(crate) fn insert_sparing(
        &mut self,
        until: Instant,
        key: K,
        value: V,
        spare: impl Fn(&V) -> bool,
    ) -> Option<V> {
        if let Some(position) = self.position(&key) {
            let entry = &mut self.entries[position];
            entry.until = until;
            entry.used.set(true);
            return Some(std::mem::replace(&mut entry.value, value));
        }
        if self.capacity == 0 {
            return None;
        }
        let entry = Entry { key, value, until, used: Cell::new(false) };
        let position = self.place_for(entry, spare);
        let (entries, hasher) = (&self.entries, &self.hasher);
        let hash = |position: &u32| hasher.hash_one(&entries[*position as usize].key);
        self.index.insert_unique(hash(&position), position, hash);
        None
    }

    /// Puts it at the end or, when full, where the hand found the one to forget.
    fn place_for(&mut self, entry: Entry<K, V>, spare: impl Fn(&V) -> bool) -> u32 {
        if self.entries.len() < self.capacity {
            self.entries.push(entry);
            return self.entries.len() as u32 - 1;
        }
        let position = self.victim(spare);
        self.unindex(position);
        self.entries[position] = entry;
        self.hand = position + 1;
        position as u32
    }

    /// The hand goes round, takes back the mark of those that were used and stops at one that was not.
    fn victim(&mut self, spare: impl Fn(&V) -> bool) -> usize {
        let mut spares = LIMITER_SPARES;
        loop {
            self.hand %= self.entries.len();
            let entry = &self.entries[self.hand];
            let spared = spares > 0 && !entry.used.get() && spare(&entry.value);
            spares -= usize::from(spared);
            if !spared && !entry.used.replace(false) {
                return self.hand;
            }
            self.hand += 1;
        }
    }

    fn position<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<usize>
    where
        K: Borrow<Q>,
    {
        // Most caches of rare things are empty, and a hash takes longer than all the rest of a look-up.
        if self.entries.is_empty() {
            return None;
        }
        let matches = |position: &u32| self.entries[*position as usize].key.borrow() == key;
        self.index.find(self.hasher.hash_one(key), matches).map(|position| *position as usize)
    }

    /// Fills the gap with the last entry.
    fn remove_at(&mut self, position: usize) -> Entry<K, V> {
        self.unindex(position);
        let last = self.entries.len() - 1;
        if position != last {
            let hash = self.hasher.hash_one(&self.entries[last].key);
            let moved = self.index.find_mut(hash, |candidate| *candidate == last as u32);
            *moved.expect("every entry is in the index") = position as u32;
        }
        self.entries.swap_remove(position)
    }

    fn unindex(&mut self, position: usize) {
        let hash = self.hasher.hash_one(&self.entries[position].key);
        if let Ok(found) = self.index.find_entry(hash, |candidate| *candidate == position as u32) {
            found.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn seconds(seconds: u64) -> Instant {
        Instant::from_unix_seconds(seconds)
    }

    #[test]
    fn expired_entries_are_swept_away() {
        let mut cache = Cache::new(100);
        for number in 0..100 {
            cache.insert_until(seconds(number % 2 + 1), number, ());
        }
        cache.sweep(seconds(0), 1_000);
        assert_eq!(cache.len(), 100);
        cache.sweep(seconds(1), 10);
        assert!((90..100).contains(&cache.len()), "a bounded number: {}", cache.len());
        (0..20).for_each(|_| cache.sweep(seconds(1), 10));
        assert_eq!(cache.len(), 50);
        assert!((0..100).all(|number| cache.get(&number).is_some() == (number % 2 == 1)));
        cache.sweep(seconds(2), 1_000);
        assert!(cache.is_empty());
        cache.sweep(seconds(2), 1_000);
    }

    #[test]
    fn a_recently_used_entry_stays_and_an_unused_one_goes() {
        let mut cache = Cache::new(3);
        for name in ["a", "b", "c"] {
            cache.insert(name.to_owned(), ());
        }
        assert!(cache.get("a").is_some());
        cache.insert("d".to_owned(), ());
        assert!(cache.get("a").is_some());
        assert!(cache.get("b").is_none());
        assert!(cache.get("c").is_some());
        assert_eq!(cache.len(), 3);
    }

    #[test]
    fn a_scan_of_new_keys_evicts_in_turn() {
        let mut cache = Cache::new(4);
        for key in 0..100 {
            cache.insert(key, key);
        }
        assert!((96..100).all(|key| cache.get(&key) == Some(&key)));
    }

    #[test]
    fn time_ends_an_entry() {
        let mut cache = Cache::new(3);
        cache.insert_until(seconds(10), "a", 1);
        assert_eq!(cache.get_at(seconds(9), "a"), Some(&1));
        assert_eq!(cache.get_at(seconds(10), "a"), None);
        cache.insert_until(seconds(20), "a", 2);
        assert_eq!(cache.get_at(seconds(10), "a"), Some(&2));
    }

    #[test]
    fn no_room_is_no_error() {
        let mut cache = Cache::new(0);
        assert_eq!(cache.insert("a", 1), None);
        assert!(cache.is_empty() && cache.get("a").is_none());
    }

    #[test]
    fn some_are_spared_but_not_for_ever() {
        let mut cache = Cache::new(2);
        cache.insert("precious", true);
        cache.insert("plain", false);
        cache.insert_sparing(Instant::FAR_FUTURE, "next", true, |precious| *precious);
        assert!(cache.get("precious").is_some() && cache.get("plain").is_none());
        cache.insert_sparing(Instant::FAR_FUTURE, "last", true, |precious| *precious);
        assert_eq!((cache.len(), cache.get("last")), (2, Some(&true)));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u8, u32),
        Get(u8),
        Remove(u8),
        RetainOdd,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            20 => any::<(u8, u32)>().prop_map(|(key, value)| Step::Insert(key, value)),
            20 => any::<u8>().prop_map(Step::Get),
            10 => any::<u8>().prop_map(Step::Remove),
            1 => Just(Step::RetainOdd),
        ]
    }

    proptest! {
        /// It may forget, but never beyond need, and never answers what was not put there.
        #[test]
        fn is_a_forgetful_map(capacity in 1usize..40, steps in prop::collection::vec(step(), 1..400)) {
            let mut cache = Cache::new(capacity);
            let mut model = HashMap::new();
            for step in steps {
                match step {
                    Step::Insert(key, value) => {
                        let (before, known) = (cache.len(), cache.get(&key).is_some());
                        let old = cache.insert(key, value);
                        prop_assert!(old.is_none() || old == model.get(&key).copied());
                        model.insert(key, value);
                        prop_assert_eq!(cache.len(), (before + usize::from(!known)).min(capacity));
                        prop_assert_eq!(cache.get(&key), Some(&value));
                    }
                    Step::Get(key) => {
                        let found = cache.get(&key).copied();
                        prop_assert!(found.is_none() || found == model.get(&key).copied());
                    }
                    Step::Remove(key) => {
                        let (removed, known) = (cache.remove(&key), model.remove(&key));
                        prop_assert!(removed.is_none() || removed == known);
                        prop_assert!(cache.get(&key).is_none());
                    }
                    Step::RetainOdd => {
                        cache.retain(|key, _| key % 2 == 1);
                        model.retain(|key, _| key % 2 == 1);
                    }
                }
                prop_assert_eq!((0..=255u8).filter(|key| cache.position(key).is_some()).count(), cache.len());
            }
        }
    }
}
