//! The buckets of a database that the nodes of a farm share: the life that holds each, and the fence that stops the writes of
//! a life that is over.
//!
//! The database is the only authority over epochs: a bucket's epoch grows with each new holder, in the transaction that makes it the
//! holder. A life that is fenced can write nothing any more, also what it had begun.

use crate::error::StoreError;

/// A bucket that a shard asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketClaim {
    /// The number of the bucket.
    pub bucket: u16,
    /// The number of the shard that is to hold it.
    pub shard: u16,
    /// The last epoch of the bucket that the shard knows of: it must have no later one.
    pub after: u64,
}

/// The database's answer to a [`BucketClaim`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimAnswer {
    /// The shard holds the bucket, with this epoch: the one it had if it held the bucket already, else the one after that of the claim.
    Taken {
        /// The number of the bucket.
        bucket: u16,
        /// The epoch of the new hold.
        epoch: u64,
    },
    /// A later epoch has begun, or the holder lives and has not given the bucket back.
    Refused {
        /// The number of the bucket.
        bucket: u16,
        /// The life that holds the bucket: a farm that does not know it declares it dead.
        holder: Option<u32>,
        /// The bucket's epoch.
        current: u64,
    },
}

/// A bucket that a shard gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenBucket {
    /// The number of the bucket.
    pub bucket: u16,
    /// The number of the shard that holds it.
    pub shard: u16,
    /// The epoch of the hold.
    pub epoch: u64,
}

/// The hold of one life of a node on buckets. It waits for the server on the calling thread.
pub trait Ownership: Send {
    /// Enters this life, before its first claim and its first write. Repeated, it changes nothing.
    ///
    /// # Errors
    /// `Fenced` if the life is over; else the errors of the database.
    fn join(&mut self, node: &str) -> Result<(), StoreError>;

    /// Asks whether the life may still write.
    ///
    /// # Errors
    /// `Fenced` if it may not; else the errors of the database.
    fn check(&mut self) -> Result<(), StoreError>;

    /// Fences the dead lives as far as they hold one of the buckets, and takes the buckets. One answer for each claim, in order.
    ///
    /// # Errors
    /// `Fenced` if this life is over; else the errors of the database, and nothing is taken.
    fn take(&mut self, claims: &[BucketClaim], dead: &[u32]) -> Result<Vec<ClaimAnswer>, StoreError>;

    /// True if a claim has named a later epoch than its bucket had: the database is older than the farm, as after a restore.
    fn is_older(&self) -> bool;

    /// Gives buckets back. Buckets of another holder or a later epoch by now are passed over.
    ///
    /// # Errors
    /// The errors of the database.
    fn give(&mut self, given: &[GivenBucket]) -> Result<(), StoreError>;
}
