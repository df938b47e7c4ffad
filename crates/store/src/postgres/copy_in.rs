//! Rows for `COPY … FROM STDIN BINARY`, and back: values that the column's type gives their form.

use std::error::Error;

use bytes::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::value::Value;

use super::connection::text;

impl ToSql for Value<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Value::Null => Ok(IsNull::Yes),
            Value::Integer(value) => match *ty {
                Type::BOOL => (*value != 0).to_sql(ty, out),
                Type::INT2 => i16::try_from(*value)?.to_sql(ty, out),
                Type::INT4 => i32::try_from(*value)?.to_sql(ty, out),
                Type::INT8 => value.to_sql(ty, out),
                _ => Err(misfit(ty)),
            },
            Value::Text(value) if *ty == Type::TEXT => text(value).to_sql(ty, out),
            Value::Bytes(value) if *ty == Type::BYTEA => value.to_sql(ty, out),
            Value::Text(_) | Value::Bytes(_) => Err(misfit(ty)),
        }
    }

    fn accepts(ty: &Type) -> bool {
        matches!(*ty, Type::BOOL | Type::INT2 | Type::INT4 | Type::INT8 | Type::TEXT | Type::BYTEA)
    }

    to_sql_checked!();
}

impl FromSql<'_> for Value<'static> {
    fn from_sql(ty: &Type, raw: &[u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(match *ty {
            Type::BOOL => Value::Integer(bool::from_sql(ty, raw)?.into()),
            Type::INT2 => Value::Integer(i16::from_sql(ty, raw)?.into()),
            Type::INT4 => Value::Integer(i32::from_sql(ty, raw)?.into()),
            Type::INT8 => Value::Integer(i64::from_sql(ty, raw)?),
            Type::TEXT => Value::Text(String::from_sql(ty, raw)?.into()),
            Type::BYTEA => Value::Bytes(Vec::from_sql(ty, raw)?.into()),
            _ => return Err(misfit(ty)),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Value::Null)
    }

    fn accepts(ty: &Type) -> bool {
        <Value<'_> as ToSql>::accepts(ty)
    }
}

/// The tables of the two databases differ: a defect of ours.
fn misfit(ty: &Type) -> Box<dyn Error + Sync + Send> {
    format!("a value that does not fit a column of type {ty}").into()
}
