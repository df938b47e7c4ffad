//! `ringer find`: the highest rate, or number of open calls, that a server carries without a failure.

pub mod search;
