//! `recordingStatusCallback` of all recordings, those of verbs and of the REST interface: told when a recording has begun, when its
//! file is complete, and when there is none.

use std::time::Duration;

use ivr::document::Callback;
use ivr::request::{Form, Request};
use ivr::script::Recorded;
use stdx::Instant;
use stdx::slab::Key;
use store::rest::types::Recording as RecordingRow;

use super::Owner;
use super::calls::Calls;
use super::record::Recordings;

impl Recordings {
    /// A recording of the leg has begun: nothing of it is there yet but its sid.
    pub(super) fn tell_begun(
        &mut self,
        now: Instant,
        leg: Key,
        sid: &str,
        status: Option<&Callback>,
        calls: &mut Calls,
    ) {
        let Some((row, owner)) = calls.legs.get(leg).and_then(|leg| leg.row_under_way(now, sid)) else {
            return;
        };
        let recorded = self.recorded_of(&owner, sid, Duration::ZERO);
        self.tell_status(status, &row, &recorded, &owner, calls);
    }

    /// A Record ended before its recording began. The sid is that of no recording: it tells one callback from another.
    pub(super) fn tell_absent(
        &mut self,
        now: Instant,
        leg: Key,
        sid: String,
        status: Option<&Callback>,
        calls: &mut Calls,
    ) {
        let Some(found) = calls.legs.get(leg) else { return };
        let (row, owner) = found.row_of_none(now, sid);
        let recorded = self.recorded_of(&owner, &row.common.sid, Duration::ZERO);
        self.tell_status(status, &row, &recorded, &owner, calls);
    }

    /// The request of the callback, if it asked for the status that the row has.
    pub(super) fn tell_status(
        &mut self,
        status: Option<&Callback>,
        row: &RecordingRow,
        recorded: &Recorded,
        owner: &Owner,
        calls: &mut Calls,
    ) {
        let Some(callback) = status.filter(|status| status.events.contains(&&*row.status)) else { return };
        let mut form: Form = Vec::new();
        let mut add = |name: &str, value: &str| form.push((name.to_owned(), value.to_owned()));
        add("AccountSid", &owner.account);
        add("CallSid", &row.call_sid);
        if !row.conference_sid.is_empty() {
            add("ConferenceSid", &row.conference_sid);
        }
        add("RecordingSid", &recorded.sid);
        add("RecordingUrl", &recorded.url);
        add("RecordingStatus", &row.status);
        add("RecordingDuration", &recorded.duration.as_secs().to_string());
        add("RecordingChannels", &row.channels.to_string());
        if let Some(started) = row.started_at {
            add("RecordingStartTime", &ivr::script::rfc_2822(started));
        }
        add("RecordingSource", &row.source);
        let request = Request { method: callback.target.method, url: callback.target.url.clone(), form };
        calls.helper_requests.tell(request.to_wire(&owner.signing_key));
    }
}
