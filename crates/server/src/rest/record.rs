//! The node's record, waited for; and what a change of it means for the shards.

use std::sync::{Arc, Mutex, PoisonError};

use ::chat::SessionEndReason;
use admin::Repository;
use cluster::Outlet;
use store::rest::{Kind, RestWrite};
use store::{Address, Loaded, Read, Service, StoreError, Write, WriteDone};

use crate::config;
use crate::message::{Command, Ended, InboxMessage, LocalMessage};
use crate::node::{Node, StoreCompletions};
use crate::voice::VoiceShardMessage;

/// The accounts whose cached data a write invalidates.
pub(crate) enum Touched<'a> {
    Nobody,
    /// Only what is known of this address.
    Address(&'a Address),
    /// The account with all its aliases.
    Account(&'a Address),
}

impl Touched<'_> {
    pub(crate) fn by(write: &Write) -> Touched<'_> {
        match write {
            Write::AddAccount(account) => Touched::Address(&account.address),
            Write::AddAlias { alias, .. } | Write::RemoveAlias { alias } => Touched::Address(alias),
            Write::SetVerifiers { account, .. }
            | Write::AddScram { account, .. }
            | Write::LearnPassword { account, .. }
            | Write::SetDisabled { account, .. }
            | Write::SetLimits { account, .. }
            | Write::RemoveAccount { account } => Touched::Account(account),
            _ => Touched::Nobody,
        }
    }
}

/// The account whose chat sessions a write ends, and the reason.
pub(crate) fn ended_by(write: &Write) -> Option<Ended> {
    let (account, ending) = match write {
        Write::SetVerifiers { account, .. } => (account, SessionEndReason::Changed),
        Write::SetDisabled { account, disabled: true } => (account, SessionEndReason::Disabled),
        Write::RemoveAccount { account } => (account, SessionEndReason::Removed),
        _ => return None,
    };
    Some(Ended { accounts: vec![account.to_string().into()], ending, roster: Vec::new() })
}

impl Ended {
    /// Adds the roster that the record had until now.
    pub(crate) fn after(self, done: &WriteDone) -> Arc<Ended> {
        let roster = match done {
            WriteDone::Removed { roster } => roster.clone(),
            _ => Vec::new(),
        };
        Arc::new(Ended { roster, ..self })
    }
}

pub(crate) struct Record {
    store: Arc<Service>,
    desk: Arc<StoreCompletions>,
    outlets: Vec<Outlet<InboxMessage>>,
    config: config::Voice,
    /// Held while bindings are read and sent, so that the last ones read are the last ones sent.
    refreshing: Mutex<()>,
}

impl Record {
    pub(super) fn new(node: &Node) -> Record {
        Record {
            store: Arc::clone(&node.store),
            desk: Arc::clone(&node.desk),
            outlets: node.outlets.clone(),
            config: node.shared.config.voice.clone(),
            refreshing: Mutex::default(),
        }
    }

    /// Gives the shards the bindings that are in the record.
    pub(super) fn refresh(&self) {
        if !self.config.is_on() {
            return;
        }
        let _held = self.refreshing.lock().unwrap_or_else(PoisonError::into_inner);
        match ::voice::Numbers::load(&self.config.number_settings(), self) {
            Ok(numbers) => {
                let numbers = Arc::new(numbers);
                for outlet in &self.outlets {
                    outlet.answer_all(&mut vec![
                        LocalMessage::Voice(VoiceShardMessage::Numbers(Arc::clone(&numbers))).into(),
                    ]);
                }
            }
            Err(error) => tracing::error!(%error, "cannot reload the numbers; the previous ones stay in use"),
        }
    }

    fn put(&self, write: Write) -> Result<WriteDone, StoreError> {
        let (ticket, answer) = self.desk.expect_write();
        self.store.write(write, ticket).map_err(|store::Busy| StoreError::Closed)?;
        answer.blocking_recv().unwrap_or(Err(StoreError::Closed))
    }

    fn addresses(&self, write: &Write) -> Vec<Address> {
        match Touched::by(write) {
            Touched::Nobody => Vec::new(),
            Touched::Address(address) => vec![address.clone()],
            Touched::Account(account) => {
                let aliases = match self.read(Read::Aliases { account: Some(account.clone()) }) {
                    Ok(Loaded::Aliases(aliases)) => aliases,
                    _ => Vec::new(),
                };
                let aliases = aliases.into_iter().map(|alias| alias.alias);
                std::iter::once(account.clone()).chain(aliases).collect()
            }
        }
    }
}

/// Whether numbers are answered otherwise after it.
fn changes_numbers(write: &Write) -> bool {
    let kind = match write {
        Write::Rest(RestWrite::Insert(row) | RestWrite::Ensure(row) | RestWrite::Replace(row)) => row.kind,
        Write::Rest(RestWrite::Remove { kind, .. }) => *kind,
        _ => return false,
    };
    matches!(kind, Kind::IncomingNumber | Kind::Application | Kind::Account | Kind::CallerId | Kind::Client)
}

impl Repository for Record {
    fn read(&self, read: Read) -> Result<Loaded, StoreError> {
        let (ticket, answer) = self.desk.expect_read();
        self.store.read(read, ticket).map_err(|store::Busy| StoreError::Closed)?;
        answer.blocking_recv().unwrap_or(Err(StoreError::Closed))
    }

    /// The shards know of it before this returns: who binds a number may call it.
    fn write(&self, write: Write) -> Result<WriteDone, StoreError> {
        let (addresses, changes_numbers) = (self.addresses(&write), changes_numbers(&write));
        let ended = ended_by(&write);
        let done = self.put(write)?;
        for address in addresses {
            let address: Box<str> = address.to_string().into();
            for outlet in &self.outlets {
                let command = Command::ForgetAccount(Some(address.clone()));
                outlet.answer_all(&mut vec![LocalMessage::Command(command).into()]);
            }
        }
        if let Some(ended) = ended.map(|ended| ended.after(&done)) {
            for outlet in &self.outlets {
                let command = Command::EndSessions(Arc::clone(&ended));
                outlet.answer_all(&mut vec![LocalMessage::Command(command).into()]);
            }
        }
        if changes_numbers {
            self.refresh();
        }
        Ok(done)
    }
}
