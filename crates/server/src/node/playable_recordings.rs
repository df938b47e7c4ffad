//! The recordings that a call's document may play: those that REST gives to the token of the document's account, its own and those of accounts
//! below it. The row of a recording names its account, wherever the sound is.

use std::fmt;
use std::sync::Arc;

use ::voice::PlayedRecording;
use store::rest::types::RestAccount;
use store::rest::{Kind, Resource as _, RestLoaded, RestRead, Row};
use store::{Loaded, Read, Service};
use voice_io::helpers::{AccessAnswer, RecordingAccess};
use voice_io::recordings::Files;

use super::completions::StoreCompletions;

/// Reads the rows of recordings and accounts for the helpers of calls.
pub(super) struct PlayableRecordings {
    pub(super) files: Arc<Files>,
    pub(super) store: Arc<Service>,
    pub(super) desk: Arc<StoreCompletions>,
}

impl fmt::Debug for PlayableRecordings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PlayableRecordings")
    }
}

impl RecordingAccess for PlayableRecordings {
    fn may_play<'a>(&'a self, recording: &'a PlayedRecording) -> AccessAnswer<'a> {
        let PlayedRecording { sid, account, reader, .. } = recording;
        Box::pin(async move {
            let owner = match self.files.account_of(sid) {
                Some(owner) => Some(owner),
                None => self.row(Kind::Recording, sid).await?.map(|row| row.account),
            };
            Ok(owner.as_ref() == Some(account) && self.is_above(reader, account).await?)
        })
    }
}

impl PlayableRecordings {
    /// True if the reader is the account, or an account above it, as for REST.
    async fn is_above(&self, reader: &str, account: &str) -> Result<bool, String> {
        let mut below = account.to_owned();
        for _ in 0..=admin::limits::MAX_DEPTH {
            if below == reader {
                return Ok(true);
            }
            let row = self.row(Kind::Account, &below).await?;
            let parent = row.and_then(|row| RestAccount::from_row(&row).ok()?.parent);
            let Some(parent) = parent else { break };
            below = parent;
        }
        Ok(false)
    }

    async fn row(&self, kind: Kind, sid: &str) -> Result<Option<Box<Row>>, String> {
        let failed = || "the database does not answer".to_owned();
        let read = Read::Rest(RestRead::Sid { kind, sid: sid.into() });
        let begun = self.desk.begin_read(|ticket| self.store.read(read, ticket));
        match begun.map_err(|store::Busy| failed())?.await {
            Ok(Ok(Loaded::Rest(RestLoaded::Row(row)))) => Ok(row),
            _ => Err(failed()),
        }
    }
}
