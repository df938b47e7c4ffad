//! Rows of calls in the record, for the REST interface: a row when a call is answered, or has rung for a while, its
//! end, and its errors.

use std::time::Duration;

use ivr::document::{Callback, Severity, code};
use ivr::request::Form;
use ivr::script::{Call, CallStatus, Direction, LegFailure};
use stdx::Instant;
use stdx::slab::Key;
use store::rest::types::{Common, EndCallback, Notification, Redial, RestCall};
use store::rest::{Resource, RestWrite};

use super::calls::Calls;
use super::leg::Leg;
use super::{VoiceEffect, World, limits};

/// The parameter that carries the Call-ID.
pub(super) use ivr::request::CALL_ID;

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

    /// The row names the life of the node that has the call, and its status callback.
    #[must_use]
    pub(super) fn of_node(mut self, life: u32, status: Option<&Callback>) -> Row {
        self.call.node_life = life;
        self.set_status_callback(status);
        self
    }

    /// The call that another node makes in place of this one.
    #[must_use]
    pub(super) fn redialled_as(mut self, redial: Option<Redial>) -> Row {
        self.call.redial = redial.filter(|_| self.call.node_life != 0);
        self
    }

    /// The end of the call is told so, if the application asked for it. Only another node of a farm reads it.
    fn set_status_callback(&mut self, status: Option<&Callback>) {
        let asked =
            status.filter(|callback| self.call.node_life != 0 && callback.events.contains(&"completed"));
        self.call.end_callback = asked.map(|Callback { target, events }| EndCallback {
            url: target.url.clone(),
            method: target.method.as_str().to_owned(),
            sequence: u32::try_from(events.len() - 1).unwrap_or_default(),
        });
    }

    /// The callee has answered, in the dialog with that Call-ID.
    #[must_use]
    pub(super) fn answered_by(&mut self, now: Instant, call_id: &str) -> Option<VoiceEffect> {
        self.has_call_id(call_id);
        self.answer(now);
        self.write(now)
    }

    /// The party at the other end, as its applications know it: who calls, or who is called.
    pub(super) fn party(&self) -> &str {
        if self.call.direction == Direction::Inbound.as_str() { &self.call.from } else { &self.call.to }
    }

    /// The Call-ID; empty before there is a dialog.
    pub(super) fn call_id(&self) -> &str {
        &self.call.sip_call_id
    }

    pub(super) fn has_call_id(&mut self, call_id: &str) {
        call_id.clone_into(&mut self.call.sip_call_id);
    }

    /// The phone of a call that the REST interface asked for rings.
    fn ring(&mut self, now: Instant) -> Option<VoiceEffect> {
        self.call.status = CallStatus::Ringing.as_str().to_owned();
        self.write(now)
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
        (self.call.node_life, self.call.end_callback, self.call.redial) = (0, None, None);
    }

    /// The row as it is now, for the record.
    #[must_use]
    pub(super) fn write(&mut self, now: Instant) -> Option<VoiceEffect> {
        self.call.common.updated_at = now;
        let Ok(row) = self.call.row() else {
            // Texts of callers are cut before, so this is a URL or an address of an application.
            tracing::warn!(sid = self.call.common.sid, "a call is too large for the database");
            return None;
        };
        let row = Box::new(row);
        let write = if self.is_in_record { RestWrite::Replace(row) } else { RestWrite::Insert(row) };
        self.is_in_record = true;
        Some(VoiceEffect::Write(store::Write::Rest(write)))
    }
}

/// Ends the row of a call whose node has died: `completed` if it was answered, else `failed`, with the reason. The row keeps the life
/// and the callback until the application has been told, and what is dialled until that is done.
pub(super) fn end_lost(now: Instant, call: &mut RestCall) {
    let status = if call.answered_at.is_some() { CallStatus::Completed } else { CallStatus::Failed };
    let mut row = Row { call: std::mem::take(call), is_in_record: true };
    let RestCall { node_life, end_callback, redial, .. } = row.call.clone();
    row.end(now, status);
    *call = row.call;
    (call.node_life, call.end_callback, call.redial) = (node_life, end_callback, redial);
    call.common.updated_at = now;
    limits::LOST_REASON.clone_into(&mut call.sip_reason_phrase);
}

/// The status callback's parameters of a call that no phone has taken: Twilio's `SipResponseCode`, and the Call-ID.
pub(super) fn of_failure(failure: &LegFailure) -> Form {
    let call_id = failure.call_id.iter().map(|id| (CALL_ID.to_owned(), id.clone()));
    let code = failure.code.iter().map(|code| ("SipResponseCode".to_owned(), code.to_string()));
    call_id.chain(code).collect()
}

/// The beginning of a peer's text, of at most that many bytes.
pub(super) fn cut(text: &str, most: usize) -> &str {
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
            world.outbox.extend(row.write(now));
        }
    }

    /// A phone of a call that the REST interface asked for rings.
    pub(super) fn call_rings(&mut self, now: Instant, world: &mut World<'_>) {
        if let Some(row) = self.row.as_mut().filter(|row| row.call.answered_at.is_none()) {
            world.outbox.extend(row.ring(now));
        }
    }

    /// The application wants other status callbacks.
    pub(super) fn set_status_callback(
        &mut self,
        now: Instant,
        status: Option<&Callback>,
        world: &mut World<'_>,
    ) {
        if let Some(row) = self.row.as_mut().filter(|row| row.call.node_life != 0) {
            row.set_status_callback(status);
            // A row that is not in the record yet gets there with the answer.
            let effect = if row.is_in_record { row.write(now) } else { None };
            world.outbox.extend(effect);
        }
    }

    /// The second. `None`: as the leg's answer tells. Nothing is written after it.
    pub(super) fn call_ended(&mut self, now: Instant, status: Option<CallStatus>, world: &mut World<'_>) {
        let Some(mut row) = self.row.take() else { return };
        let told = if row.call.answered_at.is_some() { CallStatus::Completed } else { CallStatus::NoAnswer };
        row.end(now, status.unwrap_or(told));
        world.outbox.extend(row.write(now));
    }
}

impl Calls {
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
        let note = ivr::script::Notification::warning(code, text);
        self.note(now, leg, call, &note, world);
    }

    /// A notification that a request of a script cannot be performed.
    pub(super) fn warn(&mut self, now: Instant, key: Key, code: u32, text: String, world: &mut World<'_>) {
        let note = ivr::script::Notification::warning(code, text);
        self.note(now, key, None, &note, world);
    }

    /// A notification of a script about its documents. `call`: the sid of its Dial's call; `None`: the leg's own.
    pub(super) fn note(
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
            world.outbox.extend(row.write(now));
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

/// Calls that ring for a while can be asked for, too: their rows are written a third time.
#[derive(Default)]
pub(super) struct RingingRows {
    /// The time of the next look at them.
    due: Instant,
}

impl RingingRows {
    /// Writes the rows of calls that ring for long enough by now.
    pub(super) fn expire<'r>(
        &mut self,
        now: Instant,
        rows: impl Iterator<Item = &'r mut Box<Row>>,
        outbox: &mut Vec<VoiceEffect>,
    ) {
        if now < self.due {
            return;
        }
        self.due = now + limits::RINGING;
        let is_due = |row: &&mut Box<Row>| {
            !row.is_in_record && row.call.started_at.is_some_and(|since| now.since(since) >= limits::RINGING)
        };
        outbox.extend(rows.filter(is_due).filter_map(|row| row.write(now)));
    }
}
