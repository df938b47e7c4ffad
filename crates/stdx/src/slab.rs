//! Values under small generational keys. A key of a value that was removed finds nothing, even when its
//! place is in use again.

use crate::limits::SLAB_CHUNK;

/// Ends the list of free places.
const NONE: u32 = u32::MAX;

/// Chunked: growing adds a chunk and copies nothing. Chunks are kept until the slab is dropped, because
/// they remember the generations.
pub struct Slab<T> {
    chunks: Vec<Vec<SlabEntry<T>>>,
    free: u32,
    len: usize,
}

struct SlabEntry<T> {
    generation: u32,
    next_free: u32,
    value: Option<T>,
}

/// Names a value while it is there. The generation starts at 1, so a key is never zero as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    index: u32,
    generation: u32,
}

impl Key {
    /// The key as a number, for `from_u64`.
    pub const fn to_u64(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }

    /// Any number is a key; one that was never given out finds nothing.
    pub const fn from_u64(number: u64) -> Self {
        Key { index: number as u32, generation: (number >> 32) as u32 }
    }

    /// The key's place in the slab.
    pub const fn index(self) -> u32 {
        self.index
    }

    /// The generation of the value at the key's place.
    pub const fn generation(self) -> u32 {
        self.generation
    }
}

impl<T> Slab<T> {
    /// An empty slab; it does not allocate.
    pub const fn new() -> Self {
        Slab { chunks: Vec::new(), free: NONE, len: 0 }
    }

    /// Inserts a value and returns its key.
    pub fn insert(&mut self, value: T) -> Key {
        self.insert_with(|_| value)
    }

    /// For values that want to know their own key.
    pub fn insert_with(&mut self, value: impl FnOnce(Key) -> T) -> Key {
        let index = if self.free == NONE { self.grow() } else { self.free };
        let place = &mut self.chunks[index as usize / SLAB_CHUNK][index as usize % SLAB_CHUNK];
        let key = Key { index, generation: place.generation };
        let value = value(key);
        self.free = place.next_free;
        place.value = Some(value);
        self.len += 1;
        key
    }

    /// The value of a key; `None` after its removal.
    pub fn get(&self, key: Key) -> Option<&T> {
        let place = self.chunks.get(key.index as usize / SLAB_CHUNK)?.get(key.index as usize % SLAB_CHUNK)?;
        place.value.as_ref().filter(|_| place.generation == key.generation)
    }

    /// The value of a key, to be changed; `None` after its removal.
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.place(key)?.value.as_mut()
    }

    /// True if the key's value is still here.
    pub fn contains(&self, key: Key) -> bool {
        self.get(key).is_some()
    }

    /// Removes a value; its key finds nothing from now on.
    pub fn remove(&mut self, key: Key) -> Option<T> {
        let free = self.free;
        let place = self.place(key)?;
        let value = place.value.take()?;
        place.generation = place.generation.wrapping_add(1).max(1);
        place.next_free = free;
        self.free = key.index;
        self.len -= 1;
        Some(value)
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True without values.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// In the order of places, not of insertion.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.chunks.iter().flatten().enumerate().filter_map(|(index, place)| {
            let key = Key { index: index as u32, generation: place.generation };
            place.value.as_ref().map(|value| (key, value))
        })
    }

    /// As [`Slab::iter`], with values to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Key, &mut T)> {
        self.chunks.iter_mut().flatten().enumerate().filter_map(|(index, place)| {
            let key = Key { index: index as u32, generation: place.generation };
            place.value.as_mut().map(|value| (key, value))
        })
    }

    /// The key of the first value at this place or behind it.
    pub fn key_from(&self, index: u32) -> Option<Key> {
        let first = index as usize / SLAB_CHUNK;
        let places = self.chunks.iter().enumerate().skip(first).flat_map(|(at, chunk)| {
            let before = if at == first { index as usize % SLAB_CHUNK } else { 0 };
            chunk.iter().enumerate().skip(before).map(move |(place, value)| (at * SLAB_CHUNK + place, value))
        });
        let mut taken = places.filter(|(_, place)| place.value.is_some());
        taken.next().map(|(index, place)| Key { index: index as u32, generation: place.generation })
    }

    fn place(&mut self, key: Key) -> Option<&mut SlabEntry<T>> {
        let chunk = self.chunks.get_mut(key.index as usize / SLAB_CHUNK)?;
        chunk.get_mut(key.index as usize % SLAB_CHUNK).filter(|place| place.generation == key.generation)
    }

    /// Adds one place behind the last and puts it on the empty list of free ones.
    fn grow(&mut self) -> u32 {
        if self.chunks.last().is_none_or(|chunk| chunk.len() == SLAB_CHUNK) {
            self.chunks.push(Vec::with_capacity(SLAB_CHUNK));
        }
        let full = (self.chunks.len() - 1) * SLAB_CHUNK;
        let chunk = self.chunks.last_mut().expect("a chunk with room was just ensured");
        let index = u32::try_from(full + chunk.len()).ok().filter(|index| *index != NONE);
        let index = index.expect("memory ends long before 2^32 values");
        chunk.push(SlabEntry { generation: 1, next_free: NONE, value: None });
        self.free = index;
        index
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab::new()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_removed_key_stays_dead_when_its_place_lives_again() {
        let mut slab = Slab::new();
        let first = slab.insert("a");
        assert_eq!(slab.remove(first), Some("a"));
        let second = slab.insert("b");
        assert_eq!(first.index(), second.index());
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.get_mut(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get(second), Some(&"b"));
    }

    #[test]
    fn keys_survive_the_trip_through_a_number() {
        let mut slab = Slab::new();
        let key = slab.insert_with(|key| key.to_u64());
        assert_eq!(Key::from_u64(key.to_u64()), key);
        assert_eq!(slab.get(key), Some(&key.to_u64()));
        assert_ne!(key.to_u64(), 0);
        assert_eq!(slab.get(Key::from_u64(u64::MAX)), None);
        assert_eq!(slab.get(Key::from_u64(0)), None);
    }

    #[test]
    fn growth_moves_nothing() {
        let mut slab = Slab::new();
        let first = slab.insert(0);
        let address = std::ptr::from_ref(slab.get(first).expect("just inserted"));
        let keys: Vec<Key> = (1..5_000).map(|value| slab.insert(value)).collect();
        assert_eq!(std::ptr::from_ref(slab.get(first).expect("still there")), address);
        assert!(keys.iter().zip(1..).all(|(key, value)| slab.get(*key) == Some(&value)));
    }

    proptest! {
        #[test]
        fn agrees_with_a_map(steps in prop::collection::vec((any::<bool>(), any::<usize>()), 1..3_000)) {
            let mut slab = Slab::new();
            let mut model = HashMap::new();
            let mut given = Vec::new();
            for (insert, value) in steps {
                if insert || given.is_empty() {
                    let key = slab.insert(value);
                    prop_assert!(model.insert(key, value).is_none());
                    given.push(key);
                } else {
                    let key = given[value % given.len()];
                    prop_assert_eq!(slab.remove(key), model.remove(&key));
                }
                prop_assert_eq!(slab.len(), model.len());
            }
            for key in given {
                prop_assert_eq!(slab.get(key), model.get(&key));
            }
            let mut walked = Vec::new();
            while let Some(key) = slab.key_from(walked.last().map_or(0, |last: &Key| last.index() + 1)) {
                walked.push(key);
            }
            prop_assert_eq!(walked, slab.iter().map(|(key, _)| key).collect::<Vec<_>>());
            let seen: HashMap<_, _> = slab.iter().map(|(key, value)| (key, *value)).collect();
            prop_assert_eq!(seen, model);
        }
    }
}
