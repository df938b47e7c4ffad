//! Rows of calls in the record, for the REST interface: a row when a call is answered, or has rung for a while, its
//! end, and its errors.

use std::time::Duration;

use ivr::document::{Severity, code};
use ivr::request::Form;
use ivr::script::{Call, CallStatus, LegFailure};
use stdx::Instant;
use stdx::slab::Key;
use store::rest::types::{Common, Notification, RestCall};
use store::rest::{Resource, RestWrite};

use super::calls::Calls;
use super::leg::Leg;
use super::{Voice, VoiceEffect, World, limits};

/// The parameter that carries the Call-ID.
pub(super) const CALL_ID: &str = "SipCallId";

/// A call as the record has it, or will.
pub(super) struct Row {
    call: RestCall,
    is_in_record: bool,
}

impl Row {
    /// The row of a call that begins now: one that comes in, or a leg of a Dial. `number` is the sid of the binding
    /// that answers it, if one does.
    pub(super) fn new(now: Instant, call: &Call, number: &str) -> Row {
        let extra = call.extra.iter().find(|(name, _)| name == CALL_ID);
        let common = Common {
            sid: call.sid.clone(),
            account: call.account_sid.clone(),
            created_at: now,
            updated_at: now,
        };
        let call = RestCall {
            common,
            parent: call.parent_sid.clone().unwrap_or_default(),
            from: call.from.clone(),
            to: call.to.clone(),
            caller_name: call.caller_name.clone().unwrap_or_default(),
            forwarded_from: call.forwarded_from.clone().unwrap_or_default(),
            phone_number_sid: number.to_owned(),
            status: CallStatus::Ringing.as_str().to_owned(),
            direction: call.direction.as_str().to_owned(),
            started_at: Some(now),
            sip_call_id: extra.map(|(_, value)| value.clone()).unwrap_or_default(),
            ..RestCall::default()
        };
        Row { call, is_in_record: false }
    }

    /// The row of a call that the REST interface has written already.
    pub(super) fn placed(now: Instant, call: RestCall) -> Row {
        Row { call: RestCall { started_at: Some(now), ..call }, is_in_record: true }
    }

    /// The callee has answered, in the dialog with that Call-ID.
    pub(super) fn answered_by(&mut self, now: Instant, call_id: &str, world: &mut World<'_>) {
        self.has_call_id(call_id);
        self.answer(now);
        self.write(now, world);
    }

    pub(super) fn has_call_id(&mut self, call_id: &str) {
        call_id.clone_into(&mut self.call.sip_call_id);
    }

    /// The phone of a call that the REST interface asked for rings.
    fn ring(&mut self, now: Instant, world: &mut World<'_>) {
        self.call.status = CallStatus::Ringing.as_str().to_owned();
        self.write(now, world);
    }

    /// No phone has taken the call: the status and phrase of the answer, and the dialog that it ended.
    pub(super) fn has_failed(&mut self, failure: &LegFailure) {
        self.call.sip_response_code = failure.code;
        cut(&failure.reason, limits::REASON).clone_into(&mut self.call.sip_reason_phrase);
        if let Some(call_id) = &failure.call_id {
            self.has_call_id(call_id);
        }
    }

    fn answer(&mut self, now: Instant) {
        self.call.status = CallStatus::InProgress.as_str().to_owned();
        self.call.answered_at = Some(now);
        self.call.ring_duration = self.call.started_at.map(|since| seconds(now.since(since)));
    }

    pub(super) fn end(&mut self, now: Instant, status: CallStatus) {
        self.call.status = status.as_str().to_owned();
        self.call.ended_at = Some(now);
        // The ringing of a call that was never answered ends with the call.
        let ring = self.call.started_at.map(|since| seconds(now.since(since)));
        self.call.ring_duration = self.call.ring_duration.or(ring);
        self.call.duration = Some(self.call.answered_at.map_or(0, |since| seconds(now.since(since))));
    }

    pub(super) fn write(&mut self, now: Instant, world: &mut World<'_>) {
        self.call.common.updated_at = now;
        let Ok(row) = self.call.row() else {
            // Texts are as long as SIP allows, the body's limit is beyond them all.
            tracing::warn!(sid = self.call.common.sid, "a call is too large for the record");
            return;
        };
        let row = Box::new(row);
        let write = if self.is_in_record { RestWrite::Replace(row) } else { RestWrite::Insert(row) };
        self.is_in_record = true;
        world.outbox.push(VoiceEffect::Write(store::Write::Rest(write)));
    }
}

/// The status callback's parameters of a call that no phone has taken: Twilio's `SipResponseCode`, and the Call-ID.
pub(super) fn of_failure(failure: &LegFailure) -> Form {
    let call_id = failure.call_id.iter().map(|id| (CALL_ID.to_owned(), id.clone()));
    let code = failure.code.iter().map(|code| ("SipResponseCode".to_owned(), code.to_string()));
    call_id.chain(code).collect()
}

/// The beginning of a peer's text, of at most that many bytes.
fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// Begun ones count, as on every telephone bill.
fn seconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis().div_ceil(1_000)).unwrap_or(u32::MAX)
}

/// The row of a leg's call in the record is written twice: with the answer, and with the end.
impl Leg {
    /// The first write. Called as often as one likes.
    pub(super) fn call_answered(&mut self, now: Instant, world: &mut World<'_>) {
        if let Some(row) = self.row.as_mut().filter(|row| row.call.answered_at.is_none()) {
            row.answer(now);
            row.write(now, world);
        }
    }

    /// The second. `None`: as the leg's answer tells. Nothing is written after it.
    pub(super) fn call_ended(&mut self, now: Instant, status: Option<CallStatus>, world: &mut World<'_>) {
        let Some(mut row) = self.row.take() else { return };
        let told = if row.call.answered_at.is_some() { CallStatus::Completed } else { CallStatus::NoAnswer };
        row.end(now, status.unwrap_or(told));
        row.write(now, world);
    }
}

impl Calls {
    /// At the end of a call that the REST interface asked for rings a phone.
    pub(super) fn call_rings(&mut self, now: Instant, actor: Key, world: &mut World<'_>) {
        let row = self.leg_of(actor).and_then(|(_, leg)| leg.row.as_mut());
        if let Some(row) = row.filter(|row| row.call.answered_at.is_none()) {
            row.ring(now, world);
        }
    }

    /// A notification of a call that has failed in SIP; busy and unanswered calls have not. `call`: the sid of the leg's
    /// Dial's call, `None` for the leg's own.
    pub(super) fn note_failed_call(
        &mut self,
        now: Instant,
        leg: Key,
        call: Option<&str>,
        failure: &LegFailure,
        world: &mut World<'_>,
    ) {
        let Some(status) = failure.code.filter(|_| failure.status == CallStatus::Failed) else { return };
        let code = match status {
            404 | 410 | 416 | 484 | 604 => code::NO_SUCH_NUMBER,
            _ => code::CALL_FAILED,
        };
        let reason = cut(&failure.reason, limits::REASON);
        let call_id = failure.call_id.as_deref().unwrap_or("none: no INVITE was sent");
        let text = format!("the call failed with SIP {status} {reason} (Call-ID {call_id})");
        let note =
            ivr::script::Notification { severity: Severity::Warning, code, text, url: None, line: None };
        self.note_call(now, leg, call, &note, world);
    }

    /// A notification that a request of a script cannot be performed.
    pub(super) fn warn(&mut self, now: Instant, key: Key, code: u32, text: String, world: &mut World<'_>) {
        let note =
            ivr::script::Notification { severity: Severity::Warning, code, text, url: None, line: None };
        self.note(now, key, &note, world);
    }

    /// Something that a script has to say about its documents.
    pub(super) fn note(
        &mut self,
        now: Instant,
        key: Key,
        note: &ivr::script::Notification,
        world: &mut World<'_>,
    ) {
        self.note_call(now, key, None, note, world);
    }

    fn note_call(
        &mut self,
        now: Instant,
        key: Key,
        call: Option<&str>,
        note: &ivr::script::Notification,
        world: &mut World<'_>,
    ) {
        let sid = self.new_sid(ivr::sid::NOTIFICATION);
        let Some(leg) = self.legs.get_mut(key) else { return };
        let call = call.unwrap_or(&leg.sid).to_owned();
        let (code, text, url, line) = (note.code, &note.text, note.url.as_deref(), note.line);
        let log = match note.severity {
            Severity::Info => return tracing::debug!(sid = call, code, url, line, "{text}"),
            Severity::Warning => {
                tracing::info!(sid = call, code, url, line, "{text}");
                1
            }
            Severity::Error => {
                tracing::warn!(sid = call, code, url, line, "{text}");
                0
            }
        };
        if !self.has_records || leg.notifications >= limits::NOTIFICATIONS {
            return;
        }
        leg.notifications += 1;
        if let Some(row) = leg.row.as_mut().filter(|row| !row.is_in_record) {
            row.write(now, world);
        }
        let place = line.map(|line| format!("line {line}: ")).unwrap_or_default();
        let notification = Notification {
            common: Common { sid, account: leg.owner.account.to_string(), created_at: now, updated_at: now },
            call_sid: call,
            log,
            error_code: code,
            more_info: format!("https://www.twilio.com/docs/errors/{code}"),
            message_text: format!("{place}{text}"),
            request_url: url.unwrap_or_default().to_owned(),
            ..Notification::default()
        };
        // Beyond the record's limit for a body it is in the log only.
        if let Ok(row) = notification.row() {
            world.outbox.push(VoiceEffect::Write(store::Write::Rest(RestWrite::Insert(Box::new(row)))));
        }
    }
}

impl Voice {
    /// Calls that ring for a while can be asked for, too: that is a third write.
    pub(super) fn tell_ringing(&mut self, now: Instant, world: &mut World<'_>) {
        if now < self.rows_due {
            return;
        }
        self.rows_due = now + limits::RINGING;
        let called = self.parties.iter_mut().filter_map(|(_, party)| party.row.as_mut());
        let rows = self.calls.legs.iter_mut().filter_map(|(_, leg)| leg.row.as_mut()).chain(called);
        let is_due = |row: &&mut Box<Row>| {
            !row.is_in_record && row.call.started_at.is_some_and(|since| now.since(since) >= limits::RINGING)
        };
        for row in rows.filter(is_due) {
            row.write(now, world);
        }
    }
}
