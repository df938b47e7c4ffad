//! The buckets of one node: the tenure of each, and the claims that go to the database together.

use std::collections::BTreeMap;

use stdx::Instant;

use super::effect::{Claim, FarmEffect, of_tenure};
use crate::address::{Epoch, Life, ShardAddress};
use crate::bucket::Bucket;
use crate::limits::EPOCHS_WAIT;
use crate::map::Ownership;
use crate::tenure::{Tenure, TenureEffect};

/// A bucket that this node has, gets or gives away, and the shard that it is for.
#[derive(Debug)]
struct OwnBucket {
    shard: u16,
    tenure: Tenure,
}

/// The buckets of one node.
#[derive(Debug)]
pub(super) struct OwnBuckets {
    life: Life,
    buckets: BTreeMap<Bucket, OwnBucket>,
    claims: Vec<Claim>,
    /// A bucket is served since [`OwnBuckets::take_news`]: the map gets its epoch.
    has_news: bool,
    /// The time of the first of them.
    news_since: Option<Instant>,
    /// The node has no authority: no tenure serves or claims, whatever its inputs are.
    are_lapsed: bool,
}

impl OwnBuckets {
    pub(super) fn new(life: Life) -> OwnBuckets {
        OwnBuckets {
            life,
            buckets: BTreeMap::new(),
            claims: Vec::new(),
            has_news: false,
            news_since: None,
            are_lapsed: true,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// The epoch under which the bucket is served.
    pub(super) fn serving(&self, bucket: Bucket) -> Option<Epoch> {
        self.buckets.get(&bucket)?.tenure.serving()
    }

    /// All buckets that are served, with their epochs.
    pub(super) fn all_serving(&self) -> impl Iterator<Item = (Bucket, Epoch)> + '_ {
        self.buckets.iter().filter_map(|(bucket, own)| Some((*bucket, own.tenure.serving()?)))
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let news = self.news_since.map(|at| at + EPOCHS_WAIT);
        self.buckets.values().filter_map(|own| own.tenure.deadline()).chain(news).min()
    }

    /// Makes a bucket what the map says: this node's or not.
    pub(super) fn reconcile(
        &mut self,
        now: Instant,
        bucket: Bucket,
        ownership: Ownership,
        out: &mut Vec<FarmEffect>,
    ) {
        let assigned = ownership.owner.filter(|owner| owner.life == self.life).map(|owner| owner.shard);
        if self.buckets.get(&bucket).is_some_and(|own| own.tenure.is_over()) {
            self.buckets.remove(&bucket);
        }
        if let Some(shard) = assigned {
            self.buckets.entry(bucket).or_insert(OwnBucket { shard, tenure: Tenure::default() });
        }
        let Some(own) = self.buckets.get_mut(&bucket) else { return };
        let mut orders = Vec::new();
        // A bucket for another shard of this node is given back first.
        if assigned == Some(own.shard) {
            own.tenure.assign(now, ownership.epoch, &mut orders);
        } else {
            own.tenure.revoke(now, &mut orders);
        }
        self.end_input(bucket, orders, out);
    }

    /// Gives an input to one tenure; true if the tenure is over after it.
    pub(super) fn handle(
        &mut self,
        bucket: Bucket,
        out: &mut Vec<FarmEffect>,
        input: impl FnOnce(&mut Tenure, &mut Vec<TenureEffect>),
    ) -> bool {
        let Some(own) = self.buckets.get_mut(&bucket) else { return false };
        let mut orders = Vec::new();
        input(&mut own.tenure, &mut orders);
        let is_over = own.tenure.is_over();
        self.end_input(bucket, orders, out);
        is_over
    }

    /// Without authority only the tenure of this input lapses again: to lapse all of them after each of thousands of inputs takes seconds.
    fn end_input(&mut self, bucket: Bucket, mut orders: Vec<TenureEffect>, out: &mut Vec<FarmEffect>) {
        if let Some(own) = self.buckets.get_mut(&bucket).filter(|_| self.are_lapsed) {
            own.tenure.lapse(&mut orders);
        }
        self.perform(bucket, orders, out);
        if self.are_lapsed {
            self.claims.clear();
        }
    }

    pub(super) fn expire(&mut self, now: Instant, out: &mut Vec<FarmEffect>) {
        let is_due = |own: &OwnBucket| own.tenure.deadline().is_some_and(|at| at <= now);
        let due: Vec<Bucket> =
            self.buckets.iter().filter(|(_, own)| is_due(own)).map(|(bucket, _)| *bucket).collect();
        for bucket in due {
            self.handle(bucket, out, |tenure, orders| tenure.expire(now, orders));
        }
    }

    /// The node may act as an owner again.
    pub(super) fn resume(&mut self, now: Instant, out: &mut Vec<FarmEffect>) {
        self.are_lapsed = false;
        for bucket in self.buckets.keys().copied().collect::<Vec<_>>() {
            self.handle(bucket, out, |tenure, orders| tenure.resume(now, orders));
        }
    }

    /// The node may not act as an owner any more: nothing is served or claimed until [`OwnBuckets::resume`].
    pub(super) fn lapse(&mut self, out: &mut Vec<FarmEffect>) {
        if std::mem::replace(&mut self.are_lapsed, true) {
            return;
        }
        for bucket in self.buckets.keys().copied().collect::<Vec<_>>() {
            // Each input without authority ends with a lapse.
            self.handle(bucket, out, |_, _| {});
        }
        self.claims.clear();
    }

    /// The buckets to ask the database for.
    pub(super) fn take_claims(&mut self) -> Vec<Claim> {
        std::mem::take(&mut self.claims)
    }

    /// True if buckets are served since the last call, and it is time to tell the farm their epochs.
    pub(super) fn take_news(&mut self, now: Instant) -> bool {
        if std::mem::take(&mut self.has_news) {
            self.news_since.get_or_insert(now);
        }
        self.news_since.take_if(|at| *at + EPOCHS_WAIT <= now).is_some()
    }

    fn perform(&mut self, bucket: Bucket, orders: Vec<TenureEffect>, out: &mut Vec<FarmEffect>) {
        let Some(own) = self.buckets.get(&bucket) else { return };
        let holder = ShardAddress::new(self.life, own.shard);
        for order in orders {
            self.has_news |= matches!(order, TenureEffect::Serve(_));
            out.extend(of_tenure(bucket, holder, order, &mut self.claims));
        }
    }
}
