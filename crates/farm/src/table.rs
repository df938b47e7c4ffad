//! A small table that all nodes of a farm see alike, beside the council's own keys: a third key-value store, `FARM-shared`, which forgets nothing. Its values are
//! encrypted with a key made of the farm's secret, so that a reader of the council's files or its traffic does not have them.
//!
//! It has a connection of its own: what waits here hinders no renewal of the node's lease. Reads are of the copy that the watch keeps; while the council is
//! away they are of the last one, and writes fail.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::Duration;

use async_nats::jetstream;
use async_nats::jetstream::kv::{Operation, Store};
use futures_util::StreamExt as _;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::council::keys::{Fault, Swap, swap};
use crate::council::{CouncilSettings, REQUEST_TIMEOUT, RETRY_PAUSE, connect, open_store, watch_all};
use crate::secret::SealingKey;

/// Bytes of a value: a chain of certificates with its key has some ten thousand. A longer one is not written.
const MAX_VALUE: usize = 256 << 10;

/// The table of one farm. On one thread.
pub struct SharedTable {
    settings: CouncilSettings,
    key: SealingKey,
    entries: RefCell<HashMap<Box<str>, TableEntry>>,
    /// None: the council is away.
    store: RefCell<Option<Store>>,
    changed: Notify,
    /// The number of changes so far, so that none is missed between two waits.
    changes: Cell<u64>,
}

/// A value with its revision, which the next write names.
#[derive(Clone, PartialEq, Eq)]
pub struct TableEntry {
    /// The revision of the write.
    pub revision: u64,
    /// None: it cannot be decrypted.
    pub value: Option<Vec<u8>>,
}

impl SharedTable {
    /// A table that is empty until [`run`](SharedTable::run) has read it.
    pub fn new(settings: CouncilSettings, key: SealingKey) -> SharedTable {
        SharedTable {
            settings,
            key,
            entries: RefCell::default(),
            store: RefCell::default(),
            changed: Notify::new(),
            changes: Cell::new(0),
        }
    }

    /// The entry as it was seen last.
    pub fn get(&self, name: &str) -> Option<TableEntry> {
        self.entries.borrow().get(name).cloned()
    }

    /// The number of changes that were seen so far; 0 until the table was there for the first time.
    pub fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// Waits until there were more changes than these.
    pub async fn changed(&self, seen: u64) {
        // On one thread nothing changes between the look and the wait.
        while self.changes.get() == seen {
            self.changed.notified().await;
        }
    }

    /// Replaces a value whose revision is still this; 0: there is none. `false`: another write came before.
    ///
    /// # Errors
    /// The council does not answer: whether the value is written shows later.
    pub async fn swap(&self, name: &str, revision: u64, value: &[u8]) -> Result<bool, Fault> {
        if value.len() > MAX_VALUE {
            return Err("the value is too long for the farm's table".into());
        }
        let store = self.store.borrow().clone().ok_or("the council is away")?;
        let sealed = self.key.seal(name, value).ok_or("a value cannot be encrypted")?;
        let swapped = timeout(REQUEST_TIMEOUT * 2, swap(&store, name, sealed.into(), revision));
        match swapped.await.map_err(|_| "the council does not answer")?? {
            Swap::Done(revision) => {
                self.put(name, revision, Some(value.to_vec()));
                Ok(true)
            }
            Swap::Refused => Ok(false),
        }
    }

    /// Keeps the copy up to date, until dropped.
    pub async fn run(&self) {
        loop {
            if let Err(reason) = self.follow().await {
                tracing::debug!(reason = &*reason, "the table of the farm is not there");
            }
            self.store.replace(None);
            sleep(RETRY_PAUSE).await;
        }
    }

    async fn follow(&self) -> Result<(), Fault> {
        let (client, connected) = connect(&self.settings).await?;
        let mut context = jetstream::new(client);
        context.set_timeout(REQUEST_TIMEOUT);
        let store = open_store(&context, &self.settings, "shared", Duration::ZERO).await?;
        let mut watch = watch_all(&store).await?;
        self.store.replace(Some(store));
        // The table is there: those that wait for it go on.
        self.note_change();
        loop {
            let mut connected = connected.clone();
            tokio::select! {
                entry = watch.next() => {
                    let entry = entry.ok_or("the watch of the table ended")?.map_err(|error| error.to_string())?;
                    let value = match entry.operation {
                        Operation::Put => self.key.open(&entry.key, &entry.value),
                        Operation::Delete | Operation::Purge => None,
                    };
                    self.put(&entry.key, entry.revision, value);
                }
                lost = connected.wait_for(|connected| !connected) => {
                    lost.map_err(|error| error.to_string())?;
                    // Another connection and watch: revisions of a council that has lost its files begin anew.
                    self.entries.borrow_mut().clear();
                    return Err("the connection was lost".into());
                }
            }
        }
    }

    fn put(&self, name: &str, revision: u64, value: Option<Vec<u8>>) {
        let mut entries = self.entries.borrow_mut();
        let known = entries.get(name).map_or(0, |entry| entry.revision);
        // The watch shows the node's own writes, too.
        if revision > known {
            entries.insert(name.into(), TableEntry { revision, value });
            drop(entries);
            self.note_change();
        }
    }

    fn note_change(&self) {
        self.changes.set(self.changes.get() + 1);
        self.changed.notify_waiters();
    }
}

/// Values may be secrets.
impl std::fmt::Debug for SharedTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedTable").field("entries", &self.entries.borrow().len()).finish_non_exhaustive()
    }
}
