//! Call control from outside: plans, health and the ledger as transcripts and against naive models.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod health;
mod ledger;
mod plan;
