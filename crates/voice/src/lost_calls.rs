//! The end of calls whose node has died, as a living node of the farm writes it and tells the application:
//! from the row of the call in the database that the nodes share. The media and the script are gone with the
//! node.
//!
//! The order matters, as this node may die as well: the row is ended first and still names the dead life,
//! then the application is told, then [`forget`] takes the life out of the row. A node that dies in between
//! leaves a row that a third one finds; the application may then be told twice, never not at all.

use ivr::request::{Request, Wire};
use ivr::script::{Call, CallStatus, Direction, end_form};
use stdx::Instant;
use store::rest::types::{Conference, Recording, RestCall};

use super::{API_VERSION, Owner, Voice, numbers, rows};

/// Ends the row of a live call: `completed` if it was answered, else `failed`, with the reason. The row is found by the dead life until
/// [`forget`].
pub fn end(now: Instant, call: &mut RestCall) {
    rows::end_lost(now, call);
}

/// The sound of a recording whose node has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostSound {
    /// A file of so many seconds.
    Seconds(u32),
    /// There is none.
    Absent,
    /// Only the node that has ended can tell.
    Unknown,
}

/// Ends the row of a recording that was under way, or adds what was not known at its end. Returns whether the row has changed.
pub fn end_recording(now: Instant, recording: &mut Recording, sound: LostSound) -> bool {
    let is_under_way = matches!(recording.status.as_str(), "in-progress" | "paused");
    let is_without_duration = recording.status == "completed" && recording.duration.is_none();
    if !is_under_way && (!is_without_duration || sound == LostSound::Unknown) {
        return false;
    }
    (recording.status, recording.duration) = match sound {
        LostSound::Seconds(seconds) => ("completed".to_owned(), Some(seconds)),
        LostSound::Absent => ("absent".to_owned(), None),
        LostSound::Unknown => ("completed".to_owned(), None),
    };
    recording.common.updated_at = now;
    true
}

/// Ends the row of a conference, whose participants have all ended with their node.
pub fn end_conference(now: Instant, conference: &mut Conference) {
    "completed".clone_into(&mut conference.status);
    // Twilio has no word for the end of a server.
    "last-participant-left".clone_into(&mut conference.reason_ended);
    conference.common.updated_at = now;
}

/// Nothing is left to do about the end: the row is not found by the dead life any more.
pub fn forget(call: &mut RestCall) {
    (call.node_life, call.end_callback, call.redial) = (0, None, None);
}

/// The signed status callback about the end of the call; `None`: the application did not ask for it.
pub fn callback(now: Instant, row: &RestCall, owner: &Owner) -> Option<Wire> {
    let asked = row.end_callback.as_ref()?;
    let target = numbers::target(&asked.url, &asked.method)?;
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let call = Call {
        sid: row.common.sid.clone(),
        account_sid: owner.account.to_string(),
        from: row.from.clone(),
        to: row.to.clone(),
        direction: match row.direction.as_str() {
            // As `Direction::as_str` wrote it into the row.
            "outbound-api" => Direction::OutboundApi,
            "outbound-dial" => Direction::OutboundDial,
            _ => Direction::Inbound,
        },
        caller_name: given(&row.caller_name),
        forwarded_from: given(&row.forwarded_from),
        parent_sid: given(&row.parent),
        api_version: API_VERSION.to_owned(),
        extra: vec![(rows::CALL_ID.to_owned(), row.sip_call_id.clone())],
        answered: row.answered_at.is_some(),
    };
    let status = if call.answered { CallStatus::Completed } else { CallStatus::Failed };
    let form = end_form(&call, status, row.duration.unwrap_or_default().into(), (now, asked.sequence));
    Some(Request { method: target.method, url: target.url, form }.to_wire(&owner.signing_key))
}

/// Sends the callback of a lost call, which no shard has; its answer is ignored. Any shard of the node may do
/// it.
pub fn send(voice: &mut Voice, callback: Wire) {
    voice.calls.helper_requests.tell(callback);
}

#[cfg(test)]
mod tests {
    use store::rest::Resource as _;
    use store::rest::types::{Common, EndCallback};

    use super::*;

    fn row(answered_at: Option<Instant>) -> RestCall {
        let common = Common { sid: "CA1".into(), account: "AC1".into(), ..Common::default() };
        let callback = EndCallback { url: "http://app/end".into(), method: "POST".into(), sequence: 2 };
        RestCall {
            common,
            from: "alice".into(),
            status: "in-progress".into(),
            started_at: Some(Instant::from_unix_seconds(10)),
            answered_at,
            node_life: 7,
            end_callback: Some(callback),
            ..RestCall::default()
        }
    }

    #[test]
    fn a_lost_call_is_ended_told_once_and_then_not_found_by_its_life() {
        let now = Instant::from_unix_seconds(30);
        let mut call = row(Some(Instant::from_unix_seconds(12)));
        assert_eq!(call.columns().name.as_deref(), Some("7"));
        end(now, &mut call);
        assert_eq!((call.status.as_str(), call.duration, call.ended_at), ("completed", Some(18), Some(now)));
        assert_eq!(call.sip_reason_phrase, "The node of the call has ended");
        assert!(!call.is_live() && call.columns().name.is_some(), "another node goes on if this one dies");
        let owner = Owner { account: "AC1".into(), signing_key: "key".into() };
        let told = callback(now, &call, &owner).expect("it was asked for");
        let body = told.body.expect("a POST");
        for pair in ["CallSid=CA1", "CallStatus=completed", "CallDuration=18", "SequenceNumber=2"] {
            assert!(body.contains(pair), "{body}");
        }
        assert!(!told.signature.is_empty());
        forget(&mut call);
        assert_eq!((call.columns().name, callback(now, &call, &owner).is_none()), (None, true));
    }

    #[test]
    fn a_lost_recording_ends_once_and_gets_its_duration_when_it_is_known() {
        let now = Instant::from_unix_seconds(30);
        let mut recording = Recording { status: "paused".into(), ..Recording::default() };
        assert!(end_recording(now, &mut recording, LostSound::Unknown));
        assert_eq!((&*recording.status, recording.duration), ("completed", None));
        assert!(!end_recording(now, &mut recording, LostSound::Unknown));
        assert!(end_recording(now, &mut recording, LostSound::Seconds(7)));
        assert_eq!((&*recording.status, recording.duration), ("completed", Some(7)));
        assert!(!end_recording(now, &mut recording, LostSound::Absent), "it has a duration");
        let mut silent = Recording { status: "in-progress".into(), ..Recording::default() };
        assert!(end_recording(now, &mut silent, LostSound::Absent));
        assert_eq!((&*silent.status, silent.duration), ("absent", None));
    }

    #[test]
    fn a_lost_call_that_was_not_answered_has_failed() {
        let mut call = row(None);
        end(Instant::from_unix_seconds(30), &mut call);
        assert_eq!((call.status.as_str(), call.duration, call.ring_duration), ("failed", Some(0), Some(20)));
    }
}
