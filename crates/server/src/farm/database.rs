//! The database that the nodes of a farm share, for the agent's claims of buckets.

use cluster::farm::Claim;
use cluster::{Bucket, Epoch, Life};
use farm::database::{BucketDatabase, ClaimResult, DatabaseFault, GivenBack, OpenDatabase};
use store::{BucketClaim, ClaimAnswer, Database, GivenBucket, Ownership, StoreError};

/// One life's connection for its buckets.
struct BucketConnection(Box<dyn Ownership>);

/// Opens a connection for the node of this name, and enters its life.
pub(super) fn open(database: Database, node: Box<str>) -> OpenDatabase {
    Box::new(move |life| {
        let ownership = join(&database, life, &node).map_err(fault)?;
        Ok(Box::new(BucketConnection(ownership)))
    })
}

/// Enters this life of a node; it is there for its first write then.
pub(super) fn join(database: &Database, life: Life, node: &str) -> Result<Box<dyn Ownership>, StoreError> {
    let mut ownership = database.ownership(life.0)?;
    ownership.join(node)?;
    Ok(ownership)
}

impl BucketDatabase for BucketConnection {
    fn check(&mut self) -> Result<(), DatabaseFault> {
        self.0.check().map_err(fault)
    }

    fn take(&mut self, claims: &[Claim], dead: &[Life]) -> Result<Vec<ClaimResult>, DatabaseFault> {
        let claim = |claim: &Claim| BucketClaim {
            bucket: claim.bucket.number(),
            shard: claim.holder.shard,
            after: claim.after.0,
        };
        let claims: Vec<BucketClaim> = claims.iter().map(claim).collect();
        let dead: Vec<u32> = dead.iter().map(|life| life.0).collect();
        let answers = self.0.take(&claims, &dead).map_err(fault)?;
        Ok(answers.into_iter().filter_map(result).collect())
    }

    fn give(&mut self, given: &[GivenBack]) -> Result<(), DatabaseFault> {
        let bucket = |given: &GivenBack| GivenBucket {
            bucket: given.bucket.number(),
            shard: given.holder.shard,
            epoch: given.epoch.0,
        };
        let given: Vec<GivenBucket> = given.iter().map(bucket).collect();
        self.0.give(&given).map_err(fault)
    }
}

/// The answer in the farm's words; none for a number that is not a bucket's.
fn result(answer: ClaimAnswer) -> Option<ClaimResult> {
    Some(match answer {
        ClaimAnswer::Taken { bucket, epoch } => {
            ClaimResult::Taken { bucket: Bucket::with_number(bucket)?, epoch: Epoch(epoch) }
        }
        ClaimAnswer::Refused { bucket, holder, current } => ClaimResult::Refused {
            bucket: Bucket::with_number(bucket)?,
            holder: holder.map(Life),
            epoch: Epoch(current),
        },
    })
}

fn fault(error: StoreError) -> DatabaseFault {
    match error {
        StoreError::Fenced { .. } => DatabaseFault::Fenced,
        other => DatabaseFault::Lost(other.to_string().into()),
    }
}
