//! A database: buckets with holder and epoch, fenced lives, and rows. It is the only authority over writes.

use std::collections::{BTreeMap, BTreeSet};

use cluster::farm::Claim;
use cluster::{Bucket, Epoch, Life, ShardAddress};
use stdx::Instant;

/// The number of a write, which is its key, too.
pub type WriteId = u64;

/// A question of a node, or a write.
#[derive(Clone, Debug)]
pub enum DatabaseRequest {
    /// Fence the dead and take buckets.
    Take { claims: Vec<Claim>, dead: Vec<Life> },
    /// Give a bucket back.
    Give { bucket: Bucket, holder: ShardAddress, epoch: Epoch },
    /// Ask whether the life is fenced; the time is the node's own.
    AskFence { sent_at: Instant },
    /// Read the rows of a bucket.
    Load { bucket: Bucket, epoch: Epoch },
    /// Write a row.
    Write { id: WriteId, bucket: Bucket, epoch: Epoch },
}

/// An answer of the database.
#[derive(Clone, Debug)]
pub enum DatabaseAnswer {
    /// The bucket is the node's.
    Taken { bucket: Bucket, epoch: Epoch },
    /// The bucket is not to be had.
    Refused { bucket: Bucket, holder: Option<ShardAddress>, epoch: Epoch },
    /// The bucket is no longer the node's.
    Given { bucket: Bucket, epoch: Epoch },
    /// The life is not fenced.
    Unfenced { sent_at: Instant },
    /// The life is fenced.
    Fenced,
    /// All rows of the bucket.
    Loaded { bucket: Bucket, epoch: Epoch, rows: BTreeSet<WriteId> },
    /// The row is written.
    Written { id: WriteId },
    /// The row is refused: the bucket has another epoch.
    Stale { id: WriteId },
    /// The connection has ended.
    Lost,
}

/// The protections of the database. A test takes one away to see that it is needed.
#[derive(Clone, Copy, Debug)]
pub struct Fences {
    /// Writes are refused under an epoch that is over.
    pub of_epochs: bool,
    /// A bucket is taken only from a holder that gave it back or is fenced, and gets a new epoch.
    pub of_holders: bool,
}

impl Default for Fences {
    fn default() -> Fences {
        Fences { of_epochs: true, of_holders: true }
    }
}

#[derive(Clone, Copy, Default)]
struct BucketRow {
    holder: Option<ShardAddress>,
    epoch: Epoch,
    /// The greatest epoch of a row.
    last_write: Epoch,
}

/// The tables.
#[derive(Default)]
pub struct Database {
    buckets: BTreeMap<Bucket, BucketRow>,
    fenced: BTreeSet<Life>,
    rows: BTreeMap<Bucket, BTreeSet<WriteId>>,
    /// The protections.
    pub fences: Fences,
    /// The first row of a smaller epoch after one of a larger.
    pub fault: Option<String>,
}

impl Database {
    /// Performs a request of a life. The lives that it fences lose their connections.
    pub fn handle(
        &mut self,
        life: Life,
        request: DatabaseRequest,
        answers: &mut Vec<DatabaseAnswer>,
    ) -> Vec<Life> {
        // As `SELECT … FROM member WHERE life = … AND NOT fenced FOR SHARE` in each transaction.
        if self.fenced.contains(&life) && self.fences.of_epochs {
            answers.push(DatabaseAnswer::Fenced);
            return Vec::new();
        }
        let before = self.fenced.clone();
        match request {
            DatabaseRequest::Take { claims, dead } => {
                answers.extend(claims.into_iter().map(|claim| self.take(claim, &dead)));
            }
            DatabaseRequest::Give { bucket, holder, epoch } => {
                let row = self.buckets.entry(bucket).or_default();
                if row.holder == Some(holder) && row.epoch <= epoch {
                    row.holder = None;
                }
                answers.push(DatabaseAnswer::Given { bucket, epoch });
            }
            DatabaseRequest::AskFence { sent_at } => answers.push(DatabaseAnswer::Unfenced { sent_at }),
            DatabaseRequest::Load { bucket, epoch } => {
                answers.push(DatabaseAnswer::Loaded { bucket, epoch, rows: self.rows(bucket) });
            }
            DatabaseRequest::Write { id, bucket, epoch } => answers.push(self.write(life, id, bucket, epoch)),
        }
        self.fenced.difference(&before).copied().collect()
    }

    fn take(&mut self, claim: Claim, dead: &[Life]) -> DatabaseAnswer {
        let Claim { bucket, holder, after } = claim;
        let row = self.buckets.entry(bucket).or_default();
        // An older database has an earlier epoch of the holder than the map.
        if row.holder == Some(holder) && row.epoch >= after {
            return DatabaseAnswer::Taken { bucket, epoch: row.epoch };
        }
        let other = row.holder.filter(|other| *other != holder && !self.fenced.contains(&other.life));
        let is_free = other.is_none_or(|other| dead.contains(&other.life));
        if self.fences.of_holders && (row.epoch > after || !is_free) {
            return DatabaseAnswer::Refused { bucket, holder: row.holder, epoch: row.epoch };
        }
        self.fenced.extend(other.map(|other| other.life).filter(|_| self.fences.of_holders));
        let epoch = if self.fences.of_holders { after.next() } else { row.epoch.max(after).max(Epoch(1)) };
        (row.holder, row.epoch) = (Some(holder), epoch);
        DatabaseAnswer::Taken { bucket, epoch }
    }

    fn write(&mut self, life: Life, id: WriteId, bucket: Bucket, epoch: Epoch) -> DatabaseAnswer {
        let row = self.buckets.entry(bucket).or_default();
        let is_holder = row.holder.is_some_and(|holder| holder.life == life);
        if self.fences.of_epochs && (!is_holder || row.epoch != epoch) {
            return DatabaseAnswer::Stale { id };
        }
        if epoch < row.last_write {
            self.fault.get_or_insert(format!("row {id} of epoch {epoch} after one of {}", row.last_write));
        }
        row.last_write = row.last_write.max(epoch);
        self.rows.entry(bucket).or_default().insert(id);
        DatabaseAnswer::Written { id }
    }

    /// All rows are restored from a backup, which has neither the holders of buckets nor their epochs.
    pub fn restore(&mut self) {
        self.buckets.clear();
        self.fenced.clear();
    }

    /// All rows of a bucket.
    pub fn rows(&self, bucket: Bucket) -> BTreeSet<WriteId> {
        self.rows.get(&bucket).cloned().unwrap_or_default()
    }

    /// The holder of a bucket and its epoch.
    pub fn holder(&self, bucket: Bucket) -> (Option<ShardAddress>, Epoch) {
        self.buckets.get(&bucket).map_or((None, Epoch(0)), |row| (row.holder, row.epoch))
    }
}
