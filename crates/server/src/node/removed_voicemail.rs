//! Deletes the sound of removed accounts' voicemail: one node of those that share a database does so for all.
//!
//! The write that removes an account, by whichever program, takes its messages out of the mailbox at once; their rows stay until their sound is
//! deleted (`Mailboxes::delete_removed`).

use tokio::task::spawn_local;
use tokio::time::sleep;

use super::Node;
use super::operator::HOUSEKEEPING;
use crate::xmpp::operator::voicemail::Mailboxes;

/// Begins with what was removed while the node did not run.
pub(super) fn begin(node: &Node) {
    let farm = node.shared.farm.as_ref().map(|farm| (farm.board_of_shards(), farm.shares_database));
    // No node has recordings that it could delete.
    if farm.is_none() && node.voice.is_none() {
        return;
    }
    let mailboxes = Mailboxes::new(&node.chat());
    spawn_local(async move {
        loop {
            let keeps_house = farm.as_ref().is_none_or(|(board, is_shared)| board.keeps_house(*is_shared));
            // A database that is away is read again later.
            if keeps_house && let Err(error) = mailboxes.delete_removed().await {
                tracing::debug!(?error, "voicemail of removed accounts is not deleted yet");
            }
            sleep(HOUSEKEEPING).await;
        }
    });
}
