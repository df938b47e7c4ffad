//! Samples that were spoken or decoded, bounded in bytes, and the waiters for those that are being made: each is made
//! once however many ask.
//!
//! Two caches use it: spoken texts and decoded files. `about` is what is kept beside the samples, `W` a waiter.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

/// 8 kHz, one channel.
pub(super) type Samples = Arc<[i16]>;

/// Samples by key, and the waiters for those that are being made.
pub(super) struct Cache<K, V, W> {
    kept: HashMap<K, CacheEntry<V>>,
    waiting: HashMap<K, Vec<W>>,
    /// Bytes of all samples that are kept.
    bytes: usize,
    /// The bound of `bytes`.
    most: usize,
    /// Counts uses: an entry with a lower number was used earlier.
    uses: u64,
}

/// One sound as it is kept.
struct CacheEntry<V> {
    samples: Samples,
    about: V,
    /// The number of its last use.
    used: u64,
}

impl<K: Hash + Eq + Clone, V: Clone, W> Cache<K, V, W> {
    /// `most` counts the bytes of the samples.
    pub(super) fn new(most: usize) -> Self {
        Cache { kept: HashMap::new(), waiting: HashMap::new(), bytes: 0, most, uses: 0 }
    }

    /// The kept sound, if there is one; this counts as a use.
    pub(super) fn get(&mut self, key: &K) -> Option<(Samples, V)> {
        self.uses += 1;
        let kept = self.kept.get_mut(key)?;
        kept.used = self.uses;
        Some((Arc::clone(&kept.samples), kept.about.clone()))
    }

    /// Adds a waiter. `true`: the sound is to be made now; `false`: it is being made.
    pub(super) fn wait(&mut self, key: &K, waiter: W) -> bool {
        if let Some(others) = self.waiting.get_mut(key) {
            others.push(waiter);
            return false;
        }
        self.waiting.insert(key.clone(), vec![waiter]);
        true
    }

    /// Removes and returns those that wait for `key`.
    pub(super) fn done(&mut self, key: &K) -> Vec<W> {
        self.waiting.remove(key).unwrap_or_default()
    }

    /// Keeps a sound; those that were not used for the longest time make room. One that is too large alone is not kept.
    pub(super) fn keep(&mut self, key: K, samples: Samples, about: V) {
        self.forget(&key);
        let bytes = size_of_val(&*samples);
        if bytes > self.most {
            return;
        }
        // Every miss costs more than to look at all that is kept: a process or a request.
        while self.bytes + bytes > self.most
            && let Some(oldest) =
                self.kept.iter().min_by_key(|(_, kept)| kept.used).map(|(key, _)| key.clone())
        {
            self.forget(&oldest);
        }
        self.uses += 1;
        self.bytes += bytes;
        self.kept.insert(key, CacheEntry { samples, about, used: self.uses });
    }

    fn forget(&mut self, key: &K) {
        if let Some(kept) = self.kept.remove(key) {
            self.bytes -= size_of_val(&*kept.samples);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_used_make_room_and_the_too_large_do_not_come_in() {
        let mut cache: Cache<u8, (), ()> = Cache::new(20);
        cache.keep(1, vec![0; 5].into(), ());
        cache.keep(2, vec![0; 5].into(), ());
        assert!(cache.get(&1).is_some());
        cache.keep(3, vec![0; 5].into(), ());
        assert!(cache.get(&2).is_none() && cache.get(&1).is_some() && cache.get(&3).is_some());
        cache.keep(4, vec![0; 11].into(), ());
        assert!(cache.get(&4).is_none() && cache.get(&1).is_some());
        cache.keep(1, vec![0; 10].into(), ());
        assert_eq!((cache.bytes, cache.kept.len()), (20, 1));
    }
}
