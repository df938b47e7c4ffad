//! The router's state by bucket, for owners of buckets that move: a bucket ends, is forgotten, and is read again.
//!
//! The tables are by address, so that no lookup costs more: a bucket is found by a pass over them, one for all buckets that move
//! together.

use std::collections::VecDeque;

use cluster::{BUCKETS, Bucket};
use stdx::Instant;

use crate::interface::{Answer, Binding, Life};
use crate::location;
use crate::record::Corrupt;
use crate::router::{Effect, PendingWrite, Router};

/// The words of a set: one bit a bucket.
const WORDS: usize = BUCKETS as usize / 64;

/// A set of buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketSet(Box<[u64; WORDS]>);

impl Default for BucketSet {
    fn default() -> BucketSet {
        BucketSet(Box::new([0; WORDS]))
    }
}

impl BucketSet {
    /// Adds a bucket.
    pub fn insert(&mut self, bucket: Bucket) {
        let (word, bit) = place(bucket);
        self.0[word] |= bit;
    }

    /// Removes a bucket; true if the set had it.
    pub fn remove(&mut self, bucket: Bucket) -> bool {
        let (word, bit) = place(bucket);
        let had = self.0[word] & bit != 0;
        self.0[word] &= !bit;
        had
    }

    /// True if the set has the bucket.
    pub fn contains(&self, bucket: Bucket) -> bool {
        let (word, bit) = place(bucket);
        self.0[word] & bit != 0
    }

    /// True if the set has no bucket.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// The buckets, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Bucket> + '_ {
        (0..).map_while(Bucket::with_number).filter(|bucket| self.contains(*bucket))
    }
}

impl FromIterator<Bucket> for BucketSet {
    fn from_iter<I: IntoIterator<Item = Bucket>>(buckets: I) -> BucketSet {
        let mut set = BucketSet::default();
        buckets.into_iter().for_each(|bucket| set.insert(bucket));
        set
    }
}

fn place(bucket: Bucket) -> (usize, u64) {
    let number = usize::from(bucket.number());
    (number / 64, 1 << (number % 64))
}

/// The live bindings of a row, as a router that has replayed it would answer a lookup. `others` are the lives whose flows count.
///
/// # Errors
/// `Corrupt` when no version of this program wrote the row.
pub fn bindings_of_record(now: Instant, record: &[u8], others: &[Life]) -> Result<Vec<Binding>, Corrupt> {
    location::live_bindings(now, record, others).map(|(_, bindings)| bindings)
}

impl Router {
    /// Forgets all that is known of these buckets' addresses, in one pass. Nothing is written and no watcher is told: the next
    /// owner has the rows, and edges watch there. Changes that wait for the database are answered `Unavailable`.
    pub fn forget_buckets(&mut self, buckets: &BucketSet, out: &mut Vec<Effect>) {
        self.end_waits(buckets, out);
        let is_gone = |aor: &str| buckets.contains(Bucket::of(aor));
        self.location.forget(is_gone);
        self.soft.forget(is_gone);
        self.kept.forget(|bucket| buckets.contains(bucket));
    }

    /// Begins no more writes of these buckets: a REGISTER that waits for an earlier one to reach the disk is answered
    /// `Unavailable`, as is one that waits for the database, and no more messages are delivered. Writes under way end as always.
    pub fn end_buckets(&mut self, buckets: &BucketSet, out: &mut Vec<Effect>) {
        for (_, line) in self.lines.iter_mut().filter(|(aor, _)| buckets.contains(Bucket::of(aor))) {
            for (asker, _) in std::mem::take::<VecDeque<_>>(line) {
                asker.answer(Answer::Unavailable, out);
            }
        }
        self.end_waits(buckets, out);
        self.kept.end_deliveries(|bucket| buckets.contains(bucket));
    }

    /// Ends the waits of changes for a database that is away: a change is written under the epoch of its owner, or not at all. The next owner
    /// performs the REGISTER; if it is in the database after all, it changes nothing there.
    fn end_waits(&mut self, buckets: &BucketSet, out: &mut Vec<Effect>) {
        let mut ended = Vec::new();
        for (ticket, write) in &mut self.writes {
            if let PendingWrite::Bindings(change) = write
                && buckets.contains(Bucket::of(&change.aor))
            {
                // One that is being written fails with that attempt.
                change.may_wait = false;
                ended.push(*ticket);
            }
        }
        ended.sort_unstable();
        for ticket in self.outage.remove(|ticket| ended.binary_search(ticket).is_ok()) {
            if let Some(PendingWrite::Bindings(change)) = self.writes.remove(&ticket) {
                let line = self.lines.remove(&change.aor).unwrap_or_default();
                let askers = line.into_iter().map(|(asker, _)| asker);
                std::iter::once(change.asker)
                    .chain(askers)
                    .for_each(|asker| asker.answer(Answer::Unavailable, out));
            }
        }
    }

    /// The buckets that have a write under way.
    pub fn writing_buckets(&self) -> BucketSet {
        self.writes.values().map(|write| Bucket::of(write.aor())).collect()
    }
}
