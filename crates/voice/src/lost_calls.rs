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
use store::rest::types::RestCall;

use super::{API_VERSION, Owner, Voice, numbers, rows};

/// Ends the row of a live call: `completed` if it was answered, else `failed`, with the reason. The row is found by the dead life until
/// [`forget`].
pub fn end(now: Instant, call: &mut RestCall) {
    rows::end_lost(now, call);
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
    fn a_lost_call_that_was_not_answered_has_failed() {
        let mut call = row(None);
        end(Instant::from_unix_seconds(30), &mut call);
        assert_eq!((call.status.as_str(), call.duration, call.ring_duration), ("failed", Some(0), Some(20)));
    }
}
