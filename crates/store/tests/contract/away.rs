//! PostgreSQL alone can refuse a value, close a connection, end, or be of another kind.

use std::time::Duration;

use stdx::Instant;
use store::rest::types::{Common, Queue};
use store::rest::{Resource, RestWrite};
use store::xmpp::XmppWrite;
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
fn a_name_that_another_node_takes_first_fails_its_write_alone() {
    let url = server::new_postgres_database();
    let store = Postgres::open(&url).unwrap();
    let mut writer = store.writer().unwrap();
    let queue = |sid: &str, name: &str| {
        let common = Common { sid: sid.into(), account: "AC1".into(), ..Common::default() };
        Box::new(Queue { common, friendly_name: name.into(), ..Queue::default() }.row().unwrap())
    };
    assert!(writer.write_group(&[Write::Rest(RestWrite::Insert(queue("QU2", "second")))])[0].is_ok());
    let offline = |stanza: &str| {
        let (user, at, stanza) = ("carol@x".into(), at(1), stanza.into());
        Write::Xmpp(XmppWrite::Offline { user, at, stanza, is_repeated: false })
    };
    let rename = Write::Rest(RestWrite::Replace(queue("QU2", "first")));
    // The rename is the last write, or others follow it.
    for (round, group) in [
        [offline("one"), Write::Binding(binding("a", 1, &[1])), rename.clone()],
        [rename, Write::Binding(binding("b", 1, &[2])), offline("two")],
    ]
    .iter()
    .enumerate()
    {
        // The other node has made a queue of that name, and commits it when the lock is free.
        let take = format!(
            "BEGIN; INSERT INTO rest (kind, sid, account, name, created_at, updated_at, body) \
             VALUES (9, 'QU1', 'AC1', 'first', 1, {round}, '{{}}'); SELECT pg_advisory_lock(7); COMMIT"
        );
        server::run_sql(&url, "DELETE FROM rest WHERE sid = 'QU1'");
        let results = std::thread::scope(|scope| {
            let holder = "SELECT pg_advisory_lock(7); SELECT pg_sleep(600)";
            scope.spawn(|| server::try_sql(&url, holder));
            await_session(&url, "wait_event = 'PgSleep'");
            scope.spawn(|| server::run_sql(&url, &take));
            await_session(&url, "wait_event = 'advisory'");
            let written = scope.spawn(|| writer.write_group(group));
            await_session(&url, "wait_event = 'transactionid'");
            let end = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity \
                       WHERE datname = current_database() AND wait_event = 'PgSleep'";
            server::run_sql(&url, end);
            written.join().unwrap()
        });
        for (write, result) in group.iter().zip(&results) {
            let is_rename = matches!(write, Write::Rest(_));
            let taken = Err(StoreError::Exists { what: "first".into() });
            assert!(if is_rename { *result == taken } else { result.is_ok() }, "{results:?}");
        }
    }
    assert_eq!(bindings(&store), [[1], [2]]);
    let waiting = server::try_sql(&url, "SELECT count(*) FROM xmpp_offline").unwrap();
    assert_eq!(waiting.trim(), "2");
}

/// Waits until the server has a session of this database with that condition.
fn await_session(url: &str, condition: &str) {
    let sql = format!(
        "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND {condition} \
         AND pid <> pg_backend_pid()"
    );
    let is_there = || server::try_sql(url, &sql).is_some_and(|found| found.contains('1')).then_some(());
    wait::until(condition, Duration::from_secs(60), is_there, String::new);
}

#[test]
fn a_name_that_is_too_long_for_an_index_fails_its_write_alone() {
    let store = Postgres::open(&server::new_postgres_database()).unwrap();
    let mut writer = store.writer().unwrap();
    // Text that the server cannot compress.
    let mut state = 1_u32;
    let long: String = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b'!' + u8::try_from((state >> 16) % 90).unwrap())
    })
    .take(12_000)
    .collect();
    let item = |id: &str| {
        let (owner, node, id) = ("bob@x".into(), "n".into(), id.into());
        Write::Xmpp(XmppWrite::Item { owner, node, id, at: at(1), item: Some("<i/>".into()), keep: 9 })
    };
    let group = [item("1"), item(&long), Write::Binding(binding("a", 1, &[1])), item("2")];
    let results = writer.write_group(&group);
    let is_ok: Vec<bool> = results.iter().map(Result::is_ok).collect();
    assert_eq!(is_ok, [true, false, true, true], "{results:?}");
    assert!(matches!(results[1], Err(StoreError::Invalid { .. })), "{results:?}");
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
fn acknowledged_writes_survive_the_servers_death_and_its_return_is_noticed() {
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
    let server = PostgresServer::start(&[]);
    let latin = server.new_database(&["--encoding", "LATIN1", "--locale", "C", "--template", "template0"]);
    let error = Postgres::open(&latin).unwrap_err().to_string();
    assert!(error.contains("LATIN1") && error.contains("createdb"), "{error}");
    let newer = server.new_database(&[]);
    drop(Postgres::open(&newer).unwrap());
    server::run_sql(&newer, "UPDATE schema_version SET version = 99, oldest = 99");
    let error = Postgres::open(&newer).unwrap_err();
    assert!(matches!(error, StoreError::NewerSchema { found: 99, .. }), "{error:?}");
    let nowhere = Postgres::open(&newer.replace("dbname=t", "dbname=no-t")).unwrap_err();
    assert!(matches!(nowhere, StoreError::Unreachable { is_refused: true, .. }), "{nowhere:?}");
    assert!(nowhere.to_string().contains("does not exist"), "{nowhere}");
}

/// Long enough for a server on a busy machine, and short for a test that waits for it to pass.
const SHORT: Duration = Duration::from_secs(2);

#[test]
fn a_server_that_answers_nothing_fails_the_write_in_time_and_is_used_again() {
    let server = PostgresServer::start(&[]);
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
fn a_promoted_standby_has_all_acknowledged_writes_and_takes_over() {
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
    let server = PostgresServer::start(&["max_connections=6", "max_wal_senders=0"]);
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

/// Each insertion of a binding fails `times` times. A sequence counts, as a transaction that is rolled back does not take its
/// numbers back.
fn fail_bindings(url: &str, code: &str, times: u32) {
    let sql = format!(
        "CREATE SEQUENCE failures; CREATE FUNCTION fail() RETURNS trigger AS $$ BEGIN \
         IF nextval('failures') <= {times} THEN RAISE EXCEPTION 'refused' USING ERRCODE = '{code}'; END IF; \
         RETURN NEW; END $$ LANGUAGE plpgsql; \
         CREATE TRIGGER fail BEFORE INSERT ON binding FOR EACH STATEMENT EXECUTE FUNCTION fail()"
    );
    server::run_sql(url, &sql);
}

fn failures(url: &str) -> String {
    let found = server::try_sql(url, "SELECT last_value FROM failures").unwrap();
    found.trim().to_owned()
}

#[test]
fn a_transaction_that_another_one_stopped_is_tried_five_times() {
    // Serialisation failure, and deadlock.
    for code in ["40001", "40P01"] {
        let url = server::new_postgres_database();
        let store = Postgres::open(&url).unwrap();
        let mut writer = store.writer().unwrap();
        fail_bindings(&url, code, 4);
        let group = [Write::Binding(binding("a", 1, &[1])), call("one")];
        let written = writer.write_group(&group);
        assert!(written.iter().all(Result::is_ok), "{code}: {written:?}");
        assert_eq!((bindings(&store), &*failures(&url)), (vec![vec![1]], "5"));
        let mut admin = Admin::new(&store).unwrap();
        let calls =
            |admin: &mut Admin| admin.calls(CallFilter { limit: 9, ..CallFilter::default() }).unwrap().len();
        assert_eq!(calls(&mut admin), 1, "each attempt was undone");

        server::run_sql(
            &url,
            "SELECT setval('failures', 1); DROP FUNCTION fail CASCADE; DROP SEQUENCE failures",
        );
        fail_bindings(&url, code, 1_000);
        let refused = writer.write_group(&[Write::Binding(binding("a", 2, &[2])), call("two")]);
        let is_told = |done: &Result<WriteDone, StoreError>| matches!(done, Err(StoreError::Unreachable { detail, .. }) if detail.contains(code));
        assert!(refused.iter().all(is_told), "{refused:?}");
        assert_eq!(failures(&url), "5", "{code}: it is bounded");
        assert_eq!((bindings(&store), calls(&mut admin)), (vec![vec![1]], 1));
    }
}

#[test]
fn a_full_disk_of_the_server_refuses_the_group_until_there_is_space() {
    let server = PostgresServer::start_with_small_disk(&["autovacuum=off"], 24);
    let url = server.new_database(&["--tablespace", "small"]);
    let store = Postgres::open(&url).unwrap();
    let mut writer = store.writer().unwrap();
    server::run_sql(&url, "CREATE TABLE filler (x text); ALTER TABLE filler ALTER x SET STORAGE PLAIN");
    // It fails when the disk is full. Its rows are undone, and their pages stay.
    let fill = "DO $$ BEGIN LOOP INSERT INTO filler VALUES (repeat('x', 7000)); END LOOP; END $$";
    assert_eq!(server::try_sql(&url, fill), None);
    let mut acknowledged = Vec::new();
    let refused = loop {
        let number = u8::try_from(acknowledged.len() / 100).expect("the disk is full before");
        let group: Vec<Write> = (0..100)
            .map(|row| Write::Binding(binding(&format!("{number}-{row}"), 1, &[number; 200])))
            .collect();
        let written = writer.write_group(&group);
        if let Some(Err(error)) = written.iter().find(|done| done.is_err()) {
            assert!(written.iter().all(Result::is_err), "a group is refused as a whole");
            break error.clone();
        }
        acknowledged.extend((0..100).map(|_| vec![number; 200]));
    };
    assert!(matches!(&refused, StoreError::Full { .. }), "{refused:?}");
    assert!(refused.to_string().contains("the disk is full"), "{refused}");
    assert_eq!(bindings(&store), acknowledged);
    server::run_sql(&url, "DROP TABLE filler");
    assert!(writer.write_group(&[Write::Binding(binding("later", 1, &[255]))])[0].is_ok());
    acknowledged.push(vec![255]);
    assert_eq!(bindings(&store), acknowledged);
}

/// The connections live on: no death tells that the server has become a standby.
#[test]
fn a_server_that_takes_no_writes_any_more_is_left_for_the_other_one() {
    let first = PostgresServer::start(&[]);
    let url = first.new_database(&[]);
    let second = first.new_standby();
    let store = Postgres::open(&first.url_with(&second, &url)).unwrap();
    let (mut writer, mut reader) = (store.writer().unwrap(), store.reader().unwrap());
    let mut ownership = store.ownership(1).unwrap();
    ownership.join("north").unwrap();
    assert!(writer.write_group(&[Write::Binding(binding("a", 1, &[1]))])[0].is_ok());
    let has_it = || {
        server::try_sql(&url.replace(&first.url(""), &second.url("")), "SELECT 1 FROM binding, member")
            .filter(|found| found.contains('1'))
    };
    wait::until("the standby has the row", Duration::from_secs(60), has_it, String::new);
    server::run_sql(&url, "ALTER SYSTEM SET default_transaction_read_only = on");
    server::run_sql(&url, "SELECT pg_reload_conf()");
    let mut write = || writer.write_group(&[Write::Binding(binding("b", 1, &[2]))]).remove(0);
    let refused = || write().err();
    let refused = wait::until("the server refuses writes", Duration::from_secs(60), refused, String::new);
    assert!(matches!(&refused, StoreError::Unreachable { .. }), "{refused:?}");
    // The server can still be read.
    assert!(reader.load(&store::Read::Domains).is_ok());
    second.promote();
    let written = || write().ok().map(drop);
    wait::until("the other server is used", Duration::from_secs(60), written, String::new);
    assert_eq!(ownership.check(), Ok(()));
    let mut admin = Admin::new(&store).unwrap();
    admin.ensure_domain("example.org", at(1)).unwrap();
    let domains = match reader.load(&store::Read::Domains).unwrap() {
        store::Loaded::Domains(domains) => domains.len(),
        other => panic!("{other:?}"),
    };
    assert_eq!(domains, 1, "the reader has followed");
    assert_eq!(bindings(&store), [[1], [2]]);
}
