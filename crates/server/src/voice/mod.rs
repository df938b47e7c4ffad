//! Programmable voice: what the shards do for calls that reach an application.

#[cfg_attr(
    not(test),
    expect(dead_code, reason = "for the shards, which do not carry calls to applications yet")
)]
pub(crate) mod helpers;
