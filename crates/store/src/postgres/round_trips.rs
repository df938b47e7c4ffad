//! The round trips to the server that writes cost.
//!
//! Tests with a server: a statement more for each write of a group would be seen in the rate of a farm, and in no other test.

#[path = "../../../../tests/interop/src/postgres.rs"]
#[expect(dead_code, unreachable_pub, reason = "the tests with peers use it as a module of a library")]
mod server;

use stdx::Instant;

use crate::ownership::{BucketClaim, Ownership as _};
use crate::record::{BindingWrite, Write, WriteDone, Writer as _};
use crate::types::{CallRecord, WaitingMessage};

use super::Postgres;
use super::ownership::PostgresOwnership;
use super::writer::PostgresWriter;

fn at(seconds: u64) -> Instant {
    Instant::from_unix_seconds(seconds)
}

fn binding(number: u32) -> Write {
    Write::Binding(BindingWrite {
        bucket: 3,
        aor: format!("user{number}@example.org").into(),
        epoch: 1,
        written_at: at(1),
        replaces: None,
        empties: number.is_multiple_of(7),
        record: [1].into(),
    })
}

fn call() -> Write {
    Write::Call(Box::new(CallRecord {
        call_id: "1".into(),
        from: "sip:a@x".into(),
        to: "sip:b@x".into(),
        started_at: at(1),
        answered_at: None,
        ended_at: at(2),
        code: 200,
        reason: "OK".into(),
        account: None,
        callee: None,
    }))
}

fn probe() -> Write {
    Write::Probe { at: at(3) }
}

fn keep() -> Write {
    Write::Keep(Box::new(WaitingMessage {
        id: 0,
        aor: "a@example.org".into(),
        from: "sip:b@x".into(),
        content_type: "text/plain".into(),
        body: [].into(),
        sent_at: at(1),
        expires_at: None,
    }))
}

/// The round trips of a group.
fn cost(writer: &mut PostgresWriter, group: &[Write]) -> u32 {
    let before = writer.connection.round_trips;
    let done = writer.write_group(group);
    assert!(done.iter().all(Result::is_ok), "{done:?}");
    writer.connection.round_trips - before
}

#[test]
fn a_group_of_frequent_writes_costs_one_round_trip_with_a_fence_and_without() {
    let postgres = Postgres::open(&server::new_postgres_database()).unwrap();
    let mut ownership = PostgresOwnership::new(&postgres.fenced_by(1), 1).unwrap();
    ownership.join("node").unwrap();
    let group: Vec<Write> = (0..500).map(binding).chain([call(), call()]).collect();
    for postgres in [postgres.clone(), postgres.fenced_by(1)] {
        let mut writer = PostgresWriter::new(&postgres).unwrap();
        // Statements are prepared, and numbers taken.
        cost(&mut writer, &group);
        cost(&mut writer, &[keep()]);
        assert_eq!(cost(&mut writer, &group), 1);
        assert_eq!(cost(&mut writer, &[binding(1)]), 1);
        cost(&mut writer, &[probe()]);
        assert_eq!(
            cost(&mut writer, &[probe(), binding(1), call(), probe()]),
            1,
            "a trial write holds up no REGISTER"
        );
        assert_eq!(
            cost(&mut writer, &[binding(1), keep(), binding(2), call(), keep()]),
            4,
            "others: one each, and the end"
        );
    }
}

#[test]
fn a_transaction_in_which_a_statement_has_failed_cannot_be_committed() {
    let postgres = Postgres::open(&server::new_postgres_database()).unwrap();
    let mut writer = PostgresWriter::new(&postgres).unwrap();
    let connection = &mut writer.connection;
    connection.begin(&[], false).unwrap();
    let insert = "INSERT INTO secret (name, value) VALUES ('a', '')";
    connection.batch(insert).unwrap();
    assert!(connection.batch(insert).is_err());
    assert!(
        connection.commit().is_err(),
        "the server answers a COMMIT alone with ROLLBACK, which is no error"
    );
    connection.batch("ROLLBACK").unwrap();
    assert!(!connection.exists("SELECT 1 FROM secret WHERE name = 'a'", &[]).unwrap());
}

#[test]
fn numbers_of_bindings_grow_and_are_taken_by_thousands() {
    let postgres = Postgres::open(&server::new_postgres_database()).unwrap();
    let mut writer = PostgresWriter::new(&postgres).unwrap();
    let mut other = PostgresWriter::new(&postgres).unwrap();
    let mut numbers = Vec::new();
    let group: Vec<Write> = (0..1_000).map(binding).collect();
    for _ in 0..9 {
        for done in writer.write_group(&group) {
            match done {
                Ok(WriteDone::Logged { seq }) => numbers.push(seq),
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]));
    for done in other.write_group(&group) {
        assert!(
            matches!(done, Ok(WriteDone::Logged { seq }) if !numbers.contains(&seq)),
            "given twice: {done:?}"
        );
    }
}

#[test]
fn buckets_are_taken_in_one_round_trip_and_from_the_dead_in_three() {
    let postgres = Postgres::open(&server::new_postgres_database()).unwrap();
    let lives = [1, 2].map(|life| PostgresOwnership::new(&postgres.fenced_by(life), life).unwrap());
    let [mut one, mut two] = lives;
    let claims_of = |buckets: std::ops::Range<u16>, after| {
        buckets.map(|bucket| BucketClaim { bucket, shard: 0, after }).collect::<Vec<_>>()
    };
    let claims = |after| claims_of(0..100, after);
    one.join("one").unwrap();
    two.join("two").unwrap();
    // Statements are prepared.
    one.take(&claims_of(100..200, 0), &[2]).unwrap();
    two.take(&claims_of(100..200, 0), &[1]).unwrap();
    let before = one.connection.round_trips;
    one.take(&claims(0), &[]).unwrap();
    assert_eq!(one.connection.round_trips - before, 1);
    let before = two.connection.round_trips;
    two.take(&claims(1), &[1]).unwrap();
    // One more prepares the statement that ends sessions.
    assert_eq!(two.connection.round_trips - before, 4);
}
