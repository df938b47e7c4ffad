//! Programmable voice: what the shards do for calls that reach an application.

pub(crate) mod helpers;
