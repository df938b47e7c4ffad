//! The accounts a shard has asked the store for, kept for a while.

use std::collections::HashMap;
use std::time::Duration;

use router::AskId;
use stdx::Instant;
use stdx::cache::Cache;

/// An account as it was read; `None` for an address that is nobody's, so that guessing is cheap for us too.
pub(crate) type Known = Option<Box<store::Account>>;

/// How long an entry is believed without asking again. Changes through this node void it at once; this is
/// for those made behind its back.
const LIFETIME: Duration = Duration::from_secs(60);

pub(crate) struct Accounts {
    cache: Cache<Box<str>, Known>,
    /// Who waits for a read that is under way, by address.
    waiting: HashMap<Box<str>, Vec<AskId>>,
    /// Reads under way, by ticket.
    reads: HashMap<u64, Box<str>>,
}

impl Accounts {
    pub(crate) fn new(capacity: usize) -> Self {
        Accounts { cache: Cache::new(capacity), waiting: HashMap::new(), reads: HashMap::new() }
    }

    pub(crate) fn get(&mut self, now: Instant, address: &str) -> Option<&Known> {
        self.cache.get_at(now, address)
    }

    /// Notes that `id` waits. True when the store must be asked, under `ticket`.
    pub(crate) fn wait(&mut self, address: &str, id: AskId, ticket: u64) -> bool {
        if let Some(waiting) = self.waiting.get_mut(address) {
            waiting.push(id);
            return false;
        }
        self.waiting.insert(address.into(), vec![id]);
        self.reads.insert(ticket, address.into());
        true
    }

    /// The answer to a read: what is known now, and who waited for it.
    pub(crate) fn loaded(&mut self, now: Instant, ticket: u64, known: Option<Known>) -> Option<Vec<AskId>> {
        let address = self.reads.remove(&ticket)?;
        let waiting = self.waiting.remove(&address).unwrap_or_default();
        if let Some(known) = known {
            self.cache.insert_until(now + LIFETIME, address, known);
        }
        Some(waiting)
    }

    pub(crate) fn forget(&mut self, address: Option<&str>) {
        match address {
            Some(address) => {
                self.cache.remove(address);
            }
            None => self.cache.clear(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.cache.len()
    }
}
