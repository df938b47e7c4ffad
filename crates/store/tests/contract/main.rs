//! The contract of the record: each database passes the same tests.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod away;
mod backup;
mod copy;
mod encrypted;
mod kept;
mod notices;
mod ownership;
mod postgres;
mod postgres_18;
#[path = "../../../../tests/interop/src/postgres.rs"]
#[expect(unreachable_pub, reason = "the tests with peers use it as a module of a library")]
mod server;
mod sqlite;
