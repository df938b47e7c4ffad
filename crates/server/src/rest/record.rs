//! The node's database, as handlers of REST read and write it: each call waits for the store. A write tells the shards what it changes for
//! them before it returns.
//! (`node::changes`): a number that was bound is answered as soon as the client has its 201.

use std::sync::{Arc, Mutex, PoisonError};

use admin::Repository;
use cluster::Outlet;
use store::{Address, Loaded, Notice, Read, Service, StoreError, Write, WriteDone};
use tokio::sync::Notify;
use voice::Numbers;
use voice_io::VoiceShardMessage;
use web_console::NumberSource;

use crate::message::{InboxMessage, LocalMessage};
use crate::node::changes::tell_shards;
use crate::node::{Node, StoreCompletions};

/// The `admin::Repository` of the node. Not for threads that run tasks.
pub(crate) struct Record {
    store: Arc<Service>,
    desk: Arc<StoreCompletions>,
    outlets: Vec<Outlet<InboxMessage>>,
    config: config::Voice,
    /// The numbers that the shards have; none: they have those of the start. Held while bindings are read and sent, so
    /// that the last ones read are the last ones sent.
    numbers: Mutex<Option<Arc<Numbers>>>,
    /// The shards may have old numbers: they are to be read again.
    due: Notify,
}

impl Record {
    pub(super) fn new(node: &Node) -> Record {
        Record {
            store: Arc::clone(&node.store),
            desk: Arc::clone(&node.desk),
            outlets: node.outlets.clone(),
            config: node.shared.config.voice.clone(),
            numbers: Mutex::default(),
            due: Notify::new(),
        }
    }

    /// Wakes when the shards may have old numbers.
    pub(super) fn due(&self) -> &Notify {
        &self.due
    }

    /// Gives the shards the bindings that are in the database.
    ///
    /// # Errors
    /// The database cannot be read now. The shards keep the numbers that they have.
    pub(super) fn refresh(&self) -> Result<(), StoreError> {
        if !self.config.is_on() {
            return Ok(());
        }
        // Without the lock two writers could read 1 and 2 and send 2 and 1, and the shards would keep the older
        // list.
        let mut held = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let numbers = self.load_numbers()?;
        *held = Some(Arc::clone(&numbers));
        for outlet in &self.outlets {
            // Beyond the inbox's bound: a shard that missed it would answer calls by old numbers until
            // the next change.
            let message = VoiceShardMessage::Numbers(Arc::clone(&numbers));
            outlet.answer_all(&mut vec![LocalMessage::Voice(message).into()]);
        }
        Ok(())
    }

    fn load_numbers(&self) -> Result<Arc<Numbers>, StoreError> {
        Numbers::load(&self.config.number_settings(), self).map(Arc::new)
    }

    /// Writes and waits. A store that takes nothing now counts as closed.
    /// Waiting blocks the thread; handlers of REST run on the blocking pool.
    fn put(&self, write: Write) -> Result<WriteDone, StoreError> {
        let begun = self.desk.begin_write(|ticket| self.store.write(write, ticket));
        let answer = begun.map_err(|store::Busy| StoreError::Closed)?;
        answer.blocking_recv().unwrap_or(Err(StoreError::Closed))
    }

    /// The aliases under which shards may have cached what a write changes.
    fn aliases(&self, write: &Write) -> Vec<Address> {
        // Before the write: a removed account takes its aliases with it, and then they could not be found.
        let Some(account) = Notice::account_with_aliases(write) else { return Vec::new() };
        match self.read(Read::Aliases { account: Some(account.clone()) }) {
            Ok(Loaded::Aliases(aliases)) => aliases.into_iter().map(|alias| alias.alias).collect(),
            _ => Vec::new(),
        }
    }
}

impl NumberSource for Record {
    fn numbers(&self) -> Result<Arc<Numbers>, StoreError> {
        let mut held = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(numbers) = &*held {
            return Ok(Arc::clone(numbers));
        }
        let numbers = self.load_numbers()?;
        *held = Some(Arc::clone(&numbers));
        Ok(numbers)
    }
}

impl Repository for Record {
    fn read(&self, read: Read) -> Result<Loaded, StoreError> {
        let begun = self.desk.begin_read(|ticket| self.store.read(read, ticket));
        let answer = begun.map_err(|store::Busy| StoreError::Closed)?;
        answer.blocking_recv().unwrap_or(Err(StoreError::Closed))
    }

    /// The shards know of it before this returns: a client that has bound a number may call it at once.
    fn write(&self, write: Write) -> Result<WriteDone, StoreError> {
        let (notice, aliases) = (Notice::of(&write), self.aliases(&write));
        let done = self.put(write)?;
        let changes_numbers = notice == Some(Notice::Numbers) || done.changes_clients();
        // The write is done, so the client has its answer.
        if changes_numbers && self.refresh().is_err() {
            self.due.notify_one();
        }
        if let Some(notice) = &notice {
            tell_shards(&self.outlets, notice, &aliases, Some(&done));
        }
        Ok(done)
    }
}
