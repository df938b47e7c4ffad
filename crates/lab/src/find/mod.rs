//! `ringer find`: the highest rate, or number of open calls, that a server carries without a failure.

mod args;
mod run;
pub mod search;
pub mod table;

pub use args::{Arguments, OPTIONS};
pub use run::{Searched, Searcher};
