//! The operator's interfaces, from outside: the built binary, with and without a node.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod backup;
mod chat;
mod check;
mod copy;
mod disk;
mod fake;
mod import;
mod list;
mod moved;
mod node;
mod place;
mod protocol;
mod psql;
mod record;
mod serve;
