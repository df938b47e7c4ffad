//! The store as chat uses it: chat's data as the store's rows ([`rows`]), the keys by which accounts sign in ([`keys`]), hashes of
//! invitations, and the database itself, which removes an account's traces from chat's data ([`database`]).
//!
//! The shards and the commands of the program use the same conversions: a command without a node writes what a node would write.

#![warn(missing_docs)]

pub mod database;
pub mod invitation;
pub mod keys;
pub mod rows;
