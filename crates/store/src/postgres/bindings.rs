//! Bindings: the latest set of each address.
//!
//! Unlike SQLite's log, the table has one row for each address. A farm reads it by bucket, and the epoch of a row's owner decides between two nodes
//! that both believe to own the address.

use tokio_postgres::Row;

use crate::limits;
use crate::record::{BindingRow, BindingWrite, WriteDone};

use super::connection::{Connection, Values, micros, values};
use super::failure::Failure;

/// The row of an owner whose epoch is over changes nothing, should it come after those of the next owner. A node outside a farm has no
/// epoch and no other owner beside it.
pub(super) const SET: &str = "INSERT INTO binding (bucket, aor, seq, epoch, written_at, record) \
    SELECT * FROM unnest($1::smallint[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bytea[]) \
    ON CONFLICT (bucket, aor) DO UPDATE SET seq = excluded.seq, epoch = greatest(binding.epoch, excluded.epoch), \
    written_at = excluded.written_at, record = excluded.record \
    WHERE binding.epoch <= excluded.epoch OR excluded.epoch = 0";

/// A set that became empty is a deletion. Finds the addresses of which a later owner has written a row.
pub(super) const DELETE: &str = "WITH given AS (\
    SELECT * FROM unnest($1::smallint[], $2::text[], $3::bigint[]) AS given (bucket, aor, epoch)), \
    deleted AS (DELETE FROM binding USING given \
    WHERE binding.bucket = given.bucket AND binding.aor = given.aor \
    AND (binding.epoch <= given.epoch OR given.epoch = 0)) \
    SELECT given.bucket, given.aor FROM binding JOIN given USING (bucket, aor) \
    WHERE given.epoch > 0 AND binding.epoch > given.epoch";

/// The addresses of which a later owner has written a row.
const LATER: &str = "SELECT binding.bucket, binding.aor \
    FROM binding JOIN unnest($1::smallint[], $2::text[], $3::bigint[]) AS given (bucket, aor, epoch) \
    ON binding.bucket = given.bucket AND binding.aor = given.aor \
    WHERE given.epoch > 0 AND binding.epoch > given.epoch";

/// A bucket and an address in it.
pub(super) type InBucket = (u16, Box<str>);

/// A row of [`DELETE`] or [`LATER`].
pub(super) fn in_bucket(row: &Row) -> Result<InBucket, Failure> {
    Ok((row.try_get::<_, i16>(0)?.cast_unsigned(), row.try_get(1)?))
}

/// Columns of rows to write, one of each address, in one order in all transactions: two that write the same rows wait for each other
/// instead of deadlocking.
#[derive(Default)]
pub(super) struct Columns<'a> {
    /// Numbers without a sign, kept as they are in the signed type of the column.
    pub(super) buckets: Vec<i16>,
    pub(super) aors: Vec<&'a str>,
    pub(super) seqs: Vec<i64>,
    pub(super) epochs: Vec<i64>,
    pub(super) times: Vec<i64>,
    pub(super) records: Vec<&'a [u8]>,
}

impl<'a> Columns<'a> {
    pub(super) fn push(&mut self, row: &'a BindingWrite, seq: i64) {
        self.buckets.push(row.bucket.cast_signed());
        self.aors.push(&row.aor);
        self.seqs.push(seq);
        self.epochs.push(row.epoch.cast_signed());
        self.times.push(micros(row.written_at));
        self.records.push(&row.record);
    }

    pub(super) fn len(&self) -> usize {
        self.aors.len()
    }

    /// The addresses of which a later owner has written a row.
    pub(super) fn with_later_owner(&self, connection: &mut Connection) -> Result<Vec<InBucket>, Failure> {
        let rows = connection.query(LATER, values![self.buckets, self.aors, self.epochs])?;
        rows.iter().map(in_bucket).collect()
    }
}

/// Rows in which nothing can live any more, as nothing is granted for so long.
pub(super) fn clean(connection: &mut Connection, before: i64) -> Result<WriteDone, Failure> {
    let sql = "DELETE FROM binding WHERE ctid = ANY(ARRAY(SELECT ctid FROM binding WHERE written_at < $1 LIMIT $2))";
    let rows = connection.execute(sql, values![before, i64::from(limits::CLEAN_CHUNK)])?;
    Ok(WriteDone::Changed { rows })
}

/// A page of the addresses of some buckets. Each bucket is a range of the primary key, and the server goes through them in the order of
/// the array until the page is full: sorted as a whole, each page would cost the rows of all of them.
const PAGE: &str = "SELECT found.aor, found.seq, found.record \
    FROM unnest($1::smallint[]) WITH ORDINALITY AS wanted (bucket, place) CROSS JOIN LATERAL ( \
    SELECT aor, seq, record FROM binding WHERE binding.bucket = wanted.bucket \
    AND aor > CASE WHEN wanted.place = 1 THEN $2::text ELSE '' END ORDER BY aor LIMIT $3) AS found LIMIT $3";

pub(super) fn of_buckets(
    connection: &mut Connection,
    buckets: &[u16],
    after: &str,
) -> Result<Vec<BindingRow>, Failure> {
    let numbers: Vec<i16> = buckets.iter().map(|bucket| bucket.cast_signed()).collect();
    read_rows(connection, PAGE, values![numbers, after, i64::from(limits::BINDINGS_LOADED)])
}

/// The row of one address, which is needed before those of its bucket have all been read.
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
