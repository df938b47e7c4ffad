//! Record: the caller's voice to a file, ended by silence, a key, time, or a hang-up.
//!
//! The media end a recording by silence and by its length; keys and hang-ups come through here. Each way ends with one result, and a recording
//! without voice leads to the next verb.

use stdx::Instant;

use super::call_context::CallContext;
use super::form::{of_call, pair};
use super::state::Flow;
use super::{CallStatus, Effect, EffectFailure, Id, Recorded, Recording, ScriptOutbox};
use crate::document::{Record, Severity, code};
use crate::limits;
use crate::request::{Form, Target};

/// One Record under way, until its file is complete.
#[derive(Debug)]
pub(super) struct Recorder {
    /// The id of `Effect::Record`.
    pub(super) id: Id,
    /// The verb, for its `action` and its transcription.
    record: Box<Record>,
    /// The media's own limit (`maxLength`) comes first; this is for when it does not.
    pub(super) until: Instant,
    /// The key of `finishOnKey` that was pressed.
    key: Option<char>,
    /// `Effect::StopRecording` was returned, and the result is awaited.
    is_stopped: bool,
}

/// A recording that the hang-up ended: its file is still awaited, because applications learn its URL then.
#[derive(Debug)]
pub(super) struct ClosingRecording {
    /// The recording, for the parameters of its callbacks.
    pub(super) recorder: Recorder,
    /// The end of the wait for the file.
    pub(super) until: Instant,
}

impl Recorder {
    /// Begins to record, and to listen for the keys that end it.
    pub(super) fn start(
        call: &mut CallContext,
        now: Instant,
        record: Box<Record>,
        out: &mut ScriptOutbox,
    ) -> Recorder {
        if !record.finish_on_key.is_empty() {
            out.push(Effect::Listen { digits: true, speech: None });
        }
        let id = call.next_id();
        let recording = Recording {
            beep: record.play_beep,
            silence: record.timeout,
            max_length: record.max_length,
            trim: record.trim,
            mailbox: record.mailbox.clone(),
            status: record.status.clone().and_then(|status| call.absolute_callback(status, out)),
        };
        out.push(Effect::Record { id, recording: Box::new(recording) });
        let until = now + record.max_length + limits::ANSWER_WAIT;
        Recorder { id, record, until, key: None, is_stopped: false }
    }

    /// A key of `finishOnKey` ends the recording.
    pub(super) fn handle_digit(&mut self, now: Instant, key: char, out: &mut ScriptOutbox) {
        if self.is_stopped || !self.record.finish_on_key.contains(key) {
            return;
        }
        self.key = Some(key);
        self.is_stopped = true;
        self.until = now + limits::ANSWER_WAIT;
        out.push(Effect::StopRecording { id: self.id });
    }

    /// The recording neither ended nor failed in time.
    pub(super) fn expire(&self, call: &CallContext, out: &mut ScriptOutbox) -> Flow {
        if !self.is_stopped {
            out.push(Effect::StopRecording { id: self.id });
        }
        self.handle_recorded(call, Err(not_ended()), out)
    }

    /// The result of the recording: the `action`, or the next verb if there was no voice.
    pub(super) fn handle_recorded(
        &self,
        call: &CallContext,
        result: Result<Recorded, EffectFailure>,
        out: &mut ScriptOutbox,
    ) -> Flow {
        if !self.record.finish_on_key.is_empty() {
            out.push(Effect::StopListening);
        }
        let Some(recorded) = self.kept_recording(call, result, out) else { return Flow::Next };
        let digits = self.key.map(String::from).unwrap_or_default();
        Flow::Document(self.action(), of_recording(&recorded, &digits))
    }

    /// The call leaves the recording.
    pub(super) fn stop(&self, out: &mut ScriptOutbox) {
        if !self.is_stopped {
            out.push(Effect::StopRecording { id: self.id });
        }
        if !self.record.finish_on_key.is_empty() {
            out.push(Effect::StopListening);
        }
    }

    /// Without `action` the current document is requested again, as with Twilio.
    fn action(&self) -> Target {
        Target { url: self.record.action.clone().unwrap_or_default(), method: self.record.method }
    }

    /// The recording, unless it is empty or failed.
    fn kept_recording(
        &self,
        call: &CallContext,
        result: Result<Recorded, EffectFailure>,
        out: &mut ScriptOutbox,
    ) -> Option<Recorded> {
        let recorded = match result {
            Ok(recorded) if !recorded.duration.is_zero() => recorded,
            Ok(_) => return None,
            Err(EffectFailure { code, text }) => {
                call.notify(Severity::Error, code, text, out);
                return None;
            }
        };
        if let Some(transcribe) = &self.record.transcribe {
            let callback = transcribe.callback.as_ref().and_then(|target| call.absolute_target(target, out));
            out.push(Effect::Transcribe { recording_sid: recorded.sid.clone(), callback });
        }
        Some(recorded)
    }
}

impl ClosingRecording {
    /// The call ended in a recording: its file is awaited for a while.
    pub(super) fn start(recorder: Recorder, now: Instant, out: &mut ScriptOutbox) -> ClosingRecording {
        recorder.stop(out);
        ClosingRecording { recorder, until: now + limits::CLEANUP_WAIT }
    }

    /// The file is there, or its time is over (`None`): the `action` is told as a callback.
    pub(super) fn finish(
        &self,
        call: &CallContext,
        result: Option<Result<Recorded, EffectFailure>>,
        out: &mut ScriptOutbox,
    ) {
        let result = result.unwrap_or_else(|| Err(not_ended()));
        if let Some(recorded) = self.recorder.kept_recording(call, result, out) {
            let mut form = of_call(&call.call, CallStatus::Completed);
            // Twilio's value of `Digits` for a recording that the hang-up ended.
            form.extend(of_recording(&recorded, "hangup"));
            call.tell(&self.recorder.action(), form, out);
        }
    }
}

/// The failure of a recording whose result never came.
fn not_ended() -> EffectFailure {
    EffectFailure { code: code::RECORDING, text: "the recording did not end".to_owned() }
}

/// The parameters of the `action`: the recording, and the key that ended it.
fn of_recording(recorded: &Recorded, digits: &str) -> Form {
    let mut form = of_recorded(recorded);
    form.push(pair("Digits", digits));
    form
}

/// The parameters that name a recording.
pub(super) fn of_recorded(recorded: &Recorded) -> Form {
    let mut form = vec![
        pair("RecordingUrl", &*recorded.url),
        pair("RecordingSid", &*recorded.sid),
        pair("RecordingDuration", recorded.duration.as_secs().to_string()),
    ];
    if let Some(public) = &recorded.public_url {
        form.push(pair("PublicRecordingUrl", &**public));
    }
    form
}
