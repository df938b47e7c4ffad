//! Calls in virtual time: two scenarios that talk to each other over a network that loses, doubles and reorders.

mod acting;
mod challenges;
mod failures;
mod late_requests;
mod matching;
mod world;
