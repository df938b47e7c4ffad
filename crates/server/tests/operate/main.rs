//! What an operator touches, from outside: the built binary, with and without a node.

mod check;
mod fake;
mod node;
mod place;
mod protocol;
mod record;
