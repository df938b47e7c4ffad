//! The numbers of all shards, put up by each twice a second and read by status and metrics.
//!
//! A lock for a moment twice a second is cheaper than counters that all threads write. Readers get copies, so a
//! slow reader of metrics never holds up a shard.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use net::NetCounters;
use stdx::Instant;
use stdx::latency::LatencyHistogram;
use voice_io::ShardVoice;

use super::Shard;
use super::farm::FarmAdapter;

/// One shard's numbers at one moment.
#[derive(Clone, Debug, Default)]
pub struct ShardStatus {
    /// The time of the numbers.
    pub at: Instant,
    /// Counters of SIP.
    pub sip: sip::endpoint::Counters,
    /// Counters of the sockets.
    pub net: NetCounters,
    /// Figures of the links to other nodes; zero at shards that have none.
    pub links: farm::links::LinkCounters,
    /// Numbers of the addresses that the shard owns.
    pub router: router::Counts,
    /// Numbers of calls with call records.
    pub calls: call::LedgerCounts,
    /// Transactions, also those that only wait for their last timer.
    pub transactions: usize,
    /// Requests that a final response is still owed for.
    pub contexts: usize,
    /// Accounts in the cache.
    pub cached_accounts: usize,
    /// Lengths of turns in which there was something to do.
    pub turns: LatencyHistogram,
    /// Numbers of applications' calls.
    pub voice: ::voice::VoiceCounts,
    /// Numbers of chat.
    pub xmpp: crate::xmpp::XmppCounts,
}

/// The counters that shards write and status requests read.
#[derive(Debug, Default)]
pub struct StatusBoard {
    /// By the number of the shard; as old as half a second.
    shards: Mutex<Vec<ShardStatus>>,
    /// The targets of routes that are out, as the one shard that probes them has reported.
    down: Mutex<Vec<String>>,
    // Counters since the start, see `faults`.
    panics: AtomicU64,
    lost_messages: AtomicU64,
    lost_records: AtomicU64,
}

impl StatusBoard {
    /// Builds the board of so many shards.
    pub fn new(shards: usize) -> Self {
        StatusBoard { shards: Mutex::new(vec![ShardStatus::default(); shards]), ..Default::default() }
    }

    /// Returns the latest counters of each shard.
    pub fn shards(&self) -> Vec<ShardStatus> {
        self.shards.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Targets of routes that do not answer their probes.
    pub fn down(&self) -> Vec<String> {
        self.down.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Messages that made a core panic, messages that found an inbox full, call records and rows of calls that the database or the files of
    /// calls did not take. All three are 0 on a healthy node.
    pub fn faults(&self) -> (u64, u64, u64) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (read(&self.panics), read(&self.lost_messages), read(&self.lost_records))
    }

    pub(super) fn count_panic(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_lost_messages(&self, count: usize) {
        self.lost_messages.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn count_lost_records(&self, count: usize) {
        self.lost_records.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(super) fn set_down(&self, down: Vec<String>) {
        *self.down.lock().unwrap_or_else(PoisonError::into_inner) = down;
    }

    pub(super) fn put(&self, shard: u16, status: ShardStatus) {
        let mut shards = self.shards.lock().unwrap_or_else(PoisonError::into_inner);
        // The newest counts; what was not read is not missed, as counters only grow.
        if let Some(place) = shards.get_mut(usize::from(shard)) {
            *place = status;
        }
    }
}

impl ShardStatus {
    pub(super) fn of(shard: &Shard, now: Instant) -> ShardStatus {
        let parts = &shard.parts;
        let (transactions, contexts) = parts.endpoint.load();
        let voice = shard.voice.as_ref().map(ShardVoice::counts).unwrap_or_default();
        // Dialogs of calls are the endpoint's; the calls themselves do not count them.
        let sessions = parts.endpoint.session_counts().sessions as u64;
        let voice = ::voice::VoiceCounts { sessions, ..voice };
        ShardStatus {
            at: now,
            sip: parts.endpoint.counters().clone(),
            net: shard.io.counters(),
            links: shard.farm.as_ref().map(FarmAdapter::counters).unwrap_or_default(),
            router: parts.router.counts(),
            calls: shard.records.counts(),
            transactions,
            contexts,
            cached_accounts: shard.reads.cached(),
            turns: *shard.load.turns(),
            voice,
            xmpp: shard.xmpp.as_ref().map(|adapter| adapter.xmpp.counts()).unwrap_or_default(),
        }
    }
}
