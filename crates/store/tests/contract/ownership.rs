//! The hold of lives on buckets, and the fence that stops the writes of a life that is over. PostgreSQL alone has them.

#![expect(
    clippy::disallowed_methods,
    reason = "take-overs are timed, and a connection of the test's own is driven"
)]

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant as Clock};

use proptest::prelude::*;
use stdx::Instant;
use store::{
    BindingRow, BindingWrite, BucketClaim, ClaimAnswer, Database, GivenBucket, Loaded, Ownership, Postgres,
    Read, Reader, Sqlite, Store, StoreError, WaitingMessage, Write, WriteDone,
};

use crate::server;

fn at(seconds: u64) -> Instant {
    Instant::from_unix_seconds(seconds)
}

fn database() -> (String, Postgres) {
    let url = server::new_postgres_database();
    let postgres = Postgres::open(&url).unwrap();
    (url, postgres)
}

fn joined(postgres: &Postgres, life: u32) -> Box<dyn Ownership> {
    let mut ownership = postgres.ownership(life).unwrap();
    ownership.join(&format!("node-{life}")).unwrap();
    ownership
}

fn claim(bucket: u16, after: u64) -> BucketClaim {
    BucketClaim { bucket, shard: 0, after }
}

fn given(bucket: u16, epoch: u64) -> GivenBucket {
    GivenBucket { bucket, shard: 0, epoch }
}

fn taken(bucket: u16, epoch: u64) -> ClaimAnswer {
    ClaimAnswer::Taken { bucket, epoch }
}

fn refused(bucket: u16, holder: Option<u32>, current: u64) -> ClaimAnswer {
    ClaimAnswer::Refused { bucket, holder, current }
}

fn binding(bucket: u16, aor: &str, epoch: u64, record: &[u8]) -> Write {
    Write::Binding(BindingWrite {
        bucket,
        aor: aor.into(),
        epoch,
        written_at: at(1),
        replaces: None,
        empties: record.is_empty(),
        record: record.into(),
    })
}

fn records(store: &dyn Store, bucket: u16) -> Vec<Vec<u8>> {
    records_by(&mut *store.reader().unwrap(), bucket)
}

fn records_by(reader: &mut dyn Reader, bucket: u16) -> Vec<Vec<u8>> {
    page(reader, &[bucket], "").into_iter().map(|row| row.record.into()).collect()
}

fn page(reader: &mut dyn Reader, buckets: &[u16], after: &str) -> Vec<BindingRow> {
    match reader.load(&Read::BucketBindings { buckets: buckets.into(), after: after.into() }).unwrap() {
        Loaded::Bindings(rows) => rows,
        other => panic!("{other:?}"),
    }
}

fn message(aor: &str) -> WaitingMessage {
    WaitingMessage {
        id: 0,
        aor: aor.into(),
        from: "sip:bob@example.org".into(),
        content_type: "text/plain".into(),
        body: b"hello".as_slice().into(),
        sent_at: at(5),
        expires_at: None,
    }
}

fn kept_counts(store: &dyn Store, aor: &str) -> Loaded {
    let bucket = cluster::Bucket::of(aor).number();
    store.reader().unwrap().load(&Read::BucketKeptCounts { buckets: [bucket].into() }).unwrap()
}

#[test]
fn a_bucket_goes_from_its_holder_to_the_next_with_a_greater_epoch() {
    let (_, postgres) = database();
    let (mut one, mut two) = (joined(&postgres, 1), joined(&postgres, 2));
    assert_eq!(one.take(&[claim(7, 0), claim(3, 0)], &[]).unwrap(), [taken(7, 1), taken(3, 1)]);
    // The same shard keeps its epoch, whatever it knew; another shard of the same life is another holder.
    assert_eq!(one.take(&[claim(7, 0)], &[]).unwrap(), [taken(7, 1)]);
    let other_shard = BucketClaim { bucket: 7, shard: 1, after: 1 };
    assert_eq!(one.take(&[other_shard], &[]).unwrap(), [refused(7, Some(1), 1)]);
    // Its holder lives; then it was given back, but the claim is of an epoch that is over.
    assert_eq!(two.take(&[claim(7, 1)], &[]).unwrap(), [refused(7, Some(1), 1)]);
    one.give(&[given(7, 0), given(9, 0)]).unwrap();
    assert_eq!(
        two.take(&[claim(7, 1)], &[]).unwrap(),
        [refused(7, Some(1), 1)],
        "given with an epoch that is over"
    );
    one.give(&[given(7, 1)]).unwrap();
    assert_eq!(
        two.take(&[claim(7, 0), claim(5_000, 0)], &[]).unwrap(),
        [refused(7, None, 1), refused(5_000, None, 0)]
    );
    assert_eq!(two.take(&[claim(7, 1)], &[]).unwrap(), [taken(7, 2)]);
    // Late: another life has it.
    one.give(&[given(7, 2)]).unwrap();
    assert_eq!(two.take(&[claim(7, 2)], &[]).unwrap(), [taken(7, 2)]);
}

/// The map of the farm has later epochs than a database that was restored, or a standby that had not received all.
#[test]
fn an_older_database_goes_on_from_the_epochs_of_the_claims() {
    let (_, postgres) = database();
    let mut one = joined(&postgres, 1);
    assert_eq!(one.take(&[claim(3, 0)], &[]).unwrap(), [taken(3, 1)]);
    assert!(!one.is_older());
    assert_eq!(one.take(&[claim(7, 5)], &[]).unwrap(), [taken(7, 6)]);
    assert!(one.is_older());
    // The same question again, late questions of others, and one that is right.
    let mut two = joined(&postgres, 2);
    assert_eq!(one.take(&[claim(7, 5)], &[]).unwrap(), [taken(7, 6)]);
    assert_eq!(two.take(&[claim(7, 5)], &[1]).unwrap(), [refused(7, Some(1), 6)]);
    assert_eq!(one.check(), Ok(()), "a late question fences no life");
    assert!(!two.is_older());
    // The holder that an older database names lives: it may serve. Its own later epoch is one that the database has lost.
    assert_eq!(two.take(&[claim(7, 9)], &[]).unwrap(), [refused(7, Some(1), 6)]);
    assert_eq!(one.take(&[claim(7, 9)], &[]).unwrap(), [taken(7, 10)]);
    one.give(&[given(7, 12)]).unwrap();
    assert_eq!(two.take(&[claim(7, 12)], &[]).unwrap(), [taken(7, 13)]);
    // A copy of the database names a holder that is dead.
    let mut three = joined(&postgres, 3);
    assert_eq!(three.take(&[claim(7, 20)], &[2]).unwrap(), [taken(7, 21)]);
    assert!(matches!(two.check(), Err(StoreError::Fenced { .. })));
}

#[test]
fn a_dead_life_is_fenced_if_it_holds_a_bucket_that_is_claimed() {
    let (_, postgres) = database();
    let (mut one, mut two) = (joined(&postgres, 1), joined(&postgres, 2));
    let mut writer = postgres.fenced_by(1).writer().unwrap();
    let write = binding(4, "a", 1, &[1]);
    assert_eq!(one.take(&[claim(4, 0)], &[]).unwrap(), [taken(4, 1)]);
    assert!(writer.write_group(std::slice::from_ref(&write))[0].is_ok());
    assert_eq!(
        two.take(&[claim(5, 0), claim(4, 0)], &[1, 2, 99]).unwrap(),
        [taken(5, 1), refused(4, Some(1), 1)]
    );
    assert_eq!(one.check(), Ok(()), "it holds no bucket that could be taken");
    assert_eq!(two.take(&[claim(4, 1)], &[1]).unwrap(), [taken(4, 2)]);

    let is_fenced =
        |error: &StoreError| matches!(error, StoreError::Fenced { server } if server.contains("/t"));
    let account = Write::AddDomain { name: "example.org".into(), created_at: at(1) };
    for group in [vec![write.clone(), write.clone()], vec![write.clone(), account.clone()], vec![account]] {
        let done = writer.write_group(&group);
        assert_eq!(done.len(), group.len());
        assert!(done.iter().all(|done| done.as_ref().is_err_and(is_fenced)), "{done:?}");
    }
    assert!(writer.secret("farm", [1; 32]).is_err_and(|error| is_fenced(&error)));
    assert!(one.check().is_err_and(|error| is_fenced(&error)));
    assert!(one.join("node-1").is_err_and(|error| is_fenced(&error)));
    assert!(one.take(&[claim(9, 0)], &[]).is_err_and(|error| is_fenced(&error)));
    assert!(one.give(&[given(4, 1)]).is_err_and(|error| is_fenced(&error)));
    assert_eq!(two.check(), Ok(()));
    assert_eq!(records(&postgres, 4), [[1]]);
    // Buckets that the dead node left may be taken by each later life.
    assert_eq!(joined(&postgres, 3).take(&[claim(9, 0)], &[]).unwrap(), [taken(9, 1)]);
}

#[test]
fn a_life_writes_after_it_has_joined_and_joins_under_one_name() {
    let (_, postgres) = database();
    let fenced = |done: Result<(), StoreError>| matches!(done, Err(StoreError::Fenced { .. }));
    let mut writer = postgres.fenced_by(5).writer().unwrap();
    let write = [binding(1, "a", 1, &[1])];
    assert!(fenced(writer.write_group(&write)[0].clone().map(drop)));
    let mut five = postgres.ownership(5).unwrap();
    assert!(fenced(five.check()));
    assert_eq!(five.join("north"), Ok(()));
    assert_eq!(five.join("north"), Ok(()), "again");
    assert!(fenced(five.join("south")), "the number is of another node");
    assert!(writer.write_group(&write)[0].is_ok());
    assert!(fenced(postgres.ownership(4).unwrap().join("north")), "a later life of the node has joined");
    assert_eq!(postgres.ownership(6).unwrap().join("north"), Ok(()));
    assert_eq!(five.check(), Ok(()), "it is fenced when its buckets are taken");
    // Writers of no life are not fenced: commands, and a node that is alone.
    assert!(postgres.writer().unwrap().write_group(&[binding(1, "b", 0, &[1])])[0].is_ok());
}

#[test]
fn rows_of_lives_that_are_over_are_removed_and_such_lives_stay_over() {
    let (url, postgres) = database();
    let joined = |life: u32, name: &str| {
        let mut ownership = postgres.ownership(life).unwrap();
        ownership.join(name).map(|()| ownership)
    };
    let members = || {
        let found = server::try_sql(&url, "SELECT string_agg(life::text, ' ' ORDER BY life) FROM member");
        found.unwrap().trim().to_owned()
    };
    let mut one = joined(1, "north").unwrap();
    assert_eq!(one.take(&[claim(9, 0)], &[]).unwrap(), [taken(9, 1)]);
    drop((one, joined(2, "south").unwrap()));
    let three = joined(3, "east").unwrap();
    drop(joined(4, "west").unwrap());
    let open =
        "SELECT 1 FROM pg_stat_activity WHERE application_name IN ('belfry.1', 'belfry.2', 'belfry.4')";
    let is_closed = || server::try_sql(&url, open).filter(|found| !found.contains('1'));
    wait::until("their sessions have ended", Duration::from_secs(60), is_closed, String::new);
    drop(joined(5, "north").unwrap());
    assert_eq!(members(), "1 2 3 4 5", "they are young");
    server::run_sql(&url, "UPDATE member SET started = now() - interval '8 days' WHERE life < 5");
    let mut six = joined(6, "north").unwrap();
    // The first holds a bucket, the third has a session, and the fourth is the greatest of the old ones.
    assert_eq!(members(), "1 3 4 5 6");
    let is_over =
        |done: Result<Box<dyn Ownership>, StoreError>| matches!(done, Err(StoreError::Fenced { .. }));
    assert!(is_over(joined(2, "south")), "its process stood still for a week");
    let mut writer = postgres.fenced_by(2).writer().unwrap();
    let refused = writer.write_group(&[binding(1, "a", 1, &[1])]);
    assert!(matches!(refused[0], Err(StoreError::Fenced { .. })), "{refused:?}");
    // Its bucket is taken, and then it goes, too.
    assert_eq!(six.take(&[claim(9, 1)], &[1]).unwrap(), [taken(9, 2)]);
    drop((three, joined(7, "east").unwrap()));
    assert!(members().split(' ').all(|life| life != "1"), "{}", members());
}

#[test]
fn of_lives_that_claim_at_once_one_gets_each_epoch() {
    let (_, postgres) = database();
    let buckets: Vec<u16> = (0..64).collect();
    let work = |life: u32| {
        let mut ownership = joined(&postgres, life);
        let mut known = vec![0; buckets.len()];
        let mut holds = Vec::new();
        for round in 0..25 {
            let mut claims: Vec<BucketClaim> =
                buckets.iter().map(|bucket| claim(*bucket, known[usize::from(*bucket)])).collect();
            // In different orders.
            claims.rotate_left(round * life as usize % buckets.len());
            let mut back = Vec::new();
            for answer in ownership.take(&claims, &[]).unwrap() {
                match answer {
                    ClaimAnswer::Taken { bucket, epoch } => {
                        known[usize::from(bucket)] = epoch;
                        back.push(given(bucket, epoch));
                    }
                    ClaimAnswer::Refused { bucket, current, .. } => known[usize::from(bucket)] = current,
                }
            }
            holds.extend(back.iter().map(|given| (given.bucket, given.epoch)));
            ownership.give(&back).unwrap();
        }
        holds
    };
    let work = &work;
    let holds: Vec<Vec<(u16, u64)>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..4).map(|life| scope.spawn(move || work(life))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let all: Vec<(u16, u64)> = holds.concat();
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len(), "two holders in one epoch");
    assert!(all.len() >= buckets.len() * 2, "{} holds", all.len());
}

#[test]
fn nodes_that_fence_each_other_do_not_both_die() {
    let (_, postgres) = database();
    for round in 0..5 {
        let lives = [2 * round + 1, 2 * round + 2];
        let buckets = [u16::try_from(lives[0]).unwrap(), u16::try_from(lives[1]).unwrap()];
        let mut nodes = lives.map(|life| joined(&postgres, life));
        for (node, bucket) in nodes.iter_mut().zip(buckets) {
            node.take(&[claim(bucket, 0)], &[]).unwrap();
        }
        let taken = std::thread::scope(|scope| {
            let mut takes = Vec::new();
            for (place, node) in nodes.iter_mut().enumerate() {
                let (claims, dead) = ([claim(buckets[1 - place], 1)], [lives[1 - place]]);
                takes.push(scope.spawn(move || node.take(&claims, &dead).is_ok()));
            }
            takes.into_iter().map(|take| take.join().unwrap()).filter(|is_taken| *is_taken).count()
        });
        // Each may end the other's session, so that neither gets through; then none is fenced.
        let alive = nodes.iter_mut().filter_map(|node| node.check().ok()).count();
        assert_eq!(alive, 2 - taken, "round {round}");
        assert!(alive > 0, "round {round}");
    }
}

#[test]
fn a_life_that_stopped_in_its_transaction_is_fenced_and_cannot_commit() {
    let (url, postgres) = database();
    let (mut one, mut two) = (joined(&postgres, 1), joined(&postgres, 2));
    assert_eq!(one.take(&[claim(4, 0)], &[]).unwrap(), [taken(4, 1)]);
    // As the writer's transaction, of a process that is stopped before its end: nothing drives the connection.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let stopped = runtime.block_on(async {
        let url = format!("{url} application_name=belfry.1");
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(async move { drop(connection.await) });
        let begin = "BEGIN; SELECT FROM member WHERE life = 1 AND NOT fenced FOR SHARE; \
                     INSERT INTO binding (bucket, aor, seq, written_at, record, epoch) VALUES (4, 'a', 1, 1, '', 1)";
        client.batch_execute(begin).await.unwrap();
        client
    });
    let began = Clock::now();
    assert_eq!(two.take(&[claim(4, 1)], &[1]).unwrap(), [taken(4, 2)]);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(runtime.block_on(stopped.batch_execute("COMMIT")).is_err());
    assert_eq!(records(&postgres, 4), Vec::<Vec<u8>>::new());
    assert!(matches!(one.check(), Err(StoreError::Fenced { .. })));
}

#[test]
fn a_lock_that_is_not_released_ends_the_take_with_nothing_taken() {
    let (url, postgres) = database();
    let (mut one, mut two) = (joined(&postgres, 1), joined(&postgres, 2));
    assert_eq!(one.take(&[claim(4, 0)], &[]).unwrap(), [taken(4, 1)]);
    // A session that is none of the life's.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let stranger = runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(async move { drop(connection.await) });
        client.batch_execute("BEGIN; SELECT FROM member WHERE life = 1 FOR SHARE").await.unwrap();
        client
    });
    let began = Clock::now();
    let refusal = two.take(&[claim(4, 1), claim(5, 0)], &[1]).unwrap_err();
    assert!(matches!(refusal, StoreError::Unreachable { .. }), "{refusal:?}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    runtime.block_on(stranger.batch_execute("COMMIT")).unwrap();
    assert_eq!(one.check(), Ok(()));
    assert_eq!(two.take(&[claim(4, 1), claim(5, 0)], &[1]).unwrap(), [taken(4, 2), taken(5, 1)]);
}

#[test]
fn a_write_of_an_epoch_that_is_over_changes_nothing() {
    let (_, postgres) = database();
    let mut writer = postgres.writer().unwrap();
    let mut write = |epoch, record: &[u8]| {
        let group = [binding(7, "a", epoch, record), binding(7, "b", 9, &[9])];
        let done = writer.write_group(&group);
        assert!(matches!(done[1], Ok(WriteDone::Logged { .. })), "{done:?}");
        done[0].clone()
    };
    assert!(write(3, &[3]).is_ok());
    for late in [&[2_u8][..], &[]] {
        let refused = write(2, late);
        assert!(
            matches!(&refused, Err(StoreError::Invalid { what, .. }) if what.contains("epoch 2")),
            "{refused:?}"
        );
        assert_eq!(records(&postgres, 7), [[3], [9]]);
    }
    assert!(write(3, &[4]).is_ok());
    assert_eq!(records(&postgres, 7), [[4], [9]]);
    // A node that is alone has no epoch, and no other beside it. The farm's epochs go on where they were.
    assert!(write(0, &[5]).is_ok());
    assert_eq!(records(&postgres, 7), [[5], [9]]);
    assert!(write(2, &[6]).is_err());
    assert!(write(4, &[]).is_ok());
    assert_eq!(records(&postgres, 7), [[9]]);
}

#[test]
fn all_buckets_are_taken_at_once() {
    let (_, postgres) = database();
    let (mut one, mut two) = (joined(&postgres, 1), joined(&postgres, 2));
    let claims = |after| (0..4_096).map(|bucket| claim(bucket, after)).collect::<Vec<_>>();
    let began = Clock::now();
    let answers = one.take(&claims(0), &[]).unwrap();
    let first = began.elapsed();
    assert!((0..4_096).zip(&answers).all(|(bucket, answer)| *answer == taken(bucket, 1)));
    let answers = two.take(&claims(1), &[1]).unwrap();
    let over = began.elapsed() - first;
    assert!((0..4_096).zip(&answers).all(|(bucket, answer)| *answer == taken(bucket, 2)));
    two.give(&(0..4_096).map(|bucket| given(bucket, 2)).collect::<Vec<_>>()).unwrap();
    let back = began.elapsed() - first - over;
    println!("4,096 buckets: taken in {first:?}, taken over in {over:?}, given in {back:?}");
    // Each alone, they would take seconds: no figure of speed, but of statements.
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}

/// The time that a node takes to read all buckets is printed: `cargo test --test contract -- --nocapture buckets_are_read`.
#[test]
fn buckets_are_read_together_page_by_page() {
    const ROWS: usize = 5_000;
    let (url, postgres) = database();
    server::run_sql(
        &url,
        &format!(
            "INSERT INTO binding (bucket, aor, seq, epoch, written_at, record) SELECT (row * 7919) % 4096, \
             'user' || row || '@example.org', row, 1, 1, decode(repeat('ab', 200), 'hex') \
             FROM generate_series(1, {ROWS}) AS row; ANALYZE binding"
        ),
    );
    let mut reader = postgres.reader().unwrap();
    let bucket_of = |row: &BindingRow| {
        let number = row.aor.trim_start_matches("user").trim_end_matches("@example.org");
        u16::try_from(number.parse::<u64>().unwrap() * 7_919 % 4_096).unwrap()
    };
    for together in [32, 4_096] {
        let (mut seen, mut reads, begin) = (Vec::with_capacity(ROWS), 0, Clock::now());
        for first in (0..4_096_u16).step_by(together) {
            let buckets: Vec<u16> = (first..first + u16::try_from(together).unwrap()).collect();
            let (mut left, mut after) = (&buckets[..], Box::<str>::default());
            loop {
                reads += 1;
                let rows = page(&mut *reader, left, &after);
                let next = rows.last().filter(|_| rows.len() == store::limits::BINDINGS_LOADED as usize);
                let next = next.map(|row| (bucket_of(row), row.aor.clone()));
                seen.extend(rows.into_iter().map(|row| (bucket_of(&row), row.aor)));
                let Some((bucket, aor)) = next else { break };
                left = &left[left.iter().position(|left| *left == bucket).unwrap()..];
                after = aor;
            }
        }
        println!("{together} buckets together: {ROWS} rows in {reads} reads, {:?}", begin.elapsed());
        assert!(
            seen.is_sorted() && seen.len() == ROWS,
            "{together}: {} rows, sorted and each once",
            seen.len()
        );
        seen.dedup();
        assert_eq!(seen.len(), ROWS);
    }
}

#[test]
fn a_file_has_no_holders() {
    let dir = tempfile::tempdir().unwrap();
    let file = Database::Sqlite(Sqlite::open(dir.path().join("belfry.db")).unwrap());
    assert!(matches!(file.ownership(1).map(drop), Err(StoreError::Invalid { .. })));
    assert!(file.fenced_by(1).writer().unwrap().write_group(&[binding(1, "a", 0, &[1])])[0].is_ok());
}

#[test]
fn rows_of_the_first_version_are_kept_and_get_their_bucket() {
    let url = server::new_postgres_database();
    server::run_sql(&url, include_str!("../../migrations/postgres/0001_first.sql"));
    let rows = "CREATE TABLE schema_version (id integer PRIMARY KEY, version bigint NOT NULL); \
        INSERT INTO schema_version VALUES (1, 1); \
        INSERT INTO kept_message (aor, from_uri, content_type, body, sent_at) \
        SELECT 'user' || n % 10 || '@example.org', 'sip:b@x', 'text/plain', '', n FROM generate_series(1, 25) AS n; \
        INSERT INTO binding (bucket, aor, seq, written_at, record) VALUES (7, 'a', nextval('binding_seq'), 1, '\\x01')";
    server::run_sql(&url, rows);
    let postgres = Postgres::open(&url).unwrap();
    for (number, count) in [(3, 3), (7, 2)] {
        let aor = format!("user{number}@example.org");
        assert_eq!(kept_counts(&postgres, &aor), Loaded::KeptCounts(vec![(aor.into(), count)]));
    }
    assert_eq!(records(&postgres, 7), [[1]]);
    let mut writer = postgres.writer().unwrap();
    assert!(writer.write_group(&[Write::Keep(Box::new(message("user3@example.org")))])[0].is_ok());
    let aor = "user3@example.org";
    assert_eq!(kept_counts(&postgres, aor), Loaded::KeptCounts(vec![(aor.into(), 4)]));
    assert_eq!(kept_counts(&postgres, "other@example.org"), Loaded::KeptCounts(Vec::new()));
    assert!(writer.write_group(&[binding(7, "a", 1, &[2])])[0].is_ok());
    assert_eq!(records(&postgres, 7), [[2]]);
}

#[test]
fn a_program_uses_a_later_schema_that_allows_it() {
    let (url, postgres) = database();
    server::run_sql(
        &url,
        "ALTER TABLE binding ADD COLUMN later text; UPDATE schema_version SET version = 99",
    );
    let older = Postgres::open(&url).unwrap();
    assert_eq!(older.later_schema().map(|later| (later.found, later.known)), Some((99, 6)));
    assert!(older.writer().unwrap().write_group(&[binding(7, "a", 1, &[1])])[0].is_ok());
    assert_eq!(records(&postgres, 7), [[1]]);
    server::run_sql(&url, "UPDATE schema_version SET oldest = 99");
    let refused = Postgres::open(&url).unwrap_err();
    assert!(matches!(refused, StoreError::NewerSchema { found: 99, known: 6, .. }), "{refused:?}");
}

/// A step of one of three lives.
#[derive(Clone, Debug)]
enum Act {
    Join,
    /// Buckets with shard and epoch, which differs from the present one by so much; and the lives that count as dead.
    Take(Vec<(u16, u16, i64)>, Vec<u32>),
    Give(u16, u16, i64),
    /// An address of the bucket, and the epoch as above.
    Write(u16, u8, i64, bool),
}

const BUCKETS: u16 = 3;

fn act() -> impl Strategy<Value = (u32, Act)> {
    // Mostly right.
    let less = || prop_oneof![4 => Just(0_i64), 1 => Just(-1)];
    // A later one: the database is older than the farm.
    let other = || prop_oneof![8 => Just(0_i64), 2 => Just(-1), 1 => Just(2)];
    let act = prop_oneof![
        1 => Just(Act::Join),
        4 => (
            prop::collection::vec((0..BUCKETS, 0..2_u16, other()), 1..4),
            prop::collection::vec(0..3_u32, 0..2)
        ).prop_map(|(claims, dead)| Act::Take(claims, dead)),
        2 => (0..BUCKETS, 0..2_u16, other()).prop_map(|(bucket, shard, by)| Act::Give(bucket, shard, by)),
        4 => (0..BUCKETS, 0..2_u8, less(), any::<bool>())
            .prop_map(|(bucket, address, less, empties)| Act::Write(bucket, address, less, empties)),
    ];
    (0..3_u32, act)
}

#[derive(Clone, Debug, Default)]
struct Model {
    /// `Some(true)`: fenced; `None`: not joined.
    members: [Option<bool>; 3],
    /// Holder and epoch.
    buckets: [(Option<(u32, u16)>, u64); BUCKETS as usize],
    /// Epoch and number of the write.
    rows: [[Option<(u64, u8)>; 2]; BUCKETS as usize],
}

impl Model {
    fn may_act(&self, life: u32) -> bool {
        self.members[life as usize] == Some(false)
    }

    /// The present epoch of a bucket, or one that is over or is still to come.
    fn epoch(&self, bucket: u16, by: i64) -> u64 {
        self.buckets[usize::from(bucket)].1.saturating_add_signed(by)
    }

    /// One claim of a bucket: which of two would succeed is not defined.
    fn claims(&self, first: u16, claims: &[(u16, u16, i64)]) -> Vec<BucketClaim> {
        let mut seen = HashSet::new();
        let claims = claims.iter().filter(|(bucket, ..)| seen.insert(*bucket));
        let claim = |(bucket, shard, by): &(u16, u16, i64)| BucketClaim {
            bucket: first + bucket,
            shard: *shard,
            after: self.epoch(*bucket, *by),
        };
        claims.map(claim).collect()
    }

    fn give(&mut self, life: u32, bucket: u16, shard: u16, epoch: u64) {
        let row = &mut self.buckets[usize::from(bucket)];
        if self.members[life as usize] == Some(false) && row.0 == Some((life, shard)) && row.1 <= epoch {
            row.0 = None;
        }
    }

    /// False: the write is refused.
    fn write(&mut self, life: u32, (bucket, address): (u16, u8), epoch: u64, record: &[u8]) -> bool {
        let may_act = self.may_act(life);
        let row = &mut self.rows[usize::from(bucket)][usize::from(address)];
        let is_written = may_act && row.is_none_or(|(later, _)| later <= epoch);
        if is_written {
            *row = record.first().map(|number| (epoch, *number));
        }
        is_written
    }

    fn records(&self, bucket: u16) -> Vec<Vec<u8>> {
        self.rows[usize::from(bucket)].iter().flatten().map(|(_, number)| vec![*number]).collect()
    }

    fn take(&mut self, life: u32, claims: &[BucketClaim], first: u16, dead: &[u32]) -> Vec<ClaimAnswer> {
        let place = |bucket: u16| usize::from(bucket - first);
        for claim in claims {
            let (holder, epoch) = self.buckets[place(claim.bucket)];
            if let Some((holder, _)) = holder
                && holder != life
                && dead.contains(&holder)
                && epoch <= claim.after
            {
                self.members[holder as usize] = Some(true);
            }
        }
        let mut seen = HashSet::new();
        for claim in claims.iter().filter(|claim| seen.insert(claim.bucket)) {
            let (holder, epoch) = &mut self.buckets[place(claim.bucket)];
            let own = Some((life, claim.shard));
            let is_free = holder.is_none_or(|(holder, _)| self.members[holder as usize] == Some(true));
            if *epoch <= claim.after && (is_free || *holder == own && *epoch < claim.after) {
                (*holder, *epoch) = (own, claim.after + 1);
            }
        }
        let answer = |claim: &BucketClaim| {
            let (holder, epoch) = self.buckets[place(claim.bucket)];
            let is_own = holder == Some((life, claim.shard));
            if is_own {
                taken(claim.bucket, epoch)
            } else {
                refused(claim.bucket, holder.map(|(life, _)| life), epoch)
            }
        };
        claims.iter().map(answer).collect()
    }
}

/// The model's answers with the numbers that its lives have in the database.
fn of_lives(first: u32, answers: Vec<ClaimAnswer>) -> Vec<ClaimAnswer> {
    let named = |answer| match answer {
        ClaimAnswer::Refused { bucket, holder, current } => {
            refused(bucket, holder.map(|life| first + life), current)
        }
        taken => taken,
    };
    answers.into_iter().map(named).collect()
}

/// The session of a dead life ends a moment after the life does: what meets its end is asked again.
fn take_again(
    ownership: &mut dyn Ownership,
    (claims, dead): (&[BucketClaim], &[u32]),
    may_act: bool,
) -> Result<Vec<ClaimAnswer>, StoreError> {
    match ownership.take(claims, dead) {
        Err(StoreError::Unreachable { .. }) if !may_act => ownership.take(claims, dead),
        answers => answers,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn three_lives_do_as_the_model(acts in prop::collection::vec(act(), 1..40)) {
        static DATABASE: std::sync::LazyLock<Postgres> = std::sync::LazyLock::new(|| database().1);
        static CASE: AtomicU32 = AtomicU32::new(0);
        let case = CASE.fetch_add(1, Ordering::Relaxed);
        // Each case has lives and buckets of its own.
        let (first_life, first) = (10 * case + 1, u16::try_from(case).unwrap() % 1_000 * BUCKETS);
        let postgres = &*DATABASE;
        let mut lives: Vec<_> = (0..3)
            .map(|life| {
                let number = first_life + life;
                (postgres.ownership(number).unwrap(), postgres.fenced_by(number).writer().unwrap())
            })
            .collect();
        let mut reader = postgres.reader().unwrap();
        let mut model = Model::default();
        for (step, (life, act)) in acts.into_iter().enumerate() {
            let (ownership, writer) = &mut lives[life as usize];
            let may_act = model.may_act(life);
            match act {
                Act::Join => {
                    let joined = ownership.join(&format!("node-{case}-{life}"));
                    prop_assert_eq!(joined.is_ok(), model.members[life as usize] != Some(true));
                    model.members[life as usize].get_or_insert(false);
                }
                Act::Take(claims, dead) => {
                    let claims = model.claims(first, &claims);
                    let numbers: Vec<u32> = dead.iter().map(|life| first_life + life).collect();
                    let answers = take_again(&mut **ownership, (&claims, &numbers), may_act);
                    if may_act {
                        let wanted = of_lives(first_life, model.take(life, &claims, first, &dead));
                        prop_assert_eq!(answers.unwrap(), wanted, "step {}", step);
                    } else {
                        prop_assert!(matches!(answers, Err(StoreError::Fenced { .. })), "step {step}: {answers:?}");
                    }
                }
                Act::Give(bucket, shard, by) => {
                    let epoch = model.epoch(bucket, by);
                    let done = ownership.give(&[GivenBucket { bucket: first + bucket, shard, epoch }]);
                    prop_assert_eq!(done.is_ok(), may_act);
                    model.give(life, bucket, shard, epoch);
                }
                Act::Write(bucket, address, less, empties) => {
                    let epoch = model.epoch(bucket, less).max(1);
                    let record = if empties { Vec::new() } else { vec![u8::try_from(step).unwrap()] };
                    let write = binding(first + bucket, &format!("{address}@{case}"), epoch, &record);
                    let done = writer.write_group(&[write]).remove(0);
                    let is_written = model.write(life, (bucket, address), epoch, &record);
                    prop_assert_eq!(done.is_ok(), is_written, "step {}: {:?}", step, done);
                }
            }
            for bucket in 0..BUCKETS {
                let found = records_by(&mut *reader, first + bucket);
                prop_assert_eq!(found, model.records(bucket), "step {}", step);
            }
        }
        for (life, (ownership, _)) in lives.iter_mut().enumerate() {
            prop_assert_eq!(ownership.check().is_ok(), model.may_act(u32::try_from(life).unwrap()));
        }
    }
}
