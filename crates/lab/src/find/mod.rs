//! `ringer find`: the highest rate, or number of open calls or of users, that a server carries without a failure.
//!
//! `search` decides which value to try, without a clock or sockets; `run` makes each trial a whole run of the engine; `offered` tells whether
//! a run had the load that it is to judge; `table` prints a line a run; `args` and `users` read the flags.

mod args;
mod offered;
mod run;
pub mod search;
pub mod table;
mod users;

pub use args::{FindArguments, OPTIONS, USER_OPTIONS};
pub use run::{SearchResult, Searcher};
