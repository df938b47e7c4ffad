//! Addresses that are looked up ([`super::Wish::Resolve`]), and what for.

use std::collections::HashMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A text goes there; it has the ticket's number.
    Text,
}

#[derive(Default)]
pub(super) struct Resolving {
    last: u64,
    open: HashMap<u64, What>,
}

impl Resolving {
    /// A ticket.
    pub(super) fn add(&mut self, what: What) -> u64 {
        self.last += 1;
        self.open.insert(self.last, what);
        self.last
    }

    pub(super) fn take(&mut self, ticket: u64) -> Option<What> {
        self.open.remove(&ticket)
    }
}
