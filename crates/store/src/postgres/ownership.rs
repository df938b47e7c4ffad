//! The hold of one life of a node on buckets: the tables `member` and `bucket`.
//!
//! A claim names the last epoch that its shard knows of, and is refused if the bucket has a later one, so that of two shards that claim it one is
//! refused. Fencing a life is an update of its row in `member`, which every transaction of that life has locked at its beginning (`own_fence`): it
//! waits for the transaction that is under way, and all later ones fail.
//!
//! A claim names a later epoch than the bucket has only if the database is older than the farm: it was restored, or a standby was promoted that had
//! not received all. Epochs then go on from that of the claim (`docs/decisions/0135-epochs-of-an-older-database.md`).
//!
//! Locks are taken in one order by all: rows of `member` by life, then rows of `bucket` by number. Each transaction is sent as a whole,
//! so a process that is stopped holds no lock of these tables, except that of a group of its writer.

use std::collections::HashMap;

use tokio_postgres::error::SqlState;

use crate::error::StoreError;
use crate::limits;
use crate::ownership::{BucketClaim, ClaimAnswer, GivenBucket, Ownership};

use super::Postgres;
use super::connection::{Connection, Outcome, Step, own_fence, values};
use super::failure::Failure;

/// The rows of `bucket` are locked by number, so that transactions that take some of the same buckets wait for each other.
const LOCK: &str = "SELECT bucket, epoch FROM bucket WHERE bucket = ANY($1) ORDER BY bucket FOR UPDATE";

/// Compares and swaps. A bucket is free that has no holder, or one that is fenced. The claiming shard itself, with an earlier epoch than it
/// knows of, gets another one, as the map has later ones.
const TAKE: &str = "UPDATE bucket SET epoch = claim.after + 1, life = $4, shard = claim.shard \
    FROM unnest($1::smallint[], $2::int[], $3::bigint[]) AS claim (bucket, shard, after) \
    WHERE bucket.bucket = claim.bucket AND bucket.epoch <= claim.after \
    AND (bucket.life IS NULL OR EXISTS (SELECT FROM member WHERE member.life = bucket.life AND fenced) \
    OR (bucket.life = $4 AND bucket.shard = claim.shard AND bucket.epoch < claim.after))";

/// Gives back what the shard still holds with this epoch; an older database has an earlier one.
const GIVE: &str = "UPDATE bucket SET life = NULL, shard = NULL \
    FROM unnest($1::smallint[], $2::int[], $3::bigint[]) AS given (bucket, shard, epoch) \
    WHERE bucket.bucket = given.bucket AND bucket.epoch <= given.epoch AND bucket.shard = given.shard \
    AND bucket.life = $4";

/// The state of the buckets after [`TAKE`]: the answer to each claim.
const HOLDERS: &str = "SELECT bucket, epoch, life, shard FROM bucket WHERE bucket = ANY($1)";

/// The last life of a node by this name enters. A number below one that began long ago is not that of a fresh start: it belongs to a
/// process that stood still while its row was removed.
const JOIN: &str = "INSERT INTO member (life, name) SELECT $1::bigint, $2::text \
    WHERE NOT EXISTS (SELECT FROM member WHERE life > $1 AND (name = $2 OR started < now() - make_interval(secs => $3))) \
    ON CONFLICT DO NOTHING";

/// Removes rows of lives that are over. A row has to go before its life can write again, so a mistake ends a process and nothing else. A
/// greater and old life always remains, by which `JOIN` refuses those that were removed.
const FORGET: &str = "DELETE FROM member WHERE life = ANY(ARRAY(SELECT life FROM member AS old \
    WHERE started < now() - make_interval(secs => $2) AND life <> $1 \
    AND NOT EXISTS (SELECT FROM bucket WHERE bucket.life = old.life) \
    AND EXISTS (SELECT FROM member WHERE life > old.life AND started < now() - make_interval(secs => $3)) \
    AND NOT EXISTS (SELECT FROM pg_stat_activity \
        WHERE datname = current_database() AND application_name = $4::text || old.life::text) \
    ORDER BY life LIMIT $5 FOR UPDATE SKIP LOCKED))";

/// The dead lives that stand between a claim and its bucket.
const DEAD_HOLDERS: &str = "SELECT DISTINCT bucket.life \
    FROM bucket JOIN unnest($1::smallint[], $2::bigint[]) AS claim (bucket, after) \
    ON bucket.bucket = claim.bucket AND bucket.epoch <= claim.after \
    WHERE bucket.life = ANY($3) AND bucket.life <> $4 \
    AND EXISTS (SELECT FROM member WHERE member.life = $4 AND NOT fenced) ORDER BY bucket.life";

/// The hold of a node's life.
pub(super) struct PostgresOwnership {
    pub(super) connection: Connection,
    life: u32,
    /// A claim named a later epoch than its bucket had.
    is_older: bool,
}

impl PostgresOwnership {
    /// `postgres` is fenced by this life.
    pub(super) fn new(postgres: &Postgres, life: u32) -> Result<Self, StoreError> {
        Ok(PostgresOwnership {
            connection: Connection::open(postgres, limits::OWNERSHIP_TIME)?,
            life,
            is_older: false,
        })
    }

    /// Each question may be asked twice: once more where the connection broke, or the server takes no writes.
    fn ask<T>(
        &mut self,
        mut work: impl FnMut(&mut Connection) -> Result<T, Failure>,
    ) -> Result<T, StoreError> {
        self.connection.ensure_alive()?;
        let mut done = work(&mut self.connection);
        if done.as_ref().is_err_and(Failure::is_of_connection) {
            self.connection.ensure()?;
            done = work(&mut self.connection);
        } else if done.as_ref().is_err_and(Failure::is_of_standby) {
            self.connection.switch()?;
            done = work(&mut self.connection);
        }
        done.map_err(|failure| failure.into_store(self.connection.name()))
    }
}

impl Ownership for PostgresOwnership {
    fn join(&mut self, node: &str) -> Result<(), StoreError> {
        let life = i64::from(self.life);
        let is_in = self.ask(|connection| {
            // A node has one process at a time, so a life below another one of its name is that of a process that was replaced.
            connection.execute(JOIN, values![life, node, limits::MEMBER_CLOCKS.as_secs_f64()])?;
            // A number that another node has, or had, is no number of this one.
            connection.exists(
                "SELECT FROM member WHERE life = $1 AND name = $2 AND NOT fenced",
                values![life, node],
            )
        })?;
        if !is_in {
            return Err(self.connection.fenced());
        }
        let (kept, clocks) = (limits::MEMBER_KEPT.as_secs_f64(), limits::MEMBER_CLOCKS.as_secs_f64());
        let (sessions, most) = (super::session_name_of(""), i64::from(limits::CLEAN_CHUNK));
        self.ask(|connection| connection.execute(FORGET, values![life, kept, clocks, sessions, most]))
            .map(drop)
    }

    fn check(&mut self) -> Result<(), StoreError> {
        let life = i64::from(self.life);
        let sql = "SELECT FROM member WHERE life = $1 AND NOT fenced";
        if self.ask(|connection| connection.exists(sql, values![life]))? {
            Ok(())
        } else {
            Err(self.connection.fenced())
        }
    }

    fn take(&mut self, claims: &[BucketClaim], dead: &[u32]) -> Result<Vec<ClaimAnswer>, StoreError> {
        let (life, dead) = (self.life, dead.iter().map(|life| i64::from(*life)).collect::<Vec<_>>());
        let claims = &Claims::new(life, claims);
        let taken = self.ask(|connection| take(connection, claims, &dead))?;
        self.is_older |= taken.is_older;
        Ok(taken.answers)
    }

    fn is_older(&self) -> bool {
        self.is_older
    }

    fn give(&mut self, given: &[GivenBucket]) -> Result<(), StoreError> {
        let buckets: Vec<i16> = given.iter().map(|given| given.bucket.cast_signed()).collect();
        let shards: Vec<i32> = given.iter().map(|given| given.shard.into()).collect();
        let epochs: Vec<i64> = given.iter().map(|given| given.epoch.cast_signed()).collect();
        let life = i64::from(self.life);
        let begin = format!("BEGIN; {}", own_fence(self.life));
        self.ask(|connection| {
            connection.pipeline(&[
                Step::Batch(&begin),
                Step::Query(LOCK, values![buckets]),
                Step::Execute(GIVE, values![buckets, shards, epochs, life]),
                Step::Batch("COMMIT"),
            ])?;
            Ok(())
        })
    }
}

/// Claims of a life, as the statements take them.
struct Claims<'a> {
    life: u32,
    /// The claims, in the order of the answers.
    all: &'a [BucketClaim],
    buckets: Vec<i16>,
    shards: Vec<i32>,
    after: Vec<i64>,
}

impl<'a> Claims<'a> {
    fn new(life: u32, all: &'a [BucketClaim]) -> Self {
        Claims {
            life,
            all,
            buckets: all.iter().map(|claim| claim.bucket.cast_signed()).collect(),
            shards: all.iter().map(|claim| claim.shard.into()).collect(),
            after: all.iter().map(|claim| claim.after.cast_signed()).collect(),
        }
    }
}

/// The answers to claims.
struct Taken {
    answers: Vec<ClaimAnswer>,
    /// A claim named a later epoch than its bucket had.
    is_older: bool,
}

/// Fences the dead lives that hold one of the buckets, and takes what is free then. Buckets that another transaction locks longer than
/// `limits::FENCE_LOCK` is tried again.
fn take(connection: &mut Connection, claims: &Claims<'_>, dead: &[i64]) -> Result<Taken, Failure> {
    let mut holders = Vec::new();
    if !dead.is_empty() {
        let values = values![claims.buckets, claims.after, dead, i64::from(claims.life)];
        let rows = connection.query(DEAD_HOLDERS, values)?;
        holders = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<i64>, _>>()?;
    }
    let mut tries = 1;
    loop {
        if !holders.is_empty() {
            terminate(connection, &holders)?;
        }
        match fence_and_take(connection, claims, &holders) {
            Err(failure) if is_of_lock(&failure) && tries < limits::FENCE_TRIES => tries += 1,
            taken => return taken,
        }
    }
}

/// Ends the sessions of dead lives. One of them may have locked the row of its life and be stopped: without this its lock would stay until
/// the server ends a transaction that is idle.
fn terminate(connection: &mut Connection, lives: &[i64]) -> Result<(), Failure> {
    let names: Vec<String> = lives.iter().map(|life| super::session_name(*life)).collect();
    let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE datname = current_database() AND application_name = ANY($1)";
    connection.query(sql, values![names]).map(drop)
}

/// True if another transaction held a lock for too long, or the two waited for each other.
fn is_of_lock(failure: &Failure) -> bool {
    let is_timeout =
        matches!(failure, Failure::Postgres(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE));
    is_timeout || failure.is_of_moment()
}

/// Everything in one transaction, sent at once.
fn fence_and_take(
    connection: &mut Connection,
    claims: &Claims<'_>,
    holders: &[i64],
) -> Result<Taken, Failure> {
    let Claims { life, buckets, shards, after, .. } = claims;
    let begin = begin(*life, holders);
    let outcomes = connection.pipeline(&[
        Step::Batch(&begin),
        Step::Query(LOCK, values![buckets]),
        Step::Execute(TAKE, values![buckets, shards, after, i64::from(*life)]),
        Step::Query(HOLDERS, values![buckets]),
        Step::Batch("COMMIT"),
    ])?;
    let mut before = HashMap::with_capacity(claims.all.len());
    let mut rows = HashMap::with_capacity(claims.all.len());
    for row in outcomes.iter().flat_map(Outcome::rows) {
        let (bucket, epoch): (i16, u64) = (row.try_get(0)?, row.try_get::<_, i64>(1)?.cast_unsigned());
        // The first query has two columns.
        if row.len() == 4 {
            let holder: (Option<i64>, Option<i32>) = (row.try_get(2)?, row.try_get(3)?);
            rows.insert(bucket, (epoch, holder));
        } else {
            before.insert(bucket, epoch);
        }
    }
    let is_later = |claim: &BucketClaim| {
        before.get(&claim.bucket.cast_signed()).is_some_and(|epoch| *epoch < claim.after)
    };
    let is_older = claims.all.iter().any(is_later);
    let answer = |claim: &BucketClaim| {
        let own = (Some(i64::from(*life)), Some(i32::from(claim.shard)));
        let bucket = claim.bucket;
        match rows.get(&bucket.cast_signed()) {
            Some((epoch, holder)) if *holder == own => ClaimAnswer::Taken { bucket, epoch: *epoch },
            Some((current, (holder, _))) => {
                let holder = holder.and_then(|life| u32::try_from(life).ok());
                ClaimAnswer::Refused { bucket, holder, current: *current }
            }
            None => ClaimAnswer::Refused { bucket, holder: None, current: 0 },
        }
    };
    Ok(Taken { answers: claims.all.iter().map(answer).collect(), is_older })
}

/// The begin of a transaction that fences these lives, if the own one is not fenced. By life: of two nodes that fence each other, one is
/// first.
fn begin(life: u32, holders: &[i64]) -> String {
    let mut sql = format!("BEGIN; SET LOCAL lock_timeout = {}", limits::FENCE_LOCK.as_millis());
    let own = i64::from(life);
    let mut lives: Vec<i64> = holders.iter().copied().chain([own]).collect();
    lives.sort_unstable();
    for next in lives {
        sql.push_str("; ");
        if next == own {
            sql.push_str(&own_fence(life));
        } else {
            // It waits for a commit on its way; nothing of that life is written afterwards.
            sql.push_str(&format!("UPDATE member SET fenced = true WHERE life = {next} AND NOT fenced"));
        }
    }
    sql
}
