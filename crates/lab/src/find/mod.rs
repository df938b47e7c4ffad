//! `ringer find`: the highest rate, or number of open calls or of users, that a server carries without a failure.

mod args;
mod run;
pub mod search;
pub mod table;
mod users;

pub use args::{FindArguments, OPTIONS, USER_OPTIONS};
pub use run::{SearchResult, Searcher};
