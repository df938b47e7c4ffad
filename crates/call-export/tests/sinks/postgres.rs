//! The table of a real PostgreSQL server.

use call_export::{CallExport, Destination, Line};
use interop::{PostgresServer, new_postgres_database, run_sql, try_sql};
use store::postgres::{CallRow, CallTable, CallTableFault};

use super::{record, until};

fn table(url: &str) -> Destination {
    Destination::Postgres(Box::new(CallTable::new(url).unwrap()))
}

/// The rows that a query of one column finds.
fn rows(url: &str, query: &str) -> Vec<String> {
    let printed = try_sql(url, query).unwrap();
    printed.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn records_become_rows_with_all_columns_and_each_call_has_one() {
    let url = new_postgres_database();
    let folder = tempfile::tempdir().unwrap();
    let export = CallExport::start(folder.path(), table(&url)).unwrap();
    export.write(record("one"));
    export.write(record("two"));
    // The same call again, as after a restart that came before its answer was noted.
    export.write(record("one"));
    let status = until("all are sent", &export, |status| status.sent == 3);
    assert_eq!((status.waiting, status.dropped, status.failure), (0, 0, None));
    let found = rows(
        &url,
        "SELECT concat_ws('|', call_id, from_uri, to_uri, extract(epoch from started_at), \
         answered_at AT TIME ZONE 'UTC', extract(epoch from ended_at)::int, code, reason, account, \
         callee IS NULL, length(id)) FROM belfry_call ORDER BY call_id",
    );
    let row = |call_id: &str| {
        format!(
            "{call_id}|sip:alice@example.test|sip:bob@example.test|1800000000.123456|2027-01-15 08:00:02|\
             1800000007|200|BYE|alice@example.test|t|32"
        )
    };
    assert_eq!(found, [row("one"), row("two")]);
}

#[test]
fn records_wait_for_a_database_that_is_away_also_over_a_restart() {
    let mut server = PostgresServer::start(&[]);
    let url = server.new_database(&[]);
    let folder = tempfile::tempdir().unwrap();
    let export = CallExport::start(folder.path(), table(&url)).unwrap();
    export.write(record("before"));
    until("the first is sent", &export, |status| status.sent == 1);
    server.kill();
    (0..700).for_each(|number| export.write(record(&number.to_string())));
    let status = until("the failure is told", &export, |status| status.failures > 0 && status.waiting == 700);
    assert!(status.failure.is_some() && status.oldest == Some(record("").ended_at), "{status:?}");
    drop(export);
    let export = CallExport::start(folder.path(), table(&url)).unwrap();
    until("it is away still", &export, |status| status.failures > 0 && status.waiting == 700);
    server.start_again();
    until("all are sent", &export, |status| status.sent == 700 && status.waiting == 0);
    assert_eq!(rows(&url, "SELECT count(*) FROM belfry_call"), ["701"]);
}

#[test]
fn a_database_that_answers_nothing_is_asked_again() {
    let server = PostgresServer::start(&[]);
    let url = server.new_database(&[]);
    let folder = tempfile::tempdir().unwrap();
    let export = CallExport::start(folder.path(), table(&url)).unwrap();
    export.write(record("before"));
    until("the first is sent", &export, |status| status.sent == 1);
    server.stop();
    export.write(record("meanwhile"));
    let status = until("the silence is told", &export, |status| status.failures > 0);
    assert!(status.failure.is_some_and(|failure| failure.contains("no answer")));
    server.go_on();
    until("all are sent", &export, |status| status.sent == 2 && status.waiting == 0);
    assert_eq!(rows(&url, "SELECT count(*) FROM belfry_call"), ["2"]);
}

#[test]
fn a_row_that_is_refused_holds_up_no_other() {
    let url = new_postgres_database();
    let folder = tempfile::tempdir().unwrap();
    let mut own = CallTable::new(&url).unwrap();
    assert_eq!(own.insert(&[]).unwrap(), 0);
    run_sql(&url, "ALTER TABLE belfry_call ADD CHECK (call_id <> 'wrong')");
    let line = Line::new(record("wrong"));
    let refused = own.insert(&[CallRow { id: &line.id, record: &line.record }]);
    assert!(matches!(refused, Err(CallTableFault::Refused(_))), "{refused:?}");
    let export = CallExport::start(folder.path(), table(&url)).unwrap();
    for call_id in ["a", "b", "wrong", "c", "d"] {
        export.write(record(call_id));
    }
    until("the others are sent", &export, |status| status.sent == 4 && status.dropped == 1);
    assert_eq!(rows(&url, "SELECT count(*) FROM belfry_call"), ["4"]);
}

#[test]
fn a_table_that_was_taken_away_is_made_again() {
    let url = new_postgres_database();
    let mut table = CallTable::new(&url).unwrap();
    let line = Line::new(record("one"));
    let row = CallRow { id: &line.id, record: &line.record };
    assert_eq!(table.insert(&[row]), Ok(1));
    assert_eq!(table.insert(&[row, row]), Ok(0));
    // An operator has taken the table away: the next connection makes it again.
    run_sql(&url, "DROP TABLE belfry_call");
    assert!(matches!(table.insert(&[row]), Err(CallTableFault::Away(_))));
    assert_eq!(table.insert(&[row]), Ok(1));
}
