//! Farms of nodes under faults, in virtual time.
//!
//! The promises, checked in every run: at most one owner serves a bucket in an epoch; no row of a smaller epoch comes after one of a
//! larger; every acknowledged row is in the database and in the memory of the owner; a chat message that a living
//! node took is delivered once, in order, or given back. When the faults end, all buckets are served again within `RECOVERY`, and nothing
//! stays behind.
//!
//! `SIM_SEED=17` runs one seed, `FARM_SEEDS=10000` more of them than the gate does.

mod broken;
mod chaos;
mod lives;
mod scenarios;
