//! Addresses that are looked up ([`super::Wish::Resolve`]), and what for.

use std::collections::HashMap;

use stdx::Instant;
use stdx::slab::Key;

use super::{Resolved, Voice, World};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A text goes there; it has the ticket's number.
    Text,
    /// That party is called.
    Party(Key),
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

    pub(super) fn get(&self, ticket: u64) -> Option<What> {
        self.open.get(&ticket).copied()
    }

    pub(super) fn take(&mut self, ticket: u64) -> Option<What> {
        self.open.remove(&ticket)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }
}

impl Voice {
    /// What `Wish::Resolve` came to.
    pub(crate) fn handle_resolved(
        &mut self,
        now: Instant,
        ticket: u64,
        resolved: Resolved,
        world: &mut World<'_>,
    ) {
        match self.resolving.take(ticket) {
            Some(What::Text) => self.text_resolved(now, ticket, resolved, world),
            Some(What::Party(key)) => self.party_resolved(now, key, resolved, world),
            // Whoever asked is gone.
            None => {}
        }
    }
}
