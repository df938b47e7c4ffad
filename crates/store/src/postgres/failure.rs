//! The errors of statements.
//!
//! The SQLSTATE of an error decides: what is at fault (a value, the moment, the connection, the server), and so whether the work is done again, and
//! where. `writer` and `reader` ask the `is_of_…` functions and give what is left to [`Failure::into_store`].

use std::time::Duration;

use tokio_postgres::error::SqlState;

use crate::error::StoreError;

/// An error of a statement: the database's, or one of ours about the item.
#[derive(Debug)]
pub(super) enum Failure {
    /// An error of the server or of the connection.
    Postgres(tokio_postgres::Error),
    /// An error that our own checks have found.
    Store(StoreError),
    /// The server has not answered for so long. The connection is closed.
    Silent(Duration),
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Failure::Postgres(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Failure::Store(error)
    }
}

impl Failure {
    /// True if the database took too long to perform a statement.
    pub(super) fn is_of_time(&self) -> bool {
        matches!(self, Failure::Postgres(error) if error.code() == Some(&SqlState::QUERY_CANCELED))
    }

    /// True if the value of one write is at fault: a group is done again, each of its writes apart from the others.
    pub(super) fn is_of_value(&self) -> bool {
        matches!(self, Failure::Postgres(error) if error.code().is_some_and(is_of_value))
    }

    /// True if the same transaction may succeed when it is tried again: class 40, transaction rollback.
    pub(super) fn is_of_moment(&self) -> bool {
        matches!(self, Failure::Postgres(error) if error.code().is_some_and(|code| code.code().starts_with("40")))
    }

    /// True if the server takes no writes (SQLSTATE 25006): it has become a standby, or is read-only. Another server of the URL may take
    /// them.
    pub(super) fn is_of_standby(&self) -> bool {
        matches!(self, Failure::Postgres(error) if error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION))
    }

    /// True if the connection is no more. The server may have closed it long ago: that is noticed when it is used.
    pub(super) fn is_of_connection(&self) -> bool {
        match self {
            // SQLSTATE 57P01 to 57P03: the server ends, or ends this connection.
            Failure::Postgres(error) => {
                is_of_connection(error) || error.code().is_some_and(|code| code.code().starts_with("57P"))
            }
            // A statement that took too long once is not tried again at once.
            Failure::Store(_) | Failure::Silent(_) => false,
        }
    }

    /// `name`: the database, for messages.
    pub(super) fn into_store(self, name: &str) -> StoreError {
        match self {
            Failure::Postgres(error) => from_postgres(&error, name),
            Failure::Store(error) => error,
            Failure::Silent(patience) => {
                let detail = format!("no answer for {patience:?}");
                StoreError::Unreachable { server: name.into(), detail, is_refused: false }
            }
        }
    }
}

/// True for SQLSTATE classes 22, data exception, 23, integrity constraint violation, and 54, program limit exceeded: a name that is too long for
/// an index, for example.
fn is_of_value(code: &SqlState) -> bool {
    ["22", "23", "54"].iter().any(|class| code.code().starts_with(class))
}

/// True if the connection could not be made or is no more.
fn is_of_connection(error: &tokio_postgres::Error) -> bool {
    let is_io = |source: &(dyn std::error::Error + 'static)| source.is::<std::io::Error>();
    error.is_closed() || std::error::Error::source(error).is_some_and(is_io)
}

/// The error for the rest of the program, which knows no SQLSTATE.
fn from_postgres(error: &tokio_postgres::Error, name: &str) -> StoreError {
    let unreachable =
        |detail: String| StoreError::Unreachable { server: name.into(), detail, is_refused: false };
    let Some(fault) = error.as_db_error() else {
        if !is_of_connection(error) {
            return StoreError::Internal { detail: error.to_string() };
        }
        let cause = std::error::Error::source(error).map(ToString::to_string);
        return unreachable(cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}")));
    };
    let detail = format!("{} ({})", fault.message(), fault.code().code());
    let code = fault.code();
    if *code == SqlState::DISK_FULL {
        return StoreError::Full { path: name.into() };
    }
    if *code == SqlState::QUERY_CANCELED {
        return StoreError::invalid("a read", "one that visits fewer rows of the database");
    }
    if *code == SqlState::UNIQUE_VIOLATION {
        return StoreError::exists(detail);
    }
    if is_of_value(code) {
        return StoreError::invalid("a value", format!("one that the database takes: {detail}"));
    }
    match &code.code()[..2] {
        // Invalid authorization, no such database.
        "28" | "3D" => StoreError::Unreachable { server: name.into(), detail, is_refused: true },
        // Connection exception, insufficient resources, a lock that is held too long, operator intervention, system error; and a server that
        // takes no writes.
        "08" | "53" | "55" | "57" | "58" | "25" | "40" => unreachable(detail),
        // Data or an index that is damaged. The rest of the class is anything that the server did not expect, of its disk for
        // example.
        "XX" if matches!(code.code(), "XX001" | "XX002") => StoreError::Corrupt { path: name.into(), detail },
        "XX" => unreachable(detail),
        _ => StoreError::Internal { detail },
    }
}
