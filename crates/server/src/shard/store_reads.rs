//! A shard's reads of the store for its endpoint and its router: accounts, which are cached, and kept messages. The router
//! numbers its writes itself, in another table; chat has numbers of its own (`request_origin`). Results come by
//! `LocalMessage::Loaded` to `Shard::handle_loaded`; the answers of owners, which an edge without a database asks, by `edge_accounts`.
//!
//! Invariant: every read that the store has taken ends in `handle_account` or `take_kept`, by its ticket; one
//! that it refuses is told to the caller at once.

use std::collections::HashMap;
use std::sync::Arc;

use stdx::Instant;
use store::{Read, Service, Ticket};

use super::AccountSource;
use super::accounts::{Accounts, CachedAccount, EndedRead, Question};
use crate::limits;
use crate::outage_log::OutageLog;

/// The reads under way, by ticket, and the cache of accounts.
pub(super) struct StoreReads {
    store: Arc<Service>,
    /// The shard's number, to which the store answers.
    sink: u16,
    last_ticket: u64,
    accounts: Accounts,
    /// The reads of accounts that the store gets at the end of the turn.
    to_read: Vec<(Read, Ticket)>,
    /// The addresses whose kept messages are read.
    kept: HashMap<u64, Box<str>>,
    /// The node has no accounts: the owners are asked, not the store.
    asks_owners: bool,
    /// The accounts that owners are to be asked for, by the ticket of the read.
    to_ask: Vec<(u64, Box<str>)>,
    /// The lines about failed reads.
    pub(super) log: OutageLog,
}

impl StoreReads {
    pub(super) fn new(store: Arc<Service>, sink: u16, source: AccountSource) -> StoreReads {
        let accounts = Accounts::new(limits::CACHED_ACCOUNTS, source != AccountSource::File);
        let (kept, asks_owners) = (HashMap::new(), source == AccountSource::Owners);
        StoreReads {
            store,
            sink,
            last_ticket: 0,
            accounts,
            to_read: Vec::new(),
            kept,
            asks_owners,
            to_ask: Vec::new(),
            log: OutageLog::default(),
        }
    }

    /// True if owners are asked for accounts.
    pub(super) fn asks_owners(&self) -> bool {
        self.asks_owners
    }

    /// The accounts that owners are to be asked for since the last time, by the ticket of the read.
    pub(super) fn take_to_ask(&mut self) -> Vec<(u64, Box<str>)> {
        std::mem::take(&mut self.to_ask)
    }

    pub(super) fn accounts(&mut self) -> &mut Accounts {
        &mut self.accounts
    }

    /// The time at which requests that wait for the database have something to do.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.accounts.deadline()
    }

    /// The number of accounts in the cache.
    pub(super) fn cached(&self) -> usize {
        self.accounts.len()
    }

    /// The ticket of the next read.
    pub(super) fn next_ticket(&mut self) -> Ticket {
        self.last_ticket += 1;
        Ticket { sink: self.sink, id: self.last_ticket }
    }

    /// Reads an account that is not cached, unless a read is under way already. The store gets the reads of a turn together by
    /// [`flush_accounts`](Self::flush_accounts): waking a reader thread costs more than a read.
    pub(super) fn read_account(
        &mut self,
        question: Question,
        address: &str,
        user: Box<str>,
        domain: Box<str>,
    ) {
        let to = self.next_ticket();
        // A read of the same address is under way: its answer is for this query, too. The unused ticket is
        // simply skipped.
        if !self.accounts.wait(address, question, to.id) {
            return;
        }
        if self.asks_owners {
            self.to_ask.push((to.id, address.into()));
        } else {
            self.to_read.push((Read::Account { user, domain }, to));
        }
    }

    /// Gives the store the reads of accounts since the last time. Returns the ends of those that it refuses, as it has too much to do.
    pub(super) fn flush_accounts(&mut self, now: Instant) -> Vec<EndedRead> {
        if self.to_read.is_empty() {
            return Vec::new();
        }
        let refused = self.store.read_all(&mut self.to_read);
        refused.into_iter().filter_map(|ticket| self.accounts.refused(now, ticket.id)).collect()
    }

    /// The account as it was read before, while the database is away or slow. It is read again as `Accounts::may_try` says.
    pub(super) fn outdated_account(&mut self, now: Instant, address: &str) -> CachedAccount {
        let account = self.accounts.outdated(now, address)?;
        if self.accounts.may_try(address) {
            let (to, (user, domain)) = (self.next_ticket(), address.rsplit_once('@')?);
            if self.asks_owners {
                self.accounts.try_again(now, address, to.id);
                self.to_ask.push((to.id, address.into()));
                return Some(account);
            }
            let read = Read::Account { user: user.into(), domain: domain.into() };
            if self.store.read(read, to).is_ok() {
                self.accounts.try_again(now, address, to.id);
            }
        }
        Some(account)
    }

    /// Ends the wait for an account; `None` when it could not be read.
    pub(super) fn handle_account(
        &mut self,
        now: Instant,
        ticket: u64,
        known: Option<CachedAccount>,
    ) -> Option<EndedRead> {
        self.accounts.loaded(now, ticket, known)
    }

    /// Reads the messages that are kept for an address.
    ///
    /// # Errors
    /// The address, if the store refuses.
    pub(super) fn read_kept(&mut self, aor: Box<str>) -> Result<(), Box<str>> {
        let to = self.next_ticket();
        if self.store.read(Read::KeptMessages { aor: aor.clone() }, to).is_err() {
            return Err(aor);
        }
        self.kept.insert(to.id, aor);
        Ok(())
    }

    /// The address of a read of kept messages that has ended.
    pub(super) fn take_kept(&mut self, ticket: u64) -> Option<Box<str>> {
        self.kept.remove(&ticket)
    }
}
