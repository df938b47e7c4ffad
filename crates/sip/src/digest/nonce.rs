//! Nonces that need no table to be known again: time, a counter, and two check values under a secret.
//!
//! 20 bytes, 40 hexadecimal digits: 7 of microseconds since the epoch, 1 counter, 8 that prove that the nonce
//! is ours for this realm, 4 that bind it to the Call-ID. One Call-ID belongs to one shard, so the shard that
//! issued a nonce sees every use of it.

use std::collections::VecDeque;
use std::time::Duration;

use hashbrown::HashMap;
use stdx::Instant;
use stdx::hash::Keyed;

use crate::limits;

const BYTES: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NonceSettings {
    /// After this a nonce is stale.
    pub lifetime: Duration,
    /// Nonces whose last count is remembered. Beyond it the one first used longest ago is forgotten, and
    /// what is not newer is stale.
    pub capacity: usize,
}

impl Default for NonceSettings {
    fn default() -> Self {
        NonceSettings { lifetime: Duration::from_secs(300), capacity: limits::NONCES_IN_USE }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NonceVerdict {
    /// Take [`Nonces::spend`] once the response is verified.
    Good(NonceUse),
    /// Ours, but too old, forgotten, or of another Call-ID.
    Stale,
    /// Not ours, of another realm, or from before the secret changed.
    Forged,
    /// The count is not higher than the last one.
    Replayed,
}

/// One use of a nonce that has not been recorded yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NonceUse {
    key: u64,
    issued: Instant,
    count: u32,
}

/// Issues nonces and remembers the last count of those in use.
#[derive(Debug)]
pub struct Nonces {
    keyed: Keyed,
    settings: NonceSettings,
    counter: u8,
    /// Keyed by a check value under our secret: nobody chooses what collides.
    counts: HashMap<u64, u32, BuildIdentity>,
    /// In the order of first use.
    used: VecDeque<(u64, Instant)>,
    /// The newest nonce that was forgotten before its time.
    horizon: Option<Instant>,
}

impl Nonces {
    pub fn new(secret: [u8; 16], settings: NonceSettings) -> Self {
        Nonces {
            keyed: Keyed::new(secret),
            settings,
            counter: 0,
            counts: HashMap::default(),
            used: VecDeque::new(),
            horizon: None,
        }
    }

    /// A nonce for one Call-ID and realm, never issued before.
    pub fn issue(&mut self, now: Instant, call_id: &[u8], realm: &str) -> String {
        self.counter = self.counter.wrapping_add(1);
        let stamp = now.as_micros() << 8 | u64::from(self.counter);
        let key = self.key(stamp, realm.as_bytes());
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&stamp.to_be_bytes());
        bytes[8..16].copy_from_slice(&key.to_be_bytes());
        bytes[16..].copy_from_slice(&self.binding(key, call_id));
        let hex = super::algorithm::Hex::of(&bytes);
        String::from_utf8_lossy(hex.as_bytes()).into_owned()
    }

    /// Whether `nonce` may be used with `count`, which must be higher than in every use before: `nc`, or the
    /// CSeq where the client speaks no `qop`. Records nothing: before the response is verified anybody could
    /// have chosen the count.
    pub fn check(&self, now: Instant, nonce: &[u8], realm: &str, call_id: &[u8], count: u32) -> NonceVerdict {
        let Some(bytes) = stdx::hex::decode_array::<BYTES>(nonce) else {
            return NonceVerdict::Forged;
        };
        let (head, binding) = bytes.split_at(16);
        let stamp = u64::from_be_bytes(std::array::from_fn(|index| head[index]));
        let key = self.key(stamp, realm.as_bytes());
        if !stdx::ct_eq(&key.to_be_bytes(), &head[8..]) {
            return NonceVerdict::Forged;
        }
        let issued = Instant::from_micros(stamp >> 8);
        if !stdx::ct_eq(&self.binding(key, call_id), binding) || now.since(issued) > self.settings.lifetime {
            return NonceVerdict::Stale;
        }
        self.check_count(NonceUse { key, issued, count })
    }

    fn check_count(&self, nonce_use: NonceUse) -> NonceVerdict {
        match self.counts.get(&nonce_use.key) {
            Some(&last) if nonce_use.count <= last => NonceVerdict::Replayed,
            // RFC 7616 §3.4: counting starts at 1.
            None if nonce_use.count == 0 => NonceVerdict::Replayed,
            None if self.horizon.is_some_and(|horizon| nonce_use.issued <= horizon) => NonceVerdict::Stale,
            _ => NonceVerdict::Good(nonce_use),
        }
    }

    /// Records a use whose response was right. False when another use with this count came in between.
    pub fn spend(&mut self, now: Instant, nonce_use: NonceUse) -> bool {
        if !matches!(self.check_count(nonce_use), NonceVerdict::Good(_)) {
            return false;
        }
        if self.counts.insert(nonce_use.key, nonce_use.count).is_none() {
            self.used.push_back((nonce_use.key, nonce_use.issued));
            self.forget(now);
        }
        true
    }

    /// Nonces whose last count is remembered now.
    pub fn in_use(&self) -> usize {
        self.counts.len()
    }

    fn forget(&mut self, now: Instant) {
        while let Some(&(key, issued)) = self.used.front() {
            let is_dead = now.since(issued) > self.settings.lifetime;
            if !is_dead && self.used.len() <= self.settings.capacity {
                return;
            }
            if !is_dead {
                self.horizon = self.horizon.max(Some(issued));
            }
            self.used.pop_front();
            self.counts.remove(&key);
        }
    }

    fn key(&self, stamp: u64, realm: &[u8]) -> u64 {
        self.keyed.mac(&[&stamp.to_be_bytes(), realm])
    }

    fn binding(&self, key: u64, call_id: &[u8]) -> [u8; 4] {
        let mac = self.keyed.mac(&[b"call", &key.to_be_bytes(), call_id]);
        let [a, b, c, d, ..] = mac.to_be_bytes();
        [a, b, c, d]
    }
}

/// The keys are hashes already.
#[derive(Clone, Copy, Debug, Default)]
struct Identity(u64);

type BuildIdentity = std::hash::BuildHasherDefault<Identity>;

impl std::hash::Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0 << 8 | u64::from(byte);
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}
