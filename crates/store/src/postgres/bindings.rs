//! Bindings: the latest set of each address, and runs of frequent writes.

use crate::limits;
use crate::record::{BindingRow, BindingWrite, Write, WriteDone};
use crate::types::check_length;

use super::connection::{Connection, Failure, Values, micros, values};
use super::routes;

/// Two writes of this kind are written by one statement. Of bindings only those that bind something: a set that became empty is
/// a deletion.
pub(super) fn is_same_run(first: &Write, other: &Write) -> bool {
    match (first, other) {
        (Write::Binding(first), Write::Binding(other)) => is_plain(first) && is_plain(other),
        (Write::Call(_), Write::Call(_)) => true,
        _ => false,
    }
}

fn is_plain(row: &BindingWrite) -> bool {
    !row.empties && row.record.len() <= limits::MAX_BINDING_RECORD
}

/// Writes a run: all are of the kind of the first.
pub(super) fn run(connection: &mut Connection, run: &[Write]) -> Result<Vec<WriteDone>, Failure> {
    match run.first() {
        Some(Write::Binding(_)) => {
            let rows = run.iter().filter_map(|write| match write {
                Write::Binding(row) => Some(row),
                _ => None,
            });
            write_run(connection, &rows.collect::<Vec<_>>())
        }
        Some(Write::Call(_)) => {
            let calls = run.iter().filter_map(|write| match write {
                Write::Call(call) => Some(&**call),
                _ => None,
            });
            routes::add_calls(connection, &calls.collect::<Vec<_>>())
        }
        _ => Ok(Vec::new()),
    }
}

/// The numbers grow in the order of the writes, so of two for one address the later one counts.
fn write_run(connection: &mut Connection, rows: &[&BindingWrite]) -> Result<Vec<WriteDone>, Failure> {
    let count = i64::try_from(rows.len()).unwrap_or(i64::MAX);
    let numbers = connection
        .query("SELECT nextval('binding_seq') FROM generate_series(1, $1::bigint)", values![count])?;
    let numbers: Vec<i64> = numbers.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    // One statement may not change a row twice.
    let mut last = std::collections::HashMap::with_capacity(rows.len());
    for (row, seq) in rows.iter().zip(&numbers) {
        last.insert((row.bucket, &*row.aor), (*row, *seq));
    }
    let mut last: Vec<(&BindingWrite, i64)> = last.into_values().collect();
    // In one order in all transactions: two that write the same rows wait for each other instead of deadlocking.
    last.sort_unstable_by_key(|(row, _)| (row.bucket, &row.aor));
    let buckets: Vec<i16> = last.iter().map(|(row, _)| row.bucket.cast_signed()).collect();
    let aors: Vec<&str> = last.iter().map(|(row, _)| &*row.aor).collect();
    let seqs: Vec<i64> = last.iter().map(|(_, seq)| *seq).collect();
    let times: Vec<i64> = last.iter().map(|(row, _)| micros(row.written_at)).collect();
    let records: Vec<&[u8]> = last.iter().map(|(row, _)| &*row.record).collect();
    let sql = "INSERT INTO binding (bucket, aor, seq, written_at, record) \
               SELECT * FROM unnest($1::smallint[], $2::text[], $3::bigint[], $4::bigint[], $5::bytea[]) \
               ON CONFLICT (bucket, aor) DO UPDATE SET seq = excluded.seq, written_at = excluded.written_at, \
               record = excluded.record";
    connection.execute(sql, values![buckets, aors, seqs, times, records])?;
    Ok(numbers.into_iter().map(|seq| WriteDone::Logged { seq }).collect())
}

pub(super) fn write(connection: &mut Connection, row: &BindingWrite) -> Result<WriteDone, Failure> {
    check_length("binding record", row.record.len(), limits::MAX_BINDING_RECORD)?;
    let (bucket, at) = (row.bucket.cast_signed(), micros(row.written_at));
    if row.empties {
        connection.execute("DELETE FROM binding WHERE bucket = $1 AND aor = $2", values![bucket, row.aor])?;
        let seq = connection.number("SELECT nextval('binding_seq')", &[])?;
        return Ok(WriteDone::Logged { seq });
    }
    let sql = "INSERT INTO binding (bucket, aor, seq, written_at, record) \
               VALUES ($1, $2, nextval('binding_seq'), $3, $4) \
               ON CONFLICT (bucket, aor) DO UPDATE SET seq = excluded.seq, written_at = excluded.written_at, \
               record = excluded.record RETURNING seq";
    let seq = connection.number(sql, values![bucket, row.aor, at, &row.record[..]])?;
    Ok(WriteDone::Logged { seq })
}

/// Rows in which nothing can live any more, as nothing is granted for so long.
pub(super) fn clean(connection: &mut Connection, before: i64) -> Result<WriteDone, Failure> {
    let sql = "DELETE FROM binding WHERE ctid = ANY(ARRAY(SELECT ctid FROM binding WHERE written_at < $1 LIMIT $2))";
    let rows = connection.execute(sql, values![before, i64::from(limits::CLEAN_CHUNK)])?;
    Ok(WriteDone::Changed { rows })
}

/// A page of a bucket's addresses.
pub(super) fn of_bucket(
    connection: &mut Connection,
    bucket: u16,
    after: &str,
) -> Result<Vec<BindingRow>, Failure> {
    let sql = "SELECT aor, seq, record FROM binding WHERE bucket = $1 AND aor > $2 ORDER BY aor LIMIT $3";
    let limit = i64::from(limits::BINDINGS_LOADED);
    read_rows(connection, sql, values![bucket.cast_signed(), after, limit])
}

pub(super) fn of_address(
    connection: &mut Connection,
    bucket: u16,
    aor: &str,
) -> Result<Vec<BindingRow>, Failure> {
    let sql = "SELECT aor, seq, record FROM binding WHERE bucket = $1 AND aor = $2";
    read_rows(connection, sql, values![bucket.cast_signed(), aor])
}

fn read_rows(connection: &mut Connection, sql: &str, values: Values<'_>) -> Result<Vec<BindingRow>, Failure> {
    let rows = connection.query(sql, values)?;
    rows.iter()
        .map(|row| {
            let (aor, record): (String, Vec<u8>) = (row.try_get(0)?, row.try_get(2)?);
            Ok(BindingRow { aor: aor.into(), seq: row.try_get(1)?, record: record.into() })
        })
        .collect()
}
