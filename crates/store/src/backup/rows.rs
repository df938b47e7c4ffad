//! Rows as bytes: each value is a kind, and behind it eight bytes of an integer, or a length of four and so many bytes.

use std::borrow::Cow;

use crate::copy::{Row, Table};
use crate::value::Value;

use super::stream::TableHeader;

const NULL: u8 = 0;
const INTEGER: u8 = 1;
const TEXT: u8 = 2;
const BYTES: u8 = 3;

pub(super) fn encode(rows: &[Row]) -> Vec<u8> {
    let mut out = Vec::new();
    for value in rows.iter().flatten() {
        match value {
            Value::Null => out.push(NULL),
            Value::Integer(value) => {
                out.push(INTEGER);
                out.extend_from_slice(&value.to_be_bytes());
            }
            Value::Text(text) => push(&mut out, TEXT, text.as_bytes()),
            Value::Bytes(bytes) => push(&mut out, BYTES, bytes),
        }
    }
    out
}

/// A longer value than the length can say makes a record that is refused when it is written.
fn push(out: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    out.push(kind);
    out.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// `None`: the bytes are no rows of so many columns.
pub(super) fn decode(mut bytes: &[u8], columns: usize) -> Option<Vec<Row>> {
    let mut rows = Vec::new();
    while !bytes.is_empty() {
        let mut row = Row::new();
        for _ in 0..columns {
            row.push(take_value(&mut bytes)?);
        }
        rows.push(row);
    }
    Some(rows)
}

fn take_value(bytes: &mut &[u8]) -> Option<Value<'static>> {
    let (kind, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(match *kind {
        NULL => Value::Null,
        INTEGER => {
            let (value, rest) = bytes.split_first_chunk::<8>()?;
            *bytes = rest;
            Value::Integer(i64::from_be_bytes(*value))
        }
        TEXT => Value::Text(Cow::Owned(String::from_utf8(take_bytes(bytes)?.to_vec()).ok()?)),
        BYTES => Value::Bytes(Cow::Owned(take_bytes(bytes)?.to_vec())),
        _ => return None,
    })
}

fn take_bytes<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (value, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    *bytes = rest;
    Some(value)
}

/// A column that a migration has added, with the value that rows of backups from before it get.
pub(super) struct AddedColumn {
    pub(super) table: &'static str,
    pub(super) column: &'static str,
    pub(super) value: Value<'static>,
}

/// Columns that were added since there are backups.
pub(super) const ADDED: &[AddedColumn] =
    &[AddedColumn { table: "kept_message", column: "expires_at", value: Value::Null }];

/// How a table's rows in a backup become rows of this program.
#[derive(Debug)]
pub(super) struct Layout {
    /// Columns of the backup.
    width: usize,
    /// For each column of this program its place in the backup, or its value.
    places: Vec<Result<usize, Value<'static>>>,
}

impl Layout {
    /// # Errors
    /// The text says which column does not fit.
    pub(super) fn new(table: &Table, header: &TableHeader, added: &[AddedColumn]) -> Result<Layout, String> {
        if let Some(unknown) = header.columns.iter().find(|name| !table.columns.contains(&&***name)) {
            return Err(format!("the column {unknown} of {} is of a later version", table.name));
        }
        let place = |column: &&'static str| {
            if let Some(place) = header.columns.iter().position(|name| **name == **column) {
                return Ok(Ok(place));
            }
            let added = added.iter().find(|added| added.table == table.name && added.column == *column);
            let added = added.ok_or_else(|| format!("{} has no column {column}", table.name))?;
            Ok(Err(added.value.clone()))
        };
        let places = table.columns.iter().map(place).collect::<Result<_, String>>()?;
        Ok(Layout { width: header.columns.len(), places })
    }

    /// `None`: the bytes are no rows of this table.
    pub(super) fn read(&self, bytes: &[u8]) -> Option<Vec<Row>> {
        let rows = decode(bytes, self.width)?;
        let value = |row: &mut Row, place: &Result<usize, Value<'static>>| match place {
            Ok(place) => {
                row.get_mut(*place).map_or(Value::Null, |value| std::mem::replace(value, Value::Null))
            }
            Err(value) => value.clone(),
        };
        let row = |mut row: Row| self.places.iter().map(|place| value(&mut row, place)).collect();
        Some(rows.into_iter().map(row).collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::copy::TABLES;

    use super::*;

    fn any_value() -> impl Strategy<Value = Value<'static>> {
        prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::Integer),
            ".{0,20}".prop_map(|text| Value::Text(text.into())),
            proptest::collection::vec(any::<u8>(), 0..40).prop_map(|bytes| Value::Bytes(bytes.into())),
        ]
    }

    proptest! {
        #[test]
        fn rows_come_back_as_they_were(
            rows in proptest::collection::vec(proptest::collection::vec(any_value(), 3), 0..20),
        ) {
            prop_assert!(decode(&encode(&rows), 3) == Some(rows));
        }

        #[test]
        fn any_bytes_are_rows_or_none(bytes in proptest::collection::vec(0..5_u8, 0..60), columns in 1..4_usize) {
            if let Some(rows) = decode(&bytes, columns) {
                prop_assert!(rows.iter().all(|row| row.len() == columns));
                prop_assert_eq!(encode(&rows), bytes);
            }
        }
    }

    fn header(columns: &[&str]) -> TableHeader {
        TableHeader { name: "domain".into(), columns: columns.iter().map(|name| (*name).into()).collect() }
    }

    #[test]
    fn columns_are_found_by_name_and_added_ones_get_their_value() {
        let domain = &TABLES[0];
        assert_eq!(domain.columns, ["id", "name", "created_at"]);
        let added = [AddedColumn { table: "domain", column: "created_at", value: Value::Integer(7) }];
        let layout = Layout::new(domain, &header(&["name", "id"]), &added).unwrap();
        let rows = encode(&[vec![Value::text("example.org"), Value::Integer(3)]]);
        let expected = vec![Value::Integer(3), Value::text("example.org"), Value::Integer(7)];
        assert!(layout.read(&rows) == Some(vec![expected]));
        assert_eq!(
            Layout::new(domain, &header(&["name", "id"]), ADDED).unwrap_err(),
            "domain has no column created_at"
        );
        let later = header(&["id", "name", "created_at", "owner"]);
        assert_eq!(
            Layout::new(domain, &later, ADDED).unwrap_err(),
            "the column owner of domain is of a later version"
        );
    }
}
