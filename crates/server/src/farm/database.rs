//! The database that the nodes of a farm share, for the agent's claims of buckets: the interface of `farm::database` by `store::Ownership`,
//! on a thread of their own. Also the decision, at the start of an edge without that database, whether it uses the farm's accounts and
//! routes or its own.
//!
//! Only a translation: numbers of buckets, lives and epochs go in and out, and each error becomes one of two
//! faults. The thread that calls it, its queue and its patience are in the crate `farm`.

use super::plan::StoredPlan;
use cluster::farm::Claim;
use cluster::{Bucket, Epoch, Life};
use config::Config;
use farm::database::{BucketDatabase, ClaimResult, DatabaseFault, GivenBack, OpenDatabase};
use farm::links::Encryption;
use store::{
    AccountFilter, BucketClaim, ClaimAnswer, Database, GivenBucket, Loaded, Ownership, Read, Store,
    StoreError,
};

/// One life's connection for its buckets.
struct BucketConnection {
    ownership: Box<dyn Ownership>,
    /// The log has a line about a database that is older than the farm.
    is_older_logged: bool,
}

/// Opens a connection for the node of this name, and enters its life.
/// The function is called again after a lost connection, always with the same life.
pub(super) fn open(database: Database, node: Box<str>) -> OpenDatabase {
    Box::new(move |life| {
        let ownership = join(&database, life, &node).map_err(fault)?;
        Ok(Box::new(BucketConnection { ownership, is_older_logged: false }))
    })
}

/// Enters this life of a node; it is there for its first write then.
pub(super) fn join(database: &Database, life: Life, node: &str) -> Result<Box<dyn Ownership>, StoreError> {
    let mut ownership = database.ownership(life.0)?;
    ownership.join(node)?;
    Ok(ownership)
}

/// True if the node asks the owners of addresses for their accounts: it is an edge that has none, and the digests that come by its
/// links cross no network in the clear.
/// Decided once, at the start. An edge with accounts of its own keeps using them, so that a node that is moved
/// into a farm does not lose them unnoticed.
pub(super) fn asks_owners(config: &Config, database: &Database) -> Result<bool, StoreError> {
    if !config.is_edge_without_database() {
        return Ok(false);
    }
    // One row is enough to know that there are any.
    let any = AccountFilter { limit: 1, ..AccountFilter::default() };
    let loaded = database.reader()?.load(&Read::Accounts(any))?;
    let has_accounts = matches!(loaded, Loaded::Accounts(accounts) if !accounts.is_empty());
    match obstacle(config, has_accounts) {
        Some(obstacle) => {
            tracing::warn!(
                obstacle,
                "the node of the role edge uses its own accounts, not those of the farm"
            );
        }
        None => tracing::info!("the node has no accounts; it asks the nodes that share a database"),
    }
    Ok(obstacle(config, has_accounts).is_none())
}

/// True if an edge that asks for accounts has no routes of its own, and so takes domains and routes of the farm.
pub(super) fn follows_plan(database: &Database) -> Result<bool, StoreError> {
    let own = StoredPlan::read(database)?.routes;
    if let Some(route) = own.first() {
        tracing::warn!(
            route = %route.name,
            routes = own.len(),
            "the node of the role edge uses its own routes and domains, not those of the farm; remove its routes (belfry route remove) \
             and restart it"
        );
    }
    Ok(own.is_empty())
}

/// The reason why an edge without a shared database does not ask for accounts.
fn obstacle(config: &Config, has_accounts: bool) -> Option<&'static str> {
    if has_accounts {
        return Some("it has accounts of its own in [server] data; remove them");
    }
    // Chat keeps archives, rosters and rooms in the database, which owners do not give away.
    if config.xmpp.is_on() {
        return Some("it has [xmpp], which needs [store] url");
    }
    // `auto` encrypts all links but those by loopback, where no network is crossed.
    let is_plain = config.farm.encryption == Encryption::Never;
    is_plain.then_some("[farm] encrypt is \"never\", and digests of passwords have to be encrypted")
}

impl BucketDatabase for BucketConnection {
    fn check(&mut self) -> Result<(), DatabaseFault> {
        self.ownership.check().map_err(fault)
    }

    fn take(&mut self, claims: &[Claim], dead: &[Life]) -> Result<Vec<ClaimResult>, DatabaseFault> {
        let claim = |claim: &Claim| BucketClaim {
            bucket: claim.bucket.number(),
            shard: claim.holder.shard,
            after: claim.after.0,
        };
        let claims: Vec<BucketClaim> = claims.iter().map(claim).collect();
        let dead: Vec<u32> = dead.iter().map(|life| life.0).collect();
        let answers = self.ownership.take(&claims, &dead).map_err(fault)?;
        if self.ownership.is_older() && !std::mem::replace(&mut self.is_older_logged, true) {
            tracing::warn!(
                "the database is older than the farm: it was restored, was promoted early or is new to this farm; the epochs of its buckets go \
                 on from those of the farm"
            );
        }
        Ok(answers.into_iter().filter_map(result).collect())
    }

    fn give(&mut self, given: &[GivenBack]) -> Result<(), DatabaseFault> {
        let bucket = |given: &GivenBack| GivenBucket {
            bucket: given.bucket.number(),
            shard: given.holder.shard,
            epoch: given.epoch.0,
        };
        let given: Vec<GivenBucket> = given.iter().map(bucket).collect();
        self.ownership.give(&given).map_err(fault)
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

/// A fence means that the life is over: another node has taken its buckets. All other errors may pass.
fn fault(error: StoreError) -> DatabaseFault {
    match error {
        StoreError::Fenced { .. } => DatabaseFault::Fenced,
        other => DatabaseFault::Lost(other.to_string().into()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const EDGE: &str =
        "[farm]\nname = \"x\"\ncouncil = [\"nats://127.0.0.1:4222\"]\nsecret = \"s\"\nrole = \"edge\"\n";

    fn config(more: &str) -> Config {
        Config::parse(&format!("{EDGE}{more}"), Path::new("belfry.toml")).unwrap()
    }

    #[test]
    fn an_edge_asks_only_where_digests_stay_secret() {
        assert_eq!(obstacle(&config(""), false), None);
        assert_eq!(obstacle(&config("encrypt = \"always\"\n"), false), None);
        let plain = obstacle(&config("encrypt = \"never\"\n"), false);
        assert!(plain.is_some_and(|obstacle| obstacle.contains("encrypt")), "{plain:?}");
    }

    #[test]
    fn an_edge_with_accounts_or_chat_goes_on_as_before() {
        assert!(obstacle(&config(""), true).is_some());
        assert!(obstacle(&config("[xmpp]\nlisten = [\"tcp:127.0.0.1:5222\"]\n"), false).is_some());
    }

    #[test]
    fn only_an_edge_without_a_database_asks() {
        assert!(config("").is_edge_without_database());
        assert!(!config("[store]\nurl = \"postgres://127.0.0.1/belfry\"\n").is_edge_without_database());
        let both = EDGE.replace("edge", "both");
        let both = Config::parse(&both, Path::new("belfry.toml")).unwrap();
        assert!(!both.is_edge_without_database());
        assert!(!Config::default().is_edge_without_database());
    }
}
