//! Calls, recordings and conferences that an earlier start of this node has left under way, as it was killed, end in the database.
//!
//! In: the recordings that the folder has repaired, and rows whose status says that they are under way. Out: writes that end them. In a farm the
//! nodes end each other's calls and their recordings ([`super::lost_calls`]), and the start adds only what the files tell.

use std::sync::Arc;

use ::voice::lost_calls::{self, LostSound};
use stdx::Instant;
use store::StoreError;
use store::rest::types::{Conference, Recording, RestCall};
use store::rest::{Kind, Resource, RestFilter, Row};
use tokio::task::spawn_local;
use tokio::time::sleep;
use voice_io::recordings::{Files, RepairedRecording};

use super::Node;
use super::operator::HOUSEKEEPING;
use super::rest_rows::{RestRows, written};
use crate::limits;

/// The statuses of calls that are under way (`RestCall::is_live`), and of conferences.
const LIVE: [&str; 4] = ["queued", "initiated", "ringing", "in-progress"];
const CONFERRING: [&str; 2] = ["init", "in-progress"];

/// The task of a node that has started.
struct EarlierStart {
    rows: RestRows,
    files: Arc<Files>,
    /// Rows that are older are of an earlier start.
    started_at: Instant,
    is_alone: bool,
}

/// Begins to end what an earlier start has left, if the node has calls of applications.
pub(super) fn begin(node: &Node) {
    let Some(voice) = &node.voice else { return };
    let earlier = EarlierStart {
        rows: RestRows::new(node),
        files: Arc::clone(voice.files()),
        started_at: node.shared.started,
        is_alone: node.shared.farm.is_none(),
    };
    spawn_local(async move {
        // A database that is away is written later.
        while let Err(error) = earlier.end().await {
            tracing::debug!(%error, "calls of an earlier start are not ended yet");
            sleep(HOUSEKEEPING).await;
        }
    });
}

impl EarlierStart {
    async fn end(&self) -> Result<(), StoreError> {
        self.end_repaired().await?;
        if self.is_alone {
            for status in LIVE {
                self.end_calls(status).await?;
            }
            for status in CONFERRING {
                self.end_conferences(status).await?;
            }
        }
        Ok(())
    }

    /// The rows of recordings that were unfinished. A `<Record>` has none before its end.
    async fn end_repaired(&self) -> Result<(), StoreError> {
        let mut writes = Vec::new();
        for RepairedRecording { sid, seconds } in self.files.repaired() {
            let Some(row) = self.rows.get(Kind::Recording, sid).await? else { continue };
            let sound = seconds.map_or(LostSound::Absent, LostSound::Seconds);
            let Ok(mut recording) = Recording::from_row(&row) else { continue };
            if lost_calls::end_recording(self.started_at, &mut recording, sound) {
                writes.push(self.rows.replace(&recording)?);
            }
        }
        written(writes).await
    }

    /// A page of rows of an earlier start with that status, from the one of this number on.
    async fn page(&self, kind: Kind, status: &str, offset: u64) -> Result<Vec<Row>, StoreError> {
        let filter = RestFilter {
            status: Some(status.into()),
            created_to: Some(self.started_at),
            limit: limits::LOST_CALLS,
            offset,
            ..RestFilter::all(kind)
        };
        self.rows.list(filter).await
    }

    /// Ends all calls with that status, and their recordings.
    async fn end_calls(&self, status: &str) -> Result<(), StoreError> {
        // Rows that end are not found again; those that cannot be read are passed over.
        let mut unreadable = 0;
        loop {
            let rows = self.page(Kind::Call, status, unreadable).await?;
            if rows.is_empty() {
                return Ok(());
            }
            let mut writes = Vec::new();
            for row in &rows {
                let Ok(mut call) = RestCall::from_row(row) else {
                    unreadable += 1;
                    continue;
                };
                for mut recording in self.rows.recordings(&call.common.sid).await? {
                    let seconds = self.files.seconds(&recording.common.sid);
                    let sound = seconds.map_or(LostSound::Unknown, LostSound::Seconds);
                    if lost_calls::end_recording(self.started_at, &mut recording, sound) {
                        writes.push(self.rows.replace(&recording)?);
                    }
                }
                lost_calls::end(self.started_at, &mut call);
                lost_calls::forget(&mut call);
                // The node may have been off for long: how long the parties spoke is not known.
                call.duration = call.duration.filter(|_| call.answered_at.is_none());
                writes.push(self.rows.replace(&call)?);
            }
            let ended = rows.len();
            written(writes).await?;
            tracing::info!(ended, "calls of an earlier start of the node have ended");
        }
    }

    /// Ends all conferences with that status.
    async fn end_conferences(&self, status: &str) -> Result<(), StoreError> {
        let mut unreadable = 0;
        loop {
            let rows = self.page(Kind::Conference, status, unreadable).await?;
            if rows.is_empty() {
                return Ok(());
            }
            let mut writes = Vec::new();
            for row in &rows {
                let Ok(mut conference) = Conference::from_row(row) else {
                    unreadable += 1;
                    continue;
                };
                lost_calls::end_conference(self.started_at, &mut conference);
                writes.push(self.rows.replace(&conference)?);
            }
            written(writes).await?;
        }
    }
}
