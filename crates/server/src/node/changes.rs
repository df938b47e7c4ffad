//! The consequences of a change of stored data for the shards, whichever program has made it.
//!
//! A change by this node is told by the part that made it, before it is acknowledged. Changes of a shared database by other programs come
//! as notices (`store::notices`) on a thread of their own, and [`Operator`](super::operator) handles them in the same way.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::Builder;
use std::time::Duration;

use anyhow::{Context, Result};
use chat::SessionEndReason;
use cluster::Outlet;
use store::{AccountChange, Address, Notice, NoticeListener, WriteDone};
use tokio::sync::mpsc;

use super::Node;
use crate::farm::FarmMembership;
use crate::limits;
use crate::message::{Command, Ended, InboxMessage, LocalMessage};

/// The time that the listener waits for notices before it asks the server for a sign of life.
const LISTEN: Duration = Duration::from_secs(5);
/// The pause before the listener connects again.
const AGAIN: Duration = Duration::from_millis(500);

/// Makes all shards forget the accounts that a notice names, and their aliases, and ends their chat sessions where the change says so.
/// `done` is the result of the write, if it was ours: it has the contacts of a removed account, to be told of it.
pub(crate) fn tell_shards(
    outlets: &[Outlet<InboxMessage>],
    notice: &Notice,
    aliases: &[Address],
    done: Option<&WriteDone>,
) {
    let (accounts, change) = match notice {
        Notice::Account { address, change } => (std::slice::from_ref(address), *change),
        Notice::Passwords(accounts) => (&accounts[..], AccountChange::Password),
        Notice::Plan | Notice::Numbers | Notice::Everything => return,
    };
    // Caches have an account under each name by which it was asked for.
    for address in accounts.iter().chain(aliases) {
        let address: Box<str> = address.to_string().into();
        send(outlets, || Command::ForgetAccount(Some(address.clone())));
    }
    let ending = match change {
        // Sessions go on: the next use of the account reads it again.
        AccountChange::Data => return,
        AccountChange::Password => SessionEndReason::Changed,
        AccountChange::Disabled => SessionEndReason::Disabled,
        AccountChange::Removed => SessionEndReason::Removed,
    };
    let roster = match done {
        Some(WriteDone::Removed { roster, .. }) => roster.clone(),
        _ => Vec::new(),
    };
    let accounts = accounts.iter().map(|address| address.to_string().into()).collect();
    let ended = Arc::new(Ended { accounts, ending, roster });
    send(outlets, || Command::EndSessions(Arc::clone(&ended)));
}

fn send(outlets: &[Outlet<InboxMessage>], command: impl Fn() -> Command) {
    for outlet in outlets {
        outlet.answer_all(&mut vec![LocalMessage::Command(command()).into()]);
    }
}

/// The notices of other programs. The thread behind it ends with it.
pub(super) struct NoticeStream {
    notices: mpsc::Receiver<Vec<Notice>>,
    _running: SyncSender<()>,
}

impl NoticeStream {
    /// Starts to listen. `None`: no other program writes the database while the node runs.
    pub(super) fn open(node: &Node) -> Result<Option<NoticeStream>> {
        let Some(listener) = node.database.listen()? else { return Ok(None) };
        let board = node.shared.farm.as_ref().map(FarmMembership::board_of_shards);
        // While notices are missed the plan of this node may be old: edges that copy it are told so.
        let set_missing_changes = move |is_missing_changes| {
            if let Some(board) = &board {
                board.plan.set_missing_changes(is_missing_changes);
            }
        };
        let (sender, notices) = mpsc::channel(limits::NOTICE_GROUPS);
        let (running, stopped) = sync_channel(0);
        Builder::new()
            .name("store-notices".into())
            .spawn(move || listen(listener, &sender, &stopped, set_missing_changes))
            .context("cannot start a thread")?;
        Ok(Some(NoticeStream { notices, _running: running }))
    }

    /// The notices that have come since the last time, at least one.
    pub(super) async fn next(&mut self) -> Option<Vec<Notice>> {
        let mut all = self.notices.recv().await?;
        // Together, so that a burst of changes reads the plan and the numbers once.
        while let Ok(more) = self.notices.try_recv() {
            all.extend(more);
        }
        Some(all)
    }
}

/// Waits for notices, on a thread of its own, until the stream is dropped. While the server cannot be reached changes are missed; the first
/// notice after that is `Notice::Everything`.
fn listen(
    mut listener: NoticeListener,
    sender: &mpsc::Sender<Vec<Notice>>,
    stopped: &Receiver<()>,
    set_missing_changes: impl Fn(bool),
) {
    let mut is_away = false;
    while !sender.is_closed() {
        match listener.wait(LISTEN) {
            Ok(notices) => {
                if std::mem::take(&mut is_away) {
                    set_missing_changes(false);
                    tracing::info!("changes by other programs are heard again");
                }
                if !notices.is_empty() && sender.blocking_send(notices).is_err() {
                    return;
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut is_away, true) {
                    set_missing_changes(true);
                    tracing::warn!(%error, "changes by other programs are not heard");
                }
                // Also the pause before the next attempt; it ends at once when the stream is dropped.
                if stopped.recv_timeout(AGAIN) == Err(RecvTimeoutError::Disconnected) {
                    return;
                }
            }
        }
    }
}
