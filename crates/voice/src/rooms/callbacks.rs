//! Status callbacks of a conference, and its row in the record.
//!
//! Pure functions of a room's state: they make signed requests and rows, which `RoomHome` returns as effects.
//! Names of parameters and values are Twilio's, so that its applications work unchanged; the lines of a
//! conference's life are numbered (`SequenceNumber`), as requests may overtake each other.

use std::sync::Arc;

use ivr::document::Callback;
use ivr::request::{Form, Request, Wire};
use stdx::Instant;
use store::Write;
use store::rest::types::{Common, Conference, Queue};
use store::rest::{Resource, RestWrite};

use super::super::Owner;
use super::room::Member;

/// The callback of one conference, and the number of its last event. When several members bring a callback, the first
/// counts.
#[derive(Debug)]
pub(super) struct ConferenceNotifier {
    pub(super) owner: Arc<Owner>,
    pub(super) sid: Arc<str>,
    pub(super) name: Box<str>,
    pub(super) callback: Option<Callback>,
    pub(super) sequence: u32,
}

/// Something happened; the first name is the document's, the second the callback's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event(pub(super) &'static str, pub(super) &'static str);

// Twilio's `statusCallbackEvent` values, and the values of `StatusCallbackEvent` in the request.
pub(super) const START: Event = Event("start", "conference-start");
pub(super) const END: Event = Event("end", "conference-end");
pub(super) const JOIN: Event = Event("join", "participant-join");
pub(super) const LEAVE: Event = Event("leave", "participant-leave");
pub(super) const MUTE: Event = Event("mute", "participant-mute");
pub(super) const UNMUTE: Event = Event("mute", "participant-unmute");
pub(super) const HOLD: Event = Event("hold", "participant-hold");
pub(super) const UNHOLD: Event = Event("hold", "participant-unhold");
pub(super) const MODIFY: Event = Event("modify", "participant-modify");
pub(super) const SPEAKS: Event = Event("speaker", "participant-speech-start");
pub(super) const SILENT: Event = Event("speaker", "participant-speech-stop");
pub(super) const ANNOUNCED: Event = Event("announcement", "announcement-end");

pub(super) fn pair(name: &str, value: impl Into<String>) -> (String, String) {
    (name.to_owned(), value.into())
}

impl ConferenceNotifier {
    pub(super) fn new(
        owner: Arc<Owner>,
        sid: Arc<str>,
        name: Box<str>,
        callback: Option<Callback>,
    ) -> ConferenceNotifier {
        ConferenceNotifier { owner, sid, name, callback, sequence: 0 }
    }

    pub(super) fn wants(&self, event: Event) -> bool {
        self.callback.as_ref().is_some_and(|callback| callback.events.contains(&event.0))
    }

    /// The signed request for an event, when the callback asks for that event. Only requests that are made
    /// are numbered.
    pub(super) fn tell(
        &mut self,
        now: Instant,
        event: Event,
        member: Option<&Member>,
        more: Form,
    ) -> Option<Wire> {
        let target = self.callback.as_ref().filter(|_| self.wants(event))?.target.clone();
        self.sequence += 1;
        let mut form = vec![
            pair("ConferenceSid", &*self.sid),
            pair("FriendlyName", &*self.name),
            pair("AccountSid", &*self.owner.account),
            pair("StatusCallbackEvent", event.1),
            pair("SequenceNumber", self.sequence.to_string()),
            pair("Timestamp", ivr::script::rfc_2822(now)),
        ];
        form.extend(member.map(of_member).unwrap_or_default());
        form.extend(more);
        let request = Request { method: target.method, url: target.url, form };
        Some(request.to_wire(&self.owner.signing_key))
    }
}

/// The parameters about the participant of an event.
fn of_member(member: &Member) -> Form {
    let mut form = vec![
        pair("CallSid", &*member.call_sid),
        pair("Muted", member.is_muted.to_string()),
        pair("Hold", member.hold.is_some().to_string()),
        pair("Coaching", member.coach.is_some().to_string()),
        pair("StartConferenceOnEnter", member.start_on_enter.to_string()),
        pair("EndConferenceOnExit", member.end_on_exit.to_string()),
    ];
    form.extend(member.label.iter().map(|label| pair("ParticipantLabel", &**label)));
    form.extend(member.coach.iter().map(|coach| pair("CallSidToCoach", &**coach)));
    form
}

/// The status of a conference that was just made.
pub(super) const INIT: &str = "init";

/// The row of a conference; `ended`: why, and with which call.
pub(super) fn conference_row(
    teller: &ConferenceNotifier,
    (created_at, now): (Instant, Instant),
    status: &str,
    ended: Option<(&str, &str)>,
) -> Option<Write> {
    let (reason, call) = ended.unwrap_or_default();
    let row = Conference {
        common: common(&teller.owner, &teller.sid, (created_at, now)),
        friendly_name: teller.name.to_string(),
        status: status.to_owned(),
        reason_ended: reason.to_owned(),
        call_sid_ending: call.to_owned(),
    }
    .row();
    // It may be in progress, and over, in the instant in which it was made.
    let wrap = if status == INIT { RestWrite::Insert } else { RestWrite::Replace };
    row.ok().map(|row| Write::Rest(wrap(Box::new(row))))
}

/// The row of a queue that a document named, where there is none: it outlasts those that wait.
pub(super) fn queue_row(owner: &Owner, sid: &str, name: &str, max_size: u32, now: Instant) -> Option<Write> {
    let common = common(owner, sid, (now, now));
    let queue = Queue { common, friendly_name: name.to_owned(), max_size, ..Queue::default() };
    queue.row().ok().map(|row| Write::Rest(RestWrite::Ensure(Box::new(row))))
}

/// The columns that all rows have.
fn common(owner: &Owner, sid: &str, (created_at, updated_at): (Instant, Instant)) -> Common {
    Common { sid: sid.to_owned(), account: owner.account.to_string(), created_at, updated_at }
}
