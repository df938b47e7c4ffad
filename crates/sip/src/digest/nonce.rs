//! Nonces that need no table to be known again: time, a counter, and a check value under a secret.
//!
//! 16 bytes, 32 hexadecimal digits: 7 of microseconds since the epoch, 1 counter, 8 that prove that the nonce
//! is ours for this realm, Call-ID and source address. One Call-ID belongs to one shard, so the shard that
//! issued a nonce sees every use of it. A nonce that comes back from the address it is bound to proves that
//! the address receives what is sent to it: nothing else tells a client this value.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use hashbrown::HashMap;
use stdx::Instant;
use stdx::hash::Keyed;

use crate::limits;
use crate::transport::address_bytes;

const BYTES: usize = 16;

/// The lifetime of nonces, and how many are remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NonceSettings {
    /// After this a nonce is stale.
    pub lifetime: Duration,
    /// Nonces whose last count is remembered. Beyond it the one first used longest ago is forgotten, and
    /// nonces that are not newer are stale.
    pub capacity: usize,
}

impl Default for NonceSettings {
    fn default() -> Self {
        NonceSettings { lifetime: Duration::from_secs(300), capacity: limits::NONCES_IN_USE }
    }
}

/// The validity of a nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NonceVerdict {
    /// Take [`Nonces::spend`] once the response is verified.
    Good(NonceUse),
    /// Ours, but too old, older than this process, or forgotten.
    Stale,
    /// Not ours; or for another realm, Call-ID or source; or from before the secret changed.
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

/// The use that a nonce is for; it is stale for any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NonceScope<'a> {
    /// The realm that the nonce was issued for.
    pub realm: &'a str,
    /// The Call-ID of the request that was challenged.
    pub call_id: &'a [u8],
    /// The address that the request came from. The port may change: NATs forget it.
    pub source: IpAddr,
}

/// Issues nonces and remembers the last count of those in use.
#[derive(Debug)]
pub struct Nonces {
    keyed: Keyed,
    settings: NonceSettings,
    counter: u8,
    /// Keyed by a check value under our secret: clients cannot choose keys that collide.
    counts: HashMap<u64, u32, BuildIdentity>,
    /// In the order of first use.
    used: VecDeque<(u64, Instant)>,
    /// The newest nonce that was forgotten before its time.
    horizon: Option<Instant>,
    /// When this process began. How often an older nonce was used is not known here, whichever node issued it.
    started: Instant,
}

impl Nonces {
    /// Nonces of this process; `secret` keys them.
    pub fn new(secret: [u8; 16], settings: NonceSettings, started: Instant) -> Self {
        Nonces {
            keyed: Keyed::new(secret),
            settings,
            counter: 0,
            counts: HashMap::default(),
            used: VecDeque::new(),
            horizon: None,
            started,
        }
    }

    /// A nonce for one scope, never issued before.
    pub fn issue(&mut self, now: Instant, scope: NonceScope<'_>) -> String {
        self.counter = self.counter.wrapping_add(1);
        let stamp = now.as_micros() << 8 | u64::from(self.counter);
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&stamp.to_be_bytes());
        bytes[8..].copy_from_slice(&self.key(stamp, scope).to_be_bytes());
        let hex = super::algorithm::Hex::of(&bytes);
        String::from_utf8_lossy(hex.as_bytes()).into_owned()
    }

    /// Checks that `nonce` may be used with `count`, which must be higher than in every use before: `nc`, or
    /// the CSeq where the client speaks no `qop`. Records nothing: before the response is verified, any
    /// sender could have chosen the count.
    pub fn check(&self, now: Instant, nonce: &[u8], scope: NonceScope<'_>, count: u32) -> NonceVerdict {
        let Some(bytes) = stdx::hex::decode_array::<BYTES>(nonce) else {
            return NonceVerdict::Forged;
        };
        let (stamp, check) = bytes.split_at(8);
        let stamp = u64::from_be_bytes(std::array::from_fn(|index| stamp[index]));
        let key = self.key(stamp, scope);
        if !stdx::ct_eq(&key.to_be_bytes(), check) {
            return NonceVerdict::Forged;
        }
        let issued = Instant::from_micros(stamp >> 8);
        if now.since(issued) > self.settings.lifetime {
            return NonceVerdict::Stale;
        }
        self.check_count(NonceUse { key, issued, count })
    }

    fn check_count(&self, nonce_use: NonceUse) -> NonceVerdict {
        match self.counts.get(&nonce_use.key) {
            Some(&last) if nonce_use.count <= last => NonceVerdict::Replayed,
            // RFC 7616 §3.4: counting starts at 1.
            None if nonce_use.count == 0 => NonceVerdict::Replayed,
            None if nonce_use.issued < self.started => NonceVerdict::Stale,
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

    /// Takes back the last use of a nonce: the request goes to another shard, which counts for itself, and may come back.
    pub fn give_back(&mut self, nonce: &[u8], scope: NonceScope<'_>, count: u32) {
        let Some(bytes) = stdx::hex::decode_array::<BYTES>(nonce) else { return };
        let stamp = u64::from_be_bytes(std::array::from_fn(|index| bytes[index]));
        let key = self.key(stamp, scope);
        if let Some(last) = self.counts.get_mut(&key).filter(|last| **last == count) {
            *last = count.saturating_sub(1);
        }
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

    fn key(&self, stamp: u64, scope: NonceScope<'_>) -> u64 {
        let source = address_bytes(scope.source);
        self.keyed.mac(&[&stamp.to_be_bytes(), scope.realm.as_bytes(), scope.call_id, &source])
    }
}

/// The keys are hashes already.
#[derive(Clone, Copy, Debug, Default)]
struct IdentityHasher(u64);

/// The hasher of a table whose keys are keyed hashes already.
type BuildIdentity = std::hash::BuildHasherDefault<IdentityHasher>;

impl std::hash::Hasher for IdentityHasher {
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
