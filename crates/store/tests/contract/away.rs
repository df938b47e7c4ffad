//! PostgreSQL alone can refuse a value, close a connection, end, or be of another kind.

use std::time::Duration;

use stdx::Instant;
use store::rest::types::{Common, Queue};
use store::rest::{Resource, RestWrite};
use store::{
    Admin, BindingWrite, CallFilter, CallRecord, LoggedBinding, Postgres, Store, StoreError, Write, WriteDone,
};

use crate::server::{self, PostgresServer};

fn at(seconds: u64) -> Instant {
    Instant::from_unix_seconds(seconds)
}

fn binding(aor: &str, written_at: u64, record: &[u8]) -> BindingWrite {
    BindingWrite {
        bucket: 7,
        aor: aor.into(),
        epoch: 0,
        written_at: at(written_at),
        replaces: None,
        empties: record.is_empty(),
        record: record.into(),
    }
}

fn bindings(store: &dyn Store) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut visit = |row: LoggedBinding<'_>| found.push(row.record.to_vec());
    store.reader().unwrap().replay(&mut visit).unwrap();
    found.sort();
    found
}

fn call(call_id: &str) -> Write {
    Write::Call(Box::new(CallRecord {
        call_id: call_id.into(),
        from: "sip:a@x".into(),
        to: "sip:b@x".into(),
        started_at: at(1),
        answered_at: None,
        ended_at: at(2),
        code: 200,
        reason: "OK".into(),
        account: None,
        callee: Some("b@x".into()),
    }))
}

#[test]
fn the_last_bindings_of_each_address_remain() {
    let store = Postgres::open(&server::new_postgres_database()).unwrap();
    let mut writer = store.writer().unwrap();
    let group: Vec<Write> = [
        binding("a", 1, &[1]),
        binding("b", 1, &[2]),
        binding("a", 2, &[3]),
        binding("b", 2, &[]),
        binding("c", 3, &[4]),
        binding("d", 4, &[5]),
    ]
    .map(Write::Binding)
    .into();
    let done: Vec<WriteDone> = writer.write_group(&group).into_iter().map(Result::unwrap).collect();
    let numbers: Vec<i64> = done
        .iter()
        .map(|done| match done {
            WriteDone::Logged { seq } => *seq,
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(numbers.is_sorted(), "{numbers:?}");
    assert_eq!(bindings(&store), [[3], [4], [5]]);
    let cleaned = writer.write_group(&[Write::CleanBindings { before: at(3) }]);
    assert_eq!(cleaned, [Ok(WriteDone::Changed { rows: 1 })]);
    assert_eq!(bindings(&store), [[4], [5]]);
}

#[test]
fn a_value_that_the_database_refuses_does_not_spoil_its_group() {
    let store = Postgres::open(&server::new_postgres_database()).unwrap();
    let mut writer = store.writer().unwrap();
    let common = |sid: &str| Common { sid: sid.into(), account: "AC1".into(), ..Common::default() };
    let queue = |sid: &str, name: &str| {
        let queue = Queue { common: common(sid), friendly_name: name.into(), ..Queue::default() };
        Write::Rest(RestWrite::Insert(Box::new(queue.row().unwrap())))
    };
    let results = writer.write_group(&[
        call("one"),
        call("two"),
        queue("QU1", "nul\0"),
        queue("QU2", "good"),
        Write::Binding(binding("a", 1, &[1])),
    ]);
    let is_ok: Vec<bool> = results.iter().map(Result::is_ok).collect();
    assert_eq!(is_ok, [true, true, false, true, true], "{results:?}");
    assert!(matches!(results[2], Err(StoreError::Invalid { .. })), "{results:?}");
    let mut admin = Admin::new(&store).unwrap();
    assert_eq!(admin.calls(CallFilter { limit: 9, ..CallFilter::default() }).unwrap().len(), 2, "each once");
}

#[test]
fn a_connection_that_the_server_has_closed_is_made_again() {
    let url = server::new_postgres_database();
    let store = Postgres::open(&url).unwrap();
    let mut admin = Admin::new(&store).unwrap();
    admin.ensure_domain("example.org", at(1)).unwrap();
    assert_eq!(admin.domains().unwrap().len(), 1);
    let end = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity \
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    server::run_sql(&url, end);
    assert_eq!(admin.domains().unwrap().len(), 1);
    admin.ensure_domain("example.net", at(1)).unwrap();
    assert_eq!(admin.domains().unwrap().len(), 2);
}

#[test]
fn what_was_acknowledged_survives_the_servers_death_and_its_return_is_noticed() {
    let mut server = PostgresServer::start(&[]);
    let url = server.new_database(&[]);
    let store = Postgres::open(&url).unwrap();
    let mut writer = store.writer().unwrap();
    let mut reader = store.reader().unwrap();
    for number in 0..50_u8 {
        let write = Write::Binding(binding(&number.to_string(), 1, &[number]));
        assert!(writer.write_group(&[write])[0].is_ok());
    }
    server.kill();
    let failed = writer.write_group(&[Write::Binding(binding("late", 1, &[99]))]);
    assert!(
        matches!(&failed[0], Err(StoreError::Unreachable { server, .. }) if server.contains("/t")),
        "{failed:?}"
    );
    assert!(reader.load(&store::Read::Domains).is_err());
    server.start_again();
    assert!(writer.write_group(&[Write::Binding(binding("later", 1, &[100]))])[0].is_ok());
    assert!(reader.load(&store::Read::Domains).is_ok());
    let expected: Vec<Vec<u8>> = (0..50).chain([100]).map(|number| vec![number]).collect();
    assert_eq!(bindings(&store), expected);
}

#[test]
fn two_writers_of_the_same_rows_both_succeed() {
    let store = &Postgres::open(&server::new_postgres_database()).unwrap();
    let write = |shift: usize| {
        let mut writer = store.writer().unwrap();
        for round in 0..20 {
            let addresses = (0..50).map(|number| (number + shift * 25) % 50);
            let group: Vec<Write> =
                addresses.map(|number| Write::Binding(binding(&number.to_string(), round, &[1]))).collect();
            assert!(writer.write_group(&group).iter().all(Result::is_ok));
        }
    };
    std::thread::scope(|scope| {
        for shift in 0..2 {
            scope.spawn(move || write(shift));
        }
    });
    assert_eq!(bindings(store).len(), 50);
}

#[test]
fn a_database_of_another_kind_is_refused_with_the_next_step() {
    let server = PostgresServer::start(&["fsync=off"]);
    let latin = server.new_database(&["--encoding", "LATIN1", "--locale", "C", "--template", "template0"]);
    let error = Postgres::open(&latin).unwrap_err().to_string();
    assert!(error.contains("LATIN1") && error.contains("createdb"), "{error}");
    let newer = server.new_database(&[]);
    drop(Postgres::open(&newer).unwrap());
    server::run_sql(&newer, "UPDATE schema_version SET version = 99, oldest = 3");
    let error = Postgres::open(&newer).unwrap_err();
    assert!(matches!(error, StoreError::NewerSchema { found: 99, .. }), "{error:?}");
    let nowhere = Postgres::open(&newer.replace("dbname=t", "dbname=no-t")).unwrap_err();
    assert!(matches!(nowhere, StoreError::Unreachable { .. }), "{nowhere:?}");
    assert!(nowhere.to_string().contains("does not exist"), "{nowhere}");
}

/// Long enough for a server on a busy machine, and short for a test that waits for it to pass.
const SHORT: Duration = Duration::from_secs(2);

#[test]
fn a_server_that_answers_nothing_fails_the_write_in_time_and_is_used_again() {
    let server = PostgresServer::start(&["fsync=off"]);
    let store = Postgres::open(&server.new_database(&[])).unwrap().with_patience(Some(SHORT));
    let (mut writer, mut reader) = (store.writer().unwrap(), store.reader().unwrap());
    assert!(writer.write_group(&[Write::Binding(binding("a", 1, &[1]))])[0].is_ok());
    server.stop();
    let failed = writer.write_group(&[Write::Binding(binding("b", 1, &[2]))]);
    assert!(
        matches!(&failed[0], Err(StoreError::Unreachable { detail, .. }) if detail.contains("no answer")),
        "{failed:?}"
    );
    server.go_on();
    assert!(writer.write_group(&[Write::Binding(binding("c", 1, &[3]))])[0].is_ok());
    assert!(reader.load(&store::Read::Domains).is_ok());
    let found = bindings(&store);
    assert!(found.contains(&vec![1]) && found.contains(&vec![3]), "{found:?}");
}

#[test]
fn a_row_that_another_program_holds_fails_the_write_in_time() {
    let url = server::new_postgres_database();
    let store = Postgres::open(&url).unwrap().with_patience(Some(SHORT));
    let mut writer = store.writer().unwrap();
    assert!(writer.write_group(&[Write::Binding(binding("a", 1, &[1]))])[0].is_ok());
    let hold = "BEGIN; SELECT * FROM binding FOR UPDATE; SELECT pg_sleep(600)";
    std::thread::scope(|scope| {
        scope.spawn(|| server::try_sql(&url, hold));
        let held =
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'";
        let is_held = || server::try_sql(&url, held).is_some_and(|found| found.contains('1')).then_some(());
        wait::until("the row is held", Duration::from_secs(60), is_held, String::new);
        let failed = writer.write_group(&[Write::Binding(binding("a", 2, &[2]))]);
        assert!(matches!(failed[0], Err(StoreError::Unreachable { .. })), "{failed:?}");
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE datname = current_database() AND wait_event = 'PgSleep'";
        server::run_sql(&url, end);
    });
    assert!(writer.write_group(&[Write::Binding(binding("a", 3, &[3]))])[0].is_ok());
    assert_eq!(bindings(&store), [[3]]);
}

#[test]
fn a_standby_that_is_promoted_has_what_was_acknowledged_and_takes_over() {
    let mut first = PostgresServer::start(&[]);
    let url = first.new_database(&[]);
    let second = first.new_standby();
    // A commit waits for the standby from now on.
    server::run_sql(&url, "ALTER SYSTEM SET synchronous_standby_names = '*'");
    server::run_sql(&url, "SELECT pg_reload_conf()");
    let is_set = || server::try_sql(&url, "SHOW synchronous_standby_names").filter(|set| set.contains('*'));
    wait::until("commits wait for the standby", Duration::from_secs(60), is_set, String::new);
    let store = Postgres::open(&first.url_with(&second, &url)).unwrap();
    let (mut writer, mut reader) = (store.writer().unwrap(), store.reader().unwrap());
    for number in 0..50_u8 {
        let write = Write::Binding(binding(&number.to_string(), 1, &[number]));
        assert!(writer.write_group(&[write])[0].is_ok());
    }
    first.kill();
    let write = |writer: &mut dyn store::Writer| {
        writer.write_group(&[Write::Binding(binding("later", 1, &[100]))]).remove(0)
    };
    // A standby is no server for writes.
    let refused = write(&mut *writer);
    assert!(matches!(refused, Err(StoreError::Unreachable { .. })), "{refused:?}");
    second.promote();
    let written = || write(&mut *writer).is_ok().then_some(());
    wait::until("the promoted standby is used", Duration::from_secs(60), written, String::new);
    assert!(reader.load(&store::Read::Domains).is_ok());
    let expected: Vec<Vec<u8>> = (0..50).chain([100]).map(|number| vec![number]).collect();
    assert_eq!(bindings(&store), expected);
}

#[test]
fn a_server_without_a_free_connection_says_so_and_keeps_those_that_it_has() {
    let server = PostgresServer::start(&["fsync=off", "max_connections=6", "max_wal_senders=0"]);
    let store = Postgres::open(&server.new_database(&[])).unwrap();
    let mut writer = store.writer().unwrap();
    let mut taken = Vec::new();
    // The test's user may take those that are reserved, too.
    let error = loop {
        match store.reader() {
            Ok(reader) => taken.push(reader),
            Err(error) => break error,
        }
        assert!(taken.len() < 10, "the server has six connections");
    };
    assert!(matches!(&error, StoreError::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains("53300"), "{error}");
    assert!(writer.write_group(&[Write::Binding(binding("a", 1, &[1]))])[0].is_ok());
    taken.pop();
    let reader = || store.reader().is_ok().then_some(());
    wait::until("a connection is free", Duration::from_secs(60), reader, String::new);
}
