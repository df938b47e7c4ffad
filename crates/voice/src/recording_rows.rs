//! Rows of recordings in the record, for the REST interface and for mailboxes.

use std::sync::Arc;

use stdx::Instant;
use store::rest::types::{Common, Recording as RecordingRow};
use store::rest::{Resource, RestWrite};

use super::active_recordings::ActiveRecording;
use super::leg::Leg;
use super::{Owner, VoiceEffect, World};

/// The source of a Record's recording, in Twilio's words.
pub(super) const VERB: &str = "RecordVerb";

impl Leg {
    /// The row of a Record that recorded nothing, for its callback, and the account of the call.
    pub(super) fn row_of_none(&self, now: Instant, sid: String) -> (RecordingRow, Arc<Owner>) {
        let row = RecordingRow {
            common: Common { sid, account: self.owner.account.to_string(), created_at: now, updated_at: now },
            call_sid: self.sid.clone(),
            status: "absent".to_owned(),
            source: VERB.to_owned(),
            channels: 1,
            ..RecordingRow::default()
        };
        (row, Arc::clone(&self.owner))
    }

    /// The row of a recording under way, and the account of the call.
    pub(super) fn row_under_way(&self, now: Instant, sid: &str) -> Option<(RecordingRow, Arc<Owner>)> {
        let one = self.recording.as_ref()?.active.iter().find(|one| one.sid == sid)?;
        Some((row_of(now, &self.sid, &self.owner, one), Arc::clone(&self.owner)))
    }
}

/// The row of a recording under way.
pub(super) fn row_of(now: Instant, call: &str, owner: &Owner, one: &ActiveRecording) -> RecordingRow {
    RecordingRow {
        common: Common {
            sid: one.sid.clone(),
            account: owner.account.to_string(),
            created_at: one.started,
            updated_at: now,
        },
        call_sid: call.to_owned(),
        conference_sid: one.conference.clone().unwrap_or_default(),
        status: if one.pause.is_some() { "paused" } else { "in-progress" }.to_owned(),
        source: one.of.to_owned(),
        channels: one.channels(),
        started_at: Some(one.started),
        node: one.file.node().to_owned(),
        ..RecordingRow::default()
    }
}

/// Writes a row.
pub(super) fn write<R: Resource>(
    resource: &R,
    how: impl FnOnce(Box<store::rest::Row>) -> RestWrite,
    world: &mut World<'_>,
) {
    // Texts of callers are cut before, and so is a transcription's.
    match resource.row() {
        Ok(row) => world.outbox.push(VoiceEffect::Write(store::Write::Rest(how(Box::new(row))))),
        Err(error) => tracing::error!(%error, "cannot encode a row for the database"),
    }
}

/// Writes the row of a recording that goes into a mailbox.
pub(super) fn write_voicemail(row: &RecordingRow, world: &mut World<'_>) {
    match row.row() {
        Ok(row) => world.outbox.push(VoiceEffect::Voicemail(Box::new(row))),
        Err(error) => tracing::error!(%error, "cannot encode a row for the database"),
    }
}
